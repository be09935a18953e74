"""Kernels of the user functions."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

import numpy as np

from tawny.array import check_unmasked
from tawny.dtype import kind_of
from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.delay import DelayedCall, Fold, LazyPrint, MapElements, RunningFold, UserFunction


def _read_only(value: Value) -> Value:
    """A view that cannot be written through."""
    view = value.view()
    view.flags.writeable = False
    return view


@kernel(DelayedCall, widened=False)
def apply(op: DelayedCall, *operands: Value) -> Value:
    """A copy of what the function gives, which may keep its own."""
    given = op.function.it(*map(_read_only, operands))
    check_unmasked(given, "delay", f"the result of {op.function!r}")
    result = np.asarray(given)
    if result.dtype != op.dtype:
        raise TypeError(
            f"delay: {op.function!r} gave dtype {result.dtype}, and {op.dtype} was declared; "
            f"let it convert its result, or declare dtype={str(result.dtype)!r}"
        )
    if result.shape != op.shape:
        raise ValueError(
            f"delay: {op.function!r} gave shape {result.shape}, and {op.shape} was declared; "
            f"declare shape={result.shape}, or let it return that shape"
        )
    return np.array(result, order="C")


_KINDS: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
"""Kinds of numbers, each a part of those after it."""


def _numbers(op: UserFunction, objects: Value) -> Value:
    """Python numbers as the declared dtype, if they are of its kind."""
    if objects.size:
        given = np.array(objects.tolist()).dtype
        if _KINDS.get(kind_of(given), len(_KINDS)) > _KINDS[kind_of(op.dtype)]:
            raise TypeError(
                f"{op.facts().name}: {op.function!r} gave {given} numbers, which are not "
                f"{op.dtype}; declare dtype={str(given)!r}"
            )
    return objects.astype(op.dtype)


@kernel(MapElements, widened=False)
def map_elements(op: MapElements, x: Value) -> Value:
    """One call for each element."""
    out = np.empty(x.size, object)
    for i, element in enumerate(x.ravel().tolist()):
        out[i] = op.function.it(element)
    return _numbers(op, out).reshape(x.shape)


def _lines(x: Value, axis: int | None) -> Value:
    """The elements to fold on axis 0, one column for each fold."""
    if axis is None:
        return x.reshape(x.size, 1)
    others = math.prod(n for a, n in enumerate(x.shape) if a != axis)
    return np.moveaxis(x, axis, 0).reshape(x.shape[axis], others)


@kernel(Fold, widened=False)
def fold(op: Fold, x: Value, *initial: Value) -> Value:
    """One call for each element, in order along the axis."""
    rows: list[list[Any]] = _lines(x, op.axis).tolist()
    state: list[Any] = initial[0].ravel().tolist() if initial else rows.pop(0)
    for row in rows:
        state = list(map(op.function.it, state, row))
    return _numbers(op, _objects([state])).reshape(op.shape)


@kernel(RunningFold, widened=False)
def scan(op: RunningFold, x: Value) -> Value:
    """One call for each element after the first, in order along the axis."""
    lines = _lines(x, op.axis)
    states: list[list[Any]] = lines[:1].tolist()
    for row in lines[1:].tolist():
        states.append(list(map(op.function.it, states[-1], row)))
    out = _numbers(op, _objects(states)).reshape(lines.shape)
    if op.axis is None:
        return out.reshape(x.shape)
    moved = (x.shape[op.axis], *(n for a, n in enumerate(x.shape) if a != op.axis))
    return np.moveaxis(out.reshape(moved), 0, op.axis)


def _objects(rows: list[list[Any]]) -> Value:
    """The rows as a matrix of Python objects."""
    out = np.empty((len(rows), len(rows[0]) if rows else 0), object)
    for i, row in enumerate(rows):
        for j, element in enumerate(row):
            out[i, j] = element
    return out


@kernel(LazyPrint, widened=False)
def lazy_print(op: LazyPrint, x: Value) -> Value:
    """The text, then the operand itself."""
    file = sys.stdout if op.file.it is None else op.file.it
    if op.header is not None:
        print(op.header, file=file)
    print(_text(op, x), file=file)
    return x


def _text(op: LazyPrint, x: Value) -> str:
    if op.max_rows is None and op.max_columns is None and op.format.it is None:
        return np.array2string(x)
    write = _plain if op.format.it is None else op.format.it
    if not x.ndim:
        return str(write(x[()]))
    table = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    rows, columns = _ends(len(table), op.max_rows), _ends(x.shape[-1], op.max_columns)
    cells = [
        ["..." if r is None or c is None else str(write(table[r, c])) for c in columns]
        for r in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        " ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )


def _plain(element: Any) -> str:
    return np.array2string(np.asarray(element))


def _ends(count: int, limit: int | None) -> list[int | None]:
    """Indices from both ends, None for what is left out between."""
    if limit is None or count <= limit:
        return list(range(count))
    head = (limit + 1) // 2
    return [*range(head), None, *range(count - (limit - head), count)]
