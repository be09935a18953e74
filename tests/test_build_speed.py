"""What makes building fast: kernels compiled together, no lowering twice, nothing grouped in vain."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tawny as tw
import tawny.numpy as tnp
from random_graphs import RandomGraph, graphs
from tawny.engine import cpu
from tawny.engine.cpu import TINY, CpuEngine, kernel_table
from tawny.engine.llvm.runtime import library
from tawny.engine.llvm.targets import Target
from tawny.engine.lowering import is_leaf, lower, overwrites, views_of
from tawny.graph.incremental import boundary, dependence
from tawny.memory.ordering.model import ordering_model
from tawny.memory.ordering.portfolio import best_order, candidate_orders
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.node import Node, Part, Variable, toposort
from tawny.ops.fusion import Group
from tawny.rewrite.groups import elementwise as groups

ENGINE = "cpu"


# --------------------------------------------------------------------- kernels


def several_kernels(f: Callable[[Any], Any]) -> tuple[tw.Array, tw.Array]:
    """A graph with kernels that no other test has."""
    x = tw.var("x", shape=(7, 300))
    return x, tnp.sum(f(tnp.sort(f(x), axis=0)) * 3.0625, axis=0)


@pytest.fixture
def forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is known; what runs them is there."""
    x = tw.var("x", shape=(300,))
    tw.Graph([x], tnp.sin(x)).compile(engine=ENGINE)
    monkeypatch.setenv("TAWNY_CACHE", str(tmp_path))
    monkeypatch.setattr(kernel_table, "_ANSWERS", dict[Any, Any]())
    monkeypatch.setattr(library, "_recent", OrderedDict[Any, Any]())


def compiling_threads(monkeypatch: pytest.MonkeyPatch, together: int) -> list[str]:
    """The threads that compile; as many wait for each other."""
    original, meeting = library.object_code, threading.Barrier(together, timeout=20)
    seen: list[str] = []

    def compiling(text: str, target: Target) -> bytes:
        seen.append(threading.current_thread().name)
        if len(seen) <= together:
            meeting.wait()
        return original(text, target)

    monkeypatch.setattr(library, "object_code", compiling)
    return seen


@pytest.mark.usefixtures("forgotten")
def test_kernels_are_compiled_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWNY_THREADS", "2")
    x, y = several_kernels(lambda x: tnp.cos(tnp.sin(tnp.cos(x) + 1.5) - x))
    seen = compiling_threads(monkeypatch, together=2)
    program = tw.Graph([x], y).compile(engine=ENGINE)
    assert len(set(seen)) >= 2, "none of them is alone"
    assert threading.current_thread().name not in seen, "all kernels are compiled together"
    value = np.linspace(0, 1, 2100).reshape(7, 300)
    want = np.sort(np.cos(np.sin(np.cos(value) + 1.5) - value), axis=0)
    want = np.sum(np.cos(np.sin(np.cos(want) + 1.5) - want) * 3.0625, axis=0)
    np.testing.assert_allclose(program(value), want, rtol=1e-9)


