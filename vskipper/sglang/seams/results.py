"""What a request's answer carries: its plan and skipped share in meta_info, or the error that ended it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

KEY = "vskipper"


class Summary(list[Any]):
    """What the engine sends as a request's own information. The engine cuts a list of one entry a token to the tokens
    it sends; this one yields a single entry, when the request has finished."""

    def __init__(self, request: Any) -> None:
        super().__init__()
        self._request = request

    def __getitem__(self, index: Any) -> Any:
        return [self._request.vskipper.summary()] if self._request.finished() else []


def attach(request: Any) -> None:
    """Have the request's answer carry its summary: meta_info["vskipper"] is a list of one object."""
    request.customized_info = {KEY: Summary(request)}


def abort(request: Any, message: str) -> None:
    """End the request with an error at the next step; the engine frees what it holds."""
    from sglang.srt.managers.schedule_batch import FINISH_ABORT

    request.to_finish = FINISH_ABORT(message, HTTPStatus.INTERNAL_SERVER_ERROR, "PolicyError")
