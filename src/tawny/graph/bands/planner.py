"""Versions of a program that need less memory, since some stretches are computed in bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, final

from tawny.graph.bands.cuts import GAIN, MOST_CUT, WORTH, banding, copyings, cuttings, reliefs
from tawny.graph.bands.search import Cutting, Moment
from tawny.graph.engine import Engine
from tawny.graph.plan_choice import Settled
from tawny.node import Node
from tawny.rewrite.flow import Flow, Pass
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import Optimised

Optimise = Callable[[Flow, Sequence[Pass]], Optimised]
"""Runs some passes of the optimiser on a graph."""


class Version(NamedTuple):
    """The graph of a program, and what the optimiser did to them."""

    flow: Flow
    rewrites: Rewrites
    least: int = 0
    """Bytes that it needs, at least, as far as is known."""

    @property
    def results(self) -> tuple[Node, ...]:
        """What it computes."""
        return self.flow.outputs


class Planned(NamedTuple):
    """A version and its plan."""

    version: Version
    found: Settled

    @property
    def arena(self) -> int:
        """Bytes of its plan."""
        return self.found.fitted.layout.arena

    @property
    def peak(self) -> int:
        """Bytes that are alive at once: a plan needs more where it has holes."""
        return max(self.found.fitted.layout.live, default=0)


@final
class Narrowing:
    """How programs of one engine are made to need less."""

    def __init__(
        self,
        engine: Engine,
        optimise: Optimise,
        settle: Callable[[Flow], Settled],
        scratch: Callable[[Node], int],
        moment: Callable[[Sequence[Node]], Moment] | None,
    ) -> None:
        """`settle` plans a graph; `moment`, given all nodes, says when each runs, if it matters."""
        self._engine = engine
        self._optimise = optimise
        self._settle = settle
        self._scratch = scratch
        self._moment = moment

    def narrowed(self, plain: Planned) -> Planned:
        """With stretches in bands wherever most memory is needed; the same where that gains little.

        Nothing is computed again but rows around bands.
        """
        best = plain
        for _ in range(MOST_CUT):
            if best.arena < WORTH:
                break
            version, fitted = best.version, best.found.fitted
            moment = self._moments(version.flow.order())
            places = cuttings(version.results, fitted.lowered, fitted.layout, moment)
            cut = [one for one in places if self._engine.supports_bands(one.bands)]
            if not cut:
                break
            for chosen in (cut, cut[:1]) if len(cut) > 1 else (cut,):
                other = self._cut(version, version.flow, chosen)
                if other is not None and other.arena < best.arena:
                    best = other
                    break
            else:
                break
        return best if best.arena <= GAIN * plain.arena else plain

    def tighter(self, planned: Planned) -> Iterator[Planned]:
        """With less and less memory: bands wherever much is needed, more and more of them.

        What would wait where most is needed is computed again by bands that read it.
        """
        found = self._relieved(planned)
        if found is None or found.peak > planned.peak:
            found = planned
        if found.peak < planned.peak:
            yield found
        while found is not None and found.peak >= WORTH:
            found = next(self._copied(found), None)
            if found is not None:
                yield found

    def _relieved(self, planned: Planned) -> Planned | None:
        version, fitted = planned.version, planned.found.fitted
        moment = self._moments(version.flow.order())
        places = reliefs(version.results, fitted.lowered, fitted.layout, moment, self._scratch)
        cut = [one for one in places if self._engine.supports_bands(one.bands)]
        return self._cut(version, version.flow, cut) if cut else None

    def _copied(self, planned: Planned) -> Iterator[Planned]:
        version, fitted = planned.version, planned.found.fitted
        places = copyings(version.results, fitted.lowered, fitted.layout, self._moments)
        for results, cutting in places:
            if self._engine.supports_bands(cutting.bands):
                other = self._cut(version, version.flow.with_outputs(results), [cutting])
                if other is not None and other.peak < planned.peak:
                    yield other

    def _moments(self, order: Sequence[Node]) -> Moment | None:
        return None if self._moment is None else self._moment(order)

    def _cut(self, version: Version, flow: Flow, chosen: Sequence[Cutting]) -> Planned | None:
        """A graph with stretches in bands; None where that is not allowed."""
        made = self._optimise(flow, (banding(chosen),))
        if made.flow is flow:
            return None
        rewrites = version.rewrites.followed_by(made.rewrites)
        return Planned(Version(made.flow, rewrites), self._settle(made.flow))
