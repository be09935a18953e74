"""Native kernels of sorting, of searching in sorted arrays and of counting."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.codegen.searching import SEARCH, counting, searching
from tawny.codegen.sorting import sorting
from tawny.engine.cpu.kernels import Kernel, Memory, native
from tawny.node import Node
from tawny.ops.sorting import ArgSort, BinCount, Digitize, SearchSorted, Sort


@native(Sort, scratch=False)
def sort(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Short rows."""
    op = node.op
    assert isinstance(op, Sort)
    found = sorting(operands[0], results[0], op.axis, places=False, descending=op.descending)
    return None if found is None else Kernel(*found)


@native(ArgSort, scratch=False)
def argsort(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Short rows."""
    op = node.op
    assert isinstance(op, ArgSort)
    found = sorting(operands[0], results[0], op.axis, places=True, descending=op.descending)
    return None if found is None else Kernel(*found)


@native(SearchSorted, scratch=False)
def searchsorted(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """By bisection."""
    del results
    assert isinstance(node.op, SearchSorted)
    found = searching(*operands, right=node.op.right, edges=False)
    return None if found is None else Kernel(*found)


@native(Digitize, scratch=False)
def digitize(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """By bisection of edges that rise or fall: an edge itself belongs before it if `right`."""
    del results
    assert isinstance(node.op, Digitize)
    x, bins = operands
    found = searching(bins, x, right=not node.op.right, edges=True)
    return None if found is None else Kernel(*found, after=((SEARCH, True),), fallible=True)


@native(BinCount, scratch=False)
def bincount(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Counts, or sums of weights."""
    del results
    assert isinstance(node.op, BinCount)
    x, *weights = operands
    found = counting(x, weights[0] if weights else None, node.op.length)
    return None if found is None else Kernel(*found, fallible=True)
