"""What the makers of ops take care of, checked for ops that come from a file.

The functions of `tawny.numpy` give ops attributes that fit their operands: axes that exist, sizes
that are not negative, modes that are known; and they convert operands to a common dtype where a
kernel reads them as one.  Shape inference relies on it, and so does native code: what is accepted
here must be what a maker, or the optimiser, can make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast

from tawny import dtype as dt
from tawny.node import Variable
from tawny.op import Elementwise, Op, Type
from tawny.ops.bands import Bands
from tawny.ops.convolution import ConvolutionOp
from tawny.ops.creation import BroadcastTo, Cast, Copy, Linspace
from tawny.ops.delay import AlongAxis, Fold, MapElements, UserFunction
from tawny.ops.diagonal import Diagonal
from tawny.ops.differentiation import DerivativeMarker
from tawny.ops.factorisation import Lapack, Pinv, lapack_dtype
from tawny.ops.fft import NORMS, RealFFT, Transform
from tawny.ops.fusion import (
    FOLDS,
    Body,
    FusedConvolution,
    FusedMatmul,
    Group,
    ProductGroup,
    folded_axes,
    nonunit,
)
from tawny.ops.indexing import Gather, Slice
from tawny.ops.joining import Concat, Pad, Tile
from tawny.ops.linalg import LETTERS, Einsum, Matmul
from tawny.ops.movement import Reshape, Roll
from tawny.ops.pieces import GatherPieces
from tawny.ops.pooling import Pooling, Upsampling, UpsamplingGradient
from tawny.ops.random import Draw, Integers, Permutation
from tawny.ops.reduction import (
    Accumulation,
    Cumulative,
    LogSumExp,
    Reduction,
    Var,
)
from tawny.ops.scatter import COMBINE, Scatter
from tawny.ops.series import Correlate
from tawny.ops.sorting import BinCount
from tawny.shape import reduction_shape

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

BELOW: Final = {
    "dilation": 2**31,
    "padding": 2**31,
    "seed": 2**64,
    "stream": 2**64,
    "strides": 2**31,
    "transposed": 3,
}
"""What the integers in an attribute of this name are less than."""

CHOICES: Final = {"norm": NORMS}
"""What an attribute of this name may be."""

OPERANDS: Final = {"axes", "axis", "place", "ranges", "mode", "shifts", "subscripts"}
"""Attributes held against the operands, or against their own op's list."""

FREE: Final = {
    "always", "body", "complete", "correction", "descending", "dtype", "endpoint", "epilogue",
    "file", "format", "full", "function", "header", "include_initial", "inverse", "invert",
    "keepdims", "least", "lower", "name", "named", "offset", "pure", "right", "start", "step",
    "strict", "threshold", "transpose_a", "transpose_b", "unit", "upper",
}  # fmt: skip
"""Attributes that any value of their declared type fits."""


class MalformedError(ValueError):
    """What cannot be written or read, without its place in the graph or file."""


UNSAVED: Final = (Bands, DerivativeMarker)
"""Ops that no graph a user can save has: made while a program is compiled, or holding Python."""


def check_op(op: Op, types: Sequence[Type]) -> None:
    """Refuse an op that no maker gives operands of these types."""
    name = op.facts().name
    if isinstance(op, UNSAVED):
        raise MalformedError(f"op {name} is never in a file")
    _check_arity(op, len(types))
    if isinstance(op, Elementwise):
        return
    for field in op.fields:
        _check_numbers(name, field, getattr(op, field))
    for base in reversed(type(op).__mro__):
        for rule in RULES.get(base, ()):
            problem = rule(op, types)
            if problem:
                raise MalformedError(f"{name}: {problem}")


_MAX_INTEGER: Final = 2**63 - 1
_ANY_SIZE: Final = {"shape", "start", "step"}
"""Integers no machine word has to hold: those of a shape are held against the result's."""


