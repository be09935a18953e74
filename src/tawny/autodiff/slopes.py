"""Derivatives of elementwise ops: what an incoming slope becomes on its way to each operand.

A slope is a function of the arithmetic in use, the incoming slope, the result and the operands.
In *quiet* arithmetic a slope of zero stays zero, whatever it is multiplied with: behind the branch
that `where` did not take there may be infinities and NaN.

A tangent goes forward by the same formulas, since a slope is a factor; the functions of complex
numbers for which that is not so have rules of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tawny.autodiff.terms import OPS, Term, apply, choose, evaluated
from tawny.dtype import DType
from tawny.node import Constant, Node, constant, make
from tawny.op import Elementwise, Gradient
from tawny.ops.creation import Cast
from tawny.ops.differentiation import quiet_divide, quiet_multiply
from tawny.scalar import LN2, Arg, Call, Const, Expr, Prim

ROOT_PI: Final = math.sqrt(math.pi)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a slope is scaled; and, for slopes that ops declare themselves, what else is at hand."""

    quiet: bool

    def times(self, s: Term, x: Term) -> Term:
        """A slope times a factor."""
        return apply(quiet_multiply, s, x) if self.quiet else s * x

    def over(self, s: Term, x: Term) -> Term:
        """A slope over a divisor."""
        return apply(quiet_divide, s, x) if self.quiet else s / x

    def apply(self, what: Prim, *args: Term | float) -> Term:
        """A primitive of terms and numbers."""
        return apply(what, *args)

    def choose(self, condition: Term, yes: Term | float, no: Term | float) -> Term:
        """`yes` where `condition` holds, else `no`."""
        return choose(condition, yes, no)


PLAIN: Final = Arithmetic(quiet=False)
QUIET: Final = Arithmetic(quiet=True)


def slope_of(node: Node, position: int, slope: Node, how: Arithmetic) -> Node | None:
    """The slope of the operand at `position`, before it is fitted to the operand's shape.

    None where it is zero whatever comes in.
    """
    op = node.op
    assert isinstance(op, Elementwise)
    declared = op.info.gradient
    if not isinstance(declared, Gradient):
        rule: Callable[..., Term] | None = declared[position]
        if rule is None:
            return None
        return rule(how, Term(slope), Term(node), *map(Term, _operands(node))).node
    if declared is not Gradient.DERIVED:
        return None
    expr = op.scalar
    if isinstance(expr, Call) and OPS.get(expr.prim) is op:
        operands = list(map(Term, _operands(node)))
        found = _partial(how, expr.prim, position, Term(slope), Term(node), operands)
    else:
        found = _pulled(expr, Term(slope), position, _operands(node), how)
    return None if found is None else found.node


def _operands(node: Node) -> tuple[Node, ...]:
    """The operands in the dtype they were computed in: squares of narrower ones would overflow."""
    dtype = node.dtype
    if dtype.kind not in "fc" or all(x.dtype == dtype for x in node.inputs):
        return node.inputs
    ignored = node.op.facts().dtype.ignores
    return (*node.inputs[:ignored], *[_converted(x, dtype) for x in node.inputs[ignored:]])


def _converted(x: Node, dtype: DType) -> Node:
    if x.dtype == dtype or (x.dtype.kind == "c" and dtype.kind != "c"):
        return x
    if isinstance(x.op, Constant) and x.value is not None and not x.shape:
        return constant(x.value.astype(dtype))  # which rules may know by its number
    return make(Cast(dtype), (x,))


def _pulled(
    expr: Expr, slope: Term, position: int, operands: tuple[Node, ...], how: Arithmetic
) -> Term | None:
    """What `slope`, coming into `expr`, means for the operand at `position`."""
    match expr:
        case Arg():
            return slope if expr.position == position else None
        case Const():
            return None
        case Call(prim, args):
            total: Term | None = None
            for index, argument in enumerate(args):
                if not _mentions(argument, position):
                    continue
                result = apply(prim, *[evaluated(a, operands) for a in args])
                values = [evaluated(a, operands) for a in args]
                partial = _partial(how, prim, index, slope, result, values)
                if partial is None:
                    continue
                found = _pulled(argument, partial, position, operands, how)
                if found is not None:
                    total = found if total is None else total + found
            return total


def _mentions(expr: Expr, position: int) -> bool:
    match expr:
        case Arg():
            return expr.position == position
        case Const():
            return False
        case Call():
            return any(_mentions(a, position) for a in expr.args)


# ----------------------------------------------------------------------- rules

Unary = Callable[[Arithmetic, Term, Term, Term], Term]
Operand = Any
"""A term, or a Python number where the scalar expression has a literal."""
Binary = Callable[[Arithmetic, Term, Term, Operand, Operand], Term]
Pair = tuple[Binary | None, Binary | None]


