"""Writes LLVM IR as text, so that a generator reads like the algorithm it generates.

    module = Module(target)
    with module.function("scale", {"x": PTR, "n": I64, "factor": F32}) as f:
        x, n, factor = f.arguments
        factors = f.splat(factor, 16)
        with f.loop(0, n, 16) as loop:
            place = f.element(x, loop.index, F32)
            f.store(f.load(F32.by(16), place) * factors, place)
    listing = assembly(module.text(), target)

Values carry their type and Python's operators; a Python number beside a value is a constant of its
type.  Integers have no sign in LLVM: `<`, `>>` and `//` take them as signed, and there are methods
for the unsigned kind.  Nothing is folded or simplified here: LLVM does that.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tawny.engine.llvm.ir.control import ControlFlow, Loop, RepeatLoop
from tawny.engine.llvm.ir.values import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Type,
    Value,
    integer_of,
    literal,
    pointer,
)
from tawny.engine.llvm.targets import Target

__all__ = [
    "BF16",
    "F16",
    "F32",
    "F64",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "PTR",
    "VOID",
    "Type",
    "Value",
    "integer_of",
    "literal",
    "pointer",
    "Function",
    "Loop",
    "Module",
    "RepeatLoop",
]


EMPTY_NODE: Final = "!0"


class Module:
    """Functions that are compiled together.

    Code that is `finished` is compiled in less time: it repeats nothing, and leaves little to
    simplify.
    """

    def __init__(self, target: Target, *, finished: bool = False) -> None:
        self.target = target
        self.finished = finished
        self.functions: list[Function] = []
        self.declarations: dict[str, str] = {}
        self.globals: list[str] = []
        self._defined: set[str] = set()
        self._required: set[str] = set()
        self._has_empty_node = False

    def require(self, library: str) -> None:
        """Link with a shared library, one given to `library.provide`."""
        self._required.add(library)

    def first_time(self, name: str) -> bool:
        """Whether `name` was not asked for before: who defines a shared helper asks this."""
        if name in self._defined:
            return False
        self._defined.add(name)
        return True

    @contextmanager
    def function(
        self,
        name: str,
        arguments: Mapping[str, Type],
        returns: Type = VOID,
        *,
        internal: bool = False,
        kernel: bool = False,
        attributes: str = "",
    ) -> Generator[Function]:
        """A function whose body the `with` block writes; it ends with `return`, or is void.

        A `kernel` has the calling convention by which the target is given work.  `attributes` are
        LLVM's, such as `alwaysinline` or `noinline`.
        """
        words = "internal" * internal, self.target.kernel_convention * kernel
        code = Function(self, name, arguments, returns, " ".join(filter(None, words)), attributes)
        yield code
        code.finish()
        self.functions.append(code)

    def declare(self, name: str, returns: Type, arguments: Sequence[Type]) -> None:
        """Make a function that is defined elsewhere known."""
        self.declarations[name] = f"declare {returns} @{name}({', '.join(map(str, arguments))})"

    def table(self, name: str, type: Type, numbers: Sequence[float]) -> str:
        """A constant array; the name to give to `Function.global_address`."""
        items = ", ".join(f"{type} {literal(type, n)}" for n in numbers)
        kind = f"[{len(numbers)} x {type}]"
        self.globals.append(f"@{name} = internal unnamed_addr constant {kind} [{items}], align 64")
        return name

    def zeros(self, name: str, nbytes: int) -> str:
        """As many zero bytes; the name to give to `Function.global_address`."""
        kind = f"[{nbytes} x i8]"
        self.globals.append(f"@{name} = internal constant {kind} zeroinitializer, align 64")
        return name

    def shared_array(self, name: str, nbytes: int) -> str:
        """Memory that the threads of a block share; the name to give to `shared_address`."""
        if self.first_time(name):
            space = self.target.shared_space
            kind = f"[{nbytes} x i8]"
            self.globals.append(
                f"@{name} = internal addrspace({space}) global {kind} undef, align 16"
            )
        return name

    def dynamic_array(self, name: str, nbytes: int) -> str:
        """Memory that the threads of a block share, as much as a launch gives; its name.

        A kernel has one such array, and modules may have kernels with arrays of other sizes.
        """
        own = f"{name}{nbytes}"
        if self.first_time(own):
            space = self.target.shared_space
            kind = f"external addrspace({space}) global [0 x i8], align 16 ; {nbytes} bytes"
            self.globals.append(f"@{own} = {kind}")
        return own

    def text(self) -> str:
        """The IR of the whole module."""
        parts = [
            *["; finished"] * self.finished,
            *[f"; requires {name}" for name in sorted(self._required)],
            *self.globals,
            *[self.declarations[n] for n in sorted(self.declarations)],
            *[f.text() for f in self.functions],
            f"attributes #0 = {{ {self.target.attributes} }}",
            *[f"{EMPTY_NODE} = !{{}}"] * self._has_empty_node,
        ]
        return "\n".join(parts) + "\n"

    def empty_node(self) -> str:
        """The name of a node of metadata that says nothing."""
        self._has_empty_node = True
        return EMPTY_NODE


class Function(ControlFlow):
    """A function being written, instruction by instruction."""

    def __init__(
        self,
        module: Module,
        name: str,
        arguments: Mapping[str, Type],
        returns: Type,
        linkage: str,
        attributes: str,
    ) -> None:
        super().__init__(module)
        self.name = name
        self.returns = returns
        self.arguments = tuple(Value(self, t, f"%{n}") for n, t in arguments.items())
        self._linkage = linkage
        self._attributes = attributes

    def text(self) -> str:
        """The definition."""
        arguments = ", ".join(map(repr, self.arguments))
        named = f"{self.returns} @{self.name}({arguments})"
        head = " ".join(filter(None, ["define", self._linkage, named, self._attributes, "#0 {"]))
        return "\n".join([head, "entry:", *self._entry, *self._lines, "}"])

    def finish(self) -> None:
        """End a function that returns nothing."""
        if not self._ended:
            if self.returns != VOID:
                raise ValueError(f"{self.name} ends without its {self.returns}")
            self.return_()
