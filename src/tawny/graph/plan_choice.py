"""What a program keeps from run to run, and its plan, chosen together within a budget of bytes.

A source of an update that is computed in its variable's memory takes none of the arena.  Then all
that reads the variable must run before; plans with that order and plans without are both made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, final

from tawny.engine.lowering import (
    PROCESSOR,
    LoweredGraph,
    MachineModel,
    is_leaf,
    result_of,
    seconds,
    with_constraints,
)
from tawny.graph.in_place_updates import NO_UPDATES, InPlaceUpdates, UpdateAnalysis
from tawny.graph.incremental import (
    VOLATILE,
    Dependence,
    boundary,
    is_called_on_change,
    nodes_to_compute,
)
from tawny.memory.budget import Budget, MemoryBudgetError, every_schedule_needs
from tawny.memory.effort import SECOND
from tawny.memory.placement.place import Placement
from tawny.memory.plan import ArenaLayout, plan, plan_as_in_report, plan_below
from tawny.memory.problem import Problem
from tawny.memory.schedule import Schedule, schedule
from tawny.node import Node
from tawny.shape import size

Planning = Literal["default", "hard", "seed"]
"""How plans are made: quickly, as tight as can be found in a minute, or as the report does it."""

HARD_EFFORT: Final = 10
"""How many times the search for a budget is longer when planning is to be hard."""

MAX_HALVINGS: Final = 2
"""How often the search for a budget is halved, at most: once for each problem after the first."""


@dataclass(frozen=True)
class MemoryPlan:
    """A plan, what stays right from run to run, and whether a run may skip what did not change."""

    lowered: LoweredGraph
    layout: ArenaLayout
    kept: tuple[Node, ...]
    incremental: bool
    outside_arena: frozenset[Node]
    """What takes no memory of the plan, since it is computed in that of a variable."""

    @property
    def arena(self) -> int:
        """Bytes of the plan."""
        return self.layout.arena


@final
class KeepPolicy:
    """Chooses what a program keeps from run to run and what it recomputes, within a budget."""

    def __init__(
        self,
        lowered: LoweredGraph,
        known: Dependence | None,
        update_options: Sequence[InPlaceUpdates] = (NO_UPDATES,),
        planning: Planning = "default",
        sources_in_place: Callable[[Schedule], Collection[Node]] | None = None,
    ) -> None:
        """`lowered` is the graph; without `known` everything runs each time, and nothing is kept.

        `update_options` are the ways to compute sources of updates in variables, the best first;
        `sources_in_place` gives those that a schedule allows, whether or not it was made for that.
        """
        self._sources_in_place = sources_in_place
        self._planning: Planning = planning
        self._budget_searches = 0
        """The number of problems that were searched for a plan within a budget."""
        self._lowered = lowered
        self._update_options = update_options
        self._dependence = known
        self._results_to_keep: dict[Node, None] = {}
        self._worth_keeping: list[Node] = []
        self._views: Mapping[Node, Node] = {}
        self._effect_calls: list[Node] = []
        """Calls of functions with effects, which no lack of memory may repeat."""
        if known is not None:
            self._views = views = lowered.views
            self._effect_calls = [n for n in known.mask if is_called_on_change(n)]
            owners = [views.get(n, n) for n in lowered.results]
            self._results_to_keep = dict.fromkeys(n for n in owners if _may_outlive_run(n, known))
            self._worth_keeping = list(
                dict.fromkeys([*self._results_to_keep, *boundary(known, views)])
            )

    def plan_within(self, budget: int | None) -> MemoryPlan:
        """The plan that keeps what saves most time within the budget."""
        everything = self._smallest_plan(self._with_effect_calls(self._worth_keeping))
        if budget is None or everything.arena <= budget:
            return everything
        return self._keep_most_valuable(budget) or self._recompute_within(budget)

    def _keep_most_valuable(self, budget: int) -> MemoryPlan | None:
        """A plan that keeps as much as fits of what is worth most; None where the rest is much."""
        if not self._worth_keeping:
            return None
        plans: dict[tuple[Node, ...], MemoryPlan] = {}

        def plan_with(more: Sequence[Node]) -> MemoryPlan:
            chosen = tuple(more)
            if chosen not in plans:
                plans[chosen] = self._smallest_plan(
                    self._with_effect_calls([*self._results_to_keep, *chosen])
                )
            return plans[chosen]

        def bytes_left(more: Sequence[Node]) -> int | None:
            left = budget - plan_with(more).arena
            return None if left < 0 else left

        others = [n for n in self._worth_keeping if n not in self._results_to_keep]
        chosen = choose_kept(
            order_by_worth(others, list(self._results_to_keep), self._views, self._lowered.machine),
            bytes_left,
        )
        return None if chosen is None else plan_with(chosen)

    def _smallest_plan(self, chosen: Sequence[Node]) -> MemoryPlan:
        """The smallest of the plans that keep what is chosen and compute nothing again."""
        best: MemoryPlan | None = None
        for updates in self._update_options:
            lowered = self._lower(
                chosen, updates, into_kept=len(chosen) == len(self._worth_keeping)
            )
            layout = self._layout(lowered.problem, None if best is None else best.arena)
            if layout is not None:
                found = self._memory_plan(
                    lowered, layout, chosen, updates, self._dependence is not None
                )
                best = found if best is None or found.arena < best.arena else best
        assert best is not None
        return best

    def _recompute_within(self, budget: int) -> MemoryPlan:
        """A plan that computes some values again, keeping the results or, at last, nothing."""
        needed = list(self._results_to_keep)
        least: MemoryBudgetError | None = None
        options = (
            [needed, []] if needed and not self._effect_calls else [self._with_effect_calls(needed)]
        )
        for chosen in options:
            for updates in self._update_options:
                lowered = self._lower(chosen, updates, into_kept=not chosen)
                if least is not None and every_schedule_needs(lowered.problem, least.least_bytes):
                    continue
                try:
                    layout = self._budget(lowered.problem).within(budget)
                except MemoryBudgetError as error:
                    least = smaller_need(least, error)
                else:
                    incremental = self._dependence is not None and bool(chosen)
                    return self._memory_plan(lowered, layout, chosen, updates, incremental)
        assert least is not None
        raise least

    def _layout(self, problem: Problem, below: int | None) -> ArenaLayout | None:
        """The plan of a problem; none if it would not be below some bytes."""
        hard = self._planning == "hard"
        if self._planning == "seed":
            return plan_as_in_report(problem)
        if below is None:
            return plan(problem, hard=hard)
        return plan_below(problem, below, hard=hard)

    def _budget(self, problem: Problem) -> Budget:
        looks = (HARD_EFFORT if self._planning == "hard" else 1) * SECOND >> min(
            self._budget_searches, MAX_HALVINGS
        )
        self._budget_searches += 1
        return Budget(problem, looks=looks)

    def _with_effect_calls(self, chosen: list[Node]) -> list[Node]:
        """What is chosen to be kept, and the results of calls that would be repeated without."""
        if not self._effect_calls:
            return chosen
        dropped = [n for n in self._worth_keeping if n not in chosen]
        makers = [result_of(n)[0] for n in dropped]
        again = nodes_to_compute(makers, chosen, self._views)
        return [*chosen, *[n for n in self._effect_calls if n in again and n not in chosen]]

    def _lower(
        self, kept: Sequence[Node], updates: InPlaceUpdates, *, into_kept: bool
    ) -> LoweredGraph:
        return with_constraints(self._lowered, kept, into_kept, updates.variable, updates.after)

    def _memory_plan(
        self,
        lowered: LoweredGraph,
        layout: ArenaLayout,
        kept: Sequence[Node],
        updates: InPlaceUpdates,
        incremental: bool,
    ) -> MemoryPlan:
        """A plan in which all lies in variables that may."""
        plain = MemoryPlan(lowered, layout, tuple(kept), incremental, frozenset(updates.variable))
        sources_in_place = (
            ()
            if self._sources_in_place is None
            else frozenset(self._sources_in_place(layout.schedule))
        )
        if plain.outside_arena.issuperset(sources_in_place):
            return plain
        lent = with_constraints(lowered, outside_arena=sources_in_place)
        placed = plan(lent.problem, order=layout.sequence)
        if placed.arena > layout.arena:
            placed = _keep_offsets(layout, lent.problem)
        return replace(
            plain, lowered=lent, layout=placed, outside_arena=frozenset(sources_in_place)
        )


def _keep_offsets(layout: ArenaLayout, lent: Problem) -> ArenaLayout:
    """A layout with its order and offsets where some values take no bytes any more."""
    old, values = layout.schedule, layout.problem.values
    slides = [
        tuple([(i, o) for i, o in pairs if lent.values[v := lent.steps[s].outputs[o]] == values[v]])
        for s, pairs in zip(old.sequence, old.in_place_pairs, strict=True)
    ]
    found = schedule(lent, old.sequence, in_place_pairs=slides)
    offsets, places_of = layout.placement.offsets, dict[tuple[int, int], int]()
    for storage, tenants in enumerate(old.occupants):
        places_of.update(dict.fromkeys(tenants, offsets[storage]))
    places = [places_of[tenants[0]] for tenants in found.occupants]
    places += offsets[len(old.storages) :]
    whole = [*found.storages, *found.scratches]
    ends = [o + lent.round_up(one.bytes) for o, one in zip(places, whole, strict=True)]
    made = ArenaLayout(found, Placement(tuple(places), max(ends, default=0), 0))
    return replace(made, placement=replace(made.placement, bound=max(made.live, default=0)))


def smaller_need(one: MemoryBudgetError | None, other: MemoryBudgetError) -> MemoryBudgetError:
    """The error that names fewer bytes."""
    return other if one is None or other.least_bytes < one.least_bytes else one


def _may_outlive_run(node: Node, known: Dependence) -> bool:
    """Whether a result may be needed after a run that does not compute it."""
    return not is_leaf(node) and known.run_key(node) != VOLATILE


# --------------------------------------------------------- what is worth keeping


MAX_WEIGHED: Final = 48
"""The most values that are weighed anew whenever one is dropped; more are weighed once.

