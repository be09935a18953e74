"""Nothing slow in silence: what is slow is said once, at the user's line, with what to do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.numpy as np
from tawny.engine.cpu import kernel_table, numpy_steps
from tawny.graph import graph as graphs
from tawny.ops.linalg import Matmul


@pytest.fixture
def noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever NumPy computes is worth a word."""
    monkeypatch.setattr(numpy_steps, "NOTICEABLE", 0.0)


@pytest.fixture(params=["views", "int64"])
def few_products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kernels for products of dense float64 matrices alone; which others are asked for."""
    native = kernel_table.NATIVE[Matmul]

    def dense(node: Any, operands: Any, results: Any, threads: int) -> Any:
        kinds = {o.dtype.name for o in operands}
        if kinds == {"float64"} and all(o.contiguous for o in operands):
            return native(node, operands, results, threads)
        return None

    monkeypatch.setitem(kernel_table.NATIVE, Matmul, dense)
    kernel_table._ANSWERS.clear()
    yield request.param
    kernel_table._ANSWERS.clear()


def product(kind: str = "") -> tw.Graph:
    x, y = (tw.var(n, (4, 4), "int64" if kind == "int64" else "float64") for n in "xy")
    a, b = (x[::-1], y[::-1]) if kind == "views" else (x, y)
    return tw.Graph([x, y], [np.matmul(a, b), np.matmul(b, a)])


WAYS_OUT = {"views": "np.copy(x)", "int64": "int64 is converted by x.astype('float64')"}


@pytest.mark.usefixtures("noticed")
def test_steps_that_fall_back_to_numpy_are_said_with_their_lines(few_products: str) -> None:
    line = product.__code__.co_firstlineno + 3
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        program = product(few_products).compile()
    (one,) = [w for w in said if w.category is tw.PerformanceWarning]
    text = str(one.message)
    assert text.startswith("matmul: NumPy computes this step, since there is no compiled kernel")
    assert "(2 steps)" in text
    assert WAYS_OUT[few_products] in text
    assert text.endswith(f"[test_slowness.py:{line}]")
    assert one.filename == __file__
    a = numpy.arange(16).reshape(4, 4)
    b = a[::-1] if few_products == "views" else a
    numpy.testing.assert_allclose(program(a, a)[0], b @ b)


def test_what_takes_no_time_is_not_said(few_products: str) -> None:
    product(few_products).compile()


@pytest.mark.usefixtures("noticed")
def test_what_is_meant_to_be_numpys_is_not_said() -> None:
    x = tw.var("x", shape=(4, 4))
    large = tw.var("large", shape=(300, 300))
    outputs = [np.linalg.eig(x)[0], np.fft.fft(x), tw.delay(lambda v: v, x), np.exp(x) @ x]
    outputs += [np.linalg.qr(large)[1], np.linalg.svdvals(large.T), np.linalg.det(large + 1j)]
    program = tw.Graph([x, large], outputs).compile()
    assert {"qr", "svdvals", "det"} <= {step.array.node.name for step in program.plan.steps}


@pytest.mark.usefixtures("noticed")
def test_an_engine_that_is_off_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawny.engine.cpu.unavailable", lambda: "OSError: no pages")
    with pytest.warns(tw.PerformanceWarning, match=r"cannot be run here \(OSError: no pages\)"):
        product().compile()


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        ({}, "kept on disk"),
        ({"memory": "1MB"}, "larger budgets are planned sooner"),
        ({"plan": "hard"}, 'plan="default" searches less'),
    ],
)
def test_a_long_compile_is_said_once(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], way_out: str
) -> None:
    graph = product()
    graph.compile(**options)
    monkeypatch.setattr(graphs, "SLOW_COMPILE_SECONDS", 0.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(2):
            graph.compile(**options)
    (text,) = [str(w.message) for w in said]
    assert text.startswith("compile: it took more than ")
    assert way_out in text
    assert "[test_slowness.py:" in text
