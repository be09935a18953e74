"""When a result may be written over an operand: the rules that do not depend on the order."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tawny.memory.problem import PlanStep, Problem


class Refusal(Enum):
    """The reason why a result is not written over an operand."""

    OP = "the operation does not allow it"
    ALIAS = "the operand's memory is also read where the operation does not allow it"
    VIEW = "the result is a view and has no memory of its own"
    RESIDENT = "the operand lives outside the arena"
    KEPT = "the operand is kept"
    SIZE = "their sizes differ"
    READ_LATER = "the operand is still read later"
    TAKEN = "the operand is overwritten by another result"
    CHOSEN = "another operand was chosen"


def declared_refusal(problem: Problem, step: PlanStep, i: int, o: int) -> Refusal | None:
    """Why output `o` may never be written over input `i`, whatever the order; None if it may."""
    values, roots = problem.values, problem.roots
    operand, result = step.inputs[i], step.outputs[o]
    if (i, o) not in step.overwrites:
        return Refusal.OP
    if values[result].view_of is not None:
        return Refusal.VIEW
    root = roots[operand]
    if problem.makers[root] is None:
        return Refusal.RESIDENT
    if root in problem.kept_roots:
        return Refusal.KEPT
    if not values[result].bytes == values[operand].bytes == values[root].bytes:
        return Refusal.SIZE
    read = [roots[v] for v in step.inputs]
    if read.count(root) > 1:
        for other, r in enumerate(read):
            if r == root and (other, o) not in step.overwrites:
                return Refusal.ALIAS
    return None


def match(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """For as many outputs as possible an operand of its own, given (operand, output) pairs.

    Earlier pairs are preferred: an output changes its operand only to let another one have it.
    """
    options: dict[int, list[int]] = {}
    for operand, output in pairs:
        options.setdefault(output, []).append(operand)
    first = {output: operands[0] for output, operands in options.items()}
    if len(set(first.values())) == len(first):
        return first
    holder: dict[int, int] = {}

    def place(output: int, asked: set[int]) -> bool:
        """Find an operand for `output`, moving holders of one to another where need be."""
        for operand in options[output]:
            if operand not in asked:
                asked.add(operand)
                if operand not in holder or place(holder[operand], asked):
                    holder[operand] = output
                    return True
        return False

    for output in options:
        place(output, set())
    return {output: operand for operand, output in holder.items()}
