"""Groups: what is fused and what is not, the same bits, no cycles, near-linear time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny.numpy as tnp
from fusion_checks import again, apply, assert_same_bits, random_graph
from random_graphs import assert_same_bits as same_bits
from random_graphs import graph_of
from tawny import random as twr
from tawny.array import Array, wrap
from tawny.dtype import FLOAT32
from tawny.engine.reference import run
from tawny.gc_pause import pause_gc
from tawny.node import Node, make, toposort
from tawny.op import ELEMENTWISE, Elementwise
from tawny.ops.body import Body, BodyStep, nonunit
from tawny.ops.creation import Cast, var
from tawny.ops.delay import delay
from tawny.ops.fusion import Group, expand_group
from tawny.ops.movement import BroadcastTo, Reshape
from tawny.ops.reduction import Max, Reduction
from tawny.rewrite import spec
from tawny.rewrite.flow import Flow
from tawny.rewrite.groups import choice as group_choice
from tawny.rewrite.groups import units as group_unit
from tawny.rewrite.groups.elementwise import group_elementwise, grouping_pass


def x32(*shape: int, name: str = "x") -> Array:
    return var(name, shape=shape, dtype="float32")


def groups_of(outputs) -> list[Node]:
    return [n for n in toposort(outputs) if isinstance(n.op, Group)]


def grouped(*outputs: Array) -> tuple[tuple[Node, ...], list[Node]]:
    """The outputs after the pass, checked to have the same bits, and their groups."""
    flow, ledger = apply(group_elementwise, outputs=outputs)
    assert_same_bits([o.node for o in outputs], flow.outputs)
    groups = groups_of(flow.outputs)
    assert {after for _, _, (after,) in ledger.entries if after in groups} == set(
        groups_of(flow.outputs)
    ) - set(groups_of([o.node for o in outputs]))
    spec.check(flow, "group_elementwise", Flow(tuple(o.node for o in outputs)))
    flow_again, nothing = again(flow, group_elementwise)
    assert flow_again.outputs == flow.outputs
    assert nothing.entries == []
    return flow.outputs, groups


def names(group: Node) -> list[str]:
    assert isinstance(group.op, Group)
    return [s.op.facts().name for s in group.op.body.steps]


def layer_norm(x: Array, gamma: Array, beta: Array) -> Array:
    away = x - tnp.mean(x, axis=-1, keepdims=True)
    scale = tnp.sqrt(tnp.mean(tnp.square(away), axis=-1, keepdims=True) + 1e-5)
    return away / scale * gamma + beta


def softmax(x: Array) -> Array:
    e = tnp.exp(x - tnp.max(x, axis=-1, keepdims=True))
    return e / tnp.sum(e, axis=-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    away = x - tnp.max(x, axis=-1, keepdims=True)
    return away - tnp.log(tnp.sum(tnp.exp(away), axis=-1, keepdims=True))


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + tnp.tanh(0.79788456 * (x + 0.044715 * x**3)))


ONE_GROUP = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "adagrad": lambda x: x32(*x.shape, name="w") - 0.01 * x / tnp.sqrt(x32(8, name="s") + x * x),
    "layer norm": lambda x: layer_norm(x, x32(8, name="g"), x32(8, name="b")),
    "layer norm with var": lambda x: (
        (x - tnp.mean(x, axis=-1, keepdims=True))
        / tnp.sqrt(tnp.var(x, axis=-1, keepdims=True) + 1e-5)
    ),
    "layer norm without keepdims": lambda x: (
        (x - tnp.mean(x, axis=-1)[..., None]) / tnp.sqrt(tnp.var(x, axis=-1) + 1e-5)[..., None]
    ),
    "gelu": gelu,
    "gelu by erf": lambda x: x * 0.5 * (1 + tnp.erf(x / 2**0.5)),
    "mean of squares": lambda x: tnp.mean(tnp.square(x - 1)),
    "root mean square": lambda x: x / tnp.sqrt(tnp.mean(tnp.square(x), axis=-1, keepdims=True)),
    "log sum exp by hand": lambda x: tnp.log(tnp.sum(tnp.exp(x), axis=-1)),
    "variance by hand": lambda x: (
        tnp.mean(tnp.square(x), axis=-1) - tnp.square(tnp.mean(x, axis=-1))
    ),
    "softmax of all": lambda x: tnp.exp(x) / tnp.sum(tnp.exp(x)),
    "sum over an early axis": lambda x: tnp.sum(tnp.exp(x) * 2, axis=x.shape.index(4)),
    "softmax gradient": lambda x: (
        tnp.sin(x) * (x - tnp.sum(x * tnp.sin(x), axis=-1, keepdims=True))
    ),
    "cast and where": lambda x: tnp.where(x > 0, tnp.astype(x, "float64"), 0.0) + 1,
    "broadcast constant": lambda x: tnp.exp(x + tnp.zeros((4, 8), dtype="float32")),
}


@pytest.mark.parametrize("shape", [(4, 8), (3, 4, 8), (1, 4, 1, 8)])
@pytest.mark.parametrize("case", ONE_GROUP)
def test_becomes_one_group(case: str, shape: tuple[int, ...]) -> None:
    y = ONE_GROUP[case](x32(*shape))
    (out,), groups = grouped(y)
    assert groups == [out]
    assert not [n for n in toposort([out]) if isinstance(n.op, (Elementwise, Reduction))]


def test_the_body_of_a_softmax() -> None:
    (out,), _ = grouped(softmax(x32(4, 8)))
    op = out.op
    assert isinstance(op, Group)
    assert names(out) == ["max", "subtract", "exp", "sum", "divide"]
    assert op.body.stages() == (0, 1, 1, 1, 2)
    assert op.body.space() == (4, 8)
    assert op.body.operands == (((4, 8), FLOAT32),)
    assert op.may_overwrite(((4, 8), FLOAT32)) == {0}
    assert op.body.cost() == (5 * 32, 128, 128)
    assert out.sources


def test_equal_bodies_are_one_op() -> None:
    (a,), _ = grouped(softmax(x32(4, 8, name="a")))
    (b,), _ = grouped(softmax(x32(4, 8, name="b")))
    (c,), _ = grouped(softmax(x32(4, 9, name="b")))
    assert a.op == b.op
    assert hash(a.op) == hash(b.op)
    assert a is not b
    assert a.op != c.op


def test_expanding_gives_the_plain_nodes() -> None:
    y = layer_norm(x32(4, 8), x32(8, name="g"), x32(8, name="b"))
    (out,), _ = grouped(y)
    assert expand_group(out) == (y.node,)
    with pytest.raises(TypeError, match="operand 0 is divide; accepted: a group"):
        expand_group(tnp.divide(x32(2), 2).node)


def test_a_group_refuses_other_operands() -> None:
    (out,), _ = grouped(softmax(x32(4, 8)))
    with pytest.raises(ValueError, match="group: operands have shapes"):
        make(out.op, (x32(4, 9).node,))
    with pytest.raises(TypeError, match="group: operands have dtypes"):
        make(out.op, (var("x", shape=(4, 8)).node,))


# ------------------------------------------------------------ what is not fused


def test_single_ops_are_left_alone() -> None:
    y = tnp.sin(x32(4, 8))
    (out,), groups = grouped(y)
    assert out is y.node
    assert not groups


def test_matmul_separates() -> None:
    x, w = x32(8, 8), x32(8, 8, name="w")
    y = tnp.exp(tnp.sin(tnp.cos(tnp.tanh(x)) @ w))
    _, groups = grouped(y)
    assert [names(g) for g in groups] == [["tanh", "cos"], ["sin", "exp"]]


def test_a_path_that_leaves_does_not_come_back() -> None:
    x, w = x32(8, 8), x32(8, 8, name="w")
    a = tnp.sin(tnp.cos(x))
    y = tnp.exp(a + a @ w)  # cos and sin must be done before the product, exp after it
    _, groups = grouped(y)
    assert [names(g) for g in groups] == [["cos", "sin"], ["add", "exp"]]


def test_views_that_move_elements_separate() -> None:
    x = x32(8, 8)
    y = tnp.sin(tnp.cos(tnp.permute_dims(tnp.exp(tnp.tanh(x)), (1, 0))))
    z = tnp.sin(tnp.cos(tnp.exp(tnp.tanh(x))[2:]))
    w = tnp.sin(tnp.cos(tnp.reshape(tnp.exp(tnp.tanh(x)), (4, 16))))
    for out in (y, z, w):
        _, groups = grouped(out)
        assert [names(g) for g in groups] == [["tanh", "exp"], ["cos", "sin"]]


def test_random_draws_and_delays_stay_themselves() -> None:
    x = x32(4, 8)
    noise = twr.uniform(shape=(4, 8))
    noisy = tnp.exp(noise * 2 + x)
    out, groups = grouped(noisy)
    assert noise.node in toposort(out)
    assert len(groups) == 1
    late = delay(lambda a: a + 1, tnp.sin(tnp.cos(x)), shape=(4, 8), dtype="float32")
    y = tnp.exp(tnp.sin(late))
    out, groups = grouped(y)
    assert [names(g) for g in groups] == [["cos", "sin"], ["sin", "exp"]]
    assert sum(n.name == "delay" for n in toposort(out)) == 1


def test_a_stretched_value_is_not_computed_for_each_row() -> None:
    x, b = x32(4, 8), x32(8, name="b")
    _, groups = grouped(tnp.tanh(x + tnp.exp(tnp.sin(b))))
    assert sorted(names(g) for g in groups) == [["add", "tanh"], ["sin", "exp"]]
    c = x32(4, 1, name="c")
    _, groups = grouped(tnp.tanh(x + tnp.exp(tnp.sin(c))))
    assert sorted(names(g) for g in groups) == [["add", "tanh"], ["sin", "exp"]]


def test_a_sum_that_meets_the_wrong_axis_is_not_fused() -> None:
    x = x32(8, 8)
    y = tnp.exp(x - tnp.sum(tnp.sin(x), axis=1))  # sums of rows, subtracted from columns
    _, groups = grouped(y)
    assert [names(g) for g in groups] == [["sin", "sum"], ["subtract", "exp"]]
    good = tnp.exp(x - tnp.expand_dims(tnp.sum(tnp.sin(x), axis=1), axis=1))
    assert len(grouped(good)[1]) == 1


def test_row_values_of_another_reduction_are_computed_outside() -> None:
    x = x32(64, 128)
    total = tnp.sum(tnp.exp(x), axis=1, keepdims=True)
    y = tnp.tanh(x / tnp.exp(tnp.sqrt(total)))
    apart = grouping_pass(lambda outputs: lambda n: isinstance(n.op, Reduction))
    flow, _ = again(Flow((y.node,)), apart)
    assert [names(g) for g in groups_of(flow.outputs)] == [["sqrt", "exp"], ["divide", "tanh"]]
    assert_same_bits([y.node], flow.outputs)
    assert len(grouped(y)[1]) == 1


def test_a_stretched_row_value_is_not_folded() -> None:
    x = x32(64, 128)
    row = tnp.exp(tnp.sum(tnp.sin(x), axis=1, keepdims=True))
    _, groups = grouped(tnp.sum(tnp.broadcast_to(row, (64, 128)), axis=1))
    for group in groups:
        check_body(group)
    assert [names(g) for g in groups] == [["sin", "sum", "exp"], ["broadcast_to", "sum"]][:1]


def test_results_that_nothing_inside_reads_are_written_last() -> None:
    u, v = x32(64, 64, name="u"), x32(64, 64, name="v")
    t = u * v
    _, groups = grouped(tnp.sin(t), tnp.cos(t) + u - v)
    (group,) = groups
    assert isinstance(group.op, Group)
    assert {r for _, r in group.op.body.overwrites()} == {0, 1}


def test_columns_are_not_swept_again() -> None:
    x = x32(8, 8)
    y = tnp.exp(x - tnp.sum(tnp.sin(x), axis=0))
    _, groups = grouped(y)
    assert [names(g) for g in groups] == [["sin", "sum"], ["subtract", "exp"]]


def test_long_rows_are_not_swept_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_unit, "LONGEST_ROW", 127)
    _, groups = grouped(softmax(x32(64, 128)) * 2)
    assert [names(g) for g in groups] == [["subtract", "exp", "sum"], ["divide", "multiply"]]
    assert len(grouped(tnp.mean(tnp.square(x32(4, 8))))[1]) == 1  # one sweep is enough


def test_reductions_over_other_axes_are_apart() -> None:
    x = x32(4, 8)
    y = tnp.sum(tnp.exp(tnp.sum(tnp.sin(x), axis=1)))
    _, groups = grouped(y)
    assert [names(g) for g in groups] == [["sin", "sum"], ["exp", "sum"]]


def test_empty_arrays_are_left_alone() -> None:
    y = tnp.sum(tnp.sin(tnp.cos(x32(0, 8))))
    assert not grouped(y)[1]


# --------------------------------------------------------------- several results


def test_outputs_inside_become_results() -> None:
    x = x32(4, 8)
    a = tnp.sin(x)
    b = tnp.exp(a)
    outputs, groups = grouped(a, b, a)
    (group,) = groups
    assert len(group.parts) == 2
    assert outputs[0] is outputs[2]
    assert [n.name for n in outputs] == ["part", "part", "part"]
    assert isinstance(group.op, Group)
    assert group.op.body.overwrites() == ((0, 0), (0, 1))


def test_an_operand_of_a_later_sweep_is_not_overwritten() -> None:
    whole, rows = ((4, 8), FLOAT32), ((4, 1), FLOAT32)
    steps = (
        BodyStep(ELEMENTWISE["square"], (0,), *whole),
        BodyStep(ELEMENTWISE["sin"], (1,), *whole),
        BodyStep(Max((1,), True), (1,), *rows),
        BodyStep(ELEMENTWISE["subtract"], (1, 3), *whole),
    )
    both = Body.of((whole,), steps, (2, 4))
    assert both.stages() == (0, 0, 0, 1)
    assert both.swept_until() == (1, 1, -1, 1, -1)
    assert both.overwrites() == ((0, 1),), "the second sweep may compute the square again"
    assert Body.of((whole,), steps[:3], (2, 3)).overwrites() == ((0, 0),)


def test_axes_of_size_one_do_not_matter_in_place() -> None:
    _, (group,) = grouped(tnp.sin(tnp.expand_dims(tnp.cos(x32(4, 8)), axis=0)))
    assert isinstance(group.op, Group)
    assert group.op.body.overwrites() == ((0, 0),)


def test_an_operand_read_late_is_not_overwritten_early() -> None:
    x = x32(4, 8)
    a = tnp.sin(x)
    _, (group,) = grouped(a, tnp.exp(a) + x)
    assert isinstance(group.op, Group)
    assert group.op.body.overwrites() == ((0, 1),)
    assert group.op.may_overwrite(*group.op.body.operands) == frozenset()


def test_a_row_value_can_be_a_result() -> None:
    x = x32(4, 8)
    total = tnp.sum(tnp.exp(x), axis=-1, keepdims=True)
    outputs, groups = grouped(total, tnp.exp(x) / total)
    assert len(groups) == 1
    assert [n.shape for n in outputs] == [(4, 1), (4, 8)]


def test_shared_values_are_computed_once() -> None:
    x, w = x32(8, 8), x32(8, 8, name="w")
    a = tnp.exp(tnp.sin(x))
    outputs, groups = grouped(tnp.cos(a) + 1, a @ w, tnp.tanh(a))
    ops = [s.op for g in groups for s in g.op.body.steps]  # type: ignore[attr-defined]
    ops += [n.op for n in toposort(outputs)]
    assert sum(op is ELEMENTWISE["exp"] for op in ops) == 1


def test_a_view_as_output_and_inside() -> None:
    x = x32(4, 8)
    total = tnp.expand_dims(tnp.sum(tnp.exp(x), axis=-1), axis=-1)
    outputs, groups = grouped(total, tnp.exp(x) / total)
    assert len(groups) == 1
    assert isinstance(outputs[0].op, Reshape)


# ------------------------------------------------------------------------- bounds


def test_groups_are_bounded() -> None:
    y = x32(4, 8)
    for _ in range(200):
        y = tnp.sin(y)
    _, groups = grouped(y)
    assert max(len(names(g)) for g in groups) == group_choice.MOST_STEPS
    assert len(groups) == -(-200 // group_choice.MOST_STEPS)
    many = x32(4, 8)
    for i in range(40):
        many = many + x32(4, 8, name=f"v{i}")
    _, groups = grouped(many)
    assert all(len(g.inputs) <= group_choice.MOST_INPUTS for g in groups)


def test_repeated_structure_is_compiled_once() -> None:
    y = x32(4, 8)
    for i in range(20):
        y = tnp.tanh(tnp.sin(y @ x32(8, 8, name=f"w{i}")) * 0.5 + y)
    _, groups = grouped(y)
    assert len(groups) == 20
    assert len({g.op for g in groups[1:]}) == 1, "the first one reads a variable"


# ------------------------------------------------------------------- random graphs


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_random_graphs_keep_their_bits(seed: int) -> None:
    outputs = random_graph(seed)
    new, groups = grouped(*outputs)
    for group in groups:
        check_body(group)
    check_once(new, [o.node for o in outputs])


@pytest.mark.parametrize("seed", range(200))
def test_random_graphs_of_all_ops(seed: int) -> None:
    graph = graph_of(seed, 30)
    flow, _ = again(Flow(graph.outputs), group_elementwise)
    same_bits(run(flow.outputs, graph.feeds), run(graph.outputs, graph.feeds))
    assert again(flow, group_elementwise)[0].outputs == flow.outputs
    check_once(flow.outputs, graph.outputs)


def check_body(group: Node) -> None:
    """Each step is what its op infers, reads earlier values, and is used."""
    assert isinstance(group.op, Group)
    body = group.op.body
    first = len(body.operands)
    for number, step in enumerate(body.steps):
        given = [body.type_of(i) for i in step.inputs]
        assert all(i < first + number for i in step.inputs)
        assert step.shape == step.op.infer_shape(*[s for s, _ in given])
        assert step.dtype == step.op.infer_dtype(*[d for _, d in given])
        assert isinstance(step.op, (Elementwise, Cast, BroadcastTo, Reshape, Reduction))
    check_rows(body)
    assert -1 not in body.last_uses()
    assert len(set(group.inputs)) == len(group.inputs)
    assert 0 < len(set(body.results)) == len(body.results)


def check_rows(body: Body) -> None:
    """Elementwise steps span the whole space or come after a reduction, and are folded no more."""
    first, space = len(body.operands), nonunit(body.space())
    after: set[int] = set()
    for number, step in enumerate(body.steps, first):
        if isinstance(step.op, Reduction):
            assert nonunit(body.type_of(step.inputs[0])[0]) == space
            value = step.inputs[0]
            while value >= first and isinstance(body.steps[value - first].op, _VIEWS):
                (value,) = body.steps[value - first].inputs
            assert value not in after or nonunit(body.type_of(value)[0]) == space
            after.add(number)
        elif not after.isdisjoint(step.inputs):
            after.add(number)
        if isinstance(step.op, (Elementwise, Cast)):
            assert nonunit(step.shape) == space or number in after


_VIEWS = (BroadcastTo, Reshape)


def check_once(new, old) -> None:
    """No op is done more often than before, free views apart."""

    def work(outputs) -> int:
        count = 0
        for node in toposort(outputs):
            steps = node.op.body.steps if isinstance(node.op, Group) else [node]
            count += sum(isinstance(s.op, (Elementwise, Reduction, Cast)) for s in steps)
        return count

    assert work(new) == work(old)


@pytest.mark.parametrize("seed", range(20))
def test_larger_random_graphs(seed: int) -> None:
    outputs = random_graph(seed, steps=400)
    new, _ = grouped(*outputs)
    check_once(new, [o.node for o in outputs])


# ---------------------------------------------------------------------- size and time


def test_a_long_chain() -> None:
    y = x = x32(4, 8)
    for i in range(20_000 // 2):
        y = tnp.sin(y) + (x if i % 100 == 0 else 0.5)
    with pause_gc():  # it would walk whatever other tests left
        start = time.thread_time()
        flow, ledger = apply(group_elementwise, outputs=[y])
        seconds = time.thread_time() - start
    assert sum(len(before) for _, before, _ in ledger.entries) == 20_000
    assert seconds < 20_000 * 60e-6, "some 8 microseconds a node where nothing else runs"
    assert_same_bits([y.node], flow.outputs)
    assert again(flow, group_elementwise)[0].outputs == flow.outputs


def test_a_rule_that_is_off_changes_nothing() -> None:
    y = softmax(x32(4, 8))
    flow, ledger = apply(group_elementwise, outputs=[y], off=["group"])
    assert flow.outputs == (y.node,)
    assert not ledger.entries


def test_a_grown_graph_is_grouped_anew() -> None:
    x = x32(4, 8)
    (first,), _ = grouped(tnp.sin(tnp.cos(x)))
    more = make(ELEMENTWISE["exp"], (first,))
    (out,), groups = grouped(wrap(more))
    assert names(out) == ["cos", "sin", "exp"]
    assert groups == [out]


def test_bodies_tell_zeros_apart() -> None:
    kind = ((), np.dtype("float64"))
    add, sin = ELEMENTWISE["add"], ELEMENTWISE["sin"]
    one = Body.of((kind,), (BodyStep(add, (0, 0), *kind),), (1,))
    two = Body.of((kind,), (BodyStep(sin, (0,), *kind),), (1,))
    assert one != two
    assert one == Body.of((kind,), (BodyStep(add, (0, 0), *kind),), (1,))
    assert "add" in repr(one)
