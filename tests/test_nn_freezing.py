"""Frozen parameters: kept as they are, whatever trains the rest."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

import tawny as tw
from tawny import nn, optim
from tawny.tree import leaf_paths, leaves

RNG = np.random.default_rng(0)
X = RNG.standard_normal((11, 4)).astype("float32")
Y = RNG.standard_normal((11, 2)).astype("float32")


def network() -> nn.Sequential:
    trunk = nn.Sequential(nn.Linear(4, 3, activation="tanh"), nn.BatchNorm(3))
    return nn.Sequential(trunk, nn.Linear(3, 2)).initialise(1)


def names(structure: object) -> list[str]:
    return [path for path, _ in leaf_paths(structure)]


def test_frozen_parameters_are_among_the_state() -> None:
    model = network()
    assert model[0].freeze() is model[0]
    assert names(model.parameters) == ["1.weight", "1.bias"]
    assert names(model.state) == [
        "0.0.weight", "0.0.bias", "0.1.scale", "0.1.shift", "0.1.mean", "0.1.variance",
    ]  # fmt: skip
    assert model.parameter_count == model.summary((1, 4)).parameters == 8
    slopes = tw.grad(lambda p: nn.quadratic(model.apply(p, X), Y))(model.parameters)
    assert names(slopes) == ["1.weight", "1.bias"]
    model.unfreeze()
    assert names(model.parameters) == names(network().parameters)
    assert names(model.state) == ["0.1.mean", "0.1.variance"]


@pytest.mark.parametrize(
    "rule",
    [
        optim.AdamW(0.1, decay=0.5),
        optim.Optimiser(optim.Constant(0.1), momentum=0.9, regularisation=optim.L2(0.1)),
        optim.Optimiser(optim.Adam(0.1), optim.NewtonCG(), clipping=optim.ClipNorm(0.1)),
    ],
    ids=repr,
)
def test_training_changes_the_rest_as_if_nothing_else_were_there(rule) -> None:
    model = network()
    model[0].freeze()
    before = copy.deepcopy(model)
    nn.train(model, nn.quadratic, (X, Y), rule, epochs=3, batch=4)
    frozen = ("weight", "bias")
    np.testing.assert_equal(
        [model.state[0][0][n] for n in frozen], [before.state[0][0][n] for n in frozen]
    )
    assert not np.array_equal(model.parameters[1]["weight"], before.parameters[1]["weight"])
    assert np.any(model.state[0][1]["mean"] != 0)  # statistics go on

    alone = before[1]  # the head by itself, fed with what the trunk makes of each batch
    state, batches = before.state[0], []
    for epoch in range(3):
        for rows in optim.Mini(4).rows(len(X), epoch, 0):
            fed, state = before[0].advance({}, state, X[rows])
            batches.append((fed.numpy(), Y[rows]))
    nn.train(alone, nn.quadratic, batches, rule)
    np.testing.assert_allclose(
        alone.parameters["weight"], model.parameters[1]["weight"], rtol=1e-4, atol=1e-5
    )


def test_a_model_frozen_whole_has_nothing_to_train() -> None:
    with pytest.raises(
        TypeError, match="Sequential has no parameter that is not frozen: there is nothing to train"
    ):
        nn.train(network().freeze(), nn.quadratic, (X, Y), optim.Adam())


def test_freezing_is_seen_by_ties_and_copies_and_by_no_file(tmp_path: Path) -> None:
    model = network()
    tied = nn.Linear(3, 2)
    tied.weight = model[1].declaration("weight")
    tied.freeze()
    assert names(model.parameters)[-1:] == ["1.bias"]
    assert names(copy.deepcopy(model).parameters)[-1:] == ["1.bias"]
    model.save(tmp_path / "model.safetensors")
    other = network().initialise(9).load(tmp_path / "model.safetensors")
    assert all(
        np.array_equal(a, b)
        for a, b in zip(leaves(model.unfreeze().parameters), leaves(other.parameters), strict=True)
    )


def test_a_frozen_parameter_can_be_given_a_value_but_not_in_a_call() -> None:
    class Changing(nn.Module):
        def __init__(self):
            self.scale = nn.Parameter((2,), 1.0)

        def forward(self, x):
            if self.training:
                self.scale = self.scale * 2
            return x * self.scale

    model = Changing().freeze()
    model.scale = np.array([3.0, 4.0])
    np.testing.assert_array_equal(model(np.ones(2)).numpy(), [3, 4])
    with pytest.raises(ValueError, match="a parameter cannot change in a call"):
        model.advance({}, model.state, np.ones(2))
