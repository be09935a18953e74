"""The table of GPU kernels: for each op class, the rule that gives its launches."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

from tawny.dtype import DType
from tawny.engine.gpu.launch import VECTOR_BYTES, DeviceArray, GpuKernel
from tawny.engine.gpu.target import PLAIN, KernelTarget
from tawny.engine.layout import StridedView, Views, contiguous
from tawny.engine.lowering import types
from tawny.node import Node
from tawny.op import Op
from tawny.shape import Shape

MOST_KERNELS: Final = 4096
"""Answers of rules that are remembered: those that were asked for last."""

Rule = Callable[..., GpuKernel | None]
"""Of an op, and how its operands and results lie in memory; a rule of products takes what they are
chosen for too."""

R = TypeVar("R", bound=Rule)

RULES: Final[dict[type[Op], Rule]] = {}

PRODUCTS: Final = set[type[Op]]()
"""Ops whose rules depend on what kernels are chosen for."""


def gpu_rule(*ops: type[Op], products: bool = False) -> Callable[[R], R]:
    """Declare how a GPU computes some ops."""

    def declare(rule: R) -> R:
        for op in ops:
            if op in RULES:
                raise ValueError(f"{op.__name__} has two rules")
            RULES[op] = rule
        if products:
            PRODUCTS.update(ops)
        return rule

    return declare


def kernel_of(node: Node, views: Views, target: KernelTarget = PLAIN) -> GpuKernel | None:
    """The kernel of a node; None where it has none."""
    operands = tuple([array_of(views(source)) for source in node.inputs])
    results = tuple([new_array(*kind) for kind in types(node)])
    return _kernel(node.op, operands, results, target if type(node.op) in PRODUCTS else None)


def array_of(seen: StridedView) -> DeviceArray:
    """How a value lies in a device's memory, where storages begin at multiples of more."""
    m = seen.memory
    return DeviceArray(m.shape, m.strides, m.dtype, m.constant, not seen.offset % VECTOR_BYTES)


def new_array(shape: Shape, dtype: DType) -> DeviceArray:
    """How a new array lies in a device's memory."""
    return DeviceArray(shape, contiguous(shape, dtype).strides, dtype)


@lru_cache(MOST_KERNELS)
def _kernel(
    op: Op,
    operands: tuple[DeviceArray, ...],
    results: tuple[DeviceArray, ...],
    target: KernelTarget | None,
) -> GpuKernel | None:
    rule = RULES.get(type(op))
    if rule is None:
        return None
    return rule(op, operands, results, *([] if target is None else [target]))
