"""Reductions and scans."""

from __future__ import annotations

import numpy as np
import scipy.special

from cases import COMMON, EVERYTHING, FLOATS, INEXACT, NUMERIC, Case, rounded_once

NARROW = (-2.0, 2.0)


AXES = ((None, False), (0, False), (-1, True), ((0, 2), False), ((), False))


def reduction(name: str, dtypes, *, witness=None, shape=(3, 4, 5), axes=AXES, **options):
    """One case per way of giving the axis."""
    oracle = rounded_once(witness or getattr(np, name))
    for axis, keepdims in axes:
        yield Case(
            name,
            lambda xp, x, a=axis, k=keepdims: getattr(xp, name)(x, axis=a, keepdims=k),
            lambda x, a=axis, k=keepdims: oracle(x, axis=a, keepdims=k),
            [shape],
            dtypes,
            **options,
        )


def arg(name: str):
    """Places of extremes, ties going to the first."""
    for axis, keepdims in ((None, False), (0, False), (-1, True), (None, True)):
        yield Case(
            name,
            lambda xp, x, a=axis, k=keepdims: getattr(xp, name)(x, axis=a, keepdims=k),
            lambda x, a=axis, k=keepdims: getattr(np, name)(x, axis=a, keepdims=k),
            [(4, 5)],
            EVERYTHING,
            domain=NARROW,
        )


def scan(name: str):
    """Running folds."""
    for axis, initial, shape in (
        (None, False, (5,)),
        (0, False, (3, 4)),
        (-1, True, (3, 4)),
        (1, True, (3, 0)),
    ):
        yield Case(
            name,
            lambda xp, x, a=axis, i=initial: getattr(xp, name)(x, axis=a, include_initial=i),
            lambda x, a=axis, i=initial: getattr(np, name)(x, axis=a, include_initial=i),
            [shape],
            EVERYTHING,
            domain=NARROW,
        )


