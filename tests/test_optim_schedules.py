"""Rates by step and by loss against their formulas; steps from given gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim
from tawny.optim.composition import Steps
from tawny.tree import leaves

SCHEDULES: dict[str, tuple[Any, Any]] = {
    "cosine": (
        optim.Cosine(0.2, 10, end=0.02),
        lambda i: 0.02 + 0.18 * (1 + math.cos(math.pi * min(i, 10) / 10)) / 2,
    ),
    "warm_up": (optim.WarmUp(0.3, 4), lambda i: 0.3 * min((i + 1) / 4, 1)),
    "warm_up_cosine": (
        optim.WarmUp(optim.Cosine(0.3, 5), 4),
        lambda i: 0.3 * (i + 1) / 4
        if i < 4
        else 0.15 * (1 + math.cos(math.pi * min(i - 4, 5) / 5)),
    ),
    "adam_warm_up": (optim.Adam(optim.WarmUp(optim.Decay(0.3, 0.5), 2)),
        lambda i: 0.15 if i == 0 else 0.3 / (1 + 0.5 * max(i - 2, 0))),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_their_formulas(name: str) -> None:
    rule, formula = SCHEDULES[name]
    parameters, state = np.ones(3), rule.start(np.ones(3))
    for i in range(14):
        assert float(rule.rate_of(state)) == pytest.approx(formula(i), rel=1e-12)
        _, parameters, state = rule.step(lambda x: tnp.sum(x * x), parameters, state)


def plateau(losses: list[float], rate: float, rule: optim.Plateau) -> list[float]:
    """The rates of the steps with these losses, in plain Python."""
    best, waited, scale, seen, rates = math.inf, 0, 1.0, list[float](), list[float]()
    for loss in losses:
        rates.append(max(rate * scale, rule.least))
        seen.append(loss)
        if len(seen) < rule.every:
            continue
        mean, seen = sum(seen) / len(seen), []
        if mean < best - rule.margin:
            best, waited = mean, 0
        else:
            waited += 1
            if waited >= rule.patience:
                scale, waited = scale * rule.factor, 0
    return rates


@pytest.mark.parametrize(
    "rule",
    [
        optim.Plateau(0.5, patience=2),
        optim.Plateau(0.5, factor=0.5, patience=1, every=3, margin=0.05),
        optim.Plateau(0.5, factor=0.5, patience=1, least=0.2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("wrap", [lambda r: r, optim.Adam, lambda r: optim.WarmUp(r, 1)])
def test_plateaus_lower_the_rate(rule: optim.Plateau, wrap: Any, engine: str) -> None:
    """The loss is what the function says, whatever the parameters do."""
    losses = [3.0, 2.0, 2.5, 2.0, 1.0, math.nan, 1.0, 1.0, 0.9, 0.9, 0.9, 0.95, 0.8, 0.8, 0.8, 1.0]
    optimiser: Steps = wrap(rule)
    loss = tw.var("loss")
    state = {"x": np.zeros(()), "state": optimiser.start(np.zeros(()))}
    variables = {path: tw.var(path, shape=v.shape, dtype=v.dtype) for path, v in _flat(state)}
    held = _like(state, variables)
    made = optimiser.advance(lambda x: loss + 0.0 * x, held["x"], held["state"])
    sources = dict(_flat({"x": made.parameters, "state": made.state}))
    graph = tw.Graph(
        [loss], [tnp.asarray(made.rate)], {variables[p]: tnp.asarray(s) for p, s in sources.items()}
    )
    program = graph.compile(engine)
    program.set(**dict(_flat(state)))
    found = [float(program(loss=np.float64(value))[0]) for value in losses]
    np.testing.assert_allclose(found, plateau(losses, rule.rate, rule), rtol=1e-12)


def _flat(structure: Any, prefix: str = "p") -> list[tuple[str, Any]]:
    if isinstance(structure, dict):
        return [pair for k, v in structure.items() for pair in _flat(v, f"{prefix}_{k}")]
    return [(prefix, structure)]


def _like(structure: Any, values: dict[str, Any], prefix: str = "p") -> Any:
    if isinstance(structure, dict):
        return {k: _like(v, values, f"{prefix}_{k}") for k, v in structure.items()}
    return values[prefix]


def test_training_with_a_plateau_goes_on_from_a_file(tmp_path: Any) -> None:
    """What it remembers of losses is part of the checkpoint."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(24, 3)).astype("float32"), rng.normal(size=(24, 1)).astype("float32")
    rule = optim.Adam(optim.Plateau(0.5, factor=0.5, patience=1, every=2))
    path = tmp_path / "run.safetensors"

    def trained(steps: int | None, **options: Any) -> tuple[nn.Module, Any]:
        model = nn.Linear(3, 1)
        return model, nn.train(
            model, nn.quadratic, data, rule, epochs=6, batch=6, steps=steps, **options
        )

    whole, history = trained(None)
    trained(9, checkpoint=nn.Checkpoint(path, every=9))
    resumed, again = trained(None, resume=path)
    assert history.rate == again.rate
    assert len(set(history.rate)) > 2
    np.testing.assert_array_equal(whole.parameters["weight"], resumed.parameters["weight"])
    loaded = nn.Linear(3, 1).load(path)
    assert np.any(loaded.parameters["weight"] != nn.Linear(3, 1).parameters["weight"])


# ------------------------------------------------------------- given gradients

