"""Contraction: several ops that one kernel does, as in the report that Tawny follows.

In the rows `x`, `y` and `z` stand for any operand, `k`, `rate` and `epsilon` for constants with
one value everywhere.

A product may round differently inside a fused multiply-add, so these rows are contracting, except
those that compute the same expression.  A node disappears into another only when nothing else reads
it and it is no output: then it is never computed twice.
"""

from __future__ import annotations

from typing import Final

from tawny.dtype import kind_of
from tawny.node import Node, make
from tawny.op import ELEMENTWISE
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import Capture, Fill, Match, RewriteRule, elementwise, rule

EXACT: Final = Kind.EXACT
CONTRACTING: Final = Kind.CONTRACTING

x: Final = Capture("x")
y: Final = Capture("y")
z: Final = Capture("z")
k: Final = Fill("k")
rate: Final = Fill("rate")
epsilon: Final = Fill("epsilon")

add: Final = elementwise("add")
subtract: Final = elementwise("subtract")
multiply: Final = elementwise("multiply")
divide: Final = elementwise("divide")
square: Final = elementwise("square")
sqrt: Final = elementwise("sqrt")
fma: Final = elementwise("fma")
adagrad_rate: Final = elementwise("adagrad_rate")


def _product_dtype(m: Match) -> bool:
    """The product is computed in the dtype of the sum, and is no logical `and`."""
    return m["product"].dtype == m.node.dtype and m.node.dtype.kind != "b"


def _negative_fma(m: Match) -> Node:
    """`z - k * x` with the sign in the constant."""
    minus = make(ELEMENTWISE["negative"], (m["k"],))
    return make(ELEMENTWISE["fma"], (minus, m["x"], m["z"]))


def _adagrad(m: Match) -> bool:
    """Everything is computed in one floating-point dtype."""
    dtypes = {m[n].dtype for n in ("x", "rate", "epsilon")}
    return dtypes == {m.node.dtype} and kind_of(m.node.dtype) == "f"


def _adagrad_fma(m: Match) -> bool:
    dtypes = {m[n].dtype for n in ("y", "z", "rate", "epsilon")}
    return dtypes == {m.node.dtype} and kind_of(m.node.dtype) == "f"


ADAGRAD: Final[tuple[RewriteRule, ...]] = (
    rule(
        "adagrad",
        EXACT,
        divide(rate, sqrt(add(x, epsilon, once=True), once=True)),
        adagrad_rate(x, rate, epsilon),
        "rate / sqrt(x + epsilon) = adagrad_rate(x, rate, epsilon)",
        _adagrad,
    ),
    rule(
        "adagrad_fma",
        CONTRACTING,
        divide(rate, sqrt(fma(y, z, epsilon, once=True), once=True)),
        adagrad_rate(multiply(y, z), rate, epsilon),
        "rate / sqrt(fma(y, z, epsilon)) = adagrad_rate(y * z, rate, epsilon)",
        _adagrad_fma,
    ),
)

FMA: Final[tuple[RewriteRule, ...]] = (
    rule(
        "fma",
        CONTRACTING,
        add(multiply(x, y, name="product", once=True), z),
        fma(x, y, z),
        "x * y + z = fma(x, y, z)",
        _product_dtype,
    ),
    rule(
        "fma_square",
        CONTRACTING,
        add(square(x, name="product", once=True), z),
        fma(x, x, z),
        "square(x) + z = fma(x, x, z)",
        _product_dtype,
    ),
    rule(
        "fma_negative",
        CONTRACTING,
        subtract(z, multiply(x, k, name="product", once=True)),
        _negative_fma,
        "z - k * x = fma(-k, x, z) for constant k",
        _product_dtype,
    ),
)
