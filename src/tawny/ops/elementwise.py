"""Elementwise ops: the table.

One row an op: its body is the scalar expression every engine and derivative reads.
"""

from __future__ import annotations

import math
from typing import Any, Final

from tawny.array import Array, Weak, wrap
from tawny.dtype import kind_of
from tawny.dtype_rules import (
    bits,
    chosen,
    floating,
    inexact,
    integer,
    magnitude,
    not_boolean,
    numeric,
    promoted,
    quotient,
    real_numeric,
    real_truth,
    truth,
    whole,
)
from tawny.dtype_rules import real as real_rule
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.node import Constant, Node, make
from tawny.op import ELEMENTWISE, Domain, Elementwise, Gradient, ScalarRules, Trait
from tawny.operator import elementwise
from tawny.scalar import LN2, Prim, Scalar, call, select

COMMUTATIVE = Trait.COMMUTATIVE
FIELD = Trait.COMMUTATIVE | Trait.ASSOCIATIVE
LATTICE = FIELD | Trait.IDEMPOTENT
FINITE = Trait.KEEPS_FINITE
FINITE_REAL = Trait.KEEPS_FINITE_REAL
NONNEGATIVE = Trait.NONNEGATIVE
KEEPS_NONNEGATIVE = Trait.KEEPS_NONNEGATIVE
EXTREME = LATTICE | Trait.CHOOSING | FINITE | KEEPS_NONNEGATIVE
POSITIVE = Domain(1e-3, 8.0)
UNIT = Domain(-1.0, 1.0)
NONE = Gradient.NONE


def _abs(x: Scalar) -> Scalar:
    return call(Prim.ABS, x)


# ------------------------------------------------------------------ arithmetic


@elementwise(dtype=promoted, traits=FIELD | KEEPS_NONNEGATIVE, identity=0)
def add(x: Scalar, y: Scalar) -> Scalar:
    """Sum of two arrays."""
    return x + y


@elementwise(dtype=not_boolean)
def subtract(x: Scalar, y: Scalar) -> Scalar:
    """Difference of two arrays."""
    return x - y


@elementwise(dtype=promoted, traits=FIELD | KEEPS_NONNEGATIVE, identity=1)
def multiply(x: Scalar, y: Scalar) -> Scalar:
    """Product of two arrays."""
    return x * y


@elementwise("true_divide", dtype=quotient, traits=KEEPS_NONNEGATIVE)
def divide(x: Scalar, y: Scalar) -> Scalar:
    """Quotient of two arrays, floating-point also for integers."""
    return x / y


@elementwise(dtype=real_numeric)
def floor_divide(x: Scalar, y: Scalar) -> Scalar:
    """Quotient of two arrays, rounded towards minus infinity."""
    return call(Prim.FLOORDIV, x, y)


@elementwise("mod", dtype=real_numeric)
def remainder(x: Scalar, y: Scalar) -> Scalar:
    """Remainder of floor division; it has the sign of the divisor."""
    return call(Prim.MOD, x, y)


@elementwise(dtype=real_numeric)
def fmod(x: Scalar, y: Scalar) -> Scalar:
    """Remainder of truncated division; it has the sign of the dividend."""
    return call(Prim.FMOD, x, y)


_POWERS: Final = {0.5: "sqrt", 2.0: "square", -1.0: "reciprocal"}
"""What NumPy makes of powers by these numbers."""


def _power(op: Elementwise, operands: tuple[Node, ...]) -> Node:
    """A power; by some numbers the root, square or reciprocal, as in NumPy.

    They round better, and the root differs where the base is -inf or -0.0.
    """
    node, (base, exponent) = make(op, operands), operands
    if type(exponent.op) is not Constant or exponent.shape or exponent.value is None:
        return node
    if kind_of(node.dtype) != "f" or node.dtype.itemsize < 4:
        return node
    name = _POWERS.get(exponent.value.item())
    if name is None:
        return node
    if base.dtype != node.dtype:
        base = PUBLIC_FUNCTIONS["astype"](wrap(base), node.dtype).node
    return make(ELEMENTWISE[name], (base,))


@elementwise("power", dtype=numeric, domain=POSITIVE, build=_power, traits=KEEPS_NONNEGATIVE)
def pow(x: Scalar, y: Scalar) -> Scalar:
    """`x` raised to the power `y`."""
    return call(Prim.POW, x, y)


