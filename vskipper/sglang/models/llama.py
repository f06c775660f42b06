"""Llama with per-token layer skipping, under the engine's own architecture name."""

from __future__ import annotations

from sglang.srt.models.llama import LlamaForCausalLM as EngineLlama

from vskipper.sglang.causal_lm import RoutedCausalLM


class LlamaForCausalLM(RoutedCausalLM, EngineLlama):  # type: ignore[misc]
    """The engine's model, and a routed decoder beside it."""


class DDLlamaForCausalLM(LlamaForCausalLM):
    """A whole FlexiDepth checkpoint: base, router and projector in one folder."""


EntryClass = [LlamaForCausalLM, DDLlamaForCausalLM]
