"""`vskipper serve`: SGLang's own server with a skip policy in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from vskipper.cli.settings import parse_settings
from vskipper.cli.values import MOST_SEED, filled, filled_path, policy_name, whole
from vskipper.errors import InputError

# everything that this command does not know is the server's
SERVER_ARGUMENTS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
MOST_LAYERS: Final = 10_000


def serve(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            callback=filled,
            help="What SGLang takes, or smollm2, or one of {tiny,small}-{llama,qwen3}.",
        ),
    ],
    policy: Annotated[
        str | None, typer.Option(metavar="POLICY", callback=policy_name, help="A name, or package.module:Class.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; repeatable.")
    ] = None,
    delta: Annotated[
        str | None, typer.Option(metavar="FILE", callback=filled, help="Router and projector tensors for the model.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", callback=filled, help="dense, routed or by-request.  [default: routed]"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=str, callback=whole(0, MOST_SEED), help="Seed of mode by-request.  [default: 0]"
        ),
    ] = None,
    routed_layers: Annotated[
        str | None, typer.Option(metavar="LAYERS", callback=filled, help="Where the policy decides, as 16-31 or 4,6,8.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=str,
            callback=filled_path,
            help="The same as JSON; beside it, an option may add but not differ.",
        ),
    ] = None,
) -> int:
    """Serve MODEL with a policy; every other argument is SGLang's, as `python -m sglang.launch_server` takes it.

    Says that it is ready once each scheduler has answered with the policy it runs. Exit code: the server's, 2 on bad
    input and where the policy does not run.
    """
    from vskipper.sglang.launch.arguments import ServerArguments
    from vskipper.sglang.launch.command import check_device, check_model, server_command, server_environment
    from vskipper.sglang.launch.config import engine_config
    from vskipper.sglang.launch.endpoint import Endpoint
    from vskipper.sglang.launch.policy import check_policy
    from vskipper.sglang.launch.process import run_server
    from vskipper.sglang.launch.typed import refuse_typed

    if model.startswith("-"):
        raise InputError("model", where="vskipper serve", got=model, expected="MODEL before SGLang's arguments")
    check_model(model)
    arguments = ServerArguments.read(context.args)
    refuse_typed(context.args)
    options = {"policy": policy, "delta": delta, "mode": mode, "seed": seed, "routed_layers": _layers(routed_layers)}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if settings:
        given["settings"] = parse_settings(settings)
    asked = engine_config(model, given, config)
    endpoint = Endpoint(arguments=arguments)
    environment = server_environment(asked, context.args)
    endpoint.check_free()
    check_device(arguments)
    check_policy(asked, model, arguments.overrides)

    def ready() -> None:
        endpoint.confirm(asked)
        print(f"vskipper: ready on {endpoint.url}, policy {asked.policy}, mode {asked.mode}", flush=True)

    return run_server(server_command(model, context.args), environment, endpoint.healthy, ready)


def _layers(text: str | None) -> list[int] | None:
    """`16-18,20` to [16, 17, 18, 20]."""
    if text is None:
        return None
    layers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        numbers = first.isdecimal() and (last.isdecimal() or not dash)
        if not (numbers and int(first) <= int(last or first) < MOST_LAYERS):
            raise InputError("routed layers", where="--routed-layers", got=text, expected="numbers, as 16-31 or 4,6,8")
        layers.extend(range(int(first), int(last or first) + 1))
    return layers
