"""Outputs that are not there yet, as a GPU's are while its host runs ahead."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

# any that is not the host's, and that every torch has
DEVICE = "meta"


class Late(Tensor):
    """A tensor of another device: its values reach the host by a copy that waits. A copy that does not wait finds
    nothing there yet, and whoever asks for a value without a copy is told so. joined: whether the stream that copies
    waits for what computes; where it does not, a copy that waits finds nothing either."""

    values: Tensor
    joined: bool

    @staticmethod
    def __new__(cls, values: Tensor, joined: bool = True) -> Late:
        late: Late = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, values.shape, strides=values.stride(), dtype=values.dtype, device=DEVICE
        )
        late.values, late.joined = values, joined
        return late

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.values.untyped_storage()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        joined = all(each.joined for each in tree_leaves((args, named)) if isinstance(each, Late))
        if func is torch.ops.aten._to_copy.default and torch.device(named.get("device", DEVICE)).type == "cpu":
            there = joined and not named.get("non_blocking")
            return args[0].values.clone() if there else torch.zeros_like(args[0].values)
        named.pop("device", None)
        answer = func(*tree_map_only(Late, lambda late: late.values, args), **named)
        if not all(isinstance(each, Tensor) for each in tree_leaves(answer)):
            raise AssertionError(f"{func} asks for a value that is not there yet")
        return tree_map_only(Tensor, lambda tensor: Late(tensor, joined), answer)
