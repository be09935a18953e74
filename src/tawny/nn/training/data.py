"""Data for training: whole arrays cut into batches, or batches somebody else makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from tawny.array import Array, check_unmasked
from tawny.dtype import kind_of
from tawny.errors import type_error, value_error
from tawny.node import Value
from tawny.optim.batches import Batches, Rows
from tawny.optim.structures import variables_for
from tawny.tree import leaf_paths, leaves, map_leaves


class Batch(NamedTuple):
    """The data of one step."""

    inputs: tuple[Any, ...]
    """One structure of arrays for each argument of the model."""
    target: Any
    structure: Hashable = ()
    """What tells batches with equal arrays apart: the paths to these."""
    targets: Any = ()
    """All targets that this batch's are some of: those of the data, where these are arrays."""

    @property
    def rows(self) -> int:
        """How many samples there are."""
        return len(leaves(self.inputs)[0])

    @property
    def arrays(self) -> list[Any]:
        """All arrays, in order."""
        return [*leaves(self.inputs), *leaves(self.target)]


class BatchSource(ABC):
    """A source of batches."""

    @abstractmethod
    def count(self) -> int | None:
        """Batches of an epoch; None where that is not known."""

    @abstractmethod
    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on."""

    def sample(self) -> Batch | None:
        """The first batch; None where somebody else would have to make it."""
        return None

    @abstractmethod
    def description(self) -> str:
        """What two runs must share to see the same batches."""


class ArraySource(BatchSource):
    """Arrays whose first axis counts the samples."""

    def __init__(self, data: Batch, batches: Batches, seed: int, op: str) -> None:
        self._data = data
        self._batches = batches
        self._seed = seed
        self._total = data.rows
        if not self._total:
            raise value_error(op, "the data have no rows")

    def count(self) -> int:
        return self._batches.count(self._total)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for rows in self._batches.rows(self._total, number, self._seed, start):
            data = self._data
            inputs, target = take_rows(data.inputs, rows), take_rows(data.target, rows)
            yield data._replace(inputs=inputs, target=target)

    def sample(self) -> Batch:
        return next(self.epoch(0))

    def description(self) -> str:
        return f"{self._total} rows in {self._batches!r} with seed {self._seed}"


class IteratorSource(BatchSource):
    """Batches in the order something gives them, the same thing for each epoch."""

    def __init__(self, batches: Iterable[Any], op: str) -> None:
        if iter(batches) is batches:
            raise type_error(
                op,
                "the data are an iterator, which is spent after one epoch; accepted: (x, y), "
                "or something that can be iterated over again, as a list",
            )
        self._given = batches
        self._op = op

    def count(self) -> int | None:
        length = getattr(self._given, "__len__", None)
        return None if length is None else length()

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        position = -1
        for position, pair in enumerate(self._given):
            if position >= start:
                yield as_batch(pair, self._op)
        if position < 0:
            raise value_error(self._op, f"the data have no batch in epoch {number}")

    def sample(self) -> Batch | None:
        batches: object = self._given
        if isinstance(batches, Sequence) and batches:
            return as_batch(batches[0], self._op)
        return None

    def description(self) -> str:
        return "given batches"


def as_source(data: Any, batches: Batches, seed: int, op: str) -> BatchSource:
    """Data as a user gives them: a pair `(x, y)` of arrays, or an iterable of such pairs."""
    given: object = data
    if isinstance(given, tuple):
        return ArraySource(as_batch(data, op, "the data are"), batches, seed, op)
    if isinstance(given, Iterable) and not isinstance(given, (Mapping, str, np.ndarray, Array)):
        return IteratorSource(data, op)
    raise type_error(op, f"the data are {_kind(data)}; accepted: (x, y), or batches")


def as_batch(pair: Any, op: str, what: str = "a batch is") -> Batch:
    """`(x, y)`, checked: x is an array, or a tuple with one for each argument of the model."""
    given: object = pair
    if not isinstance(given, (tuple, list)) or len(pair) != 2:
        raise type_error(op, f"{what} {_kind(pair)}; accepted: a pair (x, y)")
    x: object = pair[0]
    inputs: tuple[Any, ...] = pair[0] if isinstance(x, tuple) else (x,)
    batch = Batch(*[map_leaves(lambda a: _array(a, op), part) for part in (inputs, pair[1])])
    shown = batch.inputs[0] if len(inputs) == 1 else batch.inputs
    named = dict(leaf_paths({"x": shown, "y": batch.target}))
    lengths: dict[str, int] = {}
    for path, array in named.items():
        if not array.shape:
            raise value_error(op, f"{path} has no axes: it is {_short_repr(array)}; {_ACCEPTED}")
        lengths[path] = len(array)
    if not lengths:
        raise value_error(op, f"there is no array; {_ACCEPTED}")
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{path} {n}" for path, n in lengths.items())
        raise value_error(op, f"all arrays of a batch must have as many rows; they have: {said}")
    return batch._replace(structure=tuple(named), targets=batch.target)


_ACCEPTED: Final = (
    "accepted: arrays whose first axis counts the samples "
    "(numpy.asarray makes one of a list of numbers)"
)


def _kind(given: Any) -> str:
    """What something is, as messages say it."""
    name = type(given).__name__
    if name in ("tuple", "list"):
        return f"a {name} of {len(given)}"
    return f"one array of shape {given.shape}" if hasattr(given, "shape") else name


def _short_repr(array: Value) -> str:
    text = repr(array.item())
    return text if len(text) <= 20 else f"{text[:20]}..."


def nonfinite_arrays(batch: Batch) -> list[str]:
    """The arrays of a batch that have NaN or infinities, by name."""
    return [
        name
        for name, array in zip(cast("tuple[str, ...]", batch.structure), batch.arrays, strict=True)
        if kind_of(array.dtype) in "fc" and not np.isfinite(array).all()
    ]


def take_rows(structure: Any, rows: Rows) -> Any:
    """Some rows of every array."""
    return map_leaves(lambda a: a[rows], structure)


def _array(x: Any, op: str) -> Value:
    check_unmasked(x, op, "an array of the data")
    return np.asarray(x)


def batch_variables(batch: Batch) -> Batch:
    """Variables for a batch of this size: `x` (`x.0`, `x.1`, ... for several) and `y`."""
    single = len(batch.inputs) == 1
    inputs = (variables_for(batch.inputs[0], "x"),) if single else variables_for(batch.inputs, "x")
    return Batch(inputs, variables_for(batch.target, "y"))


def signature(batch: Batch) -> Hashable:
    """What two batches share that one program can take."""
    return batch.structure, *((a.shape, a.dtype) for a in batch.arrays)


def values_of(batch: Batch, variables: Batch) -> dict[str, Value]:
    """The arrays of a batch by the names of their variables."""
    names = [v.node.name for v in variables.arrays]
    return dict(zip(names, batch.arrays, strict=True))
