"""The lazy array: conversion, laziness, mutation by name, and the protocols."""

from __future__ import annotations

import copy
import operator
import pickle
import re
from collections.abc import Callable

import numpy as np
import pytest

import tawny as tw
import tawny.eager
import tawny.numpy as tnp
from tawny.array import Array
from tawny.foreign_attributes import ARRAY, UPDATE, array_counterpart


@pytest.fixture
def x() -> Array:
    return tw.var("x", shape=(3,))


def test_nothing_is_computed_until_asked() -> None:
    calls: list[int] = []

    def spy(a):
        calls.append(1)
        return a + 1

    y = tw.delay(spy, tnp.asarray([1.0, 2.0])) * 2
    assert calls == []
    assert repr(y)
    assert str(y)
    assert y.shape == (2,)
    assert calls == []
    assert y.tolist() == [4.0, 6.0]
    assert calls == [1]
    assert y.tolist() == [4.0, 6.0]
    assert calls == [1], "the value is kept"


def test_conversions() -> None:
    a = tnp.asarray([[3]])
    assert float(a) == 3.0
    assert int(a) == 3
    assert complex(a) == 3 + 0j
    assert bool(a) is True
    assert a.item() == 3
    assert a.tolist() == [[3]]
    assert [10, 20, 30][tnp.asarray(1)] == 20
    assert len(tnp.zeros((4, 2))) == 4
    assert [int(v) for v in tnp.arange(3)] == [0, 1, 2]
    assert tw.evaluate(a).tolist() == [[3]]
    first, second = tw.evaluate(a, a + 1)
    assert (first.item(), second.item()) == (3, 4)


def test_values_of_variables_are_refused_by_name(x: Array) -> None:
    y = tnp.sum(x) + tw.var("bias")
    for convert in (
        float,
        int,
        complex,
        bool,
        Array.numpy,
        Array.item,
        Array.tolist,
        np.asarray,
        tw.evaluate,
    ):
        with pytest.raises(
            TypeError, match=r"depends on variables 'x', 'bias'.*\[test_array.py:\d+\]"
        ):
            convert(y)


def test_evaluate_gives_new_arrays_each_time() -> None:
    a = tnp.asarray([1.0, 2.0])
    first = tw.evaluate(a)
    first[0] = 99.0
    assert tw.evaluate(a).tolist() == [1.0, 2.0]
    both = tw.evaluate(a, a)
    both[0][0] = 5.0
    assert both[1].tolist() == [1.0, 2.0]


def test_kept_values_cannot_be_changed() -> None:
    a = tnp.asarray([1.0, 2.0]) + 1
    with pytest.raises(ValueError, match="read-only"):
        a.numpy()[0] = 5.0


def test_data_is_copied_in() -> None:
    data = np.array([1.0, 2.0])
    a = tnp.asarray(data)
    b = a * 2
    data[0] = 100.0
    assert a.tolist() == [1.0, 2.0]
    assert b.tolist() == [2.0, 4.0]


# ------------------------------------------------------------------- mutation


def test_setitem_renames_and_leaves_what_was_computed_before() -> None:
    a = tnp.zeros((3,))
    before = a + 1
    a[1] = 5.0
    assert a.tolist() == [0.0, 5.0, 0.0]
    assert before.tolist() == [1.0, 1.0, 1.0]


def test_new_arrays_are_changed_alone() -> None:
    a, b = tnp.zeros((3,)), tnp.zeros((3,))
    a[0] = 1.0
    assert b.tolist() == [0.0, 0.0, 0.0]
    c = tnp.copy(b)
    c += 1
    assert b.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("make", [lambda: tnp.zeros((2,)), lambda: tw.var("x", (2,)) * 2])
def test_all_names_of_an_array_see_what_is_assigned_to_a_part(make: Callable[[], Array]) -> None:
    a = make()
    alias, kept, before = a, [a], a.node
    alias[0] = 1.0
    assert alias is a is kept[0]
    assert a.node is not before
    assert a.node.op.facts().name == "scatter"


AUGMENTED = {
    "iadd": 2, "isub": 2, "imul": 2, "ifloordiv": 2, "imod": 2, "ipow": 2, "iand": 2, "ior": 2,
    "ixor": 2, "ilshift": 2, "irshift": 2, "itruediv": 2.0, "imatmul": np.eye(2),
}  # fmt: skip


