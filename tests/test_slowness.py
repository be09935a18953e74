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


@pytest.fixture
def noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever NumPy computes is worth a word."""
    monkeypatch.setattr(numpy_steps, "NOTICEABLE", 0.0)


@pytest.fixture
def without_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no kernel for products."""
    from tawny.ops.linalg import Matmul

    monkeypatch.setitem(kernel_table.NATIVE, Matmul, lambda *_: None)
    kernel_table._ANSWERS.clear()
    yield
    kernel_table._ANSWERS.clear()


def product(dtypes: tuple[str, str] = ("float64", "float64")) -> tw.Graph:
    x, y = (tw.var(n, shape=(4, 4), dtype=d) for n, d in zip("xy", dtypes, strict=True))
    return tw.Graph([x, y], [np.matmul(x, y), np.matmul(y, x)])


@pytest.mark.usefixtures("noticed", "without_products")
def test_steps_that_fall_back_to_numpy_are_said_with_their_lines() -> None:
    line = product.__code__.co_firstlineno + 2
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        program = product().compile()
    (one,) = [w for w in said if w.category is tw.PerformanceWarning]
    text = str(one.message)
    assert text.startswith("matmul: NumPy computes this step, since there is no compiled kernel")
    assert "(2 steps)" in text
    assert "np.copy" in text
    assert text.endswith(f"[test_slowness.py:{line}]")
    assert one.filename == __file__
    a = numpy.arange(16.0).reshape(4, 4)
    numpy.testing.assert_allclose(program(a, a)[0], a @ a)


@pytest.mark.usefixtures("without_products")
def test_what_takes_no_time_is_not_said() -> None:
    product().compile()


@pytest.mark.usefixtures("noticed")
def test_what_is_meant_to_be_numpys_is_not_said() -> None:
    x = tw.var("x", shape=(4, 4))
    outputs = [np.linalg.eig(x)[0], np.fft.fft(x), tw.delay(lambda v: v, x), np.exp(x) @ x]
    tw.Graph([x], outputs).compile()


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
