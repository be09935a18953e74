"""Optimisers: each rule against its formula in NumPy, over every way a step can be run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from optimiser_oracle import DIRECTIONS, OPTIMISERS, RATES, Oracle
from tawny import optim
from tawny.tree import leaves

RNG = np.random.default_rng(0)

MATRIX = np.array(
    [[3.0, 0.5, 0.1, 0.0], [0.5, 2.0, -0.3, 0.2], [0.1, -0.3, 1.5, 0.4], [0.0, 0.2, 0.4, 4.0]]
)
START = {"a": np.array([0.9, -1.2]), "b": {"c": np.array([[0.4], [0.7]])}}
SPLITS = (2,)


def flat(parameters: Any) -> np.ndarray:
    return np.concatenate([np.asarray(x).ravel() for x in leaves(parameters)])


def quartic(parameters: Any) -> Any:
    """z.A.z / 2 + sum(z^4) / 12."""
    z = tnp.concatenate([tnp.reshape(x, (-1,)) for x in leaves(parameters)])
    return 0.5 * tnp.sum(z * (MATRIX @ z)) + tnp.sum(z**4) / 12


def quartic_slope(z: np.ndarray) -> np.ndarray:
    return MATRIX @ z + z**3 / 3


def quartic_curvature(z: np.ndarray) -> np.ndarray:
    return MATRIX + np.diag(z**2)


def by_oracle(rule: Any, steps: int) -> list[np.ndarray]:
    oracle, z = Oracle(rule, SPLITS), flat(START)
    out = []
    for _ in range(steps):
        z = oracle.step(z, quartic_slope(z), lambda z=z: quartic_curvature(z))
        out.append(z)
    return out


def compiled(rule: Any, function: Any, start: Any, engine: str = "cpu", **options: Any) -> Any:
    """A program of one step, its parameters' names, and the variables set."""
    names = iter(f"v{i}" for i in range(1000))
    values: dict[str, Any] = {}

    def variable(a: Any) -> Any:
        name = next(names)
        values[name] = a
        return tw.var(name, shape=a.shape, dtype=a.dtype)

    parameters = _mapped(variable, start)
    state = _mapped(variable, rule.start(start))
    value, new, after = rule.step(function, parameters, state)
    targets = [*leaves(parameters), *leaves(state)]
    sources = [*leaves(new), *leaves(after)]
    graph = tw.Graph([], value, dict(zip(targets, sources, strict=True)))
    program = graph.compile(engine, **options)
    program.set(**values)
    return program, [x.node.name for x in leaves(parameters)]


def _mapped(f: Any, structure: Any) -> Any:
    from tawny.tree import map_leaves

    return map_leaves(f, structure)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_compiled_steps_are_the_formulas(name: str) -> None:
    rule = OPTIMISERS[name]
    program, names = compiled(rule, quartic, START)
    for expected in by_oracle(rule, 8):
        program.run()
        got = np.concatenate([program.state[n].ravel() for n in names])
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_on_known_arrays_are_the_formulas(name: str) -> None:
    rule = OPTIMISERS[name]
    parameters: Any = START
    state = rule.start(parameters)
    for expected in by_oracle(rule, 3):
        value, parameters, state = rule.step(quartic, parameters, state)
        parameters, state = _mapped(lambda x: x.numpy(), (parameters, state))
        np.testing.assert_allclose(flat(parameters), expected, rtol=1e-9, atol=1e-11)
        assert np.isfinite(float(value))


