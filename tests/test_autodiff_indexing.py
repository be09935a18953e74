"""Derivatives of reading and writing parts of arrays."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from gradient_cases import Row, Samples, check, check_single
from tawny.node import Node, toposort
from tawny.op import ELEMENTWISE
from tawny.ops.indexing import Pad, Scatter
from tawny.ops.joining import Concat
from tawny.ops.movement import BroadcastTo
from tawny.testing import check_grads

SAMPLES = Samples(1)
apart, complex_, real = SAMPLES.apart, SAMPLES.complex, SAMPLES.real

ROWS = np.array([0, 2, 2, -1, 0])
GRID = np.array([[0, 1], [2, -1]])
MASK = np.array([[True, False, True], [False, False, True]])


def later(value: object) -> tw.Array:
    """An index that is not a constant when the rule is written."""
    return tnp.asarray(value) + tnp.astype(tnp.zeros(()), "int64")


def assigned(x: tw.Array, key: object, value: object) -> tw.Array:
    x = tnp.copy(x)
    x[key] = value
    return x


KEYS = {
    "[1]": np.s_[1],
    "[-1, 2]": np.s_[-1, 2],
    "[1:]": np.s_[1:],
    "[..., :-1]": np.s_[..., :-1],
    "[::-1]": np.s_[::-1],
    "[2:0:-1, 1:3]": np.s_[2:0:-1, 1:3],
    "[::2, ::-3]": np.s_[::2, ::-3],
    "[1:1]": np.s_[1:1],
    "[None, :, 0]": np.s_[None, :, 0],
    "[rows]": np.s_[ROWS],
    "[:, rows]": np.s_[:, np.array([1, 1, 0])],
    "[rows, columns]": np.s_[ROWS, np.array([3, 0, 0, 1, 3])],
    "[grid, :, 1]": np.s_[GRID, :, 1],
    "[1:, grid]": np.s_[1:, GRID],
    "[mask]": np.s_[np.arange(12).reshape(3, 4) % 5 < 2],
    "[[]]": np.s_[[]],
    "[grid later]": np.s_[:, later(GRID)],
}
SHAPE = (3, 4, 2)

READING = [
    *(Row(f"getitem{name}", lambda x, k=k: x[k], [real(*SHAPE)]) for name, k in KEYS.items()),
    Row("getitem[rows] complex", lambda x: x[ROWS], [complex_(3, 2)]),
    Row("getitem[...]", lambda x: x[...], [real()]),
    Row("getitem[None]", lambda x: x[None, None], [real()]),
    Row("getitem strided", lambda x: x.T[::2][1:, ::-1], [real(3, 5)]),
    Row("take", lambda x: tnp.take(x, ROWS, axis=1), [real(2, 3)]),
    Row("take", lambda x: tnp.take(x, GRID), [real(2, 3)]),
    Row(
        "take_along_axis",
        lambda x: tnp.take_along_axis(x, np.array([[0], [2], [2]]), axis=1),
        [real(3, 4)],
    ),
    Row(
        "take_along_axis",
        lambda x: tnp.take_along_axis(x, np.array([[3, 0, 0, 1]]), axis=0),
        [real(4, 4)],
    ),
    Row("take_along_axis", lambda x: tnp.take_along_axis(x, ROWS, axis=None), [real(2, 2)]),
    Row("compress", lambda x: tnp.compress([True, False, True], x, axis=0), [real(4, 2)]),
    Row("extract", lambda x: tnp.extract(MASK, x), [real(2, 3)]),
    Row("trim_zeros", tnp.trim_zeros, [np.array([0.0, 0.0, 1.5, 0.0, 2.5])[2:]]),
    Row("choose", lambda x, y: tnp.choose(np.array([0, 1, 1]), [x, y]), [real(3), real(2, 3)]),
    Row("select", lambda x, y: tnp.select([x > 1, x > 0], [x, y], 7.0), [real(5), real(5)]),
    Row("where", lambda x, y: tnp.where(MASK, x, y), [real(2, 3), real(3)]),
    Row("where", lambda x: tnp.where(MASK, np.arange(3), x), [real(2, 1)]),
    Row(
        "piecewise",
        lambda x: tnp.piecewise(x, [x < 0, x > 1], [tnp.sin, lambda t: t * t, 3.0]),
        [real(6)],
    ),
]

PART = {
    "[1]": (4, 2),
    "[-1, 2]": (2,),
    "[1:]": (2, 1, 2),
    "[..., :-1]": (),
    "[::2, ::-3]": (2, 2, 2),
    "[2:0:-1, 1:3]": (2, 2, 2),
    "[1:1]": (),
    "[rows]": (5, 1, 2),
    "[:, rows]": (1, 3, 2),
    "[rows, columns]": (5, 2),
    "[grid, :, 1]": (2, 2, 4),
    "[1:, grid]": (2, 2, 2, 1),
    "[mask]": (),
    "[[]]": (),
    "[grid later]": (3, 2, 2, 2),
}
"""Shapes of what is written, some to be repeated."""

MODES = ("set", "add", "mul", "min", "max")

WRITING = [
    *(
        Row(
            f"at{name}.{mode}",
            lambda x, v, k=KEYS[name], m=mode: getattr(x.at[k], m)(v),
            [apart(*SHAPE), 0.97 * apart(*shape) + 0.013],
        )
        for name, shape in PART.items()
        for mode in MODES
    ),
    *(
        Row(
            f"setitem{name}",
            lambda x, v, k=KEYS[name]: assigned(x, k, v),
            [real(*SHAPE), real(*shape)],
        )
        for name, shape in PART.items()
    ),
    *(
        Row(
            f"at[rows].{m} complex",
            lambda x, v, m=m: getattr(x.at[ROWS], m)(v),
            [complex_(3), complex_(5)],
        )
        for m in MODES[:3]
    ),
    *(
        Row(
            f"at[mask].{m}",
            lambda x, v, m=m: getattr(x.at[MASK], m)(v),
            [apart(2, 3), 0.9 * apart(1)],
        )
        for m in MODES
    ),
    Row("setitem[mask]", lambda x, v: assigned(x, MASK, v), [real(2, 3), real(3)]),
    Row("setitem of a number", lambda x: assigned(x, np.s_[1:], 3.0), [real(3)]),
    Row("setitem of a part of itself", lambda x: assigned(x, 0, x[1] * x[2]), [real(3)]),
    Row("setitem[...]", lambda x, v: assigned(x, ..., v), [real(2, 3), real(3)]),
]

TABLE = [*READING, *WRITING]


@pytest.mark.parametrize("row", TABLE, ids=repr)
def test_slopes_agree_with_differences(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", [*READING, *WRITING[:20]], ids=repr)
def test_slopes_of_single_precision(row: Row) -> None:
    check_single(row)


# ------------------------------------------------------------ repeated indices


def test_of_values_set_in_one_place_the_last_gets_the_slope() -> None:
    for index in (ROWS, later(ROWS)):
        x, v = tw.vjp(lambda x, v, i=index: x.at[i].set(v), real(3), real(5))[1](
            np.array([1.0, 2.0, 4.0])
        )
        np.testing.assert_array_equal(x, [0, 2, 0])
        np.testing.assert_array_equal(v, [0, 0, 0, 4, 1])


def test_one_value_set_in_many_places() -> None:
    _, v = tw.vjp(lambda x, v: x.at[ROWS].set(v), real(3, 2), real())[1](
        np.array([[1.0, 2], [4, 8], [16, 32]])
    )
    np.testing.assert_array_equal(v, 1 + 2 + 16 + 32)


@pytest.mark.parametrize("index", [ROWS, later(ROWS)], ids=["known", "later"])
def test_factors_of_zero(index: object) -> None:
    """Products of the other factors need no division, in the first and second order."""
    factors = np.array([0.0, 2.0, 0.0, 0.0, 3.0])
    check_grads(lambda x, v: x.at[index].mul(v) ** 2, [real(3), factors])
    x = np.array([2.0, 3.0, 5.0])
    _, v = tw.vjp(lambda x, v: x.at[index].mul(v), x, factors)[1](np.ones(3))
    np.testing.assert_array_equal(v, [6.0, 0.0, 0.0, 0.0, 0.0])  # x[0] * 3; x[2] has two zeros
    hessian = tw.grad(lambda v: tw.grad(lambda v: tnp.sum(tnp.asarray(x).at[index].mul(v)))(v)[2])(
        factors
    )
    np.testing.assert_array_equal(hessian, [0, 0, 0, 10.0, 0])  # x[2] * the factor 2


def test_extremes_that_are_shared() -> None:
    x, v = np.array([1.0, 5.0, 2.0]), np.array([1.0, 2.0, 2.0, 0.0, 0.5])
    for index in (ROWS, later(ROWS)):
        to_x, to_v = tw.vjp(lambda x, v, i=index: x.at[i].max(v), x, v)[1](np.ones(3))
        np.testing.assert_allclose(to_x, [0.5, 1, 1 / 3])
        np.testing.assert_allclose(to_v, [0.5, 1 / 3, 1 / 3, 0, 0])


def test_indices_have_no_slope() -> None:
    places = tw.var("i", shape=(3,), dtype="int64")
    x = tw.var("x", shape=(4,))
    (slope,) = tw.gradients(tnp.sum(x[places] ** 2), [x])
    program = tw.Graph([x, places], [slope]).compile(engine="reference")
    (value,) = program(x=np.array([1.0, 2, 3, 4]), i=np.array([1, 1, -1]))
    np.testing.assert_array_equal(value, [0, 8, 0, 8])


# -------------------------------------------------------------- sums of slices


def counted(*nodes: Node) -> collections.Counter[object]:
    return collections.Counter(n.op.family for n in toposort(nodes))


def slope_graph(function: object, *shape: int) -> collections.Counter[object]:
    """How many nodes of each family only the gradient has."""
    x = tw.var("x", shape=shape)
    result = function(x)
    (slope,) = tw.gradients(result, [x])
    return counted(slope.node, result.node) - counted(result.node)


@pytest.mark.parametrize("steps", [3, 50])
def test_slices_used_once_each_are_laid_side_by_side(steps: int) -> None:
    """As a recurrent network reads its input: one concatenation, and no sum of arrays."""

    def function(x: tw.Array) -> tw.Array:
        state = tnp.zeros((4, 2))
        for t in range(steps):
            state = tnp.tanh(state + x[:, t])
        return tnp.sum(state)

    count = slope_graph(function, 4, steps, 2)
    assert count[Concat] == 1
    assert count[Pad] == count[Scatter] == count[ELEMENTWISE["add"]] == 0


def test_gaps_between_slices_are_zeros() -> None:
    function = lambda x: tnp.sum(x[1:3] ** 2) + tnp.sum(tnp.sin(x[5:6])) + tnp.sum(x[7:8] ** 3)  # noqa: E731
    count = slope_graph(function, 9)
    assert count[Concat] == 1
    assert count[Pad] == 0
    check_grads(function, [real(9)])


def test_a_single_slice_is_padded() -> None:
    count = slope_graph(lambda x: tnp.sum(x[1:3] ** 2), 9)
    assert (count[Pad], count[Concat]) == (1, 0)


def test_overlapping_slices_are_added_where_they_are() -> None:
    function = lambda x: sum(tnp.sum(tnp.sin(x[t : t + 2])) for t in range(8))  # noqa: E731
    count = slope_graph(function, 9)
    assert count[Concat] == 1
    assert count[Pad] == count[ELEMENTWISE["add"]] == 0
    check_grads(function, [real(9)])


@pytest.mark.parametrize("n", [4, 12])
def test_single_elements_cost_no_whole_array_each(n: int) -> None:
    """Every element read alone: each slope is added in place, into zeros made once."""
    function = lambda x: sum(tnp.sin(x[i, j]) * (i + 1) for i in range(n) for j in range(n))  # noqa: E731
    count = slope_graph(function, n, n)
    assert count[Pad] <= 1
    assert count[ELEMENTWISE["add"]] == 0
    assert count[Scatter] >= n * n - 1
    check_grads(function, [real(n, n)], order=1)


def test_repeated_gathers_are_added_in_one_array() -> None:
    """Rows of one table, looked up again and again: only its first zeros are as large as it is."""
    words = [np.array([1, 4]), np.array([4, 4]), np.array([0, 2])]
    function = lambda table: sum(tnp.sum(tnp.sin(table[w]) * k) for k, w in enumerate(words, 2))  # noqa: E731
    count = slope_graph(function, 5, 3)
    assert count[Scatter] == 3
    assert count[ELEMENTWISE["add"]] == 0
    assert count[BroadcastTo] <= 1 + 3  # one of zeros, and the slopes of the sums
    check_grads(function, [real(5, 3)])


def test_nothing_is_added_to_what_is_not_zero() -> None:
    """A slope that looks like a slice but is filled with something else is added as a whole."""

    def padded(x: tw.Array, f: tw.Array) -> tw.Array:
        before, behind = ((3, 0), (0, 3))
        return tnp.pad(x, behind, constant_values=f) * tnp.pad(x, before, constant_values=f) ** 2

    def updated(x: tw.Array, y: tw.Array) -> tw.Array:
        return y.at[ROWS].add(x) ** 2 + y.at[ROWS].add(x * x) ** 3

    check_grads(padded, [real(2), real()])
    check_grads(updated, [real(5), real(3)])
