"""What tests of native kernels share: arrays of any dtype, views of them, both engines compared."""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np

import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array
from tawny.node import Value

DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "uint8",
    "int64",
    "bool",
    "complex64",
    "complex128",
)


def sampled(random: Random, shape: tuple[int, ...], dtype: str) -> Value:
    """Numbers of which sums and products are neither huge nor tiny."""
    rng = np.random.default_rng(random.randrange(2**31))
    if np.dtype(dtype).kind in "biu":
        return np.asarray(rng.integers(0, 3, shape)).astype(dtype)
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return np.asarray(x).astype(dtype)


def viewed(random: Random, x: Array) -> Array:
    """The array through some views."""
    rank = x.ndim
    if rank and random.random() < 0.5:
        x = tnp.permute_dims(x, tuple(random.sample(range(rank), rank)))
    if rank and random.random() < 0.3:
        x = tnp.flip(x, axis=random.randrange(rank))
    if rank and random.random() < 0.3:
        x = x[..., :: random.choice((1, 2))]
    return x


def check(
    inputs: dict[Array, Value],
    outputs: list[Array],
    *,
    tol: float = 0.0,
    native: bool = True,
    threads: int | tuple[int, ...] = 1,
) -> None:
    """Both engines agree, and the native one needs no NumPy; any number of threads, one result."""
    graph = tw.Graph(list(inputs), outputs, unused="ignore")
    first, *others = threads if isinstance(threads, tuple) else (threads,)
    p, r, *more = (
        graph.compile(engine=e, optimise=False, threads=n)
        for e, n in (("cpu", first), ("reference", 1), *[("cpu", n) for n in others])
    )
    if native:
        said = p._compiled._engine.describe(p._compiled.task.lowered.steps)
        assert "by NumPy" not in said, said
    with np.errstate(all="ignore"):
        found = p(*inputs.values())
        for got, want in zip(found, r(*inputs.values()), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
        for other in more:
            for got, want in zip(other(*inputs.values()), found, strict=True):
                np.testing.assert_array_equal(got, want)


def tolerance(dtype: np.dtype[Any], count: int) -> float:
    """For sums of so many numbers of about 1."""
    if dtype.kind in "biu":
        return 0.0
    unit = float(ml_dtypes.finfo(dtype).eps) * (2 if dtype.itemsize == 2 else 1)
    return float(8 * unit * max(count, 4) ** 0.5)
