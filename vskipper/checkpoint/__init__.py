"""Checkpoints from disk: read, checked by name and shape, never executed. Whatever does not fit is one InputError."""

from __future__ import annotations

from vskipper.checkpoint.config import ModelSpec
from vskipper.checkpoint.open import Checkpoint, open_checkpoint, policy_context

__all__ = ["Checkpoint", "ModelSpec", "open_checkpoint", "policy_context"]
