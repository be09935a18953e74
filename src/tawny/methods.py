"""Operators and NumPy's methods of `Array`: each calls the public function of its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tawny.bad_calls import explain_bad_calls
from tawny.registry import PUBLIC_FUNCTIONS

if TYPE_CHECKING:
    from tawny.array import Array, ArrayLike
    from tawny.ops.scatter import At

Axis = int | tuple[int, ...] | None

_FOREIGN: Final = frozenset({str, bytes, dict, set})
"""Types that are no operands: the operator is left to them."""


def _call(name: str, *args: Any, **kwargs: Any) -> Array:
    result: Array = PUBLIC_FUNCTIONS[name](*args, **kwargs)
    return result


def _binary(name: str, left: Any, right: Any, other: object) -> Array:
    kind = type(other)
    if other is None or kind in _FOREIGN or getattr(kind, "__array_ufunc__", True) is None:
        return NotImplemented  # type: ignore[no-any-return]
    if name == "matmul" and _is_sparse(kind):
        return NotImplemented  # type: ignore[no-any-return]
    return _call(name, left, right)


def _replace(array: Any, value: Any) -> None:
    """Let an array take other values, as `x[...] = value` does."""
    array[...] = value


def _is_sparse(kind: type) -> bool:
    """Whether a type is one of SciPy's sparse matrices, which know how to multiply."""
    return hasattr(kind, "tocsr") and not hasattr(kind, "__array_ufunc__")


