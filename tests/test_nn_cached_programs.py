"""Predictions and evaluations of one model again and again: programs are cached, never stale."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim
from tawny.array import Array
from tawny.graph.graph import Graph
from tawny.nn.training import programs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10, 6)).astype("float32")
LABELS = RNG.integers(0, 3, 10)


class Net(nn.Module):
    """A model whose forward depends on more than its parameters."""

    def __init__(self) -> None:
        self.hidden = nn.Linear(6, 5, activation="tanh")
        self.norm = nn.BatchNorm(5)
        self.out = nn.Linear(5, 3)
        self.scale = 1.0
        self.named = False

    def forward(self, x: Array) -> Any:
        y = self.out(self.norm(self.hidden(x))) * self.scale
        return {"scores": y} if self.named else y


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs that were compiled."""
    seen: list[Graph] = []
    plain = Graph.compile

    def watched(self: Graph, *args: Any, **options: Any) -> Any:
        seen.append(self)
        return plain(self, *args, **options)

    monkeypatch.setattr(Graph, "compile", watched)
    return seen


def test_programs_are_kept(engine: str, compiled: list[Graph]) -> None:
    model = Net()
    first = nn.predict(model, X, batch=4, engine=engine)
    assert len(compiled) == 2, "one program for 4 rows, one for the last 2"
    for _ in range(3):
        np.testing.assert_array_equal(nn.predict(model, X, batch=4, engine=engine), first)
    assert len(compiled) == 2
    found = nn.evaluate(model, nn.cross_entropy, (X, LABELS), engine=engine)
    assert nn.evaluate(model, nn.cross_entropy, (X, LABELS), engine=engine) == found
    assert len(compiled) == 3
    np.testing.assert_array_equal(nn.predict(model, X, batch=4, engine=engine), first)
    assert len(compiled) == 3


def test_asking_for_values_compiles_nothing(compiled: list[Graph]) -> None:
    model = Net()
    for _ in range(3):
        model(X).numpy()
    assert compiled == []


def _loss(prediction: Any, target: Any) -> Any:
    scores = prediction["scores"] if isinstance(prediction, dict) else prediction
    return nn.cross_entropy(scores, target)


def _train(model: Net) -> None:
    model.unfreeze()
    nn.train(model, _loss, (X, LABELS), optimiser=optim.SGD(0.1), epochs=1, batch=5)


def _assign(model: Net) -> None:
    model.out.weight = model.out.weight.numpy() * 1.5


def _rescale(model: Net) -> None:
    model.scale = model.scale + 1.0


def _restate(model: Net) -> None:
    model.norm.mean = model.norm.mean.numpy() + 0.25


def _rename(model: Net) -> None:
    model.named = not model.named


def _replace(model: Net) -> None:
    model.hidden = nn.Linear(6, 5, activation="relu")


CHANGES: tuple[Callable[[Net], object], ...] = (
    _train,
    _assign,
    _rescale,
    _restate,
    _rename,
    _replace,
    Net.freeze,
    Net.unfreeze,
    lambda model: model.initialise(3),
    lambda model: None,
)


@pytest.mark.parametrize("seed", range(4))
def test_no_prediction_is_stale(seed: int) -> None:
    """After any changes a model predicts what a copy does that never predicted before."""
    random = Random(seed)
    model = Net()
    for _ in range(10):
        random.choice(CHANGES)(model)
        rows = random.choice((10, 3))
        got, want = (nn.predict(m, X[:rows], batch=4) for m in (model, copy.deepcopy(model)))
        assert type(got) is type(want)
        arrays = (got["scores"], want["scores"]) if isinstance(got, dict) else (got, want)
        np.testing.assert_array_equal(*arrays)
        judged = [nn.evaluate(m, _loss, (X, LABELS)) for m in (model, copy.deepcopy(model))]
        assert judged[0] == judged[1]


def test_few_are_kept_and_none_outlives_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()
    for rows in range(1, 11):
        nn.predict(model, X[:rows])
    cached = programs.cached_programs(model)
    assert len(cached) == programs.MAX_PROGRAMS
    monkeypatch.setattr(programs, "MAX_BYTES", cached[-1].plan.peak_bytes)
    nn.predict(model, X[:3])
    assert len(programs.cached_programs(model)) == 1
    monkeypatch.setattr(programs, "MAX_BYTES", 0)
    nn.predict(model, X[:4])
    assert programs.cached_programs(model) == []
    monkeypatch.undo()
    nn.predict(model, X)
    ghosts = [weakref.ref(model), weakref.ref(programs.cached_programs(model)[0])]
    del model, cached
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None]


def test_wrong_targets_are_refused_each_time() -> None:
    model = Net()
    for labels in (LABELS, LABELS + 2, LABELS):
        if labels is LABELS:
            nn.evaluate(model, nn.cross_entropy, (X, labels))
        else:
            with pytest.raises(ValueError, match="class"):
                nn.evaluate(model, nn.cross_entropy, (X, labels))


def test_threads_share_programs() -> None:
    """Each gets the rows it asked for."""
    model = Net()
    inputs = [X * k for k in range(1, 9)]
    alone = [nn.predict(copy.deepcopy(model), x) for x in inputs]

    def asked(number: int) -> tuple[Any, float]:
        x = inputs[number % 8]
        data = x, LABELS
        return nn.predict(model, x), nn.evaluate(model, nn.cross_entropy, data)["loss"]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(asked, range(40)))
    for number, (got, loss) in enumerate(found):
        np.testing.assert_array_equal(got, alone[number % 8])
        assert loss == found[number % 8][1]


def test_draws_are_made_anew() -> None:
    """A model with chance in it compiles anew, since it draws other numbers."""

    class Noisy(nn.Module):
        def forward(self, x: Array) -> Array:
            return x + tw.random.normal(shape=x.shape)

    model = Noisy()
    one, other = nn.predict(model, X), nn.predict(model, X)
    assert np.any(one != other)
    assert tnp.all(tnp.isfinite(tnp.asarray(one)))
