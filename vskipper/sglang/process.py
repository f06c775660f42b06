"""The plugin in one scheduler process: the served policy, the requests' plans and keys, and the seams they hang on."""

from __future__ import annotations

import logging
import secrets
from dataclasses import asdict
from itertools import count
from typing import Any

import torch

from vskipper import __version__
from vskipper.errors import PolicyError
from vskipper.sglang import namespace
from vskipper.sglang.batches import BatchPass
from vskipper.sglang.config import EngineConfig, from_environment
from vskipper.sglang.decoder import RoutedDecoder
from vskipper.sglang.graphs.runner import RoutedGraphs
from vskipper.sglang.metrics import Metrics, NoMetrics, open_metrics
from vskipper.sglang.plugin import probe_engine
from vskipper.sglang.policy import ServedPolicy, open_policy
from vskipper.sglang.request import RequestMode, RequestPlan, RequestState, choose_plan, new_state
from vskipper.sglang.seams import (
    arguments,
    cache,
    decode_runner,
    internal_state,
    prefill_runner,
    requests,
    results,
    scheduler,
)

logger = logging.getLogger(__name__)


class Serving:
    """Implements what the seams call back. One a process: the engine has one scheduler in each."""

    def __init__(self, config: EngineConfig, served: ServedPolicy, metrics: Metrics | NoMetrics) -> None:
        self._config = config
        self._served = served
        self._metrics = metrics
        # a process that comes after this one may share a store with it
        self._nonce = secrets.token_hex(8)
        self._numbers = count()
        self._uncovered_passes = 0
        self.graphs: RoutedGraphs | None = None

    def admit(self, request: Any) -> None:
        """Fix the request's plan and file it under its plan's key (clauses MODE-3, CACHE-1)."""
        capabilities = self._served.policy.capabilities
        plan = choose_plan(self._config.mode, capabilities, request.rid, self._config.seed)
        request.vskipper = new_state(plan, request.rid, len(request.origin_input_ids))
        request.vskipper_user_key = request.extra_key
        request.extra_key = self._key(plan, request.extra_key)
        results.attach(request)

    def retracted(self, request: Any) -> None:
        """The request's KV is gone. What it computes again mixes two modes where its plan does, and is its own."""
        if request.vskipper.mixes and request.vskipper.failure is None:
            request.extra_key = self._private(request.vskipper_user_key)
            request.skip_radix_cache_insert = False

    def open_batch(self, batch: Any) -> BatchPass:
        """What the model asks how to run the batch."""
        for request in batch.reqs:
            # a prompt that is too long is cut after it was admitted, where the engine is told to
            request.vskipper.prompt_length = len(request.origin_input_ids)
        return BatchPass(
            [request.vskipper for request in batch.reqs],
            lambda number, error: self._fail(batch.reqs[number], error),
            lambda number, position: self._uncovered(batch.reqs[number], position),
        )

    def close_batch(self, batch: Any, ran: BatchPass) -> None:
        """The batch's results are about to be handled."""
        for evidence in ran.evidence:
            evidence.count()
            self._metrics.routed_pass(evidence)
        ran.count_uncovered(len(self._served.routed_layers))
        self._uncovered_passes += ran.was_uncovered
        if batch.reqs and not ran.evidence:
            self._metrics.dense_pass(uncovered=ran.was_uncovered)
        for request in batch.reqs:
            self._after_pass(request)

    def _after_pass(self, request: Any) -> None:
        """What a request adds once it decodes is of its decode mode: inserted only where that is its prefill's too."""
        state: RequestState = request.vskipper
        decodes = len(request.output_ids) > 0 and not request.is_retracted
        if state.plan.differs and decodes and not namespace.is_private(request.extra_key):
            cache.keep_private(request)
        if state.promote():
            self._metrics.promoted()

    def _uncovered(self, request: Any, position: int) -> None:
        """Its row runs dense, since no routed graph covers the batch, and what it writes is not shared. For a policy
        that tolerates no dense prefix, the rows after it do too."""
        request.vskipper.fall(position, for_good=not self._served.policy.capabilities.tolerates_dense_prefix)
        cache.keep_private(request)

    def _fail(self, request: Any, error: PolicyError) -> None:
        """End the request with the error; until then it runs dense, and what it writes stays out of the cache."""
        request.vskipper.failure = str(error)
        logger.error("vskipper: request %s ends with an error of its policy", request.rid, exc_info=error)
        cache.keep_private(request)
        results.abort(request, str(error))
        self._metrics.failed()

    def facts(self) -> dict[str, Any]:
        """What /server_info says of the plugin; JSON values. uncovered_passes: decode passes that ran dense though
        requests in them were to run routed. graphs: None where decode is not captured."""
        return {
            "version": __version__,
            "config": asdict(self._config) | {"settings": dict(self._config.settings)},
            "routed_layers": list(self._served.routed_layers),
            "namespace": self._served.routes,
            "uncovered_passes": self._uncovered_passes,
            "graphs": None if self.graphs is None or not self.graphs.captured else self.graphs.facts(),
        }

    def _key(self, plan: RequestPlan, user_key: str | None) -> str | None:
        if plan.prefill == RequestMode.DENSE:
            return namespace.dense_key(user_key)
        if not self._served.policy.capabilities.prefix_determined:
            return self._private(user_key)
        return namespace.routed_key(user_key, self._served.routes)

    def _private(self, user_key: str | None) -> str:
        return namespace.private_key(user_key, f"{self._nonce}.{next(self._numbers)}")


def start(model: Any) -> RoutedDecoder | None:
    """Called by the model's constructor, before the scheduler builds whatever the seams patch. None where the plugin
    is off, or set to mode dense: then no request and no batch is touched."""
    config = from_environment()
    if config is None:
        return None
    probe_engine()
    weight = next(model.parameters())
    served = open_policy(
        config,
        model.config._name_or_path,
        model.config.to_dict(),
        dtype=weight.dtype,
        device=weight.device,
    )
    serving = Serving(config, served, open_metrics(arguments.current(), served.routed_layers))
    internal_state.install(serving.facts)
    if config.mode == "dense":
        return None
    cache.install()
    requests.install(serving.admit, serving.retracted)
    scheduler.install(serving.open_batch, serving.close_batch)
    serving.graphs = _graphs(weight.device, served.routed_layers)
    return RoutedDecoder(model.model, served.policy, served.routed_layers, serving.graphs)


def _graphs(device: torch.device, routed_layers: tuple[int, ...]) -> RoutedGraphs | None:
    """The second variant of the decode graphs, on a GPU: there none may be captured, and prefill captured nevertheless,
    which the engine decides later."""
    if device.type != "cuda":
        return None
    probe_engine(graphs=True)
    graphs = RoutedGraphs(len(routed_layers))
    decode_runner.install(graphs)
    prefill_runner.install()
    return graphs
