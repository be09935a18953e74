"""Values of arrays in NumPy's files, and as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.array import ArrayLike, value_outside
from tawny.dtype import is_bfloat16
from tawny.errors import type_error
from tawny.node import Value
from tawny.operator import public
from tawny.ops.creation import asarray


def _value(x: ArrayLike, op: str) -> Value:
    """The value of an array; one that depends on a variable is refused in the name of `op`."""
    return value_outside(asarray(x), op)


def _storable(x: ArrayLike, op: str) -> Value:
    """The value of an array that NumPy's files can hold: they forget what bfloat16 is."""
    value = _value(x, op)
    if is_bfloat16(value.dtype):
        raise type_error(
            op,
            "NumPy's files hold no bfloat16; write x.astype('float32'), which has all its numbers, "
            "or use tw.save_arrays",
        )
    return value


@public()
def save(file: Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Write the value of an array to a `.npy` file."""
    np.save(file, _storable(arr, "save"), allow_pickle=allow_pickle)


@public()
def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write the values of arrays, named or in order, to a `.npz` file."""
    named = {name: _storable(x, "savez") for name, x in kwds.items()}
    np.savez(file, *[_storable(x, "savez") for x in args], allow_pickle=allow_pickle, **named)


@public()
def savez_compressed(
    file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike
) -> None:
    """Write the values of arrays, named or in order, to a compressed `.npz` file."""
    named = {name: _storable(x, "savez_compressed") for name, x in kwds.items()}
    np.savez_compressed(
        file, *[_storable(x, "savez_compressed") for x in args], allow_pickle=allow_pickle, **named
    )


@public()
def savetxt(
    fname: Any,
    X: ArrayLike,  # noqa: N803
    fmt: Any = "%.18e",
    delimiter: str = " ",
    newline: str = "\n",
    header: str = "",
    footer: str = "",
    comments: str = "# ",
    encoding: str | None = None,
) -> None:
    """Write the value of a vector or matrix as text, a line for each row."""
    np.savetxt(
        fname, _value(X, "savetxt"), fmt, delimiter, newline, header, footer, comments, encoding
    )


@public()
def array2string(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
    separator: str = " ",
    prefix: str = "",
    *,
    formatter: Any = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sign: Any = None,
    floatmode: Any = None,
    suffix: str = "",
    legacy: Any = None,
) -> str:
    """The value of an array as text."""
    return np.array2string(
        _value(a, "array2string"),
        max_line_width,
        precision,
        suppress_small,
        separator,
        prefix,
        formatter=formatter,
        threshold=threshold,
        edgeitems=edgeitems,
        sign=sign,
        floatmode=floatmode,
        suffix=suffix,
        legacy=legacy,
    )


@public()
def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The value of an array as `str` shows NumPy's arrays."""
    return np.array_str(_value(a, "array_str"), max_line_width, precision, suppress_small)


@public()
def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The value of an array as `repr` shows NumPy's arrays."""
    return np.array_repr(_value(arr, "array_repr"), max_line_width, precision, suppress_small)
