"""Loops whose derivatives keep less: parts of the steps are computed again on the way back.

A loop forward keeps rows for a loop back.  Cut into segments, it keeps what it carries at the start
of each, and computes a segment again when the way back comes to it.  What it keeps so is itself
rows for the way back, which may be cut again: with r cuts, n steps keep r + 1 times the (r + 1)-th
root of n.  Steps at the end, whose rows are kept, are not computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, pow
from typing import Final, NamedTuple

import tawny.numpy as np
from tawny.array import wrap
from tawny.loops.building import (
    Inside,
    LoopResults,
    LoopStep,
    build_loop,
    maker_of,
    place_variable,
    step_variable,
    written_out,
)
from tawny.node import Node, Part, make, part, scalar, source_scope, toposort
from tawny.op import ELEMENTWISE, nbytes
from tawny.ops.loops import BodyOp, ScanLoop, with_bodies
from tawny.ops.random import Draw
from tawny.ops.subgraph import Subgraph, substitute
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, rebuild
from tawny.source import describe

CHECKPOINT: Final = RuleInfo(
    "checkpoint_loops",
    Kind.EXACT,
    "a loop back over rows that another kept = one that computes segments again",
)

MOST_CUTS: Final = 4
"""How often steps are computed again, at most."""

_ADD: Final = ELEMENTWISE["add"]
_MULTIPLY: Final = ELEMENTWISE["multiply"]


Around = tuple[tuple[Node, int], ...]
"""Loops and branches, each in a body of the one before, and the number of that body."""


class LoopPair(NamedTuple):
    """A loop, the loop back that takes its rows, and which of its results nobody else reads."""

    forward: Node
    backward: Node
    saved: tuple[int, ...]
    around: Around = ()
    """What they are in."""

    @property
    def length(self) -> int:
        """How many steps each of them has."""
        return _loop(self.forward).length

    @property
    def row_bytes(self) -> int:
        """Bytes that a step keeps."""
        types = _loop(self.forward).body.result_types
        return sum([nbytes(types[i]) for i in self.saved])

    @property
    def carry_bytes(self) -> int:
        """Bytes that are kept at the start of a segment."""
        op = _loop(self.forward)
        return sum([nbytes(kind) for kind in op.body.result_types[: op.carries]])


class LoopCut(NamedTuple):
    """The numbers of steps that are computed again, and of those that a segment has."""

    again: int
    segment: int


def _loop(node: Node) -> ScanLoop:
    assert isinstance(node.op, ScanLoop)
    return node.op


# ------------------------------------------------------------------------ finding


def loop_pairs(flow: Flow) -> list[LoopPair]:
    """The pairs of loops of which one keeps rows for the other, those that keep most first."""
    pairs = _pairs_in(flow.order(), flow.outputs, ())
    stack: list[tuple[Sequence[Node], Around]] = [(flow.order(), ())]
    while stack:
        order, around = stack.pop()
        for node in order:
            for number, body in enumerate(node.op.bodies() if isinstance(node.op, BodyOp) else ()):
                inner = (*around, (node, number))
                pairs += _pairs_in(body.order, body.results, inner)
                stack.append((body.order, inner))
    return sorted(pairs, key=lambda pair: -pair.row_bytes * pair.length)


def _pairs_in(order: Sequence[Node], results: Sequence[Node], around: Around) -> list[LoopPair]:
    """The pairs of a graph that are in no loop of it."""
    readers: dict[Node, list[Node]] = {}
    for node in order:
        for x in dict.fromkeys(node.inputs):
            readers.setdefault(x, []).append(node)
    outputs = frozenset(results)
    found: dict[tuple[Node, Node], list[int]] = {}
    for node in order:
        if not isinstance(node.op, Part) or not isinstance(node.inputs[0].op, ScanLoop):
            continue
        forward, index = node.inputs[0], node.op.index
        own = readers.get(node, [])
        if len(own) == 1 and node not in outputs and index >= _loop(forward).carries:
            (reader,) = own
            if _goes_back(forward, reader, node):
                found.setdefault((forward, reader), []).append(index)
    return [LoopPair(*loops, tuple(sorted(saved)), around) for loops, saved in found.items()]


def _goes_back(forward: Node, reader: Node, rows: Node) -> bool:
    """Whether a loop takes rows of another one's in the opposite order, and both may run again."""
    if not isinstance(reader.op, ScanLoop):
        return False
    op, back = _loop(forward), reader.op
    places = [i for i, x in enumerate(reader.inputs) if x is rows]
    return (
        back.length == op.length > 1
        and back.reverse != op.reverse
        and all(back.carries <= i < back.first_shared for i in places)
        and _only_draws(op.body)
        and _only_draws(back.body)
        and (not back.body.impure or back.numbering == op.numbering)
    )


