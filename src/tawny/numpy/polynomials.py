"""Polynomials as vectors of coefficients, highest power first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, value_of, wrap
from tawny.errors import value_error
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import arange, asarray, astype, cast_to_common, ones, zeros
from tawny.ops.diagonal import diag
from tawny.ops.eigenvalues import eigvals
from tawny.ops.joining import concat
from tawny.ops.movement import expand_dims, ravel
from tawny.ops.series import convolve
from tawny.shape import as_int


def _coefficients(p: ArrayLike, op: str, position: int = 0) -> Array:
    array = wrap(lift(p, op, position))
    if array.ndim > 1:
        raise value_error(op, f"operand {position} has shape {array.shape}; it must have one axis")
    return ravel(array)


def _without_leading_zeros(p: Array) -> Array:
    """`p` from its first coefficient that is not zero, where coefficients are known."""
    if not p.node.known or not p.size:
        return p
    places = value_of(p, "polynomial").nonzero()[0]
    return p[int(places[0]) :] if places.size else p[-1:]


@public()
def roots(p: ArrayLike) -> Array:
    """Where the polynomial is zero, as complex numbers.

    Leading coefficients that are zero are left out where they are known; those that are not must
    not be zero.
    """
    whole = _coefficients(p, "roots")
    poly = _without_leading_zeros(whole)
    known = value_of(poly, "roots") if poly.node.known else None
    if poly.size < 2 or (known is not None and not known.any()):
        return zeros(0, dt.COMPLEX128)
    tail = 0 if known is None else poly.size - 1 - int(known.nonzero()[0][-1])
    poly = astype(poly, dt.inexact_dtype(poly.dtype), copy=False)[: poly.size - tail]
    n = poly.size - 1
    if not n:
        return zeros(tail, dt.COMPLEX128)
    top = e.divide(e.negative(poly[1:]), poly[0])
    companion = diag(ones(n - 1, poly.dtype), -1)
    found = eigvals(concat([expand_dims(top, 0), companion[1:]]))
    return concat([found, zeros(tail, found.dtype)]) if tail else found


@public()
def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with the given zeros, or the characteristic one of a square matrix.

    That of complex zeros is complex, also where they come in conjugate pairs.
    """
    zeros_of = wrap(lift(seq_of_zeros, "poly"))
    real = zeros_of.dtype.kind != "c"
    if zeros_of.ndim == 2 and zeros_of.shape[0] == zeros_of.shape[1] and zeros_of.size:
        zeros_of = eigvals(zeros_of)
    elif zeros_of.ndim != 1:
        raise value_error(
            "poly", f"operand 0 has shape {zeros_of.shape}; accepted: a vector or a square matrix"
        )
    result = ones(1, dt.inexact_dtype(zeros_of.dtype) if zeros_of.size else dt.FLOAT64)
    for k in range(zeros_of.size):
        factor = concat([ones(1, result.dtype), e.negative(zeros_of[k : k + 1])])
        result = convolve(result, factor)
    return e.real(result) if real else result


def _equal_lengths(op: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Array, Array]:
    """Two polynomials with as many coefficients."""
    both = [_coefficients(a, op, i) for i, a in enumerate((a1, a2))]
    n = max(a.size for a in both)
    first, second = (concat([zeros(n - a.size, a.dtype), a]) if a.size < n else a for a in both)
    return first, second


@public()
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Sum of two polynomials."""
    return e.add(*_equal_lengths("polyadd", a1, a2))


@public()
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Difference of two polynomials."""
    return e.subtract(*_equal_lengths("polysub", a1, a2))


@public()
def polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Product of two polynomials; leading zeros that are known are left out."""
    both = [_coefficients(a, "polymul", i) for i, a in enumerate((a1, a2))]
    first, second = map(_without_leading_zeros, both)
    return convolve(first, second)


@public()
def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Quotient and remainder of two polynomials.

    The remainder has one coefficient less than `v`; leading zeros are left out where they are
    known.
    """
    given = cast_to_common([_coefficients(x, "polydiv", i).node for i, x in enumerate((u, v))])
    above, below = (astype(wrap(n), dt.inexact_dtype(n.dtype), copy=False) for n in given)
    steps, n = above.size - below.size + 1, below.size
    if steps < 1:
        return zeros(1, above.dtype), _drop_leading_zeros(above)
    left, quotient = above, list[Array]()
    for _ in range(steps):
        digit = e.divide(left[:1], below[0])
        quotient.append(digit)
        left = concat([e.subtract(left[1:n], e.multiply(digit, below[1:])), left[n:]])
    return concat(quotient), _drop_leading_zeros(left if left.size else zeros(1, above.dtype))


def _drop_leading_zeros(remainder: Array) -> Array:
    """A remainder without leading zeros, where its values are known."""
    if not remainder.node.known:
        return remainder
    values = value_of(remainder, "polydiv")
    first = 0
    while first < values.size - 1 and np.allclose(values[first], 0, rtol=1e-14):
        first += 1
    return remainder[first:]


@public()
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The derivative of a polynomial, taken `m` times."""
    times = as_int(m, "polyder", "m")
    if times < 0:
        raise value_error("polyder", f"m is {times}; it must be at least 0")
    result = _coefficients(p, "polyder")
    for _ in range(times):
        powers = arange(result.size - 1, 0, -1)
        result = e.multiply(result[:-1], powers)
    return result


@public()
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | Sequence[ArrayLike] | None = None) -> Array:
    """The integral of a polynomial, taken `m` times, with the constants `k`."""
    times = as_int(m, "polyint", "m")
    if times < 0:
        raise value_error("polyint", f"m is {times}; it must be at least 0")
    constants = ravel(asarray(0.0 if k is None else cast("ArrayLike", k)))
    if constants.size not in (1, times) or (constants.size == 1 < times and k is not None):
        raise value_error("polyint", f"k has {constants.size} constants; {times} are needed")
    result = _coefficients(p, "polyint")
    for step in range(times):
        raised = e.divide(result, arange(result.size, 0, -1))
        last = constants[min(step, constants.size - 1)]
        result = concat([raised, ravel(last)])
    return result
