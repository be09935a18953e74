"""The pipeline: everything that happens between a graph and a program, in order, by name.

Every engine goes through all of `PIPELINE`; a stage that does not concern it leaves the state as it
is.  `PLANNING` makes no code: kernels are chosen with their scratch memory, and the plan is made
for them.  `EMISSION` then makes all code and allocates the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Final, NamedTuple, final

from tawny.engine.lowering import LoweredGraph, is_leaf, types, views_of, with_scratch
from tawny.engine.protocol import Engine, Executable, Task
from tawny.errors import PerformanceWarning, warn
from tawny.graph.bands.cuts import BANDS
from tawny.graph.in_place_updates import separate_outputs
from tawny.graph.incremental import Dependence, boundary, dependence
from tawny.graph.memory_limits import (
    check_addressable,
    check_fits_device,
    check_fits_machine,
    least_budget,
)
from tawny.graph.plan_choice import Planning
from tawny.graph.relief import Optimise, PlannedVersion, Planner, ProgramVersion, relieve
from tawny.graph.stages import Stages
from tawny.memory.budget import MemoryBudgetError
from tawny.memory.plan import ArenaLayout, plan_as_in_report, replan
from tawny.node import Node, Part
from tawny.ops.movement import Roll
from tawny.progress import progress
from tawny.rewrite.bodies import bodies_pass
from tawny.rewrite.byte_products import BYTE_PRODUCT, multiply_bytes, multiply_bytes_in_loops
from tawny.rewrite.components import COMPONENTS, separate_components
from tawny.rewrite.flow import Context, Flow, RunKey
from tawny.rewrite.gathers import gather_pieces
from tawny.rewrite.groups.elementwise import grouping_pass
from tawny.rewrite.groups.products import PRODUCT_GROUP, product_group_pass
from tawny.rewrite.groups.reads import GROUP_READS, group_reads_pass
from tawny.rewrite.groups.repeats import REPEATS, repeats_pass
from tawny.rewrite.half_products import HALF_PRODUCT, multiply_halves
from tawny.rewrite.ledger import Ledger, Rewrites
from tawny.rewrite.loop_checkpoints import CHECKPOINT
from tawny.rewrite.pipeline import FUSE_PASSES, SIMPLIFY_PASSES
from tawny.rewrite.pipeline import PIPELINE as PASSES
from tawny.rewrite.pipeline import rules as rules_of
from tawny.rewrite.rounded_factors import round_factors_pass
from tawny.rewrite.scattered_windows import COPY_SCATTERED, copy_scattered
from tawny.rewrite.sorting import PARTIAL_SORT, sort_partly
from tawny.rewrite.systems import SHARED_FACTORS, WIDE_FACTOR, share_factors
from tawny.shape import size

COSTLY_SLOWDOWN: Final = 1.5
"""The time within a budget, as a multiple of that without, above which a warning is due."""

MIN_WARNED_SECONDS: Final = 1e-2
"""The estimated time of the shortest program whose budget is warned of, in seconds."""

RULES: Final = (
    *rules_of(PASSES),
    BYTE_PRODUCT,
    HALF_PRODUCT,
    SHARED_FACTORS,
    WIDE_FACTOR,
    PARTIAL_SORT,
    COMPONENTS,
    COPY_SCATTERED,
    REPEATS,
    PRODUCT_GROUP,
    GROUP_READS,
    BANDS,
    CHECKPOINT,
)
"""Every rule that may be applied."""


@dataclass(frozen=True)
class CompileRequest:
    """A request to compile: the graph, and all options."""

    variables: tuple[Node, ...]
    targets: tuple[Node, ...]
    """Variables that updates change; the last results are their sources."""
    results: tuple[Node, ...]
    engine: Engine
    threads: int
    budget: int | None
    often: Collection[Node]
    incremental: bool
    optimise: Optimise | None
    planning: Planning
    precision: str | None = None
    """What products of float32 are computed in, if not that."""


@final
@dataclass
class CompileState:
    """The state of one compilation, which every stage changes."""

    request: CompileRequest
    flow: Flow
    """The graph as the last stage left it; until groups are made, with what fusion must not cross
    as further outputs."""
    rewrites: Rewrites = field(default_factory=Rewrites)
    version: ProgramVersion | None = None
    """The graph to plan, with its history and without further outputs."""
    lowered: LoweredGraph | None = None
    """The planning problem of `version`."""
    planned: PlannedVersion | None = None
    """The plan, once there is one."""
    free: PlannedVersion | None = None
    """The plan that recomputes nothing, whatever the budget."""
    is_adapted: bool = False
    """Whether the plan is chosen for the program's own number of threads."""
    code: object = None
    """Holds what was compiled until the memory is allocated."""
    executable: Executable | None = None
    stages: Stages = field(default_factory=Stages)
    """What was gone through."""
    _scratches: dict[tuple[int, Node], int] = field(default_factory=dict[tuple[int, Node], int])
    _last_dependence: tuple[Sequence[Node], Dependence] | None = None
    """The nodes whose dependence was asked for last, and what that is."""

    def dependence_of(self, order: Sequence[Node]) -> Dependence:
        """Which inputs each of these nodes depends on; the same are asked for again and again."""
        if self._last_dependence is None or self._last_dependence[0] is not order:
            asked, updated = frozenset(self.request.often), frozenset(self.request.targets)
            found = dependence(order, self.request.variables, asked, updated)
            self._last_dependence = order, found
        return self._last_dependence[1]

    def run_key_of(self, order: Sequence[Node]) -> RunKey:
        """The keys of the runs each node is part of, given all nodes."""
        return self.dependence_of(order).run_key

    def planner(self) -> Planner:
        """Plans for the nominal number of threads, or for the program's own."""
        given, engine = self.request, self.request.engine
        threads = given.threads if self.is_adapted else engine.nominal_threads
        scratch, incremental = partial(self.scratch, threads), given.incremental
        return Planner(
            *(engine, given.optimise, given.targets, scratch, self.dependence_of, incremental),
            given.planning,
        )

    def scratch(self, threads: int, node: Node) -> int:
        """Bytes of scratch memory that a step needs on a number of threads."""
        known = self._scratches.get((threads, node))
        if known is None:
            known = self.request.engine.scratch(node, threads)
            self._scratches[threads, node] = known
        return known

    def forget(self) -> None:
        """Let go of what planning alone needs."""
        assert self.planned is not None
        version = self.planned.version._replace(ungrouped=None)
        self.planned = self.planned._replace(version=version)
        self.version = self.lowered = self.free = None
        self.flow = version.flow
        self._scratches.clear()

    def note(self, name: str, planned: PlannedVersion | None = None) -> None:
        """Note that a stage has ended, and the nodes and bytes that it leaves."""
        planned = planned or self.planned
        if planned is not None:
            self.stages.note(name, len(_layout(planned).sequence), planned.arena)
        else:
            scratch = 0
            if self.lowered is not None:
                scratch = sum([step.scratch for step in self.lowered.problem.steps])
            order = self.flow.order()
            self.stages.note(name, len(order), _bytes_computed(order) + scratch)


