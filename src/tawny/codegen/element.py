"""What products are made of: how a dtype's elements are loaded, multiplied, added and stored."""

from __future__ import annotations

from typing import Final

import numpy as np

from tawny.codegen.builder import F16, F32, F64, I8, I16, I32, I64, Function, Type, Value
from tawny.codegen.machine import host
from tawny.dtype import DType
from tawny.named import NamedTuple


class Element(NamedTuple):
    """A dtype as it is stored, as it is computed with, and how many fill a vector."""

    stored: Type
    computed: Type
    lanes: int

    @property
    def vector(self) -> Type:
        """A full vector to compute with."""
        return self.computed.by(self.lanes)

    @property
    def nbytes(self) -> int:
        """Bytes of one element in memory."""
        return self.stored.nbytes

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector's elements in memory."""
        return self.lanes * self.nbytes

    @property
    def sum_bytes(self) -> int:
        """Bytes of a vector of sums in memory."""
        return self.lanes * self.computed.nbytes

    def splat(self, f: Function, address: Value) -> Value:
        """One element in memory, in every lane."""
        return f.splat(self._widened(f, f.load(self.stored, address)), self.lanes)

    def load(self, f: Function, address: Value, mask: Value | None = None) -> Value:
        """Neighbours in memory; 0 where the mask does not hold."""
        kind = self.stored.by(self.lanes)
        if mask is None:
            return self._widened(f, f.load(kind, address))
        return self._widened(f, f.masked_load(kind, address, mask, f.constant(kind, 0)))

    def store(self, f: Function, value: Value, address: Value, mask: Value | None = None) -> None:
        """Write neighbours in memory, where the mask holds."""
        if self.stored != self.computed:
            value = f.convert("fptrunc", value, self.stored)
        if mask is None:
            f.store(value, address)
        else:
            f.masked_store(value, address, mask)

    def rounded(self, f: Function, value: Value) -> Value:
        """The value as it would be after having been stored."""
        if self.stored == self.computed:
            return value
        return self._widened(f, f.convert("fptrunc", value, self.stored))

    def multiply_add(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        """`a * b + c`, with one rounding where the machine has an instruction for it."""
        if self.computed.floating:
            return f.intrinsic("fmuladd", a.type, a, b, c)
        return a * b + c

    def zero(self, f: Function) -> Value:
        """A vector of zeros."""
        return f.constant(self.vector, 0)

    def _widened(self, f: Function, value: Value) -> Value:
        if self.stored == self.computed:
            return value
        return f.convert("fpext", value, self.computed)


def _converts_halves() -> bool:
    """Whether the host has instructions that widen and narrow float16."""
    machine = host()
    return not machine.triple.startswith("x86_64") or machine.vector_bytes >= 32


_INTEGERS: Final = {1: I8, 2: I16, 4: I32, 8: I64}


def element_of(dtype: DType) -> Element | None:
    """How a dtype is computed with; None where NumPy must: truths, complex and long numbers.

    float16 is computed with as float32.  Integers wrap, with or without a sign.
    """
    width = host().vector_bytes
    if dtype == np.float32:
        return Element(F32, F32, width // 4)
    if dtype == np.float64:
        return Element(F64, F64, width // 8)
    if dtype == np.float16 and _converts_halves():
        return Element(F16, F32, width // 4)
    if dtype.kind in "iu":
        kind = _INTEGERS[dtype.itemsize]
        return Element(kind, kind, width // dtype.itemsize)
    return None
