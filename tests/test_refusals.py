"""What NumPy refuses is refused: nothing wrong is taken in silence, known at once or when it runs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tawny as tw
import tawny.eager as eager
import tawny.numpy as tnp

X = np.arange(6.0)
ROW = np.array([0, 1])

REFUSED = {
    "searchsorted: a short sorter": lambda m: m.searchsorted(X, [1.0], sorter=np.arange(3)),
    "searchsorted: a long sorter": lambda m: m.searchsorted(X, [1.0], sorter=np.arange(7)),
    "searchsorted: a sorter of floats": lambda m: m.searchsorted(X, [1.0], sorter=X),
    "take_along_axis: booleans": lambda m: m.take_along_axis(X, np.array([True, False]), 0),
    "take_along_axis: floats": lambda m: m.take_along_axis(X, np.array([1.0]), 0),
    "take_along_axis: outside": lambda m: m.take_along_axis(X, np.array([9]), 0),
    "unravel_index: too large a shape": lambda m: m.unravel_index(ROW, (2**40, 2**40)),
    "unravel_index: outside": lambda m: m.unravel_index([9], (2, 3)),
    "unravel_index: negative": lambda m: m.unravel_index([-1], (2, 3)),
    "unravel_index: floats": lambda m: m.unravel_index([1.0], (2, 3)),
    "ravel_multi_index: too large": lambda m: m.ravel_multi_index((ROW, ROW), (2**40, 2**40)),
    "ravel_multi_index: outside": lambda m: m.ravel_multi_index(([5], [0]), (2, 3)),
    "ravel_multi_index: negative": lambda m: m.ravel_multi_index(([-1], [0]), (2, 3)),
    "choose: outside": lambda m: m.choose(np.array([5, 0]), [[1, 2], [3, 4]]),
    "choose: negative": lambda m: m.choose(np.array([-1, 0]), [[1, 2], [3, 4]]),
    "choose: floats": lambda m: m.choose(np.array([0.0, 1.0]), [[1, 2], [3, 4]]),
    "var: ddof and correction": lambda m: m.var(X, ddof=1, correction=0),
    "std: ddof and correction": lambda m: m.std(X, ddof=1, correction=0),
    "pad: constants of edges": lambda m: m.pad(X, 1, mode="edge", constant_values=0),
    "pad: constants of mirrors": lambda m: m.pad(X, 1, mode="reflect", constant_values=0),
    "pad: unknown mode": lambda m: m.pad(X, 1, mode="nope"),
    "pad: negative": lambda m: m.pad(X, -1),
    "histogram: bins without width": lambda m: m.histogram([1.0], 10, (1e16, 1e16 + 2)),
    "histogram: falling bins": lambda m: m.histogram(X, [3, 2, 1]),
    "histogram: falling range": lambda m: m.histogram(X, range=(3, 1)),
    "histogram: no bins": lambda m: m.histogram(X, 0),
    "average: weights of 0": lambda m: m.average(X, weights=np.zeros(6)),
    "average: some weights of 0": lambda m: m.average(
        X.reshape(2, 3), axis=1, weights=np.array([[1, 0, 0], [1, -1, 0]])
    ),
    "arange: no number of steps": lambda m: m.arange(0, np.nan),
    "arange: many booleans": lambda m: m.arange(3, dtype=bool),
    "take: outside": lambda m: m.take(X, [9]),
    "insert: outside": lambda m: m.insert(X, 9, 1),
    "delete: outside": lambda m: m.delete(X, 9),
    "power: negative": lambda m: m.power(np.array([2]), np.array([-1])),
    "quantile: above 1": lambda m: m.quantile(X, 1.5),
    "bincount: negative": lambda m: m.bincount([-1, 2]),
    "digitize: unsorted bins": lambda m: m.digitize(X, [1, 3, 2]),
    "einsum: an unknown letter": lambda m: m.einsum("ij,jk->il", np.eye(2), np.eye(2)),
    "linspace: less than nothing": lambda m: m.linspace(0, 1, -1),
    "mask: of another size": lambda m: m.asarray(X)[np.zeros(4, bool)],
    "mask: empty beside elements": lambda m: m.asarray(np.ones((3, 0)))[np.zeros((4, 0), bool)],
    "floats as indices": lambda m: m.asarray(X)[1.0],
    "subtract: booleans": lambda m: m.subtract(np.array([True]), np.array([True])),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("module", [tnp, eager], ids=["lazy", "eager"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(name, module) -> None:
    call = REFUSED[name]
    with pytest.raises((ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError)):
        call(np)
    with pytest.raises((ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError)):
        np.asarray(call(module))


LATER = {
    "choose": (lambda i: tnp.choose(i, [[1.0, 2.0], [3.0, 4.0]]), 2),
    "ravel_multi_index": (lambda i: tnp.ravel_multi_index((i, i), (3, 4)), 3),
    "unravel_index": (lambda i: tnp.unravel_index(i, (2, 3))[1], 6),
    "take": (lambda i: tnp.take(tnp.asarray(X), i), 6),
}


@pytest.mark.parametrize("name", LATER)
def test_indices_that_are_known_later_are_refused_then(name, engine) -> None:
    function, count = LATER[name]
    i = tw.var("i", shape=(2,), dtype="int64")
    p = tw.Graph([i], function(i)).compile(engine=engine)
    within = np.array([0, count - 1])
    before = p(within)
    np.testing.assert_array_equal(before, function(tnp.asarray(within)).numpy())
    for outside in ([0, count], [-1 - count * (name == "take"), 0]):
        with pytest.raises((ValueError, IndexError), match=r"index -?\d+ is out"):
            p(np.array(outside))
    np.testing.assert_array_equal(p(within), before)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_indices_outside_are_moved_where_that_is_asked_for(mode) -> None:
    i = tw.var("i", shape=(3,), dtype="int64")
    y = tnp.choose(i, [[1.0] * 3, [3.0] * 3], mode=mode)
    given = np.array([-1, 5, 1])
    expected = np.choose(given, [[1.0] * 3, [3.0] * 3], mode=mode)
    np.testing.assert_array_equal(tw.Graph([i], y).compile()(given), expected)


def test_another_order_of_bytes_is_refused_as_a_dtype_and_taken_as_data() -> None:
    for ask in (tnp.zeros, eager.zeros):
        with pytest.raises(TypeError, match=r"'>i4' has the bytes in another order.*int32"):
            ask(3, dtype=">i4")
    swapped = np.array([1, 2], ">i4")
    assert tnp.asarray(swapped).dtype == np.dtype("int32")
    np.testing.assert_array_equal(tw.jit(lambda x: x + 1)(swapped), [2, 3])


# -------------------------------------------------------- what is accepted, as NumPy does

EMPTY_MASKS = {
    "a vector": ((3,), lambda m: (m((0,)),)),
    "a leading axis": ((3, 4), lambda m: (m((0,)),)),
    "a last axis": ((3, 4), lambda m: (slice(None), m((0,)))),
    "rows of nothing": ((3, 4), lambda m: (m((3, 0)),)),
    "no rows": ((3, 4), lambda m: (m((0, 4)),)),
    "two masks": ((3, 4), lambda m: (m((0,)), m((0,)))),
    "beside an integer": ((3, 4), lambda m: (1, m((0,)))),
    "nothing of nothing": ((0, 4), lambda m: (m((0, 4)),)),
}


@pytest.mark.parametrize("name", EMPTY_MASKS)
def test_masks_with_an_axis_of_size_0_select_nothing(name) -> None:
    shape, key = EMPTY_MASKS[name]
    x = np.arange(float(np.prod(shape))).reshape(shape)
    mask = key(lambda s: np.zeros(s, bool))
    later = key(lambda s: tw.var(shape=s, dtype=bool))
    for index in (mask, later, key(lambda s: tnp.zeros(s, dtype=bool))):
        assert tnp.asarray(x)[index].shape == x[mask].shape
        changed = tnp.asarray(x)
        changed[index] = 5.0
        assert changed.shape == x.shape
        if changed.node.known:
            np.testing.assert_array_equal(changed.numpy(), x)


NUMBERS = {
    "zeros": lambda n: eager.zeros(n(3)),
    "full": lambda n: eager.full(n(3), 1.5),
    "zeros of a shape": lambda n: eager.zeros((n(3), 2)),
    "eye": lambda n: eager.eye(n(3)),
    "reshape": lambda n: eager.reshape(X, n(-1)),
    "tile": lambda n: eager.tile(X, n(2)),
    "resize": lambda n: eager.resize(X, n(8)),
    "broadcast_to": lambda n: eager.broadcast_to(1.0, n(3)),
    "repeat": lambda n: eager.repeat(X, n(2)),
    "split": lambda n: eager.split(X, n(2)),
    "roll": lambda n: eager.roll(X, n(2)),
    "sum": lambda n: eager.sum(X.reshape(2, 3), axis=n(1)),
    "permute_dims": lambda n: eager.permute_dims(X.reshape(2, 3), (n(1), n(0))),
    "linspace": lambda n: eager.linspace(0, 1, n(5)),
    "arange": lambda n: eager.arange(n(5)),
    "one_hot": lambda n: eager.one_hot(np.array([1, 2]), n(5)),
    "var": lambda n: eager.var(X, ddof=n(1)),
    "norm": lambda n: eager.linalg.norm(X, n(1)),
    "matrix_power": lambda n: eager.linalg.matrix_power(np.eye(2), n(2)),
    "tril": lambda n: eager.tril(X.reshape(2, 3), n(1)),
    "diff": lambda n: eager.diff(X, n(2)),
    "round": lambda n: eager.round(X / 7, n(2)),
    "partition": lambda n: eager.partition(X, n(2)),
    "fft": lambda n: eager.fft.fft(X, n(4)),
}


@pytest.mark.parametrize("kind", [np.int64, np.int8])
@pytest.mark.parametrize("name", NUMBERS)
def test_eager_functions_take_numpys_integers_as_sizes(name, kind) -> None:
    np.testing.assert_array_equal(NUMBERS[name](kind), NUMBERS[name](int))


def test_eager_asarray_without_a_copy_is_the_array_itself() -> None:
    x = np.arange(3.0)
    assert eager.asarray(x, copy=False) is x
    assert eager.astype(x, "float64", copy=False) is x
    for copied in (eager.asarray(x, copy=True), eager.array(x), eager.copy(x)):
        assert not np.shares_memory(copied, x)
        np.testing.assert_array_equal(copied, x)
    for impossible in ([1.0, 2.0], x[::-1].tolist()):
        with pytest.raises(ValueError, match="copy=False forbids it"):
            eager.asarray(impossible, copy=False)
    with pytest.raises(ValueError, match="copy=False forbids it"):
        eager.asarray(x, dtype="int8", copy=False)


def test_eager_functions_can_be_pickled() -> None:
    for name in eager.__all__:
        value = getattr(eager, name)
        if callable(value) and not isinstance(value, type):
            assert pickle.loads(pickle.dumps(value)) is value
    for value in (eager.linalg.inv, eager.fft.fft, eager.arcsin, eager.asin):
        assert pickle.loads(pickle.dumps(value)) is value
    assert pickle.loads(pickle.dumps(eager.linalg.inv))(np.eye(2)).shape == (2, 2)
