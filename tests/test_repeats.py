"""Pairs that are computed again for each of several sums over them: same numbers, none stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from fusion_checks import apply
from tawny.node import Node, toposort
from tawny.ops.fusion import Group
from tawny.rewrite.groups.elementwise import group_elementwise
from tawny.rewrite.groups.repeats import LEAST, REPEATS, repeats_pass

ROWS, COLUMNS = 70, 90  # pairs of which are more than LEAST
Arrays = dict[str, np.ndarray]


def both_axes(np: Any, x: Any, y: Any, w: Any) -> Any:
    near = 1 / (1 + (x[:, None] - y[None, :]) ** 2)
    return np.sum(near, axis=0), np.sum(near * w, axis=1)


def all_and_rows(np: Any, x: Any, y: Any, w: Any) -> Any:
    """What folds all is one more result of the group of rows."""
    near = (x[:, None] * y) ** 2 + 1
    return np.sum(near * near), np.max(near, axis=1), np.sum(near - w, axis=1), np.min(near)


def one_after_another(np: Any, x: Any, y: Any, w: Any) -> Any:
    """A share of the sum over all, which must be there before."""
    near = 1 / (1 + (x[:, None] - y[None, :]) ** 2)
    share = near / np.sum(near)
    return np.sum(share * w, axis=1), np.sum(share * x[:, None], axis=0)


def kept_axes(np: Any, x: Any, y: Any, w: Any) -> Any:
    near = (x[:, None] - y[None, :] + w) ** 2
    return np.mean(near, axis=0, keepdims=True), np.var(near, axis=1, keepdims=True)


def three_axes(np: Any, x: Any, y: Any, w: Any) -> Any:
    cube = (x[:, None, None] + y[None, :, None]) * w[None, None, :]
    return np.sum(cube, axis=(0, 2)), np.sum(cube * cube, axis=1), np.sum(cube, axis=2)


CASES = (both_axes, all_and_rows, one_after_another, kept_axes, three_axes)


def data() -> Arrays:
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=ROWS),
        "y": rng.normal(size=COLUMNS),
        "w": rng.normal(size=COLUMNS),
    }


def compiled(function: Callable[..., Any], given: Arrays, **options: Any) -> tw.Program:
    inputs = {n: tw.var(n, v.shape, v.dtype) for n, v in given.items()}
    result = function(tnp, **inputs)
    program = tw.Graph([*inputs.values()], result).compile(incremental=False, **options)
    program.set(given)
    return program


@pytest.mark.parametrize("function", CASES)
def test_sums_of_repeated_pairs_are_the_same(function: Any, engine: str) -> None:
    given = data()
    program = compiled(function, given, engine=engine)
    for one, other in zip(program.run(), function(np, **given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * np.abs(other).max())
    if engine == "cpu":
        assert program.rewrites.counts()["repeats"] >= 1
        assert program.plan.peak_bytes < ROWS * COLUMNS * (1 if function is not three_axes else 90)


@pytest.mark.parametrize("function", CASES)
def test_bits_do_not_depend_on_threads(function: Any) -> None:
    runs = [compiled(function, data(), threads=n).run() for n in (1, 2, 3)]
    assert len({b"".join(x.tobytes() for x in run) for run in runs}) == 1


def test_gradients_of_pairs_are_never_stored() -> None:
    n = 3000
    v = tw.var("x", (n, 2), "float32")
    apart = v[:, None, :] - v[None, :, :]
    energy = tnp.sum(1 / (1 + tnp.sum(apart * apart, axis=-1)))
    graph = tw.Graph([v], [energy, *tw.gradients(energy, [v])])
    assert graph.plan(incremental=False).peak_bytes < 100 * n


def groups(outputs: list[Any], should_group: Callable[..., bool] = lambda _: True) -> list[Node]:
    flow, _ = apply(repeats_pass(should_group), group_elementwise, outputs=outputs)
    return [n for n in toposort(flow.outputs) if isinstance(n.op, Group) and n.op.repeats]


def pairs(n: int = ROWS, m: int = COLUMNS) -> Any:
    x, y = tw.var("x", (n, 1)), tw.var("y", (m,))
    return (x - y) ** 2


def costly(near: Any) -> Any:
    for _ in range(20):
        near = tnp.tanh(near)
    return near


def sums(near: Any) -> list[Any]:
    return [tnp.sum(near, axis=0), tnp.sum(near, axis=1)]


PLACES: dict[str, tuple[Callable[[Any], list[Any]], int]] = {
    "two axes": (sums, 2),
    "one sum": (lambda near: [tnp.sum(near, axis=0)], 0),
    "one axis": (lambda near: [tnp.sum(near, axis=0), tnp.max(near * near, axis=0)], 1),
    "costly": (lambda near: sums(costly(near)), 0),
    "asked for": (lambda near: [near, *sums(near)], 0),
    "read by what runs alone": (lambda near: [tnp.sort(near), *sums(near)], 0),
    "a row after a row": (
        lambda near: [tnp.sum((near - tnp.max(near, 1)[:, None]) ** 2, axis=1)],
        0,
    ),
    "a place": (lambda near: [tnp.argmax(near, 1), *sums(near)], 0),
    "several arrays that are computed": (
        lambda near: sums(
            near * tnp.sort(tw.var("v", near.shape)) * (near @ tw.var("m", (COLUMNS, COLUMNS)))
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_pairs_are_repeated_where_that_is_less(name: str) -> None:
    outputs, count = PLACES[name]
    assert len(groups(outputs(pairs()))) == count


def test_small_pairs_are_not_repeated() -> None:
    assert ROWS * COLUMNS > LEAST > 40 * 50
    assert not groups(sums(pairs(40, 50)))


def test_an_engine_may_refuse() -> None:
    assert not groups(sums(pairs()), lambda _: False)


def test_it_can_be_switched_off_and_is_told() -> None:
    given = data()
    program = compiled(both_axes, given, disable=["repeats"])
    assert "repeats" not in program.rewrites.counts()
    assert [r.rule for r in compiled(both_axes, given).rewrites].count(REPEATS) == 2


def test_what_runs_at_different_times_is_not_repeated() -> None:
    x, y = tw.var("x", (ROWS, 1)), tw.var("y", (COLUMNS,))
    near = tnp.exp(x - tnp.zeros(COLUMNS))
    program = tw.Graph([x, y], [tnp.sum(near, axis=0), tnp.sum(near * y, axis=1)]).compile()
    given = data()
    program(given["x"][:, None], given["y"])
    program(y=given["w"])
    expected = (np.exp(given["x"][:, None]) * given["w"]).sum(1)
    np.testing.assert_allclose(program.run()[1], expected)
