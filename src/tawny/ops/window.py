"""Sliding windows: how strides, padding and dilation are given, and how many windows fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, Final, TypeVar, cast

from tawny.attributes import Bounds
from tawny.errors import type_error, value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Op
from tawny.ops.movement import batch_size, repeat_in_batch, reshape_node, transpose_node
from tawny.rows import Rows, row_axis
from tawny.shape import Shape, as_int

Sizes = int | Sequence[int]
"""One number for every spatial axis, or one for each."""

Padding = str | Sequence[Sequence[int]]
"""`"SAME"`, `"VALID"`, or a pair (before, after) for each spatial axis."""

Pads = tuple[tuple[int, int], ...]

Steps = Annotated[tuple[int, ...], Bounds(1, 2**31)]
PadWidths = Annotated[Pads, Bounds(0, 2**31)]
WindowSizes = Annotated[Shape, Bounds(1)]
AnySizes = Annotated[Shape, Bounds(0)]
"""Attributes of ops over windows, with what their integers may be."""

F = TypeVar("F", bound=Callable[..., Any])

AXES: Final = {1: "n", 2: "rows, columns", 3: "planes, rows, columns"}
"""What the spatial axes are called in documentation, by their number."""


def fill_axes(text: str, name: str, rank: int) -> str:
    """Documentation of what there is for each number of spatial axes.

    `{name}`, `{rank}` and `{axes}` stand for its own, `{count}` for the number in words,
    `{spatial}` and `{window}` for sizes, and `{x4}` for a size of 4 on each axis.
    """
    fours = {f"x{n}": ", ".join([str(n)] * rank) for n in (2, 3, 4, 5, 6, 8, 10)}
    count = {1: "one spatial axis", 2: "two spatial axes", 3: "three spatial axes"}[rank]
    spatial, window = ("n", "window") if rank == 1 else ("*spatial", "*window")
    return text.format(
        name=name, rank=rank, axes=AXES[rank], count=count, spatial=spatial, window=window, **fours
    )


def over_axes(rank: int) -> Callable[[F], F]:
    """Name a function after its number of spatial axes, in its documentation too."""

    def describe(function: F) -> F:
        name = f"{function.__name__}{rank}d"
        function.__name__ = function.__qualname__ = name
        function.__doc__ = function.__doc__ and fill_axes(function.__doc__, name, rank)
        return function

    return describe


def per_axis(value: Any, rank: int, op: str, word: str) -> tuple[int, ...]:
    """`value` for each spatial axis, at least 1."""
    if isinstance(value, (tuple, list)):
        sizes = tuple(as_int(v, op, word) for v in cast("list[object]", value))
        if len(sizes) != rank:
            raise value_error(
                op,
                f"{word} {sizes} has {len(sizes)} numbers; accepted: 1 number, or {rank} of them",
            )
    else:
        sizes = (as_int(value, op, word),) * rank
    check_positive(sizes, op, word)
    return sizes


def check_positive(sizes: tuple[int, ...], op: str, word: str) -> None:
    """Refuse sizes below 1."""
    if any(n < 1 for n in sizes):
        raise value_error(op, f"{word} is {sizes}; each must be at least 1")


def spans(window: Shape, dilation: tuple[int, ...]) -> Shape:
    """How many elements each axis of a dilated window reaches over."""
    return tuple((w - 1) * d + 1 for w, d in zip(window, dilation, strict=True))


def window_rows(
    shape: Shape, given: Shape, span: int, stride: int, pads: tuple[int, int], rows: Rows
) -> tuple[Rows, tuple[int, int]] | None:
    """The rows that windows of `span` rows see, and how much padding they see before and after.

    None where rows are no rows of an image, or windows see padding alone.
    """
    if row_axis(shape) != 1 or row_axis(given) != 1:
        return None
    first, last = rows[0] * stride - pads[0], (rows[1] - 1) * stride - pads[0] + span
    seen = max(first, 0), min(last, given[1])
    if seen[1] - seen[0] < 1:
        return None
    return seen, (seen[0] - first, last - seen[1])


def batch_images(op: Op, operands: Sequence[BatchOperand], images: Collection[int]) -> Node:
    """An op applied to a batch of operands `images` alone, whose images become those of one."""
    size = batch_size(operands)
    nodes = [repeat_in_batch(x, size) if i in images else x.node for i, x in enumerate(operands)]
    merged = tuple(
        [
            reshape_node(x, (size * x.shape[1], *x.shape[2:])) if i in images else x
            for i, x in enumerate(nodes)
        ]
    )
    made = make(op, merged)
    (count,) = {x.shape[1] for i, x in enumerate(nodes) if i in images}
    return reshape_node(made, (size, count, *made.shape[1:]))


def merge_channels(x: Node) -> Node:
    """The channels of a batch, along axis 0, as channels of one: those of the first come first."""
    rank = len(x.shape)
    moved = transpose_node(x, (*range(1, rank - 1), 0, rank - 1))
    return reshape_node(moved, (*x.shape[1:-1], x.shape[0] * x.shape[-1]))


def split_channels(x: Node, count: int) -> Node:
    """The reverse of `merge_channels`: a batch of `count`, along axis 0."""
    rank = len(x.shape)
    apart = reshape_node(x, (*x.shape[:-1], count, x.shape[-1] // count))
    return transpose_node(apart, (rank - 1, *range(rank - 1), rank))


def same_padding(n: int, span: int, stride: int) -> tuple[int, int]:
    """Padding that gives a window for each `stride` elements; the odd one goes to the far side."""
    total = max((-(-n // stride) - 1) * stride + span - n, 0)
    return total // 2, total - total // 2


def resolve_padding(padding: Any, sizes: Shape, span: Shape, strides: Shape, op: str) -> Pads:
    """`padding` as a pair (before, after) for each spatial axis."""
    if isinstance(padding, str):
        match padding.upper():
            case "SAME":
                return tuple(map(same_padding, sizes, span, strides))
            case "VALID":
                return ((0, 0),) * len(sizes)
            case _:
                raise value_error(op, f"padding is {padding!r}; {_accepted_text(len(sizes))}")
    if not isinstance(padding, (tuple, list)):
        raise type_error(op, f"padding is {padding!r}; {_accepted_text(len(sizes))}")
    return explicit_padding(cast("list[Any]", padding), len(sizes), op)


def explicit_padding(padding: Sequence[Any], rank: int, op: str) -> Pads:
    """The pairs (before, after) as they were given, checked."""
    pads: list[tuple[int, int]] = []
    for pair in padding:
        ends = cast("list[object]", pair) if isinstance(pair, (tuple, list)) else []
        if len(ends) != 2:
            raise type_error(op, f"padding has {pair!r} for an axis; {_accepted_text(rank)}")
        pads.append((as_int(ends[0], op, "padding"), as_int(ends[1], op, "padding")))
    if len(pads) != rank or min(map(min, pads)) < 0:
        raise value_error(op, f"padding is {tuple(pads)}; {_accepted_text(rank)}")
    return tuple(pads)


def _accepted_text(rank: int) -> str:
    pairs = ", ".join(["(before, after)"] * rank)
    return f'accepted: "SAME", "VALID", or pairs of numbers from 0 ({pairs}{"," * (rank == 1)})'


def window_counts(
    sizes: Shape, span: Shape, strides: tuple[int, ...], padding: Pads, op: str, position: int = 0
) -> Shape:
    """How many windows fit along each spatial axis; none along an axis without elements."""
    out: list[int] = []
    for axis, (n, reach, stride, pads) in enumerate(
        zip(sizes, span, strides, padding, strict=True), 1
    ):
        room = n + sum(pads)
        if n > 0 and room < reach:
            padded = f" ({room} with padding)" if room != n else ""
            raise value_error(
                op,
                f"operand {position} has {n} elements{padded} on axis {axis}; the window reaches "
                f'over {reach} and must fit: take a smaller window or padding="SAME"',
            )
        out.append(max((room - reach) // stride + 1, 0))
    return tuple(out)
