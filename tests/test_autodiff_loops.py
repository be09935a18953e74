"""Derivatives of loops against those of the same steps written one after the other, in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from loop_programs import LAZY, PROGRAMS, UNROLLED, Language, LoopProgram, RandomLoops, values_of
from tawny.tree import leaves

SMOOTH = [
    n for n, p in PROGRAMS.items() if n != "as long as" and all(d != "int64" for _, d in p.inputs)
]
RANDOM = {
    f"random {seed}": LoopProgram(RandomLoops(seed), PROGRAMS["recurrent"].inputs)
    for seed in (*range(8), 1040)
}
ALL = {name: PROGRAMS[name] for name in SMOOTH} | RANDOM

Function = Callable[..., Any]


def scalar(program: LoopProgram, language: Language) -> Function:
    """A number that depends on all results of a program."""

    def value(*arrays: Any) -> Any:
        made = [a for a in leaves(program.run(language, *arrays)) if a is not None]
        return sum((tnp.sum(tnp.sin(a) * (i + 1)) for i, a in enumerate(made)), tnp.asarray(0.0))

    return value


def directions(values: list[Any]) -> list[Any]:
    return [np.cos(np.arange(v.size, dtype=v.dtype)).reshape(v.shape) for v in values]


MODES: dict[str, Callable[[Function, list[Any]], Any]] = {
    "reverse": lambda f, v: tw.grad(f, argnums=(0, 1, 2))(*v),
    "forward": lambda f, v: tw.jvp(f, tuple(v), tuple(directions(v))),
    "reverse over forward": lambda f, v: tw.grad(
        lambda h: tw.jvp(lambda w: f(h, w, v[2]), (v[1],), (directions(v)[1],))[1]
    )(v[0]),
    "forward over reverse": lambda f, v: tw.jvp(
        lambda w: tw.grad(f)(v[0], w, v[2]), (v[1],), (directions(v)[1],)
    ),
    "reverse over reverse": lambda f, v: tw.grad(lambda w: tnp.sum(tw.grad(f)(v[0], w, v[2]) ** 2))(
        v[1]
    ),
}


def check(program: LoopProgram, mode: str) -> None:
    values = values_of(program, 3)
    found, wanted = (MODES[mode](scalar(program, o), values) for o in (LAZY, UNROLLED))
    for got, one in zip(leaves(found), leaves(wanted), strict=True):
        np.testing.assert_allclose(got.numpy(), one.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_those_of_the_steps(name: str, mode: str) -> None:
    check(ALL[name], mode)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("name", RANDOM)
def test_derivatives_of_random_loops_are_those_of_the_steps(name: str, mode: str) -> None:
    check(ALL[name], mode)


@pytest.mark.parametrize("name", ["recurrent", "nested, reversed", "assigned in place"])
def test_gradients_are_finite_differences(name: str) -> None:
    program = PROGRAMS[name]
    tw.testing.check_grads(scalar(program, LAZY), tuple(values_of(program, 4)), order=1)


def test_programs_with_gradients_run_on_every_engine(engine: str) -> None:
    program = PROGRAMS["nested, reversed"]
    variables = [tw.var(f"v{i}", s, d) for i, (s, d) in enumerate(program.inputs)]
    value, grads = tw.value_and_grad(scalar(program, LAZY), argnums=(0, 1, 2))(*variables)
    values = values_of(program, 5)
    wanted = tw.grad(scalar(program, UNROLLED), argnums=(0, 1, 2))(*values)
    for options in ({}, {"optimise": False}, {"incremental": False}):
        compiled = tw.Graph(variables, [value, *grads]).compile(engine=engine, **options)
        for got, one in zip(compiled(*values)[1:], wanted, strict=True):
            np.testing.assert_allclose(got, one.numpy(), rtol=1e-9, atol=1e-12)


def test_a_loop_and_its_derivative_are_computed_once() -> None:
    """The loop that keeps what the way back needs gives the value too."""
    x = tw.var("x", (50,))

    def loss(x: Any) -> Any:
        return tw.scan(lambda c, r: (tnp.sin(c * r), c), 1.0, x)[0]

    made = tw.optimise(tw.Graph([x], list(tw.value_and_grad(loss)(x))))
    assert str(made.trace()).count(" loop ") == 2


def test_draws_are_the_same_on_the_way_back() -> None:
    def loss(a: Any) -> Any:
        with tw.random.local_seed(5):
            return tw.scan(lambda c, _: (c + a * tw.random.normal() ** 2, None), 0.0, length=20)[0]

    a = tw.var("a")
    value, slope = tw.value_and_grad(loss)(a)
    program = tw.Graph([a], [value, slope]).compile()
    for _ in range(2):
        found = program(a=3.0)
        np.testing.assert_allclose(found[0], 3 * found[1], rtol=1e-12)
    _, change = tw.jvp(loss, (a,), (1.0,))
    value, change = tw.Graph([a], [value, change]).compile()(2.0)
    np.testing.assert_allclose(value, 2 * change, rtol=1e-12)


def test_what_has_no_derivative_says_so() -> None:
    def loss(x: Any) -> Any:
        return tw.scan(lambda c, r: (c + tw.delay(np.sin, r), None), 0.0, x)[0]

    with pytest.raises(ValueError, match="delay has no derivative"):
        tw.grad(loss)(np.ones(3))


def test_a_layer_differentiates_through_its_steps() -> None:
    """Weights that all steps share, a mask, and derivatives of the user's own in a step."""
    limit = tw.custom_vjp(lambda a: tnp.clip(a, -1, 1))
    limit.defvjp(lambda a: (limit(a), ()), lambda _, cotangent: (cotangent,))
    mask = np.array([True, True, False, True])

    def loss(language: Language) -> Function:
        def value(h: Any, w: Any, x: Any) -> Any:
            def step(c: Any, row: Any) -> Any:
                new = limit(row[0] @ w + 2 * c)
                return tnp.where(row[1], new, c), new

            last, rows = language.scan(step, h, (x, mask))
            return tnp.sum(last**2) + tnp.sum(rows)

        return value

    values = values_of(PROGRAMS["recurrent"], 6)
    for got, one in zip(
        tw.grad(loss(LAZY), argnums=(0, 1, 2))(*values),
        tw.grad(loss(UNROLLED), argnums=(0, 1, 2))(*values),
        strict=True,
    ):
        np.testing.assert_allclose(got.numpy(), one.numpy(), rtol=1e-9)


