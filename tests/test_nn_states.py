"""What a model keeps from call to call: updated in order, in training only, never cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim

X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
Y = X @ np.array([[1.0], [-2.0], [0.5]], "float32")


def loss(prediction: Any, target: Any) -> Any:
    return tnp.mean((prediction - target) ** 2)


class Watched(nn.Module):
    """A layer whose states depend on each other, on the input, and on what they were before."""

    def __init__(self) -> None:
        self.linear = nn.Linear(3, 1)
        self.calls = nn.State((), dtype="int32")
        self.mean = nn.State((3,))
        self.last = nn.State((3,))
        self.fixed = nn.State((2,), nn.init.ones())

    def forward(self, x: Any) -> Any:
        if self.training:
            self.last = self.mean  # the value before this call
            self.mean = 0.5 * self.mean + 0.5 * tnp.mean(x, axis=0)
            self.mean = self.mean + 1.0  # read back as it was assigned
            self.calls = self.calls + 1
        return self.linear(x) + 0.0 * tnp.sum(self.mean)


def expected(batches: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The same in NumPy."""
    mean = last = np.zeros(3, "float32")
    for x in batches:
        last, mean = mean, np.float32(0.5) * mean + np.float32(0.5) * x.mean(axis=0) + 1
    return {"calls": np.array(len(batches)), "mean": mean, "last": last, "fixed": np.ones(2)}


def assert_states(state: dict[str, Any], wanted: dict[str, np.ndarray]) -> None:
    assert list(state) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(np.asarray(state[name]), value, rtol=1e-5, err_msg=name)
    assert np.asarray(state["calls"]).dtype == np.int32


def test_training_updates_states_once_a_step_in_order(engine: str) -> None:
    model = Watched()
    cut = optim.Mini(4, shuffle=False)
    nn.train(model, loss, (X, Y), optim.SGD(0.01), 2, batch=cut, engine=engine, progress=False)
    batches = [X[i : i + 4] for i in (0, 4, 8)] * 2
    assert_states(model.state, expected(batches))


def test_advance_gives_new_states_and_changes_none() -> None:
    model = Watched()
    state: Any = model.state
    for done in range(3):
        assert_states(state, expected([X] * done))
        _, state = model.advance(model.parameters, state, X)
        state = {name: tw.evaluate(value) for name, value in state.items()}
    assert_states(model.state, expected([]))


def test_states_are_update_edges_of_a_program(engine: str) -> None:
    model = Watched()
    x = tw.var("x", X.shape, dtype="float32")
    own = {n: tw.var(n, v.shape, v.dtype) for n, v in model.state.items()}
    y, new = model.advance(model.parameters, own, x)
    updates = {own[n]: new[n] for n in own if new[n] is not own[n]}
    program = tw.Graph([x], tnp.sum(y), updates=updates).compile(engine=engine)
    program.set(**{n: v for n, v in model.state.items() if n in {u.name for u in updates}})
    order = [X, X[::-1].copy() * 2, X + 1]
    for batch in order:
        program(batch)
    program.run(steps=2)  # again with the input of the last call
    wanted = expected([*order, order[-1], order[-1]])
    for name in ("calls", "mean", "last"):
        np.testing.assert_allclose(program.state[name], wanted[name], rtol=1e-5)


def test_calls_outside_of_training_leave_states_alone() -> None:
    model = Watched()
    model(X).numpy()
    nn.predict(model, X)
    nn.evaluate(model, loss, (X, Y))
    assert_states(model.state, expected([]))


def test_a_state_changes_in_training_only() -> None:
    class Always(nn.Module):
        def __init__(self) -> None:
            self.calls = nn.State(())

        def forward(self, x: Any) -> Any:
            self.calls = self.calls + 1
            return x

    with pytest.raises(ValueError, match=r"calls.*in training only; ask self\.training"):
        Always()(X)


# ------------------------------------------------------------------ values that do not fit


class Counter(nn.Module):
    def __init__(self) -> None:
        self.count = nn.State((2,), dtype="int8")
        self.flag = nn.State((), dtype="bool")

    def forward(self, x: Any) -> Any:
        if self.training:
            self.count = self.count + x
        return x


GOOD = {"count": np.array([1, -128]), "flag": np.array(True)}
BAD = {
    "too large": ({"count": np.array([1, 128])}, OverflowError, r"128.*int8"),
    "too small": ({"count": np.array([-129, 0])}, OverflowError, r"-129.*int8"),
    "unsigned": ({"count": np.array([1, 255], "uint8")}, OverflowError, r"255.*int8"),
    "floats": ({"count": np.array([1.0, 2.0])}, ValueError, r"count has dtype float64.*int8"),
    "a number as truth": ({"flag": np.array(1)}, ValueError, r"flag has dtype int64.*bool"),
}


@pytest.mark.parametrize("name", BAD)
def test_values_that_a_state_cannot_hold_are_refused(name: str, tmp_path: Path) -> None:
    given, error, why = BAD[name]
    model = Counter()
    model.state = GOOD
    with pytest.raises(error, match=why):
        model.state = {**GOOD, **given}
    ((own, value),) = given.items()
    with pytest.raises(error, match=why):
        setattr(model, own, value)
    path = tmp_path / "weights.safetensors"
    tw.save_arrays(path, {**GOOD, **given})
    with pytest.raises(error, match=why):
        model.load(path)
    assert {n: v.tolist() for n, v in model.state.items()} == {"count": [1, -128], "flag": True}


def test_values_that_fit_are_taken_from_wider_integers(tmp_path: Path) -> None:
    model = Counter()
    path = tmp_path / "weights.safetensors"
    tw.save_arrays(path, GOOD)
    model.load(path)
    assert model.state["count"].dtype == np.int8
    assert model.state["count"].tolist() == [1, -128]


def test_a_new_state_of_another_kind_is_refused() -> None:
    model = Counter()
    with pytest.raises(TypeError, match=r"count.*dtype float64; it must be like int8.*astype"):
        model.advance({}, model.state, np.array([0.5, 0.5]))
    _, state = model.advance({}, model.state, np.array([1, 2]))
    assert state["count"].dtype == np.int8
