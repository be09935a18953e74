"""Steps of a program that may be computed together in bands of rows, and how many bands they are.

A candidate begins with a large value, its maker and its readers.  It grows by what makes its
operands and by what reads its results, towards the steps that read and give fewest bytes: what is
between is never whole in memory.

Where bytes are scarce, a value that only waits is computed again by the bands that read it later,
and so is what it is made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple, final

from tawny.engine.lowering import PROCESSOR, MachineModel, is_leaf, overwrites, views_of
from tawny.lazy import cached_property
from tawny.node import Node, Part, make, part, source_scope, toposort
from tawny.op import NO_COST, Op, Type, nbytes
from tawny.ops.bands import Bands, cut_bands
from tawny.ops.body import Body, BodyStep
from tawny.ops.body_rows import Band
from tawny.rewrite.flow import RunKey, sources_of
from tawny.rows import row_count

MAX_STEPS: Final = 32
"""The most steps of a candidate; chosen by hand: each one more is a search of its neighbours."""

SMALL_SHARE: Final = 1 / 64
"""The least bytes of a value at which a candidate grows, as a share of what it reads and gives.

Chosen by hand: smaller values save little, and their makers may be many."""

BAND_BYTES: Final = 2**22
"""Bytes that a band is to take, at least; chosen by hand: smaller bands cost more starts of steps
than they save memory."""

BAND_SHARE: Final = 1 / 16
"""Bytes that a band may take, as a share of what its steps read and give: smaller bands of large
values would save little memory and cost time."""

ROW_MULTIPLE: Final = 4
"""Rows of a band come in multiples of this, as tiles of kernels do, unless there are fewer."""

MAX_SLOWDOWN: Final = 1.05
"""The time of all bands, as a multiple of that of the whole, at most and by estimate: rows around a
band are computed again, and weights are read for each band.  `benchmarks/bands.py` measures it."""

FASTER: Final = 4
"""How much faster than usual arithmetic is, for estimates: bands cost most beside fast work."""

DEARER: Final = 5
"""How much dearer than usual the start of a step is, for estimates."""

RECOMPUTE_SHARE: Final = 1 / 20
"""The time of what is computed again, as a share of the program's, at most and by estimate."""


class BandCandidate(NamedTuple):
    """Steps that may run as one."""

    steps: frozenset[Node]
    copies: frozenset[Node] = frozenset()
    """Steps that are computed again: others read what was computed before."""


class BandCut(NamedTuple):
    """Steps that one node computes in bands."""

    steps: tuple[Node, ...]
    bands: Node
    results: tuple[Node, ...]
    """The nodes that the results of the bands stand for."""
    held_bytes: int
    """Bytes of what is read and given."""

    @property
    def replacements(self) -> dict[Node, Node]:
        """For each result the node that takes its place."""
        if len(self.results) == 1:
            return {self.results[0]: self.bands}
        return {node: part(self.bands, i) for i, node in enumerate(self.results)}


