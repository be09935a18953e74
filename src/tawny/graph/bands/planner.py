"""Versions of a program that need less memory, since some steps are computed in bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, final

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
from tawny.graph.plan_choice import ChosenPlan
from tawny.node import Node
from tawny.rewrite.flow import Flow, Pass, RunKey
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import OptimisedGraph

Optimise = Callable[[Flow, Sequence[Pass]], OptimisedGraph]
"""Runs some passes of the optimiser on a graph."""


class ProgramVersion(NamedTuple):
    """A graph that computes the program's results, and what the optimiser did to make it."""

    flow: Flow
    rewrites: Rewrites
    least: int = 0
    """Bytes that it needs, at least, as far as is known."""

    @property
    def results(self) -> tuple[Node, ...]:
        """The nodes that give the program's results."""
        return self.flow.outputs


class PlannedVersion(NamedTuple):
    """A version and its plan."""

    version: ProgramVersion
    chosen: ChosenPlan

    @property
    def arena(self) -> int:
        """Bytes of its plan."""
        return self.chosen.memory.layout.arena

    @property
    def peak(self) -> int:
        """Bytes that are alive at once: a plan needs more where it has holes."""
        return max(self.chosen.memory.layout.live, default=0)


@final
class BandPlanner:
    """Makes versions of a program that need less memory, by computing steps in bands."""

    def __init__(
        self,
        engine: Engine,
        optimise: Optimise,
        choose_plan: Callable[[Flow], ChosenPlan],
        scratch: Callable[[Node], int],
        run_keys: Callable[[Sequence[Node]], RunKey] | None,
    ) -> None:
        """`choose_plan` plans a graph; `run_keys`, given all nodes, gives the runs of each."""
        self._engine = engine
        self._optimise = optimise
        self._choose_plan = choose_plan
        self._scratch = scratch
        self._run_keys_of = run_keys

    def reduce_peak(self, plain: PlannedVersion) -> PlannedVersion:
        """The version with bands wherever most memory is needed; as it was where that gains little.

        Nothing is computed again but rows around bands.
        """
        best = plain
        for _ in range(MAX_ROUNDS):
            if best.arena < MIN_ARENA:
                break
            version, memory = best.version, best.chosen.memory
            run_key = self._run_keys(version.flow.order())
            places = find_cuts(version.results, memory.lowered, memory.layout, run_key)
            cut = [one for one in places if self._engine.supports_bands(one.bands)]
            if not cut:
                break
            for chosen in (cut, cut[:1]) if len(cut) > 1 else (cut,):
                other = self._apply_cuts(version, version.flow, chosen)
                if other is not None and other.arena < best.arena:
                    best = other
                    break
            else:
                break
        return best if best.arena <= WORTHWHILE_SHARE * plain.arena else plain

    def tighter_plans(self, planned: PlannedVersion) -> Iterator[PlannedVersion]:
        """Versions of less and less memory: bands wherever much is needed, more and more of them.

        What would wait where most is needed is computed again by bands that read it.
        """
        found = self._relieve_peak(planned)
        if found is None or found.peak > planned.peak:
            found = planned
        if found.peak < planned.peak:
            yield found
        while found is not None and found.peak >= MIN_ARENA:
            found = next(self._recompute_in_bands(found), None)
            if found is not None:
                yield found

    def _relieve_peak(self, planned: PlannedVersion) -> PlannedVersion | None:
        """The version with bands wherever they need less than their steps; None without any."""
        version, memory = planned.version, planned.chosen.memory
        run_key, results = self._run_keys(version.flow.order()), version.results
        places = find_relieving_cuts(results, memory.lowered, memory.layout, run_key, self._scratch)
        cut = [one for one in places if self._engine.supports_bands(one.bands)]
        return self._apply_cuts(version, version.flow, cut) if cut else None

    def _recompute_in_bands(self, planned: PlannedVersion) -> Iterator[PlannedVersion]:
        """Versions of a lower peak, each with bands that recompute what waits there."""
        version, memory = planned.version, planned.chosen.memory
        places = find_recomputing_cuts(
            version.results, memory.lowered, memory.layout, self._run_keys
        )
        for results, cut in places:
            if self._engine.supports_bands(cut.bands):
                other = self._apply_cuts(version, version.flow.with_outputs(results), [cut])
                if other is not None and other.peak < planned.peak:
                    yield other

    def _run_keys(self, order: Sequence[Node]) -> RunKey | None:
        return None if self._run_keys_of is None else self._run_keys_of(order)

    def _apply_cuts(
        self, version: ProgramVersion, flow: Flow, chosen: Sequence[BandCut]
    ) -> PlannedVersion | None:
        """The version with some steps in bands, planned; None where a rule forbids it."""
        made = self._optimise(flow, (bands_pass(chosen),))
        if made.flow is flow:
            return None
        rewrites = version.rewrites.followed_by(made.rewrites)
        return PlannedVersion(ProgramVersion(made.flow, rewrites), self._choose_plan(made.flow))
