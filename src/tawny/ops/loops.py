"""Loops and branches: ops that compute graphs of their own, once, again and again, or one of them.

The functions that make them are in `tawny.loops`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tawny.attributes import Natural
from tawny.dtype import BOOL, INT64, DType
from tawny.errors import value_error
from tawny.lazy import LazyModule
from tawny.node import Node, remake
from tawny.op import BatchOperand, Cost, Derivatives, Facts, Op, Trait, Type
from tawny.ops.subgraph import Subgraph
from tawny.shape import Shape

if TYPE_CHECKING:
    from tawny.array import Array
    from tawny.loops import batching, derivatives
else:
    batching = LazyModule("tawny.loops.batching")
    derivatives = LazyModule("tawny.loops.derivatives")

_WORD: Final = 2**64 - 1


def draw_of_place(draw: int, place: int) -> int:
    """The number by which a step of a loop draws, given that of the run and the step's place.

    Different places have different ones; loops in loops apply it again.
    """
    return _scramble(_scramble(draw) + place + 1)


def draw_of_segment(draw: int, place: int) -> int:
    """The number that a loop over the steps from a place on is given.

    Its steps draw as if they were those of the whole loop.
    """
    return _unscramble(_scramble(draw) + place)


def _scramble(word: int) -> int:
    """A permutation of the 64-bit words: the finaliser of splitmix64."""
    word &= _WORD
    for shift, factor in SCRAMBLE:
        word = (word ^ word >> shift) * factor & _WORD
    return word ^ word >> LAST_SHIFT


def _unscramble(word: int) -> int:
    """The word that a permutation makes another one of."""
    word &= _WORD
    for shift, factor in UNSCRAMBLE:
        word = (word ^ word >> shift ^ word >> 2 * shift) * factor & _WORD
    shift = SCRAMBLE[0][0]
    return word ^ word >> shift ^ word >> 2 * shift


SCRAMBLE: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""What a word is shifted by and then multiplied with, twice."""

LAST_SHIFT: Final = 31

UNSCRAMBLE: Final = tuple(
    [
        (shift, pow(factor, -1, 2**64))
        for shift, (_, factor) in zip((LAST_SHIFT, SCRAMBLE[1][0]), SCRAMBLE[::-1], strict=True)
    ]
)
"""What a word is shifted by, once and twice, and then multiplied with, to undo that."""


class DrawNumbering(NamedTuple):
    """The numbers of steps that draw: in a part of a loop they are those of the whole."""

    first: int = 0
    """What the number of the first step is counted from."""
    segment: int = 0
    """How many steps each step stands for, where a loop in it makes them; otherwise 0."""

    def offset(self, place: int) -> int:
        """What is added to the number of the run for a step."""
        return self.first + (place * self.segment if self.segment else place + 1)

    def number(self, draw: int, place: int) -> int:
        """The number by which a step draws, given that of the run."""
        if self.segment:
            return draw_of_segment(draw, self.offset(place))
        return draw_of_place(draw, self.offset(place) - 1)

    def part(self, first: int) -> DrawNumbering:
        """The numbering of a loop over the steps from a place on."""
        return self._replace(first=self.first + first * (self.segment or 1))

    def over_segments(self, first: int, count: int) -> DrawNumbering:
        """The numbering of a loop over segments of as many steps, from a place on."""
        return DrawNumbering(self.part(first).first, count * (self.segment or 1))


class BodyArgument(NamedTuple):
    """The role of an argument of a body, and where its value comes from."""

    role: str
    operand: int | None
    """The operand that it takes, or takes rows or first values of."""


