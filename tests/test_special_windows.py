"""NaN, infinities and huge numbers in convolutions and pooling, against single windows.

Padding is nothing that is multiplied: a result has the products that its window has with the input
itself, and nothing else.  So a NaN in a kernel reaches only the windows that see something through
its tap, and a NaN in an input only the windows that see it, whatever the algorithm.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import naive_windows as naive
import tawny as tw
import tawny.numpy as tnp
from codegen_harness import poisoned
from engines import DEVICE, needs_device
from product_harness import FLOATS, called, layouts
from tawny.engine.cpu.products import blocking, choice, convolution, winograd
from tawny.engine.cpu.products.convolution import (
    convolution_kernel,
    input_gradient_kernel,
    kernel_gradient_kernel,
)
from tawny.engine.reference.kernel import KERNELS
from tawny.operator import emit
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)

WORKERS = 2


@dataclass(frozen=True)
class Case:
    """A geometry, and which algorithms convolve, give the input's slope and the kernel's."""

    name: str
    x: tuple[int, ...]
    kernel: tuple[int, ...]
    padding: Any = 1
    strides: int = 1
    dilation: int = 1
    groups: int = 1
    ways: tuple[str, str, str] = ("Windows", "Windows", "CHANNELS")
    dtype: type = np.float32
    turned: bool = False
    """Whether channels of the input, and outputs of the kernel, lie apart."""
    small: bool = False
    """Whether blocks, chunks and slices are as small as can be."""

    @property
    def rank(self) -> int:
        return len(self.x) - 2

    @property
    def pads(self) -> tuple[tuple[int, int], ...]:
        if isinstance(self.padding, int):
            return ((self.padding, self.padding),) * self.rank
        return self.padding

    @property
    def geometry(self):
        steps = (self.strides,) * self.rank, self.pads, (self.dilation,) * self.rank
        return *steps, self.groups

    @property
    def options(self) -> dict[str, Any]:
        names = "strides", "padding", "dilation", "groups"
        return dict(zip(names, self.geometry, strict=True))

    @property
    def result(self) -> tuple[int, ...]:
        return Convolution(*self.geometry).infer_shape(self.x, self.kernel)


SQUARES = "Squares", "Squares", "winograd"
GROUPS = "GroupWindows", "GroupWindows", "GroupTaps"
DOTS = "Windows and DotLines", "Windows", "CHANNELS"

CASES = (
    Case("one tap", (2, 4, 5, 9), (1, 1, 9, 20), 0, ways=("matrices", "matrices", "CHANNELS")),
    Case("one tap, padded", (1, 4, 5, 9), (1, 1, 9, 20), 1),
    Case("three by three", (1, 5, 7, 8), (3, 3, 8, 12)),
    Case("float64", (1, 5, 7, 8), (3, 3, 8, 12), dtype=np.float64),
    Case("float16", (1, 5, 7, 12), (3, 3, 12, 12), dtype=np.float16),
    Case("blocks", (1, 5, 7, 40), (3, 3, 40, 40), small=True, strides=2),
    Case("stride", (2, 7, 8, 5), (3, 3, 5, 20), strides=2),
    Case("dilation", (1, 7, 6, 5), (3, 3, 5, 20), 2, dilation=2),
    Case("stride and dilation", (1, 9, 9, 5), (3, 2, 5, 6), 3, strides=3, dilation=2),
    Case("uneven", (1, 5, 6, 5), (2, 3, 5, 7), ((0, 2), (3, 1)), ways=DOTS),
    Case("windows in the padding", (1, 3, 3, 5), (2, 2, 5, 7), 4),
    Case("larger than the input", (1, 2, 2, 5), (5, 5, 5, 9), 3),
    Case("groups", (1, 5, 6, 40), (3, 3, 20, 40), groups=2),
    Case("groups of two", (1, 5, 6, 20), (3, 3, 2, 20), groups=10, ways=GROUPS),
    Case("groups of four", (2, 5, 6, 16), (3, 3, 4, 20), strides=2, groups=4, ways=GROUPS),
    Case("groups of six", (1, 5, 6, 24), (3, 2, 6, 24), 2, dilation=2, groups=4, ways=GROUPS),
    Case("groups, three axes", (1, 2, 4, 3, 16), (3, 2, 3, 8, 16), groups=2, ways=GROUPS),
    Case("groups in blocks", (8, 5, 6, 16), (3, 3, 4, 16), groups=4, small=True, ways=GROUPS),
    Case("groups of eight", (2, 5, 6, 32), (3, 3, 8, 32), groups=4, ways=GROUPS),
    Case("groups, parts of lines", (1, 3, 40, 16), (3, 3, 8, 16), groups=2, ways=GROUPS),
    Case("groups, stride", (1, 7, 12, 32), (3, 3, 16, 32), strides=2, groups=2, ways=GROUPS),
    Case("groups, dilation", (1, 9, 8, 16), (3, 3, 8, 16), 2, dilation=2, groups=2,
         ways=GROUPS),
    Case("groups, one axis", (2, 12, 16), (5, 8, 16), 2, groups=2, ways=GROUPS),
    Case("groups, float64", (1, 5, 6, 16), (3, 3, 8, 16), groups=2, ways=GROUPS,
         dtype=np.float64),
    Case("groups, float16", (1, 5, 6, 16), (3, 3, 8, 16), groups=2, ways=GROUPS,
         dtype=np.float16),
    Case("groups in the padding", (1, 3, 3, 16), (2, 2, 8, 16), 4, groups=2, ways=GROUPS),
    Case("groups of eight, odd lines", (1, 3, 59, 24), (3, 3, 8, 24), strides=2, groups=3,
         ways=GROUPS),
    Case("groups, long lines", (2, 6, 56, 16), (3, 2, 8, 16), groups=2, ways=GROUPS, small=True),
    Case("depthwise", (1, 5, 6, 20), (3, 3, 1, 20), groups=20, ways=GROUPS),
    Case("one axis", (2, 12, 8), (5, 8, 7), 2, ways=DOTS),
    Case("three axes", (1, 2, 4, 3, 5), (3, 2, 3, 5, 6), 1, ways=DOTS),
    Case("few outputs, stride", (2, 9, 11, 6), (3, 4, 6, 3), 2, strides=2,
         ways=("Windows and DotLines", "Lines", "CHANNELS")),
    Case("few outputs, float16", (1, 5, 7, 9), (3, 3, 9, 4), dtype=np.float16,
         ways=("Windows and DotLines", "Lines", "CHANNELS")),
    Case("few outputs, inside", (2, 5, 20, 7), (2, 5, 7, 3), 0,
         ways=("Windows and DotWindows", "Lines", "CHANNELS")),
    Case("few outputs, channels apart", (1, 5, 6, 8), (3, 5, 8, 2), 2, turned=True,
         ways=("Lines and DotLines", "Lines", "CHANNELS")),
    Case("one channel", (2, 6, 7, 1), (3, 3, 1, 20), ways=("Lines", "Windows", "LINES")),
    Case("one output", (2, 6, 7, 20), (3, 3, 20, 1), small=True,
         ways=("Windows and DotLines", "Lines", "CHANNELS")),
    Case("few channels, stride", (1, 9, 8, 2), (3, 5, 2, 9), 2, strides=2,
         ways=("Lines", "Windows", "LINES")),
    Case("few channels, dilation", (1, 9, 8, 2), (3, 3, 2, 9), 2, dilation=2,
         ways=("Lines", "Windows", "CHANNELS")),
    Case("few channels, one axis", (2, 12, 1), (4, 1, 7), 3, ways=("Lines", "Windows", "LINES")),
    Case("few channels, three axes", (1, 2, 3, 4, 1), (2, 2, 3, 1, 6), 1,
         ways=("Lines", "Windows", "LINES")),
    Case("four channels, stride", (2, 7, 8, 4), (3, 3, 4, 20), strides=2,
         ways=("Lines", "Windows", "CHANNELS")),
    Case("four channels, dilation", (1, 9, 9, 4), (3, 2, 4, 6), 3, strides=3, dilation=2,
         ways=("Lines", "Windows", "CHANNELS")),
    Case("four channels, three axes", (1, 2, 4, 3, 4), (3, 2, 3, 4, 6), 1,
         ways=("Lines", "Windows", "CHANNELS")),
    Case("lines, float16", (1, 5, 7, 8), (3, 3, 8, 12), dtype=np.float16,
         ways=("Lines", "Windows", "CHANNELS")),
    Case("lines in the padding", (1, 3, 3, 1), (2, 2, 1, 7), 4,
         ways=("Lines", "Windows", "LINES")),
    Case("lines in blocks", (2, 6, 7, 1), (5, 5, 1, 40), 2, small=True,
         ways=("Lines", "Windows", "LINES")),
    Case("channels apart", (1, 5, 6, 8), (3, 3, 8, 20), turned=True,
         ways=("Lines", "Windows", "CHANNELS")),
    Case("squares", (1, 7, 8, 32), (3, 3, 32, 80), ways=SQUARES),
    Case("squares, float64", (1, 7, 8, 32), (3, 3, 32, 32), ways=SQUARES, dtype=np.float64),
    Case("squares, far out", (1, 6, 5, 32), (3, 3, 32, 32), ((1, 3), (3, 0)),
         ways=SQUARES),
    Case("squares in slices", (1, 5, 6, 64), (3, 3, 64, 128), small=True, ways=("Squares", "Squares", "CHANNELS")),
)  # fmt: skip

OVERFLOWING = {np.float16: 6e4, np.float32: 3e38, np.float64: 1.7e308}
PLACES = ("first", "middle", "last", "several")


@pytest.fixture
def used(monkeypatch) -> tuple[list[str], list[int]]:
    """The names of the algorithms that kernels are made by, and into how many slices they cut."""
    names, sliced = list[str](), list[int]()
    made, flat, slopes = (
        getattr(convolution, n) for n in ("kernel_of", "product_kernel", "winograd_gradient")
    )

    def products(found, *given, **how):
        for product in found:
            kind = getattr(product.source, "kind", None)
            names.append(type(product.source).__name__ if kind is None else kind.name)
            sliced.append(product.numbers.get("slices", 1))
        return made(found, *given, **how)

    def spied(name, function):
        return lambda *given, **how: names.append(name) or function(*given, **how)

    monkeypatch.setattr(convolution, "kernel_of", products)
    monkeypatch.setattr(convolution, "product_kernel", spied("matrices", flat))
    monkeypatch.setattr(convolution, "winograd_gradient", spied("winograd", slopes))
    monkeypatch.setattr(choice, "WINOGRAD_POSITIONS", 1)
    monkeypatch.setattr(choice, "WINOGRAD_TURNED", 1)
    return names, sliced


@pytest.fixture
def cuts(monkeypatch):
    """A function that makes blocks as small as can be."""

    def cut() -> None:
        monkeypatch.setattr(blocking, "PANEL_BYTES", 2**12)
        monkeypatch.setattr(blocking, "CHUNK_TILES", 2)
        monkeypatch.setattr(winograd, "PANELS_BYTES", 0)
        monkeypatch.setattr(winograd, "SLICE_BYTES", 2**14)
        monkeypatch.setattr(winograd, "ROOM_BYTES", 0)
        monkeypatch.setattr(winograd, "LEAST_TILES", 1)

    return cut


def filled(case: Case, which: str, shape: tuple[int, ...]) -> np.ndarray:
    """Ordinary numbers; in kernels of some cases the outputs, else channels, lie apart."""
    rng = np.random.default_rng(zlib.crc32(f"{case.name} {which}".encode()))
    made = rng.standard_normal(shape).astype(case.dtype)
    if not case.turned or which == "slope":
        return made
    to = 1 if which == "x" else 0
    return np.moveaxis(np.moveaxis(made, -1, to).copy(), to, -1)


def with_special(a: np.ndarray, value: str, place: str) -> np.ndarray:
    """A copy that lies alike, with a special value somewhere, or with all of them in places."""
    number = OVERFLOWING[a.dtype.type] if value == "huge" else float(value)
    out = np.copy(a, order="K")
    at = {"first": [0], "middle": [a.size // 2], "last": [a.size - 1]}.get(place)
    rng = np.random.default_rng(a.size)
    for i in rng.integers(0, a.size, 4) if at is None else at:
        out[np.unravel_index(i, a.shape)] = number
        if at is None and value in {"inf", "-inf"}:
            number = -number
    return out


def agree(got: np.ndarray, want: np.ndarray, scale: float, words: str) -> None:
    """Specials must be the same; other numbers differ by what rounding may do."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype), words
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(got), kind(want), f"{words}: {kind.__name__}")
    finite = np.isfinite(want)
    with np.errstate(all="ignore"):
        error = np.abs(got[finite].astype(np.longdouble) - want[finite])
    bound = 100 * float(np.finfo(got.dtype).eps) * np.longdouble(scale)
    assert np.all(error <= bound), f"{words}: {error.max(initial=0)} of {bound}"


