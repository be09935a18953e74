"""The lazy array a user holds: a name for a node, with NumPy's operators and protocols.

A node never changes, and every array is a handle of its own for one.  `x[i] = v` moves the handle
to a new node, which all names of the handle see; `x += v` makes a new handle, which only the name
`x` is given.  Whatever was computed from `x` before stays as it was.
"""

from __future__ import annotations

import enum
import importlib
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast, final

import numpy as np
import numpy.typing as npt

from tawny import dtype as dt
from tawny import pages
from tawny.dtype import DType, Number, kind_of
from tawny.dtype_rules import DTypeRule
from tawny.errors import blocked_operand_error, needs_values, type_error, value_error
from tawny.foreign_attributes import array_counterpart, is_in_blocks, raise_missing
from tawny.methods import PUBLIC_FUNCTIONS, Methods
from tawny.node import (
    Constant,
    Node,
    Value,
    Variable,
    constant,
    scalar,
    store_value,
    toposort,
    variables,
)
from tawny.op import Gradient, Trait
from tawny.shape import Shape, size
from tawny.tree import items_of

Evaluator = Callable[[Sequence[Node]], list[Value]]

DEFAULT_ENGINES: Final = "tawny.engine.evaluation"
"""The module that says who evaluates; it stands above this one and is loaded on demand."""

PICKLING: Final = "tawny.graph.pickling"
"""The module that knows how arrays are written; it stands above this one too."""

FORMULAS: Final = "tawny.formulas.latex"
"""The module that writes formulas for notebooks, above this one as well."""

_evaluate: Evaluator | None = None


def set_evaluator(evaluate: Evaluator) -> None:
    """Say which engine computes arrays that are asked for their values."""
    global _evaluate
    _evaluate = evaluate


def evaluator() -> Evaluator:
    """The engine that computes arrays asked for their values, loaded at the first question."""
    if _evaluate is None:
        importlib.import_module(DEFAULT_ENGINES)
    assert _evaluate is not None, f"{DEFAULT_ENGINES} sets the evaluator"
    return _evaluate


EagerCompute = Callable[[Node], Value]

EAGER_COMPUTE: Final[ContextVar[EagerCompute | None]] = ContextVar("eager_compute", default=None)
"""What computes arrays as they are made; None while they are lazy."""


