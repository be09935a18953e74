"""Which algorithm computes a product: tables of conditions, of which the first that holds decides.

`choose_product`, `choose_convolution` and `choose_kernel_gradient` read a table each.  Nothing else
in the engine chooses between algorithms: kernels say how to compute, not when.  `is_in_pieces`
decides for groups that use a product up.

Constants name the benchmark that set them.  No choice depends on the number of threads, since
algorithms differ in how they round.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import ArrayLayout
from tawny.engine.cpu.products.blocking import Extent
from tawny.engine.cpu.products.correlation import LINE_BYTES, Correlation
from tawny.engine.cpu.products.dot import HEIGHT
from tawny.engine.cpu.products.geometry import Sweep, as_matrices
from tawny.engine.cpu.products.group_gradient import gradient_width
from tawny.engine.cpu.products.group_windows import group_order
from tawny.engine.cpu.products.groups import Groups
from tawny.engine.cpu.products.lines import Line
from tawny.engine.cpu.products.matrices import Matrices
from tawny.engine.cpu.products.packing import Order, order_of
from tawny.engine.cpu.products.sharing import ceil_divide
from tawny.engine.cpu.products.tile import tallest, widest
from tawny.engine.cpu.products.windows import WindowAxis
from tawny.engine.cpu.products.winograd_direct import MOST_CHANNELS
from tawny.engine.llvm.scalar.bodies import ElementCode

A = TypeVar("A")
C = TypeVar("C")


def _first(table: tuple[tuple[Callable[[C], bool], A], ...], case: C) -> A:
    """The algorithm of the first row whose condition holds; that of the last always does."""
    return next(algorithm for condition, algorithm in table if condition(case))


def _otherwise(case: object) -> bool:
    """Whatever no other row is for."""
    del case
    return True


# --------------------------------------------------------------------- matrices


class ProductAlgorithm(enum.Enum):
    """The algorithm that computes a stack of products of matrices."""

    PREPARED = "tiles, from panels that are packed before the run"
    DOT = "rows times columns, both where they lie: partial sums in the lanes of vectors"
    PACKED = "tiles, from panels that each worker packs"
    STREAMED = "tiles, the right matrix read once, in the order of its rows"
    DIRECT = "tiles, the right matrix read where it lies"


class ProductCase(NamedTuple):
    """All that the choice for a stack of products depends on."""

    element: Element
    matrices: Matrices
    prepared: bool
    """Whether the right matrix is packed before the run."""

    @property
    def right_bytes(self) -> int:
        """Bytes of a right matrix."""
        return self.matrices.depth * self.matrices.columns * self.element.nbytes

    @property
    def order(self) -> Order:
        """How the right matrix lies; a single column lies in whatever way its elements do."""
        if self.matrices.columns == 1 and self.matrices.b_row == self.element.nbytes:
            return Order.COLUMNS
        return order_of(self.element, self.matrices.b_row, self.matrices.b_column)


DOT_ROWS: Final = 32
DOT_DEPTH: Final = 128
DOT_COLUMNS: Final = 64
"""Up to this many rows dot products are faster if depth and columns are at least these; else up to
the `HEIGHT` of rows that are walked side by side; `benchmarks/cpu_products.py`."""

PACKING_ROWS: Final = 128
WIDE_BYTES: Final = 256
"""Rows from which packing the right matrix pays, for panels with rows of `WIDE_BYTES`; narrower
ones touch more of memory than they use, unless packed; `benchmarks/cpu_products.py`."""

PACKING_BYTES: Final = 2**18
"""A smaller right matrix is read where it lies; `benchmarks/cpu_products.py`."""

STREAMED_ROWS: Final = 40
STREAMED_BYTES: Final = 2**23
"""With at most these rows, and a right matrix of more bytes, memory takes the time: it is read in
order; `benchmarks/cpu_nets.py`, the last layers of VGG16."""


def _is_prepared(case: ProductCase) -> bool:
    return case.prepared


def _is_dot(case: ProductCase) -> bool:
    """Elements along the depth are side by side in both matrices, and rows are few."""
    together = case.order is Order.COLUMNS and case.matrices.a_step == case.element.nbytes
    deep = case.matrices.depth >= DOT_DEPTH and case.matrices.columns >= DOT_COLUMNS
    few = 0 < case.matrices.rows <= (DOT_ROWS if deep else HEIGHT)
    return together and few and case.element.together == 1


def _is_packed(case: ProductCase) -> bool:
    return case.order is not Order.ROWS or is_large(
        case.element, case.matrices.rows, case.right_bytes
    )


def is_large(element: Element, rows: int, right_bytes: int) -> bool:
    """Whether a right matrix is packed though elements of its rows are side by side."""
    width = min(widest() * element.vector_bytes, WIDE_BYTES)
    return rows >= PACKING_ROWS * width // WIDE_BYTES and right_bytes > PACKING_BYTES


def _is_streamed(case: ProductCase) -> bool:
    return case.matrices.rows <= STREAMED_ROWS and case.right_bytes > STREAMED_BYTES


PRODUCTS: Final[tuple[tuple[Callable[[ProductCase], bool], ProductAlgorithm], ...]] = (
    (_is_prepared, ProductAlgorithm.PREPARED),
    (_is_dot,      ProductAlgorithm.DOT),
    (_is_packed,   ProductAlgorithm.PACKED),
    (_is_streamed, ProductAlgorithm.STREAMED),
    (_otherwise,   ProductAlgorithm.DIRECT),
)  # fmt: skip


def choose_product(case: ProductCase) -> ProductAlgorithm:
    """How a stack of products of matrices is computed."""
    return _first(PRODUCTS, case)


def prepares_matrix(b: ArrayLayout, *, transposed: bool, known: bool) -> bool:
    """Whether the right matrix of a product is packed before the run.

    One that is `known`, and lies so that every run would have to pack it, is.  Others are read
    where they lie: nearly as fast, and there is no second copy.
    """
    if len(b.shape) != 2:
        return False
    return known and not _side_by_side(b, -2 if transposed else -1)


def prepares_kernel(kernel: ArrayLayout, *, known: bool) -> bool:
    """Whether the kernel of a convolution is packed before the run, as a matrix would be."""
    return known and not _side_by_side(kernel, -1)


def _side_by_side(layout: ArrayLayout, axis: int) -> bool:
    """Whether elements along an axis are neighbours."""
    return layout.strides[axis] == layout.dtype.itemsize or layout.shape[axis] <= 1


# ----------------------------------------------------------------- convolutions


class ConvolutionAlgorithm(enum.Enum):
    """The algorithm that computes a sweep of windows."""

    MATRICES = "a product of matrices: windows of one tap, positions evenly spaced"
    WINOGRAD = "squares of 2 by 2 outputs by 16 products instead of 36"
    GROUPS = "groups of few channels: several of them in a vector, pixels shared by windows"
    DOTS = "few outputs: lines of pixels times lines of the kernel"
    LINES = "windows over lines that are copied, with zeros around them"
    WINDOWS = "windows over the input where it lies"


@dataclass(frozen=True, slots=True)
class ConvolutionCase:
    """All that the choice for a sweep of windows depends on."""

    element: Element
    sweep: Sweep
    alone: bool = True
    """Whether this sweep makes all of the result."""
    prepared: bool = False
    """Whether the kernel is packed before the run."""
    known: bool = False
    """Whether the kernel is known before the run, and may be packed for it."""

    @property
    def is_real(self) -> bool:
        """Whether elements are real floating-point numbers."""
        element = self.element
        return element.computed.floating and element.parts == element.together == 1


WINOGRAD_POSITIONS: Final = 49
"""With fewer positions transforming the kernel takes too long; `benchmarks/cpu_products.py`, the
layers of ResNet50 on 7 by 7 positions."""

WINOGRAD_TURNED: Final = 100
"""Fewest positions where every run has to transpose the kernel too; `benchmarks/cpu_products.py
--backward`."""

WINOGRAD_CHANNELS: Final = 32
"""Fewest channels, and outputs, whose products outweigh the transformations;
`benchmarks/cpu_products.py`."""

GROUP_CHANNELS: Final = {Order.ROWS: 32, Order.COLUMNS: 16}
"""The most channels of a group that stand side by side in vectors, by how the kernel lies: larger
ones take too long to transpose; `benchmarks/cpu_groups.py`."""

GROUP_GRADIENT_CHANNELS: Final = 16
"""The most channels of a group for gradients of kernels; `benchmarks/cpu_groups.py`."""

LINE_PIXEL_BYTES: Final = 16
"""Pixels of at most this many bytes are too short to be multiplied tap by tap: lines are copied;
`benchmarks/cpu_products.py`, first layers of networks."""

WIDE_TAPS: Final = 16
WIDE_PIXEL_BYTES: Final = 64
"""Of windows of more taps along a line also those of longer pixels; `benchmarks/onnx_models.py`,
the pitches of music."""

LEAST_DOT: Final = 12
"""Elements of a window's line that fill vectors; `benchmarks/onnx_models.py`, pitches of music."""

