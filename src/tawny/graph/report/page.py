"""One page of HTML that shows a graph, its memory and its rewrites; it needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import tempfile
import webbrowser
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tawny.array import array_for
from tawny.graph.report.drawn_graph import DrawnGraph, Texts, node_bytes
from tawny.graph.report.rewrite_data import Drawings, rewrite_data
from tawny.graph.report.time_data import time_data
from tawny.graph.report.trace import roles
from tawny.node import Node, Part
from tawny.ops.bands import Bands

if TYPE_CHECKING:
    from tawny.graph.compilation import Compilation
    from tawny.graph.graph import Graph
    from tawny.graph.plan import Plan
    from tawny.graph.profile.profile import Profile

MAX_FRAME_NODES: Final = 5_000
"""Nodes of the largest graph that a notebook shows by itself."""

WHY_LOOKS: Final = 4_000_000
"""Pairs of values that are compared to say why values lie where they do."""


def show(page: str, path: str | os.PathLike[str] | None) -> Path:
    """Write a page, and open it in the browser if no path is given; gives its path."""
    if path is None:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="tawny-", suffix=".html", delete=False
        ) as file:
            file.write(page)
        target = Path(file.name)
        webbrowser.open(target.as_uri())
        return target
    target = Path(path)
    target.write_text(page, encoding="utf-8")
    return target


def fits_frame(nodes: int) -> bool:
    """Whether a notebook shows a graph of as many nodes by itself."""
    return nodes <= MAX_FRAME_NODES


def frame(page: str) -> str:
    """The page inside another, as a notebook's: neither reaches the other."""
    return (
        '<iframe sandbox="allow-scripts" style="width:100%;height:560px;border:1px solid #8888" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


def page(
    graph: Graph | None = None,
    plan: Plan | None = None,
    compiled: Compilation | None = None,
    *,
    other: Plan | None = None,
    executed: frozenset[Node] | None = None,
) -> str:
    """The page of a graph, of a plan, or of both and what the optimiser did.

    `compiled` is what the graph was compiled to, `other` a plan to show beside, `executed` what the
    last run computed.
    """
    data = page_data(graph, plan, compiled, other=other, executed=executed)
    if graph is None:
        data["first"] = "memory"
    return _fill_page(data)


def profile_page(profile: Profile) -> str:
    """The page of a program that was measured."""
    return _fill_page(profile_data(profile))


def profile_data(profile: Profile) -> dict[str, Any]:
    """What the page of a program shows that was measured, as plain data."""
    program = profile.program
    compiled = program._compiled  # pyright: ignore[reportPrivateUsage]
    data = page_data(program.graph, program.plan, compiled, profile=profile)
    return data | {"first": "time", "format": PROFILE_FORMAT}


def saved_page(path: Path) -> str | None:
    """The page of a profile in a file; None where the file is something else."""
    with path.open("rb") as file:
        if file.read(1) != b"{":
            return None
    try:
        data = json.loads(path.read_text("utf-8"))
    except ValueError:
        return None
    known = isinstance(data, dict) and cast("dict[str, Any]", data).get("format") == PROFILE_FORMAT
    return _fill_page(cast("dict[str, Any]", data)) if known else None


PROFILE_FORMAT: Final = "tawny profile 1"
"""What files of profiles say they are."""


def _fill_page(data: Mapping[str, Any]) -> str:
    """The page of the viewer with its data."""
    return fill_page(WEB, SCRIPTS, data)


def fill_page(folder: Path, scripts: Sequence[str], data: Mapping[str, Any]) -> str:
    """A page with its script, its style and its data, of which none is executed."""
    script, style = "".join([_file(folder / s) for s in scripts]), _file(folder / "page.css")
    return (
        _file(folder / "page.html")
        .replace("{{script-hash}}", _digest(script))
        .replace("{{style-hash}}", _digest(style))
        .replace("{{style}}", style)
        .replace("{{script}}", script)
        .replace("{{data}}", escape_json(json.dumps(data, separators=(",", ":"))))
    )


def escape_json(text: str) -> str:
    """JSON as it may stand in HTML and in scripts: with no character that means anything there."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


SCRIPTS: Final = (
    *("base.js", "placement.js", "routes.js", "drawing.js", "memory.js", "time.js", "state.js"),
    *("graph.js", "rewrites.js", "panel.js", "events.js"),
)
"""The parts of the page's script, in their order."""


WEB: Final = Path(__file__).parent / "web"
"""Where the parts of the page lie."""


@lru_cache
def _file(path: Path) -> str:
    return path.read_text("utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# ------------------------------------------------------------------------ data


def page_data(
    graph: Graph | None,
    plan: Plan | None = None,
    compiled: Compilation | None = None,
    *,
    other: Plan | None = None,
    profile: Profile | None = None,
    executed: frozenset[Node] | None = None,
) -> dict[str, Any]:
    """What a page shows, as plain data."""
    texts = Texts()
    names = {} if graph is None else roles(graph)
    results = graph.results if graph is not None else () if plan is None else plan.user_results
    state = [] if graph is None else [target for target, _ in graph.update_nodes]

    def draw(given: tuple[Node, ...]) -> DrawnGraph:
        own = {g: names[w] for w, g in zip(results, given, strict=False) if w in names}
        return DrawnGraph(given, own, texts, state)

    drawings = Drawings(draw)
    written = DrawnGraph(results, names, texts, state)
    drawings.append("as written", tuple(results), written)
    data: dict[str, Any] = {"title": (graph.name if graph is not None else None) or "graph"}
    if plan is not None:
        run = draw(plan.lowered.results)
        drawings.append("as run", plan.lowered.results, run)
        data["memories"] = [_memory(plan, run, texts)]
        data["twins"] = _twins(plan, written, run)
        if profile is not None:
            steps = [step.array.node for step in plan.steps]
            data["time"] = time_data(profile, steps, run.number)
        if executed is not None:
            data["last"] = _last_run(plan, run, executed)
        if other is not None:
            beside = DrawnGraph(other.lowered.results, {}, texts)
            drawings.append("as run by the other plan", (), beside)
            data["memories"].append(_memory(other, beside, texts))
            data["others"] = [
                run.number.get(one.node, -1) if one.owner < 0 else -1 for one in beside.drawn
            ]
            data["diff"] = plan.diff(other).splitlines()
        if compiled is not None:
            final, passes = plan.lowered.results, compiled.passes()
            data["rewrites"] = rewrite_data(compiled.rewrites, passes, texts, drawings, final)
            data["links"] = [
                _links(drawn, written, run) for _, drawn in drawings.graphs[len(PERMANENT) :]
            ]
    data["graphs"] = [drawn.data(label) for label, drawn in drawings.graphs]
    data["texts"] = list(texts.numbers)
    data["lines"] = texts.lines
    return data


PERMANENT: Final = ("as written", "as run")
"""The first drawings, where there is a plan; those between passes come behind them."""


def _links(drawn: DrawnGraph, written: DrawnGraph, run: DrawnGraph) -> list[list[int]]:
    """For each node of a drawing the same node as it was written, and as it is run; -1 for none."""
    return [
        [side.number.get(one.node, -1) if one.owner < 0 else -1 for one in drawn.drawn]
        for side in (written, run)
    ]


# ---------------------------------------------------------------------- memory


def _memory(plan: Plan, run: DrawnGraph, texts: Texts) -> dict[str, Any]:
    made: dict[Node, list[int]] = defaultdict(list)
    for step in plan.steps:
        made[step.array.node].append(step.position)
    blocks: list[Any] = []
    for block in plan.blocks:
        tenants: list[tuple[int, int]] = []
        for array in block.arrays:
            node = array.node
            maker = node.inputs[0] if node not in made and isinstance(node.op, Part) else node
            inside = [p for p in made.get(maker, ()) if block.first <= p <= block.last]
            later = [p for p in inside if not tenants or p >= tenants[-1][1]]
            tenants.append((run.number.get(node, -1), (later or inside or [block.first])[0]))
        blocks.append([block.offset, block.bytes, block.first, block.last, block.kind, tenants])
    bands = [step.position for step in plan.steps if isinstance(step.array.node.op, Bands)]
    budget = "" if plan.budget is None else f" within {plan.budget:,} bytes"
    return {
        "label": texts.number(f"{plan.engine}{budget}: {plan.peak_bytes:,} bytes"),
        "bands": bands,
        "peak": plan.peak_bytes,
        "bound": plan.lower_bound_bytes,
        "unshared": plan.unshared_bytes,
        "budget": plan.budget,
        "live": [point.live_bytes for point in plan.timeline()],
        "steps": [run.number[step.array.node] for step in plan.steps],
        "over": [step.position for step in plan.steps if step.over is not None],
        "again": [step.position for step in plan.steps if step.again],
        "blocks": blocks,
        "why": _reasons(plan, run, texts),
    }


def _last_run(plan: Plan, run: DrawnGraph, executed: frozenset[Node]) -> dict[str, Any]:
    """What the last run computed."""
    steps = set(plan.lowered.steps)
    return {
        "executed": [number for node, number in run.number.items() if node in executed],
        "text": f"{len(steps & executed)} of {len(steps)} steps were computed, the others reused",
    }


def _reasons(plan: Plan, run: DrawnGraph, texts: Texts) -> dict[int, int]:
    """Why values lie where they do: of the largest, since each is compared with all others."""
    most = max(1, WHY_LOOKS // max(1, len(plan.blocks)))
    nodes = dict.fromkeys(array.node for block in plan.blocks for array in block.arrays)
    largest = sorted(nodes, key=node_bytes, reverse=True)[:most]
    return {run.number[n]: texts.number(plan.why(array_for(n))) for n in largest if n in run.number}


def _twins(plan: Plan, written: DrawnGraph, run: DrawnGraph) -> list[int]:
    """For each node as written the node that is run: itself, what it is inside as `~k`, or none."""
    out: list[int] = []
    for one in written.drawn:
        outermost = one
        while outermost.owner >= 0:
            outermost = written.drawn[outermost.owner]
        found = plan.program_nodes.find(outermost.node)
        number = None if found is None else run.number.get(found[0])
        if number is None:
            out.append(NO_TWIN)
        else:
            is_inside = one.owner >= 0 or (found is not None and found[1])
            out.append(~number if is_inside else number)
    return out


NO_TWIN: Final = 1 << 30
"""Stands for the twin of a node that has none."""
