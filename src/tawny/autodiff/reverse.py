"""Reverse mode: slopes go from results back to what they depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from tawny.autodiff.applying import Nodes, forward_rule, is_derived, refuse_undefined, reverse_rule
from tawny.autodiff.fitting import fitted, is_smooth, total
from tawny.autodiff.slopes import PLAIN, QUIET, slope_of
from tawny.errors import value_error
from tawny.node import Node, Part, toposort, variable, written_at
from tawny.op import ELEMENTWISE, Gradient
from tawny.ops.differentiation import Rewritten

_WHERE = ELEMENTWISE["where"]


def pulled_back(
    seeds: Mapping[Node, Node],
    wrt: Iterable[Node],
    edge: AbstractSet[Node] = frozenset(),
    *,
    masked: bool = False,
) -> dict[Node, Node]:
    """Slopes of `wrt`, given those of some results; what reaches no result has none.

    Slopes that come through `where` are zero behind the branch that was not taken, and are kept
    so: see `tawny.autodiff.slopes`; all of them if `masked`.  Behind the nodes of `edge` there is
    nothing to be found.
    """
    sources = frozenset(wrt)
    order = toposort(seeds, edge.__contains__)
    active = reached(order, sources)
    incoming: dict[Node, list[Node]] = {n: [s] for n, s in seeds.items()}
    several: dict[Node, list[Node | None]] = {}
    quiet = set(seeds) if masked else set[Node]()
    found: dict[Node, Node] = {}
    for node in reversed(order):
        if node not in active:
            continue
        slopes: Nodes
        with written_at(node.sources):
            if node.parts:
                if node not in several:
                    continue
                slopes = several.pop(node)
            elif node in incoming:
                slope = total(incoming.pop(node))
                slopes = (slope,)
                if node in sources:
                    found[node] = slope
            else:
                continue
            if isinstance(node.op, Part):
                whole = node.inputs[0]
                several.setdefault(whole, [None] * len(whole.parts))[node.op.index] = slopes[0]
                if node in quiet:
                    quiet.add(whole)
                continue
            hidden = node in quiet or node.op is _WHERE
            for x, passed in _passed_on(node, slopes, active, hidden):
                incoming.setdefault(x, []).append(passed)
                if hidden:
                    quiet.add(x)
    return found


def reached(order: Iterable[Node], sources: frozenset[Node]) -> set[Node]:
    """The nodes through which a change of `sources` is felt."""
    active: set[Node] = set()
    for node in order:
        if node in sources or (
            node.inputs
            and not active.isdisjoint(node.inputs)
            and (node.parts or is_smooth(node))
            and node.op.facts().gradient is not Gradient.ZERO
        ):
            active.add(node)
    return active


def _passed_on(
    node: Node, slopes: Nodes, active: AbstractSet[Node], masked: bool
) -> Iterable[tuple[Node, Node]]:
    """The slopes that a node passes on to its operands."""
    if active.isdisjoint(node.inputs):
        return
    if is_derived(node):
        (slope,) = slopes
        assert slope is not None
        refuse_undefined(node)
        how = QUIET if masked else PLAIN
        for position, x in enumerate(node.inputs):
            if x in active:
                passed = slope_of(node, position, slope, how)
                if passed is not None:
                    yield x, fitted(passed, x)
        return
    ruled = reverse_rule(node, slopes, masked)
    if ruled is None:
        ruled = _transposed(node, slopes, active, masked)
    for x, passed in zip(node.inputs, ruled, strict=True):
        if passed is not None and x in active:
            yield x, fitted(passed, x)


def _transposed(node: Node, slopes: Nodes, active: AbstractSet[Node], masked: bool) -> Nodes:
    """Slopes of the operands from the op's rule of forward mode, which is a linear map.

    It is written down for placeholders and then differentiated in them.
    """
    refuse_undefined(node)
    holders = [variable(None, x.shape, x.dtype) if x in active else None for x in node.inputs]
    tangents = forward_rule(node, holders)
    if tangents is None:
        raise AssertionError(f"{node!r} declares a rule of differentiation and has none")
    pairs = [
        (t, s) for t, s in zip(tangents, slopes, strict=True) if t is not None and s is not None
    ]
    given = [h for h in holders if h is not None]
    edge = edge_of(node, slopes)
    check_transposable(
        node,
        [t for t, _ in pairs],
        given,
        edge,
        "reverse mode: use forward mode (tw.jvp, tw.jacfwd), or give it slopes with tw.custom_vjp",
    )
    found = pulled_back(gathered(pairs), given, edge, masked=masked)
    check_linear(node, found.values(), given, edge)
    return [None if h is None else found.get(h) for h in holders]


def gathered(pairs: Iterable[tuple[Node, Node]]) -> dict[Node, Node]:
    """Seeds of nodes, summed for one that comes twice."""
    seeds: dict[Node, list[Node]] = {}
    for node, slope in pairs:
        seeds.setdefault(node, []).append(fitted(slope, node))
    return {node: total(slopes) for node, slopes in seeds.items()}


def edge_of(node: Node, given: Nodes) -> set[Node]:
    """What a rule of `node` is written in besides placeholders: it need not be looked behind."""
    return {node, *node.inputs, *[g for g in given if g is not None]}


def check_transposable(
    node: Node,
    made: Iterable[Node],
    holders: Iterable[Node],
    edge: AbstractSet[Node],
    way_out: str,
) -> None:
    """Refuse the other mode of a user's rule that is not made of operations with derivatives."""
    if not isinstance(node.op, Rewritten):
        return
    order = toposort(made, edge.__contains__)
    active = reached(order, frozenset(holders))
    for inner in order:
        if inner in active and inner.op.facts().gradient is Gradient.NONE:
            raise value_error(
                "grad",
                f"the derivative that {node.name} was given uses {inner.name}, which has none "
                f"itself, so it has none in {way_out}",
            )


def check_linear(
    node: Node, found: Iterable[Node], holders: Iterable[Node], edge: AbstractSet[Node]
) -> None:
    """A rule is linear: what it transposes to does not mention what it is linear in."""
    left = set(holders).intersection(toposort(found, edge.__contains__))
    if left:
        raise AssertionError(f"the rule of {node!r} is not linear")
