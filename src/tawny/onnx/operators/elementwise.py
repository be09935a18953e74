"""Operators that compute each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import kind_of
from tawny.onnx.call import NodeCall
from tawny.onnx.element_types import UnsupportedTypeError, element_dtype
from tawny.onnx.table import MICROSOFT, OPERATORS, one_operand, operator
from tawny.onnx.values import FlowValue

Binary = Callable[[Array, Array], Array]

UNARY: Final[dict[str, Callable[[Array], Array]]] = {
    "Abs": np.abs,
    "Acos": np.acos,
    "Acosh": np.acosh,
    "Asin": np.asin,
    "Asinh": np.asinh,
    "Atan": np.atan,
    "Atanh": np.atanh,
    "BitwiseNot": np.bitwise_invert,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Erf": np.erf,
    "Exp": np.exp,
    "Floor": np.floor,
    "IsNaN": np.isnan,
    "Log": np.log,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Reciprocal": np.reciprocal,
    "Relu": np.relu,
    "Round": np.rint,
    "Sigmoid": np.sigmoid,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Softplus": np.softplus,
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "Tanh": np.tanh,
}
OPERATORS.update({("", name): one_operand(function) for name, function in UNARY.items()})


# -------------------------------------------------------------------- binary


def divide(x: Array, y: Array) -> Array:
    """The quotient; of integers the part before the point, as in C."""
    if x.dtype.kind == "u":
        return np.floor_divide(x, y)
    if x.dtype.kind == "i":
        return np.floor_divide(x - np.fmod(x, y), y)
    return np.divide(x, y)


def power(x: Array, y: Array) -> Array:
    """The power, of the dtype of the base."""
    if kind_of(x.dtype) == "f" or (kind_of(y.dtype) in "iu" and y.dtype != x.dtype):
        y = y.astype(x.dtype)
    return np.pow(x, y).astype(x.dtype)


def operands_of(call: NodeCall) -> tuple[Array, Array]:
    """Two operands that broadcast, by the rules of the node's version."""
    call.count(2, 2)
    x, y = call.array(0), call.array(1)
    if call.opset < 7 and call.flag("broadcast") and y.ndim < x.ndim:
        axis = call.integer("axis", x.ndim - y.ndim)
        first = call.axis(axis, x.ndim) if y.ndim else x.ndim
        if first + y.ndim > x.ndim:
            call.fail(f"operand 1 of {y.ndim} axes does not fit behind axis {axis}")
        y = np.reshape(y, (*y.shape, *(1,) * (x.ndim - first - y.ndim)))
    return x, y


def binary(function: Binary) -> Callable[[NodeCall], Array]:
    """The meaning of an operator of two operands that broadcast."""
    return lambda call: function(*operands_of(call))