class BodyOp(Op):
    """An op that computes graphs of its own."""

    def facts(self) -> Facts:
        bodies = self.bodies()
        impure = any(b.impure for b in bodies)
        return _facts(self.declaration, impure, any(b.volatile for b in bodies))

    def bodies(self) -> tuple[Subgraph, ...]:
        """The graphs that it computes."""
        raise NotImplementedError

    def with_bodies(self, bodies: Sequence[Subgraph]) -> Self:
        """The op with other graphs that take and give the same types."""
        raise NotImplementedError

    def times(self) -> int:
        """How often a graph is computed, as far as is known."""
        return 1

    def title(self) -> str:
        """What the op does, in few words."""
        return self.declaration.name

    def arguments(self) -> tuple[BodyArgument, ...]:
        """What the arguments of its graphs are."""
        raise NotImplementedError

    def infer_shape(self, *shapes: Shape) -> Shape:
        return self.result_types()[0][0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return self.result_types()[0][1]

    def infer_parts(self, *types: Type) -> tuple[Type, ...]:
        wanted = self.operand_types()
        if types != wanted:
            said = " and ".join(f"{d}{list(s)}" for s, d in types)
            accepted = " and ".join(f"{d}{list(s)}" for s, d in wanted)
            name = self.declaration.name
            raise value_error(name, f"operands are {said}; its body takes {accepted}")
        return self.result_types()

    def operand_types(self) -> tuple[Type, ...]:
        """Shapes and dtypes of the operands."""
        raise NotImplementedError

    def result_types(self) -> tuple[Type, ...]:
        """Shapes and dtypes of the results."""
        raise NotImplementedError

    def may_fail(self, dtype: DType) -> bool:
        return any(b.may_fail for b in self.bodies())


def with_bodies(node: Node, bodies: Sequence[Subgraph]) -> Node:
    """A node with other bodies that take and give the same types."""
    assert isinstance(node.op, BodyOp)
    op = node.op.with_bodies(bodies)
    made = Node(op, node.inputs, node.shape, node.dtype, node.parts, sources=node.sources)
    return remake(made, node.inputs)


@lru_cache(64)
def _facts(declaration: Facts, impure: bool, volatile: bool) -> Facts:
    own = Trait.IMPURE if impure else Trait.NONE
    own |= Trait.VOLATILE if volatile else Trait.NONE
    return dataclasses.replace(declaration, traits=declaration.traits | own) if own else declaration


class ScanLoop(BodyOp, name="loop", arity=None):
    """A body computed for one place after another, from 0 to `length` - 1, or back if `reverse`.

    Operands are the first values of the carries, then arrays whose rows the steps take, one each,
    then what is the same for all.  The body's arguments are the place, an int64 number, and those;
    its results are the new carries, and rows.  The results are the last carries, and arrays of the
    rows.
    """

    body: Subgraph
    length: Natural
    carries: Natural
    stacked: Natural
    """How many operands the steps take rows of."""
    reverse: bool
    first_draw: Natural = 0
    draw_segment: Natural = 0
    """How steps that draw are numbered: see `DrawNumbering`."""

    @property
    def numbering(self) -> DrawNumbering:
        """How steps that draw are numbered."""
        return DrawNumbering(self.first_draw, self.draw_segment)

    def bodies(self) -> tuple[Subgraph, ...]:
        return (self.body,)

    def with_bodies(self, bodies: Sequence[Subgraph]) -> Self:
        (body,) = bodies
        return self.with_attributes(body=body)

    def times(self) -> int:
        return self.length

    def title(self) -> str:
        return f"loop, {self.length:,} {'step' if self.length == 1 else 'steps'}"

    def arguments(self) -> tuple[BodyArgument, ...]:
        ends = (self.carries, self.first_shared, len(self.body.arguments) - 1)
        roles = ("carry", "row", "shared")
        named = [
            BodyArgument(role, operand)
            for role, first, last in zip(roles, (0, *ends), ends, strict=False)
            for operand in range(first, last)
        ]
        return (BodyArgument("step", None), *named)

    @property
    def first_shared(self) -> int:
        """The first of the operands that are the same for all steps."""
        return self.carries + self.stacked

    def operand_types(self) -> tuple[Type, ...]:
        types = list(self.body.types[1:])
        for i in range(self.carries, self.first_shared):
            shape, dtype = types[i]
            types[i] = (self.length, *shape), dtype
        return tuple(types)

    def result_types(self) -> tuple[Type, ...]:
        made = self.body.result_types
        rows = [((self.length, *shape), dtype) for shape, dtype in made[self.carries :]]
        return (*made[: self.carries], *rows)

    def mistake(self, types: Sequence[Type]) -> str | None:
        given, made = self.body.types, self.body.result_types
        if len(given) <= self.first_shared or not made or len(made) < self.carries:
            return f"{self.body!r} has too few arguments or results for {self.carries} carries"
        if given[0] != PLACE_TYPE:
            return "the first argument of its body is no place"
        if given[1 : 1 + self.carries] != made[: self.carries]:
            return "carries before and after a step differ"
        return self.body.mistake()

    def may_overwrite(self, *types: Type) -> frozenset[int]:
        """Operands that result 0 may be written over; `overwrites` answers for each result."""
        return frozenset(o for o, result in self.overwrites() if not result)

    def overwrites(self) -> tuple[tuple[int, int], ...]:
        """Pairs (operand, result): the last value of a carry may be written over the first.

        Not where a step may fail: it is found out why from the operands.
        """
        return () if self.body.may_fail else tuple([(c, c) for c in range(self.carries)])

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """The cost of all steps."""
        return Cost(*[self.times() * n for n in self.body.cost()])

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        """The multiply-adds of all steps."""
        return self.times() * self.body.multiply_adds()

    def batch(self, operands: Sequence[BatchOperand]) -> Sequence[Node]:
        return batching.batch_loop(self, operands)

    def pullback(
        self, cotangent: Sequence[Array | None], result: Sequence[Array], *operands: Array
    ) -> Derivatives:
        return derivatives.pull_back_loop(self, cotangent, operands)

    def pushforward(
        self, tangent: Sequence[Array | None], result: Sequence[Array], *operands: Array
    ) -> Derivatives:
        return derivatives.push_forward_loop(self, tangent, operands)


class WhileLoop(BodyOp, name="while_loop", arity=None):
    """A body computed again and again, as long as it says so.

    Operands are whether there is a first step, the first values of the carries, then what is the
    same for all steps.  The body's arguments are the number of the step, from 0, and those but the
    first; its results are whether there is another step, and the new carries.  The results are the
    last carries.
    """

    body: Subgraph
    carries: Natural

    def bodies(self) -> tuple[Subgraph, ...]:
        return (self.body,)

    def with_bodies(self, bodies: Sequence[Subgraph]) -> Self:
        (body,) = bodies
        return self.with_attributes(body=body)

    def times(self) -> int:
        return FEW_STEPS

    def arguments(self) -> tuple[BodyArgument, ...]:
        rest = len(self.body.arguments) - self.carries - 1
        roles = ["carry"] * self.carries + ["shared"] * rest
        named = [BodyArgument(role, operand) for operand, role in enumerate(roles, 1)]
        return (BodyArgument("step", None), *named)

    def operand_types(self) -> tuple[Type, ...]:
        return (FLAG_TYPE, *self.body.types[1:])

    def result_types(self) -> tuple[Type, ...]:
        return self.body.result_types[1:]

    def mistake(self, types: Sequence[Type]) -> str | None:
        given, made = self.body.types, self.body.result_types
        if not self.carries or len(given) <= self.carries or len(made) != 1 + self.carries:
            return f"{self.body!r} does not fit {self.carries} carries"
        if given[0] != PLACE_TYPE or made[0] != FLAG_TYPE:
            return "its body does not take the number of a step and say whether there is another"
        if given[1 : 1 + self.carries] != made[1:]:
            return "carries before and after a step differ"
        return self.body.mistake()

    def may_fail(self, dtype: DType) -> bool:
        """Always: it may never end, so that it is interrupted."""
        return True

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """The cost of a few steps: how many there will be is not known."""
        return Cost(*[self.times() * n for n in self.body.cost()])

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        """The multiply-adds of as many steps as the cost is of."""
        return self.times() * self.body.multiply_adds()

    def batch(self, operands: Sequence[BatchOperand]) -> Sequence[Node]:
        return batching.batch_while(self, operands)

    def pullback(
        self, cotangent: Sequence[Array | None], result: Sequence[Array], *operands: Array
    ) -> Derivatives:
        raise value_error(
            "grad",
            "while_loop has no derivative in reverse mode: how many steps would have to be kept "
            "is not known; use forward mode (tw.jvp, tw.jacfwd), a loop of known length "
            "(tw.scan, tw.fori_loop), or say what it is with tw.custom_vjp",
        )

    def pushforward(
        self, tangent: Sequence[Array | None], result: Sequence[Array], *operands: Array
    ) -> Derivatives:
        return derivatives.push_forward_while(self, tangent, operands)


FEW_STEPS: Final = 256
"""How many steps a loop of unknown length is taken to have."""


class Switch(BodyOp, name="switch", arity=None):
    """One of several bodies, by its number: operand 0, an int64 number, the nearest there is.

    The bodies are given the other operands; all give results of the same types.
    """

    branches: tuple[Subgraph, ...]

    def bodies(self) -> tuple[Subgraph, ...]:
        return self.branches

    def with_bodies(self, bodies: Sequence[Subgraph]) -> Self:
        return self.with_attributes(branches=tuple(bodies))

    def arguments(self) -> tuple[BodyArgument, ...]:
        count = len(self.branches[0].arguments)
        return tuple([BodyArgument("operand", k) for k in range(1, count + 1)])

    def operand_types(self) -> tuple[Type, ...]:
        return (PLACE_TYPE, *self.branches[0].types)

    def result_types(self) -> tuple[Type, ...]:
        return self.branches[0].result_types

    def mistake(self, types: Sequence[Type]) -> str | None:
        if not self.branches or not self.branches[0].results:
            return "there is nothing to choose from"
        first = self.branches[0]
        for branch in self.branches:
            if (branch.types, branch.result_types) != (first.types, first.result_types):
                return f"{branch!r} takes or gives others than {first!r}"
        return next(filter(None, [b.mistake() for b in self.branches]), None)

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """The cost of the most costly branch."""
        return max([b.cost() for b in self.branches], key=sum)

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        """The multiply-adds of the branch that has most."""
        return max([b.multiply_adds() for b in self.branches])

    def batch(self, operands: Sequence[BatchOperand]) -> Sequence[Node]:
        return batching.batch_switch(self, operands)

    def pullback(
        self, cotangent: Sequence[Array | None], result: Sequence[Array], *operands: Array
    ) -> Derivatives:
        return derivatives.pull_back_switch(self, cotangent, operands)

    def pushforward(
        self, tangent: Sequence[Array | None], result: Sequence[Array], *operands: Array
    ) -> Derivatives:
        return derivatives.push_forward_switch(self, tangent, operands)


PLACE_TYPE: Final[Type] = ((), INT64)
"""What a place is."""


FLAG_TYPE: Final[Type] = ((), BOOL)
"""What says whether there is another step."""
