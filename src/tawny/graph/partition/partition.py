"""A graph in segments for several machines: what each computes, needs and takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.graph.options import CompileOptions
from tawny.graph.partition.choice import (
    Demand,
    GraphToCut,
    WorkerBytes,
    choose,
    stages_of,
    worker_bytes,
)
from tawny.graph.partition.metis import require_metis
from tawny.graph.partition.program import LocalPartition
from tawny.graph.partition.segments import Pieces, SegmentOutput, travelling_bytes
from tawny.graph.partition.timing import Link, makespan, stream_seconds
from tawny.graph.plan import Plan
from tawny.graph.profile.estimate import Estimate, estimate_plan
from tawny.graph.profile.table import as_table, count_text, seconds_text
from tawny.lazy import LazyModule, cached_property
from tawny.memory.budget import parse_bytes
from tawny.node import Node
from tawny.rewrite.flow import Flow
from tawny.rewrite.pipeline import FUSE_PASSES, SIMPLIFY_PASSES
from tawny.shape import as_int
from tawny.source import describe
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.distributed import pipeline
    from tawny.distributed.pipeline import DistributedPartition
else:
    pipeline = LazyModule("tawny.distributed.pipeline")

MOST_WORKERS: Final = 1024
"""The most workers; values that go between more would take longer than is saved."""

BANDWIDTH: Final = 1.25e9
"""Bytes a second that a network moves, unless another number is given: 10 Gbit/s."""

LATENCY: Final = 2e-3
"""Seconds from the end of a segment to the start of what reads it, unless another number is given:
what Dask takes to hand over a task."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class GraphSegment(Unique):
    """A part of a graph that one worker computes in one go: a graph of its own, with its plan."""

    number: int
    worker: int
    """The number of the worker that computes it."""
    level: int
    """How often values have changed workers before it, at most."""
    graph: Graph
    """The computation; values of other segments are variables of it."""
    plan: Plan
    options: CompileOptions
    """How it is compiled."""
    reads: Mapping[str, SegmentOutput]
    """By the name of a variable of its graph, the value of another segment that it takes."""
    variables: tuple[str, ...]
    """The names of the whole graph's variables that it reads or updates."""
    nodes: tuple[Node, ...]
    """The nodes of the whole graph, after its rewriting, that it computes."""
    received_bytes: int
    """Bytes that travel to it from other workers in each run."""

    @cached_property
    def estimate(self) -> Estimate:
        """What a run of it will take on a machine like this one."""
        return estimate_plan(self.plan, self.graph.name or "segment")

    @property
    def peak_bytes(self) -> int:
        """The peak of its plan: what it computes."""
        return self.plan.peak_bytes

    @property
    def operations(self) -> int:
        """Scalar operations of a run."""
        return sum([node.cost().operations for node in self.nodes])

    @property
    def bytes(self) -> int:
        """Bytes that its nodes read and write."""
        costs = [node.cost() for node in self.nodes]
        return sum([cost.bytes_read + cost.bytes_written for cost in costs])

    @property
    def sources(self) -> tuple[int, ...]:
        """The numbers of the segments whose values it takes."""
        return tuple(sorted({given.segment for given in self.reads.values()}))

    def __repr__(self) -> str:
        return (
            f"<Segment {self.number + 1} on worker {self.worker + 1}: {len(self.nodes)} nodes, "
            f"{count_text(self.operations)}FLOP, peak {count_text(self.peak_bytes)}B>"
        )


class WorkerShare(NamedTuple):
    """The part of a graph that one worker has."""

    number: int
    segments: tuple[int, ...]
    """The numbers of its segments."""
    memory: WorkerBytes
    """The bytes it needs, exactly: `total`, and what they are for."""
    seconds: float
    """The predicted time of its segments in each run."""


