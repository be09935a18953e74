"""Products of matrices and of stacks of them, with operands of any strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tawny.codegen.builder import I64, Value
from tawny.codegen.element import Element, element_of
from tawny.codegen.kernel import Layout
from tawny.codegen.products.blocking import Extent, Room, cut
from tawny.codegen.products.dot import MOST_ROWS, dot_kernel
from tawny.codegen.products.epilogue import Ending
from tawny.codegen.products.form import Form, Panels, Rows, Source, TileCode
from tawny.codegen.products.loops import kernel_of
from tawny.codegen.products.matrices import Matrices, matrices_of
from tawny.codegen.products.packing import Order, order_of
from tawny.codegen.products.preparation import Preparation, Product
from tawny.codegen.products.tile import Walk, accumulate, spaced
from tawny.ops.fused import PLAIN, Epilogue

PACKING_ROWS: Final = 128
"""With fewer rows packing the right matrix costs more than it brings."""

PACKING_BYTES: Final = 2**18
"""A smaller right matrix is read where it lies, if elements of its rows are neighbours."""


STREAMED_ROWS: Final = 40
STREAMED_BYTES: Final = 2**23
"""With few rows a larger right matrix is read in order, since memory is what takes the time."""


def matmul_kernel(
    a: Layout,
    b: Layout,
    result: Layout,
    extra: Sequence[Layout] = (),
    *,
    transposed: tuple[bool, bool] = (False, False),
    epilogue: Epilogue = PLAIN,
    workers: int = 1,
    prepared: bool = False,
) -> Product | None:
    """The kernel of a product as NumPy's `matmul` takes its operands; None where it has none.

    `extra` are the epilogue's operands; `workers` is the most that are expected.  With `prepared`
    operand 1 is known before the run and may be packed for it.
    """
    element = element_of(result.dtype)
    if element is None or a.dtype != result.dtype or b.dtype != result.dtype:
        return None
    matrices = matrices_of(a, b, result, extra, transposed, epilogue)
    unit = element.nbytes
    if epilogue.residual and matrices.residual_column != unit:
        return None
    if epilogue.bias and matrices.bias_column not in {0, unit}:
        return None
    factors = ("b", "a") if matrices.exchanged else ("a", "b")
    operands = (*factors, *["bias"] * epilogue.bias, *["residual"] * epilogue.residual, "c")
    ending = Ending(epilogue, result.dtype, epilogue.bias and matrices.bias_column == 0)
    if not ending.possible:
        return None
    prepared = prepared and len(b.shape) == 2 and not matrices.exchanged
    found = product_kernel(element, ending, matrices, operands, workers, prepared=prepared)
    if found.preparation is None or not transposed[1]:
        return found
    return Product(found.code, replace(found.preparation, transposed=True))


def product_kernel(
    element: Element,
    ending: Ending,
    matrices: Matrices,
    operands: tuple[str, ...],
    workers: int,
    *,
    prepared: bool = False,
) -> Product:
    """The kernel of a stack of products of matrices.

    A right matrix that is `prepared` is one for each axis of the stack that moves on in it.
    """
    stack = math.prod([axis.size for axis in matrices.stack])
    extent = Extent(matrices.rows, matrices.columns, matrices.depth, 1, stack)
    parallel = extent.shared and workers > 1
    order = order_of(element, matrices.b_row, matrices.b_column)
    if matrices.columns == 1 and matrices.b_row == element.nbytes:
        order = Order.COLUMNS
    bytes_right = matrices.depth * matrices.columns * element.nbytes
    large = matrices.rows >= PACKING_ROWS and bytes_right > PACKING_BYTES
    panels = Panels.PACKED if large or order is not Order.ROWS else Panels.DIRECT
    panels = Panels.PREPARED if prepared else panels
    if (
        not prepared
        and order is Order.COLUMNS
        and matrices.a_step == element.nbytes
        and 0 < matrices.rows <= MOST_ROWS
    ):
        return Product(dot_kernel(element, ending, matrices, operands, shared=parallel))
    streamed = (
        panels is Panels.DIRECT and matrices.rows <= STREAMED_ROWS and bytes_right > STREAMED_BYTES
    )
    blocking = cut(element, extent, workers, packed=panels is Panels.PACKED, streamed=streamed)
    source = StridedRows(matrices.a_step == element.nbytes)
    form = Form.of(element, ending, blocking, panels, order, len(matrices.stack), source)
    packed = blocking.packed_bytes(element, matrices.depth) if panels is Panels.PACKED else 0
    room = Room(packed, blocking.sum_bytes(element))
    slots = workers if parallel else 1
    numbers = {
        **matrices.numbers,
        "taps": 1,
        "b_start": 0,
        "c_start": 0,
        **blocking.numbers,
        **room.numbers(slots),
    }
    preparation = None
    if prepared:
        groups = math.prod([axis.size for axis in matrices.stack if axis.b])
        shape = 1, matrices.depth, groups, matrices.columns
        preparation = Preparation(element, blocking, *shape)
        numbers |= {
            f"b_stack{i}": preparation.group_bytes if axis.b else 0
            for i, axis in enumerate(matrices.stack)
        }
    return Product(kernel_of([(form, numbers)], operands, parallel, room.slot * slots), preparation)


@dataclass(frozen=True, slots=True)
class StridedRows(Source):
    """Rows that are evenly spaced in memory, as are their elements."""

    neighbours: bool
    """Whether elements of a row are side by side."""

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("a_row", "a_step", "c_row", "residual_row")

    def rows(self, code: TileCode) -> Rows:
        return _Spaced(code, self.neighbours)


@dataclass(frozen=True, slots=True)
class _Spaced:
    """Rows of a tile that are evenly spaced."""

    code: TileCode
    neighbours: bool

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f, element = self.code, self.code.f, self.code.form.element
        step = f.constant(I64, element.nbytes) if self.neighbours else code.numbers["a_step"]
        rows = self.places(f.advanced(code.left, code.lower * step), "a")
        count = code.upper - code.lower
        walk = Walk(rows, step, code.block, code.panel_step, count, code.ahead)
        return accumulate(f, element, code.tile, sums, walk, code.masks)

    def places(self, base: Value, name: str) -> list[Value]:
        code = self.code
        step = code.numbers[f"{name}_row"]
        return spaced(code.f, code.f.advanced(base, code.start * step), step, code.tile.rows)