@pytest.mark.parametrize(("threads", "expected"), [("1", 0), ("2", 1)])
def test_the_compiler_is_loaded_once_and_beside_the_optimiser(
    threads: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWNY_THREADS", threads)
    loading: list[str] = []
    monkeypatch.setattr(cpu, "_load", lambda: loading.append(threading.current_thread().name))
    cpu._start_loading.cache_clear()
    x = tw.var("x", shape=(4,))
    for y in (tnp.sin(x), tnp.cos(x)):
        tw.Graph([x], y).compile(engine=ENGINE)
        tw.Graph([x], y).compile(engine="reference")
    for thread in threading.enumerate():
        if thread.name == "tawny-loading":
            thread.join()
    assert len(loading) == expected
    assert threading.current_thread().name not in loading


@pytest.mark.usefixtures("forgotten")
def test_one_thread_compiles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWNY_THREADS", "1")
    x, y = several_kernels(lambda x: tnp.sin(tnp.sin(tnp.cos(x) + 1.5) - x))
    seen = compiling_threads(monkeypatch, together=1)
    tw.Graph([x], y).compile(engine=ENGINE)
    assert set(seen) == {threading.current_thread().name}


@pytest.mark.usefixtures("forgotten")
def test_a_kernel_that_cannot_be_made_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWNY_THREADS", "2")

    def refused(*_: object) -> None:
        raise RuntimeError("no room")

    x, y = several_kernels(lambda x: tnp.sin(tnp.cos(tnp.cos(x) + 1.5) - x))
    for kind in list(kernel_table.NATIVE):
        if kind.__name__ == "Group":
            monkeypatch.setitem(kernel_table.NATIVE, kind, refused)
    with pytest.warns(tw.PerformanceWarning, match="no native kernel.*no room"):
        program = tw.Graph([x], y).compile(engine=ENGINE)
    assert np.isfinite(program(np.ones((7, 300)))).all()


BUILDING = """
import sys
import numpy as np
import tawny as tw
import tawny.numpy as tnp
x = tw.var("x", shape=(1, 12, 12, 16), dtype="float32")
y = tnp.relu(tnp.conv2d(x, np.ones((3, 3, 16, 8), np.float32)) * 2 + 1)
program = tw.Graph([x], tnp.softmax(tnp.max_pool2d(y, 2))).compile()
program(np.ones((1, 12, 12, 16), np.float32))
print(*sys.modules)
"""

RARE = (
    "concurrent.futures decimal html json logging shutil signal subprocess tempfile "
    "tawny.graph.report.dot tawny.graph.saving tawny.graph.report.svg "
    "tawny.memory.recompute.eviction tawny.memory.recompute.search"
)


def test_what_few_programs_use_is_not_imported_by_building() -> None:
    """In a process that need not compile: the first one leaves all kernels in the cache."""
    listed = "import sys, numpy; print(*sys.modules)"
    known = subprocess.run([sys.executable, "-c", listed], check=True, capture_output=True)
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", BUILDING], check=True, capture_output=True)
    loaded = {*done.stdout.decode().split()} - {*known.stdout.decode().split()}
    assert "tawny.engine.cpu" in loaded
    assert loaded.isdisjoint(RARE.split())


# -------------------------------------------------------------------- lowering


def views_by_lowering(results: tuple[Node, ...]) -> dict[Node, Node]:
    """What `views_of` says, from the planning problem."""
    plain = lower(results)
    roots, values = plain.problem.roots, plain.problem.values
    out: dict[Node, Node] = {}
    for (node, _), value in plain.values.items():
        owner = values[roots[value]].label
        if roots[value] != value and owner is not node:
            assert isinstance(owner, Node)
            out[node] = owner
    return out


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_views_are_those_of_the_planning_problem(graph: RandomGraph) -> None:
    views = views_of(toposort(graph.outputs))
    assert views == lower(graph.outputs).views == views_by_lowering(graph.outputs)


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_results_overwrite_what_their_ops_allow(graph: RandomGraph) -> None:
    for node in toposort(graph.outputs):
        if node.inputs and not node.parts:
            allowed = node.op.may_overwrite(*[(i.shape, i.dtype) for i in node.inputs])
            assert [p for p, _ in overwrites(node)] == sorted(allowed)


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_what_is_read_by_others_is_at_the_boundary(graph: RandomGraph) -> None:
    order = toposort(graph.outputs, is_leaf)
    variables = [n for n in order if isinstance(n.op, Variable)]
    known = dependence(order, variables, (), variables[:1])
    views = views_of(order)
    expected = {
        root
        for node in order
        if not is_leaf(node) and not isinstance(node.op, Part) and node not in views
        for root in [views.get(source, source) for source in node.inputs]
        if not is_leaf(root) and known.run_key(root) != known.run_key(node)
    }
    assert set(boundary(known, views)) == expected


# ---------------------------------------------------------------------- groups


def groups_of(y: tw.Array, x: tw.Array) -> list[Node]:
    program = tw.Graph([x], y).compile(engine=ENGINE)
    return [n for n in toposort(program.plan.lowered.results) if isinstance(n.op, Group)]


def test_where_all_is_tiny_no_group_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("nothing here is worth a kernel")

    monkeypatch.setattr(groups, "choose_groups", refused)
    x = tw.var("x", shape=(TINY - 1,))
    assert not groups_of(tnp.sin(x) * 2.0 + 1.0, x)
    with pytest.raises(AssertionError, match="worth a kernel"):
        groups_of(tnp.sum(tnp.sin(x) * 2.0 + 1.0), x)
    y = tw.var("y", shape=(TINY,))
    with pytest.raises(AssertionError, match="worth a kernel"):
        groups_of(tnp.sin(y) * 2.0 + 1.0, y)


@pytest.mark.parametrize("size", [1, TINY - 1, TINY, 4 * TINY])
@pytest.mark.parametrize("folds", [False, True])
def test_groups_are_worth_what_the_engine_says(size: int, folds: bool) -> None:
    x = tw.var("x", shape=(size,))
    y = tnp.cos(tnp.sin(x) * 2.0)
    found = groups_of(tnp.sum(y) if folds else y, x)
    assert bool(found) == (size >= CpuEngine().min_group_size or (folds and size > 1))


# -------------------------------------------------------------------- planning


def test_what_is_kept_at_the_end_is_a_floor_of_every_order() -> None:
    values = [
        PlanValue(10, kept=True),
        PlanValue(10, kept=True),
        PlanValue(4),
        PlanValue(10, kept=True),
    ]
    steps = [PlanStep((), (0,)), PlanStep((), (1,)), PlanStep((), (2,)), PlanStep((2,), (3,))]
    problem = Problem(tuple(values), tuple(steps))
    assert ordering_model(problem).lower_bound() == 30, "though no step needs more than 14"
    assert ordering_model(Problem((), ())).lower_bound() == 0
    best = best_order(problem)
    assert (best.peak, best.is_optimal) == (30, True)
    first, *_ = candidate_orders(Problem(tuple(values[:2]), tuple(steps[:2])), states=0)
    assert (first.peak, first.is_optimal) == (20, True), "known without a search"
