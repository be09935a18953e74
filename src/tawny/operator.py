"""From a declaration to the function a user calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast, overload

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, Weak, lift, lift_all, store, wrap
from tawny.bad_calls import explain_bad_calls, renaming_answer
from tawny.dtype import as_dtype, is_weak
from tawny.dtype_rules import DTypeRule
from tawny.errors import type_error, value_error
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.node import Node, make, make_parts
from tawny.op import (
    Domain,
    Elementwise,
    Facts,
    Gradient,
    Op,
    Overwrites,
    ScalarRules,
    Trait,
    register,
)
from tawny.scalar import Expr, Scalar, arguments, is_locally_constant
from tawny.tree import items_of

P = ParamSpec("P")
R = TypeVar("R")

Ternary = Callable[[ArrayLike, ArrayLike, ArrayLike], Array]
Rule = Callable[[Array, Array, Array], Array | None]
"""From cotangent or tangent, result and operand to what goes through a row of one operand."""


class Unary(Protocol):
    """A function of one array, element by element, with the options of NumPy's ufuncs."""

    def __call__(
        self,
        x: ArrayLike,
        /,
        out: Out = None,
        *,
        where: ArrayLike = True,
        casting: str = "same_kind",
        order: str | None = "K",
        dtype: Any = None,
        subok: bool = True,
        signature: None = None,
    ) -> Array: ...


class Binary(Protocol):
    """A function of two arrays, element by element, with the options of NumPy's ufuncs."""

    reduce: Callable[..., Array]
    accumulate: Callable[..., Array]
    outer: Callable[..., Array]
    at: Callable[..., None]
    reduceat: Callable[..., Array]

    def __call__(
        self,
        x1: ArrayLike,
        x2: ArrayLike,
        /,
        out: Out = None,
        *,
        where: ArrayLike = True,
        casting: str = "same_kind",
        order: str | None = "K",
        dtype: Any = None,
        subok: bool = True,
        signature: None = None,
    ) -> Array: ...


def emit(op: Op, *operands: ArrayLike) -> Array:
    """The array `op` makes of `operands`."""
    return wrap(emit_node(op, *operands))


def emit_node(op: Op, *operands: ArrayLike) -> Node:
    """The node `op` makes of `operands`."""
    name = op.facts().name
    return make(op, tuple(lift(x, name, i) for i, x in enumerate(operands)))


def emit_parts(op: Op, *operands: ArrayLike) -> tuple[Array, ...]:
    """The arrays an op with several results makes of `operands`."""
    name = op.facts().name
    nodes = tuple(lift(x, name, i) for i, x in enumerate(operands))
    return tuple(map(wrap, make_parts(op, nodes)))


