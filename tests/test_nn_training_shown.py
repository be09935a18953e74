"""What training shows and tells while it runs, and how it is interrupted."""

from __future__ import annotations

import io
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tawny import nn, optim
from training_loop import flat

DATA = np.random.default_rng(1)
X, Y = DATA.normal(size=(22, 3)), DATA.normal(size=(22, 2))


def plain() -> Any:
    return nn.Sequential(nn.Linear(3, 2, dtype="float64")).initialise(3)


def train(model: Any = None, epochs: float = 2, **options: Any) -> nn.History:
    chosen: dict[str, Any] = {"batch": 8, "optimiser": optim.SGD(0.0125), **options}
    return nn.train(
        plain() if model is None else model, nn.quadratic, (X, Y), epochs=epochs, **chosen
    )


# -------------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What is written to the standard error output from now on."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return made


def test_on_a_terminal_a_bar_shows_loss_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    history = train(callbacks=[lambda now: now.step == 1 and time.sleep(0.3)])  # drawn meanwhile
    shown = terminal.getvalue()
    assert f"loss {history.batch_loss[0]:.4g}  rate 0.0125" in shown
    assert "1/3" in shown
    for number, loss in enumerate(history.loss, 1):
        assert f"epoch {number}/2  loss {loss:.4g}" in shown


def test_the_bar_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    train(progress=False)
    assert not terminal.getvalue()


def test_the_bar_of_resumed_training_starts_where_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal, path = on_a_terminal(monkeypatch), tmp_path / "run.safetensors"
    train(steps=5, checkpoint=nn.Checkpoint(path, every="batch"), progress=False)
    train(resume=path)
    shown = terminal.getvalue()
    assert "3/3" in shown
    assert "epoch 2/2" in shown
    assert "1/3" not in shown


# ------------------------------------------------------------------- callbacks


def test_callbacks_are_given_copies() -> None:
    model, kept, held = plain(), list[Any](), list[Any]()

    def keep(now: Any) -> None:
        if now.event == "batch":
            kept.append((now.parameters, flat(now.parameters)))
        if now.step == 2:
            now.update_model()
        if now.step >= 2:
            held.append(flat(model.parameters))

    train(model, callbacks=[keep])
    for parameters, values in kept:
        np.testing.assert_array_equal(flat(parameters), values)
    assert len({values.tobytes() for _, values in kept}) == 6
    for values in held:
        np.testing.assert_array_equal(values, kept[1][1])
    np.testing.assert_array_equal(flat(model.parameters), kept[-1][1])


def test_every_callback_is_told_in_order() -> None:
    told: list[tuple[str, str]] = []
    train(
        epochs=1,
        batch=22,
        callbacks=[lambda now, name=name: told.append((name, now.event)) for name in "ab"],
    )
    assert told == [("a", "batch"), ("b", "batch"), ("a", "epoch"), ("b", "epoch")]


def test_the_first_reason_to_stop_stands() -> None:
    def stop(now: Any) -> None:
        now.stop("one")
        now.stop("another")

    assert train(callbacks=[stop]).reason == "one"
    assert train(callbacks=[stop], stopping=optim.Below(1e9)).reason == "loss below 1e+09"


def test_parts_of_epochs_are_rounded_to_steps() -> None:
    for epochs, steps in ((0.1, 1), (0.35, 4), (0.32, 4), (1.25, 14), (0.04, 0)):
        assert train(epochs=epochs, batch=2).steps == steps, epochs


@pytest.mark.parametrize("by", ["steps", "rule", "callback"])
def test_an_epoch_whose_last_batch_is_done_is_over_whatever_ends_training(
    by: str, tmp_path: Path
) -> None:
    """It has its mean, its validation and its checkpoint, resumed after the last batch too."""
    path, batches = tmp_path / "epoch", tmp_path / "batch"
    common: dict[str, Any] = {"validation": (X, Y)}
    if by == "rule":
        best = int(np.argmin(train(epochs=2).batch_loss))
        common["stopping"] = optim.Early(5 - best, when="batch")
    ends = {
        "steps": {"steps": 6},
        "rule": {},
        "callback": {"callbacks": [lambda now: now.step == 6 and now.stop("enough")]},
    }[by]
    history = train(epochs=9, checkpoint=path, **common, **ends)
    assert (history.steps, history.epochs) == (6, 2)
    assert len(history.validation["loss"]) == 2
    assert history.reason not in ("epochs", "running")
    train(epochs=9, checkpoint=nn.Checkpoint(batches, every="batch"), **common, **ends)
    for file in (path, batches):
        again = train(epochs=9 if by == "rule" else 2, resume=file, **common)
        assert (again.batch_loss, again.loss) == (history.batch_loss, history.loss)
        assert again.validation == history.validation


def test_seconds_are_those_spent_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    start = time.perf_counter()
    history = train(checkpoint=path, callbacks=[lambda _: time.sleep(0.05)])
    assert 0 < history.seconds < time.perf_counter() - start - 8 * 0.05
    assert train(resume=path).seconds == history.seconds


def test_batches_of_another_structure_or_dtype_have_their_own_program() -> None:
    def loss(prediction: Any, target: Any) -> Any:
        (name,) = target
        return (2 if name == "twice" else 1) * nn.quadratic(prediction, target[name])

    model = nn.Sequential(nn.Linear(3, 2, dtype="float32"))
    w = model.parameters[0]["weight"].astype("float64")
    x, y = X.astype("float32"), Y.astype("float32")
    batches = [(x, {"once": y}), (x, {"twice": y}), (X, {"once": Y}), (X, {"twice": Y})]
    found = nn.train(model, loss, batches, optim.Constant(0.0)).batch_loss
    expected = ((X @ w - Y) ** 2).sum() / 22
    np.testing.assert_allclose(found, [expected, 2 * expected] * 2, rtol=1e-5)


# ---------------------------------------------------------------------- Ctrl-C


@pytest.mark.usefixtures("interruptible")
def test_a_second_ctrl_c_does_not_wait() -> None:
    model, said = plain(), list[Any]()

    def impatient(now: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        said.append(flat(now.parameters))
        signal.raise_signal(signal.SIGINT)
        said.append("never said")

    with pytest.raises(KeyboardInterrupt):
        train(model, callbacks=[impatient])
    (values,) = said
    np.testing.assert_array_equal(flat(model.parameters), values)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
def test_somebody_elses_handler_of_ctrl_c_is_left_alone() -> None:
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        heard.append(number)

    signal.signal(signal.SIGINT, hear)
    history = train(
        callbacks=[lambda now: now.step == 2 and signal.raise_signal(signal.SIGINT)], epochs=3
    )
    assert heard == [signal.SIGINT]
    assert history.reason == "epochs"
    assert signal.getsignal(signal.SIGINT) is hear
