"""The examples run, in short form, and say what they should."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

SAYS = {
    "cifar_vgg": ["SmallVGG:", "epoch 6:", "learnt the light"],
    "custom_op": ["stated, far away:      [0. 1.]", "worked out by hand"],
    "explore": ["gamma: 4 of 7 steps ran", "contours: 3 of 7"],
    "figure_1": ["sin: x5", "the same numbers"],
    "gradient_graphs": ["arrays.svg", "optimised"],
    "kalman_filter": ["one loop: ", "as filtered"],
    "lazy_evaluation": ["as a program", "1 step run"],
    "long_sequences": ["are computed again for its derivative", "in a quarter of the memory"],
    "memory_budget": ["the least is", "The same losses each time"],
    "mnist": ["6,434,634 parameters", "of 1,000 digits it has not seen"],
    "n_body": ["5,000 steps of 9 bodies", "verlet "],
    "newton_fractal": ["take [0.39, 0.3, 0.3]", "however many steps"],
    "own_models": ["three models of packages:"],
    "text_lstm": ["gradients reach it", "Shall I"],
}
"""What each prints."""

PICTURES = {
    "gradient_graphs": ["arrays.svg", "arrays_optimised.svg", "function.svg", "slope.svg"],
    "lazy_evaluation": ["chain.svg"],
    "memory_budget": ["trade_off.svg"],
}


def test_every_example_is_tested() -> None:
    assert sorted(p.stem for p in EXAMPLES.glob("*.py")) == sorted(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [] if name in ("figure_1", "custom_op") else ["--short"]
    if name in PICTURES:
        options += ["--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *options])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    for text in SAYS[name]:
        assert text in said
    for picture in PICTURES.get(name, []):
        assert (tmp_path / picture).read_text().lstrip().startswith(("<svg", "<?xml"))
