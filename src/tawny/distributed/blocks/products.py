"""Rules for products: of matrices, tensors by labels, and kernels swept over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.distributed.blocks.boxes import (
    Box,
    Chunks,
    Sizes,
    Span,
    bounds,
    from_bounds,
    single,
    whole,
)
from tawny.distributed.blocks.cuts import Cut, Read, Rule, apply_op
from tawny.node import Node, make
from tawny.op import Family
from tawny.ops.convolution import Convolution, ConvolutionInputGradient
from tawny.ops.einsum import Einsum
from tawny.ops.indexing import Slice
from tawny.ops.linalg import Matmul
from tawny.ops.pooling import (
    AvgPool,
    AvgPoolGradient,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Upsampling,
    UpsamplingGradient,
    WindowFold,
)
from tawny.ops.series import Correlate
from tawny.ops.window import spans as window_spans
from tawny.shape import Shape, size


class Labels(NamedTuple):
    """The axes of a product's operands and result by name; equal names run together."""

    terms: tuple[str, ...]
    result: str

    @property
    def summed_labels(self) -> str:
        """The names that the result has not."""
        names = dict.fromkeys("".join(self.terms))
        return "".join([name for name in names if name not in self.result])

    def sizes(self, shapes: Sequence[Shape]) -> dict[str, int]:
        """How long each is: an axis of size 1 stretches."""
        found: dict[str, int] = {}
        for term, shape in zip(self.terms, shapes, strict=True):
            for name, n in zip(term, shape, strict=True):
                if n != 1 or name not in found:
                    found[name] = n
        return found


def labels_of(node: Node) -> Labels | None:
    """The labels of a product; None of all other ops."""
    if isinstance(node.op, Einsum):
        inputs, _, result = node.op.subscripts.partition("->")
        return Labels(tuple(inputs.split(",")), result)
    if not isinstance(node.op, Matmul):
        return None
    left, right = (len(x.shape) for x in node.inputs)
    stack = "".join([chr(ord("a") + k) for k in range(max(left, right, 2) - 2)])
    ours = stack[len(stack) - max(left - 2, 0) :] if left > 2 else ""
    theirs = stack[len(stack) - max(right - 2, 0) :] if right > 2 else ""
    rows, columns = "I" * (left > 1), "J" * (right > 1)
    return Labels((f"{ours}{rows}K", f"{theirs}K{columns}"), f"{stack}{rows}{columns}")


def label_chunks(node: Node, labels: Labels, given: Sequence[Chunks]) -> dict[str, Sizes]:
    """The chunks of each label: those of the largest operand that is cut along it."""
    shapes = [x.shape for x in node.inputs]
    found: dict[str, Sizes] = {}
    for name, n in labels.sizes(shapes).items():
        known = [
            (len(chunks[axis]) > 1, size(shape), chunks[axis])
            for term, shape, chunks in zip(labels.terms, shapes, given, strict=True)
            for axis, own in enumerate(term)
            if own == name and shape[axis] == n
        ]
        found[name] = max(known, key=lambda one: one[:2])[2]
    return found


def product_reads(node: Node, labels: Labels, ranges: dict[str, Span]) -> tuple[Read, ...]:
    """The boxes of the operands for some range of each label."""
    return tuple(
        [
            (
                x,
                tuple(
                    [(0, 1) if n == 1 else ranges[k] for k, n in zip(term, x.shape, strict=True)]
                ),
            )
            for term, x in zip(labels.terms, node.inputs, strict=True)
        ]
    )


def _product_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    labels = labels_of(node)
    assert labels is not None
    chunks = label_chunks(node, labels, given)
    return tuple([chunks[name] for name in labels.result])


def _product_cut(node: Node, box: Box) -> Cut:
    labels = labels_of(node)
    assert labels is not None
    ranges = {k: (0, n) for k, n in labels.sizes([x.shape for x in node.inputs]).items()}
    ranges |= dict(zip(labels.result, box, strict=True))
    return apply_op(node.op, *product_reads(node, labels, ranges))


PRODUCT: Final = Rule(_product_chunks, _product_cut)


# ------------------------------------------------------------------------- windows


