"""Native kernels of small systems of equations: NumPy's values, its errors, and the same bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp

SIZES = [1, 2, 3, 8, 9, 33, 64, 70]
STACKS = [(), (3,), (1, 2), (2, 1, 3)]
ROUNDING = {"float64": 1e-10, "float32": 2e-4}


def matrices(rng: np.random.Generator, stack: tuple[int, ...], n: int, dtype: str) -> np.ndarray:
    """Well-conditioned matrices whose rows must be exchanged."""
    random = rng.normal(size=(*stack, n, n)) / n**0.5 + 2 * np.eye(n)
    return random[..., rng.permutation(n), :].astype(dtype)


def definite(x: np.ndarray) -> np.ndarray:
    return (x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1])).astype(x.dtype)


def run(
    f: Callable[..., Any], *values: np.ndarray, engine: str = "cpu", threads: int | None = None
) -> tuple[tw.Program, list[np.ndarray]]:
    names = [tw.var(f"v{i}", shape=v.shape, dtype=v.dtype) for i, v in enumerate(values)]
    outputs = f(*names)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    program = tw.Graph(names, outputs).compile(engine, threads=threads)
    return program, list(program(*values))


def by_numpy(program: tw.Program) -> bool:
    return "by NumPy" in str(program.plan)


ONE = {
    "inv": (tnp.linalg.inv, np.linalg.inv, lambda x: x),
    "det": (tnp.linalg.det, np.linalg.det, lambda x: x),
    "slogdet": (tnp.linalg.slogdet, np.linalg.slogdet, lambda x: x),
    "cholesky": (tnp.linalg.cholesky, np.linalg.cholesky, definite),
    "cholesky upper": (
        lambda x: tnp.linalg.cholesky(x, upper=True),
        lambda x: np.linalg.cholesky(x, upper=True),
        definite,
    ),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_matrix_agree_with_numpy(name: str, dtype: str) -> None:
    ours, theirs, prepare = ONE[name]
    rng = np.random.default_rng(3)
    for n, stack in itertools.product(SIZES, STACKS):
        x = prepare(matrices(rng, stack, n, dtype))
        program, found = run(ours, x)
        assert not by_numpy(program) or n > 64
        expected = theirs(x.astype("float64"))
        expected = expected if isinstance(expected, tuple) else [expected]
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_views_are_read_where_they_lie(dtype: str) -> None:
    x = matrices(np.random.default_rng(5), (4,), 9, dtype)
    for view in (
        lambda a: tnp.matrix_transpose(a),
        lambda a: a[::2],
        lambda a: a[:, ::-1, ::-1],
        lambda a: tnp.broadcast_to(a[0], (3, 9, 9)),
        lambda a: a[:, 1:6, 2:7],
    ):
        for ours, theirs, _ in (ONE["inv"], ONE["det"]):
            program, (found,) = run(lambda a, f=ours, v=view: f(v(a)), x)
            assert not by_numpy(program)
            expected = theirs(np.asarray(view(tnp.asarray(x)).numpy(), "float64"))
            np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("left", "right"),
    [((), ()), ((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (1, 4)), ((5, 1, 2), (3, 1))],
)
def test_systems_on_their_common_stack(
    left: tuple[int, ...], right: tuple[int, ...], dtype: str
) -> None:
    rng = np.random.default_rng(7)
    for n, columns in itertools.product((1, 2, 5, 17, 40), (1, 2, 8, 30)):
        a = matrices(rng, left, n, dtype)
        b = rng.normal(size=(*right, n, columns)).astype(dtype)
        program, (found,) = run(tnp.linalg.solve, a, b)
        assert not by_numpy(program)
        expected = np.linalg.solve(a.astype("float64"), b.astype("float64"))
        np.testing.assert_allclose(found, expected, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])
        vector = rng.normal(size=n).astype(dtype)
        program, (found,) = run(tnp.linalg.solve, a, vector)
        expected = np.linalg.solve(a.astype("float64"), vector.astype("float64"))
        np.testing.assert_allclose(found, expected, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("lower", "trans", "unit"), [*itertools.product((False, True), (0, 1, 2), (False, True))]
)
def test_triangles_of_every_kind(lower: bool, trans: int, unit: bool, dtype: str) -> None:
    rng = np.random.default_rng(11)

    def solved(a: Any, b: Any) -> Any:
        return tnp.linalg.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit)

    for n, columns, stack in itertools.product((1, 2, 9, 40), (0, 1, 3, 70), ((), (3,))):
        a = (rng.normal(size=(*stack, n, n)) / n + 2 * np.eye(n)).astype(dtype)
        shape = (*stack, n, columns) if columns else (n,)
        b = rng.normal(size=shape).astype(dtype)
        triangle = np.tril(a) if lower else np.triu(a)
        if unit:
            triangle[..., range(n), range(n)] = 1
        if trans:
            triangle = np.swapaxes(triangle, -1, -2)
        expected = np.linalg.solve(triangle.astype("float64"), b.astype("float64"))
        for view in (False, True):
            given = np.ascontiguousarray(np.swapaxes(a, -1, -2)) if view else a
            f = (lambda x, y: solved(tnp.matrix_transpose(x), y)) if view else solved
            program, (found,) = run(f, given, b)
            assert not by_numpy(program)
            np.testing.assert_allclose(found, expected, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])


# ------------------------------------------------------------------- exceptions


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("inv", np.zeros((3, 3))),
        ("inv", np.ones((4, 4))),
        ("cholesky", -np.eye(3)),
        ("cholesky", np.array([[1.0, 2.0], [2.0, 1.0]])),
        ("cholesky upper", np.zeros((2, 2))),
    ],
)
def test_singular_matrices_are_refused_with_the_users_line(
    name: str, x: np.ndarray, engine: str
) -> None:
    with pytest.raises(np.linalg.LinAlgError, match=r"test_cpu_factorisation\.py:\d+"):
        run(ONE[name][0], x, engine=engine)
    with pytest.raises(np.linalg.LinAlgError, match=r"test_cpu_factorisation\.py:\d+"):
        run(ONE[name][0], np.stack([definite(np.eye(len(x))), x]), engine=engine)


def test_a_program_runs_on_after_a_singular_matrix(engine: str) -> None:
    x, b = tw.var("x", shape=(3, 3)), tw.var("b", shape=(3,))
    for f in (tnp.linalg.solve, lambda a, c: tnp.linalg.solve_triangular(a, c, lower=True)):
        program = tw.Graph([x, b], [f(x, b)]).compile(engine)
        right = np.arange(3.0)
        with pytest.raises(np.linalg.LinAlgError):
            program(np.zeros((3, 3)), right)
        np.testing.assert_array_equal(program(np.eye(3) * 2, right)[0], right / 2)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["inv", "det", "slogdet"])
def test_odd_numbers_give_what_lapack_gives(name: str, special: float) -> None:
    ours, theirs, _ = ONE[name]
    for place in ((0, 0), (1, 2), (2, 2)):
        x = np.array([[4.0, 1, 2], [1, 5, 3], [2, 1, 6]])
        x[place] = special
        with np.errstate(all="ignore"):
            try:
                expected = theirs(x)
            except np.linalg.LinAlgError:
                with pytest.raises(np.linalg.LinAlgError):
                    run(ours, x)
                continue
        expected = expected if isinstance(expected, tuple) else [expected]
        _, found = run(ours, x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.isnan(a), np.isnan(b))


def test_determinants_of_singular_and_of_very_large_or_small_matrices() -> None:
    for x in (np.zeros((3, 3)), np.ones((3, 3)), np.eye(3) * 1e150, np.eye(4) * 1e-120):
        (found,) = run(tnp.linalg.det, x)[1]
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(found, np.linalg.det(x), rtol=1e-12)
        sign, logarithm = run(tnp.linalg.slogdet, x)[1]
        expected = np.linalg.slogdet(x)
        np.testing.assert_allclose(sign, expected.sign)
        np.testing.assert_allclose(logarithm, expected.logabsdet, rtol=1e-12)


def test_complex_matrices_are_lapacks() -> None:
    x = matrices(np.random.default_rng(0), (), 4, "float64") * (1 + 1j)
    program, (found,) = run(tnp.linalg.inv, x)
    assert by_numpy(program)
    np.testing.assert_allclose(found, np.linalg.inv(x))


@pytest.mark.parametrize("name", ONE)
def test_bits_do_not_depend_on_threads(name: str) -> None:
    ours, _, prepare = ONE[name]
    x = prepare(matrices(np.random.default_rng(1), (200,), 12, "float64"))
    one = run(ours, x, threads=1)[1]
    for threads in (2, 3):
        for a, b in zip(one, run(ours, x, threads=threads)[1], strict=True):
            np.testing.assert_array_equal(a, b)


def test_bits_of_triangles_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(1)
    a, b = matrices(rng, (), 60, "float64"), rng.normal(size=(60, 500))
    a[range(60), range(60)] += 3
    found = [run(tnp.linalg.solve_triangular, a, b, threads=t)[1][0] for t in (1, 2, 3)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_a_filter_of_small_systems(engine: str) -> None:
    """A Kalman filter: every step is compiled, and the estimates are NumPy's."""
    rng = np.random.default_rng(0)
    moves, sees = np.eye(4) + 0.1 * np.eye(4, k=2), np.eye(2, 4)

    def estimates(xp: Any, seen: Any) -> Any:
        x, spread, out = xp.zeros(4), xp.eye(4), []
        for t in range(30):
            x, spread = moves @ x, moves @ spread @ moves.T + 0.01 * np.eye(4)
            total = sees @ spread @ sees.T + 0.1 * np.eye(2)
            gain = xp.linalg.solve(total, sees @ spread).T
            x, spread = x + gain @ (seen[t] - sees @ x), spread - gain @ sees @ spread
            out.append(x)
        return xp.stack(out)

    seen = rng.normal(size=(30, 2))
    program, (found,) = run(lambda z: estimates(tnp, z), seen, engine=engine)
    assert engine != "cpu" or not by_numpy(program)
    np.testing.assert_allclose(found, estimates(np, seen), rtol=1e-12, atol=1e-14)
