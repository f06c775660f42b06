"""What a client says to the server and what it hears."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Mode = Literal["dense", "routed"]
# what versions call the number of times that a request's KV was taken
RETRACTIONS = ("num_retractions", "total_retractions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A greedy request for `outputs` tokens. name: its id, None for one of the server's choice. may_end: fewer tokens
    where the model ends the text; the engine then lets in more requests than it has KV for. user_key: what its user
    asks the engine to keep it apart by."""

    tokens: tuple[int, ...]
    outputs: int
    name: str | None = None
    logprobs: bool = False
    may_end: bool = False
    user_key: str | None = None

    def body(self, *, stream: bool) -> dict[str, Any]:
        """For /generate."""
        body: dict[str, Any] = {
            "input_ids": list(self.tokens),
            "sampling_params": {"temperature": 0, "max_new_tokens": self.outputs, "ignore_eos": not self.may_end},
            "return_logprob": self.logprobs,
            "stream": stream,
        }
        named = {"rid": self.name, "extra_key": self.user_key}
        return body | {key: value for key, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What an answer says of its request's plan. The shares are of PROJECT_ONLY pairs among the phase's pairs of row
    and routed layer, None where no row of the phase ran routed."""

    prefill: Mode
    decode: Mode
    prefill_share: float | None
    decode_share: float | None

    @classmethod
    def read(cls, told: Any) -> Summary:
        """Of meta_info["vskipper"]; raises ValueError unless it is exactly what the documentation says."""
        known = {"prefill", "decode", "skipped_share"}
        if not isinstance(told, list) or len(told) != 1 or set(told[0]) != known:
            raise ValueError(f"summary: got {told!r}, expected a list of one object with {', '.join(sorted(known))}")
        entry = told[0]
        shares = entry["skipped_share"]
        if {entry["prefill"], entry["decode"]} - set(get_args(Mode)) or set(shares) != {"prefill", "decode"}:
            raise ValueError(f"summary: got {entry!r}, expected modes {get_args(Mode)} and a share of each phase")
        return cls(
            prefill=entry["prefill"],
            decode=entry["decode"],
            prefill_share=shares["prefill"],
            decode_share=shares["decode"],
        )

    @property
    def plan(self) -> tuple[Mode, Mode]:
        return self.prefill, self.decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """tokens: of the output. finish: the reason. summary: None where the answer carries none. cached: prompt tokens
    from the prefix cache. retractions: how often its KV was taken. logprobs: of `tokens`, empty unless asked for. meta:
    all of meta_info."""

    tokens: tuple[int, ...]
    finish: str | None
    summary: Summary | None
    cached: int
    retractions: int
    logprobs: tuple[float, ...]
    meta: Mapping[str, Any]

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Answer:
        """One object of /generate."""
        meta = raw["meta_info"]
        told = meta.get("vskipper")
        finish = meta["finish_reason"]
        return cls(
            tokens=tuple(raw["output_ids"]),
            finish=None if finish is None else finish["type"],
            # of a stream, every chunk but the last carries an empty list
            summary=Summary.read(told) if told else None,
            cached=meta["cached_tokens"],
            retractions=next(meta[name] for name in RETRACTIONS if name in meta),
            logprobs=tuple(value for value, *_ in meta.get("output_token_logprobs") or ()),
            meta=meta,
        )


class Refused(Exception):
    """The server answered with an error. status: of HTTP, also for one inside a stream; None where it has none."""

    def __init__(self, status: int | None, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(f"{status}: {message}")
