"""Relief of memory: one loop over candidates, each of which proposes a plan that needs less.

`relieve` asks the candidates in turn; the first that proposes a plan has its way, and all are asked
again.  `RELIEFS` lists them.  Those that cost time are for plans above a budget alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import ClassVar, Final, NamedTuple, Protocol, final

from tawny.engine.lowering import LoweredGraph, lower
from tawny.engine.protocol import Engine
from tawny.graph.bands.cuts import (
    MAX_ROUNDS,
    MIN_ARENA,
    WORTHWHILE_SHARE,
    bands_pass,
    find_cuts,
    find_recomputing_cuts,
    find_relieving_cuts,
)
from tawny.graph.bands.search import BandCut
from tawny.graph.incremental import Dependence
from tawny.graph.plan_choice import ChosenPlan, Planning, choose_plan, smaller_need
from tawny.memory.budget import MemoryBudgetError
from tawny.memory.plan import plan, plan_below
from tawny.memory.problem import Problem
from tawny.node import Node
from tawny.rewrite.flow import Flow, Pass, RunKey
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.loop_checkpoints import (
    LoopPair,
    checkpoint_pass,
    cost_text,
    cuts_of,
    loop_pairs,
)
from tawny.rewrite.loop_cuts import LoopCut
from tawny.rewrite.pipeline import OptimisedGraph

GROUPING_RISE: Final = 1.01
"""How much groups may raise the peak, as a factor: orders are not found more exactly than that."""

MAX_COMPARED_STEPS: Final = 1000
"""Programs of more steps are not planned a second time without groups."""

MAX_SEARCHED_VERSIONS: Final = 2
"""The most versions in finer bands whose plans have too many holes for a budget and are searched
anew."""

MOST_TRIED_CUTS: Final = 6
"""The most cuts of a pair of loops that are planned, to find one that fits into a budget."""

MOST_CUT_TOGETHER: Final = 6
"""The most pairs of loops that are cut at once."""

Optimise = Callable[[Flow, Sequence[Pass]], OptimisedGraph]
"""Runs some passes of the optimiser on a graph."""


class ProgramVersion(NamedTuple):
    """A graph that computes the program's results, and what the optimiser did to make it."""

    flow: Flow
    rewrites: Rewrites
    least: int = 0
    """Bytes that it needs, at least, as far as is known."""
    ungrouped: ProgramVersion | None = None
    """The version without groups, where this one may have some."""

    @property
    def results(self) -> tuple[Node, ...]:
        """The nodes that give the program's results."""
        return self.flow.outputs


class PlannedVersion(NamedTuple):
    """A version and its plan."""

    version: ProgramVersion
    chosen: ChosenPlan
    reliefs: tuple[str, ...] = ()
    """The names of the candidates that led here from the plan of a whole version."""
    notes: tuple[str, ...] = ()
    """What steps of loops are computed again, in words."""

    @property
    def arena(self) -> int:
        """Bytes of its plan."""
        return self.chosen.memory.layout.arena

    @property
    def peak(self) -> int:
        """Bytes that are alive at once: a plan needs more where it has holes."""
        return max(self.chosen.memory.layout.live, default=0)


@final
class Planner:
    """Plans graphs of one program for a number of threads: kernels first, then memory."""

    def __init__(
        self,
        engine: Engine,
        optimise: Optimise | None,
        targets: Sequence[Node],
        scratch: Callable[[Node], int],
        dependence: Callable[[Sequence[Node]], Dependence],
        incremental: bool,
        planning: Planning,
    ) -> None:
        """`scratch` chooses a node's kernel for its workspace; `dependence` is given all nodes."""
        self.engine, self.optimise, self.scratch = engine, optimise, scratch
        self.incremental = incremental
        self.planning: Planning = planning
        self._targets, self._dependence = targets, dependence

    def choose_kernels(self, flow: Flow) -> LoweredGraph:
        """The planning problem of a graph, with the workspace of the kernels of its steps."""
        return lower(
            flow.outputs, scratch=self.scratch, order=flow.order(), machine=self.engine.machine
        )

    def plan(
        self, flow: Flow, budget: int | None = None, lowered: LoweredGraph | None = None
    ) -> ChosenPlan:
        """The plan of a graph within a budget."""
        if lowered is None:
            lowered = self.choose_kernels(flow)
        known = self._dependence(flow.order())
        return choose_plan(lowered, self._targets, known, self.incremental, budget, self.planning)

    def run_keys(self, order: Sequence[Node]) -> RunKey | None:
        """The keys of the runs that each node is part of; None where all run each time."""
        return self._dependence(order).run_key if self.incremental else None


