"""The entry point that SGLang calls in every process, before it builds anything: off unless VSKIPPER_CONFIG is set."""

from __future__ import annotations

import os
import sys
import traceback
from functools import cache
from typing import TYPE_CHECKING, Final, NoReturn

from vskipper.errors import InputError
from vskipper.sglang.config import from_environment

if TYPE_CHECKING:
    from vskipper.sglang.probe import ProbeReport

MODELS: Final = "vskipper.sglang.models"
MODEL_PACKAGE: Final = "SGLANG_EXTERNAL_MODEL_PACKAGE"


def load() -> None:
    """Check the configuration and the engine, and name the package of model classes. SGLang logs what a plugin raises
    and goes on without it; so bad input ends the process instead, with one line and exit code 2."""
    try:
        config = from_environment()
        if config is None:
            return
        use_models()
        from vskipper.sglang.checks.start import install_checks
        from vskipper.sglang.seams import hf_config

        probe_engine()
        hf_config.install()
        install_checks(config)
    except InputError as error:
        refuse(error)
    except Exception as error:
        traceback.print_exc()
        refuse(InputError("the plugin broke down", where="start", got=repr(error), expected="a start, or a refusal"))


def probe_engine(*, graphs: bool = False) -> None:
    """Raises InputError where the installed engine has a seam that vSkipper does not know; looked at once a process,
    before anything is patched. graphs: whether graphs will be captured."""
    from vskipper.sglang.probe import require

    require(_installed(), graphs=graphs)


@cache
def _installed() -> ProbeReport:
    from vskipper.sglang.probe import installed_root, probe_tree

    return probe_tree(installed_root(), needed_only=True)


def use_models() -> None:
    """Have the engine take its models from vSkipper's package; raises InputError where another one is named."""
    named = os.environ.setdefault(MODEL_PACKAGE, MODELS)
    if named != MODELS:
        raise InputError("another model package", where=MODEL_PACKAGE, got=named, expected=MODELS)


def refuse(error: InputError) -> NoReturn:
    """One line, exit code 2."""
    print(f"vskipper: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    raise SystemExit(2)
