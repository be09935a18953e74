"""Functions traced once per shapes and dtypes."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import pydoc
import threading
import typing
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.errors import PerformanceWarning


@dataclass(frozen=True)
class Layer:
    weight: object
    bias: object


def test_traced_once_per_shapes_and_dtypes() -> None:
    traces: list[tuple] = []

    @tw.jit
    def f(x, y):
        """Documented."""
        traces.append((x.shape, x.dtype))
        return tnp.sin(x) + y

    a, b = np.arange(3.0), np.ones(3)
    np.testing.assert_allclose(f(a, b), np.sin(a) + b, rtol=1e-15)
    np.testing.assert_allclose(f(b, a), np.sin(b) + a, rtol=1e-15)
    assert len(traces) == 1
    f(np.ones((2, 2)), np.ones((2, 2)))
    f(a.astype("float32"), b.astype("float32"))
    assert len(traces) == 3
    assert f.__name__ == "f"
    assert f.__doc__ == "Documented."


def test_nested_structures_and_dataclasses() -> None:
    @tw.jit
    def forward(params, x):
        for layer in params["layers"]:
            x = tnp.tanh(x @ layer.weight + layer.bias)
        return {"out": x, "norms": [tnp.sum(v.weight) for v in params["layers"]]}

    rng = np.random.default_rng(0)
    layers = [Layer(rng.normal(size=(3, 3)), rng.normal(size=3)) for _ in range(2)]
    x = rng.normal(size=(4, 3))
    result = forward({"layers": layers}, x)
    expected = x
    for layer in layers:
        expected = np.tanh(expected @ layer.weight + layer.bias)
    np.testing.assert_allclose(result["out"], expected, rtol=1e-12)
    assert isinstance(result["norms"], list)


def test_numbers_are_weak_beside_the_calls_arrays() -> None:
    scale = tw.jit(lambda x, k: x * k)
    assert scale(np.ones(2, "float32"), 0.5).dtype == np.float32
    assert scale(np.ones(2), 2).dtype == np.float64
    np.testing.assert_array_equal(scale(np.ones(2), 3), [3.0, 3.0])


def test_static_arguments_and_other_objects_are_part_of_the_program() -> None:
    @tw.jit(static=["n"])
    def power(x, n, mode="up"):
        for _ in range(n):
            x = x * x
        return x if mode == "up" else -x

    np.testing.assert_array_equal(power(np.full(2, 2.0), 2), [16.0, 16.0])
    np.testing.assert_array_equal(power(np.full(2, 2.0), 1, mode="down"), [-4.0, -4.0])
    with pytest.raises(ValueError, match="static argument 'm' is not among: x, n"):
        tw.jit(static="m")(lambda x, n: x)
    with pytest.raises(TypeError, match="must be hashable"):
        power(np.ones(2), [1])


def test_branching_on_values_names_the_line_and_the_alternatives() -> None:
    @tw.jit
    def bad(x):
        if x[0] > 0:
            return x
        return -x

    with pytest.raises(
        TypeError, match=r"bool: .*variable 'x'.*np.where.*tw.delay.*\[test_jit.py:\d+\]"
    ):
        bad(np.ones(2))


def test_lower_gives_graph_and_plan_without_running() -> None:
    calls: list[int] = []

    def spy(a):
        calls.append(1)
        return a

    f = tw.jit(lambda x: tw.delay(spy, x) + 1)
    lowering = f.lower(np.ones(4))
    assert lowering.plan.peak_bytes > 0
    assert [n.name for n in lowering.graph.input_nodes] == ["x"]
    assert calls == []


def test_called_with_lazy_arrays_it_is_the_function_itself() -> None:
    f = tw.jit(lambda x: tnp.sin(x))
    x = tw.var("x", shape=(2,))
    assert f(x).node is tnp.sin(x).node


def test_wrong_calls() -> None:
    f = tw.jit(lambda x: "text")
    with pytest.raises(TypeError, match="gives arrays, not str"):
        f(np.ones(2))
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        f()


def test_plain_calls_are_told_apart_from_all_others() -> None:
    """What is known of earlier calls with arrays alone holds for calls of that structure alone."""
    traces: list[str] = []

    @tw.jit
    def f(x, y=None, *more, scale=2.0):
        traces.append(f"{y is None} {len(more)}")
        total = x * scale if y is None else x * scale + y
        for z in more:
            total = total - z
        return total

    a, b, c = np.arange(3.0), np.ones(3), np.full(3, 5.0)
    for _ in range(3):
        np.testing.assert_array_equal(f(a), a * 2)
        np.testing.assert_array_equal(f(a, b), a * 2 + b)
        np.testing.assert_array_equal(f(a, b, c, c), a * 2 + b - c - c)
        np.testing.assert_array_equal(f(a, scale=3.0), a * 3)
        np.testing.assert_array_equal(f(a, y=b), a * 2 + b)
        np.testing.assert_array_equal(f(a, 1.0), a * 2 + 1)
    assert len(traces) == 5, "b by its name is no other program; a default is part of one"
    assert f(a.astype("float32")).dtype == np.float32
    with pytest.raises(TypeError, match="missing a required argument"):
        f()


def test_structures_of_arrays_are_told_apart() -> None:
    @tw.jit
    def f(given):
        if isinstance(given, dict):
            return given["a"] - given["b"]
        return given[0] * 10 + given[1] if isinstance(given, tuple) else given[0] + given[1]

    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    for _ in range(2):
        np.testing.assert_array_equal(f({"a": a, "b": b}), a - b)
        np.testing.assert_array_equal(f({"b": b, "a": a}), a - b)
        np.testing.assert_array_equal(f((a, b)), a * 10 + b)
        np.testing.assert_array_equal(f([a, b]), a + b)
        np.testing.assert_array_equal(f(np.stack([a, b])), a + b)


# ------------------------------------------------------- Python values and data

A = np.arange(6.0).reshape(2, 3)


class Pair(typing.NamedTuple):
    left: object
    right: object


PYTHON_VALUES = {
    "an axis": (lambda np, x, axis: np.sum(x, axis=axis), (A, 1)),
    "a negative axis": (lambda np, x, axis: np.sum(x, axis=axis), (A, -1)),
    "axes": (lambda np, x, axes: np.transpose(x, axes), (A, (1, 0))),
    "a shape": (lambda np, x, shape: np.reshape(x, shape), (A, (3, 2))),
    "a size": (lambda np, x, n: np.zeros(n) + x[0, 0], (A, 4)),
    "an index": (lambda np, x, i: x[i], (A, 1)),
    "a range": (lambda np, x, n: sum(x * k for k in range(n)), (A, 3)),
    "a slice": (lambda np, x, s: x[:, s], (A, slice(0, 2))),
    "a flag": (lambda np, x, flag: x * 2 if flag else x, (A, True)),
    "a flag that is not set": (lambda np, x, flag: x * 2 if flag else x, (A, False)),
    "a mode": (lambda np, x, mode: getattr(np, mode)(x), (A, "sin")),
    "None": (lambda np, x, y: x if y is None else y, (A, None)),
    "a dtype": (lambda np, x, dtype: np.astype(x, dtype), (A, np.dtype("float32"))),
    "a type": (lambda np, x, dtype: np.astype(x, dtype), (A, np.int64)),
    "a function": (lambda np, x, f: f(x), (A, abs)),
    "an ellipsis": (lambda np, x, i: x[i], (A, ...)),
    "a divisor": (lambda np, x, n: x * (n / 2), (A, 3)),
    "a large int": (lambda np, x, n: x + n % 7, (A, 2**70)),
    "a dict": (lambda np, x, o: np.sum(x, axis=o["axis"]) * o["k"], (A, {"axis": 0, "k": 0.5})),
    "a list": (lambda np, x, o: sum(x[i] for i in o), (A, [0, 1])),
    "a named tuple": (lambda np, x, o: x[o.left] * o.right, (A, Pair(1, A[0]))),
    "a dataclass": (lambda np, x, o: np.sum(x, axis=o.weight) * o.bias, (A, Layer(0, 2.0))),
    "a float": (lambda np, x, k: x * k, (A, 0.5)),
    "a complex number": (lambda np, x, k: x * k, (A, 0.5j)),
    "a NumPy scalar": (lambda np, x, k: x * k, (A, np.float32(0.5))),
    "a NumPy bool": (lambda np, x, k: np.where(k, x, -x), (A, np.bool_(False))),
}


@pytest.mark.parametrize("name", PYTHON_VALUES)
def test_arguments_are_what_they_are_in_python(name: str) -> None:
    """Whatever is passed, by position, by name or as a default: as if there were no jit."""
    function, (x, given) = PYTHON_VALUES[name]
    expected = function(np, x, given)

    def f(x, given):
        return function(tnp, x, given)

    def defaulted(x, given=given):
        return function(tnp, x, given)

    def named(x, *, given=given):
        return function(tnp, x, given)

    def gathered(*args, **kwargs):
        return function(tnp, *args, *kwargs.values())

    jitted = tw.jit(f)
    for made in (
        jitted(x, given),
        jitted(x, given=given),
        jitted(given=given, x=x),
        jitted(tnp.asarray(x), given),
        tw.jit(defaulted)(x),
        tw.jit(named)(x),
        tw.jit(named)(x, given=given),
        tw.jit(gathered)(x, given),
        tw.jit(gathered)(x, given=given),
        tw.jit(lambda x: jitted(x, given))(x),
    ):
        assert isinstance(made, np.ndarray)
        assert made.dtype == expected.dtype
        np.testing.assert_allclose(made, expected, rtol=1e-15)
    lazy = jitted(tw.var("x", shape=x.shape), given)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)


def test_values_that_compare_equal_are_told_apart() -> None:
    seen = []

    @tw.jit
    def f(x, value):
        seen.append(value)
        return x

    @tw.jit(static=["value"])
    def g(x, value):
        seen.append(value)
        return x

    values = [0, False, 1, True, "1", b"1", (1,), (True,), None, "None"]
    for _ in range(2):
        for value in values:
            f(A, value)
    assert [(type(v), v) for v in seen] == [(type(v), v) for v in values]
    seen.clear()
    values = [0, 0.0, -0.0, False, float("nan"), 0j, (0,), (0.0,), (-0.0,)]
    for _ in range(2):
        for value in values:
            g(A, value)
    assert [repr(v) for v in seen] == [repr(v) for v in values]


def test_another_float_runs_the_same_program_and_another_int_does_not() -> None:
    traces = []

    @tw.jit
    def f(x, k):
        traces.append(k)
        return x * k

    for k in (0.5, 2.0, float("nan"), -0.0):
        np.testing.assert_array_equal(f(A, k), A * k)
    assert len(traces) == 1
    for k in (1, 2, 1, 2):
        np.testing.assert_array_equal(f(A, k), A * k)
    assert traces[1:] == [1, 2]


def test_many_values_of_one_argument_are_said_once_and_forgotten() -> None:
    traces = []

    @tw.jit(engine="reference", optimise=False)
    def f(x, step, other=0):
        traces.append(step)
        return x * step

    def call_often():
        for step in range(200):
            np.testing.assert_array_equal(f(A, step), A * step)
            f(A, 0)

    with pytest.warns(
        PerformanceWarning, match=r"16 programs .* value of 'step' alone.*test_jit.py"
    ):
        call_often()
    assert traces == list(range(200)), "what is used all the time stays"
    assert "128 programs" in repr(f)
    f.clear_cache()
    assert "0 programs" in repr(f)
    np.testing.assert_array_equal(f(A, 3), A * 3)


# ------------------------------------------------------------------- functions


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @tw.jit
    def scaled(self, x, n=1):
        """Scale."""
        return x[n] * self.factor

    @tw.jit(static=["flag"])
    def chosen(self, x, flag):
        return x if flag else -x

    @classmethod
    @tw.jit
    def of_class(cls, x):
        return x * len(cls.__name__)

    @staticmethod
    @tw.jit
    def of_none(x):
        return x + 1


@dataclass
class Line:
    slope: object
    name: str = "line"

    @tw.jit
    def at(self, x):
        return x * self.slope if self.name == "line" else x


def test_methods() -> None:
    two, three = Scaler(2.0), Scaler(3.0)
    for _ in range(2):
        np.testing.assert_array_equal(two.scaled(A), A[1] * 2)
        np.testing.assert_array_equal(three.scaled(A, n=0), A[0] * 3)
        np.testing.assert_array_equal(Scaler.scaled(two, A, 0), A[0] * 2)
        np.testing.assert_array_equal(two.chosen(A, np.bool_(False)), -A)
        np.testing.assert_array_equal(two.of_class(A), A * 6)
        np.testing.assert_array_equal(Scaler.of_none(A), A + 1)
    assert str(inspect.signature(two.scaled)) == "(x, n=1)"
    assert two.scaled.__doc__ == "Scale."
    gone = weakref.ref(two)
    del two
    gc.collect()
    assert gone() is None
    assert "1 programs" in repr(Scaler.scaled)


def test_methods_have_all_that_jitted_functions_have() -> None:
    two = Scaler(2.0)
    method = two.scaled
    plan = method.lower(A, n=0).plan
    assert plan.peak_bytes == Scaler.scaled.lower(two, A, n=0).plan.peak_bytes > 0
    assert len(method.lower(A).graph.inputs) == 1
    assert two.chosen.lower(A, flag=True).graph is not None
    assert (method.__self__, method.__func__, method.__name__) == (two, Scaler.scaled, "scaled")
    assert method == two.scaled != Scaler(2.0).scaled
    assert hash(method) == hash(two.scaled)
    assert method != two.chosen
    assert "Scaler.scaled of" in repr(method)
    assert copy.copy(method)(A, 0).tolist() == (A[0] * 2).tolist()
    method.clear_cache()
    assert "0 programs" in repr(Scaler.scaled)
    with pytest.raises(AttributeError, match="nothing"):
        _ = method.nothing


def test_arrays_of_a_dataclass_are_data_in_its_methods() -> None:
    line = Line(2.0)
    np.testing.assert_array_equal(line.at(A), A * 2)
    line.slope = 3.0
    np.testing.assert_array_equal(line.at(A), A * 3)
    np.testing.assert_array_equal(Line(3.0, "none").at(A), A)


def test_objects_are_told_apart_and_not_kept() -> None:
    class Plain:
        def __init__(self, k):
            self.k = k

    class Slotted:
        __slots__ = ("k",)

        def __init__(self, k):
            self.k = k

    class Equal(Slotted):
        def __eq__(self, other):
            return isinstance(other, Equal) and self.k == other.k

        def __hash__(self):
            return hash(self.k)

    class Unhashable(Plain):
        def __eq__(self, other):
            return True

    traces = []

    @tw.jit
    def f(x, o):
        traces.append(1)
        return x * o.k

    one, two = Plain(1.0), Plain(2.0)
    for o in (one, two, one, two, Slotted(3.0), Equal(4.0), Equal(4.0)):
        np.testing.assert_array_equal(f(A, o), A * o.k)
    assert len(traces) == 4
    gone = weakref.ref(one)
    del one, o
    gc.collect()
    assert gone() is None
    with pytest.raises(TypeError, match=r"^f: Unhashable .* must be hashable.*test_jit.py"):
        f(A, Unhashable(1.0))
    with pytest.raises(TypeError, match=r"^f: set .* must be hashable"):
        f(A, {1, 2})


def test_signature_documentation_copies_and_pickles() -> None:
    assert str(inspect.signature(Scaler.scaled)) == "(self, x, n=1)"
    assert "scaled(self, x, n=1)" in pydoc.render_doc(Scaler, renderer=pydoc.plaintext)
    text = pydoc.render_doc(module_level, renderer=pydoc.plaintext)
    assert "module_level(x, *, power=2)" in text
    assert "A power." in text
    assert copy.copy(module_level) is copy.deepcopy([module_level])[0] is module_level
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert module_level.__wrapped__(3.0) == 9.0


@tw.jit
def module_level(x, *, power=2):
    """A power."""
    return x**power


def test_static_arguments_by_name_and_position() -> None:
    def f(x, n, *, k=1):
        return x[:n] * k

    n = np.int64(1)
    for options in (
        {"static": "n"},
        {"static": ["n"]},
        {"static": 1},
        {"static": -1},
        {"static_argnums": 1},
        {"static_argnums": (1,)},
        {"static_argnames": "n"},
        {"static_argnames": ("n", "k")},
        {"static_argnums": (1,), "static_argnames": ("k",), "donate_argnums": 0},
        {"static": "n", "inline": True, "keep_unused": False, "donate_argnames": "x"},
    ):
        for jitted in (tw.jit(f, **options), tw.jit(**options)(f)):
            if options == {"static": -1}:
                jitted = tw.jit(lambda x, n: f(x, n), **options)
            np.testing.assert_array_equal(jitted(A, n), A[:1])
            np.testing.assert_array_equal(jitted(A, n=n), A[:1])
            np.testing.assert_array_equal(jitted(n=n, x=A), A[:1])


WRONG_OPTIONS = {
    r"static argument 'm' is not among: x, n": {"static": "m"},
    r"static argument 2 is not among 2 arguments": {"static_argnums": 2},
    r"static argument -3 is not among 2 arguments": {"static": [-3]},
    r"static names arguments, or gives positions; 1.5 is neither": {"static": [1.5]},
    r"static names arguments, or gives positions; True is neither": {"static": True},
    r"device is no option here: engine= says": {"device": "cpu"},
    r"in_shardings is no option here": {"in_shardings": None},
    r"unknown option 'statics'; accepted: static, engine, memory, often": {"statics": "n"},
}


@pytest.mark.parametrize("message", WRONG_OPTIONS)
def test_wrong_options(message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^jit: {message}.*\[test_jit.py:\d+\]"):
        tw.jit(lambda x, n: x, **WRONG_OPTIONS[message])
    with pytest.raises(TypeError, match=r"^jit: int 3 is no function"):
        tw.jit(3)


USED_AS_PYTHON_VALUES = {
    "bool": lambda x, n: x if n > 0 else -x,
    "size": lambda x, n: tnp.zeros(n),
    "sizes": lambda x, n: tnp.zeros((2, n)),
    "axis": lambda x, n: tnp.sum(x, axis=n),
    "range": lambda x, n: [x * k for k in range(n)],
    "float": lambda x, n: x * float(n),
    "list": lambda x, n: [1, 2, 3][n],
    "numpy": lambda x, n: np.asarray(x),
}


@pytest.mark.parametrize("name", USED_AS_PYTHON_VALUES)
def test_a_traced_value_used_as_a_python_value_says_how_to_keep_it_one(name: str) -> None:
    f = tw.jit(USED_AS_PYTHON_VALUES[name])
    argument = "x" if name == "numpy" else "n"
    with pytest.raises(
        TypeError, match=rf"variable '{argument}', not known.*static=\['{argument}'\].*test_jit.py"
    ):
        f(A, np.asarray(1))
    if name != "numpy":
        f(A, 1)
        tw.jit(USED_AS_PYTHON_VALUES[name], static=["n"])(A, np.int64(1))


def test_results_keep_their_structure() -> None:
    def f(x):
        return [x, None, {"b": (x + 1, 3), "a": Pair(x, None)}, Layer(x, [x])]

    made = tw.jit(f)(A)
    assert isinstance(made, list)
    assert made[1] is None
    assert list(made[2]) == ["b", "a"]
    assert isinstance(made[2]["a"], Pair)
    assert made[2]["a"].right is None
    np.testing.assert_array_equal(made[2]["b"][0], A + 1)
    assert made[2]["b"][1] == 3
    np.testing.assert_array_equal(made[3].bias[0], A)
    assert isinstance(tw.jit(lambda x: [x])(A), list)
    assert isinstance(tw.jit(lambda x: (x,))(A), tuple)
    with pytest.raises(TypeError, match="gives arrays; this one gives none"):
        tw.jit(lambda x: None)(A)


def test_known_arrays_are_data_and_random_ones_are_not() -> None:
    traces = []

    @tw.jit
    def f(x):
        traces.append(1)
        return x * 2

    np.testing.assert_array_equal(f(tnp.ones(3)), np.full(3, 2.0))
    np.testing.assert_array_equal(f(np.ones(3)), np.full(3, 2.0))
    np.testing.assert_array_equal(f(tnp.zeros(3) + 1), np.full(3, 2.0))
    assert len(traces) == 1
    drawn = tw.jit(lambda: f(tw.random.normal((3,))))
    assert np.any(drawn() != drawn()), "numbers are drawn anew in each call"


def test_arrays_of_other_libraries_are_data() -> None:
    class Tensor:
        def __init__(self, value):
            self.value = np.asarray(value)

        def __array__(self, dtype=None, copy=None):
            return self.value

    traces = []

    @tw.jit
    def f(x):
        traces.append(x.shape)
        return x + 1

    for k in range(3):
        np.testing.assert_array_equal(f(Tensor([1.0, k])), [2.0, k + 1])
    assert traces == [(2,)]


def test_a_function_may_call_itself() -> None:
    @tw.jit
    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    @tw.jit
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert factorial(5) == 120
    np.testing.assert_array_equal(power(A, 3), A**3)


def test_names_in_structures_may_coincide() -> None:
    f = tw.jit(lambda x: x["a.b"] + x["a"]["b"] * 10 + x[1] * 100 + x["1"] * 1000)
    assert f({"a.b": 1.0, "a": {"b": 2.0}, 1: 3.0, "1": 4.0}) == 4321.0
    g = tw.jit(lambda **given: given["self"] + given["function"])
    assert g(self=1.0, function=2.0) == 3.0


def test_threads_trace_once() -> None:
    traces = []

    @tw.jit
    def f(x, n):
        traces.append(n)
        return x * n

    def work():
        for n in range(4):
            np.testing.assert_array_equal(f(A, n), A * n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(traces) == [0, 1, 2, 3]


def test_nothing_is_kept_from_call_to_call() -> None:
    """Every argument is given in each call, so nothing is worth keeping for the next."""

    def loss(weights, x):
        for w in weights:
            x = tnp.tanh(x @ w)
        return tnp.sum(x)

    weights = [np.full((20, 20), 0.1 + k / 100) for k in range(8)]
    step = tw.jit(tw.value_and_grad(loss))
    lean = tw.jit(tw.value_and_grad(loss), incremental=True)
    x = np.ones((30, 20))
    peak = step.lower(weights, x).plan.peak_bytes
    assert peak < 0.6 * lean.lower(weights, x).plan.peak_bytes
    value, slopes = step(weights, x)
    again, others = lean(weights, x)
    np.testing.assert_allclose(value, again, rtol=1e-14)
    for one, other in zip(slopes, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    graph = step.lower(weights, x).graph
    assert peak == graph.plan(incremental=False).peak_bytes
