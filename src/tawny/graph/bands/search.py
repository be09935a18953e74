"""Stretches of a program's steps that may be computed in bands, and how many bands they are.

A stretch begins with a large value, and its maker and readers.  It grows by what makes its operands
and by what reads its results, towards the stretch that reads and gives fewest bytes: what is
between is never whole in memory.

Where bytes are scarce, a value that only waits is computed again by the bands that read it later,
and so is what it is made from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple, final

from tawny.graph.lowering import is_leaf, overwrites, views_of
from tawny.lazy import cached_property
from tawny.node import Node, Part, make, part, toposort, written_at
from tawny.op import Op, Type
from tawny.ops.bands import Bands, cut
from tawny.ops.fusion import Body, Step, nbytes
from tawny.ops.indexing import Gather
from tawny.ops.pieces import GatherPieces
from tawny.ops.rows import Band, count
from tawny.rewrite.cost import NOTHING, cost
from tawny.rewrite.flow import united_sources

MOST_STEPS: Final = 32
"""Stretches have so many steps."""

SMALL: Final = 1 / 64
"""What has fewer bytes, as a part of what a stretch reads and gives, is left outside."""

BAND_BYTES: Final = 2**22
PART: Final = 1 / 16
"""A band takes about so many bytes, or that part of what its stretch reads and gives."""

FEWEST: Final = 4
"""Bands have multiples of so many rows, as tiles of kernels have, unless they have fewer."""

LONGER: Final = 1.05
"""Bands take at most so many times as long as the whole, as far as is estimated: rows around a band
are computed again, and weights are read for each band."""

OPERATIONS: Final = 2e11
BANDWIDTH: Final = 1e10
OVERHEAD: Final = 5e-6
"""What is estimated with: a fast machine, on which more bands are worth it the least."""

SPARE: Final = 1 / 20
"""What is computed again takes at most so much of the program's time, as far as is estimated."""

PICKING: Final = (Gather, GatherPieces)
"""Ops that read of what they pick from no more than they give."""

Moment = Callable[[Node], int]


class Stretch(NamedTuple):
    """Steps that may run as one."""

    steps: frozenset[Node]
    copies: frozenset[Node] = frozenset()
    """Those that are computed again: others read what was computed before."""


class Cutting(NamedTuple):
    """A stretch as bands."""

    stretch: tuple[Node, ...]
    bands: Node
    results: tuple[Node, ...]
    """The nodes that the results of the bands stand for."""
    held: int
    """Bytes of what is read and given."""

    @property
    def replacements(self) -> dict[Node, Node]:
        """What is to be put in place of what."""
        if len(self.results) == 1:
            return {self.results[0]: self.bands}
        return {node: part(self.bands, i) for i, node in enumerate(self.results)}


