"""What workers do for a graph in segments: each keeps programs of its own, with their state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

import tawny
from tawny.distributed.clients import check_version
from tawny.distributed.programs import WorkerFacts, worker_facts
from tawny.forking import fork_safe_lock
from tawny.graph.files import from_bytes
from tawny.graph.memory_limits import MemoryLimit, memory_limit
from tawny.graph.options import CompileOptions
from tawny.graph.partition.program import SegmentSpec, WorkerPrograms
from tawny.node import Value

MOST_SHARES: Final = 8
"""Graphs in segments that a worker keeps its programs of."""


class SegmentFile(NamedTuple):
    """A segment as it travels."""

    number: int
    data: npt.NDArray[np.uint8]
    """The bytes of its graph's file."""
    options: CompileOptions
    variables: tuple[str, ...]


class ShareFile(NamedTuple):
    """All segments of one worker."""

    name: str
    """What is equal for shares of the same program alone."""
    worker: int
    segments: tuple[SegmentFile, ...]
    label: str


class GroupUse(NamedTuple):
    """Values that were set together, and which of them still hold."""

    version: int
    names: tuple[str, ...]


class SegmentCall(NamedTuple):
    """One run of one segment."""

    version: str
    """The client's version of Tawny."""
    segment: int
    epoch: int
    """Which state the runs began from: after a worker was lost they begin from it again."""
    step: int | None
    """How many runs of this epoch came before it; None where runs do not depend on each other."""
    draw: int
    groups: tuple[GroupUse, ...]
    received: tuple[tuple[str, int, int], ...]
    """Names of variables, and which of which values they take."""


class LostState(NamedTuple):
    """Instead of values, from a worker that has not made all runs before."""

    worker: str


Outputs = list[Value]


@final
class SharePrograms:
    """A worker's programs, and which runs it has made."""

    def __init__(self, file: ShareFile, facts: WorkerFacts) -> None:
        self.lock = fork_safe_lock()
        room = None if facts.memory is None else facts.memory - facts.taken
        limit = None if room is None else MemoryLimit(room, f"worker {facts.name}")
        specs = [
            SegmentSpec(
                one.number,
                from_bytes(one.data.tobytes(), file.label),
                one.options,
                one.variables,
            )
            for one in file.segments
        ]
        with memory_limit(limit):
            self._programs = WorkerPrograms(specs)
        self._versions: dict[str, int] = {}
        self._epoch = -1
        self._done: dict[int, int] = {spec.number: 0 for spec in specs}
        """For each segment how many runs of this epoch it has made."""

    def has_made(self, epoch: int, step: int, segment: int | None = None) -> bool:
        """Whether all runs before this one were made here, and this one not by this segment."""
        if self._epoch != epoch:
            if step or self._epoch > epoch:
                return False
            self._epoch, self._done = epoch, dict.fromkeys(self._done, 0)
            self._versions.clear()
        own = segment is None or self._done[segment] == step
        return own and all(count >= step for count in self._done.values())

    def run(
        self,
        call: SegmentCall,
        groups: Sequence[Mapping[str, Value]],
        received: Sequence[Sequence[Value]],
    ) -> Outputs:
        """Run a segment, with the values of variables that hold."""
        for use, values in zip(call.groups, groups, strict=True):
            new = [name for name in use.names if self._versions.get(name) != use.version]
            self._programs.set({name: values[name] for name in new})
            self._versions.update(dict.fromkeys(new, use.version))
        taken = {name: received[which][output] for name, which, output in call.received}
        outputs = self._programs.run(call.segment, taken, call.draw)
        self._done[call.segment] += 1
        return outputs

    def state(self) -> dict[str, Value]:
        """Copies of the variables that updates change."""
        return self._programs.state()


_SHARES: Final[OrderedDict[tuple[str, int], SharePrograms]] = OrderedDict()
_lock: Final = fork_safe_lock()


def _share(file: ShareFile, version: str) -> tuple[SharePrograms, str]:
    """The programs of this process for a share, compiled if they are not there; its name."""
    facts = worker_facts()
    check_version(tawny.__version__, version, facts.name, "partition")
    key = file.name, file.worker
    with _lock:
        if key not in _SHARES:
            _SHARES[key] = SharePrograms(file, facts)
        _SHARES.move_to_end(key)
        while len(_SHARES) > MOST_SHARES:
            _SHARES.popitem(last=False)
        return _SHARES[key], facts.name


def forget_shares(name: str) -> None:
    """Drop the programs of one partition."""
    with _lock:
        for key in [key for key in _SHARES if key[0] == name]:
            del _SHARES[key]


# --------------------------------------------------------------------------- tasks


def run_segment(
    file: ShareFile,
    call: SegmentCall,
    groups: Sequence[Mapping[str, Value]],
    received: Sequence[Outputs | LostState],
    after: Sequence[Outputs | LostState],
) -> Outputs | LostState:
    """Run one segment once; `after` are tasks that must have ended before."""
    there: list[Outputs] = []
    for values in (*received, *after):
        if isinstance(values, LostState):
            return values
        there.append(values)
    share, worker = _share(file, call.version)
    with share.lock:
        if call.step is not None and not share.has_made(call.epoch, call.step, call.segment):
            return LostState(worker)
        return share.run(call, groups, there[: len(received)])


def pick(outputs: Outputs | LostState, which: Sequence[int]) -> Outputs | LostState:
    """Some of the values of a segment: those that travel together."""
    return outputs if isinstance(outputs, LostState) else [outputs[k] for k in which]


def join(tokens: Sequence[Outputs | LostState]) -> Outputs | LostState:
    """Nothing, once all of these are there."""
    lost = [values for values in tokens if isinstance(values, LostState)]
    return lost[0] if lost else []


def read_state(
    file: ShareFile, version: str, epoch: int, steps: int, after: Sequence[Outputs | LostState]
) -> dict[str, Value] | LostState:
    """The state of a worker after all runs that were begun."""
    share, worker = _share(file, version)
    with share.lock:
        lost = any(isinstance(values, LostState) for values in after)
        if lost or not share.has_made(epoch, steps):
            return LostState(worker)
        return share.state()
