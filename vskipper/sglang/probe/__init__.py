"""Static probes of an SGLang tree: the shapes of what vSkipper patches or relies on. Nothing of it is imported."""

from __future__ import annotations

from vskipper.sglang.probe.report import ProbeReport, probe_tree, require
from vskipper.sglang.probe.seam import UNKNOWN, Seam
from vskipper.sglang.probe.tree import installed_root

__all__ = ["UNKNOWN", "ProbeReport", "Seam", "installed_root", "probe_tree", "require"]
