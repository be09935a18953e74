"""Nodes: interning, source lines, traversal, depth, and memory given back."""

from __future__ import annotations

import gc
import inspect
import resource
import subprocess
import sys
import weakref

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import node
from tawny.node import make, make_as, remake, source_scope, toposort
from tawny.op import CLASSES, ELEMENTWISE, FACTS, Op, Trait
from tawny.ops.reduction import Sum


def test_same_op_and_inputs_are_the_same_object() -> None:
    x = tw.var("x", shape=(3,))
    assert tnp.sin(x).node is tnp.sin(x).node
    assert (x + 1).node is (x + 1).node
    assert tnp.sum(x * x, axis=0).node is tnp.sum(x * x, axis=0).node
    assert (x + 1).node is not (x + 2).node
    assert tnp.sum(x).node is not tnp.sum(x, keepdims=True).node


def test_every_way_to_make_a_node_finds_the_same() -> None:
    x, y = tw.var("x", shape=(3,)).node, tw.var("y", shape=(3,)).node
    add = ELEMENTWISE["add"]
    node = make(add, (x, y))
    assert make_as(add, (x, y), (3,), x.dtype) is node
    assert remake(make(add, (y, x)), (x, y)) is node
    first = make_as(add, (x, x), (3,), x.dtype)
    assert make(add, (x, x)) is first


def test_a_node_made_again_on_other_inputs_keeps_its_lines_and_dies_with_its_reader() -> None:
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    written = tnp.sin(x).node
    again = remake(written, (y.node,))
    assert again.sources == written.sources
    assert again is tnp.sin(y).node
    gone = weakref.ref(again)
    del again
    assert gone() is None
    assert remake(written, (y.node,)).inputs == (y.node,)


def test_rewriters_move_from_place_to_place() -> None:
    x = tw.var("x", shape=(3,)).node
    sine, cosine, tangent = (ELEMENTWISE[n] for n in ("sin", "cos", "tan"))
    here, there = x.sources, tw.var("y").node.sources
    place = source_scope(here)
    with place:
        assert make(sine, (x,)).sources == here
        place.set_sources(there)
        assert make(cosine, (x,)).sources == there
    assert make(tangent, (x,)).sources not in (here, there)


def test_ops_belong_to_the_family_of_their_class_or_their_row() -> None:
    assert Sum((0,), False, None).family is Sum((1,), True, None).family is Sum
    for row in ELEMENTWISE.values():
        assert row.family is row


def test_variables_and_impure_nodes_are_never_merged() -> None:
    assert tw.var("x", shape=(3,)).node is not tw.var("x", shape=(3,)).node
    for name, op in CLASSES.items():
        if Trait.IMPURE in FACTS[name].traits and not op.fields:
            operands = tuple(tnp.ones(3).node for _ in range(FACTS[name].arity or 0))
            assert make(op(), operands) is not make(op(), operands)


@pytest.mark.parametrize(
    ("a", "b"), [(0.0, -0.0), (complex(1, 0.0), complex(1, -0.0)), (True, 1), (1, 1.0)]
)
def test_numbers_that_only_compare_equal_are_different_constants(a: complex, b: complex) -> None:
    for first, second in ((a, b), (b, a)):
        one, two = tnp.asarray(first), tnp.asarray(second)
        assert one.node is not two.node
        assert one.numpy().tobytes() == np.asarray(first).tobytes()
        assert two.numpy().tobytes() == np.asarray(second).tobytes()
    x = tw.var("x", shape=(3,), dtype="complex128")
    assert (x * complex(1, 0.0)).node is not (x * complex(1, -0.0)).node
    assert (x + 0.0).node is not (x + -0.0).node


def test_nan_constants_are_the_same_node() -> None:
    x = tw.var("x", shape=())
    assert (x + float("nan")).node is (x + float("nan")).node


def test_equal_attributes_make_equal_ops() -> None:
    wide = np.dtype("float64")
    assert Sum((0,), False, wide) == Sum(axes=(0,), keepdims=False, dtype=wide)
    assert len({Sum((0,), False, wide), Sum((0,), False, wide), Sum((1,), False, wide)}) == 2
    with pytest.raises(TypeError):
        Sum((0,), False)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Sum((0,), False, wide).axes = (1,)  # type: ignore[misc]


