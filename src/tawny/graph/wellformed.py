"""What the makers of ops take care of, checked for ops that come from a file.

The functions of `tawny.numpy` give ops attributes that fit their operands: axes that exist, sizes
that are not negative, modes that are known.  Shape inference relies on it, and so do kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, cast

from tawny.node import Variable
from tawny.op import Elementwise, Op, Type
from tawny.ops.creation import Cast
from tawny.ops.delay import AlongAxis, Fold, MapElements, UserFunction
from tawny.ops.fft import RealFFT, Transform
from tawny.ops.indexing import Gather, Slice
from tawny.ops.joining import Concat
from tawny.ops.linalg import Einsum
from tawny.ops.pieces import GatherPieces
from tawny.ops.random import Draw, Integers, Permutation
from tawny.ops.reduction import Accumulation, Reduction, Scan
from tawny.ops.scatter import Scatter
from tawny.ops.series import Correlate
from tawny.ops.sorting import BinCount
from tawny.shape import Shape, reduced

AT_LEAST: Final = {
    "columns": 0,
    "count": 0,
    "dilation": 1,
    "factors": 1,
    "groups": 1,
    "height": 1,
    "index": 0,
    "length": 0,
    "max_columns": 0,
    "max_rows": 0,
    "padding": 0,
    "pieces": 1,
    "place": 0,
    "population": 0,
    "repeats": 0,
    "repetitions": 0,
    "rows": 0,
    "seed": 0,
    "shape": 0,
    "sizes": 0,
    "stream": 0,
    "strides": 1,
    "widths": 0,
    "window": 1,
}
"""The least integer in an attribute of this name, whatever its op."""

BELOW: Final = {"seed": 2**64, "stream": 2**64, "transposed": 3}
"""What the integers in an attribute of this name are less than."""

CHOICES: Final = {
    "norm": ("backward", "ortho", "forward"),
}
"""What an attribute of this name may be."""

OPERANDS: Final = {"axes", "axis", "place", "ranges", "mode", "shifts", "subscripts"}
"""Attributes held against the operands, or against their own op's list."""

FREE: Final = {
    "body", "complete", "correction", "descending", "dtype", "endpoint", "epilogue", "file",
    "format", "full", "function", "header", "include_initial", "inverse", "invert", "keepdims",
    "least", "lower", "name", "named", "offset", "pure", "right", "start", "step", "strict",
    "threshold", "transpose_a", "transpose_b", "unit", "upper",
}  # fmt: skip
"""Attributes that any value of their declared type fits."""


class MalformedError(ValueError):
    """What cannot be written or read, without its place in the graph or file."""


def check(op: Op, types: Sequence[Type]) -> None:
    """Refuse an op whose attributes do not fit operands of these types."""
    name = op.facts().name
    _check_arity(op, len(types))
    if isinstance(op, Elementwise):
        return
    for field in op.fields:
        value = getattr(op, field)
        for number in _integers(value):
            if number < AT_LEAST.get(field, number):
                raise MalformedError(
                    f"{name}: {field} is {value}; expected at least {AT_LEAST[field]}"
                )
            if number >= BELOW.get(field, number + 1):
                raise MalformedError(
                    f"{name}: {field} is {value}; expected less than {BELOW[field]}"
                )
        if field in CHOICES and value not in CHOICES[field]:
            raise MalformedError(f"{name}: {field} is {value!r}; expected one of {CHOICES[field]}")
    _check_own(op, types)


def _integers(value: object) -> Iterator[int]:
    """The integers in a number or nested tuple."""
    if isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            yield from _integers(item)
    elif type(value) is int:
        yield value


def _check_arity(op: Op, count: int) -> None:
    arity = op.facts().arity
    accepted: Sequence[int] | None = None if arity is None else (arity,)
    if isinstance(op, Gather):
        accepted = (1 + len(op.axes),)
    elif isinstance(op, Scatter):
        accepted = (2 + len(op.axes),)
    elif isinstance(op, GatherPieces):
        accepted = (op.pieces + 1,)
    elif isinstance(op, (Fold, BinCount)):
        accepted = (1, 2)
    elif isinstance(op, (Concat, Einsum)):
        accepted = range(1, max(count, 1) + 1)
    if accepted is not None and count not in accepted:
        words = " or ".join(map(str, accepted))
        raise MalformedError(f"{op.facts().name}: {count} operands came; expected {words}")


