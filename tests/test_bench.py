"""The command that measures the report's table."""

from __future__ import annotations

import json

import pytest

from tawny import cli
from tawny.bench import WORKLOADS, Row, measured
from tawny.bench.rows import text
from tawny.bench.workloads import Made

ROWS = [
    Row(
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
    )
    for name in WORKLOADS
]


@pytest.fixture(scope="module")
def training() -> Row:
    (row,) = measured(["MNIST training"], lambda _: None, seconds=0.2)
    return row


def test_the_predicted_peak_is_what_a_process_needs(training: Row) -> None:
    assert abs(training.graph_bytes - training.predicted_bytes) < 0.02 * 35e6 + 4e6
    assert training.graph_bytes < 0.5 * training.eager_bytes < 0.5 * training.held_bytes
    assert training.graph_process_bytes > training.graph_bytes


def test_times_are_those_of_one_step(training: Row) -> None:
    assert 0 < training.eval_s < 5
    assert 0 < training.eager_s < 5
    assert 0 < training.build_s < 20
    assert training.evaluations >= 3


@pytest.mark.parametrize("name", ["ResNet50"])
def test_eager_and_graph_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from tawny import models
    from tawny.bench import workloads

    made: Made = workloads._inference(models.ResNet50(width=1 / 8), (1, 64, 64, 3))
    kept: list = []
    program = made.build().compile()
    expected = made.eager(kept)
    np.testing.assert_allclose(program(**made.feeds), expected.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(made.eager(None).numpy(), expected.numpy())
    assert len(kept) > 100
    assert all(a.node.value is not None for a in kept)


def test_the_table_names_every_network_and_the_report() -> None:
    lines = text(ROWS).splitlines()
    assert len(lines) == 2 + 2 * len(WORKLOADS)
    for row, line, said in zip(ROWS, lines[2::2], lines[3::2], strict=True):
        assert line.startswith(row.name)
        assert line.split()[-7:] == ["80.0", "160.0", "20.0", "20.0", "0.25", "0.12", "0.67"]
        reported = WORKLOADS[row.name].reported
        assert said.split()[2] == f"{reported.eager_s:.4f}"
        assert said.endswith(f"{reported.graph_mb / reported.eager_mb:.2f}")


def test_the_command_writes_json_and_a_picture(monkeypatch, tmp_path, capsys) -> None:
    import tawny.bench.command as command

    monkeypatch.setattr(command, "measured", lambda names, tell: iter(ROWS))
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
    }
    assert all(wanted <= row.keys() for row in written["rows"])
    assert written["machine"]["threads"] >= 1
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert "Mask R-CNN" in capsys.readouterr().out


def test_unknown_networks_are_named(capsys) -> None:
    assert cli.main(["bench", "AlexNet"]) == 2
    said = capsys.readouterr().err
    assert "'AlexNet' is not known; accepted: 'InceptionV3'" in said


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="KeyError: 'nothing'"):
        list(measured(["nothing"], lambda _: None))
