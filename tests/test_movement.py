"""Movement: what is refused, what is a node of its own, and NumPy's functions on lazy arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny.numpy as tnp
from tawny.engine.reference import run
from tawny.numpy.padding import OPTIONS
from tawny.ops.creation import var
from tawny.ops.indexing import Pad
from tawny.ops.joining import Concat
from tawny.ops.movement import Flip, Reshape, Roll, Transpose

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: tnp.reshape(x, (5, 5)),
            ValueError,
            r"reshape: operand 0 has shape \(2, 3, 4\), which is 24 elements; .* needs 25",
        ),
        (lambda x: tnp.reshape(x, (-1, -1)), ValueError, r"reshape: .* one may be -1"),
        (lambda x: tnp.reshape(x, (-1, 5)), ValueError, r"no size in place of -1"),
        (lambda x: tnp.reshape(x, (-2, 5)), ValueError, r"negative size; only -1"),
        (lambda x: tnp.reshape(x, 24, order="K"), ValueError, r"order 'K' is not known"),
        (lambda x: tnp.reshape(x, 2.5), TypeError, r"shape must be an integer, not float 2\.5"),
        (
            lambda x: tnp.permute_dims(x, (0, 1)),
            ValueError,
            r"permute_dims: .* must name each of its 3 axes once",
        ),
        (lambda x: tnp.permute_dims(x, (0, 1, 1)), ValueError, r"names an axis twice"),
        (
            lambda x: tnp.transpose(x, (0, 1, 3)),
            np.exceptions.AxisError,
            r"transpose: axis 3 is out of bounds",
        ),
        (
            lambda x: tnp.matrix_transpose(x[0, 0]),
            ValueError,
            r"matrix_transpose: .* two axes or more",
        ),
        (lambda x: tnp.squeeze(x, 1), ValueError, r"squeeze: .* its axis 1 has size 3"),
        (lambda x: tnp.expand_dims(x, 4), np.exceptions.AxisError, r"expand_dims: axis 4"),
        (
            lambda x: tnp.moveaxis(x, (0, 1), 2),
            ValueError,
            r"moveaxis: source names 2 axes and destination 1",
        ),
        (
            lambda x: tnp.roll(x, (1, 2, 3), axis=(0, 1)),
            ValueError,
            r"roll: shift has 3 items and axis 2",
        ),
        (lambda x: tnp.rot90(x, 1, (0,)), ValueError, r"rot90: axes \(0,\) must be two"),
        (lambda x: tnp.concat([]), ValueError, r"concat: no arrays came"),
        (
            lambda x: tnp.concat([x, x[0]]),
            ValueError,
            r"concat: operand 1 has shape \(3, 4\); it must have as many axes",
        ),
        (
            lambda x: tnp.concat([x, x[:, :2]]),
            ValueError,
            r"operand 1 has shape \(2, 2, 4\); its axis 1 must be 3 to match",
        ),
        (lambda x: tnp.concat([1, 2]), ValueError, r"concat: operand 0 has no axes"),
        (lambda x: tnp.concat(5), TypeError, r"concat: arrays must be a sequence"),
        (
            lambda x: tnp.stack([x, x[0]]),
            ValueError,
            r"stack: operand 1 has shape \(3, 4\); it must have that of operand 0",
        ),
        (
            lambda x: tnp.split(x, 2, 1),
            ValueError,
            r"split: .* does not divide into 2 equal parts; use np\.array_split",
        ),
        (lambda x: tnp.split(x, 0), ValueError, r"must be at least 1"),
        (lambda x: tnp.vsplit(x[0, 0], 1), ValueError, r"vsplit: .* 2 axes or more"),
        (lambda x: tnp.tile(x, -1), ValueError, r"tile: .* negative"),
        (
            lambda x: tnp.repeat(x, [1, 2], axis=1),
            ValueError,
            r"repeat: repeats has shape \(2,\).* \(3,\)",
        ),
        (lambda x: tnp.repeat(x, -1), ValueError, r"repeat: repeats is -1"),
        (lambda x: tnp.repeat(x, 1.5), TypeError, r"repeat: repeats has dtype float64"),
        (lambda x: tnp.pad(x, -1), ValueError, r"pad: pad_width is .* at least 0"),
        (lambda x: tnp.pad(x, (1, 2, 3)), ValueError, r"pad: pad_width has shape \(3,\)"),
        (
            lambda x: tnp.pad(x, 1, "mirror"),
            ValueError,
            r"pad: mode 'mirror' is not known; accepted: 'constant', 'edge'",
        ),
        (lambda x: tnp.pad(x[:0], 1, "edge"), ValueError, r"pad: .* cannot extend empty axis 0"),
        (lambda x: tnp.delete(x, 9, 0), IndexError, r"delete: .*9 is out of bounds"),
        (lambda x: tnp.insert(x, 9, 0, 0), IndexError, r"insert: obj 9 leaves axis 0 of size 2"),
        (lambda x: tnp.diag(x), ValueError, r"diag: .* one axis or two"),
        (lambda x: tnp.diagonal(x, 0, 1, 1), ValueError, r"diagonal: .* twice"),
        (lambda x: tnp.tril(x[0, 0, 0]), ValueError, r"tril: operand 0 has no axes"),
        (lambda x: tnp.meshgrid(x), ValueError, r"meshgrid: operand 0 has shape"),
        (
            lambda x: tnp.broadcast_to(x, (3, 4)),
            ValueError,
            r"broadcast_to: .* does not broadcast to \(3, 4\)",
        ),
        (
            lambda x: tnp.broadcast_shapes((2,), (3,)),
            ValueError,
            r"broadcast_shapes: operand 1 has shape \(3,\)",
        ),
        (
            lambda x: tnp.flip(x, 1, 2),
            TypeError,
            r"flip: takes from 1 to 2 positional arguments .*accepted: m, axis",
        ),
    ],
)
def test_mistakes_are_refused_when_the_node_is_built(call, error, message) -> None:
    with pytest.raises(error, match=message + r".*\[test_movement\.py:\d+\]"):
        call(tnp.asarray(X))
    with pytest.raises(error, match=message):
        call(var(shape=X.shape))


def test_shapes_that_depend_on_values_need_them() -> None:
    count = var("count", dtype="int64")
    for call in (
        lambda: tnp.repeat(X, count),
        lambda: tnp.split(X, count),
        lambda: tnp.pad(X, count),
        lambda: tnp.delete(X, count, 0),
    ):
        with pytest.raises(TypeError, match="depends on variable 'count'"):
            call()


def test_one_node_where_one_is_enough() -> None:
    x = var(shape=(2, 3))
    assert x.T.T.shape == x.shape
    assert x.T.node.op == Transpose((1, 0))
    assert x.reshape(6).node.op == Reshape((6,))
    assert x.reshape(2, 3).node is x.node
    assert tnp.flip(x).node.op == Flip((0, 1))
    assert tnp.roll(x, 5, axis=1).node.op == Roll((0, 2))
    assert tnp.concat([x, x], axis=-1).node.op == Concat(1)
    fill = var(shape=())
    padded = tnp.pad(x, 1, constant_values=fill).node
    assert padded.op == Pad(((1, 1), (1, 1)))
    assert padded.inputs == (x.node, fill.node)


def test_new_arrays_are_not_the_operand() -> None:
    x = tnp.asarray([1.0, 2.0])
    for call in (
        lambda: tnp.concat([x]),
        lambda: tnp.roll(x, 0),
        lambda: tnp.tile(x, 1),
        lambda: tnp.repeat(x, 1),
        lambda: tnp.pad(x, 0),
        lambda: tnp.pad(x, 0, "edge"),
        lambda: tnp.meshgrid(x)[0],
        lambda: tnp.reshape(x, 2, copy=True),
        lambda: tnp.delete(x, []),
        lambda: tnp.clip(tnp.asarray(x)),
        lambda: tnp.diff(x, n=0),
        lambda: tnp.nan_to_num(tnp.asarray([1, 2])),
        lambda: tnp.round(tnp.asarray([1, 2])),
    ):
        y = call()
        assert y is not x
        y[0] = 9
    assert x.tolist() == [1.0, 2.0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=4).map(tuple), st.data())
def test_reshape_and_transpose_in_any_order(shape, data) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    axes = data.draw(st.permutations(range(len(shape))))
    order = data.draw(st.sampled_from("CF"))
    v = var(shape=shape, dtype="int64")
    lazy = tnp.reshape(tnp.permute_dims(v, axes), x.size, order=order)
    (got,) = run([lazy.node], {v.node: x})
    np.testing.assert_array_equal(got, x.transpose(axes).reshape(x.size, order=order))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    st.sampled_from([m for m in OPTIONS if m != "empty"]),
    st.sampled_from(["int64", "uint8", "float32", "float64"]),
    st.data(),
)
def test_pad_in_every_mode(shape, mode, dtype, data) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    width = st.integers(0, 9)
    widths = data.draw(st.lists(st.tuples(width, width), min_size=len(shape), max_size=len(shape)))
    given = {
        "constant_values": st.sampled_from([0, 7, (1, 2)]),
        "end_values": st.sampled_from([0, 7, (1, 2)]),
        "reflect_type": st.sampled_from(["even", "odd"]),
        "stat_length": st.sampled_from([None, 1, 2, (1, 3)]),
    }
    options = {OPTIONS[mode]: data.draw(given[OPTIONS[mode]])} if OPTIONS[mode] else {}
    got, expected = tnp.pad(x, widths, mode, **options).numpy(), np.pad(x, widths, mode, **options)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-5)


def test_pad_by_a_function_needs_values() -> None:
    def fill(vector, width, axis, kwargs) -> None:
        vector[: width[0]] = kwargs["value"]
        vector[vector.size - width[1] :] = axis

    x = np.arange(6.0).reshape(2, 3)
    expected = np.pad(x, 2, fill, value=7)
    np.testing.assert_array_equal(tnp.pad(x, 2, fill, value=7).numpy(), expected)
    assert tnp.pad(x, 1, "empty").shape == (4, 5)
    with pytest.raises(
        TypeError, match=r"pad: the array depends on variable 'x'.*a function needs"
    ):
        tnp.pad(var("x", shape=(2,)), 1, fill)
    with pytest.raises(ValueError, match="'constant_values' is not taken in mode 'edge'"):
        tnp.pad(x, 1, "edge", constant_values=0)
