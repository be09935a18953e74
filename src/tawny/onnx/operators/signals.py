"""Operators of signals: Fourier transforms, and the bands of human hearing."""

from __future__ import annotations

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.node import Value
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.movement import dtype_of
from tawny.onnx.table import operator


def as_complex(x: Array) -> Array:
    """Complex numbers, whose real and imaginary parts, or one alone, are the last axis."""
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


def as_pairs(x: Array) -> Array:
    """Real and imaginary parts on a last axis."""
    return np.stack([np.real(x), np.imag(x)], -1)


@operator("DFT")
def fourier(call: NodeCall) -> Array:
    """The discrete Fourier transform of an axis."""
    x = call.array(0)
    if x.ndim < 2 or x.shape[-1] not in {1, 2}:
        call.fail(f"operand 0 has shape {x.shape}; its last axis must be of 1 or 2 parts")
    if call.opset >= 20:
        axis = call.known_int(2) if call.optional(2) is not None else -2
    else:
        axis = call.integer("axis", 1)
    axis = call.axis(axis, x.ndim)
    if axis == x.ndim - 1:
        call.fail("the axis is that of real and imaginary parts")
    length = call.known_int(1) if call.optional(1) is not None else None
    inverse, onesided = call.flag("inverse"), call.flag("onesided")
    if onesided and inverse:
        whole = np.fft.irfft(as_complex(x) + 0j, n=length, axis=axis)
        return np.expand_dims(whole, -1).astype(x.dtype)
    numbers = as_complex(x)
    if onesided and x.shape[-1] == 1:
        made = np.fft.rfft(numbers, n=length, axis=axis)
    elif onesided:
        made = np.fft.fft(numbers, n=length, axis=axis)
        count = made.shape[axis] // 2 + 1
        made = made[(slice(None),) * axis + (slice(0, count),)]
    else:
        made = (np.fft.ifft if inverse else np.fft.fft)(numbers, n=length, axis=axis)
    return as_pairs(made).astype(x.dtype)


@operator("STFT")
def short_fourier(call: NodeCall) -> Array:
    """Fourier transforms of frames of a signal."""
    x, step, window = call.array(0), call.known_int(1), call.optional(2)
    if call.optional(3) is not None:
        length = call.known_int(3)
    elif window is not None:
        length = window.shape[0]
    else:
        call.fail("neither a window nor a frame length is given")
    signal = as_complex(x) if x.ndim == 3 else x
    if step < 1 or not 0 < length <= signal.shape[1]:
        call.fail(f"frames of {length} elements, {step} apart, of a signal of {signal.shape[1]}")
    count = (signal.shape[1] - length) // step + 1
    call.check_elements(count * length, "frames")
    places = numpy.arange(count)[:, None] * step + numpy.arange(length)
    frames = np.take(signal, np.asarray(places), axis=1)
    frames = frames if window is None else frames * window
    if call.flag("onesided", True):
        made = np.fft.rfft(frames) if x.ndim == 2 or x.shape[-1] == 1 else np.fft.fft(frames)
        made = made[..., : length // 2 + 1]
    else:
        made = np.fft.fft(frames)
    return as_pairs(made).astype(x.dtype)


@operator("MelWeightMatrix")
def mel_weights(call: NodeCall) -> Array:
    """Weights of frequencies in the bands of human hearing."""
    bands, length, rate = (call.known_int(i) for i in range(3))
    low, high = (float(call.known_operand(i).reshape(())) for i in (3, 4))
    if not 0 < bands < 2**16 or not 0 < length < 2**24 or rate <= 0:
        call.fail(f"{bands} bands, a transform of {length}, a rate of {rate}")
    call.check_elements(bands * length, "weights")
    step = (_mel(high) - _mel(low)) / (bands + 2)
    edges = _mel(low) + numpy.arange(bands + 2) * step
    bins = ((length + 1) * (700 * (10 ** (edges / 2595) - 1)) // rate).astype(numpy.int64)
    made: Value = numpy.zeros((length // 2 + 1, bands))
    for band in range(bands):
        left, centre, right = map(int, bins[band : band + 3])
        if centre == left:
            made[centre, band] = 1
        else:
            steps = numpy.arange(left, centre + 1)
            made[left : centre + 1, band] = (steps - left) / (centre - left)
        if right > centre:
            steps = numpy.arange(centre, right)
            made[centre:right, band] = (right - steps) / (right - centre)
    return np.asarray(made.astype(dtype_of(call, "output_datatype", 1)))


def _mel(frequency: float) -> float:
    return float(2595 * numpy.log10(1 + frequency / 700))
