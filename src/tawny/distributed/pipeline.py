"""A graph in segments on a cluster: each worker computes its own, and runs overlap."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar, final
from uuid import uuid4

import numpy as np

import tawny
from tawny.distributed.clients import (
    as_client,
    deliver,
    killed_workers,
    submit,
    workers_of,
)
from tawny.distributed.dask import Client, Future, distributed
from tawny.distributed.stages import (
    GroupUse,
    LostState,
    SegmentCall,
    SegmentFile,
    ShareFile,
    forget_shares,
    join,
    pick,
    read_state,
    run_segment,
)
from tawny.errors import with_location
from tawny.graph.partition.partition import GraphSegment, Partition
from tawny.graph.partition.program import PartitionedProgram, names_of
from tawny.graph.partition.segments import SegmentOutput
from tawny.graph.saving import to_bytes
from tawny.graph.values import ValueLists
from tawny.node import Value
from tawny.progress import progress

AHEAD: Final = 2
"""Runs that depend on each other by updates and are handed over at a time."""

ASKING_SECONDS: Final = 1.0
"""How often the client asks whether all workers are there, while it waits."""

JOINING_SECONDS: Final = 300.0
"""How long the client waits for workers in the place of those that were lost."""

MOST_LOSSES: Final = 8
"""How often workers may be lost during one call."""

SNAPSHOT_RUNS: Final = 100
"""Runs after which the state is fetched, so that no more are made again if a worker is lost."""

SNAPSHOT_BYTES: Final = 2**28
"""Bytes of inputs that the client keeps, at most, to make runs again."""

FETCHING_SECONDS: Final = 30.0
"""How long a result may travel before the client asks again whether all workers are there."""

USER: Final = -1
"""Who reads the graph's outputs, among the numbers of workers."""

_versions: Final = count()
_numbers: Final = count()

T = TypeVar("T")


class Bundle(NamedTuple):
    """Some outputs of a segment, which travel together."""

    segment: int
    readers: tuple[int, ...]
    """The workers that read them; -1 is the user."""


class Bundles:
    """The values that travel together: those that the same workers read."""

    def __init__(self, partition: Partition) -> None:
        readers: dict[SegmentOutput, set[int]] = {
            SegmentOutput(segment.number, output): set()
            for segment in partition.segments
            for output in range(len(segment.graph.output_nodes))
        }
        for segment in partition.segments:
            for given in segment.reads.values():
                readers[given].add(segment.worker)
        for given in partition.outputs:
            readers[given].add(USER)
        self.of_segment: Final[list[dict[Bundle, list[int]]]] = [{} for _ in partition.segments]
        """For each segment its bundles, with the numbers of their outputs."""
        self.place: Final[dict[SegmentOutput, tuple[Bundle, int]]] = {}
        """For each value its bundle, and its place there."""
        for given, found in readers.items():
            bundle = Bundle(given.segment, tuple(sorted(found)))
            members = self.of_segment[given.segment].setdefault(bundle, [])
            self.place[given] = bundle, len(members)
            members.append(given.output)
        self.of_user: Final = [*dict.fromkeys([self.place[g][0] for g in partition.outputs])]


