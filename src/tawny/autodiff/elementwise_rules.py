"""Derivatives of elementwise ops: what an incoming cotangent becomes on its way to each operand.

A rule is a function of the arithmetic in use, the incoming cotangent `g`, the result `y` and the
operands.  In *zero-safe* arithmetic a cotangent of zero stays zero, whatever it is multiplied with:
behind the branch that `where` did not take there may be infinities and NaN.

A tangent goes forward by the same formulas, since a derivative is a factor; the functions of
complex numbers for which that is not so have rules of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tawny.autodiff.symbolic import OPS, Term, apply, choose, evaluate
from tawny.dtype import DType, kind_of
from tawny.node import Constant, Node, constant, make
from tawny.op import Elementwise, Gradient
from tawny.ops.creation import Cast
from tawny.ops.differentiation import quiet_divide, quiet_multiply
from tawny.scalar import LN2, LOCALLY_CONSTANT, Arg, Const, Expr, Prim, PrimCall

ROOT_PI: Final = math.sqrt(math.pi)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The arithmetic of cotangents, in rules that ops declare too."""

    zero_safe: bool

    def times(self, g: Term, x: Term) -> Term:
        """A cotangent times a factor."""
        return apply(quiet_multiply, g, x) if self.zero_safe else g * x

    def divide(self, g: Term, x: Term) -> Term:
        """A cotangent over a divisor."""
        return apply(quiet_divide, g, x) if self.zero_safe else g / x

    def apply(self, what: Prim, *args: Term | float) -> Term:
        """A primitive of terms and numbers."""
        return apply(what, *args)

    def choose(self, condition: Term, yes: Term | float, no: Term | float) -> Term:
        """`yes` where `condition` holds, else `no`."""
        return choose(condition, yes, no)


PLAIN: Final = Arithmetic(zero_safe=False)
ZERO_SAFE: Final = Arithmetic(zero_safe=True)


def multiply_by_derivative(
    node: Node, position: int, cotangent: Node, arith: Arithmetic
) -> Node | None:
    """`cotangent`, or a tangent, times the derivative of `node` in its operand at `position`.

    It has the shape of the result: see `unbroadcast`.  None where the derivative is zero.
    """
    op = node.op
    assert isinstance(op, Elementwise)
    declared = op.info.gradient
    if not isinstance(declared, Gradient):
        rule: Callable[..., Term] | None = declared[position]
        if rule is None:
            return None
        return rule(arith, Term(cotangent), Term(node), *map(Term, _promoted_operands(node))).node
    if declared is not Gradient.DERIVED:
        return None
    expr = op.scalar
    if isinstance(expr, PrimCall) and OPS.get(expr.prim) is op:
        operands = list(map(Term, _promoted_operands(node)))
        found = _partial(arith, expr.prim, position, Term(cotangent), Term(node), operands)
    else:
        found = _pull_through(expr, Term(cotangent), position, _promoted_operands(node), arith)
    return None if found is None else found.node


def _promoted_operands(node: Node) -> tuple[Node, ...]:
    """The operands in the dtype of the computation: squares of narrower ones would overflow."""
    dtype = node.dtype
    if kind_of(dtype) not in "fc" or all(x.dtype == dtype for x in node.inputs):
        return node.inputs
    ignored = node.op.facts().dtype.ignores
    return (*node.inputs[:ignored], *[_convert(x, dtype) for x in node.inputs[ignored:]])


def _convert(x: Node, dtype: DType) -> Node:
    if x.dtype == dtype or (x.dtype.kind == "c" and dtype.kind != "c"):
        return x
    if isinstance(x.op, Constant) and x.value is not None and not x.shape:
        return constant(x.value.astype(dtype))  # which rules may know by its number
    return make(Cast(dtype), (x,))


