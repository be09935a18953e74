"""The graph's vertices: immutable, interned, each with the user's source line.

The same op, attributes and inputs are the same node, so common subexpressions
merge as they are built.  The table is weak: what nobody refers to is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar, Token
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import numpy.typing as npt

from tawny import dtype as dt
from tawny.attributes import Natural
from tawny.dtype import DType, Number
from tawny.forking import fork_safe_lock
from tawny.op import NO_COST, Cost, Gradient, Op, Trait, Type, ViewStrides
from tawny.shape import MOST_AXES, Shape, check_possible
from tawny.source import Source, caller, describe
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.array import Array

Value = npt.NDArray[Any]


class Constant(
    Op,
    name="constant",
    arity=0,
    gradient=Gradient.ZERO,
    traits=Trait.EXACT,
    oracle="numpy.asarray",
):
    """A value known when the graph is built; its node holds it."""

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        return NO_COST


class Variable(
    Op,
    name="variable",
    arity=0,
    traits=Trait.IMPURE,
    gradient=Gradient.ZERO,
    oracle="numpy.asarray",
):
    """A value given when the graph is run."""

    name: str
    """What programs call it; empty if each graph numbers it."""


class Part(Op, name="part", gradient=Gradient.LINEAR, oracle="operator.getitem", may_fail=False):
    """One result of an op that has several."""

    index: Natural

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides:
        return ViewStrides(0, tuple(strides))


_serials: Final = count()


def next_serial() -> int:
    """A number greater than the serials of all nodes there are, and less than those of others."""
    return next(_serials)


_SOURCES: Final[ContextVar[tuple[Source, ...] | None]] = ContextVar("sources", default=None)


@final
class source_scope:  # noqa: N801  (used as a statement)
    """Nodes made inside `with source_scope(sources):` come from these places in the program."""

    __slots__ = ("_sources", "_token")

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources

    def __enter__(self) -> None:
        self._token: Token[tuple[Source, ...] | None] = _SOURCES.set(self._sources)

    def set_sources(self, sources: tuple[Source, ...]) -> None:
        """From here on nodes come from other places."""
        _SOURCES.set(sources)

    def __exit__(self, *error: object) -> None:
        _SOURCES.reset(self._token)


@final
class Node(Unique):
    """One value of the graph: how it is made, its shape and dtype, where it was written.

    A node with several results (a factorisation) lists their types in `parts`, carries the
    shape and dtype of the first, and is read through `Part` nodes alone.
    """

    __slots__ = (
        "__weakref__",
        "dtype",
        "handle",
        "inputs",
        "known",
        "op",
        "parts",
        "serial",
        "shape",
        "sources",
        "value",
        "volatile",
    )

    op: Op
    inputs: tuple[Node, ...]
    shape: Shape
    dtype: DType
    parts: tuple[Type, ...]
    sources: tuple[Source, ...]
    known: bool
    """Whether the value depends on no variable."""
    volatile: bool
    """Whether the value may differ from run to run: a random draw or impure function is in it."""
    value: Value | None
    """The value, once it is known and somebody asked for it."""
    handle: weakref.ref[Array] | None
    """The `Array` by which the user holds this node."""
    serial: int
    """Nodes made later have greater ones."""

    def __init__(
        self,
        op: Op,
        inputs: tuple[Node, ...],
        shape: Shape,
        dtype: DType,
        parts: tuple[Type, ...] = (),
        value: Value | None = None,
        sources: tuple[Source, ...] | None = None,
    ) -> None:
        if len(shape) > MOST_AXES:
            check_possible(shape, op.facts().name, "the result")
        self.op = op
        self.inputs = inputs
        self.shape = shape
        self.dtype = dtype
        self.parts = parts
        if sources is None and (sources := _SOURCES.get()) is None:
            source = caller()
            sources = () if source is None else (source,)
        self.sources = sources
        known = type(op) is not Variable
        volatile = known and op.facts().impure
        for node in inputs:
            if not node.known:
                known = False
            if node.volatile:
                volatile = True
        self.known = known
        self.volatile = volatile
        self.value = value
        self.handle = None
        self.serial = next(_serials)

    @property
    def name(self) -> str:
        """The op's name, or the variable's; of one without a name, where it was written."""
        if not isinstance(self.op, Variable):
            return self.op.label
        return self.op.name or f"unnamed at {describe(self.sources) or 'unknown place'}"

    def cost(self) -> Cost:
        """Cost of computing it from its inputs; views, constants and variables cost nothing."""
        return self.op.cost((self.shape, self.dtype), [(i.shape, i.dtype) for i in self.inputs])

    def __repr__(self) -> str:
        where = f" at {describe(self.sources)}" if self.sources else ""
        return f"<{op_title(self.op)} {self.dtype}{list(self.shape)}{where}>"


def op_title(op: Op) -> str:
    """The variable's name, if it has one, or the op's: for texts that tell the place too."""
    return (isinstance(op, Variable) and op.name) or op.label


_INTERNED: Final[dict[int, weakref.ref[Node]]] = {}
"""Nodes by the hash of op and inputs; whoever finds one compares these.

