"""Native kernels of the polynomials and convolutions chapter."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.cpu.kernel_table import Kernel, Memory, native
from tawny.engine.cpu.kernels.correlate import correlate_kernel
from tawny.node import Node
from tawny.ops.series import Correlate


@native(Correlate)
def correlate(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel:
    """Sums of products at every shift that the mode asks for."""
    assert isinstance(node.op, Correlate)
    long, other = operands
    found = correlate_kernel(
        long, other, first_shift(node.op.mode, long, other), results[0].shape[0]
    )
    return Kernel(*found.kernel, after=found.after)


def first_shift(mode: str, one: Memory, other: Memory) -> int:
    """The number of the first shift that is wanted, among all that overlap."""
    (n,), (m,) = one.shape, other.shape
    match mode:
        case "full":
            return 0
        case "valid":
            return min(n, m) - 1
        case _:
            return m - 1 - m // 2 if n >= m else n // 2
