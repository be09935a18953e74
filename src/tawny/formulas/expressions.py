"""Functions of SymPy as functions of arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import tawny.numpy as np
from tawny import special
from tawny.array import Array, lift, wrap
from tawny.errors import value_error
from tawny.node import make
from tawny.op import ELEMENTWISE

Function = Callable[..., Any]


def _fold_from_left(function: Callable[[Any, Any], Any]) -> Function:
    """A function of two operands, of any number of them from the left."""

    def fold(*operands: Any) -> Any:
        return functools.reduce(function, operands)

    return fold


def _add(*terms: Any) -> Any:
    """A sum; what is a number comes last, as one writes it."""
    arrays = [t for t in terms if isinstance(t, Array)]
    numbers = [t for t in terms if not isinstance(t, Array)]
    return sum([*arrays[1:], *numbers], start=arrays[0]) if arrays else sum(numbers)


def _multiply(x: Any, y: Any) -> Any:
    return -y if type(x) is int and x == -1 else x * y


def _log(x: Any, base: Any = None) -> Any:
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(base, Array) and not isinstance(exponent, Array):
        return base**exponent
    if not isinstance(base, Array) and base == math.e:
        return np.exp(exponent)
    if not isinstance(exponent, Array):
        if exponent == 0.5:
            return np.sqrt(base)
        if exponent == -0.5:
            return 1 / np.sqrt(base)
        if isinstance(exponent, int) and exponent < 0:
            return 1 / (base if exponent == -1 else base**-exponent)
    return base**exponent


def _piecewise(*pairs: Any) -> Any:
    """The value of the first condition that holds; NaN where none does."""
    *rest, (value, condition) = pairs
    result = value if condition is True else np.where(condition, value, math.nan)
    for earlier, holds in reversed(rest):
        result = np.where(holds, earlier, result)
    return result


def _step(x: Any, at_zero: Any = 0.5) -> Any:
    return np.heaviside(x, at_zero)


_ROOT_OF_PI: Final = math.sqrt(math.pi)

OF_ONE: Final[dict[str, Callable[[Any], Any]]] = {
    "exp": np.exp,
    "Abs": np.abs,
    "sign": np.sign,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "cot": lambda x: 1 / np.tan(x),
    "sec": lambda x: 1 / np.cos(x),
    "csc": lambda x: 1 / np.sin(x),
    "asin": np.asin,
    "acos": np.acos,
    "atan": np.atan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "coth": lambda x: 1 / np.tanh(x),
    "asinh": np.asinh,
    "acosh": np.acosh,
    "atanh": np.atanh,
    "sinc": lambda x: np.sinc(x / math.pi),
    "erf": np.erf,
    "erfc": np.erfc,
    "erfi": lambda x: 2 / _ROOT_OF_PI * np.exp(x * x) * np.dawsn(x),
    "gamma": special.gamma,
    "loggamma": special.gammaln,
    "digamma": special.digamma,
    "floor": np.floor,
    "ceiling": np.ceil,
    "re": np.real,
    "im": np.imag,
    "conjugate": np.conj,
    "arg": lambda x: np.atan2(np.imag(x), np.real(x)),
    "Not": np.logical_not,
}
"""SymPy's functions of one operand, by the names of their classes."""

OF_TWO: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Pow": _power,
    "atan2": np.atan2,
    "beta": special.beta,
    "polygamma": lambda n, x: special.polygamma(int(n), x),
    "Mod": np.remainder,
    "ExprCondPair": lambda value, condition: (value, condition),
    "Equality": np.equal,
    "Unequality": np.not_equal,
    "StrictLessThan": np.less,
    "LessThan": np.less_equal,
    "StrictGreaterThan": np.greater,
    "GreaterThan": np.greater_equal,
}
"""SymPy's functions of two operands."""

FUNCTIONS: Final[dict[str, Function]] = {
    **OF_ONE,
    **OF_TWO,
    "Add": _add,
    "Mul": _fold_from_left(_multiply),
    "log": _log,
    "Max": _fold_from_left(np.maximum),
    "Min": _fold_from_left(np.minimum),
    "And": _fold_from_left(np.logical_and),
    "Or": _fold_from_left(np.logical_or),
    "Xor": _fold_from_left(np.logical_xor),
    "Heaviside": _step,
    "Piecewise": _piecewise,
}
"""SymPy's functions that have counterparts, of any number of operands."""


OF_TRUTH: Final = frozenset({"And", "Or", "Xor", "Not", "Piecewise", "ExprCondPair"})
"""Functions that take truth values as such, beside relations; to others they are numbers."""


def _as_number(x: Any) -> Any:
    if isinstance(x, Array) and x.dtype.kind == "b":
        return np.astype(x, np.int64)
    return x


def check_function(expr: Any) -> None:
    """Refuse an expression of SymPy that has no counterpart."""
    name = type(expr).__name__
    if name not in FUNCTIONS and name not in ELEMENTWISE:
        known = sorted(n for n in FUNCTIONS if n[0].islower())
        raise value_error(
            "from_sympy",
            f"{name} has no counterpart here, in {str(expr)[:80]}; accepted: arithmetic, "
            f"{', '.join(known)}, Abs, Max, Min, Mod, Heaviside, Piecewise and relations",
        )


def apply_function(expr: Any, operands: Sequence[Any]) -> Any:
    """An expression of SymPy whose arguments are arrays or numbers."""
    name = type(expr).__name__
    if name in FUNCTIONS:
        of_truth = name in OF_TRUTH or expr.is_Relational
        return FUNCTIONS[name](*[x if of_truth else _as_number(x) for x in operands])
    nodes = tuple([lift(x, "from_sympy") for x in operands])
    return wrap(make(ELEMENTWISE[name], nodes))
