"""Memory that NumPy takes beside operands and results, as far as it is known.

LAPACK works on a copy of one matrix at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tawny import dtype as dt
from tawny.engine.lowering import types
from tawny.node import Node
from tawny.ops.factorisation import QR
from tawny.ops.fft import FFT, InverseRealFFT, RealFFT, Transform
from tawny.shape import size

Workspace = Callable[[Node], int]
"""Bytes that a kernel takes while it computes a node, besides operands and results."""


def bytes_of_results(node: Node) -> int:
    """Bytes of all results of a node."""
    return sum(size(shape) * dtype.itemsize for shape, dtype in types(node))


# --------------------------------------------------------------- factorisations


def in_lapack(workspace: Callable[[Node], float]) -> Workspace:
    """Bytes, given how many numbers are worked on besides operands and results.

    All is computed with 64 bits: other numbers are converted before and after.
    """

    def count(node: Node) -> int:
        complex_ = any(source.dtype.kind == "c" for source in node.inputs)
        wide = dt.COMPLEX128 if complex_ else dt.FLOAT64
        converted = [source for source in node.inputs if source.dtype != wide]
        numbers = workspace(node) + sum(size(source.shape) for source in converted)
        if converted:
            numbers += sum(size(shape) for shape, _ in types(node))
        return math.ceil(numbers * wide.itemsize)

    return count


def matrices(*, square: float = 0, whole: float = 0, stacks: float = 0) -> Workspace:
    """Count squares of the shorter side, whole matrices, and copies of operand 0."""

    def count(node: Node) -> float:
        *stack, m, n = node.inputs[0].shape
        one = square * min(m, n) ** 2 + whole * m * n
        return one + stacks * math.prod(stack) * m * n

    return in_lapack(count)


def linear_system(triangles: int) -> Workspace:
    """A matrix and its right-hand side, and copies of all matrices that made them triangles."""

    def count(node: Node) -> float:
        a, b = node.inputs
        n = a.shape[-1]
        right = b.shape[-1] if len(b.shape) > 1 else 1
        return n * n + n * right + triangles * size(a.shape)

    return in_lapack(count)


def factor_numbers(node: Node) -> float:
    """A copy of all matrices, then a matrix and its factor; R is made when Q is there."""
    (given,), (_, (later, _)) = node.inputs, types(node)
    *_, m, n = given.shape
    factor = m * m if isinstance(node.op, QR) and node.op.complete else m * min(m, n)
    return max(size(given.shape) + m * n + factor - size(later), size(given.shape))


# ------------------------------------------------------------------- transforms


def transform_bytes(node: Node) -> int:
    """Factors and a buffer of one row; what is converted before, or kept between axes."""
    op, given = node.op, node.inputs[0]
    assert isinstance(op, Transform)
    made = dt.complex_dtype(given.dtype).itemsize
    last = made if isinstance(op, FFT) else made // 2
    rows = [_row(n) * made for n in op.sizes[:-1]] + [_row(n) * last for n in op.sizes[-1:]]
    kept = 0
    if isinstance(op, InverseRealFFT):
        kept = size(given.shape) * made * min(len(op.axes) - 1, 2)
    elif len(op.axes) > 1 and any(
        given.shape[a] != n for a, n in zip(op.axes, op.sizes, strict=True)
    ):
        kept = 2 * bytes_of_results(node)
    taken = made // 2 if isinstance(op, RealFFT) else made
    converted = 0 if given.dtype.itemsize == taken else size(given.shape) * taken
    return max(rows, default=0) + kept + converted


def _row(n: int) -> int:
    """Numbers that a transform of `n` points needs: more where a large prime divides `n`.

    What no small number divides counts as a prime: that errs on the side of more.
    """
    left, largest, factor = n, 1, 2
    while factor * factor <= left and factor < MOST_FACTOR:
        while left % factor == 0:
            left, largest = left // factor, factor
        factor += 1
    largest = max(largest, left)
    return 2 * n if largest * largest <= n or n < 50 else 8 * n


MOST_FACTOR: Final = 2**12
"""Larger factors are not looked for; up to 2**24 points all are found."""
