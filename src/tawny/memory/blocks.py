"""The report's Algorithm 1: values share blocks of memory, chosen one after the other.

A value takes the first bytes of its block.  In the order of the steps each takes the smallest free
block that is large enough, else the largest free block, which grows, else a new one.  The block of
an operand that a step reads last is free for the result of that step if the step may overwrite it,
and after the step if not.

The rules the report leaves open are these.  Only a free block is grown or handed out, and it is
free no longer.  Readers are counted once per step, however often the step reads a value, and only
steps of the order count.  Kept values have blocks of their own.  A block grows on paper: memory is
allocated when all are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tawny.errors import value_error
from tawny.lazy import cached_property
from tawny.memory.inplace import declared_refusal
from tawny.memory.problem import PlanStep, Problem


class BlockOrigin(Enum):
    """The way in which a value came by its block."""

    KEPT = "own"
    """A new block that is never shared."""
    IN_PLACE = "in place"
    """The block of an operand it is written over."""
    FITS = "fits"
    """The smallest free block that is large enough."""
    GROWN = "grown"
    """The largest free block, which grew."""
    NEW = "new"
    """A new block, since none was free."""


class BlockChoice(NamedTuple):
    """One decision: the block that a value, or the scratch memory of a step, was given."""

    step: int
    value: int | None
    """None for the scratch memory."""
    bytes: int
    block: int
    origin: BlockOrigin
    size: int
    """Bytes of the block from then on."""


@dataclass(frozen=True)
class Blocks:
    """The block of each value, and the sizes of the blocks."""

    problem: Problem
    order: tuple[int, ...]
    block_of: tuple[int | None, ...]
    """For each value its block; views share their root's; None outside the arena."""
    sizes: tuple[int, ...]
    """Final bytes of each block."""
    history: tuple[BlockChoice, ...]
    """Every decision, in order."""

    @property
    def total(self) -> int:
        """Bytes of all blocks together."""
        return sum(self.sizes)

    @cached_property
    def occupants(self) -> tuple[tuple[int, ...], ...]:
        """For each block the values that live in it, in order; scratch memory left out."""
        occupants: list[list[int]] = [[] for _ in self.sizes]
        for choice in self.history:
            if choice.value is not None:
                occupants[choice.block].append(choice.value)
        return tuple(map(tuple, occupants))

    def table(self) -> str:
        """Every decision as a line: what was made, its bytes, its block and how it got it."""
        rows = [("value", "bytes", "block", "how"), *map(self._row, self.history)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"{name:<{widths[0]}}  {size:>{widths[1]}}  {block:<{widths[2]}}  {how}".rstrip()
            for name, size, block, how in rows
        ]
        return "\n".join([*lines, str(self)])

    def _row(self, choice: BlockChoice) -> tuple[str, str, str, str]:
        if choice.value is None:
            name = f"scratch of step {choice.step}"
        else:
            label = self.problem.values[choice.value].label
            name = f"value {choice.value}" if label is None else str(label)
        how = choice.origin.value
        if choice.origin is BlockOrigin.GROWN:
            how = f"{how} to {choice.size:,}"
        return name, f"{choice.bytes:,}", block_name(choice.block), how

    def __str__(self) -> str:
        noun = "block" if len(self.sizes) == 1 else "blocks"
        sizes = ", ".join(f"{block_name(b)} {size:,}" for b, size in enumerate(self.sizes[:8]))
        more = ", ..." if len(self.sizes) > 8 else ""
        return f"{self.total:,} bytes in {len(self.sizes)} {noun}: {sizes}{more}"


def allocate_blocks(
    problem: Problem, order: Iterable[int] | None = None, *, prefer_in_place: bool = False
) -> Blocks:
    """Give every value that a step of `order` makes a block, by the report's Algorithm 1.

    The best fit decides, as in Owl's code: a result is written over an operand only if the
    operand's block is the best fit (it wins ties).  With `prefer_in_place` it always is, if it may,
    as the report's text has it.  Each step runs once.
    """
    sequence = tuple(range(len(problem.steps)) if order is None else order)
    readers = _readers(problem, sequence)
    allocator = _Allocator(problem, prefer_in_place)
    for s in sequence:
        step = problem.steps[s]
        operands = _operands(problem, step)
        for root in operands:
            readers[root] -= 1
        dying = [r for r in operands if not readers[r] and r not in problem.kept_roots]
        allocator.run(s, dying, readers)
    block_of = allocator.block_of
    return Blocks(
        problem,
        sequence,
        tuple([block_of[root] for root in problem.roots]),
        tuple(allocator.sizes),
        tuple(allocator.history),
    )


def block_name(block: int) -> str:
    """The name of a block: A, B, ..., Z, AA, AB, ..."""
    name = ""
    block += 1
    while block:
        block, digit = divmod(block - 1, 26)
        name = chr(ord("A") + digit) + name
    return name


def _readers(problem: Problem, order: Sequence[int]) -> list[int]:
    """For each root how many steps of the order read it; refuses an order that cannot run."""
    readers = [0] * len(problem.values)
    done: set[int] = set()
    for s in order:
        if s in done:
            raise value_error("allocate", f"step {s} occurs twice in the order; it must run once")
        done.add(s)
        for v in problem.steps[s].inputs:
            for needed in (problem.makers[v], problem.makers[problem.roots[v]]):
                if needed is not None and (needed not in done or needed == s):
                    raise value_error(
                        "allocate", f"step {s} reads value {v} before step {needed} makes it"
                    )
        for root in _operands(problem, problem.steps[s]):
            readers[root] += 1
    return readers


