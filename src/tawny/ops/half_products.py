"""Products of bfloat16 with float32 sums: what fusion makes of products of numbers that fit it.

The right factor has two neighbours of the common axis side by side, as processors take them.  No
user writes these ops: `rewrite` puts them where they compute the same products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.dtype import FLOAT32, DType, is_bfloat16
from tawny.errors import type_error
from tawny.op import Gradient, Op, Type
from tawny.ops.byte_products import rows_apart
from tawny.ops.convolution import ConvolutionOp, convolution_shape
from tawny.ops.fusion import Epilogue
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


class MatmulHalves(Op, may_fail=False, name="matmul_halves", arity=None, gradient=Gradient.NONE):
    """Matrix product of bfloat16 with float32 sums, and its epilogue."""

    epilogue: Epilogue

    def infer_dtype(self, *dtypes: DType) -> DType:
        return _sum_dtype("matmul_halves", dtypes)

    def infer_shape(self, *shapes: Shape) -> Shape:
        left, right = shapes[:2]
        return Matmul().infer_shape(left, rows_apart("matmul_halves", right, TOGETHER))

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        product = self.infer_shape(*[shape for shape, _ in types]), FLOAT32
        self.epilogue.check("matmul_halves", product, types[2:])
        return ()

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """The residual, which is read where the result is written."""
        return frozenset({len(types) - 1}) if self.epilogue.residual else frozenset()

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return operands[0][-1] * size(result)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        products = 2 * self.multiply_adds(result, operands)
        return products + self.epilogue.operations(size(result))

    def operand_counts(self) -> Sequence[int]:
        return (2 + self.epilogue.arity,)

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Matrices of a stack by themselves; of one matrix, rows of the left one."""
        left, right, *others = operands
        axis, stack = row_axis(shape), shape[:-2]
        if len(left) < 2 or axis == len(shape) - 1:
            return None
        reads: tuple[Rows | None, ...] = (rows, None)
        if axis < len(stack):
            reads = broadcast_rows(left[:-2], stack, rows), broadcast_rows(right[:-3], stack, rows)
        return RowSlice(self, (*reads, *self.epilogue.row_reads(shape, others, rows)), rows)


class ConvolutionHalves(
    ConvolutionOp, name="convolution_halves", arity=None, gradient=Gradient.NONE
):
    """Convolution of bfloat16 with float32 sums, and its epilogue."""

    epilogue: Epilogue

    def infer_dtype(self, *dtypes: DType) -> DType:
        return _sum_dtype("convolution_halves", dtypes)

    def infer_shape(self, *shapes: Shape) -> Shape:
        whole = rows_apart("convolution_halves", shapes[1], TOGETHER)
        geometry = self.strides, self.padding, self.dilation, self.groups
        return convolution_shape(shapes[0], whole, *geometry, "convolution_halves")

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        product = self.infer_shape(*[shape for shape, _ in types]), FLOAT32
        self.epilogue.check("convolution_halves", product, types[2:])
        return ()

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """The residual, which is read where the result is written."""
        return frozenset({len(types) - 1}) if self.epilogue.residual else frozenset()

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        x, kernel, *others = operands
        whole = rows_apart("convolution_halves", kernel, TOGETHER)
        found = self.slice_output_rows(shape, (x, whole), rows)
        if found is None:
            return None
        return found._replace(reads=(*found.reads, *self.epilogue.row_reads(shape, others, rows)))

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        kernel = rows_apart("convolution_halves", operands[1], TOGETHER)
        return size(kernel[:-1]) * size(result)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        products = 2 * self.multiply_adds(result, operands)
        return products + self.epilogue.operations(size(result))

    def operand_counts(self) -> Sequence[int]:
        return (2 + self.epilogue.arity,)
