"""A plan and which updates lie in their variables' memory, found together.

A source that is computed in its variable's memory takes none of the arena.  Then all that reads the
variable must run before; plans with that order and plans without are both made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tawny.graph.fitting import Fitted, Fitting, Planning
from tawny.graph.incremental import Dependence
from tawny.graph.lowering import lower
from tawny.graph.updating import NOWHERE, Updating
from tawny.node import Node
from tawny.rewrite.flow import Flow


class Settled(NamedTuple):
    """A plan, and for each source of an update that lies in a variable, that variable."""

    fitted: Fitted
    homes: dict[Node, Node]


def settled(
    flow: Flow,
    targets: Sequence[Node],
    known: Dependence,
    scratch: Callable[[Node], int],
    incremental: bool,
    budget: int | None,
    planning: Planning,
) -> Settled:
    """The plan within a budget, and for each source that lies in a variable, that variable.

    The last outputs are the sources of update edges to `targets`.
    """
    results = flow.outputs
    lowered = lower(results, scratch=scratch, order=flow.order())
    kept = known if incremental else None
    if not targets or planning == "seed":
        return Settled(Fitting(lowered, kept, planning=planning).within(budget), {})
    updates = list(zip(targets, results[len(results) - len(targets) :], strict=True))
    updating = Updating(updates, lowered, known)
    possible = updating.possible_homes()
    ways = [possible, NOWHERE] if possible.variable else [NOWHERE]
    fitted = Fitting(lowered, kept, ways, planning, updating.homes).within(budget)
    found = updating.homes(fitted.layout.schedule)
    if not fitted.elsewhere <= found.keys():
        raise AssertionError("an update would overwrite what is still read")
    return Settled(fitted, {n: target for n, target in found.items() if n in fitted.elsewhere})
