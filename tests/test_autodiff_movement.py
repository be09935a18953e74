"""Derivatives of creation, movement, joining, diagonals and arrangement."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from gradient_cases import Row, Samples, check, check_single
from tawny.node import toposort
from tawny.ops.joining import Concat
from tawny.testing import check_grads

SAMPLES = Samples(0)
complex_, real = SAMPLES.complex, SAMPLES.real

CREATION = [
    Row("broadcast_to", lambda x: tnp.broadcast_to(x, (2, 3, 4)), [real(3, 1)]),
    Row("broadcast_to", lambda x: tnp.broadcast_to(x, (2, 3)), [real()]),
    Row("broadcast_to", lambda x: tnp.broadcast_to(x, (0, 3)), [real(1, 3)]),
    Row("broadcast_to", lambda x: tnp.broadcast_to(x, (2, 3)), [complex_(3)]),
    Row(
        "broadcast_arrays",
        lambda x, y: tnp.broadcast_arrays(x, y, np.arange(3)),
        [real(2, 1), real(3)],
    ),
    Row("astype", lambda x: tnp.astype(x, "float64"), [real(3)]),
    Row("astype", lambda x: tnp.astype(x, "complex128") * (1 + 2j), [real(3)]),
    Row("asarray", lambda x, y: tnp.asarray([x, y, x * y]), [real(), real()]),
    Row("array", lambda x: tnp.array([[x, 2 * x], [x, 1]]), [real()]),
    Row("copy", tnp.copy, [real(2, 3)]),
    Row("full", lambda x: tnp.full((2, 3), x), [real()]),
    Row("full", lambda x: tnp.full((2, 3), x), [real(3)]),
    Row("full_like", lambda x, y: tnp.full_like(x, y), [real(2, 3), real()]),
    Row("linspace", lambda a, b: tnp.linspace(a, b, 5), [real(), real()]),
    Row("linspace", lambda a, b: tnp.linspace(a, b, 4, endpoint=False), [real(), real()]),
    Row("linspace", lambda a: tnp.linspace(3, a, 4), [real()]),
    Row("linspace", lambda a: tnp.linspace(tnp.asarray(3), a, 4), [real()]),
    Row("linspace", lambda a, b: tnp.linspace(a, b, 1), [real(), real()]),
    Row("linspace", lambda a, b: tnp.linspace(a, b, 0), [real(), real()]),
    Row("linspace", lambda a, b: tnp.linspace(a, b, 3), [complex_(), complex_()]),
    Row("arange", lambda a: tnp.arange(a, a + 2.75, 0.5), [np.array(1.3)]),
    Row("arange", lambda a, d: tnp.arange(a, 4.1, d), [np.array(1.3), np.array(0.6)]),
]

MOVEMENT = [
    Row("reshape", lambda x: tnp.reshape(x, (4, 3)), [real(2, 6)]),
    Row("reshape", lambda x: tnp.reshape(x, (4, 3), order="F"), [real(2, 6)]),
    Row("reshape", lambda x: tnp.reshape(x, (0, 5)), [real(3, 0)]),
    Row("ravel", tnp.ravel, [real()]),
    Row("ravel", lambda x: tnp.ravel(x.T, order="F"), [complex_(2, 3)]),
    Row("expand_dims", lambda x: tnp.expand_dims(x, axis=(0, 2)), [real(2, 3)]),
    Row("squeeze", tnp.squeeze, [real(1, 3, 1)]),
    Row("atleast_1d", tnp.atleast_1d, [real()]),
    Row("atleast_2d", lambda *xs: tnp.atleast_2d(*xs), [real(), real(3)]),
    Row("atleast_3d", tnp.atleast_3d, [real(2, 3)]),
    Row("permute_dims", lambda x: tnp.permute_dims(x, (2, 0, 1)), [real(2, 3, 4)]),
    Row("transpose", tnp.transpose, [complex_(2, 3, 4)]),
    Row("matrix_transpose", tnp.matrix_transpose, [real(2, 3, 4)]),
    Row("swapaxes", lambda x: tnp.swapaxes(x, 0, -1), [real(2, 3, 4)]),
    Row("moveaxis", lambda x: tnp.moveaxis(x, (0, 1), (-1, 0)), [real(2, 3, 4)]),
    Row("rollaxis", lambda x: tnp.rollaxis(x, 2), [real(2, 3, 4)]),
    Row("flip", tnp.flip, [real(2, 3)]),
    Row("flip", lambda x: tnp.flip(x, axis=1), [real(2, 3)]),
    Row("fliplr", tnp.fliplr, [real(2, 3)]),
    Row("flipud", tnp.flipud, [real(2, 3)]),
    *(Row("rot90", lambda x, k=k: tnp.rot90(x, k), [real(2, 3)]) for k in range(4)),
    Row("roll", lambda x: tnp.roll(x, 2), [real(2, 3)]),
    Row("roll", lambda x: tnp.roll(x, (1, -4), axis=(0, 1)), [complex_(2, 3)]),
    Row("roll", lambda x: tnp.roll(x, 1, axis=0), [real(0, 3)]),
]

JOINING = [
    Row("concat", lambda x, y: tnp.concat([x, y, x], axis=1), [real(2, 3), real(2, 1)]),
    Row("concat", lambda x, y: tnp.concat([x, y], axis=None), [real(2, 3), real()]),
    Row("concat", lambda x: tnp.concat([np.arange(3), x]), [real(2)]),
    Row("concat", lambda x, y: tnp.concat([x, y]), [real(2), complex_(3)]),
    Row("concat", lambda x, y: tnp.concat([x, y]), [real(0, 2), real(3, 2)]),
    Row("concatenate", lambda x: tnp.concatenate([x, x], dtype="complex128"), [real(3)]),
    Row("stack", lambda x, y: tnp.stack([x, y], axis=1), [real(2, 3), real(2, 3)]),
    Row("vstack", lambda x, y: tnp.vstack([x, y]), [real(3), real(2, 3)]),
    Row("hstack", lambda x, y: tnp.hstack([x, y]), [real(3), real(2)]),
    Row("dstack", lambda x, y: tnp.dstack([x, y]), [real(2, 3), real(2, 3)]),
    Row("column_stack", lambda x, y: tnp.column_stack([x, y]), [real(2), real(2, 3)]),
    Row("append", lambda x, y: tnp.append(x, y), [real(2, 2), real()]),
    Row("meshgrid", lambda x, y: tnp.meshgrid(x, y), [real(2), real(3)]),
    Row(
        "meshgrid", lambda x, y: tnp.meshgrid(x, y, indexing="ij", sparse=True), [real(2), real(3)]
    ),
    Row("unstack", lambda x: tnp.unstack(x, axis=1), [real(2, 3)]),
    Row("split", lambda x: tnp.split(x, [1, 1, 4]), [real(6, 2)]),
    Row("split", lambda x: tnp.split(x, 3, axis=1)[1], [real(2, 6)]),
    Row("array_split", lambda x: tnp.array_split(x, 3), [real(7)]),
    Row("hsplit", lambda x: tnp.hsplit(x, 2), [real(2, 4)]),
    Row("vsplit", lambda x: tnp.vsplit(x, 2), [real(4, 2)]),
    Row("dsplit", lambda x: tnp.dsplit(x, 2), [real(2, 1, 4)]),
    Row("delete", lambda x: tnp.delete(x, [0, 2], axis=1), [real(2, 4)]),
    Row("insert", lambda x, v: tnp.insert(x, [1, 3], v, axis=1), [real(2, 4), real(2, 2)]),
    Row("insert", lambda x, v: tnp.insert(x, 1, v), [real(4), real()]),
    Row("tile", lambda x: tnp.tile(x, (2, 3)), [real(2, 2)]),
    Row("tile", lambda x: tnp.tile(x, (2, 1, 2)), [complex_(3)]),
    Row("tile", lambda x: tnp.tile(x, 0), [real(3)]),
    Row("repeat", lambda x: tnp.repeat(x, 3, axis=0), [real(2, 3)]),
    Row("repeat", lambda x: tnp.repeat(x, 2), [real(2, 3)]),
    Row("repeat", lambda x: tnp.repeat(x, [2, 0, 1], axis=1), [real(2, 3)]),
    Row("repeat", lambda x: tnp.repeat(x, 0), [real(3)]),
    Row("pad", lambda x: tnp.pad(x, ((1, 0), (2, 3))), [real(2, 3)]),
    Row("pad", lambda x, f: tnp.pad(x, 1, constant_values=f), [real(2, 3), real()]),
    Row("pad", lambda x, f: tnp.pad(x, 1, constant_values=f), [real(2, 3), real(2, 2)]),
    Row("pad", lambda x, f: tnp.pad(x, 2, constant_values=f), [complex_(3), complex_()]),
    Row("pad", lambda x, f: tnp.pad(x, 1, constant_values=f), [real(0, 2), real()]),
    *(
        Row("pad", lambda x, m=m: tnp.pad(x, ((2, 1), (0, 3)), m), [real(3, 4)])
        for m in ("edge", "reflect", "symmetric", "wrap")
    ),
]

DIAGONAL = [
    *(
        Row("diagonal", lambda x, k=k: tnp.diagonal(x, k), [real(3, 4)])
        for k in (-5, -2, -1, 0, 1, 3)
    ),
    Row("diagonal", lambda x: tnp.diagonal(x, 1, 2, 0), [real(4, 2, 3)]),
    Row("diagonal", tnp.diagonal, [complex_(3, 3)]),
    Row("trace", lambda x: tnp.trace(x, 1, 0, 2), [real(3, 2, 3)]),
    *(Row("diag", lambda x, k=k: tnp.diag(x, k), [real(3)]) for k in (-1, 0, 2)),
    Row("diag", lambda x: tnp.diag(x, -1), [real(4, 3)]),
    Row("diagflat", lambda x: tnp.diagflat(x, 1), [real(2, 2)]),
    Row("tril", lambda x: tnp.tril(x, k=1), [real(2, 3, 4)]),
    Row("triu", lambda x: tnp.triu(x, k=-1), [complex_(4, 3)]),
]

ARRANGEMENT = [
    Row("block", lambda x, y: tnp.block([[x, y], [y, np.zeros((2, 2))]]), [real(2, 2), real(2, 2)]),
    Row("resize", lambda x: tnp.resize(x, (3, 3)), [real(2, 2)]),
    Row("resize", lambda x: tnp.resize(x, 3), [real(2, 2)]),
    Row("sliding_window_view", lambda x: tnp.sliding_window_view(x, (2, 3)), [real(3, 5)]),
    Row("sliding_window_view", lambda x: tnp.sliding_window_view(x, 2, axis=0), [real(4, 2)]),
    Row(
        "apply_along_axis",
        lambda x: tnp.apply_along_axis(lambda v: v[::-1] * v[0], 1, x),
        [real(3, 2)],
    ),
    Row("lazy_print", lambda x: tnp.lazy_print(x, file=io.StringIO()), [real(3)]),
]

TABLE = [*CREATION, *MOVEMENT, *JOINING, *DIAGONAL, *ARRANGEMENT]


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_slopes_agree_with_differences(row: Row) -> None:
    check(row)


@pytest.mark.parametrize(
    "row", [r for r in TABLE if r.name not in ("astype", "arange", "concatenate")], ids=repr
)
def test_slopes_of_single_precision(row: Row) -> None:
    check_single(row)


def test_a_cast_between_precisions_passes_the_slope() -> None:
    x = np.array([1.5, -2.0], np.float32)
    slope = tw.grad(lambda x: tnp.sum(tnp.astype(x, "float64") ** 2))(x)
    assert slope.dtype == np.float32
    np.testing.assert_array_equal(slope, 2 * x)


def test_a_cast_to_integers_stops_the_slope() -> None:
    slope = tw.grad(lambda x: tnp.sum(tnp.astype(x, "int64") * 1.0))(np.array([1.5, 2.5]))
    np.testing.assert_array_equal(slope, [0.0, 0.0])


@pytest.mark.filterwarnings("ignore:.*discards the imaginary part")
def test_a_cast_that_drops_imaginary_parts_is_the_real_part() -> None:
    check_grads(lambda z: tnp.asarray(z * z, dtype="float64"), [complex_(3)])


def test_derivatives_are_not_printed() -> None:
    shown = io.StringIO()
    x = tw.var("x", shape=(2,))
    (slope,) = tw.gradients(tnp.sum(tnp.lazy_print(x * 2, file=shown) ** 2), [x])
    (tangent,) = tw.jvp(lambda x: [tnp.lazy_print(x * 2, file=shown)], (x,), (np.ones(2),))[1]
    program = tw.Graph([x], [slope, tangent]).compile(engine="reference")
    values = program(x=np.array([1.0, 3.0]))
    np.testing.assert_array_equal(values, [[8.0, 24.0], [2.0, 2.0]])
    assert shown.getvalue() == "[2. 6.]\n"


def test_constants_stand_still() -> None:
    """What depends on no argument has slope zero, and is not in the gradient's graph."""
    np.testing.assert_array_equal(
        tw.grad(lambda x: tnp.sum(tnp.zeros_like(x)))(real(3)), np.zeros(3)
    )
    x = tw.var("x", shape=(3,))
    (slope,) = tw.gradients(tnp.sum(tnp.concat([tnp.ones(2), x, tnp.arange(4.0)])), [x])
    assert not any(isinstance(n.op, Concat) for n in toposort([slope.node]))


def test_a_tangent_has_the_dtype_of_what_it_is_a_tangent_of() -> None:
    x = np.ones(3, np.float32)
    for function in (lambda x: x, tnp.copy, lambda x: tnp.concat([x, x])):
        assert tw.jvp(function, (x,), (np.ones(3),))[1].dtype == np.float32
