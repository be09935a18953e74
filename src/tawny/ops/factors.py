"""Elimination and what follows from its factors: what several solutions and determinants share.

No user writes these ops: `rewrite` puts them where equations of one matrix are solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny import dtype as dt
from tawny.dtype import DType
from tawny.errors import type_error, value_error
from tawny.op import Gradient, Op, Type
from tawny.ops.systems import check_square
from tawny.shape import Shape, size

EXCHANGE_DTYPE: Final = dt.INT64
"""The dtype of numbers of rows."""


class Eliminate(Op, name="eliminate", gradient=Gradient.NONE):
    """Elimination with exchanges of rows: the lower factor, without its ones, and the upper one.

    Both are one matrix.  Result 1 has for each row the number of that which it changed places with,
    from the first row on.
    """

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        check_square("eliminate", shape)
        if dtype != dt.FLOAT64:
            raise type_error("eliminate", f"operand 0 has dtype {dtype}; accepted: float64")
        return (shape, dtype), (shape[:-1], EXCHANGE_DTYPE)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """A multiply-add for each row, column and pivot that are left."""
        return 2 * size(result) * result[-1] // 3


class SolveFactored(Op, name="solve_factored", arity=3, gradient=Gradient.NONE):
    """The `x` of `a @ x = b`, given what `eliminate` made of `a`; `transposed`: of its transpose.

    Right-hand sides are matrices of columns.
    """

    transposed: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        factors, exchanges, right = shapes
        check_square("solve_factored", factors)
        if exchanges != factors[:-1] or right[:-1] != factors[:-1]:
            listed = " and ".join(map(str, shapes))
            raise value_error(
                "solve_factored", f"operands have shapes {listed}; all but the last axis must fit"
            )
        return right

    def infer_dtype(self, *dtypes: DType) -> DType:
        factors, exchanges, right = dtypes
        if (factors, exchanges, right) != (dt.FLOAT64, EXCHANGE_DTYPE, dt.FLOAT64):
            listed = ", ".join(map(str, dtypes))
            raise type_error(
                "solve_factored",
                f"operands have dtypes {listed}; accepted: float64, {EXCHANGE_DTYPE}, float64",
            )
        return right

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """A multiply-add for each element of the factors and each column."""
        return 2 * size(result) * operands[0][-1]
