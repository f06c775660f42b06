"""Counters beside the engine's own: in its Prometheus registry, at its port."""

from __future__ import annotations

from typing import Any, Final

from vskipper.action import Action
from vskipper.sglang.batches import PassEvidence
from vskipper.sglang.request import RequestMode

UNCOVERED: Final = "uncovered"


class Metrics:
    """Counts passes, rows by action and layer, promotions and failed requests, labelled with the model's name.

    To be made in a scheduler process: the engine tells its processes where their counters meet by an environment
    variable, which prometheus_client reads when it is imported.
    """

    def __init__(self, model_name: str, routed_layers: tuple[int, ...]) -> None:
        from prometheus_client import Counter

        self._layers = routed_layers
        self._model = {"model_name": model_name}
        self._passes = Counter("vskipper:passes", "Forward passes by mode.", ["model_name", "mode"])
        self._rows = Counter("vskipper:rows", "Rows of routed passes.", ["model_name", "layer", "action"])
        self._promotions = Counter(
            "vskipper:promotions", "Requests decoded routed after a dense prefill.", [*self._model]
        )
        self._failures = Counter("vskipper:failed_requests", "Requests that a policy's error ended.", [*self._model])

    def dense_pass(self, *, uncovered: bool) -> None:
        """uncovered: requests in it were to run routed, and no graph covered the batch."""
        self._passes.labels(**self._model, mode=UNCOVERED if uncovered else RequestMode.DENSE.value).inc()

    def routed_pass(self, evidence: PassEvidence) -> None:
        """Rows of dense requests are counted as the RUN rows that they were. Waits for the device."""
        self._passes.labels(**self._model, mode=RequestMode.ROUTED.value).inc()
        by_action = {action: (evidence.actions == int(action)).sum(1).tolist() for action in Action}
        for action, rows in by_action.items():
            for layer, count in zip(self._layers, rows, strict=True):
                if count:
                    self._rows.labels(**self._model, layer=str(layer), action=action.name).inc(count)

    def promoted(self) -> None:
        self._promotions.labels(**self._model).inc()

    def failed(self) -> None:
        self._failures.labels(**self._model).inc()


class NoMetrics:
    """In place of Metrics where the engine serves none."""

    def dense_pass(self, *, uncovered: bool) -> None: ...

    def routed_pass(self, evidence: PassEvidence) -> None: ...

    def promoted(self) -> None: ...

    def failed(self) -> None: ...


def open_metrics(arguments: Any, routed_layers: tuple[int, ...]) -> Metrics | NoMetrics:
    """arguments: the engine's, resolved. Raises ValueError when counters of these names are there already."""
    return Metrics(arguments.served_model_name, routed_layers) if arguments.enable_metrics else NoMetrics()
