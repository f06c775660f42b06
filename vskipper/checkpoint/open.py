"""Open a checkpoint: a whole Hugging Face directory, or a base and a delta; everything checked, nothing executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vskipper.checkpoint.config import ModelSpec, model_spec, read_json, shown, stated_gate_mode
from vskipper.checkpoint.flexidepth import (
    GATE_MODE_KEY,
    Delta,
    agreed_gate_mode,
    check_router,
    is_router_tensor,
    read_delta,
)
from vskipper.checkpoint.weights import check_tensors, model_shapes, read_model_tensors
from vskipper.errors import InputError
from vskipper.policy import GateMode, PolicyContext

_TIED_HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checked model. tensors: the dense decoder's, by Hugging Face name, on the CPU in the file's dtype.
    router_tensors: those of `router` and `router_proj`, empty where the checkpoint has none; routed_layers: theirs."""

    directory: Path
    spec: ModelSpec
    tensors: Mapping[str, Tensor]
    router_tensors: Mapping[str, Tensor]
    routed_layers: tuple[int, ...]
    gate_mode: GateMode


def open_checkpoint(model_dir: str | Path, delta: str | Path | None = None) -> Checkpoint:
    """Open a directory, with the router of `delta` where one is given; raises InputError for whatever does not fit."""
    directory = Path(model_dir)
    if not directory.is_dir():
        got = "a file" if directory.exists() else "no such folder"
        raise InputError("no model folder", where=directory, got=got, expected="a Hugging Face model directory")
    config = read_json(directory / "config.json")
    spec = model_spec(config, directory / "config.json")
    tensors = read_model_tensors(directory)
    router = {name: tensor for name, tensor in tensors.items() if is_router_tensor(name)}
    dense = _dense_tensors(tensors, spec, directory)
    extra = None if delta is None else read_delta(Path(delta))
    return _checkpoint(config, directory / "config.json", spec, dense, router, extra)


def open_router(
    config: Mapping[str, Any], where: Path, directory: Path | None, delta: str | Path | None = None
) -> Checkpoint:
    """A checkpoint without its dense tensors, for an engine that loads these itself: `config` as read from `where`; the
    router of `delta`, or of `directory` where it has one. Raises InputError for whatever does not fit."""
    spec = model_spec(config, where)
    router = {} if directory is None else read_model_tensors(directory, is_router_tensor)
    return _checkpoint(config, where, spec, {}, router, None if delta is None else read_delta(Path(delta)))


def policy_context(
    checkpoint: Checkpoint,
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    routed_layers: tuple[int, ...] | None = None,
) -> PolicyContext:
    """What a policy on this checkpoint is built with; its own routed layers unless others are given. Raises InputError
    for a layer that the model does not have."""
    spec = checkpoint.spec
    routed = checkpoint.routed_layers if routed_layers is None else routed_layers
    beyond = [layer for layer in routed if not 0 <= layer < spec.num_hidden_layers]
    if beyond:
        expected = f"0 to {spec.num_hidden_layers - 1}"
        raise InputError(
            "routed layers", where="layers of the model", got=", ".join(map(str, beyond)), expected=expected
        )
    return PolicyContext(
        layers=spec.num_hidden_layers,
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        rms_norm_eps=spec.rms_norm_eps,
        routed_layers=routed,
        dtype=dtype,
        device=torch.device(device),
        gate_mode=checkpoint.gate_mode,
        tensors=checkpoint.router_tensors,
        vocab_size=spec.vocab_size,
    )


def _checkpoint(
    config: Mapping[str, Any],
    where: Path,
    spec: ModelSpec,
    dense: Mapping[str, Tensor],
    router: Mapping[str, Tensor],
    extra: Delta | None,
) -> Checkpoint:
    """Base and delta together; `where` is the base's config.json."""
    directory = where.parent
    if extra is not None and router:
        raise InputError("two routers", where=extra.path, got=f"another in {directory}", expected="a base without one")
    source = directory if extra is None else extra.path
    router = router if extra is None else dict(extra.tensors)
    routed = check_router(router, spec, source) if router or extra is not None else ()
    _check_routing_layers(config.get("routing_layers"), routed, source, where)
    return Checkpoint(
        directory=directory,
        spec=spec,
        tensors=dense,
        router_tensors=router,
        routed_layers=routed,
        gate_mode=_gate_mode(config, where, extra),
    )


def _dense_tensors(tensors: Mapping[str, Tensor], spec: ModelSpec, directory: Path) -> dict[str, Tensor]:
    """The decoder's tensors, checked. Rotary frequencies, which old files carry, follow from the config."""
    dense = {
        name: tensor
        for name, tensor in tensors.items()
        if not is_router_tensor(name) and not name.endswith("rotary_emb.inv_freq")
    }
    if spec.tie_word_embeddings and _TIED_HEAD in dense:
        head, embedding = dense.pop(_TIED_HEAD), dense.get("model.embed_tokens.weight")
        if embedding is not None and not torch.equal(head, embedding):
            expected = "the embedding, since tie_word_embeddings is true"
            raise InputError(
                "head is not tied", where=f"{directory}: {_TIED_HEAD}", got="other values", expected=expected
            )
    check_tensors(dense, model_shapes(spec), directory)
    return dense


def _check_routing_layers(stated: object, routed: tuple[int, ...], where: Path, config: Path) -> None:
    if stated is None:
        return
    if not isinstance(stated, list) or not all(type(layer) is int for layer in stated):
        at = f"{config}: routing_layers"
        raise InputError(
            "routed layers cannot be read", where=at, got=shown(stated), expected="a list of layer numbers"
        )
    if routed and stated != list(routed):
        expected = f"{shown(stated)}, as config.json's routing_layers"
        raise InputError("routed layers differ", where=where, got=list(routed), expected=expected)


def _gate_mode(config: Mapping[str, Any], where: Path, delta: Delta | None) -> GateMode:
    stated = [] if delta is None else [(delta.path, delta.gate_mode)]
    stated.append((where, stated_gate_mode(config.get(GATE_MODE_KEY), where)))
    return agreed_gate_mode(stated) or GateMode.WEIGHTED