def _pull_through(
    expr: Expr, cotangent: Term, position: int, operands: tuple[Node, ...], arith: Arithmetic
) -> Term | None:
    """What `cotangent`, coming into `expr`, means for the operand at `position`."""
    match expr:
        case Arg():
            return cotangent if expr.position == position else None
        case Const():
            return None
        case PrimCall(prim, args):
            total: Term | None = None
            for index, argument in enumerate(args):
                if not _mentions(argument, position):
                    continue
                result = apply(prim, *[evaluate(a, operands) for a in args])
                values = [evaluate(a, operands) for a in args]
                partial = _partial(arith, prim, index, cotangent, result, values)
                if partial is None:
                    continue
                found = _pull_through(argument, partial, position, operands, arith)
                if found is not None:
                    total = found if total is None else total + found
            return total


def _mentions(expr: Expr, position: int) -> bool:
    match expr:
        case Arg():
            return expr.position == position
        case Const():
            return False
        case PrimCall():
            return any(_mentions(a, position) for a in expr.args)


# ----------------------------------------------------------------------- rules

Unary = Callable[[Arithmetic, Term, Term, Term], Term]
Operand = Any
"""A term, or a Python number where the scalar expression has a literal."""
Binary = Callable[[Arithmetic, Term, Term, Operand, Operand], Term]
Pair = tuple[Binary | None, Binary | None]


def _factor(factor: Callable[[Term, Term], Term]) -> Unary:
    """The rule of a function whose derivative is a function of result and argument."""
    return lambda arith, g, y, x: arith.times(g, factor(y, x))


def _divisor(divisor: Callable[[Term, Term], Term]) -> Unary:
    """The rule of a function whose derivative is one over a function of result and argument."""
    return lambda arith, g, y, x: arith.divide(g, divisor(y, x))


def _to_base(arith: Arithmetic, g: Term, y: Term, base: Term, exponent: Term | float) -> Term:
    """The base's share; at exponent 0 the power is 1 whatever the base."""
    number = exponent.number() if isinstance(exponent, Term) else exponent
    if number is not None:
        if number in (0, 1, 2):
            return g * (0.0, 1.0, base * 2.0)[int(number)]
        return arith.times(g, apply(Prim.POW, base, number - 1) * number)
    assert isinstance(exponent, Term)
    still = apply(Prim.EQ, exponent, 0.0)
    lower = apply(Prim.POW, base, exponent - 1.0)
    return arith.times(g, choose(still, 0.0, exponent * lower))


def _to_exponent(arith: Arithmetic, g: Term, y: Term, base: Term | float, exponent: Term) -> Term:
    """The exponent's share; at base 0 the power stays 0 for all near exponents."""
    if not isinstance(base, Term):
        return arith.times(g, y * math.log(base))
    safe = choose(apply(Prim.EQ, base, 0.0), 1.0, base)
    return arith.times(g, y * apply(Prim.LOG, safe))


def _divide_by_squared_length(arith: Arithmetic, g: Term, a: Operand, b: Operand) -> Term:
    """`g * a / (a**2 + b**2)` without the squares, which may overflow; 0 at the origin."""
    length = _nonzero_length(apply(Prim.HYPOT, a, b))
    return arith.divide(arith.times(g, a / length), length)


def _nonzero_length(y: Term) -> Term:
    """`y`, but 1 where it is 0: at the origin a hypotenuse has no derivative, and zero is taken."""
    return choose(apply(Prim.EQ, y, 0.0), 1.0, y)


def _split_by_test(test: Callable[[Term, Term], Term]) -> Pair:
    """Rules that give the cotangent to the first operand where the test holds, else to the second.

    So the second gets it at a tie.  The result is tested in place of the first operand, which then
    need not be kept.
    """
    return (
        lambda arith, g, y, a, b: choose(test(y, b), g, 0.0),
        lambda arith, g, y, a, b: choose(test(y, b), 0.0, g),
    )


def _split_by_test_or_nan(test: Callable[[Term, Term], Term]) -> Pair:
    """Rules that split the cotangent by a test, where a NaN gives way to the other operand."""
    return _split_by_test(lambda a, b: apply(Prim.OR, test(a, b), apply(Prim.ISNAN, b)))


