"""Whole matrices of derivatives, and products with them that never form them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tawny.array import Array, wrap
from tawny.autodiff.batching import batch
from tawny.autodiff.forward import push_forward
from tawny.autodiff.functions import Argnums, Function, argument_numbers, grad, jvp, linearize, vjp
from tawny.autodiff.reverse import pull_back
from tawny.autodiff.tracing import TracedFunction, check_callable, trace
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import kind_of
from tawny.errors import type_error
from tawny.node import Node, variable
from tawny.ops.creation import eye, ones_like
from tawny.ops.diagonal import trace as diagonal_sum
from tawny.ops.movement import reshape_node, transpose_node, zeros_node
from tawny.shape import Shape, size
from tawny.tree import map_leaves


@explain_bad_calls
def jacrev(function: Function, argnums: Argnums = 0, *, holomorphic: bool = False) -> Function:
    """The function that gives the Jacobian of `function`, in reverse mode.

    - `function`: computes an array, or a structure of arrays, from arrays.
    - `argnums`: the positions of the arguments it is the Jacobian in; one, or a tuple of them.
    - `holomorphic`: permit complex numbers, of a function that has a complex derivative.

    Gives a function of the same arguments.  The shape of its result is the result's followed by
    the argument's; for structures it is a structure of such arrays.  A cotangent is pulled back
    for each element of the result: best where it has fewer elements than the argument.

        matrix = tw.jacrev(lambda a: np.stack([a[0] * a[1], a[0]]))(numpy.array([2.0, 3.0]))
        matrix.numpy().tolist()                       # -> [[3.0, 2.0], [1.0, 0.0]]
    """
    return _jacobian("jacrev", function, argnums, _by_rows, holomorphic)


@explain_bad_calls
def jacfwd(function: Function, argnums: Argnums = 0, *, holomorphic: bool = False) -> Function:
    """The function that gives the Jacobian of `function`, in forward mode.

    - `function`, `argnums`, `holomorphic`: as for `jacrev`.

    It gives what `jacrev` gives.  A tangent is computed for each element of the argument: best
    where it has fewer elements than the result.

        matrix = tw.jacfwd(lambda a: a * a)(numpy.array([1.0, 2.0]))
        matrix.numpy().tolist()                       # -> [[2.0, 0.0], [0.0, 4.0]]
    """
    return _jacobian("jacfwd", function, argnums, _by_columns, holomorphic)


@explain_bad_calls
def jacobian(function: Function, argnums: Argnums = 0, *, holomorphic: bool = False) -> Function:
    """The function that gives the Jacobian of `function`, in the mode that needs fewer passes.

    - `function`, `argnums`, `holomorphic`: as for `jacrev`.

    It gives what `jacrev` and `jacfwd` give.

        matrix = tw.jacobian(lambda a: np.cumsum(a))(numpy.ones(2))
        matrix.numpy().tolist()                       # -> [[1.0, 0.0], [1.0, 1.0]]
    """

    def by_shape(traced: TracedFunction) -> list[list[Node]]:
        columns = sum(size(a.shape) for a in traced.arguments)
        rows = sum(size(r.shape) for r in traced.results)
        by_columns = columns <= rows or any(r.dtype.kind == "c" for r in traced.results)
        return _by_columns(traced) if by_columns else _by_rows(traced)

    return _jacobian("jacobian", function, argnums, by_shape, holomorphic)


@explain_bad_calls
def hessian(function: Function, argnums: Argnums = 0) -> Function:
    """The function that gives the matrix of second derivatives of `function`, one number.

    - `function`: computes one real number from arrays.
    - `argnums`: the positions of the arguments to differentiate in; one, or a tuple of them.

    Gives a function of the same arguments; the shape of its result is the argument's twice.

        matrix = tw.hessian(lambda a: np.sum(a**3))(numpy.array([1.0, 2.0]))
        matrix.numpy().tolist()                       # -> [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(grad(function, argnums), argnums)


