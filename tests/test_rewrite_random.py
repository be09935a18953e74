"""Random graphs: the optimised one computes the same, is legal, and is not changed again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from random_graphs import (
    RandomGraph,
    assert_close,
    assert_same_bits,
    decides_signs,
    evaluated,
    graph_of,
    graphs,
)
from tawny.engine.reference import run
from tawny.node import Node, toposort
from tawny.op import FACTS
from tawny.rewrite.flow import is_impure
from tawny.rewrite.pipeline import OptimisedGraph, optimise

EXACT_ONLY = ("contracting", "finite")
THOROUGH = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def optimised(graph: RandomGraph, **options: Any) -> OptimisedGraph:
    """The graph through the whole pipeline, checked after each pass, and found idempotent."""
    before = _snapshot(graph.outputs)
    first = optimise(graph.outputs, evaluate=run, check=True, **options)
    assert _snapshot(graph.outputs) == before, "the original is never changed"
    again = optimise(first.outputs, evaluate=run, check=True, **options)
    assert again.outputs == first.outputs, again.rewrites.details()
    assert len(again.rewrites) == 0
    return first


def _snapshot(outputs: tuple[Node, ...]) -> list[tuple[object, ...]]:
    return [
        (id(n), n.op, n.inputs, n.shape, n.dtype, n.sources, id(n.value)) for n in toposort(outputs)
    ]


@THOROUGH
@given(graphs())
def test_exact_rules_keep_every_bit(graph: RandomGraph) -> None:
    result = optimised(graph, disable=EXACT_ONLY)
    got, expected = (evaluated(o, graph.feeds) for o in (result.outputs, graph.outputs))
    assert_same_bits(got, expected, decides_signs(graph.outputs))


@THOROUGH
@given(graphs(smooth=True))
def test_contracting_rules_keep_values_up_to_rounding(graph: RandomGraph) -> None:
    result = optimised(graph)
    assert_close(evaluated(result.outputs, graph.feeds), evaluated(graph.outputs, graph.feeds))


@THOROUGH
@given(graphs(smooth=True))
def test_finite_rules_keep_finite_values(graph: RandomGraph) -> None:
    result = optimised(graph, assume_finite=True)
    assert_close(evaluated(result.outputs, graph.feeds), evaluated(graph.outputs, graph.feeds))


@THOROUGH
@given(graphs())
def test_every_graph_is_accepted_and_left_legal(graph: RandomGraph) -> None:
    result = optimised(graph, assume_finite=True)
    assert [(n.shape, n.dtype) for n in result.outputs] == [
        (n.shape, n.dtype) for n in graph.outputs
    ]
    result = optimised(graph)
    assert result.rewrites.operations_saved >= 0


@THOROUGH
@given(graphs())
def test_draws_and_impure_functions_are_neither_merged_nor_folded(graph: RandomGraph) -> None:
    needed = [n for n in toposort(graph.outputs) if is_impure(n)]
    left = [n for n in toposort(optimised(graph).outputs) if is_impure(n)]
    assert {n.op for n in left} <= {n.op for n in needed}
    assert len(left) <= len(needed)


@pytest.mark.parametrize("block", range(8))
def test_many_graphs(block: int) -> None:
    """More and longer graphs than hypothesis makes, from fixed seeds."""
    for seed in range(block * 250, block * 250 + 250):
        graph = graph_of(seed, 20, smooth=bool(seed % 2))
        if seed % 2:
            result = optimised(graph)
            assert_close(
                evaluated(result.outputs, graph.feeds), evaluated(graph.outputs, graph.feeds)
            )
        else:
            result = optimised(graph, disable=EXACT_ONLY)
            got, expected = (evaluated(o, graph.feeds) for o in (result.outputs, graph.outputs))
            assert_same_bits(got, expected, decides_signs(graph.outputs))


def test_random_graphs_reach_every_op() -> None:
    made_by_passes = {
        "group", "fused_product", "transposed_matmul", "gather_pieces", "bands",
        "matmul_bytes", "convolution_bytes", "eliminate", "solve_factored", "partial_sort", "partial_argsort", "matmul_halves", "convolution_halves",
    }  # fmt: skip
    while_differentiating = {"argument"}
    in_random_loops = {"loop", "switch", "while_loop"}
    in_solvers = {"implicit"}
    missing = set(FACTS) - made_by_passes - while_differentiating - in_random_loops - in_solvers
    for seed in range(3000):
        missing -= {node.op.facts().name for node in toposort(graph_of(seed, 20).outputs)}
        if not missing:
            return
    assert missing == set()
