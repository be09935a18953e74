"""Searching in sorted arrays.

- `search`: where in a sorted array each element belongs, by bisection without branches.
- `edges`: whether edges rise or fall throughout, which `search` then respects.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I1, I64, PTR, Function, Module, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.expressions import primitive
from tawny.engine.llvm.scalar.numbers import load_scalar, real
from tawny.scalar import Prim
from tawny.shape import collapse_axes

SEARCH: Final = "search"

AT_ONCE: Final = 8
"""Elements that are looked for at a time: while one waits for memory, the others go on."""

SHARED_ELEMENTS: Final = 1 << 13
"""Elements from which threads share the work; see `workshare`."""


class _SearchVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    ordered: DType
    wanted: DType
    common: DType
    """What both are compared in."""
    rank: int
    right: bool
    edges: bool
    """Whether the order is looked for first, and the operands come the other way round."""


def search_kernel(
    ordered: ArrayLayout, wanted: ArrayLayout, *, right: bool, edges: bool
) -> CompiledKernel | None:
    """The kernel of places in a sorted array; None where NumPy must compare.

    With `edges` the array may fall as well as rise, which the kernel only finds out, to be followed
    by `SEARCH`; its last parameter is set if the array does neither.
    """
    common = dt.promote(ordered.dtype, wanted.dtype)
    if common.kind == "c":
        return None
    shape = [n for n in wanted.shape if n != 1]
    steps = [s for n, s in zip(wanted.shape, wanted.strides, strict=True) if n != 1]
    sizes, (moves,) = collapse_axes(tuple(shape), [tuple(steps)])
    code = _SearchVariant(ordered.dtype, wanted.dtype, common, len(sizes), right, edges)
    count = math.prod(wanted.shape)
    cells = (ordered.shape[0], ordered.strides[0], count, *sizes, *moves)
    symbol = "edges" if edges else SEARCH
    return CompiledKernel(_searches(*code), symbol, (*cells, 0, 0), count > SHARED_ELEMENTS, 0)


@lazy_library
def _searches(module: Module, *numbers: Any) -> None:
    code = _SearchVariant(*numbers)
    if code.edges:
        with module.function("edges", KERNEL) as f:
            _SearchWriter(f, code).look()
    with module.function(SEARCH, KERNEL) as f:
        _SearchWriter(f, code).search()


class _SearchWriter:
    """A function being written."""

    def __init__(self, f: Function, code: _SearchVariant) -> None:
        self.f, self.code = f, code
        row = f.arguments[0]
        first, second = (f.cell(row, n, PTR) for n in (0, 1))
        self.ordered, self.wanted = (second, first) if code.edges else (first, second)
        self.result = f.cell(row, 2, PTR)
        self.length, self.stride, self.count = (f.cell(row, n) for n in range(3, 6))
        self.sizes = [f.cell(row, 6 + n) for n in range(code.rank)]
        self.moves = [f.cell(row, 6 + code.rank + n) for n in range(code.rank)]
        end = 6 + 2 * code.rank
        self.falls, self.status = (f.element(row, end + n, I64) for n in (0, 1))

    def look(self) -> None:
        """Note whether the edges fall: they do if the first that differ do."""
        f = self.f
        no = f.constant(I1, 0)
        with f.loop(1, self.length, carried=[no, no]) as loop:
            rises, falls = loop.carried
            before, here = self._edge(loop.index - 1), self._edge(loop.index)
            up, down = self._less(before, here), self._less(here, before)
            loop.carry(rises | up, falls | down)
        rises, falls = loop.carried
        f.store(f.convert("zext", falls, I64), self.falls, 8)
        with f.when(rises & falls):
            f.store(f.constant(I64, 1), self.status, 8)

    def search(self) -> None:
        """The place of each element of a worker."""
        f, code = self.f, self.code
        falls = f.load(I64, self.falls).differs(0) if code.edges else f.constant(I1, 0)
        begin, end = worker_share(self.count, *f.arguments[1:])
        whole = begin + ((end - begin) & -AT_ONCE)
        for first, last, count in ((begin, whole, AT_ONCE), (whole, end, 1)):
            with f.loop(first, last, count) as loop:
                numbers = [loop.index + n for n in range(count)]
                places = self._places([self._value(n) for n in numbers], falls)
                for number, place in zip(numbers, places, strict=True):
                    f.store(place, f.element(self.result, number, I64), 8)

    def _value(self, number: Value) -> Value:
        """What is looked for, by its number."""
        f, code, address = self.f, self.code, self.wanted
        for place, move in zip(coordinates(number, self.sizes), self.moves, strict=True):
            address = f.offset(address, place * move)
        return real(cast(f, load_scalar(f, code.wanted, address), code.wanted, code.common))

    def _places(self, values: list[Value], falls: Value) -> list[Value]:
        """How many elements come before each value; falling edges are read from their end.

        All values take as many steps, whatever they are, and none waits for another.
        """
        f, zero = self.f, self.f.constant(I64, 0)

        def bisected() -> list[Value]:
            with f.repeat(self.length, *[zero] * len(values)) as steps:
                left, *lows = steps.carried
                half = left.shifted_down(1)
                lows = [
                    low
                    + f.select(self._precedes(low + (half - 1), value, falls), half, 0, guess=False)
                    for low, value in zip(lows, values, strict=True)
                ]
                steps.again(left - half > 1, left - half, *lows)
            return steps.carried[1:]

        def one() -> list[Value]:
            return [zero] * len(values)

        def found() -> list[Value]:
            lows = f.either(self.length > 1, bisected, one)
            return [
                low + f.convert("zext", self._precedes(low, value, falls), I64)
                for low, value in zip(lows, values, strict=True)
            ]

        places = f.either(self.length > 0, found, one)
        return [f.select(falls, self.length - place, place) for place in places]

    def _precedes(self, place: Value, value: Value, falls: Value) -> Value:
        """Whether the element at a place of the rising order comes before a value."""
        element = self._edge(self.f.select(falls, self.length - 1 - place, place))
        if self.code.right:
            return ~self._less(value, element)
        return self._less(element, value)

    def _edge(self, index: Value) -> Value:
        f, code = self.f, self.code
        stored = load_scalar(f, code.ordered, f.offset(self.ordered, index * self.stride))
        return real(cast(f, stored, code.ordered, code.common))

    def _less(self, one: Value, other: Value) -> Value:
        """Whether one comes before another; NaN comes last."""
        f, common = self.f, self.code.common
        if common.kind == "b":
            return ~one & other
        less = real(primitive(f, Prim.LT, common, [one, other])[0])
        if kind_of(common) != "f":
            return less
        return less | (f.compare("uno", other, other) & f.compare("ord", one, one))
