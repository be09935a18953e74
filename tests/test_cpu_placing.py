"""Threads are woken apart from their wakers, and may run everywhere again once they do."""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tawny.engine.cpu.threads import placing, pool
from tawny.engine.cpu.threads.placing import FREE, STATE, Places, way_to_place
from tawny.engine.cpu.threads.processors import Processors

WAY = way_to_place()
pytestmark = pytest.mark.skipif(
    WAY is None or len(os.sched_getaffinity(0)) < 2, reason="threads cannot be parted here"
)
PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
SETTLE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class Sleeper:
    """A thread that runs what it is given, one thing after another."""

    def __init__(self) -> None:
        self._task: Callable[[], object] | None = None
        self._given, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._live)
        self.thread.start()

    @property
    def number(self) -> int:
        assert self.thread.native_id is not None
        return self.thread.native_id

    def _live(self) -> None:
        while True:
            self._given.acquire()
            if self._task is None:
                return
            self._task()
            self._done.release()

    def run(self, task: Callable[[], object]) -> None:
        self._task = task
        self._given.release()
        self._done.acquire()

    def end(self) -> None:
        self._task = None
        self._given.release()
        self.thread.join()


@pytest.fixture
def sleepers() -> Iterator[list[Sleeper]]:
    made = [Sleeper() for _ in range(3)]
    yield made
    for sleeper in made:
        sleeper.end()


@pytest.fixture
def here() -> Iterator[Callable[[int], None]]:
    """Moves this thread to a processor, and lets it go where it was in the end."""
    allowed = os.sched_getaffinity(0)
    yield lambda processor: os.sched_setaffinity(0, {processor})
    os.sched_setaffinity(0, allowed)


def places_of(threads: list[int]) -> Places:
    assert WAY is not None
    places = WAY.places(len(threads))
    places.admit(threads)
    return places


def part(places: Places) -> None:
    assert WAY is not None
    PART(WAY.part)(places.address)


def settle(places: Places, number: int) -> None:
    assert WAY is not None
    SETTLE(WAY.settle)(places.address, number)


def test_the_waker_keeps_its_processor_for_itself(sleepers, here) -> None:
    allowed = os.sched_getaffinity(0)
    places = places_of([s.number for s in sleepers])
    for processor in sorted(allowed)[:2]:  # the second time they are not settled in between
        here(processor)
        part(places)
        assert [os.sched_getaffinity(s.number) for s in sleepers] == [allowed - {processor}] * 3
    for number, sleeper in enumerate(sleepers):
        sleeper.run(lambda number=number: settle(places, number))
    assert [os.sched_getaffinity(s.number) for s in sleepers] == [allowed] * 3


def test_a_thread_keeps_the_processors_it_was_given(sleepers, here) -> None:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    sleeper = sleepers[0]
    os.sched_setaffinity(sleeper.number, {first})
    places = places_of([sleeper.number])
    for processor in (second, first):  # where it must stay; where it may only stay
        here(processor)
        part(places)
        assert os.sched_getaffinity(sleeper.number) == {first}
        sleeper.run(lambda: settle(places, 0))
        assert os.sched_getaffinity(sleeper.number) == {first}


def test_settling_undoes_only_what_a_waker_did(sleepers, here) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    sleeper = sleepers[0]
    places = places_of([sleeper.number])
    os.sched_setaffinity(sleeper.number, {allowed[0]})
    sleeper.run(lambda: settle(places, 0))
    assert os.sched_getaffinity(sleeper.number) == {allowed[0]}


@pytest.mark.parametrize("number", [-1, 2**30])
def test_what_is_no_thread_is_left_alone(here, number: int) -> None:
    allowed = os.sched_getaffinity(0)
    places = places_of([number])
    part(places)
    assert ctypes.c_int32.from_address(places._records + STATE).value == FREE
    settle(places, 0)
    assert os.sched_getaffinity(0) == allowed


def test_workers_of_a_pool_wake_apart_and_settle(here, monkeypatch) -> None:
    made: list[Places] = []

    class Noted(placing.Placing):
        def places(self, most: int) -> Places:
            made.append(super().places(most))
            return made[-1]

    assert WAY is not None
    monkeypatch.setattr(pool, "way_to_place", lambda: Noted(WAY.functions))
    monkeypatch.setattr(pool, "processors", lambda: Processors(2, 2, 1, math.inf))
    allowed = os.sched_getaffinity(0)
    threads = pool.Pool(2)
    threads.start()
    try:
        (worker,) = threads._workers
        (places,) = made
        time.sleep(0.05)  # it sleeps
        here(min(allowed))
        part(places)
        assert os.sched_getaffinity(worker.native_id) == allowed - {min(allowed)}
        deadline = time.monotonic() + 5
        while os.sched_getaffinity(worker.native_id) != allowed and time.monotonic() < deadline:
            _enter(threads)
            time.sleep(0.01)
        assert os.sched_getaffinity(worker.native_id) == allowed
    finally:
        threads.stop()


@pytest.mark.parametrize(("count", "usable"), [(2, 1), (pool.MOST_PARTED + 1, 64)])
def test_too_many_threads_stay_where_they_are(monkeypatch, count: int, usable: int) -> None:
    """More than there are processors, or than a caller has the time to care for."""
    monkeypatch.setattr(pool, "processors", lambda: Processors(usable, usable, 1, math.inf))
    monkeypatch.setattr(pool, "way_to_place", lambda: pytest.fail("nobody is to be parted"))
    threads = pool.Pool(count)
    threads.start()
    threads.stop()


def _enter(threads: pool.Pool) -> None:
    """Give the pool work that does nothing."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    nothing = function(lambda row, worker, workers: None)
    enter = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )
    enter(pool.pool_library().address("pool_enter"))(
        threads.state, ctypes.cast(nothing, ctypes.c_void_p).value, None, 2
    )
