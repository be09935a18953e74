"""Arrays and graphs as bytes for `pickle`: those of our own files, checked when they are read.

What is called when such a pickle is read is here, and takes bytes alone.  (A pickle as a whole may
call anything: read those of strangers with nothing.)
"""

from __future__ import annotations

import io
from typing import Any

from tawny.array import Array, wrap
from tawny.files.safetensors import GraphFileError, file_blocks, read_from
from tawny.graph.saving import ARRAYS, VERSION
from tawny.node import Value, constant

_NAME = "array"
_WHERE = "a pickled array"


def reduce_array(value: Value) -> Any:
    """How an array of this value is pickled."""
    return array_from, (value_bytes(value),)


def array_from(data: bytes) -> Array:
    """A known array."""
    return wrap(constant(value_from(data)))


def value_bytes(value: Value) -> bytes:
    """A value as the bytes of a file."""
    text = {"format": ARRAYS, "version": str(VERSION)}
    return b"".join(file_blocks({_NAME: value}, text, "pickle"))


def value_from(data: bytes) -> Value:
    """The value in such bytes."""
    contents = read_from(io.BytesIO(data), len(data), _WHERE)
    if contents.text.get("format") != ARRAYS or contents.arrays.keys() != {_NAME}:
        raise GraphFileError(_WHERE, "format", f"expected one array, {_NAME!r}")
    return contents.arrays[_NAME]
