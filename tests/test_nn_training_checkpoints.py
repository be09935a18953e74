"""Training that is taken up again gives the same bits as training that went through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
from tawny import nn, optim
from tawny.files import safetensors
from training_loop import flat

DATA = np.random.default_rng(3)
X = DATA.normal(size=(26, 3)).astype(np.float32)
LABELS = DATA.integers(0, 2, 26)


def network(seed: int = 3) -> Any:
    return nn.Sequential(
        nn.Linear(3, 5, activation="relu"), nn.BatchNorm(5), nn.Dropout(0.3), nn.Linear(5, 2)
    ).initialise(seed)


RULE = optim.Optimiser(
    optim.Adam(optim.Decay(0.05, 0.1)), optim.CG(), momentum=0.5, regularisation=optim.L2(0.001)
)


def train(model: Any, rule: Any = RULE, **options: Any) -> Any:
    settings: dict[str, Any] = {
        "epochs": 3, "batch": 8, "seed": 11, "validation": (X, LABELS), "metrics": {"accuracy": nn.accuracy},
        "stopping": [optim.Early(2)],
    }  # fmt: skip
    return nn.train(model, nn.cross_entropy, (X, LABELS), rule, **{**settings, **options})


def same(one: Any, other: Any) -> None:
    """Two trained models and histories, bit by bit."""
    (a, ha), (b, hb) = one, other
    np.testing.assert_array_equal(flat(a.parameters), flat(b.parameters))
    np.testing.assert_array_equal(flat(a.state), flat(b.state))
    for field in ("batch_loss", "rate", "loss", "validation", "reason"):
        assert getattr(ha, field) == getattr(hb, field), field


@pytest.fixture(scope="module")
def through() -> Any:
    model = network()
    return model, train(model)


@pytest.mark.parametrize("step", [1, 3, 4, 5, 8, 11])
def test_resumed_after_any_step_gives_the_same_bits(
    step: int, through: Any, tmp_path: Path
) -> None:
    """Within an epoch, at its last batch (4 and 8), with everything that remembers something."""
    path = tmp_path / "run.safetensors"

    def stop(now: Any) -> None:
        if now.step == step and now.event == "batch":
            now.stop()

    first = train(network(), checkpoint=nn.Checkpoint(path, every="batch"), callbacks=[stop])
    assert first.steps == step
    model = network(seed=99)
    same((model, train(model, resume=path)), through)


def test_resumed_after_an_epoch_gives_the_same_bits(through: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    train(network(), epochs=2, checkpoint=path)
    model = network(seed=99)
    same((model, train(model, resume=path)), through)


@pytest.mark.parametrize(
    "cut", [optim.Full(), optim.Sample(5), optim.Mini(8, shuffle=False)], ids=str
)
def test_every_cut_of_batches_can_be_resumed(cut: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole = network()
    history = train(whole, batch=cut)
    train(network(), batch=cut, checkpoint=nn.Checkpoint(path, every=2), steps=history.steps - 1)
    model = network(seed=99)
    same((model, train(model, batch=cut, resume=path)), (whole, history))


def test_given_batches_can_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    batches = [(X[:8], LABELS[:8]), (X[8:20], LABELS[8:20]), (X[20:], LABELS[20:])]

    def run(model: Any, **options: Any) -> Any:
        return nn.train(model, nn.cross_entropy, batches, optim.Adam(0.01), 2, **options)

    whole = network()
    history = run(whole)
    run(network(), checkpoint=nn.Checkpoint(path, every="batch"), steps=4)
    model = network(seed=99)
    same((model, run(model, resume=path)), (whole, history))


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from test_nn_training_checkpoints import *
model = network(seed=99)
train(model, resume={path!r})
tw.save_arrays({out!r}, {{"w": flat(model.parameters), "s": flat(model.state)}})
"""


def test_resumed_in_another_process_gives_the_same_bits(through: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "run.safetensors", tmp_path / "out.safetensors"
    train(network(), checkpoint=nn.Checkpoint(path, every="batch"), steps=6)
    script = SCRIPT.format(tests=str(Path(__file__).parent), path=str(path), out=str(out))
    subprocess.run([sys.executable, "-c", script], check=True)
    arrays = tw.load_arrays(out)
    np.testing.assert_array_equal(arrays["w"], flat(through[0].parameters))
    np.testing.assert_array_equal(arrays["s"], flat(through[0].state))


def test_files_are_written_when_asked(tmp_path: Path) -> None:
    def written(every: Any) -> list[str]:
        folder = tmp_path / f"f{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        train(
            network(),
            stopping=None,
            checkpoint=nn.Checkpoint(folder / "{epoch}-{step}", every=every),
        )
        return sorted(p.name for p in folder.iterdir())

    assert written("epoch") == ["0-4", "1-8", "2-12"]
    assert len(written("batch")) == 12
    assert written(5) == ["1-5", "2-10"]
    assert written(lambda now: now.event == "epoch" and now.epoch == 1) == ["1-8"]


