"""The compiled part of the pool: what workers and callers do, and the memory they share."""

from __future__ import annotations

import sys
from typing import Final

from tawny.engine.llvm.ir.builder import I32, I64, PTR, VOID, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library

LINE: Final = 64
"""Bytes of a cache line: what different threads write is kept that far apart."""

TICKET, TASK, SLEEPING, PENDING, WAITING, BUSY, FIXED = range(0, 7 * LINE, LINE)
"""Where the pool's memory holds what: the ticket, the work itself, how many workers sleep, how many
shares are not done, whether the caller sleeps, whether a caller has the pool, and what is set by
Python alone.  The ticket is one number: that of the newest piece of work in its upper half, then
how many shares it has, and in the lowest 16 bits the number of its next share."""

EPOCH: Final = TICKET + 4 * (sys.byteorder == "little")
"""The upper half of the ticket: the number of the work, for which workers wait."""

FUNCTION, ROW = TASK, TASK + 8
ENTER, THREADS, SPINS, SLEEP, WAKE, MEANS, STOP = range(FIXED, FIXED + 56, 8)
PLACES, PART, SETTLE = range(FIXED + LINE, FIXED + LINE + 24, 8)
"""What parts threads, and the functions that do; null where threads stay where they are."""

STATE_BYTES: Final = FIXED + 2 * LINE

MOST_THREADS: Final = 2**15
"""Numbers of shares fit into 16 bits."""

_SHARE_BITS: Final = 16
_MOST_SHARES: Final = 2**_SHARE_BITS - 1

_ALL: Final = 2**31 - 1
"""Wakes everybody."""


@lazy_library
def pool_library(module: Module) -> None:
    """The functions of the pool."""
    _write_system(module)
    _write_changed(module)
    _write_claimed(module)
    with module.function("pool_work", {"pool": PTR, "own": I64}) as f:
        _PoolWriter(f).work(f.arguments[1])
    given = {"pool": PTR, "kernel": PTR, "cells": PTR, "most": I64}
    with module.function("pool_enter", given) as f:
        _PoolWriter(f).enter(*f.arguments[1:])
    with module.function("pool_stop", {"pool": PTR}, I32) as f:
        _PoolWriter(f).stop()
    with module.function("pool_spin", {"turns": I64}) as f, f.loop(0, f.arguments[0]):
        f.pause()


def _write_system(module: Module) -> None:
    """`system`: sleep while the word at a place is a number, or wake that number of sleepers."""
    given = {"pool": PTR, "which": I64, "place": PTR, "number": I32}
    with module.function("system", given, internal=True, attributes="noinline") as f:
        pool, which, place, number = f.arguments
        function = f.load(PTR, f.offset(pool, which))
        f.call_address(function, f.load(PTR, f.offset(pool, MEANS)), place, number)


def _write_changed(module: Module) -> None:
    """`changed`: wait until the word at a place is not a value: spin, then sleep; gives the word.

    Sleepers are counted.
    """
    given = {"pool": PTR, "place": PTR, "value": I32, "sleepers": PTR}
    with module.function("changed", given, I32, internal=True, attributes="noinline") as f:
        pool, place, value, sleepers = f.arguments
        spins, one = f.load(I64, f.offset(pool, SPINS)), f.constant(I32, 1)

        def spin(turn: Value) -> list[Value]:
            f.pause()
            return [turn + 1]

        def sleep() -> list[Value]:
            f.update_atomic("add", sleepers, one, "seq_cst")
            f.call("system", VOID, pool, f.constant(I64, SLEEP), place, value)
            f.update_atomic("sub", sleepers, one, "seq_cst")
            return [f.constant(I64, 0)]

        def wait(turn: Value) -> list[Value]:
            return f.either(turn.unsigned_below(spins), lambda: spin(turn), sleep)

        with f.repeat(f.constant(I64, 0)) as look:
            turn, now = look.carried[0], f.load_atomic(I32, place, "acquire")
            same = now.equals(value)
            look.again(same, *f.either(same, lambda: wait(turn), lambda: [turn]))
        f.return_(now)


def _write_claimed(module: Module) -> None:
    """`claimed`: take the next share of the work in hand; gives the ticket, -1 if none is left."""
    given = {"ticket": PTR}
    with module.function("claimed", given, I64, internal=True, attributes="alwaysinline") as f:
        (ticket,) = f.arguments
        with f.repeat(f.load_atomic(I64, ticket, "acquire")) as ask:
            (seen,) = ask.carried
            with f.when(~_share(seen).unsigned_below(_shares(seen))):
                f.return_(f.constant(I64, -1))
            found, mine = f.replace_atomic(ticket, seen, seen + 1, "acq_rel", "acquire")
            ask.again(~mine, found)
        f.return_(seen)


def _share(ticket: Value) -> Value:
    return ticket & _MOST_SHARES


def _shares(ticket: Value) -> Value:
    return ticket.shifted_down(_SHARE_BITS) & _MOST_SHARES