def _check_numbers(name: str, field: str, value: Any) -> None:
    """Refuse integers that no op has in an attribute of this name."""
    word = None if field in _ANY_SIZE else _MAX_INTEGER
    least = AT_LEAST.get(field, None if word is None else -word)
    below = BELOW.get(field, word)
    for number in _integers(value):
        if least is not None and number < least:
            raise MalformedError(f"{name}: {field} is {value}; expected at least {least}")
        if below is not None and number >= below:
            raise MalformedError(f"{name}: {field} is {value}; expected less than {below}")
    if field in CHOICES and value not in CHOICES[field]:
        raise MalformedError(f"{name}: {field} is {value!r}; expected one of {CHOICES[field]}")


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
    elif isinstance(op, (FusedMatmul, FusedConvolution)):
        accepted = (2 + op.epilogue.arity,)
    elif isinstance(op, (Concat, Einsum)):
        accepted = range(1, max(count, 1) + 1)
    if accepted is not None and count not in accepted:
        words = " or ".join(map(str, accepted))
        raise MalformedError(f"{op.facts().name}: {count} operands came; expected {words}")


# ----------------------------------------------------------------------- rules

Rule = Callable[[Any, Sequence[Type]], str | None]
"""What is wrong with an op on operands of some types, in words; None if nothing is."""

RULES: Final[dict[type[Op], list[Rule]]] = {}
"""What holds for the ops of a class beside what their inference of shapes and dtypes asks for."""

R = TypeVar("R", bound=Rule)


def _rule_for(*kinds: type[Op]) -> Callable[[R], R]:
    """Declare a rule for the ops of some classes."""

    def declare(rule: R) -> R:
        for kind in kinds:
            RULES.setdefault(kind, []).append(rule)
        return rule

    return declare


@_rule_for(Op)
def _has_axes(op: Op, types: Sequence[Type]) -> str | None:
    """Axes are those of operand 0, each named once."""
    rank = len(types[0][0]) if types else 0
    axes: tuple[int, ...] | None = getattr(op, "axes", None)
    axis: int | None = getattr(op, "axis", None)
    named = (axis,) if axis is not None else () if axes is None else axes
    if len(set(named)) != len(named) or not all(0 <= a < rank for a in named):
        return f"axes are {named}; operand 0 has {rank}, each named at most once"
    place: int | None = getattr(op, "place", None)
    if place is not None and place > rank - len(named):
        return f"place is {place}; {rank - len(named)} axes are left"
    return None


@_rule_for(Variable)
def _is_named(op: Variable, _: Sequence[Type]) -> str | None:
    return None if op.name else "name is empty"


@_rule_for(Reduction, Gather, Scatter)
def _in_order(op: Reduction | Gather | Scatter, _: Sequence[Type]) -> str | None:
    return None if list(op.axes) == sorted(op.axes) else f"axes are {op.axes}; expected in order"


@_rule_for(Accumulation, Cumulative)
def _adds_in(op: Accumulation | Cumulative, types: Sequence[Type]) -> str | None:
    """Operands that adding in another dtype would change are converted first."""
    dtype = types[0][1]
    if dtype == op.dtype or dtype.kind in "biu":
        return None
    return f"dtype is {op.dtype}; operand 0 has {dtype} and must have the same"


@_rule_for(Var, LogSumExp)
def _computes_in(op: Var | LogSumExp, types: Sequence[Type]) -> str | None:
    wanted = dt.inexact_dtype(types[0][1])
    return None if op.dtype == wanted else f"dtype is {op.dtype}; expected {wanted}"


@_rule_for(Cast)
def _converts(op: Cast, types: Sequence[Type]) -> str | None:
    if types[0][1].kind == "c" and op.dtype.kind != "c":
        return "complex numbers have no value of its dtype"
    return None


@_rule_for(Linspace)
def _between_numbers(_: Linspace, types: Sequence[Type]) -> str | None:
    shapes = [shape for shape, _ in types]
    return f"operands have shapes {shapes}; they must have no axes" if any(shapes) else None


@_rule_for(Roll)
def _rolls_less_than_round(op: Roll, types: Sequence[Type]) -> str | None:
    shape = types[0][0]
    fits = len(op.shifts) == len(shape)
    if fits and all(0 <= s < max(n, 1) for s, n in zip(op.shifts, shape, strict=True)):
        return None
    return f"shifts are {op.shifts}; expected one for each axis of {shape}, from 0 below its size"


