"""Products of bytes with 32-bit sums: what fusion makes of products of integers that fit bytes.

The right factor has four neighbours of the common axis side by side, as processors take them.  No
user writes these ops: `rewrite` puts them where they compute the same integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.dtype import INT8, INT32, UINT8, DType
from tawny.errors import type_error, value_error
from tawny.op import Gradient, Op
from tawny.ops.convolution import ConvolutionOp, convolution_shape
from tawny.ops.linalg import Matmul
from tawny.rows import Rows, RowSlice, broadcast_rows, row_axis
from tawny.shape import Shape, size

TOGETHER: Final = 4
"""Bytes of the common axis that stand side by side."""


def _sum_dtype(op: str, dtypes: tuple[DType, ...]) -> DType:
    if dtypes != (UINT8, INT8):
        listed = " and ".join(map(str, dtypes))
        raise type_error(op, f"operands have dtypes {listed}; accepted: uint8 and int8")
    return INT32


def rows_apart(op: str, shape: Shape, together: int = TOGETHER) -> Shape:
    """The shape of a right factor with one row for each of those that stand side by side."""
    if len(shape) < 3 or shape[-1] != together:
        raise value_error(
            op, f"operand 1 has shape {shape}; its last axis must be {together} rows side by side"
        )
    return (*shape[:-3], shape[-3] * together, shape[-2])


class MatmulBytes(Op, name="matmul_bytes", arity=2, may_fail=False, gradient=Gradient.NONE):
    """Matrix product of uint8 and int8, with int32 sums."""

    def infer_dtype(self, *dtypes: DType) -> DType:
        return _sum_dtype("matmul_bytes", dtypes)

    def infer_shape(self, *shapes: Shape) -> Shape:
        left, right = shapes
        return Matmul().infer_shape(left, rows_apart("matmul_bytes", right))

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return operands[0][-1] * size(result)

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Matrices of a stack by themselves; of one matrix, rows of the left one."""
        left, right = operands
        axis = row_axis(shape)
        if len(left) < 2 or axis == len(shape) - 1:
            return None
        stack = shape[:-2]
        if axis == len(stack):
            return RowSlice(self, (rows, None), rows)
        reads = broadcast_rows(left[:-2], stack, rows), broadcast_rows(right[:-3], stack, rows)
        return RowSlice(self, reads, rows)


class ConvolutionBytes(ConvolutionOp, name="convolution_bytes", arity=2, gradient=Gradient.NONE):
    """Convolution of uint8 by int8, with int32 sums."""

    def infer_dtype(self, *dtypes: DType) -> DType:
        return _sum_dtype("convolution_bytes", dtypes)

    def infer_shape(self, *shapes: Shape) -> Shape:
        x, kernel = shapes
        whole = rows_apart("convolution_bytes", kernel)
        geometry = self.strides, self.padding, self.dilation, self.groups
        return convolution_shape(x, whole, *geometry, "convolution_bytes")

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        x, kernel = operands
        return self.slice_output_rows(shape, (x, rows_apart("convolution_bytes", kernel)), rows)

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        kernel = rows_apart("convolution_bytes", operands[1])
        return size(kernel[:-1]) * size(result)