class Methods:  # noqa: PLW1641  (Array hashes by identity)
    """What `Array` offers beyond its own facts."""

    __slots__ = ()

    def __add__(self, other: ArrayLike, /) -> Array:
        return _binary("add", self, other, other)

    def __radd__(self, other: ArrayLike, /) -> Array:
        return _binary("add", other, self, other)

    def __iadd__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "add", other)

    def __sub__(self, other: ArrayLike, /) -> Array:
        return _binary("subtract", self, other, other)

    def __rsub__(self, other: ArrayLike, /) -> Array:
        return _binary("subtract", other, self, other)

    def __isub__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "subtract", other)

    def __mul__(self, other: ArrayLike, /) -> Array:
        return _binary("multiply", self, other, other)

    def __rmul__(self, other: ArrayLike, /) -> Array:
        return _binary("multiply", other, self, other)

    def __imul__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "multiply", other)

    def __truediv__(self, other: ArrayLike, /) -> Array:
        return _binary("divide", self, other, other)

    def __rtruediv__(self, other: ArrayLike, /) -> Array:
        return _binary("divide", other, self, other)

    def __itruediv__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "divide", other)

    def __floordiv__(self, other: ArrayLike, /) -> Array:
        return _binary("floor_divide", self, other, other)

    def __rfloordiv__(self, other: ArrayLike, /) -> Array:
        return _binary("floor_divide", other, self, other)

    def __ifloordiv__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "floor_divide", other)

    def __mod__(self, other: ArrayLike, /) -> Array:
        return _binary("remainder", self, other, other)

    def __rmod__(self, other: ArrayLike, /) -> Array:
        return _binary("remainder", other, self, other)

    def __imod__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "remainder", other)

    def __pow__(self, other: ArrayLike, /) -> Array:
        return _binary("pow", self, other, other)

    def __rpow__(self, other: ArrayLike, /) -> Array:
        return _binary("pow", other, self, other)

    def __ipow__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "pow", other)

    def __and__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_and", self, other, other)

    def __rand__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_and", other, self, other)

    def __iand__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "bitwise_and", other)

    def __or__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_or", self, other, other)

    def __ror__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_or", other, self, other)

    def __ior__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "bitwise_or", other)

    def __xor__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_xor", self, other, other)

    def __rxor__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_xor", other, self, other)

    def __ixor__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "bitwise_xor", other)

    def __lshift__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_left_shift", self, other, other)

    def __rlshift__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_left_shift", other, self, other)

    def __ilshift__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "bitwise_left_shift", other)

    def __rshift__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_right_shift", self, other, other)

    def __rrshift__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_right_shift", other, self, other)

    def __irshift__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "bitwise_right_shift", other)

    def __matmul__(self, other: ArrayLike, /) -> Array:
        return _binary("matmul", self, other, other)

    def __rmatmul__(self, other: ArrayLike, /) -> Array:
        return _binary("matmul", other, self, other)

    def __imatmul__(self, other: ArrayLike, /) -> Array:
        return _call("in_place", self, "matmul", other)

    def __eq__(self, other: ArrayLike, /) -> Array:  # type: ignore[override]
        return _binary("equal", self, other, other)

    def __ne__(self, other: ArrayLike, /) -> Array:  # type: ignore[override]
        return _binary("not_equal", self, other, other)

    def __lt__(self, other: ArrayLike, /) -> Array:
        return _binary("less", self, other, other)

    def __le__(self, other: ArrayLike, /) -> Array:
        return _binary("less_equal", self, other, other)

    def __gt__(self, other: ArrayLike, /) -> Array:
        return _binary("greater", self, other, other)

    def __ge__(self, other: ArrayLike, /) -> Array:
        return _binary("greater_equal", self, other, other)

    def __neg__(self) -> Array:
        return _call("negative", self)

    def __pos__(self) -> Array:
        return _call("positive", self)

    def __abs__(self) -> Array:
        return _call("abs", self)

    def __invert__(self) -> Array:
        return _call("bitwise_invert", self)

    def __divmod__(self, other: ArrayLike, /) -> tuple[Array, Array]:
        result: tuple[Array, Array] = PUBLIC_FUNCTIONS["divmod"](self, other)
        return result

    def __rdivmod__(self, other: ArrayLike, /) -> tuple[Array, Array]:
        result: tuple[Array, Array] = PUBLIC_FUNCTIONS["divmod"](other, self)
        return result

    def __contains__(self, value: ArrayLike, /) -> bool:
        return bool(_call("any", _call("equal", self, value)))

    def __getitem__(self, key: Any, /) -> Array:
        return _call("getitem", self, key)

    @property
    def at(self) -> At:
        """Functional updates: `x.at[i].set(v)`, `.add`, `.mul`, `.min`, `.max`."""
        at: At = PUBLIC_FUNCTIONS["at"](self)
        return at

    @property
    def T(self) -> Array:  # noqa: N802
        """The transpose of a matrix; all axes reversed for other ranks."""
        return _call("transpose", self)

    @property
    def mT(self) -> Array:  # noqa: N802
        """The last two axes exchanged."""
        return _call("matrix_transpose", self)

    @property
    def real(self) -> Array:
        """The real part."""
        return _call("real", self)

    @property
    def imag(self) -> Array:
        """The imaginary part."""
        return _call("imag", self)

    @explain_bad_calls
    def conj(self) -> Array:
        """The complex conjugate."""
        return _call("conj", self)

    @explain_bad_calls
    def conjugate(self) -> Array:
        """The complex conjugate."""
        return _call("conj", self)

    @explain_bad_calls
    def astype(
        self,
        dtype: Any,
        order: str | None = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Array:
        """The array's values in another dtype, which `casting` must allow."""
        return _call("convert", self, dtype, order, casting, copy)

    @explain_bad_calls
    def copy(self, order: str | None = "C") -> Array:
        """A new array of the same value."""
        return _call("copy", self, order)

    @explain_bad_calls
    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Array:
        """The array's elements in another shape."""
        sizes = shape[0] if len(shape) == 1 else shape
        return _call("reshape", self, sizes, order, copy=copy)

    @explain_bad_calls
    def transpose(self, *axes: Any) -> Array:
        """The axes permuted; reversed when none are given."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            return _call("transpose", self, axes[0])
        return _call("transpose", self, axes or None)

    @explain_bad_calls
    def swapaxes(self, axis1: int, axis2: int, /) -> Array:
        """Two axes exchanged."""
        return _call("swapaxes", self, axis1, axis2)

    @explain_bad_calls
    def squeeze(self, axis: Axis = None) -> Array:
        """Axes of size 1 removed."""
        return _call("squeeze", self, axis)

    @explain_bad_calls
    def flatten(self, order: str = "C") -> Array:
        """All elements on one axis, as a copy."""
        return _call("ravel", self, order).__copy__()

    @explain_bad_calls
    def ravel(self, order: str = "C") -> Array:
        """All elements on one axis."""
        return _call("ravel", self, order)

    @explain_bad_calls
    def dot(self, other: ArrayLike, /, out: Any = None) -> Array:
        """NumPy's dot product."""
        return _call("dot", self, other, out)

    @explain_bad_calls
    def sum(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Array:
        """Sum over axes."""
        return _call("sum", self, axis, dtype, out, keepdims, initial, where)

    @explain_bad_calls
    def prod(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Array:
        """Product over axes."""
        return _call("prod", self, axis, dtype, out, keepdims, initial, where)

    @explain_bad_calls
    def mean(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
    ) -> Array:
        """Mean over axes."""
        return _call("mean", self, axis, dtype, out, keepdims, where=where)

    @explain_bad_calls
    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array:
        """Variance over axes."""
        options = {"where": where, "mean": mean, "correction": correction}
        return _call("var", self, axis, dtype, out, ddof, keepdims, **options)

    @explain_bad_calls
    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array:
        """Standard deviation over axes."""
        options = {"where": where, "mean": mean, "correction": correction}
        return _call("std", self, axis, dtype, out, ddof, keepdims, **options)

    @explain_bad_calls
    def min(
        self,
        axis: Axis = None,
        out: Any = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Array:
        """Least element over axes."""
        return _call("min", self, axis, out, keepdims, initial, where)

    @explain_bad_calls
    def max(
        self,
        axis: Axis = None,
        out: Any = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Array:
        """Greatest element over axes."""
        return _call("max", self, axis, out, keepdims, initial, where)

    @explain_bad_calls
    def argmin(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Array:
        """Index of the least element."""
        return _call("argmin", self, axis, out, keepdims=keepdims)

    @explain_bad_calls
    def argmax(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Array:
        """Index of the greatest element."""
        return _call("argmax", self, axis, out, keepdims=keepdims)

    @explain_bad_calls
    def any(
        self,
        axis: Axis = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
    ) -> Array:
        """Whether some element is true."""
        return _call("any", self, axis, out, keepdims, where=where)

    @explain_bad_calls
    def all(
        self,
        axis: Axis = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
    ) -> Array:
        """Whether every element is true."""
        return _call("all", self, axis, out, keepdims, where=where)

    @explain_bad_calls
    def cumsum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Array:
        """Running sum."""
        return _call("cumsum", self, axis, dtype, out)

    @explain_bad_calls
    def cumprod(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Array:
        """Running product."""
        return _call("cumprod", self, axis, dtype, out)

    @explain_bad_calls
    def clip(self, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Array:
        """Elements limited to an interval."""
        return _call("clip", self, min, max, out, **kwargs)

    @explain_bad_calls
    def round(self, decimals: int = 0, out: Any = None) -> Array:
        """Elements rounded to `decimals`."""
        return _call("round", self, decimals, out)

    @explain_bad_calls
    def take(
        self, indices: ArrayLike, /, axis: int | None = None, out: Any = None, mode: str = "raise"
    ) -> Array:
        """Elements at `indices`."""
        return _call("take", self, indices, axis, out, mode)

    @explain_bad_calls
    def choose(
        self, choices: Sequence[ArrayLike] | ArrayLike, out: Any = None, mode: str = "raise"
    ) -> Array:
        """At each place the element of the choice that is numbered there."""
        return _call("choose", self, choices, out, mode)

    @explain_bad_calls
    def compress(self, condition: ArrayLike, axis: int | None = None, out: Any = None) -> Array:
        """The slices along `axis` that `condition` marks."""
        return _call("compress", condition, self, axis, out)

    @explain_bad_calls
    def repeat(self, repeats: Any, /, axis: int | None = None) -> Array:
        """Each element repeated."""
        return _call("repeat", self, repeats, axis)

    @explain_bad_calls
    def searchsorted(
        self, v: ArrayLike, /, side: str = "left", sorter: ArrayLike | None = None
    ) -> Array:
        """Where among these sorted elements those of `v` belong."""
        return _call("searchsorted", self, v, side, sorter)

    @explain_bad_calls
    def argsort(
        self,
        axis: int | None = -1,
        kind: str | None = None,
        order: None = None,
        *,
        stable: bool | None = None,
        descending: bool | None = None,
    ) -> Array:
        """Indices that sort."""
        options = {"stable": stable, "descending": bool(descending)}
        return _call("argsort", self, axis, kind, order, **options)

    @explain_bad_calls
    def argpartition(
        self,
        kth: Any,
        /,
        axis: int | None = -1,
        kind: str = "introselect",
        order: None = None,
    ) -> Array:
        """Indices that put the `kth` elements where sorting puts them."""
        return _call("argpartition", self, kth, axis, kind, order)

    @explain_bad_calls
    def nonzero(self) -> tuple[Array, ...]:
        """Indices of the elements that are not zero."""
        result: tuple[Array, ...] = PUBLIC_FUNCTIONS["nonzero"](self)
        return result

    @explain_bad_calls
    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: Any = None,
        out: Any = None,
    ) -> Array:
        """Sum of a diagonal."""
        return _call("trace", self, offset, axis1, axis2, dtype, out)

    @explain_bad_calls
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """A diagonal."""
        return _call("diagonal", self, offset, axis1, axis2)

    # ------------------------------------------------- what changes the array itself

    @explain_bad_calls
    def sort(
        self,
        axis: int = -1,
        kind: str | None = None,
        order: None = None,
        *,
        stable: bool | None = None,
        descending: bool | None = None,
    ) -> None:
        """Put the elements of this array in order; `np.sort(x)` gives another."""
        options = {"stable": stable, "descending": bool(descending)}
        _replace(self, _call("sort", self, axis, kind, order, **options))

    @explain_bad_calls
    def partition(
        self, kth: Any, /, axis: int = -1, kind: str = "introselect", order: None = None
    ) -> None:
        """Put the `kth` elements of this array where sorting puts them."""
        _replace(self, _call("partition", self, kth, axis, kind, order))

    @explain_bad_calls
    def fill(self, value: ArrayLike) -> None:
        """Put `value` everywhere in this array."""
        _replace(self, value)

    @explain_bad_calls
    def put(self, indices: ArrayLike, values: ArrayLike, /, mode: str = "raise") -> None:
        """Put `values` at `indices` of this array, as if it were flat."""
        PUBLIC_FUNCTIONS["put"](self, indices, values, mode)
