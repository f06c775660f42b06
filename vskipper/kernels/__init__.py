"""Triton kernels of the routed path: on a GPU, or on a CPU in Triton's interpreter (TRITON_INTERPRET=1)."""
