"""What the client of a real server makes of its answers, without one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from conformance.runtimes.sglang.server.client import Client
from conformance.runtimes.sglang.server.messages import Answer, Refused, Request, Summary
from conformance.runtimes.sglang.server.metrics import parse

SHARES = {"prefill": 0.25, "decode": None}
TOLD = {"prefill": "routed", "decode": "dense", "skipped_share": SHARES}
META = {"id": "a", "finish_reason": {"type": "length", "length": 2}, "cached_tokens": 3, "num_retractions": 1}
ABORT = {"type": "abort", "message": "policy p, hook route", "status_code": 500}
REQUEST = Request(tokens=(1, 2), outputs=2)


def raw(**meta: Any) -> dict[str, Any]:
    return {"output_ids": [5, 6], "meta_info": META | meta}


def test_an_answer_is_read_whole() -> None:
    logprobs = [[-1.5, 5, None], [-0.25, 6, None]]
    answer = Answer.read(raw(vskipper=[TOLD], output_token_logprobs=logprobs))
    assert (answer.tokens, answer.finish, answer.cached, answer.retractions) == ((5, 6), "length", 3, 1)
    assert answer.logprobs == (-1.5, -0.25)
    assert answer.summary == Summary(prefill="routed", decode="dense", prefill_share=0.25, decode_share=None)


def test_an_answer_without_the_plugin_has_no_summary() -> None:
    for meta in (raw(), raw(vskipper=[])):
        assert Answer.read(meta).summary is None


def test_older_versions_count_retractions_under_another_name() -> None:
    meta = {name: value for name, value in META.items() if name != "num_retractions"} | {"total_retractions": 4}
    assert Answer.read({"output_ids": [], "meta_info": meta}).retractions == 4


@pytest.mark.parametrize(
    "told",
    [
        [TOLD, TOLD],
        [TOLD | {"more": 1}],
        [TOLD | {"decode": "sparse"}],
        [TOLD | {"skipped_share": {"prefill": 0.25}}],
        TOLD,
    ],
)
def test_a_summary_is_exactly_as_documented(told: Any) -> None:
    with pytest.raises(ValueError, match="summary"):
        Summary.read(told)


def test_metrics_are_summed_over_labels() -> None:
    samples = parse(
        '# HELP a:b c\na:b_total{x="1",y="q\\"r"} 2.0\na:b_total{x="1",y="s"} 3.0\na:b_total{x="2",y="s"} 5\nup 1\n'
    )
    assert samples.total("a:b_total") == 10
    assert samples.total("a:b_total", x="1") == 5
    assert samples.total("a:b_total", x="1", y='q"r') == 2 or samples.total("a:b_total", x="1", y='q\\"r') == 2
    assert samples.total("absent") == 0
    assert samples.names() == {"a:b_total", "up"}
    with pytest.raises(ValueError, match="expected a sample"):
        parse("no sample at all\n")


class Handler(BaseHTTPRequestHandler):
    """Answers as the path says."""

    answers: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        status, content = self.answers.get(self.path, (404, b"{}"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def client() -> Iterator[Client]:
    Handler.answers = {}
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Client(port=server.server_port)
        server.shutdown()
        thread.join()


def events(*chunks: Any) -> bytes:
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return b"".join(lines) + b"data: [DONE]\n\n"


def test_an_error_of_the_server_is_told(client: Client) -> None:
    Handler.answers["/generate"] = (500, b'{"error": {"message": "hook route"}}')
    with pytest.raises(Refused, match="hook route") as told:
        client.generate(REQUEST)
    assert told.value.status == 500
    (refused,) = client.generate_all([REQUEST], at_once=2)
    assert isinstance(refused, Refused)


def test_a_stream_is_read_chunk_by_chunk(client: Client) -> None:
    Handler.answers["/generate"] = (200, events(raw(finish_reason=None, vskipper=[]), raw(vskipper=[TOLD])))
    first, last = client.stream(REQUEST)
    assert (first.finish, first.summary) == (None, None)
    assert last.summary is not None


@pytest.mark.parametrize("chunk", [raw(finish_reason=ABORT), {"error": ABORT}])
def test_a_stream_that_ends_in_an_error_is_refused(client: Client, chunk: Any) -> None:
    Handler.answers["/generate"] = (200, events(raw(finish_reason=None), chunk))
    with pytest.raises(Refused, match="policy p, hook route") as told:
        client.stream(REQUEST)
    assert told.value.status == 500


def test_the_configuration_is_found_under_its_older_name(client: Client) -> None:
    with pytest.raises(Refused, match="none of"):
        client.info()
    Handler.answers["/get_server_info"] = (200, b'{"version": 1}')
    assert client.info() == {"version": 1}


def test_health_is_a_status(client: Client) -> None:
    assert not client.healthy()
    Handler.answers["/health"] = (200, b"")
    assert client.healthy()
    assert not Client(port=1).healthy()
