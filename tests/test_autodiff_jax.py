"""Derivatives beside JAX's, where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(17)
V = RNG.uniform(0.2, 1.5, (5,))
A = RNG.uniform(-1, 1, (4, 4)) + 4 * np.eye(4)
S = A @ A.T
Z = RNG.uniform(-1, 1, (3,)) + 1j * RNG.uniform(-1, 1, (3,))

FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    "elementwise": (lambda np, x: np.sum(np.tanh(x) * np.log1p(x) ** 2 / np.hypot(x, x[::-1])), V),
    "power": (lambda np, x: np.sum(x ** x[::-1] + np.arctan2(x, x[::-1] + 1)), V),
    "statistics": (lambda np, x: np.std(x) * np.var(x, ddof=1) + np.max(x) + np.prod(x), V),
    "cumulative": (lambda np, x: np.sum(np.cumsum(x) * np.cumprod(x)), V),
    "sorting": (lambda np, x: np.sum(np.sort(x)[::2] * np.arange(3.0)), V),
    "indexing": (lambda np, x: np.sum(x[np.asarray([0, 0, 3])] * x[1:4]) + x[-1], V),
    "update": (lambda np, x: np.sum(x.at[1:3].set(x[:2] * 2).at[0].add(x[4]) ** 2), V),
    "joining": (lambda np, x: np.sum(np.concat([x, np.tile(x, 2)]) * np.concat([np.repeat(x, 2), x[::-1]])), V),
    "products": (lambda np, x: np.sum((x @ x.T) @ x[0] + np.einsum("ij,jk,ik->i", x, x, x)), A),
    "determinant": (lambda np, x: np.linalg.slogdet(x)[1] + 1e-3 * np.linalg.det(x), A),
    "solve": (lambda np, x: np.sum(np.linalg.solve(x, x[0]) + np.linalg.inv(x)[0]), A),
    "cholesky": (lambda np, x: np.sum(np.linalg.cholesky(x @ x.T) ** 2 * np.arange(16.0).reshape(4, 4)), A),
    "eigenvalues": (lambda np, x: np.sum(np.linalg.eigvalsh(x + x.T) * np.arange(4.0)), A),
    "eigenvectors": (lambda np, x: np.sum(np.linalg.eigh(x + x.T)[1] ** 2 * np.arange(16.0).reshape(4, 4)), A),
    "singular values": (lambda np, x: np.sum(np.linalg.svdvals(x) * np.arange(4.0)), A),
    "qr": (lambda np, x: np.sum(np.abs(np.linalg.qr(x)[1]) * np.arange(16.0).reshape(4, 4)), A),
    "fft": (lambda np, x: np.sum(np.abs(np.fft.fft(x)) ** 3 + np.real(np.fft.ifft(x)) * x), V),
    "rfft": (lambda np, x: np.sum(np.abs(np.fft.rfft(x)) ** 2 * np.arange(3.0)), V),
    "complex": (lambda np, x: np.sum(np.abs(np.exp(x) * np.conj(x) + np.imag(x) ** 2)), Z),
    "complex powers": (lambda np, x: np.sum(np.real(x**3 / (1 + x))) + np.sum(np.angle(x + 2)), Z),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_and_second_derivative(name: str) -> None:
    function, at = FUNCTIONS[name]
    theirs = jax.grad(lambda x: function(jax.numpy, x))(at)
    ours = tw.grad(lambda x: function(tnp, x))(at)
    np.testing.assert_allclose(ours.numpy(), np.asarray(theirs), rtol=1e-8, atol=1e-8)
    if at.dtype.kind == "c":
        return
    direction = np.cos(np.arange(at.size)).reshape(at.shape)
    _, theirs = jax.jvp(jax.grad(lambda x: function(jax.numpy, x)), (at,), (direction,))
    np.testing.assert_allclose(
        tw.hvp(lambda x: function(tnp, x), at, direction).numpy(),
        np.asarray(theirs),
        rtol=1e-7,
        atol=1e-7,
    )
