"""Special functions, by the names that `scipy.special` gives them, with exact derivatives.

    tw.special.gammaln([2.5, 4.0])            # lazy, element by element, compiled
    tw.grad(tw.special.gammaln)(2.5)          # digamma(2.5)

All are of real numbers.  float32 and float16 are computed in float64 and rounded once; integers
give float64.  In float64 results are within 16 units in the last place; near zeros that are not at
simple numbers (of `gammaln` and `digamma` left of 0, of Bessel functions) the error is that small
beside 1, not beside the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import tawny.numpy as np
from tawny.approximations import bessel, incomplete, normal
from tawny.approximations import gamma as series
from tawny.approximations.gamma import if_else
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.autodiff.custom import custom_jvp
from tawny.autodiff.functions import jvp
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import REAL, check_categories, inexact_dtype
from tawny.errors import value_error
from tawny.ops.differentiation import stop_gradient
from tawny.ops.movement import BroadcastTo
from tawny.public_names import export
from tawny.shape import as_int

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "expit",
    "expm",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "log_ndtr",
    "logit",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "xlog1py",
    "xlogy",
]
export(__name__, __all__)

Function = Callable[[Array], Array]
Unary = Callable[[ArrayLike], Array]


def _real(x: ArrayLike, op: str, position: int = 0) -> Array:
    """An operand as real floating-point numbers."""
    node = lift(x, op, position)
    check_categories(op, position, node.dtype, REAL)
    return np.astype(wrap(node), inexact_dtype(node.dtype), copy=False)


def _in_float64(body: Callable[..., Array], *operands: Array) -> Array:
    """`body` of arrays of one dtype, computed in float64."""
    value = body(*[np.astype(x, np.float64, copy=False) for x in operands])
    return np.astype(value, operands[0].dtype, copy=False)


def _function(name: str, body: Function, slope: Function, doc: str) -> Unary:
    """A function of one array with a slope of its own."""

    def computed(x: Array) -> Array:
        return _in_float64(body, x)

    computed.__name__ = name
    inner = custom_jvp(computed)

    def tangent(primals: Any, tangents: Any) -> tuple[Array, Array]:
        return inner(primals[0]), slope(primals[0]) * tangents[0]

    inner.defjvp(tangent)

    def function(x: ArrayLike, /) -> Array:
        result: Array = inner(_real(x, name))
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return explain_bad_calls(function)


# ----------------------------------------------------------------- gamma and beta

MOST_ORDER: Final = 100
"""The greatest order of `polygamma`: factorials beyond leave float64."""

_POLYGAMMA: Final[dict[int, Unary]] = {}


def _derivative_of_digamma(n: int) -> Unary:
    if n not in _POLYGAMMA:
        _POLYGAMMA[n] = _function(
            "polygamma",
            lambda x: series.digamma(x) if n == 0 else series.polygamma(n, x),
            lambda x: polygamma(n + 1, x),
            "",
        )
    return _POLYGAMMA[n]


@explain_bad_calls
def polygamma(n: int, x: ArrayLike, /) -> Array:
    """The `n`-th derivative of `digamma`, n an integer from 0; from 2 on NaN for negative `x`."""
    number = as_int(n, "polygamma", "n")
    if not 0 <= number <= MOST_ORDER:
        raise value_error("polygamma", f"n is {number}; accepted: 0 to {MOST_ORDER}")
    return _derivative_of_digamma(number)(x)


digamma: Unary = _function(
    "digamma",
    series.digamma,
    lambda x: polygamma(1, x),
    """The slope of `gammaln`; infinite at 0, NaN at negative integers.""",
)
psi: Unary = digamma

gammaln: Unary = _function(
    "gammaln",
    series.log_gamma,
    digamma,
    """The logarithm of the magnitude of `gamma`; infinite at 0 and negative integers.""",
)


def _slope_of_gamma(x: Array) -> Array:
    return gamma(x) * digamma(x)


gamma: Unary = _function(
    "gamma",
    series.gamma,
    _slope_of_gamma,
    """The gamma function, (x - 1)! at positive integers; NaN at negative ones.""",
)


@explain_bad_calls
def betaln(a: ArrayLike, b: ArrayLike, /) -> Array:
    """The logarithm of the magnitude of `beta`."""
    first, second = _real(a, "betaln"), _real(b, "betaln", 1)
    dtype = np.result_type(first, second)
    first, second = (np.astype(x, np.float64, copy=False) for x in (first, second))
    total = gammaln(first) + gammaln(second) - gammaln(first + second)
    return np.astype(total, dtype, copy=False)


@explain_bad_calls
def beta(a: ArrayLike, b: ArrayLike, /) -> Array:
    """`gamma(a) gamma(b) / gamma(a + b)`, of positive numbers."""
    first, second = _real(a, "beta"), _real(b, "beta", 1)
    dtype = np.result_type(first, second)
    first, second = (np.astype(x, np.float64, copy=False) for x in (first, second))
    return np.astype(np.exp(betaln(first, second)), dtype, copy=False)


# ----------------------------------------------------------------- their shares


def _share(
    name: str, body: Callable[..., Array], density: Callable[..., Array], sign: float = 1.0
) -> Callable[..., Array]:
    """A function of parameters and of a place, whose slope with respect to the last is a density.

    Those with respect to parameters are the body's own, in forward mode.
    """

    def computed(*operands: Array) -> Array:
        return _in_float64(body, *operands)

    computed.__name__ = name
    inner = custom_jvp(computed)

    def tangent(primals: Any, tangents: Any) -> tuple[Array, Array]:
        (*parameters, x), (*moves, step) = primals, tangents
        changes: list[Array] = []
        if not _is_zero(step):
            changes.append(_in_float64(density, *primals) * (sign * step))
        if not all(map(_is_zero, moves)):
            _, own = jvp(lambda *moved: computed(*moved, x), parameters, moves)
            changes.append(own)
        return inner(*primals), sum(changes, start=np.zeros_like(x))

    inner.defjvp(tangent)

    def function(*given: ArrayLike) -> Array:
        operands = [_real(x, name, position) for position, x in enumerate(given)]
        dtype = np.result_type(*operands)
        alike = [np.astype(x, dtype, copy=False) for x in np.broadcast_arrays(*operands)]
        result: Array = inner(*alike)
        return result

    return function


def _is_zero(change: Array) -> bool:
    """Whether an argument is known not to change."""
    node = change.node.inputs[0] if isinstance(change.node.op, BroadcastTo) else change.node
    return node.value is not None and not node.shape and bool(node.value == 0)


_gammainc = _share("gammainc", incomplete.gammainc, incomplete.gamma_density)
_gammaincc = _share("gammaincc", incomplete.gammaincc, incomplete.gamma_density, sign=-1.0)
_betainc = _share("betainc", incomplete.betainc, incomplete.beta_density)


@explain_bad_calls
def gammainc(a: ArrayLike, x: ArrayLike, /) -> Array:
    """The share of the gamma distribution of shape `a` below `x`, from 0 to 1."""
    return _gammainc(a, x)


@explain_bad_calls
def gammaincc(a: ArrayLike, x: ArrayLike, /) -> Array:
    """The share of the gamma distribution of shape `a` above `x`, accurate where it is small."""
    return _gammaincc(a, x)


@explain_bad_calls
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Array:
    """The share of the beta distribution of `a` and `b` below `x`, which is from 0 to 1."""
    return _betainc(a, b, x)


# ------------------------------------------------------------------------- Bessel


def _slope_of_i0(x: Array) -> Array:
    return i1(x)


def _slope_of_j0(x: Array) -> Array:
    return -j1(x)


i0e: Unary = _function(
    "i0e",
    bessel.i0e,
    lambda x: i1e(x) - np.sign(x) * i0e(x),
    """`exp(-abs(x)) i0(x)`, which does not overflow.""",
)
i1e: Unary = _function(
    "i1e",
    bessel.i1e,
    lambda x: i0e(x) - np.sign(x) * i1e(x) - _divide_odd(i1e(x), x),
    """`exp(-abs(x)) i1(x)`, which does not overflow.""",
)
i0: Unary = _function(
    "i0",
    lambda x: np.exp(np.abs(x)) * bessel.i0e(x),
    _slope_of_i0,
    """The modified Bessel function of the first kind and order 0.""",
)
i1: Unary = _function(
    "i1",
    lambda x: np.exp(np.abs(x)) * bessel.i1e(x),
    lambda x: i0(x) - _divide_odd(i1(x), x),
    """The modified Bessel function of the first kind and order 1.""",
)
j0: Unary = _function(
    "j0", bessel.j0, _slope_of_j0, """The Bessel function of the first kind and order 0."""
)
j1: Unary = _function(
    "j1",
    bessel.j1,
    lambda x: j0(x) - _divide_odd(j1(x), x),
    """The Bessel function of the first kind and order 1.""",
)


def _divide_odd(y: Array, x: Array) -> Array:
    """`y / x` of a function that begins as x / 2."""
    zero = np.equal(x, 0.0)
    return if_else(zero, 0.5, y / if_else(zero, 1.0, x))


# ------------------------------------------------------------- normal distribution

erf, erfc = np.erf, np.erfc


def _tail(y: Array) -> Array:
    """Where `erfc` is `y`, from 0 to 0.5: a guess, and Newton's steps on the logarithm."""
    inner = if_else((y > 0.0) & (y < 0.6), y, 0.5)
    level = np.log(inner * (2.0 - inner))
    # Winitzki's approximation, good to two digits
    a = 0.147
    middle = 2 / (math.pi * a) + 0.5 * level
    x = np.sqrt(np.sqrt(middle * middle - level / a) - middle)
    for _ in range(4):
        there = np.erfc(x)
        x = x + np.log(there / inner) * (there * np.exp(x * x)) * (math.sqrt(math.pi) / 2)
    return if_else(np.equal(y, 0.0), math.inf, if_else(y >= 0.0, x, math.nan))