def _layout(planned: PlannedVersion) -> ArenaLayout:
    return planned.chosen.memory.layout


def _bytes_computed(order: Sequence[Node]) -> int:
    """Bytes of all values that nodes compute, if each had memory of its own."""
    made = [n for n in order if n.inputs and type(n.op) is not Part]
    return sum([prod(shape) * dtype.itemsize for n in made for shape, dtype in types(n)])


# ------------------------------------------------------------------------ rewriting


def record(state: CompileState) -> None:
    """Take the graph as it was written."""
    check_addressable(state.flow.order())


def simplify(state: CompileState) -> None:
    """Compute the same with fewer ops; no result lies in a variable that updates change."""
    request = state.request
    if request.optimise is not None:
        made = request.optimise(state.flow, SIMPLIFY_PASSES)
        state.flow, state.rewrites = made.flow, made.rewrites
    state.flow = separate_outputs(state.flow, request.targets)


def _round_factors(state: CompileState) -> None:
    """Let products have the precision that is asked for, if the graph is to say so."""
    request = state.request
    if request.precision == "bfloat16":
        context = Context(lambda _: [], Ledger(()))
        own = round_factors_pass(request.engine.should_round)
        for step in (own, bodies_pass("round_factors_in_bodies", own)):
            state.flow = step(state.flow, context)
        state.note("round factors")


