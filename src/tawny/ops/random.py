"""Random arrays, counter-based: each element is a function of seed, stream, run and place alone.

Every random array made takes the next stream of the current seed, so its numbers do not depend on
which others are evaluated, in which order, or by how many threads.  Outside a program an array is
evaluated in run 0; a program numbers its runs, and each draws anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Final, SupportsIndex

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.attributes import AnyShape, Bounds, Natural
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType, as_dtype, check_categories, kind_of
from tawny.dtype_rules import integer
from tawny.errors import type_error, value_error
from tawny.node import Constant, Node, Value, make, scalar
from tawny.op import BatchOperand, Gradient, Op, Trait, Type
from tawny.ops import elementwise as e
from tawny.ops.creation import Cast, cast_node
from tawny.ops.indexing import ArgSort, slice_node
from tawny.ops.movement import align_batch, batch_size
from tawny.ops.selection import take
from tawny.shape import Shape, as_int, as_shape, broadcast, normalise_axis
from tawny.streams import MOST_SEED, current_streams, next_stream, own_streams

ANEW: Final = Trait.IMPURE | Trait.VOLATILE
"""Numbers are drawn anew in every run."""


Word = Annotated[int, Bounds(0, 2**64)]
"""A machine word, as the generator takes it."""


MakeDraw = Callable[["Draw", tuple[Node, ...]], Node]
"""What makes the node of a draw."""


class Draw(Op, may_fail=False):
    """A random op: what it gives depends on its seed, its stream and the number of the run."""

    seed: Word
    stream: Word
    shape: AnyShape
    dtype: DType

    def infer_shape(self, *shapes: Shape) -> Shape:
        return self.shape

    def infer_dtype(self, *dtypes: DType) -> DType:
        return self.dtype

    def mistake(self, types: Sequence[Type]) -> str | None:
        """The dtype is of the kind of number it draws: floating-point, unless it says otherwise."""
        return self.kind_mistake("f")

    def kind_mistake(self, kinds: str) -> str | None:
        """A dtype of none of these kinds."""
        if kind_of(self.dtype) in kinds:
            return None
        return f"dtype is {self.dtype}; expected a kind of number it draws"

    def draw_batch(self, count: int, operands: Sequence[BatchOperand], draw: MakeDraw) -> Node:
        """A draw for each of a batch, along a new axis 0; the first has the numbers of this one."""
        op = self.with_attributes(shape=(count, *self.shape))
        return draw(op, tuple([align_batch(x, len(self.shape)) for x in operands]))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return self.draw_batch(batch_size(operands), operands, make)


class Uniform(
    Draw,
    name="random_uniform",
    arity=0,
    traits=ANEW | Trait.KEEPS_FINITE,
    gradient=Gradient.ZERO,
):
    """Numbers evenly distributed from 0 up to but not including 1."""


class Normal(
    Draw,
    name="random_normal",
    arity=0,
    traits=ANEW | Trait.KEEPS_FINITE,
    gradient=Gradient.ZERO,
):
    """Numbers normally distributed about 0 with standard deviation 1."""


class Integers(
    Draw,
    name="random_integers",
    dtype=integer,
    arity=2,
    traits=ANEW,
    gradient=Gradient.ZERO,
):
    """Integers evenly distributed from operand 0 to operand 1, both included."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        for position, shape in enumerate(shapes):
            check_broadcasts("random_integers", position, shape, self.shape)
        return self.shape

    def infer_dtype(self, *dtypes: DType) -> DType:
        for position, dtype in enumerate(dtypes):
            if dtype != self.dtype:
                raise type_error(
                    "random_integers",
                    f"operand {position} has dtype {dtype}; it must be {self.dtype}",
                )
        return self.dtype

    def mistake(self, types: Sequence[Type]) -> str | None:
        return self.kind_mistake("iu")


class Permutation(Draw, name="random_permutation", arity=0, traits=ANEW, gradient=Gradient.ZERO):
    """The first `shape[0]` of the numbers below `population` in random order."""

    population: Natural

    def mistake(self, types: Sequence[Type]) -> str | None:
        problem = self.kind_mistake("iu")
        if problem is None and (len(self.shape) != 1 or self.shape[0] > self.population):
            return f"shape is {self.shape}; expected one axis, within {self.population}"
        if problem is None and self.dtype != dt.INT64:
            return f"dtype is {self.dtype}; expected int64"
        return problem

    def draw_batch(self, count: int, operands: Sequence[BatchOperand], draw: MakeDraw) -> Node:
        """The orders of random numbers: equal ones, which are as good as never, keep their own."""
        shape = (count, self.population)
        numbers = draw(Uniform(self.seed, self.stream, shape, dt.FLOAT64), ())
        order = make(ArgSort(1, descending=False), (numbers,))
        return slice_node(order, 1, slice(self.shape[0]))