@final
class BandSearch:
    """The search for steps of one graph to compute in bands."""

    def __init__(
        self,
        results: Sequence[Node],
        run_key: RunKey | None,
        sequence: Sequence[Node] = (),
        order: Sequence[Node] | None = None,
        machine: MachineModel = PROCESSOR,
    ) -> None:
        """`sequence` are the steps in the order they run, `order` all nodes, inputs first."""
        self._time = _TimeEstimate(machine)
        self._sequence = sequence
        self._earlier: frozenset[Node] = frozenset()
        self._may_recompute = False
        self._reserved: dict[Node, tuple[Node, ...]] = {}
        self._order = toposort(results, is_leaf) if order is None else order
        self._position = {node: place for place, node in enumerate(self._order)}
        self._views = views_of(self._order)
        self._run_key = run_key
        self._outputs = frozenset([self.owner(n) for n in results])
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

    def can_cut(self, node: Node) -> bool:
        """Whether a node may be a step of a candidate."""
        return not (
            is_leaf(node)
            or node.parts
            or node.volatile
            or node in self._reserved
            or isinstance(node.op, (Part, Bands))
            or row_count(node.shape) < 2
        )

    def reserve(self, steps: Sequence[Node]) -> None:
        """Let these nodes run as one: no other candidate has any of them."""
        self._reserved.update(dict.fromkeys(steps, tuple(steps)))

    # ------------------------------------------------------------------ growing

    def cut_around(self, seed: Node, position: int = 0, *, again: bool = False) -> BandCut | None:
        """The best bands that make and use up a value; None where there are none.

        What runs before a position of the sequence needs no operand any more.  What it reads may
        be computed `again` by what runs later.
        """
        if not self.can_cut(seed) or seed in self._outputs:
            return None
        self._earlier, self._may_recompute = frozenset(self._sequence[:position]), again
        readers = [n for n in self._readers[seed] if not (again and n in self._earlier)]
        if not readers:
            return None
        copied = len(readers) < len(self._readers[seed])
        steps = frozenset([seed, *readers])
        if again:
            steps |= self._with_between(frozenset(readers) if copied else steps)
        candidate = BandCandidate(steps, frozenset([seed] if copied else []))
        if len(steps) > MAX_STEPS or self._body(candidate) is None:
            return None
        best, least = candidate, self._needed_bytes(candidate)
        while len(candidate.steps) < MAX_STEPS:
            larger = self._larger_candidates(candidate)
            grown = [(self._needed_bytes(s), -len(s.steps), s) for s in larger]
            if not grown:
                break
            needed, _, candidate = min(grown, key=lambda one: one[:2])
            if needed <= least:
                best, least = candidate, needed
        return self._make_cut(best)

    def cut_in_place(self, node: Node, position: int) -> BandCut | None:
        """One step in bands, if it is written over an operand that way; None otherwise."""
        self._earlier, self._may_recompute = frozenset(self._sequence[:position]), True
        alone = BandCandidate(frozenset([node]))
        if not self.can_cut(node) or (body := self._body(alone)) is None:
            return None
        over = Bands(body, self._band_height(body, 4)).overwrites()
        given = [self.owner(source) for source in self._operands(alone.steps)]
        may = any(not is_leaf(given[o]) and given[o] not in self._outputs for o, _ in over)
        return self._make_cut(alone) if may and not overwrites(node) else None

    def cut_finer(self, node: Node) -> BandCut | None:
        """Bands of fewer rows; None where there are none that take little longer."""
        if not isinstance(op := node.op, Bands):
            return None
        height = op.height * 2 // 3 // ROW_MULTIPLE * ROW_MULTIPLE
        found = cut_bands(op.body, height) if height else None
        most = self._time.of_bands(op.bands) + RECOMPUTE_SHARE * self._program_seconds
        if found is None or self._time.of_bands(found) > most:
            return None
        with source_scope(node.sources):
            made = make(Bands(op.body, height), node.inputs)
        results = [part(node, i) for i in range(len(node.parts))] or [node]
        held = sum([self.bytes(self.owner(n)) for n in node.inputs])
        held += sum([nbytes(op.body.type_of(r)) for r in op.body.results])
        return BandCut((node,), made, tuple(results), held)

    def _needed_bytes(self, candidate: BandCandidate) -> tuple[int, int]:
        """Bytes that a candidate needs: of what waits for it, if it may be recomputed; of all."""
        held = self._held_bytes(candidate)
        if not self._may_recompute:
            return 0, held
        waiting = {self.owner(node) for node in self._operands(candidate.steps)} & self._earlier
        return sum(map(self.bytes, waiting)), held

    def _with_between(self, steps: frozenset[Node]) -> frozenset[Node]:
        """The steps, and all that reads of some of them and is read for others."""
        last = max(self._position[node] for node in steps)
        after, stack = set(steps), list(steps)
        while stack:
            for reader in self._readers[stack.pop()]:
                if reader not in after and self._position[reader] < last:
                    after.add(reader)
                    stack.append(reader)
        found = set(steps)
        for node in reversed(self._sorted(after)):
            if not found.isdisjoint(self._readers[node]):
                found.add(node)
        return frozenset(found)

    def _larger_candidates(self, candidate: BandCandidate) -> Iterator[BandCandidate]:
        """The candidate with what makes an operand of it, or with what reads a result."""
        steps, copies = candidate
        least = SMALL_SHARE * self._held_bytes(candidate)
        ordered = self._sorted(steps)
        operands = {self.owner(source): None for node in ordered for source in node.inputs}
        for node in operands:
            if node in steps or self.bytes(node) < least or not self.can_cut(node):
                continue
            if self._is_last_read_by(node, steps):
                yield from self._if_cuttable(BandCandidate(steps | {node}, copies))
            elif self._may_recompute and node in self._earlier:
                yield from self._if_cuttable(BandCandidate(steps | {node}, copies | {node}))
        for node in self._results_of(candidate):
            if node not in self._outputs and self.bytes(node) >= least:
                grown = steps.union(self._readers[node])
                yield from self._if_cuttable(BandCandidate(grown, copies))

    def _if_cuttable(self, candidate: BandCandidate) -> Iterator[BandCandidate]:
        """The candidate itself, if it can be computed in bands."""
        if self._body(candidate) is not None:
            yield candidate

    def _held_bytes(self, candidate: BandCandidate) -> int:
        """Bytes of what is read and given: what is written over an operand counts once."""
        body = self._body(candidate)
        assert body is not None
        given, op = self._operands(candidate.steps), Bands(body, self._band_height(body, 4))
        owners = [self.owner(node) for node in given]
        held = sum(self.bytes(n) for n in dict.fromkeys(owners))
        held += sum(nbytes(body.type_of(r)) for r in body.results)
        over = [
            nbytes(body.operands[operand])
            for operand, _ in op.overwrites()
            if self._is_last_read_by(owners[operand], candidate.steps.union(self._earlier))
        ]
        return held - max(over, default=0)

    def _between_bytes(self, steps: frozenset[Node]) -> int:
        """Bytes of what a step makes, and of what it reads of what others made, at most."""
        return max(
            self.bytes(node)
            + sum(self.bytes(n) for n in {self.owner(i) for i in node.inputs} & steps)
            for node in steps
        )

    def _is_last_read_by(self, node: Node, steps: frozenset[Node]) -> bool:
        """Whether nobody but these steps reads a value of the run."""
        if is_leaf(node) or node in self._outputs:
            return False
        return steps.issuperset(self._readers[node])

    def _steps_also_outside(self, candidate: BandCandidate) -> frozenset[Node]:
        """The steps that are computed outside of a candidate too."""
        found: set[Node] = set()
        for node in reversed(self._sorted(candidate.steps)):
            if node in candidate.copies or not found.isdisjoint(self._readers[node]):
                found.add(node)
        return frozenset(found)

    # ------------------------------------------------------------------ bodies

    def _results_of(self, candidate: BandCandidate) -> list[Node]:
        """What a candidate gives: outputs of the program, and values that others read."""
        steps, copies = candidate
        return [
            node
            for node in self._sorted(steps)
            if node in self._outputs
            or (node not in copies and any(r not in steps for r in self._readers[node]))
        ]

    def _sorted(self, nodes: Collection[Node]) -> list[Node]:
        return sorted(nodes, key=self._position.__getitem__)

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
        """What the steps read that none of them computes."""
        members = self._members(steps)
        own = frozenset(members)
        return list(dict.fromkeys(i for node in members for i in node.inputs if i not in own))

    def _body(self, candidate: BandCandidate) -> Body | None:
        """What a candidate computes; None where it cannot be computed in bands."""
        steps = candidate.steps
        if not all(map(self.can_cut, steps)) or not self._can_run_as_one(candidate):
            return None
        members, operands = self._members(steps), self._operands(steps)
        number = {node: i for i, node in enumerate((*operands, *members))}
        made = [
            BodyStep(n.op, tuple([number[i] for i in n.inputs]), n.shape, n.dtype) for n in members
        ]
        results = tuple([number[n] for n in self._results_of(candidate)])
        given = tuple([(n.shape, n.dtype) for n in operands])
        body = Body.of(given, tuple(made), results)
        return None if cut_bands(body, self._band_height(body, 4)) is None else body

    def _can_run_as_one(self, candidate: BandCandidate) -> bool:
        """Whether they can run as one: at the same time, and nothing else in between.

        What is between may be so by way of steps that were reserved, which run as one too, or of a
        step that is computed outside of the candidate too.
        """
        steps, twice = candidate.steps, self._steps_also_outside(candidate)
        if self._run_key is not None and len(set(map(self._run_key, steps))) > 1:
            return False
        last = len(self._order) if self._reserved else max(self._position[node] for node in steps)
        stack = self._results_of(candidate)
        seen = set(stack)
        while stack:
            node = stack.pop()
            for reader in self._readers.get(node, ()):
                if reader in steps:
                    if node not in steps:
                        return False
                    if reader not in twice:
                        continue
                for one in self._reserved.get(reader, (reader,)):
                    if one not in seen and self._position[one] <= last:
                        seen.add(one)
                        stack.append(one)
        return True

    @staticmethod
    def _band_height(body: Body, bands: int) -> int:
        """The rows of a band, given the number of bands."""
        rows = _min_rows(body)
        height = max(1, -(-rows // bands))
        return height if height < ROW_MULTIPLE else -(-height // ROW_MULTIPLE) * ROW_MULTIPLE

    def _make_cut(self, candidate: BandCandidate) -> BandCut | None:
        """A candidate as bands that are worth it; None where they are not."""
        body, steps = self._body(candidate), candidate.steps
        assert body is not None
        members, operands = self._members(steps), self._operands(steps)
        held, results = self._held_bytes(candidate), self._results_of(candidate)
        between = self._between_bytes(steps)
        if self._may_recompute and Bands(body, self._band_height(body, 4)).overwrites():
            between += 2 * max(nbytes(body.type_of(r)) for r in body.results)
        bands = int(between / max(BAND_BYTES, BAND_SHARE * held)) + 1
        bands = min(bands, _min_rows(body))
        most = MAX_SLOWDOWN * self._time.of_body(body)
        if self._may_recompute:
            twice = sum(map(self._time.of_node, self._sorted(self._steps_also_outside(candidate))))
            most = (
                max(most, self._time.of_body(body) + RECOMPUTE_SHARE * self._program_seconds)
                - twice
            )
        while bands > 1:
            op = Bands(body, self._band_height(body, bands))
            found = cut_bands(body, op.height)
            if found is not None and self._time.of_bands(found) <= most:
                with source_scope(sources_of(members)):
                    node = make(op, tuple(operands))
                self.reserve(members)
                return BandCut(tuple(members), node, tuple(results), held)
            bands = bands * 3 // 4
        return None

    @cached_property
    def _program_seconds(self) -> float:
        """An estimate of the program's time."""
        return sum([self._time.of_node(node) for node in self._order if not is_leaf(node)])


@final
class _TimeEstimate:
    """Estimates of times on a machine."""

    def __init__(self, machine: MachineModel) -> None:
        self._machine = machine._replace(
            operations=FASTER * machine.operations, overhead=DEARER * machine.overhead
        )

    def of_node(self, node: Node) -> float:
        """The time a node takes."""
        given = [(i.shape, i.dtype) for i in node.inputs]
        return self._of_op(node.op, (node.shape, node.dtype), given)

    def of_body(self, body: Body) -> float:
        """The time a body takes, one step after the other."""
        return sum(
            [
                self._of_op(s.op, (s.shape, s.dtype), [body.type_of(i) for i in s.inputs])
                for s in body.steps
            ]
        )

    def of_bands(self, bands: Sequence[Band]) -> float:
        """The time all bands take."""
        return sum([self.of_body(band.body) for band in bands])

    def _of_op(self, op: Op, made: Type, given: Sequence[Type]) -> float:
        cost = op.cost(made, given)
        return 0.0 if cost == NO_COST else self._machine.seconds(cost)


def _min_rows(body: Body) -> int:
    return min(row_count(body.type_of(r)[0]) for r in body.results)
