"""Plans speak of arrays as the user wrote them, whatever became of their operands."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.array import array_for


def rewritten():
    """A graph in which most operands are simplified, folded or fused."""
    x, w, b = tw.var("x", (64, 32)), tw.var("w", (32, 32)), tw.var("b", (32,))
    hidden = tnp.exp((x * 1) @ w + b) * 1
    same = hidden + 0
    mixed = tnp.sin(same) @ tnp.transpose(tnp.transpose(w))
    mean = tnp.mean(mixed * mixed, axis=0)
    known = tnp.sum(tnp.ones(3) * 2)
    chosen = same * 3 + hidden
    out = tnp.sqrt(mean) @ mixed.T + known
    arrays = {
        "hidden": hidden,
        "same": same,
        "mixed": mixed,
        "mean": mean,
        "known": known,
        "chosen": chosen,
        "out": out,
        "scaled": x * 1,
    }
    return tw.Graph([x, w, b], [out, tnp.sum(chosen)]), arrays


@pytest.mark.parametrize("options", [{}, {"incremental": False}, {"optimise": False}])
def test_why_answers_for_every_array_of_the_graph(engine: str, options: dict) -> None:
    graph, arrays = rewritten()
    plan = graph.compile(engine=engine, **options).plan
    for node in graph.order:
        assert re.match(
            rf"{re.escape(node.name)}( is computed as \w+)?: ", plan.why(array_for(node))
        )
    said = {name: plan.why(array) for name, array in arrays.items()}
    assert "bytes at" in said["mixed"]
    assert "bytes at" in said["mean"]
    assert "bytes at" in said["out"]
    if options != {"optimise": False}:
        assert said["scaled"] == "multiply is computed as x: an input or constant, outside the plan"
        assert said["same"].partition(": ")[2] == said["hidden"].partition(": ")[2]
        assert re.match(r"sum is computed as constant: |sum: known when", said["known"])
        assert re.match("add: computed inside|add is computed as fma: ", said["chosen"])
    other = tnp.cos(arrays["hidden"])
    with pytest.raises(ValueError, match=r"^why: <cos .*> is of another graph"):
        plan.why(other)


def test_a_picture_colours_what_has_memory(engine: str) -> None:
    """Of a program compiled by default: every block of memory that results of the user's lie in."""
    graph, arrays = rewritten()
    plan = graph.compile(engine=engine).plan
    blocks = {node: plan.block_of(node) for node in graph.order}
    for node in graph.order:
        there = "bytes at" in plan.why(array_for(node))
        assert (blocks[node] is not None) == there
    assert {b for b in blocks.values() if b is not None} == set(range(len(plan.blocks)))
    text = graph.to_dot(plan)
    assert len(set(re.findall(r"b:(\d+)", text))) == len(plan.blocks)
    fills = dict(re.findall(r"b:(\d+).*?fillcolor=\"(#\w+)\"", text))
    assert len(set(fills.values())) == len(plan.blocks)
    assert blocks[arrays["out"].node] is not None


@pytest.mark.parametrize("incremental", [True, False])
def test_plans_of_networks_answer_for_their_layers(engine: str, incremental: bool) -> None:
    """Products with bias, residual and activation are one step each, and lie where that does."""
    rng = np.random.default_rng(0)
    x = tw.var("x", (8, 16))
    layers = [x]
    for k in range(5):
        weight, bias = rng.normal(size=(16, 16)), rng.normal(size=16)
        product = layers[-1] @ (weight.T if k % 2 else weight)
        summed = (bias + product) if k % 2 else (product + bias) * 1
        layers.append(tnp.tanh(summed) if k < 3 else summed + layers[-1])
    graph = tw.Graph([x], [tnp.mean(layers[-1] * 1, axis=1)])
    plan = graph.compile(engine=engine, incremental=incremental).plan
    for layer in layers[1:-1]:
        assert "bytes at" in plan.why(layer)
        assert plan.block_of(layer.node) is not None
    seen = {plan.block_of(n) for n in graph.order} - {None}
    assert seen == set(range(len(plan.blocks)))