def finite_size(*arrays: np.ndarray) -> float:
    """The largest that a sum of products of some may be, if none is infinite."""
    sizes = [float(np.max(np.abs(a[np.isfinite(a)]), initial=1)) for a in arrays]
    return sizes[0] * sizes[1]


def native(code, operands, shape, dtype) -> np.ndarray:
    result = poisoned(shape, np.dtype(dtype))
    called(code, operands, result, WORKERS)
    return result


def three_ops(case: Case):
    """For each op: operands, a witness, the reference, kernels by the names of their variants."""
    x, kernel = filled(case, "x", case.x), filled(case, "kernel", case.kernel)
    slope = filled(case, "slope", case.result)
    forward = Convolution(*case.geometry)
    back = ConvolutionInputGradient(*case.geometry, case.x[1:-1])
    weights = ConvolutionKernelGradient(*case.geometry, case.kernel[:-2])
    options = case.options
    yield (
        forward,
        (x, kernel),
        lambda a, b: naive.correlate(a, b, **options),
        [
            lambda *m, p=p: convolution_kernel(forward, *m, workers=WORKERS, prepared=p)
            for p in (False, True)
        ],
    )
    yield (
        back,
        (kernel, slope),
        lambda a, b: naive.input_gradient(a, b, input_shape=case.x, **options),
        [lambda *m: (input_gradient_kernel(back, *m, workers=WORKERS), None)],
    )
    yield (
        weights,
        (x, slope),
        lambda a, b: naive.kernel_gradient(a, b, kernel_shape=case.kernel, **options),
        [lambda *m: (kernel_gradient_kernel(weights, *m, workers=WORKERS), None)],
    )


