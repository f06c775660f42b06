"""Qwen3 with per-token layer skipping, under the engine's own architecture name."""

from __future__ import annotations

from sglang.srt.models.qwen3 import Qwen3ForCausalLM as EngineQwen3

from vskipper.sglang.causal_lm import RoutedCausalLM


class Qwen3ForCausalLM(RoutedCausalLM, EngineQwen3):  # type: ignore[misc]
    """The engine's model, and a routed decoder beside it."""


class DDQwen3ForCausalLM(Qwen3ForCausalLM):
    """A whole FlexiDepth checkpoint: base, router and projector in one folder."""


EntryClass = [Qwen3ForCausalLM, DDQwen3ForCausalLM]
