"""Reading and writing parts of arrays, against NumPy on random keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from tawny import Graph
from tawny.engine.reference import run
from tawny.ops.creation import var
from tawny.ops.indexing import Gather, Scatter, Slice
from tawny.ops.movement import Reshape

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def filled(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int)) * 3 % 17 - 5).reshape(shape).astype(dtype)


@st.composite
def broadcastable(draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`, which may also have leading ones."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(draw(st.sampled_from([n, 1])) for n in kept)


@st.composite
def slices(draw, n: int) -> slice:
    bound = st.none() | st.integers(-n - 2, n + 2)
    step = draw(st.none() | st.integers(-3, 3).filter(bool))
    return slice(draw(bound), draw(bound), step)


@st.composite
def items(draw, shape: tuple[int, ...], common: tuple[int, ...], advanced: bool):
    """A key for an array of `shape`, whose index arrays broadcast to `common`."""
    key: list[object] = []
    axis, dots = 0, False
    for _ in range(len(shape) + 2):
        n = shape[axis] if axis < len(shape) else 0
        kinds = ["none", "stop"]
        kinds += ["slice"] if axis < len(shape) else []
        kinds += ["int"] if n else []
        kinds += [] if dots else ["dots"]
        kinds += ["bool"] if advanced else []
        kinds += ["index", "mask"] if advanced and axis < len(shape) else []
        match draw(st.sampled_from(kinds)):
            case "slice":
                key.append(draw(slices(n)))
                axis += 1
            case "none":
                key.append(None)
            case "int":
                key.append(draw(st.integers(-n, n - 1)))
                axis += 1
            case "dots":
                skipped = draw(st.integers(0, len(shape) - axis))
                key.append(...)
                dots = True
                axis += skipped
            case "index":
                given = draw(broadcastable(common))
                if not n and np.prod(given, dtype=int):
                    continue
                low, high = (-n, n - 1) if n else (0, 0)
                values = draw(
                    st.lists(
                        st.integers(low, high),
                        min_size=int(np.prod(given, dtype=int)),
                        max_size=int(np.prod(given, dtype=int)),
                    )
                )
                dtype = draw(
                    st.sampled_from(
                        ["int64", "int8", "uint8"] if n and low >= 0 else ["int64", "int8"]
                    )
                )
                key.append(np.array(values, dtype).reshape(given))
                axis += 1
            case "mask" if len(common) == 1 and common[0] <= shape[axis]:
                mask = np.zeros(n, bool)
                mask[: common[0]] = True
                key.append(mask)
                axis += 1
            case "bool" if common in ((1,), (0,)):
                key.append(bool(common[0]))
            case "stop":
                break
    return tuple(key)


@st.composite
def keyed(draw, advanced: bool):
    shape = draw(SHAPES)
    common = draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    key = draw(items(shape, common, advanced))
    return shape, key[0] if len(key) == 1 and draw(st.booleans()) else key


def expected(action, *args):
    """NumPy's result, or the class of its error."""
    try:
        return np.array(action(*args))
    except (IndexError, ValueError) as error:
        return type(error)


def lazily(key, variables: dict):
    """`key` with its integer arrays as variables."""
    if isinstance(key, tuple):
        return tuple(lazily(part, variables) for part in key)
    if isinstance(key, np.ndarray) and key.dtype != bool:
        v = var(shape=key.shape, dtype=key.dtype)
        variables[v.node] = key
        return v
    return key


def computed(array, feeds):
    (value,) = run([array.node], feeds)
    assert (array.shape, array.dtype) == (value.shape, value.dtype)
    return value


def compare(ours, want, feeds=None) -> None:
    """`ours()` gives the array `want`, or raises it."""
    if isinstance(want, type):
        with pytest.raises(want):
            ours()
        return
    np.testing.assert_array_equal(computed(ours(), feeds), want, strict=True)


