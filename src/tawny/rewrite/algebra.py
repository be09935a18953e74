"""Algebra: identities of elementwise ops, each with the guard that keeps shape, dtype and bits.

Floating-point zero has a sign, so `x + 0.0` is not `x` where x is -0.0: that row is finite, and a
row before it is exact where the sign cannot differ.  Complex products and quotients by one
make NaN of infinities, so those rows are finite.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tawny import dtype as dt
from tawny.dtype import kind_of
from tawny.node import Node, make
from tawny.op import ELEMENTWISE, Elementwise, Trait
from tawny.ops.creation import Cast
from tawny.rewrite.facts import NodeFacts, broadcast_to, full_like, is_negative_zero, scalar_like
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import (
    Build,
    Capture,
    Fill,
    Match,
    RewriteRule,
    any_of,
    elementwise,
    rule,
)

EXACT: Final = Kind.EXACT
CONTRACTING: Final = Kind.CONTRACTING
FINITE: Final = Kind.FINITE

x: Final = Capture("x")
y: Final = Capture("y")
zero: Final = Fill("zero", 0)
one: Final = Fill("one", 1)
minus_one: Final = Fill("k", -1)
two: Final = Fill("k", 2)
half: Final = Fill("k", 0.5)
k: Final = Fill("k")

add: Final = elementwise("add")
subtract: Final = elementwise("subtract")
multiply: Final = elementwise("multiply")
divide: Final = elementwise("divide")
power: Final = elementwise("pow")
negative: Final = elementwise("negative")
absolute: Final = elementwise("abs")
square: Final = elementwise("square")
sqrt: Final = elementwise("sqrt")
reciprocal: Final = elementwise("reciprocal")
maximum: Final = elementwise("maximum")
relu: Final = elementwise("relu")
where: Final = elementwise("where")


# ------------------------------------------------------------- side conditions


def _whole(m: Match) -> bool:
    """The result is boolean or an integer."""
    return m.node.dtype.kind in "biu"


def _integer(m: Match) -> bool:
    return m.node.dtype.kind in "iu"


def _real(m: Match) -> bool:
    return m.node.dtype.kind != "c"


def _float(m: Match) -> bool:
    return kind_of(m.node.dtype) == "f"


def _finite(m: Match) -> bool:
    return m.facts.is_finite(m["x"])


def _no_nan(m: Match) -> bool:
    """The user says that neither NaN, infinities nor signs of zeros matter."""
    return m.facts.assume_finite


def _zero_adds_nothing(m: Match) -> bool:
    return _whole(m) or (
        _all_negative(m.fill("zero"))
        if is_negative_zero(m.fill("zero"))
        else m.facts.is_never_negative_zero(m["x"])
    )


def _all_negative(value: Any) -> bool:
    """Whether the zero is negative in every part."""
    return bool(np.signbit(value.real)) and (
        value.dtype.kind != "c" or bool(np.signbit(value.imag))
    )


def _positive_zero(m: Match) -> bool:
    return _whole(m) or not is_negative_zero(m.fill("zero"))


def _negative_zero(m: Match) -> bool:
    return _integer(m) or _all_negative(m.fill("zero"))


def _zero_last(m: Match) -> bool:
    """A zero that equals the other operand gives way to it, as in `relu`."""
    if m.node.dtype.kind == "c":
        return False
    return _whole(m) or (m.node.inputs[1] is m["zero"] and not is_negative_zero(m.fill("zero")))


def _keeps_dtype(m: Match) -> bool:
    """`x` is negated in the result's dtype: small integers and booleans would not survive it."""
    return m["x"].dtype == m.node.dtype


def _negates_exactly(m: Match) -> bool:
    return _keeps_dtype(m) and _negative_zero(m)


def _negates_real(m: Match) -> bool:
    return _keeps_dtype(m) and _real(m)


def _same_dtype(m: Match) -> bool:
    """Operands are computed in the dtype they have: nothing is promoted before it is negated."""
    return all(m[n].dtype == m.node.dtype for n in ("x", "y"))


MOST_FACTORS: Final = 6
"""The greatest power that is made of products: three of them, which round to 2.5 units in the last
place at worst."""


def _is_few(m: Match) -> bool:
    """The power is a small integer, of which products take less than the power."""
    n = m.fill("k")
    return bool(2 < n <= MOST_FACTORS) and int(n) == n


