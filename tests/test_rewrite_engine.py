"""The optimiser's machinery: flows, the driver, the spec, the ledger, switches, and its cost."""

from __future__ import annotations

import inspect
import time
import weakref
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array, wrap
from tawny.engine.reference import run
from tawny.node import Node, borrowed_constant, make, toposort
from tawny.op import ELEMENTWISE
from tawny.rewrite import spec
from tawny.rewrite.algebra import EXACT
from tawny.rewrite.driver import rules_pass
from tawny.rewrite.flow import MOST_SOURCES, Flow, Kind, rebuild, sources_of
from tawny.rewrite.pattern import Capture, elementwise, rule
from tawny.rewrite.pipeline import CONTRACT, PIPELINE, SIMPLIFY, OptimisedGraph, optimise, rules

RULES = (SIMPLIFY, CONTRACT)


def optimised(*arrays: Array, **options: Any) -> OptimisedGraph:
    options.setdefault("pipeline", RULES)
    return optimise([a.node for a in arrays], evaluate=run, check=True, **options)


# ------------------------------------------------------------------------ flows


def test_uses_count_every_edge_and_every_output() -> None:
    x = tw.var("x", shape=(3,))
    y = x * x
    flow = Flow((y.node, tnp.sin(y).node, y.node))
    assert flow.uses()[x.node] == 2
    assert flow.uses()[y.node] == 3
    assert flow.consumers()[y.node] == [tnp.sin(y).node]
    assert flow.consumers()[x.node] == [y.node]


def test_rebuild_replaces_everywhere_and_shares_the_rest() -> None:
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    old = tnp.sin(x) + tnp.cos(y)
    (new,) = rebuild([old.node], {tnp.sin(x).node: tnp.exp(x).node})
    assert new is (tnp.exp(x) + tnp.cos(y)).node
    assert rebuild([old.node], {}) == (old.node,)


def test_rebuild_looks_inside_replacements() -> None:
    x = tw.var("x", shape=(3,))
    inner, outer = tnp.sin(x), tnp.exp(tnp.sin(x))
    replacements = {inner.node: tnp.cos(x).node, outer.node: tnp.square(inner).node}
    (new,) = rebuild([(outer + inner).node], replacements)
    assert new is (tnp.square(tnp.cos(x)) + tnp.cos(x)).node


def test_rebuild_refuses_a_replacement_that_depends_on_what_it_replaces() -> None:
    x = tw.var("x", shape=(3,))
    y = tnp.sin(x)
    with pytest.raises(ValueError, match="depends on it"):
        rebuild([y.node], {y.node: tnp.exp(y).node})


def test_rebuild_gives_an_op_with_several_results_its_parts() -> None:
    x, y = tw.var("x", shape=(3, 3)), tw.var("y", shape=(3, 3))
    q, r = tnp.linalg.qr(x)
    new = rebuild([q.node, r.node], {x.node: y.node})
    assert new == tuple(a.node for a in tnp.linalg.qr(y))


def test_new_nodes_keep_the_users_lines() -> None:
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    product = x * y
    first = inspect.currentframe().f_lineno - 1
    total = product + 1
    (out,) = optimised(total).outputs
    assert {s.line for s in out.sources} == {first, first + 2}
    assert all(s.file == __file__ for s in out.sources)


def test_sources_of_many_nodes_are_the_first_few() -> None:
    nodes = [
        eval(compile(f"tnp.sin(x + {k}.5)", f"f{k}.py", "eval"), {"tnp": tnp, "x": tw.var()}).node
        for k in range(100)
    ]
    assert len(sources_of(nodes)) == MOST_SOURCES


# ----------------------------------------------------------------------- driver

x_, y_ = Capture("x"), Capture("y")


def test_rules_that_come_back_are_found_out() -> None:
    there = rule("there", EXACT, elementwise("sin")(x_), elementwise("cos")(x_), "wrong")
    back = rule("back", EXACT, elementwise("cos")(x_), elementwise("sin")(x_), "wrong")
    with pytest.raises(RuntimeError, match="come back"):
        optimised(tnp.sin(tw.var("x")), pipeline=[rules_pass("wrong", [there, back])])


def test_a_rule_that_changes_the_type_is_found_out() -> None:
    wrong = rule(
        "wrong",
        EXACT,
        elementwise("sin")(x_),
        lambda m: make(ELEMENTWISE["isnan"], (m["x"],)),
        "wrong",
    )
    with pytest.raises(RuntimeError, match="changes the type"):
        optimised(tnp.sin(tw.var("x")), pipeline=[rules_pass("wrong", [wrong])])


def test_results_are_rewritten_in_turn() -> None:
    x = tw.var("x", shape=(3,))
    step = rule(
        "step", EXACT, elementwise("sin")(x_), elementwise("cos")(elementwise("cos")(x_)), ""
    )
    stop = rule("stop", EXACT, elementwise("cos")(x_), elementwise("tanh")(x_), "")
    (out,) = optimised(tnp.sin(x), pipeline=[rules_pass("two", [step, stop])]).outputs
    assert out is tnp.tanh(tnp.tanh(x)).node


