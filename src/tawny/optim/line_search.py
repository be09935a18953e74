"""Line searches: how far to go along a direction, found by looking at the function there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tawny.errors import value_error
from tawny.optim.arguments import check_count, check_not_negative


class LinePoint(NamedTuple):
    """A point of a line: how far along, the function and its slope along the line there."""

    far: float
    value: float
    slope: float
    iterate: Any = None
    """What else is known of the point."""


Line = Callable[[float], LinePoint]

MAX_GROWTH: Final = 10.0
"""The most times longer that a step becomes at once when it was too short; chosen by hand."""

END_MARGIN: Final = 0.1
"""Steps between two ends keep this share of the distance from both, so that the ends close in."""


NOISE: Final = 1e3
"""Roundings by which values may differ and still count as equal.

Rounding errors of n terms add up to about sqrt(n) of them, so this allows for sums of a million
terms; chosen by hand.
"""


@dataclass(frozen=True)
class StrongWolfe:
    """A step that falls enough and after which the line is flat enough.

    With f and f' the function and its slope along the line, a step of length a is taken if

    - `f(a) <= f(0) + decrease a f'(0)` and
    - `|f'(a)| <= curvature |f'(0)|`.

    It is found by growing an interval until it has such steps, then by closing in on one with
    cubic polynomials (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6), within
    `most` looks at the function.  What is no finite number counts as too far.  Where values differ
    by rounding alone, slopes decide: f'(a) <= (2 decrease - 1) f'(0) stands for the first condition
    (Hager and Zhang).
    """

    decrease: float = 1e-4
    curvature: float = 0.9
    most: int = 40

    def __post_init__(self) -> None:
        check_not_negative(self, "decrease", "curvature")
        check_count(self, "most")
        if not 0 < self.decrease < self.curvature < 1:
            raise value_error(
                "StrongWolfe",
                f"decrease is {self.decrease} and curvature {self.curvature}; "
                "accepted: 0 < decrease < curvature < 1",
            )

    def step(self, line: Line, start: LinePoint, first: float, rounding: float) -> LinePoint | None:
        """The place to go to from `start`; None if none is found.

        `first` is the length tried first, `rounding` the relative error of one rounding of the
        function's values.
        """
        bracket = _Bracket(self, line, start, rounding)
        before, far = start, first
        while bracket.evaluations < self.most:
            here = bracket.evaluate(far)
            if not math.isfinite(here.value) or not math.isfinite(here.slope):
                far = before.far + END_MARGIN * (far - before.far)
                continue
            if bracket.is_high(here) or (before is not start and here.value >= before.value):
                return bracket.zoom(before, here)
            if bracket.is_flat(here):
                return here
            if here.slope >= 0:
                return bracket.zoom(here, before)
            before, far = here, bracket.extrapolate(before, here)
        return before if before.value < start.value else None


class _Bracket:
    """A search under way."""

    def __init__(self, rule: StrongWolfe, line: Line, start: LinePoint, rounding: float) -> None:
        self._rule, self._line, self._start = rule, line, start
        self._slack = NOISE * rounding * abs(start.value)
        self.evaluations = 0

    def evaluate(self, far: float) -> LinePoint:
        """The point at a distance along the line."""
        self.evaluations += 1
        return self._line(far)

    def is_high(self, here: LinePoint) -> bool:
        """Whether the function has not fallen enough."""
        start, decrease = self._start, self._rule.decrease
        if here.value <= start.value + decrease * here.far * start.slope:
            return False
        level = abs(here.value - start.value) <= self._slack
        return not (level and here.slope <= (2 * decrease - 1) * start.slope)

    def is_flat(self, here: LinePoint) -> bool:
        """Whether the line is flat enough."""
        return abs(here.slope) <= self._rule.curvature * abs(self._start.slope)

    def extrapolate(self, before: LinePoint, here: LinePoint) -> float:
        """Where to look next, beyond a place that still goes down."""
        width = here.far - before.far
        least, most = here.far + width, here.far + MAX_GROWTH * width
        guess = _cubic_minimum(before, here)
        return here.far + 2 * width if guess is None else min(max(guess, least), most)

    def zoom(self, low: LinePoint, high: LinePoint) -> LinePoint | None:
        """A step between the lower end of an interval and the other."""
        while self.evaluations < self._rule.most:
            width = high.far - low.far
            guess = _cubic_minimum(low, high)
            middle = low.far + 0.5 * width
            far = middle if guess is None else guess
            ends = sorted((low.far + END_MARGIN * width, high.far - END_MARGIN * width))
            here = self.evaluate(min(max(far, ends[0]), ends[1]))
            if here.far in (low.far, high.far):
                break  # the ends are neighbours in floating-point numbers
            finite = math.isfinite(here.value) and math.isfinite(here.slope)
            if not finite or self.is_high(here) or here.value > low.value + self._slack:
                high = here
                continue
            if self.is_flat(here):
                return here
            if here.slope * width >= 0:
                high = low
            low = here
        return low if low.far > 0 and low.value < self._start.value else None


def _cubic_minimum(a: LinePoint, b: LinePoint) -> float | None:
    """Where the cubic polynomial with two places' values and slopes is least, if it is."""
    width = b.far - a.far
    if width == 0 or not all(map(math.isfinite, (b.value, b.slope))):
        return None
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.far - b.far)
    inner = d1 * d1 - a.slope * b.slope
    if inner < 0:
        return None
    d2 = math.copysign(math.sqrt(inner), width)
    below = b.slope - a.slope + 2 * d2
    if below == 0:
        return None
    return b.far - width * (b.slope + d2 - d1) / below
