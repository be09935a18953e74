"""The command that measures the report's table."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from engines import DEVICE, needs_device
from tawny import cli, models
from tawny.bench import WORKLOADS, BenchRow, child, command, measure, rows, workloads
from tawny.bench.picture import series
from tawny.bench.rows import format_table
from tawny.bench.workloads import PreparedWorkload

ROWS = [
    BenchRow(
        name,
        0.4,
        0.1,
        0.1,
        80_000_000,
        160_000_000,
        20_000_000,
        19_990_000,
        3 * 10**8,
        2 * 10**8,
        5,
        0.7,
    )
    for name in WORKLOADS
]


@pytest.fixture(scope="module")
def training() -> BenchRow:
    (row,) = measure(["MNIST training"], lambda _: None, seconds=0.2)
    return row


def test_the_predicted_peak_is_what_a_process_needs(training: BenchRow) -> None:
    assert abs(training.graph_bytes - training.predicted_bytes) < 0.02 * 35e6 + 4e6
    assert training.graph_bytes < 0.5 * training.eager_bytes < 0.5 * training.held_bytes
    assert training.graph_process_bytes > training.graph_bytes


def test_times_are_those_of_one_step(training: BenchRow) -> None:
    assert 0 < training.eval_s < 5
    assert 0 < training.eager_s < 5
    assert 0 < training.build_s < 20
    assert training.evaluations >= 3


def test_eager_and_graph_compute_the_same() -> None:
    made: PreparedWorkload = workloads._inference(models.ResNet50(width=1 / 8), (1, 64, 64, 3))
    kept: list = []
    program = made.build().compile()
    expected = made.eager(kept)
    np.testing.assert_allclose(program(**made.feeds), expected.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(made.eager(None).numpy(), expected.numpy())
    assert len(kept) > 100
    assert all(a.node.value is not None for a in kept)


@pytest.mark.parametrize("memory", [None, "1 kB", "100 MB"])
def test_a_budget_that_threads_leave_no_room_for_is_given_up_for_the_least(
    memory: str | None,
) -> None:
    made = workloads._inference(models.ResNet50(width=1 / 8), (1, 32, 32, 3), memory)
    met = made.with_feasible_budget()
    program = met.compile()
    assert met.memory == (memory if memory != "1 kB" else program.plan.peak_bytes)
    assert met.with_feasible_budget() is met


def test_it_says_which_build_and_how_many_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    command._print_table(ROWS, 1.0)
    said = " ".join(capsys.readouterr().out.split())
    assert "Mask R-CNN 5" in said
    assert "the first took 0.70, 0.70, 0.70, 0.70 s" in said


def test_the_table_names_every_network_and_the_report() -> None:
    lines = format_table(ROWS).splitlines()
    assert lines[0].split() == ["time", "(s)", "activations", "(MB)", "all"]
    assert lines[0].index("time") == lines[2].index("0.4000") - 1
    assert len(lines[0]) == len(lines[1])
    assert len(lines) == 2 + 2 * len(WORKLOADS)
    for row, line, said in zip(ROWS, lines[2::2], lines[3::2], strict=True):
        assert line.startswith(row.name)
        assert line.split()[-7:] == ["80.0", "160.0", "20.0", "20.0", "0.25", "0.12", "0.67"]
        reported = WORKLOADS[row.name].report
        assert said.split()[2] == f"{reported.eager_s:.4f}"
        assert said.endswith(f"{reported.graph_mb / reported.eager_mb:.2f}")


REPORT = {
    "InceptionV3": (0.5649, 0.1066, 0.2275, 625.76, 230.10, 0.40, 0.37),
    "ResNet50": (0.7933, 0.1395, 0.6090, 1309.9, 397.07, 0.77, 0.30),
    "MNIST training": (20.422, 0.1436, 10.920, 3685.3, 895.32, 0.53, 0.24),
    "Mask R-CNN": (11.538, 0.3630, 8.379, 6483.4, 870.48, 0.73, 0.13),
}
"""The report's seconds and megabytes, and the ratios of time and memory that follow."""


