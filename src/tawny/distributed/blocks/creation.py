"""Rules for arrays that are made of their places: only the block that is asked for is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny import dtype as dt
from tawny.array import wrap
from tawny.distributed.blocks.boxes import Box, Chunks, single
from tawny.distributed.blocks.cuts import Cut, Rule
from tawny.dtype import kind_of
from tawny.node import Node, make, scalar
from tawny.op import Family
from tawny.ops import elementwise as e
from tawny.ops.creation import Arange, Eye, Linspace, cast_node, convert_node
from tawny.ops.movement import expand_node


def places(first: Node, length: int) -> Node:
    """The integers from `first` on."""
    count = make(Arange(0, 1, length, dt.INT64))
    return e.add(wrap(count), wrap(first)).node


def _one_chunk(node: Node, given: Sequence[Chunks]) -> Chunks:
    del given
    return single(node.shape)


def _arange_cut(node: Node, box: Box) -> Cut:
    op, ((first, stop),) = node.op, box
    assert isinstance(op, Arange)
    length = stop - first

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        numbers = wrap(cast_node(places(nodes[0], length), op.dtype))
        start, step = (scalar(n, op.dtype, "arange") for n in _start_and_step(op))
        return (e.add(e.multiply(numbers, wrap(step)), wrap(start)).node,)

    return Cut((), (op, length), build, (first,))


def _start_and_step(op: Arange) -> tuple[int | float, int | float]:
    leading = op.leading()
    return (leading[0], leading[1] - leading[0]) if len(leading) > 1 else (op.start, 0)


def _is_number(node: Node) -> bool:
    return kind_of(node.dtype) in "iuf"


def _linspace_cut(node: Node, box: Box) -> Cut:
    """As it is computed whole, from the places that are asked for."""
    op, ((first, stop),) = node.op, box
    assert isinstance(op, Linspace)
    length = stop - first

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        inner = dt.weak_dtype(float, dt.promote(nodes[0].dtype, nodes[1].dtype))
        begin, end = (wrap(convert_node(n, inner)) for n in nodes[:2])
        place = places(nodes[2], length)
        gaps = op.length - op.endpoint
        gap = e.subtract(end, begin)
        count = wrap(cast_node(place, dt.real_dtype(inner)))
        numbers = e.add(e.multiply(count, e.divide(gap, gaps) if gaps > 0 else gap), begin)
        if op.endpoint and op.length > 1:
            numbers = e.where(e.equal(wrap(place), op.length - 1), end, numbers)
        whole_numbers = op.dtype.kind in "iu"
        return (convert_node((e.floor(numbers) if whole_numbers else numbers).node, op.dtype),)

    reads = tuple([(x, ()) for x in node.inputs])
    return Cut(reads, (op, length), build, (first,))


def _eye_cut(node: Node, box: Box) -> Cut:
    op, ((top, bottom), (left, right)) = node.op, box
    assert isinstance(op, Eye)

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        rows = expand_node(places(nodes[0], bottom - top), (1,))
        columns = places(nodes[1], right - left)
        return (cast_node(e.equal(wrap(rows), wrap(columns)).node, op.dtype),)

    return Cut((), (Eye, op.dtype, bottom - top, right - left), build, (top + op.offset, left))


CREATION_RULES: Final[dict[Family, Rule]] = {
    Arange: Rule(_one_chunk, _arange_cut, _is_number),
    Linspace: Rule(_one_chunk, _linspace_cut),
    Eye: Rule(_one_chunk, _eye_cut),
}
