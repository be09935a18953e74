"""Plans as text: the table of the steps, and what differs between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tawny.array import Array
from tawny.engine.lowering import result_of
from tawny.engine.protocol import engine_named
from tawny.errors import list_some
from tawny.lazy import LazyModule
from tawny.node import Node
from tawny.source import describe

if TYPE_CHECKING:
    import html

    from tawny.graph.plan import Plan, PlannedStep
else:
    html = LazyModule("html")

_MAX_TABLE_STEPS: Final = 60
"""Steps shown in a table."""

_MAX_PLACES: Final = 3
"""Places of the user's program named in a line of a table."""


def table(plan: Plan) -> str:
    """The steps of a plan, one a line, with the totals above and how the engine runs them below."""
    lines = [
        f"peak {size_text(plan.peak_bytes)} in {len(plan.blocks)} blocks, "
        f"lower bound {size_text(plan.lower_bound_bytes)}, "
        f"unshared {size_text(plan.unshared_bytes)}; "
        f"{size_text(plan.resident_bytes)} of variables and constants beside it",
        f"{'step':>4}  {'bytes':>12}  {'at':>12}  what",
    ]
    places = _StepPlaces(plan)
    for step in _table_steps(plan):
        over = f", in place of {_name(step.over)}" if step.over is not None else ""
        again = ", again" if step.again else ""
        lines.append(
            f"{step.position:>4}  {step.bytes:>12,}  {places.of(step):>12}  "
            f"{_name(step.array)}{over}{again}"
        )
    if hidden := _hidden_count(plan):
        lines.append(f"      ... and {hidden} more steps")
    lines.extend(plan.notes)
    lines.append(engine_named(plan.engine).describe(plan.lowered.steps, plan.threads))
    if plan.adapted:
        lines.append(
            f"chosen for {plan.threads} threads: with their scratch memory the steps and bands "
            "chosen for any number of threads do not fit into the budget"
        )
    return "\n".join(lines)


def html_table(plan: Plan) -> str:
    """The table as HTML, for notebooks."""
    head = "".join(f"<th>{h}</th>" for h in ("step", "bytes", "at", "what", "in place of", "again"))
    places = _StepPlaces(plan)
    rows = "".join(
        f"<tr><td>{s.position}</td><td>{s.bytes:,}</td><td>{html.escape(places.of(s))}</td>"
        f"<td>{html.escape(_name(s.array))}</td>"
        f"<td>{html.escape(_name(s.over)) if s.over is not None else ''}</td>"
        f"<td>{'again' if s.again else ''}</td></tr>"
        for s in _table_steps(plan)
    )
    title, hidden = html.escape(table(plan).splitlines()[0]), _hidden_count(plan)
    more = f"<p>... and {hidden} more steps</p>" if hidden else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f"<p>{title}</p><table>{body}</table>{more}"


def _table_steps(plan: Plan) -> tuple[PlannedStep, ...]:
    """The steps that a table shows."""
    steps = plan.steps
    return steps if len(steps) <= _MAX_TABLE_STEPS else steps[: _MAX_TABLE_STEPS // 2]


def _hidden_count(plan: Plan) -> int:
    """The number of steps that a table leaves out."""
    return len(plan.steps) - len(_table_steps(plan))


class _StepPlaces:
    """The places of the results of steps: in the arena, or in the variables that they update."""

    def __init__(self, plan: Plan) -> None:
        self._variables: dict[Node, list[str]] = {}
        for source, variable in plan.in_place_updates.items():
            step, _ = result_of(source)
            self._variables.setdefault(step, []).append(plan.program_nodes.title(variable))

    def of(self, step: PlannedStep) -> str:
        """The places of a step's results, in words."""
        names = self._variables.get(step.array.node, [])
        arena = [f"{step.offset:,}"] if step.bytes or not names else []
        return ", ".join(arena + ([f"in {', '.join(names)}"] if names else []))


# --------------------------------------------------------------------- differences


def difference(plan: Plan, other: Plan) -> str:
    """What differs between two plans, a line for each thing."""
    lines = [
        f"{what}: {size_text(mine)} here, {size_text(theirs)} there ({theirs - mine:+,} bytes)"
        for what, mine, theirs in (
            ("peak", plan.peak_bytes, other.peak_bytes),
            ("lower bound", plan.lower_bound_bytes, other.lower_bound_bytes),
            ("unshared", plan.unshared_bytes, other.unshared_bytes),
            ("variables and constants", plan.resident_bytes, other.resident_bytes),
        )
        if mine != theirs
    ]
    lines += [
        f"{what}: {mine} here, {theirs} there"
        for what, mine, theirs in zip(
            ("steps in place", "steps computed again"), _counts(plan), _counts(other), strict=True
        )
        if mine != theirs
    ]
    here, there = ([s.array.node for s in p.steps] for p in (plan, other))
    for what, mine, theirs in (("kept", plan.kept, other.kept), ("steps", here, there)):
        for place, one, rest in (("here", mine, theirs), ("there", theirs, mine)):
            only = [n for n in dict.fromkeys(one) if n not in set(rest)]
            if only:
                lines.append(f"{what} only {place}: {list_some([*map(repr, only)])}")
    if here != there and set(here) == set(there):
        lines.append("the same steps in another order, or computed again")
    places = [{s.array.node: s.offset for s in p.steps} for p in (plan, other)]
    moved = [n for n, offset in places[0].items() if places[1].get(n, offset) != offset]
    if moved:
        lines.append(f"elsewhere in memory: {list_some([*map(repr, moved)])}")
    return "\n".join(lines) or "no difference"


def _counts(plan: Plan) -> tuple[int, int]:
    """How many steps are in place, and how many compute something again."""
    return sum(s.over is not None for s in plan.steps), sum(s.again for s in plan.steps)


# --------------------------------------------------------------------------- words


def _name(array: Array) -> str:
    """An array by its op, type and place in the user's program."""
    node = array.node
    more = ", ..." if len(node.sources) > _MAX_PLACES else ""
    where = f" [{describe(node.sources[:_MAX_PLACES])}{more}]" if node.sources else ""
    return f"{node.name} {node.dtype}{list(node.shape)}{where}"


def size_text(count: int) -> str:
    """A number of bytes in the largest unit that it has one of."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"
