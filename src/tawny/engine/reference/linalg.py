"""Kernels of linear algebra: products, factorisations, equations."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tawny.dtype import accumulation_dtype
from tawny.engine.reference.kernel import Value, kernel
from tawny.engine.reference.workspace import factor_numbers, in_lapack, linear_system, matrices
from tawny.ops.eigenvalues import Eig, Eigh, Eigvals, Eigvalsh
from tawny.ops.einsum import Einsum
from tawny.ops.equations import Care, Dare, Sylvester
from tawny.ops.factorisation import QR, SVD, Cholesky, Svdvals
from tawny.ops.linalg import Matmul
from tawny.ops.systems import Det, Inv, Pinv, Slogdet, Solve, SolveTriangular


@kernel(Matmul)
def matmul(_: Matmul, a: Value, b: Value) -> Any:
    """NumPy's own."""
    return np.matmul(a, b)


@kernel(Einsum)
def einsum(op: Einsum, *operands: Value) -> Any:
    """NumPy's own, pairs of operands in the cheapest order; float16 is added up in float32.

    Where an axis is stretched, NumPy would add up the other operand alone before it multiplies: no
    zero would meet an infinity.
    """
    wide = [x.astype(accumulation_dtype(x.dtype), copy=False) for x in operands]
    terms = op.subscripts.split("->")[0].split(",")
    sizes = {
        pair for t, x in zip(terms, operands, strict=True) for pair in zip(t, x.shape, strict=True)
    }
    stretched = len(sizes) > len({label for label, _ in sizes})
    return np.einsum(op.subscripts, *wide, optimize=len(operands) > 1 and not stretched)


