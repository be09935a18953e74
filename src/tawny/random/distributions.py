"""Distributions made of uniform and normal draws, so that every engine draws the same numbers.

Slopes reach what shifts and scales a draw; the shapes of `gamma` and of what is made of it, and the
mean of `poisson`, count as constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, ParamSpec

import numpy as np

from tawny import dtype as dt
from tawny.approximations.gamma import if_else, log_gamma
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType, as_dtype, check_categories, kind_of
from tawny.errors import type_error, value_error
from tawny.node import make
from tawny.ops import elementwise as e
from tawny.ops.creation import Cast
from tawny.ops.differentiation import stop_gradient
from tawny.ops.factorisation import cholesky
from tawny.ops.linalg import matvec
from tawny.ops.random import (
    check_broadcasts,
    drawn_shape,
    floating_dtype,
    normal,
    parameter_node,
    plain_value,
    uniform,
)
from tawny.ops.reduction import argmax
from tawny.ops.reduction import sum as total
from tawny.shape import Shape, as_shape, broadcast, normalise_axis

P = ParamSpec("P")

TRIES: Final = 16
"""Proposals for each number of a distribution drawn by rejection.  At least 95 of 100 are taken of
`gamma`, 70 of `poisson`: all are refused less than once in 10**8 numbers, which are then the mean.
"""


def _check(op: str, word: str, given: Any, holds: Callable[[Any], Any], wanted: str) -> None:
    """Refuse a parameter that is known and out of its range."""
    value = plain_value(given, op)
    if value is not None and not np.all(holds(value)):
        raise value_error(op, f"{word} is {given!r}; it must be {wanted}")


def _operands(op: str, shape: Any, dtype: Any, *given: Any) -> tuple[list[Array], Shape, DType]:
    """Parameters as arrays of the dtype wanted, and the shape of the draw."""
    wanted = floating_dtype(dtype, op)
    nodes = [parameter_node(x, wanted, op, i) for i, x in enumerate(given)]
    return [wrap(n) for n in nodes], drawn_shape(shape, nodes, op), wanted


def _cast(x: Array, dtype: DType) -> Array:
    return x if x.dtype == dtype else wrap(make(Cast(dtype), (x.node,)))


def _fraction(shape: Shape, dtype: DType) -> Array:
    """Numbers between 0 and 1, both left out."""
    draw = uniform(shape=shape, dtype=dt.FLOAT64 if dtype == dt.FLOAT64 else dt.FLOAT32)
    step = 2.0**-54 if dtype == dt.FLOAT64 else 2.0**-25
    return e.add(draw, wrap(lift(np.asarray(step, draw.dtype), "uniform")))


def _distribution(*example: float) -> Callable[[Callable[P, Array]], Callable[P, Array]]:
    """Document what all distributions have in common, with the parameters of an example."""

    def declare(function: Callable[P, Array]) -> Callable[P, Array]:
        name = function.__name__
        given = ", ".join([*map(str, example), "shape=(3,)"])
        function.__doc__ = f"""{(function.__doc__ or "").rstrip()}
    - `shape`: the shape of the result, to which the others broadcast; their own when None.
    - `dtype`: of the result, a floating-point dtype; float64 when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.{name}({given}).shape   # -> (3,)
    """
        return explain_bad_calls(function)

    return declare


@_distribution()
def laplace(
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, shape: Any = None, dtype: Any = None
) -> Array:
    """Numbers of density `exp(-abs(x - loc) / scale) / (2 scale)`.

    - `loc`: the centre.
    - `scale`: the width, at least 0.
    """
    _check("laplace", "scale", scale, lambda v: v >= 0, "at least 0")
    (centre, width), size, wanted = _operands("laplace", shape, dtype, loc, scale)
    u = _fraction(size, wanted) - 0.5
    base = _cast(e.copysign(e.negative(e.log1p(-2.0 * e.abs(u))), u), wanted)
    return base * width + centre


@_distribution()
def gumbel(
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, shape: Any = None, dtype: Any = None
) -> Array:
    """Numbers of which the share `exp(-exp(-(x - loc) / scale))` is below x.

    - `loc`: the centre.
    - `scale`: the width, at least 0.
    """
    _check("gumbel", "scale", scale, lambda v: v >= 0, "at least 0")
    (centre, width), size, wanted = _operands("gumbel", shape, dtype, loc, scale)
    base = _cast(e.negative(e.log(e.negative(e.log(_fraction(size, wanted))))), wanted)
    return base * width + centre


@_distribution()
def logistic(
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, shape: Any = None, dtype: Any = None
) -> Array:
    """Numbers of which the share `1 / (1 + exp(-(x - loc) / scale))` is below x.

    - `loc`: the centre.
    - `scale`: the width, at least 0.
    """
    _check("logistic", "scale", scale, lambda v: v >= 0, "at least 0")
    (centre, width), size, wanted = _operands("logistic", shape, dtype, loc, scale)
    u = _fraction(size, wanted)
    return _cast(e.log(u) - e.log1p(-u), wanted) * width + centre


def _standard_gamma(a: Array, size: Shape) -> Array:
    """Marsaglia and Tsang's method: cubes of normal numbers, some refused; in float64."""
    low = a < 1.0
    d = if_else(low, a + 1.0, a) - 1.0 / 3.0
    x, u = normal(shape=(TRIES, *size)), _fraction((TRIES, *size), dt.FLOAT64)
    root = 1.0 + x / e.sqrt(9.0 * d)
    v = root * root * root
    safe = if_else(v > 0.0, v, 1.0)
    taken = (v > 0.0) & (e.log(u) < 0.5 * x * x + d * (1.0 - v + e.log(safe)))
    value = d + 0.0 * x[0]
    for k in reversed(range(TRIES)):
        value = if_else(taken[k], d * v[k], value)
    power = e.pow(_fraction(size, dt.FLOAT64), 1.0 / if_else(low, a, 1.0))
    return value * if_else(low, power, 1.0)


