"""Creation, conversion and copies."""

from __future__ import annotations

import numpy as np

from cases import COMMON, EVERYTHING, INEXACT, Case

DTYPES = ("int32", "float32", "float64", "complex64")


def _creation(name: str, *args, witness=None, **kwargs):
    """One case without operands."""
    oracle = witness or getattr(np, name)
    return Case(
        name,
        lambda xp: getattr(xp, name)(*args, **kwargs),
        lambda: oracle(*args, **kwargs),
        [],
    )


def _like(name: str, *args):
    return [
        Case(
            name,
            lambda xp, x, d=dtype: getattr(xp, name)(x, *args, dtype=d),
            lambda x, d=dtype: getattr(np, name)(x, *args, dtype=d),
            [shape],
            COMMON if dtype is None else ("float64",),
        )
        for shape in ((3, 4), (), (0, 2))
        for dtype in (None, "int16")
    ]


CASES = [
    *(
        _creation(name, shape, dtype=dtype)
        for name in ("zeros", "ones")
        for shape in ((2, 3), (), 4, (0, 2))
        for dtype in (None, *DTYPES, "bool")
    ),
    *(_creation("empty", shape, witness=np.zeros) for shape in ((2, 3), (), 4)),
    *(_creation("full", (2, 3), value) for value in (True, 3, 2.5, 1 + 2j, np.float32(1.5), np.int8(4))),
    *(_creation("full", (2,), 3, dtype=dtype) for dtype in DTYPES),
    _creation("full", (2,), -0.0),
    *_like("zeros_like"),
    *_like("ones_like"),
    *_like("full_like", 3),
    Case("full_like", lambda xp, x: xp.full_like(x, True), lambda x: np.full_like(x, True), [(2,)], COMMON),
    Case("empty_like", lambda xp, x: xp.empty_like(x), np.zeros_like, [(2, 3)], COMMON),
    *(
        _creation("arange", *args)
        for args in (
            (5,), (0,), (-3,), (2, 9), (2, 9, 3), (9, 2, -2), (9, 2), (2, 9, -1), (0.5, 3.0), (1, 2, 0.1), (3.0,),
            (0, 1, 0.3), (1, 0, -0.25), (2**62, 2**62 + 3),
        )
    ),
    *(_creation("arange", 1, 7, 2, dtype=dtype) for dtype in DTYPES[:3]),
    *(
        _creation("linspace", *args, **kwargs)
        for args in ((0, 1), (2, -3), (0.5, 0.5), (1j, 2))
        for kwargs in ({}, {"num": 5}, {"num": 4, "endpoint": False}, {"num": 1}, {"num": 0}, {"num": 3, "dtype": "complex64"})
    ),
    _creation("linspace", 0, 10, num=4, dtype="int64"),
    *(_creation("linspace", np.dtype(d).type(1), 2, num=4) for d in ("float16", "float32", "int8", "complex64")),
    *(_creation("eye", *args) for args in ((3,), (2, 4), (0,), (3, 0))),
    *(_creation("eye", 3, 4, k=k, dtype=dtype) for k in (-5, -1, 0, 2, 7) for dtype in DTYPES),
    _creation("identity", 3),
    Case("asarray", lambda xp, x: xp.asarray(x), np.asarray, [(3, 2)], EVERYTHING),
    Case("asarray", lambda xp: xp.asarray([[1, 2], [3, 4.5]]), lambda: np.asarray([[1, 2], [3, 4.5]]), []),
    Case("asarray", lambda xp, x: xp.asarray([x, x]), lambda x: np.asarray([x, x]), [(2,)]),
    Case("asarray", lambda xp: xp.asarray([1, 2], dtype="float32"), lambda: np.asarray([1, 2], dtype="float32"), []),
    Case("array", lambda xp, x: xp.array(x), np.array, [(3, 2)], COMMON),
    Case("copy", lambda xp, x: xp.copy(x), np.copy, [(3, 2)], EVERYTHING),
    *(
        Case("astype", lambda xp, x, d=d: xp.astype(x, d), lambda x, d=d: x.astype(d), [(3, 2)], EVERYTHING[:-2], domain=(0, 8))
        for d in EVERYTHING
    ),
    *(
        Case("astype", lambda xp, x, d=d: xp.astype(x, d), lambda x, d=d: x.astype(d), [(3, 2)], INEXACT[2:])
        for d in INEXACT[2:]
    ),
]  # fmt: skip
