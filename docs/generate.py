"""Write the pages that the code knows better than we do: `make docs`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE))

import tawny.engine.evaluation  # noqa: E402, F401  (fills the registry)
from owl_operations import OPERATIONS  # noqa: E402
from reference import reference  # noqa: E402
from tawny.op import ELEMENTWISE, FACTS, Facts, Gradient, Trait  # noqa: E402


def table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = list(heading)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


def owl() -> str:
    """Owl's operations and their counterparts."""
    rows = ((f"`{name}`", f"`{OPERATIONS[name]}`") for name in sorted(OPERATIONS))
    return (
        "# Owl's operations\n\n"
        f"Each of the {len(OPERATIONS)} constructors of Owl's type `op`, and what one writes in Tawny. `np` is `tawny.numpy`\n"
        "(or `tawny.eager`), `tw` is `tawny`; `x`, `y` are matrices, `s`, `t` numbers. Array-scalar twins\n"
        "collapse into broadcasting. The test-suite runs every line.\n\n"
        + table(("Owl", "Tawny"), rows)
    )


def gradient(facts: Facts) -> str:
    """The gradient of an op in words."""
    return facts.gradient.value if isinstance(facts.gradient, Gradient) else "declared"


def traits(facts: Facts) -> str:
    """Traits and identity element in words."""
    words = ["view"] if facts.view else []
    words += [t.name.lower() for t in Trait if t in facts.traits and t.name]
    if facts.identity is not None:
        words.append(f"identity {facts.identity}")
    return ", ".join(words)


def operations() -> str:
    """Every declaration."""
    parts = [
        "# Every operation\n\n"
        f"The {len(FACTS)} declarations of the op table, {len(ELEMENTWISE)} of them elementwise. The oracle is the\n"
        "independent function the reference engine is judged by.\n"
    ]
    for chapter in sorted({f.chapter for f in FACTS.values()}):
        rows = (
            (
                f"`{f.name}`",
                f.doc.splitlines()[0],
                f.dtype.says,
                f.overwrites.value,
                traits(f),
                gradient(f),
                f.oracle,
            )
            for f in FACTS.values()
            if f.chapter == chapter
        )
        heading = ("op", "what", "result dtype", "may overwrite", "traits", "gradient", "oracle")
        parts.append(f"\n## {chapter.capitalize()}\n\n" + table(heading, rows))
    return "".join(parts)


def tour() -> str:
    """The tour, with what its code prints."""
    command = [sys.executable, HERE / "outputs.py", HERE / "tour.md"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


PAGES: Final[dict[str, Callable[[], str]]] = {
    "owl.md": owl,
    "operations.md": operations,
    "reference.md": reference,
    "tour.md": tour,
}


if __name__ == "__main__":
    for page, render in PAGES.items():
        (HERE / page).write_text(render())
        print(f"docs/{page}")