@_rule_for(Diagonal)
def _is_inside(op: Diagonal, types: Sequence[Type]) -> str | None:
    shape = types[0][0]
    if len(shape) < 2:
        return f"operand 0 has shape {shape}; it must have two axes"
    if not -shape[-2] <= op.offset <= shape[-1]:
        return f"offset is {op.offset}; expected {-shape[-2]} to {shape[-1]}"
    return None


@_rule_for(Slice, Scatter)
def _has_ranges(op: Slice | Scatter, types: Sequence[Type]) -> str | None:
    """Those of two elements and more are held against the axes as the shape is inferred."""
    if any(length < 0 or not step for _, length, step in op.ranges):
        return f"ranges are {op.ranges}; lengths from 0, steps not 0"
    for (start, length, step), n in zip(op.ranges, types[0][0], strict=False):
        if length < 2 and (abs(step) >= _MAX_LONE_STEP or not 0 <= start <= n):
            return f"ranges are {op.ranges}; operand 0 has shape {types[0][0]}"
    return None


_MAX_LONE_STEP: Final = 2**31
"""The bound of a step in a range of fewer than two elements, where no axis bounds it."""


@_rule_for(Tile)
def _repeats_each(op: Tile, types: Sequence[Type]) -> str | None:
    rank = len(types[0][0])
    if len(op.repetitions) != rank:
        return f"repetitions are {op.repetitions}; operand 0 has {rank} axes"
    return None


@_rule_for(Pad)
def _fills(op: Pad, types: Sequence[Type]) -> str | None:
    rank = len(types[0][0])
    if len(op.widths) != rank:
        return f"widths are {op.widths}; operand 0 has {rank} axes"
    return _dtype_mismatch(types)


def _dtype_mismatch(types: Sequence[Type]) -> str | None:
    """Operands of different dtypes, where their makers convert them."""
    first = types[0][1]
    for position, (_, dtype) in enumerate(types):
        if dtype != first:
            return f"operand {position} has dtype {dtype}; it must be that of operand 0, {first}"
    return None


@_rule_for(Transform)
def _has_points(op: Transform, _: Sequence[Type]) -> str | None:
    fits = len(op.sizes) == len(op.axes) and (op.axes or not isinstance(op, RealFFT))
    if not fits or min(op.sizes, default=1) < 1:
        return f"sizes are {op.sizes}; expected at least 1 for each axis"
    return None


@_rule_for(Matmul, FusedMatmul, ProductGroup, FusedConvolution)
def _multiplies_alike(_: Op, types: Sequence[Type]) -> str | None:
    return _dtype_mismatch(types[:2])


@_rule_for(Einsum)
def _contracts(op: Einsum, types: Sequence[Type]) -> str | None:
    if not _is_contraction(op.subscripts):
        return f"subscripts are {op.subscripts!r}; expected letters as they appear: 'ab,bc->ac'"
    return _dtype_mismatch(types)


_CONTRACTION: Final = re.compile(r"[a-zA-Z]*(,[a-zA-Z]*)*->([a-zA-Z]*)")


def _is_contraction(subscripts: str) -> bool:
    """Whether these are labels of operands in order, and of a result that occur in it once."""
    if _CONTRACTION.fullmatch(subscripts) is None:
        return False
    inputs, _, output = subscripts.partition("->")
    labels = "".join(dict.fromkeys(inputs.replace(",", "")))
    in_order = LETTERS.startswith(labels)
    return in_order and len(set(output)) == len(output) and set(output) <= set(labels)


@_rule_for(Correlate)
def _correlates(op: Correlate, types: Sequence[Type]) -> str | None:
    modes = ("full", "same", "valid")
    return (
        _dtype_mismatch(types)
        if op.mode in modes
        else f"mode is {op.mode!r}; expected one of {modes}"
    )


@_rule_for(Scatter)
def _scatters(op: Scatter, _: Sequence[Type]) -> str | None:
    modes = ("set", *COMBINE)
    return None if op.mode in modes else f"mode is {op.mode!r}; expected one of {modes}"


@_rule_for(Lapack)
def _is_lapacks(op: Lapack, types: Sequence[Type]) -> str | None:
    given = types[:1] if isinstance(op, Pinv) else types
    wanted = lapack_dtype(op.facts().name, tuple([dtype for _, dtype in given]))
    for position, (_, dtype) in enumerate(given):
        if dtype != wanted:
            return f"operand {position} has dtype {dtype}; it must be {wanted}"
    return None


