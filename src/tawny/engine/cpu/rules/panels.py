"""The native kernel of a product that a body uses up: both, part by part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.kernels.element import element_of
from tawny.engine.cpu.kernels.elementwise import elementwise_kernel
from tawny.engine.cpu.kernels.panels import (
    WORKER_SCRATCH,
    PanelAddress,
    PanelCall,
    PanelSplit,
    panels_kernel,
)
from tawny.engine.cpu.products.blocking import Extent
from tawny.engine.cpu.products.choice import is_in_pieces, prepares_matrix
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.engine.cpu.products.matmul import matmul_kernel
from tawny.engine.cpu.products.matrices import matrices_of
from tawny.engine.cpu.products.pieces import FIXED, MOVING, Operand, pieces_kernel
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
from tawny.engine.layout import Memory, contiguous
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.scalar.bodies import Read, lower_body
from tawny.ops.body import Body
from tawny.ops.fused_products import FusedProduct, TransposedMatmul, transposes
from tawny.ops.linalg import Matmul
from tawny.shape import Shape

PANEL_BYTES: Final = 2**18
"""Bytes of a panel of the product, about: it stays in the second cache."""

DEEP_PANEL_BYTES: Final = 2**20
DEEP_BYTES: Final = 2**22
"""Bytes of a panel where the right matrix, too large for the second cache, is read for each."""

LEAST_ROWS: Final = 64
"""Rows of a panel, at least."""

SPARED: Final = 2
"""Bytes of the product, at least, for each byte of scratch memory of `NOMINAL_THREADS`."""


def product_with_body(
    op: FusedProduct,
    body: Body,
    operands: Sequence[Memory],
    results: Sequence[Memory],
    threads: int,
) -> Kernel | None:
    """A product of matrices and its body: panels of rows, or tiles of all pieces."""
    if not isinstance(op.product, (Matmul, TransposedMatmul)):
        return None
    return (_by_rows if op.pieces == 1 else _in_pieces)(op, body, operands, results, threads)


def _by_rows(
    op: FusedProduct,
    body: Body,
    operands: Sequence[Memory],
    results: Sequence[Memory],
    threads: int,
) -> Kernel | None:
    """Panels of rows: those of the product, in scratch memory, then those of the results.

    None where the product is not much larger than the panels of `NOMINAL_THREADS`, or operand 1
    is packed before the run.  On more threads the panels of all are as large as the product at
    most.
    """
    right = operands[1]
    if prepares_matrix(right, transposed=transposes(op.product)[1], known=right.constant):
        return None
    (rows, columns), dtype = body.operands[0]
    whole = rows * columns * dtype.itemsize
    deep = math.prod(right.shape) * dtype.itemsize > DEEP_BYTES
    panel = DEEP_PANEL_BYTES if deep else PANEL_BYTES
    count = min(rows // LEAST_ROWS, -(-whole // panel))
    if count < 2:
        return None
    cut = PanelSplit.of(rows, count)
    calls = [_calls(op, body, operands, results, height) for height in cut.heights]
    found = [(made, room) for made, room in calls if made is not None]
    if len(found) < len(calls):
        return None
    addresses, room = len(operands) + len(results) + 1, max(room for _, room in found)
    slots = min(threads, count)
    code = panels_kernel(cut, [made for made, _ in found], addresses, slots, room)
    nominal = code.scratch // slots * min(NOMINAL_THREADS, count)
    return Kernel(*code) if SPARED * nominal <= whole else None


def _calls(
    op: FusedProduct,
    body: Body,
    operands: Sequence[Memory],
    results: Sequence[Memory],
    height: int,
) -> tuple[list[PanelCall] | None, int]:
    """The kernels of a panel of some rows, if both can be made, and the scratch memory they need.

    There the panel of the product comes first, then what its kernel needs.
    """
    (rows, columns), dtype = body.operands[0]
    panel = contiguous((height, columns), dtype)
    nbytes = -(-height * columns * dtype.itemsize // 64) * 64
    product = _product_call(op, operands, panel, nbytes)
    others = operands[op.product_arity :]
    cut = [_panel(m, 0, height) if _spans(m.shape, rows) else m for m in others]
    rest = elementwise_kernel(
        panel_body(body, height), [panel, *cut], [_panel(r, 0, height) for r in results]
    )
    if product is None or rest is None:
        return None, 0
    assert not rest.scratch
    places = [
        PanelAddress(cell, memory.strides[0] if _spans(memory.shape, rows) else 0)
        for cell, memory in enumerate((*others, *results), op.product_arity)
    ]
    calls = [product, PanelCall(rest, (PanelAddress(WORKER_SCRATCH), *places))]
    return calls, nbytes + product.code.scratch


def _product_call(
    op: FusedProduct, operands: Sequence[Memory], panel: Memory, nbytes: int
) -> PanelCall | None:
    """The call that computes a panel of the product, whose scratch memory begins behind it."""
    height, transposed = panel.shape[0], transposes(op.product)
    axes = [
        1 if transposed[0] else 0,
        None,
        *[None] * op.epilogue.bias,
        *[0] * op.epilogue.residual,
    ]
    given = [
        memory if axis is None else _panel(memory, axis, height)
        for memory, axis in zip(operands, axes, strict=False)
    ]
    moves = [
        PanelAddress(cell, 0 if axis is None else operands[cell].strides[axis])
        for cell, axis in enumerate(axes)
    ]
    made = matmul_kernel(
        *(given[0], given[1], panel, given[2:]), transposed=transposed, epilogue=op.epilogue
    )
    if made is None:
        return None
    scratch = [PanelAddress(WORKER_SCRATCH, 0, nbytes)] if made.code.scratch else []
    return PanelCall(made.code, (*moves, PanelAddress(WORKER_SCRATCH), *scratch))


def _spans(shape: Shape, rows: int) -> bool:
    """Whether an operand or result of the body has an element, or more, of its own for each row."""
    return len(shape) == 2 and shape[0] == rows


def _panel(memory: Memory, axis: int, height: int) -> Memory:
    """The memory of the first rows, which lie along an axis."""
    shape = list(memory.shape)
    shape[axis] = height
    return replace(memory, shape=tuple(shape))


def panel_body(body: Body, height: int) -> Body:
    """The body of some rows of a matrix."""
    (rows, _), _ = body.operands[0]

    def cut(shape: Shape) -> Shape:
        return (height, shape[1]) if _spans(shape, rows) else shape

    return Body.of(
        tuple([(cut(shape), dtype) for shape, dtype in body.operands]),
        tuple([step._replace(shape=cut(step.shape)) for step in body.steps]),
        body.results,
    )


# ---------------------------------------------------------------------- pieces


def _in_pieces(
    op: FusedProduct,
    body: Body,
    operands: Sequence[Memory],
    results: Sequence[Memory],
    threads: int,
) -> Kernel | None:
    """Tiles with some columns of each piece.

    A right matrix that is known before the run is packed for it: many products are to read it.
    None where columns of another are not side by side, or an operand does not lie in rows.
    """
    (rows, width), dtype = body.operands[0]
    element, planned = element_of(dtype), lower_body(body)
    if element is None or planned is None or op.epilogue.scaled:
        return None
    whole = contiguous((rows, op.pieces * width), dtype)
    taken, transposed = operands[: op.product_arity], transposes(op.product)
    matrices = matrices_of(taken[0], taken[1], whole, taken[2:], transposed, op.epilogue)
    extent, known = Extent(rows, op.pieces * width, matrices.depth), operands[1].constant
    if not host().has_fma or not is_in_pieces(
        element, planned.code, extent, op.pieces, prepared=known
    ):
        return None
    item, epilogue = element.nbytes, TileEpilogue(op.epilogue, dtype)
    columns = [
        *[matrices.b_column] * (not known),
        *[matrices.residual_column] * op.epilogue.residual,
        *[matrices.bias_column] * op.epilogue.bias,
    ]
    if columns != [item] * len(columns) or not epilogue.is_supported or matrices.stack:
        return None
    reads = [_read(op, read, operands) for read in planned.reads]
    if any(read is None for read in reads):
        return None
    names = (
        *("a", "b"),
        *["bias"] * op.epilogue.bias,
        *["residual"] * op.epilogue.residual,
        *[f"other{i}" for i in range(len(operands) - op.product_arity + len(results))],
    )
    written = [Operand(len(operands) + i, memory.strides[0]) for i, memory in enumerate(results)]
    found = [read for read in reads if read is not None]
    given = element, epilogue, matrices, planned.code, found, written, names
    code, preparation = pieces_kernel(
        *given, threads, op.pieces, prepared=known, transposed=transposed[1]
    )
    return Kernel(*code, prepared=() if preparation is None else ((1, preparation),))


def _read(op: FusedProduct, read: Read, operands: Sequence[Memory]) -> int | Operand | None:
    """A piece of the product, or where what is read lies; None where it does not lie in rows."""
    if read.operand < op.pieces:
        return read.operand
    cell = read.operand - op.pieces + op.product_arity
    steps = dict(zip(read.view, operands[cell].strides, strict=True))
    column = steps.get(1, 0)
    if column not in {0, operands[cell].dtype.itemsize}:
        return None
    return Operand(cell, steps.get(0, 0), MOVING if column else FIXED)
