"""What takes long says so at a terminal, and nowhere else."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim
from tawny import progress as shown


class Terminal(io.StringIO):
    """Keeps what is written, as if somebody looked at it."""

    is_terminal = True

    def isatty(self) -> bool:
        return self.is_terminal

    def lines(self) -> list[str]:
        """What the line said, one after the other."""
        return [text for text in self.getvalue().split("\r\x1b[K") if text]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is shown at once, and does not end before it was: its thread may be late on a busy machine."""
    end, write, is_written = shown.LongWork.end, shown._write, threading.Event()

    def write_and_say(text: str) -> None:
        write(text)
        is_written.set()

    def end_when_shown(work: shown.LongWork) -> None:
        if work._thread is not None:
            assert is_written.wait(30)
        end(work)
        is_written.clear()

    monkeypatch.setattr(shown, "_write", write_and_say)
    monkeypatch.setattr(shown.LongWork, "end", end_when_shown)
    monkeypatch.setattr(shown, "DELAY", 0.001)
    monkeypatch.setattr(shown, "INTERVAL", 0.001)
    monkeypatch.delenv("TAWNY_VERBOSE", raising=False)


@contextmanager
def looking(is_terminal: bool = True) -> Generator[Terminal]:
    made = Terminal()
    made.is_terminal = is_terminal
    with redirect_stderr(made):
        yield made


def slow_graph() -> tw.Graph:
    x = tw.var("x", (8,))
    y = x
    for k in range(300):
        y = tnp.cumsum(y * k) + tnp.sin(y)
    return tw.Graph([x], y)


def test_compiling_says_which_graph_and_which_stage() -> None:
    graph = slow_graph()
    with looking() as terminal:
        program = graph.compile(engine="reference", plan="hard")
    stages = {found[1] for line in terminal.lines() if (found := WORDS.fullmatch(line))}
    assert len(stages) >= 2
    assert stages <= {stage.name for stage in program.explain()}
    assert f"compiling a graph of {len(graph.order):,} nodes: " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert not [t for t in threading.enumerate() if t.name == "tawny progress"]


WORDS = re.compile(r"compiling a graph of [\d,]+ nodes: ([a-z ]+) \(\d+ s\)")


def waits(x: Any) -> Any:
    time.sleep(0.02)
    return x


def test_sweeps_and_profiles_count() -> None:
    x = tw.var("x")
    program = tw.Graph([x], tw.delay(waits, x)).compile(engine="reference")
    with looking() as terminal:
        program.sweep(x=[1.0, 2.0, 3.0])
        program.profile(2)
    for words in ("sweep: 2 of 3 (", "profile: run 2 of 2 ("):
        assert any(words in line for line in terminal.lines()), words


def test_files_are_named(tmp_path: Path) -> None:
    slow_graph().save(tmp_path / "graph.tawny")
    with looking() as terminal:
        tw.load(tmp_path / "graph.tawny")
    assert any("graph.tawny" in line for line in terminal.lines())


def train(model: nn.Module) -> None:
    data = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    nn.train(model, nn.quadratic, data, optim.SGD(0.01), 2, batch=4)


def test_training_shows_its_own_bar_alone() -> None:
    with looking() as terminal:
        train(nn.Linear(3, 1))
    assert "epoch 1/2" in terminal.getvalue()
    assert "compiling" not in terminal.getvalue()


@pytest.mark.parametrize("verbose", [None, False])
def test_nothing_is_shown_to_nobody(verbose: bool | None) -> None:
    with looking(verbose is not None) as terminal, tw.config(verbose=verbose):
        slow_graph().compile(engine="reference")
        train(nn.Linear(3, 1))
    assert not terminal.getvalue()


def test_the_verbose_read_each_stage_anywhere() -> None:
    with looking(False) as terminal, tw.config(verbose=True):
        program = slow_graph().compile(engine="reference")
    said = [line.split(",")[0] for line in terminal.getvalue().splitlines()]
    assert said == [f"tawny: compile: {one.name}: {one.nodes} nodes" for one in program.explain()]


def test_an_error_takes_the_line_away() -> None:
    with looking() as terminal, pytest.raises(KeyError), shown.progress("looking"):
        time.sleep(0.05)
        raise KeyError
    assert "looking (0 s)" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    with looking() as terminal, shown.progress("again"):
        time.sleep(0.05)
    assert "again (0 s)" in terminal.getvalue()