class _ValueSet:
    """Values of variables that were set together."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values: Final = {name: np.array(value, order="C") for name, value in values.items()}
        self.version: Final = next(_versions)
        self.futures: Final[dict[int, Future]] = {}
        """For each worker those it reads."""

    @property
    def nbytes(self) -> int:
        return sum([value.nbytes for value in self.values.values()])


class _RunRequest(NamedTuple):
    """A run that was asked for."""

    draw: int
    groups: Mapping[str, _ValueSet]
    """What holds the value of each variable that updates do not change."""


class _Flight(NamedTuple):
    """The tasks of a run."""

    run: _RunRequest
    outputs: Mapping[Bundle, Future]
    """Of the bundles with outputs of the graph, those."""
    end: Future | None
    """What is there once all segments have ended, where they change a state."""


class _WorkerLost(Exception):  # noqa: N818  (never seen outside)
    """Some of what is under way cannot be finished."""


@final
class DistributedPartition(PartitionedProgram):
    """A graph in segments on the workers of a Dask cluster.

    Variables that updates change stay on the workers that change them.  If a worker is lost, runs
    go on with another: from the newest snapshot, which the client has, all runs since are made
    again with the same inputs and random numbers, so that nothing is lost or counted twice.
    """

    def __init__(self, partition: Partition, client: Client) -> None:
        super().__init__(partition)
        self._client = client
        self._name = f"{partition.graph.name or 'partition'}-{uuid4().hex}"
        self._addresses = self._find_workers([])
        self._files: dict[int, Future] = {}
        self._stateful = bool(partition.graph.update_nodes)
        self._names = [names_of(partition, w) for w in range(partition.demand.workers)]
        self._groups: dict[str, _ValueSet] = {}
        self._log: list[_RunRequest] = []
        """Runs that were made since the newest snapshot, which changed the state."""
        self._epoch = self._begun = 0
        """Which state runs began from, and how many were begun since."""
        self._tokens: dict[int, list[Future]] = {}
        """For each worker what is there once the newest run has ended."""
        self._bundles = Bundles(partition)
        self._file_all()

    # ------------------------------------------------------------------- workers

    def _find_workers(self, known: Sequence[str]) -> list[str]:
        """The address of each worker's process; those that are known and there stay."""
        needed, deadline = self.partition.demand.workers, time.monotonic() + JOINING_SECONDS
        with progress("partition") as work:
            while True:
                there = sorted(workers_of(self._client, "partition"))
                if len(there) >= needed:
                    break
                if not known or time.monotonic() > deadline:
                    raise RuntimeError(
                        with_location(
                            f"partition: the graph was cut for {needed} workers; the client has "
                            f"{len(there)}: start more, or cut it for fewer"
                        )
                    )
                work.now(f"waiting for {needed - len(there)} workers")
                time.sleep(0.1)
        free = [address for address in there if address not in known]
        return [one if one in there else free.pop(0) for one in known or there[:needed]]

    def _check_workers(self) -> None:
        """Say if one is gone."""
        if self._client.status != "running":
            raise ConnectionError(with_location(f"partition: client is {self._client.status}"))
        there = self._client.scheduler_info()["workers"]
        if any(address not in there for address in self._addresses):
            raise _WorkerLost

    def _file_all(self) -> None:
        """Send each worker its segments."""
        label = self.graph.name or "partition"
        for worker in range(self.partition.demand.workers):
            segments = [s for s in self.partition.segments if s.worker == worker]
            files = tuple([_segment_file(segment) for segment in segments])
            share = ShareFile(self._name, worker, files, label)
            self._files[worker] = self._submit(f"{label} segments", None, deliver, share)

    def _submit(
        self, label: str, worker: int | None, function: Any, *given: Any, priority: int = 0
    ) -> Future:
        """A task for one worker, or for any."""
        where = {} if worker is None else {"workers": [self._addresses[worker]]}
        key = f"{label}-{next(_numbers)}-{self._name}"
        return submit(self._client, key, function, *given, priority=priority, **where)

    # -------------------------------------------------------------------- values

    def _write(self, values: Mapping[str, Value]) -> None:
        changes = {name: value for name, value in values.items() if name in self._state_names()}
        if changes and self._log:
            self._persist(lambda: self._take_snapshot(changes))
        elif changes:
            self._forget_runs()
        self._groups.update(dict.fromkeys(values, _ValueSet(values)))

    def _take_snapshot(self, changes: Mapping[str, Value]) -> None:
        """Begin anew from the state as it is, with some changes."""
        state = _ValueSet({**self._fetch_state(), **changes})
        self._groups.update(dict.fromkeys(state.values, state))
        self._log.clear()
        self._forget_runs()

    def _forget_runs(self) -> None:
        """Drop what is under way, and begin anew from the newest snapshot."""
        self._epoch, self._begun = self._epoch + 1, 0
        self._tokens.clear()

    def _read(self) -> dict[str, Value]:
        if not self._log:
            return {name: self._groups[name].values[name].copy() for name in self._state_names()}
        return self._persist(self._fetch_state)

    def _fetch_state(self) -> dict[str, Value]:
        """The state after all runs that were begun."""
        self._replay()
        version = tawny.__version__
        futures = [
            self._submit(
                *(f"{self.graph.name or 'partition'} state", worker, read_state),
                *(self._files[worker], version, self._epoch, self._begun),
                self._tokens.get(worker, []),
            )
            for worker in range(self.partition.demand.workers)
        ]
        found: dict[str, Value] = {}
        for future in futures:
            found |= self._result(future)
        return found

    # ---------------------------------------------------------------------- runs

    def _advance(self, steps: int) -> list[Value]:
        runs = [self._run_with(self._groups, number) for number in range(steps)]
        outputs: list[Value] = []
        for found in self._stream(runs, steps - 1):
            outputs = found or outputs
        return outputs

    def _sweep(self, rows: ValueLists) -> list[list[Value]]:
        first, found, runs = self.draw, list[list[Value]](), list[_RunRequest]()
        for number in range(rows.total):
            self._assign(self._values_of(rows.row(number)))
            if self._stateful:
                self.draw = first + number
                found.append(self._advance(1))
            else:
                runs.append(self._run_with(self._groups, number))
        self.draw = first
        return found if self._stateful else [*self._stream(runs, 0)]

    def _run_with(self, groups: Mapping[str, _ValueSet], number: int) -> _RunRequest:
        updated = frozenset(self._state_names())
        inputs = {name: group for name, group in groups.items() if name not in updated}
        return _RunRequest(self.draw + number, inputs)

    def _stream(self, runs: Sequence[_RunRequest], wanted: int) -> Iterator[list[Value]]:
        """The outputs of runs in order; of those before the number `wanted` none."""
        losses, done = 0, list[int]()
        with progress(f"partition {self.graph.name or ''}".strip()) as work:
            while len(done) < len(runs):
                try:
                    for outputs in self._fly(runs, done, wanted):
                        work.now(f"{len(done)} of {len(runs)}")
                        yield outputs
                except _WorkerLost:
                    losses += 1
                    self._recover(losses)
                except BaseException:
                    self._forget_runs()
                    raise

    def _fly(
        self, runs: Sequence[_RunRequest], done: list[int], wanted: int
    ) -> Iterator[list[Value]]:
        """Make the runs that are not done; some more are under way meanwhile."""
        self._replay()
        window = AHEAD if self._stateful else self.partition.demand.flights
        flights: deque[_Flight] = deque()
        while len(done) < len(runs):
            is_long = self._stateful and self._log_is_long()
            if is_long and not flights:
                self._take_snapshot({})
                is_long = False
            most = 0 if is_long else min(window, len(runs) - len(done))
            while len(flights) < most:
                flights.append(self._begin(runs[len(done) + len(flights)]))
            flight = flights.popleft()
            outputs = self._finish(flight, has_outputs=len(done) >= wanted)
            if self._stateful:
                self._log.append(flight.run)
            done.append(len(done))
            yield outputs

    def _replay(self) -> None:
        """Make runs again that the workers' state lacks."""
        for run in self._log[self._begun :]:
            self._finish(self._begin(run), has_outputs=False)

    def _log_is_long(self) -> bool:
        """Whether a snapshot is due."""
        groups = {group.version: group for run in self._log for group in run.groups.values()}
        kept = sum([group.nbytes for group in groups.values()])
        return len(self._log) >= SNAPSHOT_RUNS or (len(groups) > 1 and kept > SNAPSHOT_BYTES)

    def _begin(self, run: _RunRequest) -> _Flight:
        """Hand over the tasks of a run."""
        step, self._begun = self._begun, self._begun + 1
        groups = {**self._groups, **run.groups}
        futures: dict[Bundle, Future] = {}
        tokens: dict[int, list[Future]] = {}
        for segment in self.partition.segments:
            worker = segment.worker
            main = self._begin_segment(segment, step, run.draw, groups, futures)
            title = segment.graph.name or "segment"
            for bundle, which in self._bundles.of_segment[segment.number].items():
                whole = len(which) == len(segment.graph.output_nodes)
                futures[bundle] = (
                    main if whole else self._submit(title, worker, pick, main, list(which))
                )
            if self._stateful:
                token = self._submit(title, worker, pick, main, [], priority=segment.level)
                tokens.setdefault(worker, []).append(token)
        self._tokens = tokens
        all_tokens = [token for own in tokens.values() for token in own]
        end = self._submit("end of run", None, join, all_tokens) if all_tokens else None
        return _Flight(run, {b: futures[b] for b in self._bundles.of_user}, end)

    def _begin_segment(
        self,
        segment: GraphSegment,
        step: int,
        draw: int,
        groups: Mapping[str, _ValueSet],
        futures: Mapping[Bundle, Future],
    ) -> Future:
        """The task of a segment."""
        uses: dict[int, tuple[_ValueSet, list[str]]] = {}
        for name in segment.variables:
            uses.setdefault(groups[name].version, (groups[name], []))[1].append(name)
        bundles = list(dict.fromkeys([self._bundles.place[g][0] for g in segment.reads.values()]))
        received = [
            (name, bundles.index(self._bundles.place[given][0]), self._bundles.place[given][1])
            for name, given in segment.reads.items()
        ]
        call = SegmentCall(
            *(tawny.__version__, segment.number, self._epoch, step if self._stateful else None),
            draw,
            tuple([GroupUse(version, tuple(names)) for version, (_, names) in uses.items()]),
            tuple(received),
        )
        return self._submit(
            *(segment.graph.name or "segment", segment.worker, run_segment),
            *(self._files[segment.worker], call),
            [self._values_for(segment.worker, group) for group, _ in uses.values()],
            [futures[bundle] for bundle in bundles],
            self._tokens.get(segment.worker, []),
            priority=segment.level,
        )

    def _values_for(self, worker: int, group: _ValueSet) -> Future:
        """A future of the values of a group that a worker reads."""
        if worker not in group.futures:
            own = {n: value for n, value in group.values.items() if n in self._names[worker]}
            group.futures[worker] = self._submit("values", None, deliver, own)
        return group.futures[worker]

    # ------------------------------------------------------------------- waiting

    def _finish(self, flight: _Flight, *, has_outputs: bool) -> list[Value]:
        """Wait until a run has ended; its outputs, if they are asked for."""
        if flight.end is not None:
            self._result(flight.end)
        if not has_outputs:
            for future in flight.outputs.values():
                self._wait(future)
            return []
        bundles = {bundle: self._result(future) for bundle, future in flight.outputs.items()}
        places = [self._bundles.place[given] for given in self.partition.outputs]
        return [writeable(bundles[bundle][position]) for bundle, position in places]

    def _result(self, future: Future) -> Any:
        """What a task gave, wherever workers may have gone meanwhile."""
        self._wait(future)
        patience = FETCHING_SECONDS
        while True:
            try:
                found = future.result(timeout=patience)
            except TimeoutError:
                self._check_workers()
                patience *= 2
            except distributed.CancelledError as error:
                raise _WorkerLost from error
            else:
                break
        if isinstance(found, LostState):
            raise _WorkerLost
        return found

    def _wait(self, future: Future) -> None:
        """Wait for a task, as long as all workers are there."""
        while True:
            try:
                distributed.wait([future], timeout=ASKING_SECONDS)
            except TimeoutError:
                self._check_workers()
            except distributed.CancelledError as error:
                raise _WorkerLost from error
            else:
                break
        if future.status in ("cancelled", "lost"):
            raise _WorkerLost
        if future.status == "error":
            failure = future.exception()
            assert failure is not None
            if isinstance(failure, distributed.KilledWorker):
                raise RuntimeError(with_location(f"partition: {killed_workers(failure)}"))
            failure.add_note(with_location("partition: in a segment, on a worker"))
            raise failure

    def _recover(self, losses: int) -> None:
        """Find workers in the place of those that were lost, and begin anew there."""
        if losses > MOST_LOSSES:
            raise RuntimeError(
                with_location(
                    f"partition: workers were lost {losses} times in one call: the system ends "
                    "processes that take too much memory, or a function of yours ended them"
                )
            )
        self._forget_runs()
        self._addresses = self._find_workers(self._addresses)

    def _persist(self, action: Callable[[], T]) -> T:
        """What an action gives, begun again whenever a worker is lost."""
        losses = 0
        while True:
            try:
                return action()
            except _WorkerLost:
                losses += 1
                self._recover(losses)

    def close(self) -> None:
        """Let the workers forget the segments and their state."""
        with self._lock:
            self._forget_runs()
            self._groups.clear()
            self._given.clear()
            self._files.clear()
            if self._client.status == "running":
                self._client.run(forget_shares, self._name, on_error="ignore")


def writeable(value: Value) -> Value:
    """A value in memory of its own, which may be written."""
    return value if value.flags.owndata and value.flags.writeable else value.copy()


def _segment_file(segment: GraphSegment) -> SegmentFile:
    data = np.frombuffer(to_bytes(segment.graph, "partition"), np.uint8)
    return SegmentFile(segment.number, data, segment.options, segment.variables)


def deploy(partition: Partition, client: object) -> DistributedPartition:
    """Segments on the workers of a client."""
    return DistributedPartition(partition, as_client(client, "partition"))