Chosen by hand: weighing anew takes time that grows with the square of the values."""

MAX_ADDED: Final = 16
"""The most attempts to keep one more value that fits by its bytes; each makes a plan."""


def bytes_of(node: Node) -> int:
    """Bytes of a value."""
    return size(node.shape) * node.dtype.itemsize


def order_by_worth(
    values: Sequence[Node],
    always: Sequence[Node],
    views: Mapping[Node, Node],
    machine: MachineModel = PROCESSOR,
) -> list[Node]:
    """Values that may be kept, those whose bytes save least first.

    What a value saves is the time of all that must run for it if it is not kept, while those after
    it and what is `always` kept are there.
    """
    kept = dict.fromkeys([*always, *values])

    def worth(node: Node) -> float:
        others = kept.keys() - {node}
        steps = nodes_to_compute([result_of(node)[0]], others, views)
        return sum(sorted([seconds(step, machine) for step in steps])) / max(1, bytes_of(node))

    if len(values) > MAX_WEIGHED:
        return sorted(values, key=worth)
    left, order = dict.fromkeys(values), list[Node]()
    while left:
        least = min(left, key=worth)
        order.append(least)
        del left[least], kept[least]
    return order


def choose_kept(
    order: Sequence[Node], bytes_left: Callable[[Sequence[Node]], int | None]
) -> list[Node] | None:
    """Which values to keep of those that are ordered by worth; None if not even none of them fits.

    `bytes_left` gives the bytes that are left where some values are kept, None where they do not
    fit.  As many as fit of those that are worth most are kept; then what else fits, by its worth.
    """
    left = bytes_left(())
    if left is None:
        return None
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        found = bytes_left(order[middle:])
        if found is None:
            low = middle
        else:
            high, left = middle, found
    chosen, tries = list(order[high:]), MAX_ADDED
    for node in reversed(order[:high]):
        if bytes_of(node) <= left and tries:
            tries -= 1
            found = bytes_left([node, *chosen])
            if found is not None:
                chosen, left = [node, *chosen], found
    return chosen


# ------------------------------------------------------------- plan and updates


class ChosenPlan(NamedTuple):
    """The plan of a graph, and the updates that are computed in their variables' memory."""

    memory: MemoryPlan
    in_place_updates: dict[Node, Node]


def choose_plan(
    lowered: LoweredGraph,
    targets: Sequence[Node],
    known: Dependence,
    incremental: bool,
    budget: int | None,
    planning: Planning,
) -> ChosenPlan:
    """The plan of a graph within a budget, and the updates that it lets be computed in place.

    The last results are the sources of update edges to `targets`.
    """
    results = lowered.results
    kept = known if incremental else None
    if not targets or planning == "seed":
        return ChosenPlan(KeepPolicy(lowered, kept, planning=planning).plan_within(budget), {})
    updates = list(zip(targets, results[len(results) - len(targets) :], strict=True))
    analysis = UpdateAnalysis(updates, lowered, known)
    possible = analysis.possible_updates()
    options = [possible, NO_UPDATES] if possible.variable else [NO_UPDATES]
    policy = KeepPolicy(lowered, kept, options, planning, analysis.updates_in)
    memory = policy.plan_within(budget)
    found, outside = analysis.updates_in(memory.layout.schedule), memory.outside_arena
    if not outside <= found.keys():
        raise AssertionError("an update would overwrite what is still read")
    return ChosenPlan(memory, {n: target for n, target in found.items() if n in outside})
