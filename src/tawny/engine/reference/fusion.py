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
from tawny.ops.fused_products import Epilogue, FusedProduct, TransposedMatmul
from tawny.ops.fusion import Group
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


def _apply_epilogue(epilogue: Epilogue, product: Value, operands: Sequence[Value]) -> Value:
    """Scale, bias, residual, activation."""
    result, dtype = product, product.dtype
    if epilogue.scaled:
        (bias, scale), *others = operands
        result, operands = _apply(ELEMENTWISE["multiply"], dtype, (result, scale)), (bias, *others)
    for operand in operands:
        result = _apply(ELEMENTWISE["add"], dtype, (result, operand))
    last = epilogue.activation.op
    return result if last is None else _apply(last, dtype, (result,))


@kernel(TransposedMatmul, widened=False)
def transposed_matmul(op: TransposedMatmul, a: Value, b: Value) -> Value:
    """NumPy's product of views."""
    left = np.swapaxes(a, -1, -2) if op.transpose_a else a
    right = np.swapaxes(b, -1, -2) if op.transpose_b else b
    return _apply(Matmul(), op.infer_dtype(a.dtype, b.dtype), (left, right))


@kernel(FusedProduct, composed=True, widened=False)
def fused_product(op: FusedProduct, a: Value, b: Value, *operands: Value) -> Any:
    """The whole product, then the epilogue, then the body if there is one."""
    count = op.epilogue.arity
    product = _apply(op.product, op.product.infer_dtype(a.dtype, b.dtype), (a, b))
    product = _apply_epilogue(op.epilogue, product, operands[:count])
    if op.body is None:
        return product
    return _run_body(op.body, (*np.split(product, op.pieces, axis=1), *operands[count:]))


@kernel(Bands, widened=False)
def bands(op: Bands, *operands: Value) -> Any:
    """The whole body at once."""
    return _run_body(op.body, operands)
