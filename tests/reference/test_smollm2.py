"""The oracle on a real model: SmolLM2-135M in float32, prefill in chunks and decode, against transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaForCausalLM

from reference.config import ModelConfig
from reference.model import ReferenceModel
from reference.plan import Chunk, Phase, PoolLayout, StepPlan
from reference.pool import PagedPool
from tests.reference.huggingface import account
from vskipper.models import smollm2

# one process builds the model
pytestmark = pytest.mark.xdist_group("smollm2")
PAGES = (4, 1, 3)


def close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0.0, atol=1e-4 * expected.abs().max().item())


def test_prompt_and_greedy_decode_equal_transformers() -> None:
    folder = smollm2.build()
    config = ModelConfig.from_hf(json.loads((folder / "config.json").read_text()))
    oracle = ReferenceModel(config, load_file(folder / "model.safetensors"), (), dtype=torch.float32)
    pool = PagedPool(config, PoolLayout(page_size=4, pages=5), torch.float32)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def run(part: Sequence[int], start: int, phase: Phase) -> Tensor:
        chunk = Chunk(request="r", tokens=tuple(part), start=start, pages=PAGES, phase=phase)
        return oracle.step(pool, StepPlan(chunks=(chunk,))).logits[0]

    tokens: list[int] = tokenizer.encode("The capital of France is").ids
    prompt = len(tokens)
    logits = [run(tokens[:2], 0, "prefill"), run(tokens[2:], 2, "prefill")]
    for position in (prompt, prompt + 1):
        tokens.append(int(logits[-1].argmax()))
        logits.append(run(tokens[-1:], position, "decode"))
    assert tokenizer.decode(tokens[prompt:]) == " Paris."

    expected = account(LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(), tokens)
    close(torch.stack(logits), expected.logits[[1, prompt - 1, prompt, prompt + 1]])
    slots = [PAGES[position // 4] * 4 + position % 4 for position in range(len(tokens))]
    for layer, (keys, values) in enumerate(pool.kv):
        close(keys[slots], expected.keys[layer])
        close(values[slots], expected.values[layer])
