"""The plan a user sees: every byte of a run, decided before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

from tawny.array import Array, array_for
from tawny.engine.lowering import LoweredGraph, is_leaf, result_of
from tawny.engine.protocol import engine_named
from tawny.errors import list_some, type_error, value_error
from tawny.graph.expansion import (
    ExpandedFusions,
    ExpandedGroups,
    expand_fusions,
    expand_groups,
    simplify_nodes,
)
from tawny.lazy import LazyModule, cached_property
from tawny.memory.plan import ArenaLayout
from tawny.node import Node
from tawny.shape import size
from tawny.source import describe
from tawny.unique import Unique

if TYPE_CHECKING:
    import html

    from tawny.graph import pickling
    from tawny.graph.report import page
else:
    html, pickling = LazyModule("html"), LazyModule("tawny.graph.pickling")
    page = LazyModule("tawny.graph.report.page")

BlockKind = Literal["kept", "transient", "scratch"]


class Block(NamedTuple):
    """A piece of memory and whose it is, one after the other."""

    offset: int
    bytes: int
    first: int
    """The first position at which it is in use."""
    last: int
    """The last position at which it is in use."""
    kind: BlockKind
    arrays: tuple[Array, ...]
    """The values that live there, each written over the one before."""


class PlannedStep(NamedTuple):
    """One position of the run."""

    position: int
    array: Array
    offset: int
    """First byte of the result; of the first one if there are several."""
    bytes: int
    """Bytes of all results together; none for one that lies in a variable's memory."""
    over: Array | None
    """The operand the result is written over."""
    again: bool
    """Whether the value is computed again, having been dropped to save memory."""


class LiveMemory(NamedTuple):
    """Memory in use while one step runs."""

    bytes: int
    kind: BlockKind
    array: Array | None
    """Whose it is then; None for scratch memory."""


class TimelinePoint(NamedTuple):
    """Memory while one step runs."""

    position: int
    live_bytes: int
    allocated_bytes: int
    """Up to where the arena is in use: live bytes and the holes below them."""


