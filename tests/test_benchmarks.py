"""Benchmarks beside other libraries: those that cannot live beside us have a process elsewhere."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark of building, which compares with a library in another environment."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("build")


def test_no_peer_of_the_extra_excludes_our_compiler() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = {re.split(r"[<>=]", peer)[0] for peer in project["optional-dependencies"]["bench"]}
    apart = set(re.findall(r'install --quiet "(\w+)>=', (ROOT / "Makefile").read_text()))
    assert apart == {"pytensor"}
    assert not extra & {"pytensor", "numba", "torch"}
    assert not any("torch" in needed for needed in project["dependencies"])


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
