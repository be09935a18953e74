"""The pool of threads: every share runs once, callers never wait in vain, forks begin anew."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import tawny as tw
from tawny.engine.cpu.threads import pool as pools
from tawny.engine.cpu.threads import sleeping
from tawny.engine.cpu.threads.pool import Pool
from tawny.engine.cpu.threads.pool_code import SPINS, pool_library
from tawny.engine.cpu.threads.processors import Processors, processors
from tawny.engine.cpu.threads.shares import even_threads, useful_threads
from tawny.engine.cpu.threads.sleeping import Sleeping
from tawny.engine.llvm.runtime.library import compile_ir

COUNTING = """
define void @count(ptr %row, i64 %worker, i64 %workers) {
  %place = getelementptr i64, ptr %row, i64 %worker
  %one = atomicrmw add ptr %place, i64 1 monotonic
  %whole = getelementptr i64, ptr %row, i64 63
  %all = atomicrmw add ptr %whole, i64 %workers monotonic
  ret void
}
"""
ENTER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
WAIT = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
)
WAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def as_on_windows() -> Sleeping:
    """Functions that wait on an address and wake, by a condition of Python."""
    changed = threading.Condition()

    def word(place: int) -> int:
        return ctypes.c_int32.from_address(place).value

    def wait(place: int, held: int, size: int, milliseconds: int) -> int:
        assert (size, milliseconds) == (4, 2**32 - 1)
        with changed:
            if word(place) == word(held):
                changed.wait()
        return 1

    def wake(place: int) -> None:
        with changed:
            changed.notify_all()

    return sleeping.by_functions(WAIT(wait), WAKE(wake))


WAYS = {"own": sleeping.way_to_sleep, "condition": sleeping.condition, "address": as_on_windows}


@pytest.fixture(params=WAYS)
def make_pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    found = WAYS[request.param]()
    if found is None:
        pytest.skip("not on this system")
    monkeypatch.setattr(pools, "way_to_sleep", lambda: found)
    made: list[Pool] = []

    def make(threads: int, spins: int | None = None) -> Pool:
        pool = Pool(threads)
        pool.start()
        if spins is not None:
            pool._set(SPINS, spins)
        made.append(pool)
        return pool

    yield make
    for pool in made:
        pool.stop()


class Counter:
    """Enters a pool with a kernel that counts how often each share was run."""

    def __init__(self, pool: Pool, most: int = 1000) -> None:
        self.most = most
        self.library = compile_ir(COUNTING)
        self.state = pool.state
        self.enter = ENTER(pool_library().address("pool_enter"))
        self.row = np.zeros(64, np.int64)

    def __call__(self, times: int) -> None:
        for _ in range(times):
            self.enter(self.state, self.library.address("count"), self.row.ctypes.data, self.most)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("spins", [None, 0])
def test_every_share_runs_exactly_once(make_pool, threads: int, spins: int | None) -> None:
    count = Counter(make_pool(threads, spins))
    count(300)
    assert count.row[:threads].tolist() == [300] * threads
    assert not count.row[threads:63].any()
    assert count.row[63] == 300 * threads * threads


def test_small_work_is_cut_into_fewer_shares(make_pool) -> None:
    pool = make_pool(8, 0)
    for most in (1, 2, 3, 100, 5, 8):
        count = Counter(pool, most)
        count(200)
        shares = min(most, 8)
        assert count.row[:shares].tolist() == [200] * shares
        assert not count.row[shares:63].any()
        assert count.row[63] == 200 * shares * shares


def test_sleeping_workers_are_woken(make_pool) -> None:
    work = compile_ir(
        """
