"""Scalar expressions at a dtype: what an elementwise op does to its elements, as IR.

The numbers are those of the reference engine: the same bits for arithmetic, comparisons and
integers, a few units in the last place for mathematical functions.  What is not generated
(`is_supported` says so) is left to NumPy:

- complex powers, sign, tangents, and inverse trigonometric and hyperbolic functions;
- Dawson's integral;
- powers of signed integers, which must refuse negative exponents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.llvm.ir.builder import Function, Value
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.complexes import COMPLEXES
from tawny.engine.llvm.scalar.integers import BOOLEANS, INTEGERS
from tawny.engine.llvm.scalar.numbers import Number, Pair, constant, real, round_to_dtype, truth
from tawny.engine.llvm.scalar.reals import REALS
from tawny.op import Elementwise
from tawny.scalar import Arg, Const, Expr, Prim, PrimCall

COMPARISONS: Final = frozenset({Prim.EQ, Prim.NE, Prim.LT, Prim.LE, Prim.GT, Prim.GE})
LOGIC: Final = frozenset({Prim.AND, Prim.OR, Prim.XOR, Prim.NOT})
TRUTH: Final = COMPARISONS | LOGIC | {Prim.SIGNBIT, Prim.ISNAN, Prim.ISINF, Prim.ISFINITE}
"""Primitives whose result is a truth value."""

REAL_PART: Final = frozenset({Prim.ABS, Prim.REAL, Prim.IMAG})
"""Primitives that make a complex number real."""


# -------------------------------------------------------------------- support


@lru_cache(1024)
def is_supported(op: Elementwise, dtypes: tuple[DType, ...]) -> bool:
    """Whether code can be generated for an op on operands of these dtypes."""
    loop = loop_dtype(op, dtypes)
    return all(_has_rule(call.prim, loop) for call in calls_of(op.scalar))


def calls_of(expr: Expr) -> list[PrimCall]:
    """The calls of primitives in an expression, each once."""
    found, stack = dict[PrimCall, None](), [expr]
    while stack:
        part = stack.pop()
        if isinstance(part, PrimCall) and part not in found:
            found[part] = None
            stack.extend(part.args)
    return list(found)


def _has_rule(prim: Prim, dtype: DType) -> bool:
    """Whether a primitive is generated at a dtype."""
    if prim in LOGIC or prim is Prim.SELECT or (prim is Prim.DIV and dtype.kind in "biu"):
        return True
    match kind_of(dtype):
        case "f":
            return prim in REALS
        case "c":
            return prim in COMPLEXES
        case "b":
            return prim in BOOLEANS
        case "i":
            return prim in INTEGERS and prim is not Prim.POW
        case _:
            return prim in INTEGERS


def loop_dtype(op: Elementwise, dtypes: Sequence[DType]) -> DType:
    """The dtype an op computes in."""
    return op.info.dtype.computes_in(op.info.name, dtypes)


# ----------------------------------------------------------------- generation


def emit_op(
    f: Function, op: Elementwise, dtypes: tuple[DType, ...], numbers: Sequence[Number]
) -> Number:
    """An op's result, in the dtype it infers, for operands of these dtypes."""
    expr, loop = op.scalar, loop_dtype(op, dtypes)
    if isinstance(expr, PrimCall) and expr.prim in COMPARISONS and kind_of(loop) == "f":
        exact = _exact_comparison(f, expr.prim, dtypes, numbers)
        if exact is not None:
            return exact
    ignored = op.info.dtype.ignores
    operands = [
        (n, d) if i < ignored else (cast(f, n, d, loop), loop)
        for i, (n, d) in enumerate(zip(numbers, dtypes, strict=True))
    ]
    lanes = _lanes(numbers[0])
    number, dtype = _Evaluation(f, operands, loop, lanes).value(expr)
    return cast(f, number, dtype, op.infer_dtype(*dtypes))


def _lanes(number: Number) -> int:
    part = number.real if isinstance(number, Pair) else number
    return part.type.lanes


Typed = tuple[Number, DType]


