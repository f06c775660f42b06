"""Faults of the key under which the prefix cache files a request: clauses CACHE-1, CACHE-2 and CACHE-3."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from torch import Tensor

from conformance.faults.lifecycle.make import lifecycle_fault
from vskipper.sglang.request import RequestPlan


def _lacks(*names: str) -> Any:
    """The digest of what decides routed rows, without some of it."""

    def patch(original: Any) -> Any:
        def broken(identity: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
            kept = {name: value for name, value in identity.items() if name not in names}
            return str(original(kept, {} if "weights" in names else tensors))

        return broken

    return patch


def _user_key_alone(original: Any) -> Any:
    """Routed requests are filed as dense ones are."""
    return lambda user_key, routes: user_key


def _concatenated(original: Any) -> Any:
    """The parts are joined as they are, so that a user's own key can read as another's."""
    return lambda user_key, routes: (user_key or "") + routes


def _without_user_key(original: Any) -> Any:
    return lambda user_key, routes: original(None, routes)


def _follows_decode(original: Any) -> Any:
    """The namespace of the decode mode."""

    def broken(self: Any, plan: RequestPlan, user_key: str | None) -> Any:
        return original(self, RequestPlan(prefill=plan.decode, decode=plan.decode), user_key)

    return broken


def _nothing(original: Any) -> Any:
    return lambda *arguments: None


def _one_private_key(original: Any) -> Any:
    return lambda user_key, name: original(user_key, "0")


def _private_as_routed(original: Any) -> Any:
    """A policy that looks beyond the tokens is filed by its digest all the same."""

    def broken(self: Any, user_key: str | None) -> Any:
        return f"vskipper:routed:{self._served.routes}"

    return broken


def _by_user(original: Any) -> Any:
    """What is private is kept apart by the user's key alone."""
    return lambda user_key, name: original(user_key, user_key or "none")


_numbers = count()
DIGEST = "vskipper.sglang.policy:digest"
ROUTED_KEY = "vskipper.sglang.namespace:routed_key"
PRIVATE_KEY = "vskipper.sglang.namespace:private_key"
QUIET = ("life.slots", "mode.fixed")
FAULTS = (
    lifecycle_fault(
        id="namespace-lacks-settings",
        title="the namespace names the policy but not its settings",
        source="vllm#27211",
        seam=DIGEST,
        patch=_lacks("settings"),
        killer="cache.isolated",
        reason="foreign_prefix",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="namespace-lacks-weights",
        title="the namespace leaves out router and projector tensors",
        source="vllm#3264",
        seam=DIGEST,
        patch=_lacks("weights"),
        killer="cache.isolated",
        reason="foreign_prefix",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="namespace-of-a-name",
        title="the namespace is the policy's name",
        source="vllm#30931",
        seam=DIGEST,
        patch=_lacks("settings", "weights", "routed_layers", "gate_mode"),
        killer="cache.isolated",
        reason="foreign_prefix",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="namespace-lacks-mode",
        title="routed prefixes are filed as dense ones",
        source="arXiv:2609.37062, its fork of SGLang",
        seam=ROUTED_KEY,
        patch=_user_key_alone,
        killer="cache.isolated",
        reason="foreign_prefix",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="namespace-concatenated",
        title="user key and digest are joined without their lengths",
        source="sglang#24638",
        seam=ROUTED_KEY,
        patch=_concatenated,
        killer="cache.isolated",
        reason="foreign_prefix",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="namespace-lacks-user-key",
        title="routed requests of all users are filed together",
        source="vllm#44701",
        seam=ROUTED_KEY,
        patch=_without_user_key,
        killer="cache.isolated",
        reason="foreign_prefix",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="namespace-follows-decode",
        title="the namespace is that of the decode mode",
        source="mixed bodies of one request",
        seam="vskipper.sglang.process:Serving._key",
        patch=_follows_decode,
        killer="cache.isolated",
        reason="foreign_prefix",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="second-mode-inserted",
        title="tokens decoded in another mode are inserted behind the prompt",
        source="sglang#39342",
        seam="vskipper.sglang.seams.cache:keep_private",
        patch=_nothing,
        killer="cache.shared",
        reason="second_mode_shared",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="routed-never-shared",
        title="every routed request is filed alone",
        source="a namespace by request id",
        seam=ROUTED_KEY,
        patch=lambda original: lambda user_key, routes: f"vskipper:{next(_numbers)}",
        killer="cache.shared",
        reason="not_shared",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="private-key-reused",
        title="all private requests have one key",
        source="vllm#3263",
        seam=PRIVATE_KEY,
        patch=_one_private_key,
        killer="cache.private",
        reason="shared_between_requests",
        quiet=("life.slots", "cache.isolated"),
    ),
    lifecycle_fault(
        id="private-key-by-user",
        title="requests of one user share what only one of them computed so",
        source="vllm#44701",
        seam=PRIVATE_KEY,
        patch=_by_user,
        killer="cache.private",
        reason="shared_between_requests",
        quiet=("life.slots", "cache.isolated"),
    ),
    lifecycle_fault(
        id="private-ignored",
        title="a policy that looks beyond the tokens shares by its digest",
        source="hidden inputs of a cached prefix",
        seam="vskipper.sglang.process:Serving._private",
        patch=_private_as_routed,
        killer="cache.private",
        reason="shared_between_requests",
        quiet=("life.slots", "cache.isolated"),
    ),
)