def _middle(y: Array) -> Array:
    """Where `erf` is `y`, from -0.5 to 0.5: a guess, and steps of Halley's method."""
    inner = if_else(np.abs(y) <= 0.5, y, 0.0)
    root = math.sqrt(math.pi) / 2
    x = inner * (root + inner * inner * (math.pi / 12 * root))
    for _ in range(3):
        share = (np.erf(x) - inner) * root * np.exp(x * x)
        x = x - share / (1.0 + x * share)
    return x


def _erfinv(y: Array) -> Array:
    """Where `erf` is `y`."""
    size = np.abs(y)
    return if_else(size <= 0.5, _middle(y), np.copysign(_tail(1.0 - size), y))


def _erfcinv(y: Array) -> Array:
    """Where `erfc` is `y`."""
    ends = if_else(y > 1.0, -_tail(2.0 - y), _tail(y))
    return if_else(np.abs(1.0 - y) <= 0.5, _middle(1.0 - y), ends)


erfinv: Unary = _function(
    "erfinv",
    _erfinv,
    lambda y: math.sqrt(math.pi) / 2 * np.exp(np.square(erfinv(y))),
    """The inverse of `erf`: from -1 to 1.""",
)
erfcinv: Unary = _function(
    "erfcinv",
    _erfcinv,
    lambda y: -math.sqrt(math.pi) / 2 * np.exp(np.square(erfcinv(y))),
    """The inverse of `erfc`: from 0 to 2.""",
)


