"""Reshapes of strided views: those that only cut axes are views, too, and take no step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from tawny.shape import size, splits

SIZES = st.lists(st.sampled_from([1, 1, 2, 3, 4, 6]), max_size=4).map(tuple)


@given(SIZES, SIZES)
def test_numpy_cuts_the_same_axes_without_a_copy(shape, into):
    gaps = np.empty([2 * n for n in shape], np.int8)[(*[slice(0, 2 * n, 2) for n in shape], ...)]
    groups = splits(shape, into)
    if size(shape) != size(into):
        assert groups is None
        return
    assert (groups is not None) == np.shares_memory(gaps, gaps.reshape(into))
    for n, group in zip(shape, groups or (), strict=False):
        assert size(tuple([into[axis] for axis in group])) == n


CUTS = {
    "one of a stack": lambda np, x: x[3],
    "a row for each": lambda np, x: x[:, 2],
    "heads": lambda np, x: np.transpose(np.reshape(x[:, :, 4:], (5, 4, 2, 4)), (0, 2, 1, 3)),
    "new axes": lambda np, x: np.expand_dims(x[::2, :, 1:], axis=(0, 2, -1)),
    "backwards": lambda np, x: np.reshape(x[::-1, :, ::-1], (5, 2, 2, 1, 3, 4)),
}
"""Of a library and an array."""


@pytest.mark.parametrize("name", CUTS)
def test_axes_that_are_cut_take_no_step(name, engine):
    x = tw.var("x", shape=(5, 4, 12), dtype="float32")
    value = np.arange(240, dtype=np.float32).reshape(5, 4, 12)
    program = tw.Graph([x], tnp.cumsum(CUTS[name](tnp, tnp.sqrt(x)), axis=0)).compile(engine=engine)
    assert len(program.plan.steps) == 2
    want = np.cumsum(CUTS[name](np, np.sqrt(value)), axis=0)
    np.testing.assert_allclose(program(value), want, rtol=1e-5)


def test_axes_that_become_one_are_copied():
    x = tw.var("x", shape=(5, 4, 12), dtype="float32")
    value = np.arange(240, dtype=np.float32).reshape(5, 4, 12)
    program = tw.Graph([x], tnp.reshape(x[:, 1:3, ::3], (10, 4))).compile(engine="cpu")
    assert len(program.plan.steps) == 1
    np.testing.assert_array_equal(program(value), value[:, 1:3, ::3].reshape(10, 4))
