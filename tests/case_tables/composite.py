"""NumPy's small functions."""

from __future__ import annotations

import numpy as np

from cases import (
    COMMON,
    EVERYTHING,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMERIC,
    REAL,
    Case,
    rounded_once,
)

MATRIX = (3, 4)
HALVES = np.array([0.5, 1.5, -2.5, 0.125, -0.0, 12345.678, np.inf, np.nan])
ROUGH = np.array([-155, -145, -5, 0, 5, 15, 155], "int16")


def same(
    name,
    shapes=(MATRIX,),
    *args,
    dtypes=COMMON,
    exact=True,
    special=False,
    domain=(-8.0, 8.0),
    **kwargs,
):
    """A function called as NumPy's is, with fixed further arguments."""
    witness = rounded_once(getattr(np, name)) if name in ("round", "diff") else getattr(np, name)
    return Case(
        name,
        lambda xp, *x: getattr(xp, name)(*x, *args, **kwargs),
        lambda *x: witness(*x, *args, **kwargs),
        shapes,
        dtypes,
        exact=exact,
        special=special,
        domain=domain,
    )


CHOOSING = [
    *[
        Case(
            "where",
            lambda xp, c, x, y: xp.where(c, x, y),
            np.where,
            [np.array([True, False, True, False]), s, t],
            EVERYTHING,
        )
        for s, t in ((MATRIX, MATRIX), ((3, 1), ()), ((0, 4), (4,)))
    ],
    Case(
        "where",
        lambda xp, x: xp.where(x, x, 1),
        lambda x: np.where(x, x, 1),
        [MATRIX],
        EVERYTHING,
        (-1, 1),
    ),
    Case(
        "where",
        lambda xp, x: xp.where(x, 1.5, x),
        lambda x: np.where(x, 1.5, x),
        [MATRIX],
        EVERYTHING,
        (-1, 1),
    ),
    Case(
        "where",
        lambda xp, x: xp.where(x, 1, 2.5),
        lambda x: np.where(x, 1, 2.5),
        [MATRIX],
        COMMON,
        (-1, 1),
    ),
    Case(
        "where", lambda xp, x: xp.where(x), np.where, [MATRIX], COMMON, (-1, 1), needs_values=True
    ),
    Case(
        "select",
        lambda xp, x: xp.select([x > 3, x > 0], [x, 2 * x], -1),
        lambda x: np.select([x > 3, x > 0], [x, 2 * x], -1),
        [MATRIX],
        NUMERIC[:4] + FLOATS,
    ),
    Case(
        "select",
        lambda xp, x, y: xp.select([x > 3, y > 0], [1.5, y]),
        lambda x, y: np.select([x > 3, y > 0], [1.5, y]),
        [(3, 1), (4,)],
        REAL,
    ),
    *[
        same("clip", [MATRIX], a, b, dtypes=INTEGERS + FLOATS)
        for a, b in ((2, 5), (None, 3), (1, None), (5, 2))
    ],
    *[same("clip", [MATRIX], -(10**6), 10**6, dtypes=INTEGERS) for _ in (0,)],
    same("clip", [MATRIX], -1.5, 2.5, dtypes=REAL),
    same("clip", [MATRIX], None, None, dtypes=NUMERIC),
    same("clip", [MATRIX], False, True, dtypes=("bool",)),
    same("clip", [MATRIX], -1.0, 1.0, dtypes=FLOATS, special=True),
    same("clip", [MATRIX, (4,), (3, 1)], dtypes=REAL),
    Case(
        "clip",
        lambda xp, x, y: xp.clip(x, max=y),
        lambda x, y: np.clip(x, None, y),
        [(2, 0), ()],
        COMMON,
    ),
    same("nan_to_num", dtypes=EVERYTHING),
    same("nan_to_num", dtypes=FLOATS, special=True),
    same("nan_to_num", dtypes=FLOATS, special=True, nan=1.5, posinf=2.5, neginf=-3.5),
    Case(
        "nan_to_num",
        lambda xp, x: xp.nan_to_num(x),
        np.nan_to_num,
        [np.array([1 + 2j, complex(np.nan, 1), complex(np.inf, -np.inf)])],
    ),
]