# --------------------------------------------------------------------- streams


_MAKE_DRAW: Final[ContextVar[MakeDraw]] = ContextVar("make_draw", default=make)


def make_draw(op: Draw, operands: tuple[Node, ...] = ()) -> Node:
    """The node of a draw; inside a function that is mapped over a batch, what stands for it."""
    return _MAKE_DRAW.get()(op, operands)


def outer_draws() -> MakeDraw:
    """Who makes draws here: `make`, but in a function that is mapped over a batch."""
    return _MAKE_DRAW.get()


@contextmanager
def draws_made_by(make: MakeDraw) -> Generator[None]:
    """Within the block draws are made by somebody else."""
    token = _MAKE_DRAW.set(make)
    try:
        yield
    finally:
        _MAKE_DRAW.reset(token)


@contextmanager
def local_seed(n: int) -> Generator[None]:
    """Within the block random arrays take the streams of a seed, from the first on.

    - `n`: the seed, an integer from 0 to 2**64 - 1.

    After it streams go on as before; what other threads make is not concerned.

        with tw.random.local_seed(7):
            one = tw.random.uniform()
        with tw.random.local_seed(7):
            two = tw.random.uniform()
        bool(one.numpy() == two.numpy())              # -> True
    """
    with own_streams(_seed_number(n, "local_seed")):
        yield


@explain_bad_calls
def seed(n: int) -> None:
    """Set the seed of random arrays made from now on, and start again with its first stream.

    - `n`: an integer from 0 to 2**64 - 1.

    The k-th random array made after this has stream k.  Before the first call the seed is
    `TAWNY_SEED`, or 0.

        tw.random.seed(5)
        first = tw.random.normal()
        tw.random.seed(5)
        bool(first.numpy() == tw.random.normal().numpy())   # -> True
    """
    current_streams().restart(_seed_number(n, "seed"))


def _seed_number(n: int, op: str) -> int:
    number = as_int(n, op, "n")
    if not 0 <= number <= MOST_SEED:
        raise value_error(op, f"n is {number}; it must be from 0 to 2**64 - 1")
    return number


# ------------------------------------------------------------------ parameters


def check_broadcasts(op: str, position: int, shape: Shape, wanted: Shape) -> None:
    """Refuse a parameter whose shape is more than `wanted`."""
    if broadcast(op, (wanted, shape)) != wanted:
        raise value_error(
            op,
            f"operand {position} has shape {shape}, which does not broadcast to shape {wanted}; "
            "give a larger shape, or none",
        )


def parameter_node(value: Any, dtype: DType, op: str, position: int) -> Node:
    """A parameter of a distribution as a node of `dtype`."""
    if dt.is_weak(value) and type(value) is not complex:
        return scalar(value, dtype, op)
    node = lift(value, op, position)
    check_categories(op, position, node.dtype, dt.REAL)
    return cast_node(node, dtype)


def plain_value(parameter: Any, op: str, position: int = 0) -> Value | None:
    """The value of a parameter, if it is there without computing anything."""
    if dt.is_weak(parameter):
        return np.asarray(parameter)
    node = lift(parameter, op, position)
    check_categories(op, position, node.dtype, dt.REAL)
    return node.value if isinstance(node.op, Constant) else None


def _check_ordered(low: Any, high: Any, op: str) -> None:
    first, last = plain_value(low, op, 0), plain_value(high, op, 1)
    if first is not None and last is not None and not np.all(first < last):
        raise value_error(op, f"low is {low!r} and high is {high!r}; high must be greater")


def drawn_shape(shape: Any, parameters: Sequence[Node], op: str) -> Shape:
    """The shape asked for, or that of the parameters together."""
    if shape is None:
        return broadcast(op, [(), *(p.shape for p in parameters)])
    wanted = as_shape(shape, op)
    for position, parameter in enumerate(parameters):
        check_broadcasts(op, position, parameter.shape, wanted)
    return wanted


def floating_dtype(dtype: Any, op: str) -> DType:
    """The floating-point dtype asked for; float64 when None."""
    wanted = dt.FLOAT64 if dtype is None else as_dtype(dtype, op)
    if kind_of(wanted) != "f":
        raise type_error(
            op, f"dtype is {wanted}; accepted: {dt.category_names(dt.FLOATING)} dtypes"
        )
    return wanted


# --------------------------------------------------------------- distributions


