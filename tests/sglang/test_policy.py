"""The configured policy is opened for the model at hand, or refused by name; what it returns is looked at on a CPU."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import InputError, PolicyError
from vskipper.locate import source_digest
from vskipper.models import resolve
from vskipper.policy import PolicyCapabilities, PolicyContext, Route, RowBatch
from vskipper.sglang.config import EngineConfig, parse
from vskipper.sglang.policy import ServedPolicy, open_policy


class Undeclared:
    """Declares RUN and PROJECT_ONLY, and skips sublayers."""

    def __init__(self, context: PolicyContext) -> None:
        self.capabilities = PolicyCapabilities(actions=frozenset({Action.RUN, Action.PROJECT_ONLY}))

    def begin(self, batch: RowBatch) -> Tensor:
        return batch.positions

    def route(self, layer: int, x: Tensor, state: Tensor) -> Route:
        return Route(actions=torch.full_like(state, int(Action.SKIP_MLP), dtype=torch.uint8))


def opened(**values: Any) -> ServedPolicy:
    folder = resolve("tiny-llama")
    config = EngineConfig(**{"policy": "static-depth", "settings": {"ratio": 0.5}, **values})
    return open_policy(config, str(folder), json.loads((folder / "config.json").read_text()), dtype=torch.float32)


def batch(rows: int) -> RowBatch:
    numbers = torch.arange(rows)
    phases, valid = torch.zeros(rows, dtype=torch.int8), torch.ones(rows, dtype=torch.bool)
    return RowBatch(request_keys=numbers, positions=numbers, token_ids=numbers, phases=phases, valid=valid)


def test_layers_that_the_model_does_not_have_are_refused() -> None:
    assert opened(routed_layers=(4, 5)).routed_layers == (4, 5)
    with pytest.raises(InputError, match=r"routed layers .*got 99, expected 0 to 5"):
        opened(routed_layers=(4, 99))


def test_a_delta_beside_the_weights_is_taken_however_the_plugin_is_configured() -> None:
    named = opened(delta=str(resolve("tiny-llama") / "flexidepth.safetensors"))
    assert opened().routes == named.routes
    assert opened(policy="flexidepth", settings={}).routed_layers == (2, 3, 4)


def test_an_undeclared_action_is_an_error_on_a_cpu() -> None:
    served = opened(policy=f"{__name__}:Undeclared", settings={})
    state = served.policy.begin(batch(3))
    with pytest.raises(PolicyError, match="route"):
        served.policy.route(4, torch.zeros(3, 64), state)


@pytest.mark.parametrize("text", ['{"settings": ' + '{"a": ' * 20_000 + "1" + "}" * 20_001, "[" * 100_000])
def test_a_configuration_nested_too_deep_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="plugin configuration"):
        parse(text, "here")


def test_what_a_policy_says_is_one_line() -> None:
    error = PolicyError(
        "raised", policy="p", hook="route", location="p.py:1", got=ValueError("one\n two"), expected="x"
    )
    assert "got one two, expected x" in str(error)


def test_an_edited_base_is_another_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, own = tmp_path / "digested_base.py", tmp_path / "digested_own.py"
    base.write_text("class Base:\n    depth = 1\n")
    own.write_text("from digested_base import Base\n\n\nclass Own(Base):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    policy = importlib.import_module("digested_own").Own()
    before = source_digest(policy)
    assert source_digest(policy) == before
    base.write_text("class Base:\n    depth = 2\n")
    assert source_digest(policy) != before