CASES = [
    *reduction("sum", EVERYTHING),
    *reduction("sum", INEXACT, special=True),
    *reduction("sum", COMMON, shape=(3, 0, 2)),
    *reduction("prod", EVERYTHING, domain=NARROW),
    *reduction("mean", EVERYTHING, exact=False),
    *reduction("var", EVERYTHING, exact=False),
    *reduction("std", EVERYTHING, exact=False),
    *reduction("min", EVERYTHING),
    *reduction("min", FLOATS, special=True),
    *reduction("max", EVERYTHING),
    *reduction("max", FLOATS, special=True),
    *reduction("all", EVERYTHING, domain=NARROW),
    *reduction("any", EVERYTHING, domain=NARROW),
    *reduction("any", COMMON, shape=(3, 0, 2)),
    *reduction("nansum", INEXACT, special=True),
    *reduction("nanprod", INEXACT, special=True, domain=NARROW),
    *reduction("count_nonzero", EVERYTHING, domain=NARROW),
    *reduction("ptp", NUMERIC),
    *reduction(
        "logsumexp", ("float32", "float64", "int32"), witness=scipy.special.logsumexp, exact=False
    ),
    *reduction(
        "nanmean", FLOATS, special=True, shape=(30,), axes=((None, False), (0, True)), exact=False
    ),
    *reduction("nanmean", INEXACT, exact=False),
    *reduction("nanvar", ("int32", *INEXACT), exact=False),
    *reduction("nanstd", FLOATS, exact=False),
    *reduction("nanmax", FLOATS, special=True),
    *reduction("nanmin", FLOATS, special=True),
    *reduction("nanmax", ("int32", "float16")),
    *reduction("nanmin", ("int32", "float16")),
    Case(
        "nanvar",
        lambda xp, x: xp.nanvar(x, axis=1, ddof=1),
        lambda x: np.nanvar(x, axis=1, ddof=1),
        [np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, 4.0]])],
        exact=False,
    ),
    *arg("argmax"),
    *arg("argmin"),
    *scan("cumulative_sum"),
    *scan("cumulative_prod"),
    Case(
        "var", lambda xp, x: xp.var(x, correction=1.5), lambda x: np.var(x, ddof=1.5), exact=False
    ),
    Case(
        "std",
        lambda xp, x: xp.std(x, axis=0, ddof=1),
        lambda x: np.std(x, axis=0, ddof=1),
        exact=False,
    ),
    *(
        Case(
            name,
            lambda xp, x, n=name, d=d: getattr(xp, n)(x, dtype=d),
            lambda x, n=name, d=d: getattr(np, n)(x, dtype=d),
            dtypes=("int8", "float32"),
            domain=(1, 3),
            exact=False,
        )
        for name in ("sum", "prod", "mean", "nansum", "nanprod")
        for d in ("float64", "complex64")
    ),
    Case("sum", lambda xp: xp.sum(xp.ones((0,))), lambda: np.sum(np.ones(0)), []),
    Case("mean", lambda xp: xp.mean(xp.ones((2, 0)), axis=1), lambda: np.full(2, np.nan), []),
    Case(
        "var",
        lambda xp: xp.var(xp.ones((2, 1)), axis=1, correction=1),
        lambda: np.full(2, np.nan),
        [],
    ),
    Case("logsumexp", lambda xp: xp.logsumexp(xp.ones((0,))), lambda: -np.inf, []),
    Case(
        "logsumexp",
        lambda xp, x: xp.logsumexp(x, axis=1),
        lambda x: scipy.special.logsumexp(x, axis=1),
        [np.array([[1e4, 1e4 + 1], [-np.inf, -np.inf], [np.inf, 1.0], [np.nan, 1.0]])],
        exact=False,
    ),
    Case(
        "softmax",
        lambda xp, x: xp.softmax(x),
        lambda x: scipy.special.softmax(x, axis=-1),
        dtypes=FLOATS,
        exact=False,
    ),
    Case(
        "softmax",
        lambda xp, x: xp.softmax(x * 1e3, axis=0),
        lambda x: scipy.special.softmax(x * 1e3, axis=0),
        exact=False,
    ),
    Case(
        "log_softmax",
        lambda xp, x: xp.log_softmax(x),
        lambda x: scipy.special.log_softmax(x, axis=-1),
        dtypes=FLOATS,
        exact=False,
    ),
    Case(
        "average",
        lambda xp, x: xp.average(x, 0),
        lambda x: np.average(x, 0),
        dtypes=FLOATS,
        exact=False,
    ),
    Case(
        "average",
        lambda xp, x, w: xp.average(x, axis=1, weights=w),
        lambda x, w: np.average(x, axis=1, weights=w),
        [(3, 4), (3, 4)],
        FLOATS,
        domain=(0.5, 2),
        exact=False,
    ),
    *(
        Case(
            "average",
            lambda xp, x, w, a=a, k=k: xp.average(x, a, w, True, keepdims=k),
            lambda x, w, a=a, k=k: np.average(x, a, w, True, keepdims=k),
            [(3, 4, 5), w],
            ("int8", "int32", "float16", *FLOATS, "complex64"),
            domain=(1, 4),
            exact=False,
            rtol=1e-3 if k else 1e-12,
        )
        for a, w, k in (
            (None, (3, 4, 5), True),
            (1, (4,), False),
            (-1, np.arange(1.0, 6.0), False),
            ((2, 0), (5, 3), False),
            ((0, 1, 2), (3, 4, 5), True),
        )
    ),
    Case(
        "average",
        lambda xp, x: xp.average(x, 1, returned=True),
        lambda x: np.average(x, 1, returned=True),
        [(3, 4)],
        ("bool", "int32", *FLOATS, "complex64"),
        exact=False,
    ),
    Case(
        "clip_by_norm",
        lambda xp, x: xp.clip_by_norm(x, 2.0),
        lambda x: x * (2.0 / max(np.linalg.norm(x), 2.0)),
        dtypes=FLOATS,
        exact=False,
    ),
    Case("clip_by_norm", lambda xp, x: xp.clip_by_norm(x, 1e6), lambda x: x),
]
