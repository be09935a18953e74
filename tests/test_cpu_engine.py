"""The native engine: right on random programs and graphs, interruptible, usable after errors."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from engines import skip_without_binding
from poisoned import Poisoned
from random_graphs import RandomGraph, assert_same_bits, graph_of, graphs
from tawny.array import array_for
from tawny.engine.cpu import CpuEngine, unavailable
from tawny.engine.cpu import executable as executables
from tawny.engine.layout import Memory, Views, contiguous
from tawny.engine.protocol import engine_named
from tawny.engine.reference import compute
from tawny.engine.reference import run as reference_run
from tawny.engine.reference.memory import POISON
from tawny.node import Node, Part, Value, borrowed_constant, part, remake, toposort, variable
from tawny.ops.delay import Delay
from tawny.ops.fft import Transform

ENGINE = "cpu"


# -------------------------------------------------------------- random graphs


@settings(max_examples=120, deadline=None)
@given(graphs(smooth=True, impure=False))
def test_random_graphs_agree_with_the_reference(graph: RandomGraph) -> None:
    p = program_of(graph)
    expected = reference_run(graph.outputs, graph.feeds)
    narrow = any(n.dtype in NARROW for n in toposort(graph.outputs))
    for got, want in zip(p(*graph.feeds.values()), expected, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        tol = 1e-4 if narrow else 1e-9
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol)


NARROW = frozenset(map(np.dtype, ("float16", "float32", "complex64")))


def program_of(graph: RandomGraph, **options):
    inputs, outputs = ([array_for(n) for n in ns] for ns in (graph.feeds, graph.outputs))
    return tw.Graph(inputs, outputs, unused="ignore").compile(engine=ENGINE, **options)


@settings(max_examples=80, deadline=None)
@given(graphs(impure=False), st.booleans(), st.booleans(), st.booleans())
def test_random_graphs_in_poisoned_memory(
    graph: RandomGraph, incremental: bool, optimise: bool, tight: bool
) -> None:
    """As little memory as can be, all of it worthless once read: the same bits, with threads."""
    options: dict[str, Any] = {"incremental": incremental, "optimise": optimise and not tight}
    plain = program_of(graph, **options, threads=1)
    if tight:
        inputs, outputs = ([array_for(n) for n in ns] for ns in (graph.feeds, graph.outputs))
        free = tw.Graph(inputs, outputs, unused="ignore")
        try:
            free.plan(engine=ENGINE, memory=0, **options)
        except tw.MemoryBudgetError as error:
            options["memory"] = error.least_bytes
    poisoned = program_of(graph, **options, threads=3)
    compiled = poisoned._compiled
    compiled.__dict__["executable"] = Poisoned(compiled.executable, compiled.task)
    for _ in range(2):
        with np.errstate(all="ignore"):
            got, want = (p(*graph.feeds.values()) for p in (poisoned, plain))
        assert_same_bits(got, want)


@pytest.mark.parametrize("seed", range(60))
def test_every_step_of_random_graphs_agrees_with_the_reference(seed: int) -> None:
    """Each node by itself, on what the reference computes for its operands, special values too."""
    graph = graph_of(seed, 14, impure=False)
    values: dict[Node, Any] = dict(graph.feeds)
    with np.errstate(all="ignore"):
        for node in toposort(graph.outputs):
            if node in values:
                continue
            if not node.inputs:
                values[node] = node.value if node.value is not None else compute(node, [], 0)
                continue
            operands = [values[i] for i in node.inputs]
            values[node] = compute(node, operands, 0)
            if not isinstance(node.op, (Part, Delay)):
                check_step(node, operands, values[node])


def check_step(node: Node, operands: Sequence[Value], expected: Any) -> None:
    inputs = [variable(f"v{i}", n.shape, n.dtype) for i, n in enumerate(node.inputs)]
    made = remake(node, tuple(inputs))
    results = [part(made, i) for i in range(len(made.parts))] or [made]
    graph = tw.Graph([array_for(n) for n in inputs], [array_for(n) for n in results])
    p = graph.compile(engine=ENGINE, optimise=False)
    wanted = expected if node.parts else (expected,)
    for got, want in zip(p(*operands), wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        tol = 1e-12 if got.dtype.itemsize >= 8 and got.dtype != "complex64" else 1e-5
        if got.dtype == np.float16:
            tol = 1e-2
        if isinstance(node.op, Transform):
            got, want = finite_lines(node.op, operands[0], got, want)
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol, err_msg=str(node))


def finite_lines(op: Transform, x: Any, got: Any, want: Any) -> tuple[Any, Any]:
    """Transforms of what is finite; a line of anything else is not finite where NumPy's is not.

    Which of NaN and the infinities they hold is a matter of the order of additions.
    """
    is_finite = np.all(np.isfinite(x), axis=op.axes, keepdims=True)
    spread, known = (np.all(np.isfinite(y), axis=op.axes, keepdims=True) for y in (got, want))
    assert not np.any(spread & ~known)
    is_finite = np.broadcast_to(is_finite, got.shape)
    return got[is_finite], want[is_finite]


# ----------------------------------------------------------------------- views


@st.composite
def view_chains(draw: st.DrawFn):
    """A view of a view of an array, made by the same choices lazily and by NumPy."""
    shape = draw(st.sampled_from([(4,), (3, 4), (2, 3, 4), (1, 5), (0, 3), (3, 3)]))
    x = tw.var("x", shape=shape)
    given = np.arange(float(np.prod(shape))).reshape(shape)
    lazy, eager = x, given
    for _ in range(draw(st.integers(0, 5))):
        rank = eager.ndim
        kind = draw(st.sampled_from(["transpose", "flip", "slice", "broadcast", "diagonal", "new"]))
        if kind == "transpose":
            axes = draw(st.permutations(range(rank)))
            lazy, eager = tnp.permute_dims(lazy, tuple(axes)), eager.transpose(axes)
        elif kind == "flip" and rank:
            axis = draw(st.integers(0, rank - 1))
            lazy, eager = tnp.flip(lazy, axis=axis), np.flip(eager, axis)
        elif kind == "slice" and rank:
            limit = st.none() | st.integers(-6, 6)
            step = draw(st.sampled_from([None, 1, 2, -1, -2]))
            cut = slice(draw(limit), draw(limit), step)
            lazy, eager = lazy[..., cut], eager[..., cut]
        elif kind == "broadcast" and eager.size < 200:
            lazy = tnp.broadcast_to(lazy, (2, *eager.shape))
            eager = np.broadcast_to(eager, (2, *eager.shape))
        elif kind == "diagonal" and rank >= 2:
            offset = draw(st.integers(-2, 2))
            lazy, eager = tnp.diagonal(lazy, offset), np.diagonal(eager, offset)
        elif kind == "new":
            lazy, eager = lazy[..., None], eager[..., None]
    return x, given, lazy, eager


@settings(max_examples=400, deadline=None)
@given(view_chains())
def test_strides_are_those_of_numpy(chain) -> None:
    x, given, lazy, eager = chain
    seen = Views()(lazy.node)
    if seen.root is not x.node:
        return  # a reshape that copies
    got = np.lib.stride_tricks.as_strided(
        given.reshape(-1)[seen.offset // 8 :], seen.memory.shape, seen.memory.strides
    )
    np.testing.assert_array_equal(got, eager)
    assert seen.memory.shape == eager.shape


def test_memory_knows_whether_it_lies_as_a_new_array() -> None:
    double = np.dtype(np.float64)
    assert contiguous((2, 3), double) == Memory((2, 3), (24, 8), double)
    assert contiguous((0, 3), double).contiguous
    assert not Memory((2, 3), (8, 16), double).contiguous


# ------------------------------------------------------------ runs and callbacks


def figure_1(n: int = 4):
    x, y = tw.var("x", shape=(n,)), tw.var("y", shape=(n,))
    return x, y, tnp.sin((2 - x) * y)


def test_bound_memory_of_any_alignment_is_used_in_place(engine: str) -> None:
    skip_without_binding(engine)
    x, y, z = figure_1(33)
    p = tw.Graph([x, y], z).compile(engine=engine)
    rng = np.random.default_rng(0)
    for shift in range(4):
        whole = rng.random(40)
        mine = whole[shift : shift + 33]
        other = rng.random(33)
        p.set(x=mine, bind=True)
        np.testing.assert_allclose(p(y=other), np.sin((2 - mine) * other), rtol=1e-14)
        mine += 1
        p.touch("x")
        np.testing.assert_allclose(p(), np.sin((2 - mine) * other), rtol=1e-14)
    p.set(x=other)
    np.testing.assert_allclose(p(), np.sin((2 - other) * other), rtol=1e-14)


def test_updates_are_made_in_bound_memory(engine: str) -> None:
    skip_without_binding(engine)
    w, x = tw.var("w", shape=(5,)), tw.var("x", shape=(5,))
    p = tw.Graph([x], tnp.sum(x * x), updates={w: w + x}).compile(engine=engine)
    mine = np.zeros(6)[1:]
    p.set(w=mine, bind=True)
    assert p._compiled.in_place_updates
    for k in range(3):
        p(np.full(5, float(k)))
    assert mine.tolist() == [3.0] * 5
    locked = np.zeros(5)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="'w' is updated, but bound to a read-only array"):
        p.set(w=locked, bind=True)
    assert locked.tolist() == [0.0] * 5


def test_constants_that_lie_anyhow(engine: str) -> None:
    x = tw.var("x", shape=(3, 4))
    data = np.arange(24.0).reshape(4, 6)
    unaligned = np.zeros(97, np.uint8)[1:].view(np.float64).reshape(3, 4)
    assert not unaligned.flags.aligned
    values = [data[:, ::2].T, data[::-1, :3].T, data[:3, :4], unaligned]
    for value in values:
        constant = array_for(borrowed_constant(value))
        flat = tnp.reshape(constant, (12,))
        got = tw.Graph([x], [x + constant, flat * 2]).compile(engine=engine)(np.ones((3, 4)))
        np.testing.assert_array_equal(got[0], value + 1)
        np.testing.assert_array_equal(got[1], value.reshape(-1) * 2)


def test_what_a_callback_is_given_cannot_be_kept(engine: str) -> None:
    """A function that keeps its argument sees no later run, or the program is its own."""
    kept: list[Value] = []
    x = tw.var("x", shape=(3,))
    p = tw.Graph([x], tw.delay(lambda a: kept.append(a) or a * 2, x + 1)).compile(engine=engine)
    np.testing.assert_array_equal(p(np.zeros(3)), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(p(np.ones(3)), [4.0, 4.0, 4.0])


def test_random_numbers_are_those_of_the_reference() -> None:
    def draws(engine: str) -> list[Value]:
        tw.random.seed(11)
        x = tw.var("x", shape=(3,))
        p = tw.Graph([x], tw.random.normal(shape=(3,)) + x).compile(engine=engine)
        p.set(x=np.zeros(3))
        return [p.run() for _ in range(3)]

    for got, want in zip(draws(ENGINE), draws("reference"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_programs_on_several_threads_of_python() -> None:
    x, y = tw.var("x", shape=(400, 400)), tw.var("y", shape=(400, 400))
    graph = tw.Graph([x, y], tnp.concat([x, y], axis=1) + 1.0)
    shared = [graph.compile(engine=ENGINE, threads=2) for _ in range(2)]
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(10):
            a, b = rng.random((2, 400, 400))
            if not np.array_equal(shared[seed % 2](a, b), np.concatenate([a, b], 1) + 1.0):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_what_runs_inside_a_group_is_known_by_the_users_arrays() -> None:
    x, y = tw.var("x", shape=(4,)), tw.var("y", shape=(4,))
    a = 2 - x
    b = a * y
    c = tnp.sin(b)
    d = tnp.sum(c * c)
    p = tw.Graph([x, y], [c, d]).compile(engine=ENGINE)
    ones = np.ones(4)
    p(ones, ones)
    executed = [array.node for array in p.last_run.executed]
    assert executed[:3] == [a.node, b.node, c.node]
    assert len(p.plan.steps) < len(executed)
    assert [array.node for array in p.affected(y)][:2] == [b.node, c.node]
    p(y=ones * 2)
    assert [array.node for array in p.last_run.reused] == [a.node]
    np.testing.assert_allclose(p.get(c), np.sin(ones * 2), rtol=1e-15)
    np.testing.assert_allclose(p.get(d), np.sum(np.sin(ones * 2) ** 2), rtol=1e-15)
    np.testing.assert_array_equal(p.get(a), ones)
    with pytest.raises(ValueError, match="is not kept"):
        p.get(b)
    assert "computed inside <group" in p.plan.why(b)
    assert "kept for later runs" in p.plan.why(a)
    assert "steps compiled" in str(p.plan)


# ------------------------------------------------------------------ interrupts


def test_long_runs_are_cut_so_that_python_can_be_interrupted() -> None:
    x = tw.var("x", shape=(100_000,))
    y = x
    for k in range(100):
        y = tnp.concat([y[1:], y[:1]], axis=0) if k % 2 else tnp.flip(y) + 0.0
    p = tw.Graph([x], y).compile(engine=ENGINE, optimise=False)
    p(np.zeros(100_000))
    routes = p._compiled.executable._routes.values()
    native = [s for r in routes for s in r.segments if s.callback is None]
    estimated = sum(s.seconds for s in p._compiled.task.lowered.problem.steps)
    assert estimated > 3 * executables.SEGMENT_SECONDS
    assert len(native) >= 3


INTERRUPTED = """
import _thread, signal, sys, threading, time
import numpy, tawny as tw, tawny.numpy as np