BINARY: Final[dict[str, Binary]] = {
    "Add": np.add,
    "And": np.logical_and,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Div": divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Pow": power,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
OPERATORS.update({("", name): binary(function) for name, function in BINARY.items()})


@operator("Mod")
def mod(call: NodeCall) -> Array:
    """The remainder: of the sign of the divisor, or as C's fmod."""
    x, y = operands_of(call)
    return np.fmod(x, y) if call.flag("fmod") else np.remainder(x, y)


@operator("BitShift")
def bit_shift(call: NodeCall) -> Array:
    """Bits moved to the left or to the right."""
    x, y = operands_of(call)
    left = call.choice("direction", "", ("LEFT", "RIGHT")) == "LEFT"
    return np.bitwise_left_shift(x, y) if left else np.bitwise_right_shift(x, y)


def variadic(function: Binary) -> Callable[[NodeCall], Array]:
    """The meaning of an operator that folds any number of operands."""

    def meaning(call: NodeCall) -> Array:
        call.count(1, len(call.operands) or 1)
        return reduce(function, call.arrays())

    return meaning


OPERATORS["", "Max"] = variadic(np.maximum)
OPERATORS["", "Min"] = variadic(np.minimum)
OPERATORS["", "Sum"] = variadic(np.add)


@operator("Mean")
def mean(call: NodeCall) -> Array:
    """The mean of all operands, element by element."""
    return variadic(np.add)(call) / len(call.operands)


@operator("Where")
def where(call: NodeCall) -> Array:
    """One operand or another, by a condition."""
    call.count(3, 3)
    return select(call.array(0), call.array(1), call.array(2))


def select(condition: Array, x: Array, y: Array) -> Array:
    """`x` where the condition holds, `y` elsewhere."""
    found: Array = np.where(condition, x, y)
    return found


# --------------------------------------------------------------------- types


def cast_to(x: Array, element: int, call: NodeCall) -> Array:
    """`x` with elements of a type of the standard."""
    try:
        dtype = element_dtype(element)
    except UnsupportedTypeError as error:
        call.fail(str(error))
    return np.not_equal(x, 0) if dtype.kind == "b" and x.dtype.kind != "b" else x.astype(dtype)


@operator("Cast")
def cast(call: NodeCall) -> Array:
    """Elements of another type."""
    return cast_to(call.array(0), call.integer("to"), call)


@operator("CastLike")
def cast_like(call: NodeCall) -> Array:
    """Elements of the type of operand 1."""
    x, dtype = call.array(0), call.array(1).dtype
    return np.not_equal(x, 0) if dtype.kind == "b" and x.dtype.kind != "b" else x.astype(dtype)


@operator("Identity")
def identity(call: NodeCall) -> FlowValue:
    """Operand 0 as it is."""
    return call.value(0)


@operator("IsInf")
def is_inf(call: NodeCall) -> Array:
    """Whether elements are infinite, of the signs asked for."""
    x = call.array(0)
    above, below = call.flag("detect_positive", True), call.flag("detect_negative", True)
    if above and below:
        return np.isinf(x)
    if above or below:
        return np.isposinf(x) if above else np.isneginf(x)
    return np.zeros(x.shape, "bool")


# --------------------------------------------------------------- activations


@operator("Clip")
def clip(call: NodeCall) -> Array:
    """Elements kept between two bounds, each of which may be left out."""
    x = call.array(0)
    if call.opset < 11:
        if call.has("min"):
            x = np.maximum(x, call.number("min"))
        return np.minimum(x, call.number("max")) if call.has("max") else x
    low, high = call.optional(1), call.optional(2)
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def elu(x: Array, alpha: float) -> Array:
    """`x` above zero, and an exponential below."""
    return select(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@operator("Elu")
def _elu(call: NodeCall) -> Array:
    return elu(call.array(0), call.number("alpha", 1.0))


@operator("Selu")
def selu(call: NodeCall) -> Array:
    """Scaled exponential linear unit."""
    alpha = call.number("alpha", 1.67326319217681884765625)
    gamma = call.number("gamma", 1.05070102214813232421875)
    return gamma * elu(call.array(0), alpha)


@operator("Celu")
def celu(call: NodeCall) -> Array:
    """Exponential linear unit whose slope is continuous."""
    x, alpha = call.array(0), call.number("alpha", 1.0)
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(np.minimum(x, 0) / alpha), 0)


def leaky_relu(x: Array, slope: float) -> Array:
    """`x` above zero, and a part of it below."""
    return select(x >= 0, x, slope * x)


@operator("LeakyRelu")
def _leaky_relu(call: NodeCall) -> Array:
    return leaky_relu(call.array(0), call.number("alpha", 0.01))


@operator("PRelu")
def prelu(call: NodeCall) -> Array:
    """`x` above zero, and a part of it below, which an operand says."""
    x, slope = call.array(0), call.array(1)
    if call.opset < 7 and slope.ndim == 1 and x.ndim > 2:
        slope = np.reshape(slope, (-1, *(1,) * (x.ndim - 2)))
    return select(x < 0, slope * x, x)


@operator("ThresholdedRelu")
def thresholded_relu(call: NodeCall) -> Array:
    """`x` above a threshold, and zero below."""
    x = call.array(0)
    return select(x > call.number("alpha", 1.0), x, np.zeros_like(x))


@operator("HardSigmoid")
def _hard_sigmoid(call: NodeCall) -> Array:
    return hard_sigmoid(call.array(0), call.number("alpha", 0.2), call.number("beta", 0.5))


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """A line, kept between 0 and 1."""
    return np.minimum(np.maximum(alpha * x + beta, 0), 1)


@operator("HardSwish")
def hard_swish(call: NodeCall) -> Array:
    """`x` times a line that is kept between 0 and 1."""
    x = call.array(0)
    return x * hard_sigmoid(x, 1 / 6, 0.5)


@operator("Mish")
def mish(call: NodeCall) -> Array:
    """`x` times the hyperbolic tangent of its softplus."""
    x = call.array(0)
    return x * np.tanh(np.softplus(x))


@operator("Softsign")
def softsign(call: NodeCall) -> Array:
    """`x` over one more than its absolute value."""
    x = call.array(0)
    return x / (1 + np.abs(x))


@operator("Swish")
def swish(call: NodeCall) -> Array:
    """`x` times a sigmoid of it."""
    x, alpha = call.array(0), call.number("alpha", 1.0)
    return x * np.sigmoid(x if alpha == 1 else alpha * x)


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(call: NodeCall) -> Array:
    """`x` times a sigmoid of it."""
    x = call.array(0)
    return x * np.sigmoid(call.number("alpha", 1.702) * x)


@operator("Shrink")
def shrink(call: NodeCall) -> Array:
    """Elements nearer to zero by a bias, and zero where they are near already."""
    x, bias, lambd = call.array(0), call.number("bias", 0.0), call.number("lambd", 0.5)
    zero = np.zeros_like(x)
    return select(x < -lambd, x + bias, select(x > lambd, x - bias, zero)).astype(x.dtype)


def gelu(x: Array, approximate: bool = False) -> Array:
    """`x` times the normal distribution function of it."""
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + np.tanh(inner))
    return 0.5 * x * (1 + np.erf(x * math.sqrt(0.5)))


