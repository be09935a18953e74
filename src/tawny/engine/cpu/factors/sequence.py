"""Kernels called one after another: a kernel of phases, in each of which some calls are made.

The workers share a call, or one of them makes it.  Calls that do not wait for each other are one
phase; between phases all workers meet.  A call finds its row of cells on the stack: addresses in
the row of the whole, moved on, and its own parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, SupportsIndex

from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel, KernelSequence
from tawny.engine.llvm.ir.builder import I64, PTR, VOID, Function, Module, Value
from tawny.engine.llvm.runtime.library import Address, lazy_library


class RowAddress(NamedTuple):
    """An address: bytes past that in a cell of the row."""

    cell: int
    offset: int = 0


class KernelCall(NamedTuple):
    """A kernel and the addresses that its row begins with, but for its scratch memory."""

    code: CompiledKernel
    places: tuple[RowAddress, ...]
    fallible: bool = False
    """Whether its last parameter says of failure."""
    waits: bool = True
    """Whether it reads what the calls before it write, or writes what they read."""


_CALL: Final = ("function", "shared", "fallible", "places", "parameters")
_FEWEST: Final = 8
"""Phases of the smallest library; others have twice as many, and so on."""


def sequence_kernel(calls: Sequence[KernelCall], addresses: int, room: int = 0) -> KernelSequence:
    """The kernel of some calls; its row begins with `addresses` addresses and scratch memory.

    The first `room` bytes of that belong to what the calls keep there, from
    `RowAddress(addresses)` on.  The last parameter is set where a call failed.
    """
    first = _whole_lines(room)
    phases = _phases(calls)
    scratch = max([64, *[first + _scratch(phase) for phase in phases]])
    records = [_record(phase, RowAddress(addresses, first)) for phase in phases]
    longest = max(len(c.places) + 1 + len(c.code.parameters) for c in calls)
    at = 2 + len(records)
    starts: list[SupportsIndex] = []
    for record in records:
        starts.append(at)
        at += len(record)
    parameters = [longest, at, *starts, *[cell for record in records for cell in record], 0]
    shared = [any(call.code.parallel for call in phase) for phase in phases]
    most = _FEWEST
    while most < len(phases):
        most *= 2
    library = _library(addresses, most)
    code = CompiledKernel(library, _symbol(0), tuple(parameters), any(shared), scratch)
    after = [(_symbol(number), together) for number, together in enumerate(shared)][1:]
    return KernelSequence(code, tuple(after))


def _phases(calls: Sequence[KernelCall]) -> list[list[KernelCall]]:
    """Calls that follow each other without waiting, or are all made by one worker."""
    phases: list[list[KernelCall]] = []
    for call in calls:
        alone = not call.code.parallel
        if phases and (not call.waits or (alone and not any(c.code.parallel for c in phases[-1]))):
            phases[-1].append(call)
        else:
            phases.append([call])
    return phases


def _whole_lines(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def _scratch(phase: Sequence[KernelCall]) -> int:
    """Bytes of scratch memory: a worker may begin a call while others are in the one before."""
    return sum(_whole_lines(call.code.scratch) for call in phase)


def _symbol(phase: int) -> str:
    return f"phase{phase}"


def _record(phase: Sequence[KernelCall], scratch: RowAddress) -> list[SupportsIndex]:
    """The cells of a phase: how many calls, then each of them."""
    cells: list[SupportsIndex] = [len(phase)]
    for code, places, fallible, _ in phase:
        own = (*places, scratch) if code.scratch else places
        function = Address(code.library, code.symbol)
        cells += [function, int(code.parallel), int(fallible), len(own), len(code.parameters)]
        cells += [number for place in own for number in place]
        cells += code.parameters
        scratch = scratch._replace(offset=scratch.offset + _whole_lines(code.scratch))
    return cells


@lazy_library
def _library(module: Module, addresses: int, count: int) -> None:
    module.finished = True
    given = {**KERNEL, "number": I64}
    with module.function("run", given, internal=True, attributes="noinline") as f:
        _write_phase(f, addresses + 1)
    for number in range(count):
        with module.function(_symbol(number), KERNEL) as f:
            f.call("run", VOID, *f.arguments, f.constant(I64, number))


def _write_phase(f: Function, addresses: int) -> None:
    """The calls of a phase."""
    row, worker, workers, number = f.arguments
    parameters = f.element(row, addresses, I64)
    longest, status = f.cell(parameters, 0), f.element(parameters, f.cell(parameters, 1), I64)
    start = f.load(I64, f.element(parameters, number + 2, I64))
    record = f.element(parameters, start, I64)
    cells = f.stack_array(longest * 8)
    with f.loop(0, f.cell(record, 0), carried=[f.element(record, 1, I64)]) as call:
        (head,) = call.carried
        _, shared, fallible, places, length = (f.cell(head, i) for i in range(len(_CALL)))
        moves = f.element(head, len(_CALL), I64)
        given = f.element(moves, places * len(RowAddress._fields), I64)
        alone = shared.equals(0)
        with f.when(~alone | worker.equals(0)):
            _write_row(f, row, moves, places, cells)
            target = f.element(cells, places, I64)
            with f.loop(0, length) as copied:
                cell = f.load(I64, f.element(given, copied.index, I64), 8)
                f.store(cell, f.element(target, copied.index, I64), 8)
            several = f.select(alone, f.constant(I64, 1), workers)
            f.call_address(f.cell(head, 0, PTR), cells, worker, several)
            failed = f.load(I64, f.element(target, length - 1, I64)).differs(0)
            with f.when(failed & fallible.differs(0)):
                f.store(f.constant(I64, 1), status, 8)
        call.carry(f.element(given, length, I64))


def _write_row(f: Function, row: Value, moves: Value, places: Value, cells: Value) -> None:
    """The addresses of a call's row."""
    with f.loop(0, places) as loop:
        move = f.element(moves, loop.index * len(RowAddress._fields), I64)
        base = f.load(I64, f.element(row, f.cell(move, 0), I64), 8)
        f.store(base + f.cell(move, 1), f.element(cells, loop.index, I64), 8)
