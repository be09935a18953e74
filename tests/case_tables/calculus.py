"""Calculus on samples: differences, integrals, interpolation, fits and covariances."""

from __future__ import annotations

import numpy as np

from cases import COMMON, EVERYTHING, FLOATS, INEXACT, NUMERIC, Case

MATRIX = (3, 4)
POINTS = np.array([-3.0, -1.0, 0.5, 0.5, 2.0, 7.0])
SORTED = np.array([0.0, 0.5, 2.0, 2.25, 5.0])
NAN = np.array([[np.nan, 1.0, -2.0], [3.0, np.nan, np.nan]])


def same(name, shapes=(MATRIX,), *args, dtypes=("float64",), rtol=1e-11, **kwargs):
    """A function called as NumPy's is, with fixed further arguments."""
    options = {
        k: kwargs.pop(k) for k in ("exact", "special", "domain", "needs_values") if k in kwargs
    }
    witness = getattr(np, name)
    return Case(
        name,
        lambda xp, *x: getattr(xp, name)(*x, *args, **kwargs),
        lambda *x: witness(*x, *args, **kwargs),
        shapes,
        dtypes,
        rtol=rtol,
        **{"exact": False, **options},
    )


DIFFERENCES = [
    *[same("ediff1d", [s], dtypes=NUMERIC, exact=True) for s in (MATRIX, (5,), (1,), (0,), ())],
    same("ediff1d", [(5,)], 1, [2, 3], dtypes=("int8", "int64", *INEXACT), exact=True),
    same("ediff1d", [(5,)], to_begin=np.array([1.5]), dtypes=FLOATS, exact=True),
    *[
        same("gradient", [s], dtypes=("int32", "float16", *INEXACT), edge_order=k)
        for s in ((7,), MATRIX, (3, 4, 5))
        for k in (1, 2)
    ],
    *[same("gradient", [MATRIX], axis=a) for a in (0, -1, (1, 0), ())],
    *[same("gradient", [MATRIX], h, dtypes=FLOATS) for h in (2, 0.5, np.float64(0.3))],
    same("gradient", [MATRIX], 2.0, 0.25, edge_order=2),
    *[
        Case(
            "gradient",
            lambda xp, f, x, k=k: xp.gradient(f, 0.5, x, edge_order=k),
            lambda f, x, k=k: np.gradient(f, 0.5, x, edge_order=k),
            [(3, 5), SORTED],
            ("int32", *INEXACT),
            exact=False,
        )
        for k in (1, 2)
    ],
    Case(
        "gradient",
        lambda xp, f, x: xp.gradient(f, x, axis=-1),
        lambda f, x: np.gradient(f, x, axis=-1),
        [(2, 5), np.arange(5)],
        FLOATS,
        exact=False,
    ),
    same("gradient", [(2,)]),
    *[same("trapezoid", [s], dtypes=("int32", *INEXACT)) for s in (MATRIX, (1,), (0,), (2, 3, 4))],
    same("trapezoid", [MATRIX], None, 0.5, 0, dtypes=("int32", *INEXACT)),
    Case(
        "trapezoid",
        lambda xp, y, x: xp.trapezoid(y, x),
        np.trapezoid,
        [(3, 5), SORTED],
        FLOATS,
        exact=False,
    ),
    Case(
        "trapezoid",
        lambda xp, y, x: xp.trapezoid(y, x=x, axis=0),
        lambda y, x: np.trapezoid(y, x=x, axis=0),
        [MATRIX, MATRIX],
        FLOATS,
        exact=False,
    ),
    *[
        same("unwrap", [s], domain=(-20, 20), dtypes=FLOATS, rtol=1e-5, axis=a)
        for s in (MATRIX, (9,), (1,))
        for a in (0, -1)
    ],
    same("unwrap", [(9,)], 5.0, domain=(-20, 20)),
    same("unwrap", [(9,)], domain=(-20, 20), period=4, dtypes=("int32", "int64", "float64")),
    same("unwrap", [(9,)], domain=(-20, 20), period=5, dtypes=("int32", "int64", "float64")),
    same("unwrap", [np.array([0, 2, 4, 2, 0, 4, -4, 0])], period=4, exact=True),
    *[
        same(f, [s], dtypes=EVERYTHING, domain=(-2, 2))
        for f in ("nancumsum", "nancumprod")
        for s in (MATRIX, (5,), (), (2, 0))
    ],
    *[same(f, [NAN], a) for f in ("nancumsum", "nancumprod") for a in (None, 0, -1)],
    *[same(f, [NAN.astype("complex64")], 1) for f in ("nancumsum", "nancumprod")],
    *[same(f, [NAN], dtype="float32") for f in ("nancumsum", "nancumprod")],
]


def interpolated(x, xp_, fp, **options):
    return Case(
        "interp",
        lambda xp, *v: xp.interp(*v, **options),
        lambda *v: np.interp(*v, **options),
        [x, xp_, fp],
        exact=False,
    )


