"""The threads that share the work of a step.

Workers are Python threads that stay inside compiled code, without the interpreter lock.  Each waits
for the next piece of work: it spins for a moment, then sleeps until it is woken.
There is one pool for each number of threads; it is made when it is first used, and made anew in a
process that was forked.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
import time
from collections.abc import Sequence
from typing import Final, final

from tawny.engine.cpu.threads.placing import Places, way_to_place
from tawny.engine.cpu.threads.pool_code import (
    BUSY,
    ENTER,
    MEANS,
    MOST_THREADS,
    PART,
    PENDING,
    PLACES,
    SETTLE,
    SLEEP,
    SLEEPING,
    SPINS,
    STATE_BYTES,
    STOP,
    THREADS,
    TICKET,
    WAITING,
    WAKE,
    pool_library,
)
from tawny.engine.cpu.threads.processors import processors
from tawny.engine.cpu.threads.sleeping import Sleeping, allocate_zeros, way_to_sleep
from tawny.engine.llvm.runtime.library import Library
from tawny.errors import value_error
from tawny.forking import fork_safe_lock
from tawny.settings import read_setting
from tawny.unique import Unique

SPIN_SECONDS: Final = 50e-6
"""How long a thread spins before it sleeps: longer than most gaps between two pieces of work."""

MOST_PARTED: Final = 8
"""Threads of larger pools are not kept apart: their caller would do nothing else for too long."""

JOIN_SECONDS: Final = 5.0
"""How long the end of the process waits for a worker that is still at work."""


@final
class Pool(Unique):
    """Threads that run a kernel together; `state` is its memory, which compiled code knows.

    That memory is never freed: threads may outlive every Python object.
    """

    def __init__(self, threads: int) -> None:
        self.threads = min(threads, MOST_THREADS)
        self.started = False
        self.state = allocate_zeros(STATE_BYTES)
        self._workers: list[threading.Thread] = []
        self._sleeping: Sleeping | None = None
        self._set(ENTER, pool_library().address("pool_enter"))
        self._set(THREADS, 1)

    def start(self) -> None:
        """Make the workers; where they could not sleep, the caller works alone."""
        with _lock:
            if not self.started:
                self.started = True
                self._start()

    def _start(self) -> None:
        sleeping = way_to_sleep()
        if self.threads == 1 or sleeping is None:
            return
        library, self._sleeping = pool_library(), sleeping
        self._set(SLEEP, sleeping.sleep)
        self._set(WAKE, sleeping.wake)
        self._set(MEANS, _cells_of(sleeping.cells()))
        self._set(SPINS, _spins(library) if self.threads <= processors().usable else 0)
        self._set(THREADS, self.threads)
        parted = self.threads <= min(processors().usable, MOST_PARTED)
        places = self._places() if parted else None
        self._workers = _start_workers(library.address("pool_work"), self.state, self.threads)
        if places is not None:
            places.admit([worker.native_id or -1 for worker in self._workers])

    def _places(self) -> Places | None:
        """What wakes workers apart from their caller, where the system can do that."""
        placing = way_to_place()
        if placing is None:
            return None
        places = placing.places(self.threads - 1)
        for field, value in (
            (PART, placing.part),
            (SETTLE, placing.settle),
            (PLACES, places.address),
        ):
            self._set(field, value)
        return places

    def stop(self) -> None:
        """Let the workers return; from then on the caller works alone."""
        stop = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(
            pool_library().address("pool_stop")
        )
        deadline = time.monotonic() + JOIN_SECONDS
        while self._workers and not stop(self.state):
            if time.monotonic() > deadline:
                return
            time.sleep(1e-3)
        self._set(THREADS, 1)
        for worker in self._workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        self._workers = []

    def forget(self) -> None:
        """Begin anew, in a process that has the memory but not the workers."""
        for field in (TICKET, SLEEPING, PENDING, WAITING, BUSY, STOP, PLACES):
            self._set(field, 0)
        self._set(THREADS, 1)
        self._workers = []
        self.started = False

    def _set(self, field: int, value: int) -> None:
        ctypes.c_int64.from_address(self.state + field).value = value


def _cells_of(cells: Sequence[int]) -> int:
    """The address of cells that hold these numbers."""
    start = allocate_zeros(8 * len(cells))
    for place, number in enumerate(cells):
        ctypes.c_int64.from_address(start + 8 * place).value = number
    return start


def _start_workers(work: int, state: int, threads: int) -> list[threading.Thread]:
    """Workers, as many as the system allows."""
    loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(work)
    workers: list[threading.Thread] = []
    for number in range(1, threads):
        given, name = (state, number - 1), f"tawny-{number}"
        worker = threading.Thread(target=loop, args=given, name=name, daemon=True)
        try:
            worker.start()
        except RuntimeError:
            break
        workers.append(worker)
    return workers


def _spins(library: Library) -> int:
    """How many turns of the spinning loop take `SPIN_SECONDS`."""
    turns = 300
    spin = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address("pool_spin"))
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        spin(turns)
        best = min(best, time.perf_counter() - start)
    return int(SPIN_SECONDS / best * turns)


# ------------------------------------------------------------- how many threads

NOMINAL_THREADS: Final = 2
"""The number of threads that steps, their order and bands are chosen for, whatever the number of
those that run them.  All figures of this project were measured on as many."""


def default_threads() -> int:
    """`TAWNY_THREADS`, or as many as there are cores to use."""
    named = read_setting("TAWNY_THREADS")
    if not named:
        return processors().usable_cores
    if not named.isdecimal() or int(named) < 1:
        raise value_error("TAWNY_THREADS", f"{named!r} is no number of threads: 1 or more")
    return int(named)


# ------------------------------------------------------------------- the pools

_POOLS: Final[dict[tuple[int, int], Pool]] = {}
_lock: Final = fork_safe_lock()


def pool_of(threads: int, team: int = 0) -> Pool:
    """The pool of a number of threads, which are not started yet; each team has its own."""
    with _lock:
        if (threads, team) not in _POOLS:
            if not _POOLS:
                atexit.register(_stop)
            _POOLS[threads, team] = Pool(threads)
        return _POOLS[threads, team]


def _stop() -> None:
    """Before the process ends, while what the workers run is still there."""
    for pool in _POOLS.values():
        pool.stop()


def _forget() -> None:
    """A forked process has none of the threads."""
    for pool in _POOLS.values():
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
