"""The reference run twice over a case: T in float64, R in the dtype under test; remembered, since faults reuse cases.

The oracle keeps tensors of its own, made before the runtime opens: one that spoils its inputs cannot spoil these.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from properties.case import ScheduleCase
from properties.contexts import place_contexts
from properties.property import Subject
from properties.row_batch import batch_of
from reference import flexidepth
from reference.model import ReferenceModel, ReferenceResult
from reference.plan import PoolLayout
from reference.pool import PagedPool
from reference.routes import Decide

FLEXIDEPTH_NAMES = ("flexidepth", "fixture")
_REMEMBERED = 512
KEPT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass of one dtype. kv: K and V of each layer for the valid rows, [rows, kv heads, head dim], unscaled."""

    result: ReferenceResult
    kv: tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """truth: T, same: R, one Pass a step each."""

    truth: tuple[Pass, ...]
    same: tuple[Pass, ...]

    @property
    def places(self) -> set[int]:
        """Where the memory of its outputs begins."""
        outputs = (x for each in self.truth + self.same for x in (each.result.logits, each.result.hidden))
        return {x.untyped_storage().data_ptr() for x in outputs}


def flexidepth_like(subject: Subject) -> bool:
    """Whether the policy under test is FlexiDepth on this model's own router and projector tensors."""
    name = f"model.layers.{subject.model.routed_layers[0]}.router_proj.gate_proj.weight"
    return subject.policy_name.startswith(FLEXIDEPTH_NAMES) and name in subject.model.tensors


class Oracle:
    """The reference for one subject, in both dtypes."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.dtypes = (torch.float64, subject.model.dtype)
        self._models = {dtype: _Model(subject, dtype) for dtype in self.dtypes}
        self._answers: OrderedDict[object, Answer] = OrderedDict()
        self._places: set[int] = set()

    def answer(self, case: ScheduleCase, *, dense: bool | tuple[bool, ...] = False) -> Answer:
        """T and R of every pass under the case's tapes, or of the dense model in those passes, or in all."""
        key = (_without_padding(case), dense)
        if key not in self._answers:
            flags = dense if isinstance(dense, tuple) else (dense,) * len(case.steps)
            routes = [None if flag else tape for flag, tape in zip(flags, case.tapes or flags, strict=True)]
            truth, same = (self._walk(dtype, case, routes) for dtype in self.dtypes)
            self._answers[key] = Answer(truth=truth, same=same)
            self._places |= self._answers[key].places
            if len(self._answers) > _REMEMBERED:
                self._places -= self._answers.popitem(last=False)[1].places
        self._answers.move_to_end(key)
        return self._answers[key]

    def owns(self, tensor: Tensor) -> bool:
        """Whether the tensor lies in memory that holds one of the remembered answers."""
        return tensor.untyped_storage().data_ptr() in self._places

    def follow(self, case: ScheduleCase, actions: tuple[Tensor, ...], weights: tuple[Tensor | None, ...]) -> Answer:
        """T and R under routes that were recorded: each pass's actions and weights [routed layers, rows]."""
        routed = self.subject.model.routed_layers
        truth, same = (
            self._walk(dtype, case, [_replay(routed, *each, dtype) for each in zip(actions, weights, strict=True)])
            for dtype in self.dtypes
        )
        return Answer(truth=truth, same=same)

    def tensors(self, dtype: torch.dtype) -> Mapping[str, Tensor]:
        """The model's router and projector tensors, the oracle's own copies, in `dtype`."""
        return self._models[dtype].extra

    def _walk(self, dtype: torch.dtype, case: ScheduleCase, routes: list[Any]) -> tuple[Pass, ...]:
        model = self._models[dtype]
        layout = _truth_layout(case.layout) if dtype == torch.float64 else case.layout
        pool = PagedPool(self.subject.model.config, layout, dtype)
        passes = []
        for number, (plan, route) in enumerate(zip(case.steps, routes, strict=True)):
            place_contexts(pool.kv, case, layout, number)
            model.begin(plan)
            result = model.model.step(pool, plan, route)
            slots = [row.slot for row in case.rows(number)]
            passes.append(Pass(result=result, kv=tuple(pool.read(layer, slots) for layer in range(len(pool.kv)))))
        return tuple(passes)


class _Model:
    """A ReferenceModel with the subject's projector."""

    def __init__(self, subject: Subject, dtype: torch.dtype) -> None:
        # a copy even where the dtype is the same: the runtime may share the subject's memory, the oracle must not
        own = {name: tensor.detach().to(dtype, copy=True) for name, tensor in subject.model.tensors.items()}
        self.extra = {name: tensor for name, tensor in own.items() if ".router" in name}
        self._policy = None if flexidepth_like(subject) else subject.make_policy(dtype)
        self._project = getattr(self._policy, "project", None)
        self._has_projector = self._policy is None or self._project is not None
        self._state: Any = None
        config, layers = subject.model.config, subject.model.routed_layers
        self.model = ReferenceModel(config, own, layers, dtype=dtype, project=self.project)

    def begin(self, plan: Any) -> None:
        """Before a pass: the state that the policy's projector is given."""
        if self._policy is not None:
            self._state = self._policy.begin(batch_of(plan))

    def project(self, layer: int, y: Tensor) -> Tensor:
        if not self._has_projector:
            return torch.zeros_like(y)
        if self._project is None:
            return flexidepth.project(self.extra, layer, y)
        projected: Tensor = self._project(layer, y[None], self._state)[0]
        return projected


def _replay(routed: tuple[int, ...], actions: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Decide:
    lines = actions.tolist()
    scales = None if weights is None else weights.detach().cpu().to(dtype)

    def decide(layer: int, x: Tensor, /) -> tuple[Any, Tensor | None]:
        index = routed.index(layer)
        return lines[index], None if scales is None else scales[index]

    return decide


def _truth_layout(layout: PoolLayout) -> PoolLayout:
    return replace(layout, kv_dtype=None, k_scale=1.0, v_scale=1.0)


def _without_padding(case: ScheduleCase) -> ScheduleCase:
    return replace(case, steps=tuple(replace(step, padding=0, fill="zero") for step in case.steps))


_oracles: OrderedDict[tuple[int, int, torch.dtype], tuple[object, Oracle]] = OrderedDict()


def oracle_of(subject: Subject) -> Oracle:
    """The subject's oracle, made once for a model and policy; the KEPT most recent stay."""
    key = (id(subject.model.tensors), id(subject.make_policy), subject.model.dtype)
    if key not in _oracles:
        _oracles[key] = (subject.model.tensors, Oracle(subject))
        while len(_oracles) > KEPT:
            _oracles.popitem(last=False)
    _oracles.move_to_end(key)
    return _oracles[key][1]