@final
class Partition(Unique):
    """A graph cut into segments for several workers; `Graph.partition` makes it.

    Printed, it says what each segment and each worker has to do, and how long a run will take
    beside one machine, before anything is deployed.  `compile` makes it runnable.

        x, w = tw.var("x", (8, 64)), tw.var("w", (64, 64))
        graph = tw.Graph([x, w], np.tanh(np.tanh(x @ w) @ w))
        parts = graph.partition(workers=2)
        sorted({segment.worker for segment in parts.segments})   # -> [0, 1]
    """

    def __init__(self, graph: Graph, demand: Demand) -> None:
        self.graph = graph
        self.demand = demand
        chosen = choose(_rewritten(graph, demand.options), demand)
        self._pieces: Pieces = chosen.pieces
        travelling = travelling_bytes(chosen.pieces)
        self.segments: tuple[GraphSegment, ...] = tuple(
            [
                GraphSegment(
                    *(number, piece.place.worker, piece.place.level, piece.graph, plan, options),
                    *(piece.reads, piece.variables, piece.nodes),
                    received_bytes=sum(travelling[number].values()),
                )
                for number, (piece, plan, options) in enumerate(
                    zip(chosen.pieces.pieces, chosen.plans, chosen.options, strict=True)
                )
            ]
        )
        """The segments, in an order in which they can be run."""
        self.outputs: tuple[SegmentOutput, ...] = chosen.pieces.outputs
        """For each output of the graph the segment that gives it, and the number it has there."""
        self.worker_bytes: tuple[WorkerBytes, ...] = tuple(
            worker_bytes(chosen.pieces, chosen.plans, demand.flights, demand.workers)
        )
        """The bytes that each worker needs, exactly."""

    @property
    def peak_bytes(self) -> int:
        """The bytes of the worker that needs most."""
        return max([own.total for own in self.worker_bytes])

    @property
    def travelling_bytes(self) -> int:
        """Bytes that go from one worker to another in each run."""
        return sum([segment.received_bytes for segment in self.segments])

    @cached_property
    def workers(self) -> tuple[WorkerShare, ...]:
        """What each worker has."""
        found: list[WorkerShare] = []
        for number, memory in enumerate(self.worker_bytes):
            own = [segment for segment in self.segments if segment.worker == number]
            seconds = sum([segment.estimate.seconds for segment in own])
            found.append(WorkerShare(number, tuple([s.number for s in own]), memory, seconds))
        return tuple(found)

    @cached_property
    def seconds(self) -> float:
        """The predicted time of a run by itself."""
        return makespan(self._stages(), self.demand.link, 1, 1)

    @cached_property
    def stream_seconds(self) -> float:
        """The predicted time of each further run of many; with updates they cannot overlap."""
        if self.demand.flights == 1:
            return self.seconds
        return stream_seconds(self._stages(), self.demand.link, self.demand.flights)

    @cached_property
    def single_seconds(self) -> float:
        """The predicted time of a run of the whole graph on one of the machines."""
        options = self.demand.options._replace(memory=None)
        return self.graph.estimate(**options._asdict()).seconds

    def _stages(self) -> Any:
        return stages_of(self._pieces, [segment.estimate.seconds for segment in self.segments])

    def compile(self, client: Any = None) -> LocalPartition | DistributedPartition:
        """Make the segments runnable.

        - `client`: a `distributed.Client` with at least as many workers as the graph was cut for;
          None runs all segments in this process, one after the other.

        Gives what is called and set as a program is: see `docs/distributed.md`.  Close it, or use
        it in a `with` block, and the workers forget it.

            x, w = tw.var("x", (8, 64)), tw.var("w", (64, 64))
            parts = tw.Graph([x, w], np.sum(np.tanh(x @ w) @ w)).partition(workers=2)
            program = parts.compile()
            float(program(numpy.ones((8, 64)), numpy.zeros((64, 64))))   # -> 0.0
        """
        if client is None:
            return LocalPartition(self)
        found: DistributedPartition = pipeline.deploy(self, client)
        return found

    def __repr__(self) -> str:
        demand, name = self.demand, self.graph.name or "graph"
        moved = f"{count_text(self.travelling_bytes)}B travel in a run"
        link = (
            f"{count_text(demand.link.bandwidth)}B/s, "
            f"{seconds_text(demand.link.latency)} from segment to segment"
        )
        return as_table(
            [
                f"{name}: {len(self.segments)} segments on {demand.workers} workers, {moved} "
                f"({link})"
            ],
            ("segment", "worker", "nodes", "FLOP", "bytes", "peak", "in", "time", "from", "lines"),
            [*map(_row, self.segments)],
            [*map(self._worker_text, self.workers), self._verdict()],
        )

    def _worker_text(self, share: WorkerShare) -> str:
        memory, limit = share.memory, self.demand.memory
        of = "" if limit is None else f" of {count_text(limit)}B"
        return (
            f"worker {share.number + 1}: {count_text(memory.total)}B{of} "
            f"(plans {count_text(memory.plans)}B, constants {count_text(memory.constants)}B, "
            f"variables {count_text(memory.variables)}B, values between segments "
            f"{count_text(memory.values)}B), {seconds_text(share.seconds)} at work in a run"
        )

    def _verdict(self) -> str:
        """Whether it helps, in words."""
        alone, single = self.seconds, self.single_seconds
        each = self.stream_seconds
        many = "" if self.demand.flights == 1 else f", {seconds_text(each)} each if many overlap"
        gain = single / each if each else 1.0
        said = (
            f"{gain:.2f} times as fast as"
            if gain > 1
            else f"slower than ({gain:.2f} times as fast as)"
        )
        return (
            f"predicted: {seconds_text(alone)} a run{many}; one machine takes "
            f"{seconds_text(single)}: {said} one machine"
        )


