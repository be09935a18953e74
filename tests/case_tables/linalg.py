"""Products, factorisations, norms, matrix equations, polynomials."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from cases import COMMON, EVERYTHING, FLOATS, INEXACT, Case

NARROW = (-2.0, 2.0)
LAPACK = ("bool", "int32", "float32", "float64", "complex64", "complex128")


def product(name: str, *shapes, dtypes=EVERYTHING, where="", **options):
    """A product of small numbers, so that integers are exact and floats nearly."""

    def call(xp, *operands):
        space = getattr(xp, where) if where else xp
        return getattr(space, name)(*operands, **options)

    def witness(*operands):
        space = getattr(np, where) if where else np
        return getattr(space, name)(*operands, **options)

    label = f"{where}.{name}" if where else name
    return Case(label, call, witness, shapes, dtypes, NARROW, exact=False)


def einsum(subscripts: str, *shapes, dtypes=COMMON):
    return Case(
        "einsum",
        lambda xp, *x: xp.einsum(subscripts, *x),
        lambda *x: np.einsum(subscripts, *x),
        shapes,
        dtypes,
        NARROW,
        exact=False,
    )


def matrices(dtype: str, *shape: int, definite: bool = False, seed: int = 0) -> np.ndarray:
    """Well-conditioned random matrices; self-adjoint and positive definite if asked for."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.uniform(-1, 1, shape)
    if definite:
        x = x @ np.swapaxes(x.conj(), -1, -2)
    n = min(shape[-2:])
    x[..., range(n), range(n)] += 3
    return x.astype(dtype) if np.dtype(dtype).kind in "fc" else np.rint(x * 3).astype(dtype)


def on_matrices(
    name: str, call, witness, *shapes, dtypes=INEXACT, definite=False, rtol=1e-10, **more
):
    """One case for each dtype and each tuple of operand shapes."""
    for dtype in dtypes:
        for operands in shapes:
            values = [
                matrices(dtype, *s, definite=definite, seed=i) for i, s in enumerate(operands)
            ]
            yield Case(
                name, call, witness, values, [dtype], exact=False, rtol=_loose(dtype, rtol), **more
            )


def _loose(dtype: str, rtol: float) -> float:
    return 2e-4 if dtype in ("float32", "complex64") else rtol


def lapack(name: str, *shapes, dtypes=INEXACT, definite=False, rtol=1e-10, witness=None, **options):
    """A function of `linalg` against NumPy's own."""
    oracle = witness or getattr(np.linalg, name)
    yield from on_matrices(
        f"linalg.{name}",
        lambda xp, *x: getattr(xp.linalg, name)(*x, **options),
        lambda *x: oracle(*x, **options),
        *shapes,
        dtypes=dtypes,
        definite=definite,
        rtol=rtol,
    )


SQUARE = (((4, 4),), ((3, 5, 5),), ((1, 1),), ((0, 0),), ((2, 0, 0),))
TALL = (((5, 3),), ((3, 5),), ((2, 4, 3),), ((4, 4),), ((0, 3),), ((3, 0),))


def complex_eig(x):
    values, vectors = np.linalg.eig(x)
    kind = np.result_type(x.dtype, np.complex64)
    return values.astype(kind), vectors.astype(kind)


def norms():
    for ord in (2, 1, 0, 3, 2.5, -1, np.inf, -np.inf):
        for axis, keepdims in ((None, False), (0, True), ((0, 2), False), (-1, False)):
            options = {"ord": ord, "axis": axis, "keepdims": keepdims}
            yield Case(
                "linalg.vector_norm",
                lambda xp, x, o=options: xp.linalg.vector_norm(x, **o),
                lambda x, o=options: np.linalg.vector_norm(x, **o),
                [(2, 3, 4)],
                ("int32", *INEXACT),
                (1.0, 8.0),
                exact=False,
            )
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        yield from lapack(
            "matrix_norm", ((3, 4, 5),), ((4, 4),), dtypes=LAPACK, ord=ord, keepdims=True
        )
        yield from lapack("matrix_norm", ((3, 4, 5),), ord=ord)
        yield from lapack("norm", ((4, 5),), ord=ord)
        yield from lapack("norm", ((4, 2, 5),), ord=ord, axis=(2, 0), keepdims=True)
    for ord in (1, 2, np.inf, "fro"):
        yield from lapack("matrix_norm", ((0, 2),), ord=ord)
    for axis, ord in ((None, None), (0, None), (1, 3), (-1, np.inf), (1, 0)):
        yield from lapack("norm", ((4, 2, 5),), dtypes=LAPACK, axis=axis, ord=ord)
    for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro"):
        yield from lapack("cond", ((3, 4, 4),), ((3, 3),), p=p, rtol=1e-8)


