"""Kernels of fused ops: the ops they were made from, one after another, for the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tawny.dtype import DType
from tawny.engine.reference import elementwise
from tawny.engine.reference.kernel import Value, call_kernel, cast, kernel
from tawny.op import ELEMENTWISE, Elementwise, Op
from tawny.ops.bands import Bands
from tawny.ops.body import Body
from tawny.ops.convolution import Convolution
from tawny.ops.fusion import Epilogue, FusedConvolution, FusedMatmul, Group, ProductGroup
from tawny.ops.linalg import Matmul


def _apply(op: Op, dtype: DType, operands: Sequence[Value]) -> Value:
    """What the unfused node would give."""
    if isinstance(op, Elementwise):
        return cast(elementwise.compute(op, operands), dtype)
    return cast(call_kernel(op, operands), dtype)


@kernel(Group, widened=False)
def group(op: Group, *operands: Value) -> Any:
    """A body, step by step."""
    return _run_body(op.body, operands)


def _run_body(body: Body, operands: Sequence[Value]) -> Any:
    """The results of a body; a value is freed after the last step that reads it."""
    values: list[Any] = list(operands)
    last = body.last_uses()
    for number, step in enumerate(body.steps):
        values.append(_apply(step.op, step.dtype, [values[i] for i in step.inputs]))
        for value in step.inputs:
            if last[value] == number:
                values[value] = None
    if len(body.results) == 1:
        return values[body.results[0]]
    return tuple([values[r] for r in body.results])


def apply_epilogue(epilogue: Epilogue, product: Value, operands: Sequence[Value]) -> Value:
    """Scale, bias, residual, activation."""
    result, dtype = product, product.dtype
    if epilogue.scaled:
        (bias, scale), *others = operands
        result, operands = _apply(ELEMENTWISE["multiply"], dtype, (result, scale)), (bias, *others)
    for operand in operands:
        result = _apply(ELEMENTWISE["add"], dtype, (result, operand))
    last = epilogue.activation.op
    return result if last is None else _apply(last, dtype, (result,))


@kernel(FusedMatmul, widened=False)
def fused_matmul(op: FusedMatmul, a: Value, b: Value, *operands: Value) -> Value:
    """NumPy's product of views, then the epilogue."""
    left = np.swapaxes(a, -1, -2) if op.transpose_a else a
    right = np.swapaxes(b, -1, -2) if op.transpose_b else b
    dtype = op.infer_dtype(a.dtype, b.dtype)
    return apply_epilogue(op.epilogue, _apply(Matmul(), dtype, (left, right)), operands)


@kernel(ProductGroup, widened=False)
def product_group(op: ProductGroup, *operands: Value) -> Any:
    """The whole product, then the body."""
    product = _apply(op.product, op.body.operands[0][1], operands[: op.product_arity])
    pieces = np.split(product, op.pieces, axis=1)
    return _run_body(op.body, (*pieces, *operands[op.product_arity :]))


@kernel(Bands, widened=False)
def bands(op: Bands, *operands: Value) -> Any:
    """The whole body at once."""
    return _run_body(op.body, operands)


@kernel(FusedConvolution, composed=True, widened=False)
def fused_convolution(op: FusedConvolution, x: Value, weights: Value, *operands: Value) -> Value:
    """The convolution, then the epilogue."""
    plain = Convolution(op.strides, op.padding, op.dilation, op.groups)
    dtype = op.infer_dtype(x.dtype, weights.dtype)
    return apply_epilogue(op.epilogue, _apply(plain, dtype, (x, weights)), operands)
