"""`python -m conformance.runner REQUEST`: runs the request, events on standard output, exit code 2 for bad input."""

from __future__ import annotations

import sys
from pathlib import Path

from conformance.request import CertifyRequest
from conformance.runtime_names import device_of
from vskipper.suite import interpret_kernels

if __name__ == "__main__":
    request = CertifyRequest.from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    # before anything is imported that defines a kernel
    interpret_kernels(device_of(request.runtime))
    from conformance.runner.run import main

    sys.exit(main(sys.argv[1]))
