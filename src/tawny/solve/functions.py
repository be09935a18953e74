"""Functions of users as graphs of vectors, and the derivatives of these.

Whatever structure of arrays a solver is given lies in one vector; a function of it is traced once.
What the function was closed over are its parameters, so that solutions can be differentiated in
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from numbers import Real
from typing import Any, Final, NamedTuple, cast, final

import tawny.numpy as np
from tawny import dtype as dt
from tawny.array import Array, wrap
from tawny.autodiff.forward import push_forward
from tawny.autodiff.reverse import pull_back
from tawny.autodiff.tracing import substitute
from tawny.dtype import DType, kind_of
from tawny.errors import type_error, value_error
from tawny.loops.building import Inside, extract, nodes_inside, stand_in, step_variable
from tawny.loops.structures import (
    fill,
    in_order_of,
    is_number,
    key_of,
    lift_leaves,
    paths_and_leaves,
    structure_text,
)
from tawny.node import Node, next_serial
from tawny.op import Type
from tawny.ops.creation import convert_node
from tawny.ops.differentiation import keeps_zeros
from tawny.ops.movement import broadcast_node, zeros_node
from tawny.ops.random import Draw, draws_made_by
from tawny.ops.subgraph import Subgraph
from tawny.source import describe

ACCEPTED: Final = (dt.FLOAT32, dt.FLOAT64, dt.COMPLEX64, dt.COMPLEX128)
"""The dtypes that equations are solved in."""


@final
class Packing:
    """The layout of a nested structure of arrays in one vector, of their common dtype."""

    def __init__(self, op: str, what: str, structure: Any) -> None:
        self.op, self.what, self.structure = op, what, structure
        given = [x for _, x in paths_and_leaves(structure)]
        nodes = lift_leaves(op, what, structure)
        if not sum([prod(n.shape) for n in nodes]):
            raise value_error(op, f"{what} has no elements; there is nothing to solve")
        strong = [n.dtype for n, x in zip(nodes, given, strict=True) if not is_number(x)]
        common = reduce(dt.promote, strong) if strong else dt.FLOAT64
        for node, x in zip(nodes, given, strict=True):
            if is_number(x):
                common = dt.weak_dtype(cast("type[dt.Number]", type(x)), common)
            elif kind_of(node.dtype) not in "biufc" or dt.is_half(node.dtype):
                raise _dtype_error(op, what, node.dtype)
        self.dtype: Final = dt.inexact_dtype(common)
        self.types: Final = [(n.shape, _leaf_dtype(n.dtype, self.dtype)) for n in nodes]
        self.vector: Final = self._join(nodes)
        """The structure that was given."""

    @property
    def real_dtype(self) -> DType:
        """The dtype of magnitudes."""
        return dt.real_dtype(self.dtype)

    def unpack(self, vector: Array) -> Any:
        """The structure that lies in a vector, or in the rows of a matrix, with one more axis."""
        rows, start = vector.shape[:-1], 0
        nodes: list[Node] = []
        for shape, dtype in self.types:
            part = vector[..., start : start + prod(shape)]
            start += prod(shape)
            part = np.real(part) if self.dtype.kind == "c" != dtype.kind else part
            nodes.append(np.astype(np.reshape(part, (*rows, *shape)), dtype).node)
        return fill(self.structure, nodes)

    def pack(self, made: Any, what: str) -> Array:
        """What a function gives for the structure, as a vector."""
        made = in_order_of(made, self.structure)
        if key_of(made) != key_of(self.structure):
            raise type_error(
                self.op,
                f"{what} {structure_text(made)}, and {self.what} is "
                f"{structure_text(self.structure)}; give the same structure",
            )
        nodes = lift_leaves(self.op, what, made)
        for (path, x), node, wanted in zip(paths_and_leaves(made), nodes, self.types, strict=True):
            self._check_leaf(what, path, node, wanted, is_number(x))
        return self._join(nodes)

    def _join(self, nodes: Sequence[Node]) -> Array:
        flat = [np.reshape(wrap(convert_node(n, self.dtype)), (-1,)) for n in nodes]
        return flat[0] if len(flat) == 1 else np.concat(flat)

    def _check_leaf(self, what: str, path: str, node: Node, wanted: Type, number: bool) -> None:
        shape, dtype = wanted
        fits = number or dt.promote(node.dtype, dtype) == dtype
        if node.shape == shape and fits:
            return
        place, where = describe(node.sources), f", {path}," if path else ""
        at = f" (made at {place})" if place else ""
        raise value_error(
            self.op,
            f"{what}{where} {node.dtype}{list(node.shape)}{at} where {self.what} has "
            f"{dtype}{list(shape)}; give the same shape and dtype: np.broadcast_to, np.astype",
        )


def _leaf_dtype(dtype: DType, common: DType) -> DType:
    """The dtype that a leaf has in a solution: its own, but for numbers that cannot be one."""
    return dtype if dtype in ACCEPTED else dt.real_dtype(common) if dtype.kind != "c" else common


def _dtype_error(op: str, what: str, dtype: DType) -> Exception:
    accepted = ", ".join(map(str, ACCEPTED))
    return type_error(op, f"{what} is {dtype}; accepted: {accepted}; convert it with np.astype")


# ------------------------------------------------------------------- functions


class VectorFunction(NamedTuple):
    """A graph of some vectors and numbers, its arguments, and of parameters behind these."""

    body: Subgraph

    def __call__(self, *operands: Array) -> Array:
        """The value for arguments and parameters."""
        made = self.body.apply([x.node for x in operands])
        return wrap(made[self.body.results[0]])

    def tangent(self, operands: Sequence[Array], tangents: Sequence[Array | None]) -> Array | None:
        """The change of the value with that of some operands."""
        own = self.body.arguments
        moves = {i: t.node for i, t in enumerate(tangents) if t is not None}
        holders = {own[i]: stand_in(own[i]) for i in moves if kind_of(own[i].dtype) in "fc"}
        (found,) = push_forward(holders, self.body.results)
        if found is None:
            return None
        places = self._places(operands)
        places |= {holders[own[i]]: t for i, t in moves.items() if own[i] in holders}
        return _write_out(found, places, self.body.result_types[0])

    def cotangents(
        self, operands: Sequence[Array], cotangent: Array, wrt: Sequence[int]
    ) -> list[Array | None]:
        """The cotangents of some operands, given that of the value."""
        own, (result,) = self.body.arguments, self.body.results
        holder = stand_in(result)
        smooth = [own[i] for i in wrt if kind_of(own[i].dtype) in "fc"]
        found = pull_back({result: holder}, smooth, masked=keeps_zeros())
        places = self._places(operands) | {holder: cotangent.node}
        return [
            _write_out(found[own[i]], places, self.body.types[i]) if own[i] in found else None
            for i in wrt
        ]

    def _places(self, operands: Sequence[Array]) -> dict[Node, Node]:
        return {x: y.node for x, y in zip(self.body.arguments, operands, strict=True)}


def _write_out(node: Node, places: Mapping[Node, Node], kind: Type) -> Array:
    """A derivative in terms of operands, whole."""
    shape, dtype = kind
    (made,) = substitute([node], places)
    return wrap(convert_node(broadcast_node(made, shape), dtype))


class Closure(NamedTuple):
    """A function, and what it was closed over."""

    function: VectorFunction
    parameters: tuple[Array, ...]


def trace_function(op: str, kinds: Sequence[Type], function: Callable[..., Array]) -> Closure:
    """A function of arrays that is called once, on arrays that stand for its arguments."""
    since = next_serial()
    arguments = [step_variable("an argument", kind) for kind in kinds]

    def refuse(draw: Draw, operands: tuple[Node, ...]) -> Node:
        del draw, operands
        raise value_error(
            op,
            "the function draws random numbers, and is asked again and again for one value: draw "
            "them before, and let it use them",
        )

    with draws_made_by(refuse):
        result = function(*map(wrap, arguments)).node
    cut = extract([result], nodes_inside([result], arguments, Inside(since)), arguments)
    body = Subgraph((*arguments, *cut.holders), cut.results)
    return Closure(VectorFunction(body), tuple(map(wrap, cut.operands)))


def function_of(kinds: Sequence[Type], function: Callable[..., Array]) -> VectorFunction:
    """A function that is made of its arguments alone."""
    arguments = [step_variable("an argument", kind) for kind in kinds]
    result = function(*map(wrap, arguments)).node
    return VectorFunction(Subgraph(tuple(arguments), (result,)))


def kinds_of(arrays: Sequence[Array]) -> list[Type]:
    """Shapes and dtypes."""
    return [(x.shape, x.dtype) for x in arrays]


def zeros_of(kind: Type) -> Array:
    """An array of zeros."""
    return wrap(zeros_node(*kind))


def or_nan(good: Array, x: Array) -> Array:
    """An array, and NaN where it is not good."""
    made: Array = np.where(good, x, np.nan)
    return made


def magnitude(x: Array) -> Array:
    """The largest magnitude of the elements; 0 of none."""
    return np.max(np.abs(x), initial=0.0)


def check_callable(op: str, f: object) -> None:
    """Refuse what is no function."""
    if not callable(f):
        raise type_error(op, f"the function is {type(f).__name__}; accepted: a function of arrays")


def as_tolerance(op: str, word: str, given: Any, default: float) -> float:
    """A tolerance as a number that is not negative."""
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, Real):
        raise type_error(op, f"{word} is {type(given).__name__}; accepted: a number")
    tolerance = float(given)
    if not tolerance >= 0:
        raise value_error(op, f"{word} is {given}; it must be at least 0")
    return tolerance
