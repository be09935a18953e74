"""Data and losses that training cannot take: refused before the first step, by name and line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim
from tawny.nn.training.data import as_batch
from tawny.nn.training.terminal import ProgressBar

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 4)).astype("float32")
Y = RNG.normal(size=(12, 2)).astype("float32")


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3, activation="tanh"), nn.BatchNorm(3), nn.Linear(3, 2))


def flat(structure: Any) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in tw.tree.leaves(structure)])


class Silent(nn.Module):
    """Forgets to return what it computes."""

    def __init__(self) -> None:
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Any) -> None:
        self.layer(x)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    # data
    "lists of numbers": ({"data": (X.tolist(), Y)}, r"x\.0\.0 has no axes: it is 0\.1\d+\.*; accepted: arrays whose first axis counts the samples \(numpy\.asarray makes one"),
    "list of text": ({"data": (X, ["a"] * 12)}, r"y\.0 has no axes: it is 'a'; accepted: arrays"),
    "nothing": ({"data": (None, Y)}, r"x has no axes: it is None; accepted: arrays"),
    "one array": ({"data": X}, r"the data are one array of shape \(12, 4\); accepted: \(x, y\), or batches"),
    "lazy array": ({"data": tnp.asarray(X)}, r"the data are one array of shape \(12, 4\)"),
    "dict": ({"data": {"x": X, "y": Y}}, r"the data are dict; accepted: \(x, y\), or batches"),
    "text": ({"data": "mnist"}, r"the data are str; accepted: \(x, y\), or batches"),
    "one": ({"data": (X,)}, r"the data are a tuple of 1; accepted: a pair \(x, y\)"),
    "three": ({"data": (X, Y, Y)}, r"the data are a tuple of 3; accepted: a pair \(x, y\)"),
    "batch of three": ({"data": [(X, Y, Y)]}, r"a batch is a tuple of 3; accepted: a pair \(x, y\)"),
    "list of arrays": ({"data": [X, Y]}, r"a batch is one array of shape \(12, 4\); accepted: a pair \(x, y\)"),
    "batches cut": ({"data": [(X, Y)], "batch": 3}, r"batch is 3, but the data come in batches"),
    # validation
    "validation array": ({"validation": X}, r"validation: the data are one array of shape \(12, 4\)"),
    "validation batch": ({"validation": [X, Y]}, r"validation: a batch is one array"),
    "validation batches": ({"validation": [(X[:, :2], Y)]}, r"the input has shape \(12, 2\)"),
    # losses
    "whole loss": ({"loss": lambda p, y: tnp.sum(tnp.argmax(p, axis=1))}, r"nn: the loss has dtype int64; accepted: real floating-point numbers"),
    "complex loss": ({"loss": lambda p, y: tnp.sum(p) * 1j}, r"nn: the loss has dtype complex64; accepted: real floating-point numbers"),
    "fixed loss": ({"loss": lambda p, y: 1.0}, r"nn: the loss does not depend on any parameter of the model"),
    "loss of targets": ({"loss": lambda p, y: tnp.sum(y * y)}, r"nn: the loss does not depend on any parameter of the model"),
    "loss stopped": ({"loss": lambda p, y: tnp.sum(tw.stop_gradient(p))}, r"nn: the loss does not depend on any parameter of the model"),
    # models
    "no parameters": ({"model": nn.Sequential(nn.Flatten())}, r"nn: Sequential has no parameter: there is nothing to train"),
    "no result": ({"model": Silent()}, r"Silent: forward gives None; it returns what the layer computes"),
    "great seed": ({"seed": 2**64}, r"nn\.train: seed is 18446744073709551616; it must be less than 2\*\*64"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_named_before_anything_changes(name: str) -> None:
    given, message = WRONG[name]
    options = {"model": model(), "loss": nn.quadratic, "data": (X, Y), **given}
    trained: nn.Module = options["model"]
    before = flat([trained.parameters, trained.state, [np.zeros(1)]])
    with pytest.raises((ValueError, TypeError), match=message + r".*\[test_nn_training_data\.py:"):
        nn.train(optimiser=optim.Adam(0.1), **options)
    np.testing.assert_array_equal(flat([trained.parameters, trained.state, [np.zeros(1)]]), before)


def test_seeds_up_to_the_greatest_serve() -> None:
    assert nn.train(model(), nn.quadratic, (X, Y), optim.Adam(), seed=2**64 - 1).steps == 1


def test_predictions_need_arrays() -> None:
    net = model()
    with pytest.raises(ValueError, match=r"nn\.predict: x\.0 has no axes: it is 1\.0; accepted"):
        nn.predict(net, [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match=r"nn\.predict: there is no array; accepted: arrays"):
        nn.predict(net)


def test_a_loss_that_a_penalty_alone_moves_can_be_trained() -> None:
    rule = optim.Optimiser(optim.Constant(0.1), regularisation=optim.L2(0.1))
    history = nn.train(model(), lambda p, y: 0.0, (X, Y), rule, epochs=3)
    assert history.batch_loss[2] < history.batch_loss[0]


# -------------------------------------------------------------- no finite losses


def test_a_loss_that_is_no_number_is_told_once_with_the_data_that_caused_it() -> None:
    x = X.copy()
    x[3, 1] = np.nan
    with pytest.warns(RuntimeWarning) as told:
        history = nn.train(model(), nn.quadratic, (x, Y), optim.SGD(0.1), epochs=3)
    assert [str(w.message).partition("  [")[0] for w in told] == [
        "nn.train: the loss of step 1 is nan; its batch has NaN or infinities in x"
    ]
    assert "[test_nn_training_data.py:" in str(told[0].message)
    assert history.steps == 3


def test_a_loss_that_overflows_is_told_without_blaming_the_data() -> None:
    with pytest.warns(RuntimeWarning, match=r"the loss of step \d+ is (inf|nan)  \["):
        nn.train(nn.Linear(4, 2), nn.quadratic, (X, Y), optim.SGD(1e12), epochs=9)


def test_finite_losses_are_not_worth_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.train(model(), nn.quadratic, (X, Y), optim.SGD(0.01), epochs=3)


# ---------------------------------------------------------------------- the bar


class Shown:
    """Remembers what a bar shows."""

    def __init__(self) -> None:
        self.done, self.fields = 0, dict[str, Any]()
        self.console = self

    def print(self, *_: Any, **__: Any) -> None: ...

    def add_task(self, _: str, **fields: Any) -> int:
        self.fields |= fields
        return 0

    def update(self, _: int, completed: int | None = None, **fields: Any) -> None:
        self.done = self.done if completed is None else completed
        self.fields |= fields

    def reset(self, _: int, total: Any) -> None:
        self.done = 0


def test_a_bar_stands_where_a_resumed_epoch_does_and_keeps_the_last_loss() -> None:
    shown = Shown()
    bar = ProgressBar(shown, 3, 8)
    bar.step(1, 6, 0.5, 0.1)
    assert (shown.done, shown.fields["epoch"], shown.fields["text"]) == (6, 2, "loss 0.5  rate 0.1")
    bar.epoch(1, 0.4, {})
    assert (shown.done, shown.fields["epoch"], shown.fields["text"]) == (0, 3, "loss 0.5  rate 0.1")


def test_training_tells_the_bar_how_far_the_epoch_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    places: list[tuple[int, int]] = []
    monkeypatch.setattr(
        ProgressBar, "step", lambda _, epoch, done, *__: places.append((epoch, done))
    )
    path = tmp_path / "run.safetensors"
    options: dict[str, Any] = {"batch": 4, "epochs": 2, "progress": True}
    nn.train(
        model(), nn.quadratic, (X, Y), optim.SGD(), steps=4, checkpoint=nn.Checkpoint(path, 1), **options
    )  # fmt: skip
    places.clear()
    nn.train(model(), nn.quadratic, (X, Y), optim.SGD(), resume=path, **options)
    assert places == [(1, 2), (1, 3)]


def test_a_batch_of_one_input_names_it_x() -> None:
    def names(*inputs: Any) -> Iterator[Any]:
        yield from as_batch((inputs, Y), "test").structure  # type: ignore[misc]

    assert list(names(X)) == ["x", "y"]
    assert list(names(X, X)) == ["x.0", "x.1", "y"]
