"""Scalar expressions, evaluated on whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tawny.dtype import FLOAT32, bfloat16, is_bfloat16
from tawny.engine.reference import special
from tawny.engine.reference.bfloat16 import round_to_bfloat16, widen
from tawny.engine.reference.kernel import Value, cast
from tawny.op import Elementwise
from tawny.scalar import Arg, Const, Expr, Prim, PrimCall

SPELLING: Final[dict[Prim, Callable[..., Any]]] = {
    Prim.ADD: np.add,
    Prim.SUB: np.subtract,
    Prim.MUL: np.multiply,
    Prim.DIV: np.divide,
    Prim.FLOORDIV: special.floor_divide,
    Prim.MOD: np.remainder,
    Prim.FMOD: np.fmod,
    Prim.POW: special.power,
    Prim.NEG: np.negative,
    Prim.POS: np.positive,
    Prim.ABS: np.absolute,
    Prim.SIGN: np.sign,
    Prim.RECIPROCAL: np.reciprocal,
    Prim.SQRT: np.sqrt,
    Prim.CBRT: np.cbrt,
    Prim.EXP: np.exp,
    Prim.EXP2: np.exp2,
    Prim.EXPM1: special.expm1,
    Prim.LOG: np.log,
    Prim.LOG2: np.log2,
    Prim.LOG10: np.log10,
    Prim.LOG1P: np.log1p,
    Prim.SIN: np.sin,
    Prim.COS: np.cos,
    Prim.TAN: np.tan,
    Prim.ASIN: np.arcsin,
    Prim.ACOS: np.arccos,
    Prim.ATAN: np.arctan,
    Prim.ATAN2: np.arctan2,
    Prim.SINH: np.sinh,
    Prim.COSH: np.cosh,
    Prim.TANH: np.tanh,
    Prim.ASINH: np.arcsinh,
    Prim.ACOSH: np.arccosh,
    Prim.ATANH: np.arctanh,
    Prim.HYPOT: np.hypot,
    Prim.ERF: special.erf,
    Prim.ERFC: special.erfc,
    Prim.DAWSN: special.dawsn,
    Prim.FLOOR: np.floor,
    Prim.CEIL: np.ceil,
    Prim.TRUNC: np.trunc,
    Prim.RINT: np.rint,
    Prim.COPYSIGN: np.copysign,
    Prim.NEXTAFTER: np.nextafter,
    Prim.SIGNBIT: np.signbit,
    Prim.ISNAN: np.isnan,
    Prim.ISINF: np.isinf,
    Prim.ISFINITE: np.isfinite,
    Prim.EQ: np.equal,
    Prim.NE: np.not_equal,
    Prim.LT: np.less,
    Prim.LE: np.less_equal,
    Prim.GT: np.greater,
    Prim.GE: np.greater_equal,
    Prim.MAX: np.maximum,
    Prim.MIN: np.minimum,
    Prim.FMAX: np.fmax,
    Prim.FMIN: np.fmin,
    Prim.BIT_AND: np.bitwise_and,
    Prim.BIT_OR: np.bitwise_or,
    Prim.BIT_XOR: np.bitwise_xor,
    Prim.BIT_NOT: np.invert,
    Prim.SHL: np.left_shift,
    Prim.SHR: np.right_shift,
    Prim.GCD: np.gcd,
    Prim.LCM: np.lcm,
    Prim.AND: np.logical_and,
    Prim.OR: np.logical_or,
    Prim.XOR: np.logical_xor,
    Prim.NOT: np.logical_not,
    Prim.CONJ: np.conjugate,
    Prim.REAL: np.real,
    Prim.IMAG: np.imag,
    Prim.SELECT: np.where,
}


def compute(op: Elementwise, operands: Sequence[Value]) -> Value:
    """The value of an elementwise op.

    A single primitive takes the operands as they are, since NumPy converts them by the same
    rule; a composite expression is computed wholly in the op's own dtype.
    """
    expr = op.scalar
    if any(is_bfloat16(x.dtype) for x in operands):
        return _compute_rounding(op, operands)
    if isinstance(expr, PrimCall) and all(isinstance(a, Arg) for a in expr.args):
        return np.asarray(evaluate(expr, operands))
    rule = op.info.dtype
    loop = rule.computes_in(op.info.name, [x.dtype for x in operands])
    converted = [x if i < rule.ignores else cast(x, loop) for i, x in enumerate(operands)]
    return np.asarray(evaluate(expr, converted))


def _compute_rounding(op: Elementwise, operands: Sequence[Value]) -> Value:
    """The value of an op with operands of bfloat16: each primitive in float32, and rounded."""
    rule = op.info.dtype
    loop = rule.computes_in(op.info.name, [x.dtype for x in operands])
    if not is_bfloat16(loop):
        return compute(op, [widen(x) for x in operands])
    converted = [x if i < rule.ignores else cast(x, loop) for i, x in enumerate(operands)]
    return np.asarray(_round_each(op.scalar, converted))


def _round_each(expr: Expr, operands: Sequence[Value]) -> Any:
    """Value of a scalar expression, whose every primitive is rounded to bfloat16."""
    match expr:
        case Arg(position):
            return operands[position]
        case Const(value):
            return float(bfloat16().type(value)) if isinstance(value, float) else value
        case PrimCall(prim, args):
            given = [_round_each(a, operands) for a in args]
            if prim is Prim.NEXTAFTER:
                return np.nextafter(*given)
            made = SPELLING[prim](*[widen(x) if hasattr(x, "dtype") else x for x in given])
            return round_to_bfloat16(made) if made.dtype == FLOAT32 else made


def evaluate(expr: Expr, operands: Sequence[Value]) -> Any:
    """Value of a scalar expression, applied to whole arrays."""
    match expr:
        case Arg(position):
            return operands[position]
        case Const(value):
            return value
        case PrimCall(prim, args):
            return SPELLING[prim](*(evaluate(a, operands) for a in args))
