"""Types and values of the IR being written, with Python's operators."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tawny.engine.llvm.ir.instructions import Instructions


class Type(NamedTuple):
    """An element type by its name in LLVM, and lanes: 0 for a scalar.

    A bf16 is written as the integer of its bits: LLVM calls a library to make bfloat of others.
    """

    element: str
    lanes: int = 0

    def __str__(self) -> str:
        element = "i16" if self.element == "bf16" else self.element
        return f"<{self.lanes} x {element}>" if self.lanes else element

    def by(self, lanes: int) -> Type:
        """A vector of `lanes` of these elements; with 0 a scalar."""
        return Type(self.element, lanes)

    def like(self, other: Type) -> Type:
        """The type of the element with the lanes of another type."""
        return Type(self.element, other.lanes)

    @property
    def scalar(self) -> Type:
        """One element."""
        return Type(self.element)

    @property
    def floating(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return self.element in _FLOATS

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 64 if self.element.startswith("ptr") else _BITS[self.element]

    @property
    def nbytes(self) -> int:
        """Bytes of an element in memory."""
        return (self.bits + 7) // 8

    @property
    def intrinsic_suffix(self) -> str:
        """The name of the type in LLVM's names of intrinsics."""
        return (f"v{self.lanes}" if self.lanes else "") + _intrinsic_name(self.element)


_FLOATS: Final = {"half": 16, "bf16": 16, "bfloat": 16, "float": 32, "double": 64}
_BITS: Final = {f"i{n}": n for n in (1, 8, 16, 32, 64, 128)} | _FLOATS


def _intrinsic_name(element: str) -> str:
    """An element type as LLVM writes it in the names of intrinsics."""
    if element == "bf16":
        return "i16"
    if element in _FLOATS:
        return f"f{_FLOATS[element]}"
    return f"p{element[15:-1] or 0}" if element.startswith("ptr") else element


VOID: Final = Type("void")
I1: Final = Type("i1")
I8: Final = Type("i8")
I16: Final = Type("i16")
I32: Final = Type("i32")
I64: Final = Type("i64")
F16: Final = Type("half")
BF16: Final = Type("bf16")
F32: Final = Type("float")
F64: Final = Type("double")
PTR: Final = Type("ptr")


def pointer(space: int) -> Type:
    """An address in one of the target's address spaces."""
    return Type(f"ptr addrspace({space})") if space else PTR


def integer_of(type: Type) -> Type:
    """The integer type of the same size and lanes."""
    return Type(f"i{type.bits}", type.lanes)


def literal(type: Type, number: float) -> str:
    """A constant as LLVM writes it; every lane has it."""
    if type.floating:
        text = _float_literal(type.element, float(number))
    elif type.element == "i1":
        text = "true" if number else "false"
    elif type.element.startswith("ptr"):
        text = "null"
    else:
        text = str(int(number))
    return f"splat ({type.scalar} {text})" if type.lanes else text


def _float_literal(element: str, number: float) -> str:
    """Exact in hexadecimal; a float is written as the double of the same value."""
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    if element == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", _nearest_float(number)))
        return str((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    if element == "float":
        number = _nearest_float(number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _nearest_float(number: float) -> float:
    """The float32 nearest to a number, infinite where it is too large."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return rounded


class Value:
    """A value of the function being written: a register, an argument or a constant."""

    __slots__ = ("code", "text", "type")

    def __init__(self, code: Instructions, type: Type, text: str) -> None:
        self.code = code
        self.type = type
        self.text = text

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"

    def of(self, number: Value | float) -> Value:
        """A Python number as a constant of this value's type; a value as it is."""
        return number if isinstance(number, Value) else self.code.constant(self.type, number)

    def _two(self, floating: str, integer: str, left: Value | float, right: Value | float) -> Value:
        return self.code.binary(
            floating if self.type.floating else integer, self.of(left), self.of(right)
        )

    def __add__(self, other: Value | float) -> Value:
        return self._two("fadd", "add", self, other)

    def __radd__(self, other: float) -> Value:
        return self._two("fadd", "add", other, self)

    def __sub__(self, other: Value | float) -> Value:
        return self._two("fsub", "sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self._two("fsub", "sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        return self._two("fmul", "mul", self, other)

    def __rmul__(self, other: float) -> Value:
        return self._two("fmul", "mul", other, self)

    def __truediv__(self, other: Value | float) -> Value:
        return self.code.binary("fdiv", self, self.of(other))

    def __rtruediv__(self, other: float) -> Value:
        return self.code.binary("fdiv", self.of(other), self)

    def __floordiv__(self, other: Value | int) -> Value:
        """Signed division, rounded towards zero."""
        return self.code.binary("sdiv", self, self.of(other))

    def __mod__(self, other: Value | int) -> Value:
        """The remainder of `//`."""
        return self.code.binary("srem", self, self.of(other))

    def __and__(self, other: Value | int) -> Value:
        return self.code.binary("and", self, self.of(other))

    def __or__(self, other: Value | int) -> Value:
        return self.code.binary("or", self, self.of(other))

    def __xor__(self, other: Value | int) -> Value:
        return self.code.binary("xor", self, self.of(other))

    def __lshift__(self, other: Value | int) -> Value:
        return self.code.binary("shl", self, self.of(other))

    def __rshift__(self, other: Value | int) -> Value:
        """The shift that keeps the sign."""
        return self.code.binary("ashr", self, self.of(other))

    def __neg__(self) -> Value:
        if self.type.floating:
            return self.code.emit(self.type, f"fneg {self}")
        return self.code.binary("sub", self.of(0), self)

    def __invert__(self) -> Value:
        return self.code.binary("xor", self, self.of(1 if self.type.element == "i1" else -1))

    def __lt__(self, other: Value | float) -> Value:
        return self.code.compare("olt" if self.type.floating else "slt", self, other)

    def __le__(self, other: Value | float) -> Value:
        return self.code.compare("ole" if self.type.floating else "sle", self, other)

    def __gt__(self, other: Value | float) -> Value:
        return self.code.compare("ogt" if self.type.floating else "sgt", self, other)

    def __ge__(self, other: Value | float) -> Value:
        return self.code.compare("oge" if self.type.floating else "sge", self, other)

    def equals(self, other: Value | float) -> Value:
        """Whether both are the same number; false beside a NaN."""
        return self.code.compare("oeq" if self.type.floating else "eq", self, other)

    def differs(self, other: Value | float) -> Value:
        """Whether both are not the same number; true beside a NaN."""
        return self.code.compare("une" if self.type.floating else "ne", self, other)

    def shifted_down(self, other: Value | int) -> Value:
        """The shift that fills with zeros."""
        return self.code.binary("lshr", self, self.of(other))

    def unsigned_below(self, other: Value | int) -> Value:
        """Whether it is less, both as unsigned numbers."""
        return self.code.compare("ult", self, other)

    def unsigned_over(self, other: Value | int) -> Value:
        """Unsigned division."""
        return self.code.binary("udiv", self, self.of(other))

    def unsigned_rest(self, other: Value | int) -> Value:
        """The remainder of unsigned division."""
        return self.code.binary("urem", self, self.of(other))
