"""`vskipper policies`: what can be named on the command line, and what each promises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vskipper.errors import InputError

if TYPE_CHECKING:
    from vskipper.policy import PolicyCapabilities, PolicyContext


def policies(as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False) -> int:
    """List the policies. A registered one that is broken is listed with its reason."""
    from rich.console import Console
    from rich.table import Table

    listed = list_policies()
    if as_json:
        print(json.dumps(listed, indent=2))
        return 0
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("policy", "from", "actions", "promises"):
        table.add_column(name, overflow="fold")
    for entry in listed:
        told = f"broken: {entry['broken']}" if entry["broken"] else ", ".join(entry["promises"])
        table.add_row(entry["name"], entry["origin"], ", ".join(entry["actions"]), told)
    Console(highlight=False, markup=False).print(table)
    return 0


def list_policies() -> list[dict[str, Any]]:
    """name, target, origin, actions, phases, gate_modes, promises, and `broken`: why it cannot be used, or None."""
    from importlib.metadata import entry_points

    from vskipper.registry.lookup import BUILT_IN, GROUP, Registry, load_policy

    registry, context = Registry(), tiny_context()
    named = [(name, target, "vskipper") for name, target in BUILT_IN.items()]
    named += [(e.name, e.value, e.dist.name if e.dist else "an entry point") for e in entry_points(group=GROUP)]
    listed = []
    for name, target, origin in named:
        try:
            registry.register(name, target, origin)
            told = _told(load_policy(target, context).capabilities)
        except InputError as error:
            told = {"actions": [], "phases": [], "gate_modes": [], "promises": [], "broken": str(error)}
        listed.append({"name": name, "target": target, "origin": origin, **told})
    return sorted(listed, key=lambda entry: str(entry["name"]))


def tiny_context() -> PolicyContext:
    """What the policies are made on to be asked for their capabilities: a tiny model."""
    import torch

    from vskipper.checkpoint.open import open_checkpoint, policy_context
    from vskipper.models import default_delta, default_routed_layers, resolve

    model = "tiny-llama"
    checkpoint = open_checkpoint(resolve(model), default_delta(model))
    routed = checkpoint.routed_layers or default_routed_layers(model, checkpoint.spec)
    return policy_context(checkpoint, dtype=torch.float32, routed_layers=routed)


def _told(capabilities: PolicyCapabilities) -> dict[str, Any]:
    promises = ("deterministic", "batch_invariant", "chunk_invariant", "prefix_determined", "tolerates_dense_prefix")
    needs = ("needs_router", "needs_projector")
    return {
        "actions": sorted((action.name for action in capabilities.actions), reverse=True),
        "phases": sorted(phase.name.lower() for phase in capabilities.phases),
        "gate_modes": sorted(mode.value for mode in capabilities.gate_modes),
        "promises": [name for name in (*promises, *needs) if getattr(capabilities, name)],
        "broken": None,
    }
