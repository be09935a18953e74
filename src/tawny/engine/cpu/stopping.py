"""Stopping in the middle of a step that takes long.

Compiled code runs without Python, which therefore hears of signals only when a call returns.  A
stretch with a long step is run by a thread of its own, while the caller waits and can be
interrupted; then a cell tells the step to stop.  It is looked at before each of the pieces that the
step is cut into, and inside of products.
"""

from __future__ import annotations

import _thread
import ctypes
import threading
from contextlib import suppress
from typing import Final

from tawny.engine.atomicity import take_back
from tawny.engine.cpu.interpreter import Run
from tawny.engine.llvm.ir.builder import I64, PTR, Module
from tawny.engine.llvm.runtime.library import lazy_library

LONG_SECONDS: Final = 0.02
"""A step that is estimated to take longer can be stopped.  Estimates count bytes and operations:
for a loop of many transcendental functions they are up to 50 times too low.  To start a thread took
60 us here, which is little beside this."""

PRODUCT_FACTOR: Final = 5
"""How many times longer products may be estimated to take: never too low, and mostly ten times too
high.  In pieces those of a transformer (2 GFLOP, 4 ms on two threads) took 3 % longer."""

PIECE_SECONDS: Final = 0.002
"""What a piece of a long step is estimated to take: with that error, a tenth of a second."""

HEARD_SECONDS: Final = 0.1
"""How often the caller looks for signals that another thread took: those wake nobody."""

MOST_PIECES: Final = 2**12


@lazy_library
def pieces_library(module: Module) -> None:
    """The kernel `pieces`, which runs another one piece by piece until it is told to stop.

    Its row: that kernel, its own row, the number of pieces, the cell that tells it to stop.
    """
    with module.function("pieces", {"row": PTR, "worker": I64, "workers": I64}) as f:
        row, worker, workers = f.arguments
        kernel, own, count = f.cell(row, 0, PTR), f.cell(row, 1, PTR), f.cell(row, 2)
        stop = f.cell(row, 3, PTR)
        with f.loop(worker, count, workers) as piece:
            with f.when(f.load_atomic(I64, stop, "monotonic").differs(0)):
                f.return_()
            f.call_address(kernel, own, piece.index, count)


def pieces_of(seconds: float) -> int:
    """The number of pieces that a step of estimated `seconds` is cut into."""
    return max(1, min(int(seconds / PIECE_SECONDS), MOST_PIECES))


class InterruptibleRun:
    """Interprets calls so that they are stopped when Python is interrupted."""

    def __init__(self, interpret: Run, stop: int) -> None:
        """`stop` is the address of the cell that tells the steps to stop."""
        self._interpret = interpret
        self._stop = ctypes.c_int64.from_address(stop)

    def __call__(self, call: int, /) -> int:
        """Run a call; where Python is interrupted, stop it and raise what was raised.

        Signals come to the main thread alone: in another one the call is made as it is.
        """
        if _thread.get_ident() != threading.main_thread().ident:
            return self._interpret(call)
        waiting, ran, over = [call], list[int](), _thread.allocate_lock()
        over.acquire()

        def work() -> None:
            with suppress(IndexError):  # taken back before the thread began
                ran.append(self._interpret(waiting.pop()))
            over.release()

        try:
            _thread.start_new_thread(work, ())
            while not over.acquire(timeout=HEARD_SECONDS):
                pass
        except BaseException as error:
            if not (waiting and take_back(waiting)):
                self._end(over, ran)
            elif isinstance(error, RuntimeError):  # the system has no thread left
                return self._interpret(call)
            raise
        return ran[0]

    def _end(self, over: _thread.LockType, ran: list[int]) -> None:
        """Stop what runs, and wait until it has, whatever else comes meanwhile."""
        self._stop.value = 1
        while not ran:  # what comes may hide that the lock was taken
            with suppress(BaseException):
                over.acquire()
        self._stop.value = 0
