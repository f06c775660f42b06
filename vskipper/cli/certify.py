"""`vskipper certify`: run the suite on a policy, show it by clause, write the certificate."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vskipper.cli.interrupted import Interrupted
from vskipper.errors import InputError
from vskipper.suite import put_on_path

if TYPE_CHECKING:
    from conformance.certificate.folder import Certificate
    from conformance.request import CertifyRequest

MOST_WORKERS: Final = 4
MOST_NESTED: Final = 16


def certify(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="A name, or package.module:Class.")],
    model: Annotated[
        str, typer.Option(metavar="DIR|NAME", help="A model folder, smollm2, or {tiny,small}-{llama,qwen3}.")
    ] = "tiny-llama",
    delta: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Router and projector tensors for the model.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; repeatable.")
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(
            help="sglang, server, torch, triton or reference.  [default: sglang where it is installed, else torch]"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; cuda takes the runtime sglang.")] = "cpu",
    dtype: Annotated[
        str | None, typer.Option(help="Of weights and activations.  [default: float32, on cuda bfloat16]")
    ] = None,
    attention_backend: Annotated[
        str | None, typer.Option(help="The engine's.  [default: torch_native, on cuda triton]")
    ] = None,
    level: Annotated[str, typer.Option(help="The level to certify: core, graph (on cuda) or lifecycle.")] = "core",
    examples: Annotated[
        int | None, typer.Option(min=1, help="Examples a property; fewer than the level asks grants nothing.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every example.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The certificate's folder. [default: certificate-POLICY-MODEL]")
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults/--no-faults", help="Run the seeded faults; without them nothing is granted.")
    ] = True,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Worker processes beside the suite's own. [default: one a core, at most 4]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> int:
    """Certify a skip policy. Exit code 0 only if the level is granted, 1 if it is not, 2 on bad input."""
    put_on_path()
    from conformance.certificate.folder import check_target
    from conformance.must_pass import load_must_pass
    from conformance.request import CertifyRequest
    from conformance.runtime_names import CUDA_BACKEND

    load_must_pass(level)
    folder = (out or Path(f"certificate-{_slug(policy)}-{_slug(Path(model).name)}")).absolute()
    check_target(folder)
    with tempfile.TemporaryDirectory(prefix="vskipper-") as work_dir:
        request = CertifyRequest(
            policy=policy,
            model=model,
            work_dir=work_dir,
            settings=parse_settings(settings or ()),
            delta=None if delta is None else str(delta),
            runtime=runtime_on(device, runtime or default_runtime(device)),
            dtype=dtype or ("bfloat16" if device == "cuda" else "float32"),
            attention_backend=attention_backend or (CUDA_BACKEND if device == "cuda" else None),
            level=level,
            examples=examples,
            seed=seed,
            faults=faults,
            workers=min(os.cpu_count() or 1, MOST_WORKERS) if workers is None else workers,
        )
        return _run(request, folder, as_json)


def default_runtime(device: str = "cpu") -> str:
    """The real engine where there is one; it is not imported. Raises InputError where it is needed and missing."""
    found = find_spec("sglang") is not None
    if device == "cuda" and not found:
        expected = "SGLang 0.5.13 or later in this environment"
        raise InputError("no SGLang", where="--device cuda", got="no module named sglang", expected=expected)
    return "sglang" if found else "torch"


def runtime_on(device: str, runtime: str) -> str:
    """The name that the suite has for a runtime on a device. Raises InputError for a device it does not run on."""
    from conformance.runtime_names import CUDA, ENGINE

    if device == "cpu":
        return runtime
    if device != "cuda" or runtime not in (ENGINE, CUDA):
        expected = "cpu, or cuda with the runtime sglang"
        raise InputError("device", where="--device", got=f"{device} with the runtime {runtime}", expected=expected)
    return CUDA


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Every `--set` as one mapping; raises InputError for a key that is given twice."""
    settings: dict[str, Any] = {}
    for text in texts:
        key, value = parse_setting(text)
        if key in settings:
            raise InputError("setting", where="--set", got=f"{key} twice", expected="each key once")
        settings[key] = value
    return settings


def parse_setting(text: str) -> tuple[str, Any]:
    """`r=0.5` to ("r", 0.5): the value is read as JSON where it is JSON, else as the text it is. Raises InputError for
    what a certificate, which is strict JSON, could not hold."""
    key, equals, value = text.partition("=")
    if not (key.isidentifier() and equals):
        raise InputError("setting", where="--set", got=text, expected="KEY=VALUE")
    parsed = _parsed(key, value)
    try:
        json.dumps(parsed, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        expected = "finite numbers and text that is Unicode"
        raise InputError("setting", where=f"--set {key}", got=ascii(value[:40]), expected=expected) from error
    return key, parsed


def _parsed(key: str, value: str) -> Any:
    try:
        parsed = json.loads(value)
        deep = _depth(parsed) > MOST_NESTED
    except RecursionError:
        deep = True
    except ValueError:
        return value
    if deep:
        got, expected = f"{value[:20]}...", f"JSON nested at most {MOST_NESTED} deep"
        raise InputError("setting", where=f"--set {key}", got=got, expected=expected)
    return parsed


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _run(request: CertifyRequest, folder: Path, as_json: bool) -> int:
    from vskipper.cli.progress import Course, show_progress
    from vskipper.cli.suite_process import SuiteDied, run_suite
    from vskipper.cli.table import print_outcome

    file = Path(request.work_dir) / "request.json"
    file.write_text(request.to_json(), encoding="utf-8")
    course = Course()
    try:
        with closing(run_suite(file, file.parent)) as events:
            record = show_progress(events, course)
    except SuiteDied as death:
        typer.echo(f"{death.text}\nvskipper: {death}", err=True)
        return 1
    except Interrupted as interrupted:
        interrupted.told = str(course)
        raise
    certificate = _write(record, folder)
    if as_json:
        print(json.dumps(_outcome(certificate, folder), indent=2))
    else:
        print_outcome(certificate, folder)
    return 0 if certificate.decision.granted else 1


def _write(record: dict[str, Any], folder: Path) -> Certificate:
    from conformance.certificate.folder import write_certificate
    from conformance.certificate.record import Kill, Manifest, Result

    return write_certificate(
        folder,
        Manifest.from_json(record["manifest"]),
        [Result.from_json(raw) for raw in record["results"]],
        [Kill.from_json(raw) for raw in record["kills"]],
        record["waivers"],
    )


def _outcome(certificate: Certificate, folder: Path) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "level": certificate.manifest.level,
        "granted": certificate.manifest.granted,
        "reduced": certificate.manifest.reduced,
        "reasons": list(certificate.decision.reasons),
        "results": [result.to_json() for result in certificate.results],
        "kills": [kill.to_json() for kill in certificate.kills],
    }


def _slug(text: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in text).strip("-.") or "model"
