"""What the processor does at best: multiply-adds in registers, large arrays that are copied."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from operator import index
from time import perf_counter
from typing import Final

import numpy as np
import numpy.typing as npt

from tawny.dtype import FLOAT32, FLOAT64, DType
from tawny.engine.cpu.kernels.element import Element, element_of
from tawny.engine.cpu.kernels.kernel import KERNEL
from tawny.engine.cpu.kernels.workshare import grain_share
from tawny.engine.cpu.threads.pool import pool_of
from tawny.engine.cpu.threads.pool_code import pool_library
from tawny.engine.llvm.ir.builder import PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.protocol import Rates
from tawny.pages import empty_aligned

Cells = npt.NDArray[np.int64]

CHAINS: Final = 12
"""Sums that multiply-adds go on with in turn: more than are under way at once in any processor of
today, and few enough for registers."""

REPEATS: Final = 4
"""Multiply-adds of each chain in a turn of the loop."""

TURNS: Final = 2**15
"""Turns of the loop that are timed together, about a third of a millisecond."""

STREAM_BYTES: Final = 2**26
"""Bytes of an array that is copied: more than caches hold."""

SECONDS: Final = 0.15
"""What each measurement takes."""

LEAST_TIMES: Final = 3
"""How often something is timed at least."""

GRAIN: Final = 2**10
"""Elements of which workers of a stream do whole multiples."""


def _element(dtype: DType) -> Element:
    element = element_of(dtype)
    assert element is not None
    return element


@lazy_library
def _chains(module: Module, dtype: DType) -> None:
    """`chains`: multiply-adds that depend on registers alone; the row has turns, sums, a factor."""
    element = _element(dtype)
    with module.function("chains", KERNEL) as f:
        row, worker, _ = f.arguments
        turns, sums = f.cell(row, 0), f.cell(row, 1, PTR)
        own = f.offset(sums, worker * (CHAINS * element.vector_bytes))
        places = [f.offset(own, i * element.vector_bytes) for i in range(CHAINS)]
        factor = f.splat(f.load(element.computed, f.cell(row, 2, PTR)), element.lanes)
        with f.loop(0, turns, carried=[f.load(element.vector, p) for p in places]) as loop:
            values = loop.carried
            for _ in range(REPEATS):
                values = [f.fma(value, factor, factor) for value in values]
            loop.carry(*values)
        for value, place in zip(loop.carried, places, strict=True):
            f.store(value, place)


@lazy_library
def _streams(module: Module) -> None:
    """`copy` and `triad` of arrays of float32; the row has their places and their length."""
    element = _element(FLOAT32)
    for name in ("copy", "triad"):
        with module.function(name, KERNEL) as f:
            _write_stream(f, element, is_copy=name == "copy")


def _write_stream(f: Function, element: Element, *, is_copy: bool) -> None:
    row, worker, workers = f.arguments
    made, left, right = (f.cell(row, number, PTR) for number in range(3))
    low, high = grain_share(f, f.cell(row, 3), worker, workers, GRAIN)

    def value(place: Value) -> Value:
        x = f.load(element.vector, f.element(left, place, element.computed))
        if is_copy:
            return x
        y = f.load(element.vector, f.element(right, place, element.computed))
        return f.fma(y, 3.0, x)

    with f.loop(low, high, element.lanes) as loop:
        f.store(value(loop.index), f.element(made, loop.index, element.computed))


def measure_rates(threads: int) -> Rates:
    """The rates of a number of threads together."""
    pool = pool_of(threads)
    pool.start()
    size = STREAM_BYTES // FLOAT32.itemsize
    arrays = [empty_aligned((size,), FLOAT32) for _ in range(3)]
    for array in arrays:
        array[:] = 1.0
    cells = np.array([*(a.ctypes.data for a in arrays), size], np.int64)
    return Rates(
        _multiply_adds(FLOAT32, threads),
        _multiply_adds(FLOAT64, threads),
        2 * STREAM_BYTES / _time(_call(_streams().address("copy"), cells, threads)),
        3 * STREAM_BYTES / _time(_call(_streams().address("triad"), cells, threads)),
    )


def _multiply_adds(dtype: DType, threads: int) -> float:
    """Operations a second; a multiply-add is two."""
    element = _element(dtype)
    sums = empty_aligned((threads * CHAINS * element.lanes,), dtype)
    sums[:] = 0.25
    factor = np.full(1, 0.5, dtype)
    cells = np.array([TURNS, sums.ctypes.data, factor.ctypes.data], np.int64)
    seconds = _time(_call(_chains(dtype).address("chains"), cells, threads))
    return 2 * threads * TURNS * CHAINS * REPEATS * element.lanes / seconds


def _call(kernel: int, cells: Cells, threads: int) -> Callable[[], object]:
    """A call of a kernel by all threads."""
    enter = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(
        pool_library().address("pool_enter")
    )
    given = pool_of(threads).state, kernel, index(cells.ctypes.data), threads
    return lambda: enter(*given)


def _time(call: Callable[[], object]) -> float:
    """The least time of a call."""
    call()
    times: list[float] = []
    end = perf_counter() + SECONDS
    while len(times) < LEAST_TIMES or perf_counter() < end:
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)