@elementwise(dtype=not_boolean, traits=Trait.INVOLUTION | FINITE)
def negative(x: Scalar) -> Scalar:
    """Sign-reversed array."""
    return -x


@elementwise(dtype=not_boolean, traits=FINITE)
def positive(x: Scalar) -> Scalar:
    """The array itself."""
    return call(Prim.POS, x)


def _is_complex(x: Array) -> bool:
    return x.dtype.kind == "c"


def _abs_pullback(cotangent: Array, y: Array, x: Array) -> Array:
    return multiply(cotangent, conj(sign(x)) if _is_complex(x) else sign(x))


def _sign_pushforward(tangent: Array, y: Array, x: Array) -> Array | None:
    """On the unit circle only the angle changes; between real signs nothing does."""
    if not _is_complex(x):
        return None
    modulus = abs(x)
    turn = divide(imag(multiply(conj(y), tangent)), where(equal(modulus, 0), 1, modulus))
    return multiply(multiply(y, 1j), turn)


@elementwise(
    "absolute",
    dtype=magnitude,
    pullback=_abs_pullback,
    traits=Trait.IDEMPOTENT | FINITE_REAL | NONNEGATIVE,
    oracle="numpy.absolute",
)
def abs(x: Scalar) -> Scalar:
    """Absolute value; the modulus of a complex number."""
    return call(Prim.ABS, x)


@elementwise(dtype=not_boolean, pushforward=_sign_pushforward, traits=FINITE)
def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1 by sign; x / abs(x) for complex numbers."""
    return call(Prim.SIGN, x)


@elementwise(dtype=numeric, traits=NONNEGATIVE)
def square(x: Scalar) -> Scalar:
    """The array times itself."""
    return x * x


@elementwise(dtype=numeric, domain=POSITIVE)
def reciprocal(x: Scalar) -> Scalar:
    """One divided by each element."""
    return call(Prim.RECIPROCAL, x)


@elementwise(dtype=promoted, oracle="")
def fma(x: Scalar, y: Scalar, z: Scalar) -> Scalar:
    """`x1 * x2 + x3`; an engine may round once.

    `x1`, `x2` and `x3` broadcast together.

        float(np.fma(2.0, 3.0, 1.0))   # -> 7.0
    """
    return x * y + z


@elementwise(dtype=inexact, domain=POSITIVE, oracle="")
def adagrad_rate(x: Scalar, rate: Scalar, epsilon: Scalar) -> Scalar:
    """`x2 / sqrt(x1 + x3)`: AdaGrad's step size.

    `x1` are the accumulated squares, `x2` is the rate, and `x3` a small number that keeps the root
    from zero; they broadcast together.

        float(np.adagrad_rate(4.0, 0.5, 0.0))   # -> 0.25
    """
    return rate / call(Prim.SQRT, x + epsilon)


# -------------------------------------------------------- powers, exp and logs


def _shares(power: Prim) -> ScalarRules:
    """Rules of the logarithm of a sum of powers: each operand's share in the sum."""

    def share(arith: Any, g: Any, y: Any, x: Any) -> Any:
        return arith.times(
            g, arith.apply(power, arith.choose(arith.apply(Prim.EQ, x, y), 0.0, x - y))
        )

    return (
        lambda arith, g, y, a, b: share(arith, g, y, a),
        lambda arith, g, y, a, b: share(arith, g, y, b),
    )


@elementwise(dtype=inexact, domain=POSITIVE)
def sqrt(x: Scalar) -> Scalar:
    """Non-negative square root; NaN for negative real numbers."""
    return call(Prim.SQRT, x)


@elementwise(dtype=floating, domain=POSITIVE)
def cbrt(x: Scalar) -> Scalar:
    """Cube root."""
    return call(Prim.CBRT, x)


@elementwise(dtype=inexact, traits=NONNEGATIVE)
def exp(x: Scalar) -> Scalar:
    """Exponential."""
    return call(Prim.EXP, x)


@elementwise(dtype=inexact, traits=NONNEGATIVE)
def exp2(x: Scalar) -> Scalar:
    """Two to the power of each element."""
    return call(Prim.EXP2, x)