def _only_draws(body: Subgraph) -> bool:
    """Whether a body has no effects but random draws, which are the same when it runs again."""
    return all(
        isinstance(n.op, Draw)
        or (isinstance(n.op, BodyOp) and all(map(_only_draws, n.op.bodies())))
        for n in body.impure
    )


# ----------------------------------------------------------------------- choosing


def choose_cut(pair: LoopPair, excess: int) -> LoopCut | None:
    """The cut that computes least again and saves some bytes; the smallest, where none does.

    None where nothing is saved.  What is kept at the start of segments may be cut again.
    """
    length, whole = pair.length, pair.length * pair.row_bytes
    cut, room = even_cut(pair), whole - excess
    if _bytes_kept(pair, cut, 1) > room:
        cut = _finest(pair, room)
    else:
        low, high = 1, length
        while low < high:
            middle = (low + high) // 2
            if _bytes_kept(pair, _even(pair, middle), 1) <= room:
                high = middle
            else:
                low = middle + 1
        cut = _even(pair, high)
    return cut if _bytes_kept(pair, cut, MOST_CUTS) < whole else None


def even_cut(pair: LoopPair) -> LoopCut:
    """The cut of all steps whose segments and their starts take least together."""
    return _even(pair, pair.length)


def _even(pair: LoopPair, again: int) -> LoopCut:
    """The cut of this many steps or a few more whose segments and their starts take least."""
    segment = isqrt(max(1, again * max(1, pair.carry_bytes) // max(1, pair.row_bytes)))
    return _cut_of_whole_segments(pair, again, min(again, max(1, segment)))


def _cut_of_whole_segments(pair: LoopPair, again: int, segment: int) -> LoopCut:
    """A cut of whole segments."""
    count = min(-(-again // segment), pair.length // segment)
    return LoopCut(count * segment, segment)


def _finest(pair: LoopPair, room: int) -> LoopCut:
    """The cut of all steps that fits when starts are cut again, as seldom as possible."""
    sizes = sorted({max(1, round(pair.length ** (i / 24))) for i in range(24)})
    cuts = [_cut_of_whole_segments(pair, pair.length, size) for size in sizes]
    best = cuts[0]
    for count in range(2, MOST_CUTS + 1):
        best = min(cuts, key=lambda cut: _bytes_kept(pair, cut, count))
        if _bytes_kept(pair, best, count) <= room:
            break
    return best


def _bytes_kept(pair: LoopPair, cut: LoopCut, cuts: int) -> float:
    """Bytes that are kept after some cuts: those of rows, and of the starts of segments."""
    starts = -(-cut.again // cut.segment)
    rows = (pair.length - cut.again + cut.segment) * pair.row_bytes
    times = min(i * pow(starts, 1 / i) for i in range(1, cuts + 1))
    return rows + times * pair.carry_bytes


def cost_text(pair: LoopPair, cut: LoopCut) -> str:
    """What a cut computes again, in words."""
    where, whole = describe(pair.forward.sources), pair.length * pair.row_bytes
    kept = int(_bytes_kept(pair, cut, 1))
    return (
        f"{cut.again:,} of the {pair.length:,} steps of a loop are computed again for its "
        f"derivative, {cut.segment:,} at a time: {kept:,} bytes are kept instead of {whole:,}"
        + (f"  [{where}]" if where else "")
    )


# ------------------------------------------------------------------------ cutting


def checkpoint_pass(pair: LoopPair, cut: LoopCut) -> Pass:
    """The pass that cuts a pair of loops into segments."""

    def run(flow: Flow, context: Context) -> Flow:
        made = cut_pair(pair, cut)
        context.recorder.record(CHECKPOINT, pair[:2], tuple(made.values()))
        for node, number in reversed(pair.around):
            assert isinstance(node.op, BodyOp)
            bodies = list(node.op.bodies())
            body = bodies[number]
            bodies[number] = Subgraph(body.arguments, rebuild(body.results, made))
            made = {node: with_bodies(node, bodies)}
        return flow.replace_nodes(made)

    return Pass(CHECKPOINT.name, (CHECKPOINT,), run)


def cut_pair(pair: LoopPair, cut: LoopCut) -> dict[Node, Node]:
    """What takes the place of the results of both loops, but for the rows that were kept."""
    loops = _PairOfLoops(pair)
    with source_scope(pair.forward.sources):
        forward, starts, kept = loops.go_forward(cut)
    with source_scope(pair.backward.sources):
        back = loops.go_back(cut, starts, kept)
    first = _loop(pair.forward).carries
    others = [first + i for i in loops.read]
    made = {part(pair.forward, i): x for i, x in enumerate(forward.carries)}
    made |= {part(pair.forward, i): x for i, x in zip(others, forward.rows, strict=True)}
    results = [*back.carries, *back.rows]
    return made | {part(pair.backward, i): x for i, x in enumerate(results)}


class _PairOfLoops:
    """A pair of loops as steps, and what they are given."""

    def __init__(self, pair: LoopPair) -> None:
        self.op, self.back = _loop(pair.forward), _loop(pair.backward)
        self.forward = written_out(self.op, pair.forward.inputs)
        self.backward = written_out(self.back, pair.backward.inputs)
        self.first = pair.forward.inputs[: self.op.carries]
        self.rows = pair.forward.inputs[self.op.carries : self.op.first_shared]
        self.last = pair.backward.inputs[: self.back.carries]
        taken = pair.backward.inputs[self.back.carries : self.back.first_shared]
        saved = {part(pair.forward, i): n for n, i in enumerate(pair.saved)}
        self.sources = [saved.get(x) for x in taken]
        """For each array whose rows the loop back takes its number among what is kept, if any."""
        self.others = [x for x in taken if x not in saved]
        count = self.op.carries
        self.saved = [i - count for i in pair.saved]
        step, _ = self.forward
        self.read = [i for i in range(len(step.new_rows)) if i not in self.saved]

    def go_forward(self, cut: LoopCut) -> tuple[LoopResults, list[Node], list[Node]]:
        """The results that others read, the starts of segments, and what the last steps keep."""
        head, tail = self._extents(cut)
        carries = [step_variable("a carry", (x.shape, x.dtype)) for x in self.first]
        place, rows = place_variable(), _segments_of(self.rows, cut)
        base = _base(place, cut, head)
        inner = self._forward(carries, rows, cut.segment, base, self.read)
        step = LoopStep(
            place,
            tuple(carries),
            tuple(rows),
            tuple(inner.carries),
            (*inner.rows, *carries),
        )
        given = [_fold(_rows_of(x, head), cut) for x in self.rows]
        outer = self._outer(step, self.first, given, cut, self.op, (inner,))
        count = len(self.read)
        made, starts = [_unfold(x) for x in outer.rows[:count]], outer.rows[count:]
        if not len(tail):
            return LoopResults(outer.carries, made), starts, []
        own = [_rows_of(x, tail) for x in self.rows]
        base = scalar(tail.start, place.dtype, "loop")
        wanted = [*self.read, *self.saved]
        ended = self._forward(outer.carries, own, len(tail), base, wanted, tail.start)
        whole = [self._join(a, b) for a, b in zip(made, ended.rows[:count], strict=True)]
        return LoopResults(ended.carries, whole), starts, ended.rows[count:]

    def go_back(self, cut: LoopCut, starts: Sequence[Node], kept: Sequence[Node]) -> LoopResults:
        """The results of the loop back."""
        head, tail = self._extents(cut)
        place = place_variable()
        after, ended = list(self.last), list[Node]()
        if len(tail):
            own = [_rows_of(x, tail) for x in self.others]
            base = scalar(tail.start, place.dtype, "loop")
            last = self._backward(after, kept, own, len(tail), base, tail.start)
            after, ended = last.carries, last.rows
        carries = [step_variable("a carry", (x.shape, x.dtype)) for x in self.last]
        begins = [step_variable("a row", (x.shape, x.dtype)) for x in self.first]
        rows, others = _segments_of(self.rows, cut), _segments_of(self.others, cut)
        base = _base(place, cut, head)
        again = self._forward(begins, rows, cut.segment, base, self.saved)
        inner = self._backward(carries, again.rows, others, cut.segment, base)
        step = LoopStep(
            place,
            tuple(carries),
            (*begins, *rows, *others),
            tuple(inner.carries),
            tuple(inner.rows),
        )
        given = [_fold(_rows_of(x, head), cut) for x in (*self.rows, *self.others)]
        outer = self._outer(step, after, [*starts, *given], cut, self.back, (again, inner))
        made = [_unfold(x) for x in outer.rows]
        if len(tail):
            made = [self._join(a, b) for a, b in zip(made, ended, strict=True)]
        return LoopResults(outer.carries, made)

    def _extents(self, cut: LoopCut) -> tuple[range, range]:
        """The places that are computed again, and the others."""
        length, again = self.op.length, cut.again
        if self.op.reverse:
            return range(length - again, length), range(length - again)
        return range(again), range(again, length)

    def _join(self, head: Node, tail: Node) -> Node:
        """Rows of both extents as one array."""
        parts = (tail, head) if self.op.reverse else (head, tail)
        return np.concat([wrap(x) for x in parts], axis=0).node

    def _forward(
        self,
        carries: Sequence[Node],
        rows: Sequence[Node],
        length: int,
        base: Node,
        wanted: Sequence[int],
        first: int | None = None,
    ) -> LoopResults:
        """Some steps forward, from a place on; rows of the results that are wanted.

        `first` is that place, where it is not in a loop over segments.
        """
        step, inside = _step_from(*self.forward, base, first)
        step = step._replace(new_rows=tuple([step.new_rows[i] for i in wanted]))
        return build_loop(step, carries, rows, length, reverse=self.op.reverse, inside=inside)

    def _backward(
        self,
        carries: Sequence[Node],
        kept: Sequence[Node],
        others: Sequence[Node],
        length: int,
        base: Node,
        first: int | None = None,
    ) -> LoopResults:
        """Some steps back, from what was kept of them."""
        (step, inside), rest = _step_from(*self.backward, base, first), iter(others)
        rows = [next(rest) if source is None else kept[source] for source in self.sources]
        return build_loop(step, carries, rows, length, reverse=self.back.reverse, inside=inside)

    def _outer(
        self,
        step: LoopStep,
        first: Sequence[Node],
        rows: Sequence[Node],
        cut: LoopCut,
        op: ScanLoop,
        inner: Sequence[LoopResults],
    ) -> LoopResults:
        """A loop over segments; `inner` are the loops over their steps."""
        makers = [maker_of(n) for made in inner for n in (*made.carries, *made.rows)]
        since = min([n.serial for n in (step.place, *step.carries, *step.rows)])
        head, _ = self._extents(cut)
        numbering = self.op.numbering.over_segments(head.start, cut.segment)
        inside = Inside(since, [n for n in makers if n.op.facts().impure], numbering)
        count = cut.again // cut.segment
        return build_loop(step, first, rows, count, reverse=op.reverse, inside=inside)


def _base(place: Node, cut: LoopCut, head: range) -> Node:
    """The first place of a segment."""
    first = make(_MULTIPLY, (place, scalar(cut.segment, place.dtype, "loop")))
    return make(_ADD, (first, scalar(head.start, place.dtype, "loop"))) if head.start else first


def _step_from(
    step: LoopStep, inside: Inside, base: Node, first: int | None
) -> tuple[LoopStep, Inside]:
    """A step, of which place 0 is another one, and its draws, which go on from there."""
    place, impure = step.place, list(inside.impure or ())
    own = inside.numbering
    numbering = own._replace(first=0) if first is None else own.part(first)
    results = (*step.new_carries, *step.new_rows)
    order = toposort(results)
    if place in order:
        made = substitute(order, {place: make(_ADD, (base, place))})
        count, new = len(step.new_carries), [made[n] for n in results]
        step = step._replace(new_carries=tuple(new[:count]), new_rows=tuple(new[count:]))
        impure = [made.get(n, n) for n in impure]
    since = min([n.serial for n in (place, *step.carries, *step.rows)])
    return step, Inside(since, impure, numbering)


def _segments_of(rows: Sequence[Node], cut: LoopCut) -> list[Node]:
    """Variables that stand for what a segment takes of arrays."""
    return [step_variable("a row", ((cut.segment, *x.shape[1:]), x.dtype)) for x in rows]


def _rows_of(x: Node, extent: range) -> Node:
    """Some rows of an array."""
    return x if len(extent) == x.shape[0] else wrap(x)[extent.start : extent.stop].node


def _fold(x: Node, cut: LoopCut) -> Node:
    """Rows by segments."""
    return wrap(x).reshape((-1, cut.segment, *x.shape[1:])).node


def _unfold(x: Node) -> Node:
    """The rows of all segments."""
    return wrap(x).reshape((-1, *x.shape[2:])).node
