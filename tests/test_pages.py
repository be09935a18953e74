"""Large arrays on pages of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from tawny import pages

DTYPES = ["bool", "int8", "float16", "float32", "float64", "complex128"]
SIZES = [0, 1, 5, pages.LARGE - 1, pages.LARGE, 3 * 10**6 + 1]


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_hold_the_same(nbytes: int, dtype: str) -> None:
    kind = np.dtype(dtype)
    array = np.resize(np.arange(251), nbytes // kind.itemsize).astype(kind)
    copy = pages.copy_array(array)
    np.testing.assert_array_equal(copy, array)
    assert copy.dtype == kind
    assert not np.shares_memory(copy, array)
    assert copy.flags.writeable
    copy.flags.writeable = False
    copy.flags.writeable = True


@settings(max_examples=30, deadline=None)
@given(
    st.permutations(range(3)),
    st.tuples(*[st.integers(-2, 2).filter(bool)] * 3),
    st.sampled_from([(2, 3, 4), (100, 70, 90), (1, 512, 2048)]),
)
def test_copies_lie_as_new_arrays_do(
    axes: list[int], steps: tuple[int, int, int], shape: tuple[int, int, int]
) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape).transpose(axes)
    view = array[tuple(slice(None, None, s) for s in steps)]
    copy = pages.copy_array(view)
    assert copy.flags.c_contiguous
    assert copy.flags.aligned
    np.testing.assert_array_equal(copy, view)


def test_a_constant_keeps_its_value_when_the_array_it_came_from_changes() -> None:
    for count in (10, 10**6):
        given_ = np.ones(count, np.float32)
        x = tw.var("x", shape=(count,), dtype="float32")
        y, z = x + given_, tnp.asarray(given_)
        given_[...] = 7
        program = tw.Graph([x], [y, z]).compile()
        for value, wanted in zip(program(np.zeros(count, np.float32)), (1, 1), strict=True):
            assert (value == wanted).all()


def test_a_large_constant_is_given_out_as_any_other() -> None:
    value = np.arange(10**6, dtype=np.float32)
    constant = tnp.asarray(value)
    with pytest.raises(ValueError, match="read-only"):
        constant.numpy()[0] = 1
    np.testing.assert_array_equal(np.from_dlpack(constant), value)
    shared = constant.__dlpack__(copy=False)
    assert shared is not None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 4), (3,), (33, 5), (1024, 1024)])
def test_aligned_arrays_own_their_memory_alone(shape: tuple[int, ...], dtype: str) -> None:
    new = pages.empty_aligned(shape, np.dtype(dtype))
    assert (new.shape, new.dtype, new.flags.c_contiguous) == (shape, np.dtype(dtype), True)
    assert type(new) is np.ndarray
    assert new.ctypes.data % 64 == 0
    assert pages.owns_memory(new)
    assert not pages.owns_memory(new.reshape(-1))
    new.fill(1)
    new.flags.writeable = False
    new.flags.writeable = True
