"""`vskipper`: the commands, and what every one of them does with bad input: one line, exit code 2, no traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from typer.exceptions import Abort, TyperException

from vskipper import __version__
from vskipper.cli.certify import certify
from vskipper.cli.policies import policies
from vskipper.cli.replay import replay
from vskipper.cli.verify import verify
from vskipper.errors import InputError

INTERRUPTED: Final = 130

app = typer.Typer(
    name="vskipper",
    help="Per-token layer skipping for serving engines, with the suite that proves it.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (certify, verify, policies, replay):
    app.command()(command)


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"vskipper {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 well, 1 refused or not granted, 2 bad input, 130 interrupted."""
    try:
        code = app(
            args=list(sys.argv[1:] if arguments is None else arguments), prog_name="vskipper", standalone_mode=False
        )
    except InputError as error:
        return _fail(str(error), 2)
    except TyperException as error:
        return _fail(error.format_message(), error.exit_code)
    except (Abort, KeyboardInterrupt):
        code = INTERRUPTED
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    if line:
        print(f"vskipper: {line}", file=sys.stderr)
    return code