def _check_own(op: Op, types: Sequence[Type]) -> None:
    name = op.facts().name
    _check_axes(op, types[0][0] if types else ())
    if isinstance(op, (Slice, Scatter)) and any(n < 0 or not step for _, n, step in op.ranges):
        raise MalformedError(f"{name}: ranges are {op.ranges}; lengths from 0, steps not 0")
    to = op.dtype.kind if isinstance(op, (Accumulation, Scan, Cast)) else "c"
    if to != "c" and types[0][1].kind == "c":
        raise MalformedError(f"{name}: complex numbers have no value of its dtype")
    if isinstance(op, Transform) and (min(op.sizes, default=1) < 1 or not _has_last(op)):
        raise MalformedError(f"{name}: sizes are {op.sizes}; expected at least 1 for each axis")
    if isinstance(op, Einsum) and not _is_contraction(op.subscripts):
        raise MalformedError(
            f"{name}: subscripts are {op.subscripts!r}; expected letters: 'ab,bc->ac'"
        )
    if isinstance(op, (Scatter, Correlate)) and op.mode not in MODES[type(op)]:
        raise MalformedError(f"{name}: mode is {op.mode!r}; expected one of {MODES[type(op)]}")
    if isinstance(op, Variable) and not op.name:
        raise MalformedError(f"{name}: name is empty")
    if isinstance(op, Draw):
        _check_draw(op)
    if isinstance(op, UserFunction):
        _check_declared(op, types)


MODES: Final[dict[type[Op], tuple[str, ...]]] = {
    Scatter: ("set", "add", "mul", "min", "max"),
    Correlate: ("full", "same", "valid"),
}


def _check_axes(op: Op, shape: Shape) -> None:
    """Axes are those of operand 0, each named once; a transform may go over one again."""
    name, rank = op.facts().name, len(shape)
    axes: tuple[int, ...] | None = getattr(op, "axes", None)
    axis: int | None = getattr(op, "axis", None)
    named = (axis,) if axis is not None else () if axes is None else axes
    twice = len(set(named)) != len(named) and not isinstance(op, Transform)
    if twice or not all(0 <= a < rank for a in named):
        raise MalformedError(
            f"{name}: axes are {named}; operand 0 has {rank}, each named at most once"
        )
    if isinstance(op, Reduction) and list(named) != sorted(named):
        raise MalformedError(f"{name}: axes are {named}; expected them in order")
    place: int | None = getattr(op, "place", None)
    if place is not None and place > rank - len(named):
        raise MalformedError(f"{name}: place is {place}; {rank - len(named)} axes are left")
    shifts: tuple[int, ...] | None = getattr(op, "shifts", None)
    if shifts is not None and len(shifts) != rank:
        raise MalformedError(f"{name}: shifts are {shifts}; operand 0 has {rank} axes")


def _has_last(op: Transform) -> bool:
    return bool(op.axes) or not isinstance(op, RealFFT)


_CONTRACTION: Final = re.compile(r"[a-zA-Z]*(,[a-zA-Z]*)*->([a-zA-Z]*)")


def _is_contraction(subscripts: str) -> bool:
    """Whether these are labels of operands, and labels of a result that occur in it once."""
    match = _CONTRACTION.fullmatch(subscripts)
    if match is None:
        return False
    inputs, _, output = subscripts.partition("->")
    return len(set(output)) == len(output) and set(output) <= set(inputs)


def _check_draw(op: Draw) -> None:
    whole = isinstance(op, (Integers, Permutation))
    name = op.facts().name
    if op.dtype.kind not in ("iu" if whole else "f"):
        raise MalformedError(f"{name}: dtype is {op.dtype}; expected a kind of number it draws")
    if isinstance(op, Permutation) and (len(op.shape) != 1 or op.shape[0] > op.population):
        raise MalformedError(
            f"{name}: shape is {op.shape}; expected one axis, within {op.population}"
        )


def _check_declared(op: UserFunction, types: Sequence[Type]) -> None:
    """The declared shape is what the function's way of being applied gives."""
    name = op.facts().name
    if op.function.it is None:
        raise MalformedError(f"{name}: function is missing")
    wanted = op.shape
    if isinstance(op, Fold):
        rank = len(types[0][0])
        axes = tuple(range(rank)) if op.axis is None else (op.axis,)
        wanted = reduced(types[0][0], axes, False)
        if len(types) == 2 and types[1] != (wanted, op.dtype):
            raise MalformedError(f"{name}: operand 1 must be {op.dtype}{list(wanted)}")
    elif isinstance(op, (MapElements, AlongAxis)):
        wanted = types[0][0]
    if op.shape != wanted:
        raise MalformedError(f"{name}: shape is {op.shape}; expected {wanted}")
