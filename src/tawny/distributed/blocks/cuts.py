"""What a box of a result needs of the operands: a rule for each op that can be computed in blocks.

A rule says two things of an op: into which chunks its result falls, given those of the operands,
and, for a box of the result, which boxes of the operands are read and what is made of them.  A box
is a range along every axis, chunks are the sizes of the blocks along every axis.  Ops without a
rule are computed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from tawny.distributed.blocks.boxes import Box, Chunks, Sizes, whole
from tawny.node import Node, make
from tawny.op import Op
from tawny.shape import Shape, size

Read = tuple[Node, Box]
"""A box of a node."""


class Cut(NamedTuple):
    """The computation of a box of a result, or of what becomes one."""

    reads: tuple[Read, ...]
    key: Hashable
    """What is equal for cuts that compute the same from boxes of the same shapes."""
    build: Callable[[Sequence[Node]], tuple[Node, ...]]
    """From what was read, and the numbers, to what is computed."""
    numbers: tuple[int, ...] = ()
    """Integers that differ from box to box, as where it begins: they come as nodes."""


class Rule(NamedTuple):
    """The way in which an op is computed in blocks."""

    chunks: Callable[[Node, Sequence[Chunks]], Chunks]
    """The chunks of a node's result, given those of its operands."""
    cut: Callable[[Node, Box], Cut]
    applies: Callable[[Node], bool] = lambda _: True
    """Whether it holds for a node; one for which it does not is computed whole."""


def apply_op(op: Op, *reads: Read) -> Cut:
    """An op applied to boxes."""

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return (make(op, tuple(nodes)),)

    return Cut(reads, op, build)


def pass_on(read: Read) -> Cut:
    """A box as it is."""
    return Cut((read,), "same", _first)


def _first(nodes: Sequence[Node]) -> tuple[Node, ...]:
    return (nodes[0],)


# ------------------------------------------------------------------- broadcasting


def broadcast_box(given: Shape, box: Box) -> Box:
    """The box of an operand that is spread to a shape, for a box of that."""
    behind = box[len(box) - len(given) :]
    return tuple([(0, 1) if n == 1 else span for n, span in zip(given, behind, strict=True)])


def common_chunks(shape: Shape, operands: Sequence[tuple[Shape, Chunks]]) -> Chunks:
    """The chunks of a result whose operands are spread to its shape: those of the largest one."""
    made: list[Sizes] = []
    for axis, n in enumerate(shape):
        known: list[tuple[bool, int, Sizes]] = []
        for given, chunks in operands:
            own = axis - (len(shape) - len(given))
            if own >= 0 and given[own] == n:
                known.append((len(chunks[own]) > 1, size(given), chunks[own]))
        best = max(known, key=lambda one: one[:2], default=None)
        made.append((n,) if best is None else best[2])
    return tuple(made)


def _pointwise_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    shapes = [x.shape for x in node.inputs]
    return common_chunks(node.shape, list(zip(shapes, given, strict=True)))


def _pointwise_cut(node: Node, box: Box) -> Cut:
    reads = [(x, broadcast_box(x.shape, box)) for x in node.inputs]
    return apply_op(node.op, *reads)


POINTWISE: Final = Rule(_pointwise_chunks, _pointwise_cut)
"""Every element by itself."""

# ---------------------------------------------------------------------- whole ops


def whole_cut(node: Node) -> Cut:
    """The whole result from the whole operands."""
    return apply_op(node.op, *[(x, whole(x.shape)) for x in node.inputs])
