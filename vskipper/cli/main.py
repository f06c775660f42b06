"""`vskipper`: the commands, and what every one of them does with bad input: one line, exit code 2, no traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, Final

import typer
from typer.exceptions import Abort, TyperException

from vskipper import __version__
from vskipper.cli.certify import certify
from vskipper.cli.interrupted import Interrupted
from vskipper.cli.policies import policies
from vskipper.cli.probe import probe
from vskipper.cli.replay import replay
from vskipper.cli.serve import SERVER_ARGUMENTS, serve
from vskipper.cli.verify import verify
from vskipper.errors import InputError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

app = typer.Typer(
    name="vskipper",
    help="Per-token layer skipping for serving engines, with the suite that proves it.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (certify, verify, policies, probe, replay):
    app.command()(command)
app.command(context_settings=SERVER_ARGUMENTS)(serve)


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


@contextmanager
def _interruptible() -> Iterator[None]:
    """Each of SIGNALS raises Interrupted, unless whoever started the program had it ignored, as nohup does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        # a second one would break off the cleaning up
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    heard = {each: signal.getsignal(each) for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN}
    for each in heard:
        signal.signal(each, interrupt)
    try:
        yield
    finally:
        for each, before in heard.items():
            signal.signal(each, before)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 well, 1 refused or not granted, 2 bad input, 128 and the number of the
    signal that ended it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _interruptible():
            code = app(args=given or ["--help"], prog_name="vskipper", standalone_mode=False)
            # else a full disk shows when the interpreter ends, beyond any handling
            sys.stdout.flush()
    except InputError as error:
        return _fail(str(error), 2)
    except TyperException as error:
        return _fail(str(_in_our_words(error)), 2)
    except OSError as error:
        _drop_output()
        where, got = error.filename or "this machine", error.strerror or error
        return _fail(str(InputError("not written or read", where=where, got=got, expected="room and permission")), 2)
    except Abort:
        return _fail("interrupted", 128 + signal.SIGINT)
    except Interrupted as error:
        return _fail(f"interrupted {error.told}", 128 + error.number)
    return code if isinstance(code, int) else 0


def _in_our_words(error: TyperException) -> InputError:
    """A command line that typer refused."""
    context = getattr(error, "ctx", None)
    where = "vskipper" if context is None else context.command_path
    said = error.format_message().rstrip(".")
    got = (said[:1].lower() + said[1:]).removeprefix("got ")
    return InputError("command line", where=where, got=got, expected=f"what {where} --help lists")


def _drop_output() -> None:
    """What standard output did not take is not tried once more at the end."""
    with suppress(OSError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    if line:
        print(f"vskipper: {line}", file=sys.stderr)
    return code
