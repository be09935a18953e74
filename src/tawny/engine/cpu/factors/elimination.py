"""Kernels of elimination with exchanges of rows, and of systems of equations by its factors."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.cpu.factors.blocks import BlockProgram, MatrixBlock
from tawny.engine.cpu.factors.sequence import sequence_kernel
from tawny.engine.cpu.kernels.kernel import KernelSequence
from tawny.engine.layout import Memory


def elimination_factors(arrays: Sequence[Memory], workers: int) -> KernelSequence:
    """The kernel of square matrices' factors.

    The arrays are matrices, factors, and exchanges as columns of one element.
    """
    given, factors, exchanges = (MatrixBlock(n, 0, memory) for n, memory in enumerate(arrays))
    program = BlockProgram(given.memory.dtype, workers)
    program.copy(given, factors)
    program.eliminate(factors, exchanges)
    return sequence_kernel(program.calls, len(arrays))


def factored_solution(
    arrays: Sequence[Memory], workers: int, *, transposed: bool
) -> KernelSequence:
    """The kernel of systems of equations by factors.

    The arrays are factors, exchanges, right-hand sides and results.
    """
    factors, exchanges, right, result = (
        MatrixBlock(n, 0, memory) for n, memory in enumerate(arrays)
    )
    program = BlockProgram(result.memory.dtype, workers)
    program.copy(right, result)
    if not transposed:
        program.exchange(result, exchanges, 0)
        program.solve(factors, result, result, lower=True, unit=True)
        program.solve(factors, result, result, lower=False)
    else:
        turned = factors.transpose
        program.solve(turned, result, result, lower=True)
        program.solve(turned, result, result, lower=False, unit=True)
        program.exchange(result, exchanges, 0, reverse=True)
    return sequence_kernel(program.calls, len(arrays))
