"""Graphs built, compiled and run from several threads at once, and in processes forked meanwhile."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.numpy as np
from tawny import forking, node
from tawny.forking import ForkBarrier, fork_safe_lock
from tawny.lazy import cached_property
from tawny.node import LEAST_ENTRIES, make, remake
from tawny.op import ELEMENTWISE


def at_once(work: Callable[[int], object], threads: int = 4) -> None:
    """Call `work` with each number on a thread of its own, changing often; raise what it raises."""
    errors: list[BaseException] = []
    start = threading.Barrier(threads)

    def call(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        running = [threading.Thread(target=call, args=(n,)) for n in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]


def test_graphs_are_built_while_entries_are_swept() -> None:
    def build(number: int) -> None:
        for round_ in range(12):
            x = tw.var(shape=(3,))
            for k in range(LEAST_ENTRIES // 20):
                _ = np.sin(x * float(number + k + round_ * 1000))
            node._sweep()

    at_once(build)
    gc.collect()


def test_threads_that_make_the_same_node_get_the_same() -> None:
    variables = [tw.var(shape=(2,)).node for _ in range(300)]
    made: list[list[object]] = [[] for _ in range(4)]
    add, multiply = ELEMENTWISE["add"], ELEMENTWISE["multiply"]

    def build(number: int) -> None:
        for v in variables:
            first = make(add, (v, v))
            made[number] += [first, remake(first, (first, v)), make(multiply, (v, first))]

    at_once(build)
    for others in made[1:]:
        assert all(a is b for a, b in zip(made[0], others, strict=True))


def test_an_entry_of_a_node_that_is_gone_is_taken_over_once() -> None:
    add = ELEMENTWISE["add"]
    for _ in range(50):
        v = tw.var(shape=(2,)).node
        del_me = make(add, (v, v))
        del del_me
        found: list[object] = [None] * 3

        def build(number: int, v: Any = v, found: list[object] = found) -> None:
            found[number] = make(add, (v, v))

        at_once(build, 3)
        assert found[0] is found[1] is found[2]


def test_equal_constants_made_at_once_are_one_and_different_ones_are_not() -> None:
    made: list[list[Any]] = [[] for _ in range(4)]

    def build(number: int) -> None:
        made[number] = [node.constant(numpy.full(3, float(k))) for k in range(400)]

    at_once(build)
    for others in made:
        assert all(a is b for a, b in zip(made[0], others, strict=True))
    assert [int(n.value[0]) for n in made[0]] == list(range(400))


def test_known_arrays_are_asked_for_their_value_by_several_threads() -> None:
    for _ in range(30):
        x = np.asarray(numpy.linspace(0.0, 1.0, 5))
        chain = [x]
        for _ in range(30):
            chain.append(np.cos(chain[-1]) * 1.5)
        want = numpy.linspace(0.0, 1.0, 5)
        for _ in range(30):
            want = numpy.cos(want) * 1.5

        def ask(number: int, chain: list[Any] = chain, want: Any = want) -> None:
            _ = chain[7 * number + 5].numpy()
            numpy.testing.assert_allclose(chain[-1].numpy(), want)
            v = tw.var("v", shape=(5,))
            program = tw.Graph([v], v + chain[-1]).compile(engine="reference")
            numpy.testing.assert_allclose(program(numpy.zeros(5)), want)

        at_once(ask, 3)


def test_programs_are_compiled_and_run_by_several_threads(engine: str) -> None:
    def work(number: int) -> None:
        for k in range(1, 5):
            x = tw.var("x", shape=(k + 2, number + 3))
            p = tw.Graph([x], np.sum(np.exp(x * 0.1) @ x.T)).compile(engine=engine)
            value = numpy.arange((k + 2) * (number + 3), dtype=float).reshape(k + 2, -1)
            want = (numpy.exp(value * 0.1) @ value.T).sum()
            numpy.testing.assert_allclose(p(value), want)

    at_once(work)


# ------------------------------------------------------------------------ forks

PRELUDE = """
import os, signal, sys, threading, time, warnings
import numpy, tawny as tw, tawny.numpy as np
warnings.simplefilter("ignore", DeprecationWarning)
stop = threading.Event()

def forks(count, child):
    "Fork so often; how many children did not end well in time."
    bad = 0
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            code = 1
            try:
                child(number)
                code = 0
            finally:
                os._exit(code)
        bad += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    return bad
