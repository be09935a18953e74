"""Random programs and what must hold for them, whatever the engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from memory_checks import assert_apart
from poisoned import Poisoned
from tawny.engine.protocol import Executable, Task
from tawny.engine.reference import run

UNARY = (
    tnp.sin,
    tnp.exp,
    tnp.negative,
    tnp.transpose,
    lambda a: a[::-1],
    lambda a: tnp.reshape(a, (9,))[:9].reshape(3, 3),
    lambda a: a - tnp.mean(a, axis=-1, keepdims=True),
)
BINARY = (
    tnp.add,
    tnp.multiply,
    tnp.subtract,
    tnp.maximum,
    tnp.matmul,
    lambda a, b: a + tnp.sum(b, axis=0),
)


@st.composite
def programs(draw: st.DrawFn):
    """A random graph over three variables, its outputs and updates."""
    variables = [tw.var(n, shape=(3, 3)) for n in "abc"]
    pool = list(variables)
    for _ in range(draw(st.integers(1, 14))):
        pick = st.sampled_from(pool)
        if draw(st.booleans()):
            pool.append(draw(st.sampled_from(UNARY))(draw(pick)))
        else:
            pool.append(draw(st.sampled_from(BINARY))(draw(pick), draw(pick)) * 0.25)
    outputs = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
    targets = draw(st.lists(st.sampled_from(variables), max_size=2, unique_by=id))
    return variables, outputs, {t: tnp.tanh(draw(st.sampled_from(pool))) for t in targets}


def check_against_fresh_evaluation(engine: str, program, data: st.DataObject) -> None:
    """After any changes of inputs the outputs and updates are those of a fresh evaluation."""
    variables, outputs, updates = program
    often = data.draw(st.lists(st.sampled_from(variables), max_size=2, unique_by=id))
    incremental = data.draw(st.booleans())
    graph = tw.Graph(variables, outputs, updates=updates)
    p = graph.compile(
        engine=engine, often=often, incremental=incremental, optimise=data.draw(st.booleans())
    )
    state = {v.name: np.full((3, 3), i + 1.0) / 8 for i, v in enumerate(variables)}
    p.set(**state)
    for _ in range(4):
        for name in data.draw(st.lists(st.sampled_from("abc"), max_size=2, unique=True)):
            state[name] = np.asarray(
                data.draw(st.lists(st.floats(-1, 1), min_size=9, max_size=9))
            ).reshape(3, 3)
            p.set(**{name: state[name]})
        feeds = {v.node: state[v.name] for v in variables}
        expected = run([o.node for o in outputs], feeds)
        after = run([e.node for e in updates.values()], feeds)
        for got, want in zip(p.run(), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
        for target, value in zip(updates, after, strict=True):
            state[target.name] = value
            np.testing.assert_allclose(p.state[target.name], value, rtol=1e-9, atol=1e-12)
            p.set(**{target.name: value})


def check_within_a_budget(engine: str, program, data: st.DataObject) -> None:
    """A program within a budget gives what one without gives, and a least budget can be met."""
    variables, outputs, updates = program
    graph = tw.Graph(variables, outputs, updates=updates)
    free = graph.compile(engine=engine)
    try:
        graph.compile(engine=engine, memory=0)
        least = 0
    except tw.MemoryBudgetError as error:
        least = error.least_bytes
    budget = data.draw(
        st.sampled_from(sorted({least, (least + free.plan.peak_bytes) // 2, free.plan.peak_bytes}))
    )
    p = graph.compile(engine=engine, memory=budget)
    assert p.plan.peak_bytes <= budget
    state = {v.name: np.linspace(i, i + 1, 9).reshape(3, 3) / 4 for i, v in enumerate(variables)}
    p.set(**state)
    free.set(**state)
    for name in ("a", "c", "b"):
        for got, want in zip(p.run(), free.run(), strict=True):
            np.testing.assert_array_equal(got, want)
        value = {name: np.cos(state[name])}
        p.set(**value)
        free.set(**value)


def check_poisoned(
    engine: str, program, data: st.DataObject, prepare: Callable[[Task], Executable] | None = None
) -> None:
    """Memory that nobody should read again may hold anything; `prepare` makes what runs it."""
    variables, outputs, updates = program
    graph = tw.Graph(variables, outputs, updates=updates)
    options = {"incremental": data.draw(st.booleans()), "optimise": data.draw(st.booleans())}
    plain, poisoned = (graph.compile(engine=engine, **options) for _ in range(2))
    layout = poisoned.plan.layout
    assert_apart((s.bytes, s.birth, s.death, offset) for s, offset in layout.placed_storages)
    assert layout.schedule.peak <= layout.bound <= layout.arena
    compiled = poisoned._compiled
    inner = compiled.executable if prepare is None else prepare(compiled.task)
    compiled.__dict__["executable"] = Poisoned(inner, compiled.task)
    for p in (plain, poisoned):
        p.set(
            **{v.name: np.linspace(i, i + 1, 9).reshape(3, 3) / 8 for i, v in enumerate(variables)}
        )
    for name in ("a", "b"):
        for got, want in zip(poisoned.run(), plain.run(), strict=True):
            np.testing.assert_array_equal(got, want)
        for p in (plain, poisoned):
            p.set(**{name: np.full((3, 3), 0.25)})


def check_steps(engine: str, program, data: st.DataObject) -> None:
    """Many steps in one call are runs one after the other."""
    variables, outputs, updates = program
    graph = tw.Graph(variables, outputs, updates=updates)
    options = {"incremental": data.draw(st.booleans()), "optimise": data.draw(st.booleans())}
    at_once, one_by_one = (graph.compile(engine=engine, **options) for _ in range(2))
    rng = np.random.default_rng(0)
    for x in graph.variables:
        value = rng.integers(1, 3, x.shape).astype(x.dtype)
        at_once.set(**{x.name: value})
        one_by_one.set(**{x.name: value})
    for steps in (data.draw(st.integers(1, 4)), 2):
        with np.errstate(all="ignore"):
            got = at_once.run(steps)
            for _ in range(steps):
                want = one_by_one.run()
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
        for name, value in one_by_one.state.items():
            np.testing.assert_array_equal(at_once.state[name], value, name)
        assert at_once.draw == one_by_one.draw
    executed, reused = ([[a.node for a in getattr(p.last_run, name)] for p in (at_once, one_by_one)]
                        for name in ("executed", "reused"))  # fmt: skip
    assert executed[0] == executed[1]
    assert reused[0] == reused[1]
