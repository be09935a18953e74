"""Native kernels of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.dtype import FLOAT32, INT32, DType
from tawny.engine.cpu.kernel_table import Kernel, native_on_threads
from tawny.engine.cpu.kernels.element import byte_element, half_element
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
from tawny.engine.layout import Memory, contiguous
from tawny.node import Node
from tawny.ops.byte_products import ConvolutionBytes, MatmulBytes
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.einsum import Einsum
from tawny.ops.fusion import PLAIN, FusedConvolution, FusedMatmul
from tawny.ops.half_products import ConvolutionHalves, MatmulHalves
from tawny.ops.linalg import Matmul
from tawny.rewrite.half_products import is_worth_an_op


def _kernel(made: KernelWithPacking | None) -> Kernel | None:
    if made is None:
        return None
    code, preparation = made
    return Kernel(*code, prepared=() if preparation is None else ((1, preparation),))


def _plain(code: CompiledKernel | None) -> Kernel | None:
    return None if code is None else Kernel(*code)


@native_on_threads(Matmul, FusedMatmul)
def matmul(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A product of matrices, with an epilogue if it is fused."""
    a, b, *extra = operands
    transposed, epilogue = (False, False), PLAIN
    if isinstance(node.op, FusedMatmul):
        transposed, epilogue = (node.op.transpose_a, node.op.transpose_b), node.op.epilogue
    return _kernel(
        matmul_kernel(
            a,
            b,
            results[0],
            extra,
            transposed=transposed,
            epilogue=epilogue,
            workers=threads,
            prepared=prepares_matrix(b, transposed=transposed[1], known=b.constant),
        )
    )


@native_on_threads(Convolution, FusedConvolution)
def convolution(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A convolution, with an epilogue if it is fused."""
    op, (x, weights, *extra) = node.op, operands
    assert isinstance(op, (Convolution, FusedConvolution))
    return _kernel(
        convolution_kernel(
            op,
            x,
            weights,
            results[0],
            extra,
            epilogue=op.epilogue if isinstance(op, FusedConvolution) else PLAIN,
            workers=threads,
            known=weights.constant,
            prepared=prepares_kernel(weights, known=weights.constant),
        )
    )


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


# --------------------------------------------------------------- products of bytes


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


@native_on_threads(MatmulBytes)
def matmul_bytes(
    _: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A product of matrices of bytes."""
    a, b = _taken_together(operands[0], INT32), _side_by_side(operands[1], INT32)
    if a is None or b is None:
        return None
    return _kernel(matmul_kernel(a, b, results[0], workers=threads, element=byte_element()))


@native_on_threads(ConvolutionBytes)
def convolution_bytes(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A convolution of bytes."""
    op, x, weights = node.op, _taken_together(operands[0], INT32), _side_by_side(operands[1], INT32)
    assert isinstance(op, ConvolutionBytes)
    if x is None or weights is None or op.groups != 1:
        return None
    made = convolution_kernel(
        op, x, weights, results[0], workers=threads, known=weights.constant, element=byte_element()
    )
    return _kernel(made)


# ------------------------------------------------------------ products of bfloat16


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


@native_on_threads(MatmulHalves)
def matmul_halves(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A product of matrices of bfloat16, with its epilogue."""
    op, (left, right, *extra) = node.op, operands
    assert isinstance(op, MatmulHalves)
    a, b = _taken_together(left, FLOAT32), _side_by_side(right, FLOAT32)
    if a is None or b is None:
        return None
    made = matmul_kernel(
        *(a, b, results[0], extra),
        epilogue=op.epilogue,
        workers=threads,
        element=half_element(),
    )
    return _kernel(made)


@native_on_threads(ConvolutionHalves)
def convolution_halves(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A convolution of bfloat16, with its epilogue."""
    op, (image, kernel, *extra) = node.op, operands
    assert isinstance(op, ConvolutionHalves)
    x, weights = _taken_together(image, FLOAT32), _side_by_side(kernel, FLOAT32)
    if x is None or weights is None or op.groups != 1:
        return None
    made = convolution_kernel(
        *(op, x, weights, results[0], extra),
        epilogue=op.epilogue,
        workers=threads,
        known=weights.constant,
        element=half_element(),
    )
    return _kernel(made)
