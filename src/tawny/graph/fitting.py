"""What a program keeps from run to run, and its plan, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from tawny.graph.incremental import Dependence, boundary
from tawny.graph.lowering import Lowered, is_leaf, lower, result_of, seconds, views_of
from tawny.memory.budget import Budget, MemoryBudgetError
from tawny.memory.plan import Layout, plan
from tawny.node import Node
from tawny.shape import size

ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Fitted:
    """A plan, what stays right from run to run, and whether a run may skip what did not change."""

    lowered: Lowered
    layout: Layout
    kept: tuple[Node, ...]
    incremental: bool


@final
class Fitting:
    """The ways to run a graph: keeping more or less, computing again more or less."""

    def __init__(
        self,
        results: Sequence[Node],
        known: Dependence | None,
        scratch: Callable[[Node], int],
        elsewhere: Collection[Node] = (),
    ) -> None:
        """Without `known` everything runs in every run, and nothing is kept.

        What is computed `elsewhere`, in the memory of a variable, takes none here.
        """
        self._results = results
        self._elsewhere = elsewhere
        self._known = known
        self._scratch = scratch
        views = views_of(results)
        owners = [views.get(n, n) for n in results]
        self._owned = dict.fromkeys(n for n in owners if not is_leaf(n))
        self._wanted: list[Node] = []
        if known is not None:
            self._wanted = list(dict.fromkeys([*self._owned, *boundary(results, known, views)]))

    def within(self, budget: int | None) -> Fitted:
        """The plan that keeps most within the budget."""
        wanted = self._wanted
        if budget is None:
            lowered = self._lowered(wanted)
            return self._fitted(lowered, plan(lowered.problem, alignment=ALIGNMENT), wanted)
        for chosen in self._keepable():
            lowered = self._lowered(chosen, into_kept=len(chosen) == len(wanted))
            layout = plan(lowered.problem, alignment=ALIGNMENT)
            if layout.arena <= budget:
                return self._fitted(lowered, layout, chosen)
        return self._tightly(budget)

    def _tightly(self, budget: int) -> Fitted:
        """A plan that computes some values again, keeping the results or, at last, nothing."""
        *_, needed = self._keepable()
        least: MemoryBudgetError | None = None
        for chosen in (needed, []) if needed else ([],):
            lowered = self._lowered(chosen, into_kept=not chosen)
            try:
                layout = Budget(lowered.problem, alignment=ALIGNMENT).within(budget)
            except MemoryBudgetError as error:
                least = smaller(least, error)
            else:
                incremental = self._known is not None and bool(chosen)
                return Fitted(lowered, layout, tuple(chosen), incremental)
        assert least is not None
        raise least

    def _keepable(self) -> Iterator[list[Node]]:
        """Fewer and fewer of what could be kept, dropping first what is cheap to compute again."""
        needed = [n for n in self._wanted if n in self._owned]
        worth = sorted((n for n in self._wanted if n not in self._owned), key=_worth)
        for drop in dict.fromkeys((0, len(worth) // 4, len(worth) // 2, len(worth))):
            yield [*needed, *worth[drop:]]

    def _lowered(self, kept: Sequence[Node], *, into_kept: bool = True) -> Lowered:
        return lower(self._results, kept, into_kept, self._scratch, self._elsewhere)

    def _fitted(self, lowered: Lowered, layout: Layout, kept: Sequence[Node]) -> Fitted:
        return Fitted(lowered, layout, tuple(kept), self._known is not None)


def smaller(one: MemoryBudgetError | None, other: MemoryBudgetError) -> MemoryBudgetError:
    """The error that names fewer bytes."""
    return other if one is None or other.least_bytes < one.least_bytes else one


def _worth(node: Node) -> float:
    """Seconds that a kept byte saves."""
    return seconds(result_of(node)[0]) / max(1, size(node.shape) * node.dtype.itemsize)