@elementwise(dtype=inexact)
def expm1(x: Scalar) -> Scalar:
    """`exp(x) - 1`, accurate near zero."""
    return call(Prim.EXPM1, x)


@elementwise(dtype=inexact, domain=POSITIVE)
def log(x: Scalar) -> Scalar:
    """Natural logarithm."""
    return call(Prim.LOG, x)


@elementwise(dtype=inexact, domain=POSITIVE)
def log2(x: Scalar) -> Scalar:
    """Base-2 logarithm."""
    return call(Prim.LOG2, x)


@elementwise(dtype=inexact, domain=POSITIVE)
def log10(x: Scalar) -> Scalar:
    """Base-10 logarithm."""
    return call(Prim.LOG10, x)


@elementwise(dtype=inexact, domain=POSITIVE)
def log1p(x: Scalar) -> Scalar:
    """`log(1 + x)`, accurate near zero."""
    return call(Prim.LOG1P, x)


@elementwise(dtype=floating, traits=COMMUTATIVE, gradient=_shares(Prim.EXP))
def logaddexp(x: Scalar, y: Scalar) -> Scalar:
    """`log(exp(x) + exp(y))` without overflow."""
    greater = call(Prim.MAX, x, y)
    gap = call(Prim.LOG1P, call(Prim.EXP, -_abs(x - y)))
    return select(call(Prim.EQ, x, y), x + LN2, greater + gap)


@elementwise(dtype=floating, traits=COMMUTATIVE, gradient=_shares(Prim.EXP2))
def logaddexp2(x: Scalar, y: Scalar) -> Scalar:
    """`log2(2**x + 2**y)` without overflow."""
    greater = call(Prim.MAX, x, y)
    gap = call(Prim.LOG1P, call(Prim.EXP2, -_abs(x - y))) * (1 / LN2)
    return select(call(Prim.EQ, x, y), x + 1.0, greater + gap)


# ---------------------------------------------------------------- trigonometry


@elementwise(dtype=inexact, traits=FINITE_REAL)
def sin(x: Scalar) -> Scalar:
    """Sine of an angle in radians."""
    return call(Prim.SIN, x)


@elementwise(dtype=inexact, traits=FINITE_REAL)
def cos(x: Scalar) -> Scalar:
    """Cosine of an angle in radians."""
    return call(Prim.COS, x)


@elementwise(dtype=inexact, domain=Domain(-1.4, 1.4))
def tan(x: Scalar) -> Scalar:
    """Tangent of an angle in radians."""
    return call(Prim.TAN, x)


@elementwise("arcsin", dtype=inexact, domain=UNIT)
def asin(x: Scalar) -> Scalar:
    """Inverse sine."""
    return call(Prim.ASIN, x)


@elementwise("arccos", dtype=inexact, domain=UNIT)
def acos(x: Scalar) -> Scalar:
    """Inverse cosine."""
    return call(Prim.ACOS, x)


@elementwise("arctan", dtype=inexact, traits=FINITE_REAL)
def atan(x: Scalar) -> Scalar:
    """Inverse tangent."""
    return call(Prim.ATAN, x)


@elementwise("arctan2", dtype=floating)
def atan2(x: Scalar, y: Scalar) -> Scalar:
    """Angle of the point with ordinate `x` and abscissa `y`."""
    return call(Prim.ATAN2, x, y)


@elementwise(dtype=inexact)
def sinh(x: Scalar) -> Scalar:
    """Hyperbolic sine."""
    return call(Prim.SINH, x)


@elementwise(dtype=inexact, traits=NONNEGATIVE)
def cosh(x: Scalar) -> Scalar:
    """Hyperbolic cosine."""
    return call(Prim.COSH, x)


@elementwise(dtype=inexact, traits=FINITE_REAL)
def tanh(x: Scalar) -> Scalar:
    """Hyperbolic tangent."""
    return call(Prim.TANH, x)


@elementwise("arcsinh", dtype=inexact)
def asinh(x: Scalar) -> Scalar:
    """Inverse hyperbolic sine."""
    return call(Prim.ASINH, x)


@elementwise("arccosh", dtype=inexact, domain=Domain(1.0, 8.0))
def acosh(x: Scalar) -> Scalar:
    """Inverse hyperbolic cosine."""
    return call(Prim.ACOSH, x)


