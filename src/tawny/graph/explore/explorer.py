"""`tw.explore`: a program's inputs as controls, its outputs as pictures, run as they are moved."""

from __future__ import annotations

import html
import webbrowser
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, NoReturn, cast, final

from tawny.array import Array, array_for
from tawny.bad_calls import explain_bad_calls
from tawny.errors import list_accepted, list_some, type_error, value_error
from tawny.graph.explore.controls import Control, as_controls
from tawny.graph.explore.pictures import KINDS, Kind, kind_of, picture, suits
from tawny.graph.explore.server import PageServer
from tawny.graph.program import Program
from tawny.graph.report.page import fill_page
from tawny.node import Node
from tawny.source import describe
from tawny.tree import leaf_paths
from tawny.unique import Unique

WEB: Final = Path(__file__).parent / "web"
SCRIPTS: Final = ("page.js",)

MOST_STEPS: Final = 5_000
"""Steps of a run that a page shows one by one."""


class ShownOutput(NamedTuple):
    """An output as the page shows it."""

    name: str
    node: Node
    kind: Kind


@final
class Explorer(Unique):
    """A page under way; it ends with the process, or when it is closed.

    In a notebook the page stands below the cell.
    """

    def __init__(self, program: Program, controls: list[Control], shown: list[ShownOutput]) -> None:
        self._program, self._controls, self._shown = program, controls, shown
        self._server = PageServer(self._page, self._answer)

    @property
    def address(self) -> str:
        """The address of the page, with its token: whoever has it can move the controls."""
        return self._server.address

    def close(self) -> None:
        """End the page; the program stays as it is then."""
        self._server.close()

    def wait(self) -> None:
        """Wait until the page is closed; Control-C closes it."""
        self._server.wait()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Explorer of {self._program!r} at {self.address}>"

    def __reduce__(self) -> NoReturn:
        raise type_error("pickle", "a page under way can be neither copied nor pickled")

    def _repr_html_(self) -> str:
        return (
            '<iframe style="width:100%;height:600px;border:1px solid #8888" '
            f'src="{html.escape(self.address)}"></iframe>'
        )

    def _page(self) -> str:
        values = self._program.state
        data = {
            "title": self._program.graph.name or "program",
            "controls": [c.data(values[c.name]) for c in self._controls],
            "shown": [[one.name, one.kind] for one in self._shown],
            "steps": [
                [step.array.node.name, describe(step.array.node.sources[:1])]
                for step in self._program.plan.steps[:MOST_STEPS]
            ],
            "count": len(self._program.plan.steps),
        }
        return fill_page(WEB, SCRIPTS, data)

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Set what the page asks for, run, and draw the outputs."""
        known = {control.name: control for control in self._controls}
        unknown = [name for name in request if name not in known]
        if unknown:
            raise ValueError(f"there is no control called {unknown[0]!r}")
        values = {name: known[name].value(given) for name, given in request.items()}
        program = self._program
        start = perf_counter()
        if values:
            program.set(values)
        program.run(views=True)
        seconds = perf_counter() - start
        ran = program.last_run.steps
        return {
            "seconds": seconds,
            "ran": [position for position in ran if position < MOST_STEPS],
            "count": len(ran),
            "pictures": [
                picture(program.get(array_for(one.node)), one.kind) for one in self._shown
            ],
        }


@explain_bad_calls
def explore(
    program: Program,
    sliders: Mapping[str, tuple[float, float] | list[float]],
    show: Iterable[Any] | None = None,
    *,
    browser: bool = True,
) -> Explorer:
    """Open a page with a control for some inputs and a picture of each output.

    - `program`: the program, which is run whenever a control moves, and stays usable meanwhile.
    - `sliders`: for each input, by name, a tuple `(lowest, highest)` or a list of the values it
      may have; boolean inputs are switches, arrays of up to 16 numbers have a slider for each.
    - `show`: outputs by name or number, or arrays of the graph that are outputs; a pair
      `("picture", "heat map")` says what to draw it as: `"number"`, `"line"`, `"heat map"`,
      `"image"` or `"table"`.  None shows all outputs.
    - `browser`: whether to open the page in the browser.

    Gives an `Explorer` with the `address`, `wait()` and `close()`.  A run computes only what a
    control changes; the page shows which steps that were, and what they took.  Other inputs keep
    their values; an input that has none begins in the middle of its range.

    The page is served on the loopback address, to those who know the token in its address, and
    until the process ends.  Raises ValueError for inputs and outputs that there are not.

        angle = tw.var("angle")
        points = np.linspace(0, 6.28, 100)
        program = tw.Graph([angle], {"wave": np.sin(points + angle)}).compile()
        with tw.explore(program, {"angle": (0, 6.28)}, browser=False) as page:
            where = page.address
    """
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("explore", f"{type(program).__name__} is no Program; compile the graph")
    variables = {name: node for node, name in program.graph.names.items()}
    controls, shown = as_controls(sliders, variables), _as_shown(program, show)
    state = program.state
    begin = {c.name: c.middle() for c in controls if c.name not in state}
    missing = [name for name in variables if name not in state and name not in begin]
    if missing:
        raise value_error(
            "explore", f"variables have no value yet and no slider: {list_some(missing)}"
        )
    if begin:
        program.set(begin)
    explorer = Explorer(program, controls, shown)
    if browser:
        webbrowser.open(explorer.address)
    return explorer


def _as_shown(program: Program, show: Iterable[Any] | None) -> list[ShownOutput]:
    """Outputs as a user names them."""
    nodes = program.graph.output_nodes
    numbers = program.graph.unflatten(list(range(len(nodes))))
    named = [(path or "output", cast("int", k)) for path, k in leaf_paths(numbers)]
    outputs = {name: nodes[k] for name, k in named}
    if show is None:
        return [_shown_output(name, node, None) for name, node in outputs.items()]
    if isinstance(show, (str, Array)):
        raise type_error("explore", "show is one output; give a list of them")
    return [_one_shown(one, outputs) for one in show]


def _one_shown(one: Any, outputs: Mapping[str, Node]) -> ShownOutput:
    kind: str | None = None
    if isinstance(one, tuple):
        pair = list(cast("Iterable[Any]", one))
        if len(pair) != 2 or not isinstance(pair[1], str):
            raise value_error("explore", f"show has {one!r}; accepted: (output, picture)")
        one, kind = pair
    if isinstance(one, Array):
        found = [name for name, node in outputs.items() if node is one.node]
        if not found:
            raise value_error("explore", f"{one.node!r} is no output of the graph; make it one")
        return _shown_output(found[0], one.node, kind)
    name = str(one)
    if name not in outputs:
        raise value_error(
            "explore", f"no output is called {one!r}; accepted: {list_accepted([*outputs], one)}"
        )
    return _shown_output(name, outputs[name], kind)


def _shown_output(name: str, node: Node, kind: str | None) -> ShownOutput:
    if kind is None:
        return ShownOutput(name, node, kind_of(node.shape, node.dtype))
    if kind not in KINDS:
        raise value_error(
            "explore", f"{name!r} is to be {kind!r}; accepted: {', '.join(map(repr, KINDS))}"
        )
    if not suits(kind, node.shape):
        raise value_error("explore", f"{name!r} has shape {node.shape}, which is no {kind}")
    return ShownOutput(name, node, cast("Kind", kind))