def _rounds_alone(m: Match) -> bool:
    """A real result of 32 or 64 bits: functions of 16 bits round once."""
    return kind_of(m.node.dtype) == "f" and m.node.dtype.itemsize >= 4


def _power_of_two(m: Match) -> bool:
    """The quotient by the constant is the product by its reciprocal, to the bit."""
    if kind_of(m.node.dtype) != "f" or m["k"].dtype != m.node.dtype:
        return False
    value = float(m.fill("k"))
    if not value or not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5 or value == 1.0:
        return False
    least = float(dt.finfo(m.node.dtype).smallest_normal)
    return least <= abs(value) and least <= abs(1 / value) <= float(dt.finfo(m.node.dtype).max)


# --------------------------------------------------------------------- results


def _zeros(m: Match) -> Node:
    return full_like(0, m.node)


def _ones(m: Match) -> Node:
    return full_like(1, m.node)


def _false(m: Match) -> Node:
    return full_like(False, m.node)


def _all_true(m: Match) -> Node:
    return full_like(True, m.node)


def _times_reciprocal(m: Match) -> Node:
    factor = scalar_like(1 / float(m.fill("k")), m.node)
    return broadcast_to(make(ELEMENTWISE["multiply"], (m["x"], factor)), m.node.shape)


def _cast_to_result(m: Match) -> Node:
    return m["x"] if m["x"].dtype == m.node.dtype else make(Cast(m.node.dtype), (m["x"],))


def _apply_to_cast(name: str) -> Build:
    """An op on `x`, which is converted to the result's dtype first, as the power does."""

    def build(m: Match) -> Node:
        return broadcast_to(make(ELEMENTWISE[name], (_cast_to_result(m),)), m.node.shape)

    return build


def _products(m: Match) -> Node:
    """A small power of `x`, by squaring."""
    base, n = _cast_to_result(m), int(m.fill("k"))

    def square_node(a: Node) -> Node:
        return make(ELEMENTWISE["square"], (a,))

    def times_base(a: Node) -> Node:
        return make(ELEMENTWISE["multiply"], (a, base))

    found = square_node(base)
    if n == 6:
        found = times_base(found)
    if n > 3:
        found = square_node(found)
    if n in (3, 5):
        found = times_base(found)
    return broadcast_to(found, m.node.shape)


def _choose(m: Match) -> Node | None:
    """The operand that a constant condition picks."""
    picked = m["x"] if bool(m.fill("k")) else m["y"]
    if picked.dtype != m.node.dtype:
        picked = make(Cast(m.node.dtype), (picked,))
    return broadcast_to(picked, m.node.shape)


def _pair(node: Node) -> tuple[object, ...]:
    """A key of a commutative op and its operands, equal for both orders of these."""
    return node.op, frozenset(node.inputs)


def _has_twin(node: Node, facts: NodeFacts) -> bool:
    """Another node applies the same op to the same operands in the other order."""
    return node.dtype.kind != "c" and facts.twins.setdefault(_pair(node), node) is not node


def _twin(m: Match) -> Node:
    return m.facts.twins[_pair(m.node)]


# ------------------------------------------------------------------ the tables

_SIGNED_ZERO: Final = frozenset({"maximum", "minimum", "fmax", "fmin"})
"""Commutative but for which of -0.0 and 0.0 they give."""


def _rows(trait: Trait, arity: int) -> list[Elementwise]:
    return [op for op in ELEMENTWISE.values() if trait in op.info.traits and op.info.arity == arity]


_INTEGER_ROUNDING: Final = [ELEMENTWISE[n] for n in ("floor", "ceil", "trunc", "rint")]
_REAL_PARTS: Final = [ELEMENTWISE[n] for n in ("conj", "real")]