@elementwise("arctanh", dtype=inexact, domain=UNIT)
def atanh(x: Scalar) -> Scalar:
    """Inverse hyperbolic tangent."""
    return call(Prim.ATANH, x)


@elementwise(dtype=floating, traits=COMMUTATIVE)
def hypot(x: Scalar, y: Scalar) -> Scalar:
    """Hypotenuse of a right triangle."""
    return call(Prim.HYPOT, x, y)


@elementwise("radians", dtype=floating)
def deg2rad(x: Scalar) -> Scalar:
    """Degrees as radians."""
    return x * (math.pi / 180.0)


@elementwise("degrees", dtype=floating)
def rad2deg(x: Scalar) -> Scalar:
    """Radians as degrees."""
    return x * (180.0 / math.pi)


# ----------------------------------------------------------- special functions


@elementwise(dtype=floating, oracle="scipy.special.erf")
def erf(x: Scalar) -> Scalar:
    """Error function.

    `x` are real numbers; integers are computed in floating point.

        float(np.erf(0.0))   # -> 0.0
    """
    return call(Prim.ERF, x)


@elementwise(dtype=floating, oracle="scipy.special.erfc")
def erfc(x: Scalar) -> Scalar:
    """Complementary error function, `1 - erf(x)`, accurate in the tail.

    `x` are real numbers; integers are computed in floating point.

        float(np.erfc(0.0))   # -> 1.0
    """
    return call(Prim.ERFC, x)


@elementwise(dtype=floating, oracle="scipy.special.dawsn")
def dawsn(x: Scalar) -> Scalar:
    """Dawson's integral, `exp(-x**2)` times the integral of `exp(t**2)` from 0 to x.

    `x` are real numbers; integers are computed in floating point.

        round(float(np.dawsn(1.0)), 6)   # -> 0.53808
    """
    return call(Prim.DAWSN, x)


@elementwise(
    dtype=floating,
    gradient=(lambda arith, g, y, x: arith.times(g, y * (1.0 - y)),),
    oracle="scipy.special.expit",
    traits=FINITE | NONNEGATIVE,
)
def sigmoid(x: Scalar) -> Scalar:
    """Logistic function, `1 / (1 + exp(-x))`.

    `x` are real numbers of any size: nothing overflows.

        float(np.sigmoid(0.0))   # -> 0.5
    """
    tail = call(Prim.EXP, -_abs(x))
    share = select(x >= 0.0, 1.0, tail) / (1.0 + tail)
    return select(x < -1.0, tail - tail * share, share)  # `1 + tail` loses digits of tail


@elementwise(
    dtype=real_rule,
    gradient=(lambda arith, g, y, _: arith.choose(arith.apply(Prim.GT, y, 0.0), g, 0.0),),
    oracle="",
    traits=FINITE,
)
def relu(x: Scalar) -> Scalar:
    """The larger of each element and zero, where its slope is zero.

    `x` are real numbers of any dtype, which the result has too.

        np.relu([-1.0, 2.0]).numpy().tolist()   # -> [0.0, 2.0]
    """
    return call(Prim.MAX, x, 0)


@elementwise(
    dtype=floating,
    gradient=(lambda arith, g, y, x: -arith.times(g, arith.apply(Prim.EXPM1, -y)),),
    oracle="",
    traits=NONNEGATIVE,
)
def softplus(x: Scalar) -> Scalar:
    """`log(1 + exp(x))` without overflow.

    `x` are real numbers; for large ones the result is `x` itself.

        float(np.softplus(1000.0))   # -> 1000.0
    """
    return call(Prim.MAX, x, 0.0) + call(Prim.LOG1P, call(Prim.EXP, -_abs(x)))


@elementwise(dtype=floating)
def heaviside(x: Scalar, y: Scalar) -> Scalar:
    """0 below zero, 1 above it, `y` at zero."""
    step = select(x < 0.0, 0.0, select(x > 0.0, 1.0, y))
    return select(call(Prim.ISNAN, x), x, step)


# -------------------------------------------------------------------- rounding


@elementwise(dtype=real_rule, traits=Trait.IDEMPOTENT | FINITE)
def floor(x: Scalar) -> Scalar:
    """The greatest integer not above each element."""
    return call(Prim.FLOOR, x)


