"""The processors that this process may use: their cores and nodes, and how much of their time."""

from __future__ import annotations

import math
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from tawny.cgroups import ROOT, processor_quota

CPUS: Final = Path("sys/devices/system/cpu")
NODES: Final = Path("sys/devices/system/node")


class Processors(NamedTuple):
    """The processors that this process may use."""

    logical: int
    """How many the system offers, two for a core that runs two threads at a time."""
    cores: int
    nodes: int
    """How many parts of the machine they lie in that have memory of their own."""
    quota: float
    """How many processors' time a container leaves; infinite without a limit."""

    @property
    def usable(self) -> int:
        """How many can be at work at the same time."""
        return self._limit(self.logical)

    @property
    def usable_cores(self) -> int:
        """How many threads work best: those of one core would share its arithmetic and caches."""
        return self._limit(self.cores)

    def _limit(self, count: int) -> int:
        return max(1, count if math.isinf(self.quota) else min(count, math.ceil(self.quota)))

    def __str__(self) -> str:
        said = [f"{self.logical} processor{'s' * (self.logical > 1)}"]
        if self.cores != self.logical:
            said.append(f"on {self.cores} core{'s' * (self.cores > 1)}")
        if self.nodes > 1:
            said.append(f"in {self.nodes} NUMA nodes")
        if not math.isinf(self.quota):
            said.append(f"of which a container leaves the time of {self.quota:.3g}")
        return " ".join(said)


def processors() -> Processors:
    """The processors of this process, as they are now."""
    if hasattr(os, "sched_getaffinity"):
        return find_processors(frozenset(os.sched_getaffinity(0)))
    return find_processors(frozenset(range(os.cpu_count() or 1)))


@lru_cache(64)
def find_processors(allowed: frozenset[int], root: Path = ROOT) -> Processors:
    """What the system's files say of these processors."""
    if not sys.platform.startswith("linux"):
        return Processors(len(allowed), len(allowed), 1, math.inf)
    cores = {_siblings(root / CPUS / f"cpu{number}", number) & allowed for number in allowed}
    return Processors(len(allowed), len(cores), _count_nodes(root, allowed), processor_quota(root))


def _siblings(directory: Path, number: int) -> frozenset[int]:
    """The processors of the core that one is of, itself among them."""
    for name in ("core_cpus_list", "thread_siblings_list"):
        found = _numbers_in(directory / "topology" / name)
        if number in found:
            return found
    return frozenset({number})


def _count_nodes(root: Path, allowed: frozenset[int]) -> int:
    """How many nodes have some of these processors."""
    lists = (root / NODES).glob("node[0-9]*/cpulist")
    return max(1, sum([bool(_numbers_in(one) & allowed) for one in lists]))


def _numbers_in(file: Path) -> frozenset[int]:
    """The numbers of a list such as `0-3,8,10-11`; none where it cannot be read."""
    found: set[int] = set()
    try:
        for part in file.read_text(encoding="ascii").strip().split(","):
            if part:
                first, _, last = part.partition("-")
                found.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        return frozenset()
    return frozenset(found)