def test_table_is_weak() -> None:
    x = tw.var("x", shape=(3,))
    y = tnp.sin(x)
    alive = weakref.ref(y.node)
    del y
    gc.collect()
    assert alive() is None


def test_entries_of_nodes_that_are_gone_are_swept() -> None:
    x = tw.var("x", shape=(2,))
    kept = [(x + float(i)).node for i in range(100)]
    for i in range(3 * node.LEAST_ENTRIES):
        _ = x * (i + 0.5)
    assert len(node._INTERNED) <= node._most_entries
    node._sweep()
    assert all(entry() is not None for entry in node._INTERNED.values())
    assert [(x + float(i)).node for i in range(100)] == kept


def test_nodes_of_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "hash", lambda _: 7, raising=False)
    x, y = tw.var("x", shape=(2,)).node, tw.var("y", shape=(2,)).node
    sine, cosine = make(ELEMENTWISE["sin"], (x,)), make(ELEMENTWISE["cos"], (x,))
    assert sine.op is not cosine.op
    assert remake(sine, (y,)).inputs == (y,)
    assert make_as(sine.op, (x,), (2,), sine.dtype).op is sine.op
    assert tnp.asarray(2.5).node.value == 2.5
    assert tnp.asarray(3.5).node.value == 3.5


def test_a_settled_node_is_not_found_by_what_it_was() -> None:
    x = tnp.asarray([1.0, 2.0])
    before = make(ELEMENTWISE["sin"], (x.node,))
    node.store_value(before, np.sin([1.0, 2.0]))
    again = make(ELEMENTWISE["sin"], (x.node,))
    assert again is not before
    assert again.inputs == (x.node,)


def test_order_of_a_cycle_ends() -> None:
    x = tw.var("x", shape=(2,))
    y = tnp.sin(tnp.cos(x * 1.25)).node
    inner = y.inputs[0]
    inner.inputs = (y,)
    try:
        assert toposort([y]) == [inner, y]
    finally:
        inner.inputs = ()


def test_source_is_the_users_line() -> None:
    x = tw.var("x", shape=(3,))
    y = tnp.var(x) + tnp.linalg.vector_norm(x)
    line = inspect.currentframe().f_lineno - 1
    (source,) = y.node.sources
    assert source.file == __file__
    assert source.line == line
    assert f"test_node.py:{line}" in repr(y)


def test_order_is_post_order_and_reads_inputs_first() -> None:
    x1, x3 = tw.var("x1"), tw.var("x3")
    x2 = 2 - x1
    x4 = x2 * x3
    x5 = tnp.sin(x4)
    order = toposort([x5.node])
    assert [n.name for n in order] == ["constant", "x1", "subtract", "x3", "multiply", "sin"]
    assert order[1:] == [a.node for a in (x1, x2, x3, x4, x5)]


def test_shared_nodes_are_visited_once() -> None:
    x = tw.var("x")
    for _ in range(200):
        x = x * x
    assert len(toposort([x.node])) == 201


def test_a_chain_of_50_000_nodes() -> None:
    x = tnp.asarray([1.0, -1.0])
    y = x
    for _ in range(25_000):
        y = tnp.sin(y) + 1
    assert "add: float64[2]" in repr(y)
    z = x.numpy()
    for _ in range(25_000):
        z = np.sin(z) + 1
    np.testing.assert_array_equal(y.numpy(), z)
    alive = weakref.ref(y.node)
    del y
    assert alive() is None


GROWTH = """
import gc, resource
import tawny, tawny.numpy as np

def make(count):
    x = tawny.var("x", shape=(4,))
    y = x
    for i in range(count):
        y = np.sin(y) if i % 2 else y * 1.5 + x
        if i % 1000 == 0:
            y = x

make(50_000)
gc.collect()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
make(200_000)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) / 1024)
"""


def test_nodes_made_and_dropped_leave_no_growth() -> None:
    grown = float(
        subprocess.run(
            [sys.executable, "-c", GROWTH], check=True, capture_output=True, text=True
        ).stdout
    )
    assert grown < 4.0, f"resident memory grew by {grown:.1f} MiB: 5 bytes a node are 1 MiB"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0


def test_a_hand_made_op_must_be_documented_and_unique() -> None:
    with pytest.raises(ValueError, match="no documentation"):

        class Bare(Op, name="bare"):
            pass

    with pytest.raises(ValueError, match="declared twice"):

        class Again(Op, name="sum"):
            """Sum again."""
