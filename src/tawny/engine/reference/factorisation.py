"""Kernels of the factorisations chapter: NumPy's LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.factorisation import (
    QR,
    SVD,
    Cholesky,
    Det,
    Eig,
    Eigh,
    Eigvals,
    Eigvalsh,
    Inv,
    Pinv,
    Slogdet,
    Solve,
    SolveTriangular,
    Svdvals,
)


@kernel(Cholesky)
def cholesky(op: Cholesky, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.cholesky(x, upper=op.upper)


@kernel(Inv)
def inv(op: Inv, x: Value) -> Any:
    """NumPy's own; matrix by matrix where one is singular and that is no error."""
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        if op.strict:
            raise
    out = np.full_like(x, np.nan)
    for place in np.ndindex(*x.shape[:-2]):
        try:
            out[place] = np.linalg.inv(x[place])
        except np.linalg.LinAlgError:
            continue
    return out


@kernel(Pinv)
def pinv(_: Pinv, x: Value, rtol: Value) -> Any:
    """NumPy's own, on the common stack of both operands."""
    stack = np.broadcast_shapes(x.shape[:-2], rtol.shape)
    return np.linalg.pinv(np.broadcast_to(x, (*stack, *x.shape[-2:])), rcond=rtol)


@kernel(Det)
def det(_: Det, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.det(x)


@kernel(Slogdet)
def slogdet(_: Slogdet, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.slogdet(x)


@kernel(Eigh)
def eigh(op: Eigh, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.eigh(x, "U" if op.upper else "L")


@kernel(Eigvalsh)
def eigvalsh(op: Eigvalsh, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.eigvalsh(x, "U" if op.upper else "L")


@kernel(Eig)
def eig(_: Eig, x: Value) -> Any:
    """NumPy's own, which may come out real and is then converted."""
    return np.linalg.eig(x)


@kernel(Eigvals)
def eigvals(_: Eigvals, x: Value) -> Any:
    """NumPy's own, which may come out real and is then converted."""
    return np.linalg.eigvals(x)


@kernel(QR)
def qr(op: QR, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.qr(x, "complete" if op.complete else "reduced")


@kernel(SVD)
def svd(op: SVD, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.svd(x, full_matrices=op.full)


@kernel(Svdvals)
def svdvals(_: Svdvals, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.svdvals(x)


@kernel(Solve)
def solve(_: Solve, a: Value, b: Value) -> Any:
    """NumPy's own."""
    return np.linalg.solve(a, b)


@kernel(SolveTriangular)
def solve_triangular(op: SolveTriangular, a: Value, b: Value) -> Any:
    """The general solution for the triangle alone."""
    triangle = np.tril(a) if op.lower else np.triu(a)
    if op.unit:
        places = range(a.shape[-1])
        triangle[..., places, places] = 1
    if op.transposed:
        triangle = np.swapaxes(triangle, -1, -2)
    if op.transposed == 2:
        triangle = np.conj(triangle)
    return np.linalg.solve(triangle, b)
