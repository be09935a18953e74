"""How numbers lie in memory and in blocks, and the shuffles between both.

In the program's memory real and imaginary parts alternate.  Kernels work on blocks: a vector of
real parts, and behind it the vector of their imaginary parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawny.engine.cpu.transforms.butterflies import ComplexVector
from tawny.engine.llvm.ir.builder import I32, Function, Type, Value
from tawny.engine.llvm.runtime.host import host


@dataclass(frozen=True)
class Lanes:
    """The real numbers that a kernel computes with, `count` at a time."""

    scalar: Type
    count: int

    @staticmethod
    def of(scalar: Type) -> Lanes:
        """As many as fill a vector."""
        return Lanes(scalar, host().vector_bytes // scalar.nbytes)

    @property
    def vector(self) -> Type:
        """A vector of them."""
        return self.scalar.by(self.count)

    @property
    def nbytes(self) -> int:
        """Bytes of a vector."""
        return self.count * self.scalar.nbytes

    @property
    def block(self) -> int:
        """Bytes of a block; as many complex numbers take as many in the program's memory."""
        return 2 * self.nbytes

    @property
    def number(self) -> int:
        """Bytes of a complex number."""
        return 2 * self.scalar.nbytes

    def blocks(self, columns: int) -> int:
        """How many blocks columns fill, the last one perhaps in part."""
        return -(-columns // self.count)

    def pad(self, columns: int) -> int:
        """The columns of whole blocks."""
        return self.blocks(columns) * self.count

    def width(self, columns: int) -> int:
        """Bytes of a row of blocks."""
        return self.blocks(columns) * self.block


def load_block(f: Function, lanes: Lanes, place: Value) -> ComplexVector:
    """A block."""
    return ComplexVector(
        f.load(lanes.vector, place), f.load(lanes.vector, f.offset(place, lanes.nbytes))
    )


def store_block(f: Function, lanes: Lanes, number: ComplexVector, place: Value) -> None:
    """Write a block."""
    f.store(number.re, place)
    f.store(number.im, f.offset(place, lanes.nbytes))


def split(f: Function, low: Value, high: Value) -> ComplexVector:
    """Parts of complex numbers in two vectors, in which they alternate."""
    n = low.type.lanes
    return ComplexVector(
        f.shuffle(low, high, range(0, 2 * n, 2)),
        f.shuffle(low, high, range(1, 2 * n, 2)),
    )


def alternate(f: Function, number: ComplexVector) -> tuple[Value, Value]:
    """Two vectors in which real and imaginary parts alternate."""
    n = number.re.type.lanes
    order = [lane + part * n for lane in range(n) for part in range(2)]
    return (
        f.shuffle(number.re, number.im, order[:n]),
        f.shuffle(number.re, number.im, order[n:]),
    )


def reverse(f: Function, vector: Value) -> Value:
    """A vector's lanes from the last to the first."""
    return f.shuffle(vector, None, range(vector.type.lanes - 1, -1, -1))


def load_vector(f: Function, lanes: Lanes, place: Value, mask: Value | None = None) -> Value:
    """A vector; 0 where the mask does not hold."""
    if mask is None:
        return f.load(lanes.vector, place)
    return f.masked_load(lanes.vector, place, mask, f.constant(lanes.vector, 0))


def store_vector(f: Function, vector: Value, place: Value, mask: Value | None = None) -> None:
    """Write a vector, where the mask holds."""
    if mask is None:
        f.store(vector, place)
    else:
        f.masked_store(vector, place, mask)


def load_numbers(
    f: Function, lanes: Lanes, place: Value, reals: Value | None = None
) -> ComplexVector:
    """Complex numbers of the program's memory: of the first `reals` parts of them, or all."""
    places = place, f.offset(place, lanes.nbytes)
    if reals is None:
        return split(f, *[load_vector(f, lanes, p) for p in places])
    masks = number_masks(f, lanes, reals)
    return split(
        f, *[load_vector(f, lanes, p, mask) for p, mask in zip(places, masks, strict=True)]
    )


def store_numbers(
    f: Function, lanes: Lanes, number: ComplexVector, place: Value, reals: Value | None = None
) -> None:
    """Write complex numbers to the program's memory: the first `reals` parts of them, or all."""
    places = place, f.offset(place, lanes.nbytes)
    masks = (None, None) if reals is None else number_masks(f, lanes, reals)
    for vector, where, mask in zip(alternate(f, number), places, masks, strict=True):
        store_vector(f, vector, where, mask)


def number_masks(f: Function, lanes: Lanes, reals: Value) -> tuple[Value, Value]:
    """Masks of the first elements of two vectors."""
    return first_lanes(f, lanes, reals), first_lanes(f, lanes, reals - lanes.count)


def first_lanes(f: Function, lanes: Lanes, count: Value) -> Value:
    """A mask of the first `count` lanes; of none or all where it is less or more."""
    some = f.convert("trunc", f.minimum(f.maximum(count, 0), lanes.count), I32)
    return f.first_lanes(some, lanes.count)


def transpose(f: Function, rows: Sequence[Value], unit: int = 1) -> list[Value]:
    """A square of vectors transposed, whose elements are `unit` lanes each."""
    found, n = list(rows), len(rows)
    lanes = n * unit
    distance = 1
    while distance < n:
        step = distance * unit
        first = [k + lanes - step if k & step else k for k in range(lanes)]
        second = [k + lanes if k & step else k + step for k in range(lanes)]
        for i in range(n):
            if not i & distance:
                a, b = found[i], found[i + distance]
                found[i], found[i + distance] = f.shuffle(a, b, first), f.shuffle(a, b, second)
        distance *= 2
    return found