def _density(x: Array) -> Array:
    return np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


ndtr: Unary = _function(
    "ndtr",
    normal.ndtr,
    _density,
    """The share of the standard normal distribution below `x`.""",
)


def _slope_of_ndtri(p: Array) -> Array:
    return 1.0 / _density(ndtri(p))


ndtri: Unary = _function(
    "ndtri",
    lambda p: -math.sqrt(2) * _erfcinv(2.0 * p) + 0.0,  # no negative zero
    _slope_of_ndtri,
    """The inverse of `ndtr`: from 0 to 1.""",
)


def _slope_of_log_ndtr(x: Array) -> Array:
    return _in_float64(_ratio, x)


def _ratio(x: Array) -> Array:
    """The density over `ndtr`."""
    near, far = np.maximum(x, normal.FAR_BELOW), np.minimum(x, normal.FAR_BELOW)
    ratio = np.exp(-0.5 * near * near - normal.LEVEL - log_ndtr(near))
    return if_else(x > normal.FAR_BELOW, ratio, normal.mills(far))


log_ndtr: Unary = _function(
    "log_ndtr",
    normal.log_ndtr,
    _slope_of_log_ndtr,
    """The logarithm of `ndtr`, accurate in the tail.""",
)

# ---------------------------------------------------------------- odds and products


