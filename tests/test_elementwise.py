"""The elementwise table, row by row, against NumPy's and SciPy's own functions."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny.eager
import tawny.numpy as tnp
from cases import SPECIAL, sample
from tawny.dtype import DTYPES
from tawny.engine.reference.elementwise import SPELLING
from tawny.errors import AxisError
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.op import ELEMENTWISE, Elementwise
from tawny.operator import emit
from tawny.scalar import Prim

TABLE = pytest.mark.parametrize("op", ELEMENTWISE.values(), ids=ELEMENTWISE)

WITNESSES = {
    "fma": lambda x, y, z: x * y + z,
    "adagrad_rate": lambda x, rate, epsilon: rate / np.sqrt(x + epsilon),
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "softplus": lambda x: np.logaddexp(x, np.zeros((), x.dtype)),
    "quiet_multiply": lambda x, y: np.where(x == 0, np.zeros((), x.dtype), x * y),
    "quiet_divide": lambda x, y: np.where(x == 0, np.zeros((), x.dtype), x / y),
    "distance": np.sqrt,
}
"""Independent formulas for the rows that name no oracle."""

INTERNAL = {"quiet_multiply", "quiet_divide", "distance"}
"""Rows that only derivatives use."""

COMPOSITE = {
    "logaddexp",
    "logaddexp2",
    "heaviside",
    "sigmoid",
    "softplus",
    "dawsn",
    "erf",
    "erfc",
    "deg2rad",
    "rad2deg",
}
"""Rows computed by a formula of ours: equal to rounding, not to the bit."""


def _floor_divide(x, y):
    """NumPy's, but the floor of the IEEE quotient where an operand is infinite, as the standard asks."""
    infinite = np.isinf(x) | np.isinf(y)
    out = np.floor_divide(x, y)
    return np.where(infinite, np.floor(np.divide(x, y)), out).astype(out.dtype)


def witness(op: Elementwise):
    if op.info.name == "floor_divide":
        return _floor_divide
    if not op.info.oracle:
        formula = WITNESSES[op.info.name]
        return lambda *xs: formula(*(x.astype(op.infer_dtype(*(x.dtype for x in xs))) for x in xs))
    module, _, name = op.info.oracle.rpartition(".")
    return getattr(importlib.import_module(module), name)


def called(op: Elementwise):
    """The row as a function of NumPy arrays."""
    if op.info.name in INTERNAL:
        return lambda *xs: emit(op, *xs).numpy()
    return getattr(tawny.eager, op.info.name)


def accepted(op: Elementwise) -> list[str]:
    return [str(d) for d, c in DTYPES.items() if c in op.info.dtype.accepts - op.info.dtype.refuses]


def test_every_primitive_is_spelled() -> None:
    assert set(SPELLING) == set(Prim)


@TABLE
def test_row_is_public_and_documented(op: Elementwise) -> None:
    assert (op.info.name in PUBLIC_FUNCTIONS) != (op.info.name in INTERNAL)
    assert op.info.doc.splitlines()[0].endswith(".")
    assert op.info.oracle or op.info.name in WITNESSES


UFUNCS = {
    name: ufunc
    for name, op in ELEMENTWISE.items()
    if op.info.oracle.startswith("numpy.")
    and isinstance(ufunc := getattr(np, op.info.oracle.removeprefix("numpy.")), np.ufunc)
}
"""The rows that are a ufunc of NumPy's."""


@pytest.mark.parametrize(("name", "ufunc"), list(UFUNCS.items()), ids=list(UFUNCS))
def test_dtype_rule_is_numpys(name: str, ufunc: np.ufunc) -> None:
    op = ELEMENTWISE[name]
    for dtypes in itertools.product(DTYPES, repeat=op.info.arity):
        try:
            expected = ufunc.resolve_dtypes((*dtypes, None))[-1]
        except TypeError:
            with pytest.raises(TypeError, match=f"^{op.info.name}: operands? "):
                op.infer_dtype(*dtypes)
            continue
        assert op.infer_dtype(*dtypes) == expected, dtypes


@TABLE
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,), (3, 1)), ((), (2,), ()), ((0, 3), (1, 3), ())], ids=str
)
def test_values_are_the_witness_s(op: Elementwise, shapes) -> None:
    rng = np.random.default_rng(3)
    function = called(op)
    for dtype in accepted(op):
        domain = (op.info.domain.low, op.info.domain.high)
        if dtype.startswith(("int", "uint")):
            domain = (max(domain[0], 1.0), max(domain[1], 2.0))
        operands = [sample(rng, s, dtype, domain) for s in shapes[: op.info.arity]]
        check(op, function, operands)


