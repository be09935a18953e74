"""Products of bfloat16 with float32 sums: what fusion makes of products of numbers that fit it.

The right factor has two neighbours of the common axis side by side, as processors take them.  No
user writes these ops: `rewrite` puts them where they compute the same products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.dtype import FLOAT32, DType, is_bfloat16
from tawny.errors import type_error
from tawny.op import Gradient, Op
from tawny.ops.byte_products import rows_apart
from tawny.ops.convolution import ConvolutionOp
from tawny.ops.linalg import Matmul
from tawny.rows import Rows, RowSlice, broadcast_rows, row_axis
from tawny.shape import Shape, size

TOGETHER: Final = 2
"""Numbers of the common axis that stand side by side."""


def _sum_dtype(op: str, dtypes: tuple[DType, ...]) -> DType:
    if not all(map(is_bfloat16, dtypes[:2])):
        listed = " and ".join(map(str, dtypes[:2]))
        raise type_error(op, f"operands have dtypes {listed}; accepted: bfloat16")
    return FLOAT32


class MatmulHalves(Op, may_fail=False, name="matmul_halves", arity=2, gradient=Gradient.NONE):
    """Matrix product of bfloat16 with float32 sums."""

    def infer_dtype(self, *dtypes: DType) -> DType:
        return _sum_dtype("matmul_halves", dtypes)

    def infer_shape(self, *shapes: Shape) -> Shape:
        left, right = shapes
        return Matmul().infer_shape(left, rows_apart("matmul_halves", right, TOGETHER))

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return operands[0][-1] * size(result)

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Matrices of a stack by themselves; of one matrix, rows of the left one."""
        left, right = operands
        axis, stack = row_axis(shape), shape[:-2]
        if len(left) < 2 or axis == len(shape) - 1:
            return None
        reads: tuple[Rows | None, ...] = (rows, None)
        if axis < len(stack):
            reads = broadcast_rows(left[:-2], stack, rows), broadcast_rows(right[:-3], stack, rows)
        return RowSlice(self, reads, rows)


class ConvolutionHalves(ConvolutionOp, name="convolution_halves", arity=2, gradient=Gradient.NONE):
    """Convolution of bfloat16 with float32 sums."""

    def infer_dtype(self, *dtypes: DType) -> DType:
        return _sum_dtype("convolution_halves", dtypes)

    def infer_shape(self, *shapes: Shape) -> Shape:
        whole = rows_apart("convolution_halves", shapes[1], TOGETHER)
        return self.output_shape(shapes[0], whole, "convolution_halves")

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        x, kernel = operands
        whole = rows_apart("convolution_halves", kernel, TOGETHER)
        return self.slice_output_rows(shape, (x, whole), rows)

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        kernel = rows_apart("convolution_halves", operands[1], TOGETHER)
        return size(kernel[:-1]) * size(result)
