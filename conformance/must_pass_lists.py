"""`python -m conformance.must_pass_lists`: writes the packaged must-pass lists anew from the registries."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from conformance.faults.registry import FAULTS
from conformance.must_pass import FOLDER, Requirement, SeededFault, render
from properties.property import Property
from properties.registry import CORE

PROPERTIES_HEAD: Final = "level core: property clause examples counters [if_supported]"
FAULTS_HEAD: Final = "level core: fault killer reason quiet"


def lists() -> dict[str, str]:
    """The text of each list, by file name."""
    return {
        "core.txt": render(PROPERTIES_HEAD, [requirement(property) for property in CORE]),
        "core_faults.txt": render(
            FAULTS_HEAD,
            [SeededFault(fault=f.id, killer=f.killer, reason=f.reason, quiet=f.quiet) for f in FAULTS],
        ),
    }


def requirement(property: Property) -> Requirement:
    """What the level demands of it; optional where it asks the subject for a capability."""
    always = next(field.default for field in fields(Property) if field.name == "unsupported")
    return Requirement(
        property=property.id,
        clause=property.clause,
        examples=property.examples,
        counters=property.counters,
        optional=property.unsupported is not always,
    )


if __name__ == "__main__":
    for name, text in lists().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
