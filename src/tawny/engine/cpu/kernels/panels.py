"""Kernels called one after another for panels: a few rows of what all of them compute.

What one of them makes and the next one reads lies in scratch memory, a panel for each worker.  The
kernels find it by rows of cells that are written anew for each panel: addresses in the row
of the whole, moved on to the panel, and the kernel's own parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, SupportsIndex

from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel, Names, Numbers
from tawny.engine.llvm.ir.builder import I64, PTR, Module
from tawny.engine.llvm.runtime.library import Address, lazy_library

SYMBOL: Final = "kernel"

WORKER_SCRATCH: Final = -1
"""In place of a cell: the scratch memory of the worker."""

_NUMBERS: Final = Names(
    ("panels", "tall", "rows", "slots", "slot_bytes", "row_at", "calls", "tall_at", "low_at")
)
_HEAD: Final = 3
"""What comes first of a call: its function, how many addresses, how many parameters."""

_MOVE: Final = 3
"""Cells that tell an address."""


class PanelSplit(NamedTuple):
    """Rows in panels, the first `tall` of them of `rows + 1` rows, the others of `rows`."""

    panels: int
    tall: int
    rows: int

    @staticmethod
    def of(rows: int, panels: int) -> PanelSplit:
        """Panels of nearly equal height."""
        return PanelSplit(panels, rows % panels, rows // panels)

    @property
    def heights(self) -> tuple[int, ...]:
        """The heights that occur, the greatest first."""
        return (self.rows + 1, self.rows) if self.tall else (self.rows,)


class PanelAddress(NamedTuple):
    """An address: `offset` bytes past a cell of the row, and `step` more for each row before."""

    cell: int
    step: int = 0
    offset: int = 0


class PanelCall(NamedTuple):
    """A kernel and the addresses that its row begins with."""

    code: CompiledKernel
    moves: tuple[PanelAddress, ...]


def panels_kernel(
    split: PanelSplit,
    calls: Sequence[Sequence[PanelCall]],
    addresses: int,
    slots: int,
    worker_bytes: int,
) -> CompiledKernel:
    """The kernel that makes the calls for each panel: some for each of the split's heights.

    Its row begins with `addresses` addresses, that of scratch memory the last.  At most `slots`
    workers take part, each with `worker_bytes` bytes of it for what the calls keep there.
    """
    cells = [[n for call in several for n in _call_parameters(call)] for several in calls]
    row = 8 * max([len(c.moves) + len(c.code.parameters) for several in calls for c in several])
    worker_bytes = -(-worker_bytes // 64) * 64
    slot = worker_bytes + -(-row // 64) * 64
    first = len(_NUMBERS)
    numbers = {
        "panels": split.panels,
        "tall": split.tall,
        "rows": split.rows,
        "slots": slots,
        "slot_bytes": slot,
        "row_at": worker_bytes,
        "calls": len(calls[0]),
        "tall_at": first,
        "low_at": first + (len(cells[0]) if split.tall else 0),
    }
    parameters = (*_NUMBERS.values(numbers), *[n for several in cells for n in several])
    return CompiledKernel(_library(addresses), SYMBOL, parameters, split.panels > 1, slot * slots)


def _call_parameters(call: PanelCall) -> list[SupportsIndex]:
    """The cells that describe a call: its function, its addresses, its parameters."""
    code, moves = call
    head: list[SupportsIndex] = [
        Address(code.library, code.symbol),
        len(moves),
        len(code.parameters),
    ]
    return [*head, *[n for move in moves for n in move], *code.parameters]


@lazy_library
def _library(module: Module, addresses: int) -> None:
    """The loop over a worker's panels, for rows that begin with `addresses` addresses."""
    with module.function(SYMBOL, KERNEL) as f:
        row, worker, workers = f.arguments
        numbers = f.element(row, addresses, I64)
        settings = Numbers(f, _NUMBERS, numbers)
        panels, tall, rows, calls = (settings[name] for name in ("panels", "tall", "rows", "calls"))
        tall_at, low_at, row_at = (settings[name] for name in ("tall_at", "low_at", "row_at"))
        share = f.minimum(workers, settings["slots"])
        own = f.cell(row, addresses - 1) + worker * settings["slot_bytes"]
        cells = f.convert("inttoptr", own + row_at, PTR)
        first = f.select(worker < share, worker, panels)
        with f.loop(first, panels, share) as panel:
            before = panel.index * rows + f.minimum(panel.index, tall)
            at = f.select(panel.index < tall, tall_at, low_at)
            with f.loop(0, calls, carried=[f.element(numbers, at, I64)]) as call:
                (head,) = call.carried
                function, count, length = f.cell(head, 0, PTR), f.cell(head, 1), f.cell(head, 2)
                moves = f.element(head, _HEAD, I64)
                with f.loop(0, count) as move:
                    place = f.element(moves, move.index * _MOVE, I64)
                    cell, step, offset = (f.cell(place, i) for i in range(_MOVE))
                    given = f.load(I64, f.element(row, f.maximum(cell, 0), I64), 8)
                    base = f.select(cell < 0, own, given)
                    f.store(base + before * step + offset, f.element(cells, move.index, I64), 8)
                parameters = f.element(moves, count * _MOVE, I64)
                target = f.element(cells, count, I64)
                with f.loop(0, length) as copied:
                    number = f.load(I64, f.element(parameters, copied.index, I64), 8)
                    f.store(number, f.element(target, copied.index, I64), 8)
                f.call_address(function, cells, worker.of(0), worker.of(1))
                call.carry(f.element(parameters, length, I64))
