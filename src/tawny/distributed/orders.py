"""What travels for replicas: what they are, what they are to do, and what they say of it."""

from __future__ import annotations

from typing import NamedTuple

from tawny.distributed.payloads import ProgramFile
from tawny.distributed.streams import WorkerGroup
from tawny.node import Value
from tawny.shape import Shape


class VectorPlace(NamedTuple):
    """The place of an output in one of the vectors of which means are taken."""

    vector: int
    start: int
    stop: int
    is_statistic: bool
    """Whether shards count by their rows, however the loss is made of theirs."""


class VectorSpec(NamedTuple):
    """A vector of which means are taken: all outputs of one dtype, one after the other."""

    dtype: str
    size: int


class ReplicaPlan(NamedTuple):
    """The things that all replicas of one training have alike."""

    session: str
    op: str
    version: str
    """The client's version of Tawny."""
    update: ProgramFile
    """From mean vectors `mean.0`, ... and `loss` to what is to be told, with update edges."""
    vectors: tuple[VectorSpec, ...]
    places: tuple[VectorPlace, ...]
    """The places of the outputs of a shard's program behind the loss."""
    variables: dict[str, tuple[Shape, str]]
    """Shape and dtype of every array that a replica holds, by name."""


class Shard(NamedTuple):
    """The rows of a batch that one worker computes."""

    program: int
    """Which of the programs that travel with the order computes them."""
    values: dict[str, Value]
    share: float
    """The part of the batch's rows that they are."""
    weight: float
    """The factor of the shard's loss and gradients in those of the batch."""


class StepTask(NamedTuple):
    """One step of one worker."""

    shard: Shard | None
    """None where a batch has fewer rows than there are workers."""
    contributors: int
    """Workers that have a shard: those of the lowest ranks."""


class WorkOrder(NamedTuple):
    """Some steps of one worker."""

    group: WorkerGroup
    rank: int
    start: int
    """The number of the first step."""
    state: str
    """The name of the state to begin from."""
    steps: tuple[StepTask, ...]


class GivenState(NamedTuple):
    """A state that the client has, for workers that have it not."""

    name: str
    arrays: dict[str, Value]


class StepReport(NamedTuple):
    """The steps that a worker has made, all that were asked for unless there is a reason."""

    address: str
    state: str
    """The name of the state that it has now."""
    found: list[tuple[float, ...]]
    """What the update told of each step."""
    seconds: float
    parted: str = ""
    """Why it made no more."""


class Stateless(NamedTuple):
    """The answer of a group of which nobody has the state to begin from."""

    address: str


class Absent(NamedTuple):
    """The answer of a worker that the order was not for: the other is gone, or busy."""

    address: str


class Readiness(NamedTuple):
    """The answer of a worker that can take part."""

    address: str
    instructions: str
    """The vector instructions for which it compiles."""
