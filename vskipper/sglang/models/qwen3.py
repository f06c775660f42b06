"""Qwen3 with per-token layer skipping: the engine's class, and a routed decoder beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from sglang.srt.models.qwen3 import Qwen3ForCausalLM as EngineQwen3
from torch import Tensor

from vskipper.sglang.causal_lm import attach, forward, without_router


class Qwen3ForCausalLM(EngineQwen3):  # type: ignore[misc]
    """Dense passes are the engine's; routed ones run layer by layer through its modules."""

    def __init__(self, config: Any, quant_config: Any = None, prefix: str = "") -> None:
        super().__init__(config, quant_config, prefix)
        self.vskipper = attach(self)

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        forward_batch: Any,
        input_embeds: Tensor | None = None,
        get_embedding: bool = False,
        pp_proxy_tensors: Any = None,
    ) -> Any:
        def dense() -> Any:
            return super(Qwen3ForCausalLM, self).forward(
                input_ids, positions, forward_batch, input_embeds, get_embedding, pp_proxy_tensors
            )

        return forward(self, dense, input_ids, positions, forward_batch, input_embeds)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> Any:
        return super().load_weights(without_router(weights))


class DDQwen3ForCausalLM(Qwen3ForCausalLM):
    """A whole FlexiDepth checkpoint: base, router and projector in one folder."""


EntryClass = [Qwen3ForCausalLM, DDQwen3ForCausalLM]