@elementwise(dtype=real_rule, traits=Trait.IDEMPOTENT | FINITE)
def ceil(x: Scalar) -> Scalar:
    """The least integer not below each element."""
    return call(Prim.CEIL, x)


@elementwise("fix", dtype=real_rule, traits=Trait.IDEMPOTENT | FINITE)
def trunc(x: Scalar) -> Scalar:
    """Each element without its fraction."""
    return call(Prim.TRUNC, x)


@elementwise(dtype=inexact, traits=Trait.IDEMPOTENT | FINITE)
def rint(x: Scalar) -> Scalar:
    """The nearest integer; halves go to the even one."""
    return call(Prim.RINT, x)


# ------------------------------------------------------- floating-point details


@elementwise(dtype=floating)
def copysign(x: Scalar, y: Scalar) -> Scalar:
    """The magnitude of `x` with the sign of `y`."""
    return call(Prim.COPYSIGN, x, y)


@elementwise(dtype=floating, gradient=NONE)
def nextafter(x: Scalar, y: Scalar) -> Scalar:
    """The next floating-point number after `x` towards `y`."""
    return call(Prim.NEXTAFTER, x, y)


@elementwise(dtype=real_truth)
def signbit(x: Scalar) -> Scalar:
    """Whether the sign bit is set, also of -0.0."""
    return call(Prim.SIGNBIT, x)


@elementwise(dtype=truth)
def isnan(x: Scalar) -> Scalar:
    """Whether each element is NaN."""
    return call(Prim.ISNAN, x)


@elementwise(dtype=truth)
def isinf(x: Scalar) -> Scalar:
    """Whether each element is infinite."""
    return call(Prim.ISINF, x)


@elementwise(dtype=truth)
def isfinite(x: Scalar) -> Scalar:
    """Whether each element is neither infinite nor NaN."""
    return call(Prim.ISFINITE, x)


# ------------------------------------------------------------------ comparison


@elementwise(dtype=truth, traits=COMMUTATIVE, weak=Weak.COMPARES)
def equal(x: Scalar, y: Scalar) -> Scalar:
    """Whether elements are equal."""
    return call(Prim.EQ, x, y)


@elementwise(dtype=truth, traits=COMMUTATIVE, weak=Weak.COMPARES)
def not_equal(x: Scalar, y: Scalar) -> Scalar:
    """Whether elements differ."""
    return call(Prim.NE, x, y)


@elementwise(dtype=truth, weak=Weak.COMPARES)
def less(x: Scalar, y: Scalar) -> Scalar:
    """Whether `x` is less than `y`."""
    return x < y


@elementwise(dtype=truth, weak=Weak.COMPARES)
def less_equal(x: Scalar, y: Scalar) -> Scalar:
    """Whether `x` is at most `y`."""
    return x <= y


@elementwise(dtype=truth, weak=Weak.COMPARES)
def greater(x: Scalar, y: Scalar) -> Scalar:
    """Whether `x` is greater than `y`."""
    return x > y


@elementwise(dtype=truth, weak=Weak.COMPARES)
def greater_equal(x: Scalar, y: Scalar) -> Scalar:
    """Whether `x` is at least `y`."""
    return x >= y


@elementwise(dtype=promoted, traits=EXTREME)
def maximum(x: Scalar, y: Scalar) -> Scalar:
    """Larger of two arrays; NaN if either is NaN."""
    return call(Prim.MAX, x, y)


@elementwise(dtype=promoted, traits=EXTREME)
def minimum(x: Scalar, y: Scalar) -> Scalar:
    """Smaller of two arrays; NaN if either is NaN."""
    return call(Prim.MIN, x, y)


@elementwise(dtype=promoted, traits=EXTREME)
def fmax(x: Scalar, y: Scalar) -> Scalar:
    """Larger of two arrays; a NaN gives way to a number."""
    return call(Prim.FMAX, x, y)


@elementwise(dtype=promoted, traits=EXTREME)
def fmin(x: Scalar, y: Scalar) -> Scalar:
    """Smaller of two arrays; a NaN gives way to a number."""
    return call(Prim.FMIN, x, y)


# -------------------------------------------------------------- bits and truth


@elementwise(dtype=bits, gradient=NONE, traits=LATTICE, identity=-1)
def bitwise_and(x: Scalar, y: Scalar) -> Scalar:
    """Bits set in both."""
    return call(Prim.BIT_AND, x, y)


