"""The best of several ways to cut a graph: what fits into the workers, and takes the least time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tawny.graph.graph import Graph
from tawny.graph.options import CompileOptions
from tawny.graph.partition.items import Items, value_bytes
from tawny.graph.partition.levels import Levels
from tawny.graph.partition.metis import CutGraph, in_order, monotone, numbered_by_place
from tawny.graph.partition.segments import (
    Pieces,
    SegmentBuilder,
    SegmentOutput,
    given_bytes,
    travelling_bytes,
)
from tawny.graph.partition.timing import Link, PipelineStage, makespan, stream_seconds
from tawny.graph.plan import Plan
from tawny.memory.budget import MemoryBudgetError
from tawny.node import Node, Variable

TRIALS: Final = ((1.0, 30), (0.5, 30), (0.0, 30), (1.0, 200), (0.5, 200))
"""What METIS is asked for: how much of a weight is time, and by how many thousandths of the mean
weights may differ."""


class Demand(NamedTuple):
    """The workers that a graph is cut for, and how it is to be compiled."""

    workers: int
    memory: int | None
    """Bytes of each worker."""
    flights: int
    """Runs that are under way at a time."""
    link: Link
    options: CompileOptions


class Candidate(NamedTuple):
    """A way to cut a graph."""

    pieces: Pieces
    busy: int
    """How many workers have something to do."""
    seconds: float
    """What a run takes on ordinary processors: to compare, not to predict."""


class SegmentPlans(NamedTuple):
    """Segments with their plans, which fit."""

    pieces: Pieces
    plans: tuple[Plan, ...]
    options: tuple[CompileOptions, ...]


class GraphToCut(NamedTuple):
    """A graph after its rewriting."""

    results: Sequence[Node]
    outputs: int
    """How many of the results are outputs."""
    updates: Mapping[Node, Node]
    names: Mapping[Node, str]
    label: str


def choose(graph: GraphToCut, demand: Demand) -> SegmentPlans:
    """The segments of a graph with plans that fit into the workers."""
    candidates = sorted(_candidates(graph, demand), key=lambda one: (-one.busy, one.seconds))
    tried: list[tuple[Candidate, tuple[Plan, ...]]] = []
    for candidate in candidates:
        plans = tuple([_plan(piece.graph, demand.options) for piece in candidate.pieces.pieces])
        if _fits(candidate.pieces, plans, demand):
            return SegmentPlans(candidate.pieces, plans, (demand.options,) * len(plans))
        tried.append((candidate, plans))
    assert demand.memory is not None
    least: list[int] = []
    for candidate, plans in tried:
        smaller = _Shrunk(candidate.pieces, plans, demand)
        if smaller.least <= demand.memory:
            return smaller.segment_plans()
        least.append(smaller.least)
    raise MemoryBudgetError(demand.memory, min(least))


def _plan(graph: Graph, options: CompileOptions) -> Plan:
    given = options._asdict()
    return graph.plan(**given)


# ---------------------------------------------------------------------- candidates


def _candidates(graph: GraphToCut, demand: Demand) -> Iterator[Candidate]:
    items = Items(graph.results, graph.updates)
    known: set[tuple[int, ...]] = set()
    for assignment in _assignments(items, demand.workers):
        key = tuple([assignment[item] for item in items.all])
        if key not in known:
            known.add(key)
            levels = Levels(items, assignment)
            builder = SegmentBuilder(items, levels, graph.names, graph.label)
            pieces = builder.build(graph.results[: graph.outputs])
            busy = len({piece.place.worker for piece in pieces.pieces})
            yield Candidate(pieces, busy, _nominal_seconds(items, pieces, demand))


def _assignments(items: Items, workers: int) -> Iterator[dict[Node, int]]:
    """Ways to hand out the items."""
    cut = CutGraph(items)
    for time_share, slack in TRIALS:
        assignment = numbered_by_place(items, cut.cut(workers, time_share, slack))
        yield assignment
        yield monotone(items, assignment)
    yield in_order(items, workers, lambda weight: weight.seconds)
    yield in_order(items, workers, lambda weight: float(weight.bytes))


def _nominal_seconds(items: Items, pieces: Pieces, demand: Demand) -> float:
    seconds = [sum([items.weight(n).seconds for n in piece.nodes]) for piece in pieces.pieces]
    return step_seconds(stages_of(pieces, seconds), demand)


def stages_of(pieces: Pieces, seconds: Sequence[float]) -> list[PipelineStage]:
    """Segments as far as their time is concerned."""
    travelling = travelling_bytes(pieces)
    found: list[PipelineStage] = []
    for piece, taken, own in zip(pieces.pieces, travelling, seconds, strict=True):
        takes: dict[int, int] = {}
        for given in piece.reads.values():
            takes[given.segment] = takes.get(given.segment, 0) + taken.get(given, 0)
        found.append(PipelineStage(piece.place.worker, piece.place.level, own, takes))
    return found


def step_seconds(stages: Sequence[PipelineStage], demand: Demand) -> float:
    """Seconds of a run, among others if several are under way."""
    if demand.flights == 1:
        return makespan(stages, demand.link, 1, 1)
    return stream_seconds(stages, demand.link, demand.flights)


# -------------------------------------------------------------------------- memory


class WorkerBytes(NamedTuple):
    """The memory of a worker, once all of it is in use."""

    plans: int
    """What its segments compute: the peaks of their plans."""
    constants: int
    variables: int
    values: int
    """Values that go between segments, of all runs under way, and outputs."""

    @property
    def total(self) -> int:
        """Bytes of all these together."""
        return sum(self)


def worker_bytes(
    pieces: Pieces, plans: Sequence[Plan], flights: int, workers: int
) -> list[WorkerBytes]:
    """The memory that each worker needs."""
    travelling = travelling_bytes(pieces)
    found: list[WorkerBytes] = []
    for worker in range(workers):
        own = [n for n, piece in enumerate(pieces.pieces) if piece.place.worker == worker]
        variables: dict[str, int] = {}
        received: dict[SegmentOutput, int] = {}
        made = constants = 0
        for number in own:
            piece = pieces.pieces[number]
            graph = piece.graph
            for node in graph.variables:
                if graph.names[node] in piece.variables:
                    variables[graph.names[node]] = value_bytes(node)
            received |= travelling[number]
            made += sum(
                [given_bytes(pieces, SegmentOutput(number, n)) for n in range(len(piece.gives))]
            )
            constants += _constant_bytes(plans[number])
        values = flights * (sum(received.values()) + made)
        peaks = sum([plans[number].peak_bytes for number in own])
        found.append(WorkerBytes(peaks, constants, sum(variables.values()), values))
    return found


def _constant_bytes(plan: Plan) -> int:
    variables = [node for node in plan.lowered.order if isinstance(node.op, Variable)]
    return plan.resident_bytes - sum(map(value_bytes, variables))


def _fits(pieces: Pieces, plans: Sequence[Plan], demand: Demand) -> bool:
    needed = worker_bytes(pieces, plans, demand.flights, demand.workers)
    return demand.memory is None or max([own.total for own in needed]) <= demand.memory


class _Shrunk:
    """Segments whose plans are made for as little memory as is needed."""

    def __init__(self, pieces: Pieces, plans: Sequence[Plan], demand: Demand) -> None:
        self._pieces, self._plans, self._demand = pieces, plans, demand
        needed = worker_bytes(pieces, plans, demand.flights, demand.workers)
        self._outside = [own.total - own.plans for own in needed]
        """For each worker the bytes that no plan decides."""
        self._least = [
            _least_bytes(piece.graph, plan, demand.options)
            for piece, plan in zip(pieces.pieces, plans, strict=True)
        ]
        self.least: Final = max(
            [self._outside[w] + self._sum(self._least, w) for w in range(demand.workers)]
        )
        """What each worker must have, at least."""

    def _sum(self, bytes: Sequence[int], worker: int) -> int:
        """The bytes of a worker's segments."""
        pairs = zip(self._pieces.pieces, bytes, strict=True)
        return sum([own for piece, own in pairs if piece.place.worker == worker])

    def segment_plans(self) -> SegmentPlans:
        """The segments within the memory of their workers."""
        budgets = self._budgets()
        options = [
            self._demand.options if budget is None else self._demand.options._replace(memory=budget)
            for budget in budgets
        ]
        plans = [
            plan if budget is None else _plan(piece.graph, own)
            for piece, plan, own, budget in zip(
                self._pieces.pieces, self._plans, options, budgets, strict=True
            )
        ]
        return SegmentPlans(self._pieces, tuple(plans), tuple(options))

    def _budgets(self) -> list[int | None]:
        """The bytes of each plan: the least, and a share of what is left in its worker."""
        assert self._demand.memory is not None
        peaks = [plan.peak_bytes for plan in self._plans]
        found: list[int | None] = []
        for piece, peak, least in zip(self._pieces.pieces, peaks, self._least, strict=True):
            worker = piece.place.worker
            whole, lowest = self._sum(peaks, worker), self._sum(self._least, worker)
            room = self._demand.memory - self._outside[worker]
            if whole <= room:
                found.append(None)
            else:
                found.append(least + (room - lowest) * (peak - least) // (whole - lowest))
        return found


def _least_bytes(graph: Graph, plan: Plan, options: CompileOptions) -> int:
    """The smallest budget that a segment can be planned in."""
    try:
        found = _plan(graph, options._replace(memory=1))
    except MemoryBudgetError as error:
        return min(error.least_bytes, plan.peak_bytes)
    return found.peak_bytes
