"""Sorting, searching, order statistics and histograms."""

from __future__ import annotations

import numpy as np

from cases import COMMON, EVERYTHING, FLOATS, INEXACT, REAL, Case

FEW = (-3.0, 3.0)
SHAPES = ((7,), (3, 4), (2, 3, 4), (0,), (3, 0), (1,))


def along(name: str, call, witness, dtypes=EVERYTHING, **options):
    """One case per shape and axis, with many equal elements."""
    for shape in SHAPES:
        for axis in (0, -1):
            yield Case(
                name,
                lambda xp, x, a=axis: call(xp, x, a),
                lambda x, a=axis: witness(x, a),
                [shape],
                dtypes,
                FEW,
                **options,
            )


def descending(x, axis):
    return np.flip(np.sort(x, axis=axis), axis=axis)


def descending_order(x, axis):
    """Stable: the last of the reversed array's order comes first."""
    order = np.argsort(np.flip(x, axis), axis=axis, stable=True)
    return np.flip(x.shape[axis] - 1 - order, axis)


def largest(x, axis, k):
    order = np.moveaxis(np.moveaxis(descending_order(x, axis), axis, 0)[:k], 0, axis)
    return np.take_along_axis(x, order, axis), order


def smallest(x, axis, k):
    order = np.argsort(x, axis=axis, stable=True)
    order = np.moveaxis(np.moveaxis(order, axis, 0)[:k], 0, axis)
    return np.take_along_axis(x, order, axis), order


def search(side: str, x1: np.ndarray, x2):
    return Case(
        "searchsorted",
        lambda xp, a, b: xp.searchsorted(a, b, side=side),
        lambda a, b: np.searchsorted(a, b, side=side),
        [x1, x2],
    )


def statistic(name: str, dtypes, shape=(3, 4, 5), **options):
    for axis, keepdims in ((None, False), (0, False), (-1, True), ((0, 2), False), ((2, 0), True)):
        yield Case(
            name,
            lambda xp, x, a=axis, k=keepdims: getattr(xp, name)(x, axis=a, keepdims=k),
            lambda x, a=axis, k=keepdims: getattr(np, name)(x, axis=a, keepdims=k),
            [shape],
            dtypes,
            exact=False,
            **options,
        )


def quantiles():
    for name, whole in (("quantile", 1), ("percentile", 100)):
        for q in (
            0.3,
            0.0,
            1.0,
            0.5,
            np.array([0.1, 0.75]),
            np.array([[0.2, 0.5, 0.9]]),
            np.float64(0.4),
            [0.25],
        ):
            scaled = q * whole if not isinstance(q, list) else [v * whole for v in q]
            for axis, keepdims in (
                (None, False),
                (0, True),
                (-1, False),
                ((0, 2), False),
                ((0, 2), True),
            ):
                yield Case(
                    name,
                    lambda xp, x, n=name, q=scaled, a=axis, k=keepdims: getattr(xp, n)(
                        x, q, axis=a, keepdims=k
                    ),
                    lambda x, n=name, q=scaled, a=axis, k=keepdims: getattr(np, n)(
                        x, q, axis=a, keepdims=k
                    ),
                    [(3, 4, 5)],
                    ("int32", *FLOATS),
                    exact=False,
                )
        yield Case(
            name,
            lambda xp, x, n=name, q=0.5 * whole: getattr(xp, n)(x, q, axis=0),
            lambda x, n=name, q=0.5 * whole: getattr(np, n)(x, q, axis=0),
            [(5, 6)],
            FLOATS,
            special=True,
            exact=False,
        )
        yield Case(
            name,
            lambda xp, x, q, n=name: getattr(xp, n)(x, q),
            lambda x, q, n=name: getattr(np, n)(x, q),
            [(9,), np.array([0.3, 0.8])],
            FLOATS,
            exact=False,
        )


def nan_quantiles():
    holes = np.where(
        np.arange(60).reshape(3, 4, 5) % 4 == 1, np.nan, np.sin(np.arange(60.0)).reshape(3, 4, 5)
    )
    holes[1, 2] = np.nan
    for name, whole in (("nanquantile", 1), ("nanpercentile", 100)):
        for q in (0.3, 0.5, 1.0, np.array([0.0, 0.75]), np.array([[0.2, 0.5, 0.9]])):
            for axis, keepdims in (
                (None, False),
                (0, True),
                (-1, False),
                ((0, 2), True),
                ((0, 2), False),
            ):
                if np.ndim(q) == 2 and isinstance(axis, tuple):
                    continue  # NumPy puts the axes of q in the wrong places
                for operand, dtypes in (
                    (holes, ["float64"]),
                    (holes.astype("float32"), ["float32"]),
                    ((3, 4, 5), ["int32", "float64"]),
                ):
                    yield Case(
                        name,
                        lambda xp, x, n=name, q=q * whole, a=axis, k=keepdims: getattr(xp, n)(x, q, a, keepdims=k),
                        lambda x, n=name, q=q * whole, a=axis, k=keepdims: getattr(np, n)(x, q, a, keepdims=k),
                        [operand],
                        dtypes,
                        exact=False,
                    )  # fmt: skip


