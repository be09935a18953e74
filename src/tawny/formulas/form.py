"""How one op is written from its operands, in any notation.

A form is a text with `#0`, `#1`, ... for the operands, and how tightly it and each of them binds:
an operand that binds less tightly than its place asks for stands in parentheses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

ANYTHING: Final = 0
"""What a place asks for that has its own delimiters, as between parentheses."""

ATOM: Final = 100
"""Binds most tightly: a name, a number, a call."""

_OPERAND: Final = re.compile(r"#(\d+)")


class Form(NamedTuple):
    """A text of operands."""

    template: str
    level: int = ATOM
    """How tightly it binds."""
    needs: Sequence[int] | int = ANYTHING
    """How tightly each operand must bind, or all of them."""

    def least_level(self, position: int) -> int:
        """How tightly an operand must bind."""
        return self.needs if isinstance(self.needs, int) else self.needs[position]

    def repeats(self) -> frozenset[int]:
        """The operands that stand in it more than once."""
        return _repeated_operands(self.template)

    def fill(self, operands: Sequence[str]) -> str:
        """The text with operands in their places."""
        return _OPERAND.sub(lambda found: operands[int(found[1])], self.template)


@lru_cache(1024)
def _repeated_operands(template: str) -> frozenset[int]:
    counts = Counter(_OPERAND.findall(template))
    return frozenset(int(digits) for digits, count in counts.items() if count > 1)


HIDDEN: Final = Form("#0")
"""An op that is not written: its operand stands for it, and binds as it does."""


class Text(NamedTuple):
    """A written value, and how tightly it binds."""

    text: str
    level: int = ATOM


def call(name: str, count: int, *options: str) -> Form:
    """A function of `count` operands, and of options behind them."""
    return Form(f"{name}({', '.join([*(f'#{i}' for i in range(count)), *options])})")


def left_binary(sign: str, level: int) -> Form:
    """An operator whose chains are read from the left."""
    return Form(f"#0 {sign} #1", level, (level, level + 1))
