"""Derivatives of functions, and of graphs already built."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from tawny.array import Array, lift, wrap
from tawny.autodiff.forward import push_forward
from tawny.autodiff.reverse import pull_back, sum_seeds
from tawny.autodiff.tracing import TracedFunction, check_callable, trace
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import kind_of
from tawny.errors import type_error, value_error
from tawny.node import Node, scalar
from tawny.ops.creation import convert_node
from tawny.ops.movement import broadcast_node, zeros_node
from tawny.tree import leaf_paths, map_leaves

Function = Callable[..., Any]
Argnums = int | Sequence[int]


@explain_bad_calls
def grad(
    function: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Function:
    """The function that gives the gradient of `function`, whose result is one number.

    - `function`: computes one real number from arrays, with operators and `tawny.numpy`.
    - `argnums`: the positions of the arguments it is the gradient in; one number gives one
      gradient, a tuple gives a tuple.  Each argument may be an array or a nested structure of
      arrays, and its gradient has the same structure.
    - `has_aux`: the function gives a pair, whose second part is passed on beside the gradient.
    - `holomorphic`: permit a complex result, of a function that has a complex derivative.

    Gives a function of the same arguments.  Called, it raises TypeError where the result is not
    one floating-point number.

        def loss(weights, x):
            return np.sum((x @ weights) ** 2)

        gradient = tw.grad(loss)(numpy.ones(2), numpy.eye(2))
        gradient.numpy().tolist()                     # -> [2.0, 2.0]
        float(tw.grad(tw.grad(lambda a: a**3))(2.0))  # -> 12.0
    """
    both = value_and_grad(function, argnums, has_aux=has_aux, holomorphic=holomorphic, op="grad")

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


@explain_bad_calls
def value_and_grad(
    function: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    op: str = "value_and_grad",
) -> Function:
    """The function that gives the value of `function` and its gradient, computed together.

    - `function`, `argnums`, `has_aux`, `holomorphic`: as for `grad`.
    - `op`: the name that errors go by.

    Gives a function of the same arguments, whose result is a pair; with `has_aux` the value is
    a pair itself.

        value, gradient = tw.value_and_grad(lambda a: a**3)(2.0)
        float(value), float(gradient)                 # -> (8.0, 12.0)
    """
    check_callable(op, function)

    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        numbers = argument_numbers(op, argnums, args)
        traced = trace(op, function, args, kwargs, numbers, has_aux)
        result = _scalar_result(op, traced, holomorphic)
        found = pull_back({result: _unit_seed(result)}, traced.arguments)
        grads = traced.like_arguments([_as_array(found.get(a), a) for a in traced.arguments])
        value, grads, aux = traced.in_given((traced.result, grads, traced.aux))
        if isinstance(argnums, Sequence) and len(argnums) == 1:
            grads = (grads,)
        return ((value, aux) if has_aux else value), grads

    return both


@explain_bad_calls
def gradients(output: Array, wrt: Sequence[Array]) -> list[Array]:
    """The gradient of `output` in arrays it was built from.

    - `output`: an array of one floating-point number.
    - `wrt`: a list of variables, or of arrays that depend on some.

    Gives a list of arrays, one for each of `wrt` and of its shape; zeros where `output` does
    not depend on it.  They can be outputs of a graph beside `output`.

        x = tw.var("x", (2,))
        y = np.sum(x**3)
        (gradient,) = tw.gradients(y, [x])
        program = tw.Graph([x], [y, gradient]).compile()
        program([1.0, 2.0])[1].tolist()               # -> [3.0, 12.0]
    """
    if not isinstance(output, Array):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("gradients", f"output is {type(output).__name__}; accepted: an array")
    nodes: list[Node] = []
    for position, x in enumerate(_check_list(wrt)):
        if not isinstance(x, Array):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error("gradients", f"wrt {position} is {type(x).__name__}; accepted: arrays")
        if kind_of(x.dtype) not in "fc":
            raise type_error(
                "gradients", f"wrt {position} has dtype {x.dtype}; it cannot change smoothly"
            )
        if x.node.known:
            raise value_error(
                "gradients",
                f"wrt {position} depends on no variable, and what is computed from it may have "
                "become a constant when its value was asked for; use tw.grad, or a tw.var",
            )
        nodes.append(x.node)
    _check_scalar("gradients", output, holomorphic=False)
    found = pull_back({output.node: _unit_seed(output.node)}, nodes)
    return [_as_array(found.get(n), n) for n in nodes]


@explain_bad_calls
def vjp(function: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of `function`, and the function from cotangents of the value to those of `primals`.

    - `function`: computes arrays, or a structure of arrays, from arrays.
    - `primals`: its arguments, at which it is differentiated.
    - `has_aux`: the function gives a pair, whose second part is passed on as a third result.

    Gives `value, pullback`.  `pullback(cotangents)` takes what has the structure and shapes of the
    value and gives a tuple with a cotangent for each argument.

        value, pullback = tw.vjp(lambda a, b: a * b, 3.0, 4.0)
        [float(gradient) for gradient in pullback(1.0)]   # -> [4.0, 3.0]
    """
    traced = trace("vjp", function, primals, {}, range(len(primals)), has_aux)

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        seeds = _pair_leaves("vjp", cotangents, traced.result, "cotangent")
        found = pull_back(sum_seeds(seeds), traced.arguments)
        made = traced.like_arguments([_as_array(found.get(a), a) for a in traced.arguments])
        made = traced.in_given(made)
        return (made,) if len(primals) == 1 else made

    value, aux = traced.in_given((traced.result, traced.aux))
    return (value, pullback, aux) if has_aux else (value, pullback)