SUMS: Final[tuple[RewriteRule, ...]] = (
    rule("add_zero", EXACT, add(x, zero), x, "x + 0 = x", _zero_adds_nothing),
    rule("add_zero_float", FINITE, add(x, zero), x, "x + 0.0 = x", _no_nan),
    rule("subtract_zero", EXACT, subtract(x, zero), x, "x - 0 = x", _positive_zero),
    rule("subtract_zero_float", FINITE, subtract(x, zero), x, "x - -0.0 = x", _no_nan),
    rule("zero_minus", EXACT, subtract(zero, x), negative(x), "0 - x = -x", _negates_exactly),
    rule(
        "zero_minus_float",
        FINITE,
        subtract(zero, x),
        negative(x),
        "0.0 - x = -x",
        lambda m: _no_nan(m) and _keeps_dtype(m),
    ),
    rule("subtract_self", EXACT, subtract(x, x), _zeros, "x - x = 0", _whole),
    rule("subtract_self_float", FINITE, subtract(x, x), _zeros, "x - x = 0", _finite),
    rule("double_negative", EXACT, negative(negative(x)), x, "--x = x"),
    rule("add_negative", EXACT, add(x, negative(y)), subtract(x, y), "x + -y = x - y", _same_dtype),
    rule(
        "subtract_negative",
        EXACT,
        subtract(x, negative(y)),
        add(x, y),
        "x - -y = x + y",
        _same_dtype,
    ),
)

PRODUCTS: Final[tuple[RewriteRule, ...]] = (
    rule("multiply_one", EXACT, multiply(x, one), x, "x * 1 = x", _real),
    rule("multiply_one_complex", FINITE, multiply(x, one), x, "x * 1 = x", _finite),
    rule("multiply_zero", EXACT, multiply(x, zero), _zeros, "x * 0 = 0", _whole),
    rule("multiply_zero_float", FINITE, multiply(x, zero), _zeros, "x * 0.0 = 0", _finite),
    rule(
        "multiply_minus_one",
        EXACT,
        multiply(x, minus_one),
        negative(x),
        "x * -1 = -x",
        _negates_real,
    ),
    rule(
        "multiply_negatives",
        EXACT,
        multiply(negative(x), negative(y)),
        multiply(x, y),
        "-x * -y = x * y",
        lambda m: _same_dtype(m) and _real(m),
    ),
    rule("divide_one", EXACT, divide(x, one), x, "x / 1 = x", _real),
    rule("divide_one_complex", FINITE, divide(x, one), x, "x / 1 = x", _finite),
    rule(
        "divide_minus_one", EXACT, divide(x, minus_one), negative(x), "x / -1 = -x", _negates_real
    ),
    rule("zero_divide", FINITE, divide(zero, x), _zeros, "0 / x = 0", _no_nan),
    rule("divide_self", FINITE, divide(x, x), _ones, "x / x = 1", _no_nan),
    rule(
        "divide_negatives",
        EXACT,
        divide(negative(x), negative(y)),
        divide(x, y),
        "-x / -y = x / y",
        lambda m: _same_dtype(m) and _real(m),
    ),
    rule(
        "divide_power_of_two",
        EXACT,
        divide(x, k),
        _times_reciprocal,
        "x / 2**n = x * 2**-n",
        _power_of_two,
    ),
)

POWERS: Final[tuple[RewriteRule, ...]] = (
    rule("power_zero", EXACT, power(x, zero), _ones, "x ** 0 = 1", _real),
    rule("power_one", EXACT, power(x, one), x, "x ** 1 = x", _real),
    rule("power_one_complex", CONTRACTING, power(x, one), x, "x ** 1 = x"),
    rule(
        "power_two",
        EXACT,
        power(x, two),
        _apply_to_cast("square"),
        "x ** 2 = square(x)",
        _integer,
    ),
    rule("power_two_float", CONTRACTING, power(x, two), square(x), "x ** 2 = square(x)"),
    rule(
        "power_few",
        EXACT,
        power(x, k),
        _products,
        "x ** n = products of x, n from 3 to 6",
        lambda m: _integer(m) and _is_few(m),
    ),
    rule(
        "power_few_float",
        CONTRACTING,
        power(x, k),
        _products,
        "x ** n = products of x, n from 3 to 6",
        lambda m: _rounds_alone(m) and _is_few(m),
    ),
    rule(
        "power_half_positive",
        CONTRACTING,
        power(x, half),
        sqrt(x),
        "x ** 0.5 = sqrt(x) for x not negative",
        lambda m: m.facts.is_nonnegative(m["x"]),
    ),
    rule(
        "power_half_finite",
        FINITE,
        power(x, half),
        sqrt(x),
        "x ** 0.5 = sqrt(x), but for -inf",
        lambda m: _float(m) and _finite(m),
    ),
    rule(
        "power_minus_one_float",
        CONTRACTING,
        power(x, minus_one),
        reciprocal(x),
        "x ** -1 = 1 / x",
        _float,
    ),
    rule("square_negative", EXACT, square(negative(x)), square(x), "(-x) ** 2 = x ** 2", _real),
    rule("square_absolute", EXACT, square(absolute(x)), square(x), "abs(x) ** 2 = x ** 2", _real),
)

