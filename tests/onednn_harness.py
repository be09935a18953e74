"""Runs kernels of oneDNN on guarded arrays, and the same nodes by our own kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from codegen_harness import SIGNATURE, guarded, poisoned
from tawny.array import array_for
from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.onednn.library import missing
from tawny.engine.cpu.onednn.offers import offer
from tawny.engine.cpu.providers import OPTION
from tawny.engine.layout import Memory, contiguous
from tawny.node import Node, make
from tawny.op import Op

FLOAT = np.dtype(np.float32)

needs_onednn = pytest.mark.skipif(missing() is not None, reason=f"there is no oneDNN: {missing()}")


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape, np.float32)


def node_of(op: Op, *arrays: np.ndarray) -> Node:
    return make(op, tuple(tnp.asarray(a).node for a in arrays))


def kernel(
    op: Op, arrays: Sequence[np.ndarray], known: Sequence[int] = (), threads: int = 2
) -> Kernel | None:
    """oneDNN's kernel of a node with operands that lie like these; some of them known."""
    node = node_of(op, *arrays)
    operands = [Memory(a.shape, a.strides, a.dtype, n in known) for n, a in enumerate(arrays)]
    return offer(node, tuple(operands), (contiguous(node.shape, node.dtype),), threads)


def called(kernel: Kernel, arrays: Sequence[np.ndarray], result: np.ndarray) -> None:
    """Run a kernel; scratch memory holds nothing of use and is as large as it was said."""
    scratch = poisoned((kernel.scratch,), np.dtype(np.uint8))
    given = list(arrays)
    for number, prepare in kernel.prepared:
        given[number] = prepare(given[number])
    places = [a.ctypes.data for a in (*given, result, *[scratch] * (kernel.scratch > 0))]
    row = np.array([*places, *kernel.parameters], np.int64)
    SIGNATURE(kernel.library.address(kernel.symbol))(row.ctypes.data, 0, 1)
    assert row[-1] == 0, "it says that it failed"
    assert guarded(scratch), "it wrote outside of its scratch memory"
    assert guarded(result), "it wrote outside of its result"


def by_onednn(
    op: Op, *arrays: np.ndarray, known: Sequence[int] = (), threads: int = 2
) -> np.ndarray | None:
    """The result by oneDNN; None where it has no kernel."""
    found = kernel(op, arrays, known, threads)
    if found is None:
        return None
    result = poisoned(node_of(op, *arrays).shape, FLOAT)
    called(found, arrays, result)
    return result


def by_us(op: Op, *arrays: np.ndarray) -> np.ndarray:
    """The result by our own kernels."""
    variables = [tw.var(f"x{n}", shape=a.shape, dtype=a.dtype) for n, a in enumerate(arrays)]
    result = array_for(make(op, tuple(v.node for v in variables)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OPTION, "own")
        program = tw.Graph(variables, result).compile(engine="cpu")
        assert "by NumPy" not in str(program.plan)
        return program(*arrays)


def judge(ours: np.ndarray, theirs: np.ndarray | None, magnitude: np.ndarray | None) -> None:
    """Compare sums of products; `magnitude` is that of their absolute values.

    A product that is missing, or too many, is far more than this.
    """
    assert theirs is not None
    assert magnitude is not None
    error = np.abs(ours.astype(np.float64) - theirs)
    assert error.max(initial=0) <= 2e-6 * magnitude.max(initial=0) + 1e-30