@final
class Course:
    """A graph as stretches are looked for in it."""

    def __init__(
        self,
        results: Sequence[Node],
        moment: Moment | None,
        sequence: Sequence[Node] = (),
        order: Sequence[Node] | None = None,
    ) -> None:
        """`sequence` are the steps in the order they run, `order` all nodes, inputs first."""
        self._sequence = sequence
        self._before: frozenset[Node] = frozenset()
        self._again = False
        self._taken: dict[Node, tuple[Node, ...]] = {}
        self._order = toposort(results, is_leaf) if order is None else order
        self._at = {node: place for place, node in enumerate(self._order)}
        self._views = views_of(self._order)
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

    def from_value(self, seed: Node, position: int = 0, *, again: bool = False) -> Cutting | None:
        """The best stretch that makes and uses up a value; None where there is none.

        What runs before a position of the sequence needs no operand any more.  What it reads may
        be computed `again` by what runs later.
        """
        if not self.cuttable(seed) or seed in self._asked:
            return None
        self._before, self._again = frozenset(self._sequence[:position]), again
        readers = [n for n in self._readers[seed] if not (again and n in self._before)]
        if not readers:
            return None
        copied = len(readers) < len(self._readers[seed])
        steps = frozenset([seed, *readers])
        if again:
            steps |= self._with_between(frozenset(readers) if copied else steps)
        stretch = Stretch(steps, frozenset([seed] if copied else []))
        if len(steps) > MOST_STEPS or self._body(stretch) is None:
            return None
        best, least = stretch, self._needed(stretch)
        while len(stretch.steps) < MOST_STEPS:
            grown = [(self._needed(s), -len(s.steps), s) for s in self._larger(stretch)]
            if not grown:
                break
            needed, _, stretch = min(grown, key=lambda one: one[:2])
            if needed <= least:
                best, least = stretch, needed
        return self._cutting(best)

    def over_operand(self, node: Node, position: int) -> Cutting | None:
        """One step in bands, if it is written over an operand that way; None otherwise."""
        self._before, self._again = frozenset(self._sequence[:position]), True
        alone = Stretch(frozenset([node]))
        if not self.cuttable(node) or (body := self._body(alone)) is None:
            return None
        over = Bands(body, self._height(body, 4)).overwrites()
        given = [self.owner(source) for source in self._operands(alone.steps)]
        may = any(not is_leaf(given[o]) and given[o] not in self._asked for o, _ in over)
        return self._cutting(alone) if may and not overwrites(node) else None

    def finer(self, node: Node) -> Cutting | None:
        """Bands of fewer rows; None where there are none that take little longer."""
        if not isinstance(op := node.op, Bands):
            return None
        height = op.height * 2 // 3 // FEWEST * FEWEST
        found = cut(op.body, height) if height else None
        most = _bands_seconds(op.bands) + SPARE * self._seconds
        if found is None or _bands_seconds(found) > most:
            return None
        with written_at(node.sources):
            made = make(Bands(op.body, height), node.inputs)
        results = [part(node, i) for i in range(len(node.parts))] or [node]
        held = sum([self.bytes(self.owner(n)) for n in node.inputs])
        held += sum([nbytes(op.body.type_of(r)) for r in op.body.results])
        return Cutting((node,), made, tuple(results), held)

    def _needed(self, stretch: Stretch) -> tuple[int, int]:
        """Bytes that a stretch needs: of what waits for it, if much is computed again; of all."""
        held = self._held(stretch)
        if not self._again:
            return 0, held
        waiting = {self.owner(node) for node in self._operands(stretch.steps)} & self._before
        return sum(map(self.bytes, waiting)), held

    def _with_between(self, steps: frozenset[Node]) -> frozenset[Node]:
        """The steps, and all that reads of some of them and is read for others."""
        last = max(self._at[node] for node in steps)
        after, stack = set(steps), list(steps)
        while stack:
            for reader in self._readers[stack.pop()]:
                if reader not in after and self._at[reader] < last:
                    after.add(reader)
                    stack.append(reader)
        found = set(steps)
        for node in reversed(self._sorted(after)):
            if not found.isdisjoint(self._readers[node]):
                found.add(node)
        return frozenset(found)

    def _larger(self, stretch: Stretch) -> Iterator[Stretch]:
        """The stretch with what makes an operand of it, or with what reads a result."""
        steps, copies = stretch
        least = SMALL * self._held(stretch)
        ordered = self._sorted(steps)
        operands = {self.owner(source): None for node in ordered for source in node.inputs}
        for node in operands:
            if node in steps or self.bytes(node) < least or not self.cuttable(node):
                continue
            if self._dies(node, steps):
                yield from self._fitting(Stretch(steps | {node}, copies))
            elif self._again and node in self._before:
                yield from self._fitting(Stretch(steps | {node}, copies | {node}))
        for node in self._results(stretch):
            if node not in self._asked and self.bytes(node) >= least:
                yield from self._fitting(Stretch(steps.union(self._readers[node]), copies))

    def _fitting(self, stretch: Stretch) -> Iterator[Stretch]:
        if self._body(stretch) is not None:
            yield stretch

    def _held(self, stretch: Stretch) -> int:
        """Bytes of what is read and given: what is written over an operand counts once."""
        body = self._body(stretch)
        assert body is not None
        given, op = self._operands(stretch.steps), Bands(body, self._height(body, 4))
        owners = [self.owner(node) for node in given]
        held = sum(self.bytes(n) for n in dict.fromkeys(owners))
        held += sum(nbytes(body.type_of(r)) for r in body.results)
        over = [
            nbytes(body.operands[operand])
            for operand, _ in op.overwrites()
            if self._dies(owners[operand], stretch.steps.union(self._before))
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

    def _twice(self, stretch: Stretch) -> frozenset[Node]:
        """The steps that are computed outside of a stretch too."""
        found: set[Node] = set()
        for node in reversed(self._sorted(stretch.steps)):
            if node in stretch.copies or not found.isdisjoint(self._readers[node]):
                found.add(node)
        return frozenset(found)

    # ------------------------------------------------------------------ bodies

    def _results(self, stretch: Stretch) -> list[Node]:
        """What a stretch gives: values that are asked for, or read by others."""
        steps, copies = stretch
        return [
            node
            for node in self._sorted(steps)
            if node in self._asked
            or (node not in copies and any(r not in steps for r in self._readers[node]))
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

    def _body(self, stretch: Stretch) -> Body | None:
        """What a stretch computes; None where it cannot be computed in bands."""
        steps = stretch.steps
        if not all(map(self.cuttable, steps)) or not self._together(stretch):
            return None
        members, operands = self._members(steps), self._operands(steps)
        number = {node: i for i, node in enumerate((*operands, *members))}
        made = [Step(n.op, tuple([number[i] for i in n.inputs]), n.shape, n.dtype) for n in members]
        results = tuple([number[n] for n in self._results(stretch)])
        given = tuple([(n.shape, n.dtype) for n in operands])
        body = Body.of(given, tuple(made), results)
        return None if cut(body, self._height(body, 4)) is None else body

    def _together(self, stretch: Stretch) -> bool:
        """Whether they can run as one: at the same time, and nothing else in between.

        What is between may be so by way of a stretch that was taken, which runs as one too, or of a
        step that is computed outside of the stretch too.
        """
        steps, twice = stretch.steps, self._twice(stretch)
        if self._moment is not None and len(set(map(self._moment, steps))) > 1:
            return False
        last = len(self._order) if self._taken else max(self._at[node] for node in steps)
        stack = self._results(stretch)
        seen = set(stack)
        while stack:
            node = stack.pop()
            for reader in self._readers.get(node, ()):
                if reader in steps:
                    if node not in steps:
                        return False
                    if reader not in twice:
                        continue
                for one in self._taken.get(reader, (reader,)):
                    if one not in seen and self._at[one] <= last:
                        seen.add(one)
                        stack.append(one)
        return True

    @staticmethod
    def _height(body: Body, bands: int) -> int:
        """The rows of each of so many bands."""
        rows = _fewest_rows(body)
        height = max(1, -(-rows // bands))
        return height if height < FEWEST else -(-height // FEWEST) * FEWEST

    def _cutting(self, stretch: Stretch) -> Cutting | None:
        """A stretch as bands that are worth it; None where they are not."""
        body, steps = self._body(stretch), stretch.steps
        assert body is not None
        members, operands = self._members(steps), self._operands(steps)
        held, results = self._held(stretch), self._results(stretch)
        between = self._between(steps)
        if self._again and Bands(body, self._height(body, 4)).overwrites():
            between += 2 * max(nbytes(body.type_of(r)) for r in body.results)
        bands = int(between / max(BAND_BYTES, PART * held)) + 1
        bands = min(bands, _fewest_rows(body))
        most = LONGER * _seconds(body)
        if self._again:
            twice = sum(map(_seconds_of, self._sorted(self._twice(stretch))))
            most = max(most, _seconds(body) + SPARE * self._seconds) - twice
        while bands > 1:
            op = Bands(body, self._height(body, bands))
            found = cut(body, op.height)
            if found is not None and _bands_seconds(found) <= most:
                with written_at(united_sources(members)):
                    node = make(op, tuple(operands))
                self.take(members)
                return Cutting(tuple(members), node, tuple(results), held)
            bands = bands * 3 // 4
        return None

    @cached_property
    def _seconds(self) -> float:
        """An estimate of the program's time."""
        return sum([_seconds_of(node) for node in self._order if not is_leaf(node)])


def _seconds_of(node: Node) -> float:
    """An estimate of the time a node takes."""
    return _duration(node.op, (node.shape, node.dtype), [(i.shape, i.dtype) for i in node.inputs])


def _seconds(body: Body) -> float:
    """An estimate of the time a body takes, one step after the other."""
    return sum(
        [
            _duration(s.op, (s.shape, s.dtype), [body.type_of(i) for i in s.inputs])
            for s in body.steps
        ]
    )


def _bands_seconds(bands: Sequence[Band]) -> float:
    return sum([_seconds(band.body) for band in bands])


def _duration(op: Op, made: Type, given: Sequence[Type]) -> float:
    """An estimate of the time an op takes."""
    one = cost(op, made, given)
    if one == NOTHING:
        return 0.0
    moved = one.bytes_read + one.bytes_written
    if isinstance(op, PICKING):
        moved = 2 * one.bytes_written + nbytes(given[-1])
    return OVERHEAD + max(one.operations / OPERATIONS, moved / BANDWIDTH)


def _fewest_rows(body: Body) -> int:
    return min(count(body.type_of(r)[0]) for r in body.results)
