"""Products of matrices and of stacks of them, with operands of any strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tawny.engine.cpu.kernels.element import Element, product_element
from tawny.engine.cpu.kernels.kernel import ArrayLayout
from tawny.engine.cpu.products import dot
from tawny.engine.cpu.products.blocking import Extent, Panels, cut
from tawny.engine.cpu.products.choice import ProductAlgorithm, ProductCase, choose_product
from tawny.engine.cpu.products.epilogue import TileEpilogue, without_scale
from tawny.engine.cpu.products.matrices import Matrices, matrices_of
from tawny.engine.cpu.products.preparation import KernelWithPacking, PanelPreparation
from tawny.engine.cpu.products.product import Product, kernel_of
from tawny.engine.cpu.products.tile import Walk, accumulate, evenly_spaced
from tawny.engine.cpu.products.tile_code import Rows, RowSource, TileCode
from tawny.engine.cpu.products.wide_rows import WideRows, in_chunks
from tawny.engine.llvm.ir.builder import Value
from tawny.ops.fused_products import PLAIN, Epilogue


def matmul_kernel(
    a: ArrayLayout,
    b: ArrayLayout,
    result: ArrayLayout,
    extra: Sequence[ArrayLayout] = (),
    *,
    transposed: tuple[bool, bool] = (False, False),
    epilogue: Epilogue = PLAIN,
    workers: int = 1,
    prepared: bool = False,
    element: Element | None = None,
) -> KernelWithPacking | None:
    """The kernel of a product as NumPy's `matmul` takes its operands; None where it has none.

    `extra` are the epilogue's operands; `workers` is the most that are expected.  With `prepared`
    operand 1 is known before the run and may be packed for it.  Elements are computed with as their
    dtype says, unless an `element` is given.
    """
    element = element or product_element(result.dtype)
    if element is None or a.dtype != result.dtype or b.dtype != result.dtype:
        return None
    scale_at, extra = without_scale(extra, epilogue)
    exchanges = element.together == 1
    matrices = matrices_of(a, b, result, extra, transposed, epilogue, exchanges=exchanges)
    unit = element.nbytes
    if epilogue.residual and matrices.residual_column != unit:
        return None
    if epilogue.bias and matrices.bias_column not in {0, unit}:
        return None
    factors = ("b", "a") if matrices.exchanged else ("a", "b")
    operands = (*factors, *["bias"] * epilogue.bias, *["residual"] * epilogue.residual, "c")
    own = TileEpilogue(epilogue, result.dtype, epilogue.bias and matrices.bias_column == 0)
    if not own.is_supported:
        return None
    prepared = prepared and len(b.shape) == 2 and not matrices.exchanged
    found = product_kernel(
        element, own, matrices, operands, workers, prepared=prepared, scale_at=scale_at
    )
    if isinstance(found.preparation, PanelPreparation) and transposed[1]:
        return KernelWithPacking(found.code, replace(found.preparation, transposed=True))
    return found


_PANELS: Final = {
    ProductAlgorithm.PREPARED: Panels.PREPARED,
    ProductAlgorithm.PACKED: Panels.PACKED,
    ProductAlgorithm.STREAMED: Panels.DIRECT,
    ProductAlgorithm.DIRECT: Panels.DIRECT,
}


def product_kernel(
    element: Element,
    epilogue: TileEpilogue,
    matrices: Matrices,
    operands: tuple[str, ...],
    workers: int,
    *,
    prepared: bool = False,
    scale_at: int = 0,
) -> KernelWithPacking:
    """The kernel of a stack of products of matrices.

    A right matrix that is `prepared` is one for each axis of the stack that moves on in it.  A
    scale is `scale_at` bytes from the bias.
    """
    stack = math.prod([axis.size for axis in matrices.stack])
    extent = Extent(matrices.rows, matrices.columns, matrices.depth, 1, stack)
    shared = extent.is_shared and workers > 1
    case = ProductCase(element, matrices, prepared)
    algorithm, order = choose_product(case), case.order
    if algorithm is ProductAlgorithm.DOT:
        return KernelWithPacking(
            dot.dot_kernel(element, epilogue, matrices, operands, shared=shared, scale_at=scale_at)
        )
    panels = _PANELS[algorithm]
    blocking = cut(
        element,
        extent,
        workers,
        panels=panels,
        order=order,
        streamed=algorithm is ProductAlgorithm.STREAMED,
    )
    preparation, axes = None, matrices.stack
    if prepared:
        groups = math.prod([axis.size for axis in axes if axis.b])
        shape = 1, matrices.depth, groups, matrices.columns
        preparation = PanelPreparation(element, blocking, *shape)
        nbytes = preparation.group_bytes
        axes = tuple([axis._replace(b=nbytes if axis.b else 0) for axis in axes])
    numbers = {
        **matrices.numbers,
        "taps": 1,
        "b_depth": matrices.b_row,
        "b_start": 0,
        "c_start": 0,
    }
    source: RowSource = StridedRows()
    rows_bytes = 0
    if element.stored != element.computed and matrices.a_step == element.nbytes:
        numbers["wide_row"] = matrices.depth * element.computed.nbytes
        blocking, rows_bytes = in_chunks(blocking, numbers["wide_row"])
        source = WideRows()
    product = Product(
        *(element, epilogue, blocking, panels, order, axes, source, numbers),
        rows_bytes=rows_bytes,
    )
    code = kernel_of([product], operands, workers, shared=shared, scale_at=scale_at)
    return KernelWithPacking(code, preparation)


@dataclass(frozen=True, slots=True)
class StridedRows(RowSource):
    """Rows that are evenly spaced in memory, as are their elements."""

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("a_row", "a_step", "c_row", "residual_row")

    def rows(self, code: TileCode) -> Rows:
        return _SpacedRows(code)


@dataclass(frozen=True, slots=True)
class _SpacedRows:
    """Rows of a tile that are evenly spaced."""

    code: TileCode

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f = self.code, self.code.f
        step, count = code.numbers["a_step"], code.upper - code.lower
        rows = self.places(f.offset(code.left, code.lower * step), "a")
        walk = Walk(rows, step, code.panel, code.panel_step, count, code.ahead)
        return accumulate(f, code.element, code.tile, sums, walk, code.masks)

    def places(self, base: Value, name: str) -> list[Value]:
        code, step = self.code, self.code.numbers[f"{name}_row"]
        return evenly_spaced(code.f, code.f.offset(base, code.start * step), step, code.tile.rows)
