"""The static graph: inputs, outputs and update edges, checked once and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, final

from tawny.array import Array, array_for, check_untraced, evaluator
from tawny.bad_calls import explain_bad_calls
from tawny.engine.protocol import engine_named
from tawny.errors import PerformanceWarning, list_accepted, list_some, type_error, value_error, warn
from tawny.foreign_attributes import GRAPH, raise_missing
from tawny.gc_pause import pause_gc
from tawny.graph.compilation import Compilation
from tawny.graph.graph_parts import (
    as_inputs,
    as_outputs,
    as_updates,
    as_variable,
    check_names,
    check_reached,
)
from tawny.graph.options import (
    CompileOptions,
    Variables,
    check_flags,
    check_threads,
    list_variables,
    rule_names,
)
from tawny.graph.pipeline import RULES
from tawny.graph.plan import Plan
from tawny.graph.plan_choice import Planning
from tawny.graph.program import Program
from tawny.graph.stages import Stages
from tawny.lazy import LazyModule, cached_property
from tawny.node import Node, toposort, variable_names
from tawny.rewrite.flow import Flow, Pass
from tawny.rewrite.ledger import Rewrites
from tawny.rewrite.pipeline import OptimisedGraph
from tawny.rewrite.pipeline import optimise as optimise_nodes
from tawny.tree import map_leaves
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.graph import files, saving
    from tawny.graph.partition import partition as partitions
    from tawny.graph.partition.partition import Partition
    from tawny.graph.profile import estimate as estimation
    from tawny.graph.profile.estimate import Estimate
    from tawny.graph.report import dot, graphviz, page, svg, trace
else:
    files, saving = LazyModule("tawny.graph.files"), LazyModule("tawny.graph.saving")
    estimation = LazyModule("tawny.graph.profile.estimate")
    partitions = LazyModule("tawny.graph.partition.partition")
    dot, graphviz, page, svg, trace = (
        LazyModule(f"tawny.graph.report.{name}")
        for name in ("dot", "graphviz", "page", "svg", "trace")
    )


SLOW_COMPILE_SECONDS: Final = 5.0
"""Seconds of a compilation after which a warning says what takes less."""


@final
class Graph(Unique):
    """A computation: variables in, arrays out, and the values that variables take after a run.

    - `inputs`: the variables whose values are given from outside, in the order of a call.
    - `outputs`: an array, or a nested structure of tuples, lists, dicts and dataclasses of
      arrays; a run gives its values in the same structure.  With updates there need be none.
    - `updates`: a dict from variables, or their names, to the arrays whose values they take
      after each run, all at once.  Variables that are updated but are no inputs are the graph's
      own state.
    - `name`: what pictures and errors call the graph.
    - `unused`: `"warn"` of inputs that no output uses, or `"ignore"` them.
    - `rewrites`: what the optimiser did to make this graph; given by `tw.optimise`.

    Raises ValueError where outputs depend on variables that are not listed, where two variables
    have one name, and where there is neither an output nor an update.  A graph never changes.

        price, rate = tw.var("price", (3,)), tw.var("rate")
        graph = tw.Graph([price, rate], {"value": np.sum(price) * rate, "logs": np.log(price)})
        program = graph.compile(often=["rate"])
        float(program(numpy.ones(3), 2.0)["value"])   # -> 6.0

        n = tw.var("n", dtype="int64")
        counter = tw.Graph([], n, updates={n: n + 1}).compile()
        counter.set(n=0)
        last = counter.run(steps=5)
        int(last)                                     # -> 4
    """

    @explain_bad_calls
    def __init__(
        self,
        inputs: Iterable[Array],
        outputs: Any = (),
        updates: Mapping[Array, Array] | Mapping[str, Array] | None = None,
        name: str | None = None,
        *,
        unused: Literal["warn", "ignore"] = "warn",
        rewrites: Rewrites | None = None,
    ) -> None:
        self.name = name
        self.rewrites = rewrites or Rewrites()
        """What the optimiser did to make this graph; nothing, for one written by hand."""
        outputs = () if outputs is None else outputs
        self.input_nodes = as_inputs(inputs)
        self.output_nodes = as_outputs(outputs)
        self.update_nodes = as_updates(updates, (*self.input_nodes, *self.output_nodes))
        if not self.output_nodes and not self.update_nodes:
            raise value_error("Graph", "there is no output and no update")
        self._structure = map_leaves(lambda _: None, outputs)
        given: object = outputs
        self._is_list = isinstance(given, list)
        self._is_flat_list = self._is_list and self._structure == [None] * len(self.output_nodes)
        self.variables: tuple[Node, ...] = tuple(
            dict.fromkeys((*self.input_nodes, *(target for target, _ in self.update_nodes)))
        )
        check_names(self.variables)
        self.names: Mapping[Node, str] = MappingProxyType(variable_names(self.variables))
        """What programs and pictures call the variables."""
        check_reached(self.order, self.variables)
        if unused == "warn":
            self._warn_of_unused()
        self._is_complete = True

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, "_is_complete"):
            raise AttributeError(f"a Graph is immutable: {name} cannot be set to {value!r}")
        super().__setattr__(name, value)

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The input variables."""
        return tuple(map(array_for, self.input_nodes))

    @property
    def outputs(self) -> Any:
        """The output arrays, in the structure they were given in."""
        return self.unflatten(map(array_for, self.output_nodes))

    @property
    def updates(self) -> dict[Array, Array]:
        """What each updated variable becomes."""
        return {array_for(t): array_for(e) for t, e in self.update_nodes}

    @cached_property
    def results(self) -> tuple[Node, ...]:
        """Every node whose value a run must leave behind: outputs, then sources of updates."""
        return (*self.output_nodes, *(source for _, source in self.update_nodes))

    @cached_property
    def order(self) -> tuple[Node, ...]:
        """Every node a run needs, inputs first, in the report's post-order."""
        return tuple(toposort(self.results))

    def variable(self, x: Array | str, op: str) -> Node:
        """The variable of this graph that is meant: by itself, or by its name.

        - `x`: a variable of the graph, or the name of one.
        - `op`: who asks, as an error says it.
        """
        node = None if isinstance(x, str) else as_variable(x, f"what {op} is given")
        for own, name in self.names.items():
            if own is node or (node is None and name == x):
                return own
        what = x if node is None else node.name
        accepted = list_accepted([*self.names.values()], what)
        raise value_error(op, f"{what!r} is no variable of this graph; accepted: {accepted}")

    def unflatten(self, values: Iterable[Any]) -> Any:
        """`values` in the structure of the outputs; a list of outputs gives a tuple."""
        if self._is_flat_list:
            return tuple(values)
        source = iter(values)
        if self._structure is None:
            return next(source)
        filled = map_leaves(lambda _: next(source), self._structure)
        return tuple(filled) if self._is_list else filled

    @explain_bad_calls
    def compile(
        self,
        engine: str = "cpu",
        memory: str | float | None = None,
        often: Variables = (),
        optimise: bool = True,
        assume_finite: bool = False,
        incremental: bool = True,
        threads: int | None = None,
        plan: Planning = "default",
        disable: Iterable[str] = (),
        enable: Iterable[str] = (),
        precision: str | None = None,
    ) -> Program:
        """Optimise, plan and allocate: a program that runs this graph again and again.

        - `engine`: `"cpu"`, native kernels; `"cuda"` or `"opencl"`, a GPU, `"cuda:1"` the second;
          or `"reference"`, NumPy one node at a time.
        - `memory`: a budget for what the run computes, `"2GB"` or bytes; None sets no limit.
        - `often`: the inputs that change often, or their names; values at the boundary of what
          depends on them are kept, and a change of another input computes everything.  Without
          it any input may change alone.
        - `optimise`: whether the graph is rewritten first; the results are the same.
        - `assume_finite`: let the optimiser apply rules that hold only without NaN and infinities.
        - `incremental`: whether a run computes only what changed; without it every run computes
          everything, and nothing is kept for the next, which takes less memory.
        - `threads`: how many threads may work at once, from 1 to 1024; None takes the setting
          `tw.config.threads`, `TAWNY_THREADS`, or the cores of this process.  Results do not
          depend on it.
        - `plan`: how to plan: `"default"`; `"hard"`, which takes up to a minute to come nearer the
          lower bound; or `"seed"`, the report's Algorithm 1.
        - `disable`, `enable`: rules of the optimiser, or classes of them, as for `tw.optimise`.
        - `precision`: what products of float32 may be computed in: `"tf32"` or `"bfloat16"` let the
          engine round their operands to that where it is faster; sums stay float32.  None rounds
          nothing.

        Gives a `Program`.  Raises `tw.MemoryBudgetError` where no plan fits in the budget; it says
        what the least is.

            x = tw.var("x", (1000,))
            graph = tw.Graph([x], np.sum(np.exp(-x) * x))
            program = graph.compile(memory="1MB", threads=1)
            float(program(numpy.zeros(1000)))             # -> 0.0
        """
        check_untraced(self.results, "compile")
        given = engine, memory, often, optimise, assume_finite, incremental, threads, plan
        options = self._options("compile", *given, disable, enable, precision)
        start = perf_counter()
        with pause_gc():
            engine_named(engine).warm_up()
            program = Program(self, self._compile(options), options)
        if perf_counter() - start > SLOW_COMPILE_SECONDS:
            self._warn_of_compile(memory is not None, plan)
        return program

    def _warn_of_compile(self, within: bool, plan: Planning) -> None:
        """Warn that compiling was slow, and say what takes less."""
        if plan == "hard":
            way_out = 'plan="default" searches less'
        elif within:
            way_out = "larger budgets are planned sooner"
        else:
            way_out = "compiled kernels are kept on disk, so that the next process takes less"
        warn(
            f"compile: it took more than {SLOW_COMPILE_SECONDS:.0f} s for {len(self.order)} nodes; "
            f"compile once and run the program again and again; {way_out}",
            PerformanceWarning,
        )

    @explain_bad_calls
    def plan(
        self,
        memory: str | float | None = None,
        often: Variables = (),
        optimise: bool = True,
        assume_finite: bool = False,
        incremental: bool = True,
        engine: str = "cpu",
        plan: Planning = "default",
        disable: Iterable[str] = (),
        enable: Iterable[str] = (),
        threads: int | None = None,
        precision: str | None = None,
    ) -> Plan:
        """The plan `compile` would follow, without allocating or compiling anything.

        - `memory`, `often`, `optimise`, `assume_finite`, `incremental`, `engine`, `plan`,
          `disable`, `enable`, `threads`, `precision`: as for `compile`.

        Gives a `Plan`.  Raises `tw.MemoryBudgetError` where none fits in the budget.

            x = tw.var("x", (1000, 1000))
            plan = tw.Graph([x], np.exp(np.sin(x)) + 1).plan()
            plan.peak_bytes                               # -> 8000000
        """
        given = engine, memory, often, optimise, assume_finite, incremental, threads, plan
        options = self._options("plan", *given, disable, enable, precision)
        with pause_gc():
            return self._compile(options).plan

    def estimate(
        self,
        memory: str | float | None = None,
        often: Variables = (),
        optimise: bool = True,
        assume_finite: bool = False,
        incremental: bool = True,
        engine: str = "cpu",
        plan: Planning = "default",
        disable: Iterable[str] = (),
        enable: Iterable[str] = (),
        threads: int | None = None,
        precision: str | None = None,
    ) -> Estimate:
        """What a run would take: predicted time, operations and bytes of every step.

        - `memory`, `often`, `optimise`, `assume_finite`, `incremental`, `engine`, `plan`,
          `disable`, `enable`, `threads`, `precision`: as for `compile`.

        Gives an `Estimate` with `seconds`, `operations`, `bytes` and `rows`, printed as a table.
        Nothing of the graph is run; what the machine does at best is measured the first time.
        `program.profile()` says how far off it was.

            x = tw.var("x", (100, 100))
            tw.Graph([x], x @ x).estimate().operations    # -> 2000000
        """
        made = self.plan(
            *(memory, often, optimise, assume_finite, incremental),
            *(engine, plan, disable, enable),
            *(threads, precision),
        )
        return estimation.estimate_plan(made, self.name or "graph")

    def explain(
        self,
        memory: str | float | None = None,
        often: Variables = (),
        optimise: bool = True,
        assume_finite: bool = False,
        incremental: bool = True,
        engine: str = "cpu",
        plan: Planning = "default",
        disable: Iterable[str] = (),
        enable: Iterable[str] = (),
        threads: int | None = None,
        precision: str | None = None,
    ) -> Stages:
        """The stages that `compile` would go through, but for making code and allocating memory.

        - `memory`, `often`, `optimise`, `assume_finite`, `incremental`, `engine`, `plan`,
          `disable`, `enable`, `threads`, `precision`: as for `compile`.

        Gives a sequence of stages with `name`, `nodes`, `bytes` and `seconds`, printed as a table.
        Raises `tw.MemoryBudgetError` where no plan fits in the budget.

            x = tw.var("x", (1000, 1000))
            stages = tw.Graph([x], np.exp(np.sin(x)) + 1).explain()
            stages[-1].bytes                              # -> 8000000
        """
        given = engine, memory, often, optimise, assume_finite, incremental, threads, plan
        options = self._options("explain", *given, disable, enable, precision)
        with pause_gc():
            return self._compile(options).stages

    def _options(
        self,
        op: str,
        engine: str,
        memory: str | float | None,
        often: Variables,
        optimise: bool,
        assume_finite: bool,
        incremental: bool,
        threads: int | None,
        plan: Planning,
        disable: Iterable[str],
        enable: Iterable[str],
        precision: str | None,
    ) -> CompileOptions:
        """The options of a call of `op`."""
        check_threads(op, threads)
        check_flags(op, optimise=optimise, assume_finite=assume_finite, incremental=incremental)
        watched = tuple([self.names[self.variable(x, "often")] for x in list_variables(often)])
        return CompileOptions(
            *(engine, memory, watched, optimise, assume_finite, incremental, threads, plan),
            *(rule_names(disable), rule_names(enable), precision),
        )

    @explain_bad_calls
    def partition(
        self,
        workers: int,
        memory: str | float | None = None,
        *,
        micro_batches: int | None = None,
        bandwidth: float = 1.25e9,
        latency: float = 2e-3,
        engine: str = "cpu",
        optimise: bool = True,
        assume_finite: bool = False,
        threads: int | None = None,
        precision: str | None = None,
    ) -> Partition:
        """Cut the graph into segments for several machines, each within its memory.

        - `workers`: how many machines.
        - `memory`: the bytes of each, `"2GB"` or a number: plans, constants, variables and values
          between segments together; None sets no limit.
        - `micro_batches`: how many runs of a sweep are under way at a time, so that all workers
          have something to do; None takes one more than there are workers.  With updates it is one.
        - `bandwidth`: bytes a second between the machines, for what is predicted.
        - `latency`: seconds from the end of a segment to the start of the next.
        - `engine`, `optimise`, `assume_finite`, `threads`, `precision`: as for `compile`; the
          threads of each machine.

        Gives a `Partition`: printed, it says what each segment has to do and needs, and how long a
        run will take beside one machine; `.compile(client)` runs it on a Dask cluster.  METIS cuts
        (`pip install 'tawny[dask]'`); a variable lies where it is updated.  Raises
        `tw.MemoryBudgetError` where the workers cannot have so little memory, and names the least.

            x, w = tw.var("x", (8, 64)), tw.var("w", (64, 64))
            graph = tw.Graph([x, w], np.tanh(np.tanh(x @ w) @ w))
            parts = graph.partition(workers=2, memory="1MB")
            len(parts.segments), parts.peak_bytes < 1e6   # -> (2, True)
        """
        check_untraced(self.results, "partition")
        kind = engine, None, (), optimise, assume_finite, False, threads
        options = self._options("partition", *kind, "default", (), (), precision)
        with pause_gc():
            return partitions.make_partition(
                self, workers, memory, micro_batches, (bandwidth, latency), options
            )

    def _rewrite(
        self, flow: Flow, pipeline: Sequence[Pass], options: CompileOptions
    ) -> OptimisedGraph:
        """A graph after some passes of the optimiser."""
        return optimise_nodes(
            flow,
            evaluate=evaluator(),
            assume_finite=options.assume_finite,
            disable=options.disable,
            enable=options.enable,
            pipeline=pipeline,
            known=RULES,
            measured=False,
        )

    def _compile(self, options: CompileOptions) -> Compilation:
        def run(flow: Flow, pipeline: Sequence[Pass]) -> OptimisedGraph:
            return self._rewrite(flow, pipeline, options)

        return Compilation(
            self.variables,
            [target for target, _ in self.update_nodes],
            self.results,
            engine=options.engine,
            memory=options.memory,
            often=[self.variable(x, "often") for x in options.often],
            incremental=options.incremental,
            optimise=run if options.optimise else None,
            threads=options.threads,
            plan=options.plan,
            precision=options.precision,
        )

    def save(self, path: str | Path) -> None:
        """Write the graph to a file of plain data, to be read by `tw.load`.

        - `path`: the file, which is replaced.  It holds nodes, constants, names and lines, and no
          code: a function in `tw.delay` is referred to by the name given to `tw.register_function`.

        Raises ValueError for functions that have no such name.

            x = tw.var("x", (3,))
            tw.Graph([x], np.sum(x * x)).save("squares.tawny")
            float(tw.load("squares.tawny").compile()([1.0, 2.0, 3.0]))   # -> 14.0
        """
        saving.save(self, path)

    def to_dot(self, plan: Plan | None = None) -> str:
        """The graph in Graphviz's language.

        - `plan`: a plan of the graph; nodes are then coloured by the block of memory they lie in.

            x = tw.var("x", (3,))
            graph = tw.Graph([x], np.sin(x) + 1)
            graph.to_dot(graph.plan()).startswith("digraph")   # -> True
        """
        return dot.to_dot(self, plan)

    def trace(self) -> str:
        """A listing of the nodes in the order they run.

        Gives text with a line for each: op, dtype, shape, operands, and where you wrote it.

            x = tw.var("x", (3,))
            print(tw.Graph([x], np.sin(x) + 1).trace())
        """
        return trace.trace(self)

    def visualize(self, path: str | Path, plan: Plan | None = None) -> None:
        """Draw the graph into a file.

        - `path`: the file; the end of its name says what is drawn: `.svg`, `.png` or `.dot`.
        - `plan`: a plan of the graph; nodes are then coloured by the block of memory they lie in.

        The picture is laid out as on the page of `show`, with every scope open.  For `.png`
        Graphviz must be installed; without it that raises ValueError, and so do graphs of more than
        5,000 nodes.

            x = tw.var("x", (3,))
            tw.Graph([x], np.sin(x) + 1).visualize("graph.svg")
        """
        graphviz.visualize(self, path, plan)

    def show(self, path: str | Path | None = None, *, compiled: bool = False) -> Path:
        """Write a page on which the graph can be explored; it needs no network.

        - `path`: the file, which is replaced; None makes one and opens it in the browser.
        - `compiled`: whether memory and rewrites are shown too, as `compile()` would make them.

        Gives the path.  Scopes open and close, repeats are folded, and each node has its line.

            x = tw.var("x", (3,))
            page = tw.Graph([x], np.sin(x) + 1).show("graph.html")
        """
        if not compiled:
            return page.show(page.page(self), path)
        with pause_gc():
            made = self._compile(CompileOptions())
        return page.show(page.page(self, made.plan, made), path)

    def _repr_svg_(self) -> str:
        return svg.svg(self)

    def _repr_html_(self) -> str:
        if not page.fits_frame(len(self.order)):
            return svg.html(self)
        return page.frame(page.page(self))

    def __reduce__(self) -> Any:
        """By the bytes that `save` writes; see there for what a file holds."""
        return files.from_bytes, (saving.to_bytes(self, "pickle"),)

    if not TYPE_CHECKING:  # which would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise_missing(self, "Graph", name, GRAPH.get(name))

    def __repr__(self) -> str:
        title = f" {self.name!r}" if self.name else ""
        names = list_some([self.names[n] for n in self.input_nodes])
        return (
            f"<Graph{title}: inputs {names}; {len(self.output_nodes)} outputs; "
            f"{len(self.update_nodes)} updates; {len(self.order)} nodes>"
        )

    def _warn_of_unused(self) -> None:
        used = {*self.order, *(target for target, _ in self.update_nodes)}
        for node in self.input_nodes:
            if node not in used:
                warn(f"Graph: input {self.names[node]!r} is used by no output")


