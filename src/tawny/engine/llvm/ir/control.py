"""Loops while their bodies are written."""

from __future__ import annotations

from tawny.engine.llvm.ir.values import Value


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
