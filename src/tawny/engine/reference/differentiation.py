"""Ops about derivatives: on values they are the identity."""

from __future__ import annotations

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.differentiation import (
    Again,
    Argument,
    Checkpoint,
    CustomForward,
    CustomReverse,
    DerivativeMarker,
    StopGradient,
)


@kernel(Argument)
def _(op: Argument, x: Value) -> Value:
    del op
    return x


@kernel(StopGradient)
def _(op: StopGradient, x: Value) -> Value:
    del op
    return x


@kernel(Again)
def _(op: Again, x: Value, after: Value) -> Value:
    del op, after
    return x


@kernel(Checkpoint)
@kernel(CustomForward)
@kernel(CustomReverse)
def _(op: DerivativeMarker, *operands: Value) -> tuple[Value, ...]:
    return operands[: op.results]