@_distribution(2.0)
def gamma(
    shape_parameter: ArrayLike, scale: ArrayLike = 1.0, shape: Any = None, dtype: Any = None
) -> Array:
    """Numbers of density proportional to `x**(k - 1) exp(-x / scale)`.

    - `shape_parameter`: k, a positive number.
    - `scale`: the width, at least 0.
    """
    _check("gamma", "shape_parameter", shape_parameter, lambda v: v > 0, "greater than 0")
    _check("gamma", "scale", scale, lambda v: v >= 0, "at least 0")
    (k, width), size, wanted = _operands("gamma", shape, dtype, shape_parameter, scale)
    base = _standard_gamma(stop_gradient(_cast(k, dt.FLOAT64)), size)
    return _cast(base, wanted) * width


@_distribution(3.0)
def chisquare(df: ArrayLike, shape: Any = None, dtype: Any = None) -> Array:
    """Sums of the squares of `df` standard normal numbers.

    - `df`: how many; it need not be whole.
    """
    _check("chisquare", "df", df, lambda v: v > 0, "greater than 0")
    (k,), size, wanted = _operands("chisquare", shape, dtype, df)
    half = stop_gradient(_cast(k, dt.FLOAT64)) * 0.5
    return _cast(2.0 * _standard_gamma(half, size), wanted)


@_distribution(4.0)
def student_t(df: ArrayLike, shape: Any = None, dtype: Any = None) -> Array:
    """Student's t distribution with `df` degrees of freedom.

    - `df`: a positive number; it need not be whole.
    """
    _check("student_t", "df", df, lambda v: v > 0, "greater than 0")
    (k,), size, wanted = _operands("student_t", shape, dtype, df)
    freedom = stop_gradient(_cast(k, dt.FLOAT64))
    spread = _standard_gamma(freedom * 0.5, size) / (freedom * 0.5)
    return _cast(normal(shape=size) / e.sqrt(spread), wanted)


