"""A plan and which updates lie in their variables' memory, found together.

A source that is computed in its variable's memory takes none of the arena; whether it can be
depends on the order of the steps, which the plan chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from tawny.graph.fitting import Fitted, Fitting, smaller
from tawny.graph.incremental import Dependence
from tawny.graph.updating import homes
from tawny.memory.budget import MemoryBudgetError
from tawny.node import Node

MOST_ROUNDS: Final = 3
"""How often a plan is made again for sources that turn out to need memory of their own."""


@final
class Settling:
    """A graph whose last results are the sources of update edges to `targets`."""

    def __init__(
        self,
        results: tuple[Node, ...],
        targets: Sequence[Node],
        known: Dependence,
        scratch: Callable[[Node], int],
        incremental: bool,
    ) -> None:
        self._results = results
        self._updates = list(zip(targets, results[len(results) - len(targets) :], strict=True))
        self._known = known
        self._scratch = scratch
        self._incremental = incremental

    def within(self, budget: int | None) -> tuple[Fitted, dict[Node, Node]]:
        """The plan within a budget, and for each source that lies in a variable, that variable."""
        least: MemoryBudgetError | None = None
        plain: Fitted | None = None
        try:
            plain = self._fitted(budget, {})
        except MemoryBudgetError as error:
            if not self._updates:
                raise
            least = error
        moved = self._homes(self._fitted(None, {}) if plain is None else plain)
        own = moved
        for _ in range(MOST_ROUNDS):
            if not moved:
                break
            try:
                fitted = self._fitted(budget, moved)
            except MemoryBudgetError as error:
                if self._can_move(self._fitted(error.least_bytes, moved), moved):
                    least = smaller(least, error)
                break
            if self._can_move(fitted, moved):
                return fitted, moved
            possible = self._homes(fitted)
            moved = {source: v for source, v in moved.items() if source in possible}
        if plain is None:
            assert least is not None
            raise least
        return plain, own

    def _fitted(self, budget: int | None, moved: dict[Node, Node]) -> Fitted:
        known = self._known if self._incremental else None
        return Fitting(self._results, known, self._scratch, moved).within(budget)

    def _can_move(self, fitted: Fitted, moved: dict[Node, Node]) -> bool:
        """Whether sources that the plan has no memory for can lie in their variables."""
        return moved.keys() <= self._homes(fitted).keys()

    def _homes(self, fitted: Fitted) -> dict[Node, Node]:
        schedule = fitted.layout.schedule
        return homes(self._updates, self._results, fitted.lowered, schedule, self._known)