def fuse(state: CompileState) -> None:
    """Join products with what follows them, multiplications with additions.

    What runs at different times is never fused.  To that end the boundary between such parts takes
    part in fusion as if it were asked for, and no group has nodes of several parts.
    """
    _round_factors(state)
    request, own = state.request, state.flow
    if request.optimise is not None:
        between = _boundary_values(state) if request.incremental else []
        pieces = (gather_pieces, bodies_pass("gather_pieces_in_bodies", gather_pieces))
        passes = (
            (separate_components, *FUSE_PASSES, *pieces, copy_scattered)
            if request.engine.compiles_groups
            else FUSE_PASSES
        )
        if request.engine.multiplies_halves:
            in_bodies = bodies_pass("multiply_halves_in_bodies", multiply_halves)
            passes = (*passes, multiply_halves, in_bodies)
        if request.engine.multiplies_bytes:
            in_bodies = bodies_pass("multiply_bytes_in_bodies", multiply_bytes)
            passes = (multiply_bytes, in_bodies, multiply_bytes_in_loops, *passes)
        if request.engine.shares_factors:
            shared = bodies_pass("share_factors_in_bodies", share_factors)
            passes = (share_factors, shared, *passes)
        if request.engine.sorts_partly:
            passes = (sort_partly, bodies_pass("sort_partly_in_bodies", sort_partly), *passes)
        made = request.optimise(own.with_outputs((*own.outputs, *between)), passes)
        state.flow, state.rewrites = made.flow, state.rewrites.followed_by(made.rewrites)
    plain = state.flow.with_outputs(state.flow.outputs[: len(own.outputs)])
    state.version = ProgramVersion(plain, state.rewrites)


def _boundary_values(state: CompileState) -> list[Node]:
    """What is kept between parts that run at different times."""
    order, results = state.flow.order(), frozenset(state.flow.outputs)
    between = boundary(state.dependence_of(order), views_of(order))
    kept = [n.inputs[0] if isinstance(n.op, Roll) else n for n in between]
    return [n for n in dict.fromkeys(kept) if n not in results and not is_leaf(n)]


def group(state: CompileState) -> None:
    """Let elementwise ops, reductions and products run as one kernel each, if they are compiled."""
    request, engine, version = state.request, state.request.engine, state.version
    assert version is not None
    if request.optimise is not None and engine.compiles_groups:
        run_keys = state.run_key_of if request.incremental else None
        least: list[int] = []
        groups = grouping_pass(
            *(run_keys, engine.should_group, engine.min_group_size, least.append),
            alignment=engine.machine.alignment,
            most_steps=engine.machine.group_steps,
        )
        repeats = repeats_pass(engine.should_group, run_keys)
        joined = product_group_pass(engine.can_fuse_product, run_keys)
        reads = group_reads_pass(engine.should_group)
        in_bodies = bodies_pass(
            "group_bodies",
            repeats_pass(engine.should_group),
            grouping_pass(None, engine.should_group, engine.min_group_size),
            product_group_pass(engine.can_fuse_product),
            reads,
        )
        fused, count = state.flow, len(version.results)
        grouped = request.optimise(fused, (in_bodies, repeats, groups, joined))
        own = grouped.flow.with_outputs(grouped.outputs[:count])
        made = request.optimise(own, (reads,))
        rewrites = version.rewrites.followed_by(grouped.rewrites).followed_by(made.rewrites)
        is_whole = len(fused.outputs) == count
        plain = version._replace(least=max(least, default=0) if is_whole else 0)
        state.version = version = ProgramVersion(made.flow, rewrites, ungrouped=plain)
    state.flow = version.flow


# ------------------------------------------------------------------------- planning


def choose_kernels(state: CompileState) -> None:
    """Choose a kernel for each step, with its scratch memory; no code is made."""
    assert state.version is not None
    state.lowered = state.planner().choose_kernels(state.version.flow)


def plan(state: CompileState) -> None:
    """Choose the order, what is kept and written in place, and every value's place in memory."""
    assert state.version is not None
    chosen = state.planner().plan(state.version.flow, lowered=state.lowered)
    state.planned = PlannedVersion(state.version, chosen)


def relieve_memory(state: CompileState) -> None:
    """Split groups, cut bands and recompute until the plan is small, and within the budget.

    The plan is for the nominal number of threads, so that it is the same everywhere.  If it cannot
    be within the budget, there may still be one for the program's own.
    """
    request = state.request
    assert state.planned is not None
    try:
        state.free, state.planned = relieve(
            *(state.planned, state.planner(), request.budget),
            lambda name, planned: state.note(f"relieve: {name}", planned),
        )
    except MemoryBudgetError:
        if state.is_adapted or request.threads == request.engine.nominal_threads:
            raise
        state.free = None


