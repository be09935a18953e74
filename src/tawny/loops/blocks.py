"""Loops whose rows are made some at a time: what they follow from by products, above all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tawny.numpy as np
from tawny.array import Array
from tawny.loops.functions import Function, scan
from tawny.tree import leaves, map_leaves, map_together

PRODUCT_ROWS: Final = 256
"""Rows of products that are as fast as those of more."""


def scan_in_blocks(
    f: Function,
    init: Any,
    xs: Any,
    make_rows: Callable[[Any], Any],
    batch: int,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`scan(f, init, make_rows(xs), reverse=reverse)`, without all the rows at once.

    `make_rows` gives the rows that belong to those of some steps, `batch` of a product for each.
    """
    count = next(x for x in leaves(xs) if x is not None).shape[0]
    block = _block(count, max(1, -(-PRODUCT_ROWS // max(1, batch))))
    if block >= count:
        return scan(f, init, make_rows(xs), reverse=reverse)
    whole = count // block * block

    def of_block(carry: Any, rows: Any) -> tuple[Any, Any]:
        return scan(f, carry, make_rows(rows), reverse=reverse)

    def blocks(carry: Any) -> tuple[Any, Any]:
        cut = _each(lambda x: x[:whole].reshape((-1, block, *x.shape[1:])), xs)
        carry, made = scan(of_block, carry, cut, reverse=reverse)
        return carry, _each(lambda y: y.reshape((whole, *y.shape[2:])), made)

    def rest(carry: Any) -> tuple[Any, Any]:
        return of_block(carry, _each(lambda x: x[whole:], xs))

    if whole == count:
        return blocks(init)
    if reverse:
        carry, last = rest(init)
        carry, first = blocks(carry)
    else:
        carry, first = blocks(init)
        carry, last = rest(carry)
    return carry, map_together(_join, first, last)


def _block(count: int, least: int) -> int:
    """How many steps a block has: `least`, or a divisor of all steps that is not much larger."""
    for size in range(least, min(2 * least, count) + 1):
        if count % size == 0:
            return size
    return least


def _join(first: Array | None, last: Array | None) -> Array | None:
    return None if first is None or last is None else np.concat([first, last], axis=0)


def _each(f: Callable[[Array], Array], structure: Any) -> Any:
    return map_leaves(lambda x: None if x is None else f(x), structure)
