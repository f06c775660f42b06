"""`python -m conformance.runner REQUEST`: runs the request, events on standard output, exit code 2 for bad input."""

from __future__ import annotations

import sys

from vskipper.suite import interpret_kernels_without_gpu

if __name__ == "__main__":
    # triton reads this when a kernel is decorated, hence before anything that imports one
    interpret_kernels_without_gpu()
    from conformance.runner.run import main

    sys.exit(main(sys.argv[1]))