@operator("Gelu")
def _gelu(call: NodeCall) -> Array:
    return gelu(call.array(0), call.choice("approximate", "none", ("none", "tanh")) == "tanh")


@operator("Gelu", "BiasGelu", domain=MICROSOFT)
def bias_gelu(call: NodeCall) -> Array:
    """The Gaussian linear unit of a sum."""
    return gelu(reduce(np.add, call.arrays()))


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(call: NodeCall) -> Array:
    """The Gaussian linear unit of a sum, approximately."""
    return gelu(reduce(np.add, call.arrays()), approximate=True)


# --------------------------------------------------- functions that nodes name

ACTIVATIONS: Final[dict[str, Callable[[Array, float, float], Array]]] = {
    "Clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "Gelu": lambda x, _a, _b: gelu(x),
    "HardSigmoid": hard_sigmoid,
    "LeakyRelu": lambda x, slope, _b: leaky_relu(x, slope),
    "Relu": lambda x, _a, _b: np.relu(x),
    "Sigmoid": lambda x, _a, _b: np.sigmoid(x),
    "Tanh": lambda x, _a, _b: np.tanh(x),
}
"""What fused operators may apply in the end, with two parameters that some of them have."""


def apply_activation(call: NodeCall, x: Array, name: str, parameters: Sequence[float]) -> Array:
    """`x` through the function that a fused operator names."""
    function = ACTIVATIONS.get(name)
    if function is None:
        call.fail(f"activation {name!r} is not supported; accepted: {', '.join(ACTIVATIONS)}")
    first, second = (*parameters, 0.0, 0.0)[:2]
    return function(x, first, second)
