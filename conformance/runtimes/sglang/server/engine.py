"""The lifecycle engine of runtime server: real servers of a few shapes, asked over HTTP while their loop is held."""

from __future__ import annotations

from dataclasses import dataclass, replace

from conformance.runtimes.sglang.server.attended import Asked, attended
from conformance.runtimes.sglang.server.life import ServerLife
from properties.lifecycle.case import SHAPES
from properties.lifecycle.engine import LifecycleSession, Shape
from properties.runtime import Model

# a server takes long to start: small pages with overlap and mixed passes, and larger ones without overlap
FEW = (SHAPES[2], SHAPES[4])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEngine:
    """Implements LifecycleEngine over servers on this machine."""

    overlaps: bool = True
    shapes: tuple[Shape, ...] | None = FEW
    captures: bool = False

    def covers(self, rows: int) -> bool:
        """All: on a CPU nothing is captured."""
        return True

    def open(self, model: Model, shape: Shape, *, stock: bool = False) -> LifecycleSession:
        asked = Asked.of(model, arguments(shape), stock=stock)
        return ServerLife(asked, attended(asked), replace(model, tensors={}))


def arguments(shape: Shape) -> tuple[str, ...]:
    """SGLang's, for a server of that shape."""
    switches = {"--enable-mixed-chunk": shape.mixed, "--disable-overlap-schedule": not shape.overlap}
    return (
        *("--page-size", str(shape.page_size)),
        *("--chunked-prefill-size", str(shape.chunk)),
        *("--max-total-tokens", str(shape.tokens)),
        *("--max-running-requests", str(shape.running)),
        # admit as if requests would end at once, so that decoding runs out of slots
        *("--schedule-conservativeness", "0.01"),
        *(switch for switch, on in switches.items() if on),
    )
