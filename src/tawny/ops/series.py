"""Polynomials and convolutions of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.errors import value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Gradient, Op, Type, dtype_mismatch
from tawny.operator import emit, public
from tawny.ops import elementwise as e
from tawny.ops.convolution import Convolution
from tawny.ops.creation import astype, zeros_like
from tawny.ops.cumulative import cumulative_prod
from tawny.ops.einsum import as_common_dtype
from tawny.ops.indexing import pad_node
from tawny.ops.movement import broadcast_to, expand_dims, expand_node, flip, reshape_node
from tawny.ops.precision import in_single
from tawny.shape import Shape, as_shape, size


class Correlate(
    Op, name="correlate", arity=2, oracle="numpy.correlate", gradient=Gradient.MULTILINEAR
):
    """Sums of products of operand 0 with the conjugate of operand 1 at every shift.

    `mode` is "full" (every overlap), "same" (the middle, of the longer's length) or "valid"
    (whole overlaps only).
    """

    mode: str

    def infer_shape(self, *shapes: Shape) -> Shape:
        _check("correlate", shapes, self.mode)
        (a,), (v,) = shapes
        return (a + v - 1 - sum(self.left_out(a, v)),)

    def left_out(self, a: int, v: int) -> tuple[int, int]:
        """How many overlaps of sequences of these lengths it leaves out, in front and behind."""
        least = min(a, v) - 1
        match self.mode:
            case "full":
                return 0, 0
            case "valid":
                return least, least
            case _:  # the middle; of an even number of places the one that NumPy takes
                front = v - 1 - v // 2 if a >= v else a // 2
                return front, least - front

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        """At most one for each element of the shorter at every shift."""
        return min(map(size, operands)) * size(result)

    def mistake(self, types: Sequence[Type]) -> str | None:
        if self.mode not in MODES:
            return f"mode is {self.mode!r}; expected one of {MODES}"
        return dtype_mismatch(types)

    def batch(self, operands: Sequence[BatchOperand]) -> Node | None:
        """A convolution of the longest overlaps; booleans have none."""
        (a, many_a), (v, many_v) = operands
        if a.dtype == dt.BOOL:
            return None
        long, short = a.shape[-1], v.shape[-1]
        front, behind = self.left_out(long, short)
        padding = ((short - 1 - front, short - 1 - behind),)
        kernel = e.conj(wrap(v)).node if v.dtype.kind == "c" else v
        op = Convolution((1,), padding, (1,), 1)
        line = BatchOperand(expand_node(a, (many_a, many_a + 2)), many_a)
        taps = BatchOperand(expand_node(kernel, (many_v + 1, many_v + 2)), many_v)
        made = op.batch((line, taps))
        return reshape_node(made, (made.shape[0], made.shape[2]))

    def pullback(self, cotangent: Array, result: Array, a: Array, v: Array) -> tuple[Array, Array]:
        """Both cotangents are correlations with the cotangent of every overlap.

        Those that `mode` leaves out have cotangent zero.
        """
        before, behind = self.left_out(a.size, v.size)
        whole = cotangent
        if before or behind:
            whole = wrap(pad_node(whole.node, ((before, behind),), 0))
        valid = Correlate("valid")
        conjugate = e.conj(whole) if whole.dtype.kind == "c" else whole
        return emit(valid, whole, flip(v)), flip(emit(valid, conjugate, a))


MODES: Final = ("full", "same", "valid")


def _check(op: str, shapes: Sequence[Shape], mode: str) -> None:
    """Refuse what is no sequence, or has no element, and modes that are not known."""
    for position, shape in enumerate(shapes):
        if len(shape) != 1 or shape[0] == 0:
            raise value_error(
                op, f"operand {position} has shape {shape}; it must have one axis and an element"
            )
    if mode not in MODES:
        raise value_error(op, f"mode is {mode!r}; accepted: 'full', 'same', 'valid'")


@public()
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Array:
    """Sums of products of `a` with the conjugate of `v` at every shift that `mode` asks for."""
    return wrap(make(Correlate(mode), as_common_dtype("correlate", (a, v))))


@public()
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Array:
    """Sums of products of `a` with the reverse of `v` at every shift that `mode` asks for."""
    left, right = map(wrap, as_common_dtype("convolve", (a, v)))
    _check("convolve", (left.shape, right.shape), mode)
    if right.size > left.size:
        left, right = right, left
    kernel = e.conj(right) if right.dtype.kind == "c" else right
    return wrap(make(Correlate(mode), (left.node, flip(kernel).node)))


@public()
@in_single
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803
    """The powers of each element of `x` as a row, from high to low unless `increasing`."""
    node = lift(x, "vander")
    if len(node.shape) != 1:
        raise value_error("vander", f"operand 0 has shape {node.shape}; it must have one axis")
    rows = node.shape[0]
    (columns,) = (rows,) if N is None else as_shape(N, "vander", "N")
    base = astype(wrap(node), dt.promote(node.dtype, dt.INT64), copy=False)
    if not columns:
        return broadcast_to(expand_dims(base, axis=1)[:, :0], (rows, 0))
    repeated = broadcast_to(expand_dims(base, axis=1), (rows, columns - 1))
    powers = cumulative_prod(repeated, axis=1, include_initial=True)
    return powers if increasing else flip(powers, axis=1)


@public()
@in_single
def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """The polynomial of coefficients `p`, highest power first, at `x`."""
    coefficients, at = wrap(lift(p, "polyval")), wrap(lift(x, "polyval", 1))
    if coefficients.ndim != 1:
        raise value_error(
            "polyval", f"operand 0 has shape {coefficients.shape}; it must have one axis"
        )
    value = zeros_like(at)
    for k in range(coefficients.size):
        value = e.add(e.multiply(value, at), coefficients[k])
    return value