"""


def run_alone(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


forked = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")


@forked
def test_a_forked_process_runs_what_another_thread_was_running() -> None:
    out = run_alone("""
        x = tw.var("x", shape=(120, 120)); w = tw.var("w", shape=(120, 120))
        p = tw.Graph([x, w], np.sum(np.exp(x) @ w)).compile()
        ones = numpy.ones((120, 120)); p.set(w=ones)
        want = float(p(ones))
        def run():
            while not stop.is_set(): p(ones)
        thread = threading.Thread(target=run); thread.start()
        def child(number):
            assert abs(float(p(ones)) - want) < 1e-6 * want
        print(forks(15, child)); stop.set(); thread.join()
    """)
    assert out.split() == ["0"]


@forked
def test_a_forked_process_compiles_while_another_thread_was_compiling() -> None:
    out = run_alone(
        """
        def compiled(a, b):
            x = tw.var("x", shape=(a, b))
            return tw.Graph([x], np.sum(np.exp(x * a) @ (x.T + b))).compile()
        compiled(2, 3)(numpy.ones((2, 3)))
        def work():
            k = 0
            while not stop.is_set():
                k += 1; compiled(3 + k % 50, 4 + k // 50)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads: t.start()
        def child(number):
            shape = 60 + number, 5
            got = float(compiled(*shape)(numpy.ones(shape)))
            want = float((numpy.exp(numpy.full(shape, shape[0] * 1.0)) @ numpy.full(shape[::-1], 6.0)).sum())
            assert abs(got - want) <= 1e-9 * want
        print(forks(7, child)); stop.set()
        for t in threads: t.join()
        """,
        TAWNY_CACHE="off",
    )
    assert out.split() == ["0"]


@forked
def test_what_a_thread_that_is_gone_was_writing_has_no_value() -> None:
    out = run_alone("""
        inside, go_on = threading.Event(), threading.Event()
        def wait(v):
            inside.set(); go_on.wait(); return v
        w = tw.var("w", shape=(3,)); x = tw.var("x", shape=(3,))
        p = tw.Graph([x], [tw.delay(wait, w + x)], updates={w: w + x}).compile()
        q = tw.Graph([x], x + 1).compile()
        q.set(x=numpy.zeros(3))
        p.set(w=numpy.zeros(3))
        thread = threading.Thread(target=lambda: p(numpy.ones(3))); thread.start()
        inside.wait()
        def child(number):
            go_on.set()
            try:
                p(numpy.ones(3))
            except ValueError as error:
                assert "no value yet: 'w'" in str(error)
            else:
                raise AssertionError
            p.set(w=numpy.full(3, 5.0))
            assert p(numpy.ones(3))[0].tolist() == [6.0] * 3
            assert p.state["w"].tolist() == [6.0] * 3
            assert q.run().tolist() == [1.0] * 3
        print(forks(2, child)); go_on.set(); thread.join()
        print(p.state["w"].tolist())
    """)
    assert out.splitlines() == ["0", "[1.0, 1.0, 1.0]"]


@forked
def test_a_fork_inside_a_run_leaves_the_run_as_it_is() -> None:
    out = run_alone("""
        children = []
        def f(v):
            children.append(os.fork()); return v
        x = tw.var("x", shape=(2,))
        p = tw.Graph([x], [tw.delay(f, x) + 1.0]).compile()
        got = p(numpy.ones(2))[0].tolist()
        again = p(numpy.zeros(2))[0].tolist() if children[0] == 0 else None
        good = got == [2.0, 2.0] and again in (None, [1.0, 1.0])
        if children[0] == 0: os._exit(0 if good else 1)
        print(good, os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
    """)
    assert out.split() == ["True", "0"]


PLAIN_LOCKS = {"forking.py": 1, "__init__.py": 1, "replicas.py": 1}
"""`forking.fork_safe_lock` makes one; one is only ever tried; one is for tasks of a worker of a cluster,
whose replicas mean nothing in another process."""


def test_no_lock_would_stay_held_in_a_forked_process() -> None:
    for file in Path(tw.__file__).parent.rglob("*.py"):
        text = file.read_text()
        assert not re.search(r"functools import .*cached_property", text), file
        found = len(re.findall(r"threading\.R?Lock\(\)|(?<![\w.])R?Lock\(\)", text))
        assert found <= PLAIN_LOCKS.get(file.name, 0), file


def test_locks_are_left_alone_by_the_thread_that_holds_them() -> None:
    called: list[int] = []

    class Owner:
        def left(self) -> None:
            called.append(1)

    owner = Owner()
    own, other = fork_safe_lock(), fork_safe_lock(owner, Owner.left)
    holds, release = threading.Event(), threading.Event()

    def hold() -> None:
        with suppress(RuntimeError), other:  # it was taken away when the thread leaves it
            holds.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    with own:
        forking._free_locks()  # what a forked process calls
    assert called == [1]
    with other:
        release.set()
        thread.join()


def test_whole_work_can_begin_more_of_itself_and_forks_wait_for_it() -> None:
    whole, order = ForkBarrier(), list[str]()
    entered, waiting = threading.Event(), threading.Event()

    def work() -> None:
        with whole:
            entered.set()
            waiting.wait()
            with whole:
                order.append("inside")
            order.append("done")

    def late() -> None:
        with whole:
            order.append("late")

    thread, other = threading.Thread(target=work), threading.Thread(target=late)
    thread.start()
    entered.wait()
    threading.Timer(0.05, waiting.set).start()
    whole._before_fork()
    other.start()
    order.append("fork")
    other.join(0.05)
    whole._after_fork_in_parent()
    thread.join()
    other.join()
    assert order == ["inside", "done", "fork", "late"]
    with whole:
        whole._before_fork()
        whole._after_fork_in_child()
    assert whole._inside == 0


def test_attributes_are_computed_once_without_a_lock() -> None:
    class Owner:
        computed = 0

        @cached_property
        def value(self) -> int:
            """What it is."""
            self.computed += 1
            return 7

    owner = Owner()
    assert (owner.value, owner.value, owner.computed) == (7, 7, 1)
    assert Owner.value.__doc__ == "What it is."
    other, meeting = Owner(), threading.Barrier(2, timeout=10)

    class Slow:
        @cached_property
        def value(self) -> int:
            return meeting.wait()

    at_once(lambda _: Slow().value, 2)
    assert other.computed == 0