def test_a_batch_of_loops_is_one_loop() -> None:
    program = PROGRAMS["nested, reversed"]
    h, w, x = values_of(program, 7)
    batch = np.stack([x, x * 2, x - 1])
    each = tw.vmap(tw.grad(scalar(program, LAZY), argnums=(0, 1)), in_axes=(None, None, 0))
    wanted = [tw.grad(scalar(program, UNROLLED), argnums=(0, 1))(h, w, one) for one in batch]
    for got, ones in zip(each(h, w, batch), zip(*wanted, strict=True), strict=True):
        np.testing.assert_allclose(got.numpy(), [one.numpy() for one in ones], rtol=1e-9)


def test_draws_in_the_steps_of_a_batch_are_refused() -> None:
    def walk(start: Any) -> Any:
        return tw.fori_loop(0, 3, lambda i, c: c + tw.random.normal(), start)

    with pytest.raises(ValueError, match="before the loop"):
        tw.vmap(walk)(np.zeros(3))


def test_a_loop_of_unknown_length_has_tangents_and_no_gradient() -> None:
    def root(a: Any) -> Any:
        return tw.while_loop(
            lambda x: abs(x * x - a) > 1e-13 * a, lambda x: (x + a / x) / 2, a * 0 + 1.0
        )

    value, change = tw.jvp(root, (9.0,), (1.0,))
    np.testing.assert_allclose([float(value), float(change)], [3, 1 / 6], rtol=1e-10)
    with pytest.raises(ValueError, match=r"while_loop.*reverse mode.*tw\.jvp.*tw\.custom_vjp"):
        tw.grad(root)(9.0)


