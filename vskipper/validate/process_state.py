"""What all of the process shares (clause POL-2): modes and defaults of torch, which no hook may change, and generators
of random numbers, which a hook may draw from and not set."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """starts: what it is before each of two passes, unlike where it can be: what is set to the value that is there
    already goes unseen."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    starts: tuple[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Generator:
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    seed: Callable[[int], object]


def _set_default_device(device: torch.device) -> None:
    # none at all where it is the CPU: the mode that torch installs for one costs every call
    torch.set_default_device(None if device.type == "cpu" else device)


_SETTINGS = (
    _Setting(name="grad mode", read=torch.is_grad_enabled, write=torch.set_grad_enabled, starts=(False, True)),
    _Setting(
        name="default dtype",
        read=torch.get_default_dtype,
        write=torch.set_default_dtype,
        starts=(torch.float32, torch.float32),
    ),
    _Setting(
        name="default device",
        read=torch.get_default_device,
        write=_set_default_device,
        starts=(torch.device("cpu"), torch.device("cpu")),
    ),
    _Setting(name="number of threads", read=torch.get_num_threads, write=torch.set_num_threads, starts=(2, 1)),
    _Setting(
        name="deterministic algorithms",
        read=torch.are_deterministic_algorithms_enabled,
        write=torch.use_deterministic_algorithms,
        starts=(False, False),
    ),
)


def _generators() -> Iterator[_Generator]:
    yield _Generator(
        name="torch's random numbers", read=torch.get_rng_state, write=torch.set_rng_state, seed=torch.manual_seed
    )
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        cuda = torch.cuda
        yield _Generator(
            name="the GPU's random numbers", read=cuda.get_rng_state, write=cuda.set_rng_state, seed=cuda.manual_seed
        )
    yield _Generator(name="Python's random numbers", read=random.getstate, write=random.setstate, seed=random.seed)
    # nothing has drawn from what nothing has imported
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        draws = numpy.random
        yield _Generator(name="numpy's random numbers", read=draws.get_state, write=draws.set_state, seed=draws.seed)


@contextmanager
def kept_process() -> Iterator[None]:
    """Whatever happens inside is undone."""
    kept: list[_Setting | _Generator] = [*_SETTINGS, *_generators()]
    before = [each.read() for each in kept]
    try:
        yield
    finally:
        for each, value in zip(kept, before, strict=True):
            each.write(value)


def start_pass(number: int) -> None:
    """Before pass 0 or 1: settings at known values, generators in a state of that pass."""
    for setting in _SETTINGS:
        setting.write(setting.starts[number])
    for generator in _generators():
        generator.seed(number + 1)


def settings() -> Mapping[str, object]:
    """What they are, by name."""
    return {setting.name: setting.read() for setting in _SETTINGS}


def generators() -> Mapping[str, object]:
    """Their states, by name."""
    return {generator.name: repr(_plain(generator.read())) for generator in _generators()}


def _plain(state: Any) -> Any:
    return [_plain(part) for part in state] if isinstance(state, tuple) else getattr(state, "tolist", lambda: state)()
