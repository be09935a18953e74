"""Runs compiled kernels on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tawny import dtype as dt
from tawny.engine.cpu.kernels.elementwise import elementwise_kernel
from tawny.engine.cpu.kernels.kernel import CompiledKernel
from tawny.op import ELEMENTWISE, Op
from tawny.ops.body import Body, BodyStep

SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Memory:
    """How an array lies in memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @staticmethod
    def of(array: np.ndarray) -> Memory:
        return Memory(array.shape, array.strides, array.dtype)


def call(
    kernel: CompiledKernel,
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    workers: int = 1,
) -> None:
    """Call a kernel, once for each worker."""
    scratch = np.zeros(kernel.scratch + 64, np.uint8)
    addresses = [a.ctypes.data for a in (*operands, *results)]
    if kernel.scratch:
        addresses.append(scratch.ctypes.data + (-scratch.ctypes.data) % 64)
    row = np.array([*addresses, *kernel.parameters], np.int64)
    function = SIGNATURE(kernel.library.address(kernel.symbol))
    for worker in range(workers):
        function(row.ctypes.data, worker, workers)


def poisoned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An aligned array full of bytes that mean nothing, with a guard after it."""
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.full(size + 192, 0xA5, np.uint8)
    start = (-room.ctypes.data) % 64 + 64
    return room[start : start + size].view(dtype).reshape(shape)


def guarded(array: np.ndarray) -> bool:
    """Whether nothing was written beside an array made by `poisoned`."""
    room = array
    while room.base is not None:
        room = room.base
    start = array.ctypes.data - room.ctypes.data
    return bool((room[:start] == 0xA5).all() and (room[start + array.nbytes :] == 0xA5).all())


def body_of(op: Op | str, *arrays: np.ndarray) -> Body:
    """The body of one op on arrays like these."""
    if isinstance(op, str):
        op = ELEMENTWISE[op]
    types = tuple((a.shape, a.dtype) for a in arrays)
    shape = op.infer_shape(*(s for s, _ in types))
    dtype = op.infer_dtype(*(d for _, d in types))
    step = BodyStep(op, tuple(range(len(types))), shape, dtype)
    return Body.of(types, (step,), (len(types),))


def run_body(body: Body, arrays: Sequence[np.ndarray], workers: int = 1) -> list[np.ndarray] | None:
    """The results of a body's kernel; None where there is none."""
    results = [poisoned(*body.type_of(r)) for r in body.results]
    kernel = elementwise_kernel(
        body, [Memory.of(a) for a in arrays], [Memory.of(r) for r in results]
    )
    if kernel is None:
        return None
    call(kernel, arrays, results, workers)
    assert all(map(guarded, results))
    return results


def run(op: Op | str, *arrays: np.ndarray, workers: int = 1) -> np.ndarray | None:
    """The result of one op's kernel; None where there is none."""
    results = run_body(body_of(op, *arrays), arrays, workers)
    return None if results is None else results[0]


def numbers(dtype: np.dtype, count: int, seed: int) -> np.ndarray:
    """Numbers of all sizes, special ones among them."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind == "c":
        part = dt.real_dtype(dtype)
        out = np.empty(count, dtype)
        out.real, out.imag = numbers(part, count, seed + 100), numbers(part, count, seed + 200)
        return out
    chosen = rng.random(count)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        small = rng.integers(max(info.min, -9), 10, count).astype(dtype)
        edges = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], dtype)
        out = np.where(chosen < 0.5, wide, small)
        return np.where(chosen < 0.1, rng.choice(edges, count), out).astype(dtype)
    info = dt.finfo(dtype)
    out = rng.standard_normal(count) * 10.0 ** rng.uniform(-3, 3, count)
    edges = np.array(
        [
            0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            1,
            -1,
            0.5,
            -0.5,
            2,
            3,
            -3,
            info.max,
            -info.max,
            info.tiny,
            -info.tiny,
            info.smallest_subnormal,
            -info.smallest_subnormal,
            info.eps,
        ]
    )
    with np.errstate(all="ignore"):
        return np.where(chosen < 0.25, rng.choice(edges, count), out).astype(dtype)


def same_bits(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where two arrays hold the same number, the same zero, or both NaN."""
    if got.dtype.kind == "c":
        return same_bits(got.real, want.real) & same_bits(got.imag, want.imag)
    same = (got == want) | ((got != got) & (want != want))
    if dt.kind_of(got.dtype) == "f":
        same &= (np.signbit(got) == np.signbit(want)) | (want != want)
    return same