GRADIENT_PIXEL_BYTES: Final = 8
"""Pixels of at most this many bytes are copied for gradients of kernels."""


def _is_matrices(case: ConvolutionCase) -> bool:
    return case.alone and as_matrices(case.sweep, case.element.nbytes) is not None


def _is_winograd(case: ConvolutionCase) -> bool:
    """Windows of 3 by 3 without strides, over whole vectors of channels and outputs."""
    element, sweep = case.element, case.sweep
    turned = order_of(element, sweep.b_row, sweep.b_column) is not Order.ROWS
    least = WINOGRAD_TURNED if turned and not case.prepared else WINOGRAD_POSITIONS
    return (
        case.alone
        and case.is_real
        and element.stored == element.computed
        and len(sweep.axes) == 2
        and all(_is_three(axis) for axis in sweep.axes)
        and sweep.groups == 1
        and sweep.a_step == element.nbytes
        and sweep.channels % element.lanes == 0
        and sweep.outputs % element.lanes == 0
        and WINOGRAD_CHANNELS <= sweep.channels <= MOST_CHANNELS
        and sweep.outputs >= WINOGRAD_CHANNELS
        and sweep.extent.rows >= least
    )


def _is_three(axis: WindowAxis) -> bool:
    """Whether windows have three neighbours along an axis and move on by one."""
    return axis.taps == 3 and axis.stride == 1 and abs(axis.dilation) == 1