@elementwise(dtype=bits, gradient=NONE, traits=LATTICE, identity=0)
def bitwise_or(x: Scalar, y: Scalar) -> Scalar:
    """Bits set in either."""
    return call(Prim.BIT_OR, x, y)


@elementwise(dtype=bits, gradient=NONE, traits=FIELD, identity=0)
def bitwise_xor(x: Scalar, y: Scalar) -> Scalar:
    """Bits set in one but not in both."""
    return call(Prim.BIT_XOR, x, y)


@elementwise("invert", "bitwise_not", dtype=bits, gradient=NONE, traits=Trait.INVOLUTION)
def bitwise_invert(x: Scalar) -> Scalar:
    """Every bit flipped."""
    return call(Prim.BIT_NOT, x)


@elementwise("left_shift", dtype=integer, gradient=NONE)
def bitwise_left_shift(x: Scalar, y: Scalar) -> Scalar:
    """Bits of `x` moved up by `y` places."""
    return call(Prim.SHL, x, y)


@elementwise("right_shift", dtype=integer, gradient=NONE)
def bitwise_right_shift(x: Scalar, y: Scalar) -> Scalar:
    """Bits of `x` moved down by `y` places, keeping the sign."""
    return call(Prim.SHR, x, y)


@elementwise(dtype=whole, traits=COMMUTATIVE)
def gcd(x: Scalar, y: Scalar) -> Scalar:
    """Greatest common divisor of two integers, never negative."""
    return call(Prim.GCD, x, y)


@elementwise(dtype=whole, traits=COMMUTATIVE)
def lcm(x: Scalar, y: Scalar) -> Scalar:
    """Least common multiple of two integers, never negative."""
    return call(Prim.LCM, x, y)


@elementwise(dtype=truth, traits=FIELD, identity=1, weak=Weak.TRUTH)
def logical_and(x: Scalar, y: Scalar) -> Scalar:
    """Whether both are true."""
    return call(Prim.AND, x, y)


@elementwise(dtype=truth, traits=FIELD, identity=0, weak=Weak.TRUTH)
def logical_or(x: Scalar, y: Scalar) -> Scalar:
    """Whether either is true."""
    return call(Prim.OR, x, y)


@elementwise(dtype=truth, traits=FIELD, identity=0, weak=Weak.TRUTH)
def logical_xor(x: Scalar, y: Scalar) -> Scalar:
    """Whether exactly one is true."""
    return call(Prim.XOR, x, y)


@elementwise(dtype=truth)
def logical_not(x: Scalar) -> Scalar:
    """Whether each element is false."""
    return call(Prim.NOT, x)


# --------------------------------------------------------------------- complex


def _conj_pullback(cotangent: Array, y: Array, x: Array) -> Array:
    return conj(cotangent)


def _imag_pullback(cotangent: Array, y: Array, x: Array) -> Array | None:
    return multiply(cotangent, -1j) if _is_complex(x) else None


def _imag_pushforward(tangent: Array, y: Array, x: Array) -> Array:
    return imag(tangent)


@elementwise("conjugate", dtype=numeric, pullback=_conj_pullback, traits=Trait.INVOLUTION)
def conj(x: Scalar) -> Scalar:
    """Complex conjugate."""
    return call(Prim.CONJ, x)


@elementwise(dtype=magnitude, pullback=lambda cotangent, y, x: cotangent, traits=FINITE)
def real(x: Scalar) -> Scalar:
    """Real part."""
    return call(Prim.REAL, x)


@elementwise(dtype=magnitude, pullback=_imag_pullback, pushforward=_imag_pushforward, traits=FINITE)
def imag(x: Scalar) -> Scalar:
    """Imaginary part; zero for real arrays."""
    return call(Prim.IMAG, x)


# ------------------------------------------------------------------- selection


@elementwise(dtype=chosen, oracle="numpy.where")
def where(condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    """`x` where the condition holds, else `y`."""
    return select(condition, x, y)


@elementwise(dtype=promoted, oracle="numpy.clip")
def clip(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """Elements limited to the interval from `low` to `high`."""
    return call(Prim.MIN, call(Prim.MAX, x, low), high)
