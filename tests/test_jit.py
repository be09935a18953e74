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