def test_commutative_patterns_match_in_both_orders() -> None:
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    drop = rule("drop", EXACT, elementwise("add")(elementwise("sin")(x_), y_), y_, "")
    table = [rules_pass("drop", [drop])]
    assert optimised(tnp.sin(x) + y, pipeline=table).outputs == (y.node,)
    assert optimised(y + tnp.sin(x), pipeline=table).outputs == (y.node,)


def test_long_chains_are_no_recursion() -> None:
    x = tw.var("x", shape=(2,))
    y = x
    for _ in range(10_000):
        y = tnp.sin(y - 0.0) * 1.0
    result = optimised(y)
    assert result.rewrites.nodes_after == 10_001


def test_many_sources_do_not_pile_up() -> None:
    y = tnp.asarray(1.0)
    for _ in range(20_000):
        y = y + 1.0
    (out,) = optimised(y).outputs
    assert float(out.value) == 20_001.0
    assert len(out.sources) <= 2


# -------------------------------------------------------------- random, impure


def test_random_draws_are_never_merged_folded_or_copied() -> None:
    first, second = (tw.random.uniform(shape=(3,)) for _ in range(2))
    expression = (first + 0.0) * 1 + (second - 0.0) * 1 + first
    result = optimised(expression)
    drawn = [n for n in toposort(result.outputs) if n.name == "random_uniform"]
    assert set(drawn) == {first.node, second.node}
    for draw in (0, 1):
        np.testing.assert_array_equal(
            run(result.outputs, draw=draw)[0], run([expression.node], draw=draw)[0]
        )


def test_a_draw_whose_bounds_are_rewritten_stays_one_draw() -> None:
    low = tw.var("low", dtype="int64")
    drawn = tw.random.integers(low + 0, 5, shape=(4,))
    result = optimised(drawn * 1, drawn + 0)
    nodes = [n for n in toposort(result.outputs) if n.name == "random_integers"]
    assert len(nodes) == 1
    assert nodes[0].op == next(n for n in toposort([drawn.node]) if n.name == "random_integers").op
    feeds = {low.node: np.asarray(1)}
    np.testing.assert_array_equal(run(result.outputs, feeds)[0], run([drawn.node], feeds)[0])


def test_impure_functions_are_called_as_often_as_written() -> None:
    calls: list[int] = []

    def noted(v: Any) -> Any:
        calls.append(1)
        return v

    x = tw.var("x", shape=(2,))
    once, again = (tw.delay(noted, x * 1) for _ in range(2))
    result = optimised(once + again)
    assert not calls, "nothing is called while optimising"
    run(result.outputs, {x.node: np.ones(2)})
    assert len(calls) == 2


def test_impure_functions_of_constants_are_not_called_early() -> None:
    calls: list[int] = []
    made = tw.delay(lambda v: calls.append(1) or v, tnp.asarray([1.0]))
    optimised(made + 1)
    assert not calls


def test_pure_functions_of_constants_are_folded() -> None:
    made = tw.delay(lambda v: v * 2, tnp.asarray([1.0, 2.0]), pure=True)
    (out,) = optimised(made + 1).outputs
    np.testing.assert_array_equal(out.value, [3.0, 5.0])


# ------------------------------------------------------------------------- spec


def test_spec_accepts_graphs_as_users_write_them() -> None:
    x = tw.var("x", shape=(3, 3))
    spec.check(Flow((tnp.linalg.qr(x)[0].node, tnp.sum(x * 2, axis=0).node)), "nothing")


def test_spec_finds_wrong_types_cycles_twins_and_new_variables() -> None:
    x = tw.var("x", shape=(3,)).node
    sine = ELEMENTWISE["sin"]
    with pytest.raises(spec.IllegalGraphError, match=r"after a pass: .* should be"):
        spec.check(Flow((Node(sine, (x,), (4,), x.dtype),)), "a pass")
    with pytest.raises(spec.IllegalGraphError, match="has 2 inputs, not 1"):
        spec.check(Flow((Node(sine, (x, x), (3,), x.dtype),)), "a pass")
    twins = [Node(sine, (x,), (3,), x.dtype) for _ in range(2)]
    with pytest.raises(spec.IllegalGraphError, match="there twice"):
        spec.check(Flow(tuple(twins)), "a pass")
    loop = Node(sine, (x,), (3,), x.dtype)
    loop.inputs = (loop,)
    with pytest.raises(spec.IllegalGraphError, match="depends on itself"):
        spec.check(Flow((loop,)), "a pass")
    other = tw.var("other", shape=(3,)).node
    with pytest.raises(spec.IllegalGraphError, match="new variable"):
        spec.check(Flow((other,)), "a pass", Flow((x,)))
    with pytest.raises(spec.IllegalGraphError, match=r"output .* became"):
        spec.check(Flow((tnp.sum(tw.var(shape=(2,))).node,)), "a pass", Flow((x,)))


def test_spec_finds_a_second_draw() -> None:
    draw = tw.random.uniform(shape=(3,)).node
    twice = make(ELEMENTWISE["add"], (draw, make(draw.op, ())))
    with pytest.raises(spec.IllegalGraphError, match="1 times more"):
        spec.check(Flow((twice,)), "a pass", Flow((draw,)))


