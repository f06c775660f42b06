"""Run by Python at the start of a process that has this folder on PYTHONPATH: installs the stand-ins of vSkipper where
SGLang's CPU engine is asked for, then runs the next sitecustomize on the path, which this one hides."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _install_stand_ins() -> None:
    root = str(Path(__file__).resolve().parents[4])
    sys.path.insert(0, root)
    try:
        from vskipper.sglang.cpu.finder import install
    finally:
        sys.path.remove(root)
    install()


def _run_next() -> None:
    here = Path(__file__).resolve().parent
    later = [entry for entry in sys.path if Path(entry).resolve() != here]
    spec = PathFinder.find_spec(__name__, later)
    if spec is None or spec.loader is None:
        return
    module = sys.modules[__name__] = module_from_spec(spec)
    spec.loader.exec_module(module)


if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    _install_stand_ins()
_run_next()