@final
@dataclass(frozen=True)
class Plan(Unique):
    """The place of every value of a run; made before anything is allocated, and followed exactly.

    Plans come from `Graph.plan` and `Program.plan`; printed, one is a table of the steps.
    Inputs, constants and bound arrays lie outside: the plan is of what the run computes.

        x = tw.var("x", (1000,))
        y = np.exp(x)
        plan = tw.Graph([x], [np.sum(y * y)]).plan()
        plan.peak_bytes >= plan.lower_bound_bytes     # -> True
        print(plan)
    """

    lowered: LoweredGraph
    layout: ArenaLayout
    kept: tuple[Node, ...]
    """Nodes whose values stay right from run to run."""
    engine: str = "reference"
    """The name of the engine it is made for."""
    user_results: tuple[Node, ...] = ()
    """The results as they were written, in the order of `lowered.results`."""
    in_place_updates: Mapping[Node, Node] = field(default_factory=dict[Node, Node])
    """The variables that hold some results, which take no bytes of the plan."""
    threads: int = 1
    """How many threads it has scratch memory for."""
    adapted: bool = False
    """Whether what is computed in which order is chosen for these threads: a budget leaves too
    little room for the choice that is made everywhere else."""
    names: Mapping[Node, str] = field(default_factory=dict[Node, str])
    """What the graph calls its variables."""
    budget: int | None = None
    """The bytes it was allowed; None where there was no limit."""
    notes: tuple[str, ...] = ()
    """What steps of loops are computed again for the budget, in words."""

    def __reduce__(self) -> Any:
        """As data: its tables, and the nodes they speak of."""
        return pickling.reduce_plan(self)

    @cached_property
    def _expanded_groups(self) -> ExpandedGroups:
        return expand_groups(self.lowered.results)

    @property
    def peak_bytes(self) -> int:
        """All the bytes a run has, kept values included; they are allocated once.

        Inputs, constants and new output arrays are not among them.

            x = tw.var("x", (1000,))
            tw.Graph([x], np.cumsum(x)).plan().peak_bytes   # -> 8000
        """
        return self.layout.arena

    @property
    def lower_bound_bytes(self) -> int:
        """The most bytes in use at any step: no plan in this order needs less.

        Where `peak_bytes` is the same, no byte of the arena is lost to holes.

            x = tw.var("x", (1000,))
            tw.Graph([x], np.cumsum(x)).plan().lower_bound_bytes   # -> 8000
        """
        return self.layout.bound

    @property
    def unshared_bytes(self) -> int:
        """What the run would need if every value had memory of its own.

        The share of it that `peak_bytes` is says how well memory is shared.

            x = tw.var("x", (1000,))
            plan = tw.Graph([x], np.cumsum(np.cumsum(np.cumsum(x)))).plan(incremental=False)
            plan.peak_bytes, plan.unshared_bytes          # -> (16000, 24000)
        """
        return self.layout.unshared_bytes

    @cached_property
    def resident_bytes(self) -> int:
        """The bytes of variables and constants, beside `peak_bytes` while a program lives.

        An array bound by `set(bind=True)` takes none of its own.

            x = tw.var("x", (1000,))
            tw.Graph([x], np.cumsum(x)).plan().resident_bytes   # -> 8000
        """
        leaves = [node for node in self.lowered.order if is_leaf(node)]
        return sum(size(node.shape) * node.dtype.itemsize for node in leaves)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Every piece of memory by offset, then by time.

        Each has its `offset` and `bytes`, the `first` and `last` step at which it is in use, its
        `kind` (`"kept"` between runs, `"transient"` or `"scratch"`), and the `arrays` that live
        there, each written over the one before.

            x = tw.var("x", (1000,))
            plan = tw.Graph([x], np.cumsum(np.cumsum(np.cumsum(x)))).plan(incremental=False)
            [(b.offset, b.first, b.last) for b in plan.blocks][:2]   # -> [(0, 0, 1), (0, 2, 2)]
        """
        schedule = self.layout.schedule
        out: list[Block] = []
        for index, (storage, start) in enumerate(self.layout.placed_storages):
            if not storage.bytes:
                continue
            kind = self._kind(index)
            tenants = () if kind == "scratch" else schedule.occupants[index]
            arrays = tuple(array_for(self._node(value)) for value, _ in tenants)
            out.append(Block(start, storage.bytes, storage.birth, storage.death - 1, kind, arrays))
        return tuple(sorted(out, key=lambda b: (b.offset, b.first)))

    @cached_property
    def steps(self) -> tuple[PlannedStep, ...]:
        """What runs, in order.

        Each has its `position`, the `array` it computes, the `offset` and `bytes` of the result,
        the operand it is written `over`, if any, and whether it is computed `again`, having been
        dropped to save memory.

            x = tw.var("x", (1000,))
            plan = tw.Graph([x], np.cumsum(np.cumsum(np.cumsum(x)))).plan(incremental=False)
            [step.offset for step in plan.steps]          # -> [0, 8000, 0]
        """
        problem = self.lowered.problem
        seen: set[int] = set()
        out: list[PlannedStep] = []
        for position, s in enumerate(self.layout.sequence):
            node = self.lowered.steps[s]
            slides = sorted(self.layout.schedule.in_place_pairs[position], key=lambda pair: pair[1])
            over = array_for(node.inputs[slides[0][0]]) if slides else None
            sizes = [problem.values[v].bytes for v in problem.steps[s].outputs]
            places = [
                at for at, size in zip(self.layout.writes(position), sizes, strict=True) if size
            ]
            place = (places or self.layout.writes(position))[0] or 0
            again = s in seen
            out.append(PlannedStep(position, array_for(node), place, sum(sizes), over, again))
            seen.add(s)
        return tuple(out)

    def timeline(self) -> list[TimelinePoint]:
        """Live and allocated bytes while each step runs: a list with an entry for each.

        An entry has its `position`, `live_bytes`, those in use, and `allocated_bytes`, up to where
        the arena is in use, holes included.

            x = tw.var("x", (1000,))
            plan = tw.Graph([x], np.cumsum(np.cumsum(np.cumsum(x)))).plan(incremental=False)
            max(point.live_bytes for point in plan.timeline())   # -> 16000
        """
        pairs = zip(self.layout.live, self.layout.high_water, strict=True)
        return [TimelinePoint(p, live, top) for p, (live, top) in enumerate(pairs)]

    def alive(self, position: int) -> list[LiveMemory]:
        """What is in memory while a step runs, the largest first.

        - `position`: the place of the step in `steps`.

        Gives a list; an entry has its `bytes`, its `kind` as in `blocks`, and its `array`, or None
        for scratch memory.

            x = tw.var("x", (1000,))
            plan = tw.Graph([x], np.cumsum(x)).plan()
            [(one.bytes, one.kind) for one in plan.alive(0)]   # -> [(8000, 'kept')]
        """
        schedule = self.layout.schedule
        found: list[LiveMemory] = []
        for index, (storage, _) in enumerate(self.layout.placed_storages):
            if storage.bytes and storage.birth <= position < storage.death:
                array, kind = None, self._kind(index)
                if kind != "scratch":
                    tenants = schedule.occupants[index]
                    newest = [v for v, made in tenants if made <= position] or [tenants[0][0]]
                    array = array_for(self._node(newest[-1]))
                found.append(LiveMemory(storage.bytes, kind, array))
        return sorted(found, key=lambda one: -one.bytes)

    def _kind(self, storage: int) -> BlockKind:
        """Of a storage, or of what comes after all of them: a step's scratch memory."""
        tenants = self.layout.schedule.occupants
        if storage >= len(tenants):
            return "scratch"
        kept = self._kept_nodes.intersection([self._node(value) for value, _ in tenants[storage]])
        return "kept" if kept else "transient"

    @cached_property
    def _kept_nodes(self) -> frozenset[Node]:
        return frozenset(self.kept)

    # ------------------------------------------------------------- explanation

    def _node(self, value: int) -> Node:
        label = self.lowered.problem.values[value].label
        assert isinstance(label, Node)
        return label

    def _title(self, node: Node) -> str:
        return self.names.get(node, node.name)

    def _locate(self, node: Node) -> tuple[Node, bool] | None:
        """The program's node for one of the user's, and whether that is computed inside it.

        There is none for what was optimised away.
        """
        node = self._results.get(node, node)
        own = self._locate_own(node)
        if own is None and (simple := self._simple.get(node)) is not None:
            fused = self._expanded_fusions
            own = self._locate_own(simple) or self._locate_own(
                fused.program_node.get(simple, simple)
            )
            if own is None and simple in fused.inside:
                around = self._locate_own(fused.inside[simple])
                own = None if around is None else (around[0], True)
        return own

    def _locate_own(self, node: Node) -> tuple[Node, bool] | None:
        """Where the program computes a node of its own, also if that is a member of a group."""
        if (node, 0) in self.lowered.values:
            return node, False
        if node in self._expanded_groups.program_node:
            return self._expanded_groups.program_node[node], False
        return (self._step_around[node], True) if node in self._step_around else None

    @cached_property
    def _expanded_fusions(self) -> ExpandedFusions:
        written = {own: plain for plain, own in self._expanded_groups.program_node.items()}
        results = [written.get(n, n) for n in self.lowered.results]
        return expand_fusions(results, set(self._simple.values()))

    @cached_property
    def _results(self) -> dict[Node, Node]:
        """The results as they are computed, by how they were written."""
        return dict(zip(self.user_results, self.lowered.results, strict=False))

    @cached_property
    def _simple(self) -> dict[Node, Node]:
        """What became of the user's nodes when the graph was simplified."""
        return simplify_nodes(self.user_results)

    @cached_property
    def _step_around(self) -> dict[Node, Node]:
        """The steps inside which nodes are computed that have no memory of their own."""
        members, own = self._expanded_groups
        return {m: step for step, inner in members.items() for m in inner if m not in own}

    def block_of(self, node: Node) -> int | None:
        """Which of `blocks` holds the value of `node`; None if it lies outside the plan."""
        found = self._locate(node)
        if found is None or found[1] or is_leaf(found[0]):
            return None
        node = found[0]
        root = self._node(self.lowered.problem.roots[self.lowered.value(node)])
        return self._block_index.get(root)

    @cached_property
    def _block_index(self) -> dict[Node, int]:
        """The first of `blocks` that holds each node's value."""
        pairs = [(a.node, index) for index, block in enumerate(self.blocks) for a in block.arrays]
        return dict(reversed(pairs))

    def why(self, array: Array) -> str:
        """Why a value lies where it does, in words.

        - `array`: an array of the graph, as you wrote it; where the optimiser has changed what
          computes it, the answer says so.

        Raises ValueError for an array of another graph.

            x = tw.var("x", (1000,))
            y = np.cumsum(x)
            plan = tw.Graph([x], np.cumsum(y)).plan(incremental=False)
            print(plan.why(y))                            # cumsum: 8000 bytes at 0; ...
        """
        if not isinstance(array, Array):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error("why", f"{type(array).__name__} is no array")
        found, name = self._locate(array.node), self._title(array.node)
        if found is None:
            return self._why_not(array.node)
        node, inside = found
        if inside:
            return f"{name}: computed inside {node!r}, without memory of its own"
        said = self._why_so(node)
        return said if self._title(node) == name else f"{name} is computed as {said}"

    def _why_so(self, node: Node) -> str:
        """Why a value that the program computes lies where it does."""
        if is_leaf(node):
            return f"{self._title(node)}: an input or constant, outside the plan"
        value = self.lowered.problem.roots[self.lowered.value(node)]
        root = self._node(value)
        if root is not node:
            return f"{node.name}: a view of {root!r}, without memory of its own"
        variable = self.in_place_updates.get(node)
        if variable is not None:
            return f"{node.name}: computed in the memory of variable {self._title(variable)!r}"
        return self._why_there(node, value)

    def _why_not(self, node: Node) -> str:
        """Why the program has no value for a node, and what has become of it."""
        if node not in self._simple:
            raise value_error("why", f"{node!r} is of another graph: this one does not compute it")
        folded = f"{node.name}: known when the program was compiled, and folded into a constant"
        if is_leaf(self._simple[node]):
            return folded
        gone = {node}
        for later in self._simple:
            if not gone.isdisjoint(later.inputs):
                found = self._locate(later)
                if found is not None:
                    own, _ = found
                    part = f"{node.name}: optimised away, as a part of {own!r}"
                    return folded if is_leaf(own) else part
                gone.add(later)
        return f"{node.name}: optimised away"

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
            listed = list_some([*map(repr, sharers)])
            parts.append(f"its bytes are also used by {listed}, at other times")
        size = self.lowered.problem.values[value].bytes
        return f"{node.name}: {size} bytes at {where}; " + "; ".join(parts)

    # ------------------------------------------------------------ presentation

    def __str__(self) -> str:
        lines = [
            f"peak {_size(self.peak_bytes)} in {len(self.blocks)} blocks, "
            f"lower bound {_size(self.lower_bound_bytes)}, unshared {_size(self.unshared_bytes)}; "
            f"{_size(self.resident_bytes)} of variables and constants beside it",
            f"{'step':>4}  {'bytes':>12}  {'at':>12}  what",
        ]
        for step in self._table_steps:
            over = f", in place of {_name(step.over)}" if step.over is not None else ""
            again = ", again" if step.again else ""
            lines.append(
                f"{step.position:>4}  {step.bytes:>12,}  {self._place(step):>12}  "
                f"{_name(step.array)}{over}{again}"
            )
        if self._hidden_count:
            lines.append(f"      ... and {self._hidden_count} more steps")
        lines.extend(self.notes)
        lines.append(engine_named(self.engine).describe(self.lowered.steps, self.threads))
        if self.adapted:
            lines.append(
                f"chosen for {self.threads} threads: with their scratch memory the steps and bands "
                "chosen for any number of threads do not fit into the budget"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Plan: {len(self.steps)} steps, peak {_size(self.peak_bytes)}>"

    @property
    def _table_steps(self) -> tuple[PlannedStep, ...]:
        """The steps that a table shows."""
        return (
            self.steps
            if len(self.steps) <= _MAX_TABLE_STEPS
            else self.steps[: _MAX_TABLE_STEPS // 2]
        )

    @property
    def _hidden_count(self) -> int:
        """The number of steps that a table leaves out."""
        return len(self.steps) - len(self._table_steps)

    def _place(self, step: PlannedStep) -> str:
        """Where the results of a step lie, for a table."""
        names = self._variables.get(step.array.node, [])
        arena = [f"{step.offset:,}"] if step.bytes or not names else []
        return ", ".join(arena + ([f"in {', '.join(names)}"] if names else []))

    @cached_property
    def _variables(self) -> dict[Node, list[str]]:
        """For each step the variables that hold some of its results."""
        out: dict[Node, list[str]] = {}
        for source, variable in self.in_place_updates.items():
            out.setdefault(result_of(source)[0], []).append(self._title(variable))
        return out

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th>{h}</th>" for h in ("step", "bytes", "at", "what", "in place of", "again")
        )
        rows = "".join(
            f"<tr><td>{s.position}</td><td>{s.bytes:,}</td><td>{html.escape(self._place(s))}</td>"
            f"<td>{html.escape(_name(s.array))}</td>"
            f"<td>{html.escape(_name(s.over)) if s.over is not None else ''}</td>"
            f"<td>{'again' if s.again else ''}</td></tr>"
            for s in self._table_steps
        )
        title = html.escape(str(self).splitlines()[0])
        more = f"<p>... and {self._hidden_count} more steps</p>" if self._hidden_count else ""
        body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
        table = f"<p>{title}</p><table>{body}</table>{more}"
        if not page.fits_frame(len(self.steps)):
            return table
        return (
            f"{page.frame(page.page(plan=self))}<details><summary>steps</summary>{table}</details>"
        )

    def show(self, path: str | Path | None = None, *, other: Plan | None = None) -> Path:
        """Write a page that shows the memory of the run and the graph; it needs no network.

        - `path`: the file, which is replaced; None makes one and opens it in the browser.
        - `other`: another plan to be shown beside this one, as that of another budget.

        Gives the path.  The page shows every value from its first write to its last use, what is
        in use at the peak, and why values lie where they do.

            x = tw.var("x", (1000,))
            plan = tw.Graph([x], np.cumsum(np.cumsum(x))).plan()
            page = plan.show("plan.html")
        """
        if other is not None and not isinstance(other, Plan):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error("show", f"other is {type(other).__name__}; accepted: a Plan")
        return page.show(page.page(plan=self, other=other), path)

    def diff(self, other: Plan) -> str:
        """What differs between this plan and another, in words, a line for each thing.

        - `other`: the plan to compare with, as that of another budget.

            x = tw.var("x", (1000,))
            graph = tw.Graph([x], np.exp(x) + 1)
            graph.plan().diff(graph.plan())               # -> 'no difference'
        """
        if not isinstance(other, Plan):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error("diff", f"{type(other).__name__} is no Plan")
        lines = [
            f"{what}: {_size(mine)} here, {_size(theirs)} there ({theirs - mine:+,} bytes)"
            for what, mine, theirs in (
                ("peak", self.peak_bytes, other.peak_bytes),
                ("lower bound", self.lower_bound_bytes, other.lower_bound_bytes),
                ("unshared", self.unshared_bytes, other.unshared_bytes),
                ("variables and constants", self.resident_bytes, other.resident_bytes),
            )
            if mine != theirs
        ]
        lines += [
            f"{what}: {mine} here, {theirs} there"
            for what, mine, theirs in zip(
                ("steps in place", "steps computed again"), self._counts, other._counts, strict=True
            )
            if mine != theirs
        ]
        here, there = ([s.array.node for s in p.steps] for p in (self, other))
        for what, mine, theirs in (("kept", self.kept, other.kept), ("steps", here, there)):
            for place, one, rest in (("here", mine, theirs), ("there", theirs, mine)):
                only = [n for n in dict.fromkeys(one) if n not in set(rest)]
                if only:
                    lines.append(f"{what} only {place}: {list_some([*map(repr, only)])}")
        if here != there and set(here) == set(there):
            lines.append("the same steps in another order, or computed again")
        places = [{s.array.node: s.offset for s in p.steps} for p in (self, other)]
        moved = [n for n, offset in places[0].items() if places[1].get(n, offset) != offset]
        if moved:
            lines.append(f"elsewhere in memory: {list_some([*map(repr, moved)])}")
        return "\n".join(lines) or "no difference"

    @property
    def _counts(self) -> tuple[int, int]:
        """How many steps are in place, and how many compute something again."""
        return sum(s.over is not None for s in self.steps), sum(s.again for s in self.steps)

    def plot(self, ax: Any = None) -> Any:
        """Draw blocks over time with matplotlib; gives the axes.

        - `ax`: the axes to draw in; None makes new ones.

        It needs the `plot` extra: `pip install tawny[plot]`.

            x = tw.var("x", (1000,))
            axes = tw.Graph([x], np.cumsum(np.cumsum(x))).plan().plot()
        """
        from tawny.graph.report.plot import draw  # noqa: PLC0415  (matplotlib is an extra)

        return draw(self, ax)


_MAX_TABLE_STEPS = 60
"""Steps shown in a table."""

_MAX_PLACES = 3
"""Places of the user's program named in a line of a table."""


def _name(array: Array) -> str:
    node = array.node
    more = ", ..." if len(node.sources) > _MAX_PLACES else ""
    where = f" [{describe(node.sources[:_MAX_PLACES])}{more}]" if node.sources else ""
    return f"{node.name} {node.dtype}{list(node.shape)}{where}"


def _size(count: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"