def public(
    *names: str, module: str = "", ufunc: bool = False, spelled: Mapping[str, str] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function public under its own name and `names`.

    It is found by the operators, methods and NumPy protocols of `Array`, and a call with
    arguments it does not take says which it does.  `module` ("linalg") is the submodule its
    own name belongs to.  A `ufunc` takes the options of NumPy's ufuncs besides its arguments.
    `spelled` gives other names of arguments, which are taken too, and what they stand for.
    """

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        name = f"{module}.{function.__name__}" if module else function.__name__
        renaming = None if spelled is None else renaming_answer(spelled)
        answer = ufunc_answer if ufunc else renaming
        boundary = explain_bad_calls(function, answer, over_blocks=True)
        if ufunc:
            cast("Any", boundary).__signature__ = _ufunc_signature(function)
        for key in (name, *names):
            PUBLIC_FUNCTIONS[key] = boundary
        return boundary

    return declare


OPTIONS: Final = {
    "where": (True, "ArrayLike"),
    "casting": ("same_kind", "str"),
    "order": ("K", "str | None"),
    "dtype": (None, "Any"),
    "subok": (True, "bool"),
    "signature": (None, "None"),
}
"""What NumPy's ufuncs take by keyword: the default of each, and its type."""

LAYOUTS: Final = ("K", "C", "A", None)
"""Orders of memory that are taken and mean nothing: where elements lie is up to the plan."""


def check_layout(order: object, op: str) -> None:
    """Refuse an order of memory other than the one arrays have."""
    if order not in LAYOUTS:
        raise value_error(
            op,
            f"order is {order!r}; accepted: 'C', 'K', 'A': where elements lie is up to the plan, "
            "so leave it out, or convert values with numpy.asarray(x, order=...)",
        )


def check_like(like: object, op: str) -> None:
    """Refuse to make the arrays of another library."""
    if like is not None:
        raise type_error(
            op, f"like is {type(like).__name__}; accepted: None: results are lazy arrays"
        )


def check_casting(casting: object, op: str) -> None:
    """Refuse rules of conversion other than NumPy's usual one."""
    if casting != "same_kind":
        raise value_error(
            op, f"casting is {casting!r}; accepted: 'same_kind': convert with np.astype instead"
        )


@cache
def _options() -> list[inspect.Parameter]:
    """The options of ufuncs as parameters."""
    out = inspect.Parameter(
        "out", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="Out"
    )
    return [
        out,
        *(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
            for name, (default, kind) in OPTIONS.items()
        ),
    ]


_SIGNATURES: Final[dict[Any, inspect.Signature]] = {}
"""Signatures of ufuncs by code, which most of them share."""


def _ufunc_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function with the options of ufuncs behind its own parameters."""
    if (known := _SIGNATURES.get(function.__code__)) is not None:
        return known
    own = inspect.signature(function)
    given = list(own.parameters.values())
    words = [p for p in given if p.kind is p.KEYWORD_ONLY]
    out, *options = _options()
    behind = [out, *words, *options]
    whole = own.replace(parameters=[*(p for p in given if p not in words), *behind])
    return _SIGNATURES.setdefault(function.__code__, whole)


def ufunc_answer(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a ufunc called with options, which Python could not bind."""
    arity = function.__code__.co_argcount
    own = {k: v for k, v in kwargs.items() if k not in OPTIONS and k != "out"}
    if not arity <= len(args) <= arity + 1 or (len(args) > arity and "out" in kwargs):
        return NotImplemented
    if any(k not in function.__code__.co_varnames[arity:] for k in own):
        return NotImplemented
    name = function.__name__
    given = {k: kwargs.get(k, default) for k, (default, _) in OPTIONS.items()}
    check_layout(given["order"], name)
    if given["signature"] is not None:
        raise type_error(
            name, f"signature is {given['signature']!r}; accepted: None: use dtype= instead"
        )
    operands = args[:arity]
    if given["dtype"] is not None:
        operands = tuple([_as_operand(x, given["dtype"], given["casting"], name) for x in operands])
    result = function(*operands, **own)
    if given["dtype"] is not None:
        _check_dtype(result, given["dtype"], name)
    out = args[arity] if len(args) > arity else kwargs.get("out")
    if not isinstance(result, tuple):
        return _write_result(out, result, given["where"], name)
    results = items_of(result)
    outs = (None,) * len(results) if out is None else items_of(out)
    if len(outs) != len(results):
        raise type_error(name, f"out must be a tuple of {len(results)} arrays or None")
    pairs = zip(outs, results, strict=True)
    return tuple([_write_result(o, r, given["where"], name) for o, r in pairs])


def _as_operand(x: Any, dtype: Any, casting: Any, op: str) -> Array:
    """An operand in the dtype that a ufunc is asked to compute in."""
    wanted = as_dtype(dtype, op)
    given = lift(x, op).dtype
    if not is_weak(x) and not dt.can_cast(given, wanted, casting):
        raise type_error(
            op, f"dtype is {wanted}; an operand of dtype {given} does not cast to it by {casting!r}"
        )
    converted: Array = PUBLIC_FUNCTIONS["asarray"](x, dtype=wanted)
    return converted


def _check_dtype(result: Any, dtype: Any, op: str) -> None:
    first: Array = items_of(result)[0]
    if first.dtype != as_dtype(dtype, op):
        raise type_error(op, f"dtype={dtype} is not taken: the result would be {first.dtype}")


def _write_result(out: Out, result: Array, where: Any, op: str) -> Array:
    """The result of a ufunc; written into `out` if there is one, where it is asked for."""
    if out is None:
        if where is not True:
            raise value_error(
                op,
                "where= leaves the other elements undefined; say what they are with out=, or write "
                "np.where(condition, result, other)",
            )
        return result
    target = items_of(out)[0]
    if isinstance(target, Array):
        if where is not True:
            result = PUBLIC_FUNCTIONS["where"](where, result, target)
        result = PUBLIC_FUNCTIONS["broadcast_to"](result, target.shape)
    return store(out, result, op)


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
    gradient: Gradient | ScalarRules = Gradient.DERIVED,
    pullback: Rule | None = None,
    pushforward: Rule | None = None,
    traits: Trait = Trait.NONE,
    identity: complex | None = None,
    domain: Domain = Domain(),  # noqa: B008  (immutable)
    oracle: str | None = None,
    weak: Weak = Weak.ADAPTS,
    build: Callable[[Elementwise, tuple[Node, ...]], Node] = make,
) -> Declare:
    """Declare an elementwise op.

    The decorated body gives the name, the arity, the documentation and the scalar expression.
    `names` are further public names.  The oracle is NumPy's function of the same name unless
    another is given.  `weak` says what Python numbers become beside arrays; `build` makes the node
    of an op of two operands where that is not always the op itself.  A row whose derivative is no
    factor gives a `pullback` and a `pushforward`, the methods of an op without the op.
    """

    def declare(body: Callable[..., Scalar], /) -> Callable[..., Array]:
        op = scalar_op(
            dtype=dtype,
            gradient=gradient,
            pullback=pullback,
            pushforward=pushforward,
            traits=traits,
            identity=identity,
            domain=domain,
            oracle=f"numpy.{body.__name__}" if oracle is None else oracle,
        )(body)
        arity = body.__code__.co_argcount
        function = _binary(op, weak, build) if arity == 2 else _FUNCTION[arity](op, weak)
        function.__name__ = function.__qualname__ = op.info.name
        function.__doc__ = inspect.cleandoc(op.info.doc)
        function.__module__ = body.__module__
        return public(*names, ufunc=arity < 3)(function)

    return cast("Declare", declare)