RULES: dict[str, Steps] = {
    "adam": optim.Adam(0.1),
    "adamw": optim.AdamW(optim.Cosine(0.1, 5)),
    "momentum": optim.SGD(0.1, momentum=0.9),
    "nesterov": optim.SGD(0.1, momentum=0.9, nesterov=True),
    "conjugate": optim.Optimiser(0.05, optim.CG()),
    "everything": optim.Optimiser(
        optim.RMSprop(0.1), momentum=0.5, regularisation=optim.ElasticNet(0.1, 0.2),
        clipping=optim.ClipNorm(1.0),
    ),
    "plateau": optim.SGD(optim.Plateau(0.1, patience=1)),
}  # fmt: skip
START = {"a": np.array([1.0, -2.0]), "b": [np.array(0.5)]}


def bowl(p: Any) -> Any:
    return tnp.sum(p["a"] ** 4) + tnp.sum(p["a"]) * p["b"][0] + p["b"][0] ** 2


@pytest.mark.parametrize("name", RULES)
def test_given_gradients_make_the_same_steps(name: str) -> None:
    rule = RULES[name]
    ours = theirs = START
    state = other = rule.start(START)
    for _ in range(4):
        gradients = tw.grad(bowl)(ours)
        ours, state = rule.apply(gradients, ours, state, value=bowl(ours))
        _, theirs, other = rule.step(bowl, theirs, other)
        for got, want in zip(leaves((ours, state)), leaves((theirs, other)), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)


def test_gradients_of_other_dtypes_are_fitted() -> None:
    weights = {"a": np.ones(2, "float32")}
    rule = optim.SGD(0.5)
    moved, _ = rule.apply({"a": np.ones(2)}, weights, rule.start(weights))
    assert moved["a"].dtype == np.float32
    np.testing.assert_array_equal(moved["a"].numpy(), 0.5)


WRONG: dict[str, tuple[Any, Any, str]] = {
    "shape": (optim.SGD(), {"a": np.ones(3), "b": [np.array(0.5)]}, r"x\.a has shape \(3,\); it must be \(2,\)"),
    "missing": (optim.SGD(), {"a": np.ones(2)}, r"x\.b\.0 is missing"),
    "more": (optim.SGD(), {**START, "c": np.ones(2)}, r"x\.c is not expected"),
    "integers": (optim.SGD(), {"a": np.ones(2, int), "b": [np.array(0.5)]}, r"x\.a is int64; accepted: real"),
    "newton": (optim.Optimiser(1.0, optim.Newton()), START, r"Newton needs the function.* step\("),
    "value": (optim.SGD(optim.Plateau()), START, r"follows the loss; give value=loss"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_gradients_that_do_not_fit_are_refused(name: str) -> None:
    rule, gradients, message = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=message):
        rule.apply(gradients, START, rule.start(START))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.Cosine(0.1, 0), "steps is 0; it must be at least 1"),
        (lambda: optim.Cosine(-0.1, 3), "rate is -0.1"),
        (lambda: optim.WarmUp(optim.Adam(), 3), "rate is Adam; accepted: a number or a rate by step"),
        (lambda: optim.Plateau(factor=1.0), "factor is 1.0; it must be less than 1"),
        (lambda: optim.Plateau(patience=0), "patience is 0"),
    ],
)  # fmt: skip
def test_schedules_refuse_what_cannot_be(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


# --------------------------------------------------- inference while others train


def test_parts_in_inference_while_the_rest_trains() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(2.0, 3.0, size=(20, 4)).astype("float32"), rng.normal(size=(20, 1))

    def network() -> nn.Sequential:
        trunk = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm(3), nn.Dropout(0.5))
        return nn.Sequential(trunk, nn.BatchNorm(3), nn.Linear(3, 1))

    model = network()
    assert model[0].use_inference() is model[0]
    x = data[0][:5]
    trained, state = model.advance(model.parameters, model.state, x)
    np.testing.assert_array_equal(np.asarray(state[0][1]["mean"]), 0)
    assert np.any(np.asarray(state[1]["mean"]))
    again, _ = model.advance(model.parameters, model.state, x)
    np.testing.assert_array_equal(trained.numpy(), again.numpy())
    before = model.parameters[0][1]["scale"].copy()
    nn.train(model, nn.quadratic, data, optim.SGD(0.01), epochs=2, batch=5)
    np.testing.assert_array_equal(model.state[0][1]["mean"], 0)
    np.testing.assert_array_equal(model.state[0][1]["variance"], 1)
    assert np.any(model.state[1]["mean"])
    assert np.any(model.parameters[0][1]["scale"] != before), "what is not frozen learns"
    model.use_inference(False)
    _, state = model.advance(model.parameters, model.state, x)
    assert np.any(np.asarray(state[0][1]["mean"]))
    with pytest.raises(TypeError, match="on is 1; accepted: True and False"):
        model.use_inference(1)  # type: ignore[arg-type]


def test_checkpoints_are_loaded_by_models(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(8, 4)).astype("float32"), rng.normal(size=(8, 1)).astype("float32")
    path = tmp_path / "run.safetensors"

    def network() -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm(3), nn.Linear(3, 1))

    model = network()
    model[0].freeze()
    nn.train(model, nn.quadratic, data, optim.Adam(0.1), epochs=2, batch=4, checkpoint=path)
    other = network().initialise(9).load(path)
    np.testing.assert_array_equal(nn.predict(other, data[0]), nn.predict(model, data[0]))
    with pytest.raises(ValueError, match="the weights do not fit Linear"):
        nn.Linear(4, 3).load(path)
