"""What a case leaves a GPU as, and a GPU that falls behind its host."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

import torch
from torch import Tensor

# bytes of each guard, and what they hold
GUARD: Final = 1 << 20
MARK: Final = 0xA5
GUARDS: Final = 4
# cycles by which passes are held up, in turn; the longest is a millisecond
DELAYS: Final = (0, 100_000, 0, 2_000_000)
# about 50 milliseconds, in which the host prepares several passes
HOLD: Final = 100_000_000
_guards: list[Tensor] = []


def check_gpu_state(device: Any) -> None:
    """Wait for the GPU; nothing on another device. Raises RuntimeError where an error was queued, where a capture, a
    stream or a watch for waits is left over, or where something was written beside the tensors that were handed
    out."""
    if not _is_gpu(device):
        return
    torch.cuda.synchronize()
    for what, holds in (
        ("a capture goes on", not torch.cuda.is_current_stream_capturing()),
        ("another stream is the current one", torch.cuda.current_stream() == torch.cuda.default_stream()),
        ("host waits are still watched for", torch.cuda.get_sync_debug_mode() == 0),
        ("memory of nobody was written", all(bool((guard == MARK).all()) for guard in _guards)),
    ):
        if not holds:
            raise RuntimeError(f"the GPU after a case: {what}")
    if not _guards:
        _guards.extend(torch.full((GUARD,), MARK, dtype=torch.uint8, device="cuda") for _ in range(GUARDS))


def fall_behind(device: Any, number: int, stream: Any = None) -> None:
    """Queue a delay before pass `number` on a GPU, on the current stream or on `stream`: what the host does meanwhile
    must not reach into the pass."""
    if not _is_gpu(device):
        return
    with nullcontext() if stream is None else torch.cuda.stream(stream):
        torch.cuda._sleep(DELAYS[number % len(DELAYS)])  # type: ignore[no-untyped-call]


def hold_up(device: Any) -> None:
    """Queue so long a delay on a GPU that the host has prepared a few passes before the first of them runs."""
    if _is_gpu(device):
        torch.cuda._sleep(HOLD)  # type: ignore[no-untyped-call]


def _is_gpu(device: Any) -> bool:
    return torch.device(device).type == "cuda"
