"""Convolution and pooling as loops over single windows: slow, plain witnesses."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np


def pads_of(padding, sizes, spans, strides):
    """Padding as pairs; "SAME" centres ceil(n / stride) windows, the odd element at the far end."""
    if padding == "VALID":
        return [(0, 0)] * len(sizes)
    if padding == "SAME":
        out = []
        for n, span, stride in zip(sizes, spans, strides, strict=True):
            reached = (math.ceil(n / stride) - 1) * stride + span
            missing = max(0, reached - n)
            out.append((missing // 2, math.ceil(missing / 2)))
        return out
    return list(padding)


def each(value, rank):
    return list(value) if isinstance(value, (tuple, list)) else [value] * rank


def starts(n, pads, span, stride):
    """Where windows start, counted from the first element; negative in the padding."""
    return list(range(-pads[0], n + pads[1] - span + 1, stride))


@functools.cache
def meetings(shape, kernel_shape, strides, padding, dilation):
    """How many windows there are, and where each tap of each meets the input.

    A meeting is an output's place, a tap and the place it sees; what lies outside is no meeting.
    """
    rank = len(shape) - 2
    strides, dilation = each(strides, rank), each(dilation, rank)
    window = kernel_shape[:rank]
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    pads = pads_of(padding, shape[1:-1], spans, strides)
    places = [
        starts(n, p, s, t) for n, p, s, t in zip(shape[1:-1], pads, spans, strides, strict=True)
    ]
    found = []
    for where in itertools.product(*(range(len(p)) for p in places)):
        corner = [p[i] for p, i in zip(places, where, strict=True)]
        for at in itertools.product(*map(range, window)):
            seen = tuple(c + a * d for c, a, d in zip(corner, at, dilation, strict=True))
            if all(0 <= i < n for i, n in zip(seen, shape[1:-1], strict=True)):
                found.append((where, at, seen))
    return tuple(map(len, places)), found


def _met(shape, kernel_shape, strides=1, padding="VALID", dilation=1, groups=1):
    counts, found = meetings(shape, kernel_shape, strides, padding, dilation)
    outputs = (shape[0], *counts, groups, kernel_shape[-1] // groups)
    inputs = (*shape[:-1], groups, kernel_shape[-2])
    return inputs, (*kernel_shape[:-1], groups, kernel_shape[-1] // groups), outputs, found


def _wide(*arrays):
    """Arrays to compute with, float16 as float32, and the dtype of the result."""
    dtype = np.result_type(*arrays)
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    return *[a.astype(wide) for a in arrays], dtype


def correlate(x, kernel, **options):
    """A convolution: for each window the products of what it sees."""
    x, kernel, dtype = _wide(x, kernel)
    inputs, weights, outputs, found = _met(x.shape, kernel.shape, **options)
    x, kernel, out = x.reshape(inputs), kernel.reshape(weights), np.zeros(outputs, x.dtype)
    for where, at, seen in found:
        out[:, *where] += np.einsum("bgi,igo->bgo", x[:, *seen], kernel[at])
    return out.reshape(*outputs[:-2], kernel.shape[-2] * kernel.shape[-1]).astype(dtype)


def input_gradient(kernel, gradient, *, input_shape, **options):
    """What each output's gradient sends back to each input."""
    kernel, gradient, dtype = _wide(kernel, gradient)
    inputs, weights, outputs, found = _met(input_shape, kernel.shape, **options)
    kernel, gradient = kernel.reshape(weights), gradient.reshape(outputs)
    out = np.zeros(inputs, kernel.dtype)
    for where, at, seen in found:
        out[:, *seen] += np.einsum("igo,bgo->bgi", kernel[at], gradient[:, *where])
    return out.reshape(input_shape).astype(dtype)


def kernel_gradient(x, gradient, *, kernel_shape, **options):
    """What each output's gradient sends back to each number of the kernel."""
    x, gradient, dtype = _wide(x, gradient)
    inputs, weights, outputs, found = _met(x.shape, kernel_shape, **options)
    x, gradient, out = x.reshape(inputs), gradient.reshape(outputs), np.zeros(weights, x.dtype)
    for where, at, seen in found:
        out[at] += np.einsum("bgi,bgo->igo", x[:, *seen], gradient[:, *where])
    return out.reshape(kernel_shape).astype(dtype)


