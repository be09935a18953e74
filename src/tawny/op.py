"""What the library knows about an operation: one declaration holds it all.

An op with attributes is a class; its annotated fields are the attributes, its
class keywords the facts:

    class Sum(Op, name="sum", dtype=widened, oracle="numpy.sum", identity=0):
        axes: tuple[int, ...]
        keepdims: bool

        def infer_shape(self, *shapes: Shape) -> Shape: ...

An elementwise op is a row of a table: see `operator.elementwise`.
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Self,
    TypeAlias,
    dataclass_transform,
    final,
)

from tawny.dtype import DType
from tawny.dtype_rules import DTypeRule, promoted
from tawny.rows import Rows, RowSlice, broadcast_rows
from tawny.scalar import Prim, PrimCall
from tawny.shape import Shape, broadcast

if TYPE_CHECKING:
    from tawny.array import Array
    from tawny.node import Node
    from tawny.scalar import Expr

Type = tuple[Shape, DType]

Derivatives: TypeAlias = "Array | Sequence[Array | None] | None"
"""Cotangents of operands, or tangents of results: one alone where there is one; None for zero."""


def nbytes(kind: Type) -> int:
    """Bytes of a value of this shape and dtype."""
    shape, dtype = kind
    return prod(shape) * dtype.itemsize


MOST_OPERANDS: Final = 2**31
"""More than any op has, where their number is free."""


class Cost(NamedTuple):
    """The cost of one evaluation: scalar operations, and bytes moved to and from memory."""

    operations: int
    bytes_read: int
    bytes_written: int


NO_COST: Final = Cost(0, 0, 0)


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """The sum of costs."""
    operations = read = written = 0
    for one in costs:
        operations += one.operations
        read += one.bytes_read
        written += one.bytes_written
    return Cost(operations, read, written)


class ViewStrides(NamedTuple):
    """The places of a view's elements in the memory of operand 0, counted in its elements."""

    first: int
    strides: tuple[int, ...]


class BatchOperand(NamedTuple):
    """An operand of an op that is applied to a batch: see `Op.batch`."""

    node: Node
    batched: bool
    """Whether axis 0 of the node is that of the batch; else it is the same for all of the batch."""


class Trait(enum.Flag):
    """Algebraic facts the optimiser may rely on."""

    NONE = 0
    COMMUTATIVE = enum.auto()
    ASSOCIATIVE = enum.auto()
    IDEMPOTENT = enum.auto()
    INVOLUTION = enum.auto()
    CHOOSING = enum.auto()
    """Elements of the result are elements of the operands, chosen in any order."""
    EXACT = enum.auto()
    """Nothing is rounded: every engine gives the same bits.  So it is for views and of integers."""
    KEEPS_FINITE = enum.auto()
    """The result is finite wherever all operands are.  So it is for views."""
    KEEPS_FINITE_REAL = enum.auto()
    """The result is finite wherever all operands are finite real numbers."""
    NONNEGATIVE = enum.auto()
    """The result on real operands is +0, positive or NaN."""
    KEEPS_NONNEGATIVE = enum.auto()
    """The result is +0, positive or NaN wherever all operands are.  So it is for views."""
    WINDOW = enum.auto()
    """NumPy gives a view here that writes through to operand 0."""
    IMPURE = enum.auto()
    """Two nodes of this op are never merged and never evaluated early."""
    VOLATILE = enum.auto()
    """The value is made anew in every run of a program, whether or not the operands changed."""
    TRACED = enum.auto()
    """The node stands for an argument of a function that is being differentiated."""


class Overwrites(enum.Enum):
    """The dying operands whose memory the result may be written into."""

    NONE = "none"
    SAME_SIZE = "every operand of the result's shape and item size"
    FIRST = "operand 0"


class Gradient(enum.Enum):
    """The way an op is differentiated; rows of the elementwise table may give rules instead."""

    DERIVED = "derived from the scalar expression"
    LINEAR = "linear in all floating-point operands together: a tangent goes through the op itself"
    MULTILINEAR = "linear in each floating-point operand while the others stand still"
    RULE = "by a rule of its own"
    """Not declared: what an op has that declares no other and has a pullback or a pushforward."""
    ZERO = "zero wherever it is defined"
    NONE = "has no derivative"