@explain_bad_calls
def gradhessian(function: Function) -> Function:
    """The function that gives gradient and Hessian together.

    - `function`: computes one real number from an array, its first argument.

    Gives a function of the same arguments, whose result is a pair.

        gradient, matrix = tw.gradhessian(lambda a: np.sum(a**3))(numpy.array([1.0, 2.0]))
        gradient.numpy().tolist()                     # -> [3.0, 12.0]
    """

    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return grad(function)(*args, **kwargs), hessian(function)(*args, **kwargs)

    return both


@explain_bad_calls
def diff(function: Function) -> Function:
    """The derivative of a function from numbers to numbers, which may be applied to arrays.

    - `function`: computes each element of its result from that element of its first argument.

    Gives a function of the same arguments: the derivative at each element.

        tw.diff(lambda a: a**3)(numpy.array([1.0, 2.0])).numpy().tolist()   # -> [3.0, 12.0]
    """
    check_callable("diff", function)

    @functools.wraps(function)
    def derivative(x: Any, *args: Any, **kwargs: Any) -> Array:

        def of_x(moved: Any) -> Any:
            return function(moved, *args, **kwargs)

        _, push = linearize(of_x, x, op="diff")
        tangent = push(_ones(x))
        if not isinstance(tangent, Array):
            raise type_error("diff", "the function must give one array")
        return tangent

    return derivative


