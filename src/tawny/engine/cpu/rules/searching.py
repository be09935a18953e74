"""Native kernels of sorting, of searching in sorted arrays and in sets, and of counting."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.cpu.kernel_table import Kernel, Memory, native
from tawny.engine.cpu.kernels.sorting.membership import membership_kernel
from tawny.engine.cpu.kernels.sorting.radix_sort import radix_sort_kernel
from tawny.engine.cpu.kernels.sorting.rank_sort import rank_sort_kernel
from tawny.engine.cpu.kernels.sorting.searching import SEARCH, bincount_kernel, search_kernel
from tawny.node import Node
from tawny.ops.sorting import ArgSort, BinCount, Digitize, IsIn, SearchSorted, Sort


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


@native(SearchSorted)
def searchsorted(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """By bisection."""
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
    """Counts, or sums of weights."""
    del results
    assert isinstance(node.op, BinCount)
    x, *weights = operands
    found = bincount_kernel(x, weights[0] if weights else None, node.op.length)
    return None if found is None else Kernel(*found, fallible=True)


@native(IsIn)
def isin(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """By bisection of the sorted set, or by comparing all."""
    del results
    assert isinstance(node.op, IsIn)
    found = membership_kernel(*operands, invert=node.op.invert)
    return None if found is None else Kernel(*found.kernel, after=found.after)
