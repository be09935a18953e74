"""Runs the kernels of products on NumPy arrays, and judges what they computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from codegen_harness import SIGNATURE, Memory, guarded, poisoned
from tawny.engine.cpu.kernels.element import element_of
from tawny.engine.cpu.kernels.kernel import CompiledKernel
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.ops.fused_products import Activation, Epilogue

WORKERS = (1, 2, 3, 5)

FLOATS = [d for d in (np.float16, np.float32, np.float64) if element_of(np.dtype(d)) is not None]
"""Those that the host computes with."""

COMPLEXES = [np.complex64, np.complex128]

ACTIVATIONS = [
    a for a in Activation if TileEpilogue(Epilogue(activation=a), np.dtype(np.float32)).is_supported
]
"""Those that the host has code for."""


def filled(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Numbers of any size and sign."""
    kind = np.dtype(dtype).kind
    if kind == "c":
        parts = rng.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def layouts(*arrays: np.ndarray) -> list[Memory]:
    return [Memory.of(a) for a in arrays]


def called(
    code: CompiledKernel, operands: Sequence[np.ndarray], result: np.ndarray, workers: int
) -> None:
    """Call a kernel once for each worker, with scratch memory that holds nothing of use."""
    scratch = poisoned((code.scratch,), np.dtype(np.uint8))
    addresses = [a.ctypes.data for a in (*operands, result, *[scratch] * (code.scratch > 0))]
    row = np.array([*addresses, *code.parameters], np.int64)
    function = SIGNATURE(code.library.address(code.symbol))
    for worker in range(workers):
        function(row.ctypes.data, worker, workers)
    assert guarded(scratch), "it wrote outside of its scratch memory"


def computed(
    code: CompiledKernel, operands: Sequence[np.ndarray], shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """The result, which must have the same bits for any number of workers."""
    results: list[np.ndarray] = []
    for workers in WORKERS:
        result = poisoned(shape, dtype)
        called(code, operands, result, workers)
        assert guarded(result), "it wrote outside of its result"
        results.append(result)
    for other in results[1:]:
        assert other.tobytes() == results[0].tobytes(), "workers change the result"
    return results[0]


def ended(
    product: np.ndarray, both: np.ndarray, residual: Sequence[np.ndarray], activation: Activation
) -> np.ndarray:
    """A product with a bias and a scale, the rows of `both`, step by step in its own dtype."""
    bias, scale = both
    with np.errstate(all="ignore"):
        value = product * scale + bias
        for addend in residual:
            value = value + addend
        return np.maximum(value, 0) if activation is Activation.RELU else value


def wide(x: np.ndarray) -> np.ndarray:
    """`x` as it is computed with by the judge."""
    wider = {"f": np.float64, "c": np.complex128}.get(x.dtype.kind)
    return x if wider is None else x.astype(wider)


def judge(
    got: np.ndarray,
    reference: Callable[..., np.ndarray],
    factors: Sequence[np.ndarray],
    length: int,
    addends: Sequence[np.ndarray] = (),
    last: Callable[[np.ndarray], np.ndarray] = lambda x: x,
) -> None:
    """Compare with a sum of products of two factors, so many for each element, and of addends.

    Integers wrap and must be equal.  The bound on floating-point numbers is that of any order of
    summation: the sum of magnitudes, times the number of roundings.
    """
    with np.errstate(all="ignore"):
        want = reference(*map(wide, factors))
        for addend in addends:
            want = want + wide(addend)
        want = last(want)
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    magnitude = reference(*[np.abs(wide(x)) for x in factors])
    for addend in addends:
        magnitude = magnitude + np.abs(wide(addend))
    unit = float(np.finfo(got.dtype).eps)
    sums = np.finfo(np.float32).eps if got.dtype == np.float16 else unit
    roundings = 2 * length if got.dtype.kind == "c" else length
    bound = magnitude * (roundings * float(sums) + 4 * unit) + 4 * float(np.finfo(got.dtype).tiny)
    error = np.abs(wide(got) - want)
    assert np.all(error <= bound), f"error {error.max()} where {bound[error > bound].min()} may be"