def triangular(x1, x2, lower=False, trans=0, unit_diagonal=False):
    return scipy.linalg.solve_triangular(
        x1, x2, lower=lower, trans=trans, unit_diagonal=unit_diagonal
    )


def stable(dtype: str, n: int, seed: int = 0) -> np.ndarray:
    """A matrix whose eigenvalues lie inside the unit circle."""
    x = matrices(dtype, n, n, seed=seed)
    return (x / (1.2 * np.abs(np.linalg.eigvals(x)).max())).astype(dtype)


def equations():
    for dtype in INEXACT:
        loose = {"exact": False, "rtol": _loose(dtype, 1e-8)}
        for m, n in ((1, 1), (3, 4), (6, 2), (40, 30)):
            operands = [
                matrices(dtype, m, m),
                matrices(dtype, n, n, seed=1),
                matrices(dtype, m, n, seed=2),
            ]
            yield Case(
                "linalg.sylvester",
                lambda xp, *x: xp.linalg.sylvester(*x),
                scipy.linalg.solve_sylvester,
                operands,
                [dtype],
                **loose,
            )
        for n in (1, 4, 12):
            operands = [stable(dtype, n), matrices(dtype, n, n, seed=1)]
            yield Case(
                "linalg.lyapunov",
                lambda xp, *x: xp.linalg.lyapunov(*x),
                scipy.linalg.solve_continuous_lyapunov,
                operands,
                [dtype],
                **{**loose, "rtol": _loose(dtype, 1e-8) * 10},
            )
            yield Case(
                "linalg.discrete_lyapunov",
                lambda xp, *x: xp.linalg.discrete_lyapunov(*x),
                lambda a, q: scipy.linalg.solve_discrete_lyapunov(a, q).astype(a.dtype),
                operands,
                [dtype],
                **{**loose, "rtol": _loose(dtype, 1e-8) * 10},
            )
    for dtype in ("float64", "complex128"):
        for n, m in ((1, 1), (3, 2), (6, 3)):
            riccati = [
                matrices(dtype, n, n),
                matrices(dtype, n, m, seed=1),
                matrices(dtype, n, n, definite=True, seed=2),
                matrices(dtype, m, m, definite=True, seed=3),
            ]
            for name, witness in (
                ("care", scipy.linalg.solve_continuous_are),
                ("dare", scipy.linalg.solve_discrete_are),
            ):
                yield Case(
                    f"linalg.{name}",
                    lambda xp, *x, n=name: getattr(xp.linalg, n)(*x),
                    witness,
                    riccati,
                    [dtype],
                    exact=False,
                    rtol=1e-8,
                )


def lstsq(a, b):
    x, residuals, rank, s = np.linalg.lstsq(a, b)
    return x, residuals, rank, s


def lq(x):
    q, r = np.linalg.qr(x.conj().swapaxes(-1, -2))
    return r.conj().swapaxes(-1, -2), q.conj().swapaxes(-1, -2)


