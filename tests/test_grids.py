"""Grids, windows and blocks: what a single case cannot say."""

from __future__ import annotations

import numpy as np
import pytest

import tawny.numpy as tp
from tawny.array import Array
from tawny.ops.creation import var

LINE = np.arange(5.0)
SAMPLES = np.sin(np.arange(12.0)).reshape(3, 4)


def v(*shape: int, dtype: str = "float64") -> Array:
    return var(shape=shape, dtype=dtype)


@pytest.mark.parametrize(
    "call",
    [
        lambda lazy: np.logspace(lazy(1.0), lazy(2.0), 5),
        lambda lazy: np.geomspace(lazy(1.0), 2, 5),
        lambda lazy: np.ix_(lazy([0, 1]), lazy([2])),
        lambda lazy: np.unravel_index(lazy([3, 4]), (3, 4)),
        lambda lazy: np.ravel_multi_index((lazy([1, 2]), lazy([0, 1])), (3, 4)),
        lambda lazy: np.block([[lazy(SAMPLES), SAMPLES], [lazy(SAMPLES), SAMPLES]]),
        lambda lazy: np.resize(lazy(SAMPLES), (2, 3)),
        lambda lazy: np.apply_along_axis(lambda x, k: x * k, 1, lazy(SAMPLES), 3.0),
        lambda lazy: np.lib.stride_tricks.sliding_window_view(lazy(LINE), 3),
        lambda lazy: np.i0(lazy(SAMPLES)),
        lambda lazy: np.ldexp(lazy(LINE), 3),
        lambda lazy: np.spacing(lazy(LINE)),
        lambda lazy: np.bitwise_count(lazy([3, 255])),
        lambda lazy: np.float_power(lazy(np.arange(3, dtype="int8")), 300),
    ],
)
def test_numpys_own_functions_stay_lazy(call) -> None:
    got, expected = call(tp.asarray), call(np.asarray)
    several = isinstance(expected, tuple)
    for g, w in zip(got if several else [got], expected if several else [expected], strict=True):
        assert isinstance(g, Array)
        np.testing.assert_allclose(g.numpy(), w, atol=1e-12)


def test_what_numpy_copies_is_a_new_array() -> None:
    x = v(3)
    for y in (tp.block(x), tp.resize(x, 3), tp.choose([0, 0, 0], [x])):
        assert y.node is not x.node


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tp.geomspace(0, 1), ValueError),
        (lambda: tp.indices((2, -1)), ValueError),
        (lambda: tp.ix_(v(2, 2)), ValueError),
        (lambda: tp.tril_indices(-1), ValueError),
        (lambda: tp.unravel_index(12, (3, 4)), ValueError),
        (lambda: tp.unravel_index(-1, (3, 4)), ValueError),
        (lambda: tp.unravel_index(1.5, (3, 4)), TypeError),
        (lambda: tp.unravel_index(1, (3, 4), "A"), ValueError),
        (lambda: tp.ravel_multi_index((3, 0), (3, 4)), ValueError),
        (lambda: tp.ravel_multi_index((3,), (3, 4)), ValueError),
        (lambda: tp.ravel_multi_index((0, 0), (3, 4), "other"), ValueError),
        (lambda: tp.hanning(2.5), TypeError),
        (lambda: tp.block([]), ValueError),
        (lambda: tp.block([[v(1)], v(1)]), ValueError),
        (lambda: tp.resize(v(3), (-1, 2)), ValueError),
        (lambda: tp.sliding_window_view(v(3), 4), ValueError),
        (lambda: tp.sliding_window_view(v(3, 3), 2), ValueError),
        (lambda: tp.apply_along_axis(tp.sum, 1, v(0, 3)), ValueError),
        (lambda: tp.apply_along_axis(tp.sum, 2, v(2, 3)), np.exceptions.AxisError),
        (lambda: tp.ldexp(v(3), v(3)), TypeError),
        (lambda: tp.bitwise_count(v(3)), TypeError),
        (lambda: tp.i0(v(3, dtype="complex64")), TypeError),
    ],
)
def test_mistakes_are_refused_when_built(call, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^\w+: .*\[test_grids.py:\d+\]"):
        call()
