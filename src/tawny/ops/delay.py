"""User functions as nodes: any Python over NumPy arrays, run when the graph is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, TextIO, final

from tawny.array import Array, ArrayLike, lift, wrap
from tawny.attributes import AnyShape, Bounds
from tawny.dtype import DType, as_dtype
from tawny.errors import type_error, value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Facts, Gradient, Op, Trait, Type
from tawny.operator import public
from tawny.ops.creation import Cast
from tawny.ops.movement import BroadcastTo, batch_size, repeat_in_batch, reshape_node
from tawny.shape import Shape, as_shape, normalise_axis, reduction_shape, size


@final
class UserObject:
    """A user's object among an op's attributes: equal to itself alone."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserObject) and self.it is other.it

    def __repr__(self) -> str:
        name: str | None = getattr(self.it, "__qualname__", None)
        return repr(self.it) if name is None else name


class Delay(Op):
    """An op that runs the user's code: what that raises reaches the caller as it is."""


class UserFunction(Delay):
    """A user's function, and the shape and dtype it is declared to give.

    Pure ones are merged when function and operands are the same; others never.  Each runs again
    when an operand changed, or in every run if `always`.
    """

    function: UserObject
    pure: bool
    shape: AnyShape
    dtype: DType
    always: bool

    def facts(self) -> Facts:
        return _facts(self.declaration, self.pure, self.always)

    def infer_shape(self, *shapes: Shape) -> Shape:
        return self.shape

    def infer_dtype(self, *dtypes: DType) -> DType:
        return self.dtype

    def mistake(self, types: Sequence[Type]) -> str | None:
        """The declared shape is what the function's way of being applied gives."""
        if self.function.it is None:
            return "function is missing"
        wanted = self.applied_shape(types)
        if self.shape != wanted:
            return f"shape is {self.shape}; expected {wanted}"
        return super().mistake(types)

    def applied_shape(self, types: Sequence[Type]) -> Shape:
        """The shape that applying the function gives."""
        return self.shape


@lru_cache(16)
def _facts(declaration: Facts, pure: bool, always: bool) -> Facts:
    if not pure and not always:
        return declaration
    traits = declaration.traits & ~Trait.IMPURE if pure else declaration.traits | Trait.VOLATILE
    return dataclasses.replace(declaration, traits=traits)


def _effects(op: str, pure: object, always: object) -> tuple[bool, bool]:
    """Whether a function is pure, and whether it runs always."""
    if pure and always:
        raise value_error(
            op, "a pure function depends on its arguments alone, so there is no need to run always"
        )
    return bool(pure), bool(always)


class DelayedCall(
    UserFunction, name="delay", arity=None, traits=Trait.IMPURE, gradient=Gradient.NONE
):
    """A user's function of whole arrays."""


class MapElements(UserFunction, name="map_elements", traits=Trait.IMPURE, gradient=Gradient.NONE):
    """A user's function of one number, applied to each element."""

    def applied_shape(self, types: Sequence[Type]) -> Shape:
        return types[0][0]

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        ((x, _),) = operands
        return make(self.with_attributes(shape=x.shape), (x,))


class AlongAxis(UserFunction):
    """A user's function of two numbers, applied along `axis` or to all elements in order."""

    axis: int | None

    def applied_shape(self, types: Sequence[Type]) -> Shape:
        return types[0][0]

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """All elements in order are those of each alone."""
        count = batch_size(operands)
        x, *start = [repeat_in_batch(given, count) for given in operands]
        if self.axis is None:
            x = reshape_node(x, (count, size(x.shape[1:])))
        moved = self.with_attributes(axis=1 if self.axis is None else self.axis + 1)
        shape = moved.applied_shape([(x.shape, x.dtype)])
        made = make(moved.with_attributes(shape=shape), (x, *start))
        return reshape_node(made, (count, *self.shape))


