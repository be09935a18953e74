"""Element types of ONNX and the dtypes that hold them."""

from __future__ import annotations

from typing import Final

from tawny import dtype as dt
from tawny.dtype import DType

ELEMENT_DTYPES: Final[dict[int, DType]] = {
    1: dt.FLOAT32,
    2: dt.UINT8,
    3: dt.INT8,
    4: dt.UINT16,
    5: dt.INT16,
    6: dt.INT32,
    7: dt.INT64,
    9: dt.BOOL,
    10: dt.FLOAT16,
    11: dt.FLOAT64,
    12: dt.UINT32,
    13: dt.UINT64,
    14: dt.COMPLEX64,
    15: dt.COMPLEX128,
}
"""The dtype of each element type that NumPy has as well, by its number in the standard."""

BFLOAT16: Final = 16

_NUMBERS: Final = {dtype: number for number, dtype in ELEMENT_DTYPES.items()}

ELEMENT_NAMES: Final = {
    0: "undefined",
    8: "string",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}
"""Element types that no dtype holds."""


def element_name(number: int) -> str:
    """An element type as errors call it."""
    if number in ELEMENT_DTYPES or number == BFLOAT16:
        return str(element_dtype(number))
    return ELEMENT_NAMES.get(number, f"number {number}")


class UnsupportedTypeError(ValueError):
    """An element type that no dtype of Tawny holds."""


def element_dtype(number: int) -> DType:
    """The dtype of an element type; `UnsupportedTypeError` names one that there is none for."""
    if number == BFLOAT16:
        return dt.bfloat16()
    dtype = ELEMENT_DTYPES.get(number)
    if dtype is None:
        accepted = ", ".join([*map(str, ELEMENT_DTYPES.values()), "bfloat16"])
        raise UnsupportedTypeError(
            f"elements of type {element_name(number)} are not supported; accepted: {accepted}"
        )
    return dtype


def element_number(dtype: DType) -> int | None:
    """The number of the element type of a dtype; None where the standard has none."""
    return BFLOAT16 if dt.is_bfloat16(dtype) else _NUMBERS.get(dtype)
