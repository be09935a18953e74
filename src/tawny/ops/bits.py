"""Integers as bits."""

from __future__ import annotations

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.dtype import check_categories
from tawny.errors import type_error, value_error
from tawny.node import constant
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import astype
from tawny.ops.movement import moveaxis, ravel, reshape
from tawny.ops.padding import pad
from tawny.ops.reduction import sum
from tawny.shape import as_int, normalise_axis


def _places(bitorder: str, op: str) -> Array:
    """Where the bits of a byte stand, in the order they are listed."""
    if bitorder not in ("big", "little"):
        raise value_error(op, f"bitorder is {bitorder!r}; accepted: 'big', 'little'")
    places = np.arange(8, dtype=np.uint8)
    return wrap(constant(places[::-1].copy() if bitorder == "big" else places))


@public()
def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Elements as bits, 1 where they are not 0, eight of them in a byte along `axis`."""
    array = wrap(lift(a, "packbits"))
    check_categories("packbits", 0, array.dtype, dt.BOOLEAN | dt.INTEGER)
    places = _places(bitorder, "packbits")
    array = ravel(array) if axis is None else array
    along = normalise_axis(axis or 0, array.ndim, "packbits")
    lines = moveaxis(e.not_equal(array, 0), along, -1)
    *others, n = lines.shape
    padded = pad(lines, [*[(0, 0)] * len(others), (0, -n % 8)])
    bits = astype(reshape(padded, (*others, -(-n // 8), 8)), dt.UINT8)
    packed = sum(e.bitwise_left_shift(bits, places), -1, dt.UINT8)
    return moveaxis(packed, -1, along)


@public()
def unpackbits(
    a: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of bytes (uint8) along `axis`, each an element; `count` of them."""
    array = wrap(lift(a, "unpackbits"))
    if array.dtype != dt.UINT8:
        raise type_error("unpackbits", f"operand 0 has dtype {array.dtype}; accepted: uint8")
    places = _places(bitorder, "unpackbits")
    array = ravel(array) if axis is None else array
    along = normalise_axis(axis or 0, array.ndim, "unpackbits")
    lines = moveaxis(array, along, -1)
    *others, n = lines.shape
    bits = e.bitwise_and(e.bitwise_right_shift(reshape(lines, (*others, n, 1)), places), 1)
    result = reshape(bits, (*others, n * 8))
    if count is not None:
        wanted = as_int(count, "unpackbits", "count")
        wanted = wanted if wanted >= 0 else n * 8 + wanted
        if wanted < 0:
            raise value_error("unpackbits", f"count is {count}; there are {n * 8} bits")
        result = result[..., :wanted]
        if wanted > n * 8:
            result = pad(result, [*[(0, 0)] * len(others), (0, wanted - n * 8)])
    return moveaxis(result, -1, along)
