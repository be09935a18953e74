"""Functions of the digits and bits of numbers, and Bessel's."""

from __future__ import annotations

import numpy as np
import scipy.special

from case_tables.calculus import same
from cases import FLOATS, INTEGERS, REAL, Case

TINY = np.array([5e-324, 1e-310, 2.5e-308, 1.75, -3.0, 1e308, 0.0, -0.0, np.inf, np.nan])
STEPS = np.array([3, 20, -70, -1075, -1074, 900, 5000, -5000, 7, -7])

CASES = [
    *[same("spacing", [s], dtypes=FLOATS, exact=True, special=True) for s in ((3, 4), (), (0, 2))],
    same("spacing", [(3, 4)], dtypes=("bool", "uint8", "uint16", "int32"), domain=(0, 8), exact=True),
    same("spacing", [TINY], exact=True),
    same("ldexp", [(3, 4), np.array([[3], [-4], [0]])], dtypes=REAL[:-3], exact=True),
    same("ldexp", [(3, 4), np.array([-3, 4, 200, -30], "int32")], dtypes=("float16", *FLOATS), exact=True),
    same("ldexp", [TINY[:, None], STEPS], exact=True),
    same("ldexp", [TINY, np.sort(STEPS)], exact=True),
    same("ldexp", [(3, 4)], 3, dtypes=FLOATS, exact=True),
    same("ldexp", [(3, 4), np.array([True, False, True, True])], exact=True),
    *[same("bitwise_count", [s], dtypes=("bool", *INTEGERS), domain=(-128, 127), exact=True) for s in ((3, 40), ())],
    *[
        same("bitwise_count", [np.array([i.min, i.min + 1, -1 if i.min else 1, i.max, i.max // 3], d)], exact=True)
        for d in INTEGERS
        for i in [np.iinfo(d)]
    ],
    same("i0", [(3, 4)], dtypes=("bool", "int32", "float16", *FLOATS), domain=(-8, 8), rtol=1e-13),
    same("i0", [(30,)], dtypes=("float64",), domain=(-700, 700), rtol=1e-13),
    Case(
        "i0",
        lambda xp, x: xp.i0(x),
        scipy.special.i0,
        [np.array([0.0, -0.0, 7.999, 8.0, 8.001, -20.0, 1e-300])],
        exact=False,
        rtol=1e-13,
    ),
]  # fmt: skip