@_distribution(2.0, 3.0)
def beta(a: ArrayLike, b: ArrayLike, shape: Any = None, dtype: Any = None) -> Array:
    """Numbers of density proportional to `x**(a - 1) (1 - x)**(b - 1)`, from 0 to 1.

    - `a`, `b`: positive numbers.
    """
    _check("beta", "a", a, lambda v: v > 0, "greater than 0")
    _check("beta", "b", b, lambda v: v > 0, "greater than 0")
    (first, second), size, wanted = _operands("beta", shape, dtype, a, b)
    x, y = (_standard_gamma(stop_gradient(_cast(k, dt.FLOAT64)), size) for k in (first, second))
    return _cast(x / (x + y), wanted)


@explain_bad_calls
def dirichlet(alpha: ArrayLike, shape: Any = None, dtype: Any = None) -> Array:
    """Shares that add up to 1 along the last axis.

    - `alpha`: the weights of the shares, along the last axis.
    - `shape`: the shape of the result without this axis; that of `alpha` when None.
    - `dtype`: of the result, a floating-point dtype; float64 when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.dirichlet([1.0, 2.0], (3,)).shape   # -> (3, 2)
    """
    _check("dirichlet", "alpha", alpha, lambda v: v > 0, "greater than 0")
    (weights,), size, wanted = _operands("dirichlet", None, dtype, alpha)
    if not size:
        raise value_error("dirichlet", "alpha has no axes; accepted: weights along the last axis")
    if shape is not None:
        size = (*as_shape(shape, "dirichlet"), size[-1])
        check_broadcasts("dirichlet", 0, weights.shape, size)
    x = _standard_gamma(stop_gradient(_cast(weights, dt.FLOAT64)), size)
    return _cast(x / total(x, axis=-1, keepdims=True), wanted)


SMALL_MEAN: Final = 10.0
"""Below this mean Poisson's numbers are found by adding up their chances."""

MOST_SMALL: Final = 60
"""A number drawn with a small mean is above this less than once in 10**25 times."""


@explain_bad_calls
def poisson(mean: ArrayLike = 1.0, shape: Any = None, dtype: Any = None) -> Array:
    """How many of many rare events happen, `mean` on average.

    - `mean`: from 0 to 2**52.
    - `shape`: the shape of the result, to which `mean` broadcasts; its own when None.
    - `dtype`: of the result; int64 when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.poisson(3.0, (3,)).shape   # -> (3,)
    """
    wanted = dt.INT64 if dtype is None else as_dtype(dtype, "poisson")
    if kind_of(wanted) not in "iuf":
        raise type_error("poisson", f"dtype is {wanted}; accepted: integers, real numbers")
    _check("poisson", "mean", mean, lambda v: (v >= 0) & (v < 2**52), "from 0 to 2**52")
    (rate,), size, _ = _operands("poisson", shape, dt.FLOAT64, mean)
    rate = stop_gradient(rate)
    few = rate < SMALL_MEAN
    number = if_else(
        few,
        _draw_small_means(if_else(few, rate, 1.0), size),
        _draw_large_means(if_else(few, 20.0, rate), size),
    )
    return _cast(number, wanted)


def _draw_small_means(rate: Array, size: Shape) -> Array:
    """How many partial sums of the chances are below a fraction."""
    u = uniform(shape=size)
    chance = e.exp(-rate) + 0.0 * u
    below, number = chance, 0.0 * u
    for k in range(1, MOST_SMALL):
        number = number + if_else(u >= below, 1.0, 0.0)
        chance = chance * rate / float(k)
        below = below + chance
    return number