def _factor(factor: Callable[[Term, Term], Term]) -> Unary:
    """The derivative, given result and argument."""
    return lambda how, s, y, x: how.times(s, factor(y, x))


def _divisor(divisor: Callable[[Term, Term], Term]) -> Unary:
    """One over the derivative, given result and argument."""
    return lambda how, s, y, x: how.over(s, divisor(y, x))


def _to_base(how: Arithmetic, s: Term, y: Term, base: Term, exponent: Term | float) -> Term:
    """At exponent 0 the power is 1 whatever the base."""
    number = exponent.number() if isinstance(exponent, Term) else exponent
    if number is not None:
        if number in (0, 1, 2):
            return s * (0.0, 1.0, base * 2.0)[int(number)]
        return how.times(s, apply(Prim.POW, base, number - 1) * number)
    assert isinstance(exponent, Term)
    still = apply(Prim.EQ, exponent, 0.0)
    lower = apply(Prim.POW, base, exponent - 1.0)
    return how.times(s, choose(still, 0.0, exponent * lower))


def _to_exponent(how: Arithmetic, s: Term, y: Term, base: Term | float, exponent: Term) -> Term:
    """At base 0 the power stays 0 for all near exponents."""
    if not isinstance(base, Term):
        return how.times(s, y * math.log(base))
    safe = choose(apply(Prim.EQ, base, 0.0), 1.0, base)
    return how.times(s, y * apply(Prim.LOG, safe))


def _swing(how: Arithmetic, s: Term, a: Operand, b: Operand) -> Term:
    """`s * a / (a**2 + b**2)` without the squares, which may overflow; 0 at the origin."""
    length = _length(apply(Prim.HYPOT, a, b))
    return how.over(how.times(s, a / length), length)


def _length(y: Term) -> Term:
    """`y`, but 1 where it is 0: a hypotenuse has no slope at the origin and is given zero."""
    return choose(apply(Prim.EQ, y, 0.0), 1.0, y)


def _taken(test: Callable[[Term, Term], Term]) -> Pair:
    """The first operand gets the slope where the test holds, else the second, so also at a tie.

    The result is tested in place of the first operand: that need not be kept.
    """
    return (
        lambda how, s, y, a, b: choose(test(y, b), s, 0.0),
        lambda how, s, y, a, b: choose(test(y, b), 0.0, s),
    )


def _number(test: Callable[[Term, Term], Term]) -> Pair:
    """As `_taken`, but a NaN gives way to the other operand."""
    return _taken(lambda a, b: apply(Prim.OR, test(a, b), apply(Prim.ISNAN, b)))


def _remainder(rounded: Prim) -> Pair:
    return (
        lambda how, s, y, a, b: s,
        lambda how, s, y, a, b: -how.times(s, apply(rounded, a / b)),
    )


def _hypotenuse(x: Term) -> Term:
    """The square root of `x * x + 1`, of real numbers without the square, which may overflow."""
    if x.node.dtype.kind == "c":
        return apply(Prim.SQRT, x * x + 1.0)
    return apply(Prim.HYPOT, x, 1.0)


def _cosine(x: Term) -> Term:
    """The cosine of the angle whose sine is `x`."""
    return apply(Prim.SQRT, (1.0 - x) * (1.0 + x))


UNARY: Final[dict[Prim, Unary]] = {
    Prim.NEG: lambda how, s, y, x: -s,
    Prim.POS: lambda how, s, y, x: s,
    Prim.ABS: lambda how, s, y, x: s * apply(Prim.SIGN, x),
    Prim.RECIPROCAL: lambda how, s, y, x: -how.over(how.times(s, y), x),
    Prim.SQRT: lambda how, s, y, x: how.over(s * 0.5, y),
    Prim.CBRT: _divisor(lambda y, x: (y * y) * 3.0),
    Prim.EXP: _factor(lambda y, x: y),
    Prim.EXP2: _factor(lambda y, x: y * LN2),
    Prim.EXPM1: _factor(lambda y, x: y + 1.0),
    Prim.LOG: _divisor(lambda y, x: x),
    Prim.LOG2: _divisor(lambda y, x: x * LN2),
    Prim.LOG10: _divisor(lambda y, x: x * math.log(10.0)),
    Prim.LOG1P: _divisor(lambda y, x: x + 1.0),
    Prim.SIN: _factor(lambda y, x: apply(Prim.COS, x)),
    Prim.COS: lambda how, s, y, x: -how.times(s, apply(Prim.SIN, x)),
    Prim.TAN: _factor(lambda y, x: y * y + 1.0),
    Prim.ASIN: _divisor(lambda y, x: _cosine(x)),
    Prim.ACOS: lambda how, s, y, x: -how.over(s, _cosine(x)),
    Prim.ATAN: _divisor(lambda y, x: x * x + 1.0),
    Prim.SINH: _factor(lambda y, x: apply(Prim.COSH, x)),
    Prim.COSH: _factor(lambda y, x: apply(Prim.SINH, x)),
    Prim.TANH: _factor(lambda y, x: 1.0 - y * y),
    Prim.ASINH: _divisor(lambda y, x: _hypotenuse(x)),
    Prim.ACOSH: _divisor(lambda y, x: apply(Prim.SQRT, x - 1.0) * apply(Prim.SQRT, x + 1.0)),
    Prim.ATANH: _divisor(lambda y, x: (1.0 - x) * (1.0 + x)),
    Prim.ERF: _factor(lambda y, x: apply(Prim.EXP, -(x * x)) * (2.0 / ROOT_PI)),
    Prim.ERFC: _factor(lambda y, x: apply(Prim.EXP, -(x * x)) * (-2.0 / ROOT_PI)),
    Prim.DAWSN: _factor(lambda y, x: 1.0 - (x * y) * 2.0),
}
"""The slope of a primitive's only argument."""

