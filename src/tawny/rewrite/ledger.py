"""The ledger: every rule that was applied, where, and what it saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from math import prod
from typing import Any, Final, NamedTuple, overload

from tawny.dtype import DType
from tawny.errors import value_error
from tawny.node import Node, op_title
from tawny.op import NO_COST, Cost, Elementwise, Op, primitives, sum_costs
from tawny.ops.fusion import Group
from tawny.rewrite.flow import Kind, RuleInfo, merge_sources
from tawny.shape import Shape
from tawny.source import Source, describe


class NodeRecord(NamedTuple):
    """A node as the ledger remembers it: the node itself, and its value, are not kept alive."""

    op: Op
    shape: Shape
    dtype: DType
    sources: tuple[Source, ...]
    """Where it was written."""

    @property
    def name(self) -> str:
        """The op's name, or the variable's."""
        return op_title(self.op)

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape)}"


class Record(NamedTuple):
    """One application of a rule."""

    rule: RuleInfo
    before: tuple[NodeRecord, ...]
    after: tuple[NodeRecord, ...]
    sources: tuple[Source, ...]
    operations: int
    """Scalar operations saved."""
    bytes: int
    """Bytes saved of those read from and written to memory."""

    def __str__(self) -> str:
        after = ", ".join(map(str, self.after)) or "nothing new"
        where = describe(self.sources) or "unknown"
        return f"{self.rule.name}: {', '.join(map(str, self.before))} -> {after}  [{where}]"

    def __repr__(self) -> str:
        return f"<{self}>"


Log = list[Any]
"""The nodes of each record: one flat list, since most of it is never read.

