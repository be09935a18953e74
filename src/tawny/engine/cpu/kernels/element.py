"""What products are made of: how a dtype's elements are loaded, multiplied, added and stored."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tawny.dtype import DType, is_bfloat16
from tawny.engine.llvm.ir.builder import (
    BF16,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    Function,
    Type,
    Value,
)
from tawny.engine.llvm.ir.byte_products import add_byte_products
from tawny.engine.llvm.ir.half_products import add_half_products
from tawny.engine.llvm.runtime.host import host


class Element(NamedTuple):
    """A dtype as it is stored, as it is computed with, and how many fill a vector.

    A complex number has two parts, side by side in memory and in vectors; the types are of one.
    """

    stored: Type
    computed: Type
    lanes: int
    parts: int = 1
    together: int = 1
    """How many numbers an element is, whose products with as many others are added to one sum: four
    bytes, or two of bfloat16."""
    subtracts: bool = False
    """Whether products of real numbers are subtracted from sums."""

    @property
    def memory_type(self) -> Type:
        """An element in memory."""
        return self.stored if self.parts == 1 else self.stored.by(self.parts)

    @property
    def neighbours(self) -> Type:
        """As many elements in memory as fill a vector."""
        return self.stored.by(self.lanes * self.parts)

    @property
    def vector(self) -> Type:
        """A full vector to compute with."""
        return self.computed.by(self.lanes * self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of one element in memory."""
        return self.stored.nbytes * self.parts

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector's elements in memory."""
        return self.lanes * self.nbytes

    @property
    def sum_bytes(self) -> int:
        """Bytes of a vector of sums in memory."""
        return self.lanes * self.parts * self.computed.nbytes

    def first(self, f: Function, count: Value) -> Value:
        """A mask of a vector's first `count` elements."""
        return f.first_lanes(count * self.parts, self.lanes * self.parts)

    def splat(self, f: Function, address: Value) -> Value:
        """One element in memory, in every lane."""
        if self.parts > 1:
            return f.shuffle(
                f.load(self.memory_type, address), None, [*range(self.parts)] * self.lanes
            )
        return f.splat(self._widen(f, f.load(self.stored, address)), self.lanes)

    def splat_parts(self, f: Function, address: Value) -> list[Value]:
        """Each part of one element in memory, in every lane."""
        if self.parts == 1:
            return [self.splat(f, address)]
        places = [f.element(address, part, self.stored) for part in range(self.parts)]
        return [f.splat(f.load(self.stored, place), self.lanes * self.parts) for place in places]

    def vector_parts(self, f: Function, value: Value) -> list[Value]:
        """Each part of a vector's elements, in all lanes of its element."""
        if self.parts == 1:
            return [value]
        lanes = [2 * lane for lane in range(self.lanes) for _ in range(self.parts)]
        return [f.shuffle(value, None, [i + part for i in lanes]) for part in range(self.parts)]

    def times_i(self, f: Function, value: Value) -> Value:
        """A vector of complex numbers times the imaginary unit: what an imaginary part brings."""
        exchanged = f.shuffle(value, None, [i ^ 1 for i in range(2 * self.lanes)])
        bits = f.bits(exchanged)
        sign = f.vector(bits.type.scalar, [-(2 ** (bits.type.bits - 1)), 0] * self.lanes)
        return f.bitcast(bits ^ sign, value.type)

    def load(self, f: Function, address: Value, mask: Value | None = None) -> Value:
        """Neighbours in memory; 0 where the mask does not hold."""
        kind = self.neighbours
        if mask is None:
            return self._widen(f, f.load(kind, address))
        return self._widen(f, f.masked_load(kind, address, mask, f.constant(kind, 0)))

    def store(self, f: Function, value: Value, address: Value, mask: Value | None = None) -> None:
        """Write neighbours in memory, where the mask holds."""
        if self.stored != self.computed:
            value = f.convert("fptrunc", value, self.stored)
        if mask is None:
            f.store(value, address)
        else:
            f.masked_store(value, address, mask)

    def round_to_storage(self, f: Function, value: Value) -> Value:
        """The value as it would be after having been stored."""
        if self.stored == self.computed:
            return value
        return self._widen(f, f.convert("fptrunc", value, self.stored))

    def multiply_add(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        """`a * b + c`, with one rounding where the machine has an instruction for it.

        Of complex numbers each part; of several numbers together all products, those of bytes in
        `a` without a sign.
        """
        if self.together == 4:
            return add_byte_products(f, c, a, b)
        if self.together == 2:
            return add_half_products(f, c, a, b)
        if self.computed.floating:
            return f.intrinsic("fmuladd", a.type, -a if self.subtracts else a, b, c)
        return a * b + c

    def zero(self, f: Function) -> Value:
        """A vector of zeros."""
        return f.constant(self.vector, 0)

    def _widen(self, f: Function, value: Value) -> Value:
        if self.stored == self.computed:
            return value
        return f.convert("fpext", value, self.computed)


_INTEGERS: Final = {1: I8, 2: I16, 4: I32, 8: I64}


def element_of(dtype: DType) -> Element | None:
    """How a dtype is computed with; None where NumPy must: truths, complex and long numbers.

    16-bit floats are computed with as float32.  Integers wrap, with or without a sign.
    """
    width = host().vector_bytes
    if dtype == np.float32:
        return Element(F32, F32, width // 4)
    if dtype == np.float64:
        return Element(F64, F64, width // 8)
    if is_bfloat16(dtype):
        return Element(BF16, F32, width // 4)
    if dtype == np.float16 and host().converts_halves:
        return Element(F16, F32, width // 4)
    if dtype.kind in "iu":
        kind = _INTEGERS[dtype.itemsize]
        return Element(kind, kind, width // dtype.itemsize)
    return None


def byte_element() -> Element:
    """Four bytes that are multiplied with four others."""
    return Element(I32, I32, host().vector_bytes // 4, together=4)


def half_element() -> Element:
    """Two numbers of bfloat16 that are multiplied with two others; they lie like one of float32."""
    return Element(F32, F32, host().vector_bytes // 4, together=2)


def product_element(dtype: DType) -> Element | None:
    """How a dtype is computed with in products: as any other, and complex numbers, too."""
    if dtype.kind != "c":
        return element_of(dtype)
    part = F32 if dtype == np.complex64 else F64
    return Element(part, part, host().vector_bytes // dtype.itemsize, 2)
