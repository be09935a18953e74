"""What a program keeps from run to run, and its plan, chosen together within a budget of bytes.

A source of an update that is computed in its variable's memory takes none of the arena.  Then all
that reads the variable must run before; plans with that order and plans without are both made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, final

from tawny.graph.in_place_updates import NOWHERE, Homes, Updating
from tawny.graph.incremental import (
    VOLATILE,
    Dependence,
    boundary,
    called_on_change,
    closed,
)
from tawny.graph.lowering import Lowered, bound, is_leaf, lower, result_of, seconds
from tawny.memory.budget import Budget, MemoryBudgetError, takes
from tawny.memory.effort import SECOND
from tawny.memory.placement.place import Placement
from tawny.memory.plan import Layout, as_reported, plan, plan_below
from tawny.memory.problem import Problem
from tawny.memory.schedule import Schedule, schedule
from tawny.node import Node
from tawny.rewrite.flow import Flow
from tawny.shape import size

ALIGNMENT: Final = 64

Planning = Literal["default", "hard", "seed"]
"""How plans are made: quickly, as tight as can be found in a minute, or as the report does it."""

THOROUGH: Final = 10
"""So many times the looks are allowed for a budget when planning is to be hard."""


FEWEST: Final = 2
"""Each further problem that is to be put within a budget has half the looks, so often halved."""


@dataclass(frozen=True)
class Fitted:
    """A plan, what stays right from run to run, and whether a run may skip what did not change."""

    lowered: Lowered
    layout: Layout
    kept: tuple[Node, ...]
    incremental: bool
    elsewhere: frozenset[Node]
    """What takes no memory of the plan, since it is computed in that of a variable."""

    @property
    def arena(self) -> int:
        """Bytes of the plan."""
        return self.layout.arena


@final
class Fitting:
    """The ways to run a graph: keeping more or less, computing again more or less."""

    def __init__(
        self,
        lowered: Lowered,
        known: Dependence | None,
        homes: Sequence[Homes] = (NOWHERE,),
        planning: Planning = "default",
        lying: Callable[[Schedule], Collection[Node]] | None = None,
    ) -> None:
        """`lowered` is the graph; without `known` everything runs each time, and nothing is kept.

        `homes` are the ways to compute sources of updates in variables, the best first; `lying`
        gives those sources that a schedule lets lie there, whether or not it was made for that.
        """
        self._lying = lying
        self._planning: Planning = planning
        self._asked = 0
        """How many problems were to be put within a budget."""
        self._plain = lowered
        self._homes = homes
        self._known = known
        self._owned: dict[Node, None] = {}
        self._wanted: list[Node] = []
        self._views: Mapping[Node, Node] = {}
        self._called: list[Node] = []
        """Calls of functions with effects, which no lack of memory may repeat."""
        if known is not None:
            self._views = views = lowered.views
            self._called = [n for n in known.mask if called_on_change(n)]
            owners = [views.get(n, n) for n in lowered.results]
            self._owned = dict.fromkeys(n for n in owners if _may_wait(n, known))
            self._wanted = list(dict.fromkeys([*self._owned, *boundary(known, views)]))

    def within(self, budget: int | None) -> Fitted:
        """The plan that keeps what saves most time within the budget."""
        everything = self._planned(self._sound(self._wanted))
        if budget is None or everything.arena <= budget:
            return everything
        return self._keeping(budget) or self._tightly(budget)

    def _keeping(self, budget: int) -> Fitted | None:
        """A plan that keeps as much as fits of what is worth most; None where the rest is much."""
        if not self._wanted:
            return None
        plans: dict[tuple[Node, ...], Fitted] = {}

        def fitted(more: Sequence[Node]) -> Fitted:
            chosen = tuple(more)
            if chosen not in plans:
                plans[chosen] = self._planned(self._sound([*self._owned, *chosen]))
            return plans[chosen]

        def room(more: Sequence[Node]) -> int | None:
            left = budget - fitted(more).arena
            return None if left < 0 else left

        others = [n for n in self._wanted if n not in self._owned]
        chosen = most_kept(by_worth(others, list(self._owned), self._views), room)
        return None if chosen is None else fitted(chosen)

    def _planned(self, chosen: Sequence[Node]) -> Fitted:
        """The smallest of the plans that keep what is chosen and compute nothing again."""
        best: Fitted | None = None
        for where in self._homes:
            lowered = self._lowered(chosen, where, into_kept=len(chosen) == len(self._wanted))
            layout = self._layout(lowered.problem, None if best is None else best.arena)
            if layout is not None:
                found = self._fitted(lowered, layout, chosen, where, self._known is not None)
                best = found if best is None or found.arena < best.arena else best
        assert best is not None
        return best

    def _tightly(self, budget: int) -> Fitted:
        """A plan that computes some values again, keeping the results or, at last, nothing."""
        needed = list(self._owned)
        least: MemoryBudgetError | None = None
        options = [needed, []] if needed and not self._called else [self._sound(needed)]
        for chosen in options:
            for where in self._homes:
                lowered = self._lowered(chosen, where, into_kept=not chosen)
                if least is not None and takes(lowered.problem, least.least_bytes, ALIGNMENT):
                    continue
                try:
                    layout = self._budget(lowered.problem).within(budget)
                except MemoryBudgetError as error:
                    least = smaller(least, error)
                else:
                    incremental = self._known is not None and bool(chosen)
                    return self._fitted(lowered, layout, chosen, where, incremental)
        assert least is not None
        raise least

    def _layout(self, problem: Problem, below: int | None) -> Layout | None:
        """The plan of a problem; none if it would not be below some bytes."""
        hard = self._planning == "hard"
        if self._planning == "seed":
            return as_reported(problem, ALIGNMENT)
        if below is None:
            return plan(problem, alignment=ALIGNMENT, hard=hard)
        return plan_below(problem, below, alignment=ALIGNMENT, hard=hard)

    def _budget(self, problem: Problem) -> Budget:
        looks = (THOROUGH if self._planning == "hard" else 1) * SECOND >> min(self._asked, FEWEST)
        self._asked += 1
        return Budget(problem, alignment=ALIGNMENT, looks=looks)

    def _sound(self, chosen: list[Node]) -> list[Node]:
        """What is chosen to be kept, and the results of calls that would be repeated without."""
        if not self._called:
            return chosen
        dropped = [n for n in self._wanted if n not in chosen]
        makers = [result_of(n)[0] for n in dropped]
        again = closed(makers, chosen, self._views)
        return [*chosen, *[n for n in self._called if n in again and n not in chosen]]

    def _lowered(self, kept: Sequence[Node], where: Homes, *, into_kept: bool) -> Lowered:
        return bound(self._plain, kept, into_kept, where.variable, where.after)

    def _fitted(
        self,
        lowered: Lowered,
        layout: Layout,
        kept: Sequence[Node],
        where: Homes,
        incremental: bool,
    ) -> Fitted:
        """A plan in which all lies in variables that may."""
        plain = Fitted(lowered, layout, tuple(kept), incremental, frozenset(where.variable))
        lying = () if self._lying is None else frozenset(self._lying(layout.schedule))
        if plain.elsewhere.issuperset(lying):
            return plain
        lent = bound(lowered, elsewhere=lying)
        placed = plan(lent.problem, order=layout.sequence, alignment=ALIGNMENT)
        if placed.arena > layout.arena:
            placed = _where_it_was(layout, lent.problem)
        return replace(plain, lowered=lent, layout=placed, elsewhere=frozenset(lying))


def _where_it_was(layout: Layout, lent: Problem) -> Layout:
    """The same order and offsets where some values take no bytes: what is left stays in place."""
    old, values = layout.schedule, layout.problem.values
    slides = [
        tuple([(i, o) for i, o in pairs if lent.values[v := lent.steps[s].outputs[o]] == values[v]])
        for s, pairs in zip(old.sequence, old.slides, strict=True)
    ]
    found = schedule(lent, old.sequence, slides=slides)
    offsets, homes = layout.placement.offsets, dict[tuple[int, int], int]()
    for storage, tenants in enumerate(old.tenants):
        homes.update(dict.fromkeys(tenants, offsets[storage]))
    places = [homes[tenants[0]] for tenants in found.tenants]
    places += offsets[len(old.storages) :]
    whole = [*found.storages, *found.scratches]
    ends = [o + layout.rounded(one.bytes) for o, one in zip(places, whole, strict=True)]
    made = Layout(found, layout.alignment, Placement(tuple(places), max(ends, default=0), 0))
    return replace(made, placement=replace(made.placement, bound=max(made.live, default=0)))


def smaller(one: MemoryBudgetError | None, other: MemoryBudgetError) -> MemoryBudgetError:
    """The error that names fewer bytes."""
    return other if one is None or other.least_bytes < one.least_bytes else one


def _may_wait(node: Node, known: Dependence) -> bool:
    """Whether a result may be needed after a run that does not compute it."""
    return not is_leaf(node) and known.moment(node) != VOLATILE


# --------------------------------------------------------- what is worth keeping


MOST_WEIGHED: Final = 48
"""So few values are weighed anew whenever one of them is dropped; more are weighed once."""

MOST_ADDED: Final = 16
"""So often it is tried to keep one more value that fits by its bytes."""


def bytes_of(node: Node) -> int:
    """Bytes of a value."""
    return size(node.shape) * node.dtype.itemsize


def by_worth(
    values: Sequence[Node], always: Sequence[Node], views: Mapping[Node, Node]
) -> list[Node]:
    """Values that may be kept, those whose bytes save least first.

    What a value saves is the time of all that must run for it if it is not kept, while those after
    it and what is `always` kept are there.
    """
    kept = dict.fromkeys([*always, *values])

    def worth(node: Node) -> float:
        others = kept.keys() - {node}
        steps = closed([result_of(node)[0]], others, views)
        return sum(sorted(map(seconds, steps))) / max(1, bytes_of(node))

    if len(values) > MOST_WEIGHED:
        return sorted(values, key=worth)
    left, order = dict.fromkeys(values), list[Node]()
    while left:
        least = min(left, key=worth)
        order.append(least)
        del left[least], kept[least]
    return order


def most_kept(
    order: Sequence[Node], room: Callable[[Sequence[Node]], int | None]
) -> list[Node] | None:
    """Which values to keep of those that are ordered by worth; None if not even none of them fits.

    `room` gives the bytes that are left where some values are kept, None where they do not fit.  As
    many as fit of those that are worth most are kept; then what else fits, by its worth.
    """
    left = room(())
    if left is None:
        return None
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        found = room(order[middle:])
        if found is None:
            low = middle
        else:
            high, left = middle, found
    chosen, tries = list(order[high:]), MOST_ADDED
    for node in reversed(order[:high]):
        if bytes_of(node) <= left and tries:
            tries -= 1
            found = room([node, *chosen])
            if found is not None:
                chosen, left = [node, *chosen], found
    return chosen


# ------------------------------------------------------------- plan and updates


class Settled(NamedTuple):
    """A plan, and for each source of an update that lies in a variable, that variable."""

    fitted: Fitted
    homes: dict[Node, Node]


def settled(
    flow: Flow,
    targets: Sequence[Node],
    known: Dependence,
    scratch: Callable[[Node], int],
    incremental: bool,
    budget: int | None,
    planning: Planning,
) -> Settled:
    """The plan within a budget, and for each source that lies in a variable, that variable.

    The last outputs are the sources of update edges to `targets`.
    """
    results = flow.outputs
    lowered = lower(results, scratch=scratch, order=flow.order())
    kept = known if incremental else None
    if not targets or planning == "seed":
        return Settled(Fitting(lowered, kept, planning=planning).within(budget), {})
    updates = list(zip(targets, results[len(results) - len(targets) :], strict=True))
    updating = Updating(updates, lowered, known)
    possible = updating.possible_homes()
    ways = [possible, NOWHERE] if possible.variable else [NOWHERE]
    fitted = Fitting(lowered, kept, ways, planning, updating.homes).within(budget)
    found = updating.homes(fitted.layout.schedule)
    if not fitted.elsewhere <= found.keys():
        raise AssertionError("an update would overwrite what is still read")
    return Settled(fitted, {n: target for n, target in found.items() if n in fitted.elsewhere})
