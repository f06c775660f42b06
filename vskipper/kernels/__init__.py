"""Triton kernels of the routed path: on a GPU, or on a CPU in Triton's interpreter (TRITON_INTERPRET=1)."""

from vskipper.kernels.cohort import plan_cohorts
from vskipper.kernels.decode_attention import paged_decode
from vskipper.kernels.gemm import bounded_gemm
from vskipper.kernels.interpreter import interpreted
from vskipper.kernels.scatter import scatter_rows
from vskipper.kernels.silu_mul import silu_mul
from vskipper.kernels.swiglu import SwiGLUScratch, swiglu
from vskipper.kernels.tile import Tile, choose_tile

__all__ = [
    "SwiGLUScratch",
    "Tile",
    "bounded_gemm",
    "choose_tile",
    "interpreted",
    "paged_decode",
    "plan_cohorts",
    "scatter_rows",
    "silu_mul",
    "swiglu",
]