@explain_bad_calls
def expit(x: ArrayLike, /) -> Array:
    """`1 / (1 + exp(-x))`."""
    return _in_float64(np.sigmoid, _real(x, "expit"))


@explain_bad_calls
def logit(p: ArrayLike, /) -> Array:
    """`log(p / (1 - p))`, the inverse of `expit`."""
    return _in_float64(_logit, _real(p, "logit"))


def _logit(share: Array) -> Array:
    middle = (share > 0.3) & (share < 0.65)  # where the difference of logarithms loses digits
    near = 2.0 * np.atanh(2.0 * if_else(middle, share, 0.5) - 1.0)
    return if_else(middle, near, np.log(share) - np.log1p(-share))


def _product(x: Array, y: Array, logarithm: Function, neutral: float) -> Array:
    """`x` times a logarithm of `y`; 0 where `x` is 0 and `y` is a number."""
    none = np.equal(x, 0.0) & ~np.isnan(y)
    return if_else(none, 0.0, x) * logarithm(if_else(none, neutral, y))


@explain_bad_calls
def xlogy(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x log(y)`, 0 where `x` is 0."""
    return _product(_real(x, "xlogy"), _real(y, "xlogy", 1), np.log, 1.0)


@explain_bad_calls
def xlog1py(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x log1p(y)`, 0 where `x` is 0."""
    return _product(_real(x, "xlog1py"), _real(y, "xlog1py", 1), np.log1p, 0.0)


@explain_bad_calls
def entr(x: ArrayLike, /) -> Array:
    """`-x log(x)`, 0 at 0, -inf below."""
    return _in_float64(_entropy, _real(x, "entr"))


def _entropy(x: Array) -> Array:
    return if_else(x < 0.0, -math.inf, 0.0 - xlogy(x, if_else(x < 0.0, 1.0, x)))


# ------------------------------------------------------------------------ matrices

_PADE: Final = tuple(
    math.factorial(26 - k) // (math.factorial(13 - k) * math.factorial(k)) for k in range(14)
)
"""Coefficients of the diagonal Pade approximation of exp of order 13, up to a common factor."""

NORM: Final = 5.371920351148152
"""Up to this 1-norm the approximation is exact to float64's last digit (Higham, 2005)."""

SQUARINGS: Final = 16
"""Matrices of a norm up to `NORM` times 2 to this power are computed."""


@explain_bad_calls
def expm(a: ArrayLike, /) -> Array:
    """The exponential of a square matrix, or of each of a stack; NaN for norms above 352,000.

    By Pade's approximation of order 13 of a matrix halved as often as its norm asks for, squared
    as often (Higham, 2005).
    """
    array = wrap(lift(a, "expm"))
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise value_error(
            "expm", f"operand 0 has shape {array.shape}; accepted: (..., n, n), square matrices"
        )
    matrix = np.astype(array, inexact_dtype(array.dtype), copy=False)
    norm = np.max(np.sum(np.abs(matrix), axis=-2), axis=-1)[..., None, None]
    with_norm = stop_gradient(np.maximum(norm, NORM)) / NORM
    times = np.ceil(np.log2(with_norm))
    halved = matrix * np.astype(np.exp2(-times), matrix.dtype)
    ratio = _pade(halved)
    for number in range(SQUARINGS):
        ratio = if_else(times > number, ratio @ ratio, ratio)
    return if_else(times > SQUARINGS, math.nan, ratio)


def _pade(a: Array) -> Array:
    """Pade's approximation of order 13."""
    b = [float(c) / float(_PADE[0]) for c in _PADE]
    one = np.eye(a.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    inner = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = a @ (inner + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2)
    even = even + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    return np.linalg.solve(even - odd, even + odd)
