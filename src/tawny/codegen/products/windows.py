"""Rows that are what windows see: convolutions as products.

Each row of the left matrix belongs to a position: an element of a batch, and a place along each
spatial axis.  Position `p` and tap `t` of an axis see the coordinate
`origin + p * stride + t * dilation`; what lies outside of the input is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Final

from tawny.codegen.builder import I64, Function, Module, Value
from tawny.codegen.element import Element
from tawny.codegen.products.blocking import PANEL_BYTES
from tawny.codegen.products.form import PackCode, Source, TileCode
from tawny.codegen.products.row import Numbers
from tawny.codegen.products.tile import Walk, accumulate, widest


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

    @property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest coordinate seen, from that of the first tap."""
        far = (self.taps - 1) * self.dilation
        return min(far, 0), max(far, 0)

    def numbers(self, axis: int) -> dict[str, int]:
        """What the code is told of it."""
        own = [int(getattr(self, field.name)) for field in fields(self)]
        return {
            f"{name}{axis}": value
            for name, value in zip(AXIS_NUMBERS, (*own, *self.reach), strict=True)
        }


AXIS_NUMBERS: Final = (*[field.name for field in fields(WindowAxis)], "low", "high")
"""What the code is told of each axis."""


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a row is: an element of the batch, a place along each axis."""

    batch: Value
    places: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Windows(Source):
    """Channels, side by side, at every tap of a window over so many spatial axes."""

    rank: int

    @property
    def numbers(self) -> tuple[str, ...]:
        own = [f"{name}{axis}" for axis in range(self.rank) for name in AXIS_NUMBERS]
        return ("a_batch", "c_batch", *own)

    def declare(self, module: Module, element: Element) -> None:
        """Zeros, as many as a block of channels has."""
        most = PANEL_BYTES // (widest() * element.vector_bytes) + 32
        kind = f"[{most * element.nbytes} x i8]"
        module.globals.append(f"@zeros = internal constant {kind} zeroinitializer, align 64")

    # ------------------------------------------------------------------- tiles

    def accumulate(self, code: TileCode, sums: Sequence[Value]) -> list[Value]:
        f, n, element = code.f, code.numbers, code.form.element
        count = code.upper - code.lower
        seen = [self._coordinates(n, p) for p in self._positions(code)]
        bases = [
            f.advanced(
                code.left,
                p.batch * n["a_batch"] + self._dot(n, coordinates, "a_bytes") + code.lower * element.nbytes,
            )
            for p, coordinates in zip(self._positions(code), seen, strict=True)
        ]
        inside = self._inside(f, n, seen)
        steps = self._tap_steps(code, count)
        panel, panel_step = code.block, code.panel_step
        unit = f.constant(I64, element.nbytes)

        def tapped(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
            shifts = [t * n[f"dilation{i}"] for i, t in enumerate(taps)]
            moved = self._dot(n, shifts, "a_bytes")
            rows = [f.advanced(base, moved) for base in bases]
            *rows, length = f.either(
                inside,
                lambda: [*rows, count],
                lambda: self._checked(f, n, seen, shifts, rows, count),
            )
            place = panel
            for tap, step in zip(taps, steps, strict=True):
                place = f.advanced(place, tap * step)
            walk = Walk(rows, unit, place, panel_step, length, code.ahead)
            return accumulate(f, element, code.tile, state, walk, code.masks)

        return self._each_tap(f, n, sums, tapped)

    def places(self, code: TileCode, base: Value, name: str) -> list[Value]:
        n = code.numbers
        return [
            code.f.advanced(base, p.batch * n["c_batch"] + self._dot(n, p.places, "c_bytes"))
            for p in self._positions(code)
        ]

    def _positions(self, code: TileCode) -> list[_Position]:
        """The position of each row of a tile."""
        f, n = code.f, code.numbers
        rest, places = code.start, list[Value]()
        for axis in reversed(range(self.rank)):
            places.insert(0, rest % n[f"count{axis}"])
            rest = rest // n[f"count{axis}"]
        positions = [_Position(rest, tuple(places))]
        while len(positions) < code.tile.rows:
            last = positions[-1]
            carry, following = f.constant(I64, 1), list[Value]()
            for axis in reversed(range(self.rank)):
                place = last.places[axis] + carry
                ends = place.equals(n[f"count{axis}"])
                following.insert(0, f.select(ends, 0, place))
                carry = f.select(ends, carry, 0)
            positions.append(_Position(last.batch + carry, tuple(following)))
        return positions

    def _coordinates(self, n: Numbers, position: _Position) -> list[Value]:
        """What the first tap sees."""
        return [
            place * n[f"stride{i}"] + n[f"origin{i}"] for i, place in enumerate(position.places)
        ]

    def _dot(self, n: Numbers, values: Sequence[Value], name: str) -> Value:
        """The sum of each axis' value times the axis' number of this name."""
        products = [value * n[f"{name}{i}"] for i, value in enumerate(values)]
        total = products[0]
        for product in products[1:]:
            total = total + product
        return total

    def _inside(self, f: Function, n: Numbers, seen: Sequence[Sequence[Value]]) -> Value:
        """Whether all taps of all rows see the input itself."""
        inside: Value | None = None
        for i in range(self.rank):
            least, most = seen[0][i], seen[0][i]
            for coordinates in seen[1:]:
                least, most = f.minimum(least, coordinates[i]), f.maximum(most, coordinates[i])
            here = (least + n[f"low{i}"] >= 0) & (most + n[f"high{i}"] < n[f"size{i}"])
            inside = here if inside is None else inside & here
        assert inside is not None
        return inside

    def _checked(
        self,
        f: Function,
        n: Numbers,
        seen: Sequence[Sequence[Value]],
        shifts: Sequence[Value],
        rows: Sequence[Value],
        count: Value,
    ) -> list[Value]:
        """The rows with zeros for those outside of the input; nothing to do where all are."""
        zeros = f.global_address("zeros")
        some, out = f.constant(I64, 0), list[Value]()
        for coordinates, row in zip(seen, rows, strict=True):
            valid = f.select((coordinates[0] + shifts[0]).unsigned_below(n["size0"]), count, 0)
            for i in range(1, self.rank):
                within = (coordinates[i] + shifts[i]).unsigned_below(n[f"size{i}"])
                valid = f.select(within, valid, 0)
            out.append(f.select(valid.differs(0), row, zeros))
            some = some | valid
        return [*out, some]

    # -------------------------------------------------------------------- taps

    def _tap_steps(self, code: TileCode, count: Value) -> list[Value]:
        """Bytes in the panel from one tap of each axis to the next."""
        n = code.numbers
        if not code.packed:
            return [n[f"b_bytes{i}"] for i in range(self.rank)]
        steps = [count * code.panel_step]
        for axis in reversed(range(1, self.rank)):
            steps.insert(0, steps[0] * n[f"taps{axis}"])
        return steps

    def _each_tap(
        self,
        f: Function,
        n: Numbers,
        state: Sequence[Value],
        body: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]],
        taps: tuple[Value, ...] = (),
    ) -> list[Value]:
        """Do the body for all taps, in order; it is given a state and gives the next."""
        if len(taps) == self.rank:
            return list(body(taps, state))
        with f.loop(0, n[f"taps{len(taps)}"], carried=state) as loop:
            loop.carry(*self._each_tap(f, n, loop.carried, body, (*taps, loop.index)))
        return loop.carried

    def pack(self, code: PackCode, source: Value, target: Value) -> None:
        f, n = code.f, code.numbers
        with f.loop(0, n["depth_blocks"], carried=[target]) as block:
            lower = block.index * n["depth"] // n["depth_blocks"]
            count = (block.index + 1) * n["depth"] // n["depth_blocks"] - lower
            start = f.advanced(source, lower * n["b_row"])

            def tapped(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
                code.rows(f.advanced(start, self._dot(n, taps, "b_bytes")), count, state[0])
                return [f.advanced(state[0], count * code.width)]

            block.carry(*self._each_tap(f, n, block.carried, tapped))
