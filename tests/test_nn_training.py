"""Training as one graph equals a plain loop, step by step; and what surrounds it."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from optimiser_oracle import OPTIMISERS
from tawny import nn, optim
from tawny.files import safetensors
from tawny.nn.checks import ClassIndices
from tawny.node import toposort
from tawny.tree import leaves, map_leaves
from training_loop import Slopes, flat, loop

DATA = np.random.default_rng(1)
X = DATA.normal(size=(22, 3))
LABELS = DATA.integers(0, 2, 22)
Y = DATA.normal(size=(22, 2))
SEED = 7
DATA_LETTERS = (DATA.integers(0, 5, (40, 1)) + np.arange(6)) % 5


def network(dtype: str = "float64") -> Any:
    """All that differs between training and inference, in one small model."""
    return nn.Sequential(
        nn.Linear(3, 4, activation="tanh", dtype=dtype),
        nn.BatchNorm(4, dtype=dtype),
        nn.Dropout(0.25),
        nn.Linear(4, 2, dtype=dtype),
    ).initialise(3)


def plain() -> Any:
    return nn.Sequential(nn.Linear(3, 2, dtype="float64")).initialise(3)


def recorded(model: Any, *args: Any, **options: Any) -> tuple[Any, list[tuple[float, np.ndarray]]]:
    """The history of a training, and loss and parameters after each step."""
    steps: list[tuple[float, np.ndarray]] = []

    def record(now: Any) -> None:
        if now.event == "batch":
            steps.append((now.loss, flat(now.parameters)))

    history = nn.train(model, *args, callbacks=[record, *options.pop("callbacks", ())], **options)
    return history, steps


def batches_of(x: Any, y: Any, cut: Any, epochs: int, seed: int = SEED) -> list[tuple[Any, Any]]:
    return [(x[r], y[r]) for e in range(epochs) for r in cut.rows(len(x), e, seed)]


SLOPES: dict[str, Slopes] = {}


def slopes_for(kind: str) -> Slopes:
    if kind not in SLOPES:
        made = (network(), nn.cross_entropy) if kind == "network" else (plain(), nn.quadratic)
        SLOPES[kind] = Slopes(*made, SEED)
    return SLOPES[kind]


# ---------------------------------------------------------------- step by step


@pytest.mark.parametrize("name", OPTIMISERS)
def test_compiled_training_is_the_plain_loop(name: str) -> None:
    """Shuffled batches with a smaller last one, batch norm's statistics, dropout's draws."""
    rule = OPTIMISERS[name]
    newton = type(getattr(rule, "gradient", None)).__name__ == "Newton"  # needs a regular Hessian
    kind = "plain" if newton else "network"
    slopes, y = slopes_for(kind), Y if newton else LABELS
    model = plain() if newton else network()
    expected = loop(slopes, rule, batches_of(X, y, optim.Mini(8), 2))
    history, got = recorded(model, slopes.loss, (X, y), rule, epochs=2, batch=8, seed=SEED)
    assert len(got) == len(expected) == history.steps == 6
    for (loss, w), (their_loss, theirs, _) in zip(got, expected, strict=True):
        assert loss == pytest.approx(their_loss, rel=1e-8)
        np.testing.assert_allclose(w, theirs, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(flat(model.parameters), expected[-1][1], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(flat(model.state), flat(expected[-1][2]), rtol=1e-8)


@pytest.mark.parametrize(
    "cut",
    [
        optim.Full(),
        optim.Mini(5),
        optim.Mini(11, shuffle=False),
        optim.Sample(6),
        optim.Stochastic(),
    ],
    ids=str,
)
def test_every_way_to_cut_batches_is_the_plain_loop(cut: Any) -> None:
    model = plain()
    slopes = slopes_for("plain")
    expected = loop(slopes, optim.Adam(0.02), batches_of(X, Y, cut, 2))
    history, got = recorded(
        model, nn.quadratic, (X, Y), optim.Adam(0.02), epochs=2, batch=cut, seed=SEED
    )
    assert history.steps == 2 * cut.count(22)
    np.testing.assert_allclose(
        [w for _, w in got], [w for _, w, _ in expected], rtol=1e-9, atol=1e-12
    )


def test_single_precision_is_the_plain_loop_to_rounding() -> None:
    model = network("float32")
    x = X.astype(np.float32)
    expected = loop(
        Slopes(model, nn.cross_entropy, SEED),
        optim.AdaGrad(0.05),
        batches_of(x, LABELS, optim.Mini(8), 2),
    )
    nn.train(model, nn.cross_entropy, (x, LABELS), optim.AdaGrad(0.05), 2, batch=8, seed=SEED)
    assert all(a.dtype == np.float32 for a in leaves(model.parameters))
    np.testing.assert_allclose(flat(model.parameters), expected[-1][1], rtol=2e-4, atol=1e-5)


def test_a_memory_budget_and_the_engine_change_no_number() -> None:
    def trained(**options: Any) -> tuple[np.ndarray, Any]:
        model = nn.Sequential(*(nn.Linear(16, 16, activation="tanh") for _ in range(6))).initialise(
            1
        )
        x = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)
        history = nn.train(model, nn.quadratic, (x, x), optim.Adam(0.01), batch=64, **options)
        return flat(model.parameters), history

    free, history = trained()
    peak = history.program.plan.peak_bytes
    tight, history = trained(memory=int(peak * 0.8))
    assert history.program.plan.peak_bytes <= int(peak * 0.8)
    np.testing.assert_allclose(tight, free, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trained(engine="reference")[0], free, rtol=1e-4, atol=1e-6)
    with pytest.raises(tw.MemoryBudgetError) as caught:
        trained(memory=10)
    assert caught.value.least_bytes > 10


def test_a_step_is_one_program_with_update_edges_in_place() -> None:
    model = network("float32")
    graph = nn.training_graph(
        model, nn.cross_entropy, (X[:8].astype(np.float32), LABELS[:8]), optim.AdaGrad(0.05)
    )
    updated = {v.name for v in graph.updates}
    assert {"parameters.0.weight", "state.1.mean", "state.1.variance", "optimiser.step"} <= updated
    assert {v.name for v in graph.inputs} == {"x", "y"}
    program = graph.compile(incremental=False)
    assert program.rewrites.counts()["adagrad"] == len(leaves(model.parameters))
    assert [v.name for v in graph.updates if "squares" in v.name]


def test_the_program_of_the_history_shows_the_fused_adagrad() -> None:
    model = network()
    history = nn.train(model, nn.cross_entropy, (X, LABELS), optim.AdaGrad(0.05), batch=8)
    assert history.program.rewrites.counts()["adagrad"] == len(leaves(model.parameters))


# ------------------------------------------------ defects of Owl, one test each


def test_owl_1_dropout_is_off_in_inference() -> None:
    model = network()
    nn.train(model, nn.cross_entropy, (X, LABELS), optim.Adam(0.01), batch=8)
    out = model(tnp.asarray(X))
    assert not [n for n in toposort([out.node]) if n.op.facts().impure]
    first = nn.predict(model, X, batch=8)
    np.testing.assert_array_equal(first, nn.predict(model, X, batch=8))
    np.testing.assert_allclose(first, out.numpy(), rtol=1e-12)
    w = map_leaves(np.asarray, model.parameters)
    s = model.state[1]
    hidden = np.tanh(X @ w[0]["weight"] + w[0]["bias"])
    normal = (hidden - s["mean"]) / np.sqrt(s["variance"] + 1e-5) * w[1]["scale"] + w[1]["shift"]
    np.testing.assert_allclose(first, normal @ w[3]["weight"] + w[3]["bias"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("rate", "formula"),
    [
        (optim.Decay(0.1, 0.5), lambda i: 0.1 / (1 + 0.5 * i)),
        (optim.ExponentialDecay(0.1, 0.5), lambda i: 0.1 * np.exp(-0.5 * i)),
        (optim.Schedule([0.3, 0.2, 0.1]), lambda i: [0.3, 0.2, 0.1, 0.1, 0.1, 0.1][i]),
        (optim.Adam(optim.Decay(0.1, 0.5)), lambda i: 0.1 / (1 + 0.5 * i)),
    ],
    ids=lambda x: str(x)[:20],
)
def test_owl_2_rates_see_the_real_number_of_the_step(rate: Any, formula: Any) -> None:
    history = nn.train(plain(), nn.quadratic, (X, Y), rate, 2, batch=8)
    np.testing.assert_allclose(history.rate, [formula(i) for i in range(6)], rtol=1e-12)


def test_owl_2_adams_correction_follows_the_step() -> None:
    """With a constant slope every corrected step is the rate; a frozen count would not do that."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False, dtype="float64"))
    _, got = recorded(
        model, lambda p, y: tnp.mean(p), (np.ones((4, 1)), np.ones(4)), optim.Adam(0.01), 5, batch=4
    )
    np.testing.assert_allclose(np.diff(np.ravel([w for _, w in got])), -0.01, rtol=1e-6)