def test_the_rows_are_the_reports() -> None:
    assert list(WORKLOADS) == list(REPORT)
    of_time, of_memory = series(ROWS)
    for place, (name, (*figures, time, memory)) in enumerate(REPORT.items()):
        assert list(WORKLOADS[name].report) == figures
        assert of_time[-1][2][place] == pytest.approx(time, abs=0.006)
        assert of_memory[-1][2][place] == pytest.approx(memory, abs=0.006)
    assert [list(ratios) for _, _, ratios in of_time[:-1]] == [[0.25] * 4]
    ours = [list(ratios) for _, _, ratios in of_memory[:-1]]
    assert ours == [[0.25] * 4, [0.125] * 4, [pytest.approx(2 / 3)] * 4], (
        "the last of whole processes"
    )


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("InceptionV3", (1, 299, 299, 3)),
        ("ResNet50", (1, 299, 299, 3)),
        ("MNIST training", (100, 28, 28, 1)),
        ("Mask R-CNN", (1, 768, 768, 3)),
    ],
)
def test_what_is_measured_has_the_reports_sizes(
    name: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.MaskRCNN, "parameters", {})  # whose drawing takes a second
    feeds = WORKLOADS[name].prepare().feeds
    assert feeds["x"].shape == shape
    if name == "MNIST training":
        assert {n.split(".")[2] for n in feeds if n.startswith("optimiser.rate")} == {"squares"}


def test_times_are_the_mean_of_the_middle_half() -> None:
    assert (
        child.interquartile_mean([9.0, 1.0, 2.0, 100.0, 3.0, 4.0, 5.0, 0.0]) == (2 + 3 + 4 + 5) / 4
    )
    assert child.interquartile_mean([1.0, 2.0, 6.0]) == 3


def test_an_evaluation_is_repeated_but_not_for_ever() -> None:
    calls: list[int] = []
    for seconds, expected in ((0.0, 3), (60.0, 30)):
        calls.clear()
        assert len(child.time_calls(lambda: calls.append(1), seconds)) == len(calls) == expected


