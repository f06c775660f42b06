"""Where the engine is tested on this GPU: attention backends with a dtype and a model each, and why one is left out."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import pytest
import torch

from conformance.runtime_names import CUDA
from conformance.runtimes.sglang.seat import check_backend
from conformance.subjects import SubjectSpec
from vskipper.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One way to run SGLang's ModelRunner and Scheduler."""

    backend: str
    dtype: str
    model: str

    @property
    def name(self) -> str:
        return f"{self.backend}-{self.dtype}-{self.model}"

    @property
    def spec(self) -> SubjectSpec:
        return SubjectSpec(runtime=CUDA, model=self.model, dtype=self.dtype, attention_backend=self.backend)

    def lacks(self) -> str | None:
        """Why nothing runs here, or None."""
        if find_spec("sglang") is None:
            return "SGLang is not installed"
        try:
            check_backend("cuda", self.backend, self.dtype)
        except InputError as error:
            return str(error)
        found = torch.cuda.get_device_capability()
        if self.dtype == "bfloat16" and not torch.cuda.is_bf16_supported():
            return f"bfloat16 on a GPU of capability {found[0]}.{found[1]}"
        return None

    def require(self) -> None:
        """Skip the test where nothing runs here."""
        lacking = self.lacks()
        if lacking is not None:
            pytest.skip(lacking)


# each backend with each model and each dtype, once
PLACES = tuple(
    Place(backend=backend, dtype=dtype, model=model)
    for backend in ("triton", "flashinfer", "fa3")
    for dtype, model in (("bfloat16", "small-llama"), ("float16", "small-qwen3"))
)
# one test each, those of a place in one process
PLACED = tuple(pytest.param(place, id=place.name, marks=pytest.mark.xdist_group(place.name)) for place in PLACES)