def _is_groups(case: ConvolutionCase) -> bool:
    """Groups of few channels that are side by side."""
    sweep, element = case.sweep, case.element
    order = group_order(element, sweep) if sweep.groups > 1 else None
    if order is None or sweep.extent.empty:
        return False
    few = 0 < max(sweep.channels, sweep.outputs) <= GROUP_CHANNELS[order]
    return few and element.parts == 1 and Groups(sweep.channels, sweep.outputs).fits(element)


def _is_dots(case: ConvolutionCase) -> bool:
    """Outputs are few for what windows see of a line, and the kernel is packed for it.

    Vectors of outputs would take a product for each element of a line; lines of elements take one
    for each output and vector, and one to add up its lanes.
    """
    element, sweep, known = case.element, case.sweep, case.known or case.prepared
    if not known or not case.is_real or sweep.groups != 1 or sweep.extent.empty:
        return False
    last = sweep.axes[-1]
    length = last.taps * sweep.channels
    return (
        last.dilation == 1
        and length >= LEAST_DOT
        and sweep.outputs <= element.lanes // 2
        and sweep.outputs * (ceil_divide(length, element.lanes) + 1) < length
    )


def _is_lines(case: ConvolutionCase) -> bool:
    """Pixels are short and windows wide, or channels are not side by side."""
    sweep, item = case.sweep, case.element.nbytes
    if sweep.extent.empty:
        return False
    taps, pixel = sweep.axes[-1].taps, sweep.channels * item
    short = taps > 1 and pixel <= (LINE_PIXEL_BYTES if taps < WIDE_TAPS else WIDE_PIXEL_BYTES)
    return short or (sweep.channels > 1 and sweep.a_step != item)


CONVOLUTIONS: Final[tuple[tuple[Callable[[ConvolutionCase], bool], ConvolutionAlgorithm], ...]] = (
    (_is_matrices, ConvolutionAlgorithm.MATRICES),
    (_is_winograd, ConvolutionAlgorithm.WINOGRAD),
    (_is_groups,   ConvolutionAlgorithm.GROUPS),
    (_is_dots,     ConvolutionAlgorithm.DOTS),
    (_is_lines,    ConvolutionAlgorithm.LINES),
    (_otherwise,   ConvolutionAlgorithm.WINDOWS),
)  # fmt: skip


def choose_convolution(case: ConvolutionCase) -> ConvolutionAlgorithm:
    """How a convolution is computed, or the gradient of its input."""
    return _first(CONVOLUTIONS, case)


# --------------------------------------------------------- gradients of kernels


class GradientAlgorithm(enum.Enum):
    """The algorithm that computes the gradient of a convolution's kernel."""

    WINOGRAD = "squares of 2 by 2 outputs by 16 products instead of 36"
    GROUPS = "groups of few channels: several of them in a vector, pixels shared by taps"
    LINES = "all taps along lines that are copied, with zeros around them"
    TAPS = "tap by tap, a product over all positions"


