"""Arrays that are computed from the numbers of their places: `arange`, `linspace`, `eye`.

Each element has the bits that NumPy gives it.  Nothing is contracted: a product is rounded before
it is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.llvm.ir.builder import Function, Value
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.numbers import Number, Pair, constant, real, round_to_dtype
from tawny.op import Op
from tawny.ops.creation import Arange, Eye, Linspace
from tawny.shape import Shape, size

Source = Arange | Linspace | Eye

COUNTER: Final = -1
"""Stands for an operand: the numbers of places along an axis."""

LONG: Final = 2**31 - 1
"""Elements from which they are counted in 64 bits instead of 32."""


def index_dtype(space: Shape) -> DType:
    """In which dtype the places of a space are counted."""
    return dt.INT32 if size(space) < LONG else dt.INT64


def is_source_supported(op: Source, given: Sequence[DType]) -> bool:
    """Whether code can be generated for a source whose operands have these dtypes."""
    if isinstance(op, Arange):
        return kind_of(op.dtype) in "iufc" and op.length > 1
    if isinstance(op, Linspace):
        return kind_of(op.dtype) in "iuf" and op.length > 1 and kind_of(_inner(given)) == "f"
    return op.rows > 1 and op.columns > 1


def canonical_source(op: Op) -> Op:
    """The op as far as code depends on it: the length of an `arange` is that of the loop."""
    return Arange(op.start, op.step, 2, op.dtype) if isinstance(op, Arange) else op


def emit_source(
    f: Function, op: Source, dtypes: Sequence[DType], given: Sequence[Number]
) -> Number:
    """The elements at places that come first among the numbers given."""
    index = real(given[0])
    if isinstance(op, Arange):
        return _arange(f, op, index, dtypes[0])
    if isinstance(op, Linspace):
        return _linspace(f, op, index, dtypes, given[1:])
    lanes = index.type.lanes
    offset = min(max(op.offset, -op.rows), op.columns)  # further away there is no diagonal either
    other = real(given[1]) - _wrapping_constant(f, dtypes[0], offset, lanes)
    return cast(f, index.equals(other), dt.BOOL, op.dtype)


def _wrapping_constant(f: Function, dtype: DType, number: int, lanes: int) -> Value:
    """An integer in every lane, wrapped to the dtype where it does not fit."""
    bits = 8 * dtype.itemsize
    wrapped = (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return real(constant(f, dtype, wrapped, lanes))


# ---------------------------------------------------------------------- arange


def _arange(f: Function, op: Arange, index: Value, kind: DType) -> Number:
    """`first + i * (second - first)`, in float32 for float16; the first two are themselves."""
    part = dt.real_dtype(op.dtype)
    wide = dt.accumulation_dtype(part)
    with np.errstate(all="ignore"):
        both = _as_dtype(np.real(np.array(op.leading(), op.dtype)), part)
        first, second = _as_dtype(both[:1], wide), _as_dtype(both[1:], wide)
        gap = second - first
        formula = _as_dtype(first + _as_dtype(np.arange(2), wide) * gap, part)
    lanes, number = index.type.lanes, real(cast(f, index, kind, wide))
    if kind_of(part) == "f":
        begin, step = (real(constant(f, wide, float(v[0]), lanes)) for v in (first, gap))
        value = round_to_dtype(f, part, begin + number * step)
    else:
        begin, step = (_wrapping_constant(f, wide, int(v[0]), lanes) for v in (first, gap))
        value = begin + number * step
    for place in (0, 1):
        itself, made = both[place : place + 1], formula[place : place + 1]
        if itself.tobytes() != made.tobytes():
            chosen = f.constant(value.type, itself.item())
            value = f.select(index.equals(place), chosen, value)
    return Pair(value, value.of(0.0)) if op.dtype.kind == "c" else value


def _as_dtype(numbers: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """Numbers as another dtype."""
    return numbers.astype(dtype)


# -------------------------------------------------------------------- linspace


def _inner(given: Sequence[DType]) -> DType:
    """The dtype that NumPy computes evenly spaced numbers in."""
    common = dt.weak_dtype(float, dt.promote(*given))
    return dt.FLOAT32 if dt.is_bfloat16(common) else common


def _linspace(
    f: Function, op: Linspace, index: Value, dtypes: Sequence[DType], ends: Sequence[Number]
) -> Number:
    """`i * ((stop - start) / gaps) + start`; the last is `stop`, if it belongs to them.

    Where the step is too small for a number other than 0, `i / gaps` is multiplied.
    """
    inner, lanes = _inner(dtypes[1:]), index.type.lanes
    start, stop = (real(cast(f, n, d, inner)) for n, d in zip(ends, dtypes[1:], strict=True))
    gaps = real(constant(f, inner, op.length - op.endpoint, lanes))
    number = real(cast(f, index, dtypes[0], inner))

    def near(value: Value) -> Value:
        return round_to_dtype(f, inner, value)

    whole = near(stop - start)
    step = near(whole / gaps)
    none = step.equals(0.0)
    (rise,) = f.either(
        f.lane(none, 0) if lanes else none,
        lambda: [near(near(number / gaps) * whole)],
        lambda: [near(number * step)],
    )
    value = near(rise + start)
    if op.endpoint:
        value = f.select(index.equals(op.length - 1), stop, value)
    if op.dtype.kind in "iu":
        value = f.intrinsic("floor", value.type, value)
    return cast(f, value, inner, op.dtype)
