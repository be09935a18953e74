"""Graphs to SymPy's expressions and back: both are walked, neither is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tawny.array import Array, lift, wrap
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import is_weak, kind_of
from tawny.errors import type_error, value_error
from tawny.formulas.elements import compute, is_computable, scalar_expression, to_number
from tawny.formulas.expressions import apply_function, check_function
from tawny.node import Constant, Node, Variable, toposort, variable_names
from tawny.op import Elementwise
from tawny.ops.creation import Cast
from tawny.ops.differentiation import remove_markers
from tawny.ops.joining import stack
from tawny.ops.movement import BroadcastTo, reshape
from tawny.shape import Shape, size

MOST_OPERATIONS: Final = 2000
"""Operations of the largest expression, shared parts counted as often as they are read."""

MOST_ELEMENTS: Final = 64
"""Elements of the largest array in a graph of matrices."""


def import_sympy(op: str) -> Any:
    """SymPy, which is an extra."""
    try:
        return importlib.import_module("sympy")
    except ImportError:
        raise ImportError(f"{op} needs SymPy: pip install 'tawny[sympy]'") from None


# ---------------------------------------------------------------------- to SymPy


@explain_bad_calls
def to_sympy(array: Any) -> Any:
    """The expression of an array in SymPy.

    - `array`: a lazy array.  Where all its ops are elementwise and its variables of one shape, the
      expression is that of one element, in a symbol for each variable.  Else arrays are written
      element by element, `x[0, 1]` for a variable `x`, and may have 64 elements at most.

    Gives an expression, a matrix for an array of two axes, and an N-dimensional array of SymPy
    for others.  Raises ValueError where the expression would have more than 2000 operations, since
    SymPy writes shared parts again wherever they are read, or where an op has no counterpart.
    Symbols are real, integer, complex or of truth values as the variables are.

        x = tw.var("x")
        tw.to_sympy(tw.gradients(np.exp(-x**2), [x])[0])   # -> -2*x*exp(-x**2)
    """
    sympy = import_sympy("to_sympy")
    (result,) = remove_markers([lift(array, "to_sympy")])
    order = toposort([result])
    _check_length(order)
    variables = [n for n in order if isinstance(n.op, Variable)]
    names = variable_names(variables)
    shapes = {n.shape for n in variables if n.shape}
    if len(shapes) <= 1 and all(_is_of_one_element(n, shapes) for n in order):
        return _element_of(sympy, order, names)
    return _by_elements(sympy, order, names)


def _check_length(order: Sequence[Node]) -> None:
    """Refuse what SymPy would expand to too much."""
    lengths: dict[Node, int] = {}
    for node in order:
        lengths[node] = sum([lengths[x] for x in node.inputs]) + bool(node.inputs)
        if lengths[node] > MOST_OPERATIONS:
            raise value_error(
                "to_sympy",
                f"the expression has more than {MOST_OPERATIONS} operations, shared parts counted "
                "as often as they are read, as SymPy writes them; tw.infix(array) names them",
            )


def _is_of_one_element(node: Node, shapes: set[Shape]) -> bool:
    """Whether what a node does can be said of one element."""
    if isinstance(node.op, Constant):
        return size(node.shape) == 1 and node.value is not None
    if isinstance(node.op, BroadcastTo):
        return size(node.inputs[0].shape) == 1
    if isinstance(node.op, (Variable, Elementwise, Cast)):
        return not node.shape or not shapes or node.shape in shapes
    return False


def _element_of(sympy: Any, order: Sequence[Node], names: Mapping[Node, str]) -> Any:
    """The expression of one element."""
    made: dict[Node, Any] = {}
    for node in order:
        op = node.op
        if isinstance(op, Variable):
            made[node] = sympy.Symbol(names[node], **_assumptions(node))
        elif isinstance(op, Constant):
            assert node.value is not None
            made[node] = to_number(sympy, node.value.reshape(-1)[0])
        elif isinstance(op, BroadcastTo):
            made[node] = made[node.inputs[0]]
        else:
            made[node] = scalar_expression(sympy, node, [made[x] for x in node.inputs])
    return made[order[-1]]


def _by_elements(sympy: Any, order: Sequence[Node], names: Mapping[Node, str]) -> Any:
    """Every array as an array of expressions."""
    made: dict[Node, Any] = {}
    for node in order:
        if size(node.shape) > MOST_ELEMENTS:
            raise value_error(
                "to_sympy",
                f"an array of shape {node.shape} has {size(node.shape)} elements; an expression is "
                f"written for each, up to {MOST_ELEMENTS}: take smaller arrays, or tw.infix(array)",
            )
        if isinstance(node.op, Variable):
            made[node] = _symbols(sympy, names[node], node)
        elif isinstance(node.op, Constant):
            assert node.value is not None
            numbers = [to_number(sympy, x) for x in node.value.reshape(-1)]
            made[node] = _object_array(numbers, node.shape)
        elif is_computable(node):
            made[node] = compute(sympy, node, [made[x] for x in node.inputs])
        else:
            raise value_error(
                "to_sympy", f"{node!r} has no counterpart in SymPy; tw.infix(array) writes it"
            )
    result = made[order[-1]]
    if not result.shape:
        return result[()]
    if result.ndim == 2:
        return sympy.ImmutableDenseMatrix(*result.shape, list(result.reshape(-1)))
    return sympy.ImmutableDenseNDimArray(list(result.reshape(-1)), result.shape)


def _assumptions(node: Node) -> dict[str, bool]:
    """What SymPy may assume of a variable."""
    match kind_of(node.dtype):
        case "f":
            return {"real": True}
        case "i" | "u":
            return {"integer": True}
        case _:
            return {}


def _symbols(sympy: Any, name: str, node: Node) -> Any:
    """The elements of a variable."""
    if not node.shape:
        return _object_array([sympy.Symbol(name, **_assumptions(node))], ())
    base = sympy.IndexedBase(name, shape=node.shape, **_assumptions(node))
    return _object_array([base[place] for place in np.ndindex(node.shape)], node.shape)


def _object_array(values: Sequence[Any], shape: Shape) -> Any:
    """An array of objects."""
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


# -------------------------------------------------------------------- from SymPy


@explain_bad_calls
def from_sympy(expr: Any, values: Mapping[Any, Any]) -> Array:
    """The array that an expression of SymPy stands for.

    - `expr`: an expression, or a matrix or array of expressions.
    - `values`: the array, or number, for each symbol, given as a symbol or by its name, and for
      each `IndexedBase`.

    Gives an array; operations are element by element, as those of `tawny.numpy`.  Raises ValueError
    for a symbol that has no value, and for what has no counterpart.

        import sympy
        s = sympy.Symbol("s")
        slope = tw.from_sympy(sympy.diff(sympy.sin(s) ** 2, s), {s: numpy.zeros(3)})
        slope.numpy().tolist()                        # -> [0.0, 0.0, 0.0]
    """
    sympy = import_sympy("from_sympy")
    known = {str(name): _as_operand(x) for name, x in values.items()}
    if isinstance(expr, (sympy.MatrixBase, sympy.NDimArray)):
        shape = tuple([int(n) for n in expr.shape])
        elements = [_convert(sympy, e, known) for e in sympy.flatten(expr)]
        return reshape(stack(elements), shape)
    if not isinstance(expr, sympy.Basic):
        raise type_error(
            "from_sympy", f"expr is {type(expr).__name__}; accepted: an expression of SymPy"
        )
    return wrap(lift(_convert(sympy, expr, known), "from_sympy"))


def _as_operand(value: Any) -> Any:
    """An array; a Python number stays one, and takes the dtype beside it."""
    return value if is_weak(value) else wrap(lift(value, "from_sympy"))


def _convert(sympy: Any, expr: Any, known: Mapping[str, Any]) -> Any:
    """An expression as an array, or a Python number."""
    made: dict[Any, Any] = {}
    pending: list[tuple[Any, bool]] = [(expr, False)]
    while pending:
        found, done = pending.pop()
        if found in made:
            continue
        if done:
            made[found] = apply_function(found, [made[x] for x in found.args])
        elif (leaf := _leaf(sympy, found, known)) is not None:
            made[found] = leaf
        else:
            check_function(found)
            pending.append((found, True))
            pending.extend((x, False) for x in found.args)
    return made[expr]


def _leaf(sympy: Any, expr: Any, known: Mapping[str, Any]) -> Any:
    """The value of an expression that has no parts to look at; None of others."""
    if isinstance(expr, sympy.Indexed):
        whole = known.get(str(expr.base))
        if whole is None:
            raise _without_value(str(expr.base), known)
        return whole[tuple(int(i) for i in expr.indices)]
    if expr.is_Symbol:
        value = known.get(expr.name)
        if value is None:
            raise _without_value(expr.name, known)
        return value
    if isinstance(expr, sympy.logic.boolalg.BooleanAtom):
        return bool(expr)
    if expr.args:
        return None
    if isinstance(expr, sympy.Number) or expr.is_number:
        return _number(sympy, expr)
    raise value_error("from_sympy", f"{type(expr).__name__} {expr} has no counterpart here")


def _without_value(name: str, known: Mapping[str, Any]) -> ValueError:
    given = ", ".join(map(repr, known)) or "none"
    return value_error("from_sympy", f"symbol {name!r} has no value; values came for {given}")


def _number(sympy: Any, expr: Any) -> Any:
    """A number of SymPy as one of Python."""
    if isinstance(expr, sympy.Integer):
        return int(expr)
    if expr is sympy.I:
        return 1j
    if expr is sympy.zoo:
        raise value_error("from_sympy", "complex infinity has no counterpart here")
    return float(expr)
