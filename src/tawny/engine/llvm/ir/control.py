"""Control flow: blocks, branches, and loops while their bodies are written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tawny.engine.llvm.ir.memory import MemoryInstructions
from tawny.engine.llvm.ir.values import I64, Type, Value

if TYPE_CHECKING:
    from tawny.engine.llvm.ir.builder import Module


class Loop:
    """A counted loop while its body is written, and what it carried after."""

    def __init__(self, index: Value, carried: list[Value]) -> None:
        self.index = index
        self.carried = carried
        """The carried values as this round finds them; after the loop, as the last round left
        them."""
        self.next: list[Value] = list(carried)

    def carry(self, *values: Value) -> None:
        """What the next round finds."""
        if len(values) != len(self.carried):
            raise ValueError(f"the loop carries {len(self.carried)} values, not {len(values)}")
        self.next = list(values)


class RepeatLoop:
    """A loop that ends by a condition, while its body is written, and what it carried after."""

    def __init__(self, carried: list[Value]) -> None:
        self.carried = carried
        self.next = carried
        self.condition: Value | None = None

    def again(self, condition: Value, *values: Value) -> None:
        """Go on while the scalar condition holds; `values` are what the next round finds."""
        if len(values) != len(self.carried):
            raise ValueError(f"the loop carries {len(self.carried)} values, not {len(values)}")
        self.condition = condition
        self.next = list(values)


class ControlFlow(MemoryInstructions):
    """The instructions of a function being written, and the blocks that they are in."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._block = "entry"
        self._ended = False

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
