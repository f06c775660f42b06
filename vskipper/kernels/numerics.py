"""Device functions for what Triton's interpreter gets wrong; on a GPU each is the plain operation.

The interpreter multiplies the bit patterns of bfloat16, truncates where a GPU rounds to nearest, loses bfloat16
subnormals and the NaN of float8, and its matrix product rounds a row differently by the row's place in the block.
"""

from __future__ import annotations

import triton.language as tl

from vskipper.kernels.interpreter import device_function


@device_function
def widen(x: tl.tensor, INTERPRETED: tl.constexpr) -> tl.tensor:
    """To float32, exactly, from float32, float16, bfloat16, float8e4nv or float8e5."""
    if INTERPRETED and x.dtype == tl.bfloat16:
        result = (x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    elif INTERPRETED and x.dtype == tl.float8e5:
        # float8e5 is the upper half of a float16
        bits = x.to(tl.uint8, bitcast=True).to(tl.uint16)
        result = (bits << 8).to(tl.float16, bitcast=True).to(tl.float32)
    elif INTERPRETED and x.dtype == tl.float8e4nv:
        # moved into a float16's fields the value is 2**8 too small; all ones is NaN, there is no infinity
        bits = x.to(tl.uint8, bitcast=True).to(tl.uint16)
        half = ((bits & 0x80) << 8) | ((bits & 0x7F) << 7)
        value = half.to(tl.float16, bitcast=True).to(tl.float32) * 256.0
        result = tl.where((bits & 0x7F) == 0x7F, float("nan"), value)
    else:
        result = x.to(tl.float32)
    return result


@device_function
def narrow(x: tl.tensor, dtype: tl.constexpr, INTERPRETED: tl.constexpr) -> tl.tensor:
    """float32 to `dtype`, to nearest, ties to even."""
    if INTERPRETED and dtype == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        result = tl.where(x == x, rounded, 0x7FC0).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        result = x.to(dtype)
    return result


@device_function
def dot_rows(x: tl.tensor, y: tl.tensor, acc: tl.tensor, INTERPRETED: tl.constexpr) -> tl.tensor:
    """acc + x @ y in float32, x [m, k], y [k, n]; a row's bits do not depend on its place among the m."""
    if INTERPRETED:
        # numpy takes a stack of vector-matrix products one by one, each alike; y is repeated as a view, not in memory
        stack = tl.broadcast_to(widen(y, INTERPRETED)[None, :, :], [x.shape[0], y.shape[0], y.shape[1]])
        result = acc + tl.reshape(tl.dot(widen(x, INTERPRETED)[:, None, :], stack), acc.shape)
    else:
        result = tl.dot(x, y, acc, input_precision="ieee")
    return result