@settings(max_examples=200, deadline=None)
@given(st.booleans().flatmap(keyed))
def test_reading(case) -> None:
    shape, key = case
    x = filled(shape)
    want = expected(lambda: x[key])
    compare(lambda: tnp.asarray(x)[key], want)
    if isinstance(want, type):
        return
    feeds = {}
    source = var(shape=shape)
    feeds[source.node] = x
    compare(lambda: source[lazily(key, feeds)], want, feeds)


def update(x, key, value, mode):
    """NumPy's update; the value is spread first, since `ufunc.at` misreads some that are not."""
    out = x.copy()
    value = np.broadcast_to(value, x[key].shape)
    match mode:
        case "set":
            out[key] = value
        case "add":
            np.add.at(out, key, value)
        case "mul":
            np.multiply.at(out, key, value)
        case "min":
            np.minimum.at(out, key, value)
        case "max":
            np.maximum.at(out, key, value)
    return out


@settings(max_examples=200, deadline=None)
@given(st.booleans().flatmap(keyed), st.data())
def test_writing(case, data) -> None:
    shape, key = case
    x = filled(shape)
    part = expected(lambda: x[key])
    given_shape = () if isinstance(part, type) else data.draw(broadcastable(part.shape))
    value = filled(given_shape) + 0.5
    mode = data.draw(st.sampled_from(["set", "add", "mul", "min", "max"]))
    want = expected(update, x, key, value, mode)
    array = tnp.asarray(x)
    compare(lambda: getattr(array.at[key], mode)(value), want)
    np.testing.assert_array_equal(array.numpy(), x)
    if isinstance(want, type):
        return
    feeds = {}
    source, added = var(shape=shape), var(shape=value.shape)
    feeds |= {source.node: x, added.node: value}
    lazy = lazily(key, feeds)
    compare(lambda: getattr(source.at[lazy], mode)(added), want, feeds)
    if mode == "set":
        array[key] = value
        np.testing.assert_array_equal(array.numpy(), want)


@settings(max_examples=100, deadline=None)
@given(SHAPES.filter(len), st.data())
def test_masks(shape, data) -> None:
    covered = data.draw(st.integers(1, len(shape)))
    mask = filled(shape[:covered]) > 0
    x = filled(shape)
    array = tnp.asarray(x)
    compare(lambda: array[mask], x[mask])
    compare(lambda: array[tnp.asarray(mask)], x[mask])
    want = update(x, mask, 7.5, "set")
    compare(lambda: array.at[mask].set(7.5), want)
    compare(lambda: array.at[mask].add(1), update(x, mask, 1, "add"))
    each = x[mask] + 1
    compare(lambda: array.at[mask].set(each), update(x, mask, each, "set"))
    lazy = var(shape=mask.shape, dtype=bool)
    feeds = {lazy.node: mask}
    compare(lambda: array.at[lazy].set(7.5), want, feeds)
    compare(lambda: array.at[lazy, ...].mul(2), update(x, mask, 2, "mul"), feeds)
    compare(
        lambda: array.at[lazy].set(x * 2),
        np.where(mask.reshape(mask.shape + (1,) * (len(shape) - covered)), x * 2, x),
        feeds,
    )
    row = filled(shape[covered:])
    compare(lambda: array.at[lazy].set(row), update(x, mask, row, "set"), feeds)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (0, 2), (0,), (2, 0)])
def test_masks_without_elements(shape: tuple[int, ...]) -> None:
    """As in NumPy, they fit axes of any size that they choose nothing of."""
    x = filled(shape)
    masks = [np.zeros(0, bool), np.zeros((0, *shape[1:]), bool), np.zeros((shape[0], 0), bool)]
    for mask in masks:
        try:
            want = x[mask]
        except IndexError:
            with pytest.raises(IndexError, match=r"^getitem: "):
                tnp.asarray(x)[mask]
            continue
        array = tnp.asarray(x)
        compare(lambda a=array, mask=mask: a[mask], want)
        compare(lambda a=array, mask=mask: a.at[mask].set(5.0), x)
        array[mask] = 5.0
        np.testing.assert_array_equal(array.numpy(), x)


