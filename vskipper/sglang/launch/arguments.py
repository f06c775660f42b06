"""The few of SGLang's arguments that have to be known outside of it; all others are SGLang's to read and to refuse."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from vskipper.errors import InputError
from vskipper.sglang.config import read_object


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArguments:
    """Those of a command line, or SGLang's defaults. attention_backend: None where none is named."""

    host: str
    port: int
    api_key: str | None
    secure: bool
    on_cpu: bool
    page_size: int
    attention_backend: str | None
    overrides: str | None

    @classmethod
    def read(cls, arguments: Sequence[str]) -> ServerArguments:
        """Raises InputError for a value that is none, and for what leaves no address to ask for the configuration."""
        given, _ = _parser().parse_known_args(list(arguments))
        for name in ("config", "grpc_mode", "smg_grpc_mode"):
            if getattr(given, name):
                expected = "the file's entries as arguments" if name == "config" else "the HTTP server"
                raise InputError("not served", where="--" + name.replace("_", "-"), got="given", expected=expected)
        if given.json_model_override_args is not None:
            read_object(given.json_model_override_args, "--json-model-override-args", "the model's overrides")
        if given.model_path is not None:
            raise InputError("model", where="--model-path", got=given.model_path, expected="MODEL, given once")
        if given.nnodes > 1:
            expected = "1; several nodes: VSKIPPER_CONFIG and python -m sglang.launch_server on each"
            raise InputError("not served", where="--nnodes", got=given.nnodes, expected=expected)
        return cls(
            host=given.host,
            port=given.port,
            api_key=given.api_key,
            secure=given.ssl_certfile is not None,
            on_cpu=given.device is not None and given.device.partition(":")[0] == "cpu",
            page_size=given.page_size,
            attention_backend=given.attention_backend,
            overrides=given.json_model_override_args,
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError("SGLang's arguments", where="vskipper serve", got=message, expected="what SGLang accepts")


def _parser() -> _Parser:
    """Abbreviations count, as they do in SGLang's own parser."""
    parser = _Parser(add_help=False)
    parser.add_argument("--model-path", "--model")
    parser.add_argument("--json-model-override-args")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--api-key")
    parser.add_argument("--ssl-certfile")
    parser.add_argument("--device")
    parser.add_argument("--page-size", type=int, default=1)
    parser.add_argument("--attention-backend")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--config")
    parser.add_argument("--grpc-mode", action="store_true")
    parser.add_argument("--smg-grpc-mode", action="store_true")
    return parser
