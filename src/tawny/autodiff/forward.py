"""Forward mode: tangents go from arguments to results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawny.autodiff.dispatch import (
    DerivativeNodes,
    apply_pullback,
    apply_pushforward,
    check_differentiable,
    has_scalar_derivative,
)
from tawny.autodiff.elementwise_rules import PLAIN, multiply_by_derivative
from tawny.autodiff.reverse import (
    active_nodes,
    boundary_of,
    check_linear,
    check_transposable,
    pull_back,
    sum_seeds,
)
from tawny.autodiff.unbroadcast import is_inexact, unbroadcast
from tawny.dtype import kind_of
from tawny.node import Node, Part, make, part, source_scope, toposort, variable
from tawny.op import ELEMENTWISE, Gradient, Type
from tawny.ops.creation import convert_node
from tawny.ops.differentiation import DerivativeMarker
from tawny.ops.movement import broadcast_node, zeros_node

_ADD = ELEMENTWISE["add"]
_WHERE = ELEMENTWISE["where"]


def push_forward(tangents: Mapping[Node, Node], results: Sequence[Node]) -> list[Node | None]:
    """Tangents of `results`, given those of some nodes; None where a result does not change."""
    order = toposort(results)
    active = active_nodes(order, frozenset(tangents))
    known: dict[Node, Node] = dict(tangents)
    for node in _nodes_needed(order, results):
        if node not in active or node in known or not node.inputs or isinstance(node.op, Part):
            continue
        with source_scope(node.sources):
            made = _tangents(node, [known.get(x) for x in node.inputs])
            kinds = node.parts or ((node.shape, node.dtype),)
            for index, (tangent, kind) in enumerate(zip(made, kinds, strict=True)):
                if tangent is not None:
                    target = part(node, index) if node.parts else node
                    known[target] = _match_type(tangent, kind)
    return [known.get(node) for node in results]


def _nodes_needed(order: Sequence[Node], results: Sequence[Node]) -> list[Node]:
    """The nodes whose tangents are asked for.

    Those of results with a derivative of their own do not follow from what computes them.
    """
    needed = set(results)
    for node in reversed(order):
        if node in needed:
            op = node.op
            needed.update(
                node.inputs[op.results :] if isinstance(op, DerivativeMarker) else node.inputs
            )
    return [n for n in order if n in needed]


def _match_type(tangent: Node, kind: Type) -> Node:
    shape, dtype = kind
    return convert_node(broadcast_node(tangent, shape), dtype)


def _tangents(node: Node, given: DerivativeNodes) -> DerivativeNodes:
    """The tangent of each result, given those of the operands."""
    if all(t is None for t in given):
        return (None,) * max(1, len(node.parts))
    if has_scalar_derivative(node):
        return (_elementwise_tangent(node, given),)
    derivatives = apply_pushforward(node, given)
    if derivatives is not None:
        return derivatives
    check_differentiable(node)
    declared = node.op.facts().gradient
    if declared is Gradient.LINEAR:
        return (make(node.op, _fill_with_zeros(node, given)),)
    if declared is Gradient.MULTILINEAR:
        return (_multilinear_tangent(node, given),)
    return _transpose_reverse_rule(node, given)


def _elementwise_tangent(node: Node, given: DerivativeNodes) -> Node | None:
    """The sum of what each operand's tangent contributes."""
    check_differentiable(node)
    if node.op is _WHERE:
        condition, *choices = node.inputs
        changes = [
            zeros_node(x.shape, node.dtype) if t is None else t
            for t, x in zip(given[1:], choices, strict=True)
        ]
        return make(_WHERE, (condition, *changes))
    result: Node | None = None
    for position, tangent in enumerate(given):
        if tangent is None:
            continue
        passed = multiply_by_derivative(node, position, tangent, PLAIN)
        if passed is not None:
            result = passed if result is None else make(_ADD, (result, passed))
    return result


def _fill_with_zeros(node: Node, given: DerivativeNodes) -> tuple[Node, ...]:
    """Tangents of all operands; what cannot change by a little, such as an index, stays."""
    return tuple(
        [
            t if t is not None else zeros_node(x.shape, x.dtype) if is_inexact(x) else x
            for t, x in zip(given, node.inputs, strict=True)
        ]
    )


def _multilinear_tangent(node: Node, given: DerivativeNodes) -> Node:
    """The op with each operand in turn replaced by its tangent, summed."""
    result: Node | None = None
    for position, tangent in enumerate(given):
        if tangent is None:
            continue
        operands = (*node.inputs[:position], tangent, *node.inputs[position + 1 :])
        term = make(node.op, operands)
        result = term if result is None else make(_ADD, (result, term))
    assert result is not None
    return result


def _transpose_reverse_rule(node: Node, given: DerivativeNodes) -> DerivativeNodes:
    """Tangents of the results from the op's rule of reverse mode, which is a linear map.

    It is written down for placeholders and then differentiated in them.
    """
    kinds = node.parts or ((node.shape, node.dtype),)
    holders = [variable(None, shape, dtype) for shape, dtype in kinds if kind_of(dtype) in "fc"]
    places = iter(holders)
    cotangents = apply_pullback(
        node, [next(places) if kind_of(d) in "fc" else None for _, d in kinds]
    )
    if cotangents is None:
        raise AssertionError(f"{node!r} declares a rule of differentiation and has none")
    pairs = [
        (unbroadcast(c, x), t)
        for c, t, x in zip(cotangents, given, node.inputs, strict=True)
        if c is not None and t is not None
    ]
    boundary = boundary_of(node, given)
    check_transposable(
        node,
        [c for c, _ in pairs],
        holders,
        boundary,
        "forward mode: use reverse mode (tw.grad, tw.vjp, tw.jacrev), or give it tangents with "
        "tw.custom_jvp",
    )
    found = pull_back(sum_seeds(pairs), holders, boundary)
    check_linear(node, found.values(), holders, boundary)
    places = iter(holders)
    return [found.get(next(places)) if kind_of(d) in "fc" else None for _, d in kinds]
