"""Times of the cohort plan and the count-bounded GEMM on a GPU: `python -m gpu_tests.measure_kernels OUT.json`.

A time is the median over replays of one captured graph of many launches, divided by their number, in microseconds: it
holds what a launch costs inside a graph, and nothing of the host.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from gpu_tests.graphs import capture
from gpu_tests.measured import output_path
from properties.kernels.judge import make_span, normals, shuffled
from vskipper.cohort import empty_plan
from vskipper.kernels.cohort import plan_cohorts
from vskipper.kernels.gemm import bounded_gemm
from vskipper.kernels.interpreter import kernel
from vskipper.kernels.tile import choose_tile

LAUNCHES, REPLAYS = 64, 15
# weights are read from memory, as a model's are: together they are several times the 60 MB of an H200's L2
WEIGHT_BYTES = 2**28
CAPACITIES = (8, 64, 256, 1024)
FILLS = (0, 50, 100)
# Llama-3-8B: N, K, and whether the rows are gathered from their places (else scattered to them)
GEMMS = {
    "gate-up": (28672, 4096, True),
    "down": (4096, 14336, False),
    "projector gate-up": (1792, 4096, True),
    "projector down": (4096, 896, False),
}

Times = dict[str, float | int | str | None]


@kernel()
def _nothing_kernel(out: tl.tensor) -> None:
    return


def median_us(variants: Sequence[Callable[[], object]]) -> float:
    """Microseconds of one call of a variant; they take turns."""
    turns = -(-LAUNCHES // len(variants))

    def steps() -> None:
        for _ in range(turns):
            for variant in variants:
                variant()

    graph = capture(steps)
    # torch does not annotate the event's constructor
    event = cast(Callable[..., Any], torch.cuda.Event)
    events = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(REPLAYS)]
    for _ in range(3):
        graph.replay()
    for begin, end in events:
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    times: list[float] = [begin.elapsed_time(end) for begin, end in events]
    return 1000 * statistics.median(times) / (turns * len(variants))


def empty_launches(device: torch.device) -> list[Times]:
    """A kernel that returns at once, by its number of programs."""
    out, times = torch.empty(16, device=device), list[Times]()
    for programs in (1, 132, 448, 2048):
        times.append({"programs": programs, "us": median_us([partial(_nothing_kernel.launch, (programs,), out)])})
    return times


def plans(device: torch.device) -> list[Times]:
    """Every action alike often, one row in eight padding."""
    times: list[Times] = []
    for rows in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        order = torch.tensor(shuffled(rows, rows), device=device)
        actions, valid, plan = (order % 4).to(torch.uint8), order % 8 != 7, empty_plan(rows, device)
        times.append({"rows": rows, "us": median_us([partial(plan_cohorts, actions, valid, plan)])})
    return times


def gemms(device: torch.device) -> list[Times]:
    """bounded_gemm at its capacity beside F.linear over just the rows that count."""
    times: list[Times] = []
    for name, (n, k, gather) in GEMMS.items():
        copies = max(2, -(-WEIGHT_BYTES // (2 * n * k)))
        weights = [normals((n, k), seed, torch.bfloat16, device) / 64 for seed in range(copies)]
        for capacity in CAPACITIES:
            times += [gemm(name, weights, capacity, capacity * fill // 100, gather, device) for fill in FILLS]
    return times


def gemm(
    name: str, weights: list[torch.Tensor], capacity: int, count: int, gather: bool, device: torch.device
) -> Times:
    """One line: a span of `count` rows."""
    n, k = weights[0].shape
    a = normals((capacity, k), capacity, torch.bfloat16, device)
    out = torch.empty(capacity, n, dtype=torch.bfloat16, device=device)
    span = make_span(shuffled(capacity, 0), 0, count, device)
    tile = choose_tile(n, k, capacity, torch.bfloat16)
    bounded = [partial(bounded_gemm, a, weight, span, out, gather=gather, scatter=not gather) for weight in weights]
    library = [partial(F.linear, a[:count], weight) for weight in weights]
    return {
        "gemm": name,
        "capacity": capacity,
        "count": count,
        "programs": triton.cdiv(capacity, tile.block_m) * triton.cdiv(n, tile.block_n),
        "bounded_us": median_us(bounded),
        "cublas_us": median_us(library) if count else None,
    }


def main() -> None:
    path = output_path()
    device = torch.device("cuda", torch.cuda.current_device())
    measured = {"empty": empty_launches(device), "plan": plans(device), "gemm": gemms(device)}
    versions = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    path.write_text(json.dumps({**versions, **measured}, indent=1) + "\n")
    for lines in measured.values():
        for line in lines:
            print(*(f"{value:.2f}" if isinstance(value, float) else value for value in line.values()), sep="\t")


if __name__ == "__main__":
    main()
