"""Transforms along one axis: what is transformed, and how it lies in memory."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from tawny.engine.cpu.transforms.chain import UNSCALED, Scale
from tawny.engine.cpu.transforms.driver import TileAxis
from tawny.engine.cpu.transforms.lanes import Lanes
from tawny.engine.cpu.transforms.stage import SOURCE, TARGET


class TransformKind(enum.Enum):
    """A kind of transform: of which numbers, into which."""

    COMPLEX = 0
    HALF = 1
    """Real numbers into the first half of their transform."""
    WHOLE = 2
    """Real numbers into all of their transform."""
    REAL = 3
    """The first half of a transform into the real numbers it is of."""


@dataclass(frozen=True)
class AxisTransforms:
    """Transforms along an axis, one for each place on the other axes."""

    kind: TransformKind
    lanes: Lanes
    length: int
    given: int
    """Elements of the operand along the axis; those that are missing are zero."""
    axis: tuple[int, int]
    """Bytes from element to element along the axis, in operand and result."""
    others: tuple[TileAxis, ...]
    """None is one element long; those that follow each other in memory are one."""
    outer: tuple[TileAxis, ...] = ()
    """Axes whose places have tasks of their own."""
    inverse: bool = False
    scale: float = 1.0
    source: int = SOURCE
    target: int = TARGET
    """Cells of the frame: where operand and result begin."""

    @property
    def half(self) -> int:
        """Numbers of the first half of a transform."""
        return self.length // 2 + 1

    @property
    def is_even(self) -> bool:
        """Whether real numbers are transformed as half as many complex ones."""
        return self.kind is not TransformKind.COMPLEX and self.length % 2 == 0

    @property
    def complex_length(self) -> int:
        """Complex numbers of a transform by itself."""
        return self.length // 2 if self.is_even else self.length

    @property
    def source_item(self) -> int:
        """Bytes of an element of the operand."""
        real = self.kind in (TransformKind.HALF, TransformKind.WHOLE)
        return self.lanes.scalar.nbytes if real else self.lanes.number

    @property
    def target_item(self) -> int:
        """Bytes of an element of the result."""
        return self.lanes.scalar.nbytes if self.kind is TransformKind.REAL else self.lanes.number

    @property
    def in_rows(self) -> bool:
        """Whether the numbers of each transform are neighbours in memory."""
        return self.axis == (self.source_item, self.target_item)

    @property
    def sign(self) -> float:
        """What imaginary parts are multiplied by at last: an inverse is conjugated, and before."""
        return -1.0 if self.inverse else 1.0

    @property
    def turn(self) -> float:
        """What imaginary parts of the operand are multiplied by: real ones have none."""
        return self.sign if self.kind is TransformKind.COMPLEX else 1.0

    @property
    def result_scale(self) -> Scale:
        """What results of passes are multiplied by, unless they are put together later."""
        if self.is_even and self.kind is not TransformKind.REAL:
            return UNSCALED
        return Scale(self.scale, self.scale * self.sign)

    @property
    def count(self) -> int:
        """How many transforms there are."""
        return math.prod([step.size for step in self.others])
