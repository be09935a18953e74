"""A plan and which updates lie in their variables' memory, found together.

A source that is computed in its variable's memory takes none of the arena.  Then all that reads the
variable must run before; plans with that order and plans without are both made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawny.graph.fitting import Fitted, Fitting, Planning
from tawny.graph.incremental import Dependence
from tawny.graph.lowering import Lowered, lower
from tawny.graph.updating import NOWHERE, homes, possible_homes
from tawny.memory.schedule import Schedule
from tawny.named import NamedTuple
from tawny.node import Node


class Settled(NamedTuple):
    """A plan, and for each source of an update that lies in a variable, that variable."""

    fitted: Fitted
    homes: dict[Node, Node]


def settled(
    results: tuple[Node, ...],
    targets: Sequence[Node],
    known: Dependence,
    scratch: Callable[[Node], int],
    incremental: bool,
    budget: int | None,
    planning: Planning,
) -> Settled:
    """The plan within a budget, and for each source that lies in a variable, that variable.

    The last of `results` are the sources of update edges to `targets`.
    """
    updates = list(zip(targets, results[len(results) - len(targets) :], strict=True))
    ways = [NOWHERE]
    lowered = lower(results, scratch=scratch)
    if updates and planning != "seed":
        possible = possible_homes(updates, results, lowered, known)
        if possible.variable:
            ways.insert(0, possible)

    def lying(found: Lowered, schedule: Schedule) -> dict[Node, Node]:
        return {} if planning == "seed" else homes(updates, results, found, schedule, known)

    fitting = Fitting(lowered, known if incremental else None, ways, planning, lying)
    fitted = fitting.within(budget)
    found = lying(fitted.lowered, fitted.layout.schedule)
    if not fitted.elsewhere <= found.keys():
        raise AssertionError("an update would overwrite what is still read")
    return Settled(fitted, {n: target for n, target in found.items() if n in fitted.elsewhere})
