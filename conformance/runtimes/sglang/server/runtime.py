"""The runtime `server`: passes on the ModelRunner of a real server, in that process, over pools that the suite maps."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from conformance.runtimes.sglang.build import REQUESTS
from conformance.runtimes.sglang.process import use_device
from conformance.runtimes.sglang.runtime import CAPABILITIES, check_pool
from conformance.runtimes.sglang.seat import TOKENS
from conformance.runtimes.sglang.server.attended import Asked, attended
from conformance.runtimes.sglang.server.engine import ServerEngine
from conformance.runtimes.sglang.server.link import Link
from conformance.runtimes.sglang.server.shared import Kv, SharedPool
from properties.lifecycle.engine import LifecycleEngine
from properties.runtime import Mode, Model, RuntimeCapabilities, Session, StepResult
from reference.plan import PoolLayout, StepPlan, TapePlan
from vskipper.errors import InputError

ARGUMENTS = (
    *("--max-total-tokens", str(TOKENS)),
    *("--chunked-prefill-size", str(TOKENS)),
    *("--max-running-requests", str(REQUESTS + 1)),
    "--disable-overlap-schedule",
)
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRuntime:
    """Implements Runtime. A model's server is started once a process. Raises InputError where there is no SGLang."""

    name: str = "server"

    def __post_init__(self) -> None:
        use_device()

    @property
    def capabilities(self) -> RuntimeCapabilities:
        return CAPABILITIES

    @property
    def lifecycle(self) -> LifecycleEngine:
        """Servers whose own loop, fed over HTTP, is watched."""
        return ServerEngine()

    def open(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> Session:
        check_pool(layout)
        packed = _packed(policy)
        server = attended(Asked.of(model, ARGUMENTS))
        number = next(_numbers)
        file = server.folder / f"pool-{number}"
        # the server has the model's tensors already
        sent = replace(model, tensors={})
        shared = server.link.call("open_session", number, sent, packed, layout, mode, file)
        return ServerSession(server.link, number, shared)


def _packed(policy: Any) -> bytes:
    """For the way into the server; raises InputError for a policy that cannot take it."""
    try:
        return pickle.dumps(policy)
    except Exception as error:
        expected = "one that pickle takes, since its passes run in the server's process"
        raise InputError("policy", where="runtime server", got=error, expected=expected) from error


class ServerSession:
    """Implements Session."""

    def __init__(self, link: Link, number: int, shared: SharedPool) -> None:
        self._link, self._number = link, number
        self._file: Path = shared.file
        self._kv = shared.tensors()

    @property
    def kv(self) -> Kv:
        return self._kv

    def step(self, plan: StepPlan, tape: TapePlan | None = None) -> StepResult:
        result: StepResult = self._link.call("step", self._number, plan, tape)
        return result

    def close(self) -> None:
        self._link.call("close_session", self._number)
        # what is mapped stays until nobody holds it
        self._file.unlink()
