"""Matrix products and what belongs to them."""

from __future__ import annotations

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.node import Value
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import apply_activation, gelu
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


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(call: NodeCall) -> Array:
    """A matrix product with a function behind it."""
    return activate(gemm(call), call)


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
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
    return apply_activation(call, x, name, (call.number("activation_alpha", 0.01),)) if name else x


@operator("Einsum")
def einsum(call: NodeCall) -> Array:
    """Sums of products, by an equation of axes."""
    return np.einsum(call.text("equation"), *call.arrays())


@operator("Det")
def determinant(call: NodeCall) -> Array:
    """The determinant of each matrix."""
    return np.linalg.det(call.array(0))


@operator("GemmFastGelu", domain=MICROSOFT)
def gemm_gelu(call: NodeCall) -> Array:
    """A product of matrices and a bias through the Gaussian unit, approximated."""
    made, bias = np.matmul(call.array(0), call.array(1)), call.optional(2)
    return gelu(made if bias is None else made + bias, approximate=True)


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_with_few_bits(call: NodeCall) -> Array:
    """A product with a matrix whose elements have a few bits, and a scale for each block."""
    x, bias = call.array(0), call.optional(5)
    if call.optional(4) is not None:
        call.fail("g_idx is not supported")
    made = np.matmul(x, np.asarray(_unpack_blocks(call)).astype(x.dtype))
    return made if bias is None else made + bias


def _unpack_blocks(call: NodeCall) -> Value:
    """A right matrix whose elements have a few bits, as numbers."""
    depth, columns = call.integer("K"), call.integer("N")
    bits, block = call.integer("bits", 4), call.integer("block_size")
    if bits not in {2, 4, 8} or block < 16 or depth < 1 or columns < 1:
        call.fail(f"bits={bits}, block_size={block}, K={depth}, N={columns} are not supported")
    blocks = -(-depth // block)
    call.check_elements(columns * blocks * block, "the right matrix")
    packed, scales = call.known_operand(1), call.known_operand(2)
    if packed.dtype != numpy.uint8 or packed.size * 8 != columns * blocks * block * bits:
        call.fail(f"operand 1 has shape {packed.shape} and dtype {packed.dtype}, which do not fit")
    if scales.size != columns * blocks:
        call.fail(f"operand 2 has shape {scales.shape}; expected {columns * blocks} scales")
    whole = unpack_bits(packed, bits).reshape(columns, blocks, block).astype(scales.dtype)
    zero: Value = numpy.full((columns, blocks), 2.0 ** (bits - 1), scales.dtype)
    if call.optional(3) is not None:
        given = call.known_operand(3)
        if given.dtype == numpy.uint8:
            given = unpack_bits(given.reshape(columns, -1), bits)[:, :blocks]
        zero = given.reshape(columns, blocks).astype(scales.dtype)
    made = (whole - zero[..., None]) * scales.reshape(columns, blocks, 1)
    return made.reshape(columns, -1)[:, :depth].T


def unpack_bits(packed: Value, bits: int) -> Value:
    """Numbers of a few bits, several in each byte, the first ones lowest; the last axis grows."""
    shifts = numpy.arange(0, 8, bits, dtype=numpy.uint8)
    parts = (packed[..., None] >> shifts) & numpy.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1)
