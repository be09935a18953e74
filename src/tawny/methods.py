"""Operators and NumPy's methods of `Array`: each calls the public function of its name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from tawny.calling import guarded
from tawny.registry import FUNCTIONS

if TYPE_CHECKING:
    from tawny.array import Array, ArrayLike
    from tawny.ops.scatter import At

Axis = int | tuple[int, ...] | None

_FOREIGN: Final = frozenset({str, bytes, dict, set})
"""Types that are no operands: the operator is left to them."""


def _call(name: str, *args: Any, **kwargs: Any) -> Array:
    result: Array = FUNCTIONS[name](*args, **kwargs)
    return result


def _binary(name: str, left: Any, right: Any, other: object) -> Array:
    kind = type(other)
    if other is None or kind in _FOREIGN or getattr(kind, "__array_ufunc__", True) is None:
        return NotImplemented  # type: ignore[no-any-return]
    return _call(name, left, right)


class Methods:  # noqa: PLW1641  (Array hashes by identity)
    """What `Array` offers beyond its own facts."""

    __slots__ = ()

    def __add__(self, other: ArrayLike, /) -> Array:
        return _binary("add", self, other, other)

    def __radd__(self, other: ArrayLike, /) -> Array:
        return _binary("add", other, self, other)

    def __iadd__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "add", other, holders)

    def __sub__(self, other: ArrayLike, /) -> Array:
        return _binary("subtract", self, other, other)

    def __rsub__(self, other: ArrayLike, /) -> Array:
        return _binary("subtract", other, self, other)

    def __isub__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "subtract", other, holders)

    def __mul__(self, other: ArrayLike, /) -> Array:
        return _binary("multiply", self, other, other)

    def __rmul__(self, other: ArrayLike, /) -> Array:
        return _binary("multiply", other, self, other)

    def __imul__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "multiply", other, holders)

    def __truediv__(self, other: ArrayLike, /) -> Array:
        return _binary("divide", self, other, other)

    def __rtruediv__(self, other: ArrayLike, /) -> Array:
        return _binary("divide", other, self, other)

    def __itruediv__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "divide", other, holders)

    def __floordiv__(self, other: ArrayLike, /) -> Array:
        return _binary("floor_divide", self, other, other)

    def __rfloordiv__(self, other: ArrayLike, /) -> Array:
        return _binary("floor_divide", other, self, other)

    def __ifloordiv__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "floor_divide", other, holders)

    def __mod__(self, other: ArrayLike, /) -> Array:
        return _binary("remainder", self, other, other)

    def __rmod__(self, other: ArrayLike, /) -> Array:
        return _binary("remainder", other, self, other)

    def __imod__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "remainder", other, holders)

    def __pow__(self, other: ArrayLike, /) -> Array:
        return _binary("pow", self, other, other)

    def __rpow__(self, other: ArrayLike, /) -> Array:
        return _binary("pow", other, self, other)

    def __ipow__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "pow", other, holders)

    def __and__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_and", self, other, other)

    def __rand__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_and", other, self, other)

    def __iand__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "bitwise_and", other, holders)

    def __or__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_or", self, other, other)

    def __ror__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_or", other, self, other)

    def __ior__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "bitwise_or", other, holders)

    def __xor__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_xor", self, other, other)

    def __rxor__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_xor", other, self, other)

    def __ixor__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "bitwise_xor", other, holders)

    def __lshift__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_left_shift", self, other, other)

    def __rlshift__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_left_shift", other, self, other)

    def __ilshift__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "bitwise_left_shift", other, holders)

    def __rshift__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_right_shift", self, other, other)

    def __rrshift__(self, other: ArrayLike, /) -> Array:
        return _binary("bitwise_right_shift", other, self, other)

    def __irshift__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "bitwise_right_shift", other, holders)

    def __matmul__(self, other: ArrayLike, /) -> Array:
        return _binary("matmul", self, other, other)

    def __rmatmul__(self, other: ArrayLike, /) -> Array:
        return _binary("matmul", other, self, other)

    def __imatmul__(self, other: ArrayLike, /) -> Array:
        holders = sys.getrefcount(self)
        return _call("in_place", self, "matmul", other, holders)

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
        result: tuple[Array, Array] = FUNCTIONS["divmod"](self, other)
        return result

    def __rdivmod__(self, other: ArrayLike, /) -> tuple[Array, Array]:
        result: tuple[Array, Array] = FUNCTIONS["divmod"](other, self)
        return result

    def __contains__(self, value: ArrayLike, /) -> bool:
        return bool(_call("any", _call("equal", self, value)))

    def __getitem__(self, key: Any, /) -> Array:
        return _call("getitem", self, key)

    @property
    def at(self) -> At:
        """Functional updates: `x.at[i].set(v)`, `.add`, `.mul`, `.min`, `.max`."""
        at: At = FUNCTIONS["at"](self)
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

    @guarded
    def conj(self) -> Array:
        """The complex conjugate."""
        return _call("conj", self)

    @guarded
    def astype(self, dtype: Any, copy: bool = True) -> Array:
        """The same values as another dtype."""
        return _call("astype", self, dtype, copy=copy)

    @guarded
    def copy(self) -> Array:
        """A new array of the same value."""
        return _call("copy", self)

    @guarded
    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """The same elements in another shape."""
        return _call("reshape", self, shape[0] if len(shape) == 1 else shape, order=order)

    @guarded
    def transpose(self, *axes: Any) -> Array:
        """The axes permuted; reversed when none are given."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            return _call("transpose", self, axes[0])
        return _call("transpose", self, axes or None)

    @guarded
    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Two axes exchanged."""
        return _call("swapaxes", self, axis1, axis2)

    @guarded
    def squeeze(self, axis: Axis = None) -> Array:
        """Axes of size 1 removed."""
        return _call("squeeze", self, axis)

    @guarded
    def flatten(self) -> Array:
        """All elements on one axis."""
        return _call("ravel", self)

    @guarded
    def ravel(self) -> Array:
        """All elements on one axis."""
        return _call("ravel", self)

    @guarded
    def dot(self, other: ArrayLike) -> Array:
        """NumPy's dot product."""
        return _call("dot", self, other)

    @guarded
    def sum(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
        """Sum over axes."""
        return _call("sum", self, axis=axis, dtype=dtype, keepdims=keepdims)

    @guarded
    def prod(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
        """Product over axes."""
        return _call("prod", self, axis=axis, dtype=dtype, keepdims=keepdims)

    @guarded
    def mean(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
        """Mean over axes."""
        return _call("mean", self, axis=axis, dtype=dtype, keepdims=keepdims)

    @guarded
    def var(self, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Array:
        """Variance over axes."""
        return _call("var", self, axis=axis, correction=ddof, keepdims=keepdims)

    @guarded
    def std(self, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Array:
        """Standard deviation over axes."""
        return _call("std", self, axis=axis, correction=ddof, keepdims=keepdims)

    @guarded
    def min(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Least element over axes."""
        return _call("min", self, axis=axis, keepdims=keepdims)

    @guarded
    def max(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Greatest element over axes."""
        return _call("max", self, axis=axis, keepdims=keepdims)

    @guarded
    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Index of the least element."""
        return _call("argmin", self, axis=axis, keepdims=keepdims)

    @guarded
    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Index of the greatest element."""
        return _call("argmax", self, axis=axis, keepdims=keepdims)

    @guarded
    def any(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Whether some element is true."""
        return _call("any", self, axis=axis, keepdims=keepdims)

    @guarded
    def all(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Whether every element is true."""
        return _call("all", self, axis=axis, keepdims=keepdims)

    @guarded
    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Array:
        """Running sum."""
        return _call("cumsum", self, axis=axis, dtype=dtype)

    @guarded
    def cumprod(self, axis: int | None = None, dtype: Any = None) -> Array:
        """Running product."""
        return _call("cumprod", self, axis=axis, dtype=dtype)

    @guarded
    def clip(self, min: Any = None, max: Any = None) -> Array:
        """Elements limited to an interval."""
        return _call("clip", self, min, max)

    @guarded
    def round(self, decimals: int = 0) -> Array:
        """Elements rounded to `decimals`."""
        return _call("round", self, decimals)

    @guarded
    def take(self, indices: ArrayLike, axis: int | None = None) -> Array:
        """Elements at `indices`."""
        return _call("take", self, indices, axis=axis)

    @guarded
    def repeat(self, repeats: Any, axis: int | None = None) -> Array:
        """Each element repeated."""
        return _call("repeat", self, repeats, axis=axis)

    @guarded
    def argsort(self, axis: int = -1) -> Array:
        """Indices that sort."""
        return _call("argsort", self, axis=axis)

    @guarded
    def nonzero(self) -> tuple[Array, ...]:
        """Indices of the elements that are not zero."""
        result: tuple[Array, ...] = FUNCTIONS["nonzero"](self)
        return result

    @guarded
    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """Sum of a diagonal."""
        return _call("trace", self, offset=offset, axis1=axis1, axis2=axis2)

    @guarded
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """A diagonal."""
        return _call("diagonal", self, offset=offset, axis1=axis1, axis2=axis2)