class _Evaluation:
    """One expression on given operands; common subexpressions are left to LLVM."""

    def __init__(self, f: Function, operands: Sequence[Typed], loop: DType, lanes: int) -> None:
        self.f = f
        self.operands = operands
        self.loop = loop
        self.lanes = lanes

    def value(self, expr: Expr, beside: DType | None = None) -> Typed:
        """The number of an expression; literals take the dtype `beside`."""
        match expr:
            case Arg(position):
                return self.operands[position]
            case Const(number):
                dtype = beside or self.loop
                return constant(self.f, dtype, number, self.lanes), dtype
            case PrimCall(prim, args):
                return self._call(prim, args)

    def _call(self, prim: Prim, args: tuple[Expr, ...]) -> Typed:
        f = self.f
        if prim is Prim.SELECT:
            condition, *choices = args
            number, dtype = self.value(condition)
            (yes, no), common = self._common(choices)
            return select(f, truth(dtype, number), yes, no), common
        numbers, common = self._common(args)
        if prim in LOGIC:
            return _logic(prim, [truth(common, n) for n in numbers]), dt.BOOL
        if prim is Prim.DIV and common.kind in "biu":
            numbers, common = [cast(f, n, common, dt.FLOAT64) for n in numbers], dt.FLOAT64
        return primitive(f, prim, common, numbers)

    def _common(self, args: Sequence[Expr]) -> tuple[list[Number], DType]:
        """Arguments in their common dtype; a literal is weak beside the others."""
        given = {i: self.value(a) for i, a in enumerate(args) if not isinstance(a, Const)}
        common = dt.promote(*[d for _, d in given.values()]) if given else self.loop
        for literal in args:
            if isinstance(literal, Const):
                common = dt.promote(common, dt.weak_dtype(type(literal.value), common))
        numbers = [
            cast(self.f, *given[i], common) if i in given else self.value(a, common)[0]
            for i, a in enumerate(args)
        ]
        return numbers, common


def primitive(f: Function, prim: Prim, dtype: DType, numbers: Sequence[Number]) -> Typed:
    """A primitive of numbers of one dtype, and the dtype of its result."""
    kind = dt.BOOL if prim in TRUTH else dtype
    if dtype.kind == "c":
        number = COMPLEXES[prim](f, *numbers)
        return number, (dt.real_dtype(dtype) if prim in REAL_PART else kind)
    values = [real(n) for n in numbers]
    if kind_of(dtype) == "f":
        return round_to_dtype(f, dtype, REALS[prim](f, dtype, *values)), kind
    table = BOOLEANS if dtype.kind == "b" else INTEGERS
    return table[prim](f, dtype, *values), kind


def select(f: Function, condition: Value, yes: Number, no: Number) -> Number:
    """`yes` where the condition holds, else `no`."""
    if isinstance(yes, Pair) and isinstance(no, Pair):
        return Pair(f.select(condition, yes.real, no.real), f.select(condition, yes.imag, no.imag))
    return f.select(condition, real(yes), real(no))


def _logic(prim: Prim, truths: Sequence[Value]) -> Value:
    match prim, truths:
        case Prim.AND, [x, y]:
            return x & y
        case Prim.OR, [x, y]:
            return x | y
        case Prim.XOR, [x, y]:
            return x ^ y
        case Prim.NOT, [x]:
            return ~x
        case _:
            raise TypeError(f"{prim} of {len(truths)} arguments")


def _exact_comparison(
    f: Function, prim: Prim, dtypes: Sequence[DType], numbers: Sequence[Number]
) -> Value | None:
    """A signed and an unsigned integer compared as whole numbers, not as float64."""
    (left, right), (x, y) = dtypes, (real(n) for n in numbers)
    if left.kind not in "biu" or right.kind not in "biu":
        return None
    a = real(cast(f, x, left, dt.INT64 if left.kind == "i" else dt.UINT64))
    b = real(cast(f, y, right, dt.INT64 if right.kind == "i" else dt.UINT64))
    unsigned, _ = primitive(f, prim, dt.UINT64, [a, b])
    negative = a < 0 if left.kind == "i" else b < 0
    below = left.kind == "i"
    answer = {
        Prim.EQ: False,
        Prim.NE: True,
        Prim.LT: below,
        Prim.LE: below,
        Prim.GT: not below,
        Prim.GE: not below,
    }[prim]
    result = real(unsigned)
    return f.select(negative, result.of(answer), result)
