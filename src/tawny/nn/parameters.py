"""What parameters are: declarations, and the arrays bound to them while a model is called."""

from __future__ import annotations

import copy
import hashlib
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from tawny.array import Array, lift, wrap
from tawny.dtype import DType, as_dtype, check_all_fit, kind_of
from tawny.errors import type_error, value_error
from tawny.graph.pickling import array_from, value_bytes
from tawny.nn.init import Initialiser, as_initialiser, glorot_uniform, zeros
from tawny.node import Node, Value, constant
from tawny.scopes import join
from tawny.shape import Shape, as_shape, size
from tawny.source import SCOPE

if TYPE_CHECKING:
    from tawny.nn.module import Module

Key = str | int
"""An attribute's name, or an index in a list of modules."""

Path = tuple[Key, ...]


def path_text(path: Path) -> str:
    """A path as text: `blocks.0.weight`."""
    return ".".join(map(str, path))


@final
class Declaration:
    """A parameter or a state of a layer: shape, dtype and first value, drawn when it is needed.

    The draw depends on the seed and on the path to the declaration in its model, and on nothing
    else.
    """

    def __init__(self, shape: Shape, initialiser: Initialiser, dtype: DType, trained: bool) -> None:
        self.shape: Final = shape
        self.initialiser: Final = initialiser
        self.dtype: Final = dtype
        self.parameter: Final = trained
        self.frozen = False
        """Whether it is to stay as it is, though it could be trained."""
        self.seed = 0
        self.path: Path = ()
        self.root: object = None
        """The mark of the model that the path starts from; None before there is one."""
        self._node: Node | None = None

    @property
    def is_trained(self) -> bool:
        """Whether it is among what is trained."""
        return self.parameter and not self.frozen

    @property
    def size(self) -> int:
        """Number of elements."""
        return size(self.shape)

    @property
    def node(self) -> Node:
        """The current value as a constant, drawn at the first need."""
        if self._node is None:
            digest = hashlib.sha256(path_text(self.path).encode()).digest()
            words = np.frombuffer(digest[:16], dtype="<u4").tolist()
            sequence = np.random.SeedSequence([self.seed, *words])
            rng = np.random.Generator(np.random.SFC64(sequence))
            self._keep(self.initialiser(rng, self.shape, self.dtype))
            assert self._node is not None, "just kept"
        return self._node

    @property
    def value(self) -> Value:
        """The current value, read-only."""
        value = self.node.value
        assert value is not None, "a constant has a value"
        return value

    @property
    def is_drawn(self) -> bool:
        """Whether there is a value yet."""
        return self._node is not None

    def has(self, node: Node) -> bool:
        """Whether `node` is the current value."""
        return self._node is node

    def accepts(self, dtype: DType) -> bool:
        """Whether numbers of a dtype can be its value: those of another kind lose too much."""
        return kind_of(dtype) in _ACCEPTED[kind_of(self.dtype)]

    def check_fits(self, value: Value, op: str, name: str) -> None:
        """Refuse integers that its dtype cannot hold."""
        if self.dtype.kind in "biu":
            check_all_fit(value, self.dtype, op, name)

    def assign(self, array: Array) -> None:
        """Take the value of an array of the same shape."""
        self._keep(array.numpy().astype(self.dtype, copy=False))

    def _keep(self, value: Value) -> None:
        self._node = constant(value)
        _OWNERS[self._node] = weakref.ref(self)

    def restart(self, seed: int) -> None:
        """Forget the value: it is drawn anew from `seed` at the next need."""
        self.seed = seed
        self._node = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Declaration:
        """Another declaration with the same value, which nobody can change."""
        other = Declaration(self.shape, self.initialiser, self.dtype, self.parameter)
        other.seed, other.path, other._node = self.seed, self.path, self._node
        other.frozen = self.frozen
        memo[id(self)] = other
        other.root = copy.deepcopy(self.root, memo)
        return other

    def __reduce__(self) -> Any:
        """By its facts, and the bytes of a file for its value if there is one yet."""
        facts = self.shape, self.initialiser, str(self.dtype), self.parameter
        data = None if self._node is None else value_bytes(self.value)
        return _unpickle, (*facts, self.frozen, self.seed, self.path, self.root, data)

    def __repr__(self) -> str:
        kind = "Parameter" if self.parameter else "State"
        return f"{kind}({self.shape}, {self.initialiser}, dtype={self.dtype})"


_ACCEPTED: Final = {"f": "fiub", "c": "cfiub", "i": "iub", "u": "iub", "b": "b"}
"""Kinds of numbers that a declaration of a kind takes."""


def _unpickle(
    shape: Shape,
    initialiser: Initialiser,
    dtype: str,
    parameter: bool,
    frozen: bool,
    seed: int,
    path: Path,
    root: object,
    data: bytes | None,
) -> Declaration:
    """A declaration that was pickled."""
    declaration = Declaration(shape, initialiser, as_dtype(dtype, "pickle"), parameter)
    declaration.frozen, declaration.seed, declaration.path, declaration.root = (
        frozen,
        seed,
        path,
        root,
    )
    if data is not None:
        declaration.assign(array_from(data))
    return declaration