@explain_bad_calls
def uniform(
    low: ArrayLike = 0.0, high: ArrayLike = 1.0, shape: Any = None, dtype: Any = None
) -> Array:
    """Numbers evenly distributed from `low` up to `high`.

    - `low`: the lower bound.
    - `high`: the upper bound; given as a number it is never reached, given as an array rounding
      may reach it.
    - `shape`: the shape of the result, to which the others broadcast; their own when None.
    - `dtype`: of the result, a floating-point dtype; float64 when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.uniform(0.0, 10.0, (2, 3)).shape   # -> (2, 3)
    """
    wanted = floating_dtype(dtype, "uniform")
    _check_ordered(low, high, "uniform")
    bounds = parameter_node(low, wanted, "uniform", 0), parameter_node(high, wanted, "uniform", 1)
    base = wrap(make_draw(Uniform(*next_stream(), drawn_shape(shape, bounds, "uniform"), wanted)))
    first, last = map(wrap, bounds)
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        if not math.isfinite(high - low):
            raise value_error(
                "uniform", f"low is {low!r} and high is {high!r}; both must be finite"
            )
        if low == 0:
            return base if high == 1 else e.multiply(base, last)
        value = e.add(e.multiply(base, wrap(scalar(high - low, wanted, "uniform"))), first)
        below = np.nextafter(np.asarray(high, wanted), np.asarray(low, wanted))
        return e.minimum(value, wrap(scalar(float(below), wanted, "uniform")))
    return e.add(e.multiply(base, e.subtract(last, first)), first)


@explain_bad_calls
def normal(
    mean: ArrayLike = 0.0, std: ArrayLike = 1.0, shape: Any = None, dtype: Any = None
) -> Array:
    """Numbers normally distributed about `mean` with standard deviation `std`.

    - `mean`: the centre.
    - `std`: the standard deviation, at least 0.
    - `shape`: the shape of the result, to which the others broadcast; their own when None.
    - `dtype`: of the result, a floating-point dtype; float64 when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.normal(shape=(2, 3)).shape   # -> (2, 3)
    """
    wanted = floating_dtype(dtype, "normal")
    spread = plain_value(std, "normal", 1)
    if spread is not None and not np.all(spread >= 0):
        raise value_error("normal", f"std is {std!r}; it must be at least 0")
    parameters = parameter_node(mean, wanted, "normal", 0), parameter_node(std, wanted, "normal", 1)
    base = wrap(make_draw(Normal(*next_stream(), drawn_shape(shape, parameters, "normal"), wanted)))
    centre, scale = map(wrap, parameters)
    scaled = base if dt.is_weak(std) and std == 1 else e.multiply(base, scale)
    return scaled if dt.is_weak(mean) and mean == 0 else e.add(scaled, centre)


gaussian = normal


@explain_bad_calls
def exponential(scale: ArrayLike = 1.0, shape: Any = None, dtype: Any = None) -> Array:
    """Waiting times with mean `scale`.

    - `scale`: the mean.
    - `shape`: the shape of the result, to which the others broadcast; their own when None.
    - `dtype`: of the result, a floating-point dtype; float64 when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.exponential(2.0, (3,)).shape   # -> (3,)
    """
    wanted = floating_dtype(dtype, "exponential")
    length = plain_value(scale, "exponential")
    if length is not None and not np.all(length >= 0):
        raise value_error("exponential", f"scale is {scale!r}; it must be at least 0")
    parameter = parameter_node(scale, wanted, "exponential", 0)
    base = Uniform(*next_stream(), drawn_shape(shape, [parameter], "exponential"), wanted)
    waiting = e.negative(e.log1p(e.negative(wrap(make_draw(base)))))
    return waiting if dt.is_weak(scale) and scale == 1 else e.multiply(waiting, wrap(parameter))


@explain_bad_calls
def bernoulli(p: ArrayLike = 0.5, shape: Any = None, dtype: Any = None) -> Array:
    """True with probability `p`.

    - `p`: from 0 to 1.
    - `shape`: the shape of the result, to which `p` broadcasts; its own when None.
    - `dtype`: of the result; bool when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.bernoulli(0.1, (3,)).shape   # -> (3,)
    """
    wanted = dt.BOOL if dtype is None else as_dtype(dtype, "bernoulli")
    chance = plain_value(p, "bernoulli")
    if chance is not None and not np.all((chance >= 0) & (chance <= 1)):
        raise value_error("bernoulli", f"p is {p!r}; it must be from 0 to 1")
    parameter = parameter_node(p, dt.FLOAT64, "bernoulli", 0)
    base = Uniform(*next_stream(), drawn_shape(shape, [parameter], "bernoulli"), dt.FLOAT64)
    happens = e.less(wrap(make_draw(base)), wrap(parameter))
    return happens if wanted == dt.BOOL else wrap(make(Cast(wanted), (happens.node,)))


