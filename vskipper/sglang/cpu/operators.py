"""The operators of torchvision whose compiled part was built for another torch: their schemas alone, so that the
package imports. Calling one fails as it would without them."""

from __future__ import annotations

from typing import Final

# torchvision registers shape functions for its operators there, and fails where the operators are missing
ASKS_FOR_THEM: Final = "torchvision._meta_registrations"
_LIBRARY: Final = "torchvision"
_BOX_FILTERS: Final = ("nms", "qnms")
_SCHEMA: Final = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def define_missing() -> None:
    """Define what torchvision's own library, which is loaded before that module, did not."""
    import torch

    for name in _BOX_FILTERS:
        if not hasattr(getattr(torch.ops, _LIBRARY), name):
            torch.library.define(f"{_LIBRARY}::{name}", _SCHEMA)