def optimise(
    graph: Graph,
    *,
    assume_finite: bool = False,
    disable: Iterable[str] = (),
    enable: Iterable[str] = (),
) -> Graph:
    """A graph that computes the same with less; its `rewrites` say what was done.

    Compiling does this by itself: here the rewritten graph can be seen.

    - `graph`: the graph, which stays as it is.
    - `assume_finite`: let rules apply that hold only without NaN and infinities.
    - `disable`: names of rules, or of classes of rules (`"exact"`, `"contracting"`, `"finite"`),
      to leave out.
    - `enable`: names of those that are off unless asked for: `"reassociating"` joins constants
      along sums and products, which rounds differently.

    Gives a new `Graph`.  Raises ValueError for a name that no rule has.

        x = tw.var("x", (3,))
        less = tw.optimise(tw.Graph([x], (x - 0) * 1))
        [step.rule.name for step in less.rewrites]    # -> ['subtract_zero', 'multiply_one']
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("optimise", f"{type(graph).__name__} is no Graph")
    check_untraced(graph.results, "optimise")
    done = optimise_nodes(
        graph.results,
        evaluate=evaluator(),
        assume_finite=assume_finite,
        disable=rule_names(disable),
        enable=rule_names(enable),
    )
    arrays = [array_for(n) for n in done.outputs]
    count = len(graph.output_nodes)
    targets = [array_for(target) for target, _ in graph.update_nodes]
    return Graph(
        graph.inputs,
        graph.unflatten(arrays[:count]),
        dict(zip(targets, arrays[count:], strict=True)),
        graph.name,
        unused="ignore",
        rewrites=done.rewrites,
    )
