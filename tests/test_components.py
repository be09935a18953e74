"""Arrays with a short axis that run component by component: same numbers, less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from fusion_checks import again, apply
from tawny.rewrite.components import COMPONENTS, LEAST, LONGEST, separate_components

POINTS = 70  # pairs of which are more than LEAST
Arrays = dict[str, np.ndarray]


def points(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def forces(np: Any, x: Any, m: Any) -> Any:
    apart = x[None, :, :] - x[:, None, :]
    squares = np.sum(apart * apart, axis=2) + 0.1
    return np.sum(apart * (m[None, :] / (squares * np.sqrt(squares)))[:, :, None], axis=1)


def forces_first(np: Any, x: Any, m: Any) -> Any:
    """The coordinates along the first axis."""
    apart = x.T[:, None, :] - x.T[:, :, None]
    squares = np.sum(apart * apart, axis=0) + 0.1
    return np.sum(apart * (m[None, :] / squares), axis=2)


def middle(np: Any, x: Any, m: Any) -> Any:
    """The coordinates along the axis between; sums with axes kept."""
    apart = x[:, :, None] - (x * m[:, None]).T[None]
    near = np.sum(np.abs(apart), axis=1, keepdims=True)
    return np.sum(apart / (1 + near), axis=0, keepdims=True), np.sum(apart, axis=(0, 1))


def extremes(np: Any, x: Any, m: Any) -> Any:
    """The largest and smallest coordinate, and the distances' sum over all."""
    apart = np.abs(x[:, None, :] - x[None, :, :] * m[:, None])
    largest, least = np.max(apart, axis=-1), np.min(apart, axis=-1)
    return np.sum(largest * least, axis=1), np.sum(apart, axis=(0, 2)), np.max(apart, axis=(1, 2))


def converted(np: Any, x: Any, m: Any) -> Any:
    apart = (x[:, None, :] - x[None, :, :]).astype("float32")
    return np.sum(np.exp(-np.sum(apart * apart, axis=-1)), axis=1), m


CASES = (forces, forces_first, middle, extremes, converted)


def compiled(function: Callable[..., Any], data: Arrays, **options: Any) -> tw.Program:
    inputs = {n: tw.var(n, v.shape, v.dtype) for n, v in data.items()}
    result = function(tnp, **inputs)
    program = tw.Graph([*inputs.values()], result).compile(incremental=False, **options)
    program.set(data)
    return program


def results(program: tw.Program) -> list[np.ndarray]:
    found = program.run()
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("function", CASES)
@pytest.mark.parametrize("count", [3, LONGEST])
def test_components_compute_the_same(function: Any, count: int, engine: str) -> None:
    data = {"x": points(POINTS, count), "m": np.abs(points(POINTS, seed=1))}
    program = compiled(function, data, engine=engine)
    expected = function(np, **data)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    for one, other in zip(results(program), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9 * np.abs(other).max())
    if engine == "cpu":
        assert "components" in program.rewrites.counts()
        plain = compiled(function, data, disable=["components"])
        assert program.plan.peak_bytes <= plain.plan.peak_bytes


def test_pairs_are_never_stored() -> None:
    """One kernel: differences, distances, weights and the sum over points."""
    data = {"x": points(2048, 3), "m": points(2048, seed=1)}
    program = compiled(forces, data)
    assert program.plan.peak_bytes < 300 * 2048
    assert [step.array.node.name for step in program.plan.steps].count("group") == 1


