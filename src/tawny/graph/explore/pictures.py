"""Outputs as pictures: numbers, lines, heat maps, images and tables, as plain data for a page."""

from __future__ import annotations

import base64
from itertools import pairwise
from typing import Any, Final, Literal, get_args

import numpy as np

from tawny import dtype as dt
from tawny.node import Value

Kind = Literal["number", "line", "heat map", "image", "table"]
"""What an array is drawn as."""

MOST_POINTS: Final = 2000
"""Points of a line that are shown: of more, the least and the greatest of each stretch."""

MOST_PIXELS: Final = 512
"""Pixels along an axis of an image: of more, some are left out."""

MOST_CELLS: Final = 20
"""Rows and columns of a table that are shown."""

COLOURS: Final = (3, 4)
"""Sizes of a last axis that holds colours."""


def kind_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Kind:
    """The picture that suits an array."""
    dense = [n for n in shape if n != 1]
    if not dense:
        return "number"
    if dtype.kind == "c" or (len(dense) == 2 and max(dense) <= MOST_CELLS) or len(dense) > 3:
        return "table"
    if len(dense) == 3:
        return "image" if dense[-1] in COLOURS else "table"
    return "line" if len(dense) == 1 else "heat map"


def picture(value: Value, kind: Kind) -> dict[str, Any]:
    """An array as a page draws it."""
    array = np.squeeze(value)
    if array.dtype.kind == "c" and kind != "table":
        array = np.abs(array)
    made = {
        "number": _number,
        "line": _line,
        "heat map": _heat_map,
        "image": _image,
        "table": _table,
    }[kind](array)
    return {"kind": kind, "shape": list(value.shape), **made}


def suits(kind: str, shape: tuple[int, ...]) -> bool:
    """Whether an array of a shape can be drawn so."""
    dense = [n for n in shape if n != 1]
    if 0 in shape:
        return kind == "table"
    return {
        "number": not dense,
        "line": len(dense) <= 1,
        "heat map": len(dense) <= 2,
        "image": len(dense) <= 2 or (len(dense) == 3 and dense[-1] in COLOURS),
        "table": True,
    }.get(kind, False)


def _number(array: Value) -> dict[str, Any]:
    return {"text": _text(array.reshape(-1)[0])}


def _text(item: Any) -> str:
    return f"{item:.6g}" if dt.kind_of(item.dtype) in "fc" else str(item)


def _line(array: Value) -> dict[str, Any]:
    values = np.atleast_1d(array).astype(np.float64)
    at = np.arange(len(values))
    if len(values) > MOST_POINTS:
        edges = np.linspace(0, len(values), MOST_POINTS // 2 + 1).astype(int)
        known = np.where(np.isfinite(values), values, 0)
        pairs = [
            sorted((a + int(known[a:b].argmin()), a + int(known[a:b].argmax())))
            for a, b in pairwise(edges)
        ]
        at = np.array(pairs).reshape(-1)
    points = [[int(k), _finite(values[k])] for k in at]
    return {"points": points}


def _finite(number: float) -> float | None:
    """A number as JSON has it; nothing for what is none."""
    return float(number) if np.isfinite(number) else None


def _heat_map(array: Value) -> dict[str, Any]:
    return _pixels(np.atleast_2d(array))


def _image(array: Value) -> dict[str, Any]:
    """Bytes are colours as they are; other numbers are from 0 to 1."""
    if array.ndim < 2:
        array = np.atleast_2d(array)
    if array.ndim == 2:
        if array.dtype == np.uint8:
            return _bytes(_sample_pixels(array), 1) | {"low": 0, "high": 255, "grey": True}
        return _pixels(array) | {"grey": True}
    small = _sample_pixels(array)
    if small.dtype != np.uint8:
        wide = small if dt.kind_of(small.dtype) == "f" else small.astype(np.float64)
        small = np.fmin(np.fmax(wide, 0), 1) * 255 + 0.5  # what is no number is 0
    return _bytes(small.astype(np.uint8), small.shape[-1])


def _pixels(array: Value) -> dict[str, Any]:
    """Each number as a byte between the least and the greatest."""
    small = _sample_pixels(array).astype(np.float64)
    known = small[np.isfinite(small)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    scaled = (np.nan_to_num(small, nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    return _bytes(np.rint(scaled * 255).astype(np.uint8), 1) | {"low": low, "high": high}


def _sample_pixels(array: Value) -> Value:
    """Some of the rows and columns."""
    steps = [max(1, -(-n // MOST_PIXELS)) for n in array.shape[:2]]
    return array[:: steps[0], :: steps[1]]


def _bytes(array: Value, channels: int) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"tall": array.shape[0], "wide": array.shape[1], "channels": channels, "bytes": data}


def _table(array: Value) -> dict[str, Any]:
    """The first rows and columns, of arrays of more axes the first of each."""
    while array.ndim > 2:
        array = array[0] if array.shape[0] else array.reshape(0, 0)
    rows = np.atleast_2d(array)
    cells = [[_text(item) for item in row[:MOST_CELLS]] for row in rows[:MOST_CELLS]]
    return {"rows": cells, "cut": rows.shape[0] > MOST_CELLS or rows.shape[1] > MOST_CELLS}


KINDS: Final[tuple[str, ...]] = get_args(Kind)