def binned(name: str, call, witness, shapes, dtypes, **options):
    return Case(name, call, lambda *x: witness(*x), shapes, dtypes, exact=False, **options)


def histograms():
    edges = np.array([-4.0, -1.0, -1.0, 0.0, 2.5, 6.0])
    for density in (False, True):
        yield binned(
            "histogram",
            lambda xp, x, d=density: xp.histogram(x, 7, (-5, 5), density=d),
            lambda x, d=density: np.histogram(x, 7, (-5, 5), density=d),
            [(40,)],
            ("int32", *FLOATS),
        )
        yield binned(
            "histogram",
            lambda xp, x, e, d=density: xp.histogram(x, e, density=d),
            lambda x, e, d=density: np.histogram(x, e, density=d),
            [(5, 8), np.unique(edges)],
            ("int32", *FLOATS),
        )
    yield binned(
        "histogram",
        lambda xp, x, e: xp.histogram(x, e),
        np.histogram,
        [(40,), edges],
        ("int32", *FLOATS),
    )
    yield binned(
        "histogram",
        lambda xp, x: xp.histogram(x, 4, (-2, 2)),
        lambda x: np.histogram(x[np.isfinite(x)], 4, (-2, 2)),
        [(40,)],
        FLOATS,
        special=True,
    )
    for dtype in ("int32", "float32", "float64", "complex64"):
        yield binned(
            "histogram",
            lambda xp, x, w: xp.histogram(x, 5, (-5, 5), weights=w),
            lambda x, w: np.histogram(x, 5, (-5, 5), weights=w),
            [(40,), (np.arange(40) / 4).astype(dtype)],
            FLOATS,
        )
    yield binned(
        "histogram",
        lambda xp, x: xp.histogram(x, 6),
        lambda x: np.histogram(x, 6),
        [(40,)],
        ("int32", *FLOATS),
        needs_values=True,
    )
    yield binned(
        "histogram",
        lambda xp, x: xp.histogram(x),
        np.histogram,
        [np.ones(4)],
        ["float64"],
        needs_values=True,
    )
    yield binned("histogram", lambda xp, x: xp.histogram(x), np.histogram, [(0,)], ["float64"])
    yield binned(
        "histogram_bin_edges",
        lambda xp, x: xp.histogram_bin_edges(x, 5, (0, 2)),
        lambda x: np.histogram_bin_edges(x, 5, (0, 2)),
        [(6,)],
        ("int32", *FLOATS),
    )


COUNTS = np.array([3, 1, 1, 0, 5, 3])

