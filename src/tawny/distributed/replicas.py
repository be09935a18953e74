"""Replicas: what training is on a worker, and the steps that it makes in a group.

A replica holds all arrays that change, so that each member of a group has them all.  A step
computes loss and gradients of the member's own rows, takes means with the others, and updates.
Sums are made in the order of ranks, whatever the way they travel, so bits depend on the number of
members alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from time import monotonic, perf_counter
from typing import Any, Final, final
from weakref import WeakKeyDictionary

import numpy as np

import tawny
from tawny.distributed.clients import check_version
from tawny.distributed.dask import distributed
from tawny.distributed.orders import (
    Absent,
    GivenState,
    Readiness,
    ReplicaPlan,
    Shard,
    Stateless,
    StepReport,
    StepTask,
    WorkOrder,
)
from tawny.distributed.payloads import MemoryRefusal, ProgramFile
from tawny.distributed.programs import compile_within, worker_facts
from tawny.distributed.streams import Channel, PeerLostError, lobby_of
from tawny.dtype import dtype_named, kind_of
from tawny.engine.llvm.runtime.host import host
from tawny.engine.protocol import engine_named
from tawny.forking import fork_safe_lock
from tawny.graph.files import from_bytes
from tawny.graph.program import Program
from tawny.node import Value
from tawny.pages import empty
from tawny.shape import size

WHOLE_BYTES: Final = 2**17
"""Vectors up to these bytes are sent whole to each member, which saves a message on the way."""

MOST_PROGRAMS: Final = 8
"""Programs for shards of different sizes that a replica keeps."""

IDLE_SECONDS: Final = 3600.0
"""Seconds after which a replica that nobody asks for anything is forgotten: its client is gone."""

DRAWS: Final = 2**32
"""The distance between the numbers of runs for which two ranks draw."""


@final
class MeanVectors:
    """Weighted means of vectors over the members of a group.

    There are two of each vector that is sent, used in turns: the one of step n is sent until all
    others have finished step n, which each says by what it sends in step n + 1.
    """

    def __init__(self, plan: ReplicaPlan) -> None:
        def vectors() -> list[Value]:
            return [empty((spec.size,), dtype_named(spec.dtype)) for spec in plan.vectors]

        self.means = vectors()
        """The means of the newest step, where the update reads them."""
        self._places = plan.places
        self._parts = vectors(), vectors()
        self._sums = vectors(), vectors()

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return 5 * self.vector_bytes

    @property
    def vector_bytes(self) -> int:
        """Bytes of one set."""
        return sum([mean.nbytes for mean in self.means])

    def fill(self, number: int, shard: Shard, outputs: Sequence[Value]) -> None:
        """Write a shard's outputs, times what they count, where they are sent from in a step."""
        parts = self._parts[number % 2]
        for value, place in zip(outputs, self._places, strict=True):
            target = parts[place.vector][place.start : place.stop]
            if kind_of(target.dtype) == "f":
                factor = target.dtype.type(shard.share if place.is_statistic else shard.weight)
                np.multiply(np.asarray(value).reshape(-1), factor, out=target)
            else:
                target[...] = np.asarray(value).reshape(-1)

    def exchange(self, channel: Channel, number: int, loss: float, contributors: int) -> float:
        """Take the means with all others; gives that of the losses."""
        parts = self._parts[number % 2] if channel.rank < contributors else []
        peers = channel.peers
        if self.vector_bytes <= WHOLE_BYTES or not peers:
            bounds = [(0, mean.size) for mean in self.means]
            channel.send(f"{number} parts", {rank: [loss, *parts] for rank in peers})
        else:
            count = len(channel.group.members)
            channel.send(
                f"{number} parts",
                {r: [loss, *[p[slice(*_bounds(p.size, r, count))] for p in parts]] for r in peers},
            )
            bounds = [_bounds(mean.size, channel.rank, count) for mean in self.means]
        found = channel.receive(f"{number} parts")
        found[channel.rank] = [
            loss,
            *[p[lo:hi] for p, (lo, hi) in zip(parts, bounds, strict=False)],
        ]
        sums = [s[lo:hi] for s, (lo, hi) in zip(self._sums[number % 2], bounds, strict=True)]
        for position, total in enumerate(sums):
            some = contributors if kind_of(total.dtype) == "f" else 1
            np.copyto(total, found[0][1 + position])
            for rank in range(1, some):
                np.add(total, found[rank][1 + position], out=total)
        self._gather(channel, number, bounds, sums)
        return sum([float(found[rank][0]) for rank in range(contributors)])

    def _gather(
        self, channel: Channel, number: int, bounds: list[tuple[int, int]], sums: list[Value]
    ) -> None:
        """Put all sums together, of which this member has made those within its bounds."""
        for mean, total, (lo, hi) in zip(self.means, sums, bounds, strict=True):
            mean[lo:hi] = total
        if self.vector_bytes <= WHOLE_BYTES or not channel.peers:
            return
        count = len(channel.group.members)
        channel.send(f"{number} sums", dict.fromkeys(channel.peers, sums))
        for rank, theirs in channel.receive(f"{number} sums").items():
            for mean, total in zip(self.means, theirs, strict=True):
                mean[slice(*_bounds(mean.size, rank, count))] = total


