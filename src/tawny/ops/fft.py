"""Discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, check_device, lift, store, wrap
from tawny.attributes import Bounds
from tawny.dtype import DType, as_dtype, check_categories, kind_of
from tawny.errors import index_error, type_error, value_error
from tawny.node import Node, constant, make
from tawny.op import BatchOperand, Gradient, Op, Type
from tawny.operator import emit, public
from tawny.ops import elementwise as e
from tawny.ops.creation import arange, astype, cast_node, copy
from tawny.ops.indexing import Slice, pad_node
from tawny.ops.movement import behind_batch, roll
from tawny.shape import Shape, as_int, normalise_axes, normalise_axis, replace_size, size

Norm = Literal["backward", "ortho", "forward"] | None
Sizes = Sequence[int | None] | None
Axes = Sequence[int] | None

NORMS: Final = ("backward", "ortho", "forward")
SWAPPED: Final[dict[str, str]] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The norm under which the other direction is scaled alike."""


class Transform(Op):
    """A transform along different `axes`, each cut or padded with zeros to its size.

    `norm` says which direction is divided by the size: "backward", "forward", or both by its
    root ("ortho").
    """

    sizes: Annotated[tuple[int, ...], Bounds(1)]
    axes: tuple[int, ...]
    norm: str

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        if len(set(self.axes)) != len(self.axes):
            raise value_error(self.facts().name, f"axes {self.axes} name an axis twice")
        for axis, n in zip(self.axes, self.sizes, strict=True):
            shape = replace_size(shape, axis, n)
        return shape

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.complex_dtype(dtypes[0])

    def mistake(self, types: Sequence[Type]) -> str | None:
        """A size for each axis, and a known norm."""
        if len(self.sizes) != len(self.axes):
            return f"sizes are {self.sizes}; expected one for each axis"
        if self.norm not in NORMS:
            return f"norm is {self.norm!r}; expected one of {NORMS}"
        return super().mistake(types)

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        op = self.with_attributes(axes=behind_batch(self.axes))
        return make(op, (operands[0].node,))

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """As published of fast transforms: 5 n log n for each of n numbers, the axes one by one."""
        halvings = sum([(n - 1).bit_length() for n in self.sizes])
        return 5 * max(size(result), size(operands[0])) * halvings


class FFT(Transform, name="fft", oracle="numpy.fft.fftn", gradient=Gradient.LINEAR):
    """Discrete Fourier transform, or its inverse."""

    inverse: bool

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """The matrix is symmetric, so a cotangent takes the same transform."""
        return _resize(emit(self, cotangent), x.shape)


