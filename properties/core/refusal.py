"""What a refusal is: an InputError whose words say what, where, got and expected, in one line (IN-1)."""

from __future__ import annotations

from collections.abc import Callable

from properties.violation import Violation
from vskipper.errors import InputError

# does what a start does with one kind of bad input; the number says which tensor, byte or value is bad
Start = Callable[[int], object]


def check_refused(kind: str, start: Start, seed: int) -> None:
    """Raises Violation where what is started accepts its input, breaks down over it, or refuses it without words."""
    try:
        start(seed)
    except InputError as error:
        _check_words(kind, error)
    except Exception as error:
        facts = {"kind": kind, "got": type(error).__name__, "text": str(error)[:80], "expected": "InputError"}
        raise Violation("IN-1", "crash_in_place_of_refusal", facts) from error
    else:
        raise Violation("IN-1", "bad_input_accepted", {"kind": kind, "seed": seed})


def _check_words(kind: str, error: InputError) -> None:
    for part in (error.what, error.where, error.got, error.expected):
        if not part.strip():
            raise Violation("IN-1", "refusal_without_words", {"kind": kind, "error": error})
    if "\n" in str(error):
        raise Violation("IN-1", "refusal_of_many_lines", {"kind": kind, "error": error})
