"""One node at a time by compiled kernels, on NumPy arrays: no graph, no plan, no arena.

Each result is a new array.  Eager functions, and arrays whose value is asked for, compute
convolutions and pooling so; whatever else has a kernel can be computed so too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any, Final

import numpy as np

from tawny.engine.cpu.compilation import compile_kernels
from tawny.engine.cpu.executable import CpuExecutable, aligned_bytes
from tawny.engine.cpu.interpreter import interpreter
from tawny.engine.cpu.kernel_table import Choice, Kernel, kernel_for
from tawny.engine.cpu.loops import scratch_of
from tawny.engine.cpu.table import address
from tawny.engine.cpu.threads.pool import default_threads, pool_of
from tawny.engine.cpu.threads.shares import useful_threads
from tawny.engine.layout import Memory, contiguous
from tawny.engine.lowering import lower, seconds, types, writing_seconds
from tawny.engine.protocol import Task
from tawny.memory.plan import plan
from tawny.node import Node, Value, make_parts, variable
from tawny.ops.loops import BodyOp


def compute(node: Node, operands: Sequence[Value], draw: int) -> Any:
    """The value of a node, or values of its parts; None where it has no kernel, or that failed."""
    if any(source.parts for source in node.inputs):
        return None
    if isinstance(node.op, BodyOp):
        return _compute_bodies(node, operands, draw)
    given = [np.require(x, requirements="A") for x in operands]
    memories = tuple([Memory(x.shape, x.strides, x.dtype) for x in given])
    kinds = tuple([contiguous(*kind) for kind in types(node)])
    kernel = kernel_for(node, memories, kinds, default_threads())
    if kernel is None or not compile_kernels([Choice(node, memories, kinds, kernel)]):
        return None
    results = [_new(kind) for kind in kinds]
    threads = useful_threads(max(seconds(node), writing_seconds(node)))
    if not _call(kernel, [*given, *results], threads, draw):
        return None
    return tuple(results) if node.parts else results[0]


def _compute_bodies(node: Node, operands: Sequence[Value], draw: int) -> Any:
    """The values of a loop's results; None where some step has no kernel."""
    threads = default_threads()
    given = tuple([variable(None, x.shape, x.dtype) for x in node.inputs])
    results = make_parts(node.op, given)
    lowered = lower(results, scratch=partial(scratch_of, threads=threads))
    task = Task(lowered, plan(lowered.problem), given, {}, threads=threads)
    executable = CpuExecutable(task)
    if executable.by_numpy:
        return None
    executable.write(list(enumerate(operands)))
    executable.run(range(len(task.layout.sequence)), draw)
    return tuple(executable.read(results))


def _new(kind: Memory) -> Value:
    count = int(np.prod(kind.shape)) * kind.dtype.itemsize
    made: Value = aligned_bytes(count).view(kind.dtype).reshape(kind.shape)
    return made


def _call(kernel: Kernel, arrays: Sequence[Value], threads: int, draw: int) -> bool:
    """Whether the kernel's functions did their work on the arrays, operands before results."""
    scratch = [aligned_bytes(kernel.scratch)] if kernel.scratch else []
    cells = np.array([*map(address, [*arrays, *scratch]), *map(index, kernel.parameters)], np.int64)
    if kernel.drawn:
        cells[-1 - kernel.fallible] = draw
    status = address(cells[-1:]) if kernel.fallible else 0
    wanted = threads if kernel.parallel else 0
    functions = [(kernel.symbol, True), *kernel.after]
    rows = [
        (kernel.library.address(symbol), address(cells), wanted if shared else 0, status, 0)
        for symbol, shared in functions
    ]
    table, order = np.array(rows, np.int64), np.arange(len(rows))
    pool = pool_of(default_threads())
    if wanted and not pool.started:
        pool.start()
    cells_of_call = address(table), address(order), len(rows), pool.state, _NO_TURNS, 0
    call = np.array(cells_of_call, np.int64)
    return interpreter()(address(call)) == len(rows)


_UNCOUNTED: Final = np.zeros(4, np.int64)
_NO_TURNS: Final = address(_UNCOUNTED)
