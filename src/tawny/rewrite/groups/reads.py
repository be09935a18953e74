"""The pass that lets groups read rolled arrays where they lie, and compute ranges themselves.

A roll that only groups and elementwise ops read is never made: its operand is kept in its place,
which takes no more memory.  Arrays that follow from the places of their elements, such as `arange`,
are computed by each group that runs over as many elements, and made only for others.

Which arrays these will be is estimated before groups are chosen (`inline_reads`), so that they
count as no arrays of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from tawny.node import Node, make, source_scope
from tawny.op import Elementwise, Op
from tawny.ops.body import FOLDS, Body, BodyStep, nonunit
from tawny.ops.creation import SOURCES, Cast
from tawny.ops.fusion import Group
from tawny.ops.indexing import Slice
from tawny.ops.movement import BroadcastTo, Reshape, Roll
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, sources_of
from tawny.rewrite.groups.products import body_of
from tawny.rewrite.lifetimes import bytes_of, is_leaf, owner
from tawny.shape import Shape, size

GROUP_READS: Final = RuleInfo(
    "group_reads", Kind.EXACT, "group(roll(x), arange(n)) = group(x), which rolls and counts"
)

INLINE_OPS: Final[frozenset[type[Op]]] = frozenset({*SOURCES, Roll})
"""Ops that a group can compute for each element it reads."""

LONG_ROW: Final = 64
"""Elements of a row of a rolled array, at least: shorter rows are copied faster."""

_SIDE_BY_SIDE: Final = (BroadcastTo, Reshape, Slice)

ShouldGroup = Callable[[Body], bool]
"""Whether a body is worth a kernel."""


def group_reads_pass(should_group: ShouldGroup) -> Pass:
    """The pass; `should_group` says which bodies are made groups."""

    def run(flow: Flow, context: Context) -> Flow:
        wanted = _find_operands_to_take(flow, should_group)
        replacements: dict[Node, Node] = {}
        for reader, taken in wanted.items():
            with source_scope(sources_of((*taken, reader))):
                replacements[reader] = _make_group(reader, taken)
            context.recorder.record(GROUP_READS, (*taken, reader), (replacements[reader],))
        return flow.replace_nodes(replacements)

    return Pass("group_reads", (GROUP_READS,), run, INLINE_OPS)


def _find_operands_to_take(flow: Flow, should_group: ShouldGroup) -> dict[Node, tuple[Node, ...]]:
    """What each group or elementwise op reads that it takes into its body."""
    readers, outputs = flow.consumers(), frozenset(flow.outputs)
    wanted: dict[Node, tuple[Node, ...]] = {}
    for node in flow.order():
        if is_leaf(node) or not isinstance(node.op, (Group, Elementwise, Cast, *FOLDS)):
            continue
        inputs = dict.fromkeys(node.inputs)
        taken = [n for n in inputs if _may_take(node, n)]
        rolls = [n for n in taken if type(n.op) is Roll]
        counted = [n for n in taken if type(n.op) is not Roll]
        for choice in (taken, rolls, counted):
            if choice and should_group(_body(node, choice)):
                wanted[node] = tuple(choice)
                break
    left = {
        n
        for n, nodes in readers.items()
        if type(n.op) is Roll and (n in outputs or any(n not in wanted.get(r, ()) for r in nodes))
    }
    chosen = {r: tuple([n for n in taken if n not in left]) for r, taken in wanted.items()}
    return {r: taken for r, taken in chosen.items() if taken}


def _may_take(reader: Node, source: Node) -> bool:
    """Whether what a reader reads could be a step of its body."""
    if is_leaf(source) or type(source.op) not in INLINE_OPS:
        return False
    space = nonunit(body_of(reader).space())
    if type(source.op) is Roll:
        return can_roll(source, space, reader.inputs)
    return nonunit(source.shape) == space


def _body(reader: Node, taken: Collection[Node]) -> Body:
    return _unite_bodies(reader, taken)[0]


def _unite_bodies(reader: Node, taken: Collection[Node]) -> tuple[Body, tuple[Node, ...]]:
    """The body of a reader with steps for some of its operands, and the operands that are left."""
    body = body_of(reader)
    given = [n for n in reader.inputs if n not in taken]
    operands = tuple(dict.fromkeys([*given, *[n for t in taken for n in t.inputs]]))
    numbers = {n: i for i, n in enumerate(operands)}
    first = len(operands)
    steps = [BodyStep(n.op, tuple([numbers[i] for i in n.inputs]), n.shape, n.dtype) for n in taken]
    numbers |= {n: first + i for i, n in enumerate(taken)}
    before, shift = len(reader.inputs), first + len(steps) - len(reader.inputs)
    new = [numbers[n] for n in reader.inputs]

    def renumbered(value: int) -> int:
        return new[value] if value < before else value + shift

    steps += [s._replace(inputs=tuple(map(renumbered, s.inputs))) for s in body.steps]
    types = tuple([(n.shape, n.dtype) for n in operands])
    results = tuple(map(renumbered, body.results))
    return Body.of(types, tuple(steps), results), operands


def _make_group(reader: Node, taken: Collection[Node]) -> Node:
    """The group of a reader and what it takes."""
    body, operands = _unite_bodies(reader, taken)
    return make(Group(body), operands)


# ------------------------------------------------------------------- before groups are chosen


def inline_reads(order: Sequence[Node], outputs: Collection[Node]) -> frozenset[Node]:
    """The nodes of an order that all their readers are likely to read for themselves."""
    found = [n for n in order if type(n.op) in INLINE_OPS and n not in outputs and not is_leaf(n)]
    if not found:
        return frozenset()
    left = set(found)
    for node in order:
        if not left.isdisjoint(node.inputs):
            left.difference_update(
                [n for n in node.inputs if n in left and not _can_read_inline(node, n)]
            )
    return frozenset(left)


def _can_read_inline(reader: Node, source: Node) -> bool:
    """Whether a node that was not grouped yet may read what follows from places or is rolled."""
    op = reader.op
    folds = isinstance(op, FOLDS)
    if is_leaf(reader) or not (folds or isinstance(op, (Elementwise, Cast))):
        return False
    space = nonunit(reader.inputs[0].shape if folds else reader.shape)
    if type(source.op) is not Roll:
        return all(map(is_leaf, source.inputs)) and nonunit(source.shape) == space
    return not folds and can_roll(source, space, reader.inputs)


def can_roll(roll: Node, space: Shape, inputs: Sequence[Node]) -> bool:
    """Whether loops over a space may read what is rolled where it lies.

    Its memory is no larger than that of the roll, rows are long, and nothing lies crosswise.
    """
    op, whole = roll.op, owner(roll.inputs[0])
    assert isinstance(op, Roll)
    if not is_leaf(whole) and bytes_of(whole) > bytes_of(roll):
        return False
    if not all(_lies_side_by_side(n) for n in (*inputs, roll.inputs[0])):
        return False
    if space[-1:] >= (LONG_ROW,):
        return True
    last = max([axis for axis, shift in enumerate(op.shifts) if shift], default=0)
    alike = all(nonunit(n.shape) in ((), space) for n in inputs)
    return alike and size(roll.shape[last:]) >= LONG_ROW


def _lies_side_by_side(node: Node) -> bool:
    """Whether neighbours along the last axis are neighbours in memory, or one element."""
    whole = owner(node)
    while node is not whole:
        if not isinstance(node.op, _SIDE_BY_SIDE):
            return False
        (node,) = node.inputs
    return True
