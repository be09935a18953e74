"""Groups of few channels: columns of several groups side by side in vectors.

A kernel of (*window, channels, groups * outputs) has the outputs of all groups side by side, so
that vectors of columns reach over groups.  The lanes of a vector that belong to a group are
multiplied by a channel of that group: the channels of the groups that a vector meets are loaded
together, and each is moved to the lanes of its group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.products.tile import MOST_VECTORS, RegisterTile
from tawny.engine.cpu.products.tile_code import PackCode
from tawny.engine.cpu.products.windows import dot, each_tap
from tawny.engine.llvm.ir.builder import I1, Function, Value

MOST_SPAN: Final = 2
"""The channels that a vector of columns meets fill at most this many vectors."""


@dataclass(frozen=True, slots=True)
class Span:
    """The channels that meet a vector of columns: those of some groups, side by side."""

    start: int
    """The first, counted from the tile's first."""
    length: int
    lanes: tuple[int, ...]
    """For each lane, where the first channel of its group is."""

    @property
    def groups(self) -> list[int]:
        """Where the first channel of each group is."""
        return sorted(set(self.lanes))


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of channels and outputs."""

    channels: int
    """Channels of a group."""
    outputs: int
    """Outputs of a group."""

    def least_vectors(self, element: Element) -> int:
        """The fewest vectors that have whole groups."""
        return math.lcm(self.outputs, element.lanes) // element.lanes

    def span(self, element: Element, vector: int) -> Span:
        """What meets a vector of a tile, which begins with a group."""
        columns = range(vector * element.lanes, (vector + 1) * element.lanes)
        first = columns[0] // self.outputs
        groups = [column // self.outputs - first for column in columns]
        lanes = tuple([group * self.channels for group in groups])
        return Span(first * self.channels, (groups[-1] + 1) * self.channels, lanes)

    def has_few_groups(self, element: Element, vectors: int, most: int) -> bool:
        """Whether no vector of a tile meets more than `most` groups."""
        return all(len(self.span(element, v).groups) <= most for v in range(vectors))

    def fits(self, element: Element) -> bool:
        """Whether tiles can have whole groups, and what vectors meet is not too much to load."""
        least = self.least_vectors(element)
        if least > MOST_VECTORS:
            return False
        longest = max(self.span(element, v).length for v in range(least))
        return longest <= MOST_SPAN * element.lanes

    def load(
        self,
        f: Function,
        element: Element,
        tile: RegisterTile,
        place: Value,
        vector: int,
        columns: Value,
        channels: int = 0,
    ) -> Value:
        """The elements in memory that meet a vector of a tile with this many columns.

        `place` is that of the tile's first; only some `channels` of the last group may be wanted.
        """
        span, unwanted = self.span(element, vector), self.channels - (channels or self.channels)
        length, place = span.length - unwanted, f.offset(place, span.start * element.nbytes)
        kind = element.stored.by(length)
        if not tile.masked or vector < tile.vectors - 1:
            return f.load(kind, place)
        count = columns // self.outputs * self.channels - (span.start + unwanted)
        return f.masked_load(kind, place, f.first_lanes(count, length), f.constant(kind, 0))

    def splat(
        self, f: Function, element: Element, place: Value, vector: int, offset: Value | int
    ) -> Value:
        """For each lane a channel of its group, `offset` bytes past the first.

        Every group that the vector meets must be in memory.
        """
        span = self.span(element, vector)
        own = f.offset(f.offset(place, span.start * element.nbytes), offset)
        found = element.splat(f, own)
        for group in span.groups[1:]:
            other = element.splat(f, f.offset(own, group * element.nbytes))
            mask = f.vector(I1, [lane == group for lane in span.lanes])
            found = f.select(mask, other, found)
        return found

    def move(self, f: Function, element: Element, seen: Value, vector: int, channel: int) -> Value:
        """For each lane a channel of its group, from those that were loaded."""
        lanes = [first + channel for first in self.span(element, vector).lanes]
        moved = f.shuffle(seen, None, lanes)
        if element.stored == element.computed:
            return moved
        return f.convert("fpext", moved, element.computed)

    def pack(self, code: PackCode, rank: int) -> None:
        """Pack a panel of a kernel that has the channels of a group side by side, then groups.

        So it is in gradients of inputs, where channels and outputs have changed places.
        """
        f, n, element = code.f, code.numbers, code.element

        def pack_tap(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
            start, (target,) = f.offset(code.source, dot(n, taps, "b_bytes")), state
            for v in range(code.tile.vectors):
                for k, vector in enumerate(self._transpose(code, start, v)):
                    place = f.offset(target, k * code.width + v * element.vector_bytes)
                    f.store(vector, place)
            return [f.offset(target, self.channels * code.width)]

        each_tap(f, n, rank, [code.target], pack_tap)

    def _transpose(self, code: PackCode, start: Value, v: int) -> list[Value]:
        """For each channel a vector of the weights that its group's outputs have for it."""
        f, element, span = code.f, code.element, self.span(code.element, v)
        own = [(v * element.lanes + lane) % self.outputs for lane in range(element.lanes)]
        made = [f.constant(element.neighbours, 0)] * self.channels
        for output in sorted(set(own)):
            place = f.offset(start, code.numbers["b_output"] * output)
            row = self.load(f, element, code.tile, place, v, code.columns)
            lanes = [i + element.lanes * (of == output) for i, of in enumerate(own)]
            for k in range(self.channels):
                moved = f.shuffle(row, None, [first + k for first in span.lanes])
                made[k] = f.shuffle(made[k], moved, lanes)
        return made
