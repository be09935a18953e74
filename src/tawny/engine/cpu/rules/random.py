"""Native kernels of the random chapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawny.dtype import DType
from tawny.engine.cpu.kernel_table import Kernel, native
from tawny.engine.cpu.kernels import random
from tawny.engine.cpu.kernels.kernel import CompiledKernel
from tawny.engine.layout import Memory
from tawny.engine.reference.random import stream_key
from tawny.node import Node
from tawny.ops.random import Draw, Integers, Normal, Uniform
from tawny.shape import size


@native(Uniform)
def uniform(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel:
    """Bits equal to the reference's."""
    del operands
    return _draw(random.uniform_kernel, node, results)


@native(Normal)
def normal(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel:
    """By the same transform as the reference."""
    del operands
    return _draw(random.normal_kernel, node, results)


@native(Integers)
def integers(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Bits equal to the reference's; bounds that are arrays are left to NumPy."""
    if any(size(m.shape) != 1 for m in operands):
        return None
    return _draw(random.integers_kernel, node, results, fallible=True)


def _draw(
    kernel: Callable[[int, DType, tuple[int, int]], CompiledKernel],
    node: Node,
    results: Sequence[Memory],
    *,
    fallible: bool = False,
) -> Kernel:
    assert isinstance(node.op, Draw)
    key = stream_key(node.op.seed, node.op.stream)
    code = kernel(size(results[0].shape), results[0].dtype, key)
    return Kernel(*code, drawn=True, fallible=fallible)
