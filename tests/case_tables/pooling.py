"""Pooling and upsampling against loops over single windows."""

from __future__ import annotations

import numpy as np

import naive_windows as naive
from cases import EVERYTHING, FLOATS, INEXACT, INTEGERS, REAL, Case

IMAGES = {1: (2, 9, 3), 2: (2, 7, 6, 3), 3: (1, 5, 4, 6, 2)}
OPTIONS = (
    (2, {}),
    (3, {"padding": "SAME"}),
    (2, {"strides": 1}),
    (3, {"strides": 2, "padding": "SAME"}),
    (2, {"strides": 3}),
)


def pool(kind, rank, window, options, dtypes=("float64",), shape=None, **more):
    name = f"{kind}_pool{rank}d"
    return Case(
        name,
        lambda xp, x: getattr(xp, name)(x, window, **options),
        lambda x: getattr(naive, f"{kind}_pool")(x, window, **options),
        [shape or IMAGES[rank]],
        dtypes,
        **{"exact": kind == "max", **more},
    )


def gradients(rank, window, options, dtypes=("float64",)):
    x = IMAGES[rank]
    g = naive.max_pool(np.zeros(x), window, **options).shape
    yield Case(
        "max_pool_gradient",
        lambda xp, a, d: xp.max_pool_gradient(a, d, window, **options),
        lambda a, d: naive.max_pool_gradient(a, d, window, **options),
        [x, g],
        dtypes,
        exact=False,
        domain=(-2.0, 2.0),
    )
    yield Case(
        "max_pool_select",
        lambda xp, a, b: xp.max_pool_select(a, b, window, **options),
        lambda a, b: naive.max_pool_select(a, b, window, **options),
        [x, x],
        dtypes,
        domain=(-2.0, 2.0),
    )
    yield Case(
        "avg_pool_gradient",
        lambda xp, d: xp.avg_pool_gradient(d, window, input_shape=x, **options),
        lambda d: naive.avg_pool_gradient(d, window, input_shape=x, **options),
        [g],
        dtypes,
        exact=False,
    )


def over_space(name, oracle, dtypes, **more):
    for keepdims in (False, True):
        for rank in (1, 2, 3):
            yield Case(
                name,
                lambda xp, x, k=keepdims: getattr(xp, name)(x, keepdims=k),
                lambda x, k=keepdims: oracle(x, axis=tuple(range(1, x.ndim - 1)), keepdims=k),
                [IMAGES[rank]],
                dtypes,
                **more,
            )


def repeated(x, factors):
    return np.kron(x, np.ones((1, *factors, 1), x.dtype))


def summed(x, factors):
    out = np.zeros(
        (x.shape[0], *(n // f for n, f in zip(x.shape[1:-1], factors, strict=True)), x.shape[-1]),
        x.dtype,
    )
    for b, *place, c in np.ndindex(*x.shape):
        out[(b, *(i // f for i, f in zip(place, factors, strict=True)), c)] += x[(b, *place, c)]
    return out


CASES = [
    *(pool("max", r, w, o) for r in (1, 2, 3) for w, o in OPTIONS),
    *(pool("avg", r, w, o) for r in (1, 2, 3) for w, o in OPTIONS),
    pool("max", 1, 3, {"padding": "SAME"}, REAL),
    pool("max", 2, (3, 2), {"strides": (1, 2), "padding": ((1, 1), (0, 1))}, FLOATS, special=True),
    pool("avg", 1, 3, {"padding": "SAME"}, (*INTEGERS, "bool", "float16", *INEXACT)),
    pool("avg", 2, (3, 2), {"strides": (1, 2), "padding": ((2, 1), (0, 1))}, FLOATS),
    pool("max", 1, 2, {}, shape=(0, 6, 2)),
    pool("max", 1, 2, {}, shape=(2, 0, 2)),
    pool("avg", 1, 2, {"padding": "SAME"}, shape=(2, 0, 2)),
    *(case for r in (1, 2, 3) for w, o in OPTIONS for case in gradients(r, w, o)),
    *gradients(1, 3, {"strides": 1, "padding": "SAME"}, ("int32", "float32")),
    *over_space("global_max_pool", np.max, ("int32", *FLOATS)),
    *over_space("global_avg_pool", np.mean, ("int32", *INEXACT), exact=False),
    *(
        Case(
            f"upsampling{len(f)}d",
            lambda xp, x, f=f: getattr(xp, f"upsampling{len(f)}d")(x, f),
            lambda x, f=f: repeated(x, f),
            [IMAGES[len(f)]],
            EVERYTHING,
        )
        for f in ((3,), (2, 3), (1, 2, 2))
    ),
    Case(
        "upsampling2d",
        lambda xp, x: xp.upsampling2d(x, 2),
        lambda x: x.repeat(2, 1).repeat(2, 2),
        [(0, 2, 3, 1)],
    ),
    *(
        Case(
            "upsampling_gradient",
            lambda xp, x, f=f: xp.upsampling_gradient(x, f),
            lambda x, f=f: summed(x, f),
            [s],
            ("int32", *INEXACT),
            exact=False,
        )
        for s, f in (((2, 6, 3), (3,)), ((1, 4, 9, 2), (2, 3)), ((1, 2, 4, 2, 1), (1, 2, 2)))
    ),
]
