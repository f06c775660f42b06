"""What the tokenizer process would send to the scheduler."""

from __future__ import annotations

import inspect
from array import array
from importlib import import_module
from typing import Any

from properties.lifecycle.engine import Abort, Command


def message(command: Command) -> Any:
    """The engine's own message for it."""
    io = import_module("sglang.srt.managers.io_struct")
    if isinstance(command, Abort):
        return io.AbortReq(rid=command.name)
    # a request that ignores the end token is admitted with all its slots set aside, and never retracted
    sampling = import_module("sglang.srt.sampling.sampling_params").SamplingParams(
        temperature=0, max_new_tokens=command.outputs, ignore_eos=False
    )
    sampling.normalize(None)
    wanted = {
        "rid": command.name,
        "input_text": "",
        "input_ids": _ids(io, command.tokens),
        "input_embeds": None,
        "mm_inputs": None,
        "token_type_ids": None,
        "sampling_params": sampling,
        "return_logprob": command.logprobs,
        "logprob_start_len": -1,
        "top_logprobs_num": 0,
        "token_ids_logprob": None,
        "stream": False,
        "extra_key": command.user_key,
    }
    known = inspect.signature(io.TokenizedGenerateReqInput).parameters
    return io.TokenizedGenerateReqInput(**{name: value for name, value in wanted.items() if name in known})


def _ids(io: Any, tokens: tuple[int, ...]) -> Any:
    """In the container that this version's message declares."""
    declared = str(io.TokenizedGenerateReqInput.__annotations__["input_ids"])
    return array("q", tokens) if "array" in declared else list(tokens)
