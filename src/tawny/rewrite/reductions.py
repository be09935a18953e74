"""Reductions: of one element, of reductions, and with axes kept only to be dropped."""

from __future__ import annotations

from typing import Any, Final, cast

from tawny.node import Node, make
from tawny.ops import reduction
from tawny.ops.creation import Cast
from tawny.ops.movement import Reshape
from tawny.ops.reduction import CHOOSING, Accumulation, Mean, Prod, Reduction, Sum
from tawny.rewrite.facts import NodeFacts, full_like, is_negative_zero, reshape_to
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import Capture, Fill, Match, RewriteRule, any_of, call, rule
from tawny.shape import reduction_shape

EXACT: Final = Kind.EXACT
CONTRACTING: Final = Kind.CONTRACTING
x: Final = Capture("x")

ALL: Final = tuple([op for op in reduction.REDUCTIONS if issubclass(op, Reduction)])
FOLDING: Final = (Sum, Prod)


def _op(node: Node) -> Reduction:
    return cast("Reduction", node.op)


def _one_element(node: Node, facts: NodeFacts) -> bool:
    """Every reduced axis has one element; multiplied by one, a complex infinity becomes NaN."""
    del facts
    source = node.inputs[0]
    return all(source.shape[a] == 1 for a in _op(node).axes) and (
        source.dtype.kind != "c" or type(node.op) is Sum
    )


def _element(m: Match) -> Node:
    source = m["x"]
    if source.dtype != m.node.dtype:
        source = make(Cast(m.node.dtype), (source,))
    return reshape_to(source, m.node.shape)


def _adds_no_zero(m: Match) -> bool:
    """No sum that starts from 0.0, which makes 0.0 of -0.0."""
    return type(m.node.op) not in (Sum, Mean) or m.facts.is_never_negative_zero(m["x"])


def _with_axes(op: Reduction, axes: tuple[int, ...], keepdims: bool) -> Reduction:
    """A reduction of the kind of `op` over other axes."""
    attributes: dict[str, Any] = op.attributes() | {"axes": axes, "keepdims": keepdims}
    return type(op)(**attributes)


def _join_reductions(m: Match) -> Node | None:
    """One reduction over the axes of both, unless the inner one is needed anyway."""
    outer, inner, source = _op(m.node), _op(m["inner"]), m["inner"].inputs[0]
    if type(outer) is not type(inner) or m.facts.is_shared(m["inner"]):
        return None
    if isinstance(outer, Accumulation) and outer.dtype != cast("Accumulation", inner).dtype:
        return None
    left = [a for a in range(len(source.shape)) if inner.keepdims or a not in inner.axes]
    axes = tuple(sorted({*inner.axes, *(left[a] for a in outer.axes)}))
    return reshape_to(make(_with_axes(outer, axes, False), (source,)), m.node.shape)


def _whole(m: Match) -> bool:
    return m["inner"].inputs[0].dtype.kind in "biu" and m.node.dtype.kind in "biu"


def _axes_kept(m: Match) -> Node | None:
    """The reduction that keeps or drops its axes itself, unless the other is needed anyway."""
    inner = m["inner"]
    op, source = _op(inner), inner.inputs[0]
    if reduction_shape(source.shape, op.axes, not op.keepdims) != m.node.shape:
        return None
    if m.facts.is_shared(inner):
        return None
    return make(_with_axes(op, op.axes, not op.keepdims), (source,))


def _positive(m: Match) -> bool:
    return not is_negative_zero(m.fill("k"))


REDUCTIONS: Final[tuple[RewriteRule, ...]] = (
    rule(
        "sum_zeros",
        EXACT,
        call(Sum, Fill("k", 0)),
        lambda m: full_like(0, m.node),
        "sum(zeros) = zeros",
        _positive,
    ),
    rule(
        "prod_ones",
        EXACT,
        call(Prod, Fill("k", 1)),
        lambda m: full_like(1, m.node),
        "prod(ones) = ones",
    ),
    rule(
        "reduce_one",
        EXACT,
        any_of((Sum, Prod, Mean, *CHOOSING), x),
        _element,
        "max(x) = x over axes of size 1",
        _adds_no_zero,
        only=_one_element,
    ),
    rule(
        "reduce_one_float",
        CONTRACTING,
        any_of((Sum, Mean), x),
        _element,
        "sum(x) = x over axes of size 1, but for the sign of zero",
        only=_one_element,
    ),
    rule(
        "reduce_reduce",
        EXACT,
        any_of((*FOLDING, *CHOOSING), any_of((*FOLDING, *CHOOSING), x, name="inner")),
        _join_reductions,
        "max(max(x, a), b) = max(x, a and b); sums and products of integers",
        _whole,
    ),
    rule(
        "reduce_reduce_float",
        CONTRACTING,
        any_of(CHOOSING, any_of(CHOOSING, x, name="inner")),
        _join_reductions,
        "max(max(x, a), b) = max(x, a and b), but for the sign of zero",
    ),
    rule(
        "reduce_keepdims",
        EXACT,
        call(Reshape, any_of(ALL, x, name="inner")),
        _axes_kept,
        "reshape(sum(x, keepdims), shape without) = sum(x)",
    ),
)