class RealFFT(Transform, name="rfft", oracle="numpy.fft.rfftn", gradient=Gradient.LINEAR):
    """Transform of real values: only the half of the last axis that says all."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        shape = super().infer_shape(*shapes)
        return replace_size(shape, self.axes[-1], self.sizes[-1] // 2 + 1)

    def infer_dtype(self, *dtypes: DType) -> DType:
        check_categories("rfft", 0, dtypes[0], dt.REAL)
        return super().infer_dtype(*dtypes)

    def mistake(self, types: Sequence[Type]) -> str | None:
        if not self.axes:
            return f"sizes are {self.sizes}; expected at least 1 for each axis"
        return super().mistake(types)

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """The inverse adds the mirror images, so the elements that have one go in by half."""
        inverse = InverseRealFFT(self.sizes, self.axes, SWAPPED[self.norm])
        halved = e.multiply(e.conj(cotangent), _mirror_weights(self, cotangent, 0.5))
        return _resize(emit(inverse, halved), x.shape)


class InverseRealFFT(Transform, name="irfft", oracle="numpy.fft.irfftn", gradient=Gradient.LINEAR):
    """Real values from the half that their transform is given by."""

    def infer_dtype(self, *dtypes: DType) -> DType:
        (dtype,) = dtypes
        several = dt.real_dtype(dt.complex_dtype(dtype))
        return several if len(self.axes) > 1 else dt.real_dtype(dt.inexact_dtype(dtype))

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """An element that stands for its mirror image too counts twice."""
        half = e.conj(emit(RealFFT(self.sizes, self.axes, SWAPPED[self.norm]), cotangent))
        return _resize(e.multiply(half, _mirror_weights(self, half, 2.0)), x.shape)


def _mirror_weights(op: Transform, half: Array, mirrored: float) -> Array:
    """`mirrored` where an element of `half` has a mirror image; 1 at the ends that have none."""
    n, axis = op.sizes[-1], op.axes[-1]
    values = np.full(n // 2 + 1, mirrored, dt.real_dtype(half.dtype))
    values[0] = 1
    if n % 2 == 0:
        values[-1] = 1
    return wrap(constant(values.reshape(-1, *(1,) * (half.ndim - 1 - axis))))


def _resize(x: Array, shape: Shape) -> Array:
    """`x` cut or padded with zeros to `shape`: the transpose of doing the opposite."""
    node = x.node
    kept = tuple(map(min, node.shape, shape))
    if kept != node.shape:
        node = make(Slice(tuple((0, n, 1) for n in kept)), (node,))
    if kept != shape:
        node = pad_node(node, [(0, n - k) for n, k in zip(shape, kept, strict=True)], 0)
    return wrap(node)


def _check_norm(op: str, norm: object) -> str:
    if norm is None:
        return "backward"
    if norm not in NORMS:
        raise value_error(op, f"norm is {norm!r}; accepted: 'backward', 'ortho', 'forward'")
    return str(norm)


def _positive(op: str, n: int) -> int:
    if n < 1:
        raise value_error(op, f"the transform would have {n} points; there must be at least 1")
    return n


def _one_axis(op: str, x: ArrayLike, n: int | None, axis: int, half: bool) -> tuple[Node, int, int]:
    """The node, the axis and the number of points; `half` where operand 0 holds only a half."""
    node = lift(x, op)
    if not node.shape:
        raise index_error(op, "operand 0 has no axes; it must have at least one")
    place = normalise_axis(axis, len(node.shape), op)
    given = node.shape[place]
    points = as_int(n, op, "n") if n is not None else 2 * (given - 1) if half else given
    return node, place, _positive(op, points)


def _several_axes(
    op: str, x: ArrayLike, s: Sizes, axes: Axes, half: bool
) -> tuple[Node, tuple[int, ...], tuple[int, ...]]:
    """The node, the axes and their numbers of points."""
    node = lift(x, op)
    rank = len(node.shape)
    if axes is None:
        count = rank if s is None else len(s)
        if count > rank:
            raise value_error(op, f"s is {s!r}, for {count} axes; operand 0 has only {rank}")
        places = tuple(range(rank - count, rank))
    else:
        places = tuple(normalise_axis(a, rank, op) for a in axes)
    given = [node.shape[a] for a in places]
    if s is None:
        points = list(given)
        if half and points:
            points[-1] = 2 * (points[-1] - 1)
    else:
        if len(s) != len(places):
            raise value_error(op, f"s is {s!r} and axes {places}; they must have the same length")
        wanted = [-1 if n is None else as_int(n, op, "s") for n in s]
        points = [g if n == -1 else n for n, g in zip(wanted, given, strict=True)]
    if half and not places:
        raise index_error(op, "axes is empty; at least one axis is needed")
    return node, places, tuple(_positive(op, n) for n in points)


def _node_of(op: Transform, x: Node) -> Node:
    """The node of a transform, whose operand is converted to what compiled code takes.

    Of float16 NumPy has the last word: it rounds the scale to that.
    """
    wide = dt.complex_dtype(x.dtype)
    stays = isinstance(op, InverseRealFFT) or x.dtype.kind == "c"
    wanted = wide if stays else dt.real_dtype(wide)
    return make(op, (x if x.dtype == dt.FLOAT16 else cast_node(x, wanted),))


@public(module="fft")
def fft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None, out: Out = None
) -> Array:
    """Fourier transform along `axis`, cut or padded to `n` points."""
    node, place, points = _one_axis("fft", a, n, axis, half=False)
    return store(
        out,
        wrap(_node_of(FFT((points,), (place,), _check_norm("fft", norm), inverse=False), node)),
        "fft",
    )


@public(module="fft")
def ifft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None, out: Out = None
) -> Array:
    """Inverse Fourier transform along `axis`, cut or padded to `n` points."""
    node, place, points = _one_axis("ifft", a, n, axis, half=False)
    return store(
        out,
        wrap(_node_of(FFT((points,), (place,), _check_norm("ifft", norm), inverse=True), node)),
        "ifft",
    )


def _to_half(op: str, x: ArrayLike, n: int | None, axis: int, norm: str) -> Array:
    node, place, points = _one_axis(op, x, n, axis, half=False)
    check_categories(op, 0, node.dtype, dt.REAL)
    return wrap(_node_of(RealFFT((points,), (place,), norm), node))


def _from_half(op: str, x: ArrayLike, n: int | None, axis: int, norm: str) -> Array:
    node, place, points = _one_axis(op, x, n, axis, half=True)
    return wrap(_node_of(InverseRealFFT((points,), (place,), norm), node))


@public(module="fft")
def rfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None, out: Out = None
) -> Array:
    """The first half of the Fourier transform of real values along `axis`."""
    return store(out, _to_half("rfft", a, n, axis, _check_norm("rfft", norm)), "rfft")


@public(module="fft")
def irfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None, out: Out = None
) -> Array:
    """The `n` real values whose Fourier transform has `a` as its first half."""
    return store(out, _from_half("irfft", a, n, axis, _check_norm("irfft", norm)), "irfft")


@public(module="fft")
def hfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None, out: Out = None
) -> Array:
    """The real Fourier transform of values given by the half that mirrors into the other."""
    return store(
        out, _from_half("hfft", e.conj(a), n, axis, SWAPPED[_check_norm("hfft", norm)]), "hfft"
    )


@public(module="fft")
def ihfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None, out: Out = None
) -> Array:
    """The half of the inverse Fourier transform of real values that mirrors into the other."""
    return store(
        out, e.conj(_to_half("ihfft", a, n, axis, SWAPPED[_check_norm("ihfft", norm)])), "ihfft"
    )


def _repeats(places: tuple[int, ...]) -> bool:
    """Whether an axis is named twice, and so transformed twice."""
    return len(set(places)) != len(places)


def _one_by_one(
    node: Node, points: Sequence[int], places: Sequence[int], norm: str, inverse: bool
) -> Node:
    for n, axis in zip(points, places, strict=True):
        node = _node_of(FFT((n,), (axis,), norm, inverse), node)
    return node


def _complex(op: str, x: ArrayLike, s: Sizes, axes: Axes, norm: object, inverse: bool) -> Array:
    node, places, points = _several_axes(op, x, s, axes, half=False)
    if not places:
        return copy(wrap(node))
    scale = _check_norm(op, norm)
    if _repeats(places):
        return wrap(_one_by_one(node, points[::-1], places[::-1], scale, inverse))
    return wrap(_node_of(FFT(points, places, scale, inverse), node))


def _real(op: str, x: ArrayLike, s: Sizes, axes: Axes, norm: object) -> Array:
    node, places, points = _several_axes(op, x, s, axes, half=False)
    if not places:
        raise index_error(op, "axes is empty; at least one axis is needed")
    check_categories(op, 0, node.dtype, dt.REAL)
    scale = _check_norm(op, norm)
    if _repeats(places):
        half = _node_of(RealFFT(points[-1:], places[-1:], scale), node)
        return wrap(_one_by_one(half, points[-2::-1], places[-2::-1], scale, inverse=False))
    return wrap(_node_of(RealFFT(points, places, scale), node))


def _inverse_real(op: str, x: ArrayLike, s: Sizes, axes: Axes, norm: object) -> Array:
    node, places, points = _several_axes(op, x, s, axes, half=True)
    scale = _check_norm(op, norm)
    if _repeats(places):
        half = _one_by_one(node, points[:-1], places[:-1], scale, inverse=True)
        return wrap(_node_of(InverseRealFFT(points[-1:], places[-1:], scale), half))
    return wrap(_node_of(InverseRealFFT(points, places, scale), node))


@public(module="fft")
def fftn(
    a: ArrayLike, s: Sizes = None, axes: Axes = None, norm: Norm = None, out: Out = None
) -> Array:
    """Fourier transform along several axes (all when None), cut or padded to sizes `s`."""
    return store(out, _complex("fftn", a, s, axes, norm, inverse=False), "fftn")


@public(module="fft")
def ifftn(
    a: ArrayLike, s: Sizes = None, axes: Axes = None, norm: Norm = None, out: Out = None
) -> Array:
    """Inverse Fourier transform along several axes (all when None)."""
    return store(out, _complex("ifftn", a, s, axes, norm, inverse=True), "ifftn")


@public(module="fft")
def rfftn(
    a: ArrayLike, s: Sizes = None, axes: Axes = None, norm: Norm = None, out: Out = None
) -> Array:
    """Fourier transform of real values along several axes; a half of the last one says all."""
    return store(out, _real("rfftn", a, s, axes, norm), "rfftn")


@public(module="fft")
def irfftn(
    a: ArrayLike, s: Sizes = None, axes: Axes = None, norm: Norm = None, out: Out = None
) -> Array:
    """The real values whose Fourier transform along several axes has `a` as a half."""
    return store(out, _inverse_real("irfftn", a, s, axes, norm), "irfftn")


@public(module="fft")
def fft2(
    a: ArrayLike,
    s: Sizes = None,
    axes: Sequence[int] = (-2, -1),
    norm: Norm = None,
    out: Out = None,
) -> Array:
    """Fourier transform along two axes."""
    return store(out, _complex("fft2", a, s, axes, norm, inverse=False), "fft2")


@public(module="fft")
def ifft2(
    a: ArrayLike,
    s: Sizes = None,
    axes: Sequence[int] = (-2, -1),
    norm: Norm = None,
    out: Out = None,
) -> Array:
    """Inverse Fourier transform along two axes."""
    return store(out, _complex("ifft2", a, s, axes, norm, inverse=True), "ifft2")


@public(module="fft")
def rfft2(
    a: ArrayLike,
    s: Sizes = None,
    axes: Sequence[int] = (-2, -1),
    norm: Norm = None,
    out: Out = None,
) -> Array:
    """Fourier transform of real values along two axes; a half of the last one says all."""
    return store(out, _real("rfft2", a, s, axes, norm), "rfft2")


@public(module="fft")
def irfft2(
    a: ArrayLike,
    s: Sizes = None,
    axes: Sequence[int] = (-2, -1),
    norm: Norm = None,
    out: Out = None,
) -> Array:
    """The real values whose Fourier transform along two axes has `a` as a half."""
    return store(out, _inverse_real("irfft2", a, s, axes, norm), "irfft2")


# ----------------------------------------------------------------- frequencies


def _step(op: str, n: int, d: float) -> tuple[int, float]:
    """The number of points, and the distance between two frequencies."""
    points = _positive(op, as_int(n, op, "n"))
    if isinstance(d, bool) or not isinstance(d, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error(op, f"d must be a real number, not {type(d).__name__} {d!r}")
    if d == 0:
        raise value_error(op, "d is 0; the distance between samples must not be")
    return points, 1.0 / (points * d)


def _frequencies(op: str, places: Array, step: float, dtype: Any) -> Array:
    wanted = dt.FLOAT64 if dtype is None else as_dtype(dtype, op)
    if kind_of(wanted) != "f":
        raise type_error(op, f"dtype is {wanted}; it must be a floating-point dtype")
    return astype(e.multiply(places, step), wanted, copy=False)


@public(module="fft")
def fftfreq(n: int, d: float = 1.0, device: str | None = None, *, dtype: Any = None) -> Array:
    """The frequencies of the points of `fft`, for samples `d` apart."""
    check_device(device, "fftfreq")
    points, step = _step("fftfreq", n, d)
    half = points // 2
    places = e.subtract(e.remainder(e.add(arange(points), half), points), half)
    return _frequencies("fftfreq", places, step, dtype)


@public(module="fft")
def rfftfreq(n: int, d: float = 1.0, device: str | None = None, *, dtype: Any = None) -> Array:
    """The frequencies of the points of `rfft`, for samples `d` apart."""
    check_device(device, "rfftfreq")
    points, step = _step("rfftfreq", n, d)
    return _frequencies("rfftfreq", arange(points // 2 + 1), step, dtype)


def _roll_halves(op: str, x: ArrayLike, axes: int | Sequence[int] | None, back: bool) -> Array:
    array = wrap(lift(x, op))
    given = tuple(axes) if isinstance(axes, Sequence) else axes
    places = normalise_axes(given, array.ndim, op)
    if not places:
        return copy(array)
    halves = [array.shape[a] // 2 for a in places]
    return roll(array, tuple(-h if back else h for h in halves), axis=places)


@public(module="fft")
def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """`x` with the zero frequency moved from the front to the middle."""
    return _roll_halves("fftshift", x, axes, back=False)


@public(module="fft")
def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """`x` with the zero frequency moved from the middle to the front."""
    return _roll_halves("ifftshift", x, axes, back=True)