NUMBERS = [
    *[same("round", [s], dtypes=EVERYTHING) for s in (MATRIX, (), (0, 3))],
    *[same("round", [HALVES], d) for d in (0, 1, 2, -1, -3)],
    *[same("round", [MATRIX], d, dtypes=NUMERIC) for d in (1, 2)],
    *[same("round", [MATRIX], d, dtypes=("float16", *INEXACT)) for d in (-1,)],
    *[same("round", [ROUGH], d) for d in (-1, -2, 3)],
    same("around", [HALVES], 1),
    same("fabs", dtypes=REAL),
    same("fabs", dtypes=FLOATS, special=True),
    same("divmod", [MATRIX, MATRIX], dtypes=REAL, domain=(1, 8)),
    same("divmod", [MATRIX, MATRIX], dtypes=FLOATS),
    same("modf", dtypes=REAL),
    same("modf", dtypes=FLOATS, special=True),
    same("float_power", [MATRIX, MATRIX], dtypes=EVERYTHING, domain=(0.5, 3), exact=False),
    same("float_power", [MATRIX], 2, dtypes=EVERYTHING, domain=(0.5, 3), exact=False),
    same("float_power", [np.array([0, 1, 2, -1], "int8")], 300),
    same("float_power", [np.array([0, 1, 2], "int8")], 10**20),
    same("float_power", [np.array([0, 1, 2], "float32")], 2j),
    same("sinc", dtypes=EVERYTHING, exact=False),
    same("sinc", [np.array([0.0, -0.0, 1.0, 0.5])], exact=False),
    same("angle", dtypes=EVERYTHING),
    same("angle", [MATRIX], deg=True, dtypes=EVERYTHING, exact=False),
    same("angle", [MATRIX], dtypes=FLOATS, special=True),
]

TESTS = [
    *[same(f, dtypes=REAL, special=True) for f in ("isposinf", "isneginf")],
    *[same(f, dtypes=EVERYTHING) for f in ("isreal", "iscomplex")],
    *[same(f, [np.array([1j, 1, complex(1, np.nan)])]) for f in ("isreal", "iscomplex")],
    same("isclose", [MATRIX, MATRIX], dtypes=EVERYTHING, domain=(-2, 2)),
    same("isclose", [MATRIX, (4,)], 0.5, 0.5, dtypes=EVERYTHING),
    same("isclose", [HALVES, HALVES * (1 + 1e-6)]),
    same("isclose", [HALVES, HALVES * (1 + 1e-4)], equal_nan=True),
    same("isclose", [MATRIX], 1, 0.5, dtypes=REAL),
    same(
        "isclose",
        [np.array([np.inf, -np.inf, np.nan, 1.0]), np.array([np.inf, np.inf, np.nan, np.inf])],
    ),
    same("allclose", [HALVES, HALVES], equal_nan=True),
    same("allclose", [HALVES, HALVES]),
    same("allclose", [MATRIX, MATRIX], dtypes=COMMON),
    same("allclose", [(0,), (0,)]),
    same("array_equal", [MATRIX, MATRIX], dtypes=COMMON),
    same("array_equal", [HALVES, HALVES]),
    same("array_equal", [HALVES, HALVES], equal_nan=True),
    same("array_equal", [MATRIX, (3, 1)]),
    same("array_equal", [ROUGH, ROUGH]),
]

SUMS = [
    *[
        same(f, [s], dtypes=EVERYTHING, domain=(-2, 2))
        for f in ("cumsum", "cumprod")
        for s in (MATRIX, (5,), (), (2, 0))
    ],
    *[
        same(f, [MATRIX], a, dtypes=COMMON, domain=(-2, 2))
        for f in ("cumsum", "cumprod")
        for a in (0, -1)
    ],
    *[same(f, [MATRIX], 0, "complex128", domain=(-2, 2)) for f in ("cumsum", "cumprod")],
    *[same("diff", [MATRIX], dtypes=EVERYTHING, axis=a, n=n) for a in (0, -1) for n in (0, 1, 2)],
    same("diff", [(3, 1)], n=3),
    same("diff", [(0,)]),
    *[
        same("diff", [MATRIX], prepend=p, append=q, axis=0)
        for p, q in ((1, 2), ([[1, 2, 3, 4]], 0))
    ],
    Case(
        "diff",
        lambda xp, x, y: xp.diff(x, append=y),
        lambda x, y: np.diff(x, append=y),
        [MATRIX, (3, 2)],
        EVERYTHING,
    ),
]

CASES = [*CHOOSING, *NUMBERS, *TESTS, *SUMS]
