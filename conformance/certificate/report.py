"""The certificate's page for people: one self-contained HTML file, no scripts, a pure function of the records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from conformance.certificate.judge import Decision
from conformance.certificate.record import UNSUPPORTED, EngineIdentity, Kill, Manifest, Result, Status
from conformance.certificate.report_view import clause_views, duration, killed_on, matrix_view, passed, tape_view
from conformance.clauses import LEVEL_BY_ID
from conformance.must_pass import MustPass

TEMPLATES: Final = Path(__file__).parent / "templates"


def render_report(
    manifest: Manifest,
    results: Sequence[Result],
    kills: Sequence[Kill],
    waivers_text: str,
    must_pass: MustPass,
    decision: Decision,
) -> str:
    """HTML text; the same records give the same bytes."""
    level = LEVEL_BY_ID[manifest.level]
    return _template().render(
        manifest=manifest,
        level=level,
        decision=decision,
        figures=_figures(manifest, results, kills),
        facts=_facts(manifest),
        clauses=clause_views(level, must_pass, results),
        matrix=matrix_view(must_pass, kills),
        tape=tape_view(manifest.sample_tape, manifest.model.routed_layers),
        failures=[result for result in results if result.failure is not None],
        waivers=waivers_text.strip(),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _figures(manifest: Manifest, results: Sequence[Result], kills: Sequence[Kill]) -> list[tuple[str, str]]:
    """The line of large numbers under the verdict: figure and caption."""
    killed = sum(kill.ok for kill in kills)
    held = sum(kill.outcomes.get(kill.killer) != UNSUPPORTED for kill in kills)
    unsupported = sum(result.status == Status.UNSUPPORTED for result in results)
    return [
        (f"{passed(results)} / {len(results)}", "properties passed"),
        *([(str(unsupported), "unsupported, not counted as passed")] if unsupported else []),
        (f"{sum(result.examples for result in results):,}", "examples"),
        (f"{killed} / {held}" if kills else "none run", f"seeded faults killed{killed_on(kills)}"),
        (duration(manifest.seconds), "wall time"),
    ]


def _engine(engine: EngineIdentity) -> str:
    backend = f", {engine.attention_backend}" if engine.attention_backend else ""
    return f"{engine.name} {engine.version} on {engine.device}{backend}"


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    """The environment, as label and value."""
    engine, machine = manifest.engine, manifest.machine
    settings = ", ".join(f"{key}={value}" for key, value in manifest.policy.settings.items())
    return [
        ("Policy", manifest.policy.spec),
        ("Settings", settings or "defaults"),
        ("Policy source", f"sha256 {manifest.policy.source_hash}"),
        ("Model", manifest.model.name),
        ("Model digest", f"sha256 {manifest.model.digest}"),
        ("Runtime", ", ".join(manifest.runtimes)),
        ("Engine", _engine(engine) if engine else "none"),
        ("Page sizes", ", ".join(map(str, manifest.page_sizes))),
        ("Data types", ", ".join(manifest.dtypes)),
        ("Seed", str(manifest.seed)),
        ("Platform", machine.platform),
        ("GPU", f"{machine.gpu}, driver {machine.driver or 'unknown'}" if machine.gpu else "none"),
        ("Versions", ", ".join(f"{name} {version or 'absent'}" for name, version in manifest.versions.items())),
        ("Suite", f"vskipper {manifest.suite_version}, contract {manifest.contract_version}"),
        ("Started", manifest.started.replace("T", " ").replace("Z", " UTC")),
    ]