@explain_bad_calls
def integers(
    low: ArrayLike, high: ArrayLike | None = None, shape: Any = None, dtype: Any = None
) -> Array:
    """Integers evenly distributed from `low` up to but not including `high`.

    - `low`, `high`: the bounds; with one bound they start from 0.
    - `shape`: the shape of the result, to which the bounds broadcast; their own when None.
    - `dtype`: of the result; int64 when None.

    The numbers are drawn anew in each run, from `tw.random.seed`.

        tw.random.integers(6, shape=(3,)).shape   # -> (3,)
    """
    op = "integers"
    if high is None:
        low, high = 0, low
    wanted = dt.INT64 if dtype is None else as_dtype(dtype, op)
    if wanted.kind not in "iu":
        raise type_error(op, f"dtype is {wanted}; accepted: {dt.category_names(dt.INTEGER)} dtypes")
    _check_ordered(low, high, op)
    last = high - 1 if isinstance(high, int) else e.subtract(_whole(high, wanted, op, 1), 1)
    bounds = tuple(
        parameter_node(_whole(bound, wanted, op, i), wanted, op, i)
        for i, bound in enumerate((low, last))
    )
    shape = drawn_shape(shape, bounds, op)
    return wrap(make_draw(Integers(*next_stream(), shape, wanted), bounds))


def _whole(bound: Any, dtype: DType, op: str, position: int) -> Any:
    """An included bound that is an integer of `dtype` or an array of integers."""
    if isinstance(bound, int):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if not least <= bound <= most:
            raise value_error(
                op,
                f"low and high must be from {least} to {most + 1} for {dtype}; take a wider dtype",
            )
        return int(bound)
    node = lift(bound, op, position)
    check_categories(op, position, node.dtype, dt.INTEGER)
    return wrap(node)


# ------------------------------------------------------------------- selection


def _draw_permutation(population: int, length: int) -> Array:
    return wrap(make_draw(Permutation(*next_stream(), (length,), dt.INT64, population)))


def _population(x: Any, axis: int, op: str) -> tuple[Array | None, int, int]:
    """The array to select from (None: the numbers below), how many there are, along which axis."""
    if not isinstance(x, (Array, np.ndarray, bool)) and isinstance(x, SupportsIndex):
        (number,) = as_shape(x, op, "a number to select from")
        return None, number, normalise_axis(axis, 1, op)
    array = wrap(lift(x, op))
    if not array.shape:
        raise value_error(op, "operand 0 has no axes; accepted: an integer, or an array with axes")
    place = normalise_axis(axis, array.ndim, op)
    return array, array.shape[place], place


def _take_or_indices(array: Array | None, indices: Array, axis: int) -> Array:
    return indices if array is None else take(array, indices, axis=axis)


@explain_bad_calls
def permutation(x: ArrayLike, /, *, axis: int = 0) -> Array:
    """The numbers below `x`, or the array `x` along `axis`, in random order.

    - `x`: an integer or an array.
    - `axis`: the axis to reorder.

    The order is drawn anew in each run, from `tw.random.seed`.

        sorted(tw.random.permutation(4).numpy().tolist())   # -> [0, 1, 2, 3]
    """
    array, population, place = _population(x, axis, "permutation")
    return _take_or_indices(array, _draw_permutation(population, population), place)


def _draw_places(population: int, n: int, replace: bool, op: str) -> Array:
    """`n` places among `population`."""
    (number,) = as_shape(as_int(n, op, "n"), op, "n")
    if number and not population:
        raise value_error(op, f"operand 0 has no element to choose; n is {number}")
    if replace:
        return integers(0, population, (number,)) if population else _draw_permutation(0, 0)
    if number > population:
        raise value_error(
            op, f"n is {number}, of only {population} elements; take fewer, or replace=True"
        )
    return _draw_permutation(population, number)


@explain_bad_calls
def choice(x: ArrayLike, n: int, /, *, axis: int = 0, replace: bool = True) -> Array:
    """Elements of `x` along `axis` at random.

    - `x`: an array; an integer stands for the numbers below it.
    - `n`: how many elements.
    - `axis`: the axis to choose along.
    - `replace`: whether an element may be chosen again and again.

    The choice is made anew in each run, from `tw.random.seed`.

        tw.random.choice([1.0, 2.0, 3.0], 5).shape    # -> (5,)
    """
    array, population, place = _population(x, axis, "choice")
    return _take_or_indices(array, _draw_places(population, n, replace, "choice"), place)


@explain_bad_calls
def draw_rows(
    x: ArrayLike, n: int, /, *, axis: int = 0, replace: bool = False
) -> tuple[Array, Array]:
    """Rows of `x` at random, or slices along another axis, and their indices.

    - `x`: an array.
    - `n`: how many rows.
    - `axis`: the axis that counts them.
    - `replace`: whether a row may be drawn again and again.

    Gives a pair: the rows, and where they are in `x`.

        rows, places = tw.random.draw_rows(numpy.ones((9, 2)), 4)
        rows.shape, places.shape                      # -> ((4, 2), (4,))
    """
    array, population, place = _population(x, axis, "draw_rows")
    indices = _draw_places(population, n, replace, "draw_rows")
    return _take_or_indices(array, indices, place), indices
