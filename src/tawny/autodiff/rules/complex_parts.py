"""Functions of complex numbers whose change is no factor times the change of their operand.

On real numbers they are what they are: the identity, or the absolute value.
"""

from __future__ import annotations

from tawny.array import Array
from tawny.autodiff.rules.registry import forward, reverse
from tawny.numpy.composite import where
from tawny.op import ELEMENTWISE, Elementwise
from tawny.ops import elementwise as e

CONJ, REAL, IMAG = (ELEMENTWISE[n] for n in ("conj", "real", "imag"))
ABS, SIGN = (ELEMENTWISE[n] for n in ("abs", "sign"))

Tangents = tuple[Array | None, ...]


def _only(tangents: Tangents) -> Array:
    (tangent,) = tangents
    assert tangent is not None
    return tangent


@forward(CONJ)
def _(op: Elementwise, tangents: Tangents, y: Array, x: Array) -> Array:
    return e.conj(_only(tangents))


@reverse(CONJ)
def _(op: Elementwise, cotangent: Array, y: Array, x: Array) -> Array:
    return e.conj(cotangent)


@forward(REAL)
def _(op: Elementwise, tangents: Tangents, y: Array, x: Array) -> Array:
    return e.real(_only(tangents))


@reverse(REAL)
def _(op: Elementwise, cotangent: Array, y: Array, x: Array) -> Array:
    return cotangent


@forward(IMAG)
def _(op: Elementwise, tangents: Tangents, y: Array, x: Array) -> Array:
    return e.imag(_only(tangents))


@reverse(IMAG)
def _(op: Elementwise, cotangent: Array, y: Array, x: Array) -> Array | None:
    return e.multiply(cotangent, -1j) if _is_complex(x) else None


def _is_complex(x: Array) -> bool:
    return x.dtype.kind == "c"


@forward(ABS)
def _(op: Elementwise, tangents: Tangents, y: Array, x: Array) -> Array:
    tangent = _only(tangents)
    if not _is_complex(x):
        return e.multiply(tangent, e.sign(x))
    return e.real(e.multiply(tangent, e.conj(e.sign(x))))


@reverse(ABS)
def _(op: Elementwise, cotangent: Array, y: Array, x: Array) -> Array:
    return e.multiply(cotangent, e.conj(e.sign(x)) if _is_complex(x) else e.sign(x))


@forward(SIGN)
def _(op: Elementwise, tangents: Tangents, y: Array, x: Array) -> Array | None:
    """On the unit circle only the angle changes; between real signs nothing does."""
    tangent = _only(tangents)
    if not _is_complex(x):
        return None
    modulus = e.abs(x)
    turn = e.divide(e.imag(e.multiply(e.conj(y), tangent)), where(e.equal(modulus, 0), 1, modulus))
    return e.multiply(e.multiply(y, 1j), turn)
