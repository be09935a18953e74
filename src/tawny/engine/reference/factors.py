"""Kernels of elimination and of systems by its factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.factors import EXCHANGE_DTYPE, Eliminate, SolveFactored


@kernel(Eliminate)
def eliminate(_: Eliminate, x: Value) -> Any:
    """Row by row; a column without a pivot is left as it is."""
    factors = np.array(x)
    exchanges = np.empty(x.shape[:-1], EXCHANGE_DTYPE)
    for place in np.ndindex(*x.shape[:-2]):
        _eliminate(factors[place], exchanges[place])
    return factors, exchanges


def _eliminate(a: Value, exchanges: Value) -> None:
    for k in range(len(a)):
        best = k + int(np.argmax(np.abs(a[k:, k])))
        exchanges[k] = best
        a[[k, best]] = a[[best, k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])


@kernel(SolveFactored)
def solve_factored(op: SolveFactored, factors: Value, exchanges: Value, b: Value) -> Value:
    """By the two triangles, and the exchanges before or, in reverse, after."""
    lower = np.tril(factors, -1) + np.eye(factors.shape[-1], dtype=factors.dtype)
    upper = np.triu(factors)
    made = np.array(b)
    if not op.transposed:
        _exchange(made, exchanges, 1)
        return np.linalg.solve(upper, np.linalg.solve(lower, made))
    turned = np.swapaxes(upper, -1, -2), np.swapaxes(lower, -1, -2)
    made = np.linalg.solve(turned[1], np.linalg.solve(turned[0], made))
    _exchange(made, exchanges, -1)
    return made


def _exchange(rows: Value, exchanges: Value, step: int) -> None:
    for place in np.ndindex(*rows.shape[:-2]):
        for k in range(rows.shape[-2])[::step]:
            pair = [k, exchanges[place][k]]
            rows[place][pair] = rows[place][pair[::-1]]
