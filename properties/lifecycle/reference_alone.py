"""The reference running one request alone: K, V and logits at every position, for given tokens and given routes.

What a position's row computes follows from the tokens and routes up to it alone, so that equal beginnings are computed
once, however many requests, cases and faults share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from properties.lifecycle.engine import Kv
from properties.property import Subject
from reference.action import RUN
from reference.sequence import Project, SequenceModel

# positions remembered in one dtype
POSITIONS = 1 << 14
# at each routed layer; None: the row runs as the dense model does
Actions = tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """kv: K and V of each layer, [positions, kv heads, head dim]. logits: [positions, vocab]."""

    kv: Kv
    logits: Tensor


class ReferenceAlone:
    """One model in one dtype. tensors: all of them, by name. project: the projector, None where it adds nothing."""

    def __init__(
        self, subject: Subject, dtype: torch.dtype, tensors: Mapping[str, Tensor], project: Project | None
    ) -> None:
        self._config, self._routed, self._dtype = subject.model.config, subject.model.routed_layers, dtype
        self._model = SequenceModel(self._config, tensors, self._routed, dtype=dtype, project=project)
        self._forget()

    def _forget(self) -> None:
        config = self._config
        shape = (POSITIONS, config.num_key_value_heads, config.head_dim)
        self._kv = tuple(
            (torch.zeros(shape, dtype=self._dtype), torch.zeros(shape, dtype=self._dtype))
            for _ in range(config.num_hidden_layers)
        )
        self._logits = torch.zeros(POSITIONS, config.vocab_size, dtype=self._dtype)
        self._places: dict[tuple[int, int, Actions], int] = {}

    def answer(self, tokens: Sequence[int], actions: Sequence[Actions]) -> Answer:
        """actions: one entry a token."""
        if len(self._places) + len(tokens) >= POSITIONS:
            self._forget()
        places, new = self._find(tokens, actions)
        if new < len(tokens):
            self._run(tokens, actions, places, new)
        return Answer(kv=self._read(places), logits=self._logits[places])

    def _find(self, tokens: Sequence[int], actions: Sequence[Actions]) -> tuple[list[int], int]:
        """Where each position is kept, and the first that is not computed yet."""
        places: list[int] = []
        new = len(tokens)
        for position, step in enumerate(zip(tokens, actions, strict=True)):
            key = (places[-1] if places else -1, *step)
            if key not in self._places:
                new = min(new, position)
                self._places[key] = len(self._places)
            places.append(self._places[key])
        return places, new

    def _run(self, tokens: Sequence[int], actions: Sequence[Actions], places: list[int], new: int) -> None:
        codes = [(RUN,) * len(self._routed) if each is None else each for each in actions[new:]]
        found = self._model.rows(self._read(places[:new]), tokens[new:], codes)
        for kept, computed in zip(self._kv, found.kv, strict=True):
            for tensor, values in zip(kept, computed, strict=True):
                tensor[places[new:]] = values
        self._logits[places[new:]] = found.logits

    def _read(self, places: list[int]) -> Kv:
        return tuple((k[places], v[places]) for k, v in self._kv)


def both(subject: Subject, weights: int, projector: str) -> tuple[ReferenceAlone, ReferenceAlone]:
    """R and T: in the model's dtype and in float64, with router and projector tensors times 1 + weights / 4."""
    key = (id(subject.model.tensors), weights, projector)
    if key not in _kept:
        same, truth = (_alone(subject, dtype, weights, projector) for dtype in (subject.model.dtype, torch.float64))
        _kept[key] = (subject.model.tensors, (same, truth))
    return _kept[key][1]


def _alone(subject: Subject, dtype: torch.dtype, weights: int, projector: str) -> ReferenceAlone:
    own = {n: t.detach().to(dtype, copy=True) for n, t in subject.model.tensors.items()}
    scaled = {n: t * (1 + weights / 4) if ".router" in n else t for n, t in own.items()}
    return ReferenceAlone(subject, dtype, scaled, projector_of(scaled) if projector == "checkpoint" else None)


def projector_of(tensors: Mapping[str, Tensor]) -> Project:
    """FlexiDepth's: down_proj is the ungated branch and leads to the bottleneck, up_proj out of it."""

    def project(layer: int, y: Tensor) -> Tensor:
        gate, inner, outer = (
            tensors[f"model.layers.{layer}.router_proj.{part}_proj.weight"] for part in ("gate", "down", "up")
        )
        return linear(silu(linear(y, gate)) * linear(y, inner), outer)

    return project


# the tensors are held so that their id stays theirs
_kept: dict[tuple[int, int, str], tuple[object, tuple[ReferenceAlone, ReferenceAlone]]] = {}
