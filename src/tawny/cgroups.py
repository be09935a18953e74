"""Control groups: the processor time and the memory that Linux leaves to a container."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path("/")
"""Where the system's files are."""

UNLIMITED: Final = 2**60
"""Bytes from which on a limit is none: version 1 writes a number of pages that no machine has."""


class GroupDirectory(NamedTuple):
    """The files of a group."""

    version: int
    path: Path


def groups_of(controller: str, root: Path = ROOT) -> Iterator[GroupDirectory]:
    """The groups of this process in which a controller may be limited, and all groups around them.

    Inside a container the path of a group may be that of the host, which is not there: the files
    that are there are then those of a group around it.
    """
    home = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            tops = [(2, home), (2, home / "unified")]
        elif controller in controllers.split(","):
            tops = [(1, home / name) for name in dict.fromkeys((controllers, controller))]
        else:
            continue
        for version, top in tops:
            own = top / path.lstrip("/")
            for directory in (own, *own.parents):
                if directory.is_relative_to(top) and directory.is_dir():
                    yield GroupDirectory(version, directory)


def processor_quota(root: Path = ROOT) -> float:
    """How many processors' time a run may take; infinite without a limit."""
    return min([_quota(group) for group in groups_of("cpu", root)], default=math.inf)


def _quota(group: GroupDirectory) -> float:
    if group.version == 2:
        words = " ".join(_lines(group.path / "cpu.max")).split()
    else:
        words = _lines(group.path / "cpu.cfs_quota_us") + _lines(group.path / "cpu.cfs_period_us")
    try:
        quota, period = map(int, words)
    except ValueError:  # "max", or no such file
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


class MemoryRoom(NamedTuple):
    """The memory of a group."""

    limit: int
    free: int
    """What can be taken; files that the system has only cached give way."""


def memory_rooms(root: Path = ROOT) -> list[MemoryRoom]:
    """The memory of each group around this process that has a limit."""
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }
    found: list[MemoryRoom] = []
    for group in groups_of("memory", root):
        limit_file, used_file, cached = names[group.version]
        try:
            limit, used = [int("".join(_lines(group.path / f))) for f in (limit_file, used_file)]
        except ValueError:
            continue
        if limit < UNLIMITED:
            free = limit - used + _statistic(group.path / "memory.stat", cached)
            found.append(MemoryRoom(limit, min(limit, max(0, free))))
    return found


def _statistic(file: Path, name: str) -> int:
    """A number of a file of names and numbers; 0 where it is missing."""
    found = [line.split() for line in _lines(file)]
    return next((int(f[1]) for f in found if len(f) == 2 and f[0] == name and f[1].isdecimal()), 0)


def _lines(file: Path) -> list[str]:
    """The lines of a file; none where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