@_rule_for(ConvolutionOp)
def _sweeps(op: ConvolutionOp, _: Sequence[Type]) -> str | None:
    rank = len(op.strides)
    if not 1 <= rank <= 3 or len(op.padding) != rank or len(op.dilation) != rank:
        return (
            f"strides are {op.strides}, padding {op.padding}, dilation {op.dilation}; expected "
            "one of each for each of 1 to 3 axes"
        )
    return None


@_rule_for(Pooling)
def _pools(op: Pooling, _: Sequence[Type]) -> str | None:
    rank = len(op.window)
    if not 1 <= rank <= 3 or len(op.padding) != rank or len(op.strides) != rank:
        return (
            f"window is {op.window}, strides {op.strides}, padding {op.padding}; expected one of "
            "each for each of 1 to 3 axes"
        )
    return None


@_rule_for(Upsampling, UpsamplingGradient)
def _scales(op: Upsampling | UpsamplingGradient, _: Sequence[Type]) -> str | None:
    if not 1 <= len(op.factors) <= 3:
        return f"factors are {op.factors}; expected one for each of 1 to 3 axes"
    return None


@_rule_for(Draw)
def _draws(op: Draw, _: Sequence[Type]) -> str | None:
    whole = isinstance(op, (Integers, Permutation))
    if op.dtype.kind not in ("iu" if whole else "f"):
        return f"dtype is {op.dtype}; expected a kind of number it draws"
    if not isinstance(op, Permutation):
        return None
    if len(op.shape) != 1 or op.shape[0] > op.population:
        return f"shape is {op.shape}; expected one axis, within {op.population}"
    return None if op.dtype == dt.INT64 else f"dtype is {op.dtype}; expected int64"


@_rule_for(UserFunction)
def _gives(op: UserFunction, types: Sequence[Type]) -> str | None:
    """The declared shape is what the function's way of being applied gives."""
    if op.function.it is None:
        return "function is missing"
    wanted = op.shape
    if isinstance(op, Fold):
        rank = len(types[0][0])
        axes = tuple(range(rank)) if op.axis is None else (op.axis,)
        wanted = reduction_shape(types[0][0], axes, False)
        if len(types) == 2 and types[1] != (wanted, op.dtype):
            return f"operand 1 must be {op.dtype}{list(wanted)}"
        if len(types) == 1 and 0 in [types[0][0][a] for a in axes]:
            return f"operand 0 has shape {types[0][0]}: no element to start from"
    elif isinstance(op, (MapElements, AlongAxis)):
        wanted = types[0][0]
    return None if op.shape == wanted else f"shape is {op.shape}; expected {wanted}"


# ---------------------------------------------------------------------- bodies


@_rule_for(Group)
def _is_one_kernel(op: Group, _: Sequence[Type]) -> str | None:
    return None if is_group(op.body) else f"{op.body!r} is no body of one kernel"


def is_group(body: Body) -> bool:
    """Whether a body is what grouping makes: pointwise steps and folds over one space.

    What spans the space has all its sizes, but for axes of size 1; what comes after a fold may have
    those that the folds leave; anything else is smaller, and is spread by a broadcast.
    """
    first, seen = len(body.operands), set(body.results)
    if len(seen) != len(body.results) or min(seen) < first:
        return False
    if any(0 in body.type_of(value)[0] for value in range(first + len(body.steps))):
        return False
    space = nonunit(body.space())
    spans = {space}
    for step in body.steps:
        given = body.type_of(step.inputs[0])[0] if step.inputs else ()
        if isinstance(step.op, FOLDS):
            if nonunit(given) != space:
                return False
            spans.add(nonunit(reduction_shape(given, folded_axes(step.op, given), True)))
        elif isinstance(step.op, Reshape):
            if nonunit(step.op.shape) != nonunit(given):
                return False
        elif not isinstance(step.op, (Elementwise, Cast, Copy, BroadcastTo)):
            return False
    return len(spans) <= 2 and all(nonunit(body.type_of(r)[0]) in spans for r in body.results)
