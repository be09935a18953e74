"""Functions on dtypes, and what this namespace says of itself: two chapters of the array API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, check_device, lift
from tawny.dtype import Category, DType, Number, as_dtype, kind_of, own_dtype
from tawny.errors import type_error, value_error
from tawny.operator import public

KINDS: Final[dict[str, frozenset[Category]]] = {
    "bool": dt.BOOLEAN,
    "signed integer": frozenset({Category.SIGNED}),
    "unsigned integer": frozenset({Category.UNSIGNED}),
    "integral": dt.INTEGER,
    "real floating": dt.FLOATING,
    "complex floating": dt.COMPLEX,
    "numeric": dt.NUMERIC,
}
"""The kinds of dtype the standard names."""


CASTINGS: Final = ("no", "equiv", "safe", "same_kind", "unsafe")
"""NumPy's rules of conversion, from the strictest on."""


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """Limits of a floating-point dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """Limits of an integer dtype, as Python numbers."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(x: object, op: str) -> DType:
    if isinstance(x, (Array, np.ndarray, np.generic)):
        return own_dtype(cast("Array", x).dtype, op)
    return as_dtype(x, op)


@public()
def finfo(type: Any, /) -> FloatInfo:
    """Limits of a floating-point dtype; those of the parts for a complex one."""
    dtype = _dtype_of(type, "finfo")
    if kind_of(dtype) not in "fc":
        raise value_error(
            "finfo",
            f"dtype {dtype} has no floating-point limits; "
            f"accepted: {dt.category_names(dt.INEXACT)}",
        )
    info: Any = dt.finfo(dtype)
    return FloatInfo(
        bits=int(info.bits),
        eps=float(info.eps),
        max=float(info.max),
        min=float(info.min),
        smallest_normal=float(info.smallest_normal),
        dtype=dt.real_dtype(dtype),
    )


@public()
def iinfo(type: Any, /) -> IntegerInfo:
    """Limits of an integer dtype."""
    dtype = _dtype_of(type, "iinfo")
    if dtype.kind not in "iu":
        raise value_error(
            "iinfo",
            f"dtype {dtype} has no integer limits; accepted: {dt.category_names(dt.INTEGER)}",
        )
    info = np.iinfo(dtype)
    return IntegerInfo(bits=int(info.bits), max=int(info.max), min=int(info.min), dtype=dtype)


@public()
def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether one dtype converts to the other by the rule `casting`.

    The rule is "safe" (every value is one of the other), "same_kind", "unsafe", "equiv" or "no".
    """
    if casting not in CASTINGS:
        accepted = ", ".join(map(repr, CASTINGS))
        raise value_error("can_cast", f"casting is {casting!r}; accepted: {accepted}")
    given = _dtype_of(from_, "can_cast")
    return dt.can_cast(given, as_dtype(to, "can_cast"), casting)


@public()
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and (weak) Python numbers promote to together."""
    if not arrays_and_dtypes:
        raise value_error("result_type", "at least one array or dtype is needed")
    weak: list[type[Number]] = [type(x) for x in arrays_and_dtypes if dt.is_weak(x)]
    strong = [_dtype_of(x, "result_type") for x in arrays_and_dtypes if not dt.is_weak(x)]
    if not strong:
        return dt.promote(*(lift(x, "result_type").dtype for x in arrays_and_dtypes))
    out = dt.promote(*strong)
    for kind in weak:
        out = dt.weak_dtype(kind, out)
    return out


@public()
def promote_types(type1: Any, type2: Any, /) -> DType:
    """The dtype that two dtypes promote to."""
    return dt.promote(as_dtype(type1, "promote_types"), as_dtype(type2, "promote_types"))


@public()
def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether the first is, or is a kind of, the second: dtypes or NumPy's abstract types."""
    return bool(np.issubdtype(arg1, arg2))


@public()
def min_scalar_type(a: Any, /) -> DType:
    """The least dtype that holds a number; that of an array which is none."""
    if isinstance(a, Array) and a.ndim:
        return a.dtype
    return np.min_scalar_type(a.numpy() if isinstance(a, Array) else a)


@public()
def common_type(*arrays: ArrayLike) -> type:
    """The scalar type of floats or complex numbers that holds the values of all the arrays."""
    dtypes = [lift(x, "common_type", i).dtype for i, x in enumerate(arrays)]
    if any(d.kind == "b" for d in dtypes):
        raise type_error("common_type", "booleans have no common type with numbers")
    wide = [dt.FLOAT64 if d.kind in "iu" else d for d in dtypes] or [dt.FLOAT16]
    common: type = dt.promote(*wide).type
    return common


@public()
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is, or is of, `kind`: a dtype, a word of the standard, or a tuple of both."""
    given = as_dtype(dtype, "isdtype")
    if isinstance(kind, tuple):
        return any(isdtype(given, k) for k in cast("list[Any]", kind))
    if isinstance(kind, str):
        if kind not in KINDS:
            raise value_error(
                "isdtype", f"kind {kind!r} is not known; accepted: {', '.join(KINDS)}, or a dtype"
            )
        return dt.category(given) in KINDS[kind]
    if kind is None:
        raise type_error("isdtype", "kind is None; accepted: a dtype, a word, or a tuple of them")
    return given == as_dtype(kind, "isdtype")


class NamespaceInfo:
    """Capabilities, devices and dtypes of `tawny.numpy`."""

    def capabilities(self) -> dict[str, Any]:
        """What the standard lets a library choose.

        Boolean indexing and data-dependent shapes work on arrays that depend on no variable.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays live unless told otherwise."""
        return "cpu"

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtype of each kind that functions choose by themselves."""
        check_device(device, "default_dtypes")
        return {
            "real floating": dt.FLOAT64,
            "complex floating": dt.COMPLEX128,
            "integral": dt.INT64,
            "indexing": dt.INT64,
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """The supported dtypes the standard knows, by name; of one kind if it is given."""
        check_device(device, "dtypes")
        return {
            str(d): d for d in dt.DTYPES if d != dt.FLOAT16 and (kind is None or isdtype(d, kind))
        }

    def devices(self) -> tuple[str, ...]:
        """Every device."""
        return ("cpu",)


@public()
def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  (the standard's name)
    """An object that tells what this namespace supports."""
    return NamespaceInfo()