@pytest.mark.parametrize("name", AUGMENTED)
def test_augmented_assignment_changes_its_own_name_alone(name: str) -> None:
    other = AUGMENTED[name]
    value = np.array([[5, 3], [2, 9]]).astype(np.asarray(other).dtype)
    x = tnp.asarray(value)
    alias, twice, node = x, x * 2, x.node
    augment = getattr(operator, name)
    x = augment(x, other)
    assert x is not alias
    assert alias.node is node
    np.testing.assert_array_equal(alias.numpy(), value)
    np.testing.assert_array_equal(twice.numpy(), value * 2)
    plain = augment(value.copy(), other) if name != "imatmul" else value @ other
    np.testing.assert_array_equal(x.numpy(), plain)


def test_names_do_not_depend_on_who_else_holds_an_array(x: Array) -> None:
    def changed(array: Array, *_: object) -> Array:
        array += 1
        return array

    holders = [[x], {"x": x}, (x, x, x)]
    assert changed(x, *holders).node is changed(x).node
    assert all(name is x for name in holders[2])
    total = tnp.zeros((2, 3))
    total[0] += 1
    total[:, 1] *= 5
    assert total.tolist() == [[1.0, 5.0, 1.0], [0.0, 0.0, 0.0]]


def test_a_result_computed_again_after_a_change_is_the_old_one() -> None:
    a = tnp.asarray([1.0, 2.0])
    y = tnp.exp(a)
    y[0] = 0.0
    assert tnp.exp(a)[0].item() == np.exp(1.0)


def test_equal_expressions_are_one_node_and_arrays_of_their_own(x: Array) -> None:
    a, b = x * 2, x * 2
    assert a is not b
    assert a.node is b.node
    a[0] = 1.0
    assert b.node is (x * 2).node is not a.node
    b += 1
    assert b.node is (x * 2 + 1).node


WHOLE_VIEWS: dict[str, Callable[[Array], Array]] = {
    "ellipsis": lambda x: x[...],
    "slice": lambda x: x[:],
    "reshape": lambda x: x.reshape(-1),
    "ravel": lambda x: x.ravel(),
    "transpose": lambda x: x.T,
    "squeeze": lambda x: x.squeeze(),
    "swapaxes": lambda x: x.swapaxes(0, 0),
    "moveaxis": lambda x: tnp.moveaxis(x, 0, 0),
    "rot90": lambda x: tnp.flip(x, ()),
    "atleast": lambda x: tnp.atleast_1d(x),
    "asarray": lambda x: tnp.asarray(x),
    "astype": lambda x: tnp.astype(x, x.dtype, copy=False),
}


@pytest.mark.parametrize("name", WHOLE_VIEWS)
def test_a_view_of_all_of_an_array_is_that_array(name: str) -> None:
    x = tnp.zeros((3,))
    view = WHOLE_VIEWS[name](x)
    view[1] = 7.0
    assert x.tolist() == [0.0, 7.0, 0.0], "as NumPy writes through such a view"


COPIES: dict[str, Callable[[Array], Array]] = {
    "copy": lambda x: x.copy(),
    "flatten": lambda x: x.flatten(),
    "astype": lambda x: x.astype(x.dtype),
    "array": lambda x: tnp.array(x),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "positive": lambda x: +x,
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_changed_alone(name: str) -> None:
    x = tnp.zeros((3,))
    other = COPIES[name](x)
    other[1] = 7.0
    assert x.tolist() == [0.0, 0.0, 0.0]
    assert other.tolist() == [0.0, 7.0, 0.0]


def test_known_arrays_computed_alike_are_changed_alone() -> None:
    rows = [tnp.arange(3) * 2 for _ in range(3)]
    assert rows[2].node is (tnp.arange(3) * 2).node
    rows[0][1] = 7
    rows[1] += 1
    assert [r.tolist() for r in rows] == [[0, 7, 4], [1, 3, 5], [0, 2, 4]]


def test_in_place_operators_keep_shape_and_dtype() -> None:
    a = tnp.zeros((2,), dtype="float32")
    a += np.ones(2)
    assert a.dtype == np.float32
    n = tnp.zeros((2,), dtype="int64")
    with pytest.raises(TypeError, match="add: the result has dtype float64"):
        n += 1.5
    with pytest.raises(ValueError, match=r"add: the result has shape \(3, 2\)"):
        n += tnp.zeros((3, 2), dtype="int64")
    assert n.tolist() == [0, 0], "state stays as it was"


BINARY = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift", "matmul",
    "eq", "ne", "lt", "le", "gt", "ge",
]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_operators_agree_with_numpy(name: str) -> None:
    function = getattr(operator, name)
    a, b = np.array([[7, 2], [3, 4]]), np.array([[1, 2], [2, 1]])
    expected = function(a, b)
    for left, right in ((tnp.asarray(a), b), (a, tnp.asarray(b)), (tnp.asarray(a), tnp.asarray(b))):
        result = function(left, right)
        assert isinstance(result, Array)
        np.testing.assert_array_equal(result.numpy(), expected)
    if name != "matmul":
        np.testing.assert_array_equal(function(tnp.asarray(a), 2).numpy(), function(a, 2))
        np.testing.assert_array_equal(function(2, tnp.asarray(b)).numpy(), function(2, b))