def place(state: CompileState) -> None:
    """Give the steps the scratch memory of the program's threads.

    Only where a budget leaves no room for it, or leaves it only to fewer threads than the nominal
    number, is the plan chosen anew for these.
    """
    request = state.request
    assert state.planned is not None
    if state.free is not None:
        placed = _with_thread_scratch(state, state.planned)
        if request.budget is None or placed.arena <= request.budget:
            _warn_of_cost(request.budget, state.free, state.planned)
            state.planned = placed
            return
    state.is_adapted = True
    for stage in (choose_kernels, plan, relieve_memory):
        stage(state)
    assert state.free is not None
    _warn_of_cost(request.budget, state.free, state.planned)


def _with_thread_scratch(state: CompileState, planned: PlannedVersion) -> PlannedVersion:
    """A planned version with the scratch memory of the program's threads."""
    threads = state.request.threads
    if threads == state.request.engine.nominal_threads:
        return planned
    memory = planned.chosen.memory
    lowered = with_scratch(memory.lowered, partial(state.scratch, threads))
    layout = (
        plan_as_in_report(lowered.problem)
        if state.request.planning == "seed"
        else replan(memory.layout, lowered.problem)
    )
    chosen = planned.chosen._replace(memory=replace(memory, lowered=lowered, layout=layout))
    return planned._replace(chosen=chosen)


def _warn_of_cost(budget: int | None, free: PlannedVersion, within: PlannedVersion) -> None:
    """Say that a budget makes a program far slower, as far as is estimated."""
    if budget is None:
        return
    before, after = (_layout(one).schedule.seconds for one in (free, within))
    if before >= MIN_WARNED_SECONDS and after > COSTLY_SLOWDOWN * before:
        warn(
            f"memory: within {budget:,} bytes a run takes about {after / before:.1f} times as long,"
            f" since much is computed again; with {free.arena:,} bytes nothing is",
            PerformanceWarning,
        )


# ------------------------------------------------------------------------- emission


def emit(state: CompileState) -> None:
    """Make the code of all kernels that were chosen, several at a time."""
    assert state.planned is not None
    least = partial(_least_bytes, state, state.planned)
    if (device := state.request.engine.device()) is None:
        check_fits_machine(state.planned.arena, least)
    else:
        check_fits_device(device, state.planned.arena, _outside_bytes(state), least)
    state.code = state.request.engine.emit(task_of(state))


def _outside_bytes(state: CompileState) -> int:
    """Bytes of variables, which lie outside the arena."""
    return sum([size(v.shape) * int(v.dtype.itemsize) for v in state.request.variables])


def allocate(state: CompileState) -> None:
    """Allocate the memory of the plan, and bind the steps to it."""
    state.executable = state.request.engine.prepare(task_of(state))
    state.code = None


def task_of(state: CompileState) -> Task:
    """What the engine is given."""
    request, planned = state.request, state.planned
    assert planned is not None
    (memory, in_place), results = planned.chosen, planned.version.results
    changing = zip(request.targets, results[len(results) - len(request.targets) :], strict=True)
    there = set(in_place.values())
    updates = tuple([(t, s) for t, s in changing if t not in there and t is not s])
    return Task(
        memory.lowered, memory.layout, request.variables, in_place, updates, request.threads
    )


def _least_bytes(state: CompileState, planned: PlannedVersion) -> int:
    """The smallest budget that was found to be possible for what is computed now."""
    if state.request.planning == "seed":
        return planned.arena
    own = replace(state, is_adapted=True).planner()
    return least_budget(lambda budget: own.plan(planned.version.flow, budget), planned.arena)


# --------------------------------------------------------------------- the pipeline


class Stage(NamedTuple):
    """One stage: its name, and the function that takes the state through it."""

    name: str
    run: Callable[[CompileState], None]


PLANNING: Final = (
    Stage("record", record),
    Stage("simplify", simplify),
    Stage("fuse", fuse),
    Stage("group", group),
    Stage("choose kernels", choose_kernels),
    Stage("plan", plan),
    Stage("relieve", relieve_memory),
    Stage("place", place),
)
EMISSION: Final = (Stage("emit", emit), Stage("allocate", allocate))
PIPELINE: Final = (*PLANNING, *EMISSION)


def run_stages(state: CompileState, stages: Sequence[Stage]) -> None:
    """Take the state through stages, noting what each leaves and the time it takes."""
    count = len(state.flow.order())
    with progress(f"compiling a graph of {count:,} nodes") as work:
        for stage in stages:
            work.now(stage.name)
            stage.run(state)
            state.note(stage.name)
