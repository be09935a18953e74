"""Which algorithm computes a product: layers that are well known, and every row of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from codegen_harness import Memory
from tawny.engine.cpu.kernels.element import Element, product_element
from tawny.engine.cpu.products import tile
from tawny.engine.cpu.products.choice import (
    CONVOLUTIONS,
    KERNEL_GRADIENTS,
    PRODUCTS,
    ConvolutionCase,
    GradientCase,
    ProductCase,
    choose_convolution,
    choose_kernel_gradient,
    choose_product,
    prepares_kernel,
    prepares_matrix,
)
from tawny.engine.cpu.products.correlation import correlation
from tawny.engine.cpu.products.geometry import backward, forward
from tawny.engine.cpu.products.matrices import matrices_of
from tawny.engine.llvm.ir.builder import F32
from tawny.ops.convolution import Convolution, ConvolutionInputGradient
from tawny.ops.fused_products import PLAIN

VECTORS = {"AVX-512": (64, 32), "AVX2": (32, 16)}
"""Bytes of a vector, and how many registers there are."""


@pytest.fixture(autouse=True, params=VECTORS)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The bytes of a vector; choices are made for the machine that is asked for, not the host."""
    nbytes, registers = VECTORS[request.param]
    monkeypatch.setattr(tile, "registers", lambda: registers)
    return nbytes


