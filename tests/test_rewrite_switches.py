"""What users switch: rules and classes off and on by name, and the checks of debug mode."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from random_graphs import assert_close, assert_same_bits, evaluated, graph_of
from tawny.array import Array
from tawny.engine.reference import run
from tawny.node import Node, toposort
from tawny.op import ELEMENTWISE
from tawny.rewrite import spec
from tawny.rewrite.flow import Context, Flow, Kind, Pass
from tawny.rewrite.pipeline import SIMPLIFY, OptimisedGraph, optimise, rules

x, y = tw.var("x", shape=(4,)), tw.var("y", shape=(4,))


def optimised(*arrays: Array, **options: Any) -> OptimisedGraph:
    options.setdefault("pipeline", (SIMPLIFY,))
    return optimise([a.node for a in arrays], evaluate=run, check=True, **options)


# ------------------------------------------------------------------------ enable


def test_reassociation_is_off_until_it_is_named() -> None:
    written = (x + 0.1) + 0.2
    assert optimised(written).outputs == (written.node,)
    for name in ("reassociating", "reassociate_sums"):
        result = optimised(written, enable=[name])
        assert result.outputs == ((x + (0.1 + 0.2)).node,)
        assert result.rewrites.kinds() == {Kind.REASSOCIATING: 1, Kind.EXACT: 1}
    assert optimised(written, enable=["reassociate_products"]).outputs == (written.node,)


@pytest.mark.parametrize("off", ["reassociating", "reassociate_sums"])
def test_what_is_disabled_stays_off(off: str) -> None:
    written = (x + 0.1) + 0.2
    assert optimised(written, enable=["reassociating"], disable=[off]).outputs == (written.node,)


def test_enabling_what_is_on_changes_nothing() -> None:
    written = (x * 1 + 0.1) + 0.2
    names = [k.value for k in Kind if k is not Kind.REASSOCIATING]
    assert optimised(written, enable=names).outputs == optimised(written).outputs


@pytest.mark.parametrize("switch", ["enable", "disable"])
def test_unknown_names_are_refused_with_the_list(switch: str) -> None:
    with pytest.raises(
        ValueError, match=rf"{switch} names 'faster'.*finite, reassociating.*gather_sums"
    ):
        optimised(x, **{switch: ["faster"]})


STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, k: a + k, lambda a, k: k + a, lambda a, k: a - k, lambda a, k: k - a,
]  # fmt: skip


def chain(array: Array, steps: list[Callable[[Any, Any], Any]], seed: int) -> Array:
    chance = random.Random(seed)
    for _ in range(12):
        array = chance.choice(steps)(array, chance.randint(1, 99))
    return array


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint32"])
def test_chains_of_integers_become_one_step_with_the_same_bits(seed: int, dtype: str) -> None:
    variable = tw.var("v", shape=(5,), dtype=dtype)
    written = chain(variable, STEPS, seed)
    result = optimised(written)
    assert result.rewrites.nodes_after <= 3
    assert result.rewrites.kinds().keys() <= {Kind.EXACT}
    feeds = {variable.node: np.array([0, 1, 7, 99, 127]).astype(dtype)}
    assert_same_bits(evaluated(result.outputs, feeds), evaluated([written.node], feeds))


@pytest.mark.parametrize("seed", range(20))
def test_chains_of_floats_become_one_step_where_that_is_enabled(seed: int) -> None:
    variable = tw.var("v", shape=(5,))
    written = chain(variable, STEPS, seed)
    result = optimised(written, enable=["reassociating"])
    assert result.rewrites.nodes_after <= 3
    feeds = {variable.node: np.arange(5.0)}  # whole numbers, whose sums do not round
    np.testing.assert_array_equal(
        evaluated(result.outputs, feeds), evaluated([written.node], feeds)
    )


@pytest.mark.parametrize("seed", range(20))
def test_products_and_quotients_become_one_step_where_that_is_enabled(seed: int) -> None:
    variable = tw.var("v", shape=(5,))
    steps: list[Callable[[Any, Any], Any]] = [
        lambda a, k: a * k, lambda a, k: a / k, lambda a, k: k / a, lambda a, k: k * a,
    ]  # fmt: skip
    written = chain(variable, steps, seed)
    result = optimised(written, enable=["reassociating"])
    assert result.rewrites.nodes_after <= 3
    feeds = {variable.node: np.linspace(0.5, 2, 5)}
    np.testing.assert_allclose(
        evaluated(result.outputs, feeds), evaluated([written.node], feeds), rtol=1e-13
    )


@pytest.mark.parametrize("block", range(4))
def test_random_graphs_keep_values_and_settle_with_reassociation(block: int) -> None:
    options: dict[str, Any] = {"evaluate": run, "check": True, "enable": ["reassociating"]}
    for seed in range(block * 100, block * 100 + 100):
        graph = graph_of(seed, 20, smooth=True)
        first = optimise(graph.outputs, **options)
        again = optimise(first.outputs, **options)
        assert again.outputs == first.outputs, again.rewrites.details()
        assert_close(evaluated(first.outputs, graph.feeds), evaluated(graph.outputs, graph.feeds))


# ----------------------------------------------------------------------- disable


@pytest.mark.parametrize("part", range(8))
def test_no_rule_needs_another_to_come_to_an_end(part: int) -> None:
    for number, info in enumerate(rules()):
        if number % 8 != part:
            continue
        for seed in range(12):
            graph = graph_of(1000 * number + seed, 16)
            first = optimise(graph.outputs, evaluate=run, check=True, disable=[info.name])
            assert info.name not in first.rewrites.counts()


def test_filled_constants_of_one_element_settle_without_folding() -> None:
    """Reshaped, such a constant is broadcast; broadcast, it is reshaped."""
    written = tnp.reshape(tnp.zeros(()), (1, 1, 1)) + tw.var("v", shape=(2, 1, 1))
    for off in (["fold_constants"], ["fold_constants", "hoist_broadcast"], ["broadcast_ones"]):
        result = optimised(written, disable=off)
        assert len(toposort(result.outputs)) <= 3


# ------------------------------------------------------------------------- debug


def _wrong(flow: Flow, context: Context) -> Flow:
    del context
    (node,) = flow.outputs
    return Flow((Node(ELEMENTWISE["sin"], (node, node), node.shape, node.dtype),))


WRONG = Pass("wrong", (), _wrong)


@pytest.mark.parametrize("value", ["1", "yes"])
def test_debug_mode_checks_the_graph_after_each_pass(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWNY_DEBUG", value)
    with pytest.raises(spec.IllegalGraphError, match=r"after wrong: .* has 2 inputs, not 1"):
        optimise([x.node], evaluate=run, pipeline=[WRONG])


@pytest.mark.parametrize("value", [None, "0"])
def test_without_it_nothing_is_checked(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAWNY_DEBUG", raising=False)
    if value is not None:
        monkeypatch.setenv("TAWNY_DEBUG", value)
    checked: list[str] = []
    monkeypatch.setattr(spec, "check", lambda flow, name, before: checked.append(name))
    optimise([x.node], evaluate=run)
    assert not checked
    optimise([x.node], evaluate=run, check=True)
    assert checked


# ---------------------------------------------------------------- what is left on


def test_the_ledger_keeps_no_node_alive_and_says_the_same_later() -> None:
    product = x * 1.5
    gone = weakref.ref(product.node)
    result = optimised((product + y) * 1.0)
    expected = [
        (r.rule.name, r.operations, r.bytes) for r in optimised((x * 1.5 + y) * 1.0).rewrites
    ]
    rewrites = result.rewrites
    del product, result
    assert gone() is None
    assert [(r.rule.name, r.operations, r.bytes) for r in rewrites] == expected
    assert rewrites.followed_by(rewrites).counts() == {"multiply_one": 2}


def test_the_collector_is_left_as_it_was_found() -> None:
    frozen = gc.get_freeze_count()  # Python 3.12 freezes what it starts with
    assert gc.isenabled()
    optimised(x * 1)
    assert gc.isenabled()
    assert gc.get_freeze_count() <= frozen
    gc.disable()
    try:
        optimised(x * 1)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_objects_that_somebody_froze_stay_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        optimised(x * 1)
        assert gc.get_freeze_count() >= frozen - 100  # some may have died
    finally:
        gc.unfreeze()


def test_the_public_function_enables_and_disables() -> None:
    x = tw.var("x", shape=(3,))
    graph = tw.Graph([x], (x + 1.0) + 2.0)
    names = [r.rule.name for r in tw.optimise(graph, enable=("reassociating",)).rewrites.records]
    assert "reassociate_sums" in names
    assert "reassociate_sums" not in [r.rule.name for r in tw.optimise(graph).rewrites.records]