class GradientCase(NamedTuple):
    """All that the choice for the gradient of a kernel depends on."""

    element: Element
    correlation: Correlation
    together: bool = True
    """Whether channels of the input are side by side."""


GRADIENT_POSITIONS: Final = 40
"""With fewer positions transformations take too long; `benchmarks/cpu_products.py --backward`."""

GRADIENT_ROWS: Final = 16
"""Channels come in multiples of this, so that tiles have two heights only."""


def _is_gradient_winograd(case: GradientCase) -> bool:
    """Windows of 3 by 3 without strides, each tap of which sees most of the positions."""
    element, found = case.element, case.correlation
    return (
        len(found.axes) == 2
        and found.groups == 1
        and all(_is_three(axis) and axis.dilation == 1 for axis in found.axes)
        and all(map(_sees_most, found.axes))
        and element.stored == element.computed
        and element.parts == 1
        and element.computed.floating
        and found.a_row == element.nbytes
        and found.channels % GRADIENT_ROWS == 0
        and found.outputs % element.lanes == 0
        and min(found.channels, found.outputs) >= WINOGRAD_CHANNELS
        and found.batch * math.prod([axis.count for axis in found.axes]) >= GRADIENT_POSITIONS
    )


def _sees_most(axis: WindowAxis) -> bool:
    """Whether each tap sees the input, and not what is around it, at half of the positions."""
    seen = [
        min(axis.size - first, axis.count) - max(-first, 0)
        for first in range(axis.origin, axis.origin + axis.taps)
    ]
    return 2 * min(seen) >= axis.count


def _is_gradient_groups(case: GradientCase) -> bool:
    """Channels are side by side, and the sums of a tile fit."""
    element, found = case.element, case.correlation
    return (
        found.groups > 1
        and 0 < found.channels <= GROUP_GRADIENT_CHANNELS
        and not found.extent.empty
        and case.together
        and element.parts == 1
        and gradient_width(element, found)[0] > 0
    )


def _is_gradient_lines(case: GradientCase) -> bool:
    """Pixels are short, windows wide and without holes, and a line fits where it is copied to."""
    element, found = case.element, case.correlation
    last = found.axes[-1]
    line = Line.of(last, found.channels, element.nbytes, found.a_row)
    return (
        case.together
        and found.channels * element.nbytes <= GRADIENT_PIXEL_BYTES
        and last.taps > 1
        and last.dilation == 1
        and found.groups <= 1
        and not found.extent.empty
        and line.nbytes <= LINE_BYTES
    )


KERNEL_GRADIENTS: Final[tuple[tuple[Callable[[GradientCase], bool], GradientAlgorithm], ...]] = (
    (_is_gradient_winograd, GradientAlgorithm.WINOGRAD),
    (_is_gradient_groups,   GradientAlgorithm.GROUPS),
    (_is_gradient_lines,    GradientAlgorithm.LINES),
    (_otherwise,            GradientAlgorithm.TAPS),
)  # fmt: skip


def choose_kernel_gradient(case: GradientCase) -> GradientAlgorithm:
    """How the gradient of a convolution's kernel is computed."""
    return _first(KERNEL_GRADIENTS, case)


# ----------------------------------------------------------------------- groups

PIECE_SUMS: Final = 12
"""Tiles have at least this many vectors of sums: with fewer, loading takes the time;
`benchmarks/cpu_nets.py`, recurrent layers."""

MOST_PIECES: Final = 4
"""Tiles of more vectors have few rows, for which all of the right matrix is read each time."""

PIECE_BYTES: Final = 2**21
"""A larger right matrix does not stay in the caches; if not packed, it is read in longer runs;
`benchmarks/cpu_nets.py`, recurrent layers."""


def is_in_pieces(
    element: Element, code: ElementCode, extent: Extent, pieces: int, *, prepared: bool
) -> bool:
    """Whether pieces of a product, and what code makes of them, are best computed tile by tile.

    Where every run packs the right matrix, for which there are many rows, they are not.
    """
    right = extent.depth * extent.columns * element.nbytes
    return (
        not is_large(element, extent.rows, right)
        and len({*code.reads, *map(code.dtype, code.results)}) == 1
        and element.stored == element.computed
        and code.widest_lane_bytes() == element.nbytes
        and extent.columns % (pieces * element.lanes) == 0
        and (prepared or right <= PIECE_BYTES)
        and 1 < pieces <= MOST_PIECES
        and pieces * min(tallest(pieces), extent.rows) >= PIECE_SUMS
    )