def _bounds(total: int, rank: int, count: int) -> tuple[int, int]:
    """The part of a vector that a member sums."""
    return total * rank // count, total * (rank + 1) // count


@final
class Replica:
    """The arrays and programs of one training on one worker."""

    def __init__(self, plan: ReplicaPlan) -> None:
        self.plan = plan
        self.state = ""
        """The name of the state that the arrays have."""
        self.used = monotonic()
        self.working = threading.Lock()
        engine = engine_named(plan.update.options.engine)
        self.arrays: dict[str, Any] = {
            name: engine.place(empty(shape, dtype_named(dtype)))
            for name, (shape, dtype) in plan.variables.items()
        }
        self._vectors = MeanVectors(plan)
        self._programs: OrderedDict[str, Program] = OrderedDict()
        self._update = self._compile(plan.update)
        means = {f"mean.{k}": engine.place(m) for k, m in enumerate(self._vectors.means)}
        self._update.set(means, bind=True)

    def program_for(self, file: ProgramFile) -> Program:
        """The program of a shard's size, over the replica's arrays."""
        program = self._programs.get(file.digest)
        if program is None:
            program = self._programs[file.digest] = self._compile(file)
        self._programs.move_to_end(file.digest)
        while len(self._programs) > MOST_PROGRAMS:
            self._programs.popitem(last=False)
        return program

    def _compile(self, file: ProgramFile) -> Program:
        facts = worker_facts()
        room = None if facts.memory is None else facts.memory - facts.taken
        graph = from_bytes(file.data.tobytes(), file.label)
        names = {*graph.names.values()} & self.arrays.keys()
        if room is not None and not self.state:  # what was not written yet is not taken yet
            arrays = [size(s) * dtype_named(d).itemsize for s, d in self.plan.variables.values()]
            room -= sum(arrays) + self._vectors.nbytes
        program = compile_within(graph, file, facts, room, facts.threads)
        program.set({name: self.arrays[name] for name in names}, bind=True)
        return program

    # --------------------------------------------------------------------- state

    def load(self, given: GivenState) -> None:
        """Have the values that are given."""
        self.state = ""
        for name, array in self.arrays.items():
            array[...] = given.arrays[name]
        self.state = given.name

    def copy_state(self) -> dict[str, Value]:
        """Copies of all arrays."""
        return {name: np.array(array) for name, array in self.arrays.items()}

    def agree(self, channel: Channel, wanted: str, given: GivenState | None) -> bool:
        """Let all members have the state of a name; whether one of them had it, or it is given."""
        channel.send("state", {rank: [self.state] for rank in channel.peers})
        names = {rank: said[0] for rank, said in channel.receive("state").items()}
        names[channel.rank] = self.state
        knowing = sorted([rank for rank, name in names.items() if name == wanted])
        if not knowing:
            if given is None:
                return False
            self.load(given)
            return True
        source, missing = knowing[0], [r for r in names if r not in knowing]
        if channel.rank == source:
            arrays = [*self.copy_state().values()]
            channel.send("arrays", dict.fromkeys(missing, arrays))
        elif channel.rank in missing:
            (arrays,) = channel.receive("arrays", [source]).values()
            self.load(GivenState(wanted, dict(zip(self.arrays, arrays, strict=True))))
        return True

    # --------------------------------------------------------------------- steps

    def make_step(
        self, channel: Channel, number: int, order: StepTask, files: Sequence[ProgramFile]
    ) -> tuple[float, ...]:
        """One step with all others; gives what the update tells."""
        loss = 0.0
        if order.shard is not None:
            program = self.program_for(files[order.shard.program])
            program.draw = number + DRAWS * channel.rank
            program.set(order.shard.values)
            value, *outputs = program.run(views=True)
            loss = float(np.asarray(value)) * order.shard.weight
            self._vectors.fill(number, order.shard, outputs)
        total = self._vectors.exchange(channel, number, loss, order.contributors)
        self._update.set(loss=total)
        told = self._update.run()
        self.state = f"{channel.group.key}:{number + 1}"
        return tuple([float(np.asarray(x)) for x in told])


