"""Functions traced once per shapes and dtypes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp


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
    assert f(x) is tnp.sin(x)


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
    assert len(traces) == 4, "b by its name, a number, and another scale are no other programs"
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
