"""Rules of primitives: functions of the function being written, the dtype, and the arguments."""

from __future__ import annotations

from collections.abc import Callable

from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import Function, Value

Rule = Callable[..., Value]


def of_one(function: Callable[[Value], Value]) -> Rule:
    """A rule of one argument that is the same at every dtype."""

    def rule(f: Function, dtype: DType, x: Value) -> Value:
        del f, dtype
        return function(x)

    return rule


def of_two(function: Callable[[Value, Value], Value]) -> Rule:
    """A rule of two arguments that is the same at every dtype."""

    def rule(f: Function, dtype: DType, x: Value, y: Value) -> Value:
        del f, dtype
        return function(x, y)

    return rule


def code_of_one(function: Callable[[Function, Value], Value]) -> Rule:
    """A rule of one argument that writes several instructions, the same at every dtype."""

    def rule(f: Function, dtype: DType, x: Value) -> Value:
        del dtype
        return function(f, x)

    return rule


def code_of_two(function: Callable[[Function, Value, Value], Value]) -> Rule:
    """A rule of two arguments that writes several instructions, the same at every dtype."""

    def rule(f: Function, dtype: DType, x: Value, y: Value) -> Value:
        del dtype
        return function(f, x, y)

    return rule
