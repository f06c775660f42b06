"""A Llama model in a GGUF file, as Hugging Face names, shapes and layouts it; tensors dequantised to float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vskipper.errors import InputError

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GGUFFile:
    """An open GGUF reader; field names are those of the format's specification."""

    def __init__(self, reader: Any, path: Path) -> None:
        self._reader = reader
        self._path = path
        self.bos = int(self.field("tokenizer.ggml.bos_token_id"))
        self.eos = int(self.field("tokenizer.ggml.eos_token_id"))

    def field(self, name: str) -> Any:
        """The field's value; raises InputError where the file has none."""
        found = self._reader.get_field(name)
        if found is None:
            raise InputError("GGUF field is missing", where=self._path, got="nothing", expected=name)
        return found.contents()

    def llama_config(self) -> dict[str, Any]:
        """The config.json of a LlamaForCausalLM without attention biases."""
        heads = self.field("llama.attention.head_count")
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.field("llama.embedding_length"),
            "intermediate_size": self.field("llama.feed_forward_length"),
            "num_hidden_layers": self.field("llama.block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": self.field("llama.attention.head_count_kv"),
            "head_dim": self.field("llama.embedding_length") // heads,
            "vocab_size": self.field("llama.vocab_size"),
            "max_position_embeddings": self.field("llama.context_length"),
            "hidden_act": "silu",
            # the file holds a float32: 9.999999747378752e-06 for 1e-5
            "rms_norm_eps": float(f"{self.field('llama.attention.layer_norm_rms_epsilon'):.6g}"),
            "rope_theta": float(self.field("llama.rope.freq_base")),
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": not any(tensor.name == "output.weight" for tensor in self._reader.tensors),
            "torch_dtype": "float32",
        }

    def llama_tensors(self) -> dict[str, Tensor]:
        """Every tensor by its Hugging Face name, float32, rows of q and k in rotate-half order."""
        heads = {
            "attn_q": self.field("llama.attention.head_count"),
            "attn_k": self.field("llama.attention.head_count_kv"),
        }
        tensors: dict[str, Tensor] = {}
        for item in self._reader.tensors:
            name, part = self._hugging_face_name(item.name)
            tensor = _dequantised(item)
            tensors[name] = unpermuted(tensor, heads[part]) if part in heads else tensor
        return tensors

    def _hugging_face_name(self, name: str) -> tuple[str, str]:
        """The name, and the GGUF's own word for the part."""
        words = name.removesuffix(".weight").split(".")
        if words[0] == "blk" and len(words) == 3 and words[2] in _BLOCK:
            return f"model.layers.{words[1]}.{_BLOCK[words[2]]}.weight", words[2]
        if words[0] in _TOP and len(words) == 1:
            return f"{_TOP[words[0]]}.weight", words[0]
        raise InputError("GGUF tensor is unknown", where=self._path, got=name, expected="a Llama tensor")


def open_gguf(path: Path) -> GGUFFile:
    """Raises InputError where the file is none."""
    from gguf import GGUFReader

    try:
        return GGUFFile(GGUFReader(str(path)), path)
    except (OSError, ValueError, IndexError) as error:
        raise InputError("file is no GGUF", where=path, got=error, expected="a whole GGUF file") from error


def unpermuted(weight: Tensor, heads: int) -> Tensor:
    """Rows of a q or k projection [heads * head dim, hidden] from llama.cpp's order to Hugging Face's.

    llama.cpp rotates neighbours (2i, 2i + 1) of a head, Hugging Face the halves (i, i + head dim / 2).
    """
    rows, hidden = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, hidden)
    return pairs.transpose(1, 2).reshape(rows, hidden).contiguous()


def _dequantised(item: Any) -> Tensor:
    from gguf import dequantize

    # a copy of its own: the reader's array maps the file
    values = torch.from_numpy(dequantize(item.data, item.tensor_type).copy())
    return values.reshape(tuple(reversed(item.shape.tolist()))).contiguous()
