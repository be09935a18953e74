"""Elements that are repeated side by side, written by vectors."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.array import array_for
from tawny.node import make
from tawny.ops.differentiation import Again

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "float32", "float64", "complex64", "complex128"]
)
def test_repeated_elements(dtype: str, engine: str) -> None:
    """Any count and length, on kept axes too, beside memory that nobody may write."""
    for rows, length, count in (
        (1, 1, 3),
        (3, 7, 2),
        (2, 33, 3),
        (1, 1001, 5),
        (5, 64, 17),
        (2, 9, 100),
    ):
        value = (RNG.normal(size=(rows, length)) * 9).astype(dtype)
        x = tw.var("x", value.shape, dtype)
        outputs = [
            tnp.repeat(x, count, axis=1),
            tnp.repeat(x, count, axis=0),
            tnp.copy(tnp.broadcast_to(x[:, :, None], (rows, length, count))),
            tnp.copy(tnp.broadcast_to(x[:, None, :1], (rows, count, length))),
        ]
        want = [
            np.repeat(value, count, axis=1),
            np.repeat(value, count, axis=0),
            np.broadcast_to(value[:, :, None], (rows, length, count)),
            np.broadcast_to(value[:, None, :1], (rows, count, length)),
        ]
        got = tw.Graph([x], outputs).compile(engine=engine)(value)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_copies_with_more_operands_than_they_read(dtype: str, engine: str) -> None:
    """What is computed again waits for another value, which its kernel does not read."""
    value = (RNG.normal(size=(5, 7, 1)) * 9).astype(dtype)
    x, after = tw.var("x", value.shape, dtype), tw.var("after", (3,), dtype)
    wide = tnp.broadcast_to(x, (2, 5, 7, 4))
    again = array_for(make(Again(), (wide.node, after.node)))
    graph = tw.Graph([x, after], [tnp.copy(again), again[0, :, :, 1]])
    program = graph.compile(engine=engine, optimise=False)
    got = program(value, np.zeros(3, dtype))
    np.testing.assert_array_equal(got[0], np.broadcast_to(value, (2, 5, 7, 4)))
    np.testing.assert_array_equal(got[1], value[:, :, 0])


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex64"])
def test_vector_products_of_any_axes(dtype: str, engine: str) -> None:
    """The three elements along any axis of each, and axes that broadcast."""
    a, b = ((RNG.normal(size=shape) * 9).astype(dtype) for shape in ((5, 3, 4), (1, 3, 4)))
    x, y = tw.var("x", a.shape, dtype), tw.var("y", b.shape, dtype)
    graph = tw.Graph(
        [x, y],
        [
            tnp.cross(x, y, axis=1),
            tnp.linalg.cross(x, y, axis=-2),
            tnp.cross(x[:, :, 0], y[0].T[0]),
        ],
    )
    got = graph.compile(engine=engine)(a, b)
    want = np.cross(a, b, axis=1), np.cross(a, b, axis=1), np.cross(a[:, :, 0], b[0].T[0])
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
