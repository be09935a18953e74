"""The suite of workloads: each computes the same in every library that is here, and rows add up."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
from tawny.graph.profile import roof

FOLDER = Path(__file__).parent.parent / "benchmarks"


def smallest() -> list[Any]:
    """The first size of each family, of those that are small."""
    chapters = importlib.import_module("workloads").CHAPTERS
    found = [next(iter(family.workloads())) for chapter in chapters for family in chapter]
    return [one for one in found if one.case.size == "small"]


@pytest.mark.parametrize("one", smallest(), ids=lambda one: one.name)
def test_a_workload_computes_what_numpy_does(one: Any) -> None:
    """By the engine that judges the others, which compiles nothing; NumPy has no derivatives."""
    libraries, suite = (importlib.import_module(n) for n in ("workloads.libraries", "suite"))
    data = one.data()
    graph, state = libraries._tawny_graph(one, data)
    program = graph.compile(engine="reference")
    program.set(state)
    program.set(data)
    found = libraries._leaves(program.run())
    assert all(np.isfinite(x).all() for x in found)
    family = one.family
    try:
        ready = libraries.numpy(one)
    except libraries.LeftOutError:
        if "conv" in family.parts["numpy"].__code__.co_names:
            return
        given = one.data() | one.weights()
        names = importlib.import_module("workloads.names").numpy_names()
        expected = [np.asarray(family.parts["numpy"](names, **given))]
    else:
        expected = ready.arrays(ready.run())
    assert suite.difference(found[: len(expected)], expected) <= one.tolerance


def test_there_are_workloads_of_every_kind() -> None:
    suite = importlib.import_module("suite")
    found = suite.chosen(None, ("small", "medium", "large"))
    names = [w.name for w in found]
    assert len(names) == len(set(names)) > 60
    assert {"f32", "f64"} <= {name.rsplit(" ", 1)[1] for name in names}
    for size in ("small", "medium", "large"):
        assert suite.chosen(["science", "finance"], (size,))
    assert any(getattr(w, "family", None) and w.family.trained for w in found)


def test_rows_are_measured_kept_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = roof.Roof("cpu", 2, 1e11, 5e10, 1e9, 5e8, (roof.Bandwidth(2**20, 1e10),), 1e-6)
    monkeypatch.setitem(roof._KNOWN, ("cpu", 2), best)
    suite = importlib.import_module("suite")
    file = tmp_path / "rows.json"
    only = ["one addition, 64", "rotations of points, 3", "Rosenbrock and slopes, 10 "]
    told = ["--only", *only, "--libraries", "numpy", "--rounds", "1", "--json", str(file)]
    assert suite.main(told) == 0
    rows = {row["name"]: row for row in json.loads(file.read_text())}
    assert sorted(row.partition(": ")[2][:3] for row in rows) == ["Ros", "one", "rot"]
    for name, row in rows.items():
        assert row["planned_bytes"] > 0 < row["roof"]
        assert set(row["seconds"]) >= {"tawny", "tawny.jit"}
        assert (suite.ratio(row) is None) == name.startswith("small programs: Ros")
    said = capsys.readouterr().out
    assert "2 workloads: geometric mean" in said
    assert "numpy left out of 1: has no derivatives" in said
    assert suite.main(["--only", "one addition, 64", *told[4:]]) == 0
    assert len(json.loads(file.read_text())) == 3, "rows of other workloads are kept"
    capsys.readouterr()
    assert suite.main(["--table", str(file)]) == 0
    assert capsys.readouterr().out.count("small programs") == 3


def test_a_table_has_the_worst_first() -> None:
    suite = importlib.import_module("suite")

    def row(name: str, ours: float, **peers: float) -> dict[str, Any]:
        seconds = {"tawny": ours, "tawny.jit": 2 * ours, **peers}
        built = dict.fromkeys(seconds, 0.1)
        return {"name": name, "seconds": seconds, "build_seconds": built, "absent": {}}

    rows = [row("a", 1.0, jax=4.0, torch=2.0), row("b", 2.0, numpy=1.0), row("c", 1.0)]
    lines = suite.table(rows).splitlines()
    assert [line[0] for line in lines[1:4]] == ["b", "a", "c"]
    assert lines[-1] == "2 workloads: geometric mean 1.000 (jitted 2.000), 1 above 1.05"


def test_results_that_differ_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = importlib.import_module("suite")
    (one,) = suite.chosen(["one addition, 64"], ("small",))
    wrong = suite.Ready(lambda: np.zeros(64, np.float32), 0.0, lambda x: [x])
    makers = {"tawny": lambda: wrong, "numpy": suite.contenders_of(one)["numpy"]}
    monkeypatch.setattr(suite, "contenders_of", lambda _: makers)
    with pytest.raises(AssertionError, match="tawny differs from numpy by 1"):
        suite.measure(one, ["tawny", "numpy"], 1)


def test_the_time_may_be_limited(capsys: pytest.CaptureFixture) -> None:
    suite = importlib.import_module("suite")
    start = time.perf_counter()
    assert suite.main(["--limit", "0"]) == 0
    assert time.perf_counter() - start < 2
    assert "workloads were not measured" in capsys.readouterr().out


def test_a_library_that_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    suite = importlib.import_module("suite")
    monkeypatch.setattr(suite, "installed", lambda names: [n for n in names if n != "jax"])
    suite.main(["--libraries", "jax", "numpy", "--limit", "0"])
    assert "not installed, left out: jax" in capsys.readouterr().out


def test_the_least_time_is_that_of_arithmetic_or_of_what_goes_in_and_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best = roof.Roof("cpu", 2, 1e11, 5e10, 1e9, 5e8, (roof.Bandwidth(2**20, 1e10),), 1e-6)
    monkeypatch.setitem(roof._KNOWN, ("cpu", 2), best)
    libraries = importlib.import_module("workloads.libraries")
    value = np.zeros((128, 128), "float32")
    x = tw.var("x", value.shape, "float32")
    for result, least in ((x @ x, 2 * 128**3 / 1e11), (x * 2 - 1, 2 * value.nbytes / 1e10)):
        program = tw.Graph([x], result).compile(threads=2)
        program.set(x=value)
        assert libraries.program_roof(program, [value]) == pytest.approx(least, rel=0.01)