CASES = [
    # products
    product("matmul", (3, 4), (4, 5)),
    product("matmul", (4,), (4,)),
    product("matmul", (4,), (4, 5)),
    product("matmul", (3, 4), (4,)),
    product("matmul", (4,), (2, 3, 4, 5)),
    product("matmul", (2, 1, 3, 4), (5, 4, 2)),
    product("matmul", (3, 0), (0, 5)),
    product("matmul", (0, 3), (3, 2)),
    product("matmul", (2, 3), (3, 2), where="linalg", dtypes=COMMON),
    Case(
        "matmul", lambda xp, x, y: x @ y, lambda x, y: x @ y, [(3, 4), (4, 2)], INEXACT, exact=False
    ),
    product("tensordot", (3, 4, 5), (4, 5, 2)),
    product("tensordot", (3, 4), (4, 2), axes=1),
    product("tensordot", (3,), (2, 2), axes=0),
    product("tensordot", (3, 4, 5), (5, 3, 2), axes=((0, -1), (1, 0))),
    product("tensordot", (3, 4, 5), (2, 4), axes=(1, -1)),
    product("tensordot", (), (), axes=0),
    product("tensordot", (2, 0), (0, 3), axes=1),
    product("tensordot", (3, 4, 5), (4, 5), where="linalg", dtypes=COMMON),
    product("vecdot", (4,), (4,)),
    product("vecdot", (2, 3, 4), (3, 4)),
    product("vecdot", (3, 1, 4), (2, 4), dtypes=COMMON),
    product("vecdot", (4, 3), (4, 3), axis=0),
    product("vecdot", (3, 0), (3, 0)),
    product("vecdot", (3, 4), (4,), where="linalg", dtypes=COMMON),
    product("matvec", (2, 3, 4), (4,)),
    product("matvec", (3, 4), (5, 4)),
    product("vecmat", (3,), (2, 3, 4)),
    product("vecmat", (5, 3), (3, 4)),
    product("dot", (4,), (4,)),
    product("dot", (), (3, 2)),
    product("dot", (2, 3, 4), (5, 4, 2)),
    product("dot", (2, 3, 4), (4,)),
    product("dot", (4,), (5, 4, 2)),
    product("dot", (3, 4), (4, 2)),
    product("vdot", (3, 4), (3, 4)),
    product("inner", (4,), (4,)),
    product("inner", (2, 3, 4), (5, 4)),
    product("inner", (), (3,)),
    product("outer", (3,), (4,)),
    product("outer", (2, 3), (2, 2)),
    product("outer", (3,), (0,), where="linalg", dtypes=COMMON),
    product("kron", (3,), (4,)),
    product("kron", (2, 3), (4, 2)),
    product("kron", (2,), (3, 1, 2)),
    product("kron", (2, 3, 2), (2,)),
    product("kron", (), (3,)),
    product("cross", (4, 3), (4, 3), dtypes=("int32", *INEXACT)),
    product("cross", (3,), (2, 3), dtypes=("int32", *INEXACT)),
    product("cross", (3, 4), (4, 3), axisa=0, axisc=0, dtypes=COMMON[1:]),
    product("cross", (2, 3, 4), (2, 3, 4), axis=1, dtypes=COMMON[1:]),
    product("cross", (5, 3), (1, 3), where="linalg", dtypes=COMMON[1:]),
    product("cross", (3, 4), (3, 1), where="linalg", dtypes=COMMON[1:], axis=0),
    # einsum
    einsum("ij,jk->ik", (3, 4), (4, 5), dtypes=EVERYTHING),
    einsum("ij,jk", (3, 4), (4, 5)),
    einsum("ba", (3, 4)),
    einsum("ii", (4, 4)),
    einsum("ii->i", (4, 4)),
    einsum("...ii->...i", (2, 4, 4)),
    einsum("ij->", (3, 4)),
    einsum("i,j->ji", (3,), (4,)),
    einsum("i,i", (4,), (4,)),
    einsum("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    einsum("...ij,...jk", (3, 4), (5, 4, 2)),
    einsum("i...,i...->...", (3, 1, 4), (3, 5, 4)),
    einsum("ijk,ilm,njm,nlk,abc->", (2, 3, 2), (2, 2, 3), (4, 3, 3), (4, 2, 2), (2, 2, 2)),
    einsum("aab,bc->ac", (3, 3, 2), (2, 4)),
    einsum(" i j , j -> i ", (3, 4), (4,)),
    einsum(",", (), ()),
    einsum("i,->i", (3,), ()),
    einsum("ij,jk->ik", (3, 1), (4, 5)),
    einsum("ij,jk->ik", (3, 0), (0, 5)),
    einsum("Ab,bC->CA", (3, 4), (4, 5)),
    einsum("...", (2, 3)),
    einsum("ab,ab,ab->ab", (3, 4), (3, 4), (3, 4)),
    # factorisations
    *lapack("cholesky", *SQUARE, definite=True),
    *lapack("cholesky", ((4, 4),), definite=True, upper=True),
    *lapack("det", *SQUARE, dtypes=LAPACK),
    *lapack("inv", *SQUARE, dtypes=("int32", *INEXACT)),
    *lapack("slogdet", *SQUARE, dtypes=("int32", *INEXACT)),
    *lapack("eigh", *SQUARE, definite=True),
    *lapack("eigh", ((4, 4),), UPLO="U"),
    *lapack("eigvalsh", *SQUARE, definite=True),
    *lapack("eigvalsh", ((4, 4),), UPLO="U", dtypes=LAPACK),
    *lapack("eig", *SQUARE, witness=complex_eig),
    *lapack("eigvals", *SQUARE, witness=lambda x: complex_eig(x)[0], dtypes=("int32", *INEXACT)),
    *lapack("qr", *TALL, dtypes=("int32", *INEXACT)),
    *lapack("qr", *TALL, mode="complete"),
    *lapack("lq", *TALL, witness=lq),
    *lapack("svd", *TALL),
    *lapack("svd", *TALL, full_matrices=False, dtypes=("int32", *INEXACT)),
    *lapack("svdvals", *TALL, dtypes=LAPACK),
    *lapack(
        "logdet",
        ((4, 4),),
        ((2, 3, 3),),
        witness=lambda x: np.linalg.slogdet(x)[1],
        definite=True,
        dtypes=FLOATS,
    ),
    *lapack("logdet", ((2, 3, 3),), witness=lambda x: np.log(np.linalg.det(x)), dtypes=INEXACT),
    *on_matrices(
        "linalg.solve",
        lambda xp, a, b: xp.linalg.solve(a, b),
        np.linalg.solve,
        ((4, 4), (4, 2)),
        ((3, 4, 4), (4, 2)),
        ((2, 1, 3, 3), (5, 3, 2)),
        ((0, 0), (0, 2)),
        dtypes=("int32", *INEXACT),
    ),
    *on_matrices(
        "linalg.solve",
        lambda xp, a, b: xp.linalg.solve(a, b[:, 0]),
        lambda a, b: np.linalg.solve(a, b[:, 0]),
        ((4, 4), (4, 2)),
        ((3, 4, 4), (4, 2)),
    ),
    *(
        case
        for lower in (False, True)
        for trans in (0, 1, 2)
        for unit in (False, True)
        for case in lapack(
            "solve_triangular",
            ((4, 4), (4, 2)),
            ((1, 1), (1, 3)),
            witness=triangular,
            lower=lower,
            trans=trans,
            unit_diagonal=unit,
        )
    ),
    # norms and what is built on factorisations
    *norms(),
    *lapack("matrix_rank", *TALL, dtypes=LAPACK),
    Case(
        "linalg.matrix_rank",
        lambda xp, x: xp.linalg.matrix_rank(x, rtol=0.5),
        lambda x: np.linalg.matrix_rank(x, rtol=0.5),
        [np.diag([4.0, 3.0, 1.0])],
    ),
    Case(
        "linalg.matrix_rank",
        lambda xp, x, t: xp.linalg.matrix_rank(x, rtol=t),
        lambda x, t: np.linalg.matrix_rank(x, rtol=t),
        [np.stack([np.diag([4.0, 3.0, 1.0])] * 2), np.array([0.5, 0.1])],
    ),
    Case(
        "linalg.matrix_rank",
        lambda xp, x: xp.linalg.matrix_rank(x),
        np.linalg.matrix_rank,
        [np.ones((3, 4))],
    ),
    *lapack("pinv", *TALL),
    *lapack("pinv", *TALL[:-2], dtypes=["int32"]),
    Case(
        "linalg.pinv",
        lambda xp, x: xp.linalg.pinv(x, rtol=0.5),
        lambda x: np.linalg.pinv(x, rtol=0.5),
        [np.diag([4.0, 3.0, 1.0])],
    ),
    *on_matrices(
        "linalg.lstsq",
        lambda xp, a, b: tuple(xp.linalg.lstsq(a, b)),
        lstsq,
        ((5, 3), (5, 2)),
        ((3, 5), (3, 2)),
        ((4, 4), (4, 2)),
        dtypes=("int32", *INEXACT),
    ),
    *on_matrices(
        "linalg.lstsq",
        lambda xp, a, b: tuple(xp.linalg.lstsq(a, b[:, 0])),
        lambda a, b: lstsq(a, b[:, 0]),
        ((5, 3), (5, 2)),
    ),
    *(
        Case(
            "linalg.matrix_power",
            lambda xp, x, n=n: xp.linalg.matrix_power(x, n),
            lambda x, n=n: np.linalg.matrix_power(x, n),
            [matrices(dtype, 2, 3, 3)],
            [dtype],
            exact=False,
            rtol=_loose(dtype, 1e-9),
        )
        for n in (0, 1, 2, 3, 5, 10, -1, -3)
        for dtype in ("int32", *INEXACT)
    ),
    product("tensorinv", (4, 6, 8, 3), where="linalg", dtypes=["float64"]),
    product("tensorinv", (6, 2, 3), where="linalg", dtypes=["float64"], ind=1),
    product("tensorsolve", (2, 3, 6), (2, 3), where="linalg", dtypes=["float64"]),
    product("tensorsolve", (6, 2, 3), (2, 3), where="linalg", dtypes=["float64"], axes=(0,)),
    product("diagonal", (2, 3, 4), where="linalg"),
    product("diagonal", (3, 4), where="linalg", offset=-1),
    product("trace", (2, 3, 4), where="linalg"),
    product(
        "trace", (3, 4), where="linalg", offset=1, dtype=np.float64, dtypes=("int32", "float32")
    ),
    product("matrix_transpose", (2, 3, 4), where="linalg"),
    Case(
        "linalg.multi_dot",
        lambda xp, *x: xp.linalg.multi_dot(x),
        lambda *x: np.linalg.multi_dot(x),
        [(10, 3), (3, 20), (20, 2), (2, 5)],
        INEXACT,
        exact=False,
    ),
    Case(
        "linalg.multi_dot",
        lambda xp, *x: xp.linalg.multi_dot(x),
        lambda *x: np.linalg.multi_dot(x),
        [(3,), (3, 4), (4, 2), (2,)],
        INEXACT,
        exact=False,
    ),
    Case(
        "linalg.multi_dot",
        lambda xp, *x: xp.linalg.multi_dot(list(x)),
        lambda *x: np.linalg.multi_dot(x),
        [(3, 4), (4,)],
        ("int32", *INEXACT),
        exact=False,
    ),
    *equations(),
    # polynomials and convolutions
    *(
        Case(
            name,
            lambda xp, a, v, f=name, m=mode: getattr(xp, f)(a, v, m),
            lambda a, v, f=name, m=mode: getattr(np, f)(a, v, m),
            shapes,
            COMMON,
            NARROW,
            exact=False,
        )
        for name in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
        for shapes in (
            [(5,), (3,)],
            [(3,), (5,)],
            [(4,), (4,)],
            [(6,), (2,)],
            [(2,), (6,)],
            [(7,), (1,)],
        )
    ),
    Case("vander", lambda xp, x: xp.vander(x), np.vander, [(4,)], EVERYTHING, NARROW, exact=False),
    Case(
        "vander",
        lambda xp, x: xp.vander(x, 6),
        lambda x: np.vander(x, 6),
        [(3,)],
        COMMON,
        NARROW,
        exact=False,
    ),
    Case(
        "vander",
        lambda xp, x: xp.vander(x, 2, True),
        lambda x: np.vander(x, 2, True),
        [(3,)],
        COMMON,
        NARROW,
        exact=False,
    ),
    Case(
        "vander", lambda xp, x: xp.vander(x, 0), lambda x: np.vander(x, 0), [(3,)], COMMON, NARROW
    ),
    Case(
        "vander", lambda xp, x: xp.vander(x, 1), lambda x: np.vander(x, 1), [(0,)], COMMON, NARROW
    ),
    Case(
        "polyval",
        lambda xp, p, x: xp.polyval(p, x),
        np.polyval,
        [(4,), (2, 3)],
        COMMON[1:],
        NARROW,
        exact=False,
    ),
    Case(
        "polyval",
        lambda xp, p, x: xp.polyval(p, x),
        np.polyval,
        [(3,), ()],
        COMMON[1:],
        NARROW,
        exact=False,
    ),
    Case(
        "polyval",
        lambda xp, p: xp.polyval(p, 2),
        lambda p: np.polyval(p, 2),
        [(3,)],
        ("int32", "float64"),
        NARROW,
        exact=False,
    ),
]
