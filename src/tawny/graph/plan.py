"""The plan a user sees: every byte of a run, decided before it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, final

from tawny.array import Array, array_for
from tawny.errors import type_error, value_error
from tawny.graph.engine import engine_named
from tawny.graph.lowering import Lowered, is_leaf
from tawny.graph.written import Written, written_out
from tawny.memory.plan import Layout
from tawny.node import Node

Kind = Literal["kept", "transient", "scratch"]


class Block(NamedTuple):
    """A piece of memory and whose it is, one after the other."""

    offset: int
    bytes: int
    first: int
    """The first position at which it is in use."""
    last: int
    """The last one."""
    kind: Kind
    arrays: tuple[Array, ...]
    """The values that live there, each written over the one before."""


class PlannedStep(NamedTuple):
    """One position of the run."""

    position: int
    array: Array
    offset: int
    """First byte of the result."""
    bytes: int
    over: Array | None
    """The operand the result is written over."""
    again: bool
    """Whether the value is computed again, having been dropped to save memory."""


class Moment(NamedTuple):
    """Memory while one step runs."""

    position: int
    live_bytes: int
    allocated_bytes: int
    """Up to where the arena is in use: live bytes and the holes below them."""


@final
@dataclass(frozen=True)
class Plan:
    """Where every value of a run lies; made before anything is allocated, and followed exactly.

    Inputs, constants and bound arrays lie outside: the plan is of what the run computes.
    """

    lowered: Lowered
    layout: Layout
    kept: tuple[Node, ...]
    """Nodes whose values stay right from run to run."""
    engine: str = "reference"
    """The name of the engine it is made for."""

    @cached_property
    def _written(self) -> Written:
        return written_out(self.lowered.results)

    @property
    def peak_bytes(self) -> int:
        """All the bytes a run has, kept values included; they are allocated once."""
        return self.layout.arena

    @property
    def lower_bound_bytes(self) -> int:
        """The most bytes in use at any step: no plan in this order needs less."""
        return self.layout.bound

    @property
    def unshared_bytes(self) -> int:
        """What the run would need if every value had memory of its own."""
        return self.layout.unshared

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Every piece of memory by offset, then by time."""
        schedule, lasting = self.layout.schedule, frozenset(self.kept)
        out: list[Block] = []
        for index, (storage, start) in enumerate(self.layout.occupied):
            if not storage.bytes:
                continue
            scratch = index >= len(schedule.storages)
            tenants = () if scratch else schedule.tenants[index]
            nodes = [self._node(value) for value, _ in tenants]
            kind: Kind = "transient"
            if scratch:
                kind = "scratch"
            elif lasting.intersection(nodes):
                kind = "kept"
            arrays = tuple(map(array_for, nodes))
            out.append(Block(start, storage.bytes, storage.birth, storage.death - 1, kind, arrays))
        return tuple(sorted(out, key=lambda b: (b.offset, b.first)))

    @cached_property
    def steps(self) -> tuple[PlannedStep, ...]:
        """What runs, in order."""
        seen: set[int] = set()
        out: list[PlannedStep] = []
        for position, s in enumerate(self.layout.sequence):
            node = self.lowered.steps[s]
            value = self.lowered.problem.values[self.lowered.problem.steps[s].outputs[0]]
            pairs = {o: i for i, o in self.layout.schedule.slides[position]}
            over = array_for(node.inputs[pairs[0]]) if 0 in pairs else None
            place = self.layout.writes(position)[0] or 0
            again = s in seen
            out.append(PlannedStep(position, array_for(node), place, value.bytes, over, again))
            seen.add(s)
        return tuple(out)

    def timeline(self) -> list[Moment]:
        """Live and allocated bytes while each step runs."""
        pairs = zip(self.layout.live, self.layout.allocated, strict=True)
        return [Moment(p, live, top) for p, (live, top) in enumerate(pairs)]

    # ------------------------------------------------------------- explanation

    def _node(self, value: int) -> Node:
        label = self.lowered.problem.values[value].label
        assert isinstance(label, Node)
        return label

    def block_of(self, node: Node) -> int | None:
        """Which of `blocks` holds the node's value; None if it lies outside the plan."""
        if (node, 0) not in self.lowered.values or is_leaf(node):
            return None
        root = self._node(self.lowered.problem.roots[self.lowered.value(node)])
        for index, block in enumerate(self.blocks):
            if any(a.node is root for a in block.arrays):
                return index
        return None

    def why(self, array: Array) -> str:
        """Why the value lies where it does, in words."""
        if not isinstance(array, Array):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error("why", f"{type(array).__name__} is no array")
        node = array.node
        if (node, 0) not in self.lowered.values:
            node = self._written.own.get(node, node)
        for step, members in self._written.members.items():
            if node in members:
                return f"{node.name}: computed inside {step!r}, without memory of its own"
        if (node, 0) not in self.lowered.values:
            raise value_error(
                "why",
                f"{node!r} is not computed by this program: optimised away, or of another graph",
            )
        if is_leaf(node):
            return f"{node.name}: an input or constant, outside the plan"
        value = self.lowered.problem.roots[self.lowered.value(node)]
        root = self._node(value)
        if root is not node:
            return f"{node.name}: a view of {root!r}, without memory of its own"
        return self._why_there(node, value)

    def _why_there(self, node: Node, value: int) -> str:
        parts: list[str] = []
        if node in self.kept:
            parts.append("kept for later runs, which may need it without computing it again")
        over = self.layout.overwrites(value)
        place = self.layout.offsets[value]
        where = "nowhere" if place is None else str(place)
        if over is not None:
            parts.append(f"in place of {self._node(over)!r}")
        else:
            reasons = [f"operand {i}: {reason.value}" for i, reason in self.layout.refusals(value)]
            parts.append("not in place: " + ("; ".join(reasons) or "it has no operands"))
        sharers = [self._node(v) for v in self.layout.sharers(value)]
        if sharers:
            listed = ", ".join(map(repr, sharers[:4]))
            more = f" and {len(sharers) - 4} more" if len(sharers) > 4 else ""
            parts.append(f"its bytes are also used by {listed}{more}, at other times")
        size = self.lowered.problem.values[value].bytes
        return f"{node.name}: {size} bytes at {where}; " + "; ".join(parts)

    # ------------------------------------------------------------ presentation

    def __str__(self) -> str:
        lines = [
            f"peak {_size(self.peak_bytes)} in {len(self.blocks)} blocks, "
            f"lower bound {_size(self.lower_bound_bytes)}, unshared {_size(self.unshared_bytes)}",
            f"{'step':>4}  {'bytes':>12}  {'at':>12}  what",
        ]
        shown = self.steps if len(self.steps) <= _MOST else self.steps[: _MOST // 2]
        for step in shown:
            over = f", in place of {_name(step.over)}" if step.over is not None else ""
            again = ", again" if step.again else ""
            lines.append(
                f"{step.position:>4}  {step.bytes:>12,}  {step.offset:>12,}  "
                f"{_name(step.array)}{over}{again}"
            )
        if len(shown) < len(self.steps):
            lines.append(f"      ... and {len(self.steps) - len(shown)} more steps")
        lines.append(engine_named(self.engine).account(self.lowered.steps))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Plan: {len(self.steps)} steps, peak {_size(self.peak_bytes)}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{h}</th>" for h in ("step", "bytes", "at", "what", "in place of"))
        rows = "".join(
            f"<tr><td>{s.position}</td><td>{s.bytes:,}</td><td>{s.offset:,}</td>"
            f"<td>{html.escape(_name(s.array))}</td>"
            f"<td>{html.escape(_name(s.over)) if s.over is not None else ''}</td></tr>"
            for s in self.steps[:_MOST]
        )
        title = html.escape(str(self).splitlines()[0])
        return f"<p>{title}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def diff(self, other: Plan) -> str:
        """What differs between this plan and another, in words."""
        lines = [
            f"{what}: {_size(mine)} here, {_size(theirs)} there ({theirs - mine:+,} bytes)"
            for what, mine, theirs in (
                ("peak", self.peak_bytes, other.peak_bytes),
                ("lower bound", self.lower_bound_bytes, other.lower_bound_bytes),
                ("unshared", self.unshared_bytes, other.unshared_bytes),
            )
            if mine != theirs
        ]
        here, there = ([s.array.node for s in p.steps] for p in (self, other))
        only_here, only_there = set(here) - set(there), set(there) - set(here)
        if only_here or only_there:
            lines.append(f"steps: {len(only_here)} only here, {len(only_there)} only there")
        elif here != there:
            lines.append("the same steps in another order, or computed again")
        return "\n".join(lines) or "no difference"

    def plot(self, ax: Any = None) -> Any:
        """Draw blocks over time with matplotlib; gives the axes."""
        from tawny.graph.plot import draw  # noqa: PLC0415  (matplotlib is an extra)

        return draw(self, ax)


_MOST = 60
"""Steps shown in a table."""


def _name(array: Array) -> str:
    node = array.node
    where = f" [{node.sources[0]}]" if node.sources else ""
    return f"{node.name} {node.dtype}{list(node.shape)}{where}"


def _size(count: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def block_names(blocks: Sequence[Block]) -> list[str]:
    """A short name for each block: whose it is."""
    return [b.arrays[0].node.name if b.arrays else b.kind for b in blocks]
