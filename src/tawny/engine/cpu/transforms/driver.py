"""The kernel around the stages: which transforms a worker computes, and where they lie.

A kernel has phases, one after the other, whose tasks workers share.  A task has parts: of each part
it computes some tiles, one after the other, by calling all stages of the part with a frame of
addresses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, SupportsIndex

from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel, KernelSequence
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.cpu.transforms.stage import (
    COUNT,
    FRAME,
    ROOM,
    SHARED,
    SOURCE,
    SYMBOL,
    TARGET,
    TILE,
    StageCall,
)
from tawny.engine.llvm.ir.builder import I64, PTR, VOID, Function, Module, Value
from tawny.engine.llvm.runtime.library import Address, lazy_library


class TileAxis(NamedTuple):
    """An axis: its size, and bytes from place to place on it in operand and result."""

    size: int
    source: int
    target: int


class TileLoop(NamedTuple):
    """Stages that are called for each tile; the last axis is that of tiles of columns."""

    axes: tuple[TileAxis, ...]
    columns: int
    """Columns of all tiles together."""
    per_tile: int
    """Columns of a tile; the last may have fewer."""
    stages: tuple[StageCall, ...]
    room: int = 0
    """Bytes of scratch memory of each worker."""
    source: int = SOURCE
    target: int = TARGET
    """Where operand and result of the part begin, by cells of the frame."""

    @property
    def tiles(self) -> int:
        """How many tiles there are."""
        return math.prod([axis.size for axis in self.axes])


class Phase(NamedTuple):
    """Loops over tiles, one after the other, in a number of tasks."""

    parts: tuple[TileLoop, ...]
    tasks: int


class SharedRoom(NamedTuple):
    """Scratch memory beside the rooms of workers; `each` of them has its own, or all have one."""

    nbytes: int = 0
    each: bool = False


_HEAD: Final = ("slot", "shared", "own", "workers")
_PHASE: Final = ("tasks", "parts")
_PART: Final = ("tiles", "axes", "stages", "columns", "per_tile", "source", "target", "cells")
_AXIS: Final = len(TileAxis._fields)


def phases_kernel(
    phases: Sequence[Phase], workers: int, shared: SharedRoom, *, parallel: bool
) -> KernelSequence:
    """The kernel of some phases; its row begins with operand, result and scratch memory."""
    slot = _whole_lines(max([part.room for phase in phases for part in phase.parts]))
    own = _whole_lines(shared.nbytes)
    whole = own * workers if shared.each else own
    scratch = max(whole + slot * workers, 64)
    records = [_record(phase) for phase in phases]
    parameters: list[SupportsIndex] = [slot, whole, own if shared.each else 0, workers]
    at = len(parameters) + len(records)
    for record in records:
        parameters.append(at)
        at += len(record)
    for record in records:
        parameters += record
    code = CompiledKernel(
        _phases_library(len(phases)), _symbol(0), tuple(parameters), parallel, scratch
    )
    return KernelSequence(code, tuple([(_symbol(i), parallel) for i in range(1, len(phases))]))


def _symbol(phase: int) -> str:
    return f"phase{phase}"


def _whole_lines(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def _record(phase: Phase) -> list[SupportsIndex]:
    """The cells of a phase: its tasks, then its parts, each with its axes and stages."""
    cells: list[SupportsIndex] = [phase.tasks, len(phase.parts)]
    for part in phase.parts:
        own: list[SupportsIndex] = [number for axis in part.axes for number in axis]
        for library, numbers in part.stages:
            own += [Address(library, SYMBOL), len(numbers), *numbers]
        head = part.tiles // phase.tasks, len(part.axes), len(part.stages)
        cells += [*head, part.columns, part.per_tile, part.source, part.target, len(own), *own]
    return cells


@lazy_library
def _phases_library(module: Module, count: int) -> None:
    given = {**KERNEL, "number": I64}
    with module.function("run", given, internal=True, attributes="noinline") as f:
        _write_phase(f)
    for number in range(count):
        with module.function(_symbol(number), KERNEL) as f:
            f.call("run", VOID, *f.arguments, f.constant(I64, number))


def _write_phase(f: Function) -> None:
    """A worker's tasks of a phase."""
    row, worker, workers, number = f.arguments
    parameters = f.element(row, 3, I64)
    slot, whole, own, slots = (f.cell(parameters, i) for i in range(len(_HEAD)))
    records = f.element(parameters, len(_HEAD), I64)
    record = f.element(parameters, f.load(I64, f.element(records, number, I64)), I64)
    tasks, parts = (f.cell(record, i) for i in range(len(_PHASE)))
    share = f.minimum(workers, slots)
    mine = worker < share
    begin, end = (f.select(mine, n, 0) for n in worker_share(tasks, worker, share))
    frame, bases = f.stack_buffer(8 * FRAME), f.stack_buffer(8 * FRAME)
    scratch = f.cell(row, 2, PTR)
    for cell, base in (
        (SOURCE, f.cell(row, 0, PTR)),
        (TARGET, f.cell(row, 1, PTR)),
        (ROOM, f.offset(scratch, whole + worker * slot)),
        (SHARED, f.offset(scratch, worker * own)),
    ):
        for place in (frame, bases):
            f.store(base, f.element(place, cell, I64))
    first = f.element(record, len(_PHASE), I64)
    with f.loop(begin, end) as task, f.loop(0, parts, carried=[first]) as part:
        (here,) = part.carried
        _write_part(f, here, task.index, frame, bases)
        cells = f.cell(here, len(_PART) - 1)
        part.carry(f.element(here, cells + len(_PART), I64))


def _write_part(f: Function, part: Value, task: Value, frame: Value, bases: Value) -> None:
    """The tiles of a part of a task."""
    tiles, axes, stages, columns, per_tile, source, target = (
        f.cell(part, i) for i in range(len(_PART) - 1)
    )
    starts = [f.load(PTR, f.element(bases, cell, I64)) for cell in (source, target)]
    listed = f.element(part, len(_PART), I64)
    first = f.element(listed, axes * _AXIS, I64)
    with f.loop(task * tiles, (task + 1) * tiles) as loop:
        *places, tile = _tile_places(f, loop.index, axes, listed)
        for cell, start, place in zip((SOURCE, TARGET), starts, places, strict=True):
            f.store(f.offset(start, place), f.element(frame, cell, I64))
        f.store(f.minimum(columns - tile * per_tile, per_tile), f.element(frame, COUNT, I64))
        f.store(tile, f.element(frame, TILE, I64))
        with f.loop(0, stages, carried=[first]) as stage:
            (here,) = stage.carried
            numbers = f.element(here, 2, I64)
            f.call_address(f.load(PTR, here), numbers, frame)
            stage.carry(f.element(numbers, f.cell(here, 1), I64))


def _tile_places(f: Function, number: Value, axes: Value, listed: Value) -> tuple[Value, ...]:
    """Bytes from the beginning of operand and result, and the place on the last axis."""
    zero = f.constant(I64, 0)
    with f.loop(0, axes, carried=[number, zero, zero, zero]) as axis:
        left, source, target, tile = axis.carried
        own = f.element(listed, (axes - 1 - axis.index) * _AXIS, I64)
        size, by_source, by_target = (f.cell(own, i) for i in range(_AXIS))
        over = left.unsigned_over(size)
        place = left - over * size
        axis.carry(
            over,
            source + place * by_source,
            target + place * by_target,
            f.select(axis.index.equals(0), place, tile),
        )
    return tuple(axis.carried[1:])
