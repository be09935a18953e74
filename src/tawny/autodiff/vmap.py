"""Functions of one example, applied to a batch of them at once."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tawny.array import Array, lift, wrap
from tawny.autodiff.batching import batch_where_needed, stand_in
from tawny.autodiff.functions import Function
from tawny.autodiff.tracing import check_callable
from tawny.bad_calls import explain_bad_calls
from tawny.errors import ValuesNeededError, type_error, value_error
from tawny.node import Node, source_scope
from tawny.op import BatchOperand
from tawny.ops.movement import repeat_in_batch, transpose_node
from tawny.ops.random import Draw, draws_made_by, make_draw
from tawny.tree import leaf_paths, leaves, map_leaves, spread, unflatten

_OP = "vmap"


@explain_bad_calls
def vmap(function: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """`function`, written for one example, as a function of a batch of them.

    - `function`: computes arrays, or a structure of arrays, from arrays.
    - `in_axes`: the axis of the arguments along which the batch lies; None where an argument is
      the same for all.  A tuple says it for each positional argument, and where an argument is a
      nested structure, a structure like it for each part.
    - `out_axes`: the axis of the results along which the batch is to lie; None where a result is
      the same for all.  A structure says it for each part of the result.

    Gives a function of the same arguments; those given by name have the batch along axis 0.  It is
    traced once, and its graph computes the whole batch together.  Random arrays that are made
    inside are drawn for each example, those made outside are the same for all.  A Python function
    in `tw.delay` is called for each example.

        def distance(a, b):                           # of two points
            return np.sqrt(np.sum((a - b) ** 2))

        points = numpy.array([[0.0, 3.0], [4.0, 0.0]])
        to_origin = tw.vmap(distance, in_axes=(0, None))
        to_origin(points, numpy.zeros(2)).numpy().tolist()   # -> [3.0, 4.0]

        def loss(w, x):
            return np.sum(x * w) ** 2

        each = tw.vmap(tw.grad(loss), in_axes=(None, 0))(numpy.ones(2), points)
        each.shape                                    # -> (2, 2)
    """
    check_callable(_OP, function)
    for word, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        _check_axes(word, axes)

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        arguments = _BatchArguments()
        one_args = arguments.take_positional(args, in_axes)
        one_kwargs = {k: arguments.take(x, 0, k) for k, x in kwargs.items()}
        size = arguments.size(in_axes)
        draws: list[tuple[Node, Draw, tuple[Node, ...]]] = []

        def note_draw(op: Draw, operands: tuple[Node, ...]) -> Node:
            draws.append((stand_in("a random array", op.shape, op.dtype), op, operands))
            return draws[-1][0]

        try:
            with draws_made_by(note_draw):
                result: Any = function(*one_args, **one_kwargs)
        except ValuesNeededError as error:
            arguments.explain(error)
            raise
        batches = arguments.batches
        for one, op, operands in draws:
            with source_scope(one.sources):
                given = batch_where_needed(operands, batches)
                batches[one] = op.draw_batch(size, given, make_draw)
        return _place_batch(result, out_axes, batches, size)

    return mapped


def _check_axes(word: str, axes: Any) -> None:
    """Refuse what is neither an axis, None, nor a structure of these."""
    for path, axis in leaf_paths(axes):
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, (int, np.integer))):
            where = f"{word}, {path}," if path else word
            raise type_error(
                _OP,
                f"{where} is {axis!r}; accepted: an integer, None where there is no batch, or a "
                "structure of these",
            )


class _BatchArguments:
    """One example in place of each batch that was given."""

    def __init__(self) -> None:
        self.batches: dict[Node, Node] = {}
        """What stands for one of each batch, and the batch, along axis 0."""
        self._sizes: list[str] = []
        """The size of each, in words."""

    def take_positional(self, args: Sequence[Any], in_axes: Any) -> list[Any]:
        """The positional arguments, with one example in place of each batch."""
        if not isinstance(in_axes, (tuple, list)):
            return [self.take(x, in_axes, f"argument {i}") for i, x in enumerate(args)]
        each = cast("Sequence[Any]", in_axes)
        if len(each) != len(args):
            raise value_error(
                _OP,
                f"in_axes has {len(each)} items for {len(args)} positional arguments; it must have "
                "one for each, or be one axis for all",
            )
        return [
            self.take(x, axes, f"argument {i}")
            for i, (x, axes) in enumerate(zip(args, each, strict=True))
        ]

    def take(self, argument: Any, axes: Any, name: str) -> Any:
        """An argument, with one example in place of each batch in it."""
        try:
            each = iter(spread(axes, argument))
        except ValueError as error:
            raise value_error(_OP, f"in_axes does not fit {name}: {error}") from None
        paths = iter([path for path, _ in leaf_paths(argument)])

        def put(x: Any) -> Any:
            path, axis = next(paths), next(each)
            if axis is None or x is None:
                return x
            return self._example(x, axis, f"{name}, {path}," if path else name)

        return map_leaves(put, argument)

    def _example(self, x: Any, axis: int, name: str) -> Array:
        """What stands for one of the batch along an axis of an array."""
        if not isinstance(x, (Array, np.ndarray, np.generic, int, float, complex)):
            raise type_error(
                _OP,
                f"{name} is {type(x).__name__} {x!r}; accepted: arrays, and anything where in_axes "
                "is None",
            )
        node = lift(x, _OP)
        rank = len(node.shape)
        if not -rank <= axis < rank:
            has = f"shape {node.shape}, which has no axis {axis}" if rank else "no axes"
            raise value_error(
                _OP,
                f"{name} has {has} for the batch; give another axis in in_axes, or None if it is "
                "the same for all",
            )
        axis = int(axis) % rank
        order = (axis, *[a for a in range(rank) if a != axis])
        whole = transpose_node(node, order)
        one = stand_in(f"one of {name.rstrip(',')} in {_OP}", whole.shape[1:], whole.dtype)
        self.batches[one] = whole
        self._sizes.append(f"{name} has {node.shape[axis]} along axis {axis}")
        return wrap(one)

    def size(self, in_axes: Any) -> int:
        """The size of all batches."""
        sizes = {whole.shape[0] for whole in self.batches.values()}
        if not sizes:
            raise value_error(
                _OP,
                f"in_axes is {in_axes!r}, so that no argument has a batch; one at least must have "
                "an axis for it",
            )
        if len(sizes) > 1:
            raise value_error(
                _OP,
                f"{'; '.join(self._sizes)}: the batch must have one size; give None in in_axes for "
                "what is the same for all",
            )
        (size,) = sizes
        return size

    def explain(self, error: ValuesNeededError) -> None:
        """Say why an example has no value, if that is what an error is about."""
        mine = {one.inputs[0].name for one in self.batches}
        if mine & set(error.variables):
            error.suggest(
                "tw.vmap computes a batch together, so that no example has a value of its own: "
                "np.where(condition, yes, no) chooses between values"
            )


def _place_batch(result: Any, out_axes: Any, batches: Mapping[Node, Node], size: int) -> Any:
    """The results of a batch, which lies where `out_axes` says."""
    try:
        axes = spread(out_axes, result)
    except ValueError as error:
        raise value_error(_OP, f"out_axes does not fit the result: {error}") from None
    found = leaves(result)
    nodes = [_result_node(x) for x in found if x is not None]
    made = iter(batch_where_needed(nodes, batches))
    placed: list[Any] = []
    for (path, x), axis in zip(leaf_paths(result), axes, strict=True):
        name = f"the result, {path}," if path else "the result"
        placed.append(None if x is None else wrap(_move_batch(next(made), axis, size, name)))
    return unflatten(result, placed)


def _result_node(x: Any) -> Node:
    if isinstance(x, (Array, np.ndarray, np.generic, int, float, complex)):
        return lift(x, _OP)
    raise type_error(_OP, f"the function gives {type(x).__name__} {x!r}; accepted: arrays")


def _move_batch(result: BatchOperand, axis: int | None, size: int, name: str) -> Node:
    """A result with the batch along an axis; as it is where there is none."""
    if axis is None:
        if result.batched:
            raise value_error(
                _OP, f"out_axes is None for {name} which is not the same for all; give an axis"
            )
        return result.node
    whole = repeat_in_batch(result, size)
    rank = len(whole.shape)
    if not -rank <= axis < rank:
        raise value_error(
            _OP,
            f"out_axes is {axis} for {name} which has {rank} axes with that of the batch; "
            f"accepted: from {-rank} to {rank - 1}",
        )
    place = int(axis) % rank
    return transpose_node(whole, (*range(1, place + 1), 0, *range(place + 1, rank)))
