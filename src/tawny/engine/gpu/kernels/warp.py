"""Instructions of NVIDIA's warps: products of small tiles, and copies that are waited for later.

A warp of 32 threads has the tiles of `multiply` spread over its registers: thread `4 * g + t` has
elements (g, t), (g + 8, t), (g, t + 4) and (g + 8, t + 4) of the left one, which has 16 rows and 8
columns; (t, g) and (t + 4, g) of the right one, of 8 rows and 8 columns; and (g, 2t), (g, 2t + 1),
(g + 8, 2t) and (g + 8, 2t + 1) of the sums.  Which rows, columns and places along the depth of a
larger tile these are is free, as long as both factors agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.engine.llvm.ir.builder import F32, I32, VOID, Function, Type, Value

WARP: Final = 32
"""Threads of a warp."""

SUMS: Final = Type("{ float, float, float, float }")


def multiply(
    f: Function, a: Sequence[Value], b: Sequence[Value], totals: Sequence[Value]
) -> list[Value]:
    """Sums of products of tiles of TF32 numbers, added to these."""
    name = "nvvm.mma.m16n8k8.row.col.tf32"
    found = f.intrinsic(name, SUMS, *a, *b, *totals, overload=())
    return [f.emit(F32, f"extractvalue {found}, {i}") for i in range(4)]


def nearest_tf32(f: Function, x: Value) -> Value:
    """The bits of the TF32 number that is nearest to a float32 number."""
    return f.intrinsic("nvvm.f2tf32.rna", I32, x, overload=())


def copy_later(f: Function, target: Value, source: Value, nbytes: int, inside: Value) -> None:
    """Copy 4 or 16 bytes to memory of the block, or zeros; `wait_for_copies` waits for it."""
    name = f"nvvm.cp.async.{'cg' if nbytes == 16 else 'ca'}.shared.global.{nbytes}.s"
    read = f.select(inside, f.constant(I32, nbytes), 0)
    f.intrinsic(name, VOID, target, source, read, overload=())


def end_copies(f: Function) -> None:
    """Make one batch of the copies that were asked for since the last."""
    f.intrinsic("nvvm.cp.async.commit.group", VOID, overload=())


def wait_for_copies(f: Function, but: int) -> None:
    """Wait for this thread's batches of copies, all `but` the last few."""
    f.intrinsic("nvvm.cp.async.wait.group", VOID, f.constant(I32, but), overload=())
