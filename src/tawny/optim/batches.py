"""Which rows of the data each step sees.

What is drawn depends only on the seed, the epoch and the place in it, so that a run can be taken
up at any step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import numpy.typing as npt

from tawny.errors import type_error, value_error
from tawny.shape import as_int

Rows = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batches(ABC):
    """A way to cut an epoch into batches."""

    @abstractmethod
    def count(self, total: int) -> int:
        """How many batches an epoch over `total` rows has."""

    @abstractmethod
    def rows(self, total: int, epoch: int, seed: int, start: int = 0) -> Iterator[Rows]:
        """The rows of each batch of an epoch, from batch number `start` on."""


@dataclass(frozen=True)
class Full(Batches):
    """All rows in each step."""

    def count(self, total: int) -> int:
        return 1

    def rows(self, total: int, epoch: int, seed: int, start: int = 0) -> Iterator[Rows]:
        yield from [slice(0, total)][start:]


@dataclass(frozen=True)
class Mini(Batches):
    """`size` rows in each step, every row once in an epoch; the last batch may be smaller.

    The rows are shuffled anew for each epoch, unless `shuffle` is False.
    """

    size: int
    shuffle: bool = True

    def __post_init__(self) -> None:
        _check_size(self, self.size)

    def count(self, total: int) -> int:
        return -(-total // self.size)

    def rows(self, total: int, epoch: int, seed: int, start: int = 0) -> Iterator[Rows]:
        order = np.random.default_rng([seed, epoch]).permutation(total) if self.shuffle else None
        for first in range(start * self.size, total, self.size):
            place = slice(first, min(first + self.size, total))
            yield place if order is None else order[place]


@dataclass(frozen=True)
class Sample(Batches):
    """`size` different rows drawn anew for each step; an epoch is as long as with `Mini`."""

    size: int

    def __post_init__(self) -> None:
        _check_size(self, self.size)

    def count(self, total: int) -> int:
        return -(-total // self.size)

    def rows(self, total: int, epoch: int, seed: int, start: int = 0) -> Iterator[Rows]:
        if self.size > total:
            raise value_error("Sample", f"{self.size} rows of only {total} cannot be drawn")
        for number in range(start, self.count(total)):
            yield np.random.default_rng([seed, epoch, number]).choice(
                total, self.size, replace=False
            )


@dataclass(frozen=True)
class Stochastic(Sample):
    """One row drawn for each step."""

    size: int = 1

    def __post_init__(self) -> None:
        if self.size != 1:
            raise value_error("Stochastic", "a batch has one row; use Sample for more")


def as_batches(given: object, op: str) -> Batches:
    """`given` as a way to make batches: a number stands for `Mini`."""
    if isinstance(given, Batches):
        return given
    if not isinstance(given, bool) and isinstance(given, Integral):
        return Mini(int(given))
    raise type_error(
        op, f"batch is {given!r}; accepted: a number of rows, or Full, Mini, Sample or Stochastic"
    )


def _check_size(batches: Batches, given: object) -> None:
    """Let the size be an integer of at least 1."""
    op = type(batches).__name__
    size = as_int(given, op, "size")
    if size < 1:
        raise value_error(op, f"size is {size}; it must be at least 1")
    object.__setattr__(batches, "size", size)
