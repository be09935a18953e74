"""Dtypes: promotion, weak numbers, and the functions on dtypes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tawny.numpy as tnp
from cases import each
from tawny.dtype import DTYPES, as_dtype, promote, weak_dtype

NAMES = [str(d) for d in DTYPES]
NUMBERS = {bool: True, int: 1, float: 1.5, complex: 1j}


@each(itertools.product(NAMES, repeat=2))
def test_promotion_is_numpys(a: str, b: str) -> None:
    x, y = np.dtype(a), np.dtype(b)
    assert promote(x, y) == np.result_type(x, y)
    assert tnp.result_type(x, y) == np.result_type(x, y)
    assert tnp.can_cast(x, y) == np.can_cast(x, y)


@pytest.mark.parametrize(("kind", "name"), list(itertools.product(NUMBERS, NAMES)))
def test_python_numbers_are_weak(kind: type, name: str) -> None:
    array = np.ones(1, name)
    expected = np.result_type(array, NUMBERS[kind])
    assert weak_dtype(kind, array.dtype) == expected
    assert tnp.result_type(tnp.asarray(array), NUMBERS[kind]) == expected
    assert (tnp.asarray(array) * NUMBERS[kind]).dtype == (array * NUMBERS[kind]).dtype


@given(st.lists(st.sampled_from([*NAMES, *NUMBERS]), min_size=1, max_size=4))
def test_result_type_of_a_mixture(mixture: list) -> None:
    given_ = [np.dtype(m) if isinstance(m, str) else NUMBERS[m] for m in mixture]
    assert tnp.result_type(*given_) == np.result_type(*given_)


@pytest.mark.parametrize("name", NAMES)
def test_limits(name: str) -> None:
    dtype = np.dtype(name)
    if dtype.kind in "fc":
        ours, theirs = tnp.finfo(tnp.zeros((1,), dtype=dtype)), np.finfo(dtype)
        assert (ours.bits, ours.eps, ours.max, ours.min) == (
            theirs.bits,
            theirs.eps,
            theirs.max,
            theirs.min,
        )
        assert ours.smallest_normal == theirs.smallest_normal
        assert {type(v) for v in (ours.eps, ours.max, ours.min, ours.smallest_normal)} == {float}
        with pytest.raises(ValueError, match="iinfo: dtype"):
            tnp.iinfo(dtype)
    elif dtype.kind in "iu":
        ours, theirs = tnp.iinfo(dtype), np.iinfo(dtype)
        assert (ours.bits, ours.max, ours.min, ours.dtype) == (
            theirs.bits,
            theirs.max,
            theirs.min,
            dtype,
        )
        with pytest.raises(ValueError, match="finfo: dtype"):
            tnp.finfo(dtype)


@pytest.mark.parametrize("name", NAMES)
def test_kinds_are_numpys(name: str) -> None:
    for kind in (
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
    ):
        assert tnp.isdtype(np.dtype(name), kind) == np.isdtype(np.dtype(name), kind)
    assert tnp.isdtype(np.dtype(name), ("bool", np.dtype(name)))


@pytest.mark.parametrize("spec", ["float32", np.float32, np.dtype("float32"), "<f4", "f"])
def test_dtypes_are_named_in_many_ways(spec: object) -> None:
    assert as_dtype(spec, "test") == np.float32


@pytest.mark.parametrize("spec", ["nonsense", object, "datetime64[s]", "U4", 3])
def test_what_is_no_dtype_is_refused(spec: object) -> None:
    with pytest.raises(TypeError, match="supported: bool, int8"):
        tnp.zeros((2,), dtype=spec)


def test_information_of_the_namespace() -> None:
    info = tnp.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert info.devices() == ("cpu",)
    assert info.default_dtypes()["real floating"] == np.float64
    assert set(info.dtypes(kind="integral")) == {n for n in NAMES if "int" in n}
    assert set(info.dtypes()) == set(NAMES) - {"float16"}
    assert info.capabilities()["boolean indexing"]
