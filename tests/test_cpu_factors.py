"""Factors of large matrices by blocks: as accurate as LAPACK's, the same bits on any threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tawny as tw
import tawny.numpy as tnp
from tawny.array import wrap
from tawny.node import make, make_parts
from tawny.ops.factors import Eliminate, SolveFactored

SIZES = [65, 97, 130, 200]
MULTIPLE = 4
"""How many times larger than LAPACK's an error may be."""


def definite(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float64") -> Any:
    x = rng.normal(size=shape)
    return (x @ np.swapaxes(x, -1, -2) / shape[-1] + 0.1 * np.eye(shape[-1])).astype(dtype)


def program_of(
    f: Callable[..., Any], *values: np.ndarray, engine: str = "cpu", threads: int | None = None
) -> tw.Program:
    names = [tw.var(f"v{i}", shape=v.shape, dtype=v.dtype) for i, v in enumerate(values)]
    return tw.Graph(names, [f(*names)]).compile(engine, threads=threads)


def run(f: Callable[..., Any], *values: np.ndarray, threads: int | None = None) -> np.ndarray:
    program = program_of(f, *values, threads=threads)
    assert "by NumPy" not in str(program.plan)
    (found,) = program(*values)
    return np.asarray(found)


def residual(product: tuple[np.ndarray, np.ndarray], whole: np.ndarray) -> float:
    """How far a product is from what it should be, computed in extended precision."""
    left, right = (x.astype(np.longdouble) for x in product)
    return float(np.abs(left @ right - whole).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_is_as_accurate_as_lapack(upper: bool, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for n in SIZES:
        a = definite(rng, (n, n), dtype)
        ours = run(lambda x: tnp.linalg.cholesky(x, upper=upper), a)
        theirs = np.linalg.cholesky(a, upper=upper)
        triangle = np.triu if upper else np.tril
        np.testing.assert_array_equal(ours, triangle(ours))
        errors = [residual((x.T, x) if upper else (x, x.T), a) for x in (ours, theirs)]
        assert errors[0] <= MULTIPLE * errors[1]


def test_only_one_triangle_is_read() -> None:
    rng = np.random.default_rng(1)
    a = definite(rng, (150, 150))
    for upper, other in ((False, np.triu(np.full_like(a, np.nan), 1)),
                         (True, np.tril(np.full_like(a, np.nan), -1))):  # fmt: skip
        ours = run(lambda x, u=upper: tnp.linalg.cholesky(x, upper=u), a + other)
        np.testing.assert_allclose(ours, np.linalg.cholesky(a, upper=upper), rtol=0, atol=1e-13)


def test_stacks_and_views_of_large_matrices() -> None:
    rng = np.random.default_rng(2)
    a, b = definite(rng, (2, 3, 90, 90)), rng.normal(size=(2, 1, 100, 20))
    found = run(tnp.linalg.cholesky, a)
    np.testing.assert_allclose(found, np.linalg.cholesky(a), rtol=0, atol=1e-12)
    wide = definite(rng, (200, 200))
    for view in (lambda x: x[::2, ::2], lambda x: x[::-1, ::-1], tnp.matrix_transpose):
        found = run(lambda x, v=view: tnp.linalg.cholesky(v(x)), wide)
        expected = np.linalg.cholesky(view(tnp.asarray(wide)).numpy())
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    triangle = np.linalg.cholesky(definite(rng, (3, 100, 100)))
    found = run(lambda t, x: tnp.linalg.solve_triangular(t, x, lower=True), triangle, b)
    np.testing.assert_allclose(triangle @ found, np.broadcast_to(b, found.shape), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_systems_are_as_accurate_as_lapack(
    lower: bool, transposed: int, dtype: str
) -> None:
    rng = np.random.default_rng(3)
    for n, columns in ((97, 16), (130, 33), (200, 97)):
        a = np.linalg.cholesky(definite(rng, (n, n))).astype(dtype)
        a = a if lower else np.ascontiguousarray(a.T)
        b = rng.normal(size=(columns, n)).astype(dtype).T
        ours = run(
            lambda t, x: tnp.linalg.solve_triangular(
                t, tnp.matrix_transpose(x), lower=lower, trans=transposed
            ),
            *(a, np.ascontiguousarray(b.T)),
        )
        whole = a.T if transposed else a
        theirs = scipy.linalg.solve_triangular(whole, b, lower=lower != bool(transposed))
        errors = [residual((whole, x), b) for x in (ours, theirs)]
        assert errors[0] <= MULTIPLE * errors[1]


def test_bits_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(4)
    a, b = definite(rng, (210, 210)), rng.normal(size=(210, 70))
    for f, values in (
        (tnp.linalg.cholesky, (a,)),
        (lambda t, x: tnp.linalg.solve_triangular(t, x, lower=True), (np.linalg.cholesky(a), b)),
    ):
        one = run(f, *values, threads=1)
        for threads in (2, 3):
            np.testing.assert_array_equal(one, run(f, *values, threads=threads))


def test_the_user_hears_where_a_large_matrix_has_no_factor(engine: str) -> None:
    rng = np.random.default_rng(5)
    a = definite(rng, (150, 150))
    program = program_of(tnp.linalg.cholesky, a, engine=engine)
    for place in (0, 70, 149):
        broken = a.copy()
        broken[place, place] = -1
        with pytest.raises(np.linalg.LinAlgError, match=r"test_cpu_factors\.py:\d+"):
            program(broken)
    np.testing.assert_allclose(program(a)[0], np.linalg.cholesky(a), atol=1e-12)
    triangle = np.linalg.cholesky(a)
    triangle[80, 80] = 0
    right = rng.normal(size=(150, 30))
    solved = program_of(
        lambda t, x: tnp.linalg.solve_triangular(t, x, lower=True), triangle, right, engine=engine
    )
    with pytest.raises(np.linalg.LinAlgError, match=r"test_cpu_factors\.py:\d+"):
        solved(triangle, right)


# ---------------------------------------------------------------------- elimination


def general(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float64") -> Any:
    """Matrices whose rows must be exchanged."""
    return rng.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_systems_and_inverses_are_as_accurate_as_lapack(dtype: str) -> None:
    rng = np.random.default_rng(6)
    for n in SIZES:
        a, b = general(rng, (n, n), dtype), general(rng, (n, 7), dtype)
        for f, theirs, values, whole in (
            (tnp.linalg.solve, np.linalg.solve(a, b), (a, b), b),
            (tnp.linalg.solve, np.linalg.solve(a, b[:, 0]), (a, b[:, 0].copy()), b[:, 0]),
            (tnp.linalg.inv, np.linalg.inv(a), (a,), np.eye(n)),
        ):
            ours = run(f, *values)
            assert ours.dtype == dtype
            errors = [residual((a, x), whole) for x in (ours, theirs)]
            assert errors[0] <= MULTIPLE * errors[1]


def test_determinants_by_factors() -> None:
    rng = np.random.default_rng(7)
    for n in SIZES:
        a = general(rng, (n, n)) / n**0.5
        expected = np.linalg.slogdet(a)
        sign = run(lambda x: tnp.linalg.slogdet(x)[0], a)
        size = run(lambda x: tnp.linalg.slogdet(x)[1], a)
        assert sign == expected.sign
        np.testing.assert_allclose(size, expected.logabsdet, rtol=1e-12)
        np.testing.assert_allclose(run(tnp.linalg.det, a), np.linalg.det(a), rtol=1e-10)
    zero = np.zeros((80, 80))
    assert run(tnp.linalg.det, zero) == 0
    assert run(lambda x: tnp.linalg.slogdet(x)[1], zero) == -np.inf


def steps_of(program: tw.Program) -> list[str]:
    return [step.array.node.name for step in program.plan.steps]


def test_one_elimination_serves_what_reads_one_matrix() -> None:
    rng = np.random.default_rng(8)
    a, b = general(rng, (90, 90)), general(rng, (90, 3))

    def loss(x: Any, y: Any) -> Any:
        solved = tnp.linalg.solve(x, y)
        return tnp.sum(solved * solved) + tnp.linalg.slogdet(x)[1]

    x, y = tw.var("x", shape=(90, 90)), tw.var("y", shape=(90, 3))
    value = loss(x, y)
    outputs = [value, *tw.gradients(value, [x, y])]
    shared = tw.Graph([x, y], outputs).compile()
    assert steps_of(shared).count("eliminate") == 1
    plain = tw.Graph([x, y], outputs).compile("reference")
    assert "eliminate" not in steps_of(plain)
    for ours, theirs in zip(shared(a, b), plain(a, b), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


def test_stacks_of_systems_by_factors() -> None:
    rng = np.random.default_rng(9)
    a, b = general(rng, (2, 3, 70, 70)), general(rng, (2, 3, 70, 4))
    np.testing.assert_allclose(run(tnp.linalg.solve, a, b), np.linalg.solve(a, b), atol=1e-10)
    turned = run(lambda x, y: tnp.linalg.solve(tnp.matrix_transpose(x), y), a, b)
    np.testing.assert_allclose(turned, np.linalg.solve(np.swapaxes(a, -1, -2), b), atol=1e-10)
    np.testing.assert_allclose(run(tnp.linalg.inv, a), np.linalg.inv(a), atol=1e-10)


def test_bits_of_elimination_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(10)
    a = general(rng, (210, 210))
    one = run(tnp.linalg.inv, a, threads=1)
    for threads in (2, 3):
        np.testing.assert_array_equal(one, run(tnp.linalg.inv, a, threads=threads))


def test_the_user_hears_of_large_singular_matrices(engine: str) -> None:
    a, b = general(np.random.default_rng(11), (100, 100)), np.ones((100, 2))
    a[:, 60] = 0
    for f, values in ((tnp.linalg.inv, (a,)), (tnp.linalg.solve, (a, b))):
        program = program_of(f, *values, engine=engine)
        with pytest.raises(np.linalg.LinAlgError, match=r"test_cpu_factors\.py:\d+"):
            program(*values)


def test_kernels_of_factors_agree_with_numpys() -> None:
    rng = np.random.default_rng(12)
    a, b = general(rng, (40, 40)), general(rng, (40, 5))
    x, y = tw.var("x", shape=a.shape), tw.var("y", shape=b.shape)
    factors, exchanges = make_parts(Eliminate(), (x.node,))
    for turned in (False, True):
        solved = wrap(make(SolveFactored(turned), (factors, exchanges, y.node)))
        outputs = [wrap(factors), wrap(exchanges), solved]
        ours, theirs = (tw.Graph([x, y], outputs).compile(e)(a, b) for e in ("cpu", "reference"))
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("op", "types"),
    [
        (Eliminate(), [((3, 3), "float32")]),
        (Eliminate(), [((3, 4), "float64")]),
        (SolveFactored(False), [((3, 3), "float64"), ((2,), "int64"), ((3, 1), "float64")]),
        (SolveFactored(False), [((3, 3), "float64"), ((3,), "float64"), ((3, 1), "float64")]),
    ],
)
def test_factors_that_do_not_fit_are_refused(op: Any, types: Any) -> None:
    given = tuple([tw.var(None, shape=shape, dtype=dtype).node for shape, dtype in types])
    with pytest.raises((TypeError, ValueError, np.linalg.LinAlgError), match="operand"):
        make(op, given)
