"""Norms, ranks, powers and least squares of matrices, built from factorisations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, lift_each, wrap
from tawny.dtype import DType
from tawny.errors import linalg_error, value_error
from tawny.node import make
from tawny.numpy.axis_functions import count_nonzero
from tawny.operator import emit, public
from tawny.ops import elementwise as e
from tawny.ops.creation import asarray, astype, copy, eye, filled_array
from tawny.ops.diagonal import diagonal as numpy_diagonal
from tawny.ops.differentiation import distance
from tawny.ops.eigenvalues import eigvalsh
from tawny.ops.factorisation import svdvals
from tawny.ops.linalg import cross_product, matmul
from tawny.ops.movement import expand_dims, matrix_transpose, moveaxis, reshape
from tawny.ops.precision import in_single
from tawny.ops.reduction import Axis, any, max, min, sum
from tawny.ops.systems import Inv, Pinv, check_matrix, check_square, inv, lapack_operands, solve
from tawny.shape import Shape, as_int, normalise_axes, normalise_axis, ordered_axes, reduction_shape

Order = float | Literal["fro", "nuc"] | None


class LstsqResult(NamedTuple):
    """A least-squares solution, its squared residuals, the rank and the singular values."""

    x: Array
    residuals: Array
    rank: Array
    s: Array


def _inexact(x: ArrayLike, op: str) -> Array:
    """`x` in floating point; integers as float64."""
    node = lift(x, op)
    return astype(wrap(node), dt.inexact_dtype(node.dtype), copy=False)


def _squares(x: Array) -> Array:
    """The squared absolute value of every element."""
    return e.real(e.multiply(e.conj(x), x)) if x.dtype.kind == "c" else e.multiply(x, x)


def _greatest(x: Array, axis: Axis, keepdims: bool) -> Array:
    """The greatest of elements that are not negative; 0 where there are none."""
    axes = normalise_axes(axis, x.ndim, "norm")
    if 0 in [x.shape[a] for a in axes]:
        return filled_array(0, reduction_shape(x.shape, axes, keepdims), x.dtype, "norm")
    return max(x, axis=axes, keepdims=keepdims)


def _check_number(op: str, ord: object, accepted: str) -> float:
    if isinstance(ord, bool) or not isinstance(ord, (int, float, np.integer, np.floating)):
        raise value_error(op, f"ord is {ord!r}; accepted: {accepted}")
    return float(ord)  # pyright: ignore[reportUnknownArgumentType]


@public(module="linalg")
@in_single
def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """The `ord`-norm of vectors along `axis`, or of all elements."""
    power = _check_number("vector_norm", ord, "a number, inf or -inf")
    array = _inexact(x, "vector_norm")
    axes = normalise_axes(axis, array.ndim, "vector_norm")
    if power == 2:
        return emit(distance, sum(_squares(array), axis=axes, keepdims=keepdims))
    if power == 0:
        there = astype(e.not_equal(array, 0), dt.real_dtype(array.dtype))
        return sum(there, axis=axes, keepdims=keepdims)
    size = e.abs(array)
    if power == math.inf:
        return _greatest(size, axes, keepdims)
    if power == -math.inf:
        return min(size, axis=axes, keepdims=keepdims)
    if power == 1:
        return sum(size, axis=axes, keepdims=keepdims)
    return _root(sum(e.pow(size, power), axis=axes, keepdims=keepdims), power)


def _root(total: Array, power: float) -> Array:
    """The `power`-th root; at 0, where it has no slope, it is constant."""
    nothing = e.equal(total, 0 if power > 0 else math.inf)
    zero, one = (asarray(v, dtype=total.dtype) for v in (0, 1))
    return e.where(nothing, zero, e.pow(e.where(nothing, one, total), 1 / power))


@public(module="linalg")
@in_single
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Order = "fro") -> Array:
    """A norm of the matrices in the last two axes: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    array = _inexact(x, "matrix_norm")
    check_matrix("matrix_norm", array.shape)
    if ord is None or ord == "fro":
        return emit(distance, sum(_squares(array), axis=(-2, -1), keepdims=keepdims))
    accepted = "'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
    if ord != "nuc" and abs(_check_number("matrix_norm", ord, accepted)) not in (1, 2, math.inf):
        raise value_error("matrix_norm", f"ord is {ord!r}; accepted: {accepted}")
    if ord in ("nuc", 2, -2):
        values = svdvals(array)
        if ord == "nuc":
            result = sum(values, axis=-1)
        else:
            result = _greatest(values, -1, False) if ord == 2 else min(values, axis=-1)
    else:
        sums = sum(e.abs(array), axis=-2 if ord in (1, -1) else -1)
        result = _greatest(sums, -1, False) if ord in (1, math.inf) else min(sums, axis=-1)
    return reshape(result, (*result.shape, 1, 1)) if keepdims else result


