"""Updates of parts of arrays.

Where an index repeats, "set" keeps the last value: only that one gets a cotangent.  "add" passes
its cotangent to every value, "mul" scales it by all the other factors, "min" and "max" share it
equally among the old element and the values that reach the extreme.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import reverse
from tawny.autodiff.rules.zero_safe import scale_cotangent
from tawny.autodiff.unbroadcast import zeros
from tawny.node import Node, make, scalar
from tawny.numpy.composite import where
from tawny.numpy.grids import ravel_multi_index
from tawny.numpy.padding import pad
from tawny.ops import elementwise as e
from tawny.ops.creation import Cast
from tawny.ops.indexing import Gather, Slice, positions, take
from tawny.ops.movement import broadcast_node, expand_dims, flip, moveaxis, reshape, reshape_node
from tawny.ops.scatter import Scatter
from tawny.ops.sorting import argsort
from tawny.shape import Shape, broadcast, size

Indices = tuple[Node, ...]
Pair = tuple[Array, Array]
Rule = Callable[[Scatter, Array, Array, Array, Array, Indices], Pair]


@reverse(Scatter)
def _(
    op: Scatter, cotangent: Array, y: Array, x: Array, value: Array, *indices: Array
) -> list[Array | None]:
    rule = _RULES[op.mode]
    places = tuple([i.node for i in indices])
    return [*rule(op, cotangent, y, x, value, places), *[None] * len(indices)]


def _part(op: Scatter, x: Array, indices: Indices) -> Array:
    """The part of `x` that is updated."""
    node = x.node
    if any(r != (0, n, 1) for r, n in zip(op.ranges, x.shape, strict=True)):
        node = make(Slice(op.ranges), (node,))
    return wrap(make(Gather(op.axes, op.place), (node, *indices)) if op.axes else node)


def _with(op: Scatter, mode: str, x: Array, value: Node, indices: Indices) -> Array:
    """`x` with the same part updated in another way."""
    return wrap(make(Scatter(op.ranges, op.axes, op.place, mode), (x.node, value, *indices)))


def _add(op: Scatter, cotangent: Array, y: Array, x: Array, value: Array, indices: Indices) -> Pair:
    return cotangent, _part(op, cotangent, indices)


def _set(op: Scatter, cotangent: Array, y: Array, x: Array, value: Array, indices: Indices) -> Pair:
    kept = _with(op, "set", cotangent, scalar(0, cotangent.dtype, "scatter"), indices)
    passed = _part(op, cotangent, indices)
    if _repeats(op, indices):
        passed = where(_is_last(op, indices), passed, 0)
    return kept, passed


def _mul(op: Scatter, cotangent: Array, y: Array, x: Array, value: Array, indices: Indices) -> Pair:
    factor = _part(op, x, indices)
    if _repeats(op, indices):
        factor = e.multiply(factor, _other_factors(op, value, factor.shape, indices))
    passed = scale_cotangent(_part(op, cotangent, indices), factor)
    return _with(op, "mul", cotangent, value.node, indices), passed


def _extremum(
    op: Scatter, cotangent: Array, y: Array, x: Array, value: Array, indices: Indices
) -> Pair:
    old, new = e.equal(x, y), e.equal(value, _part(op, y, indices))
    count = _with(op, "add", _number(old, x), _number(new, x).node, indices)
    share = e.divide(cotangent, count)
    return where(old, share, 0), where(new, _part(op, share, indices), 0)


def _number(truth: Array, x: Array) -> Array:
    return wrap(make(Cast(x.dtype), (truth.node,)))


_RULES: Final[dict[str, Rule]] = {
    "add": _add,
    "set": _set,
    "mul": _mul,
    "min": _extremum,
    "max": _extremum,
}


# ------------------------------------------------------------ repeated indices


def _lengths(op: Scatter) -> Shape:
    """Sizes of the axes that the index arrays pick from."""
    return tuple(op.ranges[a][1] for a in op.axes)


def _repeats(op: Scatter, indices: Indices) -> bool:
    """Whether a place may come twice; only constant indices tell that none does."""
    if not indices or size(broadcast("scatter", [i.shape for i in indices])) < 2:
        return False
    values = [i.value for i in indices if i.value is not None]
    if len(values) < len(indices):
        return True
    places = np.zeros((), np.int64)
    for value, n in zip(values, _lengths(op), strict=True):
        places = places * n + value.astype(np.int64) % n
    return np.unique(places).size < places.size


def _places(op: Scatter, indices: Indices) -> Array:
    """Where each value goes, as a number of the flattened indexed axes."""
    return ravel_multi_index(list(map(wrap, indices)), _lengths(op), mode="wrap")


def _is_last(op: Scatter, indices: Indices) -> Array:
    """Whether each value is the last that is written to its place."""
    places = _places(op, indices)
    numbers = wrap(reshape_node(positions(places.size), places.shape))
    total = size(_lengths(op))
    writes = Scatter(((0, total, 1),), (0,), 0, "set")
    written = make(writes, (zeros((total,), dt.INT64), numbers.node, places.node))
    last = e.equal(take(wrap(written), places), numbers)
    return _align(last, len(op.ranges) - len(op.axes) - op.place)


def _align(block: Array, behind: int) -> Array:
    """An array of the index arrays' shape beside the part, which has further axes behind them."""
    return reshape(block, (*block.shape, *(1,) * behind))


def _other_factors(op: Scatter, value: Array, shape: Shape, indices: Indices) -> Array:
    """For each factor the product of those that go to the same place, but for itself.

    They are sorted by their places; then running products from both sides, which start anew at
    every place, give those before and those behind.
    """
    places = _places(op, indices)
    rank = places.ndim
    block = range(op.place, op.place + rank)
    lines = moveaxis(wrap(broadcast_node(value.node, shape)), block, range(rank))
    order = argsort(reshape(places, (places.size,)))
    keys = take(reshape(places, (places.size,)), order)
    factors = take(reshape(lines, (places.size, *lines.shape[rank:])), order, axis=0)
    before = _products_before(factors, keys)
    behind = flip(_products_before(flip(factors, axis=0), flip(keys)), axis=0)
    back = argsort(order)
    others = reshape(take(e.multiply(before, behind), back, axis=0), lines.shape)
    return moveaxis(others, range(rank), block)


def _products_before(factors: Array, keys: Array) -> Array:
    """Along axis 0, the product of the earlier elements that have the same key."""
    distance = 1
    products = _earlier(factors, keys, 1)
    while distance < keys.size:
        products = e.multiply(products, _earlier(products, keys, distance))
        distance *= 2
    return products


def _earlier(x: Array, keys: Array, distance: int) -> Array:
    """The elements `distance` places before; 1 where the key is another."""
    n = keys.size
    same = e.equal(keys[distance:], keys[: n - distance])
    shifted = where(expand_dims(same, axis=tuple(range(1, x.ndim))), x[: n - distance], 1)
    widths = [(distance, 0), *[(0, 0)] * (x.ndim - 1)]
    return pad(shifted, widths, constant_values=1)
