"""From a declaration to the function a user calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final, ParamSpec, Protocol, TypeVar, cast, overload

from tawny.array import Array, ArrayLike, Weak, fresh, lift, lift_all, wrap
from tawny.calling import guarded
from tawny.node import Node, make, make_parts
from tawny.op import (
    Domain,
    DTypeRule,
    Elementwise,
    Facts,
    Gradient,
    Op,
    Overwrites,
    Slopes,
    Trait,
    register,
)
from tawny.registry import FUNCTIONS
from tawny.scalar import Scalar, arguments

P = ParamSpec("P")
R = TypeVar("R")

Unary = Callable[[ArrayLike], Array]
Binary = Callable[[ArrayLike, ArrayLike], Array]
Ternary = Callable[[ArrayLike, ArrayLike, ArrayLike], Array]


def emit(op: Op, *operands: ArrayLike) -> Array:
    """The array `op` makes of `operands`."""
    return wrap(emit_node(op, *operands))


def emit_new(op: Op, *operands: ArrayLike) -> Array:
    """As `emit`, for creation functions: a new array each time, so that it can be changed alone."""
    return fresh(emit_node(op, *operands))


def emit_node(op: Op, *operands: ArrayLike) -> Node:
    """The node `op` makes of `operands`."""
    name = op.facts().name
    return make(op, tuple(lift(x, name, i) for i, x in enumerate(operands)))


def emit_parts(op: Op, *operands: ArrayLike) -> tuple[Array, ...]:
    """The arrays an op with several results makes of `operands`."""
    name = op.facts().name
    nodes = tuple(lift(x, name, i) for i, x in enumerate(operands))
    return tuple(map(wrap, make_parts(op, nodes)))


def public(*names: str, module: str = "") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function public under its own name and `names`.

    It is found by the operators, methods and NumPy protocols of `Array`, and a call with
    arguments it does not take says which it does.  `module` ("linalg") is the submodule its
    own name belongs to.
    """

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        name = f"{module}.{function.__name__}" if module else function.__name__
        boundary = guarded(function)
        for key in (name, *names):
            FUNCTIONS[key] = boundary
        return boundary

    return declare


class Declare(Protocol):
    """Turns a scalar body into a public function; its arity picks the type."""

    @overload
    def __call__(self, body: Callable[[Scalar], Scalar], /) -> Unary: ...
    @overload
    def __call__(self, body: Callable[[Scalar, Scalar], Scalar], /) -> Binary: ...
    @overload
    def __call__(self, body: Callable[[Scalar, Scalar, Scalar], Scalar], /) -> Ternary: ...


def elementwise(
    *names: str,
    dtype: DTypeRule,
    gradient: Gradient | Slopes = Gradient.DERIVED,
    traits: Trait = Trait.NONE,
    identity: complex | None = None,
    domain: Domain = Domain(),  # noqa: B008  (immutable)
    oracle: str | None = None,
    weak: Weak = Weak.ADAPTS,
) -> Declare:
    """Declare an elementwise op.

    The decorated body gives the name, the arity, the documentation and the scalar expression.
    `names` are further public names.  The oracle is NumPy's function of the same name unless
    another is given.  `weak` says what Python numbers become beside arrays.
    """

    def declare(body: Callable[..., Scalar], /) -> Callable[..., Array]:
        op = scalar_op(
            dtype=dtype,
            gradient=gradient,
            traits=traits,
            identity=identity,
            domain=domain,
            oracle=f"numpy.{body.__name__}" if oracle is None else oracle,
        )(body)
        function = _FUNCTION[body.__code__.co_argcount](op, weak)
        function.__name__ = function.__qualname__ = op.info.name
        function.__doc__ = inspect.cleandoc(op.info.doc)
        function.__module__ = body.__module__
        return public(*names)(function)

    return cast("Declare", declare)


def scalar_op(
    *,
    dtype: DTypeRule,
    gradient: Gradient | Slopes = Gradient.DERIVED,
    traits: Trait = Trait.NONE,
    identity: complex | None = None,
    domain: Domain = Domain(),  # noqa: B008  (immutable)
    oracle: str = "",
) -> Callable[[Callable[..., Scalar]], Elementwise]:
    """Declare an elementwise op that no user calls; see `elementwise`."""

    def declare(body: Callable[..., Scalar]) -> Elementwise:
        arity = body.__code__.co_argcount
        info = Facts(
            name=body.__name__,
            doc=(body.__doc__ or "").strip(),
            chapter=body.__module__.rpartition(".")[2],
            arity=arity,
            dtype=dtype,
            overwrites=Overwrites.SAME_SIZE,
            gradient=gradient,
            traits=traits,
            identity=identity,
            domain=domain,
            oracle=oracle,
        )
        op = Elementwise(info, body(*arguments(arity)).expr)
        register(info, op)
        return op

    return declare


def _unary(op: Elementwise, weak: Weak) -> Callable[..., Array]:
    del weak
    name = op.info.name

    def function(x: ArrayLike, /) -> Array:
        return wrap(make(op, (x.node if type(x) is Array else lift(x, name),)))

    return function


def _binary(op: Elementwise, weak: Weak) -> Callable[..., Array]:
    name = op.info.name

    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        if type(x1) is Array and type(x2) is Array:
            return wrap(make(op, (x1.node, x2.node)))
        return wrap(make(op, lift_all(name, (x1, x2), op.info.dtype, weak)))

    return function


def _ternary(op: Elementwise, weak: Weak) -> Callable[..., Array]:
    name = op.info.name

    def function(x1: ArrayLike, x2: ArrayLike, x3: ArrayLike, /) -> Array:
        return wrap(make(op, lift_all(name, (x1, x2, x3), op.info.dtype, weak)))

    return function


_FUNCTION: Final = {1: _unary, 2: _binary, 3: _ternary}
