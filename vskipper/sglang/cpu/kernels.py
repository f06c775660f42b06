"""A stand-in for the `sgl_kernel` package: every name can be imported, and calling one says that it is not there.

Dense models without quantisation reach none of them on a CPU: with no operator registered under torch.ops.sgl_kernel,
SGLang takes the plain torch implementation of every layer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, NoReturn

PACKAGE: Final = "sgl_kernel"
# those that SGLang imports on a CPU without asking whether they exist
SUBMODULES: Final = tuple(f"{PACKAGE}.{name}" for name in ("kvcacheio", "mamba", "speculative"))
_MARK: Final = "__vskipper_stand_in__"
# what a package for another device raises when it is imported
_UNUSABLE: Final = (ImportError, OSError, RuntimeError)


def attention_present() -> bool:
    """Whether the real package is here with attention for this CPU, which SGLang takes unless told otherwise."""
    if find_spec(PACKAGE) is None:
        return False
    try:
        import_module(PACKAGE)
    except _UNUSABLE:
        return False
    import torch

    return hasattr(torch.ops.sgl_kernel, "decode_attention_cpu")


def is_stand_in(module: ModuleType | None) -> bool:
    """Whether `module` is one of those made here."""
    return getattr(module, _MARK, False) is True


class StandInLoader(Loader):
    """Makes the package or one of its submodules."""

    def create_module(self, spec: ModuleSpec) -> None:
        """The default module."""

    def exec_module(self, module: ModuleType) -> None:
        _fill(module)


class RealOrStandIn(Loader):
    """Loads the real package; where that fails, as a build for another device does, makes the stand-in in its place."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._real.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._real.exec_module(module)
        except _UNUSABLE:
            for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]:
                del sys.modules[name]
            for name in [name for name in vars(module) if not name.startswith("__")]:
                delattr(module, name)
            module.__path__ = []
            _fill(module)


def _fill(module: ModuleType) -> None:
    setattr(module, _MARK, True)
    setattr(module, "__getattr__", _any_name_of(module.__name__))  # noqa: B010 (mypy knows no such attribute)


def _any_name_of(module: str) -> Callable[[str], Callable[..., NoReturn]]:
    def get(name: str) -> Callable[..., NoReturn]:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        def absent(*args: object, **keywords: object) -> NoReturn:
            raise NotImplementedError(
                f"{module}.{name}: not in vSkipper's stand-in; this needs SGLang's own CPU kernels"
            )

        absent.__name__ = absent.__qualname__ = name
        absent.__module__ = module
        return absent

    return get
