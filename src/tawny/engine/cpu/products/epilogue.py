"""What follows a product in registers: scale, bias, residual, activation, writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tawny.dtype import DType
from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import ArrayLayout
from tawny.engine.cpu.products.tile import RegisterTile
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.scalar.expressions import emit_op, is_supported
from tawny.engine.llvm.scalar.numbers import real
from tawny.ops.fused_products import Activation, Epilogue
from tawny.shape import Shape


@dataclass(frozen=True, slots=True)
class TileEpilogue:
    """An op's epilogue at a dtype, as every kernel of products applies it."""

    parts: Epilogue
    dtype: DType
    constant_bias: bool = False
    """Whether the bias is one number for all columns."""

    @property
    def is_supported(self) -> bool:
        """Whether code can be generated for it."""
        op = self.parts.activation.op
        if self.dtype.kind == "c":
            return op is None and not self.parts.scaled
        return op is None or ((self.is_short or host().has_fma) and is_supported(op, (self.dtype,)))

    @property
    def is_short(self) -> bool:
        """Whether its code is written for every vector of a tile."""
        return self.parts.activation in {Activation.NONE, Activation.RELU}


class _Row(NamedTuple):
    """The first row of a bias with two, as a layout."""

    shape: Shape
    strides: tuple[int, ...]
    dtype: DType


def without_scale(
    extra: Sequence[ArrayLayout], epilogue: Epilogue
) -> tuple[int, Sequence[ArrayLayout]]:
    """Bytes from the bias to the scale, and an epilogue's operands with the bias alone."""
    if not epilogue.scaled:
        return 0, extra
    both, *others = extra
    return both.strides[0], (_Row(both.shape[1:], both.strides[1:], both.dtype), *others)


@dataclass(frozen=True, slots=True)
class TileAddresses:
    """Addresses at the first column of a tile: of bias and scale, and of each row of the others."""

    results: Sequence[Value]
    bias: Value
    scale: Value
    residuals: Sequence[Value]


class Affine(NamedTuple):
    """A bias and a scale for each vector of columns; none where there is none."""

    biases: Sequence[Value]
    scales: Sequence[Value]


@dataclass(frozen=True, slots=True)
class EpilogueCode:
    """The end of a product while it is written; one mask for each vector of columns."""

    f: Function
    element: Element
    epilogue: TileEpilogue
    masks: Sequence[Value | None]
    apart: Value | None = None
    """Bytes from a vector of columns to the next, where they are not side by side."""

    def affine(self, bias: Value, scale: Value) -> Affine:
        """Bias and scale of each vector of columns, from their addresses."""
        has = self.epilogue.parts
        biases = self._of_columns(bias) if has.bias else []
        return Affine(biases, self._of_columns(scale) if has.scaled else [])

    def _of_columns(self, address: Value) -> list[Value]:
        """One number for each column."""
        if self.epilogue.constant_bias:
            return [self.element.splat(self.f, address)] * len(self.masks)
        return [self._load(address, v) for v in range(len(self.masks))]

    def row(
        self, sums: Sequence[Value], affine: Affine, result: Value, residual: Value | None
    ) -> None:
        """One row of a tile, written."""
        for v, value in enumerate(self.values(sums, affine, residual)):
            self.element.store(self.f, value, self._place(result, v), self.masks[v])

    def values(self, sums: Sequence[Value], affine: Affine, residual: Value | None) -> list[Value]:
        """One row of a tile."""
        f, element, (biases, scales) = self.f, self.element, affine
        values: list[Value] = []
        for v, total in enumerate(sums):
            value = element.round_to_storage(f, total)
            if scales:
                value = element.round_to_storage(f, value * scales[v])
            if biases:
                value = element.round_to_storage(f, value + biases[v])
            if residual is not None:
                value = element.round_to_storage(f, value + self._load(residual, v))
            values.append(self._activate(value))
        return values

    def _place(self, address: Value, vector: int) -> Value:
        step = self.element.vector_bytes
        offset = vector * step if self.apart is None else self.apart * vector
        return self.f.offset(address, offset)

    def _load(self, address: Value, vector: int) -> Value:
        return self.element.load(self.f, self._place(address, vector), self.masks[vector])

    def _activate(self, value: Value) -> Value:
        op = self.epilogue.parts.activation.op
        return value if op is None else real(emit_op(self.f, op, (self.epilogue.dtype,), [value]))


def finish(
    f: Function,
    element: Element,
    tile: RegisterTile,
    epilogue: TileEpilogue,
    sums: Sequence[Value],
    places: TileAddresses,
    masks: Sequence[Value | None],
) -> None:
    """Apply the epilogue to a tile's sums and write them."""
    end = EpilogueCode(f, element, epilogue, masks)
    affine = end.affine(places.bias, places.scale)
    if epilogue.is_short:
        for i in range(tile.rows):
            part = sums[i * tile.vectors : (i + 1) * tile.vectors]
            residual = places.residuals[i] if places.residuals else None
            end.row(part, affine, places.results[i], residual)
        return
    stored = spill(f, sums, element.sum_bytes)
    results, residuals = spill(f, places.results, 8), spill(f, places.residuals, 8)
    with f.loop(0, tile.rows) as loop:
        row = f.offset(stored, loop.index * (tile.vectors * element.sum_bytes))
        part = [
            f.load(element.vector, f.offset(row, v * element.sum_bytes), element.sum_bytes)
            for v in range(tile.vectors)
        ]
        result = f.load(PTR, f.element(results, loop.index, I64), 8)
        residual = None
        if places.residuals:
            residual = f.load(PTR, f.element(residuals, loop.index, I64), 8)
        end.row(part, affine, result, residual)


def spill(f: Function, values: Sequence[Value], nbytes: int) -> Value:
    """Values of `nbytes` each, one after another on the stack."""
    room = f.stack_buffer(max(len(values), 1) * nbytes)
    for i, value in enumerate(values):
        f.store(value, f.offset(room, i * nbytes), nbytes)
    return room
