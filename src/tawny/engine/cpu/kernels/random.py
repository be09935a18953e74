"""Kernels of random draws; the numbers are those of `engine/llvm/scalar/philox`."""

from __future__ import annotations

from typing import Final

from tawny.dtype import DType
from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    PTR,
    Function,
    Module,
    Type,
    Value,
)
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.numbers import storage_type
from tawny.engine.llvm.scalar.philox import (
    draw_words,
    high_product,
    normal,
    random_bits,
    uniform,
    widen,
)

SHARED_ELEMENTS: Final = 1 << 13
"""Elements from which threads share the work; see `workshare`."""


def uniform_kernel(count: int, dtype: DType, key: tuple[int, int]) -> CompiledKernel:
    """The kernel of numbers from 0 up to but not including 1; its last parameter is the run."""
    return _kernel("uniform", count, dtype, key)


def normal_kernel(count: int, dtype: DType, key: tuple[int, int]) -> CompiledKernel:
    """The kernel of normally distributed numbers; its last parameter is the run."""
    return _kernel("normal", count, dtype, key)


def integers_kernel(count: int, dtype: DType, key: tuple[int, int]) -> CompiledKernel:
    """The kernel of integers from one operand's only element to another's, both included.

    Its last parameter is set if there are none, the one before it is the run.
    """
    library, shared = _integers_library(dtype), count > SHARED_ELEMENTS
    return CompiledKernel(library, "draw", (count, *key, 0, 0), shared, 0)


def _kernel(kind: str, count: int, dtype: DType, key: tuple[int, int]) -> CompiledKernel:
    stored = storage_type(dtype)
    parameters = (count, *key, 0)
    return CompiledKernel(_library(kind, stored), "draw", parameters, count > SHARED_ELEMENTS, 0)


@lazy_library
def _library(module: Module, kind: str, stored: Type) -> None:
    """A loop over blocks of a vector's elements, and what is left."""
    number = F64 if stored == F64 else F32
    lanes = host().vector_bytes // number.nbytes
    with module.function(
        "numbers",
        {"place": I64, "run": I64, "low": I64, "high": I64},
        number.by(lanes),
        internal=True,
        attributes="noinline",
    ) as f:
        place, run, low, high = f.arguments
        words = draw_words(f, place, run, (low, high), lanes)
        drawn = uniform(f, words, stored) if kind == "uniform" else normal(f, words, number)
        f.return_(drawn)
    with module.function("draw", KERNEL) as f:
        row = f.arguments[0]
        result = f.cell(row, 0, PTR)
        count, low, high, run = (f.cell(row, n) for n in range(1, 5))
        with f.loop(*_own_blocks(f, count, lanes), lanes) as loop:
            drawn = f.call("numbers", number.by(lanes), loop.index, run, low, high)
            if stored.nbytes == 2:
                drawn = f.convert("fptrunc", drawn, stored)
            left = f.minimum(count - loop.index, lanes)
            _store(f, drawn, f.element(result, loop.index, stored), left, lanes)


@lazy_library
def _integers_library(module: Module, dtype: DType) -> None:
    """A loop over blocks of a vector's elements, each made of 64 random bits."""
    lanes, stored = host().vector_bytes // 8, _INTEGERS[dtype.itemsize]
    with module.function("draw", KERNEL) as f:
        row = f.arguments[0]
        least, last = (widen(f, f.load(stored, f.cell(row, n, PTR)), dtype) for n in (0, 1))
        result = f.cell(row, 2, PTR)
        count, low, high, run = (f.cell(row, n) for n in range(3, 7))
        none = last < least if dtype.kind == "i" else last.unsigned_below(least)
        with f.when(none):
            f.store(f.constant(I64, 1), f.element(row, 7, I64), 8)
        choices = last - least + 1  # 0 stands for 2**64
        with f.loop(*_own_blocks(f, count, lanes), lanes) as loop:
            words = draw_words(f, loop.index, run, (low, high), lanes)
            bits = random_bits(words)
            chosen = high_product(bits, f.splat(choices, lanes))
            offset = f.select(f.splat(choices, lanes).equals(0), bits, chosen)
            drawn = f.splat(least, lanes) + offset
            if stored != I64:
                drawn = f.convert("trunc", drawn, stored)
            left = f.minimum(count - loop.index, lanes)
            _store(f, drawn, f.element(result, loop.index, stored), left, lanes)


_INTEGERS: Final = {1: I8, 2: I16, 4: I32, 8: I64}


def _own_blocks(f: Function, count: Value, lanes: int) -> tuple[Value, Value]:
    """Where a worker's share of blocks of `lanes` elements begins and ends."""
    begin, end = worker_share((count + (lanes - 1)).unsigned_over(lanes), *f.arguments[1:])
    return begin * lanes, end * lanes


def _store(f: Function, drawn: Value, place: Value, left: Value, lanes: int) -> None:
    """Write a block, of which the last may be cut."""
    f.either(
        left.equals(lanes),
        lambda: _whole(f, drawn, place),
        lambda: _store_first(f, drawn, place, left),
    )


def _whole(f: Function, drawn: Value, place: Value) -> list[Value]:
    f.store(drawn, place)
    return []


def _store_first(f: Function, drawn: Value, place: Value, count: Value) -> list[Value]:
    """Write the first elements alone."""
    buffer = f.stack_buffer(drawn.type.lanes * drawn.type.nbytes)
    f.store(drawn, buffer)
    element = drawn.type.scalar
    with f.loop(0, count) as loop:
        value = f.load(element, f.element(buffer, loop.index, element))
        f.store(value, f.element(place, loop.index, element))
    return []
