"""What every kernel must do, as checks that take the device and the kernel under test; a broken one raises Violation.

The same checks run in Triton's interpreter on a CPU and on a GPU, and against seeded defects.
"""
