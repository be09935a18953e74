"""Operands of `matmul` as stacks of matrices: what is multiplied, and how it lies in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tawny.engine.cpu.kernels.kernel import ArrayLayout
from tawny.engine.cpu.products.sharing import Axis
from tawny.ops.fused_products import Epilogue
from tawny.shape import Shape


@dataclass(frozen=True, slots=True)
class Matrices:
    """A stack of products of (rows, depth) and (depth, columns); steps are in bytes.

    Elements of a row of the result are side by side.
    """

    rows: int
    columns: int
    depth: int
    a_row: int
    a_step: int
    b_row: int
    b_column: int
    c_row: int
    residual_row: int
    residual_column: int
    bias_row: int
    bias_column: int
    stack: tuple[Axis, ...]
    exchanged: bool = False
    """Whether the left matrix is made from operand 1, the right one from operand 0."""

    @property
    def numbers(self) -> dict[str, int]:
        """Numbers that compiled code reads."""
        names = (
            "columns",
            "depth",
            "a_row",
            "a_step",
            "b_row",
            "b_column",
            "c_row",
            "residual_row",
        )
        return {name: int(getattr(self, name)) for name in names}


class _View(NamedTuple):
    shape: Shape
    strides: tuple[int, ...]

    def stack_stride(self, axis: int) -> int:
        """Bytes between matrices along an axis of the stack, counted from its end: -1, -2 ..."""
        place = axis - 2
        return self.strides[place] if -place <= len(self.shape) and self.shape[place] > 1 else 0


def matrices_of(
    a: ArrayLayout,
    b: ArrayLayout,
    result: ArrayLayout,
    extra: Sequence[ArrayLayout],
    transposed: tuple[bool, bool],
    epilogue: Epilogue,
    *,
    exchanges: bool = True,
) -> Matrices:
    """The stack of products that `matmul` makes of its operands, with as few axes as can be.

    `extra` are the epilogue's operands.  Factors are exchanged where that makes a column a row, if
    `exchanges` says that products are the same then.
    """
    has = len(a.shape) > 1, len(b.shape) > 1
    left = _transpose(a) if transposed[0] else _as_matrix(a, (has[0], True))
    right = _transpose(b) if transposed[1] else _as_matrix(b, (True, has[1]))
    out = _as_matrix(result, has)
    residual = _as_matrix(extra[-1], has) if epilogue.residual else out
    bias = _as_matrix(extra[0], has) if epilogue.bias else _View((1, 1), (0, 0))
    found = Matrices(
        rows=out.shape[-2],
        columns=out.shape[-1],
        depth=left.shape[-1],
        a_row=left.strides[-2],
        a_step=left.strides[-1],
        b_row=right.strides[-2],
        b_column=right.strides[-1],
        c_row=out.strides[-2],
        residual_row=residual.strides[-2],
        residual_column=residual.strides[-1],
        bias_row=bias.strides[-2] if bias.shape[-2] > 1 else 0,
        bias_column=bias.strides[-1] if bias.shape[-1] > 1 else 0,
        stack=tuple(
            [
                Axis(out.shape[i - 2], *[v.stack_stride(i) for v in (left, right, out, residual)])
                for i in range(2 - len(out.shape), 0)
            ]
        ),
    )
    return _simplify(found, result.dtype.itemsize, exchanges=exchanges)


def _as_matrix(layout: ArrayLayout, has: tuple[bool, bool]) -> _View:
    """With axes of size 1 for rows or columns that it does not have."""
    shape, strides = list(layout.shape), list(layout.strides)
    has_rows, has_columns = has
    if not has_columns:
        shape.append(1)
        strides.append(0)
    if not has_rows:
        shape.insert(len(shape) - 1, 1)
        strides.insert(len(strides) - 1, 0)
    missing = max(2 - len(shape), 0)
    return _View((*(1,) * missing, *shape), (*(0,) * missing, *strides))


def _transpose(layout: ArrayLayout) -> _View:
    """A matrix with rows and columns exchanged."""
    (*shape, rows, columns), (*strides, row, column) = layout.shape, layout.strides
    return _View((*shape, columns, rows), (*strides, column, row))


# -------------------------------------------------------------- simplification


def _simplify(found: Matrices, item: int, *, exchanges: bool) -> Matrices:
    """Products with as few axes as can be."""
    found = replace(found, stack=tuple([axis for axis in found.stack if axis.size != 1]))
    if found.columns == 1 and found.rows != 1 and exchanges:
        found = _with_one_row(found)
    while found.stack:
        fewer = _into_rows(found) or _into_columns(found, item)
        if fewer is None:
            break
        found = fewer
    if found.columns == 1:
        found = replace(found, b_column=item, residual_column=item, bias_column=item)
    return replace(found, stack=_merge_axes(found.stack))


def _with_one_row(found: Matrices) -> Matrices:
    """A product with one column as that of a row, whose result lies in memory alike."""
    return replace(
        found,
        rows=1,
        columns=found.rows,
        a_row=0,
        a_step=found.b_row,
        b_row=found.a_step,
        b_column=found.a_row,
        residual_column=found.residual_row,
        bias_column=found.bias_row,
        stack=tuple([axis._replace(a=axis.b, b=axis.a) for axis in found.stack]),
        exchanged=True,
    )


def _into_rows(found: Matrices) -> Matrices | None:
    """The last axis of the stack as more rows.

    Its products must have the right matrix in common, and their rows follow each other.
    """
    *stack, axis = found.stack
    own = found.a_row, found.c_row, found.residual_row
    steps = axis.a, axis.c, axis.residual
    follows = steps == tuple([step * found.rows for step in own])
    if axis.b or not (found.rows == 1 or follows):
        return None
    a_row, c_row, residual_row = steps if found.rows == 1 else own
    return replace(
        found,
        rows=found.rows * axis.size,
        a_row=a_row,
        c_row=c_row,
        residual_row=residual_row,
        stack=tuple(stack),
    )


def _into_columns(found: Matrices, item: int) -> Matrices | None:
    """The last axis of the stack as more columns, where its products have one row in common."""
    *stack, axis = found.stack
    steps = axis.b, axis.c, axis.residual
    own = found.b_column, item, found.residual_column
    follows = steps == tuple([step * found.columns for step in own])
    if found.rows != 1 or axis.a or found.bias_column or not follows:
        return None
    return replace(found, columns=found.columns * axis.size, stack=tuple(stack))


def _merge_axes(stack: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Axes that follow each other in all arrays as one."""
    axes: list[Axis] = []
    for axis in stack:
        if axes and axes[-1][1:] == tuple([axis.size * step for step in axis[1:]]):
            axes[-1] = Axis(axes[-1].size * axis.size, *axis[1:])
        else:
            axes.append(axis)
    return tuple(axes)
