"""Native kernels of indexing, sorting, searching and choosing boxes."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.dtype import FLOAT64
from tawny.engine.cpu.kernel_table import Kernel, native
from tawny.engine.cpu.kernels.indexing import GatherSpec, gather_kernel
from tawny.engine.cpu.kernels.scatter import PUT, ScatterSpec, scatter_kernel
from tawny.engine.cpu.kernels.sorting.counting import count_kernel, weight_kernel
from tawny.engine.cpu.kernels.sorting.membership import membership_kernel
from tawny.engine.cpu.kernels.sorting.partial_sort import partial_sort_kernel
from tawny.engine.cpu.kernels.sorting.radix_sort import radix_sort_kernel
from tawny.engine.cpu.kernels.sorting.rank_sort import rank_sort_kernel
from tawny.engine.cpu.kernels.sorting.searching import SEARCH, search_kernel
from tawny.engine.cpu.kernels.suppression import SuppressionLimits, suppression_kernel
from tawny.engine.layout import Memory
from tawny.node import Node
from tawny.ops.boxes import NonMaximumSuppression, SuppressionByClass
from tawny.ops.indexing import COMBINE, ArgSort, Gather, Scatter, gather_shape
from tawny.ops.partial_sorting import PartialArgSort, PartialSort
from tawny.ops.pieces import GatherPieces
from tawny.ops.sorting import BinCount, Digitize, IsIn, SearchSorted, Sort
from tawny.shape import Shape, broadcast, broadcast_strides


def _broadcast_indices(op: str, given: Sequence[Memory]) -> tuple[Memory, ...]:
    """Index arrays broadcast to one shape."""
    if not given:
        return ()
    shape = broadcast(op, [m.shape for m in given])
    return tuple([_broadcast(m, shape) for m in given])


def _broadcast(given: Memory, shape: Shape) -> Memory:
    return Memory(shape, broadcast_strides(given.shape, given.strides, shape), given.dtype)


@native(Gather)
def gather(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Runs of elements from the places the index arrays name."""
    assert isinstance(node.op, Gather)
    source, *given = operands
    if not given:
        return None
    picks = GatherSpec((source,), _broadcast_indices("gather", given), node.op.axes, node.op.place)
    return Kernel(*gather_kernel(picks, results[0]), fallible=True)


@native(GatherPieces)
def gather_pieces(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel:
    """Runs of elements from the piece in which each index lies."""
    del node
    *pieces, places = operands
    picks = GatherSpec(tuple(pieces), (places,), (0,), 0)
    return Kernel(*gather_kernel(picks, results[0]), fallible=True)


@native(Scatter)
def scatter(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """A copy, and runs of elements put into the places the index arrays name."""
    op, (source, value, *given) = node.op, operands
    assert isinstance(op, Scatter)
    lengths = tuple([length for _, length, _ in op.ranges])
    part = gather_shape("scatter", lengths, op.axes, op.place, [m.shape for m in given])
    wide = _broadcast(value, part)
    puts = ScatterSpec(
        source,
        wide,
        _broadcast_indices("scatter", given),
        op.ranges,
        op.axes,
        op.place,
        None if op.mode == "set" else COMBINE[op.mode],
    )
    found = scatter_kernel(puts, results[0])
    return None if found is None else Kernel(*found, after=((PUT, True),), fallible=bool(given))


def _sorted(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], *, places: bool
) -> Kernel | None:
    """Short rows by comparing all elements, long rows and complex numbers digit by digit."""
    op = node.op
    assert isinstance(op, (Sort, ArgSort))
    for kernel in (rank_sort_kernel, radix_sort_kernel):
        found = kernel(operands[0], results[0], op.axis, places=places, descending=op.descending)
        if found is not None:
            return Kernel(*found)
    return None


@native(Sort)
def sort(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Elements in order."""
    return _sorted(node, operands, results, places=False)


@native(ArgSort)
def argsort(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """The places of elements in order."""
    return _sorted(node, operands, results, places=True)


@native(PartialSort, PartialArgSort)
def partial_sort(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel:
    """The first elements in order, or their places, by one look at each element."""
    op = node.op
    assert isinstance(op, (PartialSort, PartialArgSort))
    places = isinstance(op, PartialArgSort)
    descending = isinstance(op, PartialArgSort) and op.descending
    return Kernel(
        *partial_sort_kernel(operands[0], results[0], op.axis, places=places, descending=descending)
    )


@native(SearchSorted)
def searchsorted(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Places in a sorted array by bisection."""
    del results
    assert isinstance(node.op, SearchSorted)
    found = search_kernel(*operands, right=node.op.right, edges=False)
    return None if found is None else Kernel(*found)


@native(Digitize)
def digitize(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """By bisection of edges that rise or fall: an edge itself belongs before it if `right`."""
    del results
    assert isinstance(node.op, Digitize)
    x, bins = operands
    found = search_kernel(bins, x, right=not node.op.right, edges=True)
    return None if found is None else Kernel(*found, after=((SEARCH, True),), fallible=True)


@native(BinCount)
def bincount(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Shares of the integers in tables of the workers, or weights in their order."""
    del node
    given, *weights = operands
    if not weights:
        code, after = count_kernel(given, results[0])
        return Kernel(*code, after=after, fallible=True)
    if results[0].dtype != FLOAT64:  # of others NumPy makes sums with 64 bits
        return None
    return Kernel(*weight_kernel(given, weights[0], results[0]), fallible=True)


@native(IsIn)
def isin(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """By bisection of the sorted set, or by comparing all."""
    del results
    assert isinstance(node.op, IsIn)
    found = membership_kernel(*operands, invert=node.op.invert)
    return None if found is None else Kernel(*found.kernel, after=found.after)


@native(NonMaximumSuppression)
def non_maximum_suppression(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Boxes that no better one overlaps."""
    del results
    op = node.op
    assert isinstance(op, NonMaximumSuppression)
    boxes, scores = operands
    found = suppression_kernel(SuppressionLimits(op.count, op.threshold, None), boxes, scores, None)
    return None if found is None else Kernel(*found)


@native(SuppressionByClass)
def suppression_by_class(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Boxes that no better one of their class overlaps."""
    del results
    op = node.op
    assert isinstance(op, SuppressionByClass)
    found = suppression_kernel(SuppressionLimits(op.count, op.threshold, op.least), *operands)
    return None if found is None else Kernel(*found)