AT = np.array([[-4.0, -3.0, -2.2, 0.5, np.nan], [0.6, 2.0, 6.99, 7.0, np.inf]])
HEIGHTS = np.array([1.0, -2.0, 3.0, 4.5, 0.25, -6.0])

INTERPOLATION = [
    interpolated(AT, POINTS, HEIGHTS),
    interpolated(AT, POINTS, HEIGHTS, left=-9.0, right=11),
    interpolated(AT.astype("float32"), POINTS.astype("float32"), HEIGHTS.astype("float32")),
    interpolated(AT, POINTS, HEIGHTS + 2j),
    interpolated(AT, POINTS, HEIGHTS + 2j, left=1j),
    interpolated(AT, POINTS, np.array([1, np.inf, np.inf, 2, -np.inf, np.nan])),
    interpolated(np.array(1.25), POINTS, HEIGHTS),
    interpolated(np.arange(5), np.arange(4), np.arange(4) ** 2),
    interpolated(AT, np.array([0.5]), np.array([2.0]), left=7.0),
    interpolated(np.zeros((2, 0)), POINTS, HEIGHTS),
    interpolated(
        np.array([-180, -170, -185, 185, -10, -5, 0, 365.0]),
        np.array([190, -190, 350, -350]),
        np.array([5, 10, 3, 4]),
        period=360,
    ),
]


def fitted(shapes, deg, dtypes=FLOATS, **options):
    x, *rest = shapes
    return Case(
        "polyfit",
        lambda xp, *v: xp.polyfit(*v, deg, **options),
        lambda *v: np.polyfit(*v, deg, **options),
        [x, *rest],
        dtypes,
        exact=False,
        rtol=1e-3 if "float32" in dtypes else 1e-9,
    )


WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.5])
DISTINCT = np.array([-3.0, -1.0, 0.0, 0.5, 2.0, 4.0])

FITS = [
    *[fitted([DISTINCT, (6,)], d) for d in (0, 1, 3)],
    fitted([DISTINCT, (6, 2)], 2),
    fitted([np.arange(6), (6,)], 2, ("int32", "float64")),
    fitted([DISTINCT, (6,)], 2, ("float64", "complex128")),
    fitted([DISTINCT, (6,)], 2, ("float64",), full=True),
    fitted([DISTINCT, (6,)], 2, ("float64",), cov=True),
    fitted([DISTINCT, (6, 2)], 2, ("float64",), cov=True),
    fitted([DISTINCT, (6,)], 2, ("float64",), cov="unscaled"),
    *[
        Case(
            "polyfit",
            lambda xp, x, y, w: xp.polyfit(x, y, 2, w=w),
            lambda x, y, w: np.polyfit(x, y, 2, w=w),
            [DISTINCT, s, WEIGHT],
            exact=False,
            rtol=1e-9,
        )
        for s in ((6,), (6, 3))
    ],
]

COVARIANCES = [
    *[
        same(f, [s], dtypes=EVERYTHING, rtol=1e-6)
        for f in ("cov", "corrcoef")
        for s in (MATRIX, (5,), (1, 4))
    ],
    *[same(f, [MATRIX], rowvar=False) for f in ("cov", "corrcoef")],
    *[same(f, [MATRIX, (2, 4)], dtypes=COMMON) for f in ("cov", "corrcoef")],
    *[same(f, [(4, 3), (4, 2)], rowvar=False) for f in ("cov", "corrcoef")],
    *[same(f, [(5,), (5,)]) for f in ("cov", "corrcoef")],
    *[same(f, [MATRIX], dtype="float32", rtol=1e-4) for f in ("cov", "corrcoef")],
    same("cov", [(1, 5)], rowvar=False),
    same("cov", [(0, 4)]),
    same("cov", [(3, 1)]),
    same("cov", [()], bias=True),
    same("cov", [MATRIX], bias=True),
    *[same("cov", [MATRIX], ddof=d) for d in (0, 1, 2, 4)],
    same("cov", [MATRIX], fweights=np.array([1, 0, 2, 3])),
    same("cov", [MATRIX], aweights=np.array([1, 0.5, 2, 3]), dtypes=INEXACT, rtol=1e-6),
    same("cov", [MATRIX], aweights=np.array([1, 0.5, 2, 3]), bias=True),
    same("cov", [MATRIX], fweights=np.array([1, 0, 2, 3]), aweights=np.array([1, 0.5, 2, 3])),
    Case(
        "cov",
        lambda xp, m, f, a: xp.cov(m, fweights=f, aweights=a, ddof=2),
        lambda m, f, a: np.cov(m, fweights=f, aweights=a, ddof=2),
        [MATRIX, np.array([1, 0, 2, 3]), np.array([1, 0.5, 2, 3])],
        exact=False,
    ),
]

CASES = [*DIFFERENCES, *INTERPOLATION, *FITS, *COVARIANCES]
