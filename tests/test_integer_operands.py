"""Integers of every dtype, up to their limits, where floating point is computed of them.

Differences, squares and sums that a function makes on the way must not wrap: its result is that of
the same numbers in float64.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import tawny as tw
import tawny.eager as eager
import tawny.numpy as tnp
from cases import INTEGERS, parts
from tawny.op import ELEMENTWISE, Gradient
from test_functions import CASES

DTYPES = ("bool", *INTEGERS)
EXACT = 2**52
"""Integers up to here are floats too."""

COARSE = {"spacing", "ldexp", "clip_by_norm"}
"""Functions whose result says how coarse the dtype is, or whose witness knows small numbers."""


FEW = 2
"""Cases of one function are alike as far as dtypes go: these many are tried of each."""


def chosen():
    """The first few cases of each function whose results have a shape of their own."""
    met: dict[str, int] = {}
    for _, case in CASES:
        if any(isinstance(s, np.ndarray) for s in case.shapes):
            continue
        met[case.name] = met.get(case.name, 0) + 1
        if not case.needs_values and case.name not in COARSE and met[case.name] <= FEW:
            yield case


def drawn(case, dtype):
    rng = np.random.default_rng(zlib.crc32(f"{case.name}{dtype}".encode()))
    low, high = LIMITS[dtype]
    return [rng.integers(low, high, s, endpoint=True).astype(dtype) for s in case.shapes]


LIMITS = {
    d: (max(int(np.iinfo(d).min), -EXACT), min(int(np.iinfo(d).max), EXACT)) for d in INTEGERS
} | {"bool": (0, 1)}


def is_near(got, exact) -> bool:
    if got.dtype == "float16" and np.abs(exact).max(initial=0) > 6e4:
        return True  # a narrow integer gives a narrow result, which cannot hold this
    rtol = max(1e-9, 100 * float(np.finfo(got.dtype).eps))
    largest = np.where(np.isfinite(exact), np.abs(exact), 0).max(initial=1)
    return np.allclose(got, exact, rtol=rtol, atol=1e-9 * largest, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_integers_are_those_of_the_same_floats(dtype) -> None:
    tried, wrong = set(), []
    for case in chosen():
        operands = drawn(case, dtype)
        try:
            got = [np.asarray(x) for x in parts(case.call(eager, *operands))]
            if not any(x.dtype.kind == "f" for x in got):
                continue
            exact = parts(case.witness(*[x.astype("float64") for x in operands]))
        except (TypeError, ValueError, OverflowError, IndexError):  # such numbers are refused
            continue
        for g, w in zip(got, exact, strict=True):
            if g.dtype.kind == "f" and not is_near(g, np.asarray(w)):
                wrong.append(f"{case.name}: {g}, not {w}")
        tried.add(case.name)
    assert wrong == []
    assert {"softmax", "log_softmax", "trapezoid", "std", "linalg.vector_norm"} <= tried


BINARY = sorted(
    name
    for name, op in ELEMENTWISE.items()
    if op.info.arity == 2
    and op.info.gradient not in (Gradient.ZERO, Gradient.NONE)
    and hasattr(tnp, name)
)
LARGE = {d: high // 2 for d, (_, high) in LIMITS.items()} | {"float16": 300}


@pytest.mark.parametrize("name", BINARY)
def test_slopes_beside_integers_are_those_beside_floats(name, engine) -> None:
    """The slope of an operand of float64 is the same for every dtype that the other may have."""
    function = getattr(tnp, name)
    x = tw.var("x", shape=(3,))
    given, values, slopes = [x], [np.array([1.25, 0.75, 2.5])], []
    for dtype in (*DTYPES, "float16"):
        numbers = np.array([1, 1, 0] if dtype == "bool" else [LARGE[dtype], 3, 2], dtype)
        for kind in (dtype, "float64"):
            y = tw.var(shape=(3,), dtype=kind)
            given.append(y)
            values.append(numbers.astype(kind))
            both = function(x, y), function(y, x)
            slopes.append(tnp.stack([tw.gradients(z.sum(), [x])[0] for z in both]))
    found = tw.Graph(given, slopes, unused="ignore").compile(engine=engine)(*values)
    for beside, exact in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_allclose(beside, exact, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["atan2", "hypot", "asinh"])
def test_slopes_do_not_overflow_where_squares_would(name, dtype, engine) -> None:
    large = np.sqrt(np.finfo(dtype).max).astype(dtype) * np.array([0.5, 2, 8], dtype)
    x = tw.var(shape=(3,), dtype=dtype)
    y = tw.var(shape=(3,), dtype=dtype)
    result = tnp.asinh(x) if name == "asinh" else getattr(tnp, name)(x, y)
    slope = tw.gradients(result.sum(), [x])[0]
    got = tw.Graph([x, y], slope, unused="ignore").compile(engine=engine)(large, large)
    a = large.astype("longdouble")
    exact = {"atan2": 0.5 / a, "hypot": np.sqrt(0.5) + 0 * a, "asinh": 1 / np.hypot(a, 1)}[name]
    np.testing.assert_allclose(got, exact.astype(dtype), rtol=1e-6)


COORDINATES = {"falling": [3, 2, 1], "rising": [1, 2, 4], "wide": [0, 1, 100], "back": [100, 0, 7]}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", COORDINATES)
def test_gradients_and_integrals_over_integer_coordinates(name, dtype) -> None:
    x = np.array(COORDINATES[name], dtype)
    y = np.array([0, 2, 120], dtype)
    exact = x.astype("float64"), y.astype("float64")
    np.testing.assert_allclose(tnp.gradient(y, x).numpy(), np.gradient(exact[1], exact[0]))
    np.testing.assert_allclose(tnp.trapezoid(y, x).numpy(), np.trapezoid(exact[1], exact[0]))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_clipping_by_norm_takes_large_integers(dtype) -> None:
    x = np.full(4, LARGE[dtype], dtype)
    np.testing.assert_allclose(tnp.clip_by_norm(x, 2.0).numpy(), np.ones(4))