_OWNERS: Final[weakref.WeakKeyDictionary[Node, weakref.ref[Declaration]]] = (
    weakref.WeakKeyDictionary()
)
"""Whose value a constant is."""


def owner_of(node: Node) -> Declaration | None:
    """The declaration whose current value `node` is."""
    reference = _OWNERS.get(node)
    owner = None if reference is None else reference()
    return owner if owner is not None and owner.has(node) else None


def Parameter(shape: Any, initialiser: Any = None, dtype: Any = "float32") -> Any:  # noqa: N802
    """Declare what is trained: `self.weight = nn.Parameter((3, 4), nn.init.he_normal())`.

    - `shape`: its shape.
    - `initialiser`: how it starts: an initialiser of `nn.init`, a function of a generator and
      shape, or a number; `glorot_uniform` when None.
    - `dtype`: its dtype.

    The attribute it is assigned to reads as an array.  One declaration assigned to two layers is
    one parameter.

        class Scaled(nn.Module):
            def __init__(self):
                self.factor = nn.Parameter((), 2.0)

            def forward(self, x):
                return x * self.factor

        float(Scaled()(3.0))                          # -> 6.0
    """
    if kind_of(kind := as_dtype(dtype, "Parameter")) not in "fc":
        raise type_error(
            "Parameter", f"dtype is {kind}; accepted: floating-point and complex numbers"
        )
    return _declare(
        "Parameter", shape, _or_default(initialiser, glorot_uniform), kind, trained=True
    )


def State(shape: Any, initialiser: Any = None, dtype: Any = "float32") -> Any:  # noqa: N802
    """Declare what is kept from call to call but not trained, as running statistics.

    - `shape`: its shape.
    - `initialiser`: how it starts, as for `Parameter`; zeros when None.
    - `dtype`: its dtype.

    Assigned in `forward` while training, the attribute takes the new value at the end of the step.

        class Counted(nn.Module):
            def __init__(self):
                self.calls = nn.State(())

            def forward(self, x):
                if self.training:
                    self.calls = self.calls + 1
                return x

        model = Counted()
        outputs, state = model.advance({}, model.state, numpy.ones(2))
        float(state["calls"])                         # -> 1.0
    """
    return _declare("State", shape, _or_default(initialiser, zeros), dtype, trained=False)


def _or_default(given: Any, default: Callable[[], Initialiser]) -> Any:
    return default() if given is None else given


def _declare(op: str, shape: Any, initialiser: Any, dtype: Any, *, trained: bool) -> Declaration:
    rule = as_initialiser(initialiser, op)
    return Declaration(as_shape(shape, op), rule, as_dtype(dtype, op), trained)


@dataclass
class Binding:
    """The arrays that stand for a model's parameters during one call, and the mode it is in."""

    values: dict[Declaration, Array]
    """What was given; for the rest the current values stand."""
    paths: dict[Module, Path]
    """Where each layer is in the model that was called."""
    training: bool = False
    new_states: dict[Declaration, Array] = field(default_factory=dict[Declaration, Array])
    """New values of states."""
    observe: Callable[[Module, Any, Any], None] | None = None
    """Called for each layer with what went in and what came out."""
    running: Module | None = None
    """The innermost layer being called."""
    scope: str = field(default_factory=SCOPE.get)
    """The scope in which the model was called."""

    def scope_of(self, module: Module) -> str:
        """The scope of a layer called by the one running: the open one, and the path below it.

        A layer that is none of the running layer's own has the path in the whole model.
        """
        path = self.paths.get(module, ())
        above = () if self.running is None else self.paths.get(self.running, ())
        if path[: len(above)] == above:
            return join(SCOPE.get(), path_text(path[len(above) :]))
        return join(self.scope, path_text(path))

    def read(self, declaration: Declaration) -> Array:
        """The array that stands for a parameter or state."""
        for known in (self.new_states, self.values):
            if declaration in known:
                return known[declaration]
        return wrap(declaration.node)

    def change(self, declaration: Declaration, value: Any, label: str) -> None:
        """Let a state take a new value."""
        array = wrap(lift(value, label))
        if array.shape != declaration.shape:
            raise value_error(
                label, f"the new value has shape {array.shape}; it must be {declaration.shape}"
            )
        if not declaration.accepts(array.dtype):
            raise type_error(
                label,
                f"the new value has dtype {array.dtype}; it must be like {declaration.dtype}: "
                f"convert it (value.astype({str(declaration.dtype)!r})), or declare the state so",
            )
        given = self.values.get(declaration)
        dtype = declaration.dtype if given is None else given.dtype
        self.new_states[declaration] = array if array.dtype == dtype else array.astype(dtype)


BINDING: Final[ContextVar[Binding | None]] = ContextVar("binding", default=None)
"""The binding of the call of a model that is under way."""
