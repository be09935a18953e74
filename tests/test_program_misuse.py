"""Uses of a program that would give wrong numbers: runs inside runs, memory that is shared, masks."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.numpy as np
from engines import skip_without_binding

INSIDE: dict[str, Callable[[tw.Program, tw.Array], Any]] = {
    "call": lambda p, e: p(x=numpy.full(3, 5.0)),
    "run": lambda p, e: p.run(),
    "set": lambda p, e: p.set(x=numpy.full(3, 5.0)),
    "bind": lambda p, e: p.set(bind=True, x=numpy.full(3, 5.0)),
    "sweep": lambda p, e: p.sweep(x=[numpy.full(3, 5.0)]),
    "draw": lambda p, e: setattr(p, "draw", 7),
    "get": lambda p, e: p.get(e),
    "touch": lambda p, e: p.touch("x"),
}


@pytest.mark.parametrize("what", INSIDE)
def test_a_program_is_not_used_inside_its_own_run(engine: str, what: str) -> None:
    x = tw.var("x", shape=(3,))
    refused: list[str] = []

    def f(v: Any) -> Any:
        if not refused:
            with pytest.raises(RuntimeError, match=r"called from inside that run.*\[test_program"):
                INSIDE[what](p, e)
            refused.append(what)
        return v + 0.0

    e = np.exp(x)
    p = tw.Graph([x], [e * 1.0 + tw.delay(f, e), e]).compile(engine=engine)
    zeros, ones = p(numpy.zeros(3))
    assert refused == [what]
    assert zeros.tolist() == [2.0] * 3
    assert ones.tolist() == [1.0] * 3
    assert p(numpy.zeros(3))[0].tolist() == [2.0] * 3
    assert p.draw == 2


def test_reading_the_state_inside_a_run_is_allowed(engine: str) -> None:
    x = tw.var("x", shape=(3,))
    seen: list[Any] = []

    def f(v: Any) -> Any:
        seen.append((p.state["x"].tolist(), p.get(x).tolist()))
        return v

    p = tw.Graph([x], [tw.delay(f, x)]).compile(engine=engine)
    p(numpy.ones(3))
    assert seen == [([1.0] * 3, [1.0] * 3)]


def test_a_run_that_failed_leaves_the_program_usable(engine: str) -> None:
    x = tw.var("x", shape=(3,))

    def f(v: Any) -> Any:
        if v[0] == 0.0:
            p.run()
        return v

    p = tw.Graph([x], [tw.delay(f, x) * 2.0]).compile(engine=engine)
    with pytest.raises(RuntimeError, match="compile the graph a second time"):
        p(numpy.zeros(3))
    assert p(numpy.ones(3))[0].tolist() == [2.0] * 3


def test_a_second_program_of_the_graph_runs_inside(engine: str) -> None:
    x = tw.var("x", shape=(3,))
    graph = tw.Graph([x], [x + 1.0])
    other = graph.compile(engine=engine)
    p = tw.Graph([x], [tw.delay(lambda v: other(v)[0], x)]).compile(engine=engine)
    assert p(numpy.ones(3))[0].tolist() == [2.0] * 3


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="no signals")
def test_a_signals_handler_does_not_run_the_program_that_it_interrupts() -> None:
    x = tw.var("x", shape=(3,))

    def f(v: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return v

    p = tw.Graph([x], [tw.delay(f, x)]).compile()
    before = signal.signal(signal.SIGINT, lambda *_: p(x=numpy.full(3, 9.0)))
    try:
        with pytest.raises(RuntimeError, match="a signal's handler"):
            p(numpy.ones(3))
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------- shared memory


def test_a_view_of_an_output_is_not_bound_to_an_input(engine: str) -> None:
    skip_without_binding(engine)
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    p = tw.Graph([x, y], [np.exp(x) + y, np.sin(x)]).compile(engine=engine)
    p(numpy.zeros(3), numpy.ones(3))
    for view in p.run(views=True):
        with pytest.raises(ValueError, match=r"variable 'x' cannot be bound to an output's view"):
            p.set(bind=True, x=view)
        p.set(x=view)  # a copy is taken
        p.set(bind=True, x=view.copy())
    numpy.testing.assert_allclose(p.run()[1], numpy.sin(numpy.zeros(3)))


@pytest.mark.parametrize("updated", ["x", "y"])
def test_bound_arrays_that_overlap_are_refused_where_one_is_updated(
    engine: str, updated: str
) -> None:
    skip_without_binding(engine)
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    target = {"x": x, "y": y}[updated]
    p = tw.Graph([x, y], [x + y], updates={target: x * 2.0 + y}).compile(engine=engine)
    memory = numpy.arange(8.0)
    p.set(x=numpy.ones(3), y=numpy.ones(3))
    with pytest.raises(ValueError, match=rf"cannot share memory, since updates change '{updated}'"):
        p.set(bind=True, x=memory[:3], y=memory[2:5])
    p.set(bind=True, x=memory[:3])
    with pytest.raises(ValueError, match=r"'y' and 'x' cannot share memory"):
        p.set(bind=True, y=memory[1:4])
    assert p.run()[0].tolist() == [1.0, 2.0, 3.0]
    p.set(x=numpy.ones(3))  # not bound any more
    p.set(bind=True, y=memory[1:4])
    p.set(bind=True, x=memory[4:7], y=memory[:3])
    p.set(bind=True, x=memory[4:7])


def test_bound_arrays_may_overlap_where_none_is_updated(engine: str) -> None:
    skip_without_binding(engine)
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    p = tw.Graph([x, y], [x + y]).compile(engine=engine)
    memory = numpy.arange(4.0)
    p.set(bind=True, x=memory[:3], y=memory[1:])
    assert p.run()[0].tolist() == [1.0, 3.0, 5.0]


def test_an_updated_variable_is_not_bound_to_what_cannot_be_written(engine: str) -> None:
    skip_without_binding(engine)
    x = tw.var("x", shape=(3,))
    p = tw.Graph([x], [x], updates={x: x + 1.0}).compile(engine=engine)
    fixed = numpy.zeros(3)
    fixed.flags.writeable = False
    with pytest.raises(
        ValueError, match=r"variable 'x' is updated, but bound to a read-only array"
    ):
        p.set(bind=True, x=fixed)
    p.set(x=fixed)
    p.run()
    assert fixed.tolist() == [0.0] * 3


@pytest.mark.parametrize("dtype", ["float64", "float16", "complex64", "bool", "int8", "uint64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_views_cannot_be_made_writeable(engine: str, dtype: str, shape: tuple[int, ...]) -> None:
    skip_without_binding(engine)
    x = tw.var("x", shape=shape, dtype=dtype)
    p = tw.Graph([x], [np.negative(x) if dtype != "bool" else ~x, x, x.T]).compile(engine=engine)
    value = numpy.ones(shape, dtype)
    p.set(x=value)
    want = p.run()
    for view, expected in zip(p.run(views=True), want, strict=True):
        assert view.dtype == expected.dtype
        numpy.testing.assert_array_equal(view, expected)
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
        with pytest.raises(ValueError, match="WRITEABLE"):
            view[...].flags.writeable = True
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 0


@pytest.mark.parametrize("bind", [False, True])
def test_masked_arrays_are_refused_by_name(engine: str, bind: bool) -> None:
    x = tw.var("x", shape=(3,))
    p = tw.Graph([x], [x + 1.0]).compile(engine=engine)
    masked = numpy.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(TypeError, match=r"variable 'x' is a masked array.*filled"):
        p.set(bind=bind, x=masked)
    with pytest.raises(TypeError, match="masked array"):
        p(masked)
    with pytest.raises(TypeError, match="masked array"):
        tw.jit(lambda a: a + 1.0, engine=engine)(masked)
    assert p(masked.filled(0.0))[0].tolist() == [2.0, 1.0, 4.0]


@pytest.mark.parametrize(
    ("lists", "kind", "message"),
    [
        ({"x": 3}, TypeError, r"sweep: x is int; accepted: a list of values"),
        ({"x": numpy.asarray(3.0)}, TypeError, r"sweep: x is ndarray; accepted: a list of values"),
        ({"x": [1], "y": [1, 2]}, ValueError, r"sweep: the lists must be of one length, not \{'x': 1, 'y': 2\}"),
        ({}, ValueError, r"sweep: the lists must be of one length"),
    ],
)  # fmt: skip
def test_lists_of_a_sweep_are_lists_of_one_length(
    lists: dict[str, object], kind: type[Exception], message: str
) -> None:
    x, y = tw.var("x"), tw.var("y")
    program = tw.Graph([x, y], x * y).compile()
    with pytest.raises(kind, match=message + r".*\[test_program_misuse\.py:\d+\]"):
        program.sweep(**lists)
