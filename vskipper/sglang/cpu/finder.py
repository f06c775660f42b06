"""One finder at the front of sys.meta_path: gives a stand-in for `sgl_kernel` where the real one is absent or cannot be
loaded, and the operators of a torchvision that could not load its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

from vskipper.sglang.cpu import kernels, operators


class StandIns:
    """A meta path finder (importlib.abc.MetaPathFinder)."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == operators.ASKS_FOR_THEM:
            operators.define_missing()
        elif name == kernels.PACKAGE:
            return self._kernels(path, target)
        elif name in kernels.SUBMODULES and kernels.is_stand_in(sys.modules.get(kernels.PACKAGE)):
            return spec_from_loader(name, kernels.StandInLoader())
        return None

    def _kernels(self, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """The real package with the stand-in behind it, or the stand-in."""
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(kernels.PACKAGE, path, target) for finder in others)
        real = next((spec for spec in found if spec is not None and spec.loader is not None), None)
        if real is None:
            return spec_from_loader(kernels.PACKAGE, kernels.StandInLoader(), is_package=True)
        assert real.loader is not None
        real.loader = kernels.RealOrStandIn(real.loader)
        return real


def install() -> None:
    """Put the finder first, once."""
    if not any(isinstance(finder, StandIns) for finder in sys.meta_path):
        sys.meta_path.insert(0, StandIns())