def _draw_large_means(rate: Array, size: Shape) -> Array:
    """Hormann's transformed rejection (1993), for means from 10."""
    u = uniform(shape=(TRIES, *size)) - 0.5
    v = _fraction((TRIES, *size), dt.FLOAT64)
    b = 0.931 + 2.53 * e.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inner = if_else(e.equal(u, -0.5), 0.25, 0.5 - e.abs(u))
    k = e.floor((2.0 * a / inner + b) * u + rate + 0.43)
    quick = (inner >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
    left = e.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (inner * inner) + b))
    count = e.maximum(k, 0.0)
    taken = left <= count * e.log(rate) - rate - log_gamma(count + 1.0)
    proper = (k >= 0.0) & ((inner >= 0.013) | (v <= inner)) & e.not_equal(u, -0.5)
    taken = proper & (quick | taken)
    value = e.floor(rate) + 0.0 * k[0]
    for number in reversed(range(TRIES)):
        value = if_else(taken[number], count[number], value)
    return value


@explain_bad_calls
def categorical(logits: ArrayLike, axis: int = -1, shape: Any = None) -> Array:
    """The index of one of the classes along `axis`, with chances proportional to exp(logits).

    - `logits`: a number for each class.
    - `axis`: the axis of the classes.
    - `shape`: the shape of the result, to which the other axes of `logits` broadcast; their own
      when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.categorical([0.0, 1.0, 2.0], shape=(5,)).shape   # -> (5,)
    """
    node = lift(logits, "categorical")
    check_categories("categorical", 0, node.dtype, dt.REAL)
    if not node.shape:
        raise value_error("categorical", "logits has no axes; accepted: one score for each class")
    place = normalise_axis(axis, len(node.shape), "categorical")
    others = node.shape[:place] + node.shape[place + 1 :]
    wanted = others if shape is None else as_shape(shape, "categorical")
    check_broadcasts("categorical", 0, others, wanted)
    scores = e.add(wrap(node), 0.0) if kind_of(node.dtype) != "f" else wrap(node)
    behind = len(others) - place
    at = len(wanted) - behind
    size = (*wanted[:at], node.shape[place], *wanted[at:])
    noise = gumbel(shape=size, dtype=dt.FLOAT64)
    return argmax(_cast(scores, dt.FLOAT64) + noise, axis=at)


@explain_bad_calls
def multivariate_normal(
    mean: ArrayLike, cov: ArrayLike, shape: Any = None, dtype: Any = None
) -> Array:
    """Normal vectors along the last axis, about `mean` with the covariance matrix `cov`.

    - `mean`: the centre, a vector or a stack of them.
    - `cov`: a symmetric, positive definite matrix, or a stack of them.
    - `shape`: the shape of the result without the last axis; `mean` and stacks of `cov` broadcast
      to it.
    - `dtype`: of the result, a floating-point dtype; float64 when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.multivariate_normal([0.0, 0.0], numpy.eye(2), (3,)).shape   # -> (3, 2)
    """
    op = "multivariate_normal"
    (centre, matrix), _, wanted = _vectors(op, mean, cov, dtype)
    n = centre.shape[-1]
    stack = broadcast(op, (centre.shape[:-1], matrix.shape[:-2]))
    size = stack if shape is None else as_shape(shape, op)
    check_broadcasts(op, 0, stack, size)
    base = normal(shape=(*size, n), dtype=wanted)
    return matvec(cholesky(matrix), base) + centre


def _vectors(op: str, mean: Any, cov: Any, dtype: Any) -> tuple[list[Array], Shape, DType]:
    """A mean and a covariance matrix that fit each other."""
    wanted = floating_dtype(dtype, op)
    arrays = [wrap(parameter_node(x, wanted, op, i)) for i, x in enumerate((mean, cov))]
    centre, matrix = arrays
    n = centre.shape[-1] if centre.ndim else 0
    if not n or matrix.shape[-2:] != (n, n):
        raise value_error(
            op,
            f"mean has shape {centre.shape} and cov {matrix.shape}; "
            "accepted: (..., n) and (..., n, n)",
        )
    return arrays, centre.shape, wanted