@pytest.mark.parametrize("name", ["adam", "with_NewtonCG", "all_at_once", "schedule"])
def test_steps_in_a_jitted_function(name: str) -> None:
    rule = OPTIMISERS[name]

    @tw.jit
    def step(parameters, state):
        return rule.step(quartic, parameters, state)

    parameters: Any = START
    state = rule.start(parameters)
    for expected in by_oracle(rule, 4):
        _, parameters, state = step(parameters, state)
        np.testing.assert_allclose(flat(parameters), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "name", ["adam", "adamw", "momentum_decay", "clip_norm", "with_CG", "with_Newton"]
)
def test_single_precision_stays_single(name: str) -> None:
    rule = OPTIMISERS[name]
    start = _mapped(lambda a: a.astype(np.float32), START)
    program, names = compiled(rule, lambda p: tnp.astype(quartic(p), "float32"), start)
    for expected in by_oracle(rule, 5):
        program.run()
        assert all(program.state[n].dtype == np.float32 for n in names)
        got = np.concatenate([program.state[n].ravel() for n in names])
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rate=st.sampled_from(sorted(RATES)),
    direction=st.sampled_from([d for d in DIRECTIONS if d not in ("CG", "DaiYuanCG", "NewtonCG")]),
    momentum=st.sampled_from([None, optim.Momentum(0.5), optim.Nesterov(0.3)]),
    regularisation=st.sampled_from(
        [None, optim.L1(0.05), optim.L2(0.1), optim.ElasticNet(0.02, 0.1)]
    ),
    clipping=st.sampled_from(
        [None, optim.ClipValue(0.7), optim.ClipNorm(1.0), optim.ClipNorm(0.6, each=True)]
    ),
)
def test_parts_combine_at_will(rate, direction, momentum, regularisation, clipping) -> None:
    """Without the methods whose divisor may come near 0, where a quotient has no digits left."""
    rule = optim.Optimiser(RATES[rate], DIRECTIONS[direction], momentum, regularisation, clipping)
    program, names = compiled(rule, quartic, START)
    for expected in by_oracle(rule, 3):
        program.run()
        got = np.concatenate([program.state[n].ravel() for n in names])
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-9)


def test_adam_in_single_precision_corrects_its_bias_exactly() -> None:
    """1 - 0.999 in single precision is wrong by 5e-5 already."""
    start = np.array([1.0], np.float32)
    rule = optim.Adam(0.001)
    program, (name,) = compiled(rule, lambda w: tnp.sum(w), start)
    program.run()
    np.testing.assert_allclose(program.state[name] - 1, [-0.001], rtol=1e-4)
    squares = program.state["v3"]
    np.testing.assert_allclose(squares, 0.001, rtol=1e-6)


def test_one_bound_of_either_sign_stands_for_both() -> None:
    w = np.array([3.0, -5.0])
    for bound in (0.5, -0.5):
        rule = optim.Optimiser(1.0, clipping=optim.ClipValue(bound))
        _, new, _ = rule.step(lambda p: tnp.sum(p * p), w, rule.start(w))
        np.testing.assert_array_equal(new.numpy(), [2.5, -4.5])


def test_adagrad_is_the_fused_node() -> None:
    program, _ = compiled(optim.AdaGrad(0.1), quartic, START)
    assert program.rewrites.counts()["adagrad"] == 2


def test_updates_happen_in_place() -> None:
    """One step and its optimiser's memory take no copy of the parameters."""
    start = np.ones(100_000, np.float32)
    rule = optim.SGD(0.1, momentum=0.9)
    program, _ = compiled(rule, lambda w: tnp.sum(w * w), start, incremental=False)
    assert program.plan.peak_bytes < start.nbytes


def test_aux_is_passed_on() -> None:
    rule = optim.Optimiser(0.1, regularisation=optim.L2(1.0))
    w = np.array([1.0, 2.0])
    (value, aux), new, _ = rule.step(
        lambda p: (tnp.sum(p), {"double": 2 * p}), w, rule.start(w), has_aux=True
    )
    assert float(value) == 3 + 5  # the penalty is part of the loss
    np.testing.assert_array_equal(aux["double"].numpy(), 2 * w)
    np.testing.assert_allclose(new.numpy(), w - 0.1 * (1 + 2 * w))


def test_numbers_stand_for_rules() -> None:
    assert optim.Optimiser(0.1).rate == optim.Constant(0.1)
    assert optim.Optimiser(0.1, momentum=0.5).momentum == optim.Momentum(0.5)
    assert optim.SGD(0.1, 0.5, nesterov=True).momentum == optim.Nesterov(0.5)
    assert optim.as_optimiser(optim.Newton(), "t").parts().rate == optim.Constant(1.0)


def test_state_holds_only_what_the_rule_needs() -> None:
    w = np.zeros((2, 3), np.float32)
    assert optim.Constant(0.1).start(w).keys() == {"step"}
    adam = optim.Adam().start({"w": w})
    assert [n for n, _ in tw_paths(adam)] == ["step", "rate.mean.w", "rate.squares.w"]
    assert adam["rate"]["mean"]["w"].dtype == np.float32
    both = optim.Optimiser(0.1, optim.CG(), 0.9).start(w)
    assert [n for n, _ in tw_paths(both)] == [
        "step",
        "gradient.gradient",
        "gradient.direction",
        "momentum",
    ]


