"""Faults of plans, of phases and of what is told about them: clauses MODE-1 and MODE-3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from conformance.faults.lifecycle.make import lifecycle_fault
from vskipper.policy import Phase
from vskipper.sglang.passes import PassPlan
from vskipper.sglang.request import RequestMode, RequestPlan, RequestState
from vskipper.sglang.seams import requests
from vskipper.sglang.seams.kv_write import kv_pool

OTHER = {RequestMode.DENSE: RequestMode.ROUTED, RequestMode.ROUTED: RequestMode.DENSE}


def _chosen_again(original: Any) -> Any:
    """A retracted request gets another decode mode."""

    def broken(self: Any, request: Any) -> None:
        original(self, request)
        plan = request.vskipper.plan
        request.vskipper.plan = RequestPlan(prefill=plan.prefill, decode=OTHER[plan.decode])

    return broken


def _chosen_by_chunk(original: Any) -> Any:
    """The prefill mode is chosen anew for a chunk behind the first."""
    begun: set[int] = set()

    def broken(self: Any, batch: Any) -> Any:
        for request in batch.reqs:
            state = request.vskipper
            if batch.forward_mode.is_extend() and id(state) in begun:
                state.plan = RequestPlan(prefill=OTHER[state.plan.prefill], decode=state.plan.decode)
            begun.add(id(state))
            states.append(state)
        return original(self, batch)

    # held, so that an id stays its state's
    states: list[RequestState] = []
    return broken


def _back_to_dense(original: Any) -> Any:
    """A request that decodes routed goes back to dense after a few tokens."""

    def broken(self: RequestState, position: int) -> RequestMode:
        return RequestMode.DENSE if position > self.prompt_length + 3 else original(self, position)

    return broken


def _phase_of_pass(original: Any) -> Any:
    """Whatever is computed in a pass of several rows a request counts as prompt."""

    def broken(states: Sequence[RequestState], places: Sequence[tuple[int, int]]) -> Any:
        several = {id(state) for state, (_, count) in zip(states, places, strict=True) if count > 1}
        return tuple(
            replace(each, dense=each.state.plan.mode(Phase.PREFILL) == RequestMode.DENSE)
            if id(each.state) in several
            else each
            for each in original(states, places)
        )

    return broken


def _not_forced(original: Any) -> Any:
    """Dense rows beside routed ones are left to the policy."""
    return lambda **values: PassPlan(**{**values, "force_run": None})


def _silently_dense(original: Any) -> Any:
    """The pass is planned, recorded nowhere, and runs dense."""

    def broken(self: Any, *arguments: Any) -> None:
        original(self, *arguments)

    return broken


def _latest_pass(original: Any) -> Any:
    """What a batch left is looked for in the pass that was opened last."""

    def broken(open_batch: Callable[[Any], Any], close_batch: Callable[[Any, Any], None]) -> None:
        opened: list[Any] = []

        def open_and_keep(batch: Any) -> Any:
            opened.append(open_batch(batch))
            return opened[-1]

        original(open_and_keep, lambda batch, ran: close_batch(batch, opened[-1]))

    return broken


def _dense_rows_counted(original: Any) -> Any:
    """The skipped share is one of all rows, dense ones too."""

    def broken(self: RequestState, phase: Phase, *, pairs: int, skipped: int) -> None:
        original(self, phase, pairs=2 * pairs, skipped=skipped)

    return broken


def _hooked_when_dense(original: Any) -> Any:
    """Requests of a dense engine are given a plan all the same."""

    def broken(model: Any) -> Any:
        decoder = original(model)
        if decoder is None:
            requests.install(lambda request: setattr(request, "vskipper_user_key", None), lambda request: None)
        return decoder

    return broken


def _filed_when_dense(change: Callable[[str | None], str | None]) -> Any:
    """Requests of a dense engine are filed under another key."""

    def patch(original: Any) -> Any:
        def broken(model: Any) -> Any:
            decoder = original(model)
            if decoder is None:
                requests.install(_filed(change), lambda request: None)
            return decoder

        return broken

    return patch


def _filed(change: Callable[[str | None], str | None]) -> Callable[[Any], None]:
    return lambda request: setattr(request, "extra_key", change(request.extra_key))


def _nudged(change: Callable[[Any, Any], None]) -> Any:
    """Something is done to what a dense pass left."""

    def patch(original: Any) -> Any:
        def broken(model: Any, dense: Any, input_ids: Any, positions: Any, forward_batch: Any, embeds: Any) -> Any:
            output = original(model, dense, input_ids, positions, forward_batch, embeds)
            if model.vskipper is None:
                change(output, forward_batch)
            return output

        return broken

    return patch


def _ulps_of_logits(output: Any, forward_batch: Any) -> None:
    logits = output.next_token_logits
    logits *= 1 + 8 * torch.finfo(logits.dtype).eps


def _ulps_of_keys(output: Any, forward_batch: Any) -> None:
    keys = kv_pool(forward_batch).k_buffer[0]
    keys[forward_batch.out_cache_loc] *= 1 + 2 * torch.finfo(keys.dtype).eps


SERVING = "vskipper.sglang.process:Serving"
START = "vskipper.sglang.process:start"
FORWARD = "vskipper.sglang.models.llama:forward"
QUIET = ("life.slots", "cache.isolated")
FAULTS = (
    lifecycle_fault(
        id="dense-hooked",
        title="a dense engine's requests carry vSkipper's attributes",
        source="a plugin that is off and changes something",
        seam=START,
        patch=_hooked_when_dense,
        killer="mode.dense",
        reason="attributes_differ",
        quiet=("life.slots", "mode.fixed"),
    ),
    lifecycle_fault(
        id="dense-filed-apart",
        title="a dense engine's requests are filed under another key than the stock engine's",
        source="a plugin that is off and changes something",
        seam=START,
        patch=_filed_when_dense(lambda key: f"dense:{key}"),
        killer="mode.dense",
        reason="request_differs",
        quiet=("life.slots", "mode.fixed"),
    ),
    lifecycle_fault(
        id="dense-users-together",
        title="a dense engine's requests lose their users' keys",
        source="vllm#44701",
        seam=START,
        patch=_filed_when_dense(lambda key: None),
        killer="mode.dense",
        reason="schedule_differs",
        quiet=("life.slots", "mode.fixed"),
    ),
    lifecycle_fault(
        id="dense-logits-nudged",
        title="a dense pass's logits are scaled by a rounding",
        source="a gate's weight of 1 that is multiplied in",
        seam=FORWARD,
        patch=_nudged(_ulps_of_logits),
        killer="mode.dense",
        reason="request_differs",
        quiet=("life.slots", "mode.fixed"),
    ),
    lifecycle_fault(
        id="dense-keys-nudged",
        title="a dense pass's K are off by a rounding at one layer",
        source="sglang#18818",
        seam=FORWARD,
        patch=_nudged(_ulps_of_keys),
        killer="mode.dense",
        reason="kv_differs",
        quiet=("life.slots", "mode.fixed"),
    ),
    lifecycle_fault(
        id="plan-chosen-after-retraction",
        title="a retracted request is given another decode mode",
        source="sglang#16103",
        seam=f"{SERVING}.retracted",
        patch=_chosen_again,
        killer="mode.fixed",
        reason="plan_changed",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="plan-chosen-by-chunk",
        title="the prefill mode is chosen anew at each chunk",
        source="a body changed from pass to pass",
        seam=f"{SERVING}.open_batch",
        patch=_chosen_by_chunk,
        killer="mode.fixed",
        reason="plan_changed",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="decode-demoted",
        title="a request that decodes routed goes back to dense",
        source="a body changed from pass to pass",
        seam="vskipper.sglang.request:RequestState.mode",
        patch=_back_to_dense,
        killer="mode.fixed",
        reason="ran_in_another_mode",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="phase-of-pass",
        title="generated tokens that are computed again run in the prefill mode",
        source="sglang#13700",
        seam="vskipper.sglang.batches:stretches",
        patch=_phase_of_pass,
        killer="mode.fixed",
        reason="recomputed_in_another_mode",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="dense-rows-not-forced",
        title="dense rows beside routed ones are left to the policy",
        source="mixed batches of one mode",
        seam="vskipper.sglang.batches:PassPlan",
        patch=_not_forced,
        killer="mode.fixed",
        reason="ran_in_another_mode",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="routed-pass-runs-dense",
        title="every pass runs dense, and answers say routed",
        source="16,702 decode passes with skip 0",
        seam="vskipper.sglang.batches:BatchPass.plan",
        patch=_silently_dense,
        killer="mode.fixed",
        reason="ran_in_another_mode",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="share-of-all-rows",
        title="the skipped share counts pairs twice",
        source="padding rows counted",
        seam="vskipper.sglang.request:RequestState.count",
        patch=_dense_rows_counted,
        killer="mode.fixed",
        reason="told_otherwise",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="evidence-of-a-later-batch",
        title="a batch's share is counted from the pass that was opened last",
        source="sglang#1712",
        seam="vskipper.sglang.seams.scheduler:install",
        patch=_latest_pass,
        killer="mode.fixed",
        reason="told_otherwise",
        quiet=QUIET,
    ),
)
