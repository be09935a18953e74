"""Linear systems by methods that only apply the matrix.

The derivative of a solution is that of the system it solves: a system of the same matrix forward,
of the transposed one backward, whatever the steps were that found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, final

import tawny.numpy as np
from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.autodiff.implicit import EquationRule, attach_equation
from tawny.autodiff.vmap import vmap
from tawny.bad_calls import explain_bad_calls
from tawny.errors import value_error
from tawny.loops.functions import while_loop
from tawny.ops.creation import convert_node
from tawny.ops.differentiation import Derivative
from tawny.shape import as_int
from tawny.solve.functions import (
    Closure,
    Packing,
    VectorFunction,
    as_tolerance,
    function_of,
    or_nan,
    trace_function,
    zeros_of,
)

Apply = Callable[[Array], Array]
"""Multiplies a vector by a matrix."""


class Outcome(NamedTuple):
    """The point where a method ended."""

    x: Array
    info: Array
    """0 where the tolerance was met, else the number of steps."""


class Method(Protocol):
    """A way to solve a linear system."""

    def solve(self, apply: Apply, b: Array, start: Array | None, guess: Apply | None) -> Outcome:
        """The `x` of `apply(x) = b`, from `start` on; `guess` is nearly the inverse."""
        ...


# ------------------------------------------------------------------- derivatives


@final
class LinearRule(EquationRule):
    """The derivative of the solution of a linear system.

    Operands behind the solution are the parameters of the matrix, of what is nearly its inverse,
    and the right side.
    """

    def __init__(
        self,
        matrix: VectorFunction,
        guess: VectorFunction | None,
        guess_parameters: int,
        method: Method,
    ) -> None:
        self.matrix, self.guess, self.method = matrix, guess, method
        self.guess_parameters = guess_parameters

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        """`A dx = db - dA x`."""
        (x,), own = results, self._matrix_parameters(operands)
        moved = self.matrix.tangent((x, *own), (None, *self._matrix_parameters(tangents)))
        side = tangents[-1]
        if moved is not None:
            side = -moved if side is None else side - moved
        return [None if side is None else self._solve(self.matrix, self.guess, operands, side)]

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        """`A^T s = c`; `s` is the cotangent of the right side."""
        (x,), (cotangent,), own = results, cotangents, self._matrix_parameters(operands)
        if cotangent is None:
            return [None] * len(operands)
        guess = None if self.guess is None else transposed_function(self.guess)
        s = self._solve(transposed_function(self.matrix), guess, operands, cotangent)
        found = self.matrix.cotangents((x, *own), -s, range(1, 1 + len(own)))
        return [None, *found, *[None] * self.guess_parameters, s]

    def _matrix_parameters(self, operands: Sequence[Any]) -> Sequence[Any]:
        """What belongs to the parameters of the matrix."""
        return operands[1 : len(operands) - 1 - self.guess_parameters]

    def _solve(
        self,
        matrix: VectorFunction,
        guess: VectorFunction | None,
        operands: Sequence[Array],
        b: Array,
    ) -> Array:
        own = self._matrix_parameters(operands)
        besides = operands[1 + len(own) : -1]
        made = solve_linear(
            Closure(matrix, tuple(own)),
            b,
            self.method,
            guess=None if guess is None else Closure(guess, tuple(besides)),
        )
        return or_nan(made.info == 0, made.x)


def transposed_function(matrix: VectorFunction) -> VectorFunction:
    """The transposed of a function that is linear in its first argument."""
    kind, *others = matrix.body.types

    def transposed(c: Array, *parameters: Array) -> Array:
        (found,) = matrix.cotangents((zeros_of(kind), *parameters), c, [0])
        return zeros_of(kind) if found is None else found

    return function_of([matrix.body.result_types[0], *others], transposed)


def solve_linear(
    matrix: Closure,
    b: Array,
    method: Method,
    *,
    x: Array | None = None,
    guess: Closure | None = None,
) -> Outcome:
    """The solution of a linear system, with its derivative."""

    def apply(closure: Closure) -> Apply:
        return lambda v: closure.function(v, *closure.parameters)

    found = method.solve(apply(matrix), b, x, None if guess is None else apply(guess))
    besides = () if guess is None else guess.parameters
    rule = LinearRule(
        matrix.function, None if guess is None else guess.function, len(besides), method
    )
    x = attach_equation(found.x, rule, (*matrix.parameters, *besides, b))
    return Outcome(x, found.info)


# ----------------------------------------------------------------------- methods


@final
class Dense:
    """The whole matrix, factorised; where it is singular the solution is not finite."""

    def solve(self, apply: Apply, b: Array, start: Array | None, guess: Apply | None) -> Outcome:
        matrix = vmap(apply, out_axes=1)(np.eye(b.shape[0], dtype=b.dtype))
        q, r = np.linalg.qr(matrix)
        r = np.where(np.eye(b.shape[0], dtype=bool) & (r == 0), np.nan, r)
        made = np.linalg.solve_triangular(r, np.conj(q.T) @ b)
        return Outcome(made, np.where(np.all(np.isfinite(made)), 0, 1))


@final
class Richardson:
    """Steps `x + (b - A x)`, which converge where `A` is near to the identity."""

    def __init__(self, tol: float, maxiter: int) -> None:
        self.tol, self.maxiter = tol, maxiter

    def solve(self, apply: Apply, b: Array, start: Array | None, guess: Apply | None) -> Outcome:
        def goes_on(state: Any) -> Any:
            x, change, count = state
            return (change > self.tol * (1 + np.max(np.abs(x)))) & (count < self.maxiter)

        def step(state: Any) -> Any:
            x, _, count = state
            change = b - apply(x)
            return x + change, np.max(np.abs(change)), count + 1

        x, change, count = while_loop(goes_on, step, (b, np.inf, 0))
        is_small = change <= self.tol * (1 + np.max(np.abs(x)))
        return Outcome(x, np.where(is_small, 0, count))


@final
class ConjugateGradients:
    """For matrices that are symmetric, or Hermitian, and positive definite."""

    def __init__(self, rtol: float, atol: float, maxiter: int) -> None:
        self.rtol, self.atol, self.maxiter = rtol, atol, maxiter

    def solve(self, apply: Apply, b: Array, start: Array | None, guess: Apply | None) -> Outcome:
        first, r = _begin(apply, b, start)
        limit = residual_limit(b, self.rtol, self.atol)
        improve = guess or _keep

        def goes_on(state: Any) -> Any:
            _, r, _, _, count = state
            return _is_above(_norm(r), limit) & (count < self.maxiter)

        def step(state: Any) -> Any:
            x, r, p, rho, count = state
            q = apply(p)
            length = rho / np.vdot(p, q)
            x, r = x + length * p, r - length * q
            z = improve(r)
            new = np.vdot(r, z)
            return x, r, z + new / rho * p, new, count + 1

        z = improve(r)
        x, r, _, _, count = while_loop(goes_on, step, (first, r, z, np.vdot(r, z), 0))
        return Outcome(x, _info(_norm(r), limit, count))


@final
class GeneralizedResiduals:
    """Minimal residuals over Krylov spaces, started again after some steps."""

    def __init__(self, rtol: float, atol: float, restart: int, maxiter: int) -> None:
        self.rtol, self.atol, self.restart, self.maxiter = rtol, atol, restart, maxiter

    def solve(self, apply: Apply, b: Array, start: Array | None, guess: Apply | None) -> Outcome:
        first, r = _begin(apply, b, start)
        limit = residual_limit(b, self.rtol, self.atol)
        improve = guess or _keep

        def goes_on(state: Any) -> Any:
            _, r, cycles, _ = state
            return _is_above(_norm(r), limit) & (cycles < self.maxiter)

        def improved(v: Array) -> Array:
            return apply(improve(v))

        def cycle(state: Any) -> Any:
            x: Array
            x, r, cycles, count = state
            move, steps = self._minimise(improved, r, limit)
            x = x + improve(move)
            return x, b - apply(x), cycles + 1, count + steps

        x, r, _, count = while_loop(goes_on, cycle, (first, r, 0, 0))
        return Outcome(x, _info(_norm(r), limit, count))

    def _minimise(self, apply: Apply, r: Array, limit: Array) -> tuple[Array, Array]:
        """What to add to make a residual smallest within a Krylov space, and the steps taken.

        The columns of the small system are made triangular by rotations as they come; `rotation`
        is all of them.
        """
        m, size = self.restart, _norm(r)
        number = np.arange(m)
        basis = np.zeros((m + 1, r.shape[0]), r.dtype).at[0].set(r / size)
        triangle, rotation = np.eye(m, dtype=r.dtype), np.eye(m + 1, dtype=r.dtype)

        def goes_on(state: Any) -> Any:
            j, _, _, rotation = state
            return (j < m) & _is_above(size * np.abs(rotation[j, 0]), limit)

        def step(state: Any) -> Any:
            j, basis, triangle, rotation = state
            column, rest = _orthogonalise(basis, apply(basis[j]))
            length = _norm(rest)
            basis = basis.at[j + 1].set(rest / np.where(length > 0, length, 1))
            turned = (rotation @ column)[:m]
            a = turned[j]
            whole = np.hypot(np.abs(a), length)
            whole = np.where(whole > 0, whole, 1)  # else the matrix is singular, and this no way
            turned = np.where(number < j, turned, np.where(number == j, whole + a * 0, 0))
            one, other = rotation[j], rotation[j + 1]
            rotation = rotation.at[j].set((np.conj(a) * one + length * other) / whole)
            rotation = rotation.at[j + 1].set((a * other - length * one) / whole)
            return j + 1, basis, triangle.at[:, j].set(turned), rotation

        count, basis, triangle, rotation = while_loop(goes_on, step, (0, basis, triangle, rotation))
        side = np.where(number < count, size * rotation[:m, 0], 0)
        return np.linalg.solve_triangular(triangle, side) @ basis[:m], count


def _begin(apply: Apply, b: Array, start: Array | None) -> tuple[Array, Array]:
    """The first solution, zero unless there is one, and its residual."""
    return (np.zeros_like(b), b) if start is None else (start, b - apply(start))


def _keep(v: Array) -> Array:
    return v


def _orthogonalise(basis: Array, v: Array) -> tuple[Array, Array]:
    """The coordinates of a vector in a basis, and what is left of it; twice, for all digits."""
    adjoint = np.conj(basis)
    column = adjoint @ v
    rest = v - column @ basis
    more = adjoint @ rest
    return column + more, rest - more @ basis


def _norm(x: Array) -> Array:
    return np.linalg.vector_norm(x)


def _is_above(residual: Array, limit: Array) -> Array:
    """Whether a residual is too large; not where it is no number, or infinite."""
    return (residual > limit) & np.isfinite(residual)


def residual_limit(b: Array, rtol: float, atol: float) -> Array:
    """The norm of a residual that is small enough."""
    return np.maximum(rtol * _norm(b), atol)


def _info(residual: Array, limit: Array, count: Array) -> Array:
    info: Array = np.where(residual <= limit, 0, np.maximum(count, 1))
    return info


# --------------------------------------------------------------- public functions


@explain_bad_calls
def cg(
    A: ArrayLike | Callable[[Any], Any],  # noqa: N803  (SciPy's names)
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: ArrayLike | Callable[[Any], Any] | None = None,  # noqa: N803
) -> tuple[Any, Array]:
    """The `x` of `A x = b` by conjugate gradients, as `scipy.sparse.linalg.cg` finds it.

    - `A`: a matrix, or a function that multiplies by it; symmetric (Hermitian, if complex) and
      positive definite.
    - `b`: the right side: a vector or, where `A` is a function, a nested structure of arrays.
    - `x0`: where to begin, like `b`; by default at zero.
    - `rtol`, `atol`: it ends where `norm(b - A x) <= max(rtol * norm(b), atol)`.
    - `maxiter`: the most steps; by default 10 for each unknown.
    - `M`: a matrix, or a function, that is nearly the inverse of `A`: a preconditioner.

    Gives `x, info`; info is 0, or the number of steps where the tolerance was not met: then x is as
    far as it came.  The derivative is that of the system, in `b` and in all that `A` is made of;
    systems that it is solved by have the same tolerance, and give NaN where it is not met.

        A = numpy.array([[4.0, 1.0], [1.0, 3.0]])
        x, info = tw.solve.cg(A, numpy.array([1.0, 2.0]))
        x.numpy().round(4).tolist(), int(info)        # -> ([0.0909, 0.6364], 0)
    """
    limits = as_tolerance("cg", "rtol", rtol, 0.0), as_tolerance("cg", "atol", atol, 0.0)
    return _solve_system(
        *("cg", A, b, x0, M),
        lambda size: ConjugateGradients(*limits, _count("cg", "maxiter", maxiter, 10 * size)),
    )


@explain_bad_calls
def gmres(
    A: ArrayLike | Callable[[Any], Any],  # noqa: N803
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: ArrayLike | Callable[[Any], Any] | None = None,  # noqa: N803
) -> tuple[Any, Array]:
    """The `x` of `A x = b` by generalised minimal residuals, as `scipy.sparse.linalg.gmres`.

    - `A`: a matrix, or a function that multiplies by it.
    - `b`: the right side: a vector or, where `A` is a function, a nested structure of arrays.
    - `x0`: where to begin, like `b`; by default at zero.
    - `rtol`, `atol`: it ends where `norm(b - A x) <= max(rtol * norm(b), atol)`.
    - `restart`: the steps after which it begins anew, whose vectors are kept; by default 20.
    - `maxiter`: the most times that it begins; by default 10 for each unknown.
    - `M`: a matrix, or a function, that is nearly the inverse of `A`: a preconditioner.

    Gives `x, info`; info is 0, or the number of steps where the tolerance was not met: then x is as
    far as it came.  The derivative is that of the system, in `b` and in all that `A` is made of;
    systems that it is solved by have the same tolerance, and give NaN where it is not met.

        A = numpy.array([[1.0, 2.0], [-1.0, 3.0]])
        x, info = tw.solve.gmres(lambda v: A @ v, numpy.array([5.0, 5.0]))
        x.numpy().round(4).tolist(), int(info)        # -> ([1.0, 2.0], 0)
    """
    limits = as_tolerance("gmres", "rtol", rtol, 0.0), as_tolerance("gmres", "atol", atol, 0.0)

    def method(size: int) -> Method:
        most = _count("gmres", "maxiter", maxiter, 10 * size)
        steps = min(_count("gmres", "restart", restart, 20), size)
        return GeneralizedResiduals(*limits, steps, most)

    return _solve_system("gmres", A, b, x0, M, method)


def _solve_system(
    op: str, matrix: Any, b: Any, x0: Any, guess: Any, method: Callable[[int], Method]
) -> tuple[Any, Array]:
    if not isinstance(b, (tuple, list, dict)) and not callable(matrix):
        node = lift(b, op)
        b = wrap(convert_node(node, dt.promote(lift(matrix, op).dtype, node.dtype)))
    packing = Packing(op, "b", b)
    made = _operator(op, "A", matrix, packing)
    nearly = None if guess is None else _operator(op, "M", guess, packing)
    first = None if x0 is None else packing.pack(x0, "x0 is")
    size = packing.vector.shape[0]
    found = solve_linear(made, packing.vector, method(size), x=first, guess=nearly)
    return packing.unpack(found.x), found.info


def _operator(op: str, word: str, matrix: Any, packing: Packing) -> Closure:
    """A matrix, or a function, as a function of vectors."""
    size = packing.vector.shape[0]
    if callable(matrix):
        function, said = matrix, f"what {word} gives is"
    else:
        function, said = _product(op, word, matrix, packing), f"the product with {word} is"

    def apply(v: Array) -> Array:
        return packing.pack(function(packing.unpack(v)), said)

    return trace_function(op, [((size,), packing.dtype)], apply)


def _product(op: str, word: str, matrix: Any, packing: Packing) -> Callable[[Array], Array]:
    node, types = lift(matrix, op), packing.types
    if len(types) != 1 or len(types[0][0]) != 1:
        raise value_error(
            op,
            f"b is no vector, so that {word} must be a function of such a structure; for several "
            "right sides map it with tw.vmap",
        )
    (size,) = types[0][0]
    if node.shape != (size, size):
        raise value_error(
            op, f"{word} has shape {node.shape}; it must be {(size, size)} for b of shape {(size,)}"
        )
    return lambda v: wrap(node) @ v


def _count(op: str, word: str, given: int | None, default: int) -> int:
    """A number of steps, at least 1."""
    if given is None:
        return default
    count = as_int(given, op, word)
    if count < 1:
        raise value_error(op, f"{word} is {count}; it must be at least 1")
    return count
