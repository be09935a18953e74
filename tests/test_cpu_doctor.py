"""`tawny doctor`: what is installed, and what runs programs here."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import tawny as tw
from tawny import cli
from tawny.engine.cpu import rates
from tawny.engine.cpu.threads.pool import default_threads


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[:12].strip(): line[13:] for line in lines}


def test_the_doctor_says_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    report = said(capsys)
    assert f"tawny {tw.__version__}" in report["versions"]
    assert f"numpy {np.__version__}" in report["versions"]
    assert "vectors of" in report["processor"]
    assert report["engine"].startswith("cpu: compiled kernels")
    assert report["threads"].startswith(str(default_threads()))
    total, listed = report["installed"].split(": ")
    sizes = [float(part.split()[1]) for part in listed.split(", ")]
    assert float(total.split()[0]) == pytest.approx(sum(sizes), abs=0.2)
    assert 0 < float(total.split()[0]) < 450, "megabytes"


def test_the_doctor_follows_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("TAWNY_THREADS", "77")
    monkeypatch.setenv("TAWNY_CACHE", "off")
    report = said(capsys)
    assert report["threads"].startswith("77 (TAWNY_THREADS")
    assert report["cache"] == "off"
    (tmp_path / "entry").write_bytes(bytes(2_500_000))
    monkeypatch.setenv("TAWNY_CACHE", str(tmp_path))
    assert said(capsys)["cache"] == f"{tmp_path} (2.5 MB)"


def test_the_doctor_says_why_nothing_is_compiled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "unavailable", lambda: "ImportError: no llvmlite")
    report = said(capsys)
    assert "since compiled code cannot be run here (ImportError: no llvmlite)" in report["engine"]
    assert "vectors" not in report["processor"]


def test_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tawny.cli", "doctor"], capture_output=True, text=True, check=True
    )
    assert "versions" in done.stdout
    with pytest.raises(SystemExit):
        cli.main([])


def test_the_package_runs_as_a_module() -> None:
    run = [sys.executable, "-m", "tawny", "doctor"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert f"tawny {tw.__version__}" in done.stdout
    wrong = subprocess.run([*run[:-1], "cure"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "invalid choice: 'cure'" in wrong.stderr


def test_the_doctor_measures_the_roof(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWNY_THREADS", "2")
    monkeypatch.setattr(rates, "SECONDS", 0.01)
    monkeypatch.setattr(rates, "STREAM_BYTES", 2**20)
    assert cli.main(["doctor", "--roof"]) == 0
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("roof")]
    numbers = [[float(n) for n in re.findall(r"(\d+\.\d)", line)] for line in lines]
    assert [line.split()[1] for line in lines] == ["1", "2"]
    for single, double, copy, triad in numbers:
        assert min(single, double) > 0.5
        assert min(copy, triad) > 0.5
    monkeypatch.setattr(cli, "unavailable", lambda: "ImportError: no llvmlite")
    assert cli.main(["doctor", "--roof"]) == 0
    assert "not measured" in capsys.readouterr().out


def test_rates_are_those_of_arithmetic_that_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chains of each worker end where multiply-adds lead; both streams compute what they say."""
    monkeypatch.setattr(rates, "SECONDS", 0.0)
    monkeypatch.setattr(rates, "STREAM_BYTES", 2**14)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(rates, "empty_aligned", lambda *a: seen.append(np.empty(*a)) or seen[-1])
    found = rates.measure_rates(2)
    made, _, _, single, double = seen
    assert (made == 4).all()  # 1 + 3 * 1
    assert found.flops32 > 0 < found.flops64
    for sums in (single, double):
        assert (sums == 1).all()  # the fixed point of x / 2 + 1 / 2
