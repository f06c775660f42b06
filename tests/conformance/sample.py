"""A made-up run at Core, for the tests of everything that handles its records."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from conformance.certificate.folder import Certificate, write_certificate
from conformance.certificate.record import (
    Failure,
    Kill,
    Machine,
    Manifest,
    ModelIdentity,
    PolicyIdentity,
    Result,
    Status,
)
from conformance.must_pass import MustPass, Requirement, SeededFault
from vskipper import __version__

STRUCTURE: Final = (("torch/tiny-llama",), ("triton/tiny-llama",))
KERNEL: Final = (("torch/tiny-llama", "triton/tiny-llama"), ("triton/tiny-llama",))
DEMANDS = (
    Requirement(property="kv.complete", clause="KV-1", examples=40, counters=("project_rows", "skip_rows")),
    Requirement(property="kv.footprint", clause="KV-2", examples=40, counters=("guarded_bytes",)),
    Requirement(property="kv.provenance", clause="KV-3", examples=40, counters=("layers_checked",)),
    Requirement(property="kv.scale", clause="KV-4", examples=20, counters=("scaled",)),
    Requirement(property="map.partition", clause="MAP-1", examples=60, counters=("mixed_layers",)),
    Requirement(property="map.recomputed", clause="MAP-2", examples=20, counters=("row_set_changes",)),
    Requirement(property="map.row_order", clause="MAP-3", examples=20, counters=("moved_rows",)),
    Requirement(property="map.layout", clause="MAP-3", examples=20, counters=("page_sizes",), optional=True),
    Requirement(property="sem.envelope", clause="SEM-1", examples=30, counters=("both_cohorts",)),
    Requirement(property="sem.zero_attention", clause="SEM-2", examples=30, counters=("skipping_rows",)),
    Requirement(property="sem.all_run", clause="SEM-3", examples=20, counters=("dense_rows",)),
    Requirement(property="sem.gate", clause="SEM-4", examples=20, counters=("near_half",)),
    Requirement(property="pad.inert", clause="GRAPH-3", examples=30, counters=("pad_rows", "poison_nan", "poison_inf")),
    Requirement(property="policy.declared", clause="POL-1", examples=30, counters=("hooks_called",)),
    Requirement(property="policy.on_device", clause="POL-2", examples=10, counters=("steps",)),
    Requirement(property="work.counts", clause="WORK-1", examples=30, counters=("routed_layers",)),
    Requirement(property="input.refused", clause="IN-1", examples=20, counters=("bad_inputs",)),
)
NEEDS = tuple(
    replace(
        need,
        subjects=() if need.clause.startswith("SEM") else KERNEL if need.property == "map.partition" else STRUCTURE,
        compares="margin" if need.property == "sem.envelope" else "bits",
    )
    for need in DEMANDS
)
FAULTS = tuple(
    SeededFault(
        fault=f"{need.property.replace('.', '_')}_{kind}",
        killer=need.property,
        reason=f"{kind}_seen",
        quiet=tuple(
            p for p in dict.fromkeys(("sem.envelope", NEEDS[(index + 5) % len(NEEDS)].property)) if p != need.property
        ),
        places=("triton/tiny-llama",) if need.property == "map.partition" else ("torch/tiny-llama",),
        only_named=need.property == "work.counts",
    )
    for index, need in enumerate(NEEDS)
    for kind in ("first", "second")
)
MUST_PASS = MustPass(level="core", requirements=NEEDS, faults=FAULTS)
WAIVER = """\
[[waiver]]
clause = "KV-2"
property = "kv.footprint"
scope = { runtime = "torch" }
issue = "https://github.com/sgl-project/sglang/issues/1"
evidence = "300 examples on 2026-01-10"
expires = 2027-01-01
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run hands to the certificate."""

    manifest: Manifest
    results: tuple[Result, ...]
    kills: tuple[Kill, ...]
    waivers: str = ""

    def write(self, folder: Path) -> Certificate:
        return write_certificate(folder, self.manifest, self.results, self.kills, self.waivers, must_pass=MUST_PASS)

    def with_result(self, property: str, change: Callable[[Result], Result]) -> Run:
        return replace(self, results=tuple(change(r) if r.property == property else r for r in self.results))

    def with_kill(self, fault: str, change: Callable[[Kill], Kill]) -> Run:
        return replace(self, kills=tuple(change(k) if k.fault == fault else k for k in self.kills))


def good_run() -> Run:
    """A run that is granted Core."""
    return Run(
        manifest=_manifest(),
        results=tuple(_result(need, index) for index, need in enumerate(NEEDS)),
        kills=tuple(_kill(fault, index) for index, fault in enumerate(FAULTS)),
    )


def _tape(layers: int, rows: int) -> tuple[str, ...]:
    draw = random.Random(7)
    return tuple("".join(draw.choice("RRRRRPPPAM"[: 6 + layer % 5]) for _ in range(rows)) for layer in range(layers))


def failed(result: Result) -> Result:
    """The same property, broken."""
    failure = Failure(
        line=f"vskipper FAIL property={result.property} clause={result.clause} reason=foreign_slot_written slot=1029 "
        "layer=17 first_byte=0 stored=nan expected=unchanged",
        tape="L16:RPRPP\nL17:PPRRP",
        plan="rows=5 padding=3 page=16 layout=shuffled chunks=req0[0:3]prefill,req1[31:32]decode,req2[7:8]decode",
        repro="vskipper replay AXicY2BgYGRgYGAEAAATAAM= --policy random-skip",
    )
    return replace(result, status=Status.FAILED, failure=failure)


def _manifest() -> Manifest:
    layers = (*range(2, 24), *range(25, 29))
    return Manifest(
        suite_version=__version__,
        contract_version=1,
        level="core",
        policy=PolicyIdentity(spec="random-skip", settings={"r": 0.5, "d": 0.5, "seed": 7}, source_hash="3f" * 32),
        model=ModelIdentity(name="smollm2", digest="a1" * 32, routed_layers=layers),
        runtimes=("torch", "triton"),
        versions={"python": "3.11.7", "torch": "2.13.0", "triton": "3.7.1", "numpy": "2.4.6", "hypothesis": "6.150.0"},
        machine=Machine(platform="Linux-6.1.0-x86_64-with-glibc2.36"),
        page_sizes=(1, 16, 64),
        dtypes=("float32", "bfloat16"),
        seed=0,
        examples={need.property: need.examples for need in NEEDS},
        started="2026-01-31T12:00:00Z",
        seconds=432.4,
        sample_tape=_tape(len(layers), 32),
    )


def _result(need: Requirement, index: int) -> Result:
    return Result(
        property=need.property,
        clause=need.clause,
        status=Status.PASSED,
        runtime="torch,triton" if need.subjects == KERNEL else "torch",
        model="tiny-llama" if need.subjects else "smollm2",
        examples=need.examples,
        counters={name: 17 * (index + 1) ** 2 for name in need.counters},
        seconds=1.5 * (index + 1),
        margin=0.31 if need.property == "sem.envelope" else None,
    )


def _kill(fault: SeededFault, index: int) -> Kill:
    outcomes = {need.property: "quiet" for need in NEEDS}
    others = [need.property for need in NEEDS if need.property not in fault.quiet]
    outcomes |= {others[(index * 5) % len(others)]: "killed:other_reason", fault.killer: f"killed:{fault.reason}"}
    if fault.only_named:
        outcomes = {name: said for name, said in outcomes.items() if name in (fault.killer, *fault.quiet)}
    runtime, _, model = fault.places[0].partition("/")
    return Kill.judged(
        fault=fault.fault,
        source=f"sglang#{20000 + index}",
        killer=fault.killer,
        reason_expected=fault.reason,
        outcomes=outcomes,
        quiet=fault.quiet,
        runtime=runtime,
        model=model,
    )
