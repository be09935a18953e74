"""Operators and NumPy's methods of `Array`: each calls the public function of its name.

`Array` stands below the chapters that define these functions, so it finds them in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tawny.bad_calls import explain_bad_calls

if TYPE_CHECKING:
    from tawny.array import Array, ArrayLike
    from tawny.ops.assignment import At

Axis = int | tuple[int, ...] | None

BinaryOperator = Callable[[Any, "ArrayLike"], "Array"]

PUBLIC_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""`numpy`'s names (`add`, `linalg.norm`), filled as the chapters are imported."""

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


def _is_sparse(kind: type) -> bool:
    """Whether a type is one of SciPy's sparse matrices, which know how to multiply."""
    return hasattr(kind, "tocsr") and not hasattr(kind, "__array_ufunc__")


def _comparison(name: str) -> BinaryOperator:
    """The operator that calls a function of two arrays."""

    def compare(self: Array, other: ArrayLike, /) -> Array:
        return _binary(name, self, other, other)

    return compare


def _arithmetic(name: str) -> tuple[BinaryOperator, BinaryOperator, BinaryOperator]:
    """Operators that call a function of two arrays: plain, reflected and in place."""

    def reflected(self: Array, other: ArrayLike, /) -> Array:
        return _binary(name, other, self, other)

    def in_place(self: Array, other: ArrayLike, /) -> Array:
        return _call("in_place", self, name, other)

    return _comparison(name), reflected, in_place


def _replace(array: Any, value: Any) -> None:
    """Let an array take other values, as `x[...] = value` does."""
    array[...] = value


class Methods:  # noqa: PLW1641  (Array hashes by identity)
    """The operators and methods of `Array`."""

    __slots__ = ()

    __add__, __radd__, __iadd__ = _arithmetic("add")
    __sub__, __rsub__, __isub__ = _arithmetic("subtract")
    __mul__, __rmul__, __imul__ = _arithmetic("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _arithmetic("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _arithmetic("floor_divide")
    __mod__, __rmod__, __imod__ = _arithmetic("remainder")
    __pow__, __rpow__, __ipow__ = _arithmetic("pow")
    __and__, __rand__, __iand__ = _arithmetic("bitwise_and")
    __or__, __ror__, __ior__ = _arithmetic("bitwise_or")
    __xor__, __rxor__, __ixor__ = _arithmetic("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _arithmetic("bitwise_left_shift")
    __rshift__, __rrshift__, __irshift__ = _arithmetic("bitwise_right_shift")
    __matmul__, __rmatmul__, __imatmul__ = _arithmetic("matmul")

    __lt__ = _comparison("less")
    __le__ = _comparison("less_equal")
    __gt__ = _comparison("greater")
    __ge__ = _comparison("greater_equal")

    def __eq__(self, other: ArrayLike, /) -> Array:  # type: ignore[override]
        return _binary("equal", self, other, other)

    def __ne__(self, other: ArrayLike, /) -> Array:  # type: ignore[override]
        return _binary("not_equal", self, other, other)

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
