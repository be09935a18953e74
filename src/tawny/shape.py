"""Shape rules, named for what they say."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Final, SupportsIndex, cast

from tawny.errors import ValuesNeededError, axis_error, needs_values, type_error, value_error

Shape = tuple[int, ...]


def size(shape: Shape) -> int:
    """Number of elements."""
    return math.prod(shape)


def contiguous_strides(shape: Shape, itemsize: int) -> tuple[int, ...]:
    """The strides of a new array, in bytes."""
    strides, step = list[int](), itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def broadcast_strides(shape: Shape, strides: Sequence[int], into: Shape) -> tuple[int, ...]:
    """The strides of what is repeated up to the shape `into`: 0 along repeated axes."""
    new = len(into) - len(shape)
    kept = zip(strides, shape, into[new:], strict=True)
    return (*(0,) * new, *[s if n == m else 0 for s, n, m in kept])


def collapse_axes(
    sizes: Shape, arrays: Sequence[tuple[int, ...]]
) -> tuple[Shape, list[tuple[int, ...]]]:
    """Neighbouring axes made one wherever every array steps over both alike.

    The sizes are not 1; at least one axis remains.
    """
    if not sizes:
        return (1,), [(0,) for _ in arrays]
    lengths, columns = [sizes[-1]], [[a[-1] for a in arrays]]
    for axis in range(len(sizes) - 2, -1, -1):
        steps = [a[axis] for a in arrays]
        if steps == [s * lengths[-1] for s in columns[-1]]:
            lengths[-1] *= sizes[axis]
        else:
            lengths.append(sizes[axis])
            columns.append(steps)
    lengths.reverse()
    columns.reverse()
    return tuple(lengths), [tuple([c[i] for c in columns]) for i in range(len(arrays))]


def splits(shape: Shape, into: Shape) -> tuple[tuple[int, ...], ...] | None:
    """The axes of `into` that each axis of `shape` becomes, if none becomes a part of another.

        splits((6, 4), (2, 3, 4))   # ((0, 1), (2,)): axis 0 becomes axes 0 and 1, axis 1 axis 2
        splits((6, 4), (24,))       # None: two axes become one

    A reshape that only cuts axes, or drops and adds some of size 1, is a view however elements lie.
    """
    groups: list[tuple[int, ...]] = []
    place = 0
    for n in shape:
        first, count = place, 1
        while count < n and place < len(into) and into[place]:
            count *= into[place]
            place += 1
        if count != n:
            return None
        groups.append(tuple(range(first, place)))
    return tuple(groups) if all(n == 1 for n in into[place:]) else None


def broadcast(op: str, shapes: Sequence[Shape]) -> Shape:
    """The common shape under NumPy broadcasting."""
    first = shapes[0]
    if len(shapes) == 2:
        second = shapes[1]
        if first == second or not second:
            return first
        if not first:
            return second
    elif len(set(shapes)) == 1:
        return first
    rank = max(map(len, shapes))
    out = [1] * rank
    for position, shape in enumerate(shapes):
        offset = rank - len(shape)
        for axis, n in enumerate(shape, offset):
            if n == 1 or n == out[axis]:
                continue
            if out[axis] != 1:
                listed = " and ".join(map(str, shapes))
                raise value_error(
                    op,
                    f"operand {position} has shape {shape}; its axis {axis - rank} is {n} and "
                    f"must be {out[axis]} or 1 to broadcast with the operands before it "
                    f"(shapes {listed})",
                )
            out[axis] = n
    return tuple(out)


def as_shape(shape: object, op: str, word: str = "shape") -> Shape:
    """A shape from an integer or a sequence of integers, none negative."""
    sizes = elements_of(shape)
    if sizes is not None:
        try:
            out = tuple([operator.index(cast("SupportsIndex", n)) for n in sizes])
        except TypeError:
            out = tuple([as_int(n, op, f"size {k} of {word}") for k, n in enumerate(sizes)])
    else:
        out = (as_int(shape, op, word, "an integer, or a sequence of integers"),)
    if any(n < 0 for n in out):
        raise value_error(op, f"{word} {out} has a negative size; sizes must be at least 0")
    check_possible(out, op, word)
    return out


MOST_AXES: Final = 64
"""As many as NumPy's arrays can have."""

MOST_ELEMENTS: Final = 2**63 - 1
"""As many as can be counted in a machine's word."""


def check_possible(shape: Shape, op: str, word: str = "shape") -> None:
    """Refuse shapes that no array can have."""
    if len(shape) > MOST_AXES:
        raise value_error(op, f"{word} has {len(shape)} axes; arrays have at most {MOST_AXES}")
    if size(shape) > MOST_ELEMENTS or max(shape, default=0) > MOST_ELEMENTS:
        raise value_error(
            op, f"{word} {shape} has {size(shape):.3g} elements; arrays have less than 2**63"
        )


def elements_of(x: object) -> tuple[object, ...] | None:
    """The elements of a sequence; None for one thing, as a number or an array without axes is."""
    if isinstance(x, (str, bytes)) or getattr(x, "ndim", 1) == 0 or not isinstance(x, Iterable):
        return None
    return tuple(cast("Iterable[object]", x))


def as_elements(x: object) -> tuple[object, ...]:
    """The elements of a sequence, or the one thing."""
    found = elements_of(x)
    return (x,) if found is None else found


def as_int(value: object, op: str, word: str, accepted: str = "an integer") -> int:
    """An integer, refusing what only looks like one."""
    try:
        return operator.index(cast("SupportsIndex", value))
    except ValuesNeededError as error:
        raise needs_values(op, error.variables, f"{word} must be known") from None
    except TypeError:
        kind = type(value).__name__
        raise type_error(op, f"{word} must be {accepted}, not {kind} {value!r}") from None


def normalise_axis(axis: object, rank: int, op: str) -> int:
    """`axis` counted from the front."""
    number = as_int(axis, op, "axis")
    if not -rank <= number < rank:
        raise axis_error(op, number, rank)
    return number % rank


def normalise_axes(axis: object, rank: int, op: str) -> tuple[int, ...]:
    """Sorted distinct axes counted from the front; None means all of them."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, (tuple, list)):
        return tuple(sorted(ordered_axes(cast("Sequence[object]", axis), rank, op)))
    return (normalise_axis(axis, rank, op),)


def reduction_axes(axis: object, rank: int, op: str) -> tuple[int, ...]:
    """Sorted distinct axes to reduce; an array without axes may be reduced over 0 or -1."""
    if not rank and isinstance(axis, int) and axis in (0, -1):
        return ()
    return normalise_axes(axis, rank, op)


def ordered_axes(axes: Iterable[object], rank: int, op: str) -> tuple[int, ...]:
    """Distinct axes counted from the front, in the order given."""
    out = tuple(normalise_axis(a, rank, op) for a in axes)
    if len(set(out)) != len(out):
        raise value_error(op, f"axis {tuple(axes)} names an axis twice")
    return out


def reduction_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """`shape` without `axes`, or with 1 in their place."""
    if keepdims:
        return tuple(1 if a in axes else n for a, n in enumerate(shape))
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def replace_size(shape: Shape, axis: int, n: int) -> Shape:
    """`shape` with size `n` on `axis`."""
    return (*shape[:axis], n, *shape[axis + 1 :])