def scale_chunks(sizes: Sizes, n: int) -> Sizes:
    """Chunks of another length, at about the same places."""
    length = max(1, sum(sizes))
    return from_bounds([b * n // length for b in bounds(sizes)])


def _windows_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    inner = zip(given[0][1:-1], node.shape[1:-1], strict=True)
    channels = given[0][-1] if isinstance(node.op, WindowFold) else (node.shape[-1],)
    return (given[0][0], *[scale_chunks(chunks, n) for chunks, n in inner], channels)


def _geometry(node: Node) -> tuple[Shape, Shape, tuple[tuple[int, int], ...]]:
    """How far windows reach, their strides, and the padding."""
    op = node.op
    if isinstance(op, Convolution):
        return window_spans(node.inputs[1].shape[:-2], op.dilation), op.strides, op.padding
    assert isinstance(op, WindowFold)
    return op.window, op.strides, op.padding


def _windows_cut(node: Node, box: Box) -> Cut:
    """What the windows see; where they see padding alone, they are swept over the whole axis."""
    x, *kernel = node.inputs
    read: list[Span] = [box[0]]
    pads: list[tuple[int, int]] = []
    taken: list[tuple[int, int, int]] = [(0, box[0][1] - box[0][0], 1)]
    for axis, (reach, stride, (before, after)) in enumerate(zip(*_geometry(node), strict=True), 1):
        n, (start, stop) = x.shape[axis], box[axis]
        first, last = start * stride - before, (stop - 1) * stride - before + reach
        low, high = max(first, 0), min(last, n)
        if low < high:
            read.append((low, high))
            pads.append((low - first, last - high))
            taken.append((0, stop - start, 1))
        else:
            read.append((0, n))
            pads.append((before, after))
            taken.append((start, stop - start, 1) if stop > start else (0, 0, 1))
    is_fold = isinstance(node.op, WindowFold)
    read.append(box[-1] if is_fold else (0, x.shape[-1]))
    taken.append(
        (0, box[-1][1] - box[-1][0], 1) if is_fold else (box[-1][0], box[-1][1] - box[-1][0], 1)
    )
    op, ranges = node.op.with_attributes(padding=tuple(pads)), tuple(taken)

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        made = make(op, tuple(nodes))
        is_all = made.shape == tuple([length for _, length, _ in ranges])
        return (made if is_all else make(Slice(ranges), (made,)),)

    reads = ((x, tuple(read)), *[(k, tuple([(0, n) for n in k.shape])) for k in kernel])
    return Cut(reads, (op, ranges), build)


WINDOWS: Final = Rule(_windows_chunks, _windows_cut)


IMAGES: Final[dict[Family, tuple[int, ...]]] = {
    ConvolutionInputGradient: (1,),
    MaxPoolGradient: (0, 1),
    MaxPoolSelect: (0, 1),
    AvgPoolGradient: (0,),
    Upsampling: (0,),
    UpsamplingGradient: (0,),
}
"""Ops that are cut into images, and their operands that consist of these."""


def image_read(x: Node, images: Span) -> Read:
    """Some images, whole."""
    return x, (images, *whole(x.shape[1:]))


def _images_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    return (given[IMAGES[node.op.family][0]][0], *single(node.shape[1:]))


def _images_cut(node: Node, box: Box) -> Cut:
    """Images whole, of which the box may be a part."""
    images = IMAGES[node.op.family]
    reads = [
        image_read(x, box[0]) if i in images else (x, whole(x.shape))
        for i, x in enumerate(node.inputs)
    ]
    if box[1:] == whole(node.shape[1:]):
        return apply_op(node.op, *reads)
    op, ranges = node.op, ((0, box[0][1] - box[0][0], 1), *[(a, b - a, 1) for a, b in box[1:]])

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return (make(Slice(ranges), (make(op, tuple(nodes)),)),)

    return Cut(tuple(reads), (op, ranges), build)


IMAGES_RULE: Final = Rule(_images_chunks, _images_cut)


def _correlate_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    return (scale_chunks(given[0][0], node.shape[0]),)


def _correlate_cut(node: Node, box: Box) -> Cut:
    """All overlaps with what is seen, of which those that see all they need are taken."""
    op, (a, v), ((start, stop),) = node.op, node.inputs, box
    assert isinstance(op, Correlate)
    (n,), (taps,) = a.shape, v.shape
    front, _ = op.left_out(n, taps)
    low, high = max(0, start + front - taps + 1), min(n, stop + front)
    taken = Slice(((start + front - low, stop - start, 1),))

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return (make(taken, (make(Correlate("full"), tuple(nodes)),)),)

    return Cut(((a, ((low, high),)), (v, ((0, taps),))), (Correlate, taken), build)


def _is_longer(node: Node) -> bool:
    (n,), (taps,) = (x.shape for x in node.inputs)
    return n >= taps


PRODUCT_RULES: Final[dict[Family, Rule]] = {
    **dict.fromkeys((Matmul, Einsum), PRODUCT),
    **dict.fromkeys((Convolution, MaxPool, AvgPool), WINDOWS),
    **dict.fromkeys(IMAGES, IMAGES_RULE),
    Correlate: Rule(_correlate_chunks, _correlate_cut, _is_longer),
}
