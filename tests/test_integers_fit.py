"""Integers never wrap on their way into an array: what does not fit is refused, as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp

WHOLE = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
LIMITS = {d: (0, 1) if d == "bool" else (np.iinfo(d).min, np.iinfo(d).max) for d in WHOLE}
ENDS = sorted({n + by for low, high in LIMITS.values() for n in (low, high) for by in (-1, 0, 1)})


def program(dtype, shape=(), engine="reference"):
    x = tw.var("x", shape=shape, dtype=dtype)
    return tw.Graph([x], tnp.copy(x)).compile(engine=engine)


@pytest.mark.parametrize("dtype", WHOLE)
def test_numbers_given_to_programs_fit_or_are_refused(dtype) -> None:
    low, high = LIMITS[dtype]
    p = program(dtype)
    p.set(x=1)
    for number in [*ENDS, 2**70, -(2**70)]:
        if low <= number <= high:
            assert int(p(number)) == number
        else:
            before = p.state["x"]
            with pytest.raises(OverflowError, match=f"{number}.*out of bounds for {dtype}"):
                p(number)
            with pytest.raises(OverflowError):
                p.set(x=number)
            np.testing.assert_array_equal(p.state["x"], before)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WHOLE), st.sampled_from(WHOLE), st.data())
def test_arrays_given_to_programs_fit_or_are_refused(engine, ours, theirs, data) -> None:
    low, high = LIMITS[theirs]
    numbers = st.one_of(
        st.integers(low, high), st.sampled_from([e for e in ENDS if low <= e <= high])
    )
    values = np.array(data.draw(st.lists(numbers, max_size=3)), theirs)
    p = program(ours, values.shape, engine)
    listed = np.asarray(values.tolist()).dtype.kind in "biu"  # [0, 2**63] is of floats to NumPy
    least, most = LIMITS[ours]
    if all(least <= int(v) <= most for v in values):
        np.testing.assert_array_equal(p(values), values)
        if listed:
            np.testing.assert_array_equal(p(x=values.tolist()), values)
    else:
        for given_as in (values, values[::-1], *([values.tolist()] if listed else [])):
            with pytest.raises(OverflowError, match=r"'x'.*out of bounds"):
                p(given_as)


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("dtype", WHOLE)
def test_floats_are_not_rounded_to_integers(dtype, kind) -> None:
    p = program(dtype)
    for value in (1.0, np.ones((), kind), np.dtype(kind).type(1)):
        with pytest.raises(TypeError, match=r"'x' was given dtype .* it has .*convert the value"):
            p(value)


def test_large_integers_are_floats_where_a_float_is_wanted() -> None:
    assert program("float64")(2**70) == 2.0**70
    assert float(tnp.asarray(2**70, dtype="float32")) == 2.0**70


def test_jit_refuses_what_does_not_fit_beside_its_arrays() -> None:
    f = tw.jit(lambda a, b: a + b)
    a = np.ones(2, "int8")
    np.testing.assert_array_equal(f(a, 3), a + np.int8(3))
    with pytest.raises(OverflowError, match="300"):
        f(a, 300)
    np.testing.assert_array_equal(f(a, np.array(300)), a + np.array(300))


def set_all(module, x, value):
    y = module.array(x)
    y[...] = value
    return y


def add_to(module, x, value):
    y = module.array(x)
    y += value
    return y


INTEGERS = {
    "add": lambda m, x: m.add(x, 300),
    "operator": lambda m, x: 300 - x,
    "beyond all": lambda m, x: x + 2**70,
    "negative": lambda m, x: m.astype(x, "uint8") - (-1),
    "multiply": lambda m, x: m.multiply(x, 300),
    "floor_divide": lambda m, x: m.floor_divide(x, 300),
    "remainder": lambda m, x: m.remainder(x, 300),
    "power": lambda m, x: m.power(x, 300),
    "divide": lambda m, x: m.divide(x, 300),
    "arctan2": lambda m, x: m.arctan2(x, 300),
    "hypot": lambda m, x: m.hypot(x, 300),
    "maximum": lambda m, x: m.maximum(x, 300),
    "bitwise_and": lambda m, x: m.bitwise_and(x, 300),
    "left_shift": lambda m, x: m.left_shift(x, 300),
    "logical_and": lambda m, x: m.logical_and(x, 300),
    "clip": lambda m, x: m.clip(x, 300, 400),
    "clip far": lambda m, x: m.clip(x, -300, 400),
    "equal": lambda m, x: m.equal(x, 300),
    "less": lambda m, x: x < 300,
    "isin": lambda m, x: m.isin(x, 300),
    "searchsorted": lambda m, x: m.searchsorted(x, 300),
    "digitize": lambda m, x: m.digitize(x, [1, 300]),
    "full": lambda m, x: m.full(3, 300, dtype="int8"),
    "full below": lambda m, x: m.full(3, -1, dtype="uint64"),
    "full_like": lambda m, x: m.full_like(x, 300),
    "asarray": lambda m, x: m.asarray(300, dtype="int8"),
    "asarray of a list": lambda m, x: m.asarray([1, 300], dtype="int8"),
    "asarray below": lambda m, x: m.asarray([-1], dtype="uint8"),
    "arange": lambda m, x: m.arange(300, 310, dtype="int8"),
    "pad": lambda m, x: m.pad(x, 1, constant_values=300),
    "pad by pairs": lambda m, x: m.pad(x, 1, constant_values=[0, 300]),
    "insert": lambda m, x: m.insert(x, 1, 300),
    "insert a list": lambda m, x: m.insert(x, 1, [300, 1]),
    "append": lambda m, x: m.append(x, 300),
    "piecewise": lambda m, x: m.piecewise(x, [x > 1], [300, -1]),
    "diff": lambda m, x: m.diff(x, prepend=300),
    "setitem": lambda m, x: set_all(m, x, 300),
    "setitem of a list": lambda m, x: set_all(m, x, [1, 2, 300]),
    "setitem of an array": lambda m, x: set_all(m, x, np.array([1, 2, 300])),
    "in place": lambda m, x: add_to(m, x, 300),
    "dot": lambda m, x: m.dot(x, 300),
    "inner": lambda m, x: m.inner(x, 300),
    "outer": lambda m, x: m.outer(x, 300),
    "kron": lambda m, x: m.kron(x, 300),
    "einsum": lambda m, x: m.einsum("i,->i", x, 300),
    "vdot": lambda m, x: m.vdot(x, [300, 1, 1]),
    "convolve": lambda m, x: m.convolve(x, [1, 300]),
}
"""What NumPy refuses or computes of an int8 array and an integer that int8 does not hold."""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", INTEGERS)
def test_python_integers_in_operations_are_refused_where_numpy_refuses_them(name) -> None:
    x = np.array([1, 2, 100], "int8")
    call = INTEGERS[name]
    try:
        expected = np.asarray(call(np, x))
    except OverflowError:
        with pytest.raises(OverflowError, match=r"\[test_integers_fit.py:\d+\]"):
            call(tnp, tnp.asarray(x))
    else:
        got = call(tnp, tnp.asarray(x)).numpy()
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


CHOICES = {
    "where": lambda x: tnp.where(x > 1, x, 300),
    "select": lambda x: tnp.select([x > 1], [x], 300),
    "choose": lambda x: tnp.choose([0, 1, 0], [x, 300]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_integers_that_numpy_wraps_in_choices_are_refused(name) -> None:
    with pytest.raises(OverflowError, match="300 is out of bounds for int8"):
        CHOICES[name](tnp.asarray(np.array([1, 2, 100], "int8")))
