"""A picture of a plan: blocks of memory over time."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from tawny.errors import type_error

if TYPE_CHECKING:
    from tawny.graph.plan import Block, Plan

_COLOURS: Final = {"kept": "#8a8a8a", "scratch": "#d8a03a"}
_PALETTE: Final = (
    "#4878a8", "#6aa66a", "#b0605a", "#8a6ab0", "#5aa0a8", "#c08a50", "#7890c0", "#90a850",
)  # fmt: skip
_LABELLED: Final = 0.03
"""Blocks of at least this share of the peak get a label."""
_AGAIN: Final = "///"
"""How blocks are hatched that hold what is computed again."""
_MANY_BLOCKS: Final = 150
"""The number of blocks above which the edges between them are thin."""


def draw(plan: Plan, ax: Any = None) -> Any:
    """Draw `plan` on matplotlib axes (new ones if none are given) and give them back."""
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise ImportError("plan.plot needs matplotlib: pip install 'tawny[plot]'") from None
    if isinstance(ax, (str, os.PathLike)):
        raise type_error(
            "plot",
            f"ax is {ax!r}; accepted: axes of matplotlib; to write a file: "
            f"plan.plot().figure.savefig({os.fspath(ax)!r})",
        )
    if ax is None:
        _, ax = pyplot.subplots(figsize=(9, 5), layout="constrained")
    unit, name = _unit(plan.peak_bytes)
    steps = max(1, len(plan.steps))
    again = frozenset(step.position for step in plan.steps if step.again)
    _draw_blocks(plan, ax, unit, again)
    points = plan.timeline()
    xs = [m.position - 0.5 for m in points] + [steps - 0.5]
    live = [m.live_bytes / unit for m in points]
    ax.step(xs, [*live, live[-1] if live else 0], where="post", color="black", lw=1.2, label="live")
    ax.axhline(plan.peak_bytes / unit, color="black", ls="--", lw=0.8, label="peak")
    ax.set_xlim(-0.5, steps - 0.5)
    ax.set_ylim(0, max(1, plan.peak_bytes) * 1.05 / unit)
    ax.set_xlabel("step")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel(f"memory [{name}]")
    ax.set_title(str(plan).splitlines()[0], fontsize=10)
    _draw_legend(plan, ax, has_repeated=bool(again))
    return ax


def _draw_blocks(plan: Plan, ax: Any, unit: int, again: Collection[int]) -> None:
    """A bar for each block; those of the steps `again`, which run once more, are hatched."""
    edge = 0.8 if len(plan.blocks) <= _MANY_BLOCKS else 0.1
    for index, block in enumerate(plan.blocks):
        colour = _COLOURS.get(block.kind, _PALETTE[index % len(_PALETTE)])
        hatch = _AGAIN if block.first in again and block.kind != "scratch" else None
        ax.broken_barh(
            [(block.first - 0.5, block.last - block.first + 1)],
            (block.offset / unit, block.bytes / unit),
            facecolor=colour,
            edgecolor="white",
            lw=edge,
            hatch=hatch,
        )
        _label(ax, block, colour, unit, plan.peak_bytes, max(1, len(plan.steps)))


def _draw_legend(plan: Plan, ax: Any, *, has_repeated: bool) -> None:
    """The meaning of lines, colours and hatches, below the axes."""
    patches: Any = importlib.import_module("matplotlib.patches")
    kinds = [kind for kind in _COLOURS if any(block.kind == kind for block in plan.blocks)]
    handles = [
        *ax.get_legend_handles_labels()[0],
        *(patches.Patch(color=_COLOURS[kind], label=kind) for kind in kinds),
    ]
    if has_repeated:
        mark = {"facecolor": "#bbbbbb", "edgecolor": "white", "hatch": _AGAIN}
        handles.append(patches.Patch(**mark, label="computed again"))
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1), "ncols": len(handles)}
    ax.legend(handles=handles, fontsize=8, frameon=False, **below)


def _label(ax: Any, block: Block, colour: str, unit: int, peak: int, steps: int) -> None:
    """Write into a block whose it is, with the source line if there is room for it."""
    width = block.last - block.first + 1
    if block.bytes < _LABELLED * peak or width < 0.04 * steps:
        return
    names = [a.node.name for a in block.arrays] or [block.kind]
    text = " > ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    sources = block.arrays[0].node.sources if block.arrays else ()
    room = max(3, int(90 * width / steps))
    if sources and len(longer := f"{text}  [{sources[0]}]") <= room:
        text = longer
    ax.text(
        block.first - 0.5 + width / 2,
        (block.offset + block.bytes / 2) / unit,
        text if len(text) <= room else text[: room - 1] + "\u2026",
        ha="center",
        va="center",
        fontsize=7,
        color="white",
        bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.5},
        zorder=5,
    )


def _unit(count: int) -> tuple[int, str]:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return unit, name
    return 1, "bytes"
