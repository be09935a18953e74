"""Native kernels of the boxes chapter."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.cpu.kernel_table import Kernel, Memory, native
from tawny.engine.cpu.kernels.suppression import SuppressionLimits, suppression_kernel
from tawny.node import Node
from tawny.ops.boxes import NonMaximumSuppression, SuppressionByClass


@native(NonMaximumSuppression)
def non_maximum_suppression(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Among all boxes."""
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
    """Among boxes of the same class."""
    del results
    op = node.op
    assert isinstance(op, SuppressionByClass)
    found = suppression_kernel(SuppressionLimits(op.count, op.threshold, op.least), *operands)
    return None if found is None else Kernel(*found)