CASES = [
    *along("sort", lambda xp, x, a: xp.sort(x, axis=a), lambda x, a: np.sort(x, axis=a)),
    *along(
        "sort",
        lambda xp, x, a: xp.sort(x, axis=a),
        lambda x, a: np.sort(x, axis=a),
        INEXACT,
        special=True,
    ),
    *along("sort", lambda xp, x, a: xp.sort(x, axis=a, descending=True, stable=False), descending),
    *along(
        "sort",
        lambda xp, x, a: xp.sort(x, axis=a, descending=True),
        descending,
        FLOATS,
        special=True,
    ),
    Case(
        "sort",
        lambda xp, x: xp.sort(x, axis=None),
        lambda x: np.sort(x, axis=None),
        [(3, 4)],
        COMMON,
    ),
    *along(
        "argsort",
        lambda xp, x, a: xp.argsort(x, axis=a),
        lambda x, a: np.argsort(x, axis=a, stable=True),
    ),
    *along("argsort", lambda xp, x, a: xp.argsort(x, axis=a, descending=True), descending_order),
    *along(
        "argsort",
        lambda xp, x, a: xp.argsort(x, axis=a),
        lambda x, a: np.argsort(x, axis=a, stable=True),
        FLOATS,
        special=True,
    ),
    *along(
        "top_k",
        lambda xp, x, a: xp.top_k(x, min(2, x.shape[a]), axis=a),
        lambda x, a: largest(x, a, 2),
    ),
    *along(
        "top_k",
        lambda xp, x, a: xp.top_k(x, min(2, x.shape[a]), axis=a, largest=False),
        lambda x, a: smallest(x, a, 2),
    ),
    *along(
        "partition",
        lambda xp, x, a: xp.sort(xp.partition(x, (), axis=a), axis=a),
        lambda x, a: np.sort(x, axis=a),
        COMMON,
    ),
    Case(
        "partition",
        lambda xp, x: xp.partition(x, 2)[..., 2],
        lambda x: np.partition(x, 2)[..., 2],
        [(4, 5)],
        COMMON,
    ),
    Case(
        "argpartition",
        lambda xp, x: xp.take_along_axis(x, xp.argpartition(x, 2), axis=-1)[..., 2],
        lambda x: np.partition(x, 2)[..., 2],
        [(4, 5)],
        COMMON,
    ),
    Case(
        "argpartition",
        lambda xp, x: xp.argpartition(x, (0, -1), axis=None),
        lambda x: np.argsort(x, axis=None),
        [np.array([[3, 1], [2, 7]])],
    ),
    Case(
        "lexsort",
        lambda xp, x, y, z: xp.lexsort((x, y, z)),
        lambda x, y, z: np.lexsort((x, y, z)),
        [(30,)] * 3,
        COMMON,
        (-2, 2),
    ),
    Case(
        "lexsort",
        lambda xp, x, y: xp.lexsort([x, y], axis=0),
        lambda x, y: np.lexsort((x, y), axis=0),
        [(9, 2)] * 2,
        COMMON,
        (-2, 2),
    ),
    *(
        search(side, np.sort(np.arange(8) % 5).astype(dtype), wanted.astype(dtype))
        for side in ("left", "right")
        for dtype in REAL[1:]
        for wanted in (np.arange(6), np.array(3), np.zeros((2, 0)), np.arange(6).reshape(2, 3))
    ),
    search("left", np.array([1, 2, 3]), np.array([0.5, 2.5, np.nan])),
    search("right", np.array([1.0, 2.0, np.nan]), np.array([2.0, np.nan])),
    search("right", np.array([], float), np.array([2.0, np.nan])),
    Case(
        "searchsorted",
        lambda xp, a, b, s: xp.searchsorted(a, b, sorter=s),
        lambda a, b, s: np.searchsorted(a, b, sorter=s),
        [np.array([3.0, 1.0, 2.0]), np.array([1.5, 0.0, 3.0]), np.array([1, 2, 0])],
    ),
    Case(
        "searchsorted",
        lambda xp, a: xp.searchsorted(a, 2.5),
        lambda a: np.searchsorted(a, 2.5),
        [np.arange(5)],
    ),
    Case(
        "searchsorted",
        lambda xp, a: xp.searchsorted(a, 300),
        lambda a: np.searchsorted(a, 300),
        [np.arange(5, dtype="int8")],
    ),
    *(
        Case(
            "digitize",
            lambda xp, x, b, r=r: xp.digitize(x, b, right=r),
            lambda x, b, r=r: np.digitize(x, b, right=r),
            [(3, 4), b],
            ("int32", *FLOATS),
            FEW,
        )
        for r in (False, True)
        for b in (
            np.array([-1.0, 0.0, 2.0]),
            np.array([2, 0, -1]),
            np.array([]),
            np.array([1.0, 1.0]),
        )
    ),
    *statistic("median", REAL),
    *statistic("median", INEXACT),
    *statistic("median", FLOATS, special=True),
    *statistic("median", FLOATS, shape=(4, 3, 6)),
    *statistic("nanmedian", ("int32", *FLOATS)),
    *(
        Case(
            "nanmedian",
            lambda xp, x, a=a, k=k: xp.nanmedian(x, axis=a, keepdims=k),
            lambda x, a=a, k=k: np.nanmedian(x, axis=a, keepdims=k),
            [
                np.where(
                    np.arange(60).reshape(3, 4, 5) % 3 == 1,
                    np.nan,
                    np.sin(np.arange(60.0)).reshape(3, 4, 5),
                ).astype(dtype)
            ],
            [dtype],
            exact=False,
        )
        for dtype in FLOATS
        for a, k in ((None, False), (2, True), ((0, 1), False))
    ),
    *quantiles(),
    *nan_quantiles(),
    Case("bincount", lambda xp, x: xp.bincount(x), np.bincount, [COUNTS], needs_values=True),
    Case(
        "bincount",
        lambda xp, x: xp.bincount(x, minlength=9),
        lambda x: np.bincount(x, minlength=9),
        [COUNTS.astype("uint8")],
        needs_values=True,
    ),
    Case("bincount", lambda xp, x: xp.bincount(x), np.bincount, [COUNTS > 2], needs_values=True),
    Case("bincount", lambda xp, x: xp.bincount(x), np.bincount, [COUNTS[:0]], needs_values=True),
    Case(
        "bincount",
        lambda xp, x, w: xp.bincount(x, w),
        np.bincount,
        [COUNTS, np.arange(6, dtype="float32")],
        needs_values=True,
    ),
    Case(
        "bincount",
        lambda xp, x, w: xp.bincount(x, w, length=8),
        lambda x, w: np.bincount(x, w, 8),
        [COUNTS, np.arange(6)],
    ),
    Case(
        "bincount", lambda xp, x: xp.bincount(x, length=6), np.bincount, [COUNTS.astype("uint64")]
    ),
    *histograms(),
]