@pytest.mark.parametrize("name", ["neg", "pos", "abs", "invert"])
def test_unary_operators_agree_with_numpy(name: str) -> None:
    a = np.array([-3, 4])
    np.testing.assert_array_equal(
        getattr(operator, name)(tnp.asarray(a)).numpy(), getattr(operator, name)(a)
    )


def test_foreign_operands_are_left_to_the_other_side(x: Array) -> None:
    for bad in ("text", None, {}):
        with pytest.raises(TypeError):
            x + bad


# ------------------------------------------------------------------ protocols


def test_numpy_functions_stay_lazy(x: Array) -> None:
    for y in (
        np.sin(x), np.add(x, 1), np.ones(3) + x, np.sum(x), np.sum(x, 0), np.mean(x, axis=0, keepdims=True),
        np.concatenate([x, x]), np.stack([x, x]), np.reshape(x, (3, 1)), np.where(x > 0, x, 0), np.dot(x, x),
        np.linalg.norm(x), np.fft.fft(x), np.clip(x, 0, 1), np.cumsum(x), np.transpose(x), np.outer(x, x),
        np.add.reduce(x), np.multiply.accumulate(x), np.subtract.outer(x, x), np.float32(2) * x,
        np.expand_dims(x, 0), np.zeros_like(x), np.tile(x, 2), np.argsort(x), np.sort(x), np.einsum("i,i->", x, x),
        np.linalg.inv(np.outer(x, x)), np.matmul(x, x), np.exp2(x), np.isclose(x, 0), np.pad(x, 1), np.round(x, 2),
    ):  # fmt: skip
        assert isinstance(y, Array)


def test_numpy_functions_on_values_agree() -> None:
    a = np.arange(6.0).reshape(2, 3)
    lazy = tnp.asarray(a)
    for call in (
        lambda v: np.sum(v, 0), lambda v: np.var(v, axis=1, ddof=1), lambda v: np.concatenate([v, v], axis=1),
        lambda v: np.add.reduce(v, axis=1), lambda v: np.subtract.outer(v, v), lambda v: np.transpose(v, (1, 0)),
        lambda v: np.linalg.norm(v, axis=0), lambda v: np.cumsum(v), lambda v: np.cumsum(v, 1),
        lambda v: np.squeeze(v[:, :1], axis=1), lambda v: np.moveaxis(v, 0, 1), lambda v: np.roll(v, 1),
        lambda v: np.add(v, v, dtype="float32"), lambda v: np.multiply.accumulate(v, axis=1), lambda v: np.diff(v),
    ):  # fmt: skip
        np.testing.assert_allclose(np.asarray(call(lazy)), call(a))


def test_what_numpy_offers_and_lazy_arrays_do_not_is_refused(x: Array) -> None:
    with pytest.raises(TypeError, match=r"add: the array depends on variable 'x', not known yet"):
        np.add(x, 1, out=np.zeros(3))
    with pytest.raises(TypeError, match=r"negative.at: this method"):
        np.negative.at(x, [0])
    with pytest.raises(TypeError, match=r"add.reduceat: this has no lazy counterpart"):
        np.add.reduceat(x, [0])
    with pytest.raises(TypeError, match=r"numpy.datetime_as_string: no lazy counterpart"):
        np.datetime_as_string(x)
    with pytest.raises(ValueError, match="where"):
        np.add(x, 1, where=np.array([True, False, True]))


def test_dlpack_and_array_protocols() -> None:
    a = tnp.asarray([1.0, 2.0])
    np.testing.assert_array_equal(np.from_dlpack(a), [1.0, 2.0])
    np.testing.assert_array_equal(tnp.from_dlpack(np.arange(3)).numpy(), [0, 1, 2])
    assert np.asarray(a, dtype="int32").dtype == np.int32
    with pytest.raises(ValueError, match="copy=False forbids it"):
        np.asarray(a, dtype="int32", copy=False)
    assert a.__array_namespace__() is tnp
    assert a.__array_namespace__(api_version="2025.12") is tnp
    with pytest.raises(ValueError, match="api_version"):
        a.__array_namespace__(api_version="1999.01")


