"""Products of float32 on tensor cores: their values, on a device or with its warps played by PoCL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import DEVICE, needs_device
from tawny.array import Array
from tawny.engine.gpu import table
from tawny.engine.gpu.engine import GpuEngine
from tawny.engine.gpu.kernels import tiles
from tawny.engine.gpu.kernels.contraction import Contraction
from tawny.engine.gpu.kernels.tiles import PARTS, TILES, ProductTile, choose_tile, simplify_axes
from tawny.engine.gpu.launch import DeviceArray
from tawny.engine.gpu.products import matrices, windows_times_kernel
from tawny.engine.gpu.table import new_array
from tawny.engine.protocol import ENGINES, engine_named
from tawny.ops.convolution import ConvolutionOp

pytestmark = [needs_device, pytest.mark.filterwarnings("ignore:compile. it took")]

RNG = np.random.default_rng(0)

SMALL = ProductTile(32, 32, 16, 2, 8, 3, 1, 1)
"""A tile whose kernels PoCL builds in a second."""


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


@pytest.fixture
def parts(request: pytest.FixtureRequest) -> int:
    return request.param if hasattr(request, "param") else 1


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, parts: int) -> Iterator[str]:
    """An engine of tensor cores that takes small tiles."""
    driver = engine_named(DEVICE).driver
    monkeypatch.setattr(type(driver), "has_tensor_cores", True)
    monkeypatch.setattr(tiles, "choose_tile", lambda *_: (SMALL, parts))
    monkeypatch.setitem(ENGINES, "tensor", GpuEngine("tensor", lambda: driver))
    table._kernel.cache_clear()
    yield "tensor"
    table._kernel.cache_clear()


def results(engine: str, f: Callable[..., list[Array]], *values: np.ndarray, **options: Any) -> Any:
    """What a function gives on an engine, and of float64 numbers on the reference engine."""
    found = []
    for name, dtype, own in ((engine, "float32", options), ("reference", "float64", {})):
        variables = [tw.var(f"x{i}", v.shape, dtype) for i, v in enumerate(values)]
        program = tw.Graph(variables, f(*variables)).compile(engine=name, **own)
        found.append(program(*[v.astype(dtype) for v in values]))
    return zip(*found, strict=True)


def error(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.max(np.abs(got - want)) / np.max(np.abs(want)))


def test_products_of_any_layout_are_as_accurate_as_float32(engine: str) -> None:
    def products(a: Array, b: Array, c: Array, d: Array) -> list[Array]:
        return [tnp.relu(a @ b + c + d), a.T @ d, a[::2, ::-1] @ b[:, 1::2]]

    given = normal(70, 100), normal(100, 52), normal(52), normal(70, 52)
    for got, want in results(engine, products, *given):
        assert got.shape == want.shape
        assert error(got, want) < 1e-6


@pytest.mark.parametrize("parts", [3], indirect=True)
def test_parts_of_the_depth_are_added_up(engine: str) -> None:
    given = normal(2, 9, 50), normal(50, 52), normal(2, 1, 52)
    ((got, want),) = results(engine, lambda a, b, c: [tnp.tanh(a @ b + c)], *given)
    assert error(got, want) < 4e-6


def test_convolutions_and_their_gradients(engine: str) -> None:
    def convolved(x: Array, w: Array) -> list[Array]:
        y = tnp.conv2d(x, w, padding="SAME")
        return [y, *tw.gradients(tnp.sum(y * y), [x, w])]

    for got, want in results(engine, convolved, normal(2, 9, 10, 4), normal(3, 3, 4, 20)):
        assert error(got, want) < 1e-6


def test_what_is_not_finite_is_what_sums_of_products_give(engine: str) -> None:
    a, b = normal(20, 32), normal(32, 24)
    a[3, 4], a[5, 5], a[6, 6], a[8] = np.inf, -np.inf, np.nan, 3.4028e38
    b[4, 0], b[5, 1], b[:, 3] = 0.0, 1e-40, 0.0
    b[0, 3] = 1.0
    x, y = tw.var("x", a.shape, "float32"), tw.var("y", b.shape, "float32")
    with np.errstate(all="ignore"):
        (got,) = tw.Graph([x, y], [x @ y]).compile(engine=engine)(a, b)
        want = a @ b
    rows = [n for n in range(20) if n != 8]  # sums of the greatest numbers depend on their order
    np.testing.assert_allclose(got[rows], want[rows], rtol=1e-5, atol=1e-5)
    assert got[8, 3] == want[8, 3]


@pytest.mark.parametrize(
    ("precision", "least", "most"), [("tf32", 1e-5, 1e-3), ("bfloat16", 1e-3, 1e-2)]
)
def test_coarser_products_are_asked_for(
    engine: str, precision: str, least: float, most: float
) -> None:
    given = normal(40, 200), normal(200, 48)
    ((got, want),) = results(engine, lambda a, b: [a @ b], *given, precision=precision)
    assert least < error(got, want) < most


def test_long_sums_are_not_cut_off(engine: str) -> None:
    """As tensor cores do where they add up themselves."""
    given = np.abs(normal(32, 6000)), np.abs(normal(6000, 64))
    ((got, want),) = results(engine, lambda a, b: [a @ b], *given)
    assert error(got, want) < 2e-6


# ------------------------------------------------------------------ what is chosen


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 10, 20),
        (1, 100, 512, 4608),
        (64, 128, 128, 64),
        (1, 100_000, 64, 64),
        (3, 25, 32, 78_400),
    ],
)
def test_tiles_that_are_chosen_can_be_run(sizes: tuple[int, int, int, int], is_split: bool) -> None:
    tile, parts = choose_tile(sizes, is_split)
    assert tile in TILES
    assert parts in PARTS
    assert tile.split_rate or not is_split
    assert tile.warps_down * tile.warp_rows == tile.rows
    assert tile.warp_columns * tile.warps // tile.warps_down == tile.columns


def test_axes_that_are_stepped_over_alike_are_one() -> None:
    product = matrices(array(2, 5, 7), array(7, 3), array(2, 5, 3))
    assert lengths(simplify_axes(product)[0]) == ([], [10], [3], [7])
    product = matrices(array(2, 5, 7), array(2, 7, 3), array(2, 5, 3))
    assert lengths(simplify_axes(product)[0]) == ([2], [5], [3], [7])


def array(*shape: int) -> DeviceArray:
    return new_array(shape, np.dtype("float32"))


def lengths(found: Contraction) -> tuple[list[int], ...]:
    axes = found.stack, found.rows, found.columns, found.depth
    return tuple([[axis.size for axis in own] for own in axes])


@pytest.mark.parametrize(
    ("window", "padding", "windows", "rows"),
    [(1, 0, 0, [180]), (3, 0, 0, [2, 7, 8]), (3, 1, 2, [2, 9, 10])],
)
def test_windows_remain_where_they_read_outside(
    window: int, padding: int, windows: int, rows: list[int]
) -> None:
    pads = ((padding, padding),) * 2
    x, w = tw.var("x", (2, 9, 10, 4), "float32"), tw.var("w", (window, window, 4, 6), "float32")
    node = tnp.conv2d(x, w, padding=pads).node
    assert isinstance(node.op, ConvolutionOp)
    contraction = windows_times_kernel(node.op, *[array(*n.shape) for n in (*node.inputs, node)])
    found, start = simplify_axes(contraction)
    assert len(found.windows) == windows
    assert lengths(found)[1] == rows
    assert start == 0
