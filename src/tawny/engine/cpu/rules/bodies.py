"""Native kernels of elementwise ops, conversions, reductions, running sums, and fused groups."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.cpu.kernel_table import Kernel, native
from tawny.engine.cpu.kernels.elementwise import elementwise_kernel
from tawny.engine.cpu.kernels.reduction.plan import reduction_kernel
from tawny.engine.cpu.kernels.scan import ScanSpec, scan_kernel
from tawny.engine.layout import Memory
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.scalar.bodies import lower_body
from tawny.engine.llvm.scalar.reduction_bodies import stage_body
from tawny.node import Node
from tawny.op import ELEMENTWISE, Elementwise
from tawny.ops.body import FOLDS, Body, BodyStep
from tawny.ops.creation import Arange, Cast, Eye, Linspace
from tawny.ops.cumulative import Cumulative, CumulativeProd, CumulativeSum
from tawny.ops.fusion import Group
from tawny.ops.reduction import REDUCTIONS


@native(Elementwise, Cast, Arange, Linspace, Eye, *REDUCTIONS)
def single(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Loops over the elements."""
    given = tuple([(i.shape, i.dtype) for i in node.inputs])
    step = BodyStep(node.op, tuple(range(len(given))), node.shape, node.dtype)
    return _kernel_of(Body.of(given, (step,), (len(given),)), operands, results)


@native(Group)
def group(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """One set of loops for all that the group computes."""
    assert isinstance(node.op, Group)
    return _kernel_of(node.op.body, operands, results)


def folds(body: Body) -> bool:
    """Whether there is a reduction in it."""
    return any(isinstance(step.op, FOLDS) for step in body.steps)


def compilable(body: Body) -> bool:
    """Whether all of it can be compiled to one kernel."""
    if not host().has_fma:
        return False
    return (stage_body(body) if folds(body) else lower_body(body)) is not None


def _kernel_of(body: Body, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    if folds(body):
        folded = reduction_kernel(body, operands, results)
        return None if folded is None else Kernel(*folded.kernel, after=folded.after)
    found = elementwise_kernel(body, operands, results)
    return None if found is None else Kernel(*found)


def _scan(
    name: str, first: int, node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    assert isinstance(node.op, Cumulative)
    start = float(first) if node.op.include_initial else None
    found = scan_kernel(ScanSpec(ELEMENTWISE[name], node.op.axis, start), operands[0], results[0])
    return None if found is None else Kernel(*found)


@native(CumulativeSum)
def running_sum(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Each element added to the sum before it."""
    return _scan("add", 0, node, operands, results)


@native(CumulativeProd)
def running_product(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Each element times the product before it."""
    return _scan("multiply", 1, node, operands, results)
