"""Compiling: optimise, find what depends on what, choose what is kept, plan, prepare the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Final, final, get_args

from tawny.errors import PerformanceWarning, value_error, warn
from tawny.graph.bands.cuts import BANDS
from tawny.graph.bands.planner import Narrowing, Optimise, Planned, Version
from tawny.graph.engine import Executable, StalePlanError, Task, engine_named
from tawny.graph.expansion import Written, written_out
from tawny.graph.in_place_updates import apart
from tawny.graph.incremental import Dependence, boundary, closed, dependence
from tawny.graph.lowering import is_leaf, lower, views_of, with_scratch
from tawny.graph.memory_limits import check_addressable, check_room, least_of
from tawny.graph.plan import Plan
from tawny.graph.plan_choice import ALIGNMENT, Planning, Settled, settled, smaller
from tawny.lazy import cached_property
from tawny.memory.budget import MemoryBudgetError, parse_bytes
from tawny.memory.plan import as_reported, plan_below, replanned
from tawny.memory.plan import plan as planned
from tawny.memory.problem import Problem
from tawny.node import Node, Value, toposort
from tawny.ops.movement import Roll
from tawny.rewrite.flow import Flow
from tawny.rewrite.gathers import gather_pieces
from tawny.rewrite.group_reads import GROUP_READS, reading
from tawny.rewrite.groups import grouping
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import PIPELINE, measure, rules
from tawny.rewrite.product_groups import PRODUCT_GROUP, joining
from tawny.unique import Unique

SIMPLIFYING: Final = tuple(p for p in PIPELINE if p.name in ("simplify", "fold_batch_norm"))
FUSING: Final = tuple(p for p in PIPELINE if p.name in ("fuse_products", "contract"))
"""The passes for every engine; groups and pieces are for those that compile groups."""


RISE: Final = 1.01
"""Groups may raise the peak by so much, which is how well orders are found."""

MOST_COMPARED: Final = 1000
"""Programs of more steps are not planned a second time without groups."""

MOST_SQUEEZED: Final = 2
"""So many versions in bands that have too many holes for a budget are searched for better plans."""

COSTLY: Final = 1.5
"""A budget that costs more than so many times the time is warned of."""

SHORT: Final = 1e-2
"""Programs that take fewer seconds, as far as is estimated, are not."""

RULES: Final = (*rules(PIPELINE), PRODUCT_GROUP, GROUP_READS, BANDS)
"""Every rule that may be applied."""


@final
class Compiled(Unique):
    """A graph made runnable: what to run after which change, and where everything lies."""

    def __init__(
        self,
        variables: Sequence[Node],
        targets: Sequence[Node],
        results: Sequence[Node],
        *,
        engine: str,
        memory: str | float | None,
        often: Collection[Node],
        incremental: bool,
        optimise: Optimise | None,
        threads: int | None = None,
        plan: Planning = "default",
    ) -> None:
        self._engine = engine_named(engine)
        self.engine = engine
        self._threads = self._engine.threads(threads)
        self._scratches: dict[tuple[int, Node], int] = {}
        self._followed: tuple[Sequence[Node], Dependence] | None = None
        """The nodes whose dependence was asked for last, and what that is."""
        self._variables = tuple(variables)
        self._watch = frozenset(often), frozenset(targets)
        self._asked = tuple(results)
        self._is_optimised = optimise is not None
        budget = None if memory is None else parse_bytes(memory)
        if plan not in get_args(Planning):
            raise value_error(
                "compile", f"plan is {plan!r}; accepted: {', '.join(map(repr, get_args(Planning)))}"
            )
        if plan == "seed" and budget is not None:
            raise value_error("compile", "plan='seed' is the report's, which has no budgets")
        self._planning: Planning = plan
        self._budget, self._optimise = budget, optimise
        self._targets, self._incremental = tuple(targets), incremental
        self.run_sets: dict[int | None, tuple[frozenset[Node], list[int]]] = {}
        """What `run_set` gave."""
        self._make_plan()

    def _make_plan(self) -> None:
        """Optimise, choose kernels, plan the memory; no code is made."""
        targets, flow = self._targets, Flow(self._asked)
        check_addressable(flow.order())
        versions = self._versions(flow, targets, self._optimise, self._incremental)
        found, adapted = self._found(
            [*versions], targets, self._budget, self._incremental, self._optimise
        )
        version, (self._fitted, self.homes) = found
        """`homes`: sources of updates computed in the memory of the variable they update."""
        self.results, self._rewrites = version.results, version.rewrites
        fitted = self._fitted
        self._scratches.clear()
        self.plan = Plan(
            *(fitted.lowered, fitted.layout, fitted.kept, self.engine, self._asked, self.homes),
            *(self._threads, adapted),
        )
        changing = zip(targets, self.results[len(self.results) - len(targets) :], strict=True)
        there = set(self.homes.values())
        self._updates = tuple([(t, s) for t, s in changing if t not in there and t is not s])

    # -------------------------------------------------------------- optimising

    def _versions(
        self,
        asked: Flow,
        targets: tuple[Node, ...],
        optimise: Optimise | None,
        incremental: bool,
    ) -> Iterator[Version]:
        """The results computed with less, the best first; what takes least memory is the last.

        None of them lies in a variable that updates change.

        What runs at different times is never fused.  To that end the boundary between such parts
        takes part in fusion as if it were asked for, and no group has nodes of several parts.
        """
        if optimise is None:
            yield Version(apart(asked, targets), Rewrites())
            return
        count = len(asked.outputs)
        simple = optimise(asked, SIMPLIFYING)
        own = apart(simple.flow, targets)
        held = self._held(own) if incremental else []
        fusing = (*FUSING, gather_pieces) if self._engine.compiles_groups else FUSING
        fused = optimise(own.with_outputs((*own.outputs, *held)), fusing)
        rewrites = simple.rewrites.followed_by(fused.rewrites)
        least: list[int] = []
        if self._engine.compiles_groups:
            moments = self._moment if incremental else None
            groups = grouping(
                moments, self._engine.should_group, self._engine.min_group_size, least.append
            )
            joined = joining(self._engine.can_fuse_product, moments)
            grouped = optimise(fused.flow, (groups, joined))
            own = grouped.flow.with_outputs(grouped.outputs[:count])
            reads = optimise(own, (reading(self._engine.should_group),))
            more = rewrites.followed_by(grouped.rewrites).followed_by(reads.rewrites)
            yield Version(reads.flow, more)
        plain = fused.flow.with_outputs(fused.outputs[:count])
        yield Version(plain, rewrites, 0 if held else max(least, default=0))

    def _held(self, flow: Flow) -> list[Node]:
        order, results = flow.order(), frozenset(flow.outputs)
        between = boundary(self._dependence_of(order), views_of(order))
        kept = [n.inputs[0] if isinstance(n.op, Roll) else n for n in between]
        return [n for n in dict.fromkeys(kept) if n not in results and not is_leaf(n)]

    def _moment(self, order: Sequence[Node]) -> Callable[[Node], int]:
        """When each node runs, given all of them."""
        return self._dependence_of(order).moment

    def _dependence_of(self, order: Sequence[Node]) -> Dependence:
        """Which inputs each of these nodes depends on; the same are asked for again and again."""
        if self._followed is None or self._followed[0] is not order:
            self._followed = order, dependence(order, self._variables, *self._watch)
        return self._followed[1]

    def _found(
        self,
        versions: Sequence[Version],
        targets: tuple[Node, ...],
        budget: int | None,
        incremental: bool,
        optimise: Optimise | None,
    ) -> tuple[Planned, bool]:
        """What is run, planned for the program's threads, and whether it is chosen for them.

        It is chosen for the nominal number of threads, so that it is the same everywhere.  Only
        where a budget leaves no room for the scratch memory of those that there are, or leaves it
        only to fewer of them, is it chosen for these.
        """
        nominal, given = self._engine.nominal_threads, (targets, budget, incremental, optimise)
        try:
            free, chosen = self._chosen(versions, *given, nominal)
        except MemoryBudgetError:
            if self._threads == nominal:
                raise
        else:
            placed = self._on_threads(chosen)
            if budget is None or placed.arena <= budget:
                _warn_of_cost(budget, free, chosen)
                return placed, False
        free, chosen = self._chosen(versions, *given, self._threads)
        _warn_of_cost(budget, free, chosen)
        return chosen, True

    def _on_threads(self, chosen: Planned) -> Planned:
        """The same with the scratch memory of the program's threads."""
        if self._threads == self._engine.nominal_threads:
            return chosen
        fitted = chosen.found.fitted
        lowered = with_scratch(fitted.lowered, partial(self._scratch, self._threads))
        layout = (
            as_reported(lowered.problem, ALIGNMENT)
            if self._planning == "seed"
            else replanned(fitted.layout, lowered.problem)
        )
        found = chosen.found._replace(fitted=replace(fitted, lowered=lowered, layout=layout))
        return chosen._replace(found=found)

    def _chosen(
        self,
        versions: Sequence[Version],
        targets: tuple[Node, ...],
        budget: int | None,
        incremental: bool,
        optimise: Optimise | None,
        threads: int,
    ) -> tuple[Planned, Planned]:
        """The first version that can be run on so many threads, without and within the budget.

        What takes much memory is computed in bands, whatever the budget.  Groups that raise the
        peak are given up.
        """
        scratch = partial(self._scratch, threads)

        def settle(flow: Flow, budget: int | None = None) -> Settled:
            known = self._dependence_of(flow.order())
            return settled(flow, targets, known, scratch, incremental, budget, self._planning)

        least: MemoryBudgetError | None = None
        for place, plain in enumerate(versions):
            found = Planned(plain, settle(plain.flow))
            if any(self._needs_less(later, *found) for later in versions[place + 1 :]):
                continue
            narrowing: Narrowing | None = None
            if optimise is not None and self._engine.compiles_groups and self._planning != "seed":
                moment = self._moment if incremental else None
                narrowing = Narrowing(self._engine, optimise, settle, scratch, moment)
                found = narrowing.narrowed(found)
            if budget is None or found.arena <= budget:
                return found, found
            try:
                within = self._within(budget, found, narrowing, settle)
            except MemoryBudgetError as error:
                least = smaller(least, error)
            else:
                return found, within
        assert least is not None
        raise least

    @staticmethod
    def _within(
        budget: int,
        found: Planned,
        narrowing: Narrowing | None,
        settle: Callable[[Flow, int | None], Settled],
    ) -> Planned:
        """A version within a budget: values are computed again, one by one or by bands."""

        def again(one: Planned) -> Planned:
            return Planned(one.version, settle(one.version.flow, budget))

        try:
            return again(found)
        except MemoryBudgetError as error:
            least = error
        last, tries = found, MOST_SQUEEZED
        for tighter in narrowing.tighter(found) if narrowing is not None else ():
            if tighter.arena <= budget:
                return tighter
            last = tighter
            if tighter.peak <= budget and tries:
                tries -= 1
                try:
                    return again(tighter)
                except MemoryBudgetError as error:
                    least = smaller(least, error)
        if last is found or last.peak <= budget:
            raise least
        try:
            return again(last)
        except MemoryBudgetError as error:
            raise smaller(least, error) from None

    def _needs_less(self, other: Version, version: Version, found: Settled) -> bool:
        """Whether another version needs clearly less than the one that was planned.

        Kernels' scratch memory is left aside.  What runs at different times is grouped so that less
        is computed, not for memory.
        """
        steps, less = found.fitted.lowered.steps, ceil(found.fitted.layout.arena / RISE)
        if other.least >= less or len(steps) > MOST_COMPARED or self._planning == "seed":
            return False
        if (
            found.fitted.incremental
            and len(set(map(self._moment(version.flow.order()), steps))) > 1
        ):
            return False
        alone = plan_below(_problem(other.flow), less, alignment=ALIGNMENT)
        if alone is None:
            return False
        own = planned(_problem(version.flow), alignment=ALIGNMENT).arena
        return alone.arena < own / RISE

    def _scratch(self, threads: int, node: Node) -> int:
        """Bytes of scratch memory that a step needs on so many threads."""
        known = self._scratches.get((threads, node))
        if known is None:
            known = self._scratches[threads, node] = self._engine.scratch(node, threads)
        return known

    @cached_property
    def rewrites(self) -> Rewrites:
        """What the optimiser did; what it was given and left is measured when somebody asks."""
        if self._is_optimised:
            measure(self._rewrites, toposort(self._asked), toposort(self.results))
        return self._rewrites

    @cached_property
    def dependence(self) -> Dependence:
        """Which inputs each node depends on."""
        return self._dependence_of(self._fitted.lowered.order)

    @property
    def _views(self) -> Mapping[Node, Node]:
        """The node whose memory each view shares."""
        return self._fitted.lowered.views

    # ----------------------------------------------------------------- running

    @property
    def task(self) -> Task:
        """What the engine is given."""
        lowered, layout = self._fitted.lowered, self._fitted.layout
        return Task(
            lowered,
            layout,
            self._variables,
            self.homes,
            self._updates,
            self._threads,
        )

    @cached_property
    def executable(self) -> Executable:
        """The steps made runnable; asking for it makes the code and allocates the memory."""
        while True:
            check_room(self._fitted.layout.arena, self._least_bytes)
            try:
                return self._engine.prepare(self.task)
            except StalePlanError:
                self._make_plan()

    def _least_bytes(self) -> int:
        """The smallest budget that was found to be possible for what is computed now."""
        known, arena = self.dependence, self._fitted.layout.arena
        if self._planning == "seed":
            return arena
        flow = Flow(self.results)
        scratch = partial(self._scratch, self._threads)
        given = flow, self._targets, known, scratch, self._incremental
        return least_of(lambda budget: settled(*given, budget, self._planning), arena)

    def bit(self, variable: Node) -> int:
        """The bit that stands for a change of `variable`."""
        return self.dependence.bit[variable]

    def needed(self, changed: int | None) -> frozenset[Node]:
        """The nodes to compute after a change; None means that nothing was computed yet."""
        return self.run_set(changed)[0]

    def run_set(self, changed: int | None) -> tuple[frozenset[Node], list[int]]:
        """The nodes to compute after a change, and the positions of the schedule where they are."""
        known = self.run_sets.get(changed)
        if known is None:
            lowered, kept = self._fitted.lowered, self._fitted.kept
            steps = frozenset(lowered.steps)
            reached = None
            if changed is not None and self._fitted.incremental:
                reached = self.dependence.reaches(changed)
            nodes = steps if reached is None else closed(reached & steps, kept, self._views)
            wanted = {lowered.step_of[n] for n in nodes}
            sequence = self._fitted.layout.schedule.sequence
            positions = [p for p, s in enumerate(sequence) if s in wanted]
            known = self.run_sets[changed] = (nodes, positions)
        return known

    def value(self, node: Node, variables: Sequence[Value]) -> Value:
        """The value of a result, as it lies in memory."""
        return self.executable.value(node, variables)

    def is_kept(self, node: Node) -> bool:
        """Whether the node's value is still there after a run."""
        root = self._views.get(node, node)
        return is_leaf(root) or root in self._fitted.kept or node in self.results

    def in_order(self, nodes: frozenset[Node]) -> list[Node]:
        """`nodes` in the order they run, each once; of a group, what it was made of."""
        members = self._written.members
        made = [m for n in self._sequence if n in nodes for m in members.get(n, (n,))]
        return list(dict.fromkeys(made))

    def own(self, node: Node) -> Node:
        """The program's node for one of the user's: another one, where it was rewritten."""
        if node in self._asked:
            return self.results[self._asked.index(node)]
        return (
            node if (node, 0) in self._fitted.lowered.values else self._written.own.get(node, node)
        )

    @cached_property
    def _written(self) -> Written:
        return written_out(self.results)

    @cached_property
    def _sequence(self) -> list[Node]:
        lowered, schedule = self._fitted.lowered, self._fitted.layout.schedule
        return list(dict.fromkeys(lowered.steps[s] for s in schedule.sequence))


def _problem(flow: Flow) -> Problem:
    """The planning problem of a graph alone."""
    return lower(flow.outputs, order=flow.order()).problem


def _warn_of_cost(budget: int | None, free: Planned, within: Planned) -> None:
    """Say that a budget makes a program far slower, as far as is estimated."""
    if budget is None:
        return
    before, after = (one.found.fitted.layout.schedule.seconds for one in (free, within))
    if before >= SHORT and after > COSTLY * before:
        warn(
            f"memory: within {budget:,} bytes a run takes about {after / before:.1f} times as long,"
            f" since much is computed again; with {free.arena:,} bytes nothing is",
            PerformanceWarning,
        )
