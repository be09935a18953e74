"""Reductions and scans."""

from __future__ import annotations

import numpy as np
import scipy.special

from cases import COMMON, EVERYTHING, FLOATS, INEXACT, NUMERIC, Case

NARROW = (-2.0, 2.0)


def reduction(name: str, dtypes, *, witness=None, shape=(3, 4, 5), **options):
    """One case per way of giving the axis."""
    oracle = witness or getattr(np, name)
    for axis, keepdims in ((None, False), (0, False), (-1, True), ((0, 2), False), ((), False)):
        yield Case(
            name,
            lambda xp, x, a=axis, k=keepdims: getattr(xp, name)(x, axis=a, keepdims=k),
            lambda x, a=axis, k=keepdims: oracle(x, axis=a, keepdims=k),
            [shape],
            dtypes,
            **options,
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
]