def scalar_op(
    *,
    dtype: DTypeRule,
    gradient: Gradient | ScalarRules = Gradient.DERIVED,
    pullback: Rule | None = None,
    pushforward: Rule | None = None,
    traits: Trait = Trait.NONE,
    identity: complex | None = None,
    domain: Domain = Domain(),  # noqa: B008  (immutable)
    oracle: str = "",
) -> Callable[[Callable[..., Scalar]], Elementwise]:
    """Declare an elementwise op that no user calls; see `elementwise`."""

    def declare(body: Callable[..., Scalar]) -> Elementwise:
        arity = body.__code__.co_argcount
        given = {"pullback": pullback, "pushforward": pushforward}
        rules = {name: rule for name, rule in given.items() if rule is not None}
        expr = body(*arguments(arity)).expr
        info = Facts(
            name=body.__name__,
            doc=(body.__doc__ or "").strip(),
            chapter=body.__module__.rpartition(".")[2],
            arity=arity,
            dtype=dtype,
            overwrites=Overwrites.SAME_SIZE,
            gradient=_gradient_of(expr, bool(rules)) if gradient is Gradient.DERIVED else gradient,
            traits=traits,
            identity=identity,
            domain=domain,
            oracle=oracle,
            has_pullback=pullback is not None,
            has_pushforward=pushforward is not None,
        )
        op = Elementwise(info, expr, rules)
        register(info, op)
        return op

    return declare


def _gradient_of(expr: Expr, has_rules: bool) -> Gradient:
    """How a row is differentiated that does not say it."""
    if has_rules:
        return Gradient.RULE
    return Gradient.ZERO if is_locally_constant(expr) else Gradient.DERIVED


def _unary(op: Elementwise, weak: Weak) -> Callable[..., Array]:
    del weak
    name = op.info.name

    def function(x: ArrayLike, /) -> Array:
        return wrap(make(op, (x.node if type(x) is Array else lift(x, name),)))

    return function


def _binary(
    op: Elementwise, weak: Weak, build: Callable[[Elementwise, tuple[Node, ...]], Node]
) -> Callable[..., Array]:
    name = op.info.name

    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        if type(x1) is Array and type(x2) is Array:
            return wrap(build(op, (x1.node, x2.node)))
        return wrap(build(op, lift_all(name, (x1, x2), op.info.dtype, weak)))

    return function


def _ternary(op: Elementwise, weak: Weak) -> Callable[..., Array]:
    name = op.info.name

    def function(x1: ArrayLike, x2: ArrayLike, x3: ArrayLike, /) -> Array:
        return wrap(make(op, lift_all(name, (x1, x2, x3), op.info.dtype, weak)))

    return function


_FUNCTION: Final = {1: _unary, 3: _ternary}