def test_a_checkpoint_is_plain_data(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    train(network(), checkpoint=path)
    contents = safetensors.read(path)
    assert contents.text["format"] == "tawny.training"
    assert contents.text["training"].startswith('{"step": 12, "epoch": 3, "position": 0')
    assert contents.arrays["optimiser.step"] == 12
    assert contents.arrays["history.batch_loss"].shape == (12,)


def test_longer_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    train(network(), checkpoint=path, stopping=None)
    model, whole = network(seed=99), network()
    resumed = train(model, resume=path, epochs=5, stopping=None)
    same((model, resumed), (whole, train(whole, epochs=5, stopping=None)))


@pytest.mark.parametrize(
    ("rule", "every"),
    [
        (optim.Early(2), "epoch"),
        (optim.Early(2, when="batch"), "batch"),
        (optim.Below(0.7), "batch"),
        (optim.Below(0.7, when="epoch"), "epoch"),
    ],
    ids=str,
)
def test_training_that_a_rule_ended_has_ended(rule: Any, every: Any, tmp_path: Path) -> None:
    """However often it is taken up again, and however many epochs are asked for."""
    path = tmp_path / "run.safetensors"
    checkpoint = nn.Checkpoint(path, every=every)
    optimiser = optim.Adam(0.3)
    ended = network()
    history = train(ended, optimiser, stopping=rule, epochs=40, checkpoint=checkpoint)
    assert history.reason not in ("epochs", "steps")
    for epochs in (40, 40, 60):
        model = network(seed=99)
        resumed = train(
            model, optimiser, stopping=rule, epochs=epochs, checkpoint=checkpoint, resume=path
        )
        same((model, resumed), (ended, history))


@pytest.mark.parametrize(
    ("strict", "lenient"),
    [
        (optim.Early(2), optim.Early(5)),
        (optim.Early(2, when="batch"), optim.Early(4, when="batch")),
        (optim.Below(0.7), optim.Below(0.5)),
    ],
    ids=str,
)
def test_another_patience_goes_on_as_if_it_had_been_there(
    strict: Any, lenient: Any, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    optimiser = optim.Adam(0.3)
    every = nn.Checkpoint(path, every="batch" if strict.every == "batch" else "epoch")
    first = train(network(), optimiser, stopping=strict, epochs=30, checkpoint=every)
    whole, model = network(), network(seed=99)
    history = train(whole, optimiser, stopping=lenient, epochs=30)
    assert first.steps < history.steps
    same(
        (model, train(model, optimiser, stopping=lenient, epochs=30, resume=path)), (whole, history)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": optim.Adam(0.1)}, "was written with optimiser"),
        ({"batch": 9}, "was written with data"),
        ({"seed": 12}, "was written with data"),
        ({"stopping": None}, "1 rules of stopping, remembering best and waited; here are 0"),
        ({"stopping": optim.Below(0.1)}, "best and waited; here are 1 rules .* least"),
    ],
)
def test_training_that_would_not_go_on_as_it_began_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    train(network(), checkpoint=path, epochs=1)
    model = network(seed=5)
    before = flat(model.parameters)
    with pytest.raises(ValueError, match=message):
        train(model, resume=path, **change)
    np.testing.assert_array_equal(flat(model.parameters), before)


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    train(network(), checkpoint=path, epochs=1)
    other = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    with pytest.raises(tw.GraphFileError, match=r"not this model's: .*missing"):
        train(other, resume=path)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    with pytest.raises(tw.GraphFileError, match="damaged"):
        train(network(), resume=tmp_path / "damaged")
    tw.save_arrays(tmp_path / "arrays", {"a": np.ones(3)})
    with pytest.raises(tw.GraphFileError, match=r"expected 'tawny\.training'"):
        train(network(), resume=tmp_path / "arrays")
    with pytest.raises(FileNotFoundError):
        train(network(), resume=tmp_path / "nothing")
    with pytest.raises(ValueError, match="every is 'hour'"):
        nn.Checkpoint(path, every="hour")


def test_a_path_with_fields_stands_for_the_newest_whole_file(through: Any, tmp_path: Path) -> None:
    path = tmp_path / "run-{epoch}-{step}.safetensors"
    with pytest.raises(FileNotFoundError, match=r"there is no whole checkpoint .*run-\{epoch\}"):
        train(network(), resume=path)
    train(network(), checkpoint=nn.Checkpoint(path, every=3), steps=10)
    (tmp_path / "run-9-other.safetensors").touch()
    assert (tmp_path / "run-2-9.safetensors").exists()
    model = network(seed=99)
    same((model, train(model, resume=path)), through)
    cut = (tmp_path / "run-2-9.safetensors").read_bytes()[:-1]
    (tmp_path / "run-2-9.safetensors").write_bytes(cut)
    with pytest.warns(RuntimeWarning, match=r"run-2-9.*an older checkpoint is taken"):
        same((model, train(model, resume=path)), through)


@pytest.mark.parametrize("text", ["{}", "[1]", "[[0, -1]]", "[[0, 1, 2]]", '[["a", 1]]'])
def test_records_of_workers_are_checked(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    train(network(), checkpoint=path, epochs=1)
    contents = safetensors.read(path)
    safetensors.write(path, contents.arrays, {**contents.text, "workers": text}, "test")
    with pytest.raises(tw.GraphFileError, match="workers: expected pairs of a step and a number"):
        train(network(), resume=path)


def test_places_where_nothing_can_be_written_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"path is 'a\{stp\}'; its fields may be \{step\} and"):
        nn.Checkpoint("a{stp}")
    model = network()
    before = flat(model.parameters)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        train(model, checkpoint=tmp_path / "nowhere" / "run.safetensors", epochs=1)
    with pytest.raises(IsADirectoryError, match=r"is a folder; accepted: the path of a file  \["):
        train(model, checkpoint=tmp_path, epochs=1)
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(flat(model.parameters), before)


def test_losses_that_are_no_numbers_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    x = X.copy()
    x[3] = np.nan

    def run(**options: Any) -> Any:
        return nn.train(
            network(),
            nn.cross_entropy,
            (x, LABELS),
            optim.Adam(0.1),
            2,
            stopping=optim.Early(9),
            **options,
        )

    with pytest.warns(RuntimeWarning, match="the loss of step 1 is nan"):
        run(checkpoint=path)
    resumed = run(resume=path)
    assert len(resumed.loss) == 2
    assert np.isnan(resumed.loss).all()