def test_a_mask_that_depends_on_a_variable_needs_values() -> None:
    x = var("x", shape=(3,))
    with pytest.raises(TypeError, match=r"getitem: the array depends on variable 'x'.*np\.where"):
        x[x > 0]
    with pytest.raises(TypeError, match=r"setitem: .*'x'.*np\.where"):
        x[x > 0] = np.ones(2)
    x[x > 0] = 0.0


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, r"getitem: index 3 is out of bounds for axis 0 of size 3; accepted: -3 to 2"),
        ((0, -5), r"index -5 is out of bounds for axis 1 of size 4; accepted: -4 to 3"),
        ([0, 7], r"index 7 is out of bounds for axis 0 of size 3"),
        ((0, 0, 0), r"shape \(3, 4\); 3 indices came and at most 2 fit"),
        ((..., ...), r"one '\.\.\.'"),
        (1.5, r"1\.5 is not an index"),
        ("name", r"'name' is not an index"),
        ([0.5], r"index array has dtype float64"),
        (([0, 1], [0, 1, 2]), r"index arrays of shapes \(2,\) and \(3,\) do not broadcast"),
        (np.ones(4, bool), r"boolean index of shape \(4,\) must have .* \(3,\)"),
    ],
)
def test_wrong_keys_are_refused_when_the_node_is_built(key, message) -> None:
    with pytest.raises(IndexError, match=message + r".*\[test_indexing\.py:\d+\]"):
        tnp.asarray(filled((3, 4)))[key]
    with pytest.raises(IndexError):
        tnp.asarray(filled((3, 4)))[key] = 1


def test_indices_that_depend_on_variables_are_checked_when_run() -> None:
    i = var("i", dtype="int64")
    x = tnp.asarray([1.0, 2.0, 3.0])
    y = x[i]
    assert computed(y, {i.node: np.array(-1)}) == 3.0
    with pytest.raises(IndexError, match=r"gather: .*test_indexing\.py"):
        run([y.node], {i.node: np.array(3)})


def test_indices_are_checked_where_no_element_is_moved(engine: str) -> None:
    for shape, axis in [((0, 2), 1), ((2, 0), 0), ((3, 0, 2), 2), ((0, 2, 0), 1)]:
        x, i = var("x", shape=shape), var("i", shape=(2, 3), dtype="int64")
        n = shape[axis]
        message = f"index 5 is out of bounds for axis {axis} of size {n}; accepted: {-n} to {n - 1}"
        for y in (tnp.take(x, i, axis=axis), x.at[(slice(None),) * axis + (i,)].add(1.0)):
            program = Graph([x, i], y).compile(engine=engine)
            with pytest.raises(IndexError, match=message + r".*test_indexing\.py"):
                program(np.empty(shape), np.array([[0, -n, n - 1], [0, 5, 7]]))
            assert program(np.empty(shape), np.full((2, 3), -n)).size == 0


def test_indices_that_broadcast_to_none_are_not_checked(engine: str) -> None:
    x, i = var("x", shape=(3, 2)), var("i", shape=(4, 1), dtype="int64")
    none = np.empty((4, 0), np.int64)
    for y in (x[i, none], x.at[i, none].add(1.0)):
        found = Graph([x, i], y).compile(engine=engine)(np.ones((3, 2)), np.full((4, 1), 9))
        np.testing.assert_array_equal(found, np.ones(y.shape))