def test_batches_of_loops_that_end_at_different_times_and_of_branches() -> None:
    def halves(x: Any, w: Any) -> Any:
        count, last = tw.while_loop(lambda c: c[1] > 1, lambda c: (c[0] + 1, c[1] * w), (0, x))
        return count, tw.cond(last > 0.7, tnp.sqrt, lambda a: -a * w, last)

    values = np.array([0.5, 3.0, 40.0])
    found = tw.vmap(halves, in_axes=(0, None))(values, 0.5)
    wanted = [halves(tnp.asarray(v), 0.5) for v in values]
    for got, ones in zip(found, zip(*wanted, strict=True), strict=True):
        np.testing.assert_allclose(got.numpy(), [one.numpy() for one in ones])
    chosen = tw.vmap(lambda i, a: tw.switch(i, [tnp.sin, tnp.cos, lambda a: a * 2], a))
    found = chosen(np.array([2, 0, 7]), values).numpy()
    np.testing.assert_allclose(found, [1.0, np.sin(3.0), 80.0])


def _delayed(h: Any, r: Any) -> Any:
    a, b, c = h
    return (tnp.tanh(a * b + r), a, b * c), tnp.sum(a * c)


def _swapping(h: Any, r: Any) -> Any:
    a, b, c = h
    return (b, a, tnp.tanh(a * b * c + r)), tnp.sum(c * b)


@pytest.mark.parametrize("step", [_delayed, _swapping])
@pytest.mark.parametrize("steps", [2, 3, 9])
@pytest.mark.parametrize("reverse", [False, True])
def test_carries_are_met_again_by_the_step_before(
    step: Function, steps: int, reverse: bool, engine: str
) -> None:
    rng = np.random.default_rng(1)
    values = [rng.normal(size=4) for _ in range(3)], rng.normal(size=(steps, 4))

    def loss(language: Language) -> Function:
        def value(h: Any, x: Any) -> Any:
            (a, b, c), rows = language.scan(step, tuple(h), x, reverse=reverse)
            return tnp.sum(tnp.sin(a) * b + c * c) + tnp.sum(rows**2)

        return value

    variables = [tw.var(f"v{i}", (4,)) for i in range(3)], tw.var("x", (steps, 4))
    given = [*values[0], values[1]]
    found, wanted = (
        tw.Graph(
            [*variables[0], variables[1]], list(leaves(tw.grad(loss(o), (0, 1))(*variables)))
        ).compile(engine=e)(*given)
        for o, e in ((LAZY, engine), (UNROLLED, "reference"))
    )
    for got, one in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-9, atol=1e-12)


def test_a_carry_that_steps_make_and_need_is_kept_once() -> None:
    """tanh needs what it gave, its product what it was given, which the step before gave."""
    w, x = tw.var("w", (16, 16)), tw.var("x", (500, 16))

    def loss(w: Any) -> Any:
        return tnp.sum(tw.scan(lambda h, r: (tnp.tanh(h @ w + r),) * 2, tnp.zeros(16), x)[1])

    plan = tw.Graph([w, x], tw.grad(loss)(w)).plan(threads=1)
    assert plan.peak_bytes < 500 * 16 * 8 * 1.2


def test_steps_that_are_computed_again_are_not_kept() -> None:
    """The carries alone with a checkpoint around a step; around parts of a loop, its square root."""
    w, x = tw.var("w", (8, 8)), tw.var("x", (400, 8))

    def step(w: Any) -> Function:
        return lambda h, r: (tnp.tanh(tnp.sin(h @ w) @ w + r), None)

    def whole(w: Any) -> Any:
        return tnp.sum(tw.scan(step(w), tnp.zeros(8), x)[0])

    def stepwise(w: Any) -> Any:
        return tnp.sum(tw.scan(tw.checkpoint(step(w)), tnp.zeros(8), x)[0])

    def in_parts(w: Any) -> Any:
        part = tw.checkpoint(lambda h, rows: tw.scan(step(w), h, rows)[0])
        parts = x.reshape(20, 20, 8)
        return tnp.sum(tw.scan(lambda h, rows: (part(h, rows), None), tnp.zeros(8), parts)[0])

    programs = [tw.Graph([w, x], tw.grad(f)(w)).compile() for f in (whole, stepwise, in_parts)]
    rng = np.random.default_rng(0)
    values = rng.normal(size=(8, 8)) / 4, rng.normal(size=(400, 8))
    first, *others = [program(*values) for program in programs]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-9)
    most, less, least = [program.plan.peak_bytes for program in programs]
    assert less < 0.6 * most
    assert least < 0.2 * most