PLACED = {
    "nan": PLACES,
    "inf": PLACES[:-1],
    "-inf": PLACES[-1:],
    "-0.0": PLACES[-1:],
    "huge": PLACES[1:2],
}


def drawn(arrays):
    """The operands with special values in one of them, and in all."""
    for value, places in PLACED.items():
        for place in places:
            for which in range(len(arrays)):
                given = list(arrays)
                given[which] = with_special(given[which], value, place)
                yield f"{value} at {place} of operand {which}", given
    for value in ("nan", "inf"):
        yield f"{value} in all", [with_special(a, value, "several") for a in arrays]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_special_values_reach_what_sees_them(case, used, cuts):
    if case.small:
        cuts()
    if case.dtype not in FLOATS:
        pytest.skip("the host does not compute with it")
    ways, slices = used
    for way, (op, arrays, witness, makers) in zip(case.ways, three_ops(case), strict=True):
        ways.clear()
        shape = witness(*arrays).shape
        result = poisoned(shape, np.dtype(case.dtype))
        kernels = [make(*layouts(*arrays, result)) for make in makers]
        assert set(ways) == set(way.split(" and ")), op
        for words, given in drawn(arrays):
            with np.errstate(all="ignore"):
                want = witness(*given)
                scale = finite_size(*given) * max(1, arrays[1].size / shape[-1]) ** 0.5
                answers = {"reference": KERNELS[type(op)](op, *given).astype(case.dtype)}
            for number, (code, preparation) in enumerate(kernels):
                operands = given if preparation is None else [given[0], preparation(given[1])]
                answers[f"native {number}"] = native(code, operands, shape, case.dtype)
            for name, got in answers.items():
                agree(got, want, scale, f"{type(op).__name__} by {name}, {words}")
    assert (max(slices, default=1) > 1) == ("slices" in case.name)


