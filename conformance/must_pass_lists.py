"""`python -m conformance.must_pass_lists`: writes the packaged must-pass lists anew from the registries."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from conformance.faults.registry import FAULTS_OF
from conformance.must_pass import FOLDER, Requirement, SeededFault, render
from conformance.runner.items import ASKED_FOR, TARGETS_OF, targets_of
from properties.property import Property
from properties.registry import LEVEL_OF, PROPERTIES

PROPERTIES_HEAD: Final = "level {}: property clause examples counters[?] subjects compares [if_supported]"
FAULTS_HEAD: Final = "level {}: fault killer reason quiet places [only_named] [on=backend,backend]"
# the oracle against itself certifies nothing
CONTROL: Final = "reference"


def lists() -> dict[str, str]:
    """The text of each list, by file name."""
    texts: dict[str, str] = {}
    for level, rules in PROPERTIES.items():
        faults = [
            SeededFault(
                fault=f.id,
                killer=f.killer,
                reason=f.reason,
                quiet=f.quiet,
                places=f.places,
                only_named=f.only_named,
                backends=f.backends,
            )
            for f in FAULTS_OF[level]
        ]
        texts[f"{level}.txt"] = render(PROPERTIES_HEAD.format(level), [requirement(rule) for rule in rules])
        texts[f"{level}_faults.txt"] = render(FAULTS_HEAD.format(level), faults)
    return texts


def requirement(property: Property) -> Requirement:
    """What the level demands of it; optional where it asks the subject for a capability."""
    always = next(field.default for field in fields(Property) if field.name == "unsupported")
    return Requirement(
        property=property.id,
        clause=property.clause,
        examples=property.examples,
        counters=tuple(name for name in property.counters if name not in property.only_where),
        conditional=tuple(name for name in property.counters if name in property.only_where),
        subjects=_subjects(property),
        compares=property.compares,
        optional=property.unsupported is not always,
    )


def _subjects(property: Property) -> tuple[tuple[str, ...], ...]:
    if property.scope in ASKED_FOR:
        return ()
    return tuple(
        tuple(f"{t.runtime}/{t.model}" for t in targets_of(property, targets))
        for asked, targets in TARGETS_OF[LEVEL_OF[property.id]].items()
        if asked != CONTROL
    )


if __name__ == "__main__":
    for name, text in lists().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