def test_derivatives_too() -> None:
    def energy(x: Any) -> Any:
        apart = x[:, None, :] - x[None, :, :]
        return tnp.sum(1 / (1 + tnp.sum(apart * apart, axis=-1)))

    x = points(POINTS, 3)
    v = tw.var("x", x.shape)
    value = energy(v)
    plain = tw.Graph([v], [value, *tw.gradients(value, [v])])
    one = plain.compile()
    other = plain.compile(disable=["components"])
    assert "components" in one.rewrites.counts()
    assert "components" not in other.rewrites.counts()
    for found, expected in zip(one(x), other(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_bits_do_not_depend_on_threads() -> None:
    data = {"x": points(300, 3), "m": points(300, seed=1)}
    runs = [compiled(forces, data, threads=n).run().tobytes() for n in (1, 2, 3)]
    assert len(set(runs)) == 1


def test_zeros_keep_the_sign_that_sums_give_them() -> None:
    def total(np: Any, x: Any) -> Any:
        return np.sum(-np.abs(x[:, None, :] * x[None, :, :]), axis=-1) * 1.0

    x = np.zeros((POINTS, 2))
    program = compiled(total, {"x": x})
    assert "components" in program.rewrites.counts()
    plain = compiled(total, {"x": x}, disable=["components"])
    assert np.array_equal(np.signbit(program.run()), np.signbit(plain.run()))


def test_what_is_not_a_number_stays_so() -> None:
    x = points(POINTS, 3)
    x[3, 1], x[5, 0], x[7, 2] = np.nan, np.inf, -np.inf
    data = {"x": x, "m": points(POINTS, seed=1)}
    for function in CASES[:4]:
        with np.errstate(all="ignore"):
            expected = function(np, **data)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for one, other in zip(results(compiled(function, data)), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------- where it is not done


def is_separated(outputs: list[Any]) -> bool:
    new, _ = apply(separate_components, outputs=outputs)
    return list(new.outputs) != [x.node for x in outputs]


def pairs(n: int, m: int, dtype: str = "float64") -> Any:
    x, y = tw.var("x", (n, m), dtype), tw.var("y", (n, m), dtype)
    return x[:, None, :] - y[None, :, :]


def beside(other: Callable[[Any], Any]) -> Callable[[], list[Any]]:
    """A sum of coordinates, and what else reads the pairs."""

    def outputs() -> list[Any]:
        apart = pairs(70, 3)
        return [other(apart), tnp.sum(apart, axis=2)]

    return outputs


@pytest.mark.parametrize(
    ("outputs", "done"),
    [
        (lambda: [tnp.sum(pairs(70, 3) ** 2, axis=2)], True),
        (lambda: [tnp.sum(pairs(20, 3) ** 2, axis=2)], False),  # small
        (lambda: [tnp.sum(pairs(70, LONGEST + 1) ** 2, axis=2)], False),  # long
        (lambda: [tnp.prod(pairs(70, 3), axis=2)], False),  # no op for two components
        (beside(lambda apart: apart), False),  # asked for
        (beside(lambda apart: tnp.sort(apart, axis=0)), False),
        (lambda: [tnp.sum(pairs(70, 3, "int32"), axis=2)], False),  # added in another dtype
        (lambda: [tnp.sum(tw.var("v", (70, 70, 3)) ** 2, axis=2)], False),  # large from the start
        (lambda: [tnp.sum(pairs(70, 3) * tw.var("v", (70, 70, 3)), axis=2)], False),
        (lambda: [tnp.sum(pairs(70, 3) * tw.var("v", (70, 70, 1)), axis=2)], True),
        (lambda: [tnp.sum(tw.var("v", (3000, 3)) * tw.var("w", (3,)), axis=1)], False),
    ],
)
def test_only_what_is_made_from_less(outputs: Callable[[], list[Any]], done: bool) -> None:
    assert LEAST < 70 * 70 * 2
    assert is_separated(outputs()) == done


def test_it_is_told_and_done_once() -> None:
    total = tnp.sum(pairs(70, 3) ** 2, axis=2)
    new, recorded = apply(separate_components, outputs=[total])
    assert set(recorded.names) == {COMPONENTS.name}
    same, _ = again(new, separate_components)
    assert same is new
    off, recorded = apply(separate_components, outputs=[total], off=["components"])
    assert list(off.outputs) == [total.node]
    assert not recorded.names
