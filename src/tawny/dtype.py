"""Data types: the supported set, their categories, and NumPy 2 promotion (NEP 50)."""

from __future__ import annotations

import enum
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from tawny.errors import overflow_error, type_error

DType = np.dtype[Any]
Number = bool | int | float | complex

BOOL: Final[DType] = np.dtype("bool")
INT8: Final[DType] = np.dtype("int8")
INT16: Final[DType] = np.dtype("int16")
INT32: Final[DType] = np.dtype("int32")
INT64: Final[DType] = np.dtype("int64")
UINT8: Final[DType] = np.dtype("uint8")
UINT16: Final[DType] = np.dtype("uint16")
UINT32: Final[DType] = np.dtype("uint32")
UINT64: Final[DType] = np.dtype("uint64")
FLOAT16: Final[DType] = np.dtype("float16")
FLOAT32: Final[DType] = np.dtype("float32")
FLOAT64: Final[DType] = np.dtype("float64")
COMPLEX64: Final[DType] = np.dtype("complex64")
COMPLEX128: Final[DType] = np.dtype("complex128")


class Category(enum.Enum):
    """The kind of number a dtype holds; the words used in error messages."""

    BOOLEAN = "boolean"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    FLOATING = "floating-point"
    COMPLEX = "complex floating-point"


DTYPES: Final[dict[DType, Category]] = {
    BOOL: Category.BOOLEAN,
    INT8: Category.SIGNED,
    INT16: Category.SIGNED,
    INT32: Category.SIGNED,
    INT64: Category.SIGNED,
    UINT8: Category.UNSIGNED,
    UINT16: Category.UNSIGNED,
    UINT32: Category.UNSIGNED,
    UINT64: Category.UNSIGNED,
    FLOAT16: Category.FLOATING,
    FLOAT32: Category.FLOATING,
    FLOAT64: Category.FLOATING,
    COMPLEX64: Category.COMPLEX,
    COMPLEX128: Category.COMPLEX,
}

BOOLEAN: Final = frozenset({Category.BOOLEAN})
INTEGER: Final = frozenset({Category.SIGNED, Category.UNSIGNED})
FLOATING: Final = frozenset({Category.FLOATING})
COMPLEX: Final = frozenset({Category.COMPLEX})
INEXACT: Final = FLOATING | COMPLEX
REAL: Final = BOOLEAN | INTEGER | FLOATING
NUMERIC: Final = INTEGER | INEXACT

_PYTHON: Final[dict[type, DType]] = {
    bool: BOOL,
    int: INT64,
    float: FLOAT64,
    complex: COMPLEX128,
}
_RANK: Final = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_WEAK_RANK: Final[dict[type, int]] = {bool: 0, int: 1, float: 2, complex: 3}


def category_names(categories: frozenset[Category]) -> str:
    """The categories in words, in the order of the enumeration."""
    return ", ".join(c.value for c in Category if c in categories)


def as_dtype(spec: object, op: str) -> DType:
    """The supported dtype that `spec` names: a dtype, a scalar or Python type, a string."""
    try:
        dtype: DType = np.dtype(spec)  # type: ignore[call-overload]
    except TypeError:
        raise type_error(op, f"{spec!r} is not a dtype; {_supported_text()}") from None
    if dtype not in DTYPES and not dtype.isnative and dtype.newbyteorder("=") in DTYPES:
        raise type_error(
            op,
            f"dtype {dtype.str!r} has the bytes in another order than this machine; ask for "
            f"{dtype.newbyteorder('=')}, and convert the result",
        )
    return own_dtype(dtype, op)


def own_dtype(dtype: DType, op: str) -> DType:
    """The dtype in which data of `dtype` is held: bytes in the order of this machine."""
    native = dtype if dtype.isnative else dtype.newbyteorder("=")
    if native not in DTYPES:
        raise type_error(op, f"dtype {dtype} is not supported; {_supported_text()}")
    return _CANONICAL[native]


_CANONICAL: Final[dict[DType, DType]] = {d: d for d in DTYPES}


def _supported_text() -> str:
    return "supported: " + ", ".join(map(str, DTYPES))


def is_weak(value: object) -> bool:
    """Whether `value` is a plain Python number, which adapts to the arrays it meets."""
    return type(value) in _WEAK_RANK


def default_dtype(value: Number) -> DType:
    """The dtype NumPy gives a Python number that meets no array."""
    return _PYTHON[type(value)]


@lru_cache(1024)
def promote(*dtypes: DType) -> DType:
    """The common dtype of arrays."""
    return _CANONICAL[np.result_type(*dtypes)]


def weak_dtype(kind: type[Number], dtype: DType) -> DType:
    """The dtype a Python number of type `kind` takes beside an array of `dtype`."""
    if _WEAK_RANK[kind] <= _RANK[dtype.kind]:
        return dtype
    if kind is complex:
        return promote(COMPLEX64, dtype) if dtype.kind == "f" else COMPLEX128
    return _PYTHON[kind]


@cache
def _limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of a boolean or integer `dtype`."""
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return info.min, info.max


def fits(value: int, dtype: DType) -> bool:
    """Whether a boolean or integer `dtype` holds `value`."""
    low, high = _limits(dtype)
    return low <= value <= high


def check_fits(value: Number, dtype: DType, op: str) -> None:
    """Refuse a Python integer that an integer `dtype` cannot hold."""
    if type(value) is int and dtype.kind in "iu" and not fits(value, dtype):
        low, high = _limits(dtype)
        raise overflow_error(
            op, f"Python integer {value} is out of bounds for {dtype}, which holds {low} to {high}"
        )


def check_all_fit(values: np.ndarray[Any, Any], dtype: DType, op: str, what: str) -> None:
    """Refuse integers of which some cannot be held by a boolean or integer `dtype`."""
    if not values.size or np.can_cast(values.dtype, dtype):
        return
    for value in (int(values.min()), int(values.max())):
        if not fits(value, dtype):
            low, high = _limits(dtype)
            raise overflow_error(
                op, f"{what} has {value}, out of bounds for {dtype}, which holds {low} to {high}"
            )


def accumulation_dtype(dtype: DType) -> DType:
    """The dtype that sums and products are made in: float32 for float16, else their own."""
    return FLOAT32 if dtype == FLOAT16 else dtype


def real_dtype(dtype: DType) -> DType:
    """The dtype of the real part."""
    if dtype.kind != "c":
        return dtype
    return FLOAT32 if dtype == COMPLEX64 else FLOAT64


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype of the same precision; integers count as float64."""
    if dtype.kind == "c":
        return dtype
    return COMPLEX64 if dtype in {FLOAT16, FLOAT32} else COMPLEX128


def inexact_dtype(dtype: DType) -> DType:
    """`dtype` itself when it is floating or complex, else float64."""
    return dtype if dtype.kind in "fc" else FLOAT64


def sum_dtype(dtype: DType) -> DType:
    """The dtype NumPy sums in: small integers widen to 64 bits."""
    if dtype.kind in "bi":
        return INT64
    return UINT64 if dtype.kind == "u" else dtype


def check_categories(op: str, position: int, dtype: DType, accepts: frozenset[Category]) -> None:
    """Refuse an operand whose dtype is of the wrong category."""
    if DTYPES[dtype] not in accepts:
        raise type_error(
            op,
            f"operand {position} has dtype {dtype} ({DTYPES[dtype].value}); "
            f"accepted: {category_names(accepts)}",
        )
