"""The factors of passes, the sides of squares, and longer lengths for convolutions.

Costs are in cycles, those of passes for each block.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

COSTS: Final = {
    2: (5.1, 5.8),
    3: (5.3, 6.1),
    4: (5.2, 6.1),
    5: (6.0, 7.0),
    6: (5.8, 7.0),
    7: (6.7, 8.4),
    8: (6.3, 7.5),
    9: (7.6, 9.6),
    10: (8.0, 11.6),
    11: (11.3, 12.9),
    12: (7.3, 10.9),
    13: (13.2, 16.0),
    15: (9.2, 12.9),
    16: (8.2, 11.8),
    17: (20.0, 23.0),
    19: (24.0, 27.0),
    23: (33.0, 36.0),
}
"""Cycles of a pass for each block, by its radix: without factors and with them."""

CALL: Final = 40.0
"""Cycles that calling a stage takes."""

TURN: Final = 7.0
"""Cycles in which rows and columns of a block are exchanged."""

LENGTHS: Final = 1024
"""Lengths whose factors are remembered: those that were asked for last."""

SMALL_PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23)


class Passes(NamedTuple):
    """The length that passes transform, its factors in their order, and cycles for each block."""

    length: int
    factors: tuple[int, ...]
    cost: float


@lru_cache(LENGTHS)
def passes_of(n: int) -> Passes:
    """Passes of the length itself, or of one that is long enough for a convolution of it."""
    own = _passes(n)
    return _passes_of_longer(2 * n - 1) if own is None else own


def _passes(n: int) -> Passes | None:
    """The cheapest passes, of which the last needs no factors; None if there are none."""
    if n == 1:
        return Passes(1, (1,), COSTS[2][0])
    found: list[Passes] = []
    for radix, (plain, _) in COSTS.items():
        rest = _first_passes(n // radix) if n % radix == 0 else None
        if rest is not None:
            found.append(Passes(n, (*rest.factors, radix), rest.cost + plain))
    return min(found, key=lambda passes: passes.cost, default=None)


@lru_cache(LENGTHS)
def _first_passes(n: int) -> Passes | None:
    """The cheapest passes that need factors; None if there are none."""
    if n == 1:
        return Passes(1, (), 0.0)
    found: list[Passes] = []
    for radix, (_, cost) in COSTS.items():
        rest = _first_passes(n // radix) if n % radix == 0 else None
        if rest is not None:
            factors = tuple(sorted((*rest.factors, radix)))
            found.append(Passes(n, factors, rest.cost + cost))
    return min(found, key=lambda passes: passes.cost, default=None)


@lru_cache(LENGTHS)
def _passes_of_longer(least: int) -> Passes:
    """Passes of the length from a least one on whose transform costs least."""
    found = [passes for n in _smooth_lengths(least) if (passes := _passes(n)) is not None]
    return min(found, key=lambda passes: passes.length * passes.cost)


def _smooth_lengths(least: int) -> list[int]:
    """Products of small primes from a least one up to the next power of two."""
    most = 1 << (least - 1).bit_length()
    lengths = [1]
    for prime in (3, 5, 7, 11):
        powers = [prime**i for i in range(most.bit_length()) if prime**i <= most]
        lengths = [n * power for n in lengths for power in powers if n * power <= most]
    halvings = [1 << (-(-least // n) - 1).bit_length() for n in lengths]
    found = [n * power for n, power in zip(lengths, halvings, strict=True)]
    return sorted([n for n in found if n <= most])


@lru_cache(LENGTHS)
def sides_of(n: int, lanes: int) -> tuple[int, int] | None:
    """The sides of the square whose columns and rows cost least; None where there is none."""
    found = [(n // side, side) for side in _divisors(n) if 1 < side < n]
    near = [s for s in found if max(s) <= lanes * min(s)]
    return min(near, key=lambda sides: square_cost(sides[0], sides[1], lanes), default=None)


def _divisors(n: int) -> list[int]:
    """The divisors of a product of small primes."""
    divisors = [1]
    for prime in SMALL_PRIMES:
        powers = [1]
        while n % prime == 0:
            n //= prime
            powers.append(powers[-1] * prime)
        divisors = [d * power for d in divisors for power in powers]
    return divisors


def square_cost(rows: int, columns: int, lanes: int) -> float:
    """The estimated cycles of one transform as a square."""
    wide, high = -(-columns // lanes), -(-rows // lanes)
    first, second = passes_of(rows), passes_of(columns)
    passes = rows * wide * (first.cost + 2) + columns * high * (second.cost + 2)
    calls = len(first.factors) + len(second.factors) + 1
    return passes + wide * high * lanes * TURN + calls * CALL
