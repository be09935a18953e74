"""Random graphs over all ops: both modes are one linear map, optimised or not, and equal differences."""

from __future__ import annotations

import numpy as np
import pytest

from random_graphs import RandomGraph, evaluated, graph_of
from tawny.autodiff.forward import push_forward
from tawny.autodiff.reverse import active_nodes, pull_back, sum_seeds
from tawny.node import Node, Value, constant, toposort
from tawny.op import Gradient
from tawny.rewrite.pipeline import optimise

BATCHES = 20
EACH = 40


def smooth_ends(graph: RandomGraph) -> tuple[list[Node], list[Node]]:
    """The variables and outputs between which the graph can be differentiated."""
    variables = [v for v in graph.feeds if v.dtype.kind in "fc"]
    outputs = [n for n in dict.fromkeys(graph.outputs) if n.dtype.kind in "fc" and not n.parts]
    order = toposort(outputs)
    active = active_nodes(order, frozenset(variables))
    if any(n in active and n.op.facts().gradient is Gradient.NONE for n in order):
        return [], []
    return variables, outputs


def direction(node: Node, rng: np.random.Generator) -> Value:
    drawn = rng.uniform(-1, 1, node.shape)
    if node.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(-1, 1, node.shape)
    return np.asarray(drawn, node.dtype)


def paired(first: list[Value], second: list[Value]) -> tuple[float, float]:
    """The pairing, and the size of its largest term, which says how well it can be known."""
    products = [
        np.real(np.asarray(a, "c16") * np.asarray(b, "c16")).ravel()
        for a, b in zip(first, second, strict=True)
    ]
    terms = np.concatenate(products) if products else np.zeros(1)
    return float(terms.sum()), float(np.abs(terms).max(initial=0.0))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_modes_are_adjoint_on_random_graphs(batch: int) -> None:
    checked = 0
    for seed in range(batch * EACH, (batch + 1) * EACH):
        graph = graph_of(seed, 12, smooth=seed % 2 == 0, special=False, impure=False)
        variables, outputs = smooth_ends(graph)
        if not variables or not outputs:
            continue
        rng = np.random.default_rng(seed)
        tangents = {v: direction(v, rng) for v in variables}
        slopes = {n: direction(n, rng) for n in outputs}
        pushed = push_forward({v: constant(t) for v, t in tangents.items()}, outputs)
        pulled = pull_back(sum_seeds([(n, constant(s)) for n, s in slopes.items()]), variables)
        made = [n for n in pushed if n is not None]
        values = evaluated([*made, *pulled.values()], graph.feeds)
        if not all(np.isfinite(v).all() for v in values):
            continue
        moved = dict(zip(made, values, strict=False))
        there = [
            (slopes[n], moved[t]) for n, t in zip(outputs, pushed, strict=True) if t is not None
        ]
        back = [(tangents[v], s) for v, s in zip(pulled, values[len(made) :], strict=True)]
        forward, scale = paired([a for a, _ in there], [b for _, b in there])
        reverse, other = paired([a for a, _ in back], [b for _, b in back])
        narrow = any(
            n.dtype.itemsize <= 4
            for n in toposort([*made, *pulled.values()])
            if n.dtype.kind == "f"
        )
        tolerance = (1e-3 if narrow else 1e-9) * max(1.0, scale, other)
        assert abs(forward - reverse) <= tolerance, f"seed {seed}: {forward} {reverse}\n{graph!r}"
        checked += 1
    assert checked > EACH // 4


@pytest.mark.parametrize("batch", range(6))
def test_derivatives_of_smooth_graphs_are_differences_and_survive_the_optimiser(batch: int) -> None:
    checked = 0
    for seed in range(batch * 25, (batch + 1) * 25):
        graph = graph_of(seed + 9000, 10, smooth=True, impure=False)
        variables, outputs = smooth_ends(graph)
        variables = [v for v in variables if v.dtype == np.float64]
        outputs = [n for n in outputs if n.dtype == np.float64]
        if not variables or not outputs or any(n.dtype == np.float32 for n in toposort(outputs)):
            continue
        rng = np.random.default_rng(seed)
        tangents = {v: direction(v, rng) for v in variables}
        pushed = push_forward({v: constant(t) for v, t in tangents.items()}, outputs)
        made = [n for n in pushed if n is not None]
        values = evaluated(made, graph.feeds)
        if not all(np.isfinite(v).all() for v in values):
            continue
        step = 1e-6
        ahead, behind = (
            evaluated(
                outputs,
                graph.feeds | {v: graph.feeds[v] + sign * step * t for v, t in tangents.items()},
            )
            for sign in (1, -1)
        )
        found = iter(values)
        for tangent, one, two in zip(pushed, ahead, behind, strict=True):
            difference = (one - two) / (2 * step)
            exact = np.zeros_like(difference) if tangent is None else next(found)
            scale = max(
                1.0, float(np.abs(one).max(initial=0.0)), float(np.abs(exact).max(initial=0.0))
            )
            smooth = np.abs(difference - exact) <= 1e-4 * scale
            assert smooth.mean() > 0.9 if smooth.size else True, f"seed {seed}\n{graph!r}"
        again = (
            evaluated(
                optimise(made, evaluate=lambda nodes: evaluated(nodes, {})).outputs, graph.feeds
            )
            if made
            else []
        )
        for a, b in zip(values, again, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        checked += 1
    assert checked > 8