@explain_bad_calls
def jvp(
    function: Function, primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> Any:
    """The value of `function` at `primals` and its change in the direction `tangents`.

    - `function`: computes arrays, or a structure of arrays, from arrays.
    - `primals`: a tuple with the arguments, at which it is differentiated.
    - `tangents`: a tuple with the direction of each, of the same structure and shapes.
    - `has_aux`: the function gives a pair, whose second part is passed on as a third result.

    Gives `value, tangent`, computed in forward mode.

        value, change = tw.jvp(lambda a: a * a, (3.0,), (1.0,))
        float(value), float(change)                   # -> (9.0, 6.0)
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise type_error(
                "jvp", f"{name} is {type(given).__name__}; accepted: a tuple, one for each argument"
            )
    value, push, *aux = linearize(function, *primals, has_aux=has_aux, op="jvp")
    return (value, push(*tangents), *aux)


@explain_bad_calls
def linearize(
    function: Function, *primals: Any, has_aux: bool = False, op: str = "linearize"
) -> Any:
    """The value of `function` and the linear function nearest to it at `primals`.

    - `function`: computes arrays, or a structure of arrays, from arrays.
    - `primals`: its arguments, at which it is differentiated.
    - `has_aux`: the function gives a pair, whose second part is passed on as a third result.
    - `op`: the name that errors go by.

    Gives `value, push`: `push(*tangents)` is what `jvp` gives for that direction, without
    tracing the function again.

        value, push = tw.linearize(lambda a: a * a, 3.0)
        float(push(1.0)), float(push(2.0))            # -> (6.0, 12.0)
    """
    traced = trace(op, function, primals, {}, range(len(primals)), has_aux)

    def push(*tangents: Any) -> Any:
        given = tangents[0] if len(primals) == 1 else tangents
        if len(tangents) != len(primals):
            raise value_error(op, f"{len(tangents)} tangents came for {len(primals)} primals")
        standing = traced.like_arguments([wrap(a) for a in traced.arguments])
        pairs = _pair_leaves(op, given, standing, "tangent")
        seeds = {x: convert_node(tangent, x.dtype) for x, tangent in pairs}
        found = push_forward(seeds, traced.results)
        made = iter([_as_array(t, n) for t, n in zip(found, traced.results, strict=True)])
        return traced.in_given(map_leaves(lambda _: next(made), traced.result))

    value, aux = traced.in_given((traced.result, traced.aux))
    return (value, push, aux) if has_aux else (value, push)


# --------------------------------------------------------------------- helpers


def _check_list(wrt: Any) -> Sequence[Any]:
    if not isinstance(wrt, (list, tuple)):
        raise type_error("gradients", f"wrt is {type(wrt).__name__}; accepted: a list of arrays")
    return cast("Sequence[Any]", wrt)


def argument_numbers(op: str, argnums: Argnums, args: Sequence[Any]) -> tuple[int, ...]:
    """Which positional arguments `argnums` names."""
    given = tuple(argnums) if isinstance(argnums, Sequence) else (argnums,)
    numbers: list[int] = []
    for number in given:
        if not isinstance(number, int) or not -len(args) <= number < len(args):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise value_error(
                op, f"argnums names argument {number!r}; {len(args)} positional arguments came"
            )
        numbers.append(number % len(args))
    if len(set(numbers)) != len(numbers):
        raise value_error(op, f"argnums {given} names an argument twice")
    return tuple(numbers)


def _scalar_result(op: str, traced: TracedFunction, holomorphic: bool) -> Node:
    if not isinstance(traced.result, Array):
        raise type_error(
            op,
            f"the function gives {type(traced.result).__name__}; its result must be one number: "
            "with further results give a pair and say has_aux=True",
        )
    _check_scalar(op, traced.result, holomorphic)
    return traced.result.node


def _check_scalar(op: str, result: Array, holomorphic: bool) -> None:
    if result.shape:
        raise type_error(
            op,
            f"the result has shape {result.shape}; it must be one number: use jacobian, or sum it",
        )
    if kind_of(result.dtype) not in ("c" if holomorphic else "f"):
        accepted = "complex numbers" if holomorphic else "floating-point numbers"
        raise type_error(
            op,
            f"the result has dtype {result.dtype}; accepted: {accepted}"
            + (" (say holomorphic=True for complex ones)" if result.dtype.kind == "c" else ""),
        )


def _unit_seed(node: Node) -> Node:
    return scalar(1, node.dtype, "grad")


def _as_array(derivative: Node | None, x: Node) -> Array:
    """A cotangent or tangent of `x` as an array; None is zeros."""
    if derivative is None:
        return wrap(zeros_node(x.shape, x.dtype))
    return wrap(broadcast_node(derivative, x.shape))


def _pair_leaves(op: str, given: Any, expected: Any, what: str) -> list[tuple[Node, Node]]:
    """The leaves of `expected` beside those given for them, which must be of the same shapes."""
    theirs, ours = list(leaf_paths(given)), list(leaf_paths(expected))
    if [p for p, _ in theirs] != [p for p, _ in ours]:
        raise value_error(op, f"the {what}s must have the structure they are {what}s of")
    pairs: list[tuple[Node, Node]] = []
    for (path, x), (_, y) in zip(theirs, ours, strict=True):
        array = cast("Array", y)
        node = lift(x, op)
        if node.shape != array.shape:
            where = f" {path}" if path else ""
            raise value_error(
                op, f"{what}{where} has shape {node.shape}; it must have shape {array.shape}"
            )
        pairs.append((array.node, node))
    return pairs