# ----------------------------------------------------------------------- ledger


def test_ledger_says_what_was_done_where_and_what_it_saved() -> None:
    x = tw.var("x", shape=(1000,))
    same = x * 1
    y = same * x + 2.0
    line = inspect.currentframe().f_lineno - 1
    rewrites = optimised(y).rewrites
    assert [r.rule.name for r in rewrites] == ["multiply_one", "fma"]
    assert [r.rule.kind for r in rewrites] == [Kind.EXACT, Kind.CONTRACTING]
    assert rewrites.counts() == {"multiply_one": 1, "fma": 1}
    assert rewrites.kinds() == {Kind.EXACT: 1, Kind.CONTRACTING: 1}
    first, second = rewrites
    assert [e.name for e in first.before] == ["multiply"]
    assert first.operations == 1000
    assert first.bytes == 16_008
    assert [e.name for e in second.before] == ["add", "multiply"]
    assert [e.name for e in second.after] == ["fma"]
    assert {s.line for s in second.sources} == {line}
    assert [{s.line for s in e.sources} for e in first.before] == [{line - 1}]
    assert [{s.line for s in e.sources} for e in second.after] == [{line}]
    assert (rewrites.nodes_before, rewrites.nodes_after) == (6, 3)
    assert rewrites.operations_saved == 1000
    assert rewrites.bytes_saved > 0
    assert len(rewrites) == 2
    assert rewrites[0] is first
    assert rewrites[:1] == [first]


def test_ledger_is_a_readable_table() -> None:
    x = tw.var("x", shape=(1000,))
    text = str(optimised((x * 1) * x + 2.0).rewrites)
    head, columns, *rows = text.splitlines()
    assert head.startswith("6 nodes to 3, 1k operations and")
    assert columns.split() == ["rule", "class", "times", "operations", "bytes", "says", "where"]
    assert rows[0].startswith("multiply_one  exact")
    assert "test_rewrite_engine.py:" in rows[0]
    assert "x * 1 = x" in rows[0]
    assert "no rule applied" in str(optimised(x).rewrites)
    assert optimised(x * 1).rewrites.details().startswith("multiply_one: multiply float64[1000] ->")


def test_ledger_keeps_no_large_constant_alive() -> None:
    value = np.ones(1000)
    alive = weakref.ref(value)
    x = tw.var("x", shape=(1000,))
    folded = wrap(borrowed_constant(value)) * 2.0 + x
    result = optimised(folded)
    del folded, value
    assert alive() is None
    assert "fold_constants" in result.rewrites.counts()


# --------------------------------------------------------------------- switches


def test_any_rule_can_be_switched_off() -> None:
    x = tw.var("x", shape=(3,))
    expression = (x * 1) * x + 2.0
    for info in rules(RULES):
        applied = optimised(expression, disable=[info.name]).rewrites.counts()
        assert info.name not in applied
    assert optimised(x * 1, disable=["multiply_one"]).outputs == ((x * 1).node,)


@pytest.mark.parametrize("kind", Kind)
def test_any_class_can_be_switched_off(kind: Kind) -> None:
    x = tw.var("x", shape=(3,))
    expression = (x * 1) * x + 2.0 - tnp.zeros(3) * x
    rewrites = optimised(expression, disable=[kind.value], assume_finite=True).rewrites
    assert rewrites.kinds()[kind] == 0
    assert len(rewrites) > 0


def test_unknown_names_are_refused_with_the_list() -> None:
    with pytest.raises(
        ValueError, match=r"'fmaa'.*contracting, exact, finite.*add_zero.*multiply_one"
    ):
        optimised(tw.var("x"), disable=["fmaa"])


def test_the_pipeline_is_a_list_of_named_passes_with_their_rules() -> None:
    assert [p.name for p in PIPELINE][:3] == ["share_loops", "trim_loops", "simplify_bodies"]
    named = {p.name: p for p in PIPELINE}
    assert all(named[p.name] is p for p in PIPELINE), "what runs again is the same"
    assert all(p.rules for p in PIPELINE)


# ------------------------------------------------------------------------- cost


def _seconds(count: int) -> float:
    x = tw.var("x", shape=(4, 3))
    y, zeros = x, tnp.zeros((4, 3))
    for k in range(count // 5):
        y = tnp.sin(zeros + y * 1.0) * (k + 0.1) - x
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        optimise([y.node], evaluate=run)
        best = min(best, time.process_time() - start)
    return best


def test_time_grows_with_the_graph_and_no_faster() -> None:
    small, large = _seconds(2_000), _seconds(16_000)
    assert large / small < 16, f"{small:.3f} s for 2,000 nodes, {large:.3f} s for 16,000"


def test_rewrites_show_themselves_at_the_prompt() -> None:
    x = tw.var("x", shape=(3,))
    rewrites = tw.optimise(tw.Graph([x], [tnp.exp(x * 1.0)])).rewrites
    assert repr(rewrites) == str(rewrites)
    assert "x * 1 = x" in repr(rewrites)
    assert repr(rewrites[0]).startswith("<multiply_one: multiply float64[3] -> ")