class Fold(AlongAxis, name="fold", arity=None, traits=Trait.IMPURE, gradient=Gradient.NONE):
    """The last of a user's function's results along an axis; operand 1, if any, starts it."""

    def operand_counts(self) -> Sequence[int]:
        return 1, 2

    def applied_shape(self, types: Sequence[Type]) -> Shape:
        return reduction_shape(types[0][0], self._axes(types), False)

    def _axes(self, types: Sequence[Type]) -> tuple[int, ...]:
        return tuple(range(len(types[0][0]))) if self.axis is None else (self.axis,)

    def mistake(self, types: Sequence[Type]) -> str | None:
        problem = Op.mistake(self, types)
        if problem is None and len(types) == 2:
            wanted = self.applied_shape(types)
            if types[1] != (wanted, self.dtype):
                return f"operand 1 must be {self.dtype}{list(wanted)}"
        if problem is None and len(types) == 1:
            shape = types[0][0]
            if 0 in [shape[a] for a in self._axes(types)]:
                return f"operand 0 has shape {shape}: no element to start from"
        return problem or super().mistake(types)


class RunningFold(AlongAxis, name="scan", traits=Trait.IMPURE, gradient=Gradient.NONE):
    """Running results of a user's function along an axis; the first element starts it."""


class LazyPrint(Delay, name="lazy_print", traits=Trait.IMPURE):
    """The operand itself, printed when it is computed."""

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """Derivatives are not printed."""
        return cotangent

    max_rows: Annotated[int | None, Bounds(0)]
    max_columns: Annotated[int | None, Bounds(0)]
    header: str | None
    format: UserObject
    file: UserObject


def _callable(f: Any, op: str) -> UserObject:
    if not callable(f):
        raise type_error(op, f"f must be a function, not {type(f).__name__} {f!r}")
    return UserObject(f)


@public()
def delay(
    f: Callable[..., Any],
    /,
    *arrays: ArrayLike,
    shape: Any = None,
    dtype: Any = None,
    pure: bool = False,
    always: bool = False,
) -> Array:
    """The result of a Python function, called with the values of `arrays` when this is evaluated.

    - `f`: takes read-only NumPy arrays, which it must copy to keep, and returns one of the
      declared shape and dtype.
    - `arrays`: what it is called with; there may be none.
    - `shape`: the shape of its result; that of the first array when None.
    - `dtype`: the dtype of its result; that of the first array when None.
    - `pure`: `f` depends on its arguments alone, so that equal calls are made once, if need be
      when the graph is compiled; calls of others are never merged.
    - `always`: call it in every run, as a function must be that reads a clock or a file.
      Otherwise a program calls it in its first run and whenever an argument changed.

    Gives an array, which has no derivative.  What `f` raises reaches the caller of the program.

        x = tw.var("x", (2,))
        roots = tw.delay(numpy.cbrt, x)
        tw.Graph([x], roots + 1).compile()([8.0, 27.0]).tolist()   # -> [3.0, 4.0]
        total = tw.delay(lambda a: a.sum(), numpy.ones(3), shape=())
        float(total)                                  # -> 3.0
    """
    held = _callable(f, "delay")
    is_pure, each = _effects("delay", pure, always)
    nodes = tuple(lift(x, "delay", i) for i, x in enumerate(arrays))
    for word, declared in (("shape", shape), ("dtype", dtype)):
        if declared is None and not nodes:
            raise value_error(
                "delay", f"{word} is needed when there is no array to take it from; give {word}=..."
            )
    made = DelayedCall(
        held,
        is_pure,
        nodes[0].shape if shape is None else as_shape(shape, "delay"),
        nodes[0].dtype if dtype is None else as_dtype(dtype, "delay"),
        each,
    )
    return wrap(make(made, nodes))


@public()
def map_elements(
    f: Callable[[Any], Any], x: ArrayLike, /, *, dtype: Any = None, pure: bool = False
) -> Array:
    """A Python function of each element of an array.

    - `f`: takes a Python number and gives one.
    - `x`: the array.
    - `dtype`: the dtype of the results; that of `x` when None.
    - `pure`: `f` depends on its argument alone, so that equal calls may be made once.

    Gives an array of the shape of `x`, computed when it is evaluated.

        tw.map_elements(lambda n: n % 2, [3, 1, 2]).numpy().tolist()   # -> [1, 1, 0]
    """
    node = lift(x, "map_elements", 1)
    wanted = node.dtype if dtype is None else as_dtype(dtype, "map_elements")
    held = _callable(f, "map_elements")
    return wrap(make(MapElements(held, bool(pure), node.shape, wanted, False), (node,)))


def _place(axis: Any, node: Node, op: str) -> int | None:
    return None if axis is None else normalise_axis(axis, len(node.shape), op)


