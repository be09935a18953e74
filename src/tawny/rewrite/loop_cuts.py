"""Which steps of a loop are computed again for its derivative: the fewest that fit in some bytes.

Some segments keep what is carried at their start; the steps after them keep their rows.  On the
way back each segment is computed again, when the rows of what comes after it are not needed any
more, nor the starts of later segments: so earlier segments are longer, as in binomial
checkpointing.  Segments, and the steps after them, may be cut again.
"""

from __future__ import annotations

from math import isqrt
from typing import Final, NamedTuple, final

MOST_LEVELS: Final = 4
"""How often a step is computed again, at most."""

MOST_GROUPS: Final = 3
"""How many lengths of segments follow one another, at most: each is a loop of its own."""

MOST_COMPARED: Final = (1, 5, 3, 1, 1)
"""The most counts of segments of which the costs are compared, by how often a step is computed."""

_BITS: Final = 6
"""The leading bits of a number of bytes that it is rounded down to, where many are looked up."""


class LoopCut(NamedTuple):
    """Some segments of as many steps, and steps after them; each may be cut again."""

    segment: int
    segments: int
    inner: LoopCut | None = None
    tail: LoopCut | None = None

    @property
    def steps(self) -> int:
        """The steps of all segments."""
        return self.segment * self.segments


class StepBytes(NamedTuple):
    """Bytes of what is carried, and of the row that a step keeps for the way back."""

    carry: int
    row: int


def steps_again(cut: LoopCut | None) -> int:
    """How many steps are computed that were computed before."""
    if cut is None:
        return 0
    return cut.steps + cut.segments * steps_again(cut.inner) + steps_again(cut.tail)


def bytes_kept(cut: LoopCut | None, length: int, step: StepBytes) -> int:
    """The most bytes of starts and rows that are kept at once."""
    if cut is None:
        return length * step.row
    inner = bytes_kept(cut.inner, cut.segment, step)
    return cut.segments * step.carry + max(inner, bytes_kept(cut.tail, length - cut.steps, step))


def choose_cut(length: int, room: int, step: StepBytes) -> LoopCut | None:
    """The cut that computes fewest steps again in some bytes; None where nothing is saved.

    Where none fits it is one that keeps few bytes, of which more can be saved by cutting again.
    """
    step = StepBytes(max(1, step.carry), max(1, step.row))
    cut = _Search(step).cut(length, room) or whole_segments(length, step)
    return cut if bytes_kept(cut, length, step) < length * step.row else None


def whole_segments(length: int, step: StepBytes) -> LoopCut:
    """Equal segments and nothing after them, or else fewer steps than a segment has."""
    sizes = range(1, length + 1) if length < 10_000 else _counts(length)
    exact = [LoopCut(size, length // size) for size in sizes if length % size == 0]
    best = min(exact, key=lambda cut: bytes_kept(cut, length, step))
    segment = max(1, isqrt(length * max(1, step.carry) // max(1, step.row)))
    other = LoopCut(min(segment, length), length // min(segment, length))
    few = 1.5 * bytes_kept(other, length, step)
    return best if bytes_kept(best, length, step) <= few else other


@final
class _Search:
    """The search for cuts of loops whose steps keep certain bytes."""

    def __init__(self, step: StepBytes) -> None:
        self._step = step
        self._known: dict[tuple[int, int, int], int] = {}

    def cut(self, length: int, room: int) -> LoopCut | None:
        """The best cut that was found; None where there is none, or nothing to cut."""
        for level in range(1, MOST_LEVELS + 1):
            if self._longest(room, level, MOST_GROUPS) >= length:
                return self._cut(length, room, level, MOST_GROUPS)
        return None

    def _longest(self, room: int, level: int, groups: int) -> int:
        """How many steps fit at least, each of which is computed `level` times again at most."""
        if room < self._step.row or not (level and groups):
            return self._longest(room, level - 1, MOST_GROUPS) if level else self._rows(room)
        shift = max(0, room.bit_length() - _BITS)
        room = room >> shift << shift
        known = self._known.get((room, level, groups))
        if known is None:
            known = self._longest(room, level - 1, MOST_GROUPS)
            for count in _counts(room // self._step.carry):
                left = room - count * self._step.carry
                segments = count * self._longest(left, level - 1, MOST_GROUPS)
                known = max(known, segments + self._longest(left, level, groups - 1))
            self._known[room, level, groups] = known
        return known

    def _rows(self, room: int) -> int:
        return max(0, room // self._step.row)

    def _cut(self, length: int, room: int, level: int, groups: int) -> LoopCut | None:
        """The cut whose steps are computed `level` times again at most."""
        if length <= self._rows(room):
            return None
        if not groups or self._longest(room, level - 1, MOST_GROUPS) >= length:
            return self._cut(length, room, level - 1, MOST_GROUPS)
        found: list[LoopCut] = []
        for count in _counts(min(length, room // self._step.carry)):
            left = room - count * self._step.carry
            longest = self._longest(left, level - 1, MOST_GROUPS)
            if count * longest + self._longest(left, level, groups - 1) < length or not longest:
                continue
            segment = min(longest, max(1, -(-(length - longest) // count)))
            tail = self._cut(length - count * segment, left, level, groups - 1)
            inner = self._cut(segment, left, level - 1, MOST_GROUPS)
            found.append(LoopCut(segment, count, inner, tail))
            if len(found) == MOST_COMPARED[level]:
                break
        return min(found, key=steps_again)


def _counts(most: int) -> list[int]:
    """Some numbers up to one, two for each power of 2; that one too."""
    counts, power = [1], 2
    while power <= most:
        counts += [power, power + power // 2]
        power *= 2
    return [n for n in dict.fromkeys([*counts, most]) if 0 < n <= most]
