"""Training is the plain loop for every choice there is: parts of optimisers, losses, mixtures."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from optimiser_oracle import DIRECTIONS, OPTIMISERS, RATES
from tawny import nn, optim
from training_loop import Slopes, flat, loop

DATA = np.random.default_rng(5)
X, Y = DATA.normal(size=(10, 3)), DATA.normal(size=(10, 2))
SEED = 4


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(3, 3, activation="tanh", dtype="float64"), nn.Linear(3, 2, dtype="float64")
    ).initialise(2)


def check_is_the_plain_loop(loss: Any, y: Any, rule: Any, rtol: float) -> None:
    """Two epochs of two batches, the second one smaller."""
    cut = optim.Mini(6)
    batches = [(X[r], y[r]) for epoch in range(2) for r in cut.rows(10, epoch, SEED)]
    expected = loop(Slopes(network(), loss, SEED), rule, batches)
    model, steps = network(), list[np.ndarray]()
    history = nn.train(
        model,
        loss,
        (X, y),
        rule,
        2,
        batch=cut,
        seed=SEED,
        callbacks=[lambda now: now.event == "batch" and steps.append(flat(now.parameters))],
    )
    np.testing.assert_allclose(history.batch_loss, [value for value, _, _ in expected], rtol=rtol)
    np.testing.assert_allclose(steps, [w for _, w, _ in expected], rtol=rtol, atol=1e-9)
    np.testing.assert_array_equal(flat(model.parameters), steps[-1])


# ------------------------------------------------------------------ optimisers

KINDS = {
    "rate": optim.Rate,
    "gradient": optim.Direction,
    "momentum": optim.Inertia,
    "regularisation": optim.Regularisation,
    "clipping": optim.Clipping,
}


@pytest.mark.parametrize("part", KINDS)
def test_every_choice_of_a_part_is_among_the_optimisers_that_are_tested(part: str) -> None:
    offered = {
        kind
        for kind in map(optim.__dict__.get, optim.__all__)
        if inspect.isclass(kind) and issubclass(kind, KINDS[part]) and not inspect.isabstract(kind)
    }
    assert offered
    assert offered == {type(getattr(r.parts(), part)) for r in OPTIMISERS.values()} - {type(None)}


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    rate=st.sampled_from(sorted(RATES)),
    direction=st.sampled_from(["GD", "CD", "NonlinearCG"]),
    momentum=st.sampled_from([None, optim.Momentum(0.5), optim.Nesterov(0.3)]),
    regularisation=st.sampled_from([None, optim.L1(0.05), optim.ElasticNet(0.02, 0.1)]),
    clipping=st.sampled_from([None, optim.ClipValue(0.2), optim.ClipNorm(0.3, each=True)]),
)
def test_mixtures(rate, direction, momentum, regularisation, clipping) -> None:
    rule = optim.Optimiser(RATES[rate], DIRECTIONS[direction], momentum, regularisation, clipping)
    check_is_the_plain_loop(nn.quadratic, Y, rule, 1e-6)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_is_resumed_bit_by_bit(name: str, tmp_path: Path) -> None:
    def run(model: Any, **options: Any) -> Any:
        history = nn.train(
            model, nn.quadratic, (X, Y), OPTIMISERS[name], 4, batch=optim.Full(), **options
        )
        return history.batch_loss, history.rate, flat(model.parameters).tolist()

    def layer(seed: int) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 2, dtype="float64")).initialise(seed)

    path = tmp_path / "run.safetensors"
    whole = run(layer(2))
    run(layer(2), checkpoint=path, steps=2)
    assert run(layer(3), resume=path) == whole


# ---------------------------------------------------------------------- losses

TARGETS: dict[str, Any] = {
    "hinge": np.sign(Y),
    "squared_hinge": np.sign(Y),
    "cross_entropy": (Y[:, 0] > 0).astype(int),
    "binary_cross_entropy": (Y > 0).astype(float),
}


def own(prediction: Any, target: Any) -> Any:
    """A loss somebody may write."""
    return tnp.mean(tnp.logaddexp(prediction - target, target - prediction))


@pytest.mark.parametrize("name", [*nn.losses.__all__, "own"])
def test_every_loss(name: str) -> None:
    loss = own if name == "own" else getattr(nn, name)
    check_is_the_plain_loop(loss, TARGETS.get(name, Y), optim.AdaGrad(0.05), 1e-8)


# ---------------------------------------------------------------- Owl's choices

OWL = {
    "Batch": ("Full Mini Sample Stochastic", optim.Batches),
    "Learning_Rate": ("Adagrad Const Decay Exp_decay RMSprop Adam Schedule", optim.Rate),
    "Gradient": ("GD CG CD NonlinearCG DaiYuanCG NewtonCG Newton", optim.Direction),
    "Momentum": ("Standard Nesterov", optim.Inertia),
    "Regularisation": ("L1norm L2norm Elastic_net", optim.Regularisation),
    "Clipping": ("L2norm Value", optim.Clipping),
    "Stopping": ("Const Early", optim.Stopping),
    "Checkpoint": ("Batch Epoch Custom", nn.Checkpoint),
    "Loss": ("Hinge L1norm L2norm Quadratic Cross_entropy Custom", object),
}
"""What each setting of Owl's can be, and of what kind its counterpart is."""


@pytest.mark.parametrize("setting", OWL)
def test_each_choice_of_owl_has_its_counterpart_and_the_page_says_which(setting: str) -> None:
    page = (Path(__file__).parent.parent / "docs" / "training.md").read_text()
    rows = dict(re.findall(rf"^\| `{setting}\.(\w+)[^`]*` \| `([^`]+)`", page, re.MULTILINE))
    choices, kind = OWL[setting]
    assert sorted(rows) == sorted(choices.split())
    numbers = {"a": 0.1, "k": 0.5, "b1": 0.9, "b2": 0.99, "n": 3, "rates": [0.1, 0.2], "path": "p"}
    for name, text in rows.items():
        made = eval(text, {"optim": optim, "nn": nn, "f": own, **numbers})
        assert isinstance(made, kind), name
        assert setting != "Loss" or callable(made), name


# ------------------------------------------------------------ engines, budgets

RUNS: dict[str, Any] = {
    "train": lambda **o: nn.train(network(), nn.quadratic, (X, Y), optim.Adam(), **o),
    "evaluate": lambda **o: nn.evaluate(network(), nn.quadratic, (X, Y), **o),
    "predict": lambda **o: nn.predict(network(), X, **o),
}


@pytest.mark.parametrize("name", RUNS)
def test_engine_and_budget_are_those_that_are_told(name: str) -> None:
    with pytest.raises(ValueError, match="engine 'abacus' is not known"):
        RUNS[name](engine="abacus")
    with pytest.raises(tw.MemoryBudgetError):
        RUNS[name](memory=1)
    RUNS[name](engine="reference")


def test_validation_stays_within_the_budget_too() -> None:
    """It is refused before the first step where a step would fit."""
    x, y = np.ones((1000, 3)), np.ones((1000, 2))
    step = nn.train(network(), nn.quadratic, (X, Y), optim.Adam(), batch=2).program
    assert step is not None
    with pytest.raises(tw.MemoryBudgetError):
        nn.train(
            network(), nn.quadratic, (X, Y), optim.Adam(), batch=2, validation=(x, y),
            memory=step.plan.peak_bytes,
        )  # fmt: skip
