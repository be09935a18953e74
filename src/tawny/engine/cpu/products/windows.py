"""Rows that are what windows see: convolutions as products.

Each row of the left matrix belongs to a position: an element of a batch, and a place along each
spatial axis.  Position `p` and tap `t` of an axis see the coordinate
`origin + p * stride + t * dilation`; what lies outside of the input is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import Numbers
from tawny.engine.cpu.products.blocking import LEAST_DEPTH, PANEL_BYTES
from tawny.engine.cpu.products.tile import MOST_VECTORS, Walk, accumulate, widest
from tawny.engine.cpu.products.tile_code import PackCode, Rows, RowSource, TileCode, zeros
from tawny.engine.llvm.ir.builder import I1, I64, Function, Value


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """A spatial axis; bytes are from one coordinate, tap or position to the next."""

    count: int
    """Positions."""
    size: int
    """Coordinates of the input."""
    origin: int
    stride: int
    taps: int
    dilation: int
    a_bytes: int
    b_bytes: int
    c_bytes: int
    spread: int = 1
    """How far coordinates of the input are apart, as positions see them; in between is nothing."""
    r_bytes: int = 0
    """Of the residual, if there is one."""

    @property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest coordinate seen, from that of the first tap."""
        far = (self.taps - 1) * self.dilation
        return min(far, 0), max(far, 0)

    def numbers(self, axis: int) -> dict[str, int]:
        """Numbers of the axis that compiled code reads."""
        own = [int(getattr(self, field.name)) for field in fields(self)]
        return {
            f"{name}{axis}": value
            for name, value in zip(AXIS_NUMBERS, (*own, *self.reach), strict=True)
        }


AXIS_NUMBERS: Final = (*[field.name for field in fields(WindowAxis)], "low", "high")
"""Numbers of each axis that compiled code reads."""


