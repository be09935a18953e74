"""Native Fourier transforms: all lengths, axes, layouts and dtypes, beside NumPy and exact sums."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from codegen_harness import SIGNATURE, guarded, poisoned
from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.rules.transforms import transform
from tawny.engine.cpu.transforms import transform as plans
from tawny.engine.cpu.transforms.butterflies import BUTTERFLIES
from tawny.engine.cpu.transforms.lengths import passes_of
from tawny.engine.cpu.transforms.roots import roots
from tawny.engine.layout import Memory
from tawny.node import make, variable
from tawny.ops.fft import FFT, InverseRealFFT, RealFFT, Transform

LARGE = bool(os.environ.get("TAWNY_LARGE_TESTS"))
LENGTHS = [*range(1, 131), 180, 243, 256, 360, 509, 512, 1000, 1009, 1024, 1155, 2048, 4096]
SOME = [*range(1, 35), 36, 46, 47, 60, 64, 97, 101, 120, 127, 128, *LENGTHS[130:]]
TOLERANCE = {4: 3e-6, 8: 1e-14}
"""Of differences, relative to the largest result of a line; a convolution with a chirp has a few times that
of direct sums."""


def rule(op: Transform, x: np.ndarray, threads: int = 1) -> tuple[Kernel, np.ndarray]:
    """The kernel of a transform of an array as it lies, and room for its result."""
    node = make(op, (variable(None, x.shape, x.dtype),))
    result = poisoned(node.shape, np.dtype(node.dtype))
    memory = Memory(x.shape, x.strides, x.dtype)
    kernel = transform(
        node, [memory], [Memory(result.shape, result.strides, result.dtype)], threads
    )
    assert kernel is not None
    return kernel, result


def run(op: Transform, x: np.ndarray, threads: int = 1) -> np.ndarray:
    """The result, by workers one after the other, in scratch memory that means nothing."""
    kernel, result = rule(op, x, threads)
    scratch = np.full(kernel.scratch + 128, 0xFF, np.uint8)
    start = scratch.ctypes.data + (-scratch.ctypes.data) % 64
    row = np.array(
        [x.ctypes.data, result.ctypes.data, start, *map(int, map(_index, kernel.parameters))]
    )
    for symbol in (kernel.symbol, *[name for name, _ in kernel.after]):
        function = SIGNATURE(kernel.library.address(symbol))
        workers = threads if kernel.parallel else 1
        for worker in range(workers):
            function(row.ctypes.data, worker, workers)
    assert guarded(result)
    assert (scratch[start - scratch.ctypes.data + kernel.scratch :] == 0xFF).all()
    return result


def _index(number: Any) -> int:
    return number.__index__()


def expected(op: Transform, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    match op:
        case FFT():
            function: Any = np.fft.ifftn if op.inverse else np.fft.fftn
        case RealFFT():
            function = np.fft.rfftn
        case _:
            function = np.fft.irfftn
    return function(wide, op.sizes, op.axes, op.norm)


def check(op: Transform, x: np.ndarray, threads: int = 1) -> None:
    found, wanted = run(op, x, threads), expected(op, x)
    assert found.shape == wanted.shape
    item = found.dtype.itemsize // (2 if found.dtype.kind == "c" else 1)
    away, largest = (np.abs(y).max(op.axes) for y in (found - wanted, wanted))
    assert np.all(away <= TOLERANCE[item] * np.maximum(largest, 1e-30)), (
        op,
        x.shape,
        x.strides,
        away,
    )


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def ops_of(n: int, axis: int, norm: str = "backward") -> dict[str, Transform]:
    """A transform of each kind, by what it takes."""
    return {
        "complex": FFT((n,), (axis,), norm, inverse=False),
        "inverse": FFT((n,), (axis,), norm, inverse=True),
        "half": RealFFT((n,), (axis,), norm),
        "whole": FFT((n,), (axis,), norm, inverse=n % 2 == 0),
        "real": InverseRealFFT((n,), (axis,), norm),
    }


def operand_of(kind: str, shape: tuple[int, ...], axis: int, single: bool) -> np.ndarray:
    real = kind in ("half", "whole")
    dtype = (
        ("float32" if single else "float64") if real else "complex64" if single else "complex128"
    )
    given = list(shape)
    if kind == "real":
        given[axis] = shape[axis] // 2 + 1
    return random(tuple(given), dtype)


@pytest.mark.parametrize("kind", ops_of(1, 0))
@pytest.mark.parametrize("single", [True, False])
def test_every_length(kind: str, single: bool) -> None:
    """Alone, in rows, in columns, and in rows of a view: in turn, or all of them."""
    layouts = {
        "alone": lambda n: ((n,), 0),
        "rows": lambda n: ((37, n), 1),
        "columns": lambda n: ((n, 21), 0),
        "middle": lambda n: ((2, n, 3), 1),
    }
    for number, n in enumerate(LENGTHS if LARGE else SOME):
        names = list(layouts) if LARGE or n < 9 else [list(layouts)[number % 4]]
        for name in names:
            shape, axis = layouts[name](n)
            check(ops_of(n, axis)[kind], operand_of(kind, shape, axis, single))


@pytest.mark.parametrize("kind", ops_of(1, 0))
def test_cut_and_padded(kind: str) -> None:
    pairs = [(5, 8), (8, 5), (10, 64), (33, 64), (64, 33), (100, 256), (101, 256), (255, 256)]
    pairs += [(500, 509), (300, 1024), (513, 1024), (20, 17), (1, 64), (20000, 18000)]
    for given_size, n in pairs:
        for shape, axis in (((given_size,), 0), ((19, given_size), 1), ((given_size, 5), 0)):
            if given_size > 10000 and axis:
                continue
            real = kind in ("half", "whole")
            check(ops_of(n, axis)[kind], random(shape, "float64" if real else "complex64"))


@pytest.mark.parametrize("kind", ops_of(1, 0))
def test_lines_do_not_touch_each_other(kind: str) -> None:
    """Small ones beside large ones, and beside what is not finite."""
    for n in (2, 3, 5, 8, 15, 31, 64, 66, 97, 250, 509, 1024):
        for shape, axis in (((37, n), 1), ((n, 37), 0), ((2, n, 37), 1)):
            x = operand_of(kind, shape, axis, single=False)
            lines = np.moveaxis(x, axis, -1)
            lines *= 10.0 ** np.random.default_rng(n).integers(-60, 60, (*lines.shape[:-1], 1))
            check(ops_of(n, axis)[kind], x)
            lines[..., 1::5, n // 3] = np.array([np.nan, np.inf, -np.inf])[[0, 1, 2, 0, 1, 2, 0, 1]]
            found = run(ops_of(n, axis)[kind], x)
            is_finite = np.isfinite(lines).all(-1)
            found = np.moveaxis(found, axis, -1)
            assert np.isfinite(found[is_finite]).all()
            assert not np.isfinite(found[~is_finite]).all(-1).any()


@pytest.mark.parametrize("kind", ops_of(1, 0))
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_norms(kind: str, norm: str) -> None:
    for n in (7, 64, 101, 1024):
        for shape, axis in (((3, n), 1), ((n, 3), 0)):
            check(ops_of(n, axis, norm)[kind], operand_of(kind, shape, axis, single=False))


@pytest.mark.parametrize("kind", ops_of(1, 0))
def test_views_are_read_where_they_lie(kind: str) -> None:
    real = kind in ("half", "whole")
    for dtype in ("float32", "float64") if real else ("complex64", "complex128"):
        x = random((40, 66, 3), dtype)
        for view in (
            x[::2],
            x[:, ::-1],
            x[:, ::3],
            x.T,
            x[3:9, 1:50],
            x.swapaxes(0, 1),
            x[:, :, :1],
        ):
            for axis in range(3):
                n = view.shape[axis] if kind != "real" else max(2 * (view.shape[axis] - 1), 1)
                check(ops_of(n, axis)[kind], view)


@pytest.mark.parametrize("single", [True, False])
def test_long_transforms(single: bool) -> None:
    for n in (2**14, 2**15, 20000, 3 * 2**14 + 2, 2**17):
        for kind in ops_of(1, 0):
            check(ops_of(n, 0)[kind], operand_of(kind, (n,), 0, single))
    for kind in ops_of(1, 0):
        check(ops_of(2**15, 1)[kind], operand_of(kind, (3, 2**15), 1, single))


SEVERAL = [
    ((4, 6), (0, 1), (4, 6)),
    ((16, 17, 18), (0, 1, 2), (16, 17, 18)),
    ((16, 17, 18), (1, 2), (17, 20)),
    ((16, 17, 18), (2, 0), (12, 20)),
    ((9, 32, 64), (1, 2), (32, 64)),
    ((12, 3, 1, 10), (1, 3, 2), (3, 9, 2)),
    ((10, 12, 16, 33), (1, 2, 3), (12, 16, 33)),
    ((64, 100), (1, 0), (100, 64)),
]


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(("shape", "axes", "sizes"), SEVERAL)
def test_several_axes(
    shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...], single: bool
) -> None:
    """Also where a task transforms a part of the array along several of them."""
    reals, numbers = ("float32", "complex64") if single else ("float64", "complex128")
    for norm in ("backward", "ortho"):
        for dtype, inverse in itertools.product((reals, numbers), (False, True)):
            check(FFT(sizes, axes, norm, inverse), random(shape, dtype))
        check(RealFFT(sizes, axes, norm), random(shape, reals))
        check(InverseRealFFT(sizes, axes, norm), random(shape, numbers))


def test_bits_do_not_depend_on_threads() -> None:
    cases: list[tuple[Transform, np.ndarray]] = [
        (FFT((256,), (1,), "backward", inverse=False), random((300, 256), "complex64")),
        (RealFFT((2**16,), (0,), "backward"), random((2**16,), "float64")),
        (InverseRealFFT((64, 64), (1, 2), "backward"), random((40, 64, 33), "complex128")),
        (FFT((120, 130), (0, 1), "ortho", inverse=True), random((120, 130), "complex128")),
        (FFT((101,), (0,), "ortho", inverse=True), random((101, 500), "float32")),
    ]
    for op, x in cases:
        alone = run(op, x)
        for threads in (2, 3, 7):
            np.testing.assert_array_equal(run(op, x, threads), alone)


def exact(x: np.ndarray) -> np.ndarray:
    """The transform in extended precision, by its definition."""
    n = len(x)
    powers = np.outer(np.arange(n), np.arange(n))
    return roots(n, powers) @ x.astype(np.clongdouble)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_errors_are_a_small_multiple_of_pocketffts(dtype: str) -> None:
    """SciPy computes in the precision it is given; NumPy may compute in a wider one."""
    transforms = pytest.importorskip("scipy.fft")
    for n in (16, 60, 97, 128, 243, 360, 509, 512, 1000, 1024):
        x = random((n,), dtype)
        wanted = exact(x)
        ours, theirs = (
            np.linalg.norm((found - wanted).astype(complex))
            for found in (run(FFT((n,), (0,), "backward", inverse=False), x), transforms.fft(x))
        )
        assert ours <= 3 * theirs, n


def test_roots_of_unity_are_right_to_the_last_bit() -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        for n in (1, 2, 3, 7, 8, 12, 360, 1000, 1024, 10007):
            powers = np.unique(np.linspace(0, n - 1, 50).astype(np.int64))
            for power, found in zip(powers, roots(n, powers), strict=True):
                wanted = mpmath.expjpi(-2 * mpmath.mpf(int(power)) / n)
                for part, number in ((found.real, wanted.real), (found.imag, wanted.imag)):
                    assert (
                        abs(mpmath.mpf(float(part)) - number)
                        <= 2.0**-53 * (1 + abs(number)) / 2 + 1e-30
                    )


def test_code_is_shared_by_lengths() -> None:
    """As many functions as there are radices and ways to read and write, for all lengths."""
    libraries: set[object] = set()
    for n in range(1, 260):
        op = FFT((n,), (1,), "backward", inverse=False)
        kernel, _ = rule(op, np.empty((50, n), np.complex64))
        libraries |= {p.library for p in kernel.parameters if hasattr(p, "library")}
    assert len(libraries) <= 5 * len(BUTTERFLIES)


def test_factors_of_lengths() -> None:
    for n in range(1, 1200):
        passes = passes_of(n)
        assert np.prod(passes.factors) == passes.length
        assert passes.length == n or passes.length >= 2 * n - 1
        assert set(passes.factors) <= BUTTERFLIES.keys()


def test_what_needs_too_much_memory_is_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MOST_ROOM", 1000)
    x = np.empty((50, 100), np.complex64)
    node = make(FFT((100,), (1,), "backward", inverse=False), (variable(None, x.shape, x.dtype),))
    memory = Memory(x.shape, x.strides, x.dtype)
    assert transform(node, [memory], [memory], 1) is None


# ---------------------------------------------------------------------- programs

NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2"]
NAMES += ["fftn", "ifftn", "rfftn", "irfftn"]


@pytest.mark.parametrize(
    "dtype", ["int32", "bool", "float32", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("name", NAMES)
def test_programs_compile_every_name(name: str, dtype: str) -> None:
    if dtype.startswith("c") and name in ("rfft", "ihfft", "rfft2", "rfftn"):
        return
    x = (
        (random((6, 20), "float64") * 3).astype(dtype)
        if dtype[0] != "c"
        else random((6, 20), dtype)
    )
    v = tw.var("x", shape=x.shape, dtype=x.dtype)
    program = tw.Graph([v], getattr(tnp.fft, name)(v)).compile()
    found, wanted = program(x), getattr(np.fft, name)(x)
    assert "by NumPy" not in str(program.plan)
    assert found.dtype == wanted.dtype
    single = wanted.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(
        found, wanted, atol=(1e-5 if single else 1e-13) * np.abs(wanted).max()
    )


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_shape_and_axes(engine: str, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=4)))
    axes = tuple(
        data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))]
    )
    sizes = tuple(data.draw(st.integers(1, 24)) for _ in axes)
    name = data.draw(st.sampled_from(["fftn", "ifftn", "rfftn", "irfftn"]))
    single = data.draw(st.booleans())
    real = name == "rfftn" or (name != "irfftn" and data.draw(st.booleans()))
    dtype = (
        ("float32" if single else "float64") if real else "complex64" if single else "complex128"
    )
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    x = random(shape, dtype)
    v = tw.var("x", shape=shape, dtype=dtype)
    program = tw.Graph([v], getattr(tnp.fft, name)(v, sizes, axes, norm)).compile(engine)
    wanted = getattr(np.fft, name)(x.astype("float64" if real else "complex128"), sizes, axes, norm)
    scale = (3e-6 if single else 1e-14) * max(np.abs(wanted).max(), 1e-30)
    np.testing.assert_allclose(program(x), wanted, atol=scale, rtol=0)