def spread(x, kernel, *, strides=1, padding="VALID"):
    """A transposed convolution: each element adds its multiple of the kernel around it."""
    rank = x.ndim - 2
    strides = each(strides, rank)
    window = kernel.shape[:-2]
    if isinstance(padding, str):
        sizes = [
            n * s + (max(w - s, 0) if padding == "VALID" else 0)
            for n, w, s in zip(x.shape[1:-1], window, strides, strict=True)
        ]
    else:
        sizes = [
            (n - 1) * s + w - sum(p)
            for n, w, s, p in zip(x.shape[1:-1], window, strides, padding, strict=True)
        ]
    pads = pads_of(padding, sizes, window, strides)
    out = np.zeros((len(x), *sizes, kernel.shape[-1]), np.result_type(x, kernel))
    for b in range(len(x)):
        for where in itertools.product(*map(range, x.shape[1:-1])):
            for at in itertools.product(*map(range, window)):
                seen = [
                    i * s + a - p[0] for i, s, a, p in zip(where, strides, at, pads, strict=True)
                ]
                if all(0 <= i < n for i, n in zip(seen, sizes, strict=True)):
                    out[(b, *seen)] += x[(b, *where)] @ kernel[at]
    return out


def pool(x, window, fold, *, strides=None, padding="VALID"):
    """`fold` of the list of (index, element) each window sees, padding left out."""
    rank = x.ndim - 2
    window = each(window, rank)
    strides = window if strides is None else each(strides, rank)
    pads = pads_of(padding, x.shape[1:-1], window, strides)
    places = [
        starts(n, p, w, s) for n, p, w, s in zip(x.shape[1:-1], pads, window, strides, strict=True)
    ]
    results = {}
    for b, c in itertools.product(range(x.shape[0]), range(x.shape[-1])):
        for where in itertools.product(*(range(len(p)) for p in places)):
            corner = [p[i] for p, i in zip(places, where, strict=True)]
            seen = []
            for at in itertools.product(*map(range, window)):
                index = tuple(k + a for k, a in zip(corner, at, strict=True))
                if all(0 <= i < n for i, n in zip(index, x.shape[1:-1], strict=True)):
                    seen.append(((b, *index, c), x[(b, *index, c)]))
            results[(b, *where, c)] = fold(seen)
    return (x.shape[0], *map(len, places), x.shape[-1]), results


def first_maximum(seen):
    """The index of the first greatest element; NaN is greater than all."""
    best = seen[0]
    for entry in seen[1:]:
        if not np.isnan(best[1]) and (entry[1] > best[1] or np.isnan(entry[1])):
            best = entry
    return best


def max_pool(x, window, **options):
    shape, results = pool(x, window, lambda seen: first_maximum(seen)[1], **options)
    out = np.zeros(shape, x.dtype)
    for index, value in results.items():
        out[index] = value
    return out


def avg_pool(x, window, **options):
    dtype = x.dtype if x.dtype.kind in "fc" else np.dtype("float64")
    wide = np.dtype("float32") if dtype == np.float16 else dtype
    shape, results = pool(
        x.astype(wide), window, lambda seen: sum(v for _, v in seen) / len(seen), **options
    )
    out = np.zeros(shape, wide)
    for index, value in results.items():
        out[index] = value
    return out.astype(dtype)


def max_pool_gradient(x, gradient, window, **options):
    _, results = pool(x, window, lambda seen: first_maximum(seen)[0], **options)
    out = np.zeros(x.shape, gradient.dtype)
    for index, place in results.items():
        out[place] += gradient[index]
    return out


def max_pool_select(x, choices, window, **options):
    shape, results = pool(x, window, lambda seen: first_maximum(seen)[0], **options)
    out = np.zeros(shape, choices.dtype)
    for index, place in results.items():
        out[index] = choices[place]
    return out


def avg_pool_gradient(gradient, window, *, input_shape, **options):
    dtype = gradient.dtype if gradient.dtype.kind in "fc" else np.dtype("float64")
    _, results = pool(np.zeros(input_shape), window, lambda seen: [i for i, _ in seen], **options)
    out = np.zeros(input_shape, dtype)
    for index, places in results.items():
        for place in places:
            out[place] += gradient[index] / len(places)
    return out
