"""What vSkipper's model classes share: a decoder beside the engine's own forward, and which of the two a pass takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor

from vskipper.checkpoint.flexidepth import is_router_tensor
from vskipper.errors import PolicyError
from vskipper.sglang import process
from vskipper.sglang.decoder import RoutedDecoder
from vskipper.sglang.passes import PassPlan, current_pass


def attach(model: Any) -> RoutedDecoder | None:
    """The routed decoder of an engine's ForCausalLM, None where the plugin is off or set to dense."""
    return process.start(model)


def forward(
    model: Any,
    dense: Callable[[], Any],
    input_ids: Tensor,
    positions: Tensor,
    forward_batch: Any,
    input_embeds: Tensor | None,
) -> Any:
    """Run the pass as its source plans it; `dense` is the engine's own forward and all that a dense pass runs."""
    source = current_pass()
    if source is None or model.vskipper is None:
        return dense()
    plan = source.plan(input_ids, positions, forward_batch)
    if plan is None:
        return dense()
    if not model.vskipper.covers(plan, forward_batch):
        source.uncovered()
        return dense()

    def attempt(tried: PassPlan) -> Tensor:
        hidden: Tensor = model.vskipper.run(input_ids, forward_batch, input_embeds, tried)
        return hidden

    try:
        hidden: Tensor | None = attempt(plan)
    except PolicyError as error:
        hidden = source.recover(attempt, error)
    if hidden is None:
        return dense()
    return model.logits_processor(input_ids, hidden, model.lm_head, forward_batch)


def without_router(weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """The engine's own tensors: its loader drops or misreads router and projector tensors, which vSkipper has read."""
    return ((name, tensor) for name, tensor in weights if not is_router_tensor(name))