@final
class Array(Methods):
    """A lazy array: shape and dtype are known, the value is computed when asked for.

    Arrays come from `tw.var`, from the functions of `tawny.numpy`, and from operators on other
    arrays; this class is not called directly.

        x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
        x.at[0, 0].set(9.0).numpy().tolist()          # -> [[9.0, 2.0], [3.0, 4.0]]
        float((x.T @ x).sum())                        # -> 58.0
        x.sum(0).numpy().tolist()                     # -> [4.0, 6.0]
    """

    __slots__ = ("__weakref__", "_former", "_node")

    _node: Node
    _former: Node
    """The variable this array stood for until it was assigned to; there for such arrays alone."""

    # ------------------------------------------------------------------ facts

    @property
    def node(self) -> Node:
        """The vertex of the graph that this array names."""
        return self._node

    @property
    def name(self) -> str | None:
        """The name given to a variable, or by `tawny.numpy.name`; None for all others."""
        op = self._node.op
        if isinstance(op, Variable):
            return op.name or None
        return next((s.name for s in self._node.sources if s.name), None)

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self._node.shape

    @property
    def dtype(self) -> DType:
        """Data type of the elements."""
        return self._node.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._node.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return size(self._node.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._node.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the whole value."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        """Where the value will live."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: None = None) -> Array:
        """The array on `device`, which must be "cpu"."""
        check_device(device, "to_device")
        if stream is not None:
            raise value_error("to_device", f"stream must be None on the cpu, not {stream!r}")
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise type_error("len", "an array with no axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise type_error("iter", "an array with no axes cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        node = self._node
        if isinstance(node.op, Constant) and node.value is not None:
            body = np.array2string(node.value, separator=", ", threshold=100, prefix="Array(")
            return f"Array({body}, dtype={node.dtype})"
        name = isinstance(node.op, Variable) and node.op.name
        kind = f"variable {name!r}" if name else node.op.label
        where = f", {node.sources[0]}" if node.sources else ""
        return f"Array({kind}: {node.dtype}{list(node.shape)}{where})"

    def _repr_latex_(self) -> str | None:
        """The formula of a small graph, for notebooks; None of everything else."""
        shown: str | None = importlib.import_module(FORMULAS).notebook_latex(self._node)
        return shown

    if not TYPE_CHECKING:  # which would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise_missing(self, "Array", name, array_counterpart(name))

    # ----------------------------------------------------------------- values

    def numpy(self) -> Value:
        """The value, computed once and kept; read-only."""
        return value_outside(self, "numpy")

    def item(self, *args: Any) -> Number:
        """The only element, or the one at an index (of the flat array if it is one number)."""
        if not args:
            number: Number = self._element("item")
            return number
        key = args[0] if len(args) == 1 else args
        source = self if isinstance(key, tuple) else self.ravel()
        return source[key].item()

    def tobytes(self, order: str | None = "C") -> bytes:
        """The bytes of the value, row by row ("C") or column by column ("F")."""
        return value_outside(self, "tobytes").tobytes(cast("Any", order))

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers."""
        return value_outside(self, "tolist").tolist()

    def _element(self, op: str) -> Any:
        if self.size != 1:
            raise type_error(
                op, f"only an array of one element converts to a number, not shape {self.shape}"
            )
        value = value_of(self, op) if op == "bool" else value_outside(self, op)
        return value.item()

    def __bool__(self) -> bool:
        if not self._node.known:
            raise needs_values(
                "bool",
                variables([self._node]),
                "a graph cannot branch on it: use np.where(condition, yes, no), tw.cond, which "
                "computes one of two branches, or tw.delay for a Python function",
            )
        if self.size != 1:
            raise value_error(
                "bool",
                f"the truth value of an array of shape {self.shape} is ambiguous; "
                "use np.any or np.all",
            )
        return bool(self._element("bool"))

    def __int__(self) -> int:
        return int(self._element("int"))

    def __float__(self) -> float:
        return float(self._element("float"))

    def __complex__(self) -> complex:
        return complex(self._element("complex"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise type_error(
                "index",
                "only an integer array with no axes is an index, "
                f"not {self.dtype} of shape {self.shape}",
            )
        if not self._node.known:
            raise needs_values(
                "index",
                variables([self._node]),
                "Python's sequences and loops need numbers: np.take(x, i) picks elements of an "
                "array, tw.fori_loop(0, n, f, x) repeats a function",
            )
        return int(self._element("index"))

    def __round__(self, ndigits: int | None = None) -> Any:
        if ndigits is None and self._node.known and not self.shape:
            return round(self._element("round"))  # an integer of Python, as of NumPy's numbers
        return PUBLIC_FUNCTIONS["round"](self, ndigits or 0)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Value:
        value = value_outside(self, "asarray")
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise value_error(
                    "asarray",
                    f"converting {value.dtype} to {dtype} needs a copy; copy=False forbids it",
                )
            return value.astype(dtype)
        return value.copy() if copy else value

    # -------------------------------------------------------------- protocols

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version is not None and api_version not in API_VERSIONS:
            raise value_error(
                "__array_namespace__",
                f"api_version {api_version!r} is not known; accepted: {', '.join(API_VERSIONS)}",
            )
        return sys.modules["tawny.numpy"]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return PUBLIC_FUNCTIONS["__array_ufunc__"](ufunc, method, inputs, kwargs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        del types
        return PUBLIC_FUNCTIONS["__array_function__"](func, args, kwargs)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if stream is not None:
            raise value_error("__dlpack__", f"stream must be None on the cpu, not {stream!r}")
        value = value_outside(self, "__dlpack__")
        if max_version is None or max_version < (1, 0):  # such consumers know no read-only flag
            if copy is False:  # asked for the memory itself, so it is theirs not to write to
                return _writable_view(value).__dlpack__(stream=stream, dl_device=dl_device)
            value = value.copy()
        return value.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    # --------------------------------------------------------------- mutation

    def __setitem__(self, key: Any, value: Any) -> None:
        check_no_view(self, "setitem")
        _rebind(self, PUBLIC_FUNCTIONS["setitem"](self, key, value).node)

    def __delitem__(self, key: Any) -> NoReturn:
        raise value_error(
            "delitem",
            "elements of arrays cannot be deleted; np.delete(x, i) gives an array without",
        )

    def __copy__(self) -> Array:
        return wrap(self._node)

    def __deepcopy__(self, memo: object) -> Array:
        return wrap(self._node)

    def __reduce__(self) -> Any:
        if not self._node.known:
            raise needs_values(
                "pickle",
                variables([self._node]),
                "put it into a tw.Graph and pickle that, or save the graph",
            )
        value = value_outside(self, "pickle")
        return importlib.import_module(PICKLING).reduce_array(value)

    def __format__(self, spec: str) -> str:
        return format(self._element("format"), spec) if spec else str(self)


def _rebind(array: Array, node: Node) -> None:
    """Let an array stand for `node`, under all its names."""
    left = array.node
    _note_former(array, left)
    if left.handle is not None and left.handle() is array:
        left.handle = None
    array._node = node  # pyright: ignore[reportPrivateUsage]
    _note_handle(node, array)


def _note_former(array: Array, left: Node) -> None:
    """Remember which variable an array stood for, if it was one."""
    if type(left.op) is Variable:
        array._former = left  # pyright: ignore[reportPrivateUsage]


def _note_handle(node: Node, array: Array) -> None:
    """Let `node` know an array that stands for it; it knows the oldest that is held."""
    handle = node.handle
    if handle is None or handle() is None:
        node.handle = weakref.ref(array)


def former_variable(x: Array) -> Node | None:
    """The variable that `x` stood for until it was assigned to."""
    return getattr(x, "_former", None)


def in_place(x: Array, name: str, other: Any) -> Array:
    """The result of an augmented assignment to `x` with the function called `name`.

    It is a new array of the shape and dtype of `x`, as NumPy's operators in place keep them.
    """
    result: Array = PUBLIC_FUNCTIONS[name](x, other)
    if result.shape != x.shape:
        raise value_error(
            name, f"the result has shape {result.shape}; in place it must keep shape {x.shape}"
        )
    if result.dtype != x.dtype:
        if not dt.can_cast(result.dtype, x.dtype, "same_kind"):
            raise type_error(
                name, f"the result has dtype {result.dtype}; in place it must cast to {x.dtype}"
            )
        result = PUBLIC_FUNCTIONS["astype"](result, x.dtype)
    _note_former(result, x.node)
    return result


PUBLIC_FUNCTIONS["in_place"] = in_place

Out = Any
"""What a result is written into: a lazy array, one in a tuple, or None."""


def store(out: Out, result: Array, op: str) -> Array:
    """Let the array `out` stand for `result`, as NumPy writes a result into its `out`.

    Without `out` the result is given as it is.
    """
    if out is None:
        return result
    targets = items_of(out)
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(target, Array):
        raise type_error(
            op,
            f"out is {type(out if target is None else target).__name__}; accepted: a lazy array, "
            "which then stands for the result, or None: use the result",
        )
    if isinstance(target.node.op, Variable):
        raise value_error(
            op,
            f"out is variable {target.node.name!r}, and what else reads it would not see the "
            "change; use the result",
        )
    check_no_view(target, op)
    if result.shape != target.shape:
        raise value_error(
            op, f"out has shape {target.shape}; it must have that of the result, {result.shape}"
        )
    if result.dtype != target.dtype:
        if not dt.can_cast(result.dtype, target.dtype, "same_kind"):
            raise type_error(
                op,
                f"out has dtype {target.dtype}; the result of dtype {result.dtype} must cast to it",
            )
        result = PUBLIC_FUNCTIONS["astype"](result, target.dtype)
    _rebind(target, result.node)
    return target


API_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
ArrayLike = Array | npt.ArrayLike


def wrap(node: Node) -> Array:
    """A new array that stands for `node`."""
    array = object.__new__(Array)
    array._node = node  # pyright: ignore[reportPrivateUsage]
    if node.handle is None:
        node.handle = weakref.ref(array)
    else:
        _note_handle(node, array)
    if (compute := EAGER_COMPUTE.get()) is not None and _can_be_computed(node):
        store_value(node, compute(node))
    return array


def view_of(x: Any, node: Node) -> Array:
    """The array that stands for `node`, a view of `x`: `x` itself where that is all of it."""
    return x if isinstance(x, Array) and x.node is node else wrap(node)


def _can_be_computed(node: Node) -> bool:
    return node.known and node.value is None and not (node.volatile and is_traced(node))


def array_for(node: Node) -> Array:
    """The array the user holds for `node`, or a new one."""
    handle = node.handle
    array = None if handle is None else handle()
    return wrap(node) if array is None else array


def check_no_view(x: Array, op: str) -> None:
    """Refuse to change a slice, transpose or reshape of an array that somebody still holds.

    In NumPy the change would be seen there; here it would silently not be.
    """
    node = x.node
    while node.op.facts().window and node.inputs:
        node = node.inputs[0]
        base = None if node.handle is None else node.handle()
        if base is not None and base is not x and base.node is node:
            raise value_error(
                op,
                "this array is a view of another one, which would not see the change; index that "
                "one (a[0, 1] = v, not a[0][1] = v), or change a copy (np.copy(x))",
            )


def _writable_view(value: Value) -> Value:
    """A view of a kept value that does not say it is read-only."""
    if value.flags.writeable:
        return value
    if not pages.owns_memory(value):
        raise BufferError("__dlpack__: the array's memory is read-only; exporting it needs a copy")
    value.flags.writeable = True
    lent = value.view()
    value.flags.writeable = False
    return lent


def check_device(device: object, op: str) -> None:
    """Refuse every device but the CPU."""
    if device not in (None, "cpu"):
        raise value_error(op, f"device {device!r} is not known; accepted: 'cpu' or None")


def value_of(array: Array, op: str) -> Value:
    """The value of an array that depends on no variable, kept for the next time.

    Arrays on the way that the user still holds are kept too, and so are results of impure
    functions, which a second run would make anew.
    """
    node = array.node
    if node.value is None:
        if not node.known:
            raise needs_values(
                op,
                variables([node]),
                "compile a tw.Graph and give it values, or pass it to tw.delay",
            )
        wanted = [node, *(n for n in toposort([node], has_value) if _worth_keeping(n, node))]
        for known, value in zip(wanted, evaluator()(wanted), strict=True):
            store_value(known, value)
    assert node.value is not None
    return node.value


def value_outside(array: Array, op: str) -> Value:
    """The value of an array, for use outside of the graph, where no derivative would see it."""
    if array.node.known:
        check_untraced([array.node], op)
    return value_of(array, op)


def check_untraced(nodes: Sequence[Node], op: str) -> None:
    """Refuse to compute, for use outside of the graph, what is being differentiated."""
    if is_traced(*[n for n in nodes if kind_of(n.dtype) in "fc"]):
        raise value_error(
            op,
            "the function is being differentiated, and a value taken out of it would count as a "
            "constant; use functions of tawny.numpy, or say so: tw.stop_gradient(x)",
        )


def is_traced(*nodes: Node) -> bool:
    """Whether a value changes smoothly with an argument of a function being differentiated."""
    volatile = [n for n in nodes if n.volatile]
    if not volatile:
        return False
    order = toposort(volatile, lambda n: n.op.facts().gradient is Gradient.ZERO)
    return any(Trait.TRACED in n.op.facts().traits for n in order)


def is_unknown_argument(*nodes: Node) -> bool:
    """Whether a value depends on an argument of a function that is being traced, not known yet."""
    unknown = [n for n in nodes if not n.known and n.volatile]
    return any(Trait.TRACED in n.op.facts().traits for n in toposort(unknown))


def has_value(node: Node) -> bool:
    """Whether the value is there already."""
    return node.value is not None


def _worth_keeping(node: Node, asked: Node) -> bool:
    if node is asked or node.value is not None or node.parts:
        return False
    held = node.handle is not None and node.handle() is not None
    facts = node.op.facts()
    return facts.impure or (held and not facts.view)


def known_value(x: Array, op: str, way_out: str) -> Value:
    """The value of `x`, for an op whose result's shape depends on it."""
    if not x.node.known:
        raise needs_values(op, variables([x.node]), way_out)
    return value_of(x, op)


def lift(x: Any, op: str, position: int = 0) -> Node:
    """`x` as a node: arrays as they are, everything else as a constant."""
    if isinstance(x, Array):
        return x.node
    if type(x) is float or type(x) is int or type(x) is bool or type(x) is complex:
        return scalar(x, dt.default_dtype(x), op)
    if isinstance(x, (list, tuple)):
        items = cast("Sequence[Any]", x)
        if _holds_array(items):
            stacked: Array = PUBLIC_FUNCTIONS["stack"](
                [wrap(lift(item, op, position)) for item in items]
            )
            return stacked.node
    return constant(as_value(x, op, position))


def _holds_array(items: Sequence[Any]) -> bool:
    return any(
        isinstance(i, Array)
        or _is_masked_array(i)
        or is_in_blocks(i)
        or (isinstance(i, (list, tuple)) and _holds_array(cast("Sequence[Any]", i)))
        for i in items
    )


def as_value(x: Any, op: str, position: int = 0) -> Value:
    """A private copy of `x` as a NumPy array of a supported dtype."""
    if type(x) is np.ndarray and x.nbytes >= pages.LARGE and dt.is_supported(x.dtype):
        return pages.copy_array(x)
    check_unmasked(x, op, f"operand {position}")
    if is_in_blocks(x):
        raise blocked_operand_error(op, position)
    try:
        value = np.array(x)
    except ValueError as error:
        raise value_error(op, f"operand {position} is not an array: {error}") from None
    native = value.dtype if value.dtype.isnative else value.dtype.newbyteorder("=")
    if not dt.is_supported(native):
        if hasattr(x, "toarray"):
            raise type_error(
                op,
                f"operand {position} is {type(x).__name__}, which does not hold all its elements; "
                "accepted: arrays that do: x.toarray()",
            )
        raise type_error(
            op,
            f"operand {position} is {type(x).__name__} of dtype {value.dtype}; "
            "accepted: arrays, numbers and nested sequences of numbers "
            f"({', '.join(dt.dtype_names())})",
        )
    return value.astype(native, copy=False)


def _is_masked_array(x: Any) -> bool:
    """Whether `x` may have a mask; who has such an array has imported NumPy's module of them."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(x, module.MaskedArray)


def check_unmasked(x: Any, op: str, what: str) -> None:
    """Refuse a masked array, unless nothing is masked: `what` it is would lose its mask."""
    if _is_masked_array(x) and np.ma.is_masked(x):
        raise type_error(
            op,
            f"{what} is a masked array, whose mask would be lost; fill it first "
            "(x.filled(0.0)), or give the data and the mask as two arrays (x.data, x.mask)",
        )


def lift_each(op: str, operands: Sequence[Any]) -> tuple[Node, ...]:
    """The operands as nodes; Python numbers take NumPy's dtype for them, whatever they meet."""
    return tuple([lift(x, op, i) for i, x in enumerate(operands)])


class Weak(enum.Enum):
    """The dtype that a Python number takes beside arrays, for an op."""

    ADAPTS = "a number of the arrays' dtype; an integer must fit it"
    COMPARES = "a number of the arrays' dtype, or one wide enough to compare exactly"
    TRUTH = "true or false"


def lift_all(
    op: str, operands: Sequence[Any], rule: DTypeRule | None = None, weak: Weak = Weak.ADAPTS
) -> tuple[Node, ...]:
    """The operands as nodes; Python numbers take the dtype of the arrays they meet.

    A Python integer too large for that is refused, unless `rule` computes in floating point anyway.
    """
    if all(type(x) is Array for x in operands):
        return tuple([x.node for x in operands])
    nodes = [None if dt.is_weak(x) else lift(x, op, i) for i, x in enumerate(operands)]
    strong = [n.dtype for n in nodes if n is not None]
    if not strong:
        return tuple(lift(x, op) for x in operands)
    common = dt.promote(*strong)
    return tuple(
        n if n is not None else _lift_weak(x, common, op, rule, weak)
        for n, x in zip(nodes, operands, strict=True)
    )


def _lift_weak(x: Number, beside: DType, op: str, rule: DTypeRule | None, weak: Weak) -> Node:
    if weak is Weak.TRUTH:
        return scalar(bool(x), dt.BOOL, op)
    dtype = dt.weak_dtype(type(x), beside)
    if type(x) is int and dtype.kind in "iu" and not dt.fits(x, dtype):
        if rule is not None and dtype not in rule.loops:
            dtype = rule.computes_in(op, (beside, dtype))
        elif weak is Weak.COMPARES:
            if dt.fits(x, dt.INT64) or dt.fits(x, dt.UINT64):
                dtype = dt.INT64 if x < 2**63 else dt.UINT64
            else:
                return scalar(float("inf") if x > 0 else float("-inf"), dt.FLOAT64, op)
    return scalar(x, dtype, op)