For each record: how many nodes were there before and after.  For each of these: its op, shape,
dtype and sources, how many operands it has, and the shape and dtype of each of them.
"""


def _read(rules: Iterable[RuleInfo], log: Log) -> Iterator[Record]:
    """The records of a log, with what each saved worked out."""
    items = iter(log)
    for rule in rules:
        counts = next(items), next(items)
        sides = [[_read_node(items) for _ in range(count)] for count in counts]
        before, after = (tuple([entry for entry, _ in side]) for side in sides)
        old, new = (sum_costs([cost for _, cost in side]) for side in sides)
        yield Record(
            rule,
            before,
            after,
            merge_sources([entry.sources for entry in before]),
            old.operations - new.operations,
            old.bytes_read + old.bytes_written - new.bytes_read - new.bytes_written,
        )


def _read_node(items: Iterator[Any]) -> tuple[NodeRecord, Cost]:
    op, shape, dtype, sources, count = islice(items, 5)
    operands = [(next(items), next(items)) for _ in range(count)]
    return NodeRecord(op, shape, dtype, sources), op.cost((shape, dtype), operands)


def graph_cost(order: Iterable[Node]) -> Cost:
    """Cost of a graph: of all nodes, each after its inputs."""
    operations = read = written = 0
    inputs: list[tuple[Node, ...]] = []
    held: dict[Node, int] = {}
    groups: dict[Op, Cost] = {}
    for node in order:
        op, elements = node.op, prod(node.shape)
        held[node] = bytes = elements * node.dtype.itemsize
        if type(op) is Elementwise:
            operations += primitives(op) * elements
            written += bytes
            inputs.append(node.inputs)
            continue
        one = groups.get(op)
        if one is None:
            types = [(i.shape, i.dtype) for i in node.inputs]
            one = op.cost((node.shape, node.dtype), types)
            if type(op) is Group:
                groups[op] = one
        operations += one.operations
        read += one.bytes_read
        written += one.bytes_written
    read += sum(map(held.__getitem__, chain.from_iterable(inputs)))
    return Cost(operations, read, written)


@dataclass(slots=True, repr=False)
class Rewrites(Sequence[Record]):
    """The rewrites of a graph, in order; printed, a table with a line for each rule."""

    nodes_before: int = 0
    nodes_after: int = 0
    cost_before: Cost = NO_COST
    cost_after: Cost = NO_COST
    applied: list[RuleInfo] = field(default_factory=list[RuleInfo])
    """The rule of each record."""
    log: Log = field(default_factory=list[Any])
    _records: list[Record] = field(default_factory=list[Record], compare=False)

    @property
    def records(self) -> list[Record]:
        """Every application of a rule, in order; worked out when somebody asks."""
        if len(self._records) != len(self.applied):
            self._records = list(_read(self.applied, self.log))
        return self._records

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self.records[index]

    def __len__(self) -> int:
        return len(self.applied)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @property
    def operations_saved(self) -> int:
        """Scalar operations the optimised graph does less."""
        return self.cost_before.operations - self.cost_after.operations

    @property
    def bytes_saved(self) -> int:
        """Bytes the optimised graph reads and writes less."""
        before, after = self.cost_before, self.cost_after
        return before.bytes_read + before.bytes_written - after.bytes_read - after.bytes_written

    def followed_by(self, later: Rewrites) -> Rewrites:
        """What was done by these and then by `later`."""
        return Rewrites(
            self.nodes_before,
            later.nodes_after,
            self.cost_before,
            later.cost_after,
            self.applied + later.applied,
            self.log + later.log,
        )

    def counts(self) -> Counter[str]:
        """How often each rule was applied, by name."""
        return Counter(r.name for r in self.applied)

    def kinds(self) -> Counter[Kind]:
        """How often rules of each class were applied."""
        return Counter(r.kind for r in self.applied)

    def details(self) -> str:
        """A line for each application."""
        return "\n".join(map(str, self.records))

    def __str__(self) -> str:
        first = (
            f"{self.nodes_before} nodes to {self.nodes_after}, "
            f"{_abbreviate(self.operations_saved)} operations and "
            f"{_abbreviate(self.bytes_saved)}B saved"
        )
        if not self.applied:
            return f"{first}; no rule applied"
        return "\n".join([first, *_table(self.records)])

    def __repr__(self) -> str:
        return str(self)


_COLUMNS: Final = ("rule", "class", "times", "operations", "bytes", "says", "where")


def _table(records: Iterable[Record]) -> list[str]:
    by_rule: dict[str, list[Record]] = {}
    for record in records:
        by_rule.setdefault(record.rule.name, []).append(record)
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for name, group in by_rule.items():
        rule = group[0].rule
        places = dict.fromkeys(str(s) for r in group[:100] for s in r.sources)
        where = ", ".join(list(places)[:3]) + (" ..." if len(places) > 3 else "")
        saved = (
            _abbreviate(sum(r.operations for r in group)),
            _abbreviate(sum(r.bytes for r in group)),
        )
        rows.append((name, rule.kind.value, str(len(group)), *saved, rule.says, where))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(t.ljust(w) for t, w in zip(r, widths, strict=True)).rstrip() for r in rows]


def _abbreviate(number: float) -> str:
    """A number to three digits, with a letter for thousands."""
    sign = "-" if number < 0 else ""
    number = abs(number)
    for letter in ("", "k", "M", "G", "T"):
        if number < 1000 or letter == "T":
            return f"{sign}{number:.3g}{letter}" if number < 1000 else f"{sign}{number:.0f}{letter}"
        number /= 1000
    raise AssertionError


class Ledger:
    """A recorder that writes `Rewrites`, and knows what is switched off and on."""

    def __init__(
        self, known: Collection[RuleInfo], disable: Iterable[str] = (), enable: Iterable[str] = ()
    ) -> None:
        self.rewrites: Final = Rewrites()
        self._applied: Final = self.rewrites.applied
        self._log: Final = self.rewrites.log
        self._off: Final = _check_names("disable", disable, known)
        self._on: Final = _check_names("enable", enable, known)

    def allows(self, rule: RuleInfo) -> bool:
        """Whether the rule is switched on, by its name and by its class."""
        names = {rule.name, rule.kind.value}
        on = rule.kind is not Kind.REASSOCIATING or not names.isdisjoint(self._on)
        return on and names.isdisjoint(self._off)

    def record(self, rule: RuleInfo, before: Sequence[Node], after: Sequence[Node]) -> None:
        """Write that `rule` put the nodes `after` in place of the nodes `before`.

        What was saved is worked out when somebody asks; no node is kept alive for that.
        """
        log = self._log
        self._applied.append(rule)
        log += (len(before), len(after))
        for node in (*before, *after):
            inputs = node.inputs
            if len(inputs) == 1:
                (x,) = inputs
                log += (node.op, node.shape, node.dtype, node.sources, 1, x.shape, x.dtype)
                continue
            log += (node.op, node.shape, node.dtype, node.sources, len(inputs))
            if len(inputs) == 2:
                x, y = inputs
                log += (x.shape, x.dtype, y.shape, y.dtype)
            else:
                for x in inputs:
                    log += (x.shape, x.dtype)


def _check_names(switch: str, given: Iterable[str], known: Collection[RuleInfo]) -> frozenset[str]:
    """The names of rules and classes given for a switch, refused if there is no such."""
    chosen = frozenset(given)
    names = {r.name for r in known}
    kinds = {k.value for k in Kind}
    for name in sorted(chosen - names - kinds):
        raise value_error(
            "optimise",
            f"{switch} names {name!r}, which is neither a class of rules "
            f"({', '.join(sorted(kinds))}) nor a rule ({', '.join(sorted(names))})",
        )
    return chosen