def tw_paths(structure: Any) -> list[tuple[str, Any]]:
    from tawny.tree import leaf_paths

    return list(leaf_paths(structure))


def test_the_rate_is_known_before_the_step() -> None:
    rule = optim.Adam(optim.Decay(0.1, 1.0))
    w = np.zeros(2)
    state = rule.start(w)
    assert float(rule.rate_of(state)) == 0.1
    state["step"] = np.array(4)
    assert float(rule.rate_of(state)) == pytest.approx(0.02)


def test_zero_slopes_move_nothing() -> None:
    """No rule divides zero by zero where there is nothing to do."""
    w = np.array([1.0, -2.0])
    for name, rule in OPTIMISERS.items():
        if name.endswith(("_Newton", "adamw")) or "l1" in name or "l2" in name or "net" in name:
            continue
        if name == "all_at_once":
            continue
        state = rule.start(w)
        for _ in range(2):
            _, new, state = rule.step(lambda p: 0.0 * tnp.sum(p), w, state)
        np.testing.assert_array_equal(new.numpy(), w, err_msg=name)


def test_nan_slopes_are_not_hidden() -> None:
    w = np.array([1.0, 2.0])
    for rule in (
        optim.Adam(),
        optim.Optimiser(0.1, clipping=optim.ClipNorm(1.0)),
        optim.Optimiser(0.1, optim.CG()),
    ):
        _, new, _ = rule.step(lambda p: tnp.sum(p * np.array([np.nan, 1.0])), w, rule.start(w))
        assert np.isnan(new.numpy()[0])


