"""FlexiDepth's router and projector tensors: found by their keys, shapes inferred from themselves, gate mode stated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from vskipper.checkpoint.config import ModelSpec, read_json, stated_gate_mode
from vskipper.checkpoint.pt import read_pt
from vskipper.checkpoint.weights import Shape, check_tensors, read_safetensors
from vskipper.errors import InputError
from vskipper.files import openable
from vskipper.policy import GateMode

GATE_MODE_KEY = "router_gate_mode"
_SUFFIXES = (".safetensors", ".pt")
# d: hidden size, r: the router's bottleneck, m: the projector's; its down_proj widens d to m and up_proj leads back
SYMBOLS: dict[str, tuple[str, ...]] = {
    "router.router_enc.weight": ("r", "d"),
    "router.router_norm.weight": ("r",),
    "router.router_dec.weight": ("d", "r"),
    "router.router_head.weight": ("one", "d"),
    "router_proj.gate_proj.weight": ("m", "d"),
    "router_proj.down_proj.weight": ("m", "d"),
    "router_proj.up_proj.weight": ("d", "m"),
}
_KEY = re.compile(r"model\.layers\.(\d+)\.(router(?:_proj)?\..+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Router and projector tensors of a base model, with the gate mode stated beside them, None where none is."""

    path: Path
    tensors: Mapping[str, Tensor]
    gate_mode: GateMode | None


def is_router_tensor(name: str) -> bool:
    return _KEY.fullmatch(name) is not None


def read_delta(path: Path) -> Delta:
    """Read a delta, .safetensors or .pt; raises InputError. Its gate mode stands in the safetensors metadata or in a
    config.json beside it."""
    expected = f"an existing {' or '.join(_SUFFIXES)} file"
    if not openable(path, expected).is_file():
        raise InputError("delta is missing", where=path, got="no such file", expected=expected)
    if path.suffix not in _SUFFIXES:
        got = path.suffix or "no suffix"
        raise InputError("unknown kind of delta", where=path, got=got, expected=" or ".join(_SUFFIXES))
    tensors, metadata = (read_pt(path), dict[str, str]()) if path.suffix == ".pt" else read_safetensors(path)
    stated = [(path, stated_gate_mode(metadata.get(GATE_MODE_KEY), path))]
    beside = path.parent / "config.json"
    if beside.exists():
        stated.append((beside, stated_gate_mode(read_json(beside).get(GATE_MODE_KEY), beside)))
    return Delta(path=path, tensors=tensors, gate_mode=agreed_gate_mode(stated))


def agreed_gate_mode(stated: Iterable[tuple[Path, GateMode | None]]) -> GateMode | None:
    """The one gate mode that the files state, None where none does; raises InputError where two differ."""
    said = [(where, mode) for where, mode in stated if mode is not None]
    for where, mode in said[1:]:
        if mode != said[0][1]:
            raise InputError("gate modes differ", where=where, got=mode, expected=f"{said[0][1]}, as in {said[0][0]}")
    return said[0][1] if said else None


def check_router(tensors: Mapping[str, Tensor], spec: ModelSpec, where: object) -> tuple[int, ...]:
    """The routed layers, ascending; raises InputError that names what is missing, surplus or misshaped."""
    layers = sorted({int(match[1]) for name in tensors if (match := _KEY.fullmatch(name))})
    if not layers:
        raise InputError(
            "no router tensors", where=where, got=f"{len(tensors)} others", expected="model.layers.*.router.*"
        )
    if layers[-1] >= spec.num_hidden_layers:
        expected = f"layers below {spec.num_hidden_layers}"
        raise InputError(
            "router of a layer that is not there", where=where, got=f"layer {layers[-1]}", expected=expected
        )
    hidden = _vote(tensors, layers, "d")
    if hidden is not None and hidden != spec.hidden_size:
        raise InputError("router is for another hidden size", where=where, got=hidden, expected=spec.hidden_size)
    shapes: dict[str, Shape] = {}
    for layer in layers:
        sizes = {"d": spec.hidden_size, "one": 1} | {s: _vote(tensors, [layer], s) or 0 for s in ("r", "m")}
        for name, symbols in SYMBOLS.items():
            shapes[f"model.layers.{layer}.{name}"] = tuple(sizes[symbol] for symbol in symbols)
    check_tensors(tensors, shapes, where)
    return tuple(layers)


def _vote(tensors: Mapping[str, Tensor], layers: Iterable[int], symbol: str) -> int | None:
    """The size that most tensors give `symbol`, so that the one that differs is the one blamed."""
    votes: Counter[int] = Counter()
    for layer in layers:
        for name, symbols in SYMBOLS.items():
            tensor = tensors.get(f"model.layers.{layer}.{name}")
            if tensor is not None and tensor.ndim == len(symbols) and symbol in symbols:
                votes[tensor.shape[symbols.index(symbol)]] += 1
    return votes.most_common(1)[0][0] if votes else None
