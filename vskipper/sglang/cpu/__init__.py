"""What lets SGLang run on a CPU where its own CPU kernels and a matching torchvision are not installed.

Nothing here is imported by a served model: it acts on imports, only in a process that runs SGLang's CPU engine, and
only where what it stands in for is absent or cannot be loaded.
"""

from __future__ import annotations

from vskipper.sglang.cpu.process import prepare_process, stand_in_environment

__all__ = ["prepare_process", "stand_in_environment"]
