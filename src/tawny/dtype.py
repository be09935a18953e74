"""Data types: the supported set, their categories, and NumPy 2 promotion (NEP 50).

NumPy has no bfloat16: its dtype is that of ml_dtypes, which is imported when bfloat16 is first
asked for by name.  Whoever has an array of it has imported that already.
"""

from __future__ import annotations

import enum
import importlib
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
"""NumPy's own dtypes that are supported; bfloat16 is, too."""

_BFLOAT16: Final = "bfloat16"


@cache
def bfloat16() -> DType:
    """The upper half of float32: 8 bits of exponent, 8 of precision."""
    dtype: DType = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    return dtype


def is_bfloat16(dtype: DType) -> bool:
    """Whether a dtype is bfloat16; nothing is imported for that."""
    return dtype.kind == "V" and dtype.name == _BFLOAT16


def is_half(dtype: DType) -> bool:
    """Whether a dtype is float16 or bfloat16, which are computed with in float32."""
    return dtype == FLOAT16 or is_bfloat16(dtype)


def kind_of(dtype: DType) -> str:
    """NumPy's letter for the kind of number a dtype holds: of bfloat16, too, "f"."""
    kind = dtype.kind
    return "f" if kind == "V" and is_bfloat16(dtype) else kind


def is_supported(dtype: DType) -> bool:
    """Whether arrays may have a dtype."""
    return dtype in DTYPES or is_bfloat16(dtype)


def category(dtype: DType) -> Category:
    """The kind of number a supported dtype holds."""
    return Category.FLOATING if is_bfloat16(dtype) else DTYPES[dtype]


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
        dtype: DType = bfloat16() if spec == _BFLOAT16 else np.dtype(spec)  # type: ignore[call-overload]
    except TypeError:
        raise type_error(op, f"{spec!r} is not a dtype; {_supported_text()}") from None
    if not dtype.isnative and dtype.newbyteorder("=") in DTYPES:
        raise type_error(
            op,
            f"dtype {dtype.str!r} has the bytes in another order than this machine; ask for "
            f"{dtype.newbyteorder('=')}, and convert the result",
        )
    return own_dtype(dtype, op)


def own_dtype(dtype: DType, op: str) -> DType:
    """The dtype in which data of `dtype` is held: bytes in the order of this machine."""
    native = dtype if dtype.isnative else dtype.newbyteorder("=")
    if is_bfloat16(native):
        return bfloat16()
    if native not in DTYPES:
        raise type_error(op, f"dtype {dtype} is not supported; {_supported_text()}")
    return _CANONICAL[native]


_CANONICAL: Final[dict[DType, DType]] = {d: d for d in DTYPES}


def dtype_names() -> tuple[str, ...]:
    """The names of all supported dtypes."""
    return (*map(str, DTYPES), _BFLOAT16)


def dtype_named(name: str) -> DType:
    """The dtype of one of these names."""
    return bfloat16() if name == _BFLOAT16 else _CANONICAL[np.dtype(name)]


def _supported_text() -> str:
    return "supported: " + ", ".join(dtype_names())


def is_weak(value: object) -> bool:
    """Whether `value` is a plain Python number, which adapts to the arrays it meets."""
    return type(value) in _WEAK_RANK


def default_dtype(value: Number) -> DType:
    """The dtype NumPy gives a Python number that meets no array."""
    return _PYTHON[type(value)]


@lru_cache(1024)
def promote(*dtypes: DType) -> DType:
    """The common dtype of arrays.

    bfloat16 is to others what float16 is, since it holds as many of their numbers; both together
    are float32.
    """
    others = [d for d in dtypes if not is_bfloat16(d)]
    if len(others) == len(dtypes):
        return _CANONICAL[np.result_type(*dtypes)]
    common = np.result_type(BOOL, *others)
    if common == FLOAT16:
        return FLOAT32
    found = np.result_type(FLOAT16, common)
    return bfloat16() if found == FLOAT16 else _CANONICAL[found]


@lru_cache(1024)
def can_cast(given: DType, wanted: DType, casting: Any = "safe") -> bool:
    """Whether NumPy's rule `casting` converts one dtype to the other."""
    if given == wanted or not (is_bfloat16(given) or is_bfloat16(wanted)):
        return np.can_cast(given, wanted, casting)
    if casting == "safe":
        return promote(given, wanted) == wanted
    one, other = [FLOAT16 if is_bfloat16(d) else d for d in (given, wanted)]
    return casting not in ("no", "equiv") and np.can_cast(one, other, casting)


def finfo(dtype: DType) -> Any:
    """Limits of a floating-point dtype, as `numpy.finfo` has them."""
    if is_bfloat16(dtype):
        return importlib.import_module("ml_dtypes").finfo(dtype)
    return np.finfo(dtype)


def weak_dtype(kind: type[Number], dtype: DType) -> DType:
    """The dtype a Python number of type `kind` takes beside an array of `dtype`."""
    own = kind_of(dtype)
    if _WEAK_RANK[kind] <= _RANK[own]:
        return dtype
    if kind is complex:
        return promote(COMPLEX64, dtype) if own == "f" else COMPLEX128
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
    if not values.size or can_cast(values.dtype, dtype):
        return
    for value in (int(values.min()), int(values.max())):
        if not fits(value, dtype):
            low, high = _limits(dtype)
            raise overflow_error(
                op, f"{what} has {value}, out of bounds for {dtype}, which holds {low} to {high}"
            )


def accumulation_dtype(dtype: DType) -> DType:
    """The dtype that sums and products are made in: float32 for 16 bits, else their own."""
    return FLOAT32 if is_half(dtype) else dtype


def real_dtype(dtype: DType) -> DType:
    """The dtype of the real part."""
    if dtype.kind != "c":
        return dtype
    return FLOAT32 if dtype == COMPLEX64 else FLOAT64


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype of the same precision; integers count as float64."""
    if dtype.kind == "c":
        return dtype
    return COMPLEX64 if dtype == FLOAT32 or is_half(dtype) else COMPLEX128


def inexact_dtype(dtype: DType) -> DType:
    """`dtype` itself when it is floating or complex, else float64."""
    return dtype if kind_of(dtype) in "fc" else FLOAT64


def sum_dtype(dtype: DType) -> DType:
    """The dtype NumPy sums in: small integers widen to 64 bits."""
    if dtype.kind in "bi":
        return INT64
    return UINT64 if dtype.kind == "u" else dtype


def check_categories(op: str, position: int, dtype: DType, accepts: frozenset[Category]) -> None:
    """Refuse an operand whose dtype is of the wrong category."""
    if category(dtype) not in accepts:
        raise type_error(
            op,
            f"operand {position} has dtype {dtype} ({category(dtype).value}); "
            f"accepted: {category_names(accepts)}",
        )
