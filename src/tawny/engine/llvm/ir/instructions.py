"""Instructions on values: constants, arithmetic, conversions, calls, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tawny.engine.llvm.ir import bfloat16, float16
from tawny.engine.llvm.ir.values import (
    BF16,
    F16,
    F32,
    I1,
    I32,
    PTR,
    VOID,
    Type,
    Value,
    integer_of,
    literal,
)

if TYPE_CHECKING:
    from tawny.engine.llvm.ir.builder import Module


class Instructions:
    """The instructions of a function being written, one after another."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._lines: list[str] = []
        self._count = 0

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

    def select(
        self, condition: Value, yes: Value | float, no: Value | float, *, guess: bool = True
    ) -> Value:
        """`yes` where the condition holds, else `no`; one of them at least is a value.

        Without `guess` it is never made a branch, which costs much where nobody can guess it.
        """
        if not isinstance(yes, Value):
            if not isinstance(no, Value):
                raise TypeError("select of two numbers has no type")
            yes = no.of(yes)
        no = yes.of(no)
        if yes.type != no.type:
            raise TypeError(f"select of {yes} and {no}")
        mark = "" if guess else f", !unpredictable {self.module.empty_node()}"
        return self.emit(yes.type, f"select {condition}, {yes}, {no}{mark}")

    def convert(self, kind: str, value: Value, element: Type) -> Value:
        """LLVM's conversion `kind` (sitofp, fptosi, zext, trunc, fpext ...), lane by lane."""
        given = value.type.scalar
        if element in (F16, BF16) and kind == "fptrunc":
            value = value if given == F32 else float16.round_to_odd(self, value)
            if element == BF16:
                return bfloat16.narrow(self, value)
            if not self.module.target.converts_halves:
                return float16.narrow(self, value)
        if given == BF16 and kind == "fpext":
            value = bfloat16.widen(self, value)
        if given == F16 and kind == "fpext" and not self.module.target.converts_halves:
            value = float16.widen(self, value)
        if kind == "fpext" and element == value.type.scalar:
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
        return self._call(returns, f"@{name}({', '.join(map(repr, arguments))})")

    def call_address(
        self,
        address: Value,
        *arguments: Value,
        returns: Type = VOID,
        fixed: int | None = None,
        attributes: str = "",
    ) -> Value:
        """Call a function by its address; the result of a void one is never looked at.

        `fixed` says how many arguments come first in a function that takes any number more.
        """
        text = f"{address.text}({', '.join(map(repr, arguments))}) {attributes}".rstrip()
        if fixed is not None:
            text = f"({', '.join([*[str(a.type) for a in arguments[:fixed]], '...'])}) {text}"
        return self._call(returns, text)

    def _call(self, returns: Type, text: str) -> Value:
        if returns == VOID:
            self.effect(f"call void {text}")
            return self.poison(VOID)
        return self.emit(returns, f"call {returns} {text}")

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
