"""Profiles: steps timed on every engine, what is predicted, and that nothing else changes."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from engines import ENGINES
from program_checks import check_against_fresh_evaluation, check_steps, programs
from tawny import cli, nn, optim
from tawny.engine.cpu import meter
from tawny.engine.protocol import UPDATE
from tawny.graph.bands import search
from tawny.graph.profile import roof
from tawny.graph.profile.recording import record
from tawny.graph.profile.roof import Bandwidth, Roof
from tawny.graph.profile.work import work_of
from tawny.graph.report import page as pages
from tawny.ops.bands import Bands

pytestmark = pytest.mark.filterwarnings("ignore:Graph. input")


ROOF = Roof("cpu", 1, 1e11, 5e10, 1e10, 5e9, (Bandwidth(2**17, 4e11), Bandwidth(2**26, 1e10)), 1e-7)


@pytest.fixture(autouse=True)
def known_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The roof is what it is, without being measured for seconds."""
    for engine in ENGINES:
        for threads in range(1, 5):
            monkeypatch.setitem(roof._KNOWN, (engine, threads), ROOF)


def sample(engine: str = "cpu", **options: Any) -> tw.Program:
    x, w = tw.var("x", (300, 300), "float32"), tw.var("w", (300, 300), "float32")
    with tw.scope("layer"):
        y = tnp.tanh(x @ w)
    total = tnp.sum(tnp.exp(y), axis=1)
    graph = tw.Graph([x, w], [tnp.cumsum(total)], updates={w: w * 0.5 + x}, name="sample")
    program = graph.compile(engine=engine, **options)
    draw = np.random.default_rng(0)
    program.set(x=draw.random(x.shape, np.float32), w=draw.random(w.shape, np.float32))
    return program


# ------------------------------------------------------------------ the rows


def test_every_step_has_a_row(engine: str) -> None:
    program = sample(engine)
    profile = program.profile(3)
    steps = [row for row in profile.rows if row.position != UPDATE]
    assert [row.position for row in steps] == [step.position for step in program.plan.steps]
    for row, step in zip(steps, program.plan.steps, strict=True):
        assert row.name == step.array.node.name
        assert str(row.type).startswith("float32")
        assert row.seconds > 0
        assert row.predicted_seconds > 0
        assert 0 < row.roof <= 99
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert profile.seconds <= profile.measured_run_seconds * (1 + 1e-9)
    assert any(row.scope == "layer" for row in steps)
    assert all("test_profile.py" in row.line for row in steps)
    products = [row for row in steps if "matmul" in row.op or "product" in row.op]
    assert products[0].operations >= 2 * 300**3


def test_rows_are_plain_data() -> None:
    for row in sample().profile(1).rows:
        assert all(type(value) in (str, int, float) for value in row)
        json.dumps(row._asdict())


def test_totals_by_what_steps_have_in_common() -> None:
    profile = sample().profile(2)
    for key in ("op", "scope", "line", "name", "bound"):
        totals = profile.by(key)
        assert sum(totals.values()) == pytest.approx(profile.seconds)
        assert list(totals.values()) == sorted(totals.values(), reverse=True)
    with pytest.raises(ValueError, match="accepted: 'op'"):
        profile.by("colour")  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_table_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    x = tw.var("x_with_a_name_that_goes_on_and_on", (30, 30))
    with tw.scope("a_scope_whose_name_is_very_long_indeed.and_another_one_inside"):
        graph = tw.Graph([x], tnp.cumsum(tnp.exp(x) @ x, axis=1))
    program = graph.compile()
    program.set({x: np.ones((30, 30))})
    for text in (str(program.profile(1)), str(graph.estimate())):
        long = [line for line in text.splitlines() if len(line) > max(width, 90)]
        assert not long


# ---------------------------------------------------------- nothing else changes


def state_of(program: tw.Program) -> dict[str, Any]:
    return {n: v.tobytes() for n, v in program.state.items()} | {"draw": program.draw}


