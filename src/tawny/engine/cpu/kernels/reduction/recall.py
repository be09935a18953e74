"""What a walk over a row writes down, so that the walks after it need not compute it again.

A row is walked once for each fold that needs another one.  Each walk computes its elements from the
operands; where that takes long, one that computed the same before has put it beside the stack,
which stays in the first caches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

from tawny.dtype import DType, kind_of
from tawny.engine.llvm.scalar.reduction_bodies import Computation, ReductionCode

RECALLED_BYTES: Final = 2**16
"""Rows that take more, with all that is written down of them, are computed again."""

COSTLY_STEPS: Final = 4
"""Steps that an exponential and its like count for."""

COPY_STEPS: Final = 2
"""Steps that writing a number down, and reading it, take."""


def items_for(code: ReductionCode, wanted: Sequence[int], known: Collection[int] = ()) -> list[int]:
    """Items that elements are made of, in order; those that are known need nothing."""
    found, stack = set[int](), list(wanted)
    while stack:
        i = stack.pop()
        if i in found:
            continue
        found.add(i)
        item = code.items[i]
        if isinstance(item, Computation) and not code.of_row[i] and i not in known:
            stack += item.inputs
    return sorted(found)


def wanted_in(code: ReductionCode, sweep: int) -> list[int]:
    """The items that a sweep folds, or writes as results."""
    folded = [i for _, fold in code.folds_in(sweep) for i in fold.inputs]
    last = sweep == code.sweeps - 1
    return [*folded, *[i for i, of_row in code.results if last and not of_row]]


@lru_cache(1024)
def written_down(code: ReductionCode) -> tuple[tuple[int, ...], ...]:
    """For each sweep the items that it writes down for those after it."""
    known, out = list[int](), list[tuple[int, ...]]()
    for sweep in range(code.sweeps - 1):
        now = items_for(code, wanted_in(code, sweep), known)
        wanted = wanted_in(code, sweep + 1)
        after = items_for(code, wanted, known)
        shared = [i for i in after if i in now and i not in known and _is_computed(code, i)]
        others = [code.items[i] for i in after if i not in shared and i not in known]
        used = {n for item in others if isinstance(item, Computation) for n in item.inputs}
        ends = [i for i in shared if i in used or i in wanted]
        pays = sum([_steps(code, i) for i in shared]) > COPY_STEPS * len(ends)
        chosen = tuple(ends) if pays and all(_is_exact(code.dtypes[i]) for i in ends) else ()
        out.append(chosen)
        known += chosen
    return (*out, ())


def recalled_bytes(code: ReductionCode) -> int:
    """Bytes of all that is written down of an element of a row."""
    return sum([code.dtypes[i].itemsize for items in written_down(code) for i in items])


def _is_computed(code: ReductionCode, item: int) -> bool:
    return isinstance(code.items[item], Computation) and not code.of_row[item]


def _steps(code: ReductionCode, item: int) -> int:
    made = code.items[item]
    return COSTLY_STEPS if isinstance(made, Computation) and made.costly else 1


def _is_exact(dtype: DType) -> bool:
    """Whether numbers are computed with as they are stored."""
    return kind_of(dtype) in "iu" or (kind_of(dtype) == "f" and dtype.itemsize >= 4)