def _operands(problem: Problem, step: PlanStep) -> list[int]:
    """The roots that a step reads in the arena, each once."""
    roots, makers = problem.roots, problem.makers
    return [r for r in dict.fromkeys([roots[v] for v in step.inputs]) if makers[r] is not None]


def _own_outputs(problem: Problem, step: PlanStep) -> list[int]:
    """The positions of the outputs that have memory of their own."""
    return [o for o, v in enumerate(step.outputs) if problem.values[v].view_of is None]


def _may_overwrite(problem: Problem, step: PlanStep, root: int, o: int) -> bool:
    """Whether output `o` may be written over `root`, which the step is the last to read."""
    return any(
        problem.roots[step.inputs[i]] == root and declared_refusal(problem, step, i, o) is None
        for i, output in step.overwrites
        if output == o
    )


class _Allocator:
    """The state of the algorithm: blocks, those that are free, and what was decided."""

    def __init__(self, problem: Problem, prefer_in_place: bool) -> None:
        self.problem = problem
        self.prefer_in_place = prefer_in_place
        self.block_of: list[int | None] = [None] * len(problem.values)
        self.sizes: list[int] = []
        self.history: list[BlockChoice] = []
        self.free = _FreeBlocks(
            [*(value.bytes for value in problem.values), *(step.scratch for step in problem.steps)]
        )

    def run(self, s: int, dying: Sequence[int], readers: Sequence[int]) -> None:
        """Choose the blocks of step `s`, the last to read the roots `dying`, then free theirs."""
        problem, step = self.problem, self.problem.steps[s]
        owned: dict[int, int] = {}
        for root in dying:
            block = self.block_of[root]
            if block is not None and problem.values[root].bytes:
                owned[root] = block
        before: dict[int, None] = {}
        after: list[int] = []
        for o in _own_outputs(problem, step):
            v = step.outputs[o]
            size = problem.values[v].bytes
            if v in problem.kept_roots or not size:
                self.block_of[v] = self.take(s, v, size, None, BlockOrigin.KEPT)
                continue
            over = [r for r in owned if _may_overwrite(problem, step, r, o)]
            before |= dict.fromkeys(over)
            block = self.block_of[v] = self.choose(s, v, size, [owned[r] for r in over])
            owned = {r: b for r, b in owned.items() if b != block}
            if not readers[v]:
                after.append(block)
        if step.scratch:
            after.insert(0, self.choose(s, None, step.scratch, []))
        released = [*(r for r in before if r in owned), *(r for r in owned if r not in before)]
        for block in [*(owned[r] for r in released), *after]:
            self.free.add(block, self.sizes[block])

    def choose(self, s: int, v: int | None, size: int, over: Sequence[int]) -> int:
        """Give `size` bytes a block: one of `over`, in place, or a free one, or a new one."""
        fit = self.free.best_fit(size)
        if over:
            best = min(reversed(over), key=self.sizes.__getitem__)
            if self.prefer_in_place or fit is None or self.sizes[best] <= fit:
                return self.take(s, v, size, best, BlockOrigin.IN_PLACE)
        if fit is not None:
            return self.take(s, v, size, self.free.pop(fit), BlockOrigin.FITS)
        largest = self.free.largest()
        if largest is not None:
            return self.take(s, v, size, self.free.pop(largest), BlockOrigin.GROWN)
        return self.take(s, v, size, None, BlockOrigin.NEW)

    def take(self, s: int, v: int | None, size: int, block: int | None, how: BlockOrigin) -> int:
        """Note the decision; the block is a new one if None, and large enough from now on."""
        if block is None:
            block = len(self.sizes)
            self.sizes.append(size)
        self.sizes[block] = max(self.sizes[block], size)
        self.history.append(BlockChoice(s, v, size, block, how, self.sizes[block]))
        return block


class _FreeBlocks:
    """Free blocks by size; of equal ones the last to come is the first to go.

    A block is as large as some value, so the sizes are known from the start.  Which of them have a
    free block is a tree of 64-bit words: a bit of a word says whether the word below it has any.
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = sorted(set(sizes))
        self.rank = {size: rank for rank, size in enumerate(self.sizes)}
        self.stacks: list[list[int]] = [[] for _ in self.sizes]
        self.levels: list[list[int]] = []
        width = len(self.sizes)
        while width > 1 or not self.levels:
            width = (width + 63) // 64
            self.levels.append([0] * width)

    def add(self, block: int, size: int) -> None:
        """Put a block in."""
        rank = self.rank[size]
        self.stacks[rank].append(block)
        for words in self.levels:
            rank, bit = divmod(rank, 64)
            words[rank] |= 1 << bit

    def pop(self, size: int) -> int:
        """Take a block of exactly this size out."""
        rank = self.rank[size]
        block = self.stacks[rank].pop()
        if not self.stacks[rank]:
            for words in self.levels:
                rank, bit = divmod(rank, 64)
                words[rank] &= ~(1 << bit)
                if words[rank]:
                    break
        return block

    def best_fit(self, size: int) -> int | None:
        """The smallest size of a free block that is at least `size`, itself one of the sizes."""
        rank = self.rank[size]
        for height, words in enumerate(self.levels):
            word, bit = divmod(rank, 64)
            found = words[word] >> bit if word < len(words) else 0
            if found:
                rank += (found & -found).bit_length() - 1
                for below in reversed(self.levels[:height]):
                    rank = rank * 64 + (below[rank] & -below[rank]).bit_length() - 1
                return self.sizes[rank]
            rank = word + 1
        return None

    def largest(self) -> int | None:
        """The largest size of a free block."""
        rank = 0
        for words in reversed(self.levels):
            if not words or not words[rank]:
                return None
            rank = rank * 64 + words[rank].bit_length() - 1
        return self.sizes[rank]
