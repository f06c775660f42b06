"""A FlexiDepth-shaped delta for any base: router and projector untrained, seeded random, and calibrated so that a
stated share of rows skips."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from vskipper.checkpoint.config import ModelSpec, gate_mode_name
from vskipper.checkpoint.flexidepth import GATE_MODE_KEY
from vskipper.checkpoint.open import open_checkpoint, policy_context
from vskipper.errors import InputError
from vskipper.models.calibration import calibrate, skip_shares
from vskipper.models.forward import Decoder, lay_out
from vskipper.policy import GateMode

# how far the first and the last routed layer lie from the mean share: deep layers skip more, as trained routers do
_DEPTH_SLOPE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaReport:
    """The file, and the share of (row, routed layer) pairs that skip: on the prompts it was calibrated on, and on the
    held-out ones, by layer and in the mean."""

    path: Path
    calibrated_share: float
    held_out_share: float
    held_out_by_layer: tuple[float, ...]


def build_delta(
    model_dir: Path,
    routed_layers: Sequence[int],
    out: Path,
    *,
    seed: int = 0,
    gate_mode: GateMode = GateMode.WEIGHTED,
    skip_share: tuple[float, float] = (0.3, 0.6),
    prompts: Sequence[Sequence[int]] | None = None,
) -> DeltaReport:
    """Write the delta to `out` (safetensors; gate mode and measured shares in its metadata).

    prompts: token ids; every second one is held out. By default 32 seeded random ones of 24 tokens.
    Raises InputError where the held-out mean leaves skip_share.
    """
    checkpoint = open_checkpoint(model_dir)
    decoder = Decoder(checkpoint.spec, checkpoint.tensors)
    generator = torch.Generator().manual_seed(seed)
    prompts = _random_prompts(checkpoint.spec, generator) if prompts is None else prompts
    seen, unseen = lay_out(prompts[::2]), lay_out(prompts[1::2])
    targets = _targets(routed_layers, sum(skip_share) / 2)
    context = policy_context(checkpoint, dtype=torch.float32, routed_layers=tuple(routed_layers))
    context = replace(context, gate_mode=gate_mode)
    with torch.inference_mode():
        tensors = calibrate(decoder, seen, context, targets, generator)
        context = replace(context, tensors=tensors)
        calibrated, held_out = (skip_shares(decoder, rows, context) for rows in (seen, unseen))
    report = DeltaReport(
        path=out,
        calibrated_share=sum(calibrated) / len(calibrated),
        held_out_share=sum(held_out) / len(held_out),
        held_out_by_layer=held_out,
    )
    if not skip_share[0] <= report.held_out_share <= skip_share[1]:
        expected = f"{skip_share[0]} to {skip_share[1]}"
        raise InputError("skip share", where=out, got=f"{report.held_out_share:.3f}", expected=expected)
    _save(tensors, out, gate_mode, seed, report)
    return report


def _targets(layers: Sequence[int], mean: float) -> dict[int, float]:
    steps = torch.linspace(-_DEPTH_SLOPE, _DEPTH_SLOPE, len(layers)).tolist() if len(layers) > 1 else [0.0]
    return {layer: mean + step for layer, step in zip(layers, steps, strict=True)}


def _random_prompts(spec: ModelSpec, generator: torch.Generator) -> list[list[int]]:
    return torch.randint(spec.vocab_size, (32, 24), generator=generator).tolist()


def _save(tensors: Mapping[str, Tensor], out: Path, gate_mode: GateMode, seed: int, report: DeltaReport) -> None:
    metadata = {
        "format": "pt",
        GATE_MODE_KEY: gate_mode_name(gate_mode),
        "seed": str(seed),
        "calibrated_skip_share": f"{report.calibrated_share:.4f}",
        "held_out_skip_share": f"{report.held_out_share:.4f}",
        "held_out_skip_share_by_layer": ",".join(f"{share:.4f}" for share in report.held_out_by_layer),
    }
    handle, name = tempfile.mkstemp(suffix=".safetensors", dir=out.parent)
    os.close(handle)
    try:
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, name, metadata)
        os.replace(name, out)
    finally:
        Path(name).unlink(missing_ok=True)
