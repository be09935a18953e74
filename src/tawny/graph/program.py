"""A compiled graph: values that persist, runs that execute only what changed, update edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, final

import numpy as np

from tawny.array import Array, array_for
from tawny.bad_calls import explain_bad_calls
from tawny.engine.protocol import DirectRun, Executable
from tawny.errors import list_accepted, list_some, type_error, value_error, with_location
from tawny.forking import fork_safe_lock
from tawny.graph.binding import VariableBinding
from tawny.graph.compilation import Compilation
from tawny.graph.options import CompileOptions
from tawny.graph.plan import Plan
from tawny.graph.profile.recording import recording
from tawny.graph.run_record import Run
from tawny.graph.stages import Stages
from tawny.graph.values import as_rows, variable_value
from tawny.lazy import LazyModule
from tawny.node import Node, Value
from tawny.progress import progress
from tawny.rewrite.ledger import Rewrites
from tawny.shape import as_int

CLUSTERS: Final = "tawny.distributed.mapping"
"""The module that hands runs to clusters; it stands above this one and is loaded on demand."""

if TYPE_CHECKING:
    from tawny.distributed import mapping
    from tawny.graph import throughput as throughputs
    from tawny.graph.graph import Graph
    from tawny.graph.profile import runs as measured_runs
    from tawny.graph.profile.profile import Profile
    from tawny.graph.report import page
    from tawny.graph.throughput import Throughput
else:
    page = LazyModule("tawny.graph.report.page")
    throughputs = LazyModule("tawny.graph.throughput")
    mapping = LazyModule(CLUSTERS)
    measured_runs = LazyModule("tawny.graph.profile.runs")


class DirectCall(NamedTuple):
    """The shortest way of calls that give arrays that fit for all inputs."""

    run: DirectRun
    nodes: frozenset[Node]
    """What is computed."""
    given: tuple[tuple[int, None], ...]
    """The numbers of the variables that are written."""


@final
class Program:
    """A graph made ready to run: optimised, planned, its memory allocated.

    Programs come from `Graph.compile`.  Calling one sets inputs (by position or by name) and
    runs; values set before stay set, and only what depends on changed inputs is computed again.
    Calls from several threads are taken one after the other.  Inside a run, as in a delayed
    function or a signal's handler, the program itself can be neither run nor changed.

        price, rate = tw.var("price", (3,)), tw.var("rate")
        graph = tw.Graph([price, rate], {"value": np.sum(price) * rate, "logs": np.log(price)})
        program = graph.compile()
        first = program(price=numpy.ones(3), rate=2.0)["value"]
        float(first)                                  # -> 6.0
        second = program(rate=3.0)["value"]           # the logarithms are not computed again
        float(second)                                 # -> 9.0
    """

    def __init__(self, graph: Graph, compiled: Compilation, options: CompileOptions) -> None:
        self.graph = graph
        self.options = options
        """How it was compiled."""
        self._compiled = compiled
        _ = compiled.executable  # all memory is allocated here
        if (active := recording()) is not None:
            active.add(self, compiled)
        self._lock = fork_safe_lock(self, Program._recover_after_fork)
        self._busy = False
        """Whether the thread that holds the lock is running the program or changing it."""
        self._being_set: Sequence[tuple[int, Any]] = ()
        """The variables that are being given values, by their numbers, and the values."""
        self._variables, self._inputs = graph.variables, len(graph.input_nodes)
        self._kinds = [(n.shape, n.dtype) for n in graph.variables]
        self._names = {graph.names[n]: i for i, n in enumerate(graph.variables)}
        self._results = compiled.results[: len(graph.output_nodes)]
        self._single_output = (
            len(self._results) == 1 and graph.unflatten(self._results) in self._results
        )
        """Whether the outputs are one array and no structure."""
        self._unset = set(range(len(graph.variables)))
        """Numbers of the variables that have no value yet."""
        self._bound: set[int] = set()
        """Numbers of the variables that lie in arrays of the caller's."""
        self._bits: list[int] = []
        """For each variable the bit that stands for a change of it, once one has a value."""
        self._updated = 0
        """What the updates change."""
        self._changed = 0
        self._fresh = True
        self._draw = self._first_draw = 0
        """The number of the next run; how much more it is than the runs that were completed."""
        self._newest_run: tuple[frozenset[Node], float] | None = None
        """What the newest run computed, and how long it took."""
        self._direct: DirectCall | None = None
        """The shortest way of calls that give all inputs, once there was one; until one moves."""
        self._last_run: Run | None = None
        """The newest run as `last_run` gives it, once somebody asked for it."""

    # ------------------------------------------------------------- inspection

    @property
    def plan(self) -> Plan:
        """Where every byte lies, decided before the first run.

        Gives the `Plan` that `Graph.plan` gives with the same options; printed, it is a table.

            x = tw.var("x", (1000,))
            program = tw.Graph([x], np.exp(x) + 1).compile()
            program.plan.peak_bytes                       # -> 8000
        """
        return self._compiled.plan

    @property
    def rewrites(self) -> Rewrites:
        """What the optimiser did: a sequence of records, printed as a table.

        There is a record for each time a rule was applied: it has the rule, its class, and the
        nodes before and after with your lines.  `operations_saved` and `bytes_saved` of the whole
        say what it is worth.

            x = tw.var("x", (3,))
            program = tw.Graph([x], np.exp(x * 1)).compile()
            [step.rule.name for step in program.rewrites]   # -> ['multiply_one']
        """
        return self._compiled.rewrites

    def explain(self) -> Stages:
        """The stages between the graph and this program: what each left, and what it took.

        Gives a sequence of stages with `name`, `nodes`, `bytes` and `seconds`, printed as a table;
        below it stands how the steps are run.

            x = tw.var("x", (1000,))
            program = tw.Graph([x], np.exp(x * 1) + 1).compile()
            [stage.name for stage in program.explain()][:3]   # -> ['record', 'simplify', 'fuse']
        """
        return self._compiled.explain()

    def show(self, path: str | Path | None = None) -> Path:
        """Write a page that shows the graph, the memory and the rewrites; it needs no network.

        - `path`: the file, which is replaced; None makes one and opens it in the browser.

        Gives the path.  After a run the graph can be coloured by what that computed and what it
        reused; `program.profile().show()` shows the time too.  What is selected in one view is
        selected in all.

            x = tw.var("x", (1000,))
            program = tw.Graph([x], np.exp(x * 1) + 1).compile()
            page = program.show("program.html")
        """
        return page.show(self._page(), path)

    def _repr_html_(self) -> str:
        if not page.fits_frame(len(self.graph.order)):
            return self.plan._repr_html_()  # pyright: ignore[reportPrivateUsage]
        return page.frame(self._page())

    def _page(self) -> str:
        executed = None if self._newest_run is None else self._newest_run[0]
        return page.page(self.graph, self.plan, self._compiled, executed=executed)

    @property
    def engine(self) -> str:
        """The engine that runs this program."""
        return self._compiled.engine

    @property
    def last_run(self) -> Run:
        """What the newest run did.

        It has `executed`, the arrays that were computed; `reused`, those whose values were still
        right; `steps`, the places in `plan.steps` of what was run; `seconds`, the time it took; and
        `bytes`, those of the values computed.  Raises ValueError before the first run.

            x, y = tw.var("x", (3,)), tw.var("y", (3,))
            program = tw.Graph([x, y], [np.exp(x), np.exp(y)]).compile()
            before = program(numpy.ones(3), numpy.ones(3))
            after = program(y=numpy.zeros(3))
            len(program.last_run.executed), len(program.last_run.reused)   # -> (1, 1)
        """
        with self._lock:
            if self._newest_run is None:
                raise value_error("last_run", "the program has not run yet")
            if self._last_run is None:
                self._last_run = Run(self._compiled, *self._newest_run)
            return self._last_run

    @property
    def draw(self) -> int:
        """The number of the next run; together with the seeds it decides the random numbers.

        Set it to draw the numbers of another run again, as when training is resumed.
        """
        return self._draw

    @draw.setter
    def draw(self, number: int) -> None:
        if number < 0:
            raise value_error("draw", f"the number of a run is {number}; it must be at least 0")
        with self._lock:
            if self._busy:
                raise _reentry_error("draw")
            self._draw, self._first_draw = number, number - self._compiled.executable.completed_runs

    @property
    def state(self) -> Mapping[str, Value]:
        """Copies of the values of the variables that have one, by name.

        `tw.save_arrays(path, program.state)` writes them; `program.set(dict(...))` takes them back.

            n = tw.var("n")
            program = tw.Graph([], n, updates={n: n + 1}).compile()
            program.set(n=0.0)
            last = program.run(steps=3)
            float(program.state["n"])                     # -> 3.0
        """
        with self._lock:
            known = {n: self._variables[i] for n, i in self._names.items() if i not in self._unset}
            values = self._compiled.executable.read([*known.values()])
            return MappingProxyType(dict(zip(known, values, strict=True)))

    def __repr__(self) -> str:
        return f"<Program of {self.graph!r} on {self.engine}>"

    def __reduce__(self) -> NoReturn:
        raise type_error(
            "pickle",
            "a program holds compiled code and memory and can be neither copied nor pickled; "
            "compile its graph again (program.graph.compile()), here or where it was saved to "
            "(program.graph.save), and give that the state (other.set(**program.state))",
        )

    # ------------------------------------------------------------------ input

    def set(
        self,
        values: Mapping[str, Any] | Mapping[Array, Any] | None = None,
        /,
        *,
        bind: bool = False,
        **by_name: Any,
    ) -> None:
        """Give variables new values for the next run; nothing is set unless all can be set.

        - `values`: a dict of values by name.
        - `bind`: use the arrays themselves, without a copy.  They must be contiguous, of the
          variable's dtype and shape, in the engine's memory, and outlive the program; changes made
          to them are declared with `touch`.  Arrays of other libraries are taken by DLPack.
        - `by_name`: values by name, `set(rate=2.0)`.

        A value of another dtype is converted where nothing but rounding can be lost.  Raises
        ValueError for another shape, TypeError for names that are no variables and for dtypes that
        lose more, OverflowError for integers that do not fit.

            price, rate = tw.var("price", (3,)), tw.var("rate")
            program = tw.Graph([price, rate], np.sum(price) * rate).compile()
            program.set({"price": numpy.ones(3)}, rate=2.0)
            float(program.run())                          # -> 6.0
            prices = numpy.ones(3)
            program.set(price=prices, bind=True)
            prices[:] = 2.0
            program.touch("price")
            float(program.run())                          # -> 12.0
        """
        if bind is not False:
            bind = self._check_option(bind, values, by_name)
        if values is not None:
            self._add_values(values, by_name)
        with self._lock:
            if self._busy:
                raise _reentry_error("set")
            self._assign(self._by_index(by_name), bind)

    def _add_values(self, values: Mapping[Any, Any], by_name: dict[str, Any]) -> None:
        """Add what stands in a dict to the values given by name."""
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error(
                "set", f"values are {type(values).__name__}; accepted: a dict of values by name"
            )
        for key, value in values.items():
            name = self.graph.names[self.graph.variable(key, "set")]
            if name in by_name:
                raise type_error("set", f"variable {name!r} was given twice")
            by_name[name] = value

    def _check_option(self, bind: object, values: object, by_name: dict[str, Any]) -> bool:
        """Whether to bind; if it is no answer to that, it is the value of a variable `bind`."""
        if not isinstance(bind, bool):
            if "bind" not in self._names:
                raise type_error("set", f"bind is {bind!r}; it must be True or False")
            by_name["bind"] = bind
            return False
        if bind and values is None and "bind" in self._names:
            raise value_error(
                "set",
                "a variable is called 'bind', as is the option; give the values in a dict: "
                "program.set({'bind': True}), or program.set({...}, bind=True)",
            )
        return bind

    def touch(self, *names: str) -> None:
        """Say that the arrays bound to these variables have changed.

        - `names`: of variables that `set(..., bind=True)` bound.

        Raises ValueError for a variable that is bound to no array.

            x = tw.var("x", (3,))
            program = tw.Graph([x], np.sum(x)).compile()
            data = numpy.ones(3)
            program.set(x=data, bind=True)
            data[0] = 5.0
            program.touch("x")
            float(program.run())                          # -> 7.0
        """
        with self._lock:
            if self._busy:
                raise _reentry_error("touch")
            changed = 0
            for name in names:
                changed |= self._bits[self._bound_index(name)]
            self._changed |= changed

    def _bound_index(self, name: str) -> int:
        index = self._index(name)
        if index not in self._bound:
            raise value_error("touch", f"variable {name!r} is bound to no array; use set")
        return index

    def _index(self, name: str) -> int:
        if name not in self._names:
            raise type_error(
                "Program",
                f"unknown variable {name!r}; accepted: {list_accepted([*self._names], name)}",
            )
        return self._names[name]

    def _name(self, index: int) -> str:
        return self.graph.names[self._variables[index]]

    def _by_index(self, values: Mapping[str, Any]) -> list[tuple[int, Any]]:
        """Values by the numbers of the variables."""
        named: list[tuple[int, Any]] = []
        for name, value in values.items():
            index = self._names.get(name)
            named.append((self._index(name) if index is None else index, value))
        return named

    def _assign(self, values: Sequence[tuple[int, Any]], bind: bool) -> None:
        """Give variables values, or bind them to arrays: all of them, or none."""
        executable, kinds = self._compiled.executable, self._kinds
        bits, changed = self._bits or self._find_bits(), self._changed
        if bind:
            values = self._locate(values)
        for index, value in values:
            changed |= bits[index]
            if type(value) is np.ndarray and (value.shape, value.dtype) == kinds[index]:
                continue
            if not bind:
                values = [
                    (i, variable_value(self._variables[i], self._name(i), v)) for i, v in values
                ]
                for i, _ in values:
                    changed |= bits[i]
                break
        self._being_set, self._changed = values, changed
        if bind or self._bound:
            self._direct = None
        try:
            if bind:
                executable.bind(values)
            else:
                executable.write(values)
            if bind or self._unset or self._bound:
                given = {index for index, _ in values}
                self._unset -= given
                self._bound = self._bound | given if bind else self._bound - given
        finally:
            self._being_set = ()

    def _locate(self, arrays: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Arrays as the engine binds variables to them; refused if it cannot."""
        names = [self._name(index) for index in range(len(self._variables))]
        binding = VariableBinding(self._compiled.executable, self._variables, names, self.engine)
        located = {index: binding.locate(index, array) for index, array in arrays}
        with_values = {*range(len(self._variables))} - self._unset
        ranges = {index: found.range for index, found in located.items()}
        binding.check(ranges, with_values - located.keys(), self._changing())
        return [(index, found.array) for index, found in located.items()]

    def _changing(self) -> frozenset[int]:
        """The variables that updates change, by their numbers."""
        names = self.graph.names
        return frozenset([self._names[names[target]] for target, _ in self.graph.update_nodes])

    def _recover_after_fork(self) -> None:
        """In a forked process: a thread that is not there was running the program or changing it.

        What it was writing has no value here.
        """
        torn = {index for index, _ in self._being_set}
        if self._busy:
            torn |= self._changing()
        self._unset |= torn
        self._bound -= torn
        self._busy, self._fresh, self._being_set = False, True, ()
        self._direct = None

    def _find_bits(self) -> list[int]:
        """Find out which bits stand for changes of variables, and for what the updates change."""
        self._bits = [self._compiled.bit(v) for v in self._variables]
        for target in {target for target, _ in self.graph.update_nodes}:
            self._updated |= self._compiled.bit(target)
        return self._bits

    # -------------------------------------------------------------------- run

    def __call__(self, /, *values: Any, **by_name: Any) -> Any:
        """Set inputs, run once, and give the outputs in the graph's structure.

        - `values`: of the inputs in the graph's order; fewer may be given.
        - `by_name`: values of inputs, or of updated variables, by name.

        Inputs that are not given keep their values.  Gives new NumPy arrays.  Raises what `set` and
        `run` raise.

            x, y = tw.var("x"), tw.var("y")
            program = tw.Graph([x, y], x * y).compile()
            float(program(2.0, y=3.0))                    # -> 6.0
            float(program(y=4.0))                         # -> 8.0
        """
        if self._direct is not None and not by_name:
            outputs = self._call_directly(values)
            if outputs is not NotImplemented:
                return outputs
        with self._lock:
            if self._busy:
                raise _reentry_error("Program")
            if len(values) > self._inputs:
                raise type_error(
                    "Program",
                    f"{len(values)} values were given; there are {self._inputs} inputs",
                )
            given = [*enumerate(values)]
            if by_name:
                named = self._by_index(by_name)
                for index, _ in named:
                    if index < len(values):
                        name = self._name(index)
                        raise type_error("Program", f"input {name!r} was given twice")
                given += named
            try:
                self._busy = True
                self._assign(given, False)
                outputs = self._run(1, False)
            finally:
                self._busy = False
            if self._direct is None and len(values) == self._inputs and not by_name:
                self._find_direct_call()
            return outputs

    def _call_directly(self, values: Sequence[Any]) -> Any:
        """What a call with these inputs gives; NotImplemented where it has to go the long way."""
        direct = self._direct
        if direct is None or len(values) != self._inputs:
            return NotImplemented
        run, nodes, given = direct
        kinds, array = self._kinds, np.ndarray
        for i, _ in given:
            value, (shape, dtype) = values[i], kinds[i]
            if type(value) is not array or value.shape != shape or value.dtype is not dtype:
                return NotImplemented
        with self._lock:
            if self._busy or self._direct is not direct or self._changed != self._updated:
                return NotImplemented
            start = perf_counter()
            self._busy = self._fresh = True
            self._being_set = given
            try:  # no call before it: that is where Python is interrupted
                outputs = run(values, self._draw)
            except BaseException:
                self._direct = None
                self._draw = self._first_draw + self._compiled.executable.completed_runs
                raise
            finally:
                self._busy, self._being_set = False, ()
            self._draw += 1
            self._newest_run, self._last_run = (nodes, perf_counter() - start), None
            self._fresh = False
            return outputs[0] if self._single_output else self.graph.unflatten(outputs)

    def _find_direct_call(self) -> None:
        """Find the shortest way of calls that give all inputs."""
        inputs = range(self._inputs)
        if not self._bound.isdisjoint(inputs):
            return
        changed = self._updated
        for index in inputs:
            changed |= self._bits[index]
        nodes, positions = self._compiled.run_set(changed)
        run = self._compiled.executable.direct_run(inputs, positions, self._results)
        if run is not None:
            self._direct = DirectCall(run, nodes, tuple([(index, None) for index in inputs]))

    def run(self, steps: int = 1, *, views: bool = False) -> Any:
        """Run `steps` times, with update edges in between; gives the outputs of the last.

        - `steps`: how often; 0 changes nothing and gives the outputs of the newest run.
        - `views`: give read-only views of the program's own memory instead of new arrays; they are
          right until the next run.  On a device they stay there.

        Raises ValueError while a variable has no value yet.

            n = tw.var("n")
            program = tw.Graph([], n * n, updates={n: n + 1}).compile()
            program.set(n=0.0)
            float(program.run(steps=4))                   # -> 9.0
        """
        if type(steps) is not int:  # most are, and this takes a tenth of a small run
            steps = as_int(steps, "run", "steps")
        if steps < 0:
            raise value_error("run", f"steps is {steps}; it must be at least 0")
        with self._lock:
            if self._busy:
                raise _reentry_error("run")
            if not steps and (self._newest_run is None or self._fresh):
                raise value_error(
                    "run", "steps is 0, and the program has not run yet: it has no outputs to give"
                )
            try:
                self._busy = True
                return self._run(steps, views)
            finally:
                self._busy = False

    def _run_in(self, arrays: Sequence[tuple[int, Value]]) -> None:
        """Let variables, by their numbers, lie in arrays from now on; run everything once.

        Nothing is checked, since it is called again and again with other arrays that lie right:
        contiguous, of their variables' shapes and dtypes, and none over one that is updated.
        """
        with self._lock:
            if self._busy:
                raise _reentry_error("run")
            self._busy = True
            try:
                executable = self._compiled.executable
                self._direct = None
                executable.bind(arrays)
                if self._unset:
                    given = {index for index, _ in arrays}
                    self._unset -= given
                    self._bound |= given
                self._fresh = True
                self._run(1, True)
            finally:
                self._busy = False

    def _run(self, steps: int, views: bool) -> Any:
        if self._unset:
            self._check_values("run")
        executable = self._compiled.executable
        if steps:
            self._advance(executable, 1)
        if steps > 1:
            self._advance(executable, steps - 1)
        given = self._results
        outputs = [*map(executable.view, given)] if views else executable.read(given)
        return outputs[0] if self._single_output else self.graph.unflatten(outputs)

    def _check_values(self, op: str) -> None:
        """Refuse to run while a variable has no value."""
        missing = [repr(n) for n, i in self._names.items() if i in self._unset]
        if missing:
            raise value_error(op, f"variables have no value yet: {list_some(missing)}")

    def _advance(self, executable: Executable, times: int) -> None:
        """Run and update, over and over; after the first time only updates change anything."""
        compiled, changed = self._compiled, None if self._fresh else self._changed
        nodes, positions = compiled.run_sets.get(changed) or compiled.run_set(changed)
        self._fresh = True  # until the run has succeeded, nothing in memory is to be trusted
        start = perf_counter()
        try:
            done = executable.advance(positions, self._draw, times)
            while done < times:
                draw = self._draw + done
                done += executable.advance(positions, draw, times - done)
            self._draw += times
        except BaseException:
            self._draw = self._first_draw + executable.completed_runs
            raise
        self._newest_run, self._last_run = (nodes, (perf_counter() - start) / times), None
        self._fresh, self._changed = False, self._updated

    @explain_bad_calls
    def profile(self, runs: int = 20) -> Profile:
        """Measure what every step takes: runs that compute everything, timed step by step.

        - `runs`: how many; as many that are not timed come in between, to say what timing costs.

        Gives a `Profile`: printed, a table with the time, the share of the machine's roof and your
        line of every step; `.rows` as plain data, `.chrome_trace(path)` for Perfetto, `.show()`.
        The runs are made in memory of their own, on copies of the variables: values, numbers of
        draws and `last_run` stay as they are.  What delayed functions do beside is done.  Raises
        ValueError while a variable has no value yet.

            x = tw.var("x", (200, 200))
            program = tw.Graph([x], np.sum(np.exp(x @ x))).compile()
            program.set(x=numpy.ones((200, 200)) / 200)
            profile = program.profile(runs=3)
            [row.name for row in profile.rows][-1]        # -> 'group'
        """
        runs = as_int(runs, "profile", "runs")
        if runs < 1:
            raise value_error("profile", f"runs is {runs}; it must be at least 1")
        with self._lock:
            if self._busy:
                raise _reentry_error("profile")
            self._check_values("profile")
            executable = self._compiled.make_executable()
            values = self._compiled.executable.read(self._variables)
            executable.write([*enumerate(values)])
        positions = self._compiled.run_set(None)[1]
        return measured_runs.profile_program(self, executable, positions, self._draw, runs)

    # ----------------------------------------------------------------- values

    def affected(self, *variables: Array | str) -> list[Array]:
        """The arrays that a change of `variables` would compute again, in order.

        - `variables`: variables of the graph, or their names.

            x, y = tw.var("x", (3,)), tw.var("y", (3,))
            program = tw.Graph([x, y], [np.exp(x), np.exp(y)]).compile()
            len(program.affected("y"))                    # -> 1
        """
        changed = 0
        for x in variables:
            changed |= self._compiled.bit(self.graph.variable(x, "affected"))
        return [
            array_for(n)
            for n in self._compiled.in_order(self._compiled.nodes_after_change(changed))
        ]

    def get(self, array: Array | str) -> Value:
        """The value `array` had in the newest run, as a new NumPy array.

        - `array`: a variable or its name, an output, or a value that is kept between runs.

        Raises ValueError for values whose memory was used again: add them to the graph's outputs.

            x = tw.var("x", (3,))
            y = np.exp(x)
            program = tw.Graph([x], y).compile()
            first = program(numpy.zeros(3))
            program.get(y).tolist()                       # -> [1.0, 1.0, 1.0]
            program.get("x").tolist()                     # -> [0.0, 0.0, 0.0]
        """
        with self._lock:
            node = array.node if isinstance(array, Array) else self.graph.variable(array, "get")
            if node in self.graph.variables:
                name = self.graph.names[node]
                if self._names[name] in self._unset:
                    raise value_error("get", f"variable {name!r} has no value yet")
                return self._compiled.executable.read([node])[0]
            if self._busy:
                raise _reentry_error("get")
            if self._newest_run is None or self._fresh:
                raise value_error("get", "the program has not run yet")
            node = self._compiled.program_node(node)
            if not self._compiled.is_kept(node):
                raise value_error(
                    "get",
                    f"{node!r} is no output and is not kept: its memory was used again; "
                    "add it to the graph's outputs",
                )
            return self._compiled.executable.read([node])[0]

    def sweep(
        self,
        lists: Mapping[str, Sequence[Any]] | None = None,
        /,
        *,
        client: Any = None,
        **by_name: Sequence[Any],
    ) -> list[Any]:
        """Outputs for each position of the lists; what does not depend on them runs once.

        - `lists`: a dict of lists by the name of their variable, all of one length.
        - `client`: a `distributed.Client`, whose workers make the runs; None makes them here.
        - `by_name`: such lists by name.

        Gives a list of what calls would give.  On a cluster each worker compiles the graph once and
        computes once what does not depend on the lists; the bits are the same where processors are.
        Raises ValueError for lists of different lengths, and on a cluster for graphs with updates.

            x, rate = tw.var("x", (3,)), tw.var("rate")
            program = tw.Graph([x, rate], np.sum(np.exp(x)) * rate).compile()
            program.set(x=numpy.zeros(3))
            [float(y) for y in program.sweep(rate=[1.0, 2.0])]   # -> [3.0, 6.0]
        """
        if client is not None and "client" in self._names and isinstance(client, Sequence):
            by_name["client"], client = client, None
        rows = as_rows({**(lists or {}), **by_name}, "sweep")
        if client is not None:
            results = mapping.sweep(self, client, rows)
            if rows.total:
                self.set(rows.row(rows.total - 1))
                self.draw += rows.total
            return results
        with self._lock, progress("sweep") as work:
            found: list[Any] = []
            for number in range(rows.total):
                work.now(f"{number + 1} of {rows.total}")
                found.append(self(**rows.row(number)))
            return found

    @explain_bad_calls
    def throughput(self, copies: int | None = None) -> Throughput:
        """Copies of this program that run side by side, for many requests at once.

        - `copies`: how many; None makes one for each of the program's threads.

        Each copy has its share of the threads and memory of its own; constants, and the values that
        variables have now, are there once.  Gives a `Throughput`, which any number of threads may
        call.  Results have the bits of this program's.  Raises ValueError for a graph with updates,
        whose runs depend on each other.

            x = tw.var("x", (3,))
            program = tw.Graph([x], np.sum(np.exp(x))).compile(threads=2)
            serving = program.throughput()
            float(serving(numpy.zeros(3)))                # -> 3.0
            [float(y) for y in serving.sweep(x=numpy.zeros((2, 3)))]   # -> [3.0, 3.0]
        """
        return throughputs.make_throughput(self, copies)

    def _twin(self, team: int = 0) -> Program:
        """A program of the same plan and code in memory of its own; its variables have no value.

        Programs of different teams run at the same time, each with all of its threads.
        """
        return Program(self.graph, self._compiled.twin(team), self.options)


def _reentry_error(what: str) -> RuntimeError:
    """A program is to be run or changed in the middle of its own run."""
    return RuntimeError(
        with_location(
            f"{what}: the program is running, and this is called from inside that run (a delayed "
            "function, a signal's handler or a destructor); compile the graph a second time for "
            "use inside"
        )
    )
