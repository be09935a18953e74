"""Ops on SymPy's expressions: elementwise ones by their own, others on arrays of expressions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tawny.dtype import kind_of
from tawny.engine.reference import KERNELS
from tawny.errors import value_error
from tawny.node import Node
from tawny.op import Elementwise, Op
from tawny.ops.creation import Arange, Cast, Eye
from tawny.ops.cumulative import CumulativeProd, CumulativeSum
from tawny.ops.diagonal import Diagonal
from tawny.ops.differentiation import Again, StopGradient
from tawny.ops.einsum import Einsum
from tawny.ops.indexing import Gather, Pad, Scatter, Slice
from tawny.ops.joining import Concat, Repeat, Tile
from tawny.ops.linalg import Matmul
from tawny.ops.movement import BroadcastTo, Copy, Flip, Reshape, Roll, Transpose
from tawny.ops.reduction import (
    AllTrue,
    AnyTrue,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Reduction,
    Sum,
    Var,
)
from tawny.ops.systems import Det, Inv, Solve
from tawny.scalar import Arg, Const, Expr, Prim, PrimCall
from tawny.shape import size

SymPy = Any
"""The module, which is imported when it is used."""

Expression = Any

Build = Callable[..., Expression]
"""From SymPy and expressions to an expression."""

Unary = Callable[[SymPy, Expression], Expression]
Binary = Callable[[SymPy, Expression, Expression], Expression]


def to_number(sympy: SymPy, value: Any) -> Expression:
    """A number of Python or NumPy, as a fraction where it is one by a small power of two."""
    plain: Any = value.item() if hasattr(value, "item") else value
    if isinstance(plain, bool):
        return sympy.true if plain else sympy.false
    if isinstance(plain, int):
        return sympy.Integer(plain)
    if isinstance(plain, complex):
        return to_number(sympy, plain.real) + sympy.I * to_number(sympy, plain.imag)
    if math.isnan(plain):
        return sympy.nan
    if math.isinf(plain):
        return sympy.oo if plain > 0 else -sympy.oo
    above, below = plain.as_integer_ratio()
    if below <= _LARGEST_DENOMINATOR and abs(above) < 2**53:
        return sympy.Rational(above, below)
    return sympy.Float(plain)


_LARGEST_DENOMINATOR: Final = 1024


# ----------------------------------------------------------------- one element


def _condition(sympy: SymPy, x: Expression) -> Expression:
    """An expression as a condition; numbers hold where they are not zero."""
    is_condition = isinstance(x, (sympy.logic.boolalg.Boolean, bool))
    return x if is_condition and not x.is_Symbol else sympy.Ne(x, 0)


def _as_number(sympy: SymPy, x: Expression) -> Expression:
    """A condition as a number."""
    if isinstance(x, sympy.logic.boolalg.Boolean) and not x.is_Symbol:
        return sympy.Piecewise((1, x), (0, True))
    return x


def _select(sympy: SymPy, condition: Expression, yes: Expression, no: Expression) -> Expression:
    return sympy.Piecewise((yes, _condition(sympy, condition)), (no, True))


def _by_name(name: str) -> Build:
    """A function of SymPy."""

    def build(sympy: SymPy, *x: Expression) -> Expression:
        return getattr(sympy, name)(*x)

    return build


def _of_conditions(name: str) -> Build:
    """A function of SymPy whose operands are conditions."""

    def build(sympy: SymPy, *x: Expression) -> Expression:
        return getattr(sympy, name)(*[_condition(sympy, y) for y in x])

    return build


def _trunc(sympy: SymPy, x: Expression) -> Expression:
    return sympy.sign(x) * sympy.floor(sympy.Abs(x))


_SAME_NAME: Final = (
    *(Prim.SIN, Prim.COS, Prim.TAN, Prim.ASIN, Prim.ACOS, Prim.ATAN, Prim.ATAN2),
    *(Prim.SINH, Prim.COSH, Prim.TANH, Prim.ASINH, Prim.ACOSH, Prim.ATANH),
    *(Prim.SIGN, Prim.SQRT, Prim.EXP, Prim.LOG, Prim.ERF, Prim.ERFC, Prim.FLOOR),
)
"""Primitives that SymPy calls by the same name."""

_UNARY: Final[dict[Prim, Unary]] = {
    Prim.NEG: lambda sympy, x: -x,
    Prim.POS: lambda sympy, x: x,
    Prim.RECIPROCAL: lambda sympy, x: 1 / x,
    Prim.CBRT: lambda sympy, x: sympy.sign(x) * sympy.cbrt(sympy.Abs(x)),
    Prim.EXP2: lambda sympy, x: sympy.Integer(2) ** x,
    Prim.EXPM1: lambda sympy, x: sympy.exp(x) - 1,
    Prim.LOG2: lambda sympy, x: sympy.log(x) / sympy.log(2),
    Prim.LOG10: lambda sympy, x: sympy.log(x) / sympy.log(10),
    Prim.LOG1P: lambda sympy, x: sympy.log(1 + x),
    Prim.DAWSN: lambda sympy, x: sympy.sqrt(sympy.pi) / 2 * sympy.exp(-(x**2)) * sympy.erfi(x),
    Prim.TRUNC: _trunc,
}

_BINARY: Final[dict[Prim, Binary]] = {
    Prim.ADD: lambda sympy, x, y: x + y,
    Prim.SUB: lambda sympy, x, y: x - y,
    Prim.MUL: lambda sympy, x, y: x * y,
    Prim.DIV: lambda sympy, x, y: x / y,
    Prim.FLOORDIV: lambda sympy, x, y: sympy.floor(x / y),
    Prim.FMOD: lambda sympy, x, y: x - y * _trunc(sympy, x / y),
    Prim.POW: lambda sympy, x, y: x**y,
    Prim.HYPOT: lambda sympy, x, y: sympy.sqrt(x**2 + y**2),
}

PRIMITIVES: Final[dict[Prim, Build]] = {
    **{prim: _by_name(prim.name.lower()) for prim in _SAME_NAME},
    **_UNARY,
    **_BINARY,
    Prim.ABS: _by_name("Abs"),
    Prim.CEIL: _by_name("ceiling"),
    Prim.MOD: _by_name("Mod"),
    Prim.EQ: _by_name("Eq"),
    Prim.NE: _by_name("Ne"),
    Prim.LT: _by_name("Lt"),
    Prim.LE: _by_name("Le"),
    Prim.GT: _by_name("Gt"),
    Prim.GE: _by_name("Ge"),
    Prim.MAX: _by_name("Max"),
    Prim.MIN: _by_name("Min"),
    Prim.FMAX: _by_name("Max"),
    Prim.FMIN: _by_name("Min"),
    Prim.AND: _of_conditions("And"),
    Prim.OR: _of_conditions("Or"),
    Prim.XOR: _of_conditions("Xor"),
    Prim.NOT: _of_conditions("Not"),
    Prim.CONJ: _by_name("conjugate"),
    Prim.REAL: _by_name("re"),
    Prim.IMAG: _by_name("im"),
    Prim.SELECT: _select,
}
"""Primitives that SymPy has; ops with others are functions that it knows nothing of."""

_WHOLE_UNARY: Final[dict[str, Unary]] = {
    "sigmoid": lambda sympy, x: 1 / (1 + sympy.exp(-x)),
    "softplus": lambda sympy, x: sympy.log(1 + sympy.exp(x)),
    "deg2rad": lambda sympy, x: x * sympy.pi / 180,
    "rad2deg": lambda sympy, x: x * 180 / sympy.pi,
}

_WHOLE_BINARY: Final[dict[str, Binary]] = {
    "logaddexp": lambda sympy, x, y: sympy.log(sympy.exp(x) + sympy.exp(y)),
    "logaddexp2": lambda sympy, x, y: sympy.log(2**x + 2**y) / sympy.log(2),
    "quiet_multiply": lambda sympy, x, y: x * y,
    "quiet_divide": lambda sympy, x, y: x / y,
}

WHOLE: Final[dict[str, Build]] = {
    **_WHOLE_UNARY,
    **_WHOLE_BINARY,
    "heaviside": _by_name("Heaviside"),
}
"""Ops that are computed in more steps than they mean."""

_OF_TRUTH: Final = {
    "bitwise_and": Prim.AND,
    "bitwise_or": Prim.OR,
    "bitwise_xor": Prim.XOR,
    "bitwise_invert": Prim.NOT,
    "add": Prim.OR,
    "multiply": Prim.AND,
}
"""What ops on truth values are."""

_TAKES_CONDITIONS: Final = frozenset({Prim.AND, Prim.OR, Prim.XOR, Prim.NOT, Prim.SELECT})


def scalar_expression(sympy: SymPy, node: Node, operands: Sequence[Expression]) -> Expression:
    """An elementwise op, or a conversion, of expressions."""
    op = node.op
    if isinstance(op, Cast):
        return _cast(sympy, node, operands[0])
    assert isinstance(op, Elementwise)
    name = op.info.name
    if name in WHOLE:
        return WHOLE[name](sympy, *[_as_number(sympy, x) for x in operands])
    if name in _OF_TRUTH and node.dtype.kind == "b":
        return PRIMITIVES[_OF_TRUTH[name]](sympy, *operands)
    if not _is_known(op.scalar):
        return sympy.Function(name)(*[_as_number(sympy, x) for x in operands])
    return _evaluate(sympy, op.scalar, operands)


def _is_known(expr: Expr) -> bool:
    """Whether SymPy has all primitives of an expression."""
    match expr:
        case PrimCall(prim, args):
            return prim in PRIMITIVES and all(map(_is_known, args))
        case Arg() | Const():
            return True


def _evaluate(sympy: SymPy, expr: Expr, operands: Sequence[Expression]) -> Expression:
    match expr:
        case Arg(position):
            return operands[position]
        case Const(value):
            return to_number(sympy, value)
        case PrimCall(prim, args):
            values = [_evaluate(sympy, a, operands) for a in args]
            if prim not in _TAKES_CONDITIONS:
                values = [_as_number(sympy, x) for x in values]
            return PRIMITIVES[prim](sympy, *values)


def _cast(sympy: SymPy, node: Node, x: Expression) -> Expression:
    """A conversion; of a number to an integer it leaves out the fraction."""
    given = kind_of(node.inputs[0].dtype)
    if node.dtype.kind == "b":
        return _condition(sympy, x)
    if given == "b":
        return sympy.Piecewise((1, _condition(sympy, x)), (0, True))
    if node.dtype.kind in "iu" and given in "fc":
        return _trunc(sympy, sympy.re(x) if given == "c" else x)
    return sympy.re(x) if given == "c" and kind_of(node.dtype) == "f" else x


# ------------------------------------------------------------ arrays of elements

MOVES: Final = frozenset(
    {
        *(Reshape, BroadcastTo, Transpose, Flip, Roll, Copy, Slice, Pad, Diagonal),
        *(Concat, Tile, Repeat, StopGradient, Again, Gather),
    }
)
"""Ops whose elements are elements of their operands."""

Fold = Callable[[SymPy, Sequence[Expression], Node], Expression]


def _mean(sympy: SymPy, x: Sequence[Expression]) -> Expression:
    return sympy.Add(*x) / len(x)


def _variance(sympy: SymPy, x: Sequence[Expression], node: Node) -> Expression:
    assert isinstance(node.op, Var)
    mean = _mean(sympy, x)
    above = sympy.Add(*[(y - mean) ** 2 for y in x])
    return above / to_number(sympy, len(x) - node.op.correction)


FOLDS: Final[Mapping[type[Op], Fold]] = {
    Sum: lambda sympy, x, node: sympy.Add(*x),
    Prod: lambda sympy, x, node: sympy.Mul(*x),
    Mean: lambda sympy, x, node: _mean(sympy, x),
    Var: _variance,
    Max: lambda sympy, x, node: sympy.Max(*x),
    Min: lambda sympy, x, node: sympy.Min(*x),
    AllTrue: lambda sympy, x, node: sympy.And(*[_condition(sympy, y) for y in x]),
    AnyTrue: lambda sympy, x, node: sympy.Or(*[_condition(sympy, y) for y in x]),
    LogSumExp: lambda sympy, x, node: sympy.log(sympy.Add(*[sympy.exp(y) for y in x])),
}
"""Reductions of a list of expressions."""

_PLAIN: Final = frozenset(
    {Matmul, Einsum, CumulativeSum, CumulativeProd, Inv, Det, Solve, Eye, Arange, Scatter, Cast}
)


def is_computable(node: Node) -> bool:
    """Whether arrays of expressions can be given to an op."""
    op = node.op
    if isinstance(op, Scatter):
        return not op.axes and op.mode in ("set", "add")
    return isinstance(op, Elementwise) or type(op) in _PLAIN | MOVES | FOLDS.keys()


def compute(sympy: SymPy, node: Node, operands: Sequence[Any]) -> Any:
    """What an op makes of arrays of expressions: an array of them."""
    op = node.op
    if isinstance(op, (Elementwise, Cast)):
        return _elementwise(sympy, node, operands)
    if isinstance(op, Reduction):
        return _fold(sympy, node, op, operands[0])
    if isinstance(op, Scatter):
        return _scatter(op, operands[0], operands[1])
    if type(op) in MOVES:
        return _move_elements(sympy, node, operands)
    return _array(_plain(sympy, node, operands)).reshape(node.shape)


def _array(value: Any) -> Any:
    return np.asarray(value, object)


def _elementwise(sympy: SymPy, node: Node, operands: Sequence[Any]) -> Any:
    wide = np.broadcast_arrays(*operands)
    out = np.empty(size(node.shape), object)
    for i, elements in enumerate(zip(*[w.reshape(-1) for w in wide], strict=True)):
        out[i] = scalar_expression(sympy, node, elements)
    return out.reshape(node.shape)


def _fold(sympy: SymPy, node: Node, op: Reduction, x: Any) -> Any:
    kept = [a for a in range(x.ndim) if a not in op.axes]
    rows = np.transpose(x, (*kept, *op.axes)).reshape(-1, size(tuple(x.shape[a] for a in op.axes)))
    if isinstance(op, Sum) and node.dtype.kind != "b":
        rows = np.vectorize(functools.partial(_as_number, sympy), otypes=[object])(rows)
    out = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        out[i] = FOLDS[type(op)](sympy, list(row), node)
    return out.reshape(node.shape)


def _scatter(op: Scatter, x: Any, value: Any) -> Any:
    """A part of an array of expressions put in or added to."""
    out = x.copy()
    key = tuple(np.arange(length) * step + start for start, length, step in op.ranges)
    places = np.ix_(*key)
    out[places] = value if op.mode == "set" else out[places] + value
    return out


def _move_elements(sympy: SymPy, node: Node, operands: Sequence[Any]) -> Any:
    """Elements where the op moves their numbers."""
    numbered: list[Any] = []
    elements: list[Any] = []
    for i, x in enumerate(operands):
        if isinstance(node.op, Gather) and i:
            numbered.append(_indices(x))
            continue
        places = range(len(elements), len(elements) + x.size)
        numbered.append(np.asarray(places, np.int64).reshape(x.shape))
        elements.extend(x.reshape(-1))
    kernel: Callable[..., Any] = KERNELS[type(node.op)]
    taken: list[int] = np.asarray(kernel(node.op, *numbered)).reshape(-1).tolist()
    out = np.empty(len(taken), object)
    for i, place in enumerate(taken):
        out[i] = elements[place]
    return out.reshape(node.shape)


def _indices(x: Any) -> Any:
    """Indices that are numbers."""
    places: list[Any] = list(x.reshape(-1))
    if not all(place.is_Integer for place in places):
        raise value_error("to_sympy", "an index depends on a variable; SymPy has no such elements")
    return np.asarray([int(place) for place in places], np.int64).reshape(x.shape)


def _plain(sympy: SymPy, node: Node, operands: Sequence[Any]) -> Any:
    """Products, running sums, grids, and what SymPy does with a matrix."""
    op = node.op
    if isinstance(op, Matmul):
        return np.matmul(*operands)
    if isinstance(op, Einsum):
        return np.einsum(op.subscripts, *operands, optimize=False)
    if isinstance(op, (CumulativeSum, CumulativeProd)):
        return _running(sympy, op, operands[0])
    if isinstance(op, Eye):
        return [
            to_number(sympy, int(x)) for x in np.eye(op.rows, op.columns, op.offset).reshape(-1)
        ]
    if isinstance(op, Arange):
        return [to_number(sympy, op.start + i * op.step) for i in range(op.length)]
    return _of_matrix(sympy, node, operands)


def _running(sympy: SymPy, op: CumulativeSum | CumulativeProd, x: Any) -> Any:
    is_sum = isinstance(op, CumulativeSum)
    running = (np.cumsum if is_sum else np.cumprod)(x, axis=op.axis, dtype=object)
    if not op.include_initial:
        return running
    shape = tuple(1 if a == op.axis else n for a, n in enumerate(x.shape))
    first = np.full(shape, sympy.Integer(0 if is_sum else 1), object)
    return np.concatenate([first, running], axis=op.axis)


def _of_matrix(sympy: SymPy, node: Node, operands: Sequence[Any]) -> Any:
    """Inverses, determinants and solutions of one matrix."""
    if operands[0].ndim != 2:
        raise value_error("to_sympy", f"{node!r} is of a stack of matrices; take one matrix")
    matrix = sympy.Matrix(*operands[0].shape, list(operands[0].reshape(-1)))
    if isinstance(node.op, Det):
        return [matrix.det(method="berkowitz")]
    inverse = np.array(matrix.inv(method="ADJ").tolist(), object)
    return inverse if isinstance(node.op, Inv) else inverse @ operands[1]