define void @meet(ptr %row, i64 %worker, i64 %workers) {
entry:
  %here = atomicrmw add ptr %row, i64 1 seq_cst
  br label %wait
wait:
  %now = load atomic i64, ptr %row seq_cst, align 8
  %both = icmp uge i64 %now, 2
  br i1 %both, label %done, label %wait
done:
  ret void
}
"""
    )
    pool = make_pool(2)
    for _ in range(3):
        time.sleep(0.02)  # far longer than a worker spins
        row = np.zeros(1, np.int64)
        ENTER(pool_library().address("pool_enter"))(
            pool.state, work.address("meet"), row.ctypes.data, 2
        )
        assert row[0] == 2, "the kernel ends only if two threads are in it at once"


def test_idle_workers_use_no_processor_time(make_pool) -> None:
    pool = make_pool(2)
    Counter(pool)(10)
    time.sleep(0.01)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.05


def test_callers_from_several_threads_share_a_pool(make_pool) -> None:
    pool = make_pool(3)
    counters = [Counter(pool) for _ in range(4)]
    threads = [threading.Thread(target=c, args=(500,)) for c in counters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for count in counters:
        alone = count.row[0] - count.row[1]  # runs in which another caller had the pool
        assert count.row[0] == 500
        assert count.row[1] == count.row[2] == 500 - alone
        assert count.row[63] == alone + 9 * (500 - alone)


def test_a_stopped_pool_still_computes(make_pool) -> None:
    pool = make_pool(3)
    count = Counter(pool)
    count(5)
    pool.stop()
    assert not [t for t in pool._workers if t.is_alive()]
    count(5)
    assert count.row[:3].tolist() == [10, 5, 5]


def test_a_pool_without_threads_computes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "way_to_sleep", lambda: None)
    pool = Pool(4)
    pool.start()
    count = Counter(pool)
    count(3)
    assert count.row[:2].tolist() == [3, 0]


def test_threads_that_cannot_be_started_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pool = Pool(3)
    pool.start()
    count = Counter(pool)
    count(7)
    assert count.row[:3].tolist() == [7, 7, 7]


# ------------------------------------------------------------- how many threads


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAWNY_THREADS", raising=False)
    assert pools.default_threads() == processors().usable_cores <= len(os.sched_getaffinity(0))
    found = Processors(logical=16, cores=8, nodes=1, quota=5.5)
    monkeypatch.setattr(pools, "processors", lambda: found)
    assert pools.default_threads() == 6
    monkeypatch.setenv("TAWNY_THREADS", "7")
    assert pools.default_threads() == 7
    for bad in ("0", "-1", "many", "2.5"):
        monkeypatch.setenv("TAWNY_THREADS", bad)
        with pytest.raises(ValueError, match=f"TAWNY_THREADS: '{bad}' is no number of threads"):
            pools.default_threads()


def test_work_that_is_cut_for_all_threads_is_done_by_a_number_that_divides_it() -> None:
    for threads in range(1, 65):
        for useful in range(2, 80):
            found = even_threads(useful, threads)
            if useful >= threads:
                assert found == useful
                continue
            most = math.ceil(threads / found)
            assert math.ceil(threads / (found - 1)) > most, "fewer would take as long"
            assert 2 <= found <= threads
            assert useful / 2 < found < 2 * useful
    table = {(14, 16): 16, (12, 16): 16, (11, 16): 8, (9, 16): 8, (5, 16): 6, (2, 16): 2, (3, 8): 3}
    assert {key: even_threads(*key) for key in table} == table


def test_small_products_have_no_thread_with_twice_the_work() -> None:
    """A product that 14 threads would be woken for, cut into 16 tasks: all 16 take part."""
    x, w = tw.var("x", (16, 256), "float32"), tw.var("w", (256, 800), "float32")
    program = tw.Graph([x, w], x @ w).compile(threads=16)
    seconds = program.plan.lowered.problem.steps[0].seconds
    assert 8 < useful_threads(seconds) < 16
    entries = program._compiled.executable._table._entries
    assert [entry.threads for entry in entries] == [16]


# -------------------------------------------------------------------- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_makes_its_own_workers() -> None:
    pool = pools.pool_of(3)
    pool.start()
    count = Counter(pool)
    count(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
    if child == 0:
        right = not pool.started
        count(1)  # alone: nobody has started the threads
        right &= count.row[:3].tolist() == [11, 10, 10]
        pool.start()
        count(5)
        right &= count.row[:3].tolist() == [16, 15, 15] and len(pool._workers) == 2
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    count(10)
    assert count.row[:3].tolist() == [20, 20, 20]


EXIT = """
import atexit, threading
from tawny.engine.cpu.threads.pool import pool_of

def late():
    print([t.name for t in threading.enumerate() if t.name.startswith("tawny-")])

atexit.register(late)
for threads in (2, 3, 5):
    pool_of(threads).start()
"""


def test_the_process_ends_cleanly() -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", EXIT],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


ALONE = """
import threading
allowed = int(sys.argv[1])
start = threading.Thread.start
def refused(thread):
    global allowed
    allowed -= 1
    if allowed < 0:
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = refused
import numpy as np, tawny as tw, tawny.numpy as tnp
weights = np.linspace(0, 1, 1500 * 1500, dtype="float32").reshape(1500, 1500)
x = tw.var("x", shape=(1500, 1500), dtype="float32")
y = tnp.sum(tnp.exp(x @ weights), axis=0)
program = tw.Graph([x], [y, x @ (weights + 1)]).compile(threads=4)
got = program(np.zeros((1500, 1500), "float32"))
assert (got[0] == 1500).all() and (got[1] == 0).all()
"""


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_a_system_without_threads_is_no_error(allowed):
    """Whatever would be done beside the caller is done by it."""
    code = "import sys\n" + ALONE
    environment = os.environ | {"TAWNY_CACHE": "off", "TAWNY_THREADS": "4"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(allowed)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
