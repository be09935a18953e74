"""Creation: arrays from numbers, data and shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final

import numpy as np
from numpy.exceptions import ComplexWarning

from tawny import dtype as dt
from tawny.array import (
    Array,
    ArrayLike,
    as_value,
    check_device,
    check_unmasked,
    is_traced,
    known_value,
    lift,
    view_of,
    wrap,
)
from tawny.attributes import Bounds, Natural
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType, as_dtype
from tawny.errors import overflow_error, type_error, value_error, warn, with_location
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.node import Node, Value, borrowed_constant, constant, make, scalar, variable
from tawny.op import ELEMENTWISE, BatchOperand, Gradient, Op, Overwrites, Trait, Type
from tawny.operator import check_layout, check_like, emit, public
from tawny.ops import elementwise as e
from tawny.ops.movement import (
    BroadcastTo,
    Copy,
    broadcast_arrays,
    reshape_node,
    transpose_node,
)
from tawny.rows import Rows, RowSlice
from tawny.shape import Shape, as_int, as_shape


class Cast(
    Op,
    may_fail=False,
    name="astype",
    overwrites=Overwrites.SAME_SIZE,
    traits=Trait.EXACT | Trait.KEEPS_FINITE | Trait.KEEPS_NONNEGATIVE,
    oracle="numpy.astype",
    gradient=Gradient.LINEAR,
):
    """Operand 0 converted to another dtype."""

    dtype: DType

    def infer_dtype(self, *dtypes: DType) -> DType:
        if dtypes[0].kind == "c" and self.dtype.kind not in "cb":
            warn(
                f"converting {dtypes[0]} to {self.dtype} discards the imaginary part",
                ComplexWarning,
            )
        return self.dtype

    def mistake(self, types: Sequence[Type]) -> str | None:
        if types[0][1].kind == "c" and self.dtype.kind != "c":
            return "complex numbers have no value of its dtype"
        return None

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice:
        return RowSlice(self, (rows,), rows)

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return cotangent

    def pushforward(self, tangent: Array, result: Array, x: Array) -> Array:
        """Of complex numbers that become real, the real part changes."""
        return wrap(convert_node(tangent.node, self.dtype))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(self, (operands[0].node,))


def cast_node(node: Node, dtype: DType) -> Node:
    """`node` as `dtype`; itself when it has that dtype already."""
    return node if node.dtype == dtype else make(Cast(dtype), (node,))


def convert_node(node: Node, dtype: DType) -> Node:
    """`node` as `dtype`; of complex numbers that become real, the real part."""
    if node.dtype.kind == "c" and dtype.kind != "c":
        node = make(ELEMENTWISE["real"], (node,))
    return cast_node(node, dtype)


def cast_to_common(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes in their common dtype."""
    common = dt.promote(*[n.dtype for n in nodes])
    return tuple([cast_node(n, common) for n in nodes])


AnyNumber = Annotated[int | float, Bounds(None, None)]


class Arange(
    Op,
    may_fail=False,
    name="arange",
    arity=0,
    gradient=Gradient.ZERO,
    traits=Trait.KEEPS_FINITE,
    oracle="numpy.arange",
):
    """`start`, `start + step`, and so on."""

    start: AnyNumber
    step: AnyNumber
    length: Natural
    dtype: DType

    def infer_shape(self, *shapes: Shape) -> Shape:
        return (self.length,)

    def infer_dtype(self, *dtypes: DType) -> DType:
        if not self.step:
            raise value_error("arange", "step is 0; it must be positive or negative")
        if self.dtype == dt.BOOL and self.length > 2:
            raise type_error("arange", f"there are {self.length} numbers; booleans are 2 at most")
        if not all(map(_is_finite, (self.start, self.step)[: self.length])):
            detail = f"start is {self.start} and step is {self.step}; both must be finite floats"
            raise value_error("arange", detail)
        for number in self.leading():
            dt.check_fits(number, self.dtype, "arange")
        return self.dtype

    def leading(self) -> list[int | float]:
        """The first two numbers, whose difference is added to reach the others."""
        if self.length < 2:
            return [self.start][: self.length]
        return [self.start, self.start + self.step]


