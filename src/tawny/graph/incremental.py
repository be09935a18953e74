"""Which steps a change of inputs reaches, and what must be kept so that only those run.

Every step knows the set of inputs it depends on, as a bit mask.  A run executes the steps whose
mask meets the changed inputs.  A value read by a step that may run without it must be kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tawny.engine.lowering import is_leaf, result_of
from tawny.node import Node, Part
from tawny.ops.delay import Delay

VOLATILE = 1
"""The bit of what changes in every run: random draws, functions that run always, updates."""


@dataclass(frozen=True)
class Dependence:
    """The inputs each node depends on, as bits; `bit` gives each variable's."""

    bit: Mapping[Node, int]
    mask: Mapping[Node, int]
    watched: int
    """The bits that are told apart; a change of any other makes everything run."""

    def run_key(self, node: Node) -> int:
        """The key of the runs a node is part of: nodes of equal keys run in the same runs."""
        mask = self.mask[node]
        return VOLATILE if mask & VOLATILE else mask & self.watched

    def dependents(self, changed: int) -> frozenset[Node] | None:
        """The nodes that depend on `changed`; None for all of them."""
        if changed & ~self.watched:
            return None
        changed |= VOLATILE
        return frozenset(n for n, mask in self.mask.items() if mask & changed)


def dependence(
    order: Iterable[Node],
    variables: Sequence[Node],
    often: Collection[Node],
    updated: Collection[Node],
) -> Dependence:
    """Follow every variable through the graph, whose nodes are given inputs first.

    `often` are the variables told apart (all, if empty); those `updated` change in every run.
    """
    bit = {
        node: VOLATILE if node in updated else 2 << index for index, node in enumerate(variables)
    }
    mask: dict[Node, int] = {}
    for node in order:
        own = bit.get(node, 0)
        if not own and node.op.facts().volatile:
            own = VOLATILE
        if not is_leaf(node):
            for source in node.inputs:
                own |= mask[source]
        mask[node] = own
    watched = VOLATILE
    for node in often or variables:
        watched |= bit[node]
    return Dependence(bit, mask, watched)


def boundary(known: Dependence, views: Mapping[Node, Node]) -> list[Node]:
    """Nodes with memory of their own that some reader may be run without.

    `views` maps each view to the node whose memory it shares.
    """
    run_keys = {node: known.run_key(node) for node in known.mask if not is_leaf(node)}
    if len(set(run_keys.values())) <= 1:
        return []
    out: dict[Node, None] = {}
    for node, here in run_keys.items():
        if isinstance(node.op, Part) or node in views:
            continue
        for source in node.inputs:
            root = views.get(source, source)
            if run_keys.get(root, here) != here:
                out[root] = None
    return list(out)


def is_called_on_change(node: Node) -> bool:
    """Whether the node calls a user's function with effects, when an operand changed and only then.

    It must never be computed again to have its value.
    """
    op = node.op
    return isinstance(op, Delay) and op.facts().impure and not op.facts().volatile


def nodes_to_compute(
    wanted: Iterable[Node], kept: Collection[Node], views: Mapping[Node, Node]
) -> frozenset[Node]:
    """`wanted` and whatever must run before them because its value is not kept."""
    stack = [n for n in wanted if not is_leaf(n)]
    seen = set(stack)
    while stack:
        node = stack.pop()
        for source in node.inputs:
            root = views.get(source, source)
            maker, _ = result_of(root)
            if maker not in seen and not is_leaf(root) and root not in kept:
                seen.add(maker)
                stack.append(maker)
    return frozenset(seen)
