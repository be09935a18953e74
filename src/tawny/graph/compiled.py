"""Compiling: optimise, find what depends on what, choose what is kept, plan, prepare the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Final, final, get_args

from tawny.errors import value_error
from tawny.graph.engine import Executable, Task, engine_named
from tawny.graph.fitting import Fitted, Planning, smaller
from tawny.graph.incremental import Dependence, boundary, closed, dependence
from tawny.graph.lowering import is_leaf, views_of
from tawny.graph.plan import Plan
from tawny.graph.settling import settled
from tawny.graph.written import Written, written_out
from tawny.memory.budget import MemoryBudgetError, parse_bytes
from tawny.node import Node, Value
from tawny.rewrite.flow import Pass
from tawny.rewrite.groups import grouping
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import PIPELINE, Optimised
from tawny.rewrite.product_groups import joining

Optimise = Callable[[Sequence[Node], Sequence[Pass]], Optimised]
"""Runs some passes of the optimiser."""

SIMPLIFYING: Final = tuple(p for p in PIPELINE if p.name in ("simplify", "fold_batch_norm"))
FUSING: Final = tuple(p for p in PIPELINE if p.name in ("fuse_products", "contract"))
"""The passes for every engine; groups are for those that compile them."""


@final
class Compiled:
    """A graph made runnable: what to run after which change, and where everything lies."""

    def __init__(
        self,
        variables: Sequence[Node],
        targets: Sequence[Node],
        results: Sequence[Node],
        *,
        engine: str,
        memory: str | int | None,
        often: Collection[Node],
        incremental: bool,
        optimise: Optimise | None,
        threads: int | None = None,
        plan: Planning = "default",
    ) -> None:
        self._engine = engine_named(engine)
        self.engine = engine
        self._threads = threads
        self._variables = tuple(variables)
        self._watch = frozenset(often), frozenset(targets)
        self._asked = tuple(results)
        budget = None if memory is None else parse_bytes(memory)
        if plan not in get_args(Planning):
            raise value_error(
                "compile", f"plan is {plan!r}; accepted: {', '.join(map(repr, get_args(Planning)))}"
            )
        if plan == "seed" and budget is not None:
            raise value_error("compile", "plan='seed' is the report's, which has no budgets")
        self._planning: Planning = plan
        self._engine.begin()
        versions = self._versions(tuple(results), optimise, incremental)
        self.results, self.rewrites, self._fitted, self.homes = self._chosen(
            versions, tuple(targets), budget, incremental
        )
        """`homes`: sources of updates computed in the memory of the variable they update."""
        fitted = self._fitted
        self.plan = Plan(
            fitted.lowered, fitted.layout, fitted.kept, engine, self._asked, self.homes
        )
        changing = zip(targets, self.results[len(self.results) - len(targets) :], strict=True)
        there = set(self.homes.values())
        self._updates = tuple([(t, s) for t, s in changing if t not in there])
        self._needed: dict[int | None, tuple[frozenset[Node], list[int]]] = {}

    # -------------------------------------------------------------- optimising

    def _versions(
        self, results: tuple[Node, ...], optimise: Optimise | None, incremental: bool
    ) -> Iterator[tuple[tuple[Node, ...], Rewrites]]:
        """The results computed with less, the best first; what takes least memory is the last.

        What runs at different times is never fused.  To that end the boundary between such parts
        takes part in fusion as if it were asked for, and no group has nodes of several parts.
        """
        if optimise is None:
            yield results, Rewrites()
            return
        simple = optimise(results, SIMPLIFYING)
        held = self._held(simple.outputs) if incremental else []
        fused = optimise((*simple.outputs, *held), FUSING)
        rewrites = simple.rewrites.followed_by(fused.rewrites)
        if self._engine.groups:
            moments = self._moment if incremental else None
            groups = grouping(moments, self._engine.worth, self._engine.least)
            joined = joining(self._engine.joins, moments)
            grouped = optimise(fused.outputs, (groups, joined))
            yield grouped.outputs[: len(results)], rewrites.followed_by(grouped.rewrites)
        yield fused.outputs[: len(results)], rewrites

    def _held(self, results: Sequence[Node]) -> list[Node]:
        between = boundary(self._dependence_of(results), views_of(results))
        return [n for n in between if n not in results]

    def _moment(self, results: Sequence[Node]) -> Callable[[Node], int]:
        """When each node runs."""
        return self._dependence_of(results).moment

    def _dependence_of(self, results: Sequence[Node]) -> Dependence:
        return dependence(results, self._variables, *self._watch)

    def _chosen(
        self,
        versions: Iterator[tuple[tuple[Node, ...], Rewrites]],
        targets: tuple[Node, ...],
        budget: int | None,
        incremental: bool,
    ) -> tuple[tuple[Node, ...], Rewrites, Fitted, dict[Node, Node]]:
        """The first version that can be run within the budget."""
        least: MemoryBudgetError | None = None
        for results, rewrites in versions:
            known = self._dependence_of(results)
            self._engine.foresee(list(known.mask))
            try:
                fitted, moved = settled(
                    results,
                    targets,
                    known,
                    self._scratch,
                    incremental,
                    budget,
                    self._planning,
                )
            except MemoryBudgetError as error:
                least = smaller(least, error)
            else:
                return results, rewrites, fitted, moved
        assert least is not None
        raise least

    def _scratch(self, node: Node) -> int:
        """Bytes of scratch memory that a step needs on the program's threads."""
        if self._threads is None:
            return self._engine.scratch(node)
        return self._engine.scratch(node, self._threads)

    @cached_property
    def dependence(self) -> Dependence:
        """Which inputs each node depends on."""
        return self._dependence_of(self.results)

    @cached_property
    def _views(self) -> dict[Node, Node]:
        """The node whose memory each view shares."""
        return views_of(self.results)

    # ----------------------------------------------------------------- running

    @property
    def task(self) -> Task:
        """What the engine is given."""
        lowered, layout = self._fitted.lowered, self._fitted.layout
        changed = {target for target, _ in self._updates}
        saved = [n for n in self.results if self._views.get(n, n) in changed]
        return Task(
            lowered,
            layout,
            self._variables,
            self.homes,
            self._updates,
            tuple(dict.fromkeys(saved)),
            self._threads,
        )

    @cached_property
    def executable(self) -> Executable:
        """The steps made runnable; asking for it allocates the memory."""
        return self._engine.prepare(self.task)

    def bit(self, variable: Node) -> int:
        """The bit that stands for a change of `variable`."""
        return self.dependence.bit[variable]

    def needed(self, changed: int | None) -> frozenset[Node]:
        """The nodes to compute after a change; None means that nothing was computed yet."""
        return self._run_set(changed)[0]

    def _run_set(self, changed: int | None) -> tuple[frozenset[Node], list[int]]:
        known = self._needed.get(changed)
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
            known = self._needed[changed] = (nodes, positions)
        return known

    def execute(
        self, changed: int | None, variables: Sequence[Value], draw: int, times: int
    ) -> frozenset[Node]:
        """Run what a change reaches and update, over and over; gives the nodes computed each time.

        After the first time the change must be that of the updates.
        """
        nodes, positions = self._run_set(changed)
        done = 0
        while done < times:
            done += self.executable.advance(positions, variables, draw + done, times - done)
        return nodes

    def value(self, node: Node, variables: Sequence[Value]) -> Value:
        """The value of a result, as it lies in memory."""
        return self.executable.value(node, variables)

    def is_kept(self, node: Node) -> bool:
        """Whether the node's value is still there after a run."""
        root = self._views.get(node, node)
        return is_leaf(root) or root in self._fitted.kept or node in self.results

    def in_order(self, nodes: frozenset[Node]) -> list[Node]:
        """`nodes` in the order they run; of a group, what it was made of."""
        members = self._written.members
        return [m for n in self._sequence if n in nodes for m in members.get(n, (n,))]

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
