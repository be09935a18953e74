"""Derivatives of factorisations, linear systems and matrix equations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from gradient_rows import (
    Function,
    adjoint,
    both,
    check,
    drawn,
    joined,
    named,
    of_regular,
    regular,
    rows,
    unchecked,
)
from tawny.testing import check_grads

la = tnp.linalg
SQUARE = ((3, 3), (2, 3, 3), (1, 1), (0, 0), (0, 2, 2))
OBLONG = ((3, 3), (4, 2), (2, 4), (2, 4, 3), (2, 3, 4), (1, 3), (3, 1), (3, 0), (0, 2))


def definite(x: Any) -> Any:
    """A positive definite matrix."""
    return x @ adjoint(x) + tnp.eye(x.shape[-1])


def symmetric(x: Any) -> Any:
    """A self-adjoint matrix."""
    return x + adjoint(x)


def scaled(vectors: Any, values: Any) -> Any:
    """Columns multiplied by a function of the values that belong to them."""
    return vectors * tnp.expand_dims(tnp.exp(values * 0.3), axis=-2)


# ------------------------------------------------------------ determinants and systems


INVERSES = joined(
    *(
        of_regular(name, named(f"linalg.{name}"), s)
        for s in SQUARE
        for name in ("inv", "det", "logdet")
    ),
    *(of_regular("slogdet", lambda x: tuple(la.slogdet(x)), s) for s in SQUARE),
    *(of_regular("slogdet size", lambda x: la.slogdet(x).logabsdet, s) for s in SQUARE),
)


@rows(INVERSES)
def test_inverses_and_determinants(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


SYSTEMS = [
    ((3, 3), (3,)),
    ((3, 3), (3, 2)),
    ((2, 3, 3), (3,)),
    ((2, 3, 3), (3, 2)),
    ((3, 3), (2, 3, 2)),
    ((2, 1, 3, 3), (4, 3, 2)),
    ((0, 0), (0,)),
    ((3, 3), (3, 0)),
]


SOLVE = joined(*(of_regular("solve", la.solve, a, b) for a, b in SYSTEMS))


@rows(SOLVE)
def test_systems(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


TRIANGULAR = joined(
    *(
        of_regular(
            f"solve_triangular, lower={lower}, trans={trans}, unit={unit}",
            lambda x, y, o={"lower": lower, "trans": trans, "unit_diagonal": unit}: (
                la.solve_triangular(x, y, **o)
            ),
            a,
            b,
        )
        for lower, trans, unit in itertools.product((False, True), (0, 1, 2), (False, True))
        for a, b in (SYSTEMS[0], SYSTEMS[2], SYSTEMS[5])
    )
)


@rows(TRIANGULAR)
def test_triangular_systems(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_what_a_triangular_system_does_not_read_has_no_slope(lower: bool, unit: bool) -> None:
    matrix, right = regular(3, 3), drawn(3)
    slope = tw.grad(
        lambda x: tnp.sum(la.solve_triangular(x, right, lower=lower, unit_diagonal=unit))
    )(matrix).numpy()
    read = np.tril(np.ones((3, 3)), -int(unit))
    np.testing.assert_array_equal(slope != 0, read if lower else read.T)


# -------------------------------------------------------------------- self-adjoint


def eigen_functions(x: Any, triangle: Any = "L") -> tuple[Any, ...]:
    """What does not depend on the phases of eigenvectors."""
    values, vectors = la.eigh(symmetric(x), UPLO=triangle)
    return values, tnp.abs(vectors), scaled(vectors, values) @ adjoint(vectors)


SELF_ADJOINT = joined(
    *(of_regular("cholesky", lambda x: la.cholesky(definite(x)), s) for s in SQUARE),
    of_regular("cholesky, upper", lambda x: la.cholesky(definite(x), upper=True), (2, 3, 3)),
    *(of_regular("eigvalsh", lambda x: la.eigvalsh(symmetric(x)), s) for s in SQUARE),
    of_regular("eigvalsh, upper", lambda x: la.eigvalsh(symmetric(x), UPLO="U"), (2, 3, 3)),
    *(of_regular("eigh", eigen_functions, s) for s in SQUARE),
    of_regular("eigh, upper", lambda x: eigen_functions(x, "U"), (2, 3, 3)),
    *(of_regular("eigh, real", lambda x: tuple(la.eigh(symmetric(x))), s)[:1] for s in SQUARE),
)


@rows(SELF_ADJOINT)
def test_self_adjoint_matrices(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("upper", [False, True])
def test_both_triangles_share_the_slope_of_a_self_adjoint_matrix(upper: bool, dtype: str) -> None:
    """Though one triangle alone is read, and a change of it alone is taken for half a change."""
    n, weights = 3, drawn(3, 3, dtype=dtype)
    half = regular(n, n, dtype=dtype)
    x = half @ half.conj().T + np.eye(n)
    functions: list[Function] = [
        lambda a: la.cholesky(a, upper=upper) * weights,
        lambda a: la.eigvalsh(a, UPLO="U" if upper else "L") * weights[0],
        lambda a: tnp.abs(la.eigh(a, UPLO="U" if upper else "L").eigenvectors) * weights,
    ]
    change = drawn(n, n, dtype=dtype)
    for function in functions:
        loss = lambda a, f=function: tnp.sum(tnp.real(f(a)))  # noqa: E731
        slope = tw.grad(loss)(x).numpy()
        np.testing.assert_allclose(slope, slope.conj().T, atol=1e-12)
        through = tw.grad(lambda a, f=loss: f((a + adjoint(a)) / 2))(x).numpy()
        np.testing.assert_allclose(slope, through, atol=1e-12)
        _, whole = tw.jvp(loss, [x], [change])
        _, shared = tw.jvp(loss, [x], [(change + change.conj().T) / 2])
        np.testing.assert_allclose(whole.numpy(), shared.numpy())


def test_equal_eigenvalues_that_are_treated_alike() -> None:
    np.testing.assert_allclose(
        tw.grad(lambda x: tnp.sum(la.eigvalsh(x) ** 2))(2 * np.eye(3)).numpy(), 4 * np.eye(3)
    )
    np.testing.assert_allclose(
        tw.grad(lambda x: tnp.sum(la.eigh(x).eigenvalues))(np.eye(3)).numpy(), np.eye(3)
    )
    rotation = np.array([[0.6, -0.8], [0.8, 0.6]])
    np.testing.assert_allclose(
        tw.grad(lambda x: la.matrix_norm(x, ord="nuc"))(rotation).numpy(), rotation
    )
    np.testing.assert_allclose(
        tw.grad(lambda x: tnp.sum(tnp.real(la.eigvals(x))))(3 * np.eye(3)).numpy(), np.eye(3)
    )


@pytest.mark.parametrize(
    "function",
    [lambda x: la.eigh(x).eigenvectors, lambda x: la.svd(x).U, lambda x: la.eig(x).eigenvectors],
)
def test_vectors_of_equal_values_have_no_derivative(function: Function) -> None:
    with np.errstate(all="ignore"):
        weights = drawn(3, 3)
        slope = tw.grad(lambda x: tnp.sum(tnp.real(function(x)) * weights))(np.eye(3)).numpy()
    assert not np.isfinite(slope).all()


# ----------------------------------------------------------------------- general


EIGENVALUES = joined(
    *(of_regular("eigvals", la.eigvals, s) for s in SQUARE if 0 not in s),
    *(of_regular("eig", lambda x: tuple(la.eig(x)), s) for s in SQUARE if 0 not in s),
    both("eig of complex pairs", lambda x: tuple(la.eig(x - 2 * tnp.matrix_transpose(x))), (4, 4)),
)


@rows(EIGENVALUES)
def test_eigenvalues(function: Function, args: tuple[Any, ...]) -> None:
    """Eigenvectors included as LAPACK scales them, whatever is made of them."""
    check(function, args)


def qr_functions(x: Any) -> tuple[Any, ...]:
    """What does not depend on how a complete basis is completed."""
    q, r = la.qr(x, mode="complete")
    count = min(x.shape[-2:])
    beyond = q[..., count:]
    return r, q[..., :count], beyond @ adjoint(beyond)


TRIANGLES = joined(
    *(of_regular("qr", lambda x: tuple(la.qr(x)), s) for s in OBLONG),
    *(of_regular("qr, complete", qr_functions, s) for s in OBLONG),
    *(of_regular("lq", lambda x: tuple(la.lq(x)), s) for s in OBLONG),
)


@rows(TRIANGLES)
def test_orthogonal_triangles(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


def svd_functions(x: Any, full: bool) -> tuple[Any, ...]:
    """What does not depend on phases nor on how a basis is completed."""
    u, s, vh = la.svd(x, full_matrices=full)
    count = s.shape[-1]
    left, right = u[..., count:], vh[..., count:, :]
    return (
        s,
        scaled(u[..., :count], s) @ vh[..., :count, :],
        tnp.abs(u[..., :count]),
        tnp.abs(vh[..., :count, :]),
        left @ adjoint(left),
        adjoint(right) @ right,
    )


SINGULAR = joined(
    *(of_regular("svdvals", la.svdvals, s) for s in OBLONG),
    *(of_regular("svd", lambda x: svd_functions(x, False), s) for s in OBLONG),
    *(of_regular("svd, full", lambda x: svd_functions(x, True), s) for s in OBLONG),
    *(
        of_regular("svd, real", lambda x: tuple(la.svd(x, full_matrices=False)), s)[:1]
        for s in OBLONG
    ),
)


@rows(SINGULAR)
def test_singular_values(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


# ---------------------------------------------------------------------- equations


def riccati(name: str) -> Function:
    """The solution for any `q` and `r`, which are made self-adjoint and definite."""
    solver = named(f"linalg.{name}")
    return lambda a, b, q, r: solver(a, b, definite(q), definite(r))


EQUATIONS = joined(
    of_regular("sylvester", la.sylvester, (3, 3), (2, 2), (3, 2)),
    of_regular("lyapunov", la.lyapunov, (3, 3), (3, 3)),
    of_regular("discrete_lyapunov", lambda a, q: la.discrete_lyapunov(a / 4, q), (3, 3), (3, 3)),
    of_regular(
        "discrete_lyapunov", lambda a, q: la.discrete_lyapunov(a / 40, q), (11, 11), (11, 11)
    )[:1],
    of_regular("care", riccati("care"), (3, 3), (3, 2), (3, 3), (2, 2)),
    of_regular("dare", riccati("dare"), (3, 3), (3, 2), (3, 3), (2, 2)),
)


@rows(EQUATIONS)
def test_equations(function: Function, args: tuple[Any, ...]) -> None:
    check(function, args)


@pytest.mark.parametrize("name", ["care", "dare"])
def test_each_coefficient_of_a_riccati_equation_alone(name: str) -> None:
    args = [regular(3, 3), regular(3, 2), regular(3, 3), regular(2, 2)]
    function = riccati(name)
    for i in range(4):
        check(lambda x, i=i: function(*args[:i], x, *args[i + 1 :]), (args[i],))


def test_weights_of_a_riccati_equation_have_self_adjoint_slopes() -> None:
    a, b, q, r = regular(3, 3), regular(3, 2), np.eye(3), np.eye(2)
    weights = drawn(3, 3)
    for solver in (la.care, la.dare):
        slopes = tw.grad(lambda q, r, f=solver: tnp.sum(f(a, b, q, r) * weights), argnums=(0, 1))(
            q, r
        )
        for slope in slopes:
            np.testing.assert_allclose(slope.numpy(), slope.numpy().T, atol=1e-12)


# --------------------------------------------------------- precision, zeros, errors


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_single_precision(dtype: str) -> None:
    x, b = regular(3, 3, dtype=dtype), drawn(3, dtype=dtype)
    functions: list[Function] = [
        la.inv, la.det, la.svdvals,
        lambda a: la.cholesky(definite(a)),
        lambda a: la.eigvalsh(symmetric(a)),
        lambda a: la.qr(a).R,
        lambda a: la.solve(a, b),
    ]  # fmt: skip
    for function in functions:
        check_grads(function, (x,), order=1)
        slope = tw.grad(lambda a, f=function: tnp.sum(tnp.abs(f(a))))(x)
        assert slope.dtype == np.dtype(dtype)


def test_the_sign_of_a_real_determinant_has_no_slope() -> None:
    slope = tw.grad(lambda x: tnp.sum(x) * la.slogdet(x).sign)(-np.eye(3)).numpy()
    np.testing.assert_array_equal(slope, -np.ones((3, 3)))


@pytest.mark.parametrize("function", [la.det, la.inv, lambda x: la.qr(x).Q[0, 0]])
def test_singular_matrices_are_refused(function: Function) -> None:
    slope = tw.grad(lambda x: tnp.sum(function(x)))(np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError):
        slope.numpy()


def test_third_order() -> None:
    x, b = regular(2, 2), drawn(2)
    for function in (
        lambda a: la.solve(a, b),
        lambda a: la.cholesky(definite(a)),
        lambda a: la.eigvalsh(symmetric(a)),
        la.pinv,
    ):
        check_grads(function, (x,), order=3, rtol=1e-5, atol=1e-5)


# --------------------------------------------------------------------- completeness


TABLES = (
    INVERSES, SOLVE, TRIANGULAR, SELF_ADJOINT, EIGENVALUES, TRIANGLES, SINGULAR, EQUATIONS,
)  # fmt: skip


def test_every_public_function_is_checked() -> None:
    assert unchecked(joined(*TABLES), "systems", "eigenvalues", "factorisation", "equations") == []