@explain_bad_calls
def laplacian(function: Function) -> Function:
    """The function that gives the sum of the second derivatives of `function`, one number.

    - `function`: computes one real number from an array, its first argument.

    Gives a function of the same arguments: the trace of the Hessian.

        float(tw.laplacian(lambda a: np.sum(a**3))(numpy.array([1.0, 2.0])))   # -> 18.0
    """

    @functools.wraps(function)
    def trace_of_hessian(x: Any, *args: Any, **kwargs: Any) -> Array:
        matrix = hessian(function)(x, *args, **kwargs)
        if not isinstance(matrix, Array):
            raise type_error("laplacian", "the function must take one array")
        count = size(matrix.shape[: matrix.ndim // 2])
        return diagonal_sum(wrap(reshape_node(matrix.node, (count, count))))

    return trace_of_hessian


@explain_bad_calls
def hvp(function: Function, x: Any, v: Any) -> Any:
    """The Hessian of `function` at `x`, times `v`, without the matrix: forward over reverse.

    - `function`: computes one real number from one argument.
    - `x`: where, an array or a structure of arrays.
    - `v`: what the Hessian is multiplied by, of the same structure and shapes.

    Gives an array, or a structure of them, as `x` is.

        product = tw.hvp(lambda a: np.sum(a**3), numpy.array([1.0, 2.0]), numpy.ones(2))
        product.numpy().tolist()                      # -> [6.0, 12.0]
    """
    return jvp(grad(function), (x,), (v,))[1]


@explain_bad_calls
def jacobianv(function: Function, x: Any, v: Any) -> Any:
    """The Jacobian of `function` at `x`, times `v`, without the matrix.

    - `function`: computes an array, or a structure of arrays, from one argument.
    - `x`: where, an array or a structure of arrays.
    - `v`: a direction, of the structure and shapes of `x`.

    Gives what has the structure of the function's result.

        change = tw.jacobianv(lambda a: a * a, numpy.array([1.0, 2.0]), numpy.ones(2))
        change.numpy().tolist()                       # -> [2.0, 4.0]
    """
    return jvp(function, (x,), (v,))[1]


@explain_bad_calls
def jacobianTv(function: Function, x: Any, v: Any) -> Any:  # noqa: N802  (transpose)
    """The transposed Jacobian of `function` at `x`, times `v`, without the matrix.

    - `function`: computes an array, or a structure of arrays, from one argument.
    - `x`: where, an array or a structure of arrays.
    - `v`: a cotangent, of the structure and shapes of the function's result.

    Gives what has the structure of `x`.

        product = tw.jacobianTv(lambda a: np.sum(a * a), numpy.array([1.0, 2.0]), 1.0)
        product.numpy().tolist()                      # -> [2.0, 4.0]
    """
    return vjp(function, x)[1](v)[0]


# --------------------------------------------------------------------- helpers

JacobianMode = Callable[[TracedFunction], list[list[Node]]]
"""From a traced function to the derivatives of each result in each argument."""


def _jacobian(
    op: str, function: Function, argnums: Argnums, mode: JacobianMode, holomorphic: bool
) -> Function:
    check_callable(op, function)

    @functools.wraps(function)
    def matrix(*args: Any, **kwargs: Any) -> Any:
        numbers = argument_numbers(op, argnums, args)
        traced = trace(op, function, args, kwargs, numbers)
        _check_dtypes(op, traced, holomorphic)
        rows = iter(mode(traced))
        made = map_leaves(
            lambda _: traced.like_arguments([wrap(n) for n in next(rows)]), traced.result
        )
        made = traced.in_given(made)
        one = isinstance(argnums, Sequence) and len(argnums) == 1
        return map_leaves(lambda x: (x,), made) if one else made

    return matrix


def _check_dtypes(op: str, traced: TracedFunction, holomorphic: bool) -> None:
    """Only a holomorphic function of complex numbers has one derivative in them."""
    for result in traced.results:
        if kind_of(result.dtype) not in "fc":
            raise type_error(
                op, f"the result has dtype {result.dtype}; accepted: floating-point numbers"
            )
    nodes = [*traced.arguments, *(traced.results if op == "jacrev" else ())]
    if not holomorphic and any(n.dtype.kind == "c" for n in nodes):
        raise type_error(
            op,
            "the function works on complex numbers; say holomorphic=True if it has a complex "
            "derivative, or differentiate its real and imaginary parts",
        )


def _by_rows(traced: TracedFunction) -> list[list[Node]]:
    """Reverse mode: a pass for each element of each result."""
    table: list[list[Node]] = []
    for result in traced.results:
        holder = variable(None, result.shape, result.dtype)
        found = pull_back({result: holder}, traced.arguments)
        made = iter(batch(list(found.values()), {holder: _basis(result)}))
        cotangents = dict(zip(found, made, strict=True))
        table.append(
            [
                reshape_node(cotangents[a], (*result.shape, *a.shape))
                if a in cotangents
                else zeros_node((*result.shape, *a.shape), a.dtype)
                for a in traced.arguments
            ]
        )
    return table


def _by_columns(traced: TracedFunction) -> list[list[Node]]:
    """Forward mode: a pass for each element of each argument."""
    columns: list[list[Node]] = []
    for argument in traced.arguments:
        holder = variable(None, argument.shape, argument.dtype)
        tangents = push_forward({argument: holder}, traced.results)
        made = iter(batch([t for t in tangents if t is not None], {holder: _basis(argument)}))
        columns.append(
            [
                zeros_node((*r.shape, *argument.shape), r.dtype)
                if t is None
                else _move_first_axis_last(next(made), (*r.shape, *argument.shape))
                for t, r in zip(tangents, traced.results, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def _move_first_axis_last(stacked: Node, shape: Shape) -> Node:
    """Derivatives along the first axis, as axes behind the others."""
    rank = len(stacked.shape)
    return reshape_node(transpose_node(stacked, (*range(1, rank), 0)), shape)


def _basis(x: Node) -> Node:
    """The directions of the elements of `x`, along a first axis."""
    count = size(x.shape)
    return reshape_node(eye(count, dtype=x.dtype).node, (count, *x.shape))


def _ones(x: Any) -> Any:
    if isinstance(x, (int, float, complex)):
        return type(x)(1)
    return ones_like(x)