def _remainder(rounded: Prim) -> Pair:
    return (
        lambda arith, g, y, a, b: g,
        lambda arith, g, y, a, b: -arith.times(g, apply(rounded, a / b)),
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
    Prim.NEG: lambda arith, g, y, x: -g,
    Prim.POS: lambda arith, g, y, x: g,
    Prim.ABS: lambda arith, g, y, x: g * apply(Prim.SIGN, x),
    Prim.RECIPROCAL: lambda arith, g, y, x: -arith.divide(arith.times(g, y), x),
    Prim.SQRT: lambda arith, g, y, x: arith.divide(g * 0.5, y),
    Prim.CBRT: _divisor(lambda y, x: (y * y) * 3.0),
    Prim.EXP: _factor(lambda y, x: y),
    Prim.EXP2: _factor(lambda y, x: y * LN2),
    Prim.EXPM1: _factor(lambda y, x: y + 1.0),
    Prim.LOG: _divisor(lambda y, x: x),
    Prim.LOG2: _divisor(lambda y, x: x * LN2),
    Prim.LOG10: _divisor(lambda y, x: x * math.log(10.0)),
    Prim.LOG1P: _divisor(lambda y, x: x + 1.0),
    Prim.SIN: _factor(lambda y, x: apply(Prim.COS, x)),
    Prim.COS: lambda arith, g, y, x: -arith.times(g, apply(Prim.SIN, x)),
    Prim.TAN: _factor(lambda y, x: y * y + 1.0),
    Prim.ASIN: _divisor(lambda y, x: _cosine(x)),
    Prim.ACOS: lambda arith, g, y, x: -arith.divide(g, _cosine(x)),
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
"""The rule for the only argument of a primitive."""

BINARY: Final[dict[Prim, Pair]] = {
    Prim.ADD: (lambda arith, g, y, a, b: g, lambda arith, g, y, a, b: g),
    Prim.SUB: (lambda arith, g, y, a, b: g, lambda arith, g, y, a, b: -g),
    Prim.MUL: (
        lambda arith, g, y, a, b: arith.times(g, b),
        lambda arith, g, y, a, b: arith.times(g, a),
    ),
    Prim.DIV: (
        lambda arith, g, y, a, b: arith.divide(g, b),
        lambda arith, g, y, a, b: -arith.divide(arith.times(g, y), b),
    ),
    Prim.MOD: _remainder(Prim.FLOOR),
    Prim.FMOD: _remainder(Prim.TRUNC),
    Prim.POW: (_to_base, _to_exponent),
    Prim.ATAN2: (
        lambda arith, g, y, a, b: _divide_by_squared_length(arith, g, b, a),
        lambda arith, g, y, a, b: -_divide_by_squared_length(arith, g, a, b),
    ),
    Prim.HYPOT: (
        lambda arith, g, y, a, b: arith.times(g, a / _nonzero_length(y)),
        lambda arith, g, y, a, b: arith.times(g, b / _nonzero_length(y)),
    ),
    Prim.COPYSIGN: (
        lambda arith, g, y, a, b: g * (apply(Prim.SIGN, a) * apply(Prim.COPYSIGN, 1.0, b)),
        None,
    ),
    Prim.MAX: _split_by_test(lambda a, b: a > b),
    Prim.MIN: _split_by_test(lambda a, b: a < b),
    Prim.FMAX: _split_by_test_or_nan(lambda a, b: a > b),
    Prim.FMIN: _split_by_test_or_nan(lambda a, b: a < b),
}
"""The rules for the two arguments of a primitive; None where the derivative is zero."""


def _split_by_condition(position: int, g: Term, condition: Term) -> Term:
    """The cotangent of a choice that `condition` makes between arguments 1 and 2."""
    return choose(condition, g, 0.0) if position == 1 else choose(condition, 0.0, g)


def _partial(
    arith: Arithmetic, prim: Prim, position: int, g: Term, y: Term, args: Sequence[Operand]
) -> Term | None:
    """The cotangent of the argument of `prim` at `position`; None where it is zero."""
    if prim in LOCALLY_CONSTANT or (prim is Prim.SELECT and position == 0):
        return None
    if prim is Prim.SELECT:
        return _split_by_condition(position, g, args[0])
    if prim in UNARY:
        return UNARY[prim](arith, g, y, *args)
    rule = BINARY[prim][position]
    return None if rule is None else rule(arith, g, y, *args)
