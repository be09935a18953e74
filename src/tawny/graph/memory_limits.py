"""Whether a plan fits into the machine, found out before anything is allocated."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, NamedTuple

from tawny.cgroups import memory_rooms
from tawny.engine.protocol import Device
from tawny.errors import PerformanceWarning, warn, with_location
from tawny.memory.budget import MemoryBudgetError
from tawny.node import Node
from tawny.shape import Shape
from tawny.source import describe

MIN_CHECKED_BYTES: Final = 2**26
"""Plans of fewer bytes are allocated without asking the system, which takes longer than a run."""

MAX_ELEMENTS: Final = sys.maxsize // 16
"""The most elements of an array that can be addressed, whatever its dtype."""


def check_addressable(nodes: Sequence[Node]) -> None:
    """Refuse values that no machine can hold, as NumPy does: an axis of size 0 excuses no other."""
    if all(_extent(shape) <= MAX_ELEMENTS for shape in {node.shape for node in nodes}):
        return
    largest = max(nodes, key=_bytes)
    if _bytes(largest) > sys.maxsize:
        raise MemoryError(
            f"compile: {largest.name} of shape {largest.shape} and dtype {largest.dtype} has "
            f"{_bytes(largest):.3g} bytes; no array can have 2**63 or more"
            f"  [{describe(largest.sources)}]"
        )


def _bytes(node: Node) -> int:
    return _extent(node.shape) * node.dtype.itemsize


def _extent(shape: Shape) -> int:
    """Elements of an array, axes of size 0 left aside."""
    return math.prod([n or 1 for n in shape])


class MemoryLimit(NamedTuple):
    """A bound for plans that are made within a block."""

    bytes: int
    owner: str
    """Whose limit it is, as errors say it."""


_LIMIT: Final[ContextVar[MemoryLimit | None]] = ContextVar("memory_limit", default=None)


@contextmanager
def memory_limit(limit: MemoryLimit | None) -> Generator[None]:
    """Within the block larger plans are refused before anything is allocated."""
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def check_fits_machine(arena: int, least: Callable[[], int]) -> None:
    """Refuse a plan above all memory, and warn of one above what is free.

    `least` gives the smallest budget that can be met, which takes a search.
    """
    limit = _LIMIT.get()
    if limit is not None and arena > limit.bytes:
        raise MemoryError(
            f"the plan takes {bytes_text(arena)}; {limit.owner} has "
            f"{bytes_text(max(0, limit.bytes))} for it; {_smaller_plan(least(), limit.bytes)}"
        )
    if arena < MIN_CHECKED_BYTES:
        return
    free, whole = free_bytes(), total_bytes()
    if arena <= free:
        return
    smallest = least()
    way_out = (
        f"compile(memory={smallest}) needs the least that was planned ({bytes_text(smallest)}), "
        "larger budgets take less time"
        if smallest < arena
        else "no smaller plan was found: compute on less data at a time"
    )
    message = f"compile: the plan takes {bytes_text(arena)}; {bytes_text(free)} are free"
    if arena > whole:
        raise MemoryError(with_location(f"{message} of {bytes_text(whole)} in all; {way_out}"))
    warn(f"{message}, so the system may swap or end the process; {way_out}", PerformanceWarning)


def check_fits_device(device: Device, arena: int, outside: int, least: Callable[[], int]) -> None:
    """Refuse a plan that does not fit into a device's memory beside the variables."""
    free = device.total_bytes if device.free_bytes is None else device.free_bytes
    if arena + outside <= free and arena <= device.largest_bytes:
        return
    smallest = least()
    room = min(free - outside, device.largest_bytes)
    raise MemoryError(
        with_location(
            f"compile: the plan takes {bytes_text(arena)}, variables {bytes_text(outside)}; "
            f"{device.label} ({device.name}) has {bytes_text(free)} free, at most "
            f"{bytes_text(device.largest_bytes)} in one piece; {_smaller_plan(smallest, room)}"
        )
    )


def _smaller_plan(smallest: int, room: int) -> str:
    """What helps where a plan does not fit into `room` bytes, in words."""
    if smallest > room:
        return "no smaller plan fits: compute on less data at a time"
    return f"compile(memory={smallest}) needs the least that was planned ({bytes_text(smallest)})"


def least_budget(plan_within: Callable[[int], object], arena: int) -> int:
    """The smallest budget that `plan_within` can meet; what it gives is not used."""
    try:
        plan_within(1)
    except MemoryBudgetError as error:
        return min(error.least_bytes, arena)
    return arena


def free_bytes() -> int:
    """Memory that can be taken without swapping; without limit where the system does not say."""
    known = _meminfo().get("MemAvailable", sys.maxsize)
    return min([known, *[room.free for room in memory_rooms()]])


def total_bytes() -> int:
    """All memory with what it can be swapped to; without limit where the system does not say."""
    facts = _meminfo()
    known = facts.get("MemTotal", sys.maxsize) + facts.get("SwapTotal", 0)
    return min([known, *[room.limit for room in memory_rooms()]])


def _meminfo() -> dict[str, int]:
    """What Linux says of memory, in bytes."""
    if not sys.platform.startswith("linux"):
        return _sysconf()
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return _sysconf()
    fields = [line.split() for line in lines]
    return {f[0].rstrip(":"): int(f[1]) * 1024 for f in fields if len(f) == 3}


def _sysconf() -> dict[str, int]:
    """Memory as POSIX systems report it, in bytes; what is free is not said there."""
    try:
        return {"MemTotal": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}
    except (AttributeError, OSError, ValueError):
        return {}


def bytes_text(count: int) -> str:
    """Bytes as a user reads them."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e10 else f"{count / 1e6:,.1f} MB"