def _row(segment: GraphSegment) -> tuple[str, ...]:
    sources = ", ".join([str(number + 1) for number in segment.sources]) or "inputs"
    ends = [node.sources[:1] for node in (*segment.nodes[:1], *segment.nodes[-1:])]
    lines = " … ".join(dict.fromkeys([describe(one) for one in ends]))
    return (
        *(str(segment.number + 1), str(segment.worker + 1), str(len(segment.nodes))),
        count_text(segment.operations).strip(),
        count_text(segment.bytes).strip(),
        count_text(segment.peak_bytes).strip(),
        count_text(segment.received_bytes).strip(),
        seconds_text(segment.estimate.seconds),
        *(sources, lines),
    )


def _rewritten(graph: Graph, options: CompileOptions) -> GraphToCut:
    """The graph to cut: simplified and with its products fused, so that bits are as of one program.

    Grouping is left to the segments.
    """
    results = list(graph.results)
    if options.optimise:
        passes = (*SIMPLIFY_PASSES, *FUSE_PASSES)
        results = [*graph._rewrite(Flow(graph.results), passes, options).outputs]  # pyright: ignore[reportPrivateUsage]
    targets = [target for target, _ in graph.update_nodes]
    count = len(graph.output_nodes)
    updates = dict(zip(targets, results[count:], strict=True))
    return GraphToCut(results, count, updates, graph.names, graph.name or "segment")


def make_partition(
    graph: Graph,
    workers: int,
    memory: str | float | None,
    micro_batches: int | None,
    link: tuple[float, float],
    options: CompileOptions,
) -> Partition:
    """A graph cut for several workers; `Graph.partition` says what the arguments are."""
    count = as_int(workers, "partition", "workers")
    if not 1 <= count <= MOST_WORKERS:
        raise value_error("partition", f"workers is {count}; it must be from 1 to {MOST_WORKERS}")
    require_metis("partition")
    flights = 1 if graph.update_nodes else count + 1
    if micro_batches is not None:
        flights = as_int(micro_batches, "partition", "micro_batches")
    if flights < 1:
        raise value_error("partition", f"micro_batches is {flights}; it must be at least 1")
    if flights > 1 and graph.update_nodes:
        name = graph.names[graph.update_nodes[0][0]]
        raise value_error(
            "partition",
            f"micro_batches is {flights}, but updates change {name!r}, so each run depends on the "
            "one before it",
        )
    for word, number in zip(("bandwidth", "latency"), link, strict=True):
        if not isinstance(number, (int, float)) or not number > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error("partition", f"{word} is {number!r}; accepted: a number above zero")
    budget = None if memory is None else parse_bytes(memory)
    bandwidth, latency = link
    demand = Demand(count, budget, flights, Link(float(latency), float(bandwidth)), options)
    return Partition(graph, demand)