ON_DEVICES = ("three by three", "float64", "stride", "stride and dilation", "uneven", "groups",
              "windows in the padding", "larger than the input")  # fmt: skip


@needs_device
@pytest.mark.parametrize("case", [c for c in CASES if c.name in ON_DEVICES], ids=lambda c: c.name)
def test_special_values_on_a_device_reach_what_sees_them(case):
    for op, arrays, witness, _ in three_ops(case):
        given = [tw.var(f"x{i}", shape=a.shape, dtype=a.dtype) for i, a in enumerate(arrays)]
        program = tw.Graph(given, emit(op, *given)).compile(engine=DEVICE)
        for words, operands in drawn(arrays):
            with np.errstate(all="ignore"):
                want = witness(*operands)
                scale = finite_size(*operands) * max(1, arrays[1].size / want.shape[-1]) ** 0.5
            agree(program(*operands), want, scale, f"{type(op).__name__}, {words}")


# -------------------------------------------------------------------- epilogues


@pytest.mark.parametrize("channels", [8, 1, 32])
def test_what_follows_a_convolution_takes_the_same_values(channels, engine):
    rng = np.random.default_rng(channels)
    x, kernel, bias, other = (
        rng.standard_normal(s).astype(np.float32)
        for s in ((1, 8, 9, channels), (3, 3, channels, 32), (32,), (1, 8, 9, 32))
    )
    arrays = [x, kernel, bias, other]
    given = [tw.var(f"x{i}", shape=a.shape, dtype=a.dtype) for i, a in enumerate(arrays)]
    padded = tnp.conv2d(given[0], given[1], padding=((1, 1), (1, 1)))
    program = tw.Graph(given, tnp.relu(padded + given[2] + given[3])).compile(engine=engine)
    for value in ("nan", "inf", "-inf"):
        kernel_, x_ = with_special(kernel, value, "first"), with_special(x, value, "middle")
        with np.errstate(all="ignore"):
            whole = naive.correlate(x_, kernel_, padding=((1, 1), (1, 1))) + bias + other
            want = np.maximum(whole, 0)
        agree(program(x_, kernel_, bias, other), want, 100 * channels, value)


