"""Constants that meet: sums and products grouped in another way.

Integers wrap around, so for them every grouping has the same bits.  Floating-point numbers round
after each step and may overflow in between: their rows are reassociating, and off unless somebody
asks for them by name.
"""

from __future__ import annotations

from typing import Final

from tawny.dtype import kind_of
from tawny.rewrite.flow import Kind, RuleInfo
from tawny.rewrite.pattern import Capture, Fill, Match, OpPattern, RewriteRule, elementwise

x: Final = Capture("x")
y: Final = Capture("y")
k: Final = Fill("k")
l: Final = Fill("l")  # noqa: E741  (the second constant)

add: Final = elementwise("add")
subtract: Final = elementwise("subtract")
multiply: Final = elementwise("multiply")
divide: Final = elementwise("divide")

Equation = tuple[OpPattern, OpPattern]
"""What is written, and what has the same value when constants are folded."""

SUMS: Final[tuple[Equation, ...]] = (
    (add(add(x, k), l), add(x, add(k, l))),
    (subtract(add(x, k), l), add(x, subtract(k, l))),
    (add(subtract(x, k), l), add(x, subtract(l, k))),
    (subtract(subtract(x, k), l), subtract(x, add(k, l))),
    (add(subtract(k, x), l), subtract(add(k, l), x)),
    (subtract(subtract(k, x), l), subtract(subtract(k, l), x)),
    (subtract(k, add(x, l)), subtract(subtract(k, l), x)),
    (subtract(k, subtract(x, l)), subtract(add(k, l), x)),
    (subtract(k, subtract(l, x)), add(x, subtract(k, l))),
)

PRODUCTS: Final[tuple[Equation, ...]] = (
    (multiply(multiply(x, k), l), multiply(x, multiply(k, l))),
)

QUOTIENTS: Final[tuple[Equation, ...]] = (
    (divide(multiply(x, k), l), multiply(x, divide(k, l))),
    (multiply(divide(x, k), l), multiply(x, divide(l, k))),
    (divide(divide(x, k), l), divide(x, multiply(k, l))),
    (multiply(divide(k, x), l), divide(multiply(k, l), x)),
    (divide(divide(k, x), l), divide(divide(k, l), x)),
    (divide(k, multiply(x, l)), divide(divide(k, l), x)),
    (divide(k, divide(x, l)), divide(multiply(k, l), x)),
    (divide(k, divide(l, x)), multiply(x, divide(k, l))),
)


def _is_computed_in(kinds: str, m: Match, *names: str) -> bool:
    """Everything is computed in one dtype, of one of these kinds."""
    return kind_of(m.node.dtype) in kinds and all(m[n].dtype == m.node.dtype for n in names)


def _integers(m: Match) -> bool:
    return _is_computed_in("iu", m, "x", "k", "l")


def _inexact(m: Match) -> bool:
    return _is_computed_in("fc", m, "x", "k", "l")


def _may_gather(m: Match) -> bool:
    """The constant can be added last: nothing else reads the inner node, nothing grows by it."""
    inner = m["inner"]
    return (
        _is_computed_in("iufc", m, "x", "y", "k")
        and inner.shape == m.node.shape
        and m.facts.uses.get(inner, 1) == 1
        and m.facts.fill(m["x"]) is None
        and m.facts.fill(m["y"]) is None
    )


MERGE_SUMS: Final = RuleInfo(
    "merge_sums", Kind.EXACT, "(x + k) + l = x + (k + l) for integers, and so for differences"
)
MERGE_PRODUCTS: Final = RuleInfo(
    "merge_products", Kind.EXACT, "(x * k) * l = x * (k * l) for integers"
)
REASSOCIATE_SUMS: Final = RuleInfo(
    "reassociate_sums", Kind.REASSOCIATING, "(x + k) + l = x + (k + l), and so for differences"
)
REASSOCIATE_PRODUCTS: Final = RuleInfo(
    "reassociate_products",
    Kind.REASSOCIATING,
    "(x * k) * l = x * (k * l), and so for quotients",
)
GATHER_SUMS: Final = RuleInfo(
    "gather_sums", Kind.REASSOCIATING, "(x + k) + y = (x + y) + k, so that constants meet"
)
GATHER_PRODUCTS: Final = RuleInfo(
    "gather_products", Kind.REASSOCIATING, "(x * k) * y = (x * y) * k, so that constants meet"
)

REASSOCIATIONS: Final[tuple[RewriteRule, ...]] = (
    *(RewriteRule(MERGE_SUMS, *e, _integers) for e in SUMS),
    *(RewriteRule(MERGE_PRODUCTS, *e, _integers) for e in PRODUCTS),
    *(RewriteRule(REASSOCIATE_SUMS, *e, _inexact) for e in SUMS),
    *(RewriteRule(REASSOCIATE_PRODUCTS, *e, _inexact) for e in (*PRODUCTS, *QUOTIENTS)),
    RewriteRule(GATHER_SUMS, add(add(x, k, name="inner"), y), add(add(x, y), k), _may_gather),
    RewriteRule(
        GATHER_PRODUCTS,
        multiply(multiply(x, k, name="inner"), y),
        multiply(multiply(x, y), k),
        _may_gather,
    ),
)