# ------------------------------------------------------------------------- the loop


class Relief(Protocol):
    """A candidate: proposes plans that need less memory."""

    name: ClassVar[str]
    recomputes: ClassVar[bool]
    """Whether its plans compute something again."""

    def propose(self, planned: PlannedVersion) -> PlannedVersion | None:
        """A plan that needs less, or None; MemoryBudgetError where a search within it failed."""
        ...


MakeRelief = Callable[[Planner, int | None], Relief]
"""Makes a candidate for the plans of a planner, within a budget."""


def relieve(
    planned: PlannedVersion,
    planner: Planner,
    budget: int | None,
    note: Callable[[str, PlannedVersion], None],
    candidates: Sequence[MakeRelief] | None = None,
) -> tuple[PlannedVersion, PlannedVersion]:
    """A plan that needs less, without recomputation and within the budget.

    `note` is called with every plan that is proposed, and with its candidate's name.
    """
    reliefs = [one(planner, budget) for one in (RELIEFS if candidates is None else candidates)]
    free, least = planned, None
    while True:
        for relief in reliefs:
            try:
                found = relief.propose(planned)
            except MemoryBudgetError as error:
                least = smaller_need(least, error)
                continue
            if found is not None:
                break
        else:
            if budget is None or planned.arena <= budget:
                return free, planned
            assert least is not None
            raise least
        planned = found
        free = free if relief.recomputes else planned
        note(relief.name, planned)


# ------------------------------------------------------------------- groups