def test_a_program_stays_as_it_was(engine: str) -> None:
    program = sample(engine)
    first = program.run()
    before, run = state_of(program), program.last_run
    program.profile(3)
    assert state_of(program) == before
    assert program.last_run is run
    assert program.run(0)[0].tobytes() == first[0].tobytes()
    twin = sample(engine)
    twin.run()
    assert program.run()[0].tobytes() == twin.run()[0].tobytes()


def test_random_numbers_go_on_where_they_were(engine: str) -> None:
    x = tw.var("x", (4,))
    graph = tw.Graph([x], x + tw.random.uniform(shape=(4,)))
    program, twin = graph.compile(engine=engine), graph.compile(engine=engine)
    with tw.random.local_seed(3):
        assert program(np.zeros(4)).tobytes() == twin(np.zeros(4)).tobytes()
        program.profile(2)
        assert program().tobytes() == twin().tobytes()


def test_bound_arrays_are_not_written() -> None:
    program = sample()
    weights = np.ones((300, 300), np.float32)
    program.set(w=weights, bind=True)
    program.profile(2)
    assert (weights == 1).all()


@settings(max_examples=25, deadline=None)
@given(programs(), st.data())
def test_measured_runs_compute_the_same(engine, program, data) -> None:
    with record():
        check_against_fresh_evaluation(engine, program, data)


@settings(max_examples=15, deadline=None)
@given(programs(), st.data())
def test_measured_runs_go_on_as_others(engine, program, data) -> None:
    with record():
        check_steps(engine, program, data)


