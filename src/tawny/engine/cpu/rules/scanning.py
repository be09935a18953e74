"""Native kernels of running sums and products."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.cpu.kernel_table import Kernel, Memory, native
from tawny.engine.cpu.kernels.scan import ScanSpec, scan_kernel
from tawny.node import Node
from tawny.op import ELEMENTWISE
from tawny.ops.reduction import Cumulative, CumulativeProd, CumulativeSum


def _scan(
    name: str, first: int, node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    assert isinstance(node.op, Cumulative)
    start = float(first) if node.op.include_initial else None
    found = scan_kernel(ScanSpec(ELEMENTWISE[name], node.op.axis, start), operands[0], results[0])
    return None if found is None else Kernel(*found)


@native(CumulativeSum)
def running_sum(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Each element added to the sum before it."""
    return _scan("add", 0, node, operands, results)


@native(CumulativeProd)
def running_product(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Each element times the product before it."""
    return _scan("multiply", 1, node, operands, results)
