"""Compiling: optimise, find what depends on what, choose what is kept, plan, prepare the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Final, final, get_args

from tawny.engine.lowering import is_leaf, lower, views_of, with_scratch
from tawny.engine.protocol import Executable, StalePlanError, Task, engine_named
from tawny.errors import PerformanceWarning, value_error, warn
from tawny.graph.bands.cuts import BANDS
from tawny.graph.bands.planner import BandPlanner, Optimise, PlannedVersion, ProgramVersion
from tawny.graph.expansion import ExpandedGroups, expand_groups
from tawny.graph.in_place_updates import separate_outputs
from tawny.graph.incremental import Dependence, boundary, dependence, nodes_to_compute
from tawny.graph.memory_limits import check_addressable, check_fits_machine, least_budget
from tawny.graph.plan import Plan
from tawny.graph.plan_choice import ALIGNMENT, ChosenPlan, Planning, choose_plan, smaller_need
from tawny.graph.stages import Stages
from tawny.lazy import cached_property
from tawny.memory.budget import MemoryBudgetError, parse_bytes
from tawny.memory.plan import plan as planned
from tawny.memory.plan import plan_as_in_report, plan_below, replan
from tawny.memory.problem import Problem
from tawny.node import Node, Value, toposort, variable_names
from tawny.ops.movement import Roll
from tawny.rewrite.flow import Flow
from tawny.rewrite.gathers import gather_pieces
from tawny.rewrite.groups.elementwise import grouping_pass
from tawny.rewrite.groups.products import PRODUCT_GROUP, product_group_pass
from tawny.rewrite.groups.reads import GROUP_READS, group_reads_pass
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import PIPELINE, measure, rules
from tawny.unique import Unique

SIMPLIFY_PASSES: Final = tuple(p for p in PIPELINE if p.name in ("simplify", "fold_batch_norm"))
FUSE_PASSES: Final = tuple(p for p in PIPELINE if p.name in ("fuse_products", "contract"))
"""The passes for every engine; groups and pieces are for those that compile groups."""


GROUPING_RISE: Final = 1.01
"""How much groups may raise the peak, as a factor: orders are not found more exactly than that."""

MAX_COMPARED_STEPS: Final = 1000
"""Programs of more steps are not planned a second time without groups."""

MAX_SEARCHED_VERSIONS: Final = 2
"""The most versions in bands whose plans have too many holes for a budget and are searched anew."""

COSTLY_SLOWDOWN: Final = 1.5
"""The time within a budget, as a multiple of that without, above which a warning is due."""

MIN_WARNED_SECONDS: Final = 1e-2
"""The estimated time of the shortest program whose budget is warned of, in seconds."""

RULES: Final = (*rules(PIPELINE), PRODUCT_GROUP, GROUP_READS, BANDS)
"""Every rule that may be applied."""


@final
class Compilation(Unique):
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
        self._last_dependence: tuple[Sequence[Node], Dependence] | None = None
        """The nodes whose dependence was asked for last, and what that is."""
        self._variables = tuple(variables)
        self._often_and_updated = frozenset(often), frozenset(targets)
        self._user_results = tuple(results)
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
        targets, flow = self._targets, Flow(self._user_results)
        self.stages = Stages()
        check_addressable(flow.order())
        self.stages.note("record", len(flow.order()))
        versions = self._versions(flow, targets, self._optimise, self._incremental)
        found, adapted = self._choose_version(
            [*versions], targets, self._budget, self._incremental, self._optimise
        )
        version, (self._memory_plan, self.in_place_updates) = found
        """`in_place_updates`: for each source that is computed in its variable's memory, that."""
        self.results, self._rewrites = version.results, version.rewrites
        memory = self._memory_plan
        self._scratches.clear()
        self.plan = Plan(
            *(memory.lowered, memory.layout, memory.kept, self.engine, self._user_results),
            *(self.in_place_updates, self._threads, adapted, variable_names(self._variables)),
        )
        changing = zip(targets, self.results[len(self.results) - len(targets) :], strict=True)
        there = set(self.in_place_updates.values())
        self._updates = tuple([(t, s) for t, s in changing if t not in there and t is not s])

    # -------------------------------------------------------------- optimising

    def _versions(
        self,
        asked: Flow,
        targets: tuple[Node, ...],
        optimise: Optimise | None,
        incremental: bool,
    ) -> Iterator[ProgramVersion]:
        """The results computed with less, the best first; what takes least memory is the last.

        None of them lies in a variable that updates change.

        What runs at different times is never fused.  To that end the boundary between such parts
        takes part in fusion as if it were asked for, and no group has nodes of several parts.
        """
        if optimise is None:
            yield ProgramVersion(separate_outputs(asked, targets), Rewrites())
            return
        count, note = len(asked.outputs), self.stages.note
        simple = optimise(asked, SIMPLIFY_PASSES)
        note("simplify", len(simple.flow.order()))
        own = separate_outputs(simple.flow, targets)
        boundary_values = self._boundary_values(own) if incremental else []
        fusing = (*FUSE_PASSES, gather_pieces) if self._engine.compiles_groups else FUSE_PASSES
        fused = optimise(own.with_outputs((*own.outputs, *boundary_values)), fusing)
        note("fuse", len(fused.flow.order()))
        rewrites = simple.rewrites.followed_by(fused.rewrites)
        least: list[int] = []
        if self._engine.compiles_groups:
            run_keys = self._run_keys if incremental else None
            groups = grouping_pass(
                run_keys, self._engine.should_group, self._engine.min_group_size, least.append
            )
            joined = product_group_pass(self._engine.can_fuse_product, run_keys)
            grouped = optimise(fused.flow, (groups, joined))
            own = grouped.flow.with_outputs(grouped.outputs[:count])
            reads = optimise(own, (group_reads_pass(self._engine.should_group),))
            note("group", len(reads.flow.order()))
            more = rewrites.followed_by(grouped.rewrites).followed_by(reads.rewrites)
            yield ProgramVersion(reads.flow, more)
        plain = fused.flow.with_outputs(fused.outputs[:count])
        yield ProgramVersion(plain, rewrites, 0 if boundary_values else max(least, default=0))

    def _boundary_values(self, flow: Flow) -> list[Node]:
        order, results = flow.order(), frozenset(flow.outputs)
        between = boundary(self._dependence_of(order), views_of(order))
        kept = [n.inputs[0] if isinstance(n.op, Roll) else n for n in between]
        return [n for n in dict.fromkeys(kept) if n not in results and not is_leaf(n)]

    def _run_keys(self, order: Sequence[Node]) -> Callable[[Node], int]:
        """The keys of the runs each node is part of, given all nodes."""
        return self._dependence_of(order).run_key

    def _dependence_of(self, order: Sequence[Node]) -> Dependence:
        """Which inputs each of these nodes depends on; the same are asked for again and again."""
        if self._last_dependence is None or self._last_dependence[0] is not order:
            self._last_dependence = (
                order,
                dependence(order, self._variables, *self._often_and_updated),
            )
        return self._last_dependence[1]

    def _choose_version(
        self,
        versions: Sequence[ProgramVersion],
        targets: tuple[Node, ...],
        budget: int | None,
        incremental: bool,
        optimise: Optimise | None,
    ) -> tuple[PlannedVersion, bool]:
        """What is run, planned for the program's threads, and whether it is chosen for them.

        It is chosen for the nominal number of threads, so that it is the same everywhere.  Only
        where a budget leaves no room for the scratch memory of those that there are, or leaves it
        only to fewer of them, is it chosen for these.
        """
        nominal, given = self._engine.nominal_threads, (targets, budget, incremental, optimise)
        try:
            free, chosen = self._choose_for_threads(versions, *given, nominal)
        except MemoryBudgetError:
            if self._threads == nominal:
                raise
        else:
            placed = self._with_thread_scratch(chosen)
            if budget is None or placed.arena <= budget:
                _warn_of_cost(budget, free, chosen)
                if placed is not chosen:
                    self._note_plan("place for threads", placed)
                return placed, False
        free, chosen = self._choose_for_threads(versions, *given, self._threads)
        _warn_of_cost(budget, free, chosen)
        return chosen, True

    def _with_thread_scratch(self, chosen: PlannedVersion) -> PlannedVersion:
        """A planned version with the scratch memory of the program's threads."""
        if self._threads == self._engine.nominal_threads:
            return chosen
        memory = chosen.chosen.memory
        lowered = with_scratch(memory.lowered, partial(self._scratch, self._threads))
        layout = (
            plan_as_in_report(lowered.problem, ALIGNMENT)
            if self._planning == "seed"
            else replan(memory.layout, lowered.problem)
        )
        plan = chosen.chosen._replace(memory=replace(memory, lowered=lowered, layout=layout))
        return chosen._replace(chosen=plan)

    def _choose_for_threads(
        self,
        versions: Sequence[ProgramVersion],
        targets: tuple[Node, ...],
        budget: int | None,
        incremental: bool,
        optimise: Optimise | None,
        threads: int,
    ) -> tuple[PlannedVersion, PlannedVersion]:
        """The first version that can be run on a number of threads, without and within the budget.

        What takes much memory is computed in bands, whatever the budget.  Groups that raise the
        peak are given up.
        """
        scratch = partial(self._scratch, threads)

        def plan_within(flow: Flow, budget: int | None = None) -> ChosenPlan:
            known = self._dependence_of(flow.order())
            return choose_plan(flow, targets, known, scratch, incremental, budget, self._planning)

        least: MemoryBudgetError | None = None
        for place, plain in enumerate(versions):
            found = PlannedVersion(plain, plan_within(plain.flow))
            self._note_plan("plan", found)
            if any(self._needs_less(later, *found) for later in versions[place + 1 :]):
                self._note_plan("give up groups", found)
                continue
            bands: BandPlanner | None = None
            if optimise is not None and self._engine.compiles_groups and self._planning != "seed":
                run_keys = self._run_keys if incremental else None
                bands = BandPlanner(self._engine, optimise, plan_within, scratch, run_keys)
                found = bands.reduce_peak(found)
                self._note_plan("cut bands", found)
            if budget is None or found.arena <= budget:
                return found, found
            try:
                within = self._fit_budget(budget, found, bands, plan_within)
            except MemoryBudgetError as error:
                least = smaller_need(least, error)
            else:
                self._note_plan("recompute within budget", within)
                return found, within
        assert least is not None
        raise least

    def _note_plan(self, name: str, planned: PlannedVersion) -> None:
        layout = planned.chosen.memory.layout
        self.stages.note(name, len(layout.schedule.sequence), layout.arena)

    @staticmethod
    def _fit_budget(
        budget: int,
        found: PlannedVersion,
        bands: BandPlanner | None,
        plan_within: Callable[[Flow, int | None], ChosenPlan],
    ) -> PlannedVersion:
        """A version within a budget: values are computed again, one by one or by bands."""

        def again(one: PlannedVersion) -> PlannedVersion:
            return PlannedVersion(one.version, plan_within(one.version.flow, budget))

        try:
            return again(found)
        except MemoryBudgetError as error:
            least = error
        last, tries = found, MAX_SEARCHED_VERSIONS
        for tighter in bands.tighter_plans(found) if bands is not None else ():
            if tighter.arena <= budget:
                return tighter
            last = tighter
            if tighter.peak <= budget and tries:
                tries -= 1
                try:
                    return again(tighter)
                except MemoryBudgetError as error:
                    least = smaller_need(least, error)
        if last is found or last.peak <= budget:
            raise least
        try:
            return again(last)
        except MemoryBudgetError as error:
            raise smaller_need(least, error) from None

    def _needs_less(
        self, other: ProgramVersion, version: ProgramVersion, found: ChosenPlan
    ) -> bool:
        """Whether another version needs clearly less than the one that was planned.

        Kernels' scratch memory is left aside.  What runs at different times is grouped so that less
        is computed, not for memory.
        """
        steps, less = found.memory.lowered.steps, ceil(found.memory.layout.arena / GROUPING_RISE)
        if other.least >= less or len(steps) > MAX_COMPARED_STEPS or self._planning == "seed":
            return False
        if (
            found.memory.incremental
            and len(set(map(self._run_keys(version.flow.order()), steps))) > 1
        ):
            return False
        alone = plan_below(_problem(other.flow), less, alignment=ALIGNMENT)
        if alone is None:
            return False
        own = planned(_problem(version.flow), alignment=ALIGNMENT).arena
        return alone.arena < own / GROUPING_RISE

    def _scratch(self, threads: int, node: Node) -> int:
        """Bytes of scratch memory that a step needs on a number of threads."""
        known = self._scratches.get((threads, node))
        if known is None:
            known = self._scratches[threads, node] = self._engine.scratch(node, threads)
        return known

    def explain(self) -> Stages:
        """The stages that were gone through, and how the steps are run."""
        steps = self._memory_plan.lowered.steps
        return self.stages.with_summary(self._engine.describe(steps, self._threads))

    @cached_property
    def rewrites(self) -> Rewrites:
        """What the optimiser did; what it was given and left is measured when somebody asks."""
        if self._is_optimised:
            measure(self._rewrites, toposort(self._user_results), toposort(self.results))
        return self._rewrites

    @cached_property
    def dependence(self) -> Dependence:
        """Which inputs each node depends on."""
        return self._dependence_of(self._memory_plan.lowered.order)

    @property
    def _views(self) -> Mapping[Node, Node]:
        """The node whose memory each view shares."""
        return self._memory_plan.lowered.views

    # ----------------------------------------------------------------- running

    @property
    def task(self) -> Task:
        """What the engine is given."""
        lowered, layout = self._memory_plan.lowered, self._memory_plan.layout
        return Task(
            lowered,
            layout,
            self._variables,
            self.in_place_updates,
            self._updates,
            self._threads,
        )

    @cached_property
    def executable(self) -> Executable:
        """The steps made runnable; asking for it makes the code and allocates the memory."""
        while True:
            check_fits_machine(self._memory_plan.layout.arena, self._least_bytes)
            try:
                executable = self._engine.prepare(self.task)
            except StalePlanError:
                self._make_plan()
            else:
                layout = self._memory_plan.layout
                steps = len(layout.schedule.sequence)
                self.stages.note("make code, allocate", steps, layout.arena)
                return executable

    def _least_bytes(self) -> int:
        """The smallest budget that was found to be possible for what is computed now."""
        known, arena = self.dependence, self._memory_plan.layout.arena
        if self._planning == "seed":
            return arena
        flow = Flow(self.results)
        scratch = partial(self._scratch, self._threads)
        given = flow, self._targets, known, scratch, self._incremental
        return least_budget(lambda budget: choose_plan(*given, budget, self._planning), arena)

    def bit(self, variable: Node) -> int:
        """The bit that stands for a change of `variable`."""
        return self.dependence.bit[variable]

    def nodes_after_change(self, changed: int | None) -> frozenset[Node]:
        """The nodes to compute after a change; None means that nothing was computed yet."""
        return self.run_set(changed)[0]

    def run_set(self, changed: int | None) -> tuple[frozenset[Node], list[int]]:
        """The nodes to compute after a change, and the positions of the schedule where they are."""
        known = self.run_sets.get(changed)
        if known is None:
            lowered, kept = self._memory_plan.lowered, self._memory_plan.kept
            steps = frozenset(lowered.steps)
            reached = None
            if changed is not None and self._memory_plan.incremental:
                reached = self.dependence.dependents(changed)
            nodes = (
                steps if reached is None else nodes_to_compute(reached & steps, kept, self._views)
            )
            wanted = {lowered.step_of[n] for n in nodes}
            sequence = self._memory_plan.layout.schedule.sequence
            positions = [p for p, s in enumerate(sequence) if s in wanted]
            known = self.run_sets[changed] = (nodes, positions)
        return known

    def value(self, node: Node, variables: Sequence[Value]) -> Value:
        """The value of a result, as it lies in memory."""
        return self.executable.value(node, variables)

    def is_kept(self, node: Node) -> bool:
        """Whether the node's value is still there after a run."""
        root = self._views.get(node, node)
        return is_leaf(root) or root in self._memory_plan.kept or node in self.results

    def in_order(self, nodes: frozenset[Node]) -> list[Node]:
        """`nodes` in the order they run, each once; of a group, what it was made of."""
        members = self._expanded_groups.members
        made = [m for n in self._sequence if n in nodes for m in members.get(n, (n,))]
        return list(dict.fromkeys(made))

    def program_node(self, node: Node) -> Node:
        """The program's node for one of the user's: another one, where it was rewritten."""
        if node in self._user_results:
            return self.results[self._user_results.index(node)]
        return (
            node
            if (node, 0) in self._memory_plan.lowered.values
            else self._expanded_groups.program_node.get(node, node)
        )

    @cached_property
    def _expanded_groups(self) -> ExpandedGroups:
        return expand_groups(self.results)

    @cached_property
    def _sequence(self) -> list[Node]:
        lowered, schedule = self._memory_plan.lowered, self._memory_plan.layout.schedule
        return list(dict.fromkeys(lowered.steps[s] for s in schedule.sequence))


def _problem(flow: Flow) -> Problem:
    """The planning problem of a graph alone."""
    return lower(flow.outputs, order=flow.order()).problem


def _warn_of_cost(budget: int | None, free: PlannedVersion, within: PlannedVersion) -> None:
    """Say that a budget makes a program far slower, as far as is estimated."""
    if budget is None:
        return
    before, after = (one.chosen.memory.layout.schedule.seconds for one in (free, within))
    if before >= MIN_WARNED_SECONDS and after > COSTLY_SLOWDOWN * before:
        warn(
            f"memory: within {budget:,} bytes a run takes about {after / before:.1f} times as long,"
            f" since much is computed again; with {free.arena:,} bytes nothing is",
            PerformanceWarning,
        )
