"""`vskipper certify`: run the suite on a policy, show it by clause, write the certificate."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vskipper.cli.interrupted import Interrupted
from vskipper.cli.settings import parse_settings
from vskipper.cli.values import MOST_SEED, filled, filled_path, policy_name, whole
from vskipper.errors import InputError
from vskipper.suite import put_on_path

if TYPE_CHECKING:
    from conformance.certificate.folder import Certificate
    from conformance.request import CertifyRequest

# of its own accord
MOST_WORKERS: Final = 4
MOST_GIVEN_WORKERS: Final = 256
MOST_EXAMPLES: Final = 100_000
DEVICES: Final = ("cpu", "cuda")


def certify(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", callback=policy_name, help="A name, or package.module:Class.")
    ],
    model: Annotated[
        str,
        typer.Option(
            metavar="DIR|NAME", callback=filled, help="A model folder, smollm2, or {tiny,small}-{llama,qwen3}."
        ),
    ] = "tiny-llama",
    delta: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=str, callback=filled_path, help="Router and projector tensors for the model."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; repeatable.")
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=filled,
            help="sglang, server, torch, triton or reference.  [default: sglang where it is installed, else torch]",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", callback=filled, help="cpu or cuda; cuda takes the runtime sglang.")
    ] = "cpu",
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", callback=filled, help="Of weights and activations.  [default: float32, on cuda bfloat16]"
        ),
    ] = None,
    attention_backend: Annotated[
        str | None,
        typer.Option(metavar="NAME", callback=filled, help="The engine's.  [default: torch_native, on cuda triton]"),
    ] = None,
    level: Annotated[
        str,
        typer.Option(metavar="NAME", callback=filled, help="The level to certify: core, graph (on cuda) or lifecycle."),
    ] = "core",
    examples: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=str,
            callback=whole(1, MOST_EXAMPLES),
            help="Examples a property; fewer than the level asks grants nothing.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", parser=str, callback=whole(0, MOST_SEED), help="Seed of every example.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=str,
            callback=filled_path,
            help="The certificate's folder. [default: certificate-POLICY-MODEL]",
        ),
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults/--no-faults", help="Run the seeded faults; without them nothing is granted.")
    ] = True,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=str,
            callback=whole(0, MOST_GIVEN_WORKERS),
            help="Worker processes beside the suite's own. [default: one a core, at most 4]",
        ),
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
    # what cannot be removed afterwards is no reason to lose what was written
    with tempfile.TemporaryDirectory(prefix="vskipper-", ignore_cleanup_errors=True) as work_dir:
        request = CertifyRequest(
            policy=policy,
            model=model,
            work_dir=work_dir,
            settings=parse_settings(settings or ()),
            delta=None if delta is None else str(delta),
            runtime=asked_runtime(runtime, device),
            dtype=dtype or ("bfloat16" if device == "cuda" else "float32"),
            attention_backend=attention_backend or (CUDA_BACKEND if device == "cuda" else None),
            level=level,
            examples=examples,
            seed=seed,
            faults=faults,
            workers=min(os.cpu_count() or 1, MOST_WORKERS) if workers is None else workers,
        )
        return _run(request, folder, as_json)


def asked_runtime(runtime: str | None, device: str) -> str:
    """The name that the suite has for what was asked for; no engine is imported. Raises InputError for a runtime or a
    device that is not known, for two that do not go together, and for an engine that is not installed."""
    from conformance.runtime_names import ASKED_FOR, CUDA, ENGINE, check_runtime

    if device not in DEVICES:
        raise InputError("unknown device", where="--device", got=repr(device), expected=", ".join(DEVICES))
    if device == "cuda" and runtime is None:
        check_runtime(CUDA, "--device cuda")
    name = runtime or (ENGINE if find_spec("sglang") is not None else "torch")
    check_runtime(name, "--runtime", ASKED_FOR)
    if device == "cpu":
        return name
    if name != ENGINE:
        raise InputError("runtime", where="--runtime", got=name, expected=f"{ENGINE}, which alone has --device cuda")
    return CUDA


def _run(request: CertifyRequest, folder: Path, as_json: bool) -> int:
    from vskipper.cli.progress import Course, show_progress
    from vskipper.cli.suite_process import SuiteDied, run_suite
    from vskipper.cli.table import print_outcome
    from vskipper.cli.written import write

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
    certificate = write(record, folder)
    if as_json:
        print(json.dumps(_outcome(certificate, folder), indent=2))
    else:
        print_outcome(certificate, folder)
    return 0 if certificate.decision.granted else 1


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
