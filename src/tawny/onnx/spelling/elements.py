"""Elementwise ops in ONNX: their scalar expressions, each primitive said by its operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from tawny.dtype import BOOL, DType
from tawny.node import Node
from tawny.onnx.writer import GraphWriter, refuse
from tawny.op import Elementwise
from tawny.scalar import Arg, Const, Expr, Prim, PrimCall

Spelling = Callable[[GraphWriter, DType, Sequence[str]], str]
"""Adds the nodes of a primitive of some dtype to names."""


def _plain(op: str) -> Spelling:
    return lambda writer, _dtype, names: writer.add(op, *names)


def _negation(op: str) -> Spelling:
    return lambda writer, _dtype, names: writer.add("Not", writer.add(op, *names))


def _times(op: str, factor: float) -> Spelling:
    """A function, times a number."""
    return lambda w, dtype, names: w.add("Mul", w.add(op, *names), w.number(factor, dtype))


def _expm1(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    return w.add("Sub", w.add("Exp", *names), w.number(1, dtype))


def _log1p(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    return w.add("Log", w.add("Add", *names, w.number(1, dtype)))


def _exp2(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    return w.add("Pow", w.number(2, dtype), *names)


def _hypot(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    squares = [w.add("Mul", n, n) for n in names]
    return w.add("Sqrt", w.add("Add", *squares))


def _trunc(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    is_negative = w.add("Less", *names, w.number(0, dtype))
    return w.add("Where", is_negative, w.add("Ceil", *names), w.add("Floor", *names))


def _is_finite(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    return w.add("Not", w.add("Or", w.add("IsInf", *names), w.add("IsNaN", *names)))


def _signbit(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    """Below zero, or a zero whose reciprocal is."""
    zero = w.number(0, dtype)
    below = w.add("Less", *names, zero)
    return w.add("Or", below, w.add("Less", w.add("Reciprocal", *names), zero))


def _copysign(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    size = w.add("Abs", names[0])
    return w.add("Where", _signbit(w, dtype, names[1:]), w.add("Neg", size), size)


def _modulo(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    if dtype.kind in "iu":
        return w.add("Mod", *names)
    rest, zero = w.add("Mod", *names, fmod=1), w.number(0, dtype)
    signs = [w.add("Less", x, zero) for x in (rest, names[1])]
    other = w.add("And", w.add("Xor", *signs), w.add("Not", w.add("Equal", rest, zero)))
    return w.add("Where", other, w.add("Add", rest, names[1]), rest)


def _floor_divide(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    if dtype.kind == "u":
        return w.add("Div", *names)
    if dtype.kind == "i":
        return w.add("Div", w.add("Sub", names[0], w.add("Mod", *names)), names[1])
    return w.add("Floor", w.add("Div", *names))


def _cbrt(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    power = w.add("Pow", w.add("Abs", *names), w.number(1 / 3, dtype))
    return w.add("Mul", w.add("Sign", *names), power)


def _check_unsigned(node: Node, prim: Prim, dtype: DType) -> None:
    if prim in {Prim.SHL, Prim.SHR} and dtype.kind != "u":
        refuse(node, f": it shifts unsigned integers, and these are {dtype}")


def _shift_left(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    return w.add("BitShift", *names, direction="LEFT")


def _shift_right(w: GraphWriter, dtype: DType, names: Sequence[str]) -> str:
    return w.add("BitShift", *names, direction="RIGHT")


PLAIN: Final = {
    Prim.ADD: "Add",
    Prim.SUB: "Sub",
    Prim.MUL: "Mul",
    Prim.DIV: "Div",
    Prim.POW: "Pow",
    Prim.NEG: "Neg",
    Prim.POS: "Identity",
    Prim.ABS: "Abs",
    Prim.SIGN: "Sign",
    Prim.RECIPROCAL: "Reciprocal",
    Prim.SQRT: "Sqrt",
    Prim.EXP: "Exp",
    Prim.LOG: "Log",
    Prim.SIN: "Sin",
    Prim.COS: "Cos",
    Prim.TAN: "Tan",
    Prim.ASIN: "Asin",
    Prim.ACOS: "Acos",
    Prim.ATAN: "Atan",
    Prim.SINH: "Sinh",
    Prim.COSH: "Cosh",
    Prim.TANH: "Tanh",
    Prim.ASINH: "Asinh",
    Prim.ACOSH: "Acosh",
    Prim.ATANH: "Atanh",
    Prim.ERF: "Erf",
    Prim.FLOOR: "Floor",
    Prim.CEIL: "Ceil",
    Prim.RINT: "Round",
    Prim.ISNAN: "IsNaN",
    Prim.ISINF: "IsInf",
    Prim.EQ: "Equal",
    Prim.LT: "Less",
    Prim.LE: "LessOrEqual",
    Prim.GT: "Greater",
    Prim.GE: "GreaterOrEqual",
    Prim.MAX: "Max",
    Prim.MIN: "Min",
    Prim.BIT_AND: "BitwiseAnd",
    Prim.BIT_OR: "BitwiseOr",
    Prim.BIT_XOR: "BitwiseXor",
    Prim.BIT_NOT: "BitwiseNot",
    Prim.AND: "And",
    Prim.OR: "Or",
    Prim.XOR: "Xor",
    Prim.NOT: "Not",
    Prim.SELECT: "Where",
}
"""Primitives that are one operator."""

SPELLING: Final[dict[Prim, Spelling]] = {
    **{prim: _plain(op) for prim, op in PLAIN.items()},
    Prim.NE: _negation("Equal"),
    Prim.EXPM1: _expm1,
    Prim.LOG1P: _log1p,
    Prim.LOG2: _times("Log", 1 / math.log(2)),
    Prim.LOG10: _times("Log", 1 / math.log(10)),
    Prim.EXP2: _exp2,
    Prim.HYPOT: _hypot,
    Prim.TRUNC: _trunc,
    Prim.ISFINITE: _is_finite,
    Prim.SIGNBIT: _signbit,
    Prim.COPYSIGN: _copysign,
    Prim.MOD: _modulo,
    Prim.FMOD: lambda w, _dtype, names: w.add("Mod", *names, fmod=1),
    Prim.FLOORDIV: _floor_divide,
    Prim.CBRT: _cbrt,
    Prim.SHL: _shift_left,
    Prim.SHR: _shift_right,
}

LOGICAL: Final = frozenset({Prim.AND, Prim.OR, Prim.XOR, Prim.NOT})
COMPARISONS: Final = frozenset({Prim.EQ, Prim.NE, Prim.LT, Prim.LE, Prim.GT, Prim.GE})
TESTS: Final = COMPARISONS | LOGICAL | {Prim.ISNAN, Prim.ISINF, Prim.ISFINITE, Prim.SIGNBIT}
"""Primitives whose result is true or false."""

WHOLE: Final = {"relu": "Relu", "sigmoid": "Sigmoid", "softplus": "Softplus"}
"""Elementwise ops that are one operator, though their expressions are longer."""

INTEGERS_AS_THEY_ARE: Final = frozenset({Prim.CEIL, Prim.FLOOR, Prim.RINT, Prim.TRUNC})


def spell_elementwise(writer: GraphWriter, node: Node, names: Sequence[str]) -> str:
    """The nodes of an elementwise op."""
    op = cast("Elementwise", node.op)
    rule = op.info.dtype
    given = [i.dtype for i in node.inputs]
    loop = rule.computes_in(op.info.name, given)
    if loop.kind == "c" or node.dtype.kind == "c":
        refuse(node, ", which has no arithmetic of complex numbers")
    speller = _Speller(writer, node, loop)
    leaves = [
        (name, dtype) if i < rule.ignores else (writer.cast(name, dtype, loop), loop)
        for i, (name, dtype) in enumerate(zip(names, given, strict=True))
    ]
    whole = WHOLE.get(op.info.name)
    if whole is not None:
        made = writer.add(whole, leaves[0][0]), loop
    else:
        made = speller.spell(op.scalar, leaves)
    return writer.cast(*made, node.dtype)


class _Speller:
    """Says a scalar expression whose numbers are of one dtype."""

    def __init__(self, writer: GraphWriter, node: Node, loop: DType) -> None:
        self.writer, self.node, self.loop = writer, node, loop

    def spell(self, expr: Expr, leaves: Sequence[tuple[str, DType]]) -> tuple[str, DType]:
        """The name of an expression's value, and its dtype."""
        match expr:
            case Arg(position):
                return leaves[position]
            case Const(value):
                return self.writer.number(value, self.loop), self.loop
            case PrimCall(prim, args):
                return self.apply(prim, [self.spell(a, leaves) for a in args])

    def apply(self, prim: Prim, args: Sequence[tuple[str, DType]]) -> tuple[str, DType]:
        """A primitive applied to values."""
        writer = self.writer
        spelling = SPELLING.get(prim)
        if spelling is None:
            refuse(self.node, f": it has no {prim.name.lower()}")
        _check_unsigned(self.node, prim, self.loop)
        if prim is Prim.SELECT:
            condition = writer.as_truth(*args[0])
            return spelling(writer, self.loop, [condition, *self.common(args[1:])]), self.loop
        if prim in LOGICAL:
            return spelling(writer, BOOL, [writer.as_truth(*a) for a in args]), BOOL
        if self.loop == BOOL:
            return self.apply_to_truth(prim, args)
        names = self.common(args)
        if self.loop.kind in "iu" and prim in INTEGERS_AS_THEY_ARE:
            return names[0], self.loop
        made = spelling(writer, self.loop, names)
        return made, BOOL if prim in TESTS else self.loop

    def common(self, args: Sequence[tuple[str, DType]]) -> list[str]:
        """Values in the dtype of the expression."""
        return [self.writer.cast(name, dtype, self.loop) for name, dtype in args]

    def apply_to_truth(self, prim: Prim, args: Sequence[tuple[str, Any]]) -> tuple[str, DType]:
        """Arithmetic of booleans, as NumPy has it."""
        spelled = {
            Prim.MUL: "And",
            Prim.MIN: "And",
            Prim.BIT_AND: "And",
            Prim.ADD: "Or",
            Prim.MAX: "Or",
            Prim.BIT_OR: "Or",
            Prim.NE: "Xor",
            Prim.BIT_XOR: "Xor",
            Prim.EQ: "Equal",
            Prim.BIT_NOT: "Not",
        }
        if prim not in spelled:
            refuse(self.node, f": it has no {prim.name.lower()} of booleans")
        return self.writer.add(spelled[prim], *(name for name, _ in args)), BOOL