class _PoolWriter:
    """Writes a function whose first argument is the pool's memory."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.pool = f.arguments[0]

    def field(self, offset: int) -> Value:
        """Where a field of the pool lies."""
        return self.f.offset(self.pool, offset)

    def work(self, own: Value) -> None:
        """What a worker does all its life.

        A share it has taken is not over before it says so, and only then may the caller change the
        work: so the work is read after the share is taken.
        """
        f = self.f
        with f.repeat(f.constant(I32, 0)) as life:
            number = self._wait(EPOCH, life.carried[0], SLEEPING)
            self._with_places(SETTLE, own)
            going = f.load(I64, self.field(STOP)).equals(0)
            with f.when(going), f.repeat() as look:
                taken = self._claim()
                found = taken.differs(-1)
                with f.when(found):
                    kernel, cells = (f.load(PTR, self.field(n)) for n in (FUNCTION, ROW))
                    f.call_address(kernel, cells, _share(taken), _shares(taken))
                    with f.when(self._finish_share("seq_cst")):
                        self._tell(PENDING, WAITING, 1)
                look.again(found)
            life.again(going, number)

    def enter(self, kernel: Value, cells: Value, most: Value) -> None:
        """Run a kernel in `most` shares or fewer; alone, if another caller has the pool just now.

        The caller takes shares too, and those of workers that are not awake, so it waits for nobody
        who has not begun.
        """
        f = self.f
        threads = f.load(I64, self.field(THREADS))
        shares = f.intrinsic("umin", I64, threads, most)
        with f.when(shares.unsigned_below(2)):
            self._run_alone(kernel, cells)
        with f.when(~self._occupy()):
            self._run_alone(kernel, cells)
        self._open(kernel, cells, shares)
        with f.repeat(f.constant(I64, 0)) as work:
            f.call_address(kernel, cells, work.carried[0], shares)
            with f.when(self._finish_share("acq_rel")):
                self._leave()
            taken = self._claim()
            work.again(taken.differs(-1), _share(taken))
        with f.repeat() as join:
            missing = f.load_atomic(I32, self.field(PENDING), "acquire")
            waits = missing.differs(0)
            with f.when(waits):
                self._wait(PENDING, missing, WAITING)
            join.again(waits)
        self._leave()

    def stop(self) -> None:
        """Let every worker return; gives whether the pool was free to do so."""
        f = self.f
        with f.when(~self._occupy()):
            f.return_(f.constant(I32, 0))
        f.store(f.constant(I64, 1), self.field(STOP))
        f.update_atomic("add", self.field(EPOCH), f.constant(I32, 1), "seq_cst")
        self._tell(EPOCH, SLEEPING, _ALL)
        f.return_(f.constant(I32, 1))

    # ---------------------------------------------------------------------- parts

    def _occupy(self) -> Value:
        """Have the pool, unless another caller has it; whether this one does."""
        free, taken = (self.f.constant(I32, n) for n in (0, 1))
        return self.f.replace_atomic(self.field(BUSY), free, taken, "acquire", "monotonic")[1]

    def _leave(self) -> None:
        """Let other callers have the pool, and return."""
        self.f.store_atomic(self.f.constant(I32, 0), self.field(BUSY), "release")
        self.f.return_()

    def _run_alone(self, kernel: Value, cells: Value) -> None:
        """Run a kernel in one share, and return."""
        self.f.call_address(kernel, cells, *[self.f.constant(I64, n) for n in (0, 1)])
        self.f.return_()

    def _open(self, kernel: Value, cells: Value, shares: Value) -> None:
        """Offer work, its first share taken, and wake those who sleep."""
        f = self.f
        f.store(kernel, self.field(FUNCTION))
        f.store(cells, self.field(ROW))
        every = f.convert("trunc", shares, I32)
        f.store_atomic(every, self.field(PENDING), "monotonic")
        last = f.load_atomic(I64, self.field(TICKET), "monotonic")
        number = (last.shifted_down(32) + 1) << 32
        f.store_atomic(number | (shares << _SHARE_BITS) | 1, self.field(TICKET), "seq_cst")
        with f.when(f.load_atomic(I32, self.field(SLEEPING), "seq_cst").differs(0)):
            self._with_places(PART)
            self._call_system(WAKE, EPOCH, every - 1)

    def _claim(self) -> Value:
        """Take a share; the ticket, -1 if none is left."""
        return self.f.call("claimed", I64, self.field(TICKET))

    def _finish_share(self, order: str) -> Value:
        """Say that a share is done; whether it was the last one."""
        one = self.f.constant(I32, 1)
        return self.f.update_atomic("sub", self.field(PENDING), one, order).equals(1)

    def _wait(self, place: int, value: Value, sleepers: int) -> Value:
        """Wait until a word is not `value`; the word."""
        given = self.pool, self.field(place), value, self.field(sleepers)
        return self.f.call("changed", I32, *given)

    def _tell(self, place: int, sleepers: int, most: int) -> None:
        """Tell some who sleep that a word has changed."""
        asleep = self.f.load_atomic(I32, self.field(sleepers), "seq_cst")
        with self.f.when(asleep.differs(0)):
            self._call_system(WAKE, place, self.f.constant(I32, most))

    def _call_system(self, which: int, place: int, number: Value) -> None:
        given = self.pool, self.f.constant(I64, which), self.field(place), number
        self.f.call("system", VOID, *given)

    def _with_places(self, which: int, *given: Value) -> None:
        """Call one of the functions that part threads, where they are parted."""
        f = self.f
        places = f.load(PTR, self.field(PLACES))
        with f.when(places.differs(0)):
            f.call_address(f.load(PTR, self.field(which)), places, *given)
