"""A client of a server on this machine, in the standard library: no proxy, no retry, and every error is told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from conformance.runtimes.sglang.ports import HOST
from conformance.runtimes.sglang.server.messages import Answer, Refused, Request
from conformance.runtimes.sglang.server.metrics import Samples, parse

# an answer that is not there by then never comes
PATIENCE: Final = 300.0
# the newer name first
INFO: Final = ("/server_info", "/get_server_info")
EVENT: Final = b"data: "
DONE: Final = b"[DONE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Each call opens a connection of its own, so that a client may be used by many threads."""

    port: int
    patience: float = PATIENCE

    def generate(self, request: Request) -> Answer:
        """Raises Refused for an answer that is an error."""
        return Answer.read(json.loads(self._ask("POST", "/generate", request.body(stream=False))))

    def generate_all(self, requests: Sequence[Request], *, at_once: int) -> list[Answer | Refused]:
        """Answers in the order of the requests, of which `at_once` are under way at any time."""

        def ask(request: Request) -> Answer | Refused:
            try:
                return self.generate(request)
            except Refused as error:
                return error

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(ask, requests))

    def stream(self, request: Request) -> tuple[Answer, ...]:
        """One answer a chunk, each with all tokens so far; raises Refused where the stream ends in an error."""
        chunks = [json.loads(event) for event in self._events("/generate", request.body(stream=True))]
        for chunk in chunks:
            told = chunk["error"] if "error" in chunk else chunk["meta_info"]["finish_reason"] or {}
            if "error" in chunk or told.get("type") == "abort":
                raise Refused(told.get("status_code"), told.get("message", str(told)))
        return tuple(Answer.read(chunk) for chunk in chunks)

    def healthy(self) -> bool:
        """Whether the server has started and warmed up."""
        try:
            self._ask("GET", "/health")
        except (OSError, HTTPException, Refused):
            return False
        return True

    def info(self) -> dict[str, Any]:
        """What the server says of its configuration."""
        for path in INFO:
            try:
                answer: dict[str, Any] = json.loads(self._ask("GET", path))
            except Refused as error:
                if error.status != 404:
                    raise
            else:
                return answer
        raise Refused(404, f"none of {', '.join(INFO)}")

    def metrics(self) -> Samples:
        """Of its Prometheus endpoint."""
        # the answer is a redirect without the slash
        return parse(self._ask("GET", "/metrics/").decode())

    def abort(self, name: str) -> None:
        """Give the request of that name up."""
        self._ask("POST", "/abort_request", {"rid": name})

    def flush_cache(self) -> None:
        """Empty the prefix cache; raises Refused where the server is not idle."""
        self._ask("POST", "/flush_cache")

    def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        with closing(HTTPConnection(HOST, self.port, timeout=self.patience)) as connection:
            answer = self._send(connection, method, path, body)
            return answer

    def _send(self, connection: HTTPConnection, method: str, path: str, body: Any) -> bytes:
        connection.request(method, path, None if body is None else json.dumps(body), _headers(body))
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise Refused(answer.status, content.decode(errors="replace"))
        return content

    def _events(self, path: str, body: Any) -> Iterator[bytes]:
        content = self._ask("POST", path, body)
        for line in content.splitlines():
            if line.startswith(EVENT) and line != EVENT + DONE:
                yield line.removeprefix(EVENT)


def _headers(body: Any) -> dict[str, str]:
    return {} if body is None else {"Content-Type": "application/json"}