# ------------------------------------------------------------------- of a worker

_REPLICAS: Final[WeakKeyDictionary[Any, dict[str, Replica]]] = WeakKeyDictionary()
_lock: Final = fork_safe_lock()


def _replicas_of(worker: Any) -> dict[str, Replica]:
    with _lock:
        return _REPLICAS.setdefault(worker, {})


def _forget_idle(worker: Any) -> None:
    """Forget replicas whose clients are gone; called again as long as there are any."""
    replicas = _replicas_of(worker)
    for session, replica in list(replicas.items()):
        if not replica.working.locked() and monotonic() - replica.used > IDLE_SECONDS:
            del replicas[session]
    if replicas:
        worker.loop.call_later(IDLE_SECONDS / 4, _forget_idle, worker)


def prepare(
    address: str, plan: ReplicaPlan, file: ProgramFile
) -> Readiness | Absent | MemoryRefusal:
    """Let the worker at an address have a replica; what it computes from comes later."""
    worker = distributed.get_worker()
    if worker.address != address:
        return Absent(worker.address)
    facts = worker_facts()
    check_version(tawny.__version__, plan.version, facts.name, plan.op)
    replicas = _replicas_of(worker)
    try:
        replica = replicas.get(plan.session) or Replica(plan)
        replica.program_for(file)
    except MemoryError as error:
        return MemoryRefusal(str(error))
    lobby_of(worker)
    if not replicas:
        worker.loop.add_callback(worker.loop.call_later, IDLE_SECONDS, _forget_idle, worker)
    replicas[plan.session] = replica
    return Readiness(address, f"{host().cpu} {host().features}")


def advance(
    session: str, order: WorkOrder, given: GivenState | None, *files: ProgramFile
) -> StepReport | Absent | Stateless | MemoryRefusal:
    """Make some steps in a group: as many as can be made."""
    worker = distributed.get_worker()
    replica = _replicas_of(worker).get(session)
    if worker.address != order.group.members[order.rank] or replica is None:
        return Absent(worker.address)
    with replica.working:
        try:
            return _make_steps(worker, replica, order, given, files)
        except MemoryError as error:
            return MemoryRefusal(str(error))
        finally:
            replica.used = monotonic()


def _make_steps(
    worker: Any,
    replica: Replica,
    order: WorkOrder,
    given: GivenState | None,
    files: Sequence[ProgramFile],
) -> StepReport | Stateless:
    found: list[tuple[float, ...]] = []
    start, parted = perf_counter(), ""
    try:
        with Channel(worker, order.group, order.rank) as channel:
            if not replica.agree(channel, order.state, given):
                return Stateless(worker.address)
            start = perf_counter()
            for number, step in enumerate(order.steps, order.start):
                found.append(replica.make_step(channel, number, step, files))
    except PeerLostError as error:
        parted = str(error)
    return StepReport(worker.address, replica.state, found, perf_counter() - start, parted)


# ---------------------------------------------- run beside all tasks, by Client.run


def copy_state(session: str, state: str, dask_worker: Any) -> dict[str, Value] | None:
    """Copies of a replica's arrays, if it has the state of this name."""
    replica = _replicas_of(dask_worker).get(session)
    if replica is None or replica.state != state or replica.working.locked():
        return None
    return replica.copy_state()


def forget(session: str, dask_worker: Any) -> None:
    """Forget a replica; its memory goes with the task that may be using it."""
    _replicas_of(dask_worker).pop(session, None)