@pytest.mark.parametrize("has_counter", [True, False])
def test_kernels_that_fail_are_timed_too(
    has_counter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_counter:
        monkeypatch.setattr(meter, "processor_counter", lambda: None)
    x, at = tw.var("x", (8,)), tw.var("at", (3,), "int64")
    graph = tw.Graph([x, at], tnp.sum(tnp.take(tnp.exp(x), at) * 2))
    with record() as recording:
        program = graph.compile()
        assert program(np.zeros(8), np.array([0, -1, 7])) == 6
        with pytest.raises(IndexError):
            program(at=np.array([0, 9, 7]))
        assert program(at=np.array([0, 1, 7])) == 6
    (profile,) = recording.profiles
    assert profile.runs == 2
    assert all(row.seconds > 0 for row in profile.rows)
    assert program(at=np.array([0, 1, 2])) == 6


def test_python_steps_are_timed(engine: str) -> None:
    calls: list[float] = []

    def twice(value: Any) -> Any:
        calls.append(float(value[0]))
        return value * 2

    x = tw.var("x", (50,))
    graph = tw.Graph([x], tnp.sum(tw.delay(twice, tnp.cumsum(x), shape=(50,), dtype="float64")))
    program = graph.compile(engine=engine)
    program.set(x=np.ones(50))
    profile = program.profile(2)
    assert len(calls) >= 4
    assert all(row.seconds > 0 for row in profile.rows)


def test_bands_and_threads_have_their_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawny.graph.relief.MIN_ARENA", 0)
    monkeypatch.setattr("tawny.graph.relief.WORTHWHILE_SHARE", 1.0)
    for name, value in {"BAND_BYTES": 1, "BAND_SHARE": 0.0, "MAX_SLOWDOWN": 1e9}.items():
        monkeypatch.setattr(search, name, value)
    x = tw.var("x", (1, 64, 64, 8), "float32")
    y = x
    for _ in range(3):
        y = tnp.maximum(tnp.conv2d(y, np.full((3, 3, 8, 8), 0.1, np.float32), padding="SAME"), 0)
    graph = tw.Graph([x], tnp.sum(y))
    program = graph.compile(threads=3, incremental=False)
    assert any(isinstance(step.array.node.op, Bands) for step in program.plan.steps)
    program.set(x=np.ones(x.shape, np.float32))
    profile = program.profile(2)
    positions = {row.position for row in profile.rows}
    assert {span.position for span in profile.spans} <= positions | {UPDATE}
    lanes: dict[int, list[Any]] = {}
    for span in profile.spans:
        assert 0 <= span.start <= span.stop <= profile.measured_run_seconds * 10
        lanes.setdefault(span.lane, []).append(span)
    for spans in lanes.values():  # a thread does one thing at a time
        spans.sort(key=lambda span: span.start)
        for one, other in pairwise(spans):
            assert one.stop <= other.start + 1e-9
    assert len(lanes) <= 3


# -------------------------------------------------------------------- refusals


def test_refusals() -> None:
    program = sample()
    with pytest.raises(ValueError, match="runs is 0"):
        program.profile(0)
    with pytest.raises(TypeError, match="runs"):
        program.profile("many")  # type: ignore[arg-type]
    x = tw.var("x", (3,))
    with pytest.raises(ValueError, match="no value yet: 'x'"):
        tw.Graph([x], tnp.exp(x)).compile().profile()


# ------------------------------------------------------------------- estimates


def test_an_estimate_runs_nothing_and_counts_what_steps_do() -> None:
    x = tw.var("x", (100, 200), "float32")
    graph = tw.Graph([x], tnp.exp(x) @ np.ones((200, 50), np.float32), name="g")
    estimate = graph.estimate()
    assert estimate.operations >= 2 * 100 * 200 * 50
    assert estimate.seconds == pytest.approx(sum(row.seconds for row in estimate.rows))
    assert [row.position for row in estimate.rows] == [s.position for s in graph.plan().steps]
    assert str(estimate).startswith("g: predicted ")


def test_the_roof_is_measured_on_every_engine(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "_KNOWN", {})
    monkeypatch.setattr(roof, "PRODUCT", 32)
    monkeypatch.setattr(roof, "WORKING_SETS", (2**10, 2**12))
    monkeypatch.setattr(roof, "MEASURE_SECONDS", 0.001)
    monkeypatch.setattr(roof, "MORE_SECONDS", 0.001)
    with record() as recording:
        found = roof.roof_of(engine, 1)
    assert not recording.profiles
    assert roof.roof_of(engine, 1) is found
    rates = found.flops32, found.flops64, found.functions32, found.functions64
    assert all(1e5 < rate < 1e14 for rate in rates)
    assert 0 < found.step_seconds < 0.1


def test_the_roof_is_the_greater_of_computing_and_moving() -> None:
    x = tw.var("x", (1000, 1000), "float32")
    product, copy = work_of((x @ x).node), work_of((x + 1).node)
    assert product.products == 2 * 1000**3
    assert ROOF.seconds(product) == pytest.approx(2e9 / 1e11)
    assert ROOF.bound(product) == "compute"
    assert copy.bytes == 8_000_004
    assert ROOF.seconds(copy) == pytest.approx(copy.bytes / ROOF.bandwidth(copy.bytes))
    assert ROOF.bound(copy) == "memory"
    assert ROOF.bound(work_of(tnp.cumsum(tw.var("y", (3,))).node)) == "start"
    rates = [ROOF.bandwidth(n) for n in (1, 2**17, 2**20, 2**26, 2**30)]
    assert rates == sorted(rates, reverse=True)
    assert ROOF.bandwidth(2**30) == 1e10


# ---------------------------------------------------------------------- files


def test_a_trace_is_what_perfetto_reads(tmp_path: Path) -> None:
    profile = sample().profile(2)
    assert profile.chrome_trace(tmp_path / "trace.json") == tmp_path / "trace.json"
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    kinds = {event["ph"] for event in events}
    assert kinds == {"M", "X", "C"}
    work = [event for event in events if event["ph"] == "X"]
    assert {event["args"]["step"] for event in work} == {row.position for row in profile.rows}
    for event in work:
        assert {"name", "cat", "pid", "tid", "ts", "dur"} <= set(event)
        assert event["dur"] >= 0
        assert event["ts"] >= 0
    named = [event for event in events if event["name"] == "thread_name"]
    assert {event["tid"] for event in work} <= {event["tid"] for event in named}


def test_the_page_has_the_time(tmp_path: Path) -> None:
    program = sample()
    profile = program.profile(2)
    found = pages.profile_data(profile)
    time = found["time"]
    assert found["first"] == "time"
    run = found["graphs"][1]
    for shown, row in zip(time["rows"], profile.rows, strict=True):
        assert shown[0] == row.position
        if row.position >= 0:
            assert found["texts"][run["name"][shown[1]]] == row.name
        assert shown[2] == pytest.approx(row.seconds, abs=1e-9)
    assert all(0 <= lane < len(time["lanes"]) for _, lane, _, _ in time["spans"])
    page = profile.show(tmp_path / "page.html").read_text("utf-8")
    profile.save(tmp_path / "profile.json")
    assert pages.saved_page(tmp_path / "profile.json") == page
    program.graph.save(tmp_path / "graph.tawny")
    assert pages.saved_page(tmp_path / "graph.tawny") is None


# ------------------------------------------------------------------ whole runs


def test_a_training_is_profiled() -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(32, 2)
    y = x.sum(axis=1, keepdims=True)

    def train(**options: Any) -> Any:
        model = nn.Linear(2, 1)
        return nn.train(
            *(model, nn.mean_squared, (x, y), optim.SGD(0.1), 3),
            batch=8,
            validation=(x, y),
            seed=1,
            **options,
        )

    plain, profiled = train(), train(profile=True)
    assert plain.profile is None
    assert profiled.batch_loss == plain.batch_loss
    profile = profiled.profile
    assert profile.runs == 12
    assert {"data", "steps", "validation"} <= set(profile.phases)
    assert "training: " in str(profile)
    with pytest.raises(TypeError, match="profile is 'yes'"):
        train(profile="yes")


SCRIPT = """
import sys
import numpy
import tawny as tw
import tawny.numpy as np

x = tw.var("x", (50, 50))
program = tw.Graph([x], np.sum(np.exp(x @ x)), name=sys.argv[1]).compile()
for k in range(5):
    program(numpy.full((50, 50), k / 100))
"""


def test_the_command_profiles_scripts_and_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    trace, saved, page = tmp_path / "t.json", tmp_path / "p.json", tmp_path / "p.html"
    asked = ["--trace", str(trace), "--save", str(saved), "--output", str(page)]
    assert cli.main(["profile", *asked, str(script), "named"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("named: ")
    assert "(5 runs" in said
    assert json.loads(trace.read_text())["traceEvents"]
    assert "time" in json.loads(saved.read_text())
    assert cli.main(["view", str(saved), "--output", str(page)]) == 0
    sample().graph.save(tmp_path / "graph.tawny")
    command = ["profile", "--runs", "2", "--engine", "reference", str(tmp_path / "graph.tawny")]
    assert cli.main(command) == 0
    assert "(2 runs" in capsys.readouterr().out
    assert cli.main(["profile", str(tmp_path / "missing.tawny")]) == 1
    (tmp_path / "empty.py").write_text("")
    assert cli.main(["profile", str(tmp_path / "empty.py")]) == 1
    assert "no program" in capsys.readouterr().err


@pytest.mark.skipif(not os.environ.get("TAWNY_LARGE_TESTS"), reason="by hand: a quiet machine")
def test_measuring_resnet50_costs_little() -> None:
    x = tw.var("x", (1, 224, 224, 3), "float32")
    program = tw.Graph([x], tw.models.ResNet50()(x)).compile()
    program.set(x=np.random.default_rng(0).random(x.shape, np.float32))
    profile = program.profile(30)
    assert profile.overhead is not None
    assert profile.overhead < 0.03
    assert profile.seconds == pytest.approx(profile.run_seconds, rel=0.05)
