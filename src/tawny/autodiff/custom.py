"""Functions whose derivatives the user writes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar, cast, final

import numpy as np

from tawny.array import Array, lift, wrap
from tawny.autodiff.batching import BatchedRule
from tawny.autodiff.tracing import check_callable
from tawny.dtype import kind_of
from tawny.errors import type_error, value_error
from tawny.node import Node, make_parts
from tawny.ops.creation import zeros_like
from tawny.ops.differentiation import CustomForward, CustomReverse, Derivative, GivenRule
from tawny.tree import leaves, map_leaves

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


@final
class Slot:
    """A leaf where an array stands in a structure: its number among the operands."""

    def __init__(self, number: int) -> None:
        self.number = number


class CustomCall(NamedTuple):
    """A call of a function with a derivative of its own; structures hold slots for arrays."""

    name: str
    function: Function
    arguments: Any
    results: Any
    residuals: Any = None


@final
class custom_vjp(Generic[F]):  # noqa: N801  (used as a decorator)
    """A function with a derivative of its own in reverse mode; used as a decorator.

    - `function`: computes arrays, or a structure of arrays, from positional arguments.

    `f.defvjp(forward, backward)` declares it.  `forward(x, y)` gives the function's result and
    residuals, a structure of arrays to keep; where it calls `f`, that is the function as it was
    written.  `backward(residuals, cotangent)` takes the cotangent of the result, in the structure
    of the result, and gives one for each argument, or None.  Forward mode follows from it, if
    `backward` is made of arrays' operations.

        @tw.custom_vjp
        def clipped(x):
            return np.clip(x, -1.0, 1.0)

        def forward(x):
            return clipped(x), ()

        def backward(residuals, cotangent):
            return (cotangent,)                       # as if nothing were clipped

        clipped.defvjp(forward, backward)
        float(tw.grad(clipped)(5.0))                  # -> 1.0
    """

    def __init__(self, function: F) -> None:
        check_callable("custom_vjp", function)
        functools.update_wrapper(self, function)
        self._function = function
        self._rules: tuple[Function, Function] | None = None
        self._going_forward: ContextVar[bool] = ContextVar("going_forward", default=False)
        """Whether `forward` is being called, which may call the function itself."""

    def defvjp(self, forward: Function, backward: Function) -> None:
        """Declare how the function is computed when it is differentiated, and its derivative.

        - `forward`: takes the arguments; gives the result and the residuals to keep.
        - `backward`: takes the residuals and the cotangent of the result; gives a cotangent, or
          None, for each argument.
        """
        self._rules = forward, backward

    def __call__(self, *args: Any) -> Any:
        if self._rules is None or self._going_forward.get():
            return self._function(*args)
        ahead, backward = self._rules
        token = self._going_forward.set(True)
        try:
            made: Any = ahead(*args)
        finally:
            self._going_forward.reset(token)
        pair = cast("tuple[Any, ...]", made)
        if not isinstance(made, tuple) or len(pair) != 2:
            raise type_error(_name(self), "forward gives a pair: the result and what to keep")
        return _attach_rule(
            CustomReverse, BackwardRule, backward, _name(self), pair[0], args, pair[1]
        )


@final
class custom_jvp(Generic[F]):  # noqa: N801  (used as a decorator)
    """A function with tangents of its own in forward mode; used as a decorator.

    - `function`: computes arrays, or a structure of arrays, from positional arguments.

    `f.defjvp(rule)` says the tangents: `rule(primals, tangents)` takes two tuples and gives the
    result and its tangent, which is linear in `tangents`.  Reverse mode follows.

        @tw.custom_jvp
        def f(x):
            return np.log(1 + np.exp(x))

        @f.defjvp
        def f_jvp(primals, tangents):
            (x,), (t,) = primals, tangents
            return f(x), t * np.sigmoid(x)

        float(tw.grad(f)(0.0))                        # -> 0.5
    """

    def __init__(self, function: F) -> None:
        check_callable("custom_jvp", function)
        functools.update_wrapper(self, function)
        self._function = function
        self._rule: Function | None = None

    def defjvp(self, rule: Function) -> Function:
        """Say how tangents go through the function; gives `rule` itself, so that it can decorate.

        - `rule`: takes the arguments and their tangents as two tuples; gives the result and its
          tangent.
        """
        self._rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        result = self._function(*args)
        if self._rule is None:
            return result
        return _attach_rule(CustomForward, TangentRule, self._rule, _name(self), result, args, None)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "custom"))


# ------------------------------------------------------------------- structures


def _attach_rule(
    op: type[CustomReverse | CustomForward],
    rule: type[CustomRule],
    function: Function,
    name: str,
    result: Any,
    args: Any,
    residuals: Any,
) -> Any:
    """The result, with its derivative said to be what `function` makes it."""
    nodes: list[Node] = []

    def place(x: Any) -> Any:
        if not isinstance(x, (Array, np.ndarray, np.generic, float, complex)):
            return x
        nodes.append(lift(x, name))
        return Slot(len(nodes) - 1)

    results = map_leaves(place, result)
    count = len(nodes)
    if count == 0 or any(not isinstance(x, Slot) for x in leaves(results)):
        raise type_error(name, "the function gives arrays, or a structure of arrays")
    call = CustomCall(
        name, function, map_leaves(place, args), results, map_leaves(place, residuals)
    )
    made = make_parts(op(count, rule(call)), tuple(nodes))
    return _fill_slots(results, [wrap(n) for n in made])


def _fill_slots(structure: Any, arrays: Sequence[Any]) -> Any:
    """The structure with arrays in its slots."""
    return map_leaves(lambda x: arrays[x.number] if isinstance(x, Slot) else x, structure)


# ------------------------------------------------------------------------ rules


class CustomRule(GivenRule):
    """The rule of one call."""

    def __init__(self, call: CustomCall) -> None:
        self.call = call

    def batch(self, batched: Sequence[bool]) -> GivenRule:
        """The user's rule, of one call as ever."""
        return BatchedRule(self, batched)