@final
class SplitGroups:
    """Runs every node alone where groups raise the peak."""

    name: ClassVar = "split groups"
    recomputes: ClassVar = False

    def __init__(self, planner: Planner, budget: int | None) -> None:
        self._planner = planner

    def propose(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The version without groups, if it needs clearly less.

        Kernels' scratch memory is left aside.  What runs at different times is grouped so that less
        is computed, not for memory.
        """
        version, memory, other = planned.version, planned.chosen.memory, planned.version.ungrouped
        if other is None or planned.reliefs or self._planner.planning == "seed":
            return None
        steps, less = memory.lowered.steps, ceil(planned.arena / GROUPING_RISE)
        if other.least >= less or len(steps) > MAX_COMPARED_STEPS:
            return None
        run_key = self._planner.run_keys(version.flow.order()) if memory.incremental else None
        if run_key is not None and len(set(map(run_key, steps))) > 1:
            return None
        alone = plan_below(self._problem(other.flow), less)
        if alone is None:
            return None
        own = plan(self._problem(version.flow)).arena
        if alone.arena >= own / GROUPING_RISE:
            return None
        return PlannedVersion(other, self._planner.plan(other.flow))

    def _problem(self, flow: Flow) -> Problem:
        """The planning problem of a graph, kernels' scratch memory left aside."""
        machine = self._planner.engine.machine
        return lower(flow.outputs, order=flow.order(), machine=machine).problem


@final
class SplitGroupsForBudget:
    """Runs every node alone where nothing else meets the budget."""

    name: ClassVar = "split groups for the budget"
    recomputes: ClassVar = False

    def __init__(self, planner: Planner, budget: int | None) -> None:
        self._planner, self._budget = planner, budget

    def propose(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The version without groups, from which the other candidates begin anew."""
        other = planned.version.ungrouped
        if other is None or _fits(planned, self._budget):
            return None
        return PlannedVersion(other, self._planner.plan(other.flow))


# ---------------------------------------------------------------------- loops


@final
class CheckpointLoops:
    """Computes steps of loops again whose rows are kept for the way back."""

    name: ClassVar = "checkpoint loops"
    recomputes: ClassVar = True

    def __init__(self, planner: Planner, budget: int | None) -> None:
        self._planner, self._budget = planner, budget

    def propose(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The plan that computes least again within the budget, or else the smallest one."""
        budget = self._budget
        if budget is None or _fits(planned, budget) or self._planner.optimise is None:
            return None
        for pair in loop_pairs(planned.version.flow):
            best = self._cut(planned, pair, budget)
            if best.arena <= WORTHWHILE_SHARE * planned.arena or _fits(best, budget):
                return best._replace(reliefs=(*planned.reliefs, self.name))
        return self._cut_several(planned, budget)

    def _cut_several(self, planned: PlannedVersion, budget: int) -> PlannedVersion | None:
        """The version with several pairs cut, where one after the other needs as much memory."""
        made = planned
        for _ in range(MOST_CUT_TOGETHER):
            pair = next(iter(loop_pairs(made.version.flow)), None)
            cuts = [] if pair is None else cuts_of(pair, planned.arena - budget)
            if pair is None or not cuts:
                return None
            made = self._apply(made, pair, cuts[0])
            if made.arena <= WORTHWHILE_SHARE * planned.arena or _fits(made, budget):
                return made._replace(reliefs=(*planned.reliefs, self.name))
            if made.arena > planned.arena:
                return None
        return None

    def _cut(self, planned: PlannedVersion, pair: LoopPair, budget: int) -> PlannedVersion:
        """The first version within the budget, or else the smallest, of some cuts of a pair."""
        best, tried = planned, set[LoopCut]()
        excess = planned.arena - budget
        for _ in range(MOST_TRIED_CUTS):
            cuts = [cut for cut in cuts_of(pair, excess) if cut not in tried]
            made = [self._apply(planned, pair, cut) for cut in cuts]
            if not made:
                break
            tried.update(cuts)
            least = min(made, key=lambda one: one.arena)
            best = min(best, least, key=lambda one: one.arena)
            if least.arena <= budget:
                return next(one for one in made if one.arena <= budget)
            excess += max(least.arena - budget, pair.row_bytes)
        return best

    def _apply(self, planned: PlannedVersion, pair: LoopPair, cut: LoopCut) -> PlannedVersion:
        """The version with a pair of loops cut, planned."""
        assert self._planner.optimise is not None
        before = planned.version
        made = self._planner.optimise(before.flow, (checkpoint_pass(pair, cut),))
        rewrites = before.rewrites.followed_by(made.rewrites)
        version = ProgramVersion(made.flow, rewrites)
        notes = (*planned.notes, cost_text(pair, cut))
        return PlannedVersion(version, self._planner.plan(made.flow), notes=notes)


# --------------------------------------------------------------------- bands


class BandRelief:
    """Computes steps in bands; base of the candidates that do."""

    def __init__(self, planner: Planner, budget: int | None) -> None:
        self._planner, self._budget = planner, budget
        self._is_able = planner.engine.compiles_groups and planner.planning != "seed"

    def _apply_cuts(
        self, planned: PlannedVersion, flow: Flow, chosen: Sequence[BandCut]
    ) -> PlannedVersion | None:
        """The version with some steps in bands, planned; None where a rule forbids it."""
        assert self._planner.optimise is not None
        made = self._planner.optimise(flow, (bands_pass(chosen),))
        if made.flow is flow:
            return None
        before = planned.version
        rewrites = before.rewrites.followed_by(made.rewrites)
        version = ProgramVersion(made.flow, rewrites, ungrouped=before.ungrouped)
        return planned._replace(version=version, chosen=self._planner.plan(made.flow))

    def _supported_cuts(self, cuts: Iterator[BandCut]) -> list[BandCut]:
        return [cut for cut in cuts if self._planner.engine.supports_bands(cut.bands)]


@final
class CutBands(BandRelief):
    """Computes steps in bands wherever most memory is needed.

    Nothing is computed again but rows around bands.
    """

    name: ClassVar = "cut bands"
    recomputes: ClassVar = False

    def propose(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The version with bands; None where that gains little."""
        if planned.reliefs or self._planner.optimise is None or not self._is_able:
            return None
        best = planned
        for _ in range(MAX_ROUNDS):
            if best.arena < MIN_ARENA:
                break
            version, memory = best.version, best.chosen.memory
            run_key = self._planner.run_keys(version.flow.order())
            cut = self._supported_cuts(
                find_cuts(version.results, memory.lowered, memory.layout, run_key)
            )
            if not cut:
                break
            for chosen in (cut, cut[:1]) if len(cut) > 1 else (cut,):
                other = self._apply_cuts(best, version.flow, chosen)
                if other is not None and other.arena < best.arena:
                    best = other
                    break
            else:
                break
        if best is planned or best.arena > WORTHWHILE_SHARE * planned.arena:
            return None
        return best._replace(reliefs=(self.name,))


@final
class CutFinerBands(BandRelief):
    """Computes steps in bands wherever much memory is needed, in more and more of them.

    What would wait where most is needed is computed again by bands that read it.
    """

    name: ClassVar = "cut finer bands"
    recomputes: ClassVar = True

    def propose(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The next version of a lower peak."""
        if _fits(planned, self._budget) or self._planner.optimise is None or not self._is_able:
            return None
        start = planned
        if self.name not in planned.reliefs:
            relieved = self._relieve_peak(planned)
            if relieved is not None and relieved.peak <= planned.peak:
                start = relieved
        found: PlannedVersion | None = start
        if start.peak >= planned.peak:
            is_large = start.peak >= MIN_ARENA
            found = next(self._recompute_in_bands(start), None) if is_large else None
        return None if found is None else found._replace(reliefs=(*planned.reliefs, self.name))

    def _relieve_peak(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The version with bands wherever they need less than their steps; None without any."""
        version, memory, planner = planned.version, planned.chosen.memory, self._planner
        run_key = planner.run_keys(version.flow.order())
        given = version.results, memory.lowered, memory.layout, run_key, planner.scratch
        cut = self._supported_cuts(find_relieving_cuts(*given))
        return self._apply_cuts(planned, version.flow, cut) if cut else None

    def _recompute_in_bands(self, planned: PlannedVersion) -> Iterator[PlannedVersion]:
        """Versions of a lower peak, each with bands that recompute what waits there."""
        version, memory, planner = planned.version, planned.chosen.memory, self._planner
        places = find_recomputing_cuts(
            version.results, memory.lowered, memory.layout, planner.run_keys
        )
        for results, cut in places:
            if planner.engine.supports_bands(cut.bands):
                other = self._apply_cuts(planned, version.flow.with_outputs(results), [cut])
                if other is not None and other.peak < planned.peak:
                    yield other


# --------------------------------------------------------------- recomputation


class Recompute:
    """Computes values again, one by one, where the budget is likely to be met by that."""

    name: ClassVar = "recompute"
    recomputes: ClassVar = True

    def __init__(self, planner: Planner, budget: int | None) -> None:
        self._planner, self._budget = planner, budget
        self._left = MAX_SEARCHED_VERSIONS

    def propose(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The plan within the budget of a version without finer bands, or of one near to it."""
        if self._budget is None or planned.arena <= self._budget:
            return None
        if CutFinerBands.name not in planned.reliefs:
            self._left = MAX_SEARCHED_VERSIONS
        elif planned.peak > self._budget or not self._left:
            return None
        else:
            self._left -= 1
        return self._search(planned)

    def _search(self, planned: PlannedVersion) -> PlannedVersion:
        chosen = self._planner.plan(planned.version.flow, self._budget)
        return planned._replace(chosen=chosen, reliefs=(*planned.reliefs, self.name))


@final
class RecomputeInFinestBands(Recompute):
    """Computes values again where bands cannot be finer and the budget is not met."""

    def propose(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The plan within the budget of a version whose peak is above it."""
        if self._budget is None or planned.peak <= self._budget:
            return None
        return self._search(planned) if CutFinerBands.name in planned.reliefs else None


RELIEFS: Final[tuple[MakeRelief, ...]] = (
    SplitGroups,
    CutBands,
    CheckpointLoops,
    Recompute,
    CutFinerBands,
    RecomputeInFinestBands,
    SplitGroupsForBudget,
)
"""The candidates, in the order in which they are asked."""


def _fits(planned: PlannedVersion, budget: int | None) -> bool:
    """Whether a plan is within a budget."""
    return budget is None or planned.arena <= budget
