"""A ModelRunner for a model folder, on one rank, across the ways in which SGLang's versions build one."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest import mock

from conformance.runtimes.sglang.arguments import server_arguments
from conformance.runtimes.sglang.garbage import tidied_before
from conformance.runtimes.sglang.process import prepare_groups, publish, quiet_engine
from conformance.runtimes.sglang.seat import TOKENS, Seat
from properties.runtime import Model
from vskipper.errors import InputError
from vskipper.sglang.config import VARIABLE, EngineConfig

# chunks in one pass; row 0 of the request table is left alone, newer versions pad graphs with it
REQUESTS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A runner that is ready for forward passes, and the server arguments that it was built from."""

    runner: Any
    arguments: Any


def build(model: Model, seat: Seat, *, plugin: bool = True) -> Built:
    """plugin: whether it is on. Raises InputError for a model without a folder, or one that vSkipper's model classes do
    not serve."""
    if model.directory is None:
        raise InputError("model folder", where=f"model {model.name}", got="none", expected="a Hugging Face folder")
    # the policy is a stand-in: each session sets its own for its passes
    config = EngineConfig(policy="static-depth", settings={"ratio": 0.0}, routed_layers=model.routed_layers)
    with mock.patch.dict(os.environ, config.environment()), quiet_engine(), tidied_before():
        if not plugin:
            os.environ.pop(VARIABLE)
        built = _build(model, seat)
    if not hasattr(built.runner.model, "vskipper"):
        got = type(built.runner.model).__module__
        raise InputError("model class", where=f"model {model.name}", got=got, expected="one of vSkipper's")
    return built


def _build(model: Model, seat: Seat) -> Built:
    arguments = _arguments(model, seat)
    port: int = import_module("sglang.srt.server_args").PortArgs.init_new(arguments).nccl_port
    publish(arguments)
    config = import_module("sglang.srt.configs.model_config").ModelConfig.from_server_args(arguments)
    prepare_groups(arguments, config, port, seat.device)
    runner_class = import_module("sglang.srt.model_executor.model_runner").ModelRunner
    runner = runner_class(
        model_config=config,
        mem_fraction_static=arguments.mem_fraction_static,
        gpu_id=0,
        nccl_port=port,
        server_args=arguments,
        **_ranks(inspect.signature(runner_class.__init__).parameters.keys()),
    )
    if getattr(runner, "token_to_kv_pool", None) is None:
        runner.alloc_memory_pool()
        runner.init_attention_backends()
        runner.init_cuda_graphs()
    return Built(runner=runner, arguments=arguments)


def _arguments(model: Model, seat: Seat) -> Any:
    return server_arguments(
        seat,
        model_path=str(model.directory),
        dtype=str(model.dtype).removeprefix("torch."),
        max_total_tokens=seat.tokens,
        chunked_prefill_size=TOKENS,
        max_running_requests=REQUESTS + 1,
        disable_overlap_schedule=True,
    )


def _ranks(parameters: Any) -> dict[str, Any]:
    """Where the runner stands among ranks: in one object, in numbers of its own, or in what was published."""
    if "ps" in parameters:
        state = import_module("sglang.srt.distributed.parallel_state_wrapper").ParallelState
        return {"ps": state.trivial(dp_rank=None, moe_dp_rank=None)}
    numbers = {"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "moe_ep_rank": 0, "moe_ep_size": 1}
    return {name: number for name, number in numbers.items() if name in parameters}