@final
class BackwardRule(CustomRule):
    """Cotangents by the user's `backward`."""

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        call = self.call
        whole = [
            zeros_like(y) if s is None else s for s, y in zip(cotangents, results, strict=True)
        ]
        made: Any = call.function(
            _fill_slots(call.residuals, operands), _fill_slots(call.results, whole)
        )
        given = cast("tuple[Any, ...]", made)
        if not isinstance(made, (tuple, list)) or len(given) != len(call.arguments):
            raise type_error(
                call.name,
                f"backward gives a tuple of {len(call.arguments)} cotangents, one for each "
                "argument",
            )
        found: list[Derivative] = [None] * len(operands)
        for argument, cotangent in zip(call.arguments, given, strict=True):
            if cotangent is None:
                continue
            places, parts = leaves(argument), leaves(cotangent)
            if len(places) != len(parts):
                raise value_error(
                    call.name, "a cotangent must be None or have the structure of its argument"
                )
            for place, part in zip(places, parts, strict=True):
                if isinstance(place, Slot) and part is not None:
                    found[place.number] = _array_of_shape(call.name, part, operands[place.number])
        return found


@final
class TangentRule(CustomRule):
    """Tangents by the rule that the user gives to `defjvp`."""

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        call = self.call
        moved = [
            None if kind_of(x.dtype) not in "fc" else zeros_like(x) if t is None else t
            for t, x in zip(tangents, operands, strict=True)
        ]
        made: Any = call.function(
            _fill_slots(call.arguments, operands), _fill_slots(call.arguments, moved)
        )
        pair = cast("tuple[Any, ...]", made)
        if not isinstance(made, tuple) or len(pair) != 2:
            raise type_error(call.name, "the rule gives a pair: the result and its tangent")
        found = leaves(pair[1])
        if len(found) != len(results):
            raise value_error(call.name, "the tangent must have the structure of the result")
        return [
            None if t is None else _array_of_shape(call.name, t, y)
            for t, y in zip(found, results, strict=True)
        ]


def _array_of_shape(name: str, cotangent: Any, x: Array) -> Array:
    array = wrap(lift(cotangent, name))
    if array.shape != x.shape:
        raise value_error(
            name, f"backward gives a cotangent of shape {array.shape} for an argument of {x.shape}"
        )
    return array