def test_values_are_converted_as_numpy_does() -> None:
    whole = tnp.asarray([1, 2, 3])
    assert whole.at[0].set(2.9).tolist() == [2, 2, 3]
    assert whole.at[:2].set([1.5, -1.5]).tolist() == [1, -1, 3]
    for bad, error in (
        (float("nan"), ValueError),
        (1j, TypeError),
        (2**70, OverflowError),
        (np.array(1j), TypeError),
    ):
        with pytest.raises(error, match="set: "):
            whole.at[0].set(bad)
    for bad in (1.5, np.array(1.5)):
        with pytest.raises(TypeError, match=r"add: .*float64"):
            whole.at[0].add(bad)
    with pytest.raises(ValueError, match=r"shape \(2,\), which does not broadcast .* \(3,\)"):
        whole.at[:].set([1, 2])
    half = tnp.asarray([1, 2], dtype="float32").at[0].add(np.float64(1.25))
    assert half.dtype == np.float32
    assert half.tolist() == [2.25, 2.0]
    narrow = tnp.asarray([100, -100], dtype="int8")
    assert narrow.at[:].min(np.array([300, 1])).tolist() == [100, -100]
    assert narrow.at[:].min(np.array([300, 1])).dtype == np.int8


def test_assignment_renames_and_leaves_what_came_before() -> None:
    x = tnp.asarray([1.0, 2.0, 3.0])
    before = x + 1
    x[1:] = 0
    x[0] += 5
    x[...] = x * 2
    assert x.tolist() == [12.0, 0.0, 0.0]
    assert before.tolist() == [2.0, 3.0, 4.0]
    y = tnp.asarray([7.0, 8.0, 9.0])
    x[:] = y
    x[0] = 0
    assert y.tolist() == [7.0, 8.0, 9.0]
    z = y.at[:].set(x)
    assert z is not x
    assert x.at[1].get().item() == 8.0


def test_the_nodes_are_the_fewest() -> None:
    x = var(shape=(4, 5, 6))
    assert x[...].node is x.node
    assert isinstance(x[1:].node.op, Slice)
    one = x[1].node
    assert isinstance(one.op, Reshape)
    assert one.inputs[0].op == Slice(((1, 1, 1), (0, 5, 1), (0, 6, 1)))
    rows = x[:, [0, 2]].node
    assert rows.op == Gather((1,), 1)
    assert rows.inputs[0] is x.node
    last = x.at[..., -1].set(0).node
    assert last.op == Scatter(((0, 4, 1), (0, 5, 1), (5, 1, 1)), (), 0, "set")
    assert last.inputs[0] is x.node


def test_iteration_and_python_indices() -> None:
    x = tnp.asarray(filled((3, 2)))
    assert [r.tolist() for r in x] == filled((3, 2)).tolist()
    i = tnp.argmax(tnp.asarray([0, 5, 1]))
    assert x[i].tolist() == filled((3, 2))[1].tolist()
    assert x[: tnp.asarray(2)].shape == (2, 2)
    with pytest.raises(ValueError, match="step of a slice is 0"):
        x[::0]
    with pytest.raises(TypeError, match="bounds that are not integers"):
        x[:1.5]
    start = var("start", dtype="int64")
    with pytest.raises(TypeError, match=r"'start'.*np\.take"):
        x[start:]
    assert x[[start, i]].shape == (2, 2)


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "float32", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32", "int64"])
def test_single_elements_by_vectors_of_indices(dtype: str, kind: str) -> None:
    """Any number of them, behind kept axes too; one that is outside is found wherever it is."""
    draw = np.random.default_rng(0)
    source = draw.normal(size=(3, 50, 40)).astype(dtype)
    for count in (1, 7, 8, 9, 100, 20_011):
        low = 0 if kind[0] == "u" else -40
        rows, columns = (draw.integers(low, 40, count).astype(kind) for _ in range(2))
        x, i, j = (tw.var(shape=a.shape, dtype=a.dtype) for a in (source, rows, columns))
        program = tw.Graph([x, i, j], [x[1, i, j], x[:, :, j], x[0][i, 3], x[0].T[i, j]]).compile()
        got = program(source, rows, columns)
        want = (
            source[1, rows, columns],
            source[:, :, columns],
            source[0][rows, 3],
            source[0].T[rows, columns],
        )
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)
        for place in {0, count // 2, count - 1}:
            wrong = columns.copy()
            wrong[place] = 100
            with pytest.raises(IndexError):
                program(source, rows, wrong)
