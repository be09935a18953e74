"""Checkpoints that somebody else wrote, or that were changed: refused before anything happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
from tawny import nn, optim
from tawny.files import safetensors
from training_loop import flat

DATA = np.random.default_rng(2)
X, Y = DATA.normal(size=(8, 3)).astype("float32"), DATA.normal(size=(8, 2)).astype("float32")

Arrays = dict[str, Any]


def train(model: nn.Module, rule: Any = None, **options: Any) -> nn.History:
    rule = optim.Adam(0.1) if rule is None else rule
    return nn.train(model, nn.quadratic, (X, Y), rule, 2, stopping=optim.Early(9), **options)


def model(seed: int = 0) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2)).initialise(seed)


def place(**changes: Any) -> Callable[[Arrays, dict[str, Any]], Any]:
    """Changes to where training stands."""
    return lambda _, training: training.update(changes)


def array(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays, dict[str, Any]], Any]:
    """A change to one of the arrays."""
    return lambda arrays, _: arrays.update({name: change(arrays[name])})


BROKEN: dict[str, tuple[Callable[[Arrays, dict[str, Any]], Any], str]] = {
    "dtype": (
        array("parameters.0.weight", lambda a: a.astype("float64")),
        r"parameters\.0\.weight is float64\[3, 2\], not float32\[3, 2\]",
    ),
    "shape": (array("parameters.0.weight", lambda a: a.T), r"is float32\[2, 3\], not"),
    "too many": (lambda a, _: a.update(more=np.ones(2)), "more is not expected"),
    "too few": (lambda a, _: a.pop("optimiser.step"), r"optimiser\.step is missing"),
    "step": (place(step=-1), "must be integers from 0"),
    "epoch": (place(epoch=0.5), "must be integers from 0"),
    "position": (place(position=True), "must be integers from 0"),
    "rows": (place(rows="many"), "must be integers from 0"),
    "place": (lambda _, t: t.pop("rows"), "expected step, epoch, position, rows, stopping and"),
    "stopping": (place(stopping=[{"best": "x", "waited": 0}]), "a list of tables of numbers"),
    "no stopping": (place(stopping=3), "a list of tables of numbers"),
    "rates": (array("history.rate", lambda a: a[:-1]), "expected a rate for each loss"),
    "losses": (array("history.loss", lambda a: a.astype("float32")), "double-precision numbers"),
    "table": (array("validation.loss", lambda a: a[None]), "a list of double-precision numbers"),
    "no losses": (lambda a, _: a.pop("history.loss"), r"array history\.loss: expected a list"),
    "progress": (array("progress", lambda a: a[:1]), "expected two numbers"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "run.safetensors"
    train(model(), checkpoint=path, validation=(X, Y), steps=1)
    return path


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_is_refused(name: str, written: Path, tmp_path: Path) -> None:
    change, message = BROKEN[name]
    contents, path = safetensors.read(written), tmp_path / "broken.safetensors"
    arrays, training = dict(contents.arrays), json.loads(contents.text["training"])
    change(arrays, training)
    safetensors.write(path, arrays, {**contents.text, "training": json.dumps(training)}, "test")
    other = model(5)
    before = flat(other.parameters)
    with pytest.raises(tw.GraphFileError, match=message):
        train(other, resume=path, validation=(X, Y))
    np.testing.assert_array_equal(flat(other.parameters), before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"version": "2"}, r"expected 'tawny\.training' of version 1"),
        ({"format": "tawny.weights"}, r"expected 'tawny\.training' of version 1"),
        ({"training": "{"}, "training"),
        ({"training": "[]"}, "expected step, epoch"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    text: dict[str, str], message: str, written: Path, tmp_path: Path
) -> None:
    contents, path = safetensors.read(written), tmp_path / "other.safetensors"
    safetensors.write(path, contents.arrays, {**contents.text, **text}, "test")
    with pytest.raises(tw.GraphFileError, match=message):
        train(model(), resume=path)


def falling(start: float) -> Any:
    """A schedule that is another function each time, as it is in another process."""

    def rate(step: Any) -> Any:
        return start / (step + 1)

    return optim.Adam(optim.Schedule(rate))


def test_functions_are_known_again_though_they_lie_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    rules = [falling(0.1) for _ in range(3)]
    assert len(set(map(repr, rules))) == 3
    whole, again = model(), model(7)
    train(whole, rules[0])
    train(model(), rules[1], checkpoint=path, steps=1)
    train(again, rules[2], resume=path)
    np.testing.assert_array_equal(flat(again.parameters), flat(whole.parameters))