UnaryRule = Callable[[Any, Any, Any, Any], Any]
BinaryRule = Callable[[Any, Any, Any, Any, Any], Any]
"""From arithmetic, cotangent and value of the result, and operands to an operand's cotangent."""

ScalarRules = tuple[UnaryRule] | tuple[BinaryRule | None, BinaryRule | None]
"""A rule for each operand of an elementwise op, in numbers; None where the derivative is zero.

A tangent goes by the same rule, since the derivative is a factor: see
`tawny.autodiff.elementwise_rules`.
"""


@dataclass(frozen=True, slots=True)
class Domain:
    """The interval in which operands are sampled."""

    low: float = -8.0
    high: float = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts that are declared of an op, whatever its attributes."""

    name: str
    doc: str
    chapter: str
    arity: int | None
    dtype: DTypeRule
    overwrites: Overwrites = Overwrites.NONE
    gradient: Gradient | ScalarRules = Gradient.NONE
    traits: Trait = Trait.NONE
    identity: complex | None = None
    domain: Domain = Domain()
    oracle: str = ""
    may_fail: bool = True
    """Whether computing it may fail once the shapes fit: by user's code, a matrix, an index."""
    saved: bool = True
    """Whether a graph in a file may have it: not if it is made while a program is compiled."""
    view: bool = False
    """Whether the result is a view of operand 0: whether the op defines `Op.view`."""
    has_pullback: bool = False
    """Whether the op has a rule of reverse mode: whether it defines `Op.pullback`."""
    has_pushforward: bool = False
    """Whether the op has a rule of forward mode: whether it defines `Op.pushforward`."""
    impure: bool = field(init=False)
    """Whether `Trait.IMPURE` is among the traits, for whoever asks of every node."""
    volatile: bool = field(init=False)
    """Whether `Trait.VOLATILE` is among the traits, for whoever asks of every node."""
    window: bool = field(init=False)
    """Whether NumPy's function gives a view that writes through to operand 0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "impure", Trait.IMPURE in self.traits)
        object.__setattr__(self, "volatile", Trait.VOLATILE in self.traits)
        object.__setattr__(self, "window", Trait.WINDOW in self.traits)


@dataclass_transform(frozen_default=True)
class Op:
    """An operation with its attributes; equal attributes make equal ops."""

    declaration: ClassVar[Facts]
    fields: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[dict[str, Any]] = {}
    several: ClassVar[bool] = False
    """Whether the op may have several results."""
    inherited: ClassVar[dict[str, Any]] = {"may_fail": True, "saved": True}
    """Facts that a family declares for its members."""
    family: ClassVar[Family]
    """What rules for ops are found by: the class, or the row of the elementwise table."""

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        dtype: DTypeRule = promoted,
        arity: int | None = 1,
        overwrites: Overwrites = Overwrites.NONE,
        gradient: Gradient | ScalarRules = Gradient.NONE,
        traits: Trait = Trait.NONE,
        identity: complex | None = None,
        domain: Domain = Domain(),
        oracle: str = "",
        **inherited: Any,
    ) -> None:
        super().__init_subclass__()
        if not inherited.keys() <= cls.inherited.keys():
            raise TypeError(f"{cls.__name__} declares {set(inherited)}, not all of them facts")
        cls.inherited = {**cls.inherited, **inherited}
        cls.family = cls
        own = inspect.get_annotations(cls)
        cls.fields += tuple(f for f, kind in own.items() if "ClassVar" not in str(kind))
        cls.several = cls.several or "infer_parts" in cls.__dict__
        cls.defaults = cls.defaults | {f: cls.__dict__[f] for f in own if f in cls.__dict__}
        if not name:
            return
        has_pullback = cls.pullback is not Op.pullback
        has_pushforward = cls.pushforward is not Op.pushforward
        if gradient is Gradient.NONE and (has_pullback or has_pushforward):
            gradient = Gradient.RULE
        cls.declaration = Facts(
            name=name,
            doc=(cls.__doc__ or "").strip(),
            chapter=cls.__module__.rpartition(".")[2],
            arity=arity,
            dtype=dtype,
            overwrites=overwrites,
            gradient=gradient,
            traits=traits,
            identity=identity,
            domain=domain,
            oracle=oracle,
            view=cls.view is not Op.view,
            has_pullback=has_pullback,
            has_pushforward=has_pushforward,
            **cls.inherited,
        )
        register(cls.declaration, cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields, own = self.fields, self.__dict__
        if len(args) != len(fields) or kwargs:
            given = {**self.defaults, **dict(zip(fields, args, strict=False)), **kwargs}
            if len(args) > len(fields) or given.keys() != set(fields):
                raise TypeError(f"{type(self).__name__} takes {fields}, not {args} {kwargs}")
            args = tuple([given[f] for f in fields])
        own.update(zip(fields, args))  # noqa: B905  (lengths were compared)
        own["_key"] = key = tuple([_exact(a) for a in args])
        own["_hash"] = hash((type(self), key))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{type(self).__name__} is immutable: {name} cannot be set to {value!r}"
        )

    def __hash__(self) -> int:
        result: int = self.__dict__["_hash"]
        return result

    def __eq__(self, other: object, /) -> bool:
        return self is other or (
            type(self) is type(other) and self.__dict__["_key"] == other.__dict__["_key"]
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{f}={getattr(self, f)!r}' for f in self.fields)})"
        )

    def attributes(self) -> dict[str, Any]:
        """The attributes by name."""
        return {f: getattr(self, f) for f in self.fields}

    def with_attributes(self, **changes: Any) -> Self:
        """The op with some other attributes."""
        return type(self)(**self.attributes() | changes)

    def facts(self) -> Facts:
        """The declaration."""
        return self.declaration

    @property
    def label(self) -> str:
        """What plans, pictures and messages call it; by default its name."""
        return self.facts().name

    def infer_shape(self, *shapes: Shape) -> Shape:
        """Shape of the result; by default that of operand 0."""
        return shapes[0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        """Dtype of the result; by default what the declared rule says."""
        facts = self.facts()
        result = _DTYPES.get((facts.name, dtypes))
        if result is None:
            if len(_DTYPES) >= _MOST_DTYPES:
                _DTYPES.clear()
            result = _DTYPES[facts.name, dtypes] = facts.dtype(facts.name, dtypes)
        return result

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        """Types of the results of an op that has several; empty for all others."""
        del types
        return ()

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """Operands whose memory the result may be written into, when they die here."""
        match self.facts().overwrites:
            case Overwrites.NONE:
                return frozenset()
            case Overwrites.FIRST:
                return frozenset({0})
            case Overwrites.SAME_SIZE:
                shape = self.infer_shape(*(s for s, _ in types))
                item = self.infer_dtype(*(d for _, d in types)).itemsize
                return frozenset(
                    i for i, (s, d) in enumerate(types) if s == shape and d.itemsize == item
                )

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides | None:
        """Where its elements lie in the memory of operand 0, of this shape and these strides.

        An op that defines this is a view: it takes no memory, and no time.  None where its elements
        are not evenly spaced in such memory, so that they are copied.
        """
        del shape, strides
        return None

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """How to compute some rows of a result of this shape, which has two or more, from operands.

        None where the result has to be computed whole, as it is by default.
        """
        del shape, operands, rows
        return None

    def batch(self, operands: Sequence[BatchOperand]) -> Node | Sequence[Node] | None:
        """The op applied to a batch at once: a node of as many results along a new axis 0.

        At least one operand is batched; those that are have the batch along axis 0, before the axes
        the op knows of, and all of the same size.  Of an op with several results each has the axis;
        they may also be given as a list of nodes.
        None where there is no such node, as by default: the op is then applied to each of the
        batch by itself.  Rows of the elementwise table need no rule.
        """
        del operands
        return None

    def pullback(self, cotangent: Any, result: Any, *operands: Any, **unused: Any) -> Derivatives:
        """Cotangents of the operands, given that of the result: the rule of reverse mode.

        Of an op with several results, cotangents and results come as tuples.  One that has no rule
        of its own overrides neither this nor `pushforward`; one of them is enough for one that has,
        since the other is its transpose: see `tawny.autodiff`.  An op that is linear or multilinear
        needs this one.

        Pairing is `sum(cotangent * tangent)` without conjugation, of which the real part counts: a
        rule for complex numbers is right if both sides agree in it.  Where operands were broadcast
        or converted, cotangents may be left in the shape and dtype of the result.
        """
        raise AssertionError(f"{self!r} has no rule of reverse mode")

    def pushforward(self, tangent: Any, result: Any, *operands: Any, **unused: Any) -> Derivatives:
        """Tangents of the results, given that of the operand: the rule of forward mode.

        Of an op that may have several operands they come as a tuple, None for zero.
        """
        raise AssertionError(f"{self!r} has no rule of forward mode")

    def operand_counts(self) -> Sequence[int] | None:
        """How many operands it accepts; by default its declared arity, None for any number."""
        arity = self.facts().arity
        return None if arity is None else (arity,)

    def mistake(self, types: Sequence[Type]) -> str | None:
        """What is wrong with it on operands of these types, in words; None if nothing is.

        Asked of ops that come from a file, beside what inference of shapes and dtypes refuses: what
        is accepted must be what the public functions, or the optimiser, make.  By default axes are
        those of operand 0, each named once.
        """
        rank = len(types[0][0]) if types else 0
        axes: tuple[int, ...] | None = getattr(self, "axes", None)
        axis: int | None = getattr(self, "axis", None)
        named = (axis,) if axis is not None else () if axes is None else axes
        if len(set(named)) != len(named) or not all(0 <= a < rank for a in named):
            return f"axes are {named}; operand 0 has {rank}, each named at most once"
        place: int | None = getattr(self, "place", None)
        if place is not None and place > rank - len(named):
            return f"place is {place}; {rank - len(named)} axes are left"
        return None

    def may_fail(self, dtype: DType) -> bool:
        """Whether computing a result of this dtype may fail once the shapes fit."""
        return self.facts().may_fail

    def failure_cause(self, operands: Sequence[Hashable]) -> Hashable | None:
        """What decides whether it fails, if it does so before it writes over operand 0, else None.

        Of two nodes with the same cause the second cannot fail.
        """
        return None

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        """Multiplications of elements with an addition each; 0 for an op that is no product."""
        del result, operands
        return 0

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """Scalar operations: two for each multiply-add, else one for each element of the result."""
        return 2 * self.multiply_adds(result, operands) or prod(result)

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """Cost of making a value of this type from operands of these types; a view has none."""
        facts = self.facts()
        if facts.view or (facts.impure and not operands):
            return NO_COST
        operations = self.operations(result[0], [shape for shape, _ in operands])
        return Cost(operations, sum(map(nbytes, operands)), nbytes(result))


_DTYPES: Final[dict[tuple[str, tuple[DType, ...]], DType]] = {}
"""What declared rules said before, by the op's name and its operands' dtypes."""

_MOST_DTYPES: Final = 8192
"""Entries above which the table is emptied."""


def _exact(value: Any) -> Any:
    """A key that tells 0.0 from -0.0, which compare equal."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple):
        if _PLAIN.issuperset(map(type, value)):  # pyright: ignore[reportUnknownArgumentType]
            return value  # pyright: ignore[reportUnknownVariableType]
        return tuple(_exact(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, float):
        return (float, value.hex())
    if isinstance(value, complex):
        return (complex, value.real.hex(), value.imag.hex())
    return value


_PLAIN: Final = frozenset({bool, int, str})
"""Types whose values are their own keys."""


@final
class Elementwise(Op):
    """An op given by what it does to one element; rows of a table, compared by identity."""

    def __init__(
        self, info: Facts, scalar: Expr, methods: Mapping[str, Callable[..., Derivatives]]
    ) -> None:
        """A row; `methods` are those of its own: its pullback, its pushforward."""
        self.__dict__.update(methods)
        self.__dict__["info"] = info
        self.__dict__["scalar"] = scalar
        self.__dict__["family"] = self
        self.__dict__["_dtypes"] = {}

    info: Facts
    scalar: Expr

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __repr__(self) -> str:
        return self.info.name

    def facts(self) -> Facts:
        return self.info

    def infer_shape(self, *shapes: Shape) -> Shape:
        return broadcast(self.info.name, shapes)

    def infer_dtype(self, *dtypes: DType) -> DType:
        known: dict[tuple[DType, ...], DType] = self.__dict__["_dtypes"]
        result = known.get(dtypes)
        if result is None:
            result = known[dtypes] = self.info.dtype(self.info.name, dtypes)
        return result

    def may_fail(self, dtype: DType) -> bool:
        """Integers have no negative powers."""
        return dtype.kind in "iu" and self.info.name == "pow"

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        return primitives(self) * prod(result)

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice:
        return RowSlice(
            self, tuple([broadcast_rows(given, shape, rows) for given in operands]), rows
        )


@lru_cache(1024)
def primitives(op: Elementwise) -> int:
    """How many scalar operations an elementwise op does for each element."""
    count, stack = 0, list["Expr"]([op.scalar])
    while stack:
        expr = stack.pop()
        if isinstance(expr, PrimCall):
            count += 1
            stack.extend(expr.args)
    return count


FUNCTIONS: Final = {
    **dict.fromkeys((Prim.DIV, Prim.RECIPROCAL, Prim.SQRT), 0.3),
    **dict.fromkeys((Prim.EXP, Prim.EXP2), 1.0),
    **dict.fromkeys((Prim.EXPM1, Prim.LOG, Prim.LOG2, Prim.LOG10, Prim.CBRT), 1.5),
    **dict.fromkeys((Prim.LOG1P, Prim.SINH, Prim.COSH, Prim.TANH, Prim.ATAN), 2.0),
    **dict.fromkeys((Prim.SIN, Prim.COS, Prim.ERF, Prim.ASIN, Prim.ACOS), 2.0),
    **dict.fromkeys((Prim.TAN, Prim.ATAN2, Prim.ASINH, Prim.ACOSH, Prim.ATANH, Prim.ERFC), 3.0),
    **dict.fromkeys((Prim.POW, Prim.HYPOT, Prim.FMOD, Prim.MOD, Prim.FLOORDIV, Prim.DAWSN), 4.0),
}
"""What elementary functions take, counted in exponentials; other primitives are one operation."""

SIMPLE: Final = 1 / 20
"""What a primitive outside a product takes, counted in exponentials: sums of a loop that is not
bound by memory run at a fraction of the speed of products."""


@lru_cache(1024)
def exponentials(op: Elementwise) -> float:
    """What an elementwise op takes for each element, counted in exponentials."""
    total, stack = 0.0, list["Expr"]([op.scalar])
    while stack:
        expr = stack.pop()
        if isinstance(expr, PrimCall):
            total += FUNCTIONS.get(expr.prim, SIMPLE)
            stack.extend(expr.args)
    return total


def dtype_mismatch(types: Sequence[Type]) -> str | None:
    """Operands of different dtypes, where the public functions convert them."""
    first = types[0][1]
    for position, (_, dtype) in enumerate(types):
        if dtype != first:
            return f"operand {position} has dtype {dtype}; it must be that of operand 0, {first}"
    return None


Family = Elementwise | type[Op]

FACTS: Final[dict[str, Facts]] = {}
"""Every declaration, by name."""

CLASSES: Final[dict[str, type[Op]]] = {}
"""The ops with attributes."""

ELEMENTWISE: Final[dict[str, Elementwise]] = {}
"""The elementwise table."""


_WITHOUT_DOCSTRINGS: Final = 2
"""The level of `python -OO`, which leaves out all documentation."""


def register(facts: Facts, op: type[Op] | Elementwise) -> None:
    """Add a declaration; a name is declared once and documented."""
    if facts.name in FACTS:
        raise ValueError(f"op {facts.name!r} is declared twice")
    if not facts.doc and sys.flags.optimize < _WITHOUT_DOCSTRINGS:
        raise ValueError(f"op {facts.name!r} has no documentation")
    FACTS[facts.name] = facts
    if isinstance(op, Elementwise):
        ELEMENTWISE[facts.name] = op
    else:
        CLASSES[facts.name] = op


def overwritable_operands(op: Op, made: Type, given: Sequence[Type]) -> list[int]:
    """Operands, in order, whose memory the result may be written into, when they die there."""
    if type(op) is Elementwise and op.info.overwrites is Overwrites.SAME_SIZE:
        shape, item = made[0], made[1].itemsize
        return [p for p, (s, d) in enumerate(given) if s == shape and d.itemsize == item]
    return sorted(op.may_overwrite(*given)) if given else []