@TABLE
def test_special_values_are_the_witness_s(op: Elementwise) -> None:
    function = called(op)
    for dtype in ("float16", "float32", "float64"):
        if dtype in accepted(op):
            check(
                op,
                function,
                [g.astype(dtype) for g in np.meshgrid(*[np.array(SPECIAL)] * op.info.arity)],
            )


def check(op: Elementwise, function, operands: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        expected = np.asarray(witness(op)(*operands))
        got = function(*operands)
    assert got.shape == expected.shape
    assert got.dtype == op.infer_dtype(*(x.dtype for x in operands))
    assert got.dtype == expected.dtype or not op.info.oracle.startswith("numpy")
    if op.info.name in COMPOSITE:
        eps = float(np.finfo(got.dtype).eps)
        np.testing.assert_allclose(
            got, expected, rtol=16 * eps, atol=np.finfo(got.dtype).smallest_subnormal
        )
    else:
        np.testing.assert_array_equal(got, expected)
        if got.dtype.kind == "f":
            zero = expected == 0
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


PYTHON = st.one_of(
    st.booleans(),
    st.integers(-300, 300),
    st.floats(-100, 100, width=32),
    st.complex_numbers(max_magnitude=100),
)


@TABLE
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_python_numbers_are_weak(op: Elementwise, data: st.DataObject) -> None:
    if op.info.arity != 2 or not op.info.oracle.startswith("numpy"):
        return
    dtype = data.draw(st.sampled_from(list(DTYPES)))
    number = data.draw(PYTHON)
    array = np.ones(2, dtype)
    operands = (array, number) if data.draw(st.booleans()) else (number, array)
    try:
        with np.errstate(all="ignore"):
            expected = witness(op)(*operands)
    except (TypeError, OverflowError, ValueError) as error:
        with pytest.raises(TypeError if isinstance(error, TypeError) else type(error)):
            getattr(tawny.eager, op.info.name)(*operands)
        return
    got = getattr(tawny.eager, op.info.name)(*operands)
    assert got.dtype == expected.dtype
    rtol = 4 * float(np.finfo(got.dtype).eps) if got.dtype.kind in "fc" else 0.0
    np.testing.assert_allclose(got, expected, rtol=max(rtol, 1e-5))


def test_comparison_with_a_python_integer_is_exact() -> None:
    x = tnp.asarray([0, 255], dtype="uint8")
    assert (x < 300).tolist() == [True, True]
    assert (x == 300).tolist() == [False, False]
    assert (x > -1).tolist() == [True, True]
    assert (x < 2**70).tolist() == [True, True]
    assert (x > -(2**70)).tolist() == [True, True]


def test_axis_error_is_numpys() -> None:
    with pytest.raises(AxisError):
        tnp.sum(tnp.zeros((2,)), axis=3)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (INF, 1.0, INF),
        (INF, -1.0, -INF),
        (-INF, 1.0, -INF),
        (1.0, -INF, -0.0),
        (-1.0, INF, -0.0),
        (INF, INF, NAN),
        (7.0, 2.0, 3.0),
    ],
)
def test_floor_divide_of_infinities_is_the_standards(x: float, y: float, expected: float) -> None:
    got = float(tnp.floor_divide(tnp.asarray(x), y))
    np.testing.assert_equal(got, expected)
    assert np.isnan(expected) or np.signbit(got) == np.signbit(expected)


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (complex(INF, 0), complex(INF, 0)), (complex(-INF, INF), complex(-1, 0)), (complex(INF, INF), complex(INF, NAN)),
        (complex(-INF, NAN), complex(-1, 0)), (complex(NAN, 0), complex(NAN, 0)), (complex(-0.0, 0), complex(0, 0)),
        (complex(0.5, 0.25), np.expm1(complex(0.5, 0.25))),
    ],
)  # fmt: skip
def test_expm1_of_special_complex_numbers_is_the_standards(z: complex, expected: complex) -> None:
    got = complex(tnp.expm1(tnp.asarray(z)))
    np.testing.assert_equal((got.real, got.imag), (expected.real, expected.imag))
    assert not np.signbit(got.real) or expected.real < 0
