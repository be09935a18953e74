"""The plan a user sees: every byte of a run, decided before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

from tawny.array import Array, array_for
from tawny.engine.lowering import LoweredGraph, is_leaf
from tawny.errors import type_error
from tawny.graph.program_nodes import ProgramNodes, explain_place
from tawny.lazy import LazyModule, cached_property
from tawny.memory.plan import ArenaLayout
from tawny.node import Node
from tawny.shape import size
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.graph import pickling
    from tawny.graph.report import page, plan_text
else:
    pickling = LazyModule("tawny.graph.pickling")
    page = LazyModule("tawny.graph.report.page")
    plan_text = LazyModule("tawny.graph.report.plan_text")

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
            arrays = tuple(array_for(self.program_nodes.of_value(value)) for value, _ in tenants)
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
                    array = array_for(self.program_nodes.of_value(newest[-1]))
                found.append(LiveMemory(storage.bytes, kind, array))
        return sorted(found, key=lambda one: -one.bytes)

    def _kind(self, storage: int) -> BlockKind:
        """Of a storage, or of what comes after all of them: a step's scratch memory."""
        tenants = self.layout.schedule.occupants
        if storage >= len(tenants):
            return "scratch"
        kept = self._kept_nodes.intersection(
            [self.program_nodes.of_value(value) for value, _ in tenants[storage]]
        )
        return "kept" if kept else "transient"

    @cached_property
    def _kept_nodes(self) -> frozenset[Node]:
        return frozenset(self.kept)

    # ------------------------------------------------------------- explanation

    @cached_property
    def program_nodes(self) -> ProgramNodes:
        """The nodes that are run, found by those that you wrote."""
        return ProgramNodes(self.lowered, self.user_results, self.names)

    def block_of(self, node: Node) -> int | None:
        """Which of `blocks` holds the value of `node`; None if it lies outside the plan."""
        found = self.program_nodes.find(node)
        if found is None or found[1] or is_leaf(found[0]):
            return None
        node = found[0]
        root = self.program_nodes.of_value(self.lowered.problem.roots[self.lowered.value(node)])
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
        return explain_place(self, array.node)

    # ------------------------------------------------------------ presentation

    def __str__(self) -> str:
        return plan_text.table(self)

    def __repr__(self) -> str:
        return f"<Plan: {len(self.steps)} steps, peak {plan_text.size_text(self.peak_bytes)}>"

    def _repr_html_(self) -> str:
        table = plan_text.html_table(self)
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
        return plan_text.difference(self, other)

    def plot(self, ax: Any = None) -> Any:
        """Draw blocks over time with matplotlib; gives the axes.

        - `ax`: the axes to draw in; None makes new ones.

        It needs the `plot` extra: `pip install tawny[plot]`.

            x = tw.var("x", (1000,))
            axes = tw.Graph([x], np.cumsum(np.cumsum(x))).plan().plot()
        """
        from tawny.graph.report.plot import draw  # noqa: PLC0415  (matplotlib is an extra)

        return draw(self, ax)
