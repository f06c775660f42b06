"""What a level demands: the ordered list of its properties and the ordered list of its seeded faults, as packaged text.

A list is read without importing the properties, so that a certificate can be re-checked without a tensor library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast, get_args

from conformance.clauses import LEVEL_BY_ID
from vskipper.errors import InputError

FOLDER: Final = Path(__file__).parent / "must_pass"
OPTIONAL: Final = "if_supported"
# after a counter's name
CONDITIONAL: Final = "?"
ONLY_NAMED: Final = "only_named"
ASKED: Final = "asked"
ON: Final = "on="
# an envelope always, bits always, or one of them as the runtime and the policy have it
Compares = Literal["margin", "bits", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One property of a level. examples: at full strength. counters: must all be above 0. conditional: so must these,
    of a subject that can raise them; of others a result has none. subjects: what a structural
    property runs on, `runtime/model` each, one tuple for each runtime that can be asked for, which it begins with; none
    where it runs on the runtime and model asked for. compares: whether a pass has a margin. optional: a subject may
    lack the capability it needs, and is then reported as unsupported."""

    property: str
    clause: str
    examples: int
    counters: tuple[str, ...]
    subjects: tuple[tuple[str, ...], ...] = ()
    compares: Compares = "bits"
    optional: bool = False
    conditional: tuple[str, ...] = ()

    def subjects_of(self, runtime: str, model: str) -> tuple[str, ...]:
        """What it must have run on when this runtime and model are asked for; empty where the runtime has no list."""
        if not self.subjects:
            return (f"{runtime}/{model}",)
        return next((each for each in self.subjects if each[0].partition("/")[0] == runtime), ())

    def line(self) -> str:
        subjects = "|".join(map(",".join, self.subjects)) or ASKED
        counters = ",".join([*self.counters, *(f"{name}{CONDITIONAL}" for name in self.conditional)])
        words = [self.property, self.clause, str(self.examples), counters, subjects, self.compares]
        return " ".join([*words, OPTIONAL] if self.optional else words)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededFault:
    """One fault of a level. killer: the property that must detect it, for this reason. quiet: those that must not.
    places: `runtime/model` where it is tried, as place_on() takes them. only_named: held against these alone, not
    against every property. backends: the attention backends that it bites on, none for any."""

    fault: str
    killer: str
    reason: str
    quiet: tuple[str, ...]
    places: tuple[str, ...]
    only_named: bool = False
    backends: tuple[str, ...] = ()

    def line(self) -> str:
        words = [self.fault, self.killer, self.reason, ",".join(self.quiet) or "-", "|".join(self.places)]
        words += [ONLY_NAMED] if self.only_named else []
        return " ".join([*words, f"{ON}{','.join(self.backends)}"] if self.backends else words)


def place_on(places: Sequence[str], asked: str) -> str:
    """Where a fault is tried when the runtime `asked` is certified: there where it bites there, else at its own place,
    the first."""
    return next((place for place in places if place.partition("/")[0] == asked), places[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class MustPass:
    """The demands of one level, in order."""

    level: str
    requirements: tuple[Requirement, ...]
    faults: tuple[SeededFault, ...]

    def faults_on(self, backend: str | None) -> tuple[SeededFault, ...]:
        """Those that bite on an engine with this attention backend."""
        return tuple(fault for fault in self.faults if not fault.backends or backend in fault.backends)

    def runtimes(self, asked: str) -> tuple[str, ...]:
        """Those that the level runs on when `asked` is, itself first; empty for one that can be granted nothing."""
        subjects = [subject for need in self.requirements if need.subjects for subject in need.subjects_of(asked, "")]
        return tuple(dict.fromkeys(subject.partition("/")[0] for subject in subjects))


def load_must_pass(level: str) -> MustPass:
    """Read `<level>.txt` and `<level>_faults.txt`; raises InputError when the level has no list in this suite."""
    path, seeded = FOLDER / f"{level}.txt", FOLDER / f"{level}_faults.txt"
    if level not in LEVEL_BY_ID or not path.is_file():
        known = ", ".join(available_levels())
        raise InputError("level cannot be certified by this suite", where="--level", got=level, expected=known)
    return MustPass(
        level=level,
        requirements=tuple(_requirement(path, *entry) for entry in _lines(path)),
        faults=tuple(_fault(seeded, *entry) for entry in _lines(seeded)),
    )


def available_levels() -> tuple[str, ...]:
    """Levels that this suite can certify, lowest first."""
    return tuple(level for level in LEVEL_BY_ID if (FOLDER / f"{level}.txt").is_file())


def render(header: str, entries: Iterable[Requirement | SeededFault]) -> str:
    """The text of a list: a comment line, then one entry a line."""
    return "".join([f"# {header}\n", *(f"{entry.line()}\n" for entry in entries)])


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


def _requirement(path: Path, number: int, words: list[str]) -> Requirement:
    optional = words[6:] == [OPTIONAL]
    if len(words) != 6 + optional or not words[2].isdigit() or words[5] not in get_args(Compares):
        raise InputError(
            "must-pass line",
            where=f"{path.name}:{number}",
            got=" ".join(words),
            expected=f"property clause examples counter,counter{CONDITIONAL} runtime/model,runtime/model|... "
            f"(or {ASKED}) {'/'.join(get_args(Compares))} [{OPTIONAL}]",
        )
    counters = words[3].split(",")
    return Requirement(
        property=words[0],
        clause=words[1],
        examples=int(words[2]),
        counters=tuple(name for name in counters if not name.endswith(CONDITIONAL)),
        conditional=tuple(name.removesuffix(CONDITIONAL) for name in counters if name.endswith(CONDITIONAL)),
        subjects=() if words[4] == ASKED else tuple(tuple(each.split(",")) for each in words[4].split("|")),
        compares=cast(Compares, words[5]),
        optional=optional,
    )


def _fault(path: Path, number: int, words: list[str]) -> SeededFault:
    only_named = words[5:6] == [ONLY_NAMED]
    rest = words[5 + only_named :]
    places = words[4].split("|") if len(words) > 4 else []
    named = places and all("/" in place for place in places)
    if not named or len(rest) > 1 or not all(word.startswith(ON) and word != ON for word in rest):
        raise InputError(
            "fault line",
            where=f"{path.name}:{number}",
            got=" ".join(words),
            expected=f"fault killer reason quiet,quiet (or -) runtime/model|... [{ONLY_NAMED}] [{ON}backend,backend]",
        )
    return SeededFault(
        fault=words[0],
        killer=words[1],
        reason=words[2],
        quiet=() if words[3] == "-" else tuple(words[3].split(",")),
        places=tuple(places),
        only_named=only_named,
        backends=tuple(rest[0].removeprefix(ON).split(",")) if rest else (),
    )
