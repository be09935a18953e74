"""Bands: a stretch of ops computed some rows at a time, so that what is between is never whole.

No user writes these: programs are compiled to them where less memory is needed that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.errors import value_error
from tawny.op import Cost, Gradient, Op, Type, nbytes, sum_costs
from tawny.ops.body import Body
from tawny.ops.body_rows import Band, band
from tawny.rows import Rows, row_count
from tawny.shape import Shape

MOST_BODIES: Final = 1024
"""Bodies whose bands are remembered, at most."""


class Bands(Op, name="bands", saved=False, arity=None, gradient=Gradient.NONE):
    """A body computed in bands: `height` rows of its result with fewest rows at a time.

    A result that is written over an operand lags behind by a band: it is written once no later band
    reads there.
    """

    body: Body
    height: int

    @property
    def bands(self) -> tuple[Band, ...]:
        """The bands, one after the other."""
        found = cut_bands(self.body, self.height)
        assert found is not None
        return found

    def infer_shape(self, *shapes: Shape) -> Shape:
        return self.body.type_of(self.body.results[0])[0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return self.body.type_of(self.body.results[0])[1]

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        body = self.body
        if types != body.operands:
            raise value_error("bands", f"operands are {types}; its body takes {body.operands}")
        if cut_bands(body, self.height) is None:
            raise value_error("bands", f"{body!r} cannot be cut into bands of {self.height} rows")
        return tuple(map(body.type_of, body.results)) if len(body.results) > 1 else ()

    def overwrites(self) -> tuple[tuple[int, int], ...]:
        """Pairs (operand, result): the result may be written over the operand, if it dies here.

        Only the largest result is: what lags behind is kept aside.
        """
        result = self.lagging
        return tuple(
            [(o, result) for o in range(len(self.body.operands)) if self._passes(o, result)]
        )

    @property
    def lagging(self) -> int:
        """The result that may lag behind: the largest."""
        body = self.body
        sizes = [nbytes(body.type_of(value)) for value in body.results]
        return sizes.index(max(sizes))

    def _passes(self, operand: int, result: int) -> bool:
        """Whether no band needs what was written over the operand two bands before."""
        body = self.body
        read, made = body.operands[operand], body.type_of(body.results[result])
        if nbytes(read) != nbytes(made) or read[1].itemsize != made[1].itemsize:
            return False
        bands = self.bands
        if any(band.reads[operand] is None for band in bands):
            return False
        needed = [_row_bytes(read, band.reads[operand] or _NONE)[0] for band in bands]
        written = [_row_bytes(made, band.rows[result])[1] for band in bands]
        return all(
            written[i] <= min(needed[i + 2 :], default=written[i]) for i in range(len(bands))
        )

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """Operands that result 0 may be written over; `overwrites` answers for each result."""
        return frozenset(operand for operand, result in self.overwrites() if not result)

    def may_fail(self, dtype: DType) -> bool:
        return self.body.may_fail()

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """The cost of all steps of all bands: rows around a band are computed for each."""
        return sum_costs(
            step.op.cost((step.shape, step.dtype), [band.body.type_of(i) for i in step.inputs])
            for band in self.bands
            for step in band.body.steps
        )


_NONE: Final[Rows] = (0, 0)


class ByteRange(NamedTuple):
    """Bytes of an array."""

    first: int
    last: int


def _row_bytes(kind: Type, rows: Rows) -> ByteRange:
    """The bytes of some rows, the last one being the first that is not among them."""
    each = nbytes(kind) // row_count(kind[0])
    return ByteRange(rows[0] * each, rows[1] * each)


def byte_range(kind: Type, rows: Rows | None) -> ByteRange:
    """The bytes that some rows of an array take, or all."""
    return ByteRange(0, nbytes(kind)) if rows is None else _row_bytes(kind, rows)


@lru_cache(MOST_BODIES)
def cut_bands(body: Body, height: int) -> tuple[Band, ...] | None:
    """The bands of a body; None where it cannot be computed so."""
    counts = [row_count(body.type_of(value)[0]) for value in body.results]
    fewest = min(counts)
    edges = [*range(0, fewest, height), fewest]
    found: list[Band] = []
    for first, last in pairwise(edges):
        one = band(body, [(first * n // fewest, last * n // fewest) for n in counts])
        if one is None or _has_views(one.body):
            return None
        found.append(one)
    return tuple(found)


def _has_views(body: Body) -> bool:
    """Whether a result is a view, or an operand: it has no memory of its own to be written to."""
    first = len(body.operands)
    steps: Sequence[int] = [value - first for value in body.results]
    return len(set(steps)) < len(steps) or any(
        step < 0 or body.steps[step].op.facts().view for step in steps
    )
