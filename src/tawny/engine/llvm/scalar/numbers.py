"""Numbers in generated code: how each dtype is stored, loaded and computed with.

A number is a value, scalar or vector, or a pair of them for a complex number.

| dtype    | in memory       | computed with                                      |
|----------|-----------------|----------------------------------------------------|
| bool     | a byte, 0 or 1  | one bit a lane                                     |
| integers | themselves      | themselves; the sign is in the dtype               |
| float16  | half            | float32, rounded to float16 after each primitive   |
| bfloat16 | bfloat          | float32, rounded to bfloat16 after each primitive  |
| float32, float64 | themselves | themselves                                      |
| complex  | real, imaginary | two values                                         |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.llvm.ir.builder import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Function,
    Type,
    Value,
)


class Pair(NamedTuple):
    """A complex number."""

    real: Value
    imag: Value


Number = Value | Pair

_STORED: Final[dict[DType, Type]] = {
    dt.BOOL: I8,
    dt.INT8: I8,
    dt.INT16: I16,
    dt.INT32: I32,
    dt.INT64: I64,
    dt.UINT8: I8,
    dt.UINT16: I16,
    dt.UINT32: I32,
    dt.UINT64: I64,
    dt.FLOAT16: F16,
    dt.FLOAT32: F32,
    dt.FLOAT64: F64,
    dt.COMPLEX64: F32,
    dt.COMPLEX128: F64,
}
_COMPUTED: Final[dict[DType, Type]] = {**_STORED, dt.BOOL: I1, dt.FLOAT16: F32}


def storage_type(dtype: DType) -> Type:
    """The type in memory; of one part, for a complex number."""
    return BF16 if dt.is_bfloat16(dtype) else _STORED[dtype]


def compute_type(dtype: DType) -> Type:
    """The type that is computed with; of one part, for a complex number."""
    return F32 if dt.is_bfloat16(dtype) else _COMPUTED[dtype]


def parts(dtype: DType) -> int:
    """How many stored values make a number."""
    return 2 if dtype.kind == "c" else 1


def lane_bytes(dtype: DType) -> int:
    """Bytes of a lane of a register that computes with it."""
    return 1 if dtype.kind == "b" else compute_type(dtype).nbytes


def real(number: Number) -> Value:
    """A number that is not complex, as a value."""
    if isinstance(number, Pair):
        raise TypeError("a complex number where a real one is expected")
    return number


def constant(f: Function, dtype: DType, number: complex, lanes: int) -> Number:
    """A literal as `dtype`."""
    type = compute_type(dtype).by(lanes)
    if dtype.kind == "c":
        return Pair(f.constant(type, number.real), f.constant(type, number.imag))
    if isinstance(number, complex):
        raise TypeError(f"complex literal {number} at {dtype}")
    return f.constant(type, float(dtype.type(number)) if kind_of(dtype) == "f" else number)


def load_vector(
    f: Function, dtype: DType, address: Value, lanes: int, align: int | None = None
) -> Number:
    """Neighbours in memory; aligned to an element unless more is promised."""
    if dtype.kind != "c":
        return _as_computed(f, dtype, f.load(storage_type(dtype).by(lanes), address, align))
    both = f.load(storage_type(dtype).by(2 * lanes), address)
    return Pair(
        f.shuffle(both, None, range(0, 2 * lanes, 2)),
        f.shuffle(both, None, range(1, 2 * lanes, 2)),
    )


def load_splat(f: Function, dtype: DType, address: Value, lanes: int) -> Number:
    """One number in memory, in every lane."""
    type = storage_type(dtype)
    if dtype.kind != "c":
        return _as_computed(f, dtype, f.splat(f.load(type, address), lanes))
    places = (address, f.element(address, 1, type))
    return Pair(*[f.splat(f.load(type, place), lanes) for place in places])


def store_vector(
    f: Function, dtype: DType, number: Number, address: Value, align: int | None = None
) -> None:
    """Write neighbours to memory; aligned to an element unless more is promised."""
    if isinstance(number, Pair):
        lanes = number.real.type.lanes
        order = [lane + part * lanes for lane in range(lanes) for part in (0, 1)]
        f.store(f.shuffle(number.real, number.imag, order), address)
    elif dtype.kind == "b":
        f.store(f.convert("zext", number, I8), address, align)
    elif dt.is_half(dtype):
        f.store(f.convert("fptrunc", number, storage_type(dtype)), address, align)
    else:
        f.store(number, address, align)


def _as_computed(f: Function, dtype: DType, value: Value) -> Value:
    """What was stored, as it is computed with."""
    if dtype.kind == "b":
        return value.differs(0)
    return f.convert("fpext", value, F32) if dt.is_half(dtype) else value


def round_to_dtype(f: Function, dtype: DType, value: Value) -> Value:
    """A result of 16-bit arithmetic rounded to its dtype; others as they are."""
    if not dt.is_half(dtype) or value.type.scalar != F32:
        return value
    return f.convert("fpext", f.convert("fptrunc", value, storage_type(dtype)), F32)


def truth(dtype: DType, number: Number) -> Value:
    """Whether a number is not zero; NaN is not."""
    if isinstance(number, Pair):
        return number.real.differs(0.0) | number.imag.differs(0.0)
    return number if dtype.kind == "b" else number.differs(0)


# ----------------------------------------------------------- carried, masked, alone


def flatten(numbers: Sequence[Number]) -> list[Value]:
    """Numbers as values, complex ones as two."""
    return [v for n in numbers for v in (n if isinstance(n, Pair) else (n,))]


def unflatten(values: Sequence[Value], like: Sequence[Number]) -> list[Number]:
    """Values as numbers of the same kinds as others."""
    found = iter(values)
    return [Pair(next(found), next(found)) if isinstance(n, Pair) else next(found) for n in like]


def load_scalar(f: Function, dtype: DType, address: Value, align: int | None = None) -> Number:
    """One number in memory."""
    if dtype.kind != "c":
        return load_vector(f, dtype, address, 0, align)
    kind = storage_type(dtype)
    return Pair(f.load(kind, address, align), f.load(kind, f.element(address, 1, kind)))


def store_scalar(
    f: Function, dtype: DType, number: Number, address: Value, align: int | None = None
) -> None:
    """Write one number."""
    if isinstance(number, Pair):
        f.store(number.real, address, align)
        f.store(number.imag, f.element(address, 1, storage_type(dtype)))
    else:
        store_vector(f, dtype, number, address, align)