# ---------------------------------------------------------------------- pooling

POOLS = (
    ((1, 6, 7, 5), 3, {"strides": 2, "padding": "SAME"}),
    ((1, 4, 5, 17), 2, {"strides": 1}),
    ((1, 4, 4, 3), 2, {"strides": 1, "padding": ((1, 1), (1, 0))}),
    ((1, 9, 4), 3, {"strides": 2, "padding": ((2, 1),)}),
    ((1, 3, 4, 3, 4), 2, {"strides": 2, "padding": "SAME"}),
)


def pooled(shape, window, options):
    """For each op of pooling: operands' shapes, the function, a witness."""
    rank, small = len(shape) - 2, naive.max_pool(np.zeros(shape), window, **options).shape
    for kind in ("max", "avg"):
        function = getattr(tnp, f"{kind}_pool{rank}d")
        yield (
            [shape],
            lambda x, f=function: f(x, window, **options),
            lambda x, k=kind: getattr(naive, f"{k}_pool")(x, window, **options),
        )
    for name, shapes in (("gradient", [shape, small]), ("select", [shape, shape])):
        yield (
            shapes,
            lambda x, y, n=name: getattr(tnp, f"max_pool_{n}")(x, y, window, **options),
            lambda x, y, n=name: getattr(naive, f"max_pool_{n}")(x, y, window, **options),
        )
    yield (
        [small],
        lambda g: tnp.avg_pool_gradient(g, window, input_shape=shape, **options),
        lambda g: naive.avg_pool_gradient(g, window, input_shape=shape, **options),
    )


@pytest.mark.parametrize(("shape", "window", "options"), POOLS)
def test_pooling_takes_special_values_from_its_windows_alone(shape, window, options, engine):
    rng = np.random.default_rng(3)
    for shapes, function, witness in pooled(shape, window, options):
        arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        given = [tw.var(f"x{i}", shape=a.shape, dtype=a.dtype) for i, a in enumerate(arrays)]
        program = tw.Graph(given, function(*given)).compile(engine=engine)
        for words, operands in drawn(arrays):
            with np.errstate(all="ignore"):
                want = witness(*operands)
                scale = max(finite_size(a, a[:0]) for a in operands)
            agree(program(*operands), want, scale, words)
