"""Matrix products and what belongs to them."""

from __future__ import annotations

import tawny.numpy as np
from tawny.array import Array
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import gelu, leaky_relu
from tawny.onnx.table import MICROSOFT, operator, two_operands

operator("MatMul")(two_operands(np.matmul))


def scale_by(x: Array, factor: float) -> Array:
    """`x` times a number, of the dtype of `x`."""
    return x if factor == 1 else (x * factor).astype(x.dtype)


@operator("Gemm")
def _gemm(call: NodeCall) -> Array:
    return gemm(call)


def gemm(call: NodeCall) -> Array:
    """A product of two matrices, each transposed or not, and a matrix beside it."""
    a, b, c = call.array(0), call.array(1), call.optional(2)
    if a.ndim != 2 or b.ndim != 2:
        call.fail(f"operands have shapes {a.shape} and {b.shape}; each must have 2 axes")
    a = a.T if call.flag("transA") else a
    b = b.T if call.flag("transB") else b
    made = scale_by(np.matmul(a, b), call.number("alpha", 1.0))
    return made if c is None else made + scale_by(c, call.number("beta", 1.0))


ACTIVATIONS = {"Relu": np.relu, "Tanh": np.tanh, "Sigmoid": np.sigmoid}


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(call: NodeCall) -> Array:
    """A matrix product with a function behind it."""
    return activate(gemm(call), call)


@operator("FusedMatMul", domain=MICROSOFT)
def fused_matmul(call: NodeCall) -> Array:
    """A product of matrices, each transposed or not, times a number."""
    a, b = call.array(0), call.array(1)
    if call.flag("transBatchA") or call.flag("transBatchB"):
        call.fail("transBatchA and transBatchB are not supported")
    a = np.swapaxes(a, -1, -2) if call.flag("transA") and a.ndim > 1 else a
    b = np.swapaxes(b, -1, -2) if call.flag("transB") and b.ndim > 1 else b
    return scale_by(np.matmul(a, b), call.number("alpha", 1.0))


def activate(x: Array, call: NodeCall) -> Array:
    """`x` through the function that a fused operator names."""
    name = call.text("activation", "")
    if name in ACTIVATIONS:
        return ACTIVATIONS[name](x)
    if name == "LeakyRelu":
        return leaky_relu(x, call.number("activation_alpha", 0.01))
    if name == "Gelu":
        return gelu(x)
    if name:
        call.fail(f"activation {name!r} is not supported; accepted: {', '.join(ACTIVATIONS)}")
    return x


@operator("Einsum")
def einsum(call: NodeCall) -> Array:
    """Sums of products, by an equation of axes."""
    return np.einsum(call.text("equation"), *call.arrays())


@operator("Det")
def determinant(call: NodeCall) -> Array:
    """The determinant of each matrix."""
    return np.linalg.det(call.array(0))
