"""Where a program needs most memory: a stretch of steps that needs less when computed in bands.

A stretch begins with a large value that is alive there, and its maker and readers.  It grows by
what makes its operands and by what reads its results, towards the stretch that reads and gives
fewest bytes: what is between is never whole in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple, final

from tawny.graph.lowering import Lowered, is_leaf, views_of
from tawny.memory.plan import Layout
from tawny.node import Node, Part, make, part, toposort, written_at
from tawny.ops.bands import Bands, cut
from tawny.ops.fused import Body, Step, nbytes
from tawny.ops.indexing import Gather
from tawny.ops.pieces import GatherPieces
from tawny.ops.rows import count
from tawny.rewrite.cost import NOTHING, cost
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, united_sources

BANDS: Final = RuleInfo(
    "bands", Kind.CONTRACTING, "f(g(x)) = f(g(some rows of x)), one band of rows after the other"
)

WORTH: Final = 2**24
"""Programs that need fewer bytes are left alone."""

GAIN: Final = 0.97
"""Bands are used where a plan with all of them needs at most so many times the bytes."""

MOST_CUT: Final = 16
"""So many stretches are cut."""

MOST_AT_ONCE: Final = 32
"""So many stretches are cut before a plan is made."""

NEAR: Final = 0.95
"""Stretches are cut at once wherever so much of the peak is needed."""

MOST_STEPS: Final = 32
"""Stretches have so many steps."""

SMALL: Final = 1 / 64
"""What has fewer bytes, as a part of what a stretch reads and gives, is left outside."""

BAND_BYTES: Final = 2**22
PART: Final = 1 / 16
"""A band takes about so many bytes, or that part of what its stretch reads and gives."""

LONGER: Final = 1.05
"""Bands take at most so many times as long as the whole, as far as is estimated: rows around a band
are computed again, and weights are read for each band."""

OPERATIONS: Final = 2e11
BANDWIDTH: Final = 1e10
OVERHEAD: Final = 5e-6
"""What is estimated with: a fast machine, on which more bands are worth it the least."""

PICKING: Final = (Gather, GatherPieces)
"""Ops that read of what they pick from no more than they give."""

Moment = Callable[[Node], int]


class Cutting(NamedTuple):
    """A stretch as bands."""

    stretch: tuple[Node, ...]
    bands: Node
    results: tuple[Node, ...]
    """The nodes that the results of the bands stand for."""

    @property
    def replacements(self) -> dict[Node, Node]:
        """What is to be put in place of what."""
        if len(self.results) == 1:
            return {self.results[0]: self.bands}
        return {node: part(self.bands, i) for i, node in enumerate(self.results)}


def cuttings(
    results: Sequence[Node], lowered: Lowered, layout: Layout, moment: Moment | None
) -> Iterator[Cutting]:
    """Stretches to compute in bands where nearly most memory is needed, which share no step.

    The largest come first where most is needed; if there is none, the peak is as it is.  With
    `moment` a stretch has only what runs at the same time.
    """
    course = Course(results, moment, [lowered.steps[s] for s in layout.sequence])
    most = max(layout.live, default=0)
    near = [p for p, live in enumerate(layout.live) if live >= NEAR * most]
    cut = 0
    for position in sorted(near, key=lambda p: -layout.live[p]):
        if cut == MOST_AT_ONCE or (not cut and layout.live[position] < most):
            return
        node = lowered.steps[layout.sequence[position]]
        seeds = dict.fromkeys([course.owner(source) for source in (node, *node.inputs)])
        for seed in sorted(seeds, key=course.bytes, reverse=True):
            found = course.from_value(seed, position) if course.cuttable(seed) else None
            if found is not None:
                cut += 1
                yield found


@final
class Course:
    """A graph as stretches are looked for in it."""

    def __init__(
        self, results: Sequence[Node], moment: Moment | None, sequence: Sequence[Node] = ()
    ) -> None:
        """`sequence` are the steps in the order they run."""
        self._sequence = sequence
        self._before: frozenset[Node] = frozenset()
        self._taken: dict[Node, tuple[Node, ...]] = {}
        self._order = toposort(results, is_leaf)
        self._at = {node: place for place, node in enumerate(self._order)}
        self._views = views_of(results)
        self._moment = moment
        self._asked = frozenset([self.owner(n) for n in results])
        self._readers: dict[Node, dict[Node, None]] = {node: {} for node in self._order}
        for node in self._order:
            if not is_leaf(node) and node not in self._views:
                for source in node.inputs:
                    self._readers[self.owner(source)][node] = None

    def owner(self, node: Node) -> Node:
        """The node whose memory a value lies in."""
        return self._views.get(node, node)

    def bytes(self, node: Node) -> int:
        """Bytes of the memory of the run that a value takes."""
        return 0 if is_leaf(node) else nbytes((node.shape, node.dtype))

    def cuttable(self, node: Node) -> bool:
        """Whether a node may be a step of a stretch."""
        return not (
            is_leaf(node)
            or node.parts
            or node.volatile
            or node in self._taken
            or isinstance(node.op, (Part, Bands))
            or count(node.shape) < 2
        )

    def take(self, stretch: Sequence[Node]) -> None:
        """These nodes are to run as one: no other stretch has any of them."""
        self._taken.update(dict.fromkeys(stretch, tuple(stretch)))

    # ------------------------------------------------------------------ growing

    def from_value(self, seed: Node, position: int = 0) -> Cutting | None:
        """The best stretch that makes and uses up a value; None where there is none.

        What runs before a position of the sequence needs no operand any more.
        """
        if seed in self._asked or not self._readers[seed]:
            return None
        self._before = frozenset(self._sequence[:position])
        steps = frozenset([seed, *self._readers[seed]])
        if self._body(steps) is None:
            return None
        best, least = steps, self._held(steps)
        while len(steps) < MOST_STEPS:
            grown = [(self._held(more), -len(more), more) for more in self._larger(steps)]
            if not grown:
                break
            held, _, steps = min(grown, key=lambda one: one[:2])
            if held <= least:
                best, least = steps, held
        return self._cutting(best)

    def _larger(self, steps: frozenset[Node]) -> Iterator[frozenset[Node]]:
        """The stretch with what makes an operand of it, or with what reads a result."""
        least = SMALL * self._held(steps)
        operands = {self.owner(source): None for node in steps for source in node.inputs}
        for node in operands:
            if (
                node not in steps
                and self._dies(node, steps)
                and self.bytes(node) >= least
                and self.cuttable(node)
            ):
                yield from self._fitting(steps | {node})
        for node in self._results(steps):
            if node not in self._asked and self.bytes(node) >= least:
                yield from self._fitting(steps.union(self._readers[node]))

    def _fitting(self, steps: frozenset[Node]) -> Iterator[frozenset[Node]]:
        if self._body(steps) is not None:
            yield steps

    def _held(self, steps: frozenset[Node]) -> int:
        """Bytes of what is read and given: what is written over an operand counts once."""
        body = self._body(steps)
        assert body is not None
        given, op = self._operands(steps), Bands(body, self._height(body, 4))
        owners = [self.owner(node) for node in given]
        held = sum(self.bytes(n) for n in dict.fromkeys(owners))
        held += sum(nbytes(body.type_of(r)) for r in body.results)
        over = [
            nbytes(body.operands[operand])
            for operand, _ in op.overwrites()
            if self._dies(owners[operand], steps.union(self._before))
        ]
        return held - max(over, default=0)

    def _between(self, steps: frozenset[Node]) -> int:
        """Bytes of what a step makes, and of what it reads of what others made, at most."""
        return max(
            self.bytes(node)
            + sum(self.bytes(n) for n in {self.owner(i) for i in node.inputs} & steps)
            for node in steps
        )

    def _dies(self, node: Node, steps: frozenset[Node]) -> bool:
        """Whether nobody but these steps reads a value of the run."""
        return (
            not is_leaf(node) and node not in self._asked and steps.issuperset(self._readers[node])
        )

    # ------------------------------------------------------------------ bodies

    def _results(self, steps: Collection[Node]) -> list[Node]:
        """What a stretch gives: values that are asked for, or read by others."""
        return [
            node
            for node in self._sorted(steps)
            if node in self._asked or any(r not in steps for r in self._readers[node])
        ]

    def _sorted(self, nodes: Collection[Node]) -> list[Node]:
        return sorted(nodes, key=self._at.__getitem__)

    def _members(self, steps: Collection[Node]) -> list[Node]:
        """The steps and the views between them, each after what it reads."""
        found: dict[Node, None] = dict.fromkeys(steps)
        for node in steps:
            for source in node.inputs:
                view = source
                while view in self._views and self._views[view] in steps:
                    found[view] = None
                    view = view.inputs[0]
        return self._sorted(found)

    def _operands(self, steps: Collection[Node]) -> list[Node]:
        """What a stretch reads."""
        members = self._members(steps)
        own = frozenset(members)
        return list(dict.fromkeys(i for node in members for i in node.inputs if i not in own))

    def _body(self, steps: frozenset[Node]) -> Body | None:
        """What a stretch computes; None where it cannot be computed in bands."""
        if not all(map(self.cuttable, steps)) or not self._together(steps):
            return None
        members, operands = self._members(steps), self._operands(steps)
        number = {node: i for i, node in enumerate((*operands, *members))}
        made = [Step(n.op, tuple([number[i] for i in n.inputs]), n.shape, n.dtype) for n in members]
        results = tuple([number[n] for n in self._results(steps)])
        given = tuple([(n.shape, n.dtype) for n in operands])
        body = Body.of(given, tuple(made), results)
        return None if cut(body, self._height(body, 4)) is None else body

    def _together(self, steps: frozenset[Node]) -> bool:
        """Whether they can run as one: at the same time, and nothing else in between.

        What is between may be so by way of a stretch that was taken, which runs as one too.
        """
        if self._moment is not None and len(set(map(self._moment, steps))) > 1:
            return False
        last = len(self._order) if self._taken else max(self._at[node] for node in steps)
        stack = self._results(steps)
        seen = set(stack)
        while stack:
            node = stack.pop()
            for reader in self._readers.get(node, ()):
                if reader in steps:
                    if node in steps:
                        continue
                    return False
                for one in self._taken.get(reader, (reader,)):
                    if one not in seen and self._at[one] <= last:
                        seen.add(one)
                        stack.append(one)
        return True

    @staticmethod
    def _height(body: Body, bands: int) -> int:
        """The rows of each of so many bands: multiples of 4, as tiles of kernels have."""
        rows = _fewest_rows(body)
        height = max(1, -(-rows // bands))
        return height if height < 4 else -(-height // 4) * 4

    def _cutting(self, steps: frozenset[Node]) -> Cutting | None:
        """A stretch as bands that are worth it; None where they are not."""
        body = self._body(steps)
        assert body is not None
        members, operands = self._members(steps), self._operands(steps)
        goal = max(BAND_BYTES, PART * self._held(steps))
        bands = min(int(self._between(steps) / goal) + 1, _fewest_rows(body))
        most = LONGER * _seconds(body)
        while bands > 1:
            op = Bands(body, self._height(body, bands))
            found = cut(body, op.height)
            if found is not None and sum(_seconds(band.body) for band in found) <= most:
                with written_at(united_sources(members)):
                    node = make(op, tuple(operands))
                self.take(members)
                return Cutting(tuple(members), node, tuple(self._results(steps)))
            bands = bands * 3 // 4
        return None


def _seconds(body: Body) -> float:
    """An estimate of the time a body takes, one step after the other."""
    total = 0.0
    for step in body.steps:
        kinds = [body.type_of(i) for i in step.inputs]
        one = cost(step.op, (step.shape, step.dtype), kinds)
        if one != NOTHING:
            moved = one.bytes_read + one.bytes_written
            if isinstance(step.op, PICKING):
                moved = 2 * one.bytes_written + nbytes(kinds[-1])
            total += OVERHEAD + max(one.operations / OPERATIONS, moved / BANDWIDTH)
    return total


def _fewest_rows(body: Body) -> int:
    return min(count(body.type_of(r)[0]) for r in body.results)


def banding(cuttings: Sequence[Cutting]) -> Pass:
    """The pass that puts bands in place of stretches."""

    def run(flow: Flow, context: Context) -> Flow:
        if not context.recorder.allows(BANDS):
            return flow
        replacements: dict[Node, Node] = {}
        for cutting in cuttings:
            context.recorder.record(BANDS, cutting.stretch, (cutting.bands,))
            replacements |= cutting.replacements
        return flow.replaced(replacements)

    return Pass("cut_bands", (BANDS,), run)
