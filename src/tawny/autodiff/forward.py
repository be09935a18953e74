"""Forward mode: tangents go from arguments to results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawny.autodiff.applying import Nodes, forward_rule, is_derived, refuse_undefined, reverse_rule
from tawny.autodiff.fitting import converted, fitted, is_smooth, zero
from tawny.autodiff.reverse import (
    check_linear,
    check_transposable,
    edge_of,
    gathered,
    pulled_back,
    reached,
)
from tawny.autodiff.slopes import PLAIN, slope_of
from tawny.node import Node, Part, make, part, toposort, variable, written_at
from tawny.op import ELEMENTWISE, Gradient, Type
from tawny.ops.differentiation import Rewritten
from tawny.ops.movement import broadcasted

_ADD = ELEMENTWISE["add"]
_WHERE = ELEMENTWISE["where"]


def pushed_forward(tangents: Mapping[Node, Node], results: Sequence[Node]) -> list[Node | None]:
    """Tangents of `results`, given those of some nodes; None where a result does not change."""
    order = toposort(results)
    active = reached(order, frozenset(tangents))
    known: dict[Node, Node] = dict(tangents)
    for node in _needed(order, results):
        if node not in active or node in known or not node.inputs or isinstance(node.op, Part):
            continue
        with written_at(node.sources):
            made = _tangents(node, [known.get(x) for x in node.inputs])
            kinds = node.parts or ((node.shape, node.dtype),)
            for index, (tangent, kind) in enumerate(zip(made, kinds, strict=True)):
                if tangent is not None:
                    target = part(node, index) if node.parts else node
                    known[target] = _as(tangent, kind)
    return [known.get(node) for node in results]


def _needed(order: Sequence[Node], results: Sequence[Node]) -> list[Node]:
    """The nodes whose tangents are asked for.

    Those of results with a derivative of their own do not follow from what computes them.
    """
    needed = set(results)
    for node in reversed(order):
        if node in needed:
            op = node.op
            needed.update(node.inputs[op.results :] if isinstance(op, Rewritten) else node.inputs)
    return [n for n in order if n in needed]


def _as(tangent: Node, kind: Type) -> Node:
    shape, dtype = kind
    return converted(broadcasted(tangent, shape), dtype)


def _tangents(node: Node, given: Nodes) -> Nodes:
    """The tangent of each result, given those of the operands."""
    if all(t is None for t in given):
        return (None,) * max(1, len(node.parts))
    if is_derived(node):
        return (_elementwise(node, given),)
    ruled = forward_rule(node, given)
    if ruled is not None:
        return ruled
    refuse_undefined(node)
    declared = node.op.facts().gradient
    if declared is Gradient.LINEAR:
        return (make(node.op, _completed(node, given)),)
    if declared is Gradient.MULTILINEAR:
        return (_multilinear(node, given),)
    return _transposed(node, given)


def _elementwise(node: Node, given: Nodes) -> Node | None:
    """The sum of what each operand's tangent contributes."""
    refuse_undefined(node)
    if node.op is _WHERE:
        condition, *choices = node.inputs
        changes = [
            zero(x.shape, node.dtype) if t is None else t
            for t, x in zip(given[1:], choices, strict=True)
        ]
        return make(_WHERE, (condition, *changes))
    result: Node | None = None
    for position, tangent in enumerate(given):
        if tangent is None:
            continue
        passed = slope_of(node, position, tangent, PLAIN)
        if passed is not None:
            result = passed if result is None else make(_ADD, (result, passed))
    return result


def _completed(node: Node, given: Nodes) -> tuple[Node, ...]:
    """Tangents of all operands; what cannot change by a little, such as an index, stays."""
    return tuple(
        [
            t if t is not None else zero(x.shape, x.dtype) if is_smooth(x) else x
            for t, x in zip(given, node.inputs, strict=True)
        ]
    )


def _multilinear(node: Node, given: Nodes) -> Node:
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


def _transposed(node: Node, given: Nodes) -> Nodes:
    """Tangents of the results from the op's rule of reverse mode, which is a linear map.

    It is written down for placeholders and then differentiated in them.
    """
    kinds = node.parts or ((node.shape, node.dtype),)
    holders = [variable(None, shape, dtype) for shape, dtype in kinds if dtype.kind in "fc"]
    places = iter(holders)
    slopes = reverse_rule(node, [next(places) if d.kind in "fc" else None for _, d in kinds])
    if slopes is None:
        raise AssertionError(f"{node!r} declares a rule of differentiation and has none")
    pairs = [
        (fitted(s, x), t)
        for s, t, x in zip(slopes, given, node.inputs, strict=True)
        if s is not None and t is not None
    ]
    edge = edge_of(node, given)
    check_transposable(
        node,
        [s for s, _ in pairs],
        holders,
        edge,
        "forward mode: use reverse mode (tw.grad, tw.vjp, tw.jacrev), or give it tangents with "
        "tw.custom_jvp",
    )
    found = pulled_back(gathered(pairs), holders, edge)
    check_linear(node, found.values(), holders, edge)
    places = iter(holders)
    return [found.get(next(places)) if d.kind in "fc" else None for _, d in kinds]
