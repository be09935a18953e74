"""Loops whose derivatives keep less: parts of the steps are computed again on the way back.

A loop forward keeps rows for a loop back.  Cut into segments, it keeps what it carries at the start
of each, and computes a segment again when the way back comes to it.  Steps at the end, whose rows
are kept, are not computed again.  `loop_cuts` says which cut computes least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import tawny.numpy as np
from tawny.array import wrap
from tawny.loops.building import (
    Inside,
    LoopResults,
    LoopStep,
    build_loop,
    place_variable,
    step_variable,
    written_out,
)
from tawny.node import Node, Part, make, part, scalar, source_scope, toposort
from tawny.op import ELEMENTWISE, nbytes
from tawny.ops.loops import PLACE_TYPE, BodyOp, DrawNumbering, ScanLoop, with_bodies
from tawny.ops.random import Draw
from tawny.ops.subgraph import Subgraph, substitute
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, rebuild
from tawny.rewrite.loop_cuts import (
    LoopCut,
    StepBytes,
    bytes_kept,
    choose_cut,
    steps_again,
    whole_segments,
)
from tawny.source import describe

CHECKPOINT: Final = RuleInfo(
    "checkpoint_loops",
    Kind.EXACT,
    "a loop back over rows that another kept = one that computes segments again",
)

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
    def step_bytes(self) -> StepBytes:
        """Bytes that are kept at the start of a segment, and for a step."""
        op = _loop(self.forward)
        carried = sum([nbytes(kind) for kind in op.body.result_types[: op.carries]])
        return StepBytes(carried, self.row_bytes)

    @property
    def joins(self) -> bool:
        """Whether rows of segments and of the steps after them are joined for somebody else."""
        op, back = _loop(self.forward), _loop(self.backward)
        rows = len(op.body.result_types) - op.carries > len(self.saved)
        return rows or len(back.body.result_types) > back.carries


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


def cuts_of(pair: LoopPair, excess: int) -> list[LoopCut]:
    """Cuts that save some bytes, if they can; the one that computes least again comes first.

    Where rows are joined, which takes memory for all of them, there is one with nothing to join.
    """
    length, step = pair.length, pair.step_bytes
    room = length * step.row - excess
    cuts = [choose_cut(length, room, step), whole_segments(length, step) if pair.joins else None]
    whole = length * step.row
    return [cut for cut in cuts if cut is not None and bytes_kept(cut, length, step) < whole]


def cost_text(pair: LoopPair, cut: LoopCut) -> str:
    """What a cut computes again, in words."""
    where, length = describe(pair.forward.sources), pair.length
    first, again = length - _steps_kept(cut, length), steps_again(cut)
    more = "" if again == first else f", in all {again:,} times"
    kept, whole = bytes_kept(cut, length, pair.step_bytes), length * pair.row_bytes
    return (
        f"{first:,} of the {length:,} steps of a loop are computed again for its derivative{more}, "
        f"{cut.segment:,} or fewer at a time: {kept:,} bytes are kept instead of {whole:,}"
        + (f"  [{where}]" if where else "")
    )


def _steps_kept(cut: LoopCut | None, length: int) -> int:
    """How many steps at the end are not computed again."""
    return length if cut is None else _steps_kept(cut.tail, length - cut.steps)


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
    loops, op = _PairOfLoops(pair), _loop(pair.forward)
    span = _StepRange(None, op.length, op.numbering)
    with source_scope(pair.forward.sources):
        forward, kept = loops.go_forward(cut, span, loops.first, loops.rows, loops.read)
    with source_scope(pair.backward.sources):
        back = loops.go_back(cut, span, kept, loops.last, loops.rows, loops.others)
    others = [op.carries + i for i in loops.read]
    made = {part(pair.forward, i): x for i, x in enumerate(forward.carries)}
    made |= {part(pair.forward, i): x for i, x in zip(others, forward.rows, strict=True)}
    results = [*back.carries, *back.rows]
    return made | {part(pair.backward, i): x for i, x in enumerate(results)}


class _StepRange(NamedTuple):
    """Steps that follow one another: the place of the first, and how those that draw do so."""

    base: Node | None
    length: int
    numbering: DrawNumbering

    def part(self, extent: range) -> _StepRange:
        """Some of the steps."""
        base = self._place_of(extent.start)
        return _StepRange(base, len(extent), self.numbering.part(extent.start))

    def segment(self, place: Node, extent: range, size: int) -> _StepRange:
        """The steps of a segment, in a loop over those of an extent."""
        first = make(_MULTIPLY, (place, scalar(size, place.dtype, "loop")))
        base = self._place_of(extent.start)
        whole = first if base is None else make(_ADD, (base, first))
        return _StepRange(whole, size, self.numbering._replace(first=0))

    def _place_of(self, start: int) -> Node | None:
        """The place of a step."""
        if not start:
            return self.base
        first = scalar(start, PLACE_TYPE[1], "loop")
        return first if self.base is None else make(_ADD, (self.base, first))


class _Checkpoints(NamedTuple):
    """Starts of segments, or rows, that the way back finds; and those of the steps after."""

    starts: Sequence[Node] = ()
    rows: Sequence[Node] = ()
    tail: _Checkpoints | None = None


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

    def go_forward(
        self,
        cut: LoopCut | None,
        span: _StepRange,
        first: Sequence[Node],
        rows: Sequence[Node],
        wanted: Sequence[int],
    ) -> tuple[LoopResults, _Checkpoints]:
        """Some steps forward: the last carries, rows that are wanted, and what is kept."""
        count = len(wanted)
        if cut is None:
            made = self._steps_forward(span, first, rows, [*wanted, *self.saved])
            return LoopResults(made.carries, made.rows[:count]), _Checkpoints(
                rows=made.rows[count:]
            )
        head, tail = self._extents(cut, span)
        place, carries, own = place_variable(), _carry_variables(first), _segments_of(rows, cut)
        inner = self._steps_forward(span.segment(place, head, cut.segment), carries, own, wanted)
        new = tuple(inner.carries), (*inner.rows, *carries)
        step = LoopStep(place, tuple(carries), tuple(own), *new)
        given = [_fold(_rows_of(x, head), cut) for x in rows]
        outer = self._over_segments(cut, span, step, first, given, self.op)
        joined, starts = [_unfold(x) for x in outer.rows[:count]], outer.rows[count:]
        if not len(tail):
            return LoopResults(outer.carries, joined), _Checkpoints(starts)
        own = [_rows_of(x, tail) for x in rows]
        ended, kept = self.go_forward(cut.tail, span.part(tail), outer.carries, own, wanted)
        joined = [self._join(a, b) for a, b in zip(joined, ended.rows, strict=True)]
        return LoopResults(ended.carries, joined), _Checkpoints(starts, tail=kept)

    def go_back(
        self,
        cut: LoopCut | None,
        span: _StepRange,
        kept: _Checkpoints,
        last: Sequence[Node],
        rows: Sequence[Node],
        others: Sequence[Node],
    ) -> LoopResults:
        """The way back over some steps, from what was kept of them."""
        if cut is None:
            return self._steps_back(span, last, kept.rows, others)
        head, tail = self._extents(cut, span)
        ended = LoopResults(list(last), [])
        if kept.tail is not None:
            given, beside = ([_rows_of(x, tail) for x in xs] for xs in (rows, others))
            ended = self.go_back(cut.tail, span.part(tail), kept.tail, last, given, beside)
        place, carries, begins = (
            place_variable(),
            _carry_variables(last),
            _carry_variables(self.first),
        )
        own, beside = _segments_of(rows, cut), _segments_of(others, cut)
        segment = span.segment(place, head, cut.segment)
        _, again = self.go_forward(cut.inner, segment, begins, own, ())
        inner = self.go_back(cut.inner, segment, again, carries, own, beside)
        new = tuple(inner.carries), tuple(inner.rows)
        step = LoopStep(place, tuple(carries), (*begins, *own, *beside), *new)
        given = [*kept.starts, *[_fold(_rows_of(x, head), cut) for x in (*rows, *others)]]
        outer = self._over_segments(cut, span, step, ended.carries, given, self.back)
        made = [_unfold(x) for x in outer.rows]
        if kept.tail is not None:
            made = [self._join(a, b) for a, b in zip(made, ended.rows, strict=True)]
        return LoopResults(outer.carries, made)

    def _extents(self, cut: LoopCut, span: _StepRange) -> tuple[range, range]:
        """The places of the segments, and those of the steps after them."""
        length, again = span.length, cut.steps
        if self.op.reverse:
            return range(length - again, length), range(length - again)
        return range(again), range(again, length)

    def _join(self, head: Node, tail: Node) -> Node:
        """Rows of both extents as one array."""
        parts = (tail, head) if self.op.reverse else (head, tail)
        return np.concat([wrap(x) for x in parts], axis=0).node

    def _steps_forward(
        self, span: _StepRange, first: Sequence[Node], rows: Sequence[Node], wanted: Sequence[int]
    ) -> LoopResults:
        """Some steps forward; rows of the results that are wanted."""
        step, inside = _step_at(*self.forward, span)
        step = step._replace(new_rows=tuple([step.new_rows[i] for i in wanted]))
        return build_loop(step, first, rows, span.length, reverse=self.op.reverse, inside=inside)

    def _steps_back(
        self, span: _StepRange, last: Sequence[Node], kept: Sequence[Node], others: Sequence[Node]
    ) -> LoopResults:
        """Some steps back, from their rows."""
        (step, inside), rest = _step_at(*self.backward, span), iter(others)
        rows = [next(rest) if source is None else kept[source] for source in self.sources]
        return build_loop(step, last, rows, span.length, reverse=self.back.reverse, inside=inside)

    def _over_segments(
        self,
        cut: LoopCut,
        span: _StepRange,
        step: LoopStep,
        first: Sequence[Node],
        rows: Sequence[Node],
        op: ScanLoop,
    ) -> LoopResults:
        """A loop over segments."""
        head, _ = self._extents(cut, span)
        numbering = span.numbering.over_segments(head.start, cut.segment)
        inside = Inside(step.place.serial, numbering=numbering)
        return build_loop(step, first, rows, cut.segments, reverse=op.reverse, inside=inside)


def _step_at(step: LoopStep, inside: Inside, span: _StepRange) -> tuple[LoopStep, Inside]:
    """A step of some that begin at another place, and its draws."""
    place, impure = step.place, list(inside.impure or ())
    results = (*step.new_carries, *step.new_rows)
    order = toposort(results)
    if span.base is not None and place in order:
        made = substitute(order, {place: make(_ADD, (span.base, place))})
        count, new = len(step.new_carries), [made[n] for n in results]
        step = step._replace(new_carries=tuple(new[:count]), new_rows=tuple(new[count:]))
        impure = [made.get(n, n) for n in impure]
    since = min([n.serial for n in (place, *step.carries, *step.rows)])
    return step, Inside(since, impure, span.numbering)


def _carry_variables(nodes: Sequence[Node]) -> list[Node]:
    """Variables that stand for carries."""
    return [step_variable("a carry", (x.shape, x.dtype)) for x in nodes]


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
