"""Names for parts of a graph: scopes around what is written in them, and names of arrays.

    with tw.scope("encoder"):
        hidden = np.tanh(x @ weights)          # plans, errors and pictures say "in encoder"
    cost = np.name(np.mean(hidden**2), "cost")

Layers of `tawny.nn` open a scope of their path in the model, as `blocks.3.conv1`, by themselves.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import Token
from typing import Final, final

from tawny.array import Array, ArrayLike, lift, wrap
from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error, value_error
from tawny.node import Constant, Node, Variable
from tawny.source import SCOPE, Source, caller


@final
class scope(ContextDecorator):  # noqa: N801  (used as a statement)
    """Nodes recorded inside `with tw.scope("name"):` belong to the scope of that name.

    - `name`: of the scope, which plans, errors and pictures show beside the line.

    Scopes nest: inside `scope("encoder")`, `scope("block")` is `encoder.block`.  A scope may be
    opened again, and decorates functions too: `@tw.scope("loss")`.

        x = tw.var("x", (3,))
        with tw.scope("model"):
            y = np.exp(x)
        "in model" in tw.Graph([x], y).trace()        # -> True
    """

    def __init__(self, name: str) -> None:
        self.name: Final = _check_name(name, "scope")
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> scope:
        self._tokens.append(SCOPE.set(join(SCOPE.get(), self.name)))
        return self

    def __exit__(self, *error: object) -> None:
        SCOPE.reset(self._tokens.pop())

    def _recreate_cm(self) -> scope:
        """A scope for one call of a decorated function, which may run in several threads."""
        return scope(self.name)

    def __repr__(self) -> str:
        return f"scope({self.name!r})"


def join(outer: str, inner: str) -> str:
    """A scope inside another one; each may be empty."""
    return f"{outer}.{inner}" if outer and inner else outer or inner


@explain_bad_calls
def name(x: ArrayLike, name: str) -> Array:
    """The array `x`, which plans, errors and pictures call by `name` from then on.

    - `x`: an array that is no variable: those are named by `tw.var`.
    - `name`: what to call it.

    The value is the same one, so whoever computes it elsewhere sees the name too.

        cost = np.name(np.mean(np.asarray([1.0, 2.0])), "cost")
        cost.name                                     # -> 'cost'
    """
    label = _check_name(name, "name")
    node = lift(x, "name")
    if isinstance(node.op, Variable):
        raise value_error(
            "name",
            f"the array is variable {node.name!r}; variables are named by tw.var(name)",
        )
    if isinstance(node.op, Constant):  # equal constants are one node: this one is not theirs
        node = Node(node.op, (), node.shape, node.dtype, value=node.value)
    sources = node.sources or _caller_sources()
    if any(s.name for s in sources):
        sources = (*sources, *_caller_sources())
    node.sources = tuple([s if s.name else s._replace(name=label) for s in sources])
    return x if isinstance(x, Array) and x.node is node else wrap(node)


def _caller_sources() -> tuple[Source, ...]:
    source = caller()
    return () if source is None else (source,)


def _check_name(name: object, op: str) -> str:
    if not isinstance(name, str):
        raise type_error(op, f"the name is {name!r}, {type(name).__name__}; accepted: a string")
    if not name or not name.isprintable():
        raise value_error(op, f"the name is {name!r}; accepted: printable text")
    return name
