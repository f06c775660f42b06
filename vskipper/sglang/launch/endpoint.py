"""A server's address: whether it answers, and whether the plugin runs in its schedulers as it was asked to."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from vskipper.errors import InputError
from vskipper.sglang.config import EngineConfig, parse
from vskipper.sglang.launch.arguments import ServerArguments

KEY: Final = "vskipper"
# the same answer under an older and a newer name
INFO: Final = ("/server_info", "/get_server_info")
# a wildcard is no address to connect to
WILDCARDS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
SHORT: Final = 5.0
LONG: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a server with these arguments listens."""

    arguments: ServerArguments

    @property
    def url(self) -> str:
        """For clients on this machine."""
        host = WILDCARDS.get(self.arguments.host, self.arguments.host)
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.arguments.secure else 'http'}://{host}:{self.arguments.port}"

    def check_free(self) -> None:
        """Raises InputError where the address is taken: another server would answer in this one's place."""
        host, port = self.arguments.host, self.arguments.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            with closing(socket.create_server((host, port), family=family)):
                pass
        except (OSError, OverflowError) as error:
            expected = "a free port of this machine"
            raise InputError("no address", where=f"{host}:{port}", got=error, expected=expected) from error

    def healthy(self) -> bool:
        """Whether the server has started and warmed up."""
        try:
            self._get("/health", SHORT)
        except (OSError, ValueError):
            return False
        return True

    def confirm(self, config: EngineConfig) -> None:
        """Raises InputError unless every scheduler answers that the plugin runs in it, with `config`."""
        try:
            states = self._server_info().get("internal_states") or []
        except (OSError, ValueError) as error:
            raise InputError("no answer", where=self.url, got=error, expected="the server's configuration") from error
        answers = [state[KEY] for state in states if isinstance(state.get(KEY), dict)]
        if not answers or len(answers) < len(states):
            expected = "the plugin in every scheduler; the server's log says why it was not loaded"
            raise InputError("the plugin does not run", where=self.url, got=f"no {KEY!r}", expected=expected)
        for answer in answers:
            running = parse(json.dumps(answer.get("config")), self.url)
            if running != config:
                raise InputError(
                    "another configuration runs", where=self.url, got=running.to_json(), expected=config.to_json()
                )

    def _server_info(self) -> dict[str, Any]:
        for path in INFO[:-1]:
            try:
                return self._json(path)
            except HTTPError as error:
                if error.code != 404:
                    raise
        return self._json(INFO[-1])

    def _json(self, path: str) -> dict[str, Any]:
        answer = json.loads(self._get(path, LONG))
        if not isinstance(answer, dict):
            raise ValueError(f"{path} is no object")
        return answer

    def _get(self, path: str, seconds: float) -> bytes:
        headers = {"Authorization": f"Bearer {self.arguments.api_key}"} if self.arguments.api_key else {}
        with _opener().open(Request(self.url + path, headers=headers), timeout=seconds) as answer:
            content: bytes = answer.read()
        return content


@cache
def _opener() -> OpenerDirector:
    """To the server on this machine, whatever its certificate is for and whatever proxy leads elsewhere."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return build_opener(ProxyHandler({}), HTTPSHandler(context=context))
