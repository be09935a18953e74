"""Benchmarks beside other libraries: those that cannot live beside us have a process elsewhere."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"
RECIPES = (ROOT / "Makefile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRA = {re.split(r"[<>=]", peer)[0] for peer in PROJECT["optional-dependencies"]["bench"]}
"""What `.[bench]` installs."""


@pytest.fixture
def build() -> Any:
    """The benchmark of building, which compares with a library in another environment."""
    return importlib.import_module("build")


def test_no_peer_of_the_extra_excludes_our_compiler() -> None:
    apart = set(re.findall(r'install --quiet "(\w+)>=', RECIPES))
    assert apart == {"pytensor"}
    assert not EXTRA & {"pytensor", "numba", "torch"}
    assert not any("torch" in needed for needed in PROJECT["dependencies"])


def test_every_peer_is_installed_by_the_recipe() -> None:
    """What a benchmark imports beside the standard library and files of its own or of the tests."""
    ours = {path.stem for folder in (FOLDER, ROOT / "tests") for path in folder.rglob("*.py")}
    ours.add("workloads")
    imported = set[str]()
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported |= {name.partition(".")[0] for name in names}
    peers = imported - ours - sys.stdlib_module_names - {"tawny", "numpy", "scipy", "dask"}
    assert peers == EXTRA | {"pytensor", "torch"}
    assert all(re.search(rf'install .*"{peer}[>=]=', RECIPES) for peer in ("pytensor", "torch"))


@pytest.mark.parametrize(("options", "status"), [([], 0), (["--check"], 1)])
def test_bounds_are_judged_only_when_asked(
    options: list[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow machine, or one with much to do, is told its figures by all of `make bench`."""
    optimise, gradients = map(importlib.import_module, ("optimise", "gradients"))
    row = {"graph": "chain", "nodes": 1, "left": 1, "seconds": 9.0, "per_node": 9.0, "loop": 1.0}
    monkeypatch.setattr(optimise, "measure", lambda make, size: row)
    monkeypatch.setattr(gradients, "build", lambda rounds: ({}, True))
    monkeypatch.setattr(sys, "argv", ["benchmark", *options])
    assert optimise.main() == status
    monkeypatch.setattr(sys, "argv", ["benchmark", "--sections", "build", *options])
    assert gradients.main() == status


def test_a_peer_elsewhere_answers_or_is_missing(
    build: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "PEERS", tmp_path / "python")
    with pytest.raises(ImportError, match="there is no"):
        build.elsewhere("build_pytensor.py")
    monkeypatch.setattr(build, "PEERS", Path(sys.executable))
    with pytest.raises(ImportError, match="cannot be run"):
        build.elsewhere(str(tmp_path / "missing.py"))
    peer = tmp_path / "peer.py"
    peer.write_text(
        "import sys\nprint('ready', flush=True)\nfor _ in sys.stdin: print(0.5, flush=True)"
    )
    assert build.elsewhere(str(peer))() == 0.5


def test_libraries_that_are_not_installed_are_left_out(build: Any) -> None:
    timing = importlib.import_module("timing")
    assert timing.installed(["numpy", "no_such_library", "numpy.fast"]) == ["numpy", "numpy.fast"]
