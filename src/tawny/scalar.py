"""Scalar expressions: what an elementwise op computes for one element.

An expression is built once, by calling the op's own Python body on `Arg`
leaves.  Engines, printers and derivative rules all read the same tree.
Literals are weak: they take the dtype of the expression they meet.
"""

from __future__ import annotations

import enum
import math
from typing import Final, NamedTuple


class Prim(enum.Enum):
    """The closed set of scalar primitives.  Every target must spell each one."""

    ADD = enum.auto()
    SUB = enum.auto()
    MUL = enum.auto()
    DIV = enum.auto()
    FLOORDIV = enum.auto()
    MOD = enum.auto()
    FMOD = enum.auto()
    POW = enum.auto()
    NEG = enum.auto()
    POS = enum.auto()
    ABS = enum.auto()
    SIGN = enum.auto()
    RECIPROCAL = enum.auto()
    SQRT = enum.auto()
    CBRT = enum.auto()
    EXP = enum.auto()
    EXP2 = enum.auto()
    EXPM1 = enum.auto()
    LOG = enum.auto()
    LOG2 = enum.auto()
    LOG10 = enum.auto()
    LOG1P = enum.auto()
    SIN = enum.auto()
    COS = enum.auto()
    TAN = enum.auto()
    ASIN = enum.auto()
    ACOS = enum.auto()
    ATAN = enum.auto()
    ATAN2 = enum.auto()
    SINH = enum.auto()
    COSH = enum.auto()
    TANH = enum.auto()
    ASINH = enum.auto()
    ACOSH = enum.auto()
    ATANH = enum.auto()
    HYPOT = enum.auto()
    ERF = enum.auto()
    ERFC = enum.auto()
    DAWSN = enum.auto()
    FLOOR = enum.auto()
    CEIL = enum.auto()
    TRUNC = enum.auto()
    RINT = enum.auto()
    COPYSIGN = enum.auto()
    NEXTAFTER = enum.auto()
    SIGNBIT = enum.auto()
    ISNAN = enum.auto()
    ISINF = enum.auto()
    ISFINITE = enum.auto()
    EQ = enum.auto()
    NE = enum.auto()
    LT = enum.auto()
    LE = enum.auto()
    GT = enum.auto()
    GE = enum.auto()
    MAX = enum.auto()
    MIN = enum.auto()
    FMAX = enum.auto()
    FMIN = enum.auto()
    BIT_AND = enum.auto()
    BIT_OR = enum.auto()
    BIT_XOR = enum.auto()
    BIT_NOT = enum.auto()
    SHL = enum.auto()
    SHR = enum.auto()
    GCD = enum.auto()
    LCM = enum.auto()
    AND = enum.auto()
    OR = enum.auto()
    XOR = enum.auto()
    NOT = enum.auto()
    CONJ = enum.auto()
    REAL = enum.auto()
    IMAG = enum.auto()
    SELECT = enum.auto()


class Arg(NamedTuple):
    """The op's i-th operand."""

    position: int


class Const(NamedTuple):
    """A literal."""

    value: float


class PrimCall(NamedTuple):
    """A primitive applied to expressions."""

    prim: Prim
    args: tuple[Expr, ...]


Expr = Arg | Const | PrimCall
LN2: Final = math.log(2.0)


LOCALLY_CONSTANT: Final = frozenset(
    {
        *(Prim.SIGN, Prim.FLOOR, Prim.CEIL, Prim.TRUNC, Prim.RINT, Prim.FLOORDIV),
        *(Prim.SIGNBIT, Prim.ISNAN, Prim.ISINF, Prim.ISFINITE, Prim.NEXTAFTER),
        *(Prim.EQ, Prim.NE, Prim.LT, Prim.LE, Prim.GT, Prim.GE),
        *(Prim.NOT, Prim.AND, Prim.OR, Prim.XOR),
        *(Prim.BIT_NOT, Prim.BIT_AND, Prim.BIT_OR, Prim.BIT_XOR, Prim.SHL, Prim.SHR),
        *(Prim.GCD, Prim.LCM, Prim.CONJ, Prim.REAL, Prim.IMAG),
    }
)
"""Primitives whose derivative is zero wherever they have one, or that take no real numbers.

Conjugates and parts of complex numbers have rules in their rows of the elementwise table.
"""


def is_locally_constant(expr: Expr) -> bool:
    """Whether the derivative of an expression is zero wherever it has one."""
    match expr:
        case Arg():
            return False
        case Const():
            return True
        case PrimCall(prim, args):
            chosen = args[1:] if prim is Prim.SELECT else args
            return prim in LOCALLY_CONSTANT or all(map(is_locally_constant, chosen))


class Scalar:
    """An expression under construction; carries the Python operators."""

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __add__(self, other: Scalar | float) -> Scalar:
        return call(Prim.ADD, self, other)

    def __radd__(self, other: float) -> Scalar:
        return call(Prim.ADD, other, self)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return call(Prim.SUB, self, other)

    def __rsub__(self, other: float) -> Scalar:
        return call(Prim.SUB, other, self)

    def __mul__(self, other: Scalar | float) -> Scalar:
        return call(Prim.MUL, self, other)

    def __rmul__(self, other: float) -> Scalar:
        return call(Prim.MUL, other, self)

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return call(Prim.DIV, self, other)

    def __rtruediv__(self, other: float) -> Scalar:
        return call(Prim.DIV, other, self)

    def __neg__(self) -> Scalar:
        return call(Prim.NEG, self)

    def __abs__(self) -> Scalar:
        return call(Prim.ABS, self)

    def __lt__(self, other: Scalar | float) -> Scalar:
        return call(Prim.LT, self, other)

    def __le__(self, other: Scalar | float) -> Scalar:
        return call(Prim.LE, self, other)

    def __gt__(self, other: Scalar | float) -> Scalar:
        return call(Prim.GT, self, other)

    def __ge__(self, other: Scalar | float) -> Scalar:
        return call(Prim.GE, self, other)


def call(prim: Prim, *args: Scalar | float) -> Scalar:
    """`prim` applied to expressions or Python numbers."""
    return Scalar(
        PrimCall(prim, tuple(a.expr if isinstance(a, Scalar) else Const(a) for a in args))
    )


def arguments(arity: int) -> tuple[Scalar, ...]:
    """The leaves that stand for the operands."""
    return tuple(Scalar(Arg(i)) for i in range(arity))


def select(condition: Scalar, yes: Scalar | float, no: Scalar | float) -> Scalar:
    """`yes` where `condition` holds, else `no`."""
    return call(Prim.SELECT, condition, yes, no)
