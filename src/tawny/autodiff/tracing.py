"""Functions as graphs of their own arguments.

A function is called on arguments that stand for the arrays it was given, so that what it uses
besides, be it an equal array, is a constant to the derivative.  The derivative is then written in
the given arrays again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, lift, wrap
from tawny.dtype import DType, kind_of
from tawny.errors import type_error
from tawny.node import Node, make, remake, scalar, toposort
from tawny.ops.differentiation import Argument
from tawny.tree import leaf_paths, leaves, map_leaves


@dataclass(frozen=True)
class TracedFunction:
    """A function's results in terms of its arguments."""

    op: str
    """The name of the function the user called, for messages."""
    given: tuple[Node, ...]
    """The arrays that were passed."""
    arguments: tuple[Node, ...]
    """What stands for them in the results."""
    result: Any
    """The function's result: a structure of arrays."""
    aux: Any
    """The other thing that a function with `has_aux` gives, which is not differentiated."""
    structure: Any
    """The structure the arguments came in, with an index for each leaf."""

    @property
    def results(self) -> list[Node]:
        """The result's arrays."""
        return [x.node for x in leaves(self.result)]

    def in_given(self, structure: Any) -> Any:
        """Arrays in a structure, written in the arrays that were passed."""
        nodes = [x.node for x in leaves(structure) if isinstance(x, Array)]
        new = substitute(nodes, dict(zip(self.arguments, self.given, strict=True)))
        replaced = iter(new)
        return map_leaves(lambda x: wrap(next(replaced)) if isinstance(x, Array) else x, structure)

    def like_arguments(self, values: Sequence[Any]) -> Any:
        """Values in the structure of the arguments."""
        return map_leaves(lambda i: values[i], self.structure)


def trace(
    op: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    argnums: Sequence[int],
    has_aux: bool = False,
) -> TracedFunction:
    """`function` called on arguments that stand for those at `argnums`."""
    check_callable(op, function)
    array_dtypes = [_dtype(x) for a in args for x in leaves(a) if _is_array(x)]
    given: list[Node] = []
    standing: list[Node] = []
    structure: list[Any] = []
    placed = list(args)
    for number in argnums:
        named = dict(enumerate(leaf_paths(args[number])))
        counter = iter(range(len(named)))

        def place(x: Any, number: int = number, named: Any = named, counter: Any = counter) -> Any:
            path, _ = named[next(counter)]
            given.append(_lift_argument(op, x, number, path, array_dtypes))
            standing.append(make(Argument(), (given[-1],)))
            return wrap(standing[-1])

        first = len(given)
        placed[number] = map_leaves(place, args[number])
        structure.append(_number_leaves(args[number], first))
    result: Any = function(*placed, **kwargs)
    aux: Any = None
    if has_aux:
        pair = cast("tuple[Any, ...]", result)
        if not isinstance(result, tuple) or len(pair) != 2:
            raise type_error(op, "with has_aux the function gives a pair: result and aux")
        result, aux = pair
    result = map_leaves(lambda x: _result(op, x), result)
    whole = structure[0] if len(argnums) == 1 else tuple(structure)
    return TracedFunction(op, tuple(given), tuple(standing), result, aux, whole)


def check_callable(op: str, function: object) -> None:
    """Refuse what is no function."""
    if not callable(function):
        said = "; tw.gradients(y, [x]) takes arrays" if isinstance(function, Array) else ""
        raise type_error(
            op, f"the first argument is {type(function).__name__}; it is a function{said}"
        )


def _number_leaves(structure: Any, first: int) -> Any:
    """The structure with a number for each leaf, from `first` on."""
    numbers = itertools.count(first)
    return map_leaves(lambda _: next(numbers), structure)


def substitute(nodes: Sequence[Node], mapping: Mapping[Node, Node]) -> list[Node]:
    """`nodes` with others in place of some they depend on."""
    new: dict[Node, Node] = dict(mapping)
    for node in toposort(nodes, lambda n: n in mapping):
        if node in new:
            continue
        inputs = tuple([new[x] for x in node.inputs])
        new[node] = node if inputs == node.inputs else remake(node, inputs)
    return [new[n] for n in nodes]


def _is_array(x: Any) -> bool:
    return isinstance(x, (Array, np.ndarray, np.generic))


def _dtype(x: Any) -> DType:
    return dt.own_dtype(x.dtype, "grad")


def _lift_argument(op: str, x: Any, number: int, path: str, array_dtypes: Sequence[DType]) -> Node:
    """A leaf of an argument as a node that can change by a little.

    A number of Python's takes the dtype that it has beside the arrays among all arguments.
    """
    where = f"argument {number}" + (f", {path}," if path else "")
    if dt.is_weak(x):
        if type(x) not in (float, complex):
            raise type_error(
                op, f"{where} is {x!r}; only floating-point numbers can change smoothly"
            )
        literal = cast("float | complex", x)
        common = dt.promote(*array_dtypes) if array_dtypes else dt.default_dtype(literal)
        return scalar(literal, dt.weak_dtype(type(literal), common), op)
    if not _is_array(x) and not isinstance(x, (list, tuple)):
        raise type_error(op, f"{where} is {type(x).__name__}; accepted: arrays and numbers")
    node = lift(x, op, number)
    if kind_of(node.dtype) not in "fc":
        raise type_error(
            op,
            f"{where} has dtype {node.dtype}; only floating-point numbers can change smoothly: "
            "convert it with np.astype, or name others in argnums",
        )
    return node


def _result(op: str, x: Any) -> Array:
    if isinstance(x, Array):
        return x
    if dt.is_weak(x) or _is_array(x):
        return wrap(lift(x, op))
    raise type_error(op, f"the function gives {type(x).__name__} {x!r}; accepted: arrays")
