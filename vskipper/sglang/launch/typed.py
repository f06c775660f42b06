"""What is refused of SGLang's arguments as they are typed: its own start takes half a minute, and says more than a line
when it ends."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from vskipper.sglang.checks.refusals import refuse_value
from vskipper.sglang.checks.table import REFUSALS, Refusal


def refuse_typed(arguments: Sequence[str]) -> None:
    """Raises InputError for the first row of the table that the arguments ask for. What only SGLang can tell, as how
    it reads an abbreviation, or whether it makes a feature safe, is left to the checks at its start."""
    rows = [row for row in REFUSALS if row.allowed is None]
    given, _ = _parser(rows).parse_known_args(list(arguments))
    for row in rows:
        words = getattr(given, row.attribute)
        if words is not None:
            refuse_value(row, _value(words))


def _parser(rows: Sequence[Refusal]) -> argparse.ArgumentParser:
    # an abbreviation here may be another argument's whole name there
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for row in rows:
        parser.add_argument(row.argument, *row.aliases, dest=row.attribute, nargs="*")
    return parser


def _value(words: list[str]) -> Any:
    """As SGLang would hold it: a switch has no word, a list several."""
    if not words:
        return True
    return _read(words[0]) if len(words) == 1 else words


def _read(word: str) -> Any:
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word
