"""Reverse mode: cotangents go from results back to what they depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from tawny.autodiff.dispatch import (
    DerivativeNodes,
    apply_pullback,
    apply_pushforward,
    check_differentiable,
    has_scalar_derivative,
)
from tawny.autodiff.elementwise_rules import PLAIN, ZERO_SAFE, multiply_by_derivative
from tawny.autodiff.unbroadcast import accumulate, is_inexact, unbroadcast
from tawny.errors import value_error
from tawny.node import Node, Part, source_scope, toposort, variable
from tawny.op import ELEMENTWISE, Gradient
from tawny.ops.differentiation import DerivativeMarker

_WHERE = ELEMENTWISE["where"]


def pull_back(
    seeds: Mapping[Node, Node],
    wrt: Iterable[Node],
    boundary: AbstractSet[Node] = frozenset(),
    *,
    masked: bool = False,
) -> dict[Node, Node]:
    """Cotangents of `wrt`, given those of some results; what reaches no result has none.

    Cotangents that come through `where` are zero behind the branch that was not taken, and stay
    so: see `tawny.autodiff.elementwise_rules`; all of them if `masked`.  The graph is not followed
    behind the nodes of `boundary`.
    """
    sources = frozenset(wrt)
    order = toposort(seeds, boundary.__contains__)
    active = active_nodes(order, sources)
    incoming: dict[Node, list[Node]] = {n: [s] for n, s in seeds.items()}
    several: dict[Node, list[Node | None]] = {}
    quiet = set(seeds) if masked else set[Node]()
    found: dict[Node, Node] = {}
    for node in reversed(order):
        if node not in active:
            continue
        cotangents: DerivativeNodes
        with source_scope(node.sources):
            if node.parts:
                if node not in several:
                    continue
                cotangents = several.pop(node)
            elif node in incoming:
                cotangent = accumulate(incoming.pop(node))
                cotangents = (cotangent,)
                if node in sources:
                    found[node] = cotangent
            else:
                continue
            if isinstance(node.op, Part):
                whole = node.inputs[0]
                several.setdefault(whole, [None] * len(whole.parts))[node.op.index] = cotangents[0]
                if node in quiet:
                    quiet.add(whole)
                continue
            hidden = node in quiet or node.op is _WHERE
            for x, passed in _operand_cotangents(node, cotangents, active, hidden):
                incoming.setdefault(x, []).append(passed)
                if hidden:
                    quiet.add(x)
    return found


def active_nodes(order: Iterable[Node], sources: frozenset[Node]) -> set[Node]:
    """The nodes that change smoothly with `sources`."""
    active: set[Node] = set()
    for node in order:
        if node in sources or (
            node.inputs
            and not active.isdisjoint(node.inputs)
            and (node.parts or is_inexact(node))
            and node.op.facts().gradient is not Gradient.ZERO
        ):
            active.add(node)
    return active


def _operand_cotangents(
    node: Node, cotangents: DerivativeNodes, active: AbstractSet[Node], masked: bool
) -> Iterable[tuple[Node, Node]]:
    """The cotangents that a node passes on to its operands."""
    if active.isdisjoint(node.inputs):
        return
    if has_scalar_derivative(node):
        (cotangent,) = cotangents
        assert cotangent is not None
        check_differentiable(node)
        arith = ZERO_SAFE if masked else PLAIN
        for position, x in enumerate(node.inputs):
            if x in active:
                passed = multiply_by_derivative(node, position, cotangent, arith)
                if passed is not None:
                    yield x, unbroadcast(passed, x)
        return
    derivatives = apply_pullback(node, cotangents, masked)
    if derivatives is None:
        derivatives = _transpose_forward_rule(node, cotangents, active, masked)
    for x, passed in zip(node.inputs, derivatives, strict=True):
        if passed is not None and x in active:
            yield x, unbroadcast(passed, x)


def _transpose_forward_rule(
    node: Node, cotangents: DerivativeNodes, active: AbstractSet[Node], masked: bool
) -> DerivativeNodes:
    """Cotangents of the operands from the op's rule of forward mode, which is a linear map.

    It is written down for placeholders and then differentiated in them.
    """
    check_differentiable(node)
    holders = [variable(None, x.shape, x.dtype) if x in active else None for x in node.inputs]
    tangents = apply_pushforward(node, holders)
    if tangents is None:
        raise AssertionError(f"{node!r} declares a rule of differentiation and has none")
    pairs = [
        (t, c) for t, c in zip(tangents, cotangents, strict=True) if t is not None and c is not None
    ]
    given = [h for h in holders if h is not None]
    boundary = boundary_of(node, cotangents)
    check_transposable(
        node,
        [t for t, _ in pairs],
        given,
        boundary,
        "reverse mode: use forward mode (tw.jvp, tw.jacfwd), or give it a rule with tw.custom_vjp",
    )
    found = pull_back(sum_seeds(pairs), given, boundary, masked=masked)
    check_linear(node, found.values(), given, boundary)
    return [None if h is None else found.get(h) for h in holders]


def sum_seeds(pairs: Iterable[tuple[Node, Node]]) -> dict[Node, Node]:
    """The cotangent of each node, summed where one comes twice."""
    seeds: dict[Node, list[Node]] = {}
    for node, cotangent in pairs:
        seeds.setdefault(node, []).append(unbroadcast(cotangent, node))
    return {node: accumulate(cotangents) for node, cotangents in seeds.items()}


def boundary_of(node: Node, given: DerivativeNodes) -> set[Node]:
    """The nodes that a rule of `node` uses besides placeholders: it does not depend on more."""
    return {node, *node.inputs, *[g for g in given if g is not None]}


def check_transposable(
    node: Node,
    made: Iterable[Node],
    holders: Iterable[Node],
    boundary: AbstractSet[Node],
    way_out: str,
) -> None:
    """Refuse the other mode of a user's rule that is not made of operations with derivatives."""
    if not isinstance(node.op, DerivativeMarker):
        return
    order = toposort(made, boundary.__contains__)
    active = active_nodes(order, frozenset(holders))
    for inner in order:
        if inner in active and inner.op.facts().gradient is Gradient.NONE:
            raise value_error(
                "grad",
                f"the derivative that {node.name} was given uses {inner.name}, which has none "
                f"itself, so it has none in {way_out}",
            )


def check_linear(
    node: Node, found: Iterable[Node], holders: Iterable[Node], boundary: AbstractSet[Node]
) -> None:
    """A rule is linear: what it transposes to does not mention what it is linear in."""
    left = set(holders).intersection(toposort(found, boundary.__contains__))
    if left:
        raise AssertionError(f"the rule of {node!r} is not linear")
