"""Kernels made beside each other before a program is planned."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.engine.cpu as cpu
import tawny.numpy as tnp
from tawny.engine.cpu import CpuEngine, unavailable

native = pytest.mark.skipif(unavailable() is not None, reason="needs compiled code")


def test_each_kind_of_op_has_its_turn():
    x = tw.var("x", shape=(4,))
    sines = [tnp.sin(x + i).node for i in range(3)]
    sums = [tnp.sum(x * i).node for i in range(2)]
    found = cpu._in_turn([*sines, *sums])
    assert found == [sines[0], sums[0], sines[1], sums[1], sines[2]]


@native
def test_the_optimiser_does_not_wait_for_what_runs_kernels(monkeypatch):
    def asked() -> str | None:
        raise AssertionError("whether code can be run was asked for")

    monkeypatch.setattr(cpu, "unavailable", asked)
    assert CpuEngine().groups


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
        assert "no memory that can be run" in CpuEngine().account([y.node])
        expected = graph.compile(engine="reference", optimise=False)(value)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    finally:
        monkeypatch.undo()
        unavailable.cache_clear()