def _is_finite(number: float) -> bool:
    """Whether a number is neither NaN nor more than any float."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


class Linspace(
    Op, may_fail=False, name="linspace", arity=2, oracle="numpy.linspace", gradient=Gradient.LINEAR
):
    """`length` evenly spaced numbers from operand 0 to operand 1."""

    length: Natural
    endpoint: bool
    dtype: DType

    def infer_shape(self, *shapes: Shape) -> Shape:
        return (self.length,)

    def infer_dtype(self, *dtypes: DType) -> DType:
        for position, dtype in enumerate(dtypes):
            if dtype.kind == "c" and self.dtype.kind != "c":
                raise type_error(
                    "linspace",
                    f"operand {position} has dtype {dtype}, which has no {self.dtype} value; take "
                    "np.real(x) or np.abs(x) first",
                )
        return self.dtype

    def mistake(self, types: Sequence[Type]) -> str | None:
        shapes = [shape for shape, _ in types]
        return f"operands have shapes {shapes}; they must have no axes" if any(shapes) else None

    def pullback(
        self, cotangent: Array, result: Array, start: Array, stop: Array
    ) -> tuple[Array, Array]:
        """Each number is a mean of the ends, weighted by how near they are."""
        to_stop = e.multiply(cotangent, emit(self, 0.0, 1.0))
        return e.subtract(cotangent, to_stop), to_stop

    def pushforward(
        self, tangents: tuple[Array | None, ...], result: Array, start: Array, stop: Array
    ) -> Array:
        """An end that is an integer stands still."""
        ends = [scalar(0, self.dtype, "linspace") if t is None else t.node for t in tangents]
        return wrap(make(self, tuple(ends)))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        start, stop = [wrap(x.node) for x in operands]
        rows = rows_between(start, stop, self.length, self.endpoint, self.dtype)
        return transpose_node(rows.node, (1, 0))


def rows_between(start: Array, stop: Array, n: int, endpoint: bool, dtype: DType) -> Array:
    """`n` arrays evenly spaced from `start` to `stop`, along a new first axis."""
    inner = dt.weak_dtype(float, dt.promote(start.dtype, stop.dtype))
    first, last = (astype(v, inner, copy=False) for v in (start, stop))
    first, last = broadcast_arrays(first, last)
    gap = e.subtract(last, first)
    places = reshape_node(make(Arange(0, 1, n, dt.INT64)), (n, *(1,) * gap.ndim))
    count = wrap(cast_node(places, dt.real_dtype(inner)))
    gaps = n - endpoint
    numbers = e.multiply(count, e.divide(gap, gaps) if gaps > 0 else gap)
    numbers = e.add(numbers, first)
    if endpoint and n > 1:  # the end is itself, however the others round
        numbers = e.where(e.equal(wrap(places), n - 1), last, numbers)
    return astype(e.floor(numbers) if dtype.kind in "iu" else numbers, dtype, copy=False)


class Eye(
    Op,
    may_fail=False,
    name="eye",
    arity=0,
    gradient=Gradient.ZERO,
    traits=Trait.EXACT | Trait.KEEPS_FINITE,
    oracle="numpy.eye",
):
    """Ones on diagonal `offset`, zeros elsewhere."""

    rows: Natural
    columns: Natural
    offset: Annotated[int, Bounds()]
    dtype: DType

    def infer_shape(self, *shapes: Shape) -> Shape:
        return (self.rows, self.columns)

    def infer_dtype(self, *dtypes: DType) -> DType:
        return self.dtype


SOURCES: Final = (Arange, Linspace, Eye)
"""Ops whose elements follow from their places."""


@explain_bad_calls
def var(name: str | None = None, shape: int | Sequence[int] = (), dtype: Any = None) -> Array:
    """A variable: an input of graphs, whose value is given when they run.

    - `name`: what programs call it by, `program(price=...)`; without one each graph numbers it
      by its place there: `v1`, `v2`, ...  The variables of one graph have different names.
    - `shape`: its shape, as a tuple or one integer; `()` is a single number.
    - `dtype`: its dtype as NumPy names it, `"float32"` or `numpy.int64`; float64 when None.

    Gives an array without a value: whatever is computed from it is recorded, and computed
    when a graph is compiled and run.  Raises TypeError for a name that is no string.

        price = tw.var("price", (3,))
        total = np.sum(price) * 2
        total.shape                                   # -> ()
        double = tw.Graph([price], total).compile()
        float(double([1.0, 2.0, 3.0]))                # -> 12.0
    """
    if name is not None and (not isinstance(name, str) or not name):  # pyright: ignore[reportUnnecessaryIsInstance]
        said = f"; write shape={name!r} if it is the shape" if name else ""
        raise type_error("var", f"name must be a non-empty string, not {name!r}{said}")
    return wrap(variable(name, as_shape(shape, "var"), _dtype_or(dtype, dt.FLOAT64, "var")))


@public()
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: None = None,
    device: str | None = None,
) -> Array:
    """A new array of the given values, of `ndmin` axes or more.

    With `copy` None it may be the same, with False it must be.
    """
    del subok
    if ndmax:
        raise value_error("array", f"ndmax is {ndmax}; accepted: 0: elements are numbers")
    result = asarray(object, dtype, order, copy=copy, device=device, like=like)
    missing = as_int(ndmin, "array", "ndmin") - result.ndim
    if missing <= 0:
        return result
    return wrap(make(Copy(), (reshape_node(result.node, (1,) * missing + result.shape),)))


@public()
def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
    like: None = None,
) -> Array:
    """An array of the given values; data is copied, so changing it later changes nothing."""
    if order is not None or device is not None or like is not None:
        _check_creation("asarray", order, device, like)
    wanted = None if dtype is None else as_dtype(dtype, "asarray")
    if isinstance(a, Array):
        if wanted is None or wanted == a.dtype:
            return _copy(a) if copy else a
        if copy is False:
            raise value_error(
                "asarray", f"converting {a.dtype} to {wanted} needs a copy; copy=False forbids it"
            )
        return wrap(make(Cast(wanted), (a.node,)))
    if copy is False:
        raise value_error(
            "asarray", f"data of type {type(a).__name__} has to be copied; copy=False forbids it"
        )
    if isinstance(a, (list, tuple)):
        node = lift(a, "asarray")
        if node.value is None:
            return wrap(node) if wanted is None else wrap(make(Cast(wanted), (node,)))
    if wanted is not None and isinstance(a, int):  # perhaps too large for any integer dtype
        return wrap(constant(_numbers_as(a, wanted)))
    value = as_value(a, "asarray")
    if wanted is not None and wanted != value.dtype:
        arrays = isinstance(a, np.ndarray)
        value = value.astype(wanted) if arrays else _numbers_as(a, wanted)
    return wrap(constant(value))


def _numbers_as(obj: Any, wanted: DType) -> Value:
    """A number, or nested sequences of numbers, as an array; integers must fit."""
    try:
        return np.array(obj, dtype=wanted)
    except OverflowError as error:
        raise overflow_error("asarray", str(error)) from None


def _copy(x: Array) -> Array:
    return wrap(make(Copy(), (x.node,)))


@public()
def copy(a: ArrayLike, order: str | None = "K", subok: bool = False) -> Array:
    """A new array of the same value, which can be changed alone."""
    del subok
    check_layout(order, "copy")
    return wrap(make(Copy(), (lift(a, "copy"),)))


@public()
def astype(x: ArrayLike, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Array:
    """The values of `x` in another dtype."""
    check_device(device, "astype")
    node, wanted = lift(x, "astype"), as_dtype(dtype, "astype")
    if node.dtype == wanted:
        return wrap(make(Copy(), (node,))) if copy else view_of(x, node)
    if node.dtype.kind == "c" and wanted.kind != "c":
        raise type_error(
            "astype",
            f"operand 0 has dtype {node.dtype}, which has no {wanted} value; "
            "take np.real(x) or np.abs(x) first",
        )
    return wrap(make(Cast(wanted), (node,)))


@public()
def asanyarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
    like: None = None,
) -> Array:
    """`a` as an array; `asarray` does this too, since there is one class of arrays."""
    return asarray(a, dtype, order, device=device, copy=copy, like=like)


@public()
def ascontiguousarray(a: Any, dtype: Any = None, *, like: None = None) -> Array:
    """`a` as an array of one axis at least; every value is contiguous where it is given out."""
    result = asarray(a, dtype, like=like)
    return result if result.ndim else view_of(result, reshape_node(result.node, (1,)))


def convert(x: Array, dtype: Any, order: object, casting: str, copy: bool) -> Array:
    """`x.astype(...)`: the same values as another dtype, which `casting` must allow."""
    check_layout(order, "astype")
    wanted = as_dtype(dtype, "astype")
    if not dt.can_cast(x.dtype, wanted, casting):
        raise type_error("astype", f"{x.dtype} does not cast to {wanted} by casting={casting!r}")
    return astype(x, wanted, copy=copy)


PUBLIC_FUNCTIONS["convert"] = convert


@public()
def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """An array of the values another library exports.

    They are copied, unless `copy` is False: then the exporter must not change them any more.
    """
    check_device(device, "from_dlpack")
    check_unmasked(x, "from_dlpack", "operand 0")
    if copy is False:
        return wrap(borrowed_constant(np.from_dlpack(x, copy=False)))
    return wrap(constant(np.array(np.from_dlpack(x))))


def filled_array(value: Any, shape: Shape, dtype: DType, op: str) -> Array:
    """A new array with `value` everywhere."""
    node = value.node if isinstance(value, Array) else scalar(value, dtype, op)
    if node.dtype != dtype:
        node = make(Cast(dtype), (node,))
    return wrap(make(BroadcastTo(shape), (node,)))


def _dtype_or(dtype: Any, default: DType, op: str) -> DType:
    return default if dtype is None else as_dtype(dtype, op)


def _check_creation(op: str, order: object, device: object, like: object) -> None:
    """Refuse what a function that makes arrays takes, and this library has but one of."""
    check_layout(order, op)
    check_like(like, op)
    check_device(device, op)


@public()
def zeros(
    shape: int | Sequence[int],
    dtype: Any = None,
    order: str | None = "C",
    *,
    device: str | None = None,
    like: None = None,
) -> Array:
    """An array of zeros."""
    _check_creation("zeros", order, device, like)
    return filled_array(0, as_shape(shape, "zeros"), _dtype_or(dtype, dt.FLOAT64, "zeros"), "zeros")


@public()
def ones(
    shape: int | Sequence[int],
    dtype: Any = None,
    order: str | None = "C",
    *,
    device: str | None = None,
    like: None = None,
) -> Array:
    """An array of ones."""
    _check_creation("ones", order, device, like)
    return filled_array(1, as_shape(shape, "ones"), _dtype_or(dtype, dt.FLOAT64, "ones"), "ones")


@public()
def empty(
    shape: int | Sequence[int],
    dtype: Any = None,
    order: str | None = "C",
    *,
    device: str | None = None,
    like: None = None,
) -> Array:
    """An array whose values do not matter; they are zero."""
    _check_creation("empty", order, device, like)
    return filled_array(0, as_shape(shape, "empty"), _dtype_or(dtype, dt.FLOAT64, "empty"), "empty")


@public()
def full(
    shape: int | Sequence[int],
    fill_value: ArrayLike,
    dtype: Any = None,
    order: str | None = "C",
    *,
    device: str | None = None,
    like: None = None,
) -> Array:
    """An array with `fill_value` everywhere."""
    _check_creation("full", order, device, like)
    value = lift(fill_value, "full")
    wanted = _dtype_or(dtype, value.dtype, "full")
    if dt.is_weak(fill_value):
        return filled_array(fill_value, as_shape(shape, "full"), wanted, "full")
    return filled_array(wrap(value), as_shape(shape, "full"), wanted, "full")


@public()
def zeros_like(
    a: ArrayLike,
    dtype: Any = None,
    order: str | None = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Zeros of the shape and dtype of `a`."""
    del subok
    _check_creation("zeros_like", order, device, None)
    node = lift(a, "zeros_like")
    sizes = node.shape if shape is None else as_shape(shape, "zeros_like")
    return filled_array(0, sizes, _dtype_or(dtype, node.dtype, "zeros_like"), "zeros_like")


