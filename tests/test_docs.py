"""The code in README and docs runs, and the generated pages are those the code generates."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if page.name != "tour.md"  # it declares an op: what generates it runs it in another process
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_in_the_page_runs(page: Path) -> None:
    """Blocks of one page share their names; a line `# -> text` must equal the repr of the line's value."""
    names: dict[str, object] = {"__name__": page.stem}
    text = page.read_text()
    if "import sympy" in text:
        pytest.importorskip("sympy")
    for block in BLOCK.finditer(text):
        first = text[: block.start()].count("\n") + 2
        exec(compile("\n" * (first - 1) + block[1], str(page), "exec"), names)
        for number, line in enumerate(block[1].splitlines(), first):
            if "# ->" in line:
                code, _, expected = line.partition("# ->")
                assert repr(eval(code.strip(), names)) == expected.strip(), f"{page.name}:{number}"


def test_generated_pages_are_up_to_date() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "generate.py"))["PAGES"]
    assert pages
    for name, render in pages.items():
        assert (ROOT / "docs" / name).read_text() == render(), (
            f"docs/{name} is old: run `make docs`"
        )


def test_the_demo_runs() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "figure_1.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "sin: x5" in done.stdout
    assert "the same numbers" in done.stdout
