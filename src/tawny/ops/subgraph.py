"""Graphs among the attributes of ops: what a loop computes in each of its steps."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, final

from tawny.lazy import cached_property
from tawny.node import Constant, Node, Variable, remake, toposort
from tawny.op import Cost, Type, sum_costs

MOST_COMPARED_BYTES: Final = 4096
"""Bytes of the largest constants that are compared by content; others equal themselves alone."""


@final
class Subgraph:
    """A function of nodes: results made of variables that are its own arguments.

    Equal are those that compute the same in the same way.
    """

    def __init__(self, arguments: tuple[Node, ...], results: tuple[Node, ...]) -> None:
        self.arguments: Final = arguments
        self.results: Final = results
        self.order: Final = tuple(toposort(results))
        """Every node, inputs first."""
        self._key: Final = _key(arguments, results, self.order)
        self._hash: Final = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Subgraph) and self._key == other._key)

    def __repr__(self) -> str:
        names = [n.op.facts().name for n in self.steps]
        shown = " ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        return f"<{len(self.arguments)} arguments: {shown}: {len(self.results)} results>"

    @cached_property
    def steps(self) -> tuple[Node, ...]:
        """The nodes that compute something."""
        leaves = (Constant, Variable)
        return tuple([n for n in self.order if type(n.op) not in leaves])

    @cached_property
    def impure(self) -> tuple[Node, ...]:
        """The nodes that keep their identity: random draws, functions with effects."""
        return tuple([n for n in self.steps if n.op.facts().impure])

    @cached_property
    def volatile(self) -> bool:
        """Whether what it computes may differ from run to run."""
        return any(n.op.facts().volatile for n in self.steps)

    @cached_property
    def may_fail(self) -> bool:
        """Whether some step may fail."""
        return any(n.op.may_fail(n.dtype) for n in self.steps)

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """Shape and dtype of each argument."""
        return tuple([(n.shape, n.dtype) for n in self.arguments])

    @cached_property
    def result_types(self) -> tuple[Type, ...]:
        """Shape and dtype of each result."""
        return tuple([(n.shape, n.dtype) for n in self.results])

    def cost(self) -> Cost:
        """The cost of all its steps."""
        return sum_costs(n.cost() for n in self.steps)

    def multiply_adds(self) -> int:
        """Multiply-adds of the products among its steps."""
        return sum([n.op.multiply_adds(n.shape, [i.shape for i in n.inputs]) for n in self.steps])

    def mistake(self) -> str | None:
        """What is wrong with it, in words; None if nothing is."""
        known = set(self.arguments)
        for node in self.order:
            if isinstance(node.op, Variable) and node not in known:
                return f"{node.name} is none of its arguments"
        return None

    def apply(self, operands: Sequence[Node]) -> dict[Node, Node]:
        """What each of its nodes becomes with operands in place of the arguments."""
        return substitute(self.order, dict(zip(self.arguments, operands, strict=True)))


def substitute(order: Sequence[Node], places: Mapping[Node, Node]) -> dict[Node, Node]:
    """What nodes, inputs first, become with others in place of some."""
    new = dict(places)
    for node in order:
        if node not in new:
            inputs = tuple([new.get(x, x) for x in node.inputs])
            new[node] = node if inputs == node.inputs else remake(node, inputs)
    return new


def _key(
    arguments: Sequence[Node], results: Sequence[Node], order: Sequence[Node]
) -> tuple[Hashable, ...]:
    """What equal subgraphs share."""
    number: dict[Node, int] = {}
    for argument in arguments:
        number[argument] = len(number)
    rows: list[Hashable] = [(n.shape, n.dtype) for n in arguments]
    for node in order:
        if node in number:
            continue
        number[node] = len(number)
        value = node.value if type(node.op) is Constant else None
        if value is None:
            rows.append((node.op, tuple([number[i] for i in node.inputs])))
        elif value.nbytes <= MOST_COMPARED_BYTES:
            rows.append((value.shape, value.dtype, value.tobytes()))
        else:
            rows.append(node)
    return (*rows, tuple([number[r] for r in results]))
