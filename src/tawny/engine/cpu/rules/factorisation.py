"""Native kernels of the factorisations chapter: real matrices that are small, and triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawny.dtype import FLOAT64, kind_of
from tawny.engine.cpu.factors.elimination import elimination_factors, factored_solution
from tawny.engine.cpu.factors.triangles import blocked_factor, blocked_solution
from tawny.engine.cpu.kernel_table import Kernel, native, native_on_threads
from tawny.engine.cpu.kernels.kernel import CompiledKernel
from tawny.engine.cpu.kernels.linear_systems import cholesky_kernel, elimination_kernel
from tawny.engine.cpu.kernels.matrix_stacks import MatrixStack
from tawny.engine.cpu.kernels.triangular_systems import triangular_kernel
from tawny.engine.layout import Memory
from tawny.node import Node
from tawny.ops.factorisation import Cholesky
from tawny.ops.factors import Eliminate, SolveFactored
from tawny.ops.systems import Det, Inv, Slogdet, Solve, SolveTriangular


@native(Solve)
def solve(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Systems of equations by elimination."""
    del node
    matrices, columns = _systems(operands, results[0])
    return _fallible(matrices, lambda m: elimination_kernel("solve", m, columns))


@native(Inv)
def inv(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """By elimination beside ones on the diagonal."""
    del node
    n = operands[0].shape[-1]
    return _fallible(_matrices(operands, results), lambda m: elimination_kernel("inv", m, n))


@native(Det)
def det(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """The product of the diagonal that elimination leaves."""
    del node
    return _fallible(_matrices(operands, results), lambda m: elimination_kernel("det", m, 0))


@native(Slogdet)
def slogdet(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Sign and logarithm of the product of the diagonal that elimination leaves."""
    del node
    return _fallible(_matrices(operands, results), lambda m: elimination_kernel("slogdet", m, 0))


@native_on_threads(Cholesky)
def cholesky(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """Triangular factors, row by row; of large matrices by blocks."""
    assert isinstance(node.op, Cholesky)
    upper, matrices = node.op.upper, _matrices(operands, results)
    found = _fallible(matrices, lambda m: cholesky_kernel(m, upper=upper))
    if found is None and _has_blocks(matrices) and results[0].dtype == FLOAT64:
        code, after = blocked_factor(_memories(matrices), threads, upper=upper)
        return Kernel(*code, after=after, fallible=True)
    return found


@native_on_threads(SolveTriangular)
def solve_triangular(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """By substitution, of many columns by blocks; a transposed triangle is read by columns."""
    op = node.op
    assert isinstance(op, SolveTriangular)
    a, b = operands
    if op.transposed:
        *stack, row, column = a.strides
        a = a.with_strides((*stack, column, row))
    matrices, columns = _systems((a, b), results[0])
    lower = op.lower != bool(op.transposed)
    if not op.unit and _has_blocks(matrices):
        found = blocked_solution(_memories(matrices), threads, lower=lower)
        if found is not None:
            return Kernel(*found.kernel, after=found.after, fallible=True)
    return _fallible(matrices, lambda m: triangular_kernel(m, columns, lower=lower, unit=op.unit))


@native_on_threads(Eliminate)
def eliminate(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """By blocks."""
    del node
    factors, exchanges = results
    matrices = _matrices(operands, (factors, _column(exchanges)))
    if not all(operands[0].shape):
        return None
    code, after = elimination_factors(_memories(matrices), threads)
    return Kernel(*code, after=after)


@native_on_threads(SolveFactored)
def solve_factored(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """By the triangles, in blocks."""
    assert isinstance(node.op, SolveFactored)
    factors, exchanges, right = operands
    if not all(results[0].shape):
        return None
    matrices = _matrices((factors, _column(exchanges), right), results)
    transposed = node.op.transposed
    code, after = factored_solution(_memories(matrices), threads, transposed=transposed)
    return Kernel(*code, after=after, fallible=True)


def _fallible(
    matrices: MatrixStack, make: Callable[[MatrixStack], CompiledKernel | None]
) -> Kernel | None:
    """The kernel for real matrices, which LAPACK takes over where it fails."""
    if any(kind_of(dtype) != "f" for dtype in matrices.dtypes):
        return None
    found = make(matrices)
    return None if found is None else Kernel(*found, fallible=True)


def _has_blocks(matrices: MatrixStack) -> bool:
    """Whether there are products of blocks of the matrices."""
    return bool(matrices.arrays) and all(
        array.dtype.char in "fd" and all(array.shape) for array in matrices.arrays
    )


def _memories(matrices: MatrixStack) -> list[Memory]:
    """The arrays of a stack."""
    return [Memory(a.shape, a.strides, a.dtype) for a in matrices.arrays]


def _systems(operands: Sequence[Memory], result: Memory) -> tuple[MatrixStack, int]:
    """Matrices, right-hand sides and results on their common stack, and the number of columns."""
    a, b = operands
    if len(b.shape) == 1:
        b, result = _column(b), _column(result)
    stack = result.shape[:-2]
    return _matrices((_on_stack(a, stack), _on_stack(b, stack)), (result,)), result.shape[-1]


def _column(vector: Memory) -> Memory:
    """Vectors as matrices of one column."""
    return Memory((*vector.shape, 1), (*vector.strides, 0), vector.dtype)


def _on_stack(array: Memory, stack: Sequence[int]) -> Memory:
    """Matrices repeated along the axes of a stack that they do not have."""
    own = len(array.shape) - 2
    missing = len(stack) - own
    strides = [
        0 if axis < missing or array.shape[axis - missing] == 1 else array.strides[axis - missing]
        for axis in range(len(stack))
    ]
    shape = (*stack, *array.shape[-2:])
    return Memory(shape, (*strides, *array.strides[-2:]), array.dtype)


def _matrices(operands: Sequence[Memory], results: Sequence[Memory]) -> MatrixStack:
    """Arrays on one stack; results that are numbers as matrices of one element."""
    stack = operands[0].shape[:-2]
    axes = [axis for axis, n in enumerate(stack) if n != 1]
    arrays: list[Memory] = []
    for array in (*operands, *results):
        inner = len(array.shape) - len(stack)
        shape = array.shape if inner else (*array.shape, 1, 1)
        strides = array.strides if inner else (*array.strides, 0, 0)
        kept = [*axes, -2, -1]
        arrays.append(
            Memory(tuple([shape[a] for a in kept]), tuple([strides[a] for a in kept]), array.dtype)
        )
    return MatrixStack(tuple([stack[a] for a in axes]), tuple(arrays))
