"""Squares of outputs by Winograd's algorithm, computed again without it.

That is for squares that are not finite: the transformations would make NaN of infinities.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import Numbers
from tawny.engine.cpu.products.tile_code import zeros
from tawny.engine.llvm.ir.builder import I1, I64, PTR, Function, Value
from tawny.engine.llvm.vectormath.common import any_lane

POINTS: Final = 16
"""Products of matrices."""

TAPS: Final = 9
MOST_CHANNELS: Final = 1024

DIRECT: Final = "direct"
DIRECT_ARGUMENTS: Final = {
    "numbers": PTR,
    "left": PTR,
    "right": PTR,
    "panel": PTR,
    "columns": I64,
    "square": I64,
    "room": PTR,
}


class DirectWriter:
    """Writes the four outputs of a square, product by product, from the panel's weights.

    Slices are packed again one after another, so that the panel is left as it was.
    """

    def __init__(self, f: Function, element: Element, vectors: int, n: Numbers) -> None:
        self.f, self.element, self.vectors, self.n = f, element, vectors, n
        _, self.left, self.right, self.panel, self.columns, self.square, self.room = f.arguments
        self.width = vectors * element.vector_bytes
        self.row = vectors * element.sum_bytes

    def write(self) -> None:
        """All slices."""
        f, n, element = self.f, self.n, self.element
        for i in range(4 * self.vectors):
            place = f.offset(self.room, i * element.sum_bytes)
            f.store(element.zero(f), place, element.sum_bytes)
        slices = n["slices"]
        with f.loop(0, slices) as loop:
            ahead = loop.index + 1 - slices
            with f.when(slices > 1):
                source = f.offset(self.right, ahead * n["slice_b"])
                pack = f.cell(n.address, n.names["pack"], PTR)
                f.call_address(pack, n.address, source, self.panel, self.columns)
            left = f.offset(self.left, ahead * n["slice_a"])
            with f.loop(0, 4 * TAPS) as turn:
                self._add(left, turn.index // TAPS, turn.index % TAPS)

    def _add(self, left: Value, output: Value, tap: Value) -> None:
        """The products of one tap for one output, if that sees the input."""
        f, n, element = self.f, self.n, self.element
        batch, y, x = position(n, self.square)
        high = y * 2 + n["high_origin"] + output // 2 + tap // 3
        wide = x * 2 + n["wide_origin"] + output % 2 + tap % 3
        inside = high.unsigned_below(n["high_size"]) & wide.unsigned_below(n["wide_size"])
        with f.when(inside):
            offset = batch * n["a_batch"] + high * n["a_high"] + wide * n["a_wide"]
            place = f.offset(left, offset)
            own = f.offset(self.room, output * self.row)
            sums = [f.offset(own, v * element.sum_bytes) for v in range(self.vectors)]
            before = [f.load(element.vector, s, element.sum_bytes) for s in sums]
            weights = self._weights(tap)
            with f.loop(0, n["channels"], carried=before) as channel:
                factor = element.splat(f, f.offset(place, channel.index * element.nbytes))
                after: list[Value] = []
                for v, total in enumerate(channel.carried):
                    a, b, c, d = (
                        element.load(
                            f, f.offset(w, channel.index * step + v * element.vector_bytes)
                        )
                        for w, step in weights
                    )
                    after.append(element.multiply_add(f, factor, (a - b) - (c - d), total))
                channel.carry(*after)
            for value, s in zip(channel.carried, sums, strict=True):
                f.store(value, s, element.sum_bytes)

    def _weights(self, tap: Value) -> list[tuple[Value, Value]]:
        """Of four terms that make a tap's weights, where the first is, and bytes to the next.

        Along an axis the weights are p0, p1 - p2 and p3 of what they are transformed to.
        """
        f, n, element = self.f, self.n, self.element
        plane, step = n["taps"] * self.width, f.constant(I64, self.width)
        none, still = zeros(f, MOST_CHANNELS * element.nbytes), f.constant(I64, 0)
        mark = element.load(f, f.offset(self.panel, plane * (POINTS - 1)))
        plain = any_lane(f, f.compare("uno", mark, mark))
        y, x = tap // 3, tap % 3
        middle = [place.equals(1) & plain.equals(0) for place in (y, x)]
        firsts = [f.select(p.equals(2), f.constant(I64, 3), p) for p in (y, x)]
        terms: list[tuple[Value, Value]] = []
        for down in range(2):
            for along in range(2):
                rows = f.constant(I64, 2) if down else firsts[0]
                columns = f.constant(I64, 2) if along else firsts[1]
                point = rows * 4 + columns
                there = f.constant(I1, 1)
                if down:
                    there = there & middle[0]
                if along:
                    there = there & middle[1]
                if not down and not along:
                    point = f.select(plain, tap, point)
                place = f.offset(self.panel, plane * point)
                terms.append((f.select(there, place, none), f.select(there, step, still)))
        return terms


def position(n: Numbers, square: Value) -> tuple[Value, Value, Value]:
    """An element of the batch, and the place of a square in it."""
    line = square // n["wide"]
    return line // n["high"], line % n["high"], square % n["wide"]
