"""The nodes of a program that compute what the user wrote, and why their values lie where they do.

The optimiser has changed the graph: a node the user holds may be computed as another one, inside
one, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tawny.engine.lowering import LoweredGraph, is_leaf
from tawny.errors import list_some, value_error
from tawny.graph.expansion import (
    ExpandedFusions,
    ExpandedGroups,
    expand_fusions,
    expand_groups,
    simplify_nodes,
)
from tawny.lazy import cached_property
from tawny.node import Node

if TYPE_CHECKING:
    from tawny.graph.plan import Plan


class ProgramNodes:
    """Finds the nodes of a program, given those of the graph it was compiled from."""

    def __init__(
        self, lowered: LoweredGraph, user_results: Sequence[Node], names: Mapping[Node, str]
    ) -> None:
        """`user_results` are those of `lowered`, as they were written; variables have `names`."""
        self._lowered, self._user_results, self._names = lowered, user_results, names

    def title(self, node: Node) -> str:
        """What the graph calls a variable; of any other node its own name."""
        return self._names.get(node, node.name)

    def of_value(self, value: int) -> Node:
        """The node whose value has a number in the planning problem."""
        label = self._lowered.problem.values[value].label
        assert isinstance(label, Node)
        return label

    def find(self, node: Node) -> tuple[Node, bool] | None:
        """The program's node for one of the user's, and whether that is computed inside it.

        There is none for what was optimised away.
        """
        node = self._results.get(node, node)
        own = self._find_own(node)
        if own is None and (simple := self.simple_nodes.get(node)) is not None:
            fused = self._fusions
            own = self._find_own(simple) or self._find_own(fused.program_node.get(simple, simple))
            if own is None and simple in fused.inside:
                around = self._find_own(fused.inside[simple])
                own = None if around is None else (around[0], True)
        return own

    def _find_own(self, node: Node) -> tuple[Node, bool] | None:
        """Where the program computes a node of its own, also if that is a member of a group."""
        if (node, 0) in self._lowered.values:
            return node, False
        if node in self._groups.program_node:
            return self._groups.program_node[node], False
        return (self._step_around[node], True) if node in self._step_around else None

    @cached_property
    def simple_nodes(self) -> dict[Node, Node]:
        """What became of the user's nodes when the graph was simplified."""
        return simplify_nodes(self._user_results)

    @cached_property
    def _results(self) -> dict[Node, Node]:
        """The results as they are computed, by how they were written."""
        return dict(zip(self._user_results, self._lowered.results, strict=False))

    @cached_property
    def _groups(self) -> ExpandedGroups:
        return expand_groups(self._lowered.results)

    @cached_property
    def _fusions(self) -> ExpandedFusions:
        written = {own: plain for plain, own in self._groups.program_node.items()}
        results = [written.get(n, n) for n in self._lowered.results]
        return expand_fusions(results, set(self.simple_nodes.values()))

    @cached_property
    def _step_around(self) -> dict[Node, Node]:
        """The steps inside which nodes are computed that have no memory of their own."""
        members, own = self._groups
        return {m: step for step, inner in members.items() for m in inner if m not in own}


# ------------------------------------------------------------------------- reasons


def explain_place(plan: Plan, node: Node) -> str:
    """Why the value of a node that the user wrote lies where it does, in words."""
    found, name = plan.program_nodes.find(node), plan.program_nodes.title(node)
    if found is None:
        return _explain_absence(plan, node)
    own, inside = found
    if inside:
        return f"{name}: computed inside {own!r}, without memory of its own"
    said = _explain_own(plan, own)
    return said if plan.program_nodes.title(own) == name else f"{name} is computed as {said}"


def _explain_own(plan: Plan, node: Node) -> str:
    """Why a value that the program computes lies where it does."""
    if is_leaf(node):
        return f"{plan.program_nodes.title(node)}: an input or constant, outside the plan"
    value = plan.lowered.problem.roots[plan.lowered.value(node)]
    root = plan.program_nodes.of_value(value)
    if root is not node:
        return f"{node.name}: a view of {root!r}, without memory of its own"
    variable = plan.in_place_updates.get(node)
    if variable is not None:
        title = plan.program_nodes.title(variable)
        return f"{node.name}: computed in the memory of variable {title!r}"
    return _explain_offset(plan, node, value)


def _explain_absence(plan: Plan, node: Node) -> str:
    """Why the program has no value for a node, and what has become of it."""
    simplified = plan.program_nodes.simple_nodes
    if node not in simplified:
        raise value_error("why", f"{node!r} is of another graph: this one does not compute it")
    folded = f"{node.name}: known when the program was compiled, and folded into a constant"
    if is_leaf(simplified[node]):
        return folded
    gone = {node}
    for later in simplified:
        if not gone.isdisjoint(later.inputs):
            found = plan.program_nodes.find(later)
            if found is not None:
                own, _ = found
                part = f"{node.name}: optimised away, as a part of {own!r}"
                return folded if is_leaf(own) else part
            gone.add(later)
    return f"{node.name}: optimised away"


def _explain_offset(plan: Plan, node: Node, value: int) -> str:
    """Why a value has its place in the arena: what it is written over, and who else lies there."""
    layout, parts = plan.layout, list[str]()
    if node in plan.kept:
        parts.append("kept for later runs, which may need it without computing it again")
    over = layout.overwrites(value)
    place = layout.offsets[value]
    where = "nowhere" if place is None else str(place)
    if over is not None:
        parts.append(f"in place of {plan.program_nodes.of_value(over)!r}")
    else:
        reasons = [f"operand {i}: {reason.value}" for i, reason in layout.refusals(value)]
        parts.append("not in place: " + ("; ".join(reasons) or "it has no operands"))
    sharers = [plan.program_nodes.of_value(v) for v in layout.sharers(value)]
    if sharers:
        listed = list_some([*map(repr, sharers)])
        parts.append(f"its bytes are also used by {listed}, at other times")
    size = plan.lowered.problem.values[value].bytes
    return f"{node.name}: {size} bytes at {where}; " + "; ".join(parts)
