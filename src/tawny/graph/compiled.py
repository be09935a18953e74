"""Compiling: optimise, find what depends on what, choose what is kept, plan, prepare the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Final, final

from tawny.graph.engine import Executable, Task, engine_named
from tawny.graph.incremental import Dependence, boundary, closed, dependence
from tawny.graph.lowering import Lowered, is_leaf, lower, seconds, types
from tawny.graph.plan import Plan
from tawny.graph.updating import homes
from tawny.memory.budget import Budget, MemoryBudgetError, parse_bytes
from tawny.memory.plan import Layout, plan
from tawny.node import Node, Value
from tawny.rewrite.flow import Pass
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import PIPELINE, Optimised
from tawny.shape import size

ALIGNMENT = 64

Optimise = Callable[[Sequence[Node], Sequence[Pass]], Optimised]
"""Runs some passes of the optimiser."""

SIMPLIFYING: Final = tuple(p for p in PIPELINE if p.name in ("simplify", "fold_batch_norm"))
FUSING: Final = tuple(p for p in PIPELINE if p.name in ("fuse_products", "contract"))
"""The passes for engines that run one op at a time: groups are for those that compile them."""


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
    ) -> None:
        engine_named(engine)
        self.engine = engine
        self._variables = tuple(variables)
        self._incremental = incremental
        self._watch = frozenset(often), frozenset(targets)
        self.results, self.rewrites = self._optimised(tuple(results), optimise)
        self._dependence = dependence(self.results, variables, *self._watch)
        kept = self._boundary() if incremental else []
        self._lowered, self._layout, self._kept = self._fit(kept, memory)
        self.plan = self._described()
        sources = self.results[len(self.results) - len(targets) :]
        self.homes = homes(
            list(zip(targets, sources, strict=True)),
            self.results,
            self._lowered,
            self._layout.schedule,
            self._dependence,
        )
        """Sources of updates that are computed in the memory of the variable they update."""
        self._needed: dict[int | None, tuple[frozenset[Node], list[int]]] = {}

    def _optimised(
        self, results: tuple[Node, ...], optimise: Optimise | None
    ) -> tuple[tuple[Node, ...], Rewrites]:
        """The results computed with less; what runs at different times is never fused.

        To that end the boundary between such parts takes part in fusion as if it were asked for.
        """
        if optimise is None:
            return results, Rewrites()
        simple = optimise(results, SIMPLIFYING)
        held = [n for n in self._held(simple.outputs) if n not in simple.outputs]
        fused = optimise((*simple.outputs, *held), FUSING)
        rewrites = simple.rewrites.followed_by(fused.rewrites)
        return fused.outputs[: len(results)], rewrites

    def _held(self, results: Sequence[Node]) -> list[Node]:
        if not self._incremental:
            return []
        known = dependence(results, self._variables, *self._watch)
        return boundary(results, known, views_of(results))

    # ---------------------------------------------------------------- planning

    @cached_property
    def _views(self) -> dict[Node, Node]:
        """The node whose memory each view shares."""
        return views_of(self.results)

    def _boundary(self) -> list[Node]:
        """What must survive a run so that the next can skip what it does not depend on."""
        results = [self._views.get(n, n) for n in self.results]
        own = [n for n in results if not is_leaf(n)]
        return list(dict.fromkeys([*own, *boundary(self.results, self._dependence, self._views)]))

    def _fit(
        self, kept: Sequence[Node], memory: str | int | None
    ) -> tuple[Lowered, Layout, tuple[Node, ...]]:
        """The plan that keeps most of `kept` within the budget."""
        if memory is None:
            lowered = lower(self.results, kept)
            return lowered, plan(lowered.problem, alignment=ALIGNMENT), tuple(kept)
        budget = parse_bytes(memory)
        for chosen in self._keepable(kept):
            lowered = lower(self.results, chosen, into_kept=len(chosen) == len(kept))
            layout = plan(lowered.problem, alignment=ALIGNMENT)
            if layout.arena <= budget:
                return lowered, layout, tuple(chosen)
        return self._fit_tightly(budget, kept)

    def _keepable(self, kept: Sequence[Node]) -> Iterator[list[Node]]:
        """Fewer and fewer of what could be kept, dropping first what is cheap to compute again."""
        results = {self._views.get(n, n) for n in self.results}
        needed = [n for n in kept if n in results]
        worth = sorted((n for n in kept if n not in results), key=lambda n: seconds(n) / _bytes(n))
        for drop in dict.fromkeys((0, len(worth) // 4, len(worth) // 2, len(worth))):
            yield [*needed, *worth[drop:]]

    def _fit_tightly(
        self, budget: int, kept: Sequence[Node]
    ) -> tuple[Lowered, Layout, tuple[Node, ...]]:
        """A plan that computes some values again, keeping the results or, at last, nothing."""
        *_, needed = self._keepable(kept)
        least: MemoryBudgetError | None = None
        for chosen in (needed, []) if needed else ([],):
            lowered = lower(self.results, chosen, into_kept=not chosen)
            try:
                layout = Budget(lowered.problem, alignment=ALIGNMENT).within(budget)
            except MemoryBudgetError as error:
                if least is None or error.least_bytes < least.least_bytes:
                    least = error
            else:
                self._incremental = self._incremental and bool(chosen)
                return lowered, layout, tuple(chosen)
        assert least is not None
        raise least

    def _described(self) -> Plan:
        return Plan(self._lowered, self._layout, self._kept)

    # ----------------------------------------------------------------- running

    @cached_property
    def executable(self) -> Executable:
        """The steps made runnable; asking for it allocates the memory."""
        return engine_named(self.engine).prepare(
            Task(self._lowered, self._layout, self._variables, self.homes)
        )

    def bit(self, variable: Node) -> int:
        """The bit that stands for a change of `variable`."""
        return self._dependence.bit[variable]

    def needed(self, changed: int | None) -> frozenset[Node]:
        """The nodes to compute after a change; None means that nothing was computed yet."""
        return self._run_set(changed)[0]

    def _run_set(self, changed: int | None) -> tuple[frozenset[Node], list[int]]:
        known = self._needed.get(changed)
        if known is None:
            steps = frozenset(self._lowered.steps)
            reached = None
            if changed is not None and self._incremental:
                reached = self._dependence.reaches(changed)
            nodes = steps if reached is None else closed(reached & steps, self._kept, self._views)
            index = self._lowered.step_of
            wanted = {index[n] for n in nodes}
            positions = [p for p, s in enumerate(self._layout.schedule.sequence) if s in wanted]
            known = self._needed[changed] = (nodes, positions)
        return known

    def execute(
        self, changed: int | None, variables: Sequence[Value], draw: int
    ) -> frozenset[Node]:
        """Run what a change reaches; gives the nodes computed."""
        nodes, positions = self._run_set(changed)
        self.executable.run(positions, variables, draw)
        return nodes

    def value(self, node: Node, variables: Sequence[Value]) -> Value:
        """The value of a result, as it lies in memory."""
        return self.executable.value(node, variables)

    def is_kept(self, node: Node) -> bool:
        """Whether the node's value is still there after a run."""
        root = self._views.get(node, node)
        return is_leaf(root) or root in self._kept or node in self.results

    def in_order(self, nodes: frozenset[Node]) -> list[Node]:
        """`nodes` in the order they run."""
        return [n for n in self._sequence if n in nodes]

    @cached_property
    def _sequence(self) -> list[Node]:
        steps = self._lowered.steps
        return list(dict.fromkeys(steps[s] for s in self._layout.schedule.sequence))

    @property
    def dependence(self) -> Dependence:
        """Which inputs each node depends on."""
        return self._dependence


def views_of(results: Sequence[Node]) -> dict[Node, Node]:
    """The node whose memory each view shares."""
    plain = lower(results)
    roots = plain.problem.roots
    owner = {value: node for (node, _), value in plain.values.items() if roots[value] == value}
    return {
        node: owner[roots[value]]
        for (node, _), value in plain.values.items()
        if roots[value] != value
    }


def _bytes(node: Node) -> int:
    return max(1, sum(size(s) * d.itemsize for s, d in types(node)))