def test_each_figure_comes_from_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "eager": {"seconds": 1, "bytes": 2, "held_bytes": 3, "process_bytes": 4},
        "graph": {
            "build_s": 5,
            "seconds": 6,
            "bytes": 7,
            "predicted_bytes": 8,
            "process_bytes": 9,
            "evaluations": 10,
            "first_build_s": 11,
        },
    }
    monkeypatch.setattr(rows, "_run_child", lambda name, mode, seconds, engine: found[mode])
    said: list[str] = []
    (row,) = measure(["ResNet50"], said.append)
    assert said == ["ResNet50: without the graph", "ResNet50: with the graph"]
    assert row == BenchRow(
        "ResNet50",
        eager_s=1,
        build_s=5,
        eval_s=6,
        eager_bytes=2,
        held_bytes=3,
        graph_bytes=7,
        predicted_bytes=8,
        eager_process_bytes=4,
        graph_process_bytes=9,
        evaluations=10,
        first_build_s=11,
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_what_is_being_done_is_shown(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measuring_one(names: Any, show_progress: Any, engine: str) -> Any:
        show_progress("ResNet50: with the graph")
        yield from ROWS

    monkeypatch.setattr(command, "measure", measuring_one)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert cli.main(["bench"]) == 0
    shown = capsys.readouterr().err
    line = "ResNet50: with the graph"
    assert shown == (f"\r\x1b[K{line}\r\x1b[K" if terminal else f"{line}\n")


def test_the_command_writes_json_and_a_picture(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(command, "measure", lambda names, show_progress, engine: iter(ROWS))
    files = tmp_path / "b.json", tmp_path / "b.png"
    assert cli.main(["bench", "--json", str(files[0]), "--picture", str(files[1])]) == 0
    written = json.loads(files[0].read_text())
    assert [row["name"] for row in written["rows"]] == list(WORKLOADS)
    wanted = {
        "name",
        "eager_s",
        "build_s",
        "eval_s",
        "eager_bytes",
        "graph_bytes",
        "predicted_bytes",
        "time_ratio",
        "memory_ratio",
        "held_ratio",
        "process_ratio",
    }
    assert all(wanted <= row.keys() for row in written["rows"])
    assert written["machine"]["threads"] >= 1
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert "Mask R-CNN" in capsys.readouterr().out


def test_a_narrow_table_has_its_headings_one_below_the_other() -> None:
    whole = format_table(ROWS)
    assert format_table(ROWS, 200) == format_table(ROWS, max(map(len, whole.splitlines()))) == whole
    for width in (60, 80):
        parts = format_table(ROWS, width).split("\n\n")
        assert all(len(line) <= width for part in parts for line in part.splitlines())
        headings = (
            ["time", "activations", "activations", "all"] if width < 63 else ["time", "activations"]
        )
        assert [p.split()[0] for p in parts] == headings
        for row in ROWS:
            lines = [next(x for x in p.splitlines() if x.startswith(row.name)) for p in parts]
            cells = [c for line in lines for c in line.removeprefix(row.name).split()]
            (line,) = [x for x in whole.splitlines() if x.startswith(row.name)]
            assert cells == line.removeprefix(row.name).split()


def test_what_cannot_be_written_is_said_before_anything_is_measured(
    monkeypatch, tmp_path, capsys
) -> None:
    import tawny.bench.command as command

    monkeypatch.setattr(command, "measure", lambda *_, **__: pytest.fail("nothing is measured"))
    for option, path, message in [
        ("--json", tmp_path, "is a folder; accepted: the path of a file"),
        ("--json", tmp_path / "nowhere" / "b.json", "there is no folder"),
        ("--picture", tmp_path / "nowhere" / "b.png", "there is no folder"),
        ("--picture", tmp_path / "b.txt", "a picture's name ends in .png, .svg, .pdf"),
    ]:
        assert cli.main(["bench", option, str(path)]) == 2
        assert message in capsys.readouterr().err


def test_ctrl_c_leaves_the_rows_measured_so_far(monkeypatch, tmp_path, capsys) -> None:
    import tawny.bench.command as command

    def measured_until(names, show_progress, engine: str = "cpu"):
        yield from ROWS[:2]
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure", measured_until)
    assert cli.main(["bench", "--json", str(tmp_path / "b.json")]) == 130
    said = capsys.readouterr()
    assert "interrupted after 2 of 4 networks; no file is written" in said.err
    assert ROWS[1].name in said.out
    assert ROWS[2].name not in said.out.partition("\n\n")[0]
    assert not (tmp_path / "b.json").exists()


def test_a_picture_that_cannot_be_drawn_is_said_first(monkeypatch, tmp_path, capsys) -> None:
    import tawny.bench.command as command

    def measured_then(names, show_progress, engine: str = "cpu"):
        assert "matplotlib is missing" in capsys.readouterr().err
        yield from ROWS

    monkeypatch.setattr(command, "measure", measured_then)
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["bench", "--picture", str(tmp_path / "b.png")]) == 0
    assert not (tmp_path / "b.png").exists()


def test_the_help_names_every_network(capsys) -> None:
    assert shlex.split(cli.NETWORKS.replace(",", "")) == list(WORKLOADS)
    with pytest.raises(SystemExit):
        cli.main(["bench", "--help"])
    assert "Mask R-CNN" in " ".join(capsys.readouterr().out.split())


def test_unknown_networks_are_named(capsys) -> None:
    assert cli.main(["bench", "AlexNet"]) == 2
    said = capsys.readouterr().err
    assert "'AlexNet' is not known; accepted: 'InceptionV3'" in said


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="KeyError: 'nothing'"):
        list(measure(["nothing"], lambda _: None))


def test_graphs_run_on_the_engine_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(words: list[str], **_: Any) -> Any:
        asked.append(words)
        return subprocess.CompletedProcess(words, 1, "", "stop")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(RuntimeError, match="stop"):
        list(measure(["ResNet50"], lambda _: None, engine="reference"))
    assert asked[0][2:] == ["tawny.bench.child", "ResNet50", "eager", "8.0", "reference"]


@needs_device
def test_devices_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small network in place of the large ones."""
    made = workloads._inference(models.ResNet50(width=1 / 8), (1, 64, 64, 3))
    figures = child.measure_graph(made, 0.01, DEVICE)
    assert figures["evaluations"] >= 3
    assert (
        figures["predicted_bytes"] == made.build().plan(incremental=False, engine=DEVICE).peak_bytes
    )
    assert rows.machine(DEVICE)["device"]


def test_what_a_device_took_is_what_it_says_less_what_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = workloads._inference(models.ResNet50(width=1 / 8), (1, 32, 32, 3))
    plan = made.build().plan(incremental=False)
    free = iter([10**9, 10**9 - plan.peak_bytes - plan.resident_bytes])
    monkeypatch.setattr(child, "_free_bytes", lambda engine: next(free))
    assert child.measure_graph(made, 0.0, "cpu")["bytes"] == plan.peak_bytes


def test_engines_that_are_not_here_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--engine", "abacus"]) == 2
    assert "engine 'abacus' is not known" in capsys.readouterr().err
