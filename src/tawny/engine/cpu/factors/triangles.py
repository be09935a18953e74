"""Kernels of large triangular systems and of Cholesky's factor: blocks and products of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.engine.cpu.factors.blocks import BASE, BlockProgram, MatrixBlock
from tawny.engine.cpu.factors.sequence import KernelCall, sequence_kernel
from tawny.engine.cpu.factors.transposition import triangle_kernel
from tawny.engine.cpu.kernels.kernel import KernelSequence
from tawny.engine.cpu.kernels.matrix_stacks import MatrixStack
from tawny.engine.layout import Memory

FEWEST_COLUMNS: Final = 16
"""Right-hand sides from which products of blocks are faster than columns one by one."""


def blocked_solution(
    arrays: Sequence[Memory], workers: int, *, lower: bool
) -> KernelSequence | None:
    """The kernel that solves large triangular systems; None where blocks do not pay.

    The arrays are triangles, right-hand sides and results, all of one stack.
    """
    triangle, right, result = (MatrixBlock(n, 0, memory) for n, memory in enumerate(arrays))
    if triangle.rows <= 2 * BASE or result.columns < FEWEST_COLUMNS:
        return None
    program = BlockProgram(result.memory.dtype, workers)
    program.solve(triangle, right, result, lower=lower)
    return sequence_kernel(program.calls, len(arrays))


def blocked_factor(arrays: Sequence[Memory], workers: int, *, upper: bool) -> KernelSequence:
    """The kernel of Cholesky's factor of large matrices.

    The lower factor is computed as its transpose, and moved to where it belongs.
    """
    source, result = (MatrixBlock(n, 0, memory) for n, memory in enumerate(arrays))
    program = BlockProgram(result.memory.dtype, workers)
    if not upper:
        source = source.transpose
    if not source.by_rows:
        program.copy(source, result)
        source = result
    program.factor(source, result)
    stack = MatrixStack(result.memory.shape[:-2], (result.memory,))
    code = triangle_kernel(stack, turned=not upper)
    program.calls.append(KernelCall(code, (result.place,)))
    return sequence_kernel(program.calls, len(arrays))