Nobody is called when a node is gone, which would take as long as making it: its entry stays until
a sweep.
"""

LEAST_ENTRIES: Final = 4096
"""Entries up to which no sweep is made."""

_most_entries = LEAST_ENTRIES


def _lookup(key: int, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    """The living node that applies `op` to `inputs`."""
    entry = _INTERNED.get(key)
    node = None if entry is None else entry()
    return node if node is not None and node.inputs == inputs and node.op == op else None


_interning: Final = fork_safe_lock()
"""Held where entries change; new ones are added without."""


def _intern(node: Node, key: int) -> Node:
    """Let `node` be found by its key as long as it lives; gives the one that is to be used.

    That is another one, if a thread made the same meanwhile.
    """
    own = weakref.ref(node)
    if _INTERNED.setdefault(key, own) is not own:
        return _intern_again(node, key, own)
    if len(_INTERNED) > _most_entries:
        _sweep()
    return node


def _intern_again(node: Node, key: int, own: weakref.ref[Node]) -> Node:
    """Intern a node whose key has an entry: of a node that is gone, another, or its equal."""
    with _interning:
        entry = _INTERNED.setdefault(key, own)
        other = entry()
        if other is not None and _equal(other, node):
            return other
        _INTERNED[key] = own
    return node


def _equal(one: Node, other: Node) -> bool:
    """Whether two nodes are one value, made in the same way."""
    same = one.op == other.op and one.inputs == other.inputs
    if not same or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if type(one.op) is not Constant:
        return True
    a, b = one.value, other.value
    return a is not None and b is not None and a.tobytes() == b.tobytes()


def _sweep() -> None:
    """Drop the entries of nodes that are gone; the next time, when there are twice as many left."""
    global _most_entries
    with _interning:
        for key, entry in _INTERNED.copy().items():
            if entry() is None and _INTERNED.get(key) is entry:
                del _INTERNED[key]
        _most_entries = max(LEAST_ENTRIES, 2 * len(_INTERNED))


_SCALARS: Final[weakref.WeakValueDictionary[tuple[object, ...], Node]] = (
    weakref.WeakValueDictionary()
)
"""Constants of Python numbers, found without making an array."""

MOST_INTERNED_BYTES: Final = 4096
"""Bytes of the largest constants that are interned by content."""


def make(op: Op, inputs: tuple[Node, ...] = ()) -> Node:
    """The node applying `op` to `inputs`, checked, with its shape and dtype inferred."""
    key = hash((op, inputs))
    known = _lookup(key, op, inputs)
    if known is not None:
        return known
    dtype = op.infer_dtype(*[i.dtype for i in inputs])
    shape = op.infer_shape(*[i.shape for i in inputs])
    parts: tuple[Type, ...] = ()
    if op.several and (parts := op.infer_parts(*[(i.shape, i.dtype) for i in inputs])):
        shape, dtype = parts[0]
    node = Node(op, inputs, shape, dtype, parts)
    return node if op.facts().impure else _intern(node, key)


def remake(node: Node, inputs: tuple[Node, ...]) -> Node:
    """`node` on other inputs of the same shapes and dtypes, which are not worked out again.

    The optimiser does this more often than anything else.
    """
    op = node.op
    if op is _CONSTANT:  # another thread computed it meanwhile
        return node
    key = hash((op, inputs))
    entry = _INTERNED.get(key)
    if entry is not None:
        old = entry()
        if old is not None and old.inputs == inputs and old.op == op:
            return old
    new = Node.__new__(Node)
    new.op = op
    new.inputs = inputs
    new.shape = node.shape
    new.dtype = node.dtype
    new.parts = node.parts
    new.sources = node.sources
    new.value = new.handle = None
    new.serial = next(_serials)
    impure = volatile = node.volatile and op.facts().impure
    known = True
    for source in inputs:
        if not source.known:
            known = False
        if source.volatile:
            volatile = True
    new.known = known
    new.volatile = volatile
    if impure:
        return new
    own = weakref.ref(new)  # as `_intern` does
    if _INTERNED.setdefault(key, own) is not own:
        return _intern_again(new, key, own)
    if len(_INTERNED) > _most_entries:
        _sweep()
    return new


def make_as(op: Op, inputs: tuple[Node, ...], shape: Shape, dtype: DType) -> Node:
    """The node applying a pure op of one result, for somebody who knows its shape and dtype."""
    key = hash((op, inputs))
    return _lookup(key, op, inputs) or _intern(Node(op, inputs, shape, dtype), key)


def make_parts(op: Op, inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    """One node for each result of an op that has several."""
    node = make(op, inputs)
    return tuple(part(node, index) for index in range(len(node.parts)))


def part(node: Node, index: int) -> Node:
    """One result of a node that has several."""
    return make_as(_part(index), (node,), *node.parts[index])


_part: Final = lru_cache(1024)(Part)
_CONSTANT: Final = Constant()


def constant(value: Value) -> Node:
    """A constant that owns `value`, which nobody may change any more.

    Small ones are shared by all that have the same content, so they come from no place.
    """
    value.flags.writeable = False
    if value.nbytes > MOST_INTERNED_BYTES:
        return Node(_CONSTANT, (), value.shape, value.dtype, value=value)
    shape, dtype, content = value.shape, value.dtype, value.tobytes()
    key = hash((shape, dtype, content))
    known = _lookup(key, _CONSTANT, ())
    if known is not None and known.shape == shape and known.dtype == dtype:
        assert known.value is not None
        if known.value.tobytes() == content:
            return known
    return _intern(Node(_CONSTANT, (), shape, dtype, value=value, sources=()), key)


def store_value(node: Node, value: Value) -> None:
    """Keep the value of a known node, which from then on is a constant and holds no inputs.

    What depends on a random draw keeps its op too: programs draw it anew in each run.
    """
    value.flags.writeable = False
    node.value = value
    if not node.volatile:
        # In this order: another thread that has read the inputs finds the op they belong to, or
        # a constant, whose value is there.
        node.op = _CONSTANT
        node.inputs = ()


def borrowed_constant(value: Value) -> Node:
    """A constant over memory that somebody else owns and will not change while it lives."""
    return Node(_CONSTANT, (), value.shape, dt.own_dtype(value.dtype, "asarray"), value=value)


def scalar(value: Number, dtype: DType, op: str) -> Node:
    """A zero-dimensional constant."""
    key = (type(value), value, dtype)
    node = _SCALARS.get(key)
    if node is None:
        dt.check_fits(value, dtype, op)
        node = constant(np.array(value, dtype=dtype))
        if value and value == value and type(value) is not complex:  # noqa: PLR0124  (-0.0, NaN)
            _SCALARS[key] = node
    return node


def variable(name: str | None, shape: Shape, dtype: DType) -> Node:
    """A new variable; two are never the same, whatever their names."""
    return Node(Variable(name or ""), (), shape, dtype)


def variable_names(variables: Sequence[Node]) -> dict[Node, str]:
    """The names of the variables of one graph; those without are numbered: `v1`, `v2`, ..."""
    taken = {v.op.name for v in variables if isinstance(v.op, Variable)}
    free = (name for number in count(1) if (name := f"v{number}") not in taken)
    return {v: v.op.name or next(free) for v in variables if isinstance(v.op, Variable)}


def toposort(outputs: Iterable[Node], stop: Callable[[Node], bool] | None = None) -> list[Node]:
    """Every node `outputs` depend on, inputs first: the report's post-order depth-first order.

    Inputs of nodes for which `stop` holds are not visited.
    """
    order: list[Node] = []
    met: set[Node] = set()
    stack: list[Node | None] = list(outputs)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # above a node whose inputs are done
            node = stack.pop()
            assert node is not None
            order.append(node)
            continue
        if node in met:
            continue
        met.add(node)
        inputs = node.inputs
        if not inputs or (stop is not None and stop(node)):
            order.append(node)
            continue
        stack += (node, None)
        if len(inputs) == 2:
            first, second = inputs
            if second not in met:
                stack.append(second)
            if first not in met:
                stack.append(first)
        else:
            stack.extend(inputs[::-1])
    return order


def variables(outputs: Sequence[Node]) -> list[str]:
    """Names of the variables `outputs` depend on, in order of first use."""
    unknown = [n for n in outputs if not n.known]
    return [n.name for n in toposort(unknown, lambda n: n.known) if isinstance(n.op, Variable)]
