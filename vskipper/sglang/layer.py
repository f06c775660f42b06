"""A decoder layer of the engine, taken apart for the executor; the engine's own modules compute everything."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from vskipper.policy import SwiGLU


class EngineLayer:
    """Implements LayerModules over a Llama or Qwen3 layer of SGLang."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._attention = layer.self_attn
        self.hidden_size: int = layer.input_layernorm.weight.shape[0]

    @property
    def attention(self) -> Any:
        """The engine's attention module: it names the layer to the KV pool and to the attention backend."""
        return self._attention.attn

    def input_norm(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        return _folded(self._layer.input_layernorm, hidden, residual)

    def post_norm(self, hidden: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        return _folded(self._layer.post_attention_layernorm, hidden, residual)

    def qkv(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        module = self._attention
        q, k, v = module.forward_prepare_native(positions, x)
        return tuple(values.reshape(x.shape[0], -1, module.head_dim) for values in (q, k, v))

    def o_proj(self, attention: Tensor) -> Tensor:
        return _reduced(self._attention.o_proj, self._attention.o_proj(attention)[0])

    def mlp(self, y: Tensor) -> Tensor:
        return _reduced(self._layer.mlp.down_proj, self._layer.mlp(y))

    @property
    def mlp_weights(self) -> SwiGLU:
        module = self._layer.mlp
        return SwiGLU(w_in=module.gate_up_proj.weight, w_out=module.down_proj.weight)


def _folded(norm: Any, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
    """(norm of the sum, the sum); the engine's norm may write both into its inputs."""
    if residual is None:
        return norm(hidden), hidden
    normed, summed = norm(hidden, residual)
    return normed, summed


def _reduced(projection: Any, partial: Tensor) -> Tensor:
    """The sum over ranks, where the engine leaves it to what follows the projection."""
    if projection.reduce_results:
        return partial
    from sglang.srt.distributed import tensor_model_parallel_all_reduce

    reduced: Tensor = tensor_model_parallel_all_reduce(partial)
    return reduced
