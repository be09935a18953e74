"""Distinct elements and membership."""

from __future__ import annotations

import numpy as np

from cases import COMMON, EVERYTHING, FLOATS, INTEGERS, Case

FEW = (-3.0, 3.0)


def distinct(name: str, *shapes, dtypes=EVERYTHING, witness=None, **options):
    """A function whose result's shape depends on values."""
    oracle = witness or (lambda *x: getattr(np, name)(*x, **options))
    return Case(
        name,
        lambda xp, *x: getattr(xp, name)(*x, **options),
        oracle,
        shapes,
        dtypes,
        FEW,
        needs_values=True,
    )


CASES = [
    *(
        distinct(name, shape)
        for name in ("unique_all", "unique_counts", "unique_inverse")
        for shape in ((12,), (3, 4), (0,), ())
    ),
    *(
        distinct("unique_values", shape, witness=lambda x: np.unique(x, equal_nan=False))
        for shape in ((12,), (3, 4), (0,), ())
    ),
    distinct("unique_counts", np.array([1.0, np.nan, np.nan, -0.0, 0.0]), dtypes=["float64"]),
    distinct("unique", (3, 4)),
    distinct("unique", np.array([1.0, np.nan, np.nan]), dtypes=["float64"]),
    distinct("unique", (3, 4), dtypes=COMMON, return_index=True),
    distinct("unique", (3, 4), dtypes=COMMON, return_inverse=True, return_counts=True),
    distinct("unique", np.array([[1, 2], [0, 1], [1, 2]]), dtypes=["int64"], axis=0),
    distinct("union1d", (7,), (2, 3)),
    distinct("intersect1d", (7,), (2, 3)),
    distinct("intersect1d", (7,), (6,), dtypes=COMMON, return_indices=True),
    distinct("setdiff1d", (9,), (2,)),
    distinct("setxor1d", (7,), (4,)),
    *(
        Case(
            "isin",
            lambda xp, x, y, i=invert: xp.isin(x, y, invert=i),
            lambda x, y, i=invert: np.isin(x, y, invert=i),
            shapes,
            EVERYTHING,
            FEW,
        )
        for invert in (False, True)
        for shapes in ([(3, 4), (5,)], [(), (2, 3)], [(0,), (3,)], [(4,), (0,)], [(4,), ()])
    ),
    Case(
        "isin",
        lambda xp, x: xp.isin(x, 2),
        lambda x: np.isin(x, 2),
        [(9,)],
        (*INTEGERS, *FLOATS),
        FEW,
    ),
    Case("isin", lambda xp, x: xp.isin(2, x), lambda x: np.isin(2, x), [(9,)], INTEGERS, FEW),
    Case(
        "isin",
        lambda xp, x: xp.isin(x, 300),
        lambda x: np.isin(x, 300),
        [(9,)],
        ("int8", "uint8"),
        FEW,
    ),
    Case("isin", lambda xp, x, y: xp.isin(x, y), np.isin, [(9,)] * 2, FLOATS, special=True),
]
