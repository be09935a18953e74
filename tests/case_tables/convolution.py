"""Convolutions against loops over single windows."""

from __future__ import annotations

import numpy as np

from cases import FLOATS, INEXACT, INTEGERS, Case
from naive_windows import correlate, input_gradient, kernel_gradient, spread

OPTIONS = (
    {},
    {"padding": "VALID"},
    {"strides": 2},
    {"strides": 2, "padding": "VALID"},
    {"strides": 3, "dilation": 2},
    {"dilation": 2, "padding": "VALID"},
)
IMAGES = {
    1: ((2, 9, 3), (3, 3, 4)),
    2: ((2, 7, 6, 3), (3, 2, 3, 4)),
    3: ((1, 6, 5, 5, 2), (2, 3, 2, 2, 3)),
}
EXPLICIT = {1: ((2, 1),), 2: ((1, 0), (0, 3)), 3: ((0, 1), (2, 2), (1, 0))}
SMALL = (-2.0, 2.0)


def conv(rank, options, shapes=None, dtypes=("float64",), **more):
    name = f"conv{rank}d"
    return Case(
        name,
        lambda xp, x, k: getattr(xp, name)(x, k, **options),
        lambda x, k: correlate(x, k, **options),
        shapes or IMAGES[rank],
        dtypes,
        exact=False,
        domain=SMALL,
        **more,
    )


def transposed(rank, options, shapes=None, dtypes=("float64",)):
    name = f"conv_transpose{rank}d"
    return Case(
        name,
        lambda xp, x, k: getattr(xp, name)(x, k, **options),
        lambda x, k: spread(x, k, **options),
        shapes or IMAGES[rank],
        dtypes,
        exact=False,
        domain=SMALL,
    )


def depthwise(rank, options, dtypes=("float64",)):
    name = f"depthwise_conv{rank}d"
    image, kernel = IMAGES[rank]

    def witness(x, k):
        each = [
            correlate(x[..., c : c + 1], k[..., c : c + 1, :], **options)
            for c in range(x.shape[-1])
        ]
        return np.concatenate(each, axis=-1)

    return Case(
        name,
        lambda xp, x, k: getattr(xp, name)(x, k, **options),
        witness,
        [image, (*kernel[:-1], 2)],
        dtypes,
        exact=False,
        domain=SMALL,
    )


def gradients(rank, options, dtypes=("float64",)):
    x, k = (np.zeros(s) for s in IMAGES[rank])
    if options.get("groups"):
        k = np.zeros((*k.shape[:-2], 1, 2 * x.shape[-1]))
    g = correlate(x, k, **options).shape
    yield Case(
        "conv_input_gradient",
        lambda xp, w, d: xp.conv_input_gradient(w, d, input_shape=x.shape, **options),
        lambda w, d: input_gradient(w, d, input_shape=x.shape, **options),
        [k.shape, g],
        dtypes,
        exact=False,
        domain=SMALL,
    )
    yield Case(
        "conv_kernel_gradient",
        lambda xp, a, d: xp.conv_kernel_gradient(a, d, kernel_shape=k.shape, **options),
        lambda a, d: kernel_gradient(a, d, kernel_shape=k.shape, **options),
        [x.shape, g],
        dtypes,
        exact=False,
        domain=SMALL,
    )


CASES = [
    *(conv(rank, options) for rank in (1, 2, 3) for options in OPTIONS),
    *(conv(rank, {"padding": EXPLICIT[rank]}) for rank in (1, 2, 3)),
    conv(1, {"strides": 2}, dtypes=(*INTEGERS, "float16", *INEXACT)),
    conv(2, {"strides": (1, 2), "dilation": (2, 1)}, dtypes=FLOATS),
    conv(1, {"groups": 3}, [(2, 9, 6), (3, 2, 9)], dtypes=("int32", "float32", "complex128")),
    conv(2, {"groups": 2, "strides": 2}, [(2, 6, 5, 4), (3, 3, 2, 6)]),
    conv(1, {"strides": 4}, [(1, 10, 1), (2, 1, 1)]),
    conv(1, {}, [(0, 5, 2), (3, 2, 2)]),
    conv(1, {}, [(2, 0, 2), (3, 2, 2)]),
    conv(1, {"padding": "VALID"}, [(2, 0, 2), (3, 2, 2)]),
    conv(1, {}, [(2, 5, 0), (3, 0, 2)]),
    conv(1, {}, [(2, 5, 2), (3, 2, 0)]),
    *(
        transposed(rank, options)
        for rank in (1, 2, 3)
        for options in (
            {},
            {"strides": 2},
            {"padding": "VALID"},
            {"strides": 4, "padding": "VALID"},
            {"strides": 4},
        )
    ),
    transposed(1, {"strides": 2, "padding": ((1, 1),)}, dtypes=("int32", "float32", "complex64")),
    transposed(2, {"padding": ((1, 0), (0, 1))}),
    transposed(1, {}, [(0, 5, 2), (3, 2, 2)]),
    *(depthwise(rank, options) for rank in (1, 2, 3) for options in OPTIONS[:4]),
    depthwise(1, {"dilation": 2}, ("int16", "float32", "complex128")),
    *(case for rank in (1, 2) for options in OPTIONS for case in gradients(rank, options)),
    *gradients(1, {"strides": 2, "groups": 3}, ("int64", "float32", "complex128")),
    *gradients(2, {"padding": EXPLICIT[2], "groups": 3}),
    *gradients(3, {"strides": 2}),
]
