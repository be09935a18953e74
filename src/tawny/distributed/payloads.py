"""What travels between a client and its workers: graphs as files, values, requests and replies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tawny.distributed.clients import send
from tawny.distributed.dask import Client, Future
from tawny.graph.graph import Graph
from tawny.graph.options import CompileOptions
from tawny.graph.saving import to_bytes
from tawny.node import Value


class ProgramFile(NamedTuple):
    """A graph as the bytes of its file, and how it is to be compiled."""

    digest: str
    """What is equal for equal programs alone."""
    data: npt.NDArray[np.uint8]
    options: CompileOptions
    label: str
    """What errors call it."""


def program_file(graph: Graph, options: CompileOptions, op: str) -> ProgramFile:
    """A graph as it travels; the number of threads is each worker's own."""
    options = options._replace(threads=None)
    data = to_bytes(graph, op)
    digest = hashlib.sha256(repr(options).encode())
    digest.update(data)
    return ProgramFile(
        digest.hexdigest(), np.frombuffer(data, np.uint8), options, graph.name or "graph"
    )


_DIGESTS: Final[WeakKeyDictionary[Graph, dict[CompileOptions, str]]] = WeakKeyDictionary()
"""What is known of graphs that were sent."""


def send_program(client: Client, graph: Graph, options: CompileOptions, op: str) -> Future:
    """A future of a graph as it travels; the number of threads is each worker's own."""
    options = options._replace(threads=None)
    known = _DIGESTS.setdefault(graph, {})
    label = graph.name or "graph"

    def make() -> ProgramFile:
        made = program_file(graph, options, op)
        known[options] = made.digest
        return made

    file = None if options in known else make()
    return send(client, f"{label} program-{known[options]}", lambda: file or make())


class CommonValues(NamedTuple):
    """Values of variables that all runs share."""

    digest: str
    values: dict[str, Value]


def common_values(values: Mapping[str, Value]) -> CommonValues:
    """Values with their digest."""
    digest = hashlib.sha256()
    for name, value in sorted(values.items()):
        digest.update(f"{name} {value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).data)
    return CommonValues(digest.hexdigest(), dict(values))


def send_values(client: Client, common: CommonValues) -> Future:
    """A future of values that all runs share."""
    return send(client, f"values-{common.digest}", lambda: common)


class Request(NamedTuple):
    """Some runs of one program."""

    op: str
    version: str
    """The client's version of Tawny."""
    columns: dict[str, Value]
    """For each of some variables its values, one along the first axis for each run."""
    runs: int
    draw: int
    """The number of the first run, which decides its random numbers."""


class Reply(NamedTuple):
    """The outputs of the runs of a request."""

    outputs: list[Value]
    """Each output of the graph, those of all runs along a first axis."""
    seconds: float
    """How long the runs took."""


class MemoryRefusal(NamedTuple):
    """The reason for which a worker with too little memory runs nothing."""

    reason: str


def as_aligned(value: Value) -> Value:
    """An array as programs read it where it lies: itself, if it can be."""
    return np.require(value, requirements=("C", "A"))


def stack(values: list[Value]) -> Value:
    """Arrays of one shape and dtype along a new first axis; one alone is not copied."""
    return values[0][np.newaxis] if len(values) == 1 else np.stack(values)


def unstack(stacked: Value) -> list[Value]:
    """The arrays along the first axis, each in memory of its own."""
    if len(stacked) == 1 and stacked.flags.writeable:
        return [stacked[0, ...]]
    return [part.copy() for part in (stacked[k, ...] for k in range(len(stacked)))]