def test_methods_agree_with_numpy() -> None:
    a = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    lazy = tnp.asarray(a)
    for call in (
        lambda v: v.sum(0), lambda v: v.mean(1, keepdims=True), lambda v: v.std(ddof=1), lambda v: v.reshape(3, 2),
        lambda v: v.reshape((-1,)), lambda v: v.transpose(1, 0), lambda v: v.transpose(), lambda v: v.T,
        lambda v: v.mT, lambda v: v.astype("float32"), lambda v: v.flatten(), lambda v: v.ravel(), lambda v: v.min(),
        lambda v: v.max(1), lambda v: v.argmax(), lambda v: v.argmin(1), lambda v: v.cumsum(), lambda v: v.cumprod(1),
        lambda v: v.clip(2, 5), lambda v: v.round(1), lambda v: v.take([0, 2], axis=1), lambda v: v.repeat(2, axis=0),
        lambda v: v.argsort(), lambda v: v.trace(), lambda v: v.diagonal(1), lambda v: v.swapaxes(0, 1),
        lambda v: v.dot(v.T), lambda v: v.squeeze(), lambda v: v.conj(), lambda v: v.real, lambda v: v.imag,
        lambda v: v.any(), lambda v: v.all(1), lambda v: v.prod(0), lambda v: v.var(), lambda v: v.copy(),
        lambda v: v.nonzero()[1],
    ):  # fmt: skip
        np.testing.assert_allclose(np.asarray(call(lazy)), call(a))
    assert (lazy.ndim, lazy.size, lazy.itemsize, lazy.nbytes, lazy.device) == (2, 6, 8, 48, "cpu")


def test_np_array_copies() -> None:
    a = tnp.zeros((3,))
    b = tnp.array(a)
    b[0] = 1.0
    assert a.tolist() == [0.0, 0.0, 0.0]
    x = tw.var("x", shape=(3,))
    u = tnp.array(x)
    u[0] = 0.0
    assert x.name == "x"
    data = np.zeros(3)
    assert not np.shares_memory(tawny.eager.array(data), data)
    assert not np.shares_memory(tawny.eager.asarray(data), data)
    wide = tawny.eager.broadcast_to(data, (2, 3))
    assert np.shares_memory(wide, data)
    assert not wide.flags.writeable


def test_ufunc_keywords_of_numpys() -> None:
    u = tnp.asarray([250, 3], dtype="uint8")
    assert np.multiply(u, u, dtype="int32").tolist() == [62500, 9]
    assert np.add.reduce(tnp.ones((2, 3)), axis=None).shape == ()
    assert np.add.reduce(tnp.ones((2, 3))).shape == (3,)
    assert np.maximum.reduce(tnp.ones((2, 3)), axis=(0, 1)).shape == ()
    with pytest.raises(TypeError, match="the result would be bool"):
        np.less(u, u, dtype="int32")


def test_an_impure_function_gives_one_value_to_one_array() -> None:
    count = [0]

    def f():
        count[0] += 1
        return np.full(3, float(count[0]))

    d = tw.delay(f, shape=(3,), dtype=float)
    assert [float(v) for v in d] == [1.0, 1.0, 1.0]
    assert (d + 1).tolist() == [2.0, 2.0, 2.0]
    assert d.tolist() == [1.0, 1.0, 1.0]


def test_a_view_of_a_living_array_is_not_changed_in_silence() -> None:
    a = tnp.zeros((2, 2))
    with pytest.raises(ValueError, match=r"setitem: this array is a view of another one"):
        a[0][0] = 1.0
    with pytest.raises(ValueError, match=r"setitem: this array is a view of another one"):
        a[0][0] += 1.0
    for row in a:
        name = row
        row += 1
        assert name is not row
    assert a.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    a[0] += 2
    a[:, 0] -= 1
    assert a.tolist() == [[1.0, 2.0], [-1.0, 0.0]]
    a = tnp.zeros((2, 2))
    b = a.T
    with pytest.raises(ValueError, match=r"np.copy"):
        b[0, 0] = 1.0
    c = tnp.copy(a[0])
    c[0] = 1.0
    assert c.tolist() == [1.0, 0.0]
    d = tnp.arange(4).reshape(2, 2)
    d[0, 0] = 9
    assert d.tolist() == [[9, 1], [2, 3]], "nobody holds what was reshaped"
    assert a.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_values_the_user_holds_are_kept_on_the_way() -> None:
    calls: list[int] = []

    def spy(a):
        calls.append(1)
        return a + 1

    y = tw.delay(spy, tnp.zeros((3,)), pure=True)
    assert [float(v) for v in y] == [1.0, 1.0, 1.0]
    assert float(tnp.sum(y)) == 3.0
    assert calls == [1]
    before = y.node
    z = y * 2
    z.numpy()
    assert z.node.inputs == (), "a kept value needs its inputs no more"
    assert before.value is not None


