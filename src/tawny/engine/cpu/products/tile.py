"""Register tiles: some rows of one matrix times some vectors of columns of another.

All sums of a tile stay in registers while the common axis is walked: each step loads a few vectors
of the right matrix and, for each row, one element of the left one, which it multiplies by all of
them.  Every sum is made in the order of the common axis, whatever the tile's size: results do not
depend on how a product is cut into tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.llvm.ir.builder import I32, I64, PTR, VOID, Function, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.vectormath.common import any_lane

_HEIGHTS: Final = {
    32: {1: 12, 2: 12, 3: 8, 4: 6, 5: 4, 6: 3, 7: 2, 8: 2},
    16: {1: 12, 2: 6, 3: 3, 4: 2},
}
"""By the number of vector registers and of vectors in a row: the most rows whose sums, beside a row
of the right matrix and an element of the left one, fit."""


MOST_VECTORS: Final = 8
"""The most vectors of columns of any tile."""


def registers() -> int:
    """How many vector registers the host has."""
    machine = host()
    return 16 if machine.triple.startswith("x86_64") and not machine.avx512 else 32


def widest() -> int:
    """The vectors of a tile that has rows enough: loads are fewest for each product."""
    return 4 if registers() == 32 else 2


def tallest(vectors: int) -> int:
    """The most rows of a tile, given its width in vectors."""
    return _HEIGHTS[registers()][vectors]


def vectors_for(rows: int) -> int:
    """The best width of tiles, in vectors, given the number of rows."""
    fitting = [v for v, height in _HEIGHTS[registers()].items() if height >= rows]
    return max([*fitting, widest()]) if rows <= 3 else widest()


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Rows, vectors of columns, and whether the last vector is only partly used."""

    rows: int
    vectors: int
    masked: bool = False

    def width(self, element: Element) -> int:
        """Bytes of a row of its columns."""
        return self.vectors * element.vector_bytes

    def masks(self, f: Function, element: Element, columns: Value) -> list[Value | None]:
        """For each vector the lanes that are used, given the number of columns."""
        masks: list[Value | None] = [None] * self.vectors
        if self.masked:
            rest = columns - (self.vectors - 1) * element.lanes
            masks[-1] = element.first(f, rest)
        return masks


@dataclass(frozen=True, slots=True)
class Walk:
    """The common axis: elements of rows of the left matrix, and rows of a panel of the right one.

    Steps are in bytes.
    """

    rows: Sequence[Value]
    step: Value
    panel: Value
    panel_step: Value
    count: Value
    ahead: Value
    """From an element of the panel to one that is needed later, which is fetched meanwhile."""
    apart: Value | None = None
    """From a vector of columns to the next, where they are not side by side."""
    fetched: tuple[Value, Value] | None = None
    """Where something else lies that is fetched instead, and how far each step moves on there."""

    def column(self, f: Function, element: Element, row: Value, vector: int) -> Value:
        """Where a vector of columns begins in a row of the panel."""
        if self.apart is None:
            return f.offset(row, vector * element.vector_bytes)
        return f.offset(row, self.apart * vector)


def accumulate(
    f: Function,
    element: Element,
    tile: RegisterTile,
    sums: Sequence[Value],
    walk: Walk,
    masks: Sequence[Value | None],
    *,
    left: Element | None = None,
) -> list[Value]:
    """The sums, row by row, with the products along a walk added.

    Elements of the left matrix are as all others, unless `left` says how they lie.
    """
    single = element if left is None else left

    def stepped(state: list[Value]) -> list[Value]:
        before, (offset, panel, *elsewhere) = state[: len(sums)], state[len(sums) :]
        columns = [
            element.load(f, walk.column(f, element, panel, v), masks[v])
            for v in range(tile.vectors)
        ]
        rows = [single.splat_parts(f, f.offset(row, offset)) for row in walk.rows]
        after = before
        for part in range(element.parts):
            if part:
                columns = [element.times_i(f, column) for column in columns]
            pairs = [(row[part], column) for row in rows for column in columns]
            after = [
                element.multiply_add(f, factor, column, total)
                for (factor, column), total in zip(pairs, after, strict=True)
            ]
        moved = [f.offset(panel, walk.panel_step)]
        if walk.fetched is None:
            prefetch(f, f.offset(panel, walk.ahead), SECOND_CACHE)
        else:
            prefetch(f, elsewhere[0], SECOND_CACHE)
            moved.append(f.offset(elsewhere[0], walk.fetched[1]))
        return [*after, offset + walk.step, *moved]

    state = [*sums, f.constant(I64, 0), walk.panel, *(walk.fetched or ())[:1]]
    with f.loop(0, walk.count, carried=state) as loop:
        loop.carry(*stepped(loop.carried))
    return loop.carried[: len(sums)]


def unusual(f: Function, vectors: Sequence[Value]) -> Value:
    """Whether a lane of some floating-point vectors is NaN or infinite, or their sum overflows."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=False)
        vectors = [*[a + b for a, b in pairs], *vectors[len(vectors) & ~1 :]]
    (total,) = vectors
    rest = total - total
    return any_lane(f, f.compare("uno", rest, rest))


FIRST_CACHE: Final = 3
SECOND_CACHE: Final = 2


def prefetch(f: Function, address: Value, cache: int) -> None:
    """Fetch a cache line into one of the caches, without waiting for it."""
    settings = [f.constant(I32, n) for n in (0, cache, 1)]
    f.intrinsic("prefetch", VOID, address, *settings, overload=(PTR,))


def evenly_spaced(f: Function, first: Value, step: Value, count: int) -> list[Value]:
    """Addresses `step` bytes apart."""
    places = [first]
    while len(places) < count:
        places.append(f.offset(places[-1], step))
    return places
