"""Replicas on the workers of a cluster, as their client sees them: who takes part, what is done.

The client gives orders of some steps each, as tasks that run at the same time, one on each worker.
All replicas have the same state, so whatever workers are lost, one that is left has it; the client
has a copy of an older one for the case that none is left.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import count
from typing import Any, Final, Generic, NamedTuple, TypeVar, final

import tawny
from tawny.distributed import replicas
from tawny.distributed.clients import (
    check_version,
    deliver,
    killed_workers,
    send,
    submit,
    versions_of,
    workers_of,
)
from tawny.distributed.dask import Client, Future, distributed
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
from tawny.distributed.payloads import MemoryRefusal
from tawny.distributed.streams import WorkerGroup
from tawny.errors import warn, with_location
from tawny.node import Value
from tawny.progress import progress

TASK_SECONDS: Final = 0.4
"""How long a task is to take, by joining steps: what Dask does for a group is some 10 ms."""

TASK_BYTES: Final = 2**26
"""Bytes of the rows that travel for one group of tasks, at most."""

WAITING_SECONDS: Final = 0.5
"""How long the client waits for tasks before it looks whether something is wrong."""

ASKING_SECONDS: Final = 1.0
"""How often the client asks which workers there are."""

MOST_FAILURES: Final = 4
"""How often in a row workers may be lost before a step is made."""

_VARIOUS: Final = "various"

_numbers: Final = count()

BatchType = TypeVar("BatchType")


class ReplicasLostError(Exception):
    """No worker is left that has the state; the client goes on from its copy."""


class ShardFile(NamedTuple):
    """The rows of one worker, with the program that computes them."""

    program: Future
    values: dict[str, Value]
    share: float
    weight: float


Split = Callable[[BatchType, int], list[ShardFile]]
"""A function from a batch and a number of workers to a shard for each; fewer for fewer rows."""


@final
class Replication(Generic[BatchType]):
    """The replicas of one training."""

    def __init__(
        self,
        client: Client,
        plan: Callable[[str], ReplicaPlan],
        split: Split[BatchType],
        copy: dict[str, Value],
        label: str,
        op: str,
    ) -> None:
        self._client, self._split, self._op, self._label = client, split, op, label
        self._session = f"{label}-{next(_numbers)}-{random.getrandbits(64):x}"
        self._plan = plan(self._session)
        self._copy = copy
        """The arrays of the client: what the replicas had at `_copied`."""
        self._copied = self._state = ""
        self._give = True
        """Whether replicas need the client's copy."""
        self._members: list[str] = []
        self._preparing: dict[str, Future] = {}
        self._refused: set[str] = set()
        self._instructions = ""
        self._asked = 0.0
        self._failures = 0
        self._step_seconds = 0.0
        self._copy_seconds, self._copy_time = 0.0, time.monotonic()
        self._first: BatchType | None = None
        self.sizes: list[tuple[int, int]] = []
        """From which step on there were how many workers."""

    # -------------------------------------------------------------------- steps

    def steps_at_once(self, nbytes: int) -> int:
        """The number of steps, with batches of `nbytes`, that make a task worth its price."""
        if not self._step_seconds:
            return 1
        most = int(TASK_SECONDS / self._step_seconds)
        return max(1, min(most, TASK_BYTES // max(1, nbytes)))

    def advance(
        self, start: int, batches: Sequence[BatchType], check: Callable[[], None]
    ) -> list[tuple[float, ...]]:
        """Make steps, whatever happens to workers; `check` may raise while there are none."""
        self._first = self._first or batches[0]
        found: list[tuple[float, ...]] = []
        while len(found) < len(batches):
            members = self._take_members(check)
            done = self._attempt(members, start + len(found), batches[len(found) :])
            if done and (not self.sizes or self.sizes[-1][1] != len(members)):
                self.sizes.append((start + len(found), len(members)))
            found += done
        return found

    def _attempt(
        self, members: list[str], start: int, batches: Sequence[BatchType]
    ) -> list[tuple[float, ...]]:
        """Let a group make steps; gives what is known of those that it made."""
        group = WorkerGroup(f"{self._session}-{next(_numbers)}", tuple(members))
        split = [self._split(batch, len(members)) for batch in batches]
        files: dict[str, Future] = {s.program.key: s.program for shards in split for s in shards}
        places = {key: position for position, key in enumerate(files)}

        def step(shards: list[ShardFile], rank: int) -> StepTask:
            mine = shards[rank] if rank < len(shards) else None
            own = mine and Shard(places[mine.program.key], mine.values, mine.share, mine.weight)
            return StepTask(own, len(shards))

        given = None
        if self._give:
            state = GivenState(self._state, {n: a.copy() for n, a in self._copy.items()})
            given = submit(self._client, f"{self._label} state-{group.key}", deliver, state)
        tasks: list[Future] = []
        for rank, address in enumerate(members):
            orders = tuple([step(shards, rank) for shards in split])
            order = WorkOrder(group, rank, start, self._state, orders)
            key = f"{self._label}-{group.key}-{rank}"
            work = self._session, order, given, *files.values()
            tasks.append(self._submit(key, address, replicas.advance, *work))
        return self._settle(group, self._wait_for(tasks))

    def _submit(self, key: str, address: str, task: Callable[..., Any], *given: Any) -> Future:
        """A task for one worker: another that gets it, because this one is gone, says so."""
        return submit(self._client, key, task, *given, workers=[address], allow_other_workers=True)

    def _wait_for(self, tasks: list[Future]) -> list[Any]:
        """What all tasks of a group gave, or the errors they ended with."""
        while any(task.status == "pending" for task in tasks):
            self._check_client()
            _wait(tasks)
        self._check_client()
        finished = [task for task in tasks if task.status == "finished"]
        known: dict[str, Any] = {}
        with suppress(CancelledError):  # where the cluster is restarted at this very moment
            for task, reply in zip(finished, self._client.gather(finished), strict=True):
                known[task.key] = reply
        known |= {task.key: task.exception() for task in tasks if task.status == "error"}
        return [known.get(task.key, Absent("")) for task in tasks]

    def _settle(self, group: WorkerGroup, replies: list[Any]) -> list[tuple[float, ...]]:
        """Draw the conclusions from what the members of a group say."""
        for reply, address in zip(replies, group.members, strict=True):
            if isinstance(reply, Absent) and reply.address == address:
                self._members.remove(address)  # it has begun anew: it is to prepare again
            if isinstance(reply, MemoryRefusal):
                raise MemoryError(with_location(f"{self._op}: {reply.reason}"))
            if isinstance(reply, Exception) and not isinstance(reply, distributed.KilledWorker):
                reply.add_note(with_location(f"{self._op}: in a step, on worker {address}"))
                raise reply
        done = [reply for reply in replies if isinstance(reply, StepReport)]
        best = max(done, key=lambda reply: len(reply.found), default=None)
        if best is not None and best.found:
            self._state, self._give, self._failures = best.state, False, 0
            self._step_seconds = best.seconds / len(best.found)
        elif self._is_lost(replies, done):
            if self._state != self._copied:
                raise ReplicasLostError
            self._give = True
        if len(done) < len(replies) or any(reply.parted for reply in done):
            self._note_failure(replies, bool(best and best.found))
        return best.found if best is not None else []

    def _is_lost(self, replies: list[Any], done: list[StepReport]) -> bool:
        """Whether no worker has the state."""
        if any(isinstance(reply, Stateless) for reply in replies):
            return True
        return not done and not self._present(self._members)

    def _note_failure(self, replies: list[Any], has_moved: bool) -> None:
        """Look at once who is there; give up where workers die again and again."""
        self._asked = 0.0
        lost = [r for r in replies if isinstance(r, (Absent, distributed.KilledWorker))]
        if has_moved:
            return
        self._failures += bool(lost)
        if self._failures > MOST_FAILURES:
            killed = next((r for r in lost if isinstance(r, distributed.KilledWorker)), None)
            why = f": {killed_workers(killed)}" if killed else ""
            raise RuntimeError(
                with_location(
                    f"{self._op}: workers were lost {self._failures} times in a row before a step "
                    f"was made{why}; the system ends processes that take too much memory "
                    "(memory=... and smaller batches take less)"
                )
            )
        time.sleep(random.uniform(0.05, 0.5))  # two trainings may have waited for each other

    # ------------------------------------------------------------------ the copy

    @property
    def copy_is_due(self) -> bool:
        """Whether the client's copy is so old that a new one is worth its time."""
        age = time.monotonic() - self._copy_time
        return self._copied != self._state and age > max(20.0, 30.0 * self._copy_seconds)

    def refresh(self) -> None:
        """Let the client's copy be the state of now."""
        if self._copied == self._state:
            return
        start = time.monotonic()
        self._check_client()
        for address in self._present(self._members):
            (found,) = self._run([address], replicas.copy_state, self._session, self._state)
            if isinstance(found, dict):
                for name, array in self._copy.items():
                    array[...] = found[name]
                self._copied = self._state
                self._copy_time = time.monotonic()
                self._copy_seconds = self._copy_time - start
                return
        raise ReplicasLostError

    def return_to_copy(self, step: int) -> None:
        """Go on from the client's copy, which has the state before a step."""
        self._state, self._give = self._copied, True
        while self.sizes and self.sizes[-1][0] >= step:
            self.sizes.pop()

    def begin_from_copy(self) -> None:
        """Begin from the client's copy, which somebody else has filled."""
        self._copied = self._state = f"{self._session}-given-{next(_numbers)}"
        self._give = True

    # --------------------------------------------------------------- who is there

    def _take_members(self, check: Callable[[], None]) -> list[str]:
        """The workers that take part in what comes next: at least one."""
        begun = bool(self.sizes)
        while True:
            self._check_client()
            if time.monotonic() - self._asked > ASKING_SECONDS:
                self._look_around(begun=begun)
            waiting = not self._members or (not begun and self._preparing)
            if not waiting:
                return self._members
            check()
            with progress(self._label) as work:
                work.now("waiting for workers")
                self._wait_for_preparing()

    def _wait_for_preparing(self) -> None:
        """Wait a while for workers that prepare; newcomers are looked for after that."""
        if self._preparing:
            _wait([*self._preparing.values()])
        else:
            time.sleep(0.1)
        self._asked = 0.0

    def _look_around(self, *, begun: bool) -> None:
        """See who is gone, who has come, and who is ready."""
        if not begun:
            workers_of(self._client, self._op)  # refuses those of another version
        present = self._present()
        self._asked = time.monotonic()
        self._members = [address for address in self._members if address in present]
        for address in [a for a in self._preparing if a not in present]:
            del self._preparing[address]
        for address, future in list(self._preparing.items()):
            if future.status != "pending":
                del self._preparing[address]
                self._admit(address, future, begun=begun)
        known = {*self._members, *self._preparing, *self._refused}
        self._invite([address for address in present if address not in known])

    def _invite(self, newcomers: list[str]) -> None:
        """Let workers prepare to take part, if they have the version of the client."""
        if not newcomers or self._first is None:
            return
        versions = versions_of(self._client, newcomers)
        plan = send(self._client, f"{self._session}-plan", lambda: self._plan)
        file = self._split(self._first, max(1, len(self._members) + len(newcomers)))[0].program
        for address in newcomers:
            if address not in versions:
                continue
            try:
                check_version(versions[address], tawny.__version__, address, self._op)
            except RuntimeError as error:
                self._refuse(address, str(error))
                continue
            key = f"{self._label} prepare-{self._session}-{next(_numbers)}"
            work = address, plan, file
            self._preparing[address] = self._submit(key, address, replicas.prepare, *work)

    def _admit(self, address: str, future: Future, *, begun: bool) -> None:
        """Let a worker that has prepared take part, or say why it does not."""
        if future.status == "finished":
            reply = future.result()
            future.release()
            if isinstance(reply, Readiness):
                self._members.append(address)
                self._compare(reply)
            elif isinstance(reply, MemoryRefusal):
                if not begun:
                    raise MemoryError(with_location(f"{self._op}: {reply.reason}"))
                self._refuse(address, f"{self._op}: {reply.reason}")
        elif future.status == "error":
            error = future.exception()
            assert error is not None
            if not isinstance(error, distributed.KilledWorker):
                if not begun:
                    raise error
                self._refuse(address, f"{self._op}: worker {address}: {error}")

    def _compare(self, worker: Readiness) -> None:
        """Warn once of workers that round otherwise than others."""
        self._instructions = self._instructions or worker.instructions
        if self._instructions not in (worker.instructions, _VARIOUS):
            self._instructions = _VARIOUS
            warn(
                f"{self._op}: workers have processors of different instructions, so their values "
                "part by rounding, and bits depend on who takes part; TAWNY_ISA makes all of them "
                "use the same",
                RuntimeWarning,
            )

    def _refuse(self, address: str, reason: str) -> None:
        """Go on without a newcomer."""
        self._refused.add(address)
        warn(f"{reason}; training goes on without it", RuntimeWarning)

    # ------------------------------------------------------------------- the client

    def _present(self, wanted: Sequence[str] | None = None) -> list[str]:
        """Which workers are there; of those named, if any are."""
        there = self._client.scheduler_info()["workers"]
        return [a for a in (there if wanted is None else wanted) if a in there]

    def _run(
        self, addresses: Sequence[str], function: Callable[..., Any], *given: Any
    ) -> list[Any]:
        """What a function gives beside all tasks on some workers, or errors; empty for none."""
        there = self._present(addresses)
        found = (
            self._client.run(function, *given, workers=there, on_error="return") if there else {}
        )
        return [found.get(address) for address in addresses]

    def _check_client(self) -> None:
        if self._client.status != "running":
            raise ConnectionError(with_location(f"{self._op}: the scheduler was lost"))

    def close(self) -> None:
        """Let the workers forget all of it."""
        self._preparing.clear()
        if self._client.status == "running":
            self._run(self._present(), replicas.forget, self._session)


def _wait(futures: list[Future]) -> None:
    """Wait until all have ended, but only for a moment."""
    with suppress(TimeoutError, CancelledError):
        distributed.wait(futures, timeout=WAITING_SECONDS)
