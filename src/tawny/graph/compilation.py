"""Compiling: optimise, find what depends on what, choose what is kept, plan, prepare the engine."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import final, get_args

from tawny.engine.lowering import is_leaf
from tawny.engine.protocol import Executable, StalePlanError, Task, engine_in
from tawny.errors import value_error
from tawny.graph.expansion import ExpandedGroups, expand_groups
from tawny.graph.incremental import Dependence, nodes_to_compute
from tawny.graph.passes import PassRecord, repeat_rewriting
from tawny.graph.pipeline import (
    EMISSION,
    PLANNING,
    CompileRequest,
    CompileState,
    run_stages,
    task_of,
)
from tawny.graph.plan import Plan
from tawny.graph.plan_choice import Planning
from tawny.graph.relief import Optimise
from tawny.graph.stages import Stages
from tawny.lazy import cached_property
from tawny.memory.budget import parse_bytes
from tawny.node import Node, toposort, variable_names
from tawny.rewrite.flow import Flow
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import measure
from tawny.unique import Unique


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
        precision: str | None = None,
    ) -> None:
        self._engine = engine_in(engine, precision)
        self.engine = engine
        self._threads = self._engine.threads(threads)
        self._user_results = tuple(results)
        budget = None if memory is None else parse_bytes(memory)
        if plan not in get_args(Planning):
            raise value_error(
                "compile", f"plan is {plan!r}; accepted: {', '.join(map(repr, get_args(Planning)))}"
            )
        if plan == "seed" and budget is not None:
            raise value_error("compile", "plan='seed' is the report's, which has no budgets")
        self._request = CompileRequest(
            *(tuple(variables), tuple(targets), self._user_results, self._engine, self._threads),
            *(budget, often, incremental, optimise),
            *(plan, precision),
        )
        self.run_sets: dict[int | None, tuple[frozenset[Node], list[int]]] = {}
        """What `run_set` gave."""
        self._make_plan()

    def _make_plan(self) -> None:
        """Optimise, choose kernels, plan the memory; no code is made."""
        self._state = state = CompileState(self._request, Flow(self._user_results))
        run_stages(state, PLANNING)
        state.forget()
        assert state.planned is not None
        version, (self._memory_plan, self.in_place_updates), _, notes = state.planned
        """`in_place_updates`: for each source that is computed in its variable's memory, that."""
        self.results, self._rewrites = version.results, version.rewrites
        memory = self._memory_plan
        self.plan = Plan(
            *(memory.lowered, memory.layout, memory.kept, self.engine, self._user_results),
            *(self.in_place_updates, self._threads, state.is_adapted),
            *(variable_names(self._request.variables), self._request.budget, notes),
        )

    @property
    def stages(self) -> Stages:
        """The stages that were gone through."""
        return self._state.stages

    def explain(self) -> Stages:
        """The stages that were gone through, and how the steps are run."""
        steps = self._memory_plan.lowered.steps
        return self.stages.with_summary(self._engine.describe(steps, self._threads))

    @cached_property
    def rewrites(self) -> Rewrites:
        """What the optimiser did; what it was given and left is measured when somebody asks."""
        if self._request.optimise is not None:
            measure(self._rewrites, toposort(self._user_results), toposort(self.results))
        return self._rewrites

    def passes(self) -> list[PassRecord]:
        """What each pass of the optimiser did; it is done once more for that."""
        return repeat_rewriting(self._request)

    @cached_property
    def dependence(self) -> Dependence:
        """Which inputs each node depends on."""
        return self._state.dependence_of(self._memory_plan.lowered.order)

    @property
    def _views(self) -> Mapping[Node, Node]:
        """The node whose memory each view shares."""
        return self._memory_plan.lowered.views

    # ----------------------------------------------------------------- running

    @property
    def task(self) -> Task:
        """What the engine is given."""
        return task_of(self._state)

    @cached_property
    def executable(self) -> Executable:
        """The steps made runnable; asking for it makes the code and allocates the memory."""
        while True:
            try:
                run_stages(self._state, EMISSION)
            except StalePlanError:
                self._make_plan()
            else:
                executable, self._state.executable = self._state.executable, None
                assert executable is not None
                return executable

    def replace_executable(self, executable: Executable) -> None:
        """Let another executable run the program, one over the same memory."""
        vars(self)["executable"] = executable

    def make_executable(self, team: int = 0) -> Executable:
        """The steps made runnable once more, with memory of their own, by a team of threads."""
        _ = self.executable  # the plan is the one that code could be made for
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the program was compiled
            return self._engine.prepare(replace(self.task, team=team))

    def twin(self, team: int) -> Compilation:
        """A copy with memory of its own, run by a team; plan, code and constants are shared."""
        twin = Compilation.__new__(Compilation)
        vars(twin).update(vars(self))
        vars(twin)["executable"] = self.make_executable(team)
        return twin

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