@public()
def fold(
    f: Callable[[Any, Any], Any],
    x: ArrayLike,
    /,
    axis: int | None = None,
    initial: ArrayLike | None = None,
    *,
    dtype: Any = None,
    pure: bool = False,
) -> Array:
    """`f(f(f(initial, a), b), c)` of the elements a, b, c of `x` along `axis`.

    - `f`: takes two Python numbers, the previous result and an element, and gives one.
    - `x`: the array.
    - `axis`: the axis to fold; all elements in order when None.
    - `initial`: what to start with, broadcast to the result; the first element when None.
    - `dtype`: the dtype of the result; that of `x` when None.
    - `pure`: `f` depends on its arguments alone, so that equal calls may be made once.

    Gives an array without that axis.  Raises ValueError where there is nothing to start with.

        int(tw.fold(lambda a, b: 10 * a + b, [3, 1, 2]))   # -> 312
    """
    node = lift(x, "fold", 1)
    place = _place(axis, node, "fold")
    axes = tuple(range(len(node.shape))) if place is None else (place,)
    shape = reduction_shape(node.shape, axes, False)
    wanted = node.dtype if dtype is None else as_dtype(dtype, "fold")
    made = Fold(_callable(f, "fold"), bool(pure), shape, wanted, False, place)
    if initial is None:
        if 0 in [node.shape[a] for a in axes]:
            raise value_error(
                "fold",
                f"operand 1 has shape {node.shape}: no element to start from along axis {axis}; "
                "give initial",
            )
        return wrap(make(made, (node,)))
    start = lift(initial, "fold", 2)
    if start.dtype != wanted:
        start = make(Cast(wanted), (start,))
    return wrap(make(made, (node, make(BroadcastTo(shape), (start,)))))


@public()
def scan(
    f: Callable[[Any, Any], Any],
    x: ArrayLike,
    /,
    axis: int | None = None,
    *,
    dtype: Any = None,
    pure: bool = False,
) -> Array:
    """`a, f(a, b), f(f(a, b), c)` of the elements a, b, c of `x` along `axis`.

    - `f`: takes two Python numbers, the previous result and an element, and gives one.
    - `x`: the array.
    - `axis`: the axis to go along; all elements in order when None.
    - `dtype`: the dtype of the results; that of `x` when None.
    - `pure`: `f` depends on its arguments alone, so that equal calls may be made once.

    Gives an array of the shape of `x`.

        np.scan(max, [1, 3, 2]).numpy().tolist()      # -> [1, 3, 3]
    """
    node = lift(x, "scan", 1)
    wanted = node.dtype if dtype is None else as_dtype(dtype, "scan")
    place = _place(axis, node, "scan")
    made = RunningFold(_callable(f, "scan"), bool(pure), node.shape, wanted, False, place)
    return wrap(make(made, (node,)))


def _limit(limit: Any, word: str) -> int | None:
    if limit is None:
        return None
    (number,) = as_shape(limit, "lazy_print", word)
    return number


@public()
def lazy_print(
    x: ArrayLike,
    /,
    *,
    max_rows: int | None = None,
    max_columns: int | None = None,
    header: str | None = None,
    format: Callable[[Any], str] | None = None,
    file: TextIO | None = None,
) -> Array:
    """`x` itself, printed each time it is computed; what is not used, or still known, is not.

    - `x`: the array.
    - `max_rows`, `max_columns`: beyond these the middle is left out; None prints all.  Rows are
      those along the last axis.
    - `header`: a line to print first.
    - `format`: a function that turns an element into text; None prints as NumPy does.
    - `file`: where to print; standard output when None.

    Gives an array that must be used in place of `x` for anything to be printed.

        x = tw.var("x", (2,))
        program = tw.Graph([x], tw.lazy_print(x * 2, header="doubled") + 1).compile()
        result = program([1.0, 2.0])                  # prints doubled, and 2 and 4
    """
    node = lift(x, "lazy_print")
    if header is not None and not isinstance(header, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("lazy_print", f"header must be a string, not {header!r}")
    if format is not None and not callable(format):
        raise type_error("lazy_print", f"format must be a function of an element, not {format!r}")
    made = LazyPrint(
        _limit(max_rows, "max_rows"),
        _limit(max_columns, "max_columns"),
        header,
        UserObject(format),
        UserObject(file),
    )
    return wrap(make(made, (node,)))
