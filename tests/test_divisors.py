"""Greatest common divisors and least common multiples: NumPy's bits, by compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from tawny.dtype import DTYPES

INTEGERS = [dtype for dtype in DTYPES if dtype.kind in "iu"]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_all_pairs_of_sizes_and_signs(engine: str, dtype: np.dtype) -> None:
    """Small and large numbers, multiples of each other, 0 and the ends of the range."""
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    ends = [info.min, info.min + 1, 0, 1, 2, info.max - 1, info.max]
    bits = rng.integers(0, 2 ** (8 * dtype.itemsize) - 1, 60, np.uint64, endpoint=True)
    shifts = rng.integers(0, 8 * dtype.itemsize, 60, np.uint64)
    numbers = np.concatenate([np.array(ends, dtype), (bits >> shifts).astype(dtype)])
    x, y = tw.var("x", shape=(67, 1), dtype=dtype), tw.var("y", shape=(67,), dtype=dtype)
    program = tw.Graph([x, y], [tnp.gcd(x, y), tnp.lcm(x, y)]).compile(engine)
    if engine == "cpu":
        assert "by NumPy" not in str(program.plan)
    for got, function in zip(program(numbers[:, None], numbers), (np.gcd, np.lcm), strict=True):
        want = function(numbers[:, None], numbers)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


X, Y = tw.var("x", shape=(5,), dtype="int64"), tw.var("y", shape=(5,), dtype="int64")
PROGRAM = tw.Graph([X, Y], [tnp.gcd(X, Y), tnp.lcm(X, Y)]).compile()
LONG = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=5)


@settings(max_examples=60, deadline=None)
@given(LONG, LONG)
def test_long_integers(x: list[int], y: list[int]) -> None:
    a, b = np.array(x), np.array(y)
    gcd, lcm = PROGRAM(a, b)
    np.testing.assert_array_equal(gcd, np.gcd(a, b))
    np.testing.assert_array_equal(lcm, np.lcm(a, b))


def test_mixed_dtypes_and_what_is_refused() -> None:
    got = tnp.gcd(np.array([12, 18], "int8"), np.array([8, 27], "uint16"))
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got.numpy(), [4, 9])
    for wrong in (1.5, 1j):
        with pytest.raises(TypeError, match="gcd: operand 1"):
            tnp.gcd(4, wrong)