CHOICES: Final[tuple[RewriteRule, ...]] = (
    rule(
        "absolute_negative",
        EXACT,
        absolute(negative(x)),
        absolute(x),
        "abs(-x) = abs(x)",
        lambda m: m.node.dtype.kind != "u",
    ),
    rule(
        "absolute_positive",
        EXACT,
        absolute(x),
        x,
        "abs(x) = x for x not negative",
        lambda m: m.facts.is_nonnegative(m["x"]),
    ),
    rule("maximum_zero", EXACT, maximum(x, zero), relu(x), "maximum(x, 0) = relu(x)", _zero_last),
    rule("relu_twice", EXACT, relu(relu(x)), relu(x), "relu(relu(x)) = relu(x)"),
    rule("where_constant", EXACT, where(k, x, y), _choose, "where(true, x, y) = x"),
    rule("where_same", EXACT, where(y, x, x), x, "where(c, x, x) = x"),
    rule("positive", EXACT, elementwise("positive")(x), x, "+x = x"),
    rule(
        "round_integer",
        EXACT,
        any_of(_INTEGER_ROUNDING, x),
        _cast_to_result,
        "floor(x) = x for integers",
        lambda m: m["x"].dtype.kind in "biu",
    ),
    rule(
        "real_part",
        EXACT,
        any_of(_REAL_PARTS, x),
        _cast_to_result,
        "conj(x) = real(x) = x for real x",
        lambda m: m["x"].dtype.kind != "c",
    ),
    rule(
        "no_nan_in_integers",
        EXACT,
        any_of([ELEMENTWISE["isnan"], ELEMENTWISE["isinf"]], x),
        _false,
        "isnan(x) = False for integers",
        lambda m: m["x"].dtype.kind in "biu",
    ),
    rule(
        "integers_are_finite",
        EXACT,
        elementwise("isfinite")(x),
        _all_true,
        "isfinite(x) = True for integers",
        lambda m: m["x"].dtype.kind in "biu",
    ),
)


def _inner_of_two(m: Match) -> Node | None:
    """The inner of two applications of the same op."""
    inner = m["inner"]
    return inner if inner.op is m.node.op and inner.dtype == m.node.dtype else None


def _innermost(m: Match) -> Node | None:
    """What an op that is its own inverse was applied to, twice."""
    return m["x"] if m["inner"].op is m.node.op and m["x"].dtype == m.node.dtype else None


_INVOLUTIONS: Final = [o for o in _rows(Trait.INVOLUTION, 1) if o.info.name != "negative"]
_IDEMPOTENT: Final = _rows(Trait.IDEMPOTENT, 1)

TRAITS: Final[tuple[RewriteRule, ...]] = (
    rule(
        "involution",
        EXACT,
        any_of(_INVOLUTIONS, any_of(_INVOLUTIONS, x, name="inner")),
        _innermost,
        "f(f(x)) = x",
    ),
    rule(
        "idempotent",
        EXACT,
        any_of(_IDEMPOTENT, any_of(_IDEMPOTENT, x, name="inner")),
        _inner_of_two,
        "f(f(x)) = f(x)",
    ),
    rule(
        "same_operands",
        EXACT,
        any_of(_rows(Trait.IDEMPOTENT, 2), x, x),
        x,
        "maximum(x, x) = x",
    ),
)

TWINS: Final[tuple[RewriteRule, ...]] = (
    rule(
        "commute",
        EXACT,
        any_of(
            [op for op in _rows(Trait.COMMUTATIVE, 2) if op.info.name not in _SIGNED_ZERO], x, y
        ),
        _twin,
        "x + y and y + x are the same",
        only=_has_twin,
    ),
)
"""Comes last: a node that reaches it is in its final form."""