WRONG = {
    "rate": (lambda: optim.Constant(-1.0), "Constant: rate is -1.0"),
    "nan": (lambda: optim.Adam(float("nan")), "Adam: rate is nan"),
    "beta": (lambda: optim.Adam(0.1, beta1=1.0), "beta1 is 1.0; it must be less than 1"),
    "nested": (
        lambda: optim.Adam(optim.AdaGrad(0.1)),
        "rate is AdaGrad; accepted: a number or a rate by step",
    ),
    "rate text": (lambda: optim.Adam("0.1"), "Adam: rate is '0.1'; accepted: a number"),
    "rate truth": (lambda: optim.Constant(True), "Constant: rate is True; accepted: a number"),
    "schedule": (lambda: optim.Schedule([]), "there is no rate"),
    "schedule number": (lambda: optim.Schedule(0.1), "rates is 0.1; accepted: numbers, or a func"),
    "schedule text": (lambda: optim.Schedule("12"), "rates is '12'; accepted: numbers, or a func"),
    "epsilon": (lambda: optim.AdaGrad(0.1, epsilon=-1.0), "AdaGrad: epsilon is -1.0"),
    "nesterov": (
        lambda: optim.SGD(0.1, nesterov=True),
        "SGD: momentum is None; with nesterov it is a number",
    ),
    "factor": (lambda: optim.Momentum("big"), "Momentum: factor is 'big'; accepted: a number"),
    "bound": (lambda: optim.ClipValue("big"), "ClipValue: low is 'big'; accepted: a number"),
    "weight text": (lambda: optim.L2("big"), "L2: weight is 'big'; accepted: a number"),
    "schedule shape": (
        lambda: optim.Schedule(lambda step: tnp.ones(2) * step).step(
            tnp.sum, np.ones(2), {"step": np.array(0)}
        ),
        r"Schedule: the function gives shape \(2,\); expected \(\)",
    ),
    "schedule rate": (lambda: optim.Schedule([0.1, -1]), "rate 1 is -1.0"),
    "momentum": (lambda: optim.Momentum(1.0), "factor is 1.0"),
    "clip": (lambda: optim.ClipNorm(0.0), "limit is 0.0"),
    "clip order": (lambda: optim.ClipValue(1.0, -1.0), "low must be less"),
    "weight": (lambda: optim.L2(-0.1), "L2: weight is -0.1"),
    "part": (lambda: optim.Optimiser(gradient=optim.Adam()), "gradient is Adam"),
    "rate kind": (
        lambda: optim.Optimiser("fast"),
        "rate is 'fast'; accepted: a Rate of tawny.optim",
    ),
    "no rate": (lambda: optim.as_optimiser(optim.CG(), "op"), "CG\\(\\) needs a rate"),
    "no optimiser": (lambda: optim.as_optimiser("adam", "op"), "op: the optimiser is 'adam'"),
    "complex": (lambda: optim.Adam().step(lambda p: p, np.array(1j), {}), "dtype complex128"),
    "nothing": (lambda: optim.Adam().step(lambda p: p, {}, {}), "no parameter"),
    "patience": (lambda: optim.Early(0), "patience is 0"),
    "patience part": (lambda: optim.Early(2.5), "Early: patience must be an integer"),
    "when": (lambda: optim.Early(when="step"), "Early: when is 'step'; accepted: 'epoch', 'batch'"),
    "below when": (lambda: optim.Below(1.0, when="step"), "Below: when is 'step'; accepted"),
    "below": (lambda: optim.Below("1"), "Below: loss is '1'; accepted: a number"),
    "mini": (lambda: optim.Mini(0), "size is 0"),
    "mini part": (lambda: optim.Mini(2.5), "Mini: size must be an integer, not float 2.5"),
    "batches": (lambda: optim.as_batches("all", "op"), "batch is 'all'"),
    "sample": (lambda: list(optim.Sample(5).rows(3, 0, 0)), "5 rows of only 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        make()
    assert "test_optim.py" in str(caught.value)


TYPED = {
    "constant": lambda f: optim.Constant(f(0.125)),
    "decay": lambda f: optim.Decay(f(0.125), f(0.25)),
    "momentum": lambda f: optim.SGD(f(0.125), momentum=f(0.5)),
    "nesterov": lambda f: optim.SGD(f(0.125), momentum=f(0.5), nesterov=True),
    "adagrad": lambda f: optim.AdaGrad(f(0.125), epsilon=f(2.0**-20)),
    "rmsprop": lambda f: optim.RMSprop(f(0.125), f(0.5), f(2.0**-20)),
    "adam": lambda f: optim.Adam(f(0.125), f(0.5), f(0.75), f(2.0**-20)),
    "adamw": lambda f: optim.AdamW(f(0.125), decay=f(0.25)),
    "clip": lambda f: optim.Optimiser(f(0.125), clipping=optim.ClipValue(f(0.5))),
    "norm": lambda f: optim.Optimiser(f(0.125), clipping=optim.ClipNorm(f(0.5))),
    "net": lambda f: optim.Optimiser(f(0.125), regularisation=optim.ElasticNet(f(0.5), f(0.25))),
    "schedule": lambda f: optim.Schedule(np.array([f(0.125), f(0.25)])),
}


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", TYPED)
def test_numbers_of_numpy_widen_nothing(name: str, kind: Any) -> None:
    """A rate out of `numpy.logspace` is the number it stands for; all dtypes stay as they are."""
    w = np.array([1.0, -2.0, 0.5], np.float32)
    results = []
    for number in (float, kind):
        rule = TYPED[name](number)
        _, new, state = rule.step(lambda p: tnp.sum(p**2), w, rule.start(w))
        dtypes = {str(x.dtype) for x in leaves(state)}
        assert dtypes <= {"int64", "float32"}
        assert str(new.dtype) == "float32"
        results.append(new.numpy())
    np.testing.assert_array_equal(*results)


class Wide(optim.Constant):
    """A rate somebody may write, without a thought for dtypes."""

    def change(self, now: Any, memory: Any) -> Any:
        change, kept = super().change(now, memory)
        return tnp.astype(change, "float64"), kept


def test_parameters_and_losses_keep_their_dtypes() -> None:
    rule = optim.Optimiser(Wide(0.5), regularisation=optim.L2(1.0))
    w = {"narrow": np.ones(2, np.float32), "wide": np.ones(2)}
    value, new, _ = rule.step(
        lambda p: tnp.sum(p["narrow"]) + tnp.astype(tnp.sum(p["wide"]), "float32"), w, rule.start(w)
    )
    assert [str(x.dtype) for x in (value, new["narrow"], new["wide"])] == [
        "float32",
        "float32",
        "float64",
    ]
    assert float(value) == 8
    np.testing.assert_array_equal(new["narrow"].numpy(), 1 - 0.5 * (1 + 2))


def test_a_number_of_rows_of_numpy() -> None:
    assert optim.as_batches(np.int64(5), "op") == optim.Mini(5)


# -------------------------------------------------------------------- stopping


def judged(rule: optim.Stopping, losses: list[float]) -> int | None:
    """After how many losses the rule stops."""
    memory = rule.start()
    for number, loss in enumerate(losses, 1):
        memory = rule.update(memory, loss)
        reason = rule.reason(memory)
        if reason is not None:
            return number
    return None


def test_early_stopping_stops() -> None:
    assert judged(optim.Early(3), [5, 4, 3, 3, 3, 3]) == 6
    assert judged(optim.Early(3), [5, 4, 4, 4, 3, 3, 3, 3]) == 8
    assert judged(optim.Early(2, change=0.5), [5, 4.8, 4.6]) == 3
    assert judged(optim.Early(2), [5, 4, 3, 2, 1]) is None
    assert judged(optim.Early(2), [float("nan")] * 5) == 2
    assert judged(optim.Below(1.0), [3, 2, 1, 0.5]) == 4
    assert judged(optim.Below(1.0), [float("nan"), float("inf"), -float("inf")]) == 3


@pytest.mark.parametrize("rule", [optim.Early(2), optim.Below(1.0)], ids=str)
def test_rules_remember_what_a_file_can_hold(rule: optim.Stopping) -> None:
    memory = rule.start()
    for loss in (float("nan"), float("inf"), 3.0, -float("inf"), 2.0):
        memory = rule.update(memory, loss)
        assert all(value is None or np.isfinite(value) for value in memory.values())
        assert memory.keys() == rule.start().keys()


# --------------------------------------------------------------------- batches


@pytest.mark.parametrize("rows", [1, 7, 20, 21])
def test_mini_batches_have_every_row_once(rows: int) -> None:
    cut = optim.Mini(7)
    batches = list(cut.rows(rows, epoch=2, seed=5))
    assert len(batches) == cut.count(rows)
    assert sorted(np.concatenate(batches).tolist()) == list(range(rows))
    assert [len(b) for b in batches[:-1]] == [7] * (len(batches) - 1)


def test_batches_depend_on_seed_and_epoch_alone_and_can_be_taken_up() -> None:
    for cut in (
        optim.Mini(4),
        optim.Mini(4, shuffle=False),
        optim.Sample(4),
        optim.Stochastic(),
        optim.Full(),
    ):
        whole = [str(r) for r in cut.rows(18, 3, 9)]
        assert [str(r) for r in cut.rows(18, 3, 9, start=2)] == whole[2:]
        assert [str(r) for r in cut.rows(18, 3, 9)] == whole
        if not isinstance(cut, optim.Full) and getattr(cut, "shuffle", True):
            assert [str(r) for r in cut.rows(18, 4, 9)] != whole
            assert [str(r) for r in cut.rows(18, 3, 8)] != whole


def test_samples_are_different_rows_drawn_for_each_step() -> None:
    batches = list(optim.Sample(5).rows(12, 0, 0))
    assert len(batches) == 3
    assert all(len(set(b.tolist())) == 5 for b in batches)
    ones = list(optim.Stochastic().rows(12, 0, 0))
    assert len(ones) == 12
    assert all(len(b) == 1 for b in ones)


ADAPTIVE = [optim.AdaGrad(0.05), optim.RMSprop(0.01), optim.Adam(0.01), optim.AdamW(0.01)]
SCALED = [
    optim.SGD(0.5),
    optim.Optimiser(0.3, momentum=optim.Nesterov(0.9), clipping=optim.ClipNorm(1.0)),
    optim.Optimiser(0.5, gradient=optim.CG()),
]


@pytest.mark.parametrize("rule", [*ADAPTIVE, *SCALED], ids=repr)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parameters_of_16_bits_learn_as_others(dtype: str, rule: Any, engine: str) -> None:
    """Rules compute and remember in float32: the squares of slopes of 1e-4 are 0 in float16."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(64, 8)).astype("float32")
    wanted = rows @ draw.normal(size=(8, 3)).astype("float32")
    scale = 1e-4 if rule in ADAPTIVE else 1.0

    def loss(weight: Any) -> Any:
        return tnp.mean((rows @ tnp.astype(weight, "float32") - wanted) ** 2) * scale

    after = {}
    for kind in (dtype, "float32"):
        start = tnp.ones((8, 3), dtype=kind).numpy()
        program, (name,) = compiled(rule, loss, start, engine)
        program.run(20)
        assert str(program.get(name).dtype) == kind
        after[kind] = program.get(name).astype("float32")
    way = abs(after["float32"] - 1).max()
    assert way > 0.15
    np.testing.assert_allclose(after[dtype], after["float32"], atol=0.25 * way)