def test_copying_and_pickling(x: Array) -> None:
    y = x + 1
    for twin in (copy.copy(y), copy.deepcopy(y)):
        assert twin.node is y.node
    with pytest.raises(TypeError, match="save the graph"):
        pickle.dumps(y)


def test_python_operators_beyond_arithmetic(x: Array) -> None:
    a = tnp.asarray([7, 8, 9])
    quotient, rest = divmod(a, 2)
    assert (quotient.tolist(), rest.tolist()) == ([3, 4, 4], [1, 0, 1])
    assert [v.tolist() for v in divmod(20, a)] == [[2, 2, 2], [6, 4, 2]]
    assert 8 in a
    assert 3 not in a
    assert f"{a[0]:04d} {tnp.asarray(1.5):.2f}" == "0007 1.50"
    assert f"{x}" == str(x)

    class Other:
        __array_ufunc__ = None

        def __radd__(self, left):
            return "mine"

    assert a + Other() == "mine"


def test_numpys_own_frames_are_not_the_users() -> None:
    with pytest.raises(TypeError, match=r"\[test_array.py:\d+\]"):
        np.vectorize(float)(tw.var("x", shape=(2, 2)))


def test_complex_numbers_lose_their_imaginary_part_only_with_a_warning() -> None:
    z = tnp.asarray([1 + 2j, 3 - 1j])
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        assert tnp.asarray(z, dtype="float64").tolist() == [1.0, 3.0]
    with pytest.warns(np.exceptions.ComplexWarning, match=r"test_array.py"):
        assert tnp.linalg.trace(tnp.asarray([[1 + 2j]]), dtype="uint8").item() == 1
    with pytest.raises(TypeError, match="astype: operand 0 has dtype complex128"):
        tnp.astype(z, "float64")


@pytest.mark.parametrize("name", ARRAY)
def test_names_of_other_libraries_say_what_is_written_here(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; write .+"):
        getattr(tnp.ones(2), name)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("append", r"np\.append\(x, \.\.\.\)"),
        ("norm", r"np\.linalg\.norm\(x, \.\.\.\)"),
        ("exp", r"np\.exp\(x, \.\.\.\)"),
        ("exp_", r"x = np\.exp\(x, \.\.\.\): arrays do not change where they lie"),
        ("clamp_", r"x = np\.clip\(x, low, high\): arrays do not"),
    ],
)
def test_functions_that_others_have_as_methods_are_named(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; write {instead}"):
        getattr(tnp.ones(2), name)
    assert array_counterpart("__cuda_array_interface__") is None
    assert array_counterpart("nonsense") is None


@pytest.mark.parametrize("name", ["strides", "tofile", "ctypes", "flags"])
def test_what_numpy_says_of_memory_is_asked_of_the_value(name: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"'{name}'; write x\.numpy\(\)\.{name}, of its value"
    ):
        getattr(tnp.ones(2), name)
    assert hasattr(tnp.ones(2).numpy(), name)


def test_a_part_of_an_array_says_what_can_be_done_with_it() -> None:
    part = tnp.ones(3).at[0]
    assert repr(part).startswith("<part of an array: .set(value), .add")
    for name, instead in UPDATE.items():
        with pytest.raises(AttributeError, match=rf"'{name}'; write {re.escape(instead)}"):
            getattr(part, name)
    with pytest.raises(TypeError, match=r"^set: missing 1 required .*; accepted: value  \[test_a"):
        part.set()
    with pytest.raises(ValueError, match=r"^delitem: .*np\.delete\(x, i\)"):
        del tnp.ones(3)[0]


def test_rounding_gives_what_numpys_numbers_give() -> None:
    known = tnp.sum(tnp.asarray([1.25, 1.5]))
    assert round(known) == 3
    assert type(round(known)) is int
    assert float(round(known, 1)) == round(np.float64(2.75), 1)
    x = tw.var("x", shape=(2,))
    np.testing.assert_array_equal(
        tw.Graph([x], [round(x), round(x, 1)]).compile()([1.26, -2.5]), [[1, -2], [1.3, -2.5]]
    )
