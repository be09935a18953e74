"""Arrays put together from blocks, repeated, cut into windows, and mapped line by line."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

from tawny.array import Array, ArrayLike, lift, wrap
from tawny.errors import value_error
from tawny.operator import public
from tawny.ops.creation import copy, zeros
from tawny.ops.indexing import positions, take_node
from tawny.ops.joining import concat, stack, tile
from tawny.ops.movement import expand_dims, expand_node, moveaxis, ravel, reshape
from tawny.shape import as_shape, normalise_axis, size


@public()
def block(arrays: Any) -> Array:
    """Nested lists of arrays put together: the innermost along the last axis, and so on."""
    depth = _depth(arrays, "arrays")
    leaves = _leaves(arrays)
    rank = max([depth, *(x.ndim for x in leaves)])
    result = _assemble(arrays, rank, rank - depth)
    return copy(result) if depth == 0 else result


def _depth(item: object, place: str) -> int:
    """How deep the lists are nested, which must be the same everywhere."""
    if not isinstance(item, list):
        return 0
    items = cast("Sequence[Any]", item)
    if not items:
        raise value_error("block", f"{place} is an empty list; each must hold an array")
    depths = [_depth(x, f"{place}[{i}]") for i, x in enumerate(items)]
    for i, depth in enumerate(depths):
        if depth != depths[0]:
            raise value_error(
                "block",
                f"{place}[{i}] has lists nested {depth} deep and {place}[0] {depths[0]} deep; "
                "there must be as many everywhere",
            )
    return depths[0] + 1


def _leaves(item: object) -> list[Array]:
    if isinstance(item, list):
        return [leaf for x in cast("Sequence[Any]", item) for leaf in _leaves(x)]
    return [wrap(lift(item, "block"))]


def _assemble(item: object, rank: int, axis: int) -> Array:
    """The arrays of a list joined along `axis`, those of the lists in it along the next."""
    if isinstance(item, list):
        items = cast("Sequence[Any]", item)
        return concat([_assemble(x, rank, axis + 1) for x in items], axis=axis)
    node = lift(item, "block")
    return wrap(expand_node(node, range(rank - len(node.shape))))


@public()
def resize(a: ArrayLike, new_shape: int | Sequence[int]) -> Array:
    """The elements of `a`, read row by row and repeated as needed, in another shape."""
    array = wrap(lift(a, "resize"))
    shape = as_shape(new_shape, "resize", "new_shape")
    wanted = size(shape)
    if not array.size or not wanted:
        return zeros(shape, dtype=array.dtype)
    line = ravel(array)
    repeated = tile(line, -(-wanted // array.size)) if wanted > array.size else copy(line)
    return reshape(repeated[:wanted], shape)


@public()
def sliding_window_view(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Array:
    """Every window along some axes, as the last axes; unlike NumPy's it may be a new array.

    - `x`: the array.
    - `window_shape`: the size of a window along each of these axes.
    - `axis`: the axes; all when None.
    - `subok`: NumPy's, without effect.
    - `writeable`: must be False: windows may be copies.

    Gives an array with the axes of `x`, shorter by the window less one, and those of a window.

        np.sliding_window_view([1, 2, 3], 2).numpy().tolist()   # -> [[1, 2], [2, 3]]
    """
    del subok
    if writeable:
        raise value_error("sliding_window_view", "writeable must be False: windows are copies")
    node = lift(x, "sliding_window_view")
    window = as_shape(window_shape, "sliding_window_view", "window_shape")
    rank = len(node.shape)
    if axis is None:
        axes = tuple(range(rank))
    else:
        given = axis if isinstance(axis, Sequence) else (axis,)
        axes = tuple(normalise_axis(a, rank, "sliding_window_view") for a in given)
    if len(axes) != len(window):
        raise value_error(
            "sliding_window_view",
            f"window_shape {window} has {len(window)} sizes for {len(axes)} axes; there must be "
            "one for each",
        )
    for along, length in zip(axes, window, strict=True):
        count = node.shape[along] - length + 1
        if count < 1:
            raise value_error(
                "sliding_window_view",
                f"operand 0 has shape {node.shape}; a window of {length} does not fit its axis "
                f"{along}",
            )
        starts, steps = expand_node(positions(count), (1,)), positions(length)
        windows = take_node(node, along, (wrap(starts) + wrap(steps)).node)
        node = moveaxis(wrap(windows), along + 1, -1).node
    return wrap(node)


@public()
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """What `func1d` makes of each line of `arr` along `axis`, in the place of that line.

    The function is called once for each line, so the graph grows with their number.
    """
    array = wrap(lift(arr, "apply_along_axis", 2))
    along = normalise_axis(axis, array.ndim, "apply_along_axis")
    others = (*array.shape[:along], *array.shape[along + 1 :])
    if 0 in others:
        raise value_error(
            "apply_along_axis",
            f"operand 2 has shape {array.shape}: there is no line along axis {axis}",
        )
    lines = moveaxis(array, along, -1)
    results = [
        wrap(lift(func1d(lines[place], *args, **kwargs), "apply_along_axis"))
        for place in itertools.product(*map(range, others))
    ]
    inner = results[0].ndim
    result = reshape(stack(results), (*others, *results[0].shape))
    return moveaxis(result, range(len(others), len(others) + inner), range(along, along + inner))


@public()
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """What `func(a, axis)` makes of `a`, one of `axes` after the other; axes it drops are kept."""
    result = wrap(lift(a, "apply_over_axes", 1))
    rank = result.ndim
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        along = normalise_axis(axis, rank, "apply_over_axes")
        made = wrap(lift(func(result, along), "apply_over_axes"))
        result = made if made.ndim == rank else expand_dims(made, along)
        if result.ndim != rank:
            raise value_error(
                "apply_over_axes",
                f"the function gives {made.ndim} axes; it must keep {rank} or drop one",
            )
    return result
