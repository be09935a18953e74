"""Correlations of sequences."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import reverse
from tawny.node import make, scalar
from tawny.ops import elementwise as e
from tawny.ops.joining import Pad
from tawny.ops.movement import flip
from tawny.ops.series import Correlate


@reverse(Correlate)
def _(op: Correlate, cotangent: Array, y: Array, a: Array, v: Array) -> tuple[Array, Array]:
    """Both cotangents are correlations with the cotangent of every overlap.

    Those that `mode` leaves out have cotangent zero.
    """
    before, behind = _left_out(op.mode, a.size, v.size)
    whole = cotangent.node
    if before or behind:
        whole = make(Pad(((before, behind),)), (whole, scalar(0, cotangent.dtype, "correlate")))
    valid = Correlate("valid")
    to_a = make(valid, (whole, flip(v).node))
    conjugate = e.conj(wrap(whole)).node if cotangent.dtype.kind == "c" else whole
    to_v = make(valid, (conjugate, a.node))
    return wrap(to_a), flip(wrap(to_v))


def _left_out(mode: str, a: int, v: int) -> tuple[int, int]:
    """How many overlaps NumPy leaves out at the front and at the back."""
    short = min(a, v)
    match mode:
        case "full":
            return 0, 0
        case "valid":
            return short - 1, short - 1
        case _:  # the middle; of an even number of places the one that NumPy takes
            front = (short - 1) - short // 2 if a >= v else short // 2
            return front, short - 1 - front