@dataclass(frozen=True, slots=True)
class Windows(RowSource):
    """Channels, side by side, at every tap of a window over `rank` spatial axes."""

    rank: int

    @property
    def numbers(self) -> tuple[str, ...]:
        names = (*AXIS_NUMBERS, "tap_bytes", "tap_rows")
        return (
            "a_batch",
            "c_batch",
            "r_batch",
            *[f"{n}{i}" for i in range(self.rank) for n in names],
        )

    def rows(self, code: TileCode) -> Rows:
        return WindowRows(code, self.rank)

    def single_row(self, code: TileCode) -> Rows:
        return WindowRows(code, self.rank)

    def sees_outside(self, rows: Rows) -> Value | None:
        assert isinstance(rows, WindowRows)
        return rows.inside.equals(0)

    def pack(self, code: PackCode) -> None:
        f, n = code.f, code.numbers
        with f.loop(0, n["depth_blocks"], carried=[code.target]) as block:
            lower = block.index * n["depth"] // n["depth_blocks"]
            count = (block.index + 1) * n["depth"] // n["depth_blocks"] - lower
            start = f.offset(code.source, lower * n["b_row"])

            def packed(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
                code.rows(f.offset(start, dot(n, taps, "b_bytes")), count, state[0])
                return [f.offset(state[0], count * code.width)]

            block.carry(*each_tap(f, n, self.rank, block.carried, packed))


def _zero_block(f: Function, element: Element) -> Value:
    """Zeros, as many as a block of channels, or the columns of a tile, may have."""
    most = PANEL_BYTES // (widest() * element.vector_bytes) + 2 * LEAST_DEPTH
    return zeros(f, max(most, MOST_VECTORS * element.lanes) * element.nbytes)


def dot(n: Numbers, values: Sequence[Value], name: str) -> Value:
    """The sum of each axis' value times the axis' number of this name."""
    total, *products = [value * n[f"{name}{axis}"] for axis, value in enumerate(values)]
    for product in products:
        total = total + product
    return total


Body = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
"""Of taps, one for each axis, and a state; gives the next state."""


def each_tap(f: Function, n: Numbers, rank: int, state: Sequence[Value], body: Body) -> list[Value]:
    """Do the body for all taps of `rank` axes, in order; the state it leaves."""
    if rank == 0:
        return list(body((), state))
    count, first = n["taps0"], [f.constant(I64, 0)] * rank
    for axis in range(1, rank):
        count = count * n[f"taps{axis}"]
    with f.loop(0, count, carried=[*first, *state]) as loop:
        taps, before = loop.carried[:rank], loop.carried[rank:]
        after = body(taps, before)
        loop.carry(*following(f, n, "taps", taps)[0], *after)
    return loop.carried[rank:]


def following(
    f: Function, n: Numbers, name: str, places: Sequence[Value]
) -> tuple[list[Value], Value]:
    """The next place along axes of which the last moves fastest, and 1 if it is the first again.

    Axes are as long as the numbers of this name say.
    """
    carry, after = f.constant(I64, 1), list[Value]()
    for axis in reversed(range(len(places))):
        place = places[axis] + carry
        ends = place.equals(n[f"{name}{axis}"])
        after.insert(0, f.select(ends, 0, place))
        carry = f.select(ends, carry, 0)
    return after, carry


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a row: an element of the batch, a place along each axis."""

    batch: Value
    places: tuple[Value, ...]


def position_at(n: Numbers, rank: int, number: Value) -> Position:
    """The position with a number, of those that follow each other."""
    rest, places = number, list[Value]()
    for axis in reversed(range(rank)):
        places.insert(0, rest % n[f"count{axis}"])
        rest = rest // n[f"count{axis}"]
    return Position(rest, tuple(places))


class PositionRows:
    """The rows of a tile, each of which belongs to a position."""

    def __init__(self, code: TileCode, rank: int) -> None:
        self.code = code
        self.f = code.f
        self.n = code.numbers
        self.rank = rank
        self.first = position_at(self.n, rank, code.start)

    def all_positions(self) -> list[Position]:
        """The position of each row."""
        positions = [self.first]
        while len(positions) < self.code.tile.rows:
            last = positions[-1]
            places, carry = following(self.f, self.n, "count", last.places)
            positions.append(Position(last.batch + carry, tuple(places)))
        return positions

    def place(self, base: Value, name: str, position: Position) -> Value:
        """Where the row of a position is in the result ("c") or in the residual."""
        n, array = self.n, "r" if name == "residual" else "c"
        offset = position.batch * n[f"{array}_batch"] + dot(n, position.places, f"{array}_bytes")
        return self.f.offset(base, offset)


class WindowRows(PositionRows):
    """The rows that the windows at a tile's positions see."""

    def __init__(self, code: TileCode, rank: int) -> None:
        super().__init__(code, rank)
        self.positions = self.all_positions()
        self.coordinates = [self._coordinates(p) for p in self.positions]
        self.inside = self._lies_inside()

    def _coordinates(self, position: Position) -> list[Value]:
        """What the first tap of each axis sees."""
        places, n = position.places, self.n
        return [place * n[f"stride{i}"] + n[f"origin{i}"] for i, place in enumerate(places)]

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f, n = self.code, self.f, self.n
        count, first = code.upper - code.lower, code.lower * code.element.nbytes
        bases: list[Value] = []
        for position, coordinates in zip(self.positions, self.coordinates, strict=True):
            offset = position.batch * n["a_batch"] + dot(n, coordinates, "a_bytes")
            bases.append(f.offset(code.left, offset + first))
        steps, unit = tap_steps(code, self.rank, count), f.constant(I64, code.element.nbytes)

        def tapped(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
            shifts = [tap * n[f"dilation{i}"] for i, tap in enumerate(taps)]
            moved = dot(n, shifts, "a_bytes")
            rows = [f.offset(base, moved) for base in bases]
            *rows, length = f.either(
                self.inside, lambda: [*rows, count], lambda: self._check_rows(shifts, rows, count)
            )
            place = code.panel
            for tap, step in zip(taps, steps, strict=True):
                place = f.offset(place, tap * step)
            walk = Walk(rows, unit, place, code.panel_step, length, code.ahead)
            return accumulate(f, code.element, code.tile, state, walk, code.masks)

        return each_tap(f, n, self.rank, sums, tapped)

    def places(self, base: Value, name: str) -> list[Value]:
        return [self.place(base, name, position) for position in self.positions]

    def _lies_inside(self) -> Value:
        """Whether all taps of all rows see the input itself."""
        f, n, inside = self.f, self.n, self.f.constant(I1, 1)
        for axis in range(self.rank):
            least, most = self.coordinates[0][axis], self.coordinates[0][axis]
            for row in self.coordinates[1:]:
                least, most = f.minimum(least, row[axis]), f.maximum(most, row[axis])
            inside = inside & (least + n[f"low{axis}"] >= 0)
            inside = inside & (most + n[f"high{axis}"] < n[f"size{axis}"])
        return inside

    def _check_rows(
        self, shifts: Sequence[Value], rows: Sequence[Value], count: Value
    ) -> list[Value]:
        """The rows, with zeros for those outside of the input; nothing to do where all are."""
        f, n = self.f, self.n
        some, out, outside = f.constant(I64, 0), list[Value](), _zero_block(f, self.code.element)
        for coordinates, row in zip(self.coordinates, rows, strict=True):
            length = count
            for axis in range(self.rank):
                seen = coordinates[axis] + shifts[axis]
                length = f.select(seen.unsigned_below(n[f"size{axis}"]), length, 0)
            out.append(f.select(length.differs(0), row, outside))
            some = some | length
        return [*out, some]


def tap_steps(code: TileCode, rank: int, count: Value) -> list[Value]:
    """Bytes in the panel from one tap of each axis to the next.

    They are given where the kernel lies; in a copy each tap has a row for each channel.
    """
    rows, n = count * code.panel_step, code.numbers
    return [n[f"tap_bytes{axis}"] + rows * n[f"tap_rows{axis}"] for axis in range(rank)]
