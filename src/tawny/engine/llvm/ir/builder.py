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

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from tawny.engine.llvm.ir import float16
from tawny.engine.llvm.ir.control import Loop, RepeatLoop
from tawny.engine.llvm.ir.values import (
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

    def text(self) -> str:
        """The IR of the whole module."""
        parts = [
            *["; finished"] * self.finished,
            *[f"; requires {name}" for name in sorted(self._required)],
            *self.globals,
            *[self.declarations[n] for n in sorted(self.declarations)],
            *[f.text() for f in self.functions],
            f"attributes #0 = {{ {self.target.attributes} }}",
        ]
        return "\n".join(parts) + "\n"


class Function:
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
        self.module = module
        self.name = name
        self.returns = returns
        self.arguments = tuple(Value(self, t, f"%{n}") for n, t in arguments.items())
        self._linkage = linkage
        self._attributes = attributes
        self._lines: list[str] = []
        self._entry: list[str] = []
        self._count = 0
        self._block = "entry"
        self._ended = False

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

    # ------------------------------------------------------------- instructions

    def fresh(self, stem: str = "v") -> str:
        """A name that is not used yet."""
        self._count += 1
        return f"{stem}{self._count}"

    def emit(self, type: Type, instruction: str) -> Value:
        """An instruction with a result, given its text."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {instruction}")
        return Value(self, type, name)

    @property
    def length(self) -> int:
        """How many lines were written."""
        return len(self._lines)

    def effect(self, instruction: str) -> None:
        """An instruction without a result."""
        self._lines.append(f"  {instruction}")

    def constant(self, type: Type, number: float) -> Value:
        """A number, in every lane of a vector."""
        return Value(self, type, literal(type, number))

    def vector(self, element: Type, numbers: Sequence[float]) -> Value:
        """A constant vector, a number for each lane."""
        items = ", ".join(f"{element} {literal(element, n)}" for n in numbers)
        return Value(self, element.by(len(numbers)), f"<{items}>")

    def poison(self, type: Type) -> Value:
        """LLVM's poison: a value that is never looked at."""
        return Value(self, type, "poison")

    def global_address(self, name: str) -> Value:
        """Where a table of the module, or one of its functions, lies."""
        return Value(self, PTR, f"@{name}")

    def binary(self, name: str, left: Value, right: Value) -> Value:
        """An arithmetic instruction of LLVM on two values of one type."""
        if left.type != right.type:
            raise TypeError(f"{name} of {left} and {right}")
        return self.emit(left.type, f"{name} {left.type} {left.text}, {right.text}")

    def compare(self, predicate: str, left: Value, right: Value | float) -> Value:
        """LLVM's comparison; truth as one bit a lane."""
        right = left.of(right)
        if left.type != right.type:
            raise TypeError(f"{predicate} of {left} and {right}")
        kind = "fcmp" if left.type.floating else "icmp"
        text = f"{kind} {predicate} {left.type} {left.text}, {right.text}"
        return self.emit(I1.like(left.type), text)

    def select(self, condition: Value, yes: Value | float, no: Value | float) -> Value:
        """`yes` where the condition holds, else `no`; one of them at least is a value."""
        if not isinstance(yes, Value):
            if not isinstance(no, Value):
                raise TypeError("select of two numbers has no type")
            yes = no.of(yes)
        no = yes.of(no)
        if yes.type != no.type:
            raise TypeError(f"select of {yes} and {no}")
        return self.emit(yes.type, f"select {condition}, {yes}, {no}")

    def convert(self, kind: str, value: Value, element: Type) -> Value:
        """LLVM's conversion `kind` (sitofp, fptosi, zext, trunc, fpext ...), lane by lane."""
        given = value.type.scalar
        if element == F16 and kind == "fptrunc":
            value = value if given == F32 else float16.round_to_odd(self, value)
            if not self.module.target.converts_halves:
                return float16.narrow(self, value)
        if given == F16 and kind == "fpext" and not self.module.target.converts_halves:
            value = float16.widen(self, value)
            if element == F32:
                return value
        to = element.like(value.type)
        return self.emit(to, f"{kind} {value} to {to}")

    def bitcast(self, value: Value, type: Type) -> Value:
        """A value's bits taken as another type of its size."""
        return self.emit(type, f"bitcast {value} to {type}")

    def bits(self, value: Value) -> Value:
        """A floating-point number's bits as an integer."""
        return self.bitcast(value, integer_of(value.type))

    # ---------------------------------------------------------------- functions

    def call(self, name: str, returns: Type, *arguments: Value) -> Value:
        """Call a function of the module; the result of a void one is never looked at."""
        text = f"call {returns} @{name}({', '.join(map(repr, arguments))})"
        if returns == VOID:
            self.effect(text)
            return Value(self, VOID, "poison")
        return self.emit(returns, text)

    def call_address(self, address: Value, *arguments: Value) -> None:
        """Call a function by its address; it returns nothing."""
        self.effect(f"call void {address.text}({', '.join(map(repr, arguments))})")

    def intrinsic(
        self, name: str, returns: Type, *arguments: Value, overload: Sequence[Type] | None = None
    ) -> Value:
        """Call `llvm.name`, overloaded on the result's type or on those given."""
        types = (returns,) if overload is None else overload
        full = ".".join(["llvm", name, *[t.intrinsic_suffix for t in types]])
        self.module.declare(full, returns, [a.type for a in arguments])
        return self.call(full, returns, *arguments)

    def fma(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """`a * b + c` with one rounding."""
        return self.intrinsic("fma", a.type, a, a.of(b), a.of(c))

    def unary(self, name: str, x: Value) -> Value:
        """An intrinsic of one argument, such as sqrt, fabs, floor, ceil, trunc, rint, roundeven."""
        return self.intrinsic(name, x.type, x)

    def sqrt(self, x: Value) -> Value:
        """Square root, correctly rounded."""
        return self.unary("sqrt", x)

    def absolute(self, x: Value) -> Value:
        """A floating-point number without its sign."""
        return self.unary("fabs", x)

    def copysign(self, x: Value, sign: Value) -> Value:
        """The magnitude of `x` with another number's sign."""
        return self.intrinsic("copysign", x.type, x, sign)

    def minimum(self, a: Value, b: Value | int) -> Value:
        """The smaller of two signed integers."""
        return self.intrinsic("smin", a.type, a, a.of(b))

    def maximum(self, a: Value, b: Value | int) -> Value:
        """The larger of two signed integers."""
        return self.intrinsic("smax", a.type, a, a.of(b))

    # ------------------------------------------------------------------ vectors

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane; with 0 lanes the scalar itself."""
        if not lanes:
            return value
        type = value.type.by(lanes)
        first = self.emit(type, f"insertelement {type} poison, {value}, i32 0")
        zero = f"<{lanes} x i32> zeroinitializer"
        return self.emit(type, f"shufflevector {first}, {type} poison, {zero}")

    def shuffle(self, a: Value, b: Value | None, lanes: Sequence[int]) -> Value:
        """Lanes of `a` and, counted on, of `b`; -1 for a lane that is never looked at."""
        items = ", ".join("i32 poison" if n < 0 else f"i32 {n}" for n in lanes)
        other = f"{a.type} poison" if b is None else f"{b}"
        text = f"shufflevector {a}, {other}, <{len(lanes)} x i32> <{items}>"
        return self.emit(a.type.by(len(lanes)), text)

    def lane(self, vector: Value, number: Value | int) -> Value:
        """One element of a vector."""
        place = number if isinstance(number, Value) else self.constant(I32, number)
        return self.emit(vector.type.scalar, f"extractelement {vector}, {place}")

    def counting(self, element: Type, lanes: int) -> Value:
        """0, 1, 2 ... lane by lane."""
        return self.vector(element, range(lanes))

    def first_lanes(self, count: Value, lanes: int) -> Value:
        """A mask of the first `count` lanes."""
        return self.compare(
            "ult", self.counting(count.type.scalar, lanes), self.splat(count, lanes)
        )

    # ------------------------------------------------------------------- memory

    def element(self, base: Value, index: Value | int, type: Type) -> Value:
        """The address of element `index` of an array."""
        place = index if isinstance(index, Value) else self.constant(I64, index)
        return self.emit(base.type, f"getelementptr {type}, {base}, {place}")

    def offset(self, base: Value, nbytes: Value | int) -> Value:
        """The address `nbytes` bytes past another."""
        return self.element(base, nbytes, I8)

    def load(self, type: Type, address: Value, align: int | None = None) -> Value:
        """What lies at an address; aligned to an element unless more is promised."""
        return self.emit(type, f"load {type}, {address}, align {align or type.nbytes}")

    def store(self, value: Value, address: Value, align: int | None = None) -> None:
        """Write a value at an address."""
        self.effect(f"store {value}, {address}, align {align or value.type.nbytes}")

    def masked_load(self, type: Type, address: Value, mask: Value, other: Value) -> Value:
        """Lanes of a vector in memory where the mask holds, those of `other` elsewhere."""
        align, types = self.constant(I32, type.nbytes), (type, address.type)
        return self.intrinsic("masked.load", type, address, align, mask, other, overload=types)

    def masked_store(self, value: Value, address: Value, mask: Value) -> None:
        """Write the lanes where the mask holds."""
        align, types = self.constant(I32, value.type.nbytes), (value.type, address.type)
        self.intrinsic("masked.store", VOID, value, address, align, mask, overload=types)

    def cell(self, row: Value, number: int, type: Type = I64) -> Value:
        """An 8-byte cell of a kernel's row."""
        return self.load(type, self.element(row, number, I64), 8)

    def stack_buffer(self, nbytes: int, align: int = 64) -> Value:
        """Bytes on the stack, reserved once however often the place is passed."""
        name = f"%{self.fresh('buffer')}"
        self._entry.append(f"  {name} = alloca [{nbytes} x i8], align {align}")
        return Value(self, PTR, name)

    # ------------------------------------------------------------- control flow

    def block(self, label: str) -> None:
        """Begin a block; the one before must have ended or falls into it."""
        if not self._ended:
            self.jump(label)
        self._lines.append(f"{label}:")
        self._block = label
        self._ended = False

    def jump(self, label: str) -> None:
        """Go to a block."""
        self.effect(f"br label %{label}")
        self._ended = True

    def jump_if(self, condition: Value, yes: str, no: str) -> None:
        """Go to one of two blocks."""
        self.effect(f"br {condition}, label %{yes}, label %{no}")
        self._ended = True

    def return_(self, value: Value | None = None) -> None:
        """End the function."""
        self.effect("ret void" if value is None else f"ret {value}")
        self._ended = True

    def phi(self, type: Type, incoming: Sequence[tuple[Value, str]]) -> Value:
        """The value that belongs to the block control came from."""
        pairs = ", ".join(f"[ {v.text}, %{label} ]" for v, label in incoming)
        return self.emit(type, f"phi {type} {pairs}")

    @property
    def current_block(self) -> str:
        """The label of the block being written."""
        return self._block

    @contextmanager
    def loop(
        self,
        start: Value | int,
        stop: Value | int,
        step: Value | int = 1,
        *,
        carried: Sequence[Value] = (),
    ) -> Generator[Loop]:
        """Count from `start` up to, not including, `stop`; nothing happens when it is not above.

        Values in `carried` enter the first round, `loop.carry(...)` gives them to the next, and
        after the block `loop.carried` holds them as the last round left them.
        """
        first, last, by = (
            n if isinstance(n, Value) else self.constant(I64, n) for n in (start, stop, step)
        )
        body, end = self.fresh("loop"), self.fresh("end")
        before = self._block
        self.jump_if(first < last, body, end)
        self.block(body)
        hole = len(self._lines)
        names = [f"%{self.fresh('c')}" for _ in range(len(carried) + 1)]
        index = Value(self, first.type, names[0])
        loop = Loop(
            index, [Value(self, v.type, n) for v, n in zip(carried, names[1:], strict=True)]
        )
        yield loop
        after = index + by
        again = after < last
        latch = self._block
        self.jump_if(again, body, end)
        rounds = [(index, first, after)]
        rounds += zip(loop.carried, carried, loop.next, strict=True)
        self._lines[hole:hole] = [
            f"  {v.text} = phi {v.type} [ {a.text}, %{before} ], [ {b.text}, %{latch} ]"
            for v, a, b in rounds
        ]
        self.block(end)
        loop.carried = [
            self.phi(a.type, [(a, before), (b, latch)])
            for a, b in zip(carried, loop.next, strict=True)
        ]

    @contextmanager
    def repeat(self, *carried: Value) -> Generator[RepeatLoop]:
        """Do the block, and again as long as its `repeat.again(...)` says.

        After the block `repeat.carried` holds what the last round gave.
        """
        body, end = self.fresh("repeat"), self.fresh("end")
        before = self._block
        self.block(body)
        hole = len(self._lines)
        repeat = RepeatLoop([Value(self, v.type, f"%{self.fresh('c')}") for v in carried])
        yield repeat
        if repeat.condition is None:
            raise ValueError("the loop does not say when it goes on")
        latch = self._block
        self.jump_if(repeat.condition, body, end)
        self._lines[hole:hole] = [
            f"  {v.text} = phi {v.type} [ {a.text}, %{before} ], [ {b.text}, %{latch} ]"
            for v, a, b in zip(repeat.carried, carried, repeat.next, strict=True)
        ]
        self.block(end)
        repeat.carried = repeat.next

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """Do the block only where a scalar condition holds."""
        body, end = self.fresh("then"), self.fresh("end")
        self.jump_if(condition, body, end)
        self.block(body)
        yield
        self.block(end)

    def either(
        self,
        condition: Value,
        yes: Callable[[], Sequence[Value]],
        no: Callable[[], Sequence[Value]],
    ) -> list[Value]:
        """Do one of two things by a scalar condition; each gives as many values, of equal types."""
        first, second, end = self.fresh("then"), self.fresh("else"), self.fresh("end")
        self.jump_if(condition, first, second)
        outcomes: list[tuple[Sequence[Value], str]] = []
        for label, act in ((first, yes), (second, no)):
            self.block(label)
            values = act()
            outcomes.append((values, self._block))
            self.jump(end)
        self.block(end)
        (left, a), (right, b) = outcomes
        return [self.phi(x.type, [(x, a), (y, b)]) for x, y in zip(left, right, strict=True)]
