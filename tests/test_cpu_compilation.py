"""Kernels are chosen while a program is planned; their code is made afterwards."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.engine.cpu as cpu
import tawny.numpy as tnp
from tawny.engine.cpu import CpuEngine, kernel_table, unavailable
from tawny.engine.cpu.products import product
from tawny.engine.llvm.runtime import library
from tawny.engine.llvm.targets import Target

native = pytest.mark.skipif(unavailable() is not None, reason="needs compiled code")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is compiled or, where it was before, what code is asked for."""
    seen: list[object] = []
    make, code = library.object_code, library.Library.code.fget
    assert code is not None

    def compiling(text: str, target: Target) -> bytes:
        seen.append(text)
        return make(text, target)

    def asking(self: library.Library) -> library.MachineCode:
        seen.append(self)
        return code(self)

    monkeypatch.setattr(kernel_table, "_ANSWERS", dict[Any, Any]())
    monkeypatch.setattr(library, "object_code", compiling)
    monkeypatch.setattr(library.Library, "code", property(asking))
    return seen


def networks() -> dict[str, tw.Graph]:
    """Graphs of all kinds of kernels."""
    x = tw.var("x", shape=(3, 17, 17, 8), dtype="float32")
    k = tw.var("k", shape=(3, 3, 8, 12), dtype="float32")
    m = tw.var("m", shape=(33, 65))
    convolved = tnp.max_pool2d(tnp.relu(tnp.conv2d(x, k)), 2)
    gradients = tw.gradients(tnp.sum(tnp.sin(convolved)), [x, k])
    folds = tnp.softmax(tnp.tanh(m @ m.T), axis=-1) + tnp.cumsum(tnp.sort(m @ m.T), axis=0)
    large = tw.var("large", shape=(1700, 1700))
    wide = tnp.sum(tnp.exp(large @ large) * large)
    return {
        "convolutions": tw.Graph([x, k], [convolved, *gradients]),
        "folds": tw.Graph([m], [folds, m[::-1, 3:9], tnp.argmax(m, axis=1)]),
        "bands": tw.Graph([large], wide),
    }


@native
@pytest.mark.parametrize("name", list(networks()))
@pytest.mark.parametrize("memory", [None, "least"])
def test_planning_compiles_nothing(name: str, memory: str | None, counted: list[object]) -> None:
    graph = networks()[name]
    for engine in ("reference", "cpu"):
        graph.explain(engine=engine)
    peak = graph.plan().peak_bytes
    if memory is not None:
        with suppress(tw.MemoryBudgetError):
            graph.plan(memory=0.95 * peak)
    assert not counted
    if memory is None:
        assert graph.compile().plan.peak_bytes == peak
        assert counted


@native
def test_code_that_cannot_be_made_is_planned_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice of a kernel is taken back, with its workspace, and the plan is made anew."""

    def no_tiles(*_: object) -> str:
        raise RuntimeError("no tiles today")

    monkeypatch.setattr(product, "_tiles", library.lazy_library(no_tiles))
    monkeypatch.setattr(kernel_table, "_ANSWERS", dict[Any, Any]())
    monkeypatch.setattr(kernel_table, "_REFUSED", set[Any]())
    x = tw.var("x", shape=(37, 211))
    graph = tw.Graph([x], tnp.sin(x) @ tnp.cos(x).T)
    with pytest.warns(tw.PerformanceWarning, match="NumPy computes it: RuntimeError: no tiles"):
        program = graph.compile()
    assert "by NumPy: " in str(program.plan)
    value = np.random.default_rng(0).random((37, 211))
    np.testing.assert_allclose(program(value), np.sin(value) @ np.cos(value).T, rtol=1e-12)
    assert program.plan.peak_bytes == graph.plan().peak_bytes
    np.testing.assert_allclose(tw.evaluate(tnp.asarray(value) @ value.T), value @ value.T)


@native
@pytest.mark.parametrize("threads", [1, 2, 16])
def test_plans_are_made_for_any_number_of_threads(threads: int) -> None:
    x = tw.var("x", shape=(300, 300))
    graph = tw.Graph([x], tnp.tanh(x @ x) @ x)
    program = graph.compile(threads=threads)
    assert graph.plan(threads=threads).peak_bytes == program.plan.peak_bytes
    assert graph.explain(threads=threads)[-1].bytes == program.plan.peak_bytes


@native
def test_the_optimiser_does_not_wait_for_what_runs_kernels(monkeypatch):
    def asked() -> str | None:
        raise AssertionError("whether code can be run was asked for")

    monkeypatch.setattr(cpu, "unavailable", asked)
    assert CpuEngine().compiles_groups


@native
def test_groups_are_run_by_numpy_where_code_turns_out_not_to_run(monkeypatch):
    def refuse() -> None:
        raise OSError("no memory that can be run")

    unavailable.cache_clear()
    monkeypatch.setattr(cpu, "interpreter", refuse)
    try:
        x = tw.var("x", shape=(64, 500), dtype="float32")
        w = np.random.default_rng(0).random((500, 40), np.float32)
        y = tnp.softmax(tnp.relu(tnp.sin(x) * 2 + tnp.sqrt(tnp.abs(x))) @ w, axis=-1)
        graph = tw.Graph([x], y + tnp.sum(tnp.exp(x * x), axis=1, keepdims=True))
        value = np.random.default_rng(1).random((64, 500), np.float32)
        found = graph.compile(engine="cpu")(value)
        assert "no memory that can be run" in CpuEngine().describe([y.node])
        expected = graph.compile(engine="reference", optimise=False)(value)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    finally:
        monkeypatch.undo()
        unavailable.cache_clear()