@public(module="linalg")
def norm(x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """A norm of vectors (one axis), of matrices (two), or of all elements if no axis is given."""
    array = asarray(x)
    if axis is None:
        whole = ord is None or (ord == "fro" and array.ndim == 2) or (ord == 2 and array.ndim == 1)
        if whole:
            return vector_norm(array, keepdims=keepdims)
        axes = tuple(range(array.ndim))
    else:
        given: Sequence[Any] = axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = ordered_axes(given, array.ndim, "norm")
    if len(axes) == 1:
        power = (
            2 if ord is None else _check_number("norm", ord, "a number, inf or -inf for vectors")
        )
        return vector_norm(array, axis=axes, keepdims=keepdims, ord=power)
    if len(axes) != 2:
        raise value_error(
            "norm",
            f"axis {axes} names {len(axes)} axes; a norm is of one (vectors) or two (matrices)",
        )
    result = matrix_norm(moveaxis(array, axes, (-2, -1)), ord=ord)
    return reshape(result, reduction_shape(array.shape, axes, True)) if keepdims else result


@public(module="linalg")
def cond(x: ArrayLike, p: Order = None) -> Array:
    """Condition numbers: the norm of a matrix times that of its inverse; infinite if singular."""
    (node,) = lapack_operands("cond", x)
    check_matrix("cond", node.shape)
    if 0 in node.shape:
        raise linalg_error("cond", f"operand 0 has shape {node.shape}; there is no element")
    array = wrap(node)
    if p in (None, 2, -2):
        values = svdvals(array)
        ratio = e.divide(values[..., 0], values[..., -1])
        result = e.divide(values[..., -1], values[..., 0]) if p == -2 else ratio
    else:
        check_square("cond", node.shape)
        inverse = wrap(make(Inv(strict=False), (node,)))
        result = e.multiply(matrix_norm(array, ord=p), matrix_norm(inverse, ord=p))
    had_nan = any(e.isnan(array), axis=(-2, -1))
    singular = e.logical_and(e.isnan(result), e.logical_not(had_nan))
    return e.where(singular, asarray(math.inf, dtype=result.dtype), result)


def _precision(shape: Shape, dtype: DType) -> float:
    """How small a singular value, relative to the greatest, may be rounding alone."""
    return float(np.max(shape[-2:]) * dt.finfo(dtype).eps)


def _cutoff(values: Array, shape: Shape, rtol: ArrayLike | None) -> Array:
    """The size below which a singular value counts as zero."""
    top = _greatest(values, -1, True)
    if rtol is None:
        return e.multiply(top, _precision(shape, values.dtype))
    if dt.is_weak(rtol):
        return e.multiply(top, rtol)
    return e.multiply(top, expand_dims(wrap(lift(rtol, "rtol")), axis=-1))


@public(module="linalg")
def matrix_rank(
    A: ArrayLike,  # noqa: N803
    tol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Array:
    """Number of singular values greater than `tol`, or than `rtol` times the greatest.

    That of a vector is 1, or 0 if it is zero.  `hermitian` says that the matrices are.
    """
    if tol is not None and rtol is not None:
        raise value_error("matrix_rank", "tol and rtol came; give one of them")
    (node,) = lapack_operands("matrix_rank", A)
    if len(node.shape) < 2:
        return astype(any(e.not_equal(wrap(node), 0)), dt.INT64)
    values = e.abs(eigvalsh(wrap(node))) if hermitian else svdvals(wrap(node))
    if tol is None:
        least = _cutoff(values, node.shape, rtol)
    else:
        least = expand_dims(wrap(lift(tol, "matrix_rank", 1)), axis=-1)
    return count_nonzero(e.greater(values, least), axis=-1)


@public(module="linalg")
def pinv(
    a: ArrayLike,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Array:
    """Pseudo-inverses; singular values up to `rtol` times the greatest count as zero.

    `rcond` is another name for `rtol`; `hermitian` says that the matrices are.
    """
    if rcond is not None and rtol is not None:
        raise value_error("pinv", "rcond and rtol came; give one of them")
    del hermitian
    rtol = rcond if rtol is None else rtol
    (node,) = lapack_operands("pinv", a)
    check_matrix("pinv", node.shape)
    relative = _precision(node.shape, dt.real_dtype(node.dtype)) if rtol is None else rtol
    return emit(Pinv(), wrap(node), asarray(relative))


@public(module="linalg")
def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> LstsqResult:
    """The `x` of least norm among those that bring `a @ x` closest to `b`.

    `residuals` are the squared distances of an overdetermined system (more rows than columns)
    and have no element otherwise; NumPy leaves them out also where the rank is deficient, which
    only the values can tell.
    """
    matrix, right = map(wrap, lapack_operands("lstsq", a, b))
    if matrix.ndim != 2 or right.ndim not in (1, 2) or right.shape[0] != matrix.shape[0]:
        raise linalg_error(
            "lstsq",
            f"operand 0 has shape {matrix.shape} and operand 1 {right.shape}; accepted: a matrix, "
            "and a vector or matrix of as many rows",
        )
    tolerance = None if rcond is None or rcond < 0 else rcond
    solution = matmul(pinv(matrix, rtol=tolerance), right)
    values = svdvals(matrix)
    rank = count_nonzero(e.greater(values, _cutoff(values, matrix.shape, tolerance)), axis=-1)
    rows, columns = matrix.shape
    if rows > columns:
        away = e.subtract(right, matmul(matrix, solution))
        residuals = sum(_squares(away), axis=0, keepdims=right.ndim == 1)
    else:
        residuals = filled_array(0, (0,), dt.real_dtype(matrix.dtype), "lstsq")
    return LstsqResult(solution, residuals, astype(rank, dt.INT32), values)


@public(module="linalg")
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The `x` of `tensordot(a, x, x.ndim) = b`; `axes` of `a` are moved to its end first."""
    left, right = map(wrap, lapack_operands("tensorsolve", a, b))
    if axes is not None:
        last = ordered_axes(axes, left.ndim, "tensorsolve")
        left = moveaxis(left, last, tuple(range(-len(last), 0)))
    shape = left.shape[right.ndim :]
    if math.prod(shape) != right.size or left.size != right.size**2:
        raise linalg_error(
            "tensorsolve",
            f"operand 0 has shape {left.shape} and operand 1 {right.shape}; the axes of operand 0 "
            f"after the first {right.ndim} must have {right.size} elements, as operand 1 has",
        )
    matrix = reshape(left, (right.size, right.size))
    return reshape(solve(matrix, reshape(right, (right.size,))), shape)


@public(module="linalg")
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The array whose `tensordot` with `a` over `ind` axes is an identity."""
    (node,) = lapack_operands("tensorinv", a)
    split = as_int(ind, "tensorinv", "ind")
    if split < 1:
        raise value_error("tensorinv", f"ind is {split}; it must be at least 1")
    first, last = node.shape[:split], node.shape[split:]
    n = math.prod(first)
    if n != math.prod(last):
        raise linalg_error(
            "tensorinv",
            f"operand 0 has shape {node.shape}; its first {split} axes must have as many elements "
            "as the others",
        )
    return reshape(inv(reshape(wrap(node), (n, n))), (*last, *first))


@public(module="linalg")
@in_single
def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices multiplied by themselves `n` times; by the inverse if `n` is negative."""
    array = wrap(lift(a, "matrix_power"))
    check_square("matrix_power", array.shape)
    times = as_int(n, "matrix_power", "n")
    if times == 0:
        one = eye(array.shape[-1], dtype=array.dtype)
        return e.add(one, filled_array(0, array.shape, array.dtype, "matrix_power"))
    base = inv(array) if times < 0 else array
    result: Array | None = None
    for bit in reversed(f"{abs(times):b}"):
        if bit == "1":
            result = base if result is None else matmul(result, base)
        base = matmul(base, base)
    return copy(array) if result is array or result is None else result


@public(module="linalg")
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The `offset`-th diagonals of the matrices in the last two axes."""
    array = asarray(x)
    check_matrix("diagonal", array.shape)
    return numpy_diagonal(array, offset=offset, axis1=-2, axis2=-1)


@public(module="linalg")
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Sums of the `offset`-th diagonals of the matrices in the last two axes."""
    array = asarray(x)
    check_matrix("trace", array.shape)
    return sum(numpy_diagonal(array, offset=offset, axis1=-2, axis2=-1), axis=-1, dtype=dtype)


@public(module="linalg")
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of every element of one vector with every element of another."""
    left, right = map(wrap, lift_each("outer", (x1, x2)))
    for position, x in enumerate((left, right)):
        if x.ndim != 1:
            raise value_error(
                "outer", f"operand {position} has shape {x.shape}; it must have one axis"
            )
    return e.multiply(expand_dims(left, axis=1), right)


@public(module="linalg")
@in_single
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Vector product of three-dimensional vectors along `axis`; other axes broadcast."""
    left, right = map(wrap, lift_each("cross", (x1, x2)))
    places = [normalise_axis(axis, x.ndim, "cross") for x in (left, right)]
    return cross_product("cross", left, right, (places[0], places[1]))


public(module="linalg")(matrix_transpose)