BINARY: Final[dict[Prim, Pair]] = {
    Prim.ADD: (lambda how, s, y, a, b: s, lambda how, s, y, a, b: s),
    Prim.SUB: (lambda how, s, y, a, b: s, lambda how, s, y, a, b: -s),
    Prim.MUL: (lambda how, s, y, a, b: how.times(s, b), lambda how, s, y, a, b: how.times(s, a)),
    Prim.DIV: (
        lambda how, s, y, a, b: how.over(s, b),
        lambda how, s, y, a, b: -how.over(how.times(s, y), b),
    ),
    Prim.MOD: _remainder(Prim.FLOOR),
    Prim.FMOD: _remainder(Prim.TRUNC),
    Prim.POW: (_to_base, _to_exponent),
    Prim.ATAN2: (
        lambda how, s, y, a, b: _swing(how, s, b, a),
        lambda how, s, y, a, b: -_swing(how, s, a, b),
    ),
    Prim.HYPOT: (
        lambda how, s, y, a, b: how.times(s, a / _length(y)),
        lambda how, s, y, a, b: how.times(s, b / _length(y)),
    ),
    Prim.COPYSIGN: (
        lambda how, s, y, a, b: s * (apply(Prim.SIGN, a) * apply(Prim.COPYSIGN, 1.0, b)),
        None,
    ),
    Prim.MAX: _taken(lambda a, b: a > b),
    Prim.MIN: _taken(lambda a, b: a < b),
    Prim.FMAX: _number(lambda a, b: a > b),
    Prim.FMIN: _number(lambda a, b: a < b),
}
"""The slopes of a primitive's two arguments; None where it is zero."""

FLAT: Final = frozenset(
    {
        Prim.SIGN,
        Prim.FLOOR,
        Prim.CEIL,
        Prim.TRUNC,
        Prim.RINT,
        Prim.SIGNBIT,
        Prim.ISNAN,
        Prim.ISINF,
        Prim.ISFINITE,
        Prim.BIT_NOT,
        Prim.NOT,
        Prim.CONJ,
        Prim.REAL,
        Prim.IMAG,
        Prim.FLOORDIV,
        Prim.NEXTAFTER,
        Prim.EQ,
        Prim.NE,
        Prim.LT,
        Prim.LE,
        Prim.GT,
        Prim.GE,
        Prim.BIT_AND,
        Prim.BIT_OR,
        Prim.BIT_XOR,
        Prim.SHL,
        Prim.SHR,
        Prim.GCD,
        Prim.LCM,
        Prim.AND,
        Prim.OR,
        Prim.XOR,
    }
)
"""Primitives whose slope is zero wherever they have one, or that no number that changes meets.

Conjugates and parts of complex numbers have rules in `tawny.autodiff.rules.elementwise`.
"""


def _chosen(position: int, s: Term, condition: Term) -> Term:
    """The slope of a choice that `condition` makes between arguments 1 and 2."""
    return choose(condition, s, 0.0) if position == 1 else choose(condition, 0.0, s)


def _partial(
    how: Arithmetic, prim: Prim, position: int, s: Term, y: Term, args: Sequence[Operand]
) -> Term | None:
    """The slope of the argument of `prim` at `position`; None where it is zero."""
    if prim in FLAT or (prim is Prim.SELECT and position == 0):
        return None
    if prim is Prim.SELECT:
        return _chosen(position, s, args[0])
    if prim in UNARY:
        return UNARY[prim](how, s, y, *args)
    rule = BINARY[prim][position]
    return None if rule is None else rule(how, s, y, *args)
