"""Native kernels of matrix products and convolutions: one rule for all, with their tails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tawny.dtype import FLOAT32, INT32, DType
from tawny.engine.cpu.kernel_table import Kernel, native_on_threads
from tawny.engine.cpu.kernels.element import Element, byte_element, half_element
from tawny.engine.cpu.kernels.kernel import CompiledKernel
from tawny.engine.cpu.products.choice import prepares_kernel, prepares_matrix
from tawny.engine.cpu.products.contraction import contraction_kernel
from tawny.engine.cpu.products.convolution import (
    convolution_kernel,
    input_gradient_kernel,
    is_winograd,
    kernel_gradient_kernel,
)
from tawny.engine.cpu.products.matmul import matmul_kernel
from tawny.engine.cpu.products.preparation import KernelWithPacking
from tawny.engine.cpu.rules.panels import product_with_body
from tawny.engine.layout import Memory, contiguous
from tawny.node import Node
from tawny.op import Op
from tawny.ops.byte_products import ConvolutionBytes, MatmulBytes
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
    ConvolutionOp,
)
from tawny.ops.einsum import Einsum
from tawny.ops.fused_products import (
    PLAIN,
    Epilogue,
    FusedProduct,
    TransposedMatmul,
    transposes,
)
from tawny.ops.half_products import ConvolutionHalves, MatmulHalves
from tawny.ops.linalg import Matmul
from tawny.rewrite.half_products import is_worth_an_op


class _ProductFactors(NamedTuple):
    """The factors of a product as kernels read them, and how they compute with their elements."""

    a: Memory
    b: Memory
    element: Element | None = None
    """None where the dtype says it."""


@native_on_threads(
    *(Matmul, TransposedMatmul, MatmulBytes, MatmulHalves),
    *(Convolution, ConvolutionBytes, ConvolutionHalves),
    FusedProduct,
)
def product(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A product of matrices or a convolution, with its tail."""
    op, epilogue = node.op, PLAIN
    if isinstance(op, FusedProduct):
        if op.body is not None:
            return product_with_body(op, op.body, operands, results, threads)
        epilogue, op = op.epilogue, op.product
    a, b, *extra = operands
    factors = _factors(op, a, b)
    if factors is None:
        return None
    made = (
        _convolution(op, factors, results[0], extra, epilogue, threads)
        if isinstance(op, ConvolutionOp)
        else _matmul(op, factors, results[0], extra, epilogue, threads)
    )
    if made is None:
        return None
    code, preparation = made
    return Kernel(*code, prepared=() if preparation is None else ((1, preparation),))


def _matmul(
    op: Op,
    factors: _ProductFactors,
    result: Memory,
    extra: Sequence[Memory],
    epilogue: Epilogue,
    threads: int,
) -> KernelWithPacking | None:
    a, b, element = factors
    transposed = transposes(op)
    return matmul_kernel(
        *(a, b, result, extra),
        transposed=transposed,
        epilogue=epilogue,
        workers=threads,
        prepared=element is None and prepares_matrix(b, transposed=transposed[1], known=b.constant),
        element=element,
    )


def _convolution(
    op: ConvolutionOp,
    factors: _ProductFactors,
    result: Memory,
    extra: Sequence[Memory],
    epilogue: Epilogue,
    threads: int,
) -> KernelWithPacking | None:
    x, weights, element = factors
    if element is not None and op.groups != 1:
        return None
    return convolution_kernel(
        *(op, x, weights, result, extra),
        epilogue=epilogue,
        workers=threads,
        known=weights.constant,
        prepared=element is None and prepares_kernel(weights, known=weights.constant),
        element=element,
    )


def _factors(op: Op, a: Memory, b: Memory) -> _ProductFactors | None:
    """The factors; bytes and bfloat16 are read some at a time, as elements of 32 bits."""
    if isinstance(op, (MatmulBytes, ConvolutionBytes)):
        dtype, element = INT32, byte_element()
    elif isinstance(op, (MatmulHalves, ConvolutionHalves)):
        dtype, element = FLOAT32, half_element()
    else:
        return _ProductFactors(a, b)
    left, right = _taken_together(a, dtype), _side_by_side(b, dtype)
    return None if left is None or right is None else _ProductFactors(left, right, element)


def _taken_together(memory: Memory, dtype: DType) -> Memory | None:
    """Short numbers whose last axis is taken some at a time, as elements of 32 bits."""
    (*shape, last), (*strides, step) = memory.shape, memory.strides
    together = dtype.itemsize // memory.dtype.itemsize
    if step != memory.dtype.itemsize or last % together:
        return None
    return Memory((*shape, last // together), (*strides, dtype.itemsize), dtype, memory.constant)


def _side_by_side(memory: Memory, dtype: DType) -> Memory | None:
    """Short numbers whose last axis is some of them, as elements of 32 bits."""
    if memory.strides[-1] != memory.dtype.itemsize:
        return None
    return Memory(memory.shape[:-1], memory.strides[:-1], dtype, memory.constant)


def multiplies_halves_faster(product: Node) -> bool:
    """Whether a product of float32 is faster with factors of bfloat16.

    A convolution by fewer multiplications than it has is not: float32 alone is computed so.
    """
    op, known = product.op, product.inputs[1].known
    if not isinstance(op, (Matmul, Convolution)) or not is_worth_an_op(product, known):
        return False
    if isinstance(op, Matmul):
        return True
    x, weights, result = (contiguous(n.shape, n.dtype) for n in (*product.inputs, product))
    return not is_winograd(op, x, weights, result, known=known)


# --------------------------------------------------- gradients and contractions


def _plain(code: CompiledKernel | None) -> Kernel | None:
    return None if code is None else Kernel(*code)


@native_on_threads(ConvolutionInputGradient)
def input_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """The gradient of a convolution's input."""
    op, (weights, gradient) = node.op, operands
    assert isinstance(op, ConvolutionInputGradient)
    return _plain(input_gradient_kernel(op, weights, gradient, results[0], workers=threads))


@native_on_threads(ConvolutionKernelGradient)
def kernel_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """The gradient of a convolution's kernel."""
    op, (x, gradient) = node.op, operands
    assert isinstance(op, ConvolutionKernelGradient)
    return _plain(kernel_gradient_kernel(op, x, gradient, results[0], workers=threads))


@native_on_threads(Einsum)
def einsum(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A contraction of two operands that is a product of matrices."""
    assert isinstance(node.op, Einsum)
    if len(operands) != 2:
        return None
    a, b = operands
    return _plain(contraction_kernel(node.op.subscripts, a, b, results[0], workers=threads))
