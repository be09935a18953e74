"""Questions about arrays: what a single case cannot say."""

from __future__ import annotations

import numpy as np
import pytest

import tawny.numpy as tp
from tawny.array import Array
from tawny.engine.reference import run
from tawny.ops.creation import var

SAMPLES = np.sin(np.arange(12.0)).reshape(3, 4)


def v(*shape: int, dtype: str = "float64") -> Array:
    return var(shape=shape, dtype=dtype)


def test_facts_are_plain_python_values() -> None:
    x = v(2, 3)
    assert (tp.shape(x), tp.ndim(x), tp.size(x), tp.size(x, 0)) == ((2, 3), 2, 6, 2)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 3), 2, 6)
    assert tp.isrealobj(x) is True
    assert tp.iscomplexobj(x) is False
    assert tp.isscalar(np.float32(1)) is True
    assert tp.shape([x, x]) == (2, 2, 3)


def test_a_known_choice_takes_from_a_variable() -> None:
    x = v(4)
    taken = tp.compress([True, False, True, True], x)
    (value,) = run([taken.node], {x.node: np.arange(4.0)})
    np.testing.assert_array_equal(value, [0.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda lazy: np.nanargmax(lazy(SAMPLES), 1),
        lambda lazy: np.nanargmin(lazy(SAMPLES), axis=0, keepdims=True),
        lambda lazy: np.array_equiv(lazy(SAMPLES), SAMPLES),
        lambda lazy: np.compress([1, 0, 1], lazy(SAMPLES), 0),
        lambda lazy: np.extract(SAMPLES > 0, lazy(SAMPLES)),
        lambda lazy: np.trim_zeros(lazy([0, 1, 2, 0])),
        lambda lazy: np.choose(lazy([0, 7]), [[1, 2], [3, 4]], mode="wrap"),
        lambda lazy: np.piecewise(lazy(SAMPLES), [SAMPLES < 0], [-1, lambda x, k: x * k], 2.0),
    ],
)
def test_numpys_own_functions_stay_lazy(call) -> None:
    got = call(tp.asarray)
    assert isinstance(got, Array)
    np.testing.assert_allclose(got.numpy(), call(np.asarray), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tp.size(v(2, 3), 2), np.exceptions.AxisError),
        (lambda: tp.nanargmax([np.nan, np.nan]), ValueError),
        (lambda: tp.nanargmin(v(0)), ValueError),
        (lambda: tp.compress(v(3), v(3)), TypeError),
        (lambda: tp.compress([[True]], v(3)), ValueError),
        (lambda: tp.compress([False, False, False, True], v(3)), IndexError),
        (lambda: tp.extract(v(3) > 0, v(3)), TypeError),
        (lambda: tp.trim_zeros(v(3)), TypeError),
        (lambda: tp.trim_zeros([0, 1], "x"), ValueError),
        (lambda: tp.choose([0, 2], [v(2), v(2)]), ValueError),
        (lambda: tp.choose(v(2), [v(2)]), TypeError),
        (lambda: tp.choose([0], []), ValueError),
        (lambda: tp.choose([0], [v(1)], mode="other"), ValueError),
        (lambda: tp.piecewise(v(3), [v(3) > 0], [1, 2, 3]), ValueError),
    ],
)
def test_mistakes_are_refused_when_built(call, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^\w+: .*\[test_queries.py:\d+\]"):
        call()