x = tw.var("x", shape=(2000, 2000))
y = x
for _ in range(3000):
    y = np.concat([y[1:], y[:1]], axis=0)
p = tw.Graph([x], y).compile(engine="cpu", optimise=False)
value = numpy.arange(4e6).reshape(2000, 2000)
p.set(x=value)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
start = time.monotonic()
try:
    p.run()
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < 3.0)
small = tw.Graph([x], np.concat([x[:1], x[:1]], axis=0)).compile(engine="cpu")
assert small(value).tolist() == [value[0].tolist()] * 2
try:
    p.get(y)
except ValueError as error:
    print("has not run yet" in str(error))
"""


def test_control_c_ends_a_long_run_and_leaves_the_program_usable() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("interrupted True\nTrue\n", "")


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_program_can_be_run_again() -> None:
    x = tw.var("x", shape=(3,))
    calls = [0]

    def interrupted(a):
        calls[0] += 1
        if calls[0] == 2:
            signal.raise_signal(signal.SIGINT)
        return a * 2

    p = tw.Graph([x], tw.delay(interrupted, x + 1) - 1).compile(engine=ENGINE)
    p(np.zeros(3))
    with pytest.raises(KeyboardInterrupt):
        p(np.ones(3))
    np.testing.assert_array_equal(p(), [3.0, 3.0, 3.0])


def test_a_run_is_not_cut_once_variables_change() -> None:
    x = tw.var("x", shape=(300_000,))
    y = x
    for _ in range(20):
        y = tnp.concat([y[1:], y[:1]], axis=0)
    states = {tw.var(f"s{k}", shape=(300_000,)): None for k in range(20)}
    updates = {s: s * (k + 2.0) for k, s in enumerate(states)}
    p = tw.Graph([x], y, updates=updates).compile(engine=ENGINE)
    p.set(x=np.zeros(300_000), **{s.name: np.ones(300_000) for s in states})
    p.run()
    table, task = p._compiled.executable._table, p._compiled.task
    changing = {p for p in range(len(task.layout.sequence)) if p >= table.first_change}
    assert len(changing) >= 20
    entries = {e for position in changing for e in table.entries(position)}
    holding = [
        s
        for route in p._compiled.executable._routes.values()
        for s in route.segments
        if entries.intersection(s.entries.tolist())
    ]
    assert len(holding) == 1


# ----------------------------------------------------------- processes, threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_programs_run_in_forked_processes() -> None:
    x = tw.var("x", shape=(1000, 300))
    p = tw.Graph([x], tnp.concat([x, x], axis=1)).compile(engine=ENGINE, threads=3)
    value = np.random.default_rng(0).random((1000, 300))
    p(value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
    if child == 0:
        right = all(
            np.array_equal(p(value + k), np.concatenate([value + k] * 2, 1)) for k in range(3)
        )
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(p(value), np.concatenate([value, value], 1))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    rng = np.random.default_rng(5)
    x, y = (
        tw.var("x", shape=(300, 410), dtype="float32"),
        tw.var("y", shape=(410,), dtype="float32"),
    )
    z = tnp.exp(-x * y) + tnp.sqrt(tnp.abs(x.T[::-1].T)) * tnp.sin(y)
    outputs = [
        z,
        tnp.sum(z, axis=0),
        tnp.sum(z),
        tnp.max(z, axis=1),
        tnp.concat([z, x], axis=0),
        tnp.matmul(x, y),
    ]
    values = rng.normal(size=(300, 410)), rng.normal(size=410)
    graph = tw.Graph([x, y], outputs)
    one, many = (graph.compile(engine=ENGINE, threads=n) for n in (1, threads))
    for got, want in zip(many(*values), one(*values), strict=True):
        np.testing.assert_array_equal(got, want)


def test_threads_reach_the_engine() -> None:
    x, y, z = figure_1()
    p = tw.Graph([x, y], z).compile(engine=ENGINE, threads=5)
    assert p._compiled.executable._pool.threads == 5
    most = tw.Graph([x, y], z).compile(engine=ENGINE, threads=1024)
    assert most._compiled.executable._pool.threads == 1024, "none is started before it is needed"
    with pytest.raises(ValueError, match=r"threads is 1000000000; it must be at most 1024"):
        tw.Graph([x, y], z).compile(engine=ENGINE, threads=10**9)
    jitted = tw.jit(lambda a: a + 1, engine=ENGINE, threads=3)
    jitted(np.ones(2))
    (entry,) = jitted._programs.values()
    assert entry.program._compiled.executable._pool.threads == 3
    with pytest.raises(ValueError, match="threads is 0"):
        tw.Graph([x, y], z).compile(engine=ENGINE, threads=0)


# --------------------------------------------------------------------- fallback


def test_without_compiled_code_numpy_runs_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    import tawny.engine.cpu as cpu

    def refuse():
        raise ImportError("no module named llvmlite")

    unavailable.cache_clear()
    monkeypatch.setattr(cpu, "interpreter", refuse)
    try:
        assert unavailable() == "ImportError: no module named llvmlite"
        x, y, z = figure_1()
        p = tw.Graph([x, y], z).compile(engine=ENGINE)
        np.testing.assert_array_equal(p(np.ones(4), np.ones(4)), np.sin(np.ones(4)))
        said = CpuEngine().describe([z.node])
        assert "compiled code cannot be run here (ImportError: no module named llvmlite)" in said
    finally:
        monkeypatch.undo()
        unavailable.cache_clear()


def test_the_engine_says_what_numpy_computes() -> None:
    x = tw.var("x", shape=(4,))
    engine = engine_named(ENGINE)
    joined = tnp.concat([x, x], axis=0)
    assert engine.describe([joined.node]) == "cpu: 1 of 1 steps compiled"
    z = tw.var("z", shape=(4, 4))
    nodes = [joined.node, tnp.linalg.svdvals(z).node, tnp.linalg.svdvals(z + 1).node]
    assert engine.describe(nodes) == "cpu: 1 of 3 steps compiled; by NumPy: svdvals 2"


def test_importing_tawny_loads_no_compiler() -> None:
    code = "import sys, tawny.numpy, tawny.engine; print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_fresh_memory_is_poisoned_while_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, z = figure_1()
    graph = tw.Graph([x, y], z)
    monkeypatch.setenv("TAWNY_DEBUG", "1")
    arena = graph.compile(engine=ENGINE)._compiled.executable.arena
    assert (arena == POISON).all()
    assert arena.ctypes.data % 64 == 0


def test_tiny_arrays_are_not_fused() -> None:
    x = tw.var("x", shape=(64,), dtype="float32")
    large = tw.var("y", shape=(5000,), dtype="float32")
    p = tw.Graph([x, large], [tnp.tanh(x * 2) + 1, tnp.tanh(large * 2) + 1]).compile(engine=ENGINE)
    names = [s.array.node.name for s in p.plan.steps]
    assert sorted(names) == ["add", "group", "multiply", "tanh"]


RESIDENT = """
import numpy, tawny as tw, tawny.numpy as np

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def graph(n):
    x, w = tw.var("x", shape=(n, 500)), tw.var("w", shape=(500, 500))
    h = np.tanh(x @ w)
    g = np.exp(-h) @ w
    return tw.Graph([x, w], [np.sum(h * g), np.concat([h[:n // 2], g[:n // 2]], axis=1)])

def run(n, x, w):
    p = graph(n).compile(incremental=False)
    p.set(bind=True, x=x, w=w)
    p.run(views=True)
    return p

w = numpy.full((500, 500), 1e-3)
kept = run(100, numpy.ones((100, 500)), w)  # so that all code is there
x = numpy.ones((8000, 500))
before = resident()
p = run(8000, x, w)
p.run(views=True)
print(p.plan.peak_bytes, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's account of memory")
def test_resident_memory_grows_by_the_predicted_peak() -> None:
    for _ in range(2):  # the first time leaves all kernels in the cache, so that LLVM stays away
        done = subprocess.run(
            [sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True
        )
    planned, grown = map(int, done.stdout.split())
    assert planned > 90_000_000
    assert abs(grown - planned) < 4_000_000


def test_what_cannot_be_compiled_is_not_fused() -> None:
    x = tw.var("x", shape=(600,), dtype="complex128")
    y = tnp.tan(x * 2) + 1
    p = tw.Graph([x], y).compile(engine=ENGINE)
    assert "by NumPy: tan" in str(p.plan)
    assert "group" not in [s.array.node.name for s in p.plan.steps]
    value = np.linspace(0, 1, 600) * (1 + 1j)
    np.testing.assert_allclose(p(value), np.tan(value * 2) + 1, rtol=1e-14)


# ------------------------------------------------------------------------ speed


def test_a_run_costs_no_python_for_each_step() -> None:
    """1,000 steps on 64 numbers: far less than a NumPy call for each."""
    x = tw.var("x", shape=(64,), dtype="float32")
    y = x
    for k in range(1000):
        y = tnp.concat([y[k % 7 :], y[: k % 7]], axis=0)
    p = tw.Graph([x], y).compile(engine=ENGINE, optimise=False)
    value = np.arange(64, dtype=np.float32)
    p(value)
    positions = p._compiled.run_set(None)[1]
    times = []
    for _ in range(50):
        start = time.perf_counter()
        p._compiled.executable.run(positions, 0)
        times.append(time.perf_counter() - start)
    assert min(times) < 200e-6


def test_kernels_have_places_of_their_own_in_the_interpreter() -> None:
    """Frequent ones that run alone and never fail; all others are called from one place."""
    x = tw.var("x", shape=(64,), dtype="float32")
    names = ("sin", "cos", "exp", "tanh", "abs", "square", "floor", "ceil", "sign", "negative",
             "arctan", "log1p", "expm1", "sinh", "cosh", "arcsinh", "trunc", "rint", "cbrt")  # fmt: skip
    y = x
    for number in range(120):
        y = getattr(tnp, names[number % len(names)])(y * 0.5)
    large, i = tw.var("large", shape=(300_000,)), tw.var("i", shape=(4,), dtype="int64")
    graph = tw.Graph([x, large, i], [y, x[i], -large])
    p, r = (graph.compile(engine=e, optimise=False) for e in (ENGINE, "reference"))
    given = np.linspace(-1, 1, 64, dtype=np.float32), np.ones(300_000), np.array([0, 5, -1, 63])
    for got, want in zip(p(*given), r(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    table = p._compiled.executable._table
    sites = table._table[:, 4].tolist()
    assert set(sites) == set(range(16)), "there are more kernels than places"
    kernels: dict[int, set[int]] = {}
    for entry, site in zip(table._entries, sites, strict=True):
        assert not site or (not entry.threads and entry.status is None)
        kernels.setdefault(site, set()).add(entry.kernel)
    assert all(len(kernels[site]) == 1 for site in range(1, 16))
    assert len(kernels[0]) > 2
    with pytest.raises(IndexError):
        p(i=np.array([0, 5, 64, 0]))
    for got, want in zip(p(i=given[2]), r(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_program_that_is_dropped_leaves_nothing_behind() -> None:
    """Caches of kernels, plans and answers know shapes, not the arrays they were asked for."""
    rng = np.random.default_rng(0)
    x = tw.var("x", shape=(1, 16, 16, 8), dtype="float32")
    kernel = rng.normal(size=(3, 3, 8, 8)).astype("float32")
    scale, shift = rng.normal(size=(2, 8)).astype("float32")
    y = tnp.relu(tnp.conv2d(x, kernel, padding="SAME") * scale + shift)
    y = tnp.softmax(tnp.reshape(y, (256, 8)) @ rng.normal(size=(8, 8)).astype("float32"), axis=-1)
    p = tw.Graph([x], y).compile(engine=ENGINE)
    p(np.ones(x.shape, "float32"))
    nodes = [weakref.ref(n) for n in toposort([p.plan.lowered.steps[-1]])]
    assert len(nodes) > 5
    del x, y, p
    gc.collect()
    assert [n() for n in nodes if n() is not None] == []