def test_owl_3_running_statistics_accumulate() -> None:
    model = nn.Sequential(
        nn.BatchNorm(3, decay=0.8, affine=False, dtype="float64"), nn.Linear(3, 1, dtype="float64")
    )
    nn.train(
        model, nn.quadratic, (X, Y[:, :1]), optim.SGD(0.01), 2, batch=optim.Mini(8, shuffle=False)
    )
    mean, variance = np.zeros(3), np.ones(3)
    for _ in range(2):
        for part in (X[:8], X[8:16], X[16:]):
            mean = 0.8 * mean + 0.2 * part.mean(0)
            variance = 0.8 * variance + 0.2 * part.var(0, ddof=1)
    np.testing.assert_allclose(model.state[0]["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(model.state[0]["variance"], variance, rtol=1e-12)


@pytest.mark.parametrize(
    "kind", [optim.CG, optim.CD, optim.NonlinearCG, optim.DaiYuanCG, optim.NewtonCG, optim.Newton]
)
def test_owl_4_no_extra_update_and_no_nan_at_the_start(kind: Any) -> None:
    model = plain()
    before = flat(model.parameters)
    rule = optim.Optimiser(optim.Constant(0.1), kind())
    history, got = recorded(model, nn.quadratic, (X, Y), rule, 3, batch=optim.Full())
    assert len(got) == history.steps == 3
    z = np.hstack([X, np.ones((22, 1))])
    w = _stacked(model, before)
    slope = 2 * z.T @ (z @ w - Y) / 22
    step = 0.1 * (np.linalg.inv(2 * z.T @ z / 22) @ slope if kind is optim.Newton else slope)
    np.testing.assert_allclose(_stacked(model, got[0][1]), w - step, rtol=1e-9)
    assert np.isfinite([flat(p) for _, p in got]).all()
    assert history.batch_loss[-1] < history.batch_loss[0]


def _stacked(model: Any, vector: np.ndarray) -> np.ndarray:
    assert list(model.parameters[0]) == ["weight", "bias"]
    return np.vstack([vector[:6].reshape(3, 2), vector[6:]])


def test_owl_5_random_batches_are_drawn_from_all_rows() -> None:
    """The loss is the mean of the rows drawn: every step's number tells which they were."""
    x = np.arange(22.0)[:, None]
    for cut in (optim.Sample(4), optim.Stochastic()):
        model = nn.Sequential(nn.Linear(1, 1, dtype="float64", bias=False))
        history = nn.train(
            model,
            lambda p, y: tnp.mean(y) + 0 * tnp.sum(p),
            (x, x[:, 0]),
            optim.Constant(0.1),
            3,
            batch=cut,
            seed=2,
        )
        rows = [cut.rows(22, e, 2) for e in range(3)]
        np.testing.assert_allclose(
            history.batch_loss, [x[r].mean() for e in rows for r in e], rtol=1e-12
        )
        assert len(set(history.batch_loss)) > 5


def test_owl_6_a_checkpoint_is_a_file(tmp_path: Any) -> None:
    path = tmp_path / "run.safetensors"
    model = network()
    nn.train(model, nn.cross_entropy, (X, LABELS), optim.Adam(0.01), 1, batch=8, checkpoint=path)
    arrays = safetensors.read(path).arrays
    np.testing.assert_array_equal(arrays["parameters.0.weight"], model.parameters[0]["weight"])
    assert arrays["optimiser.step"] == 3


def test_owl_stopping_stops_beside_a_checkpoint(tmp_path: Any) -> None:
    history = nn.train(
        plain(), nn.quadratic, (X, X[:, :2]), optim.SGD(0.05), 500, batch=8,
        checkpoint=nn.Checkpoint(tmp_path / "c", every="batch"), stopping=optim.Below(0.1),
    )  # fmt: skip
    assert history.reason == "loss below 0.1"
    assert 1 < history.epochs < 500
    assert history.batch_loss[-1] < 0.1 <= min(history.batch_loss[:-1])


# ---------------------------------------------------------------------- ending


def test_early_stopping_watches_the_validation_loss() -> None:
    history = nn.train(
        plain(), nn.quadratic, (X, Y), optim.SGD(0.05), 100, batch=22, validation=(X, Y[::-1] + 3),
        stopping=optim.Early(3),
    )  # fmt: skip
    losses = history.validation["loss"]
    best = int(np.argmin(losses))
    assert history.epochs == best + 4 < 100
    assert history.reason == "no improvement in 3 losses"


def test_several_rules_and_steps() -> None:
    rules = [optim.Early(50), optim.Below(1e9, when="epoch")]
    assert nn.train(plain(), nn.quadratic, (X, Y), optim.SGD(0.01), 9, stopping=rules).epochs == 1
    history = nn.train(plain(), nn.quadratic, (X, Y), optim.SGD(0.01), 9, batch=8, steps=5)
    assert (history.steps, history.epochs, history.reason) == (5, 1, "steps")
    part = nn.train(plain(), nn.quadratic, (X, Y), optim.SGD(0.01), 1.5, batch=2)
    assert (part.steps, part.epochs, part.reason) == (16, 1, "epochs")
    part = nn.train(plain(), nn.quadratic, (X, Y), optim.SGD(0.01), 1.5, batch=2, steps=15)
    assert (part.steps, part.reason) == (15, "steps")
    model = plain()
    before = flat(model.parameters)
    assert nn.train(model, nn.quadratic, (X, Y), optim.SGD(0.01), 0).steps == 0
    np.testing.assert_array_equal(flat(model.parameters), before)


def test_a_callback_stops_and_sees_the_model() -> None:
    model = plain()
    seen: list[Any] = []

    def callback(now: Any) -> None:
        seen.append((now.event, now.epoch, now.step))
        if now.step == 4:
            now.update_model()
            np.testing.assert_array_equal(flat(model.parameters), flat(now.parameters))
            now.stop("enough")

    history = nn.train(
        model, nn.quadratic, (X, Y), optim.SGD(0.01), 5, batch=8, callbacks=[callback]
    )
    assert seen == [
        ("batch", 0, 1),
        ("batch", 0, 2),
        ("batch", 0, 3),
        ("epoch", 0, 3),
        ("batch", 1, 4),
    ]
    assert history.reason == "enough"


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_the_values_of_the_last_whole_step() -> None:
    model = plain()
    seen: list[np.ndarray] = []

    def interrupt(now: Any) -> None:
        seen.append(flat(now.parameters))
        if now.step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught:
        nn.train(model, nn.quadratic, (X, Y), optim.SGD(0.01), 50, batch=8, callbacks=[interrupt])
    assert signal.getsignal(signal.SIGINT) is handler
    assert "after step 4" in caught.value.__notes__[0]
    np.testing.assert_array_equal(flat(model.parameters), seen[-1])
    again = nn.train(model, nn.quadratic, (X, Y), optim.SGD(0.01), 1)
    assert np.isfinite(again.loss[0])


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_after_the_last_step_is_heard() -> None:
    def interrupt(now: Any) -> None:
        if now.event == "epoch":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        nn.train(plain(), nn.quadratic, (X, Y), optim.SGD(0.01), 1, callbacks=[interrupt])


def test_an_error_leaves_a_usable_model_too() -> None:
    model = plain()
    seen: list[np.ndarray] = []

    def fail(now: Any) -> None:
        seen.append(flat(now.parameters))
        if now.step == 2:
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        nn.train(model, nn.quadratic, (X, Y), optim.SGD(0.01), 2, batch=8, callbacks=[fail])
    np.testing.assert_array_equal(flat(model.parameters), seen[-1])


def test_training_in_another_thread() -> None:
    models = [plain(), plain()]
    thread = threading.Thread(
        target=nn.train, args=(models[0], nn.quadratic, (X, Y), optim.SGD(0.01), 2)
    )
    thread.start()
    thread.join()
    nn.train(models[1], nn.quadratic, (X, Y), optim.SGD(0.01), 2)
    np.testing.assert_array_equal(flat(models[0].parameters), flat(models[1].parameters))


# ------------------------------------------------------------------------ data


def test_batches_from_an_iterable_of_any_sizes() -> None:
    sizes = [5, 9, 5, 3]
    parts = np.split(np.arange(22), np.cumsum(sizes)[:-1])
    batches = [(X[p], Y[p]) for p in parts]
    model = plain()
    expected = loop(slopes_for("plain"), optim.Adam(0.05), batches * 2)
    history, got = recorded(model, nn.quadratic, batches, optim.Adam(0.05), 2, seed=SEED)
    np.testing.assert_allclose([w for _, w in got], [w for _, w, _ in expected], rtol=1e-9)
    weighed = np.average(history.batch_loss[:4], weights=sizes)
    assert history.loss[0] == pytest.approx(weighed, rel=1e-12)


def test_models_of_several_inputs_and_structured_targets() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            self.a = nn.Linear(3, 2, dtype="float64")
            self.b = nn.Linear(2, 2, dtype="float64")

        def forward(self, x: Any, y: Any) -> Any:
            return {"sum": self.a(x) + self.b(y), "b": self.b(y)}

    def loss(out: Any, target: Any) -> Any:
        return nn.quadratic(out["sum"], target["sum"]) + nn.quadratic(out["b"], target["b"])

    model = Two()
    wanted = {"sum": Y + 1, "b": Y}
    history = nn.train(
        model, loss, ((X, Y), wanted), optim.Adam(0.05), 60, batch=10, validation=((X, Y), wanted)
    )
    assert history.validation["loss"][-1] < 0.2 * history.validation["loss"][0]
    out = nn.predict(model, X, Y, batch=7)
    np.testing.assert_allclose(
        out["b"], Y @ model.parameters["b"]["weight"] + model.parameters["b"]["bias"]
    )
    assert out["sum"].shape == (22, 2)


def test_an_embedding_learns_through_a_recurrent_layer() -> None:
    """Slopes reach what feeds the recurrence: Owl's are zero there."""
    letters = DATA_LETTERS
    model = nn.Sequential(nn.Embedding(5, 4), nn.LSTM(4, 6), nn.Linear(6, 5))
    before = model.parameters[0]["weight"].copy()
    history = nn.train(
        model, nn.cross_entropy, (letters[:, :-1], letters[:, -1]), optim.Adam(0.05), 30, batch=16
    )
    assert np.abs(model.parameters[0]["weight"] - before).max(axis=1).min() > 0.01
    assert history.loss[-1] < 0.3 * history.loss[0]


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    def trained(seed: int) -> np.ndarray:
        tw.random.seed(np.random.default_rng().integers(1000))  # the user's streams do not matter
        model = network()
        nn.train(model, nn.cross_entropy, (X, LABELS), optim.Adam(0.05), 2, batch=8, seed=seed)
        return flat(model.parameters)

    np.testing.assert_array_equal(trained(1), trained(1))
    assert not np.array_equal(trained(1), trained(2))


def test_training_leaves_the_users_random_streams_alone() -> None:
    tw.random.seed(5)
    expected = tw.random.uniform(shape=(3,)).numpy()
    tw.random.seed(5)
    nn.train(network(), nn.cross_entropy, (X, LABELS), optim.Adam(0.05), batch=8)
    np.testing.assert_array_equal(tw.random.uniform(shape=(3,)).numpy(), expected)


def test_blocks_with_a_seed_have_their_own_streams() -> None:
    def draw() -> list[float]:
        return tw.random.uniform(shape=(2,)).numpy().tolist()

    tw.random.seed(1)
    first, second = draw(), draw()
    tw.random.seed(1)
    assert draw() == first
    with tw.random.local_seed(9):
        inner = draw()
        with tw.random.local_seed(1):
            assert draw() == first
        assert draw() not in (inner, first, second)
    assert draw() == second
    with tw.random.local_seed(9):
        assert draw() == inner
    with pytest.raises(ValueError, match="local_seed: n is -1"), tw.random.local_seed(-1):
        pass


def test_a_run_can_be_drawn_again() -> None:
    x = tw.var("x", shape=())
    program = tw.Graph([x], x + tw.random.uniform(shape=(3,))).compile()
    runs = [program(x=0.0).tolist() for _ in range(3)]
    assert program.draw == 3
    program.draw = 1
    assert program(x=0.0).tolist() == runs[1]
    assert program.draw == 2
    with pytest.raises(ValueError, match="draw: the number of a run is -1"):
        program.draw = -1


# ------------------------------------------------------------------ evaluation


def test_validation_and_evaluation_are_means_over_rows() -> None:
    model = network()
    metrics = {"accuracy": nn.accuracy, "mean": lambda p, y: tnp.mean(p)}
    history = nn.train(
        model,
        nn.cross_entropy,
        (X, LABELS),
        optim.Adam(0.05),
        3,
        batch=8,
        validation=(X, LABELS),
        metrics=metrics,
    )
    out = nn.predict(model, X)
    assert history.validation["accuracy"][-1] == pytest.approx((out.argmax(1) == LABELS).mean())
    assert history.validation["mean"][-1] == pytest.approx(out.mean())
    logs = out - np.log(np.exp(out).sum(1, keepdims=True))
    loss = -logs[np.arange(22), LABELS].mean()
    assert history.validation["loss"][-1] == pytest.approx(loss)
    for size in (1, 5, 22, 100):
        found = nn.evaluate(model, nn.cross_entropy, (X, LABELS), metrics=metrics, batch=size)
        assert found == pytest.approx({k: v[-1] for k, v in history.validation.items()})
        np.testing.assert_allclose(nn.predict(model, X, batch=size), out, rtol=1e-12)
    assert len(history.validation["loss"]) == 3
    one_hot = np.eye(2)[LABELS]
    assert (
        float(nn.accuracy(tnp.asarray(out), tnp.asarray(one_hot)))
        == history.validation["accuracy"][-1]
    )


def test_a_history_can_be_pickled_without_its_program() -> None:
    history = nn.train(plain(), nn.quadratic, (X, Y), optim.SGD(0.01), 2)
    again = pickle.loads(pickle.dumps(history))
    assert (again, again.program) == (history, None)
    assert history.program is not None


# -------------------------------------------------------------------- progress


def test_silent_where_there_is_no_terminal(capfd: Any) -> None:
    history = nn.train(plain(), nn.quadratic, (X, Y), optim.SGD(0.01), 2)
    assert capfd.readouterr() == ("", "")
    assert "2 epochs, 2 steps" in repr(history)


def test_a_bar_shows_loss_and_rate(capfd: Any) -> None:
    nn.train(
        plain(), nn.quadratic, (X, Y), optim.SGD(0.01), 2, batch=8, progress=True, validation=(X, Y)
    )
    out, shown = capfd.readouterr()
    assert not out
    assert "epoch 1/2" in shown
    assert "epoch 2/2" in shown
    assert "validation loss" in shown


# ---------------------------------------------------------------------- errors


class Endless:
    """Batches without a length."""

    def __iter__(self) -> Any:
        return iter([(X, Y)])


def wrong_calls() -> dict[str, tuple[dict[str, Any], str]]:
    return {
        "model": ({"model": "m"}, "str is no module"),
        "loss": ({"loss": 3}, "the loss is int"),
        "loss shape": ({"loss": lambda p, y: p}, r"the loss has shape \(22, 2\)"),
        "optimiser": ({"optimiser": "adam"}, "the optimiser is 'adam'"),
        "data": ({"data": 3}, "the data are int"),
        "triple": ({"data": (X, Y, Y)}, r"accepted: a pair \(x, y\)"),
        "rows": ({"data": (X, Y[:5])}, r"they have: x 22, y 5"),
        "empty": ({"data": (X[:0], Y[:0])}, "the data have no rows"),
        "iterator": ({"data": iter([(X, Y)])}, "iterator, which is spent"),
        "no batch": ({"data": []}, "no batch in epoch 0"),
        "scalar": ({"data": (X, 3.0)}, "y has no axes"),
        "batch": ({"batch": "big"}, "batch is 'big'"),
        "seed": ({"seed": -1}, "seed is -1"),
        "metrics": ({"metrics": {"a": nn.accuracy}}, "none are given"),
        "metric loss": ({"metrics": {"loss": nn.accuracy}, "validation": (X, Y)}, "called 'loss'"),
        "metric": ({"metrics": {"a": 3}, "validation": (X, Y)}, "metric 'a' is int"),
        "metrics list": ({"metrics": [nn.accuracy], "validation": (X, Y)}, "metrics is list"),
        "validation": ({"validation": (X[:, :1], Y)}, "the input has shape"),
        "stopping": ({"stopping": ["soon"]}, "stopping is 'soon'"),
        "stopping number": ({"stopping": 0.1}, "stopping is 0.1; accepted: rules"),
        "callbacks": ({"callbacks": print}, "callbacks is .*print.*; accepted: a list of funct"),
        "callback": ({"callbacks": [3]}, "callback 0 is 3; it is a function"),
        "epochs text": ({"epochs": "3"}, "epochs is '3'; accepted: a number"),
        "steps": ({"steps": 2.5}, "steps must be an integer, not float 2.5"),
        "steps below": ({"steps": -1}, "steps is -1; it must be at least 0"),
        "checkpoint": ({"checkpoint": 3}, "checkpoint is 3"),
        "resume": ({"resume": True}, "resume is True; accepted: the path of a checkpoint"),
        "epochs": ({"epochs": -1}, "at least 0"),
        "endless": ({"epochs": float("inf")}, "epochs is inf; it must be finite and at least 0"),
        "half": ({"epochs": 0.5, "data": Endless()}, "only whole ones"),
    }


@pytest.mark.parametrize("name", wrong_calls())
def test_what_cannot_be_is_refused(name: str) -> None:
    options, message = wrong_calls()[name]
    model = plain()
    before = flat(model.parameters)
    call = {
        "model": model,
        "loss": nn.quadratic,
        "data": (X, Y),
        "optimiser": optim.SGD(0.1),
        **options,
    }
    with pytest.raises((ValueError, TypeError), match=message):
        nn.train(**call)
    np.testing.assert_array_equal(flat(model.parameters), before)


ZEROS_AND_ONES = (LABELS[:, None] == [0, 1]).astype(float)
WRONG_CLASS = "class 2; accepted: 0 to 1, since the prediction's last axis has 2 classes"
WRONG_SIGN = "the target has 0.0; accepted: -1 and 1"


def smooth(prediction: Any, target: Any) -> Any:
    return nn.cross_entropy(prediction, target["label"], smoothing=0.1)


def last_wrong() -> Any:
    """Labels of which the last alone is wrong, so that the first batch in order is right."""
    labels = LABELS.copy()
    labels[-1] = 2
    return labels


WRONG_TARGETS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "all": (nn.cross_entropy, LABELS + 1, {}, WRONG_CLASS),
    "negative": (nn.cross_entropy, LABELS - 1, {}, "class -1; accepted: 0 to 1"),
    "last": (nn.cross_entropy, last_wrong(), {}, WRONG_CLASS),
    "within": (smooth, {"label": last_wrong()}, {}, WRONG_CLASS),
    "sampled": (nn.cross_entropy, last_wrong(), {"batch": optim.Sample(2)}, WRONG_CLASS),
    "searched": (nn.cross_entropy, last_wrong(), {"optimiser": optim.Newton()}, WRONG_CLASS),
    "validation": (nn.cross_entropy, LABELS, {"validation": (X, last_wrong())}, WRONG_CLASS),
    "hinge": (nn.hinge, ZEROS_AND_ONES, {}, WRONG_SIGN),
    "squared": (nn.squared_hinge, ZEROS_AND_ONES, {}, WRONG_SIGN),
}


@pytest.mark.parametrize("name", WRONG_TARGETS)
def test_targets_that_mean_nothing_are_refused_before_the_first_step(name: str) -> None:
    loss, target, options, message = WRONG_TARGETS[name]
    model, steps = plain(), list[Any]()
    before = flat(model.parameters)
    call: dict[str, Any] = {
        "optimiser": optim.Adam(),
        "batch": optim.Mini(5, shuffle=False),
        "callbacks": [steps.append],
        **options,
    }
    with pytest.raises(ValueError, match=message + r".*\[test_nn_training\.py:\d+\]"):
        nn.train(model, loss, (X, target), **call)
    assert not steps
    np.testing.assert_array_equal(flat(model.parameters), before)


def test_evaluation_refuses_targets_that_mean_nothing() -> None:
    with pytest.raises(ValueError, match=WRONG_CLASS):
        nn.evaluate(plain(), nn.cross_entropy, (X, last_wrong()), batch=5)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_given_batches_are_refused_before_the_step_that_would_see_them(before: int) -> None:
    right, wrong = (X, LABELS), (X, last_wrong())
    model, whole, losses = plain(), plain(), list[float]()
    with pytest.raises(ValueError, match=WRONG_CLASS):
        nn.train(
            model,
            nn.cross_entropy,
            [*[right] * before, wrong],
            optim.Adam(),
            callbacks=[lambda now: losses.append(now.loss)],
        )
    assert len(losses) == before
    nn.train(whole, nn.cross_entropy, [right], optim.Adam(), before)
    np.testing.assert_array_equal(flat(model.parameters), flat(whole.parameters))


def test_an_array_that_is_filled_anew_for_each_batch_is_checked_each_time() -> None:
    class Refilled:
        def __init__(self) -> None:
            self.labels = np.zeros(22, int)

        def __iter__(self) -> Any:
            for labels in (LABELS, last_wrong()):
                self.labels[:] = labels
                yield X, self.labels

    with pytest.raises(ValueError, match=WRONG_CLASS):
        nn.train(plain(), nn.cross_entropy, Refilled(), optim.Adam())


def test_targets_of_arrays_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps, epochs and sizes of batches there are."""
    seen: list[Any] = []
    monkeypatch.setattr(ClassIndices, "check", lambda _, values: seen.append(values))
    nn.train(plain(), nn.cross_entropy, (X, LABELS), optim.Adam(), 3, batch=4)
    assert [values is LABELS for values in seen] == [True]


def test_evaluation_and_prediction_refuse_what_cannot_be() -> None:
    model = plain()
    with pytest.raises(TypeError, match=r"nn\.predict: function is no module"):
        nn.predict(lambda x: x, X)
    with pytest.raises(TypeError, match=r"nn\.evaluate: type is no module"):
        nn.evaluate(nn.Linear, nn.quadratic, (X, Y))
    with pytest.raises(TypeError, match=r"nn\.evaluate: the loss is str"):
        nn.evaluate(model, "quadratic", (X, Y))
    with pytest.raises(TypeError, match="size must be an integer"):
        nn.predict(model, X, batch=2.5)
