"""Sums of products over labelled axes of two operands, where they are products of matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.element import product_element
from tawny.engine.cpu.kernels.kernel import ArrayLayout, CompiledKernel
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.engine.cpu.products.matmul import product_kernel
from tawny.engine.cpu.products.matrices import Matrices
from tawny.engine.cpu.products.sharing import Axis
from tawny.ops.fused_products import PLAIN

LEAST_PRODUCT: Final = 256
"""Products of a stack with fewer multiplications are left to NumPy."""


class _LabelledAxis(NamedTuple):
    """A labelled axis: its size, and bytes from one element to the next in each array."""

    size: int
    a: int
    b: int
    c: int

    def follows(self, inner: _LabelledAxis) -> bool:
        """Whether this axis and one inside of it are one in every array."""
        return self[1:] == tuple([step * inner.size for step in inner[1:]])


def contraction_kernel(
    subscripts: str, a: ArrayLayout, b: ArrayLayout, result: ArrayLayout, *, workers: int = 1
) -> CompiledKernel | None:
    """The kernel of an `einsum` of two operands; None where it has none."""
    element = product_element(result.dtype)
    if element is None or a.dtype != result.dtype or b.dtype != result.dtype:
        return None
    matrices = _matrices(subscripts, a, b, result)
    if matrices is None:
        return None
    each = matrices.rows * matrices.columns * matrices.depth
    if matrices.stack and each < LEAST_PRODUCT:
        return None
    factors = ("b", "a") if matrices.exchanged else ("a", "b")
    epilogue = TileEpilogue(PLAIN, result.dtype)
    return product_kernel(element, epilogue, matrices, (*factors, "c"), workers).code


def _matrices(
    subscripts: str, a: ArrayLayout, b: ArrayLayout, result: ArrayLayout
) -> Matrices | None:
    """A contraction as a stack of products of matrices; None where it is none.

    The axis along which the result lies in memory becomes the columns; if it is one of operand 0,
    the operands change places.
    """
    inputs, _, output = subscripts.partition("->")
    left, right = inputs.split(",")
    item = result.dtype.itemsize
    axes = _labelled_axes(((left, a), (right, b), (output, result)))
    if any((label in left) + (label in right) + (label in output) < 2 for label in axes):
        return None
    exchanged = any(
        x.c == item for label, x in axes.items() if label in left and label not in right
    )
    if exchanged:
        left, right = right, left
        axes = {label: x._replace(a=x.b, b=x.a) for label, x in axes.items()}
    shared = {label: x for label, x in axes.items() if label in left and label in right}
    depths = _merge_axes([x for label, x in shared.items() if label not in output])
    rows = _merge_axes([x for label, x in axes.items() if label in left and label not in right])
    columns = _merge_axes([x for label, x in axes.items() if label in right and label not in left])
    if len(depths) > 1:
        return None
    depth = depths[0] if depths else _LabelledAxis(1, item, item, 0)
    row, other_rows = _take_out(rows, max(rows, key=lambda x: x.size, default=None))
    side = [x for x in columns if x.c == item]
    column, other_columns = _take_out(columns, side[0] if side else None)
    batch = [x for label, x in shared.items() if label in output]
    if column is None:
        column = _LabelledAxis(1, 0, item, item)
    row = _LabelledAxis(1, 0, 0, 0) if row is None else row
    return Matrices(
        rows=row.size,
        columns=column.size,
        depth=depth.size,
        a_row=row.a,
        a_step=depth.a,
        b_row=depth.b,
        b_column=column.b,
        c_row=row.c,
        residual_row=0,
        residual_column=item,
        bias_row=0,
        bias_column=item,
        stack=tuple(
            [Axis(x.size, x.a, x.b, x.c, 0) for x in (*batch, *other_rows, *other_columns)]
        ),
        exchanged=exchanged,
    )


def _labelled_axes(terms: Sequence[tuple[str, ArrayLayout]]) -> dict[str, _LabelledAxis]:
    """The axes of two operands and a result by their labels, but for those of size 1."""
    steps = [_steps(labels, m) for labels, m in terms]
    sizes: dict[str, int] = {}
    for labels, operand in terms[:2]:
        for label, n in zip(labels, operand.shape, strict=True):
            sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    return {
        label: _LabelledAxis(n, *[s.get(label, 0) for s in steps])
        for label, n in sizes.items()
        if n != 1
    }


def _steps(labels: str, layout: ArrayLayout) -> dict[str, int]:
    """Bytes from one element to the next along each label; those along a diagonal add up."""
    steps: dict[str, int] = {}
    for label, n, stride in zip(labels, layout.shape, layout.strides, strict=True):
        steps[label] = steps.get(label, 0) + (stride if n != 1 else 0)
    return steps


def _merge_axes(axes: Iterable[_LabelledAxis]) -> list[_LabelledAxis]:
    """Axes that follow each other in every array as one."""
    merged: list[_LabelledAxis] = []
    for axis in sorted(axes, key=lambda x: (-x.c, -abs(x.a), -abs(x.b))):
        if merged and merged[-1].follows(axis):
            merged[-1] = axis._replace(size=merged[-1].size * axis.size)
        else:
            merged.append(axis)
    return merged


def _take_out(
    axes: Sequence[_LabelledAxis], one: _LabelledAxis | None
) -> tuple[_LabelledAxis | None, list[_LabelledAxis]]:
    """One of the axes, and the others."""
    return one, [axis for axis in axes if axis is not one]