@public()
def ones_like(
    a: ArrayLike,
    dtype: Any = None,
    order: str | None = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Ones of the shape and dtype of `a`."""
    del subok
    _check_creation("ones_like", order, device, None)
    node = lift(a, "ones_like")
    sizes = node.shape if shape is None else as_shape(shape, "ones_like")
    return filled_array(1, sizes, _dtype_or(dtype, node.dtype, "ones_like"), "ones_like")


@public()
def empty_like(
    prototype: ArrayLike,
    /,
    dtype: Any = None,
    order: str | None = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Array:
    """An array of the shape and dtype of `prototype` whose values do not matter; they are zero."""
    del subok
    _check_creation("empty_like", order, device, None)
    node = lift(prototype, "empty_like")
    sizes = node.shape if shape is None else as_shape(shape, "empty_like")
    return filled_array(0, sizes, _dtype_or(dtype, node.dtype, "empty_like"), "empty_like")


@public()
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: Any = None,
    order: str | None = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Array:
    """`fill_value` everywhere, in the shape and dtype of `a`."""
    del subok
    _check_creation("full_like", order, device, None)
    node = lift(a, "full_like")
    wanted = _dtype_or(dtype, node.dtype, "full_like")
    value = fill_value if dt.is_weak(fill_value) else wrap(lift(fill_value, "full_like"))
    sizes = node.shape if shape is None else as_shape(shape, "full_like")
    return filled_array(value, sizes, wanted, "full_like")


@public()
def arange(
    start: Any = None,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    *,
    device: str | None = None,
    like: None = None,
) -> Array:
    """Numbers from `start` up to but not including `stop`, `step` apart.

    A single number is `stop`; then they start at 0.
    """
    check_like(like, "arange")
    check_device(device, "arange")
    if stop is None:
        start, stop = None, start
    if stop is None:
        raise type_error("arange", "no number came; give stop, or start and stop")
    start, step = 0 if start is None else start, 1 if step is None else step
    numbers = [
        _number(v, "arange", w) for v, w in ((start, "start"), (stop, "stop"), (step, "step"))
    ]
    first, last, stride = numbers
    if stride == 0:
        raise ZeroDivisionError(with_location("arange: step is 0; it must be positive or negative"))
    if isinstance(first, int) and isinstance(last, int) and isinstance(stride, int):
        default, length = dt.INT64, -((first - last) // stride)
    else:
        default, length = dt.FLOAT64, _length(first, last, stride)
    wanted, count = _dtype_or(dtype, default, "arange"), max(0, length)
    spacing: list[Any] = [start, step]
    if any(isinstance(v, Array) and is_traced(v.node) for v in spacing):
        return _arithmetic_progression(start, step, count, wanted)
    return emit(Arange(first, stride, count, wanted))


def _length(first: float, last: float, stride: float) -> int:
    """How many numbers lie from `first` up to but not including `last`."""
    steps = (last - first) / stride
    if not math.isfinite(steps):
        raise value_error(
            "arange", f"from {first} to {last} there is no number of steps of {stride}"
        )
    if steps == 0 and last != first:  # the quotient is less than any number, or the step infinite
        return int(math.copysign(1, steps) > 0)
    return math.ceil(steps)


def _arithmetic_progression(start: ArrayLike, step: ArrayLike, count: int, dtype: DType) -> Array:
    """`count` numbers from `start` on, `step` apart, whose slopes go back to both."""
    first, stride = (asarray(v, dtype=dtype).node for v in (start, step))
    numbers = make(Arange(0, 1, count, dtype))
    rises = make(ELEMENTWISE["multiply"], (numbers, stride))
    return wrap(make(ELEMENTWISE["add"], (first, rises)))


def _number(value: Any, op: str, word: str) -> int | float:
    if isinstance(value, Array):
        value = known_value(
            value, op, f"{word} must be known, since the result's shape depends on it"
        )
    if np.ndim(value) == 0 and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (int, float)):
        raise type_error(op, f"{word} must be a real number, not {type(value).__name__} {value!r}")
    return value


@public()
def eye(
    N: int,  # noqa: N803
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = float,
    order: str | None = "C",
    *,
    device: str | None = None,
    like: None = None,
) -> Array:
    """Ones on the `k`-th diagonal, zeros elsewhere."""
    _check_creation("eye", order, device, like)
    (rows,) = as_shape(as_int(N, "eye", "N"), "eye", "N")
    (columns,) = (rows,) if M is None else as_shape(as_int(M, "eye", "M"), "eye", "M")
    return emit(Eye(rows, columns, as_int(k, "eye", "k"), _dtype_or(dtype, dt.FLOAT64, "eye")))


@public()
def identity(n: int, dtype: Any = None, *, like: None = None) -> Array:
    """The square identity matrix."""
    return eye(n, dtype=dtype, like=like)
