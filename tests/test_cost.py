"""What ops say they cost: scalar operations, bytes read and bytes written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array, wrap
from tawny.node import Node, make, make_parts, toposort
from tawny.op import CLASSES, NO_COST, Op
from tawny.ops.convolution import ConvolutionInputGradient, ConvolutionKernelGradient
from tawny.ops.factors import Eliminate, SolveFactored
from tawny.ops.loops import FEW_STEPS

IMAGE, KERNEL = np.ones((2, 6, 3)), np.ones((3, 3, 4))


def transposed(x: Array) -> Array:
    op = ConvolutionInputGradient((1,), ((0, 0),), (1,), 1, (6,))
    return wrap(make(op, (tnp.asarray(KERNEL).node, x.node)))


def factored(x: Array) -> Array:
    factors, exchanges = make_parts(Eliminate(), (x.node,))
    right = tnp.asarray(np.ones((6, 7)))
    return wrap(make(SolveFactored(False), (factors, exchanges, right.node)))


def kernel_gradient(x: Array) -> Array:
    op = ConvolutionKernelGradient((1,), ((0, 0),), (1,), 1, (3,))
    return wrap(make(op, (tnp.asarray(IMAGE).node, x.node)))


CASES: dict[str, tuple[tuple[int, ...], Callable[[Array], Any], int]] = {
    "add": ((4, 5), lambda x: x + 1.0, 20),
    "roll": ((4, 5), lambda x: tnp.roll(x, 1), 20),
    "sum": ((4, 5), lambda x: tnp.sum(x, axis=1), 20),
    "argmax": ((4, 5), lambda x: tnp.argmax(x, axis=1), 20),
    "cumulative_sum": ((4, 5), lambda x: tnp.cumulative_sum(x, axis=1), 20),
    "matmul": ((4, 5), lambda x: x @ np.ones((5, 7)), 2 * 4 * 5 * 7),
    "einsum": ((4, 5), lambda x: tnp.einsum("ab,bc->ac", x, np.ones((5, 7))), 2 * 4 * 5 * 7),
    "convolution": ((2, 6, 3), lambda x: tnp.conv1d(x, KERNEL), 2 * 9 * (2 * 4 * 4)),
    "convolution_input_gradient": ((2, 4, 4), transposed, 2 * 9 * (2 * 4 * 4)),
    "convolution_kernel_gradient": ((2, 4, 4), kernel_gradient, 2 * 9 * (2 * 4 * 4)),
    "correlate": ((9,), lambda x: tnp.correlate(x, np.ones(4), "full"), 2 * 4 * 12),
    "max_pool": ((2, 6, 3), lambda x: tnp.max_pool1d(x, 2), 36),
    "upsampling_gradient": ((2, 3, 1), tw.grad(lambda x: tnp.sum(tnp.upsampling1d(x, 2) ** 2)), 12),
    "inv": ((5, 4, 4), tnp.linalg.inv, 2 * 5 * 4**3),
    "solve": ((4, 4), lambda x: tnp.linalg.solve(x, np.ones((4, 7))), 2 * 4**3 + 2 * 16 * 7),
    "eliminate": ((6, 6), factored, 2 * 6**3 // 3),
    "solve_factored": ((6, 6), factored, 2 * 6 * 6 * 7),
    "fft": ((3, 8), tnp.fft.fft, 5 * 24 * 3),
    "sort": ((3, 8), tnp.sort, 24 * 4),
    "argsort": ((3, 8), tnp.argsort, 24 * 4),
    "searchsorted": ((6,), lambda x: tnp.searchsorted(np.arange(8.0), x), 6 * 4),
    "gather": ((100, 4), lambda x: tnp.take(x, np.arange(3), axis=0), 12),
}  # fmt: skip
"""A shape, what is made of it, and the operations of the op of this name there."""


LOOPS: dict[str, tuple[tuple[int, ...], Callable[[Array], Any], int]] = {
    "loop": ((5,), lambda x: tw.fori_loop(0, 7, lambda i, c: c * x, x), 7),
    "while_loop": ((5,), lambda x: tw.while_loop(lambda c: c[0] < 9, lambda c: c * x, x), FEW_STEPS),
    "switch": ((5,), lambda x: tw.cond(x[0] > 0, lambda: x * x + x, lambda: x), 2),
}  # fmt: skip
"""The same, and how often the elements of `x` are computed."""


def made(name: str) -> Node:
    shape, function, _ = (CASES | LOOPS)[name]
    x = tw.var("x", shape)
    return next(n for n in toposort([function(x).node]) if n.op.facts().name == name)


@pytest.mark.parametrize("name", CASES)
def test_operations(name: str) -> None:
    node, (_, _, operations) = made(name), CASES[name]
    read = sum(int(np.prod(i.shape)) * i.dtype.itemsize for i in node.inputs)
    written = int(np.prod(node.shape)) * node.dtype.itemsize
    if name == "gather":
        read = written + node.inputs[1].dtype.itemsize * 3
    assert node.cost() == (operations, read, written)


@pytest.mark.parametrize("name", LOOPS)
def test_operations_of_loops(name: str) -> None:
    """All steps, or those of the most costly branch; counters and conditions are few."""
    cost, times = made(name).cost(), LOOPS[name][2]
    assert 5 * times <= cost.operations <= 7 * times
    assert cost.bytes_written >= 5 * 8 * times
    assert cost.bytes_read >= 2 * 5 * 8 * times


def test_views_and_what_is_there_cost_nothing() -> None:
    x = tw.var("x", (4, 5))
    for y in (x, x.T, tnp.reshape(x, (20,)), x[1:], tnp.asarray([1.0, 2.0])):
        assert y.node.cost() == NO_COST


def test_every_op_that_says_what_it_costs_is_tried() -> None:
    """Fused ops, whose tests are those of fusion, and pieces of ops apart."""
    methods = ("operations", "multiply_adds", "cost")
    apart = {
        "tawny.node",
        *(
            f"tawny.ops.{c}"
            for c in (
                "fusion",
                "fused_products",
                "bands",
                "pieces",
                "byte_products",
                "half_products",
                "partial_sorting",
            )
        ),
    }
    said = {
        getattr(op, m) for op in CLASSES.values() if op.__module__ not in apart for m in methods
    }
    tried = {getattr(type(made(name).op), m) for name in CASES | LOOPS for m in methods}
    assert said - tried - {getattr(Op, m) for m in methods} == set()