def floats(nbytes: int) -> Element:
    return Element(F32, F32, nbytes // 4)


def memory(shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Memory:
    """An array of float32 whose axes lie in memory in an order, the last of which is closest."""
    axes = order or tuple(range(len(shape)))
    made = np.empty([shape[axis] for axis in axes], np.float32)
    return Memory.of(np.transpose(made, np.argsort(axes)))


# --------------------------------------------------------------------- matrices

TURNED = (1, 0)


@dataclass(frozen=True)
class Matmul:
    """A product of matrices: how operand 1 lies, and whether it is known before the run."""

    rows: int
    depth: int
    columns: int
    order: tuple[int, int] = (0, 1)
    known: bool = False

    def case(self, nbytes: int) -> ProductCase:
        a, b = memory((self.rows, self.depth)), memory((self.depth, self.columns), self.order)
        result = memory((self.rows, self.columns))
        found = matrices_of(a, b, result, (), (False, False), PLAIN)
        prepared = prepares_matrix(b, transposed=False, known=self.known)
        return ProductCase(floats(nbytes), found, prepared)


MATRICES = {
    "a small dense layer": (Matmul(32, 128, 64), "DIRECT"),
    "a dense layer whose weights are known": (Matmul(32, 128, 64, known=True), "DIRECT"),
    "known weights that PyTorch lays out": (Matmul(32, 784, 512, TURNED, known=True), "PREPARED"),
    "weights that PyTorch lays out": (Matmul(64, 784, 512, TURNED), "PACKED"),
    "one row of them": (Matmul(1, 784, 512, TURNED), "DOT"),
    "a batch of 32 of them": (Matmul(32, 784, 512, TURNED), "DOT"),
    "seven rows, little depth": (Matmul(7, 64, 512, TURNED), "PACKED"),
    "a matrix times a vector": (Matmul(1000, 1000, 1), "DOT"),
    "BERT's attention": (Matmul(512, 768, 768), "PACKED"),
    "the scores of BERT": (Matmul(128, 64, 128), "DIRECT"),
    "VGG16's first dense layer": (Matmul(1, 25088, 4096), "STREAMED"),
    "ResNet50's last layer": (Matmul(1, 2048, 1000), "DIRECT"),
    "a large square": (Matmul(4096, 4096, 4096), "PACKED"),
    "a small square": (Matmul(64, 64, 64), "DIRECT"),
    "no rows": (Matmul(0, 64, 64), "DIRECT"),
}


@pytest.mark.parametrize("name", MATRICES)
def test_choices_for_matrices(name: str, machine: int) -> None:
    product, expected = MATRICES[name]
    assert choose_product(product.case(machine)).name == expected


def test_known_matrices_are_packed_where_every_run_would_have_to() -> None:
    plain, turned, stack = memory((40, 24)), memory((40, 24), TURNED), memory((3, 40, 24))
    assert prepares_matrix(turned, transposed=False, known=True)
    assert prepares_matrix(plain, transposed=True, known=True)
    assert not prepares_matrix(plain, transposed=False, known=True)
    assert not prepares_matrix(turned, transposed=True, known=True)
    assert not prepares_matrix(turned, transposed=False, known=False)
    assert not prepares_matrix(stack, transposed=True, known=True)
    assert not prepares_matrix(memory((40, 1), TURNED), transposed=False, known=True)
    assert prepares_kernel(memory((3, 3, 8, 16), (3, 0, 1, 2)), known=True)
    assert not prepares_kernel(memory((3, 3, 8, 16), (3, 0, 1, 2)), known=False)
    assert not prepares_kernel(memory((3, 3, 8, 16)), known=True)


# ----------------------------------------------------------------- convolutions


@dataclass(frozen=True)
class Layer:
    """A convolution of a square image, with the padding that keeps its size."""

    side: int
    channels: int
    outputs: int
    window: int
    stride: int = 1
    groups: int = 1
    dilation: int = 1
    first: bool = False
    """Whether channels come first in memory."""
    turned: bool = False
    """Whether the kernel's outputs lie apart."""
    known: bool = False

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        side = -(-self.side // self.stride)
        kernel = (self.window, self.window, self.channels // self.groups, self.outputs)
        return (
            (1, self.side, self.side, self.channels),
            kernel,
            (1, side, side, self.outputs),
        )

    @property
    def geometry(self) -> dict[str, Any]:
        pad = (self.window - 1) * self.dilation // 2
        both = (self.stride,) * 2, ((pad, pad),) * 2, (self.dilation,) * 2
        names = ("strides", "padding", "dilation")
        return dict(zip(names, both, strict=True), groups=self.groups)

    @property
    def memory(self) -> list[Memory]:
        x, kernel, result = self.shapes
        return [
            memory(x, (0, 3, 1, 2) if self.first else None),
            memory(kernel, (3, 0, 1, 2) if self.turned else None),
            memory(result),
        ]

    def forward(self, nbytes: int) -> list[ConvolutionCase]:
        x, kernel, result = self.memory
        sweep = forward(Convolution(**self.geometry), x, kernel, result)
        prepared = prepares_kernel(kernel, known=self.known)
        return [ConvolutionCase(floats(nbytes), sweep, prepared=prepared, known=self.known)]

    def input_gradient(self, nbytes: int) -> list[ConvolutionCase]:
        x, kernel, result = self.memory
        sizes = self.shapes[0][1:-1]
        op = ConvolutionInputGradient(**self.geometry, sizes=sizes)
        sweeps = backward(op, kernel, result, x)
        return [ConvolutionCase(floats(nbytes), sweep, len(sweeps) == 1) for sweep in sweeps]

    def kernel_gradient(self, nbytes: int) -> GradientCase:
        x, kernel, result = self.memory
        found = correlation(Convolution(**self.geometry), x, result, kernel)
        return GradientCase(floats(nbytes), found, together=not self.first)


LAYERS = {
    "ResNet50's first": (Layer(224, 3, 64, 7, 2), "LINES", "WINDOWS", "TAPS"),
    "a first layer of grey images": (Layer(28, 1, 32, 3), "LINES", "WINDOWS", "LINES"),
    "ResNet50, 1 x 1": (Layer(56, 64, 256, 1), "MATRICES", "MATRICES", "TAPS"),
    "ResNet50, 1 x 1 with strides": (Layer(56, 256, 512, 1, 2), "WINDOWS", "WINDOWS", "TAPS"),
    "ResNet50, 3 x 3": (Layer(56, 64, 64, 3), "WINOGRAD", "WINOGRAD", "WINOGRAD"),
    "ResNet50, 3 x 3 with strides": (Layer(56, 128, 128, 3, 2), "WINDOWS", "WINDOWS", "TAPS"),
    "ResNet50, the last 3 x 3": (Layer(7, 512, 512, 3), "WINOGRAD", "WINDOWS", "WINOGRAD"),
    "too few positions": (Layer(6, 512, 512, 3), "WINDOWS", "WINDOWS", "TAPS"),
    "VGG16, 3 x 3": (Layer(224, 64, 64, 3), "WINOGRAD", "WINOGRAD", "WINOGRAD"),
    "few channels, 3 x 3": (Layer(56, 16, 16, 3), "WINDOWS", "WINDOWS", "TAPS"),
    "Inception, 5 x 5": (Layer(35, 48, 64, 5), "WINDOWS", "WINDOWS", "TAPS"),
    "with holes": (Layer(28, 64, 64, 3, dilation=2), "WINDOWS", "WINDOWS", "TAPS"),
    "MobileNet's depthwise": (Layer(56, 128, 128, 3, groups=128), "GROUPS", "GROUPS", "GROUPS"),
    "ResNeXt, 16 channels": (Layer(14, 512, 512, 3, groups=32), "GROUPS", "GROUPS", "GROUPS"),
    "ResNeXt, 8 channels": (Layer(28, 256, 256, 3, groups=32), "GROUPS", "GROUPS", "GROUPS"),
    "groups of 2": (Layer(56, 64, 64, 3, groups=32), "GROUPS", "GROUPS", "GROUPS"),
    "groups of 32": (Layer(14, 1024, 1024, 3, groups=32), "GROUPS or WINDOWS", "WINDOWS", "TAPS"),
    "channels first": (Layer(28, 64, 64, 5, first=True), "LINES", "WINDOWS", "TAPS"),
    "one output, known": (Layer(40, 16, 1, 5, known=True), "DOTS", "LINES", "TAPS"),
    "few outputs, known": (Layer(40, 8, 3, 7, known=True), "DOTS", "LINES", "TAPS"),
    "one output": (Layer(40, 16, 1, 5), "WINDOWS", "LINES", "TAPS"),
    "a kernel as PyTorch lays it out": (Layer(8, 64, 64, 3, turned=True), "WINDOWS", "WINOGRAD", "WINOGRAD"),
    "known, as PyTorch lays it out": (Layer(8, 64, 64, 3, turned=True, known=True), "WINOGRAD", "WINOGRAD", "WINOGRAD"),
}  # fmt: skip
"""Layers, and what computes them, the gradients of their inputs and of their kernels: with vectors of
64 bytes `or` of 32."""


@pytest.mark.parametrize("name", LAYERS)
def test_choices_for_layers(name: str, machine: int) -> None:
    layer, *expected = LAYERS[name]
    ahead, back, slopes = (names.split(" or ")[0 if machine == 64 else -1] for names in expected)
    assert {choose_convolution(case).name for case in layer.forward(machine)} == {ahead}
    assert {choose_convolution(case).name for case in layer.input_gradient(machine)} == {back}
    assert choose_kernel_gradient(layer.kernel_gradient(machine)).name == slopes


def reached(nbytes: int) -> dict[object, set[int]]:
    """For each table, the numbers of the rows that layers and products above are decided by."""

    def row(table: tuple[tuple[Callable[[Any], bool], Any], ...], case: Any) -> int:
        return next(i for i, (condition, _) in enumerate(table) if condition(case))

    layers = [layer for layer, *_ in LAYERS.values()]
    swept = [c for layer in layers for c in (*layer.forward(nbytes), *layer.input_gradient(nbytes))]
    return {
        PRODUCTS: {row(PRODUCTS, product.case(nbytes)) for product, _ in MATRICES.values()},
        CONVOLUTIONS: {row(CONVOLUTIONS, case) for case in swept},
        KERNEL_GRADIENTS: {row(KERNEL_GRADIENTS, x.kernel_gradient(nbytes)) for x in layers},
    }


def test_every_row_is_reached(machine: int) -> None:
    for table, rows in reached(machine).items():
        assert isinstance(table, tuple)
        assert rows == set(range(len(table)))


@pytest.mark.parametrize("table", [PRODUCTS, CONVOLUTIONS, KERNEL_GRADIENTS])
def test_every_algorithm_has_one_row_and_the_last_takes_the_rest(table: Any) -> None:
    algorithms = [algorithm for _, algorithm in table]
    assert sorted(algorithms, key=str) == sorted(type(algorithms[0]), key=str)
    assert table[-1][0](None)


def test_parts_of_a_result_are_neither_matrices_nor_squares(machine: int) -> None:
    for layer in (Layer(56, 64, 256, 1), Layer(56, 64, 64, 3)):
        for case in layer.forward(machine):
            assert choose_convolution(replace(case, alone=False)).name == "WINDOWS"


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64"])
def test_only_real_floating_point_numbers_are_transformed(dtype: str) -> None:
    element = product_element(np.dtype(dtype))
    if element is None:
        pytest.skip("the host does not compute with it")
    layer, item = Layer(56, 64, 64, 3), np.dtype(dtype).itemsize
    (case,) = layer.forward(64)
    sweep = replace(case.sweep, a_step=item, b_column=item, b_row=64 * item)
    expected = "WINOGRAD" if dtype == "float64" else "WINDOWS"
    assert choose_convolution(ConvolutionCase(element, sweep)).name == expected
