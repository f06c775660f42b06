"""What the controlling process tells the processes that pytest starts: the request, by one environment variable."""

from __future__ import annotations

import os
from pathlib import Path

from conformance.request import CertifyRequest

VARIABLE = "VSKIPPER_REQUEST"


def current_request() -> CertifyRequest:
    """The request this process works on; raises KeyError outside a certification."""
    return CertifyRequest.from_json(Path(os.environ[VARIABLE]).read_text(encoding="utf-8"))
