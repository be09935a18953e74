"""Eigenvalues and eigenvectors.

Derivatives come from the equations that define the results.  A rule says under which conditions
the derivative exists.  Elsewhere it is infinite or NaN, or the system to be solved is singular,
which is an error.  Matrices that are read as self-adjoint from one triangle are taken to change as
such: both triangles share the cotangent, which is self-adjoint.
"""

from __future__ import annotations

from typing import NamedTuple

from tawny import dtype as dt
from tawny.array import Array, ArrayLike
from tawny.dtype import DType
from tawny.errors import value_error
from tawny.op import Type
from tawny.operator import emit, emit_parts, public
from tawny.ops import elementwise as e
from tawny.ops.creation import eye
from tawny.ops.diagonal import Diagonal
from tawny.ops.linalg import matmul
from tawny.ops.movement import expand_dims
from tawny.ops.reduction import argmax, sum
from tawny.ops.selection import take_along_axis
from tawny.ops.systems import (
    Square,
    adjoint,
    conjugate,
    emit_lapack,
    emit_lapack_parts,
    is_complex,
    solve,
)
from tawny.shape import Shape

Pair = tuple[Array, Array]


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as the columns of matrices."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Ascending real eigenvalues, and orthonormal eigenvectors as the columns of matrices."""

    eigenvalues: Array
    eigenvectors: Array


class Eigh(Square, name="eigh", oracle="numpy.linalg.eigh"):
    """Eigenvalues and eigenvectors of the self-adjoint matrix one triangle gives."""

    upper: bool

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = self.infer_dtype(dtype)
        return (shape[:-1], dt.real_dtype(kind)), (shape, kind)

    def pushforward(self, tangent: Array, results: Pair, x: Array) -> Pair:
        """Eigenvectors have a derivative where eigenvalues are distinct.

        A complex eigenvector may be multiplied by any number of size 1.  What depends on the choice
        has no derivative; the rule takes the change to be orthogonal to the vector.
        """
        values, vectors = results
        moved = matmul(self_adjoint(tangent), vectors)
        turn = off_diagonal(matmul(adjoint(vectors), moved), gaps(values))
        return column_products(vectors, moved), matmul(vectors, turn)


class Eigvalsh(Square, name="eigvalsh", oracle="numpy.linalg.eigvalsh"):
    """Ascending eigenvalues of the self-adjoint matrix one triangle gives."""

    upper: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        return super().infer_shape(*shapes)[:-1]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.real_dtype(super().infer_dtype(*dtypes))

    def pushforward(self, tangent: Array, result: Array, x: Array) -> Array:
        """For distinct eigenvalues; also for those that are not, if they are treated alike."""
        _, vectors = emit_parts(Eigh(self.upper), x)
        return column_products(vectors, matmul(self_adjoint(tangent), vectors))


class Eig(Square, name="eig", oracle="numpy.linalg.eig"):
    """Complex eigenvalues and eigenvectors."""

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        ((shape, dtype),) = types
        kind = dt.complex_dtype(self.infer_dtype(dtype))
        return (shape[:-1], kind), (shape, kind)

    def pushforward(self, tangent: Array, results: Pair, x: Array) -> Pair:
        """For distinct eigenvalues.

        An eigenvector has length 1, and its first component of greatest size is real: so LAPACK has
        it.  Where several are of the greatest size, the vector has no derivative.
        """
        values, vectors = results
        inside = solve(vectors, matmul(tangent, vectors))
        moved = matmul(vectors, off_diagonal(inside, gaps(values)))
        longer = column_products(vectors, moved)
        place = argmax(e.abs(vectors), axis=-2, keepdims=True)
        top, change = (take_along_axis(v, place, axis=-2) for v in (vectors, moved))
        turned = e.divide(e.imag(change), e.real(top))
        excess = e.add(expand_dims(longer, axis=-2), e.multiply(turned, 1j))
        return emit(Diagonal(0), inside), e.subtract(moved, e.multiply(vectors, excess))


class Eigvals(Square, name="eigvals", oracle="numpy.linalg.eigvals"):
    """Complex eigenvalues."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        return super().infer_shape(*shapes)[:-1]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.complex_dtype(super().infer_dtype(*dtypes))

    def pushforward(self, tangent: Array, result: Array, x: Array) -> Array:
        """For distinct eigenvalues; also for those that are not, if they are treated alike.

        There must be as many independent eigenvectors as rows.
        """
        _, vectors = emit_parts(Eig(), x)
        return emit(Diagonal(0), solve(vectors, matmul(tangent, vectors)))


# ------------------------------------------------------------ of matrices, in rules


def self_adjoint(x: Array) -> Array:
    """The part of square matrices that is its own adjoint."""
    return e.multiply(e.add(x, adjoint(x)), 0.5)


def column_products(x: Array, y: Array) -> Array:
    """The real part of the inner product of each column of `x` with that of `y`."""
    products = sum(e.multiply(conjugate(x), y), axis=-2)
    return e.real(products) if is_complex(products) else products


def gaps(values: Array) -> Array:
    """How much the value of a column exceeds that of a row."""
    return e.subtract(expand_dims(values, axis=-2), expand_dims(values, axis=-1))


def off_diagonal(x: Array, gaps: Array) -> Array:
    """`x / gaps` outside the diagonal, and 0 on it."""
    on_diagonal = eye(x.shape[-1], dtype=dt.BOOL)
    return e.where(on_diagonal, 0, e.divide(x, e.where(on_diagonal, 1, gaps)))


# ------------------------------------------------------------ public functions


def _triangle(op: str, uplo: object) -> bool:
    """Whether `UPLO` names the upper triangle."""
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise value_error(op, f"UPLO is {uplo!r}; accepted: 'L' (lower triangle), 'U' (upper)")
    return uplo.upper() == "U"


@public(module="linalg")
def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:  # noqa: N803
    """Eigenvalues and eigenvectors of self-adjoint matrices, read from one triangle."""
    return EighResult(*emit_lapack_parts(Eigh(_triangle("eigh", UPLO)), a))


@public(module="linalg")
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:  # noqa: N803
    """Eigenvalues of self-adjoint matrices, read from one triangle."""
    return emit_lapack(Eigvalsh(_triangle("eigvalsh", UPLO)), a)


@public(module="linalg")
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices; always complex, whatever the values."""
    return EigResult(*emit_lapack_parts(Eig(), a))


@public(module="linalg")
def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of square matrices; always complex, whatever the values."""
    return emit_lapack(Eigvals(), a)