@kernel(Cholesky, workspace=matrices(whole=1))
def cholesky(op: Cholesky, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.cholesky(x, upper=op.upper)


@kernel(Inv, workspace=matrices(whole=2))
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


@kernel(Pinv, workspace=matrices(square=6, whole=2, stacks=3))
def pinv(_: Pinv, x: Value, rtol: Value) -> Any:
    """NumPy's own, on the common stack of both operands."""
    stack = np.broadcast_shapes(x.shape[:-2], rtol.shape)
    return np.linalg.pinv(np.broadcast_to(x, (*stack, *x.shape[-2:])), rcond=rtol)


@kernel(Det, workspace=matrices(whole=1))
def det(_: Det, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.det(x)


@kernel(Slogdet, workspace=matrices(whole=1))
def slogdet(_: Slogdet, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.slogdet(x)


@kernel(Eigh, workspace=matrices(whole=3))
def eigh(op: Eigh, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.eigh(x, "U" if op.upper else "L")


@kernel(Eigvalsh, workspace=matrices(whole=1))
def eigvalsh(op: Eigvalsh, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.eigvalsh(x, "U" if op.upper else "L")


@kernel(Eig, workspace=matrices(whole=6))
def eig(_: Eig, x: Value) -> Any:
    """NumPy's own, which may come out real and is then converted."""
    return np.linalg.eig(x)


@kernel(Eigvals, workspace=matrices(whole=2))
def eigvals(_: Eigvals, x: Value) -> Any:
    """NumPy's own, which may come out real and is then converted."""
    return np.linalg.eigvals(x)


@kernel(QR, workspace=in_lapack(factor_numbers))
def qr(op: QR, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.qr(x, "complete" if op.complete else "reduced")


@kernel(SVD, workspace=matrices(square=6, whole=1))
def svd(op: SVD, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.svd(x, full_matrices=op.full)


@kernel(Svdvals, workspace=matrices(square=1, whole=1))
def svdvals(_: Svdvals, x: Value) -> Any:
    """NumPy's own."""
    return np.linalg.svdvals(x)


@kernel(Solve, workspace=linear_system(0))
def solve(_: Solve, a: Value, b: Value) -> Any:
    """NumPy's own."""
    return np.linalg.solve(a, b)


@kernel(SolveTriangular, workspace=linear_system(1))
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


_DENSE: Final = 1024
"""Unknowns up to which a Sylvester equation is solved as one linear system."""

_ROUNDS: Final = 100
"""Steps after which an iteration that converges quadratically has failed."""


@kernel(Sylvester)
def sylvester(op: Sylvester, a: Value, b: Value, q: Value) -> Value:
    """One linear system where it is small; else column by column, and then refined."""
    del op
    m, n = q.shape
    if m * n <= _DENSE:
        system = np.kron(a, np.eye(n)) + np.kron(np.eye(m), b.T)
        return np.linalg.solve(system, q.reshape(-1)).reshape(m, n)
    wide = np.result_type(q, np.float64)
    a, b, q = (x.astype(wide) for x in (a, b, q))
    t, u = _schur(b)
    x = _by_columns(a, t, u, q)
    least = float("inf")
    for _ in range(_ROUNDS):
        rest = q - (a @ x + x @ b)
        size = float(np.linalg.norm(rest))
        if not size < least / 2:
            break
        least = size
        x = x + _by_columns(a, t, u, rest)
    return x


def _schur(b: Value) -> tuple[Value, Value]:
    """`b = u t uᴴ` of an upper triangle `t`: the eigenvectors made orthonormal in order."""
    _, vectors = np.linalg.eig(b)
    u, _ = np.linalg.qr(vectors.astype(complex))
    return np.triu(u.conj().T @ b @ u), u


def _by_columns(a: Value, t: Value, u: Value, q: Value) -> Value:
    """The `x` of `a x + x u t uᴴ = q`: a linear system for each column of `x u`."""
    right = q @ u
    y = np.zeros_like(right)
    one = np.eye(len(a))
    for j in range(len(t)):
        y[:, j] = np.linalg.solve(a + t[j, j] * one, right[:, j] - y[:, :j] @ t[:j, j])
    x = y @ u.conj().T
    return x if q.dtype.kind == "c" else np.real(x)


@kernel(Care)
def care(op: Care, a: Value, b: Value, q: Value, r: Value) -> Value:
    """The stable subspace of the Hamiltonian, from the sign function by Newton's iteration."""
    del op
    wide = np.result_type(q, np.float64)
    a, b, q, r = (x.astype(wide) for x in (a, b, q, r))
    n = len(a)
    g = b @ np.linalg.solve(r, b.conj().T)
    s = np.block([[a, -g], [-q, -a.conj().T]])
    for _ in range(_ROUNDS):
        inverse = np.linalg.inv(s)
        sign, logdet = np.linalg.slogdet(s)
        scale = np.exp(-logdet / (2 * n)) if sign else 1.0
        new = (scale * s + inverse / scale) / 2
        change, s = np.linalg.norm(new - s, 1), new
        if change <= 1e-13 * n * np.linalg.norm(s, 1):
            break
    else:
        raise np.linalg.LinAlgError("there is no stabilising solution")
    left = np.concatenate([s[:n, n:], s[n:, n:] + np.eye(n)])
    right = np.concatenate([s[:n, :n] + np.eye(n), s[n:, :n]])
    x = np.linalg.lstsq(left, -right)[0]
    return _self_adjoint(x)


@kernel(Dare)
def dare(op: Dare, a: Value, b: Value, q: Value, r: Value) -> Value:
    """Doubling: each step stands for twice as many steps of the recursion as the one before."""
    del op
    wide = np.result_type(q, np.float64)
    a, b, q, r = (x.astype(wide) for x in (a, b, q, r))
    n = len(a)
    g = b @ np.linalg.solve(r, b.conj().T)
    h = q
    for _ in range(_ROUNDS):
        solved = np.linalg.solve(np.eye(n) + g @ h, np.concatenate([a, g], axis=1))
        step = a.conj().T @ h @ solved[:, :n]
        g = g + a @ solved[:, n:] @ a.conj().T
        a = a @ solved[:, :n]
        h = h + step
        if np.linalg.norm(step, 1) <= 1e-15 * np.linalg.norm(h, 1):
            return _self_adjoint(h)
    raise np.linalg.LinAlgError("there is no stabilising solution")


def _self_adjoint(x: Value) -> Value:
    """`x` without the rounding that sets it apart from its adjoint."""
    half: Value = (x + x.conj().T) / 2
    return half
