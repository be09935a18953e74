"""Nodes with the operators of scalars, so that derivatives can be written as formulas."""

from __future__ import annotations

from typing import Final, final

from tawny import dtype as dt
from tawny.node import Constant, Node, make, scalar
from tawny.op import ELEMENTWISE, Elementwise, Gradient
from tawny.ops import elementwise as elementwise
from tawny.scalar import Arg, Const, Expr, Prim, PrimCall


@final
class Term:
    """A node under construction; Python numbers beside it take its dtype."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def number(self) -> float | None:
        """The value of a constant real number; None for all others."""
        value = self.node.value
        if value is None or value.shape or not isinstance(self.node.op, Constant):
            return None
        return None if value.dtype.kind == "c" else float(value)

    def __add__(self, other: Term | float) -> Term:
        return apply(Prim.ADD, self, other)

    def __radd__(self, other: float) -> Term:
        return apply(Prim.ADD, other, self)

    def __sub__(self, other: Term | float) -> Term:
        return apply(Prim.SUB, self, other)

    def __rsub__(self, other: float) -> Term:
        return apply(Prim.SUB, other, self)

    def __mul__(self, other: Term | float) -> Term:
        return apply(Prim.MUL, self, other)

    def __truediv__(self, other: Term | float) -> Term:
        return apply(Prim.DIV, self, other)

    def __neg__(self) -> Term:
        return apply(Prim.NEG, self)

    def __lt__(self, other: Term | float) -> Term:
        return apply(Prim.LT, self, other)

    def __gt__(self, other: Term | float) -> Term:
        return apply(Prim.GT, self, other)


def _table() -> dict[Prim, Elementwise]:
    """For each primitive the op that computes it and nothing else, and has its derivative."""
    found: dict[Prim, Elementwise] = {}
    for op in ELEMENTWISE.values():
        expr = op.scalar
        if not isinstance(expr, PrimCall) or not isinstance(op.info.gradient, Gradient):
            continue
        if expr.args == tuple(map(Arg, range(len(expr.args)))):
            found.setdefault(expr.prim, op)
    return found


OPS: Final = _table()


def apply(what: Prim | Elementwise, *args: Term | float) -> Term:
    """A primitive or elementwise op of terms and numbers."""
    op = OPS[what] if isinstance(what, Prim) else what
    nodes = [a.node if isinstance(a, Term) else None for a in args]
    if None in nodes:
        strong = [n.dtype for n in nodes[op.info.dtype.ignores :] if n is not None]
        if not strong:
            strong = [n.dtype for n in nodes if n is not None]
        beside = dt.promote(*strong)
        for i, a in enumerate(args):
            if not isinstance(a, Term):
                nodes[i] = scalar(a, dt.weak_dtype(type(a), beside), op.info.name)
    return Term(make(op, tuple([n for n in nodes if n is not None])))


def choose(condition: Term, yes: Term | float, no: Term | float) -> Term:
    """`yes` where `condition` holds, else `no`; one of them is a term."""
    return apply(Prim.SELECT, condition, yes, no)


def evaluate(expr: Expr, operands: tuple[Node, ...]) -> Term | float:
    """A scalar expression of nodes."""
    match expr:
        case Arg(position):
            return Term(operands[position])
        case Const(value):
            return value
        case PrimCall(prim, args):
            return apply(prim, *[evaluate(a, operands) for a in args])
