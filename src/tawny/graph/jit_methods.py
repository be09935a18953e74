"""Jitted functions as methods of objects."""

from __future__ import annotations

import functools
import inspect
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, final

from tawny.graph.graph import Graph
from tawny.graph.plan import Plan
from tawny.graph.program import Program

Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)


class LoweredCall(NamedTuple):
    """A call's program, which is not run."""

    program: Program

    @property
    def graph(self) -> Graph:
        """The traced graph."""
        return self.program.graph

    @property
    def plan(self) -> Plan:
        """Where every byte of a call lies."""
        return self.program.plan


class JitMethod(Protocol[Q, R_co]):
    """A jitted function, without the object whose method it is."""

    def __call__(self, /, *args: Q.args, **kwargs: Q.kwargs) -> R_co: ...
    def lower(self, /, *args: Q.args, **kwargs: Q.kwargs) -> LoweredCall:
        """The graph and plan that a call with such arguments would run."""
        ...

    def clear_cache(self) -> None:
        """Forget all programs, those of other objects too."""
        ...


@final
class BoundJitMethod(functools.partial[Any]):
    """A jitted function and the object whose method it is; to call it costs no frame of its own."""

    __doc__: Any = property(lambda self: self.func.__doc__)

    @property
    def __signature__(self) -> inspect.Signature:
        whole = inspect.signature(self.func)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    @property
    def __self__(self) -> object:
        return self.args[0]

    @property
    def __func__(self) -> Any:
        return self.func

    def lower(self, /, *args: Any, **kwargs: Any) -> LoweredCall:
        """The graph and plan that a call with such arguments would run."""
        lowering: LoweredCall = self.__func__.lower(self.__self__, *args, **kwargs)
        return lowering

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundJitMethod):
            return NotImplemented
        return self.func is other.func and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.func), id(self.__self__)))

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__name__)

    def __repr__(self) -> str:
        return f"<jitted method {self.__qualname__} of {self.__self__!r}>"
