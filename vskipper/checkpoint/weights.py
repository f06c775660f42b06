"""Tensors from safetensors files, single or sharded, checked by name, shape, dtype and for values that are finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from vskipper.checkpoint.config import ModelSpec, read_json
from vskipper.errors import InputError
from vskipper.files import openable

Shape = tuple[int, ...]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_LISTED = 4


Wanted = Callable[[str], bool]


def every(name: str) -> bool:
    """Any tensor is wanted."""
    return True


def read_safetensors(path: Path, wanted: Wanted = every) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The wanted tensors by name, and the file's metadata; raises InputError where it is missing, cut short, or no
    such file."""
    openable(path)
    try:
        # the tensors map the file: a model is not copied into memory twice
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names if wanted(name)}, dict(file.metadata() or {})
    except FileNotFoundError as error:
        raise InputError("weights are missing", where=path, got="no such file", expected=path.name) from error
    except (SafetensorError, OSError) as error:
        raise InputError(
            "weights cannot be read", where=path, got=error, expected="a whole safetensors file"
        ) from error


def read_model_tensors(directory: Path, wanted: Wanted = every) -> dict[str, Tensor]:
    """The wanted tensors of a Hugging Face directory: of model.safetensors, or the shards that its index names."""
    if (directory / INDEX).exists():
        return _read_shards(directory, wanted)
    if not (directory / SINGLE).exists():
        raise InputError("weights are missing", where=directory, got="neither file", expected=f"{SINGLE} or {INDEX}")
    return read_safetensors(directory / SINGLE, wanted)[0]


def _read_shards(directory: Path, wanted: Wanted) -> dict[str, Tensor]:
    index = directory / INDEX
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise InputError("index names no shards", where=index, got=type(shards).__name__, expected="a weight_map")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(shards.values())):
        if Path(shard).name != shard:
            raise InputError("shard lies elsewhere", where=index, got=repr(shard), expected="a file name, no folder")
        held, _ = read_safetensors(directory / shard, wanted)
        listed = {name for name, file in shards.items() if file == shard and wanted(name)}
        if held.keys() != listed:
            got = _names("missing", listed - held.keys()) + _names("surplus", held.keys() - listed)
            expected = f"the {len(listed)} tensors that {INDEX} lists"
            raise InputError("shard and index differ", where=directory / shard, got="; ".join(got), expected=expected)
        tensors |= held
    return tensors


def model_shapes(spec: ModelSpec) -> dict[str, Shape]:
    """Name and shape of every tensor of the dense model; tied embeddings have no lm_head of their own."""
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (spec.vocab_size, spec.hidden_size),
        "model.norm.weight": (spec.hidden_size,),
    }
    if not spec.tie_word_embeddings:
        shapes["lm_head.weight"] = (spec.vocab_size, spec.hidden_size)
    for layer in range(spec.num_hidden_layers):
        for name, shape in _layer_shapes(spec).items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    return shapes


def _layer_shapes(spec: ModelSpec) -> dict[str, Shape]:
    hidden, inner, head = spec.hidden_size, spec.intermediate_size, spec.head_dim
    queries, keys = spec.num_attention_heads * head, spec.num_key_value_heads * head
    shapes: dict[str, Shape] = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    if spec.architecture == "qwen3":
        shapes |= {"self_attn.q_norm": (head,), "self_attn.k_norm": (head,)}
    return shapes


def check_tensors(tensors: Mapping[str, Tensor], shapes: Mapping[str, Shape], where: object) -> None:
    """Raise one InputError that names every kind of misfit: missing, surplus, misshaped, wrong dtype, not finite."""
    misshaped = {
        f"{name} {list(tensors[name].shape)}": list(shape)
        for name, shape in shapes.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    }
    missing = [name for name in shapes if name not in tensors]
    surplus = [name for name in tensors if name not in shapes]
    got = _names("missing", missing) + _names("surplus", surplus) + _names("misshaped", misshaped)
    if got:
        wanted = [f"{name} {list(shapes[name])}" for name in missing]
        wanted += [f"{label.rsplit(' [', 1)[0]} {shape}" for label, shape in misshaped.items()]
        expected = _listed(wanted) if wanted else f"no other than the config's {len(shapes)} tensors"
        raise InputError("tensors do not fit", where=where, got="; ".join(got), expected=expected)
    for name, tensor in tensors.items():
        _check_values(name, tensor, where)


def _check_values(name: str, tensor: Tensor, where: object) -> None:
    if tensor.dtype not in _DTYPES:
        expected = ", ".join(str(dtype) for dtype in _DTYPES)
        raise InputError("unsupported dtype", where=f"{where}: {name}", got=tensor.dtype, expected=expected)
    finite = torch.isfinite(tensor)
    if not finite.all():
        got = f"{int((~finite).sum())} of {tensor.numel()} values are NaN or infinite"
        raise InputError("weights are not finite", where=f"{where}: {name}", got=got, expected="finite values")


def _names(kind: str, names: Sequence[str] | Mapping[str, object] | set[str]) -> list[str]:
    return [f"{kind} {_listed(sorted(names))}"] if names else []


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
