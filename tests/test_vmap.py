"""Functions of one example, mapped over a batch, against a loop over the examples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tawny as tw
import tawny.eager as eager
import tawny.numpy as tnp
from batch_cases import COUNT, NodeCase, node_cases
from random_graphs import assert_close, evaluated, graph_of
from tawny.array import wrap
from tawny.autodiff import batching
from tawny.engine.reference import run
from tawny.node import Node, variable
from tawny.op import CLASSES, ELEMENTWISE

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (4, 3))
W = RNG.uniform(-1, 1, 3)

# --------------------------------------------------------------- the table of ops

NODES = node_cases()

WITHOUT_OPERANDS = {"arange", "constant", "eye", "variable"}
MADE_BY_FUSION = {
    "bands", "convolution_bytes", "convolution_halves", "fused_product", "transposed_matmul", "group", "eliminate", "solve_factored", "partial_sort", "partial_argsort",
    "matmul_bytes",
    "matmul_halves",
}  # fmt: skip
TRIED_BELOW = {
    "argument", "part", "checkpoint", "custom_jvp", "custom_vjp", "implicit",
    "random_integers", "random_normal", "random_permutation", "random_uniform",
}  # fmt: skip

UNROLLED = {
    "delay", "lazy_print",  # the user's code is called for each
    "correlate",  # of booleans
    "digitize",  # with bins of its own for each
    "non_maximum_suppression", "suppression_by_class",
    "sylvester", "care", "dare",
}  # fmt: skip
"""Ops that are applied to each of a batch by itself, in some cases or in all."""


def test_every_op_is_applied_to_batches() -> None:
    tried = {case.name for case in NODES}
    missing = (set(CLASSES) | set(ELEMENTWISE)) - tried
    assert missing == WITHOUT_OPERANDS | MADE_BY_FUSION | TRIED_BELOW


class BatchCase(NamedTuple):
    """A node of which some operands are batched: the results, and what they must be."""

    label: str
    results: list[Node]
    values: dict[Node, np.ndarray]
    expected: list[np.ndarray]

    def check(self, got: Any) -> None:
        for value, wanted in zip(got, self.expected, strict=True):
            given = np.asarray(value)
            assert (given.shape, given.dtype) == (wanted.shape, wanted.dtype), self.label
            if wanted.dtype.kind not in "fc":
                np.testing.assert_array_equal(given, wanted, err_msg=self.label)
                continue
            finite = np.abs(wanted[np.isfinite(wanted)], dtype=np.float64)
            near = 64 * float(np.finfo(wanted.dtype).eps)
            most = float(finite.max()) if finite.size else 0.0
            np.testing.assert_allclose(
                given, wanted, rtol=near, atol=near * most, err_msg=self.label
            )


def batch_case(case: NodeCase, mask: tuple[bool, ...]) -> BatchCase:
    """A node with some operands batched, beside a loop over the batch."""
    holders = case.node.inputs
    whole = [b if m else v for b, v, m in zip(case.batches(), case.values, mask, strict=True)]
    given = [
        variable(None, x.shape, x.dtype) if m else h
        for x, h, m in zip(whole, holders, mask, strict=True)
    ]
    results = batching.batch(
        case.results, {h: g for h, g, m in zip(holders, given, mask, strict=True) if m}
    )
    loop = [
        run(
            case.results,
            {h: np.asarray(x[k]) if m else x for h, x, m in zip(holders, whole, mask, strict=True)},
        )
        for k in range(COUNT)
    ]
    expected = [np.stack(rows) for rows in zip(*loop, strict=True)]
    label = f"{case.node.op!r} {[(h.shape, str(h.dtype)) for h in holders]} {mask}"
    return BatchCase(label, results, dict(zip(given, whole, strict=True)), expected)


def batch_cases(most: int) -> list[BatchCase]:
    """All choices of batched operands, of some nodes of each op."""
    counts: dict[str, int] = {}
    made: list[BatchCase] = []
    for case in NODES:
        counts[case.name] = counts.get(case.name, 0) + 1
        if counts[case.name] <= most:
            made += [batch_case(case, mask) for mask in case.masks()]
    return made


def test_ops_on_batches_are_those_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the reference engine, for each choice of batched operands."""
    unrolled: set[str] = set()
    each = batching._apply_to_each

    def note(node: Node, operands: Any) -> list[Node]:
        unrolled.add(node.op.facts().name)
        return each(node, operands)

    monkeypatch.setattr(batching, "_apply_to_each", note)
    with np.errstate(all="ignore"):
        cases = batch_cases(200)
        for case in cases:
            case.check(run(case.results, case.values))
    assert len(cases) > 2000
    assert unrolled == UNROLLED


def test_programs_of_ops_on_batches_are_those_of_a_loop() -> None:
    """The same, compiled: many in each program."""
    with np.errstate(all="ignore"):
        cases = batch_cases(4)
    for first in range(0, len(cases), 100):
        some = cases[first : first + 100]
        given = {x: value for case in some for x, value in case.values.items()}
        graph = tw.Graph([wrap(x) for x in given], [[wrap(r) for r in c.results] for c in some])
        with np.errstate(all="ignore"):
            values = graph.compile()(*given.values())
        for case, got in zip(some, values, strict=True):
            case.check(got)


def test_random_graphs_on_batches_are_those_of_a_loop() -> None:
    for seed in range(300):
        graph = graph_of(seed, 3 + seed % 25, smooth=seed % 2 == 0, impure=False)
        variables = list(graph.feeds)
        feeds: dict[Node, Any] = {}
        batches: dict[Node, Node] = {}
        for i, v in enumerate(variables):
            value = graph.feeds[v]
            if i and seed % 3 == 0:
                feeds[v] = value
                continue
            rows = [_other(value, k) for k in range(COUNT)]
            batches[v] = variable(None, (COUNT, *v.shape), v.dtype)
            feeds[batches[v]] = np.stack(rows)
        if not batches:
            continue
        try:
            loop = [
                evaluated(
                    graph.outputs,
                    {v: feeds[batches[v]][k] if v in batches else feeds[v] for v in variables},
                )
                for k in range(COUNT)
            ]
        except (ValueError, OverflowError):  # indices of another example are outside
            continue
        got = evaluated(batching.batch(list(graph.outputs), batches), feeds)
        assert_close(got, [np.stack(rows) for rows in zip(*loop, strict=True)])


def _other(x: np.ndarray, k: int) -> np.ndarray:
    """The value of another example: scaled, or the same integers in another order."""
    if x.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            return (x * (1 + k / 64)).astype(x.dtype)
    return np.roll(x, k, axis=-1) if x.ndim else x


# ------------------------------------------------------------------------- axes


def test_a_batch_lies_along_any_axis() -> None:
    for axis in (0, 1, 2, -1, -2):
        whole = np.moveaxis(RNG.uniform(-1, 1, (4, 2, 3)), 0, axis)
        for out in (0, 1, -1):
            got = tw.vmap(lambda x: tnp.sum(x * W, axis=1), axis, out)(whole)
            loop = np.stack([(np.take(whole, i, axis) * W).sum(1) for i in range(4)], out)
            np.testing.assert_allclose(got.numpy(), loop)


def test_structures_say_axes_for_their_parts() -> None:
    params = {"w": X, "b": [np.ones(2), "kept", None]}

    def function(p: Any, x: Any, scale: float, *, shift: Any) -> Any:
        assert p["b"][1:] == ["kept", None]
        assert scale == 2.0
        return {"sum": p["w"] @ x * scale + shift, "same": tnp.asarray(p["b"][0]), "none": None}

    mapped = tw.vmap(
        function,
        in_axes=({"w": 0, "b": None}, np.int64(1), None),
        out_axes={"sum": 0, "same": None, "none": 0},
    )
    got = mapped(params, X.T, 2.0, shift=np.arange(4.0))
    np.testing.assert_allclose(got["sum"].numpy(), 2 * (X * X).sum(1) + np.arange(4))
    assert got["same"].shape == (2,)
    assert got["none"] is None


def test_one_axis_says_it_for_all_below() -> None:
    got = tw.vmap(lambda x: x, (([0],),))(([{"a": X, "b": (X,)}],))
    assert got[0][0]["a"].shape == got[0][0]["b"][0].shape == (4, 3)


def test_what_is_the_same_for_all_is_repeated_where_it_must_be() -> None:
    one, two = tw.vmap(lambda x: (np.ones(2), 3))(X)
    assert (one.shape, two.shape) == ((4, 2), (4,))


def test_a_batch_of_no_examples() -> None:
    got = tw.vmap(lambda x: (tnp.sort(x), tnp.sum(x), tnp.linalg.slogdet(tnp.outer(x, x))[1]))
    assert [x.numpy().shape for x in got(np.ones((0, 3)))] == [(0, 3), (0,), (0,)]


WRONG: list[tuple[Any, str]] = [
    (lambda: tw.vmap(lambda x, y: x)(X, np.ones(5)), r"argument 0 has 4 along axis 0; argument 1 has 5 along axis 0: the batch must have one size"),
    (lambda: tw.vmap(lambda x: x)({"a": X, "b": 1.0}), "argument 0, b, has no axes for the batch; .*None if it is the same for all"),
    (lambda: tw.vmap(lambda x: x, 2)(X), r"argument 0 has shape \(4, 3\), which has no axis 2"),
    (lambda: tw.vmap(lambda x, y: x, None)(X, X), "in_axes is None, so that no argument has a batch"),
    (lambda: tw.vmap(lambda x: x, (0, 1))(X), "in_axes has 2 items for 1 positional arguments"),
    (lambda: tw.vmap(lambda x: x, ({"b": 0},))({"a": X}), r"in_axes does not fit argument 0: it has \['b'\], where there are \['a'\]"),
    (lambda: tw.vmap(lambda x: x, ((0, 0),))(X), "in_axes does not fit argument 0: tuple stands for ndarray"),
    (lambda: tw.vmap(lambda x: x, out_axes=3)(X), "out_axes is 3 for the result which has 2 axes .* from -2 to 1"),
    (lambda: tw.vmap(lambda x: {"a": x}, out_axes=None)(X), "out_axes is None for the result, a, which is not the same for all"),
    (lambda: tw.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(X), "out_axes does not fit the result: it has"),
    (lambda: tw.vmap(lambda x: "a")(X), "the function gives str 'a'; accepted: arrays"),
    (lambda: tw.vmap(lambda x: x, "0"), "in_axes is '0'; accepted: an integer, None"),
    (lambda: tw.vmap(lambda x: x, out_axes=(0, True)), "out_axes, 1, is True; accepted"),
    (lambda: tw.vmap(lambda x: x)("abc"), "argument 0 is str 'abc'; accepted: arrays"),
    (lambda: tw.vmap(X), "the first argument is ndarray; it is a function"),
    (lambda: tw.vmap(lambda x: 1.0 if x[0] > 0 else 2.0)(X), r"no example has a value of its own: np.where"),
    (lambda: tw.vmap(lambda x: x.numpy())(X), "no example has a value of its own"),
    (lambda: tw.vmap(lambda x: tnp.zeros(int(x)))(np.arange(3)), "no example has a value of its own"),
    (lambda: tw.vmap(lambda x: tw.evaluate(x))(X), "no example has a value of its own"),
    (lambda: tw.vmap(lambda x: tw.Graph([], x * 2).compile()())(X), "variables that are not inputs: 'one of argument 0 in vmap'"),
    (lambda: tw.vmap(_with_update)(X), "variables that are not inputs: 'one of argument 0 in vmap'"),
]  # fmt: skip


def _with_update(x: Any) -> Any:
    """An update edge inside: a program of one example."""
    state = tw.var("state", (3,))
    return tw.Graph([state], state, updates={state: state + x}).compile()(np.zeros(3))


@pytest.mark.parametrize("wrong", range(len(WRONG)))
def test_wrong_uses_say_what_is_accepted(wrong: int) -> None:
    call, said = WRONG[wrong]
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        call()
    assert "test_vmap.py" in str(caught.value)


def test_an_example_that_leaves_the_function_is_refused_later() -> None:
    kept: list[Any] = []
    tw.vmap(lambda x: kept.append(x) or x)(X)
    with pytest.raises(TypeError, match="variable 'one of argument 0 in vmap', not known"):
        kept[0].numpy()


# ------------------------------------------------------------------- together with


def loss(w: Any, x: Any) -> Any:
    return tnp.sum(tnp.tanh(w @ x)) ** 2


M = RNG.uniform(-1, 1, (2, 3))


def test_per_example_gradients() -> None:
    each = tw.vmap(tw.grad(loss), in_axes=(None, 0))(M, X).numpy()
    np.testing.assert_allclose(each, [tw.grad(loss)(M, x).numpy() for x in X])
    total = tw.grad(lambda w: tnp.sum(tw.vmap(loss, (None, 0))(w, X)))(M).numpy()
    np.testing.assert_allclose(total, each.sum(0))


@pytest.mark.parametrize(
    "derive", [tw.jacfwd, tw.jacrev, tw.jacobian, tw.hessian], ids=lambda f: f.__name__
)
def test_derivatives_inside_and_outside(derive: Any) -> None:
    def function(x: Any) -> Any:
        return tnp.sum(tnp.sin(x) * tnp.cumsum(x))

    inside = tw.vmap(derive(function))(X).numpy()
    np.testing.assert_allclose(inside, [derive(function)(x).numpy() for x in X], atol=1e-12)
    outside = derive(lambda x: tnp.sum(tw.vmap(function)(x) ** 2))(X).numpy()
    plain = derive(lambda x: sum(function(x[i]) ** 2 for i in range(4)))(X).numpy()
    np.testing.assert_allclose(outside, plain, atol=1e-12)


def test_vjp_and_jvp_of_a_batch_and_batches_of_them() -> None:
    value, pull = tw.vjp(tw.vmap(lambda x: tnp.sum(x**2)), X)
    np.testing.assert_allclose(value.numpy(), (X**2).sum(1))
    np.testing.assert_allclose(pull(np.ones(4))[0].numpy(), 2 * X)
    pushed = tw.vmap(lambda x, t: tw.jvp(lambda a: tnp.sum(a**3), (x,), (t,))[1])(X, X)
    np.testing.assert_allclose(pushed.numpy(), 3 * (X**3).sum(1))


def test_batches_of_batches() -> None:
    table = tw.vmap(tw.vmap(lambda x, y: tnp.sum(x * y), (None, 0)), (0, None))(X, X[:2]).numpy()
    np.testing.assert_allclose(table, X @ X[:2].T)


def test_jit_inside_and_outside() -> None:
    inner = tw.jit(lambda x, y: tnp.sum(x * y))
    np.testing.assert_allclose(tw.vmap(inner, (0, None))(X, W).numpy(), X @ W)
    np.testing.assert_allclose(tw.jit(tw.vmap(inner, (0, None)))(X, W), X @ W)
    closed = tw.vmap(lambda x: tw.jit(lambda y: tnp.sum(x * y))(W))
    np.testing.assert_allclose(closed(X).numpy(), X @ W)


def test_variables_and_eager_functions() -> None:
    x = tw.var("x", (4, 3))
    program = tw.Graph([x], tw.vmap(lambda v: tnp.sort(v) @ W)(x)).compile()
    np.testing.assert_allclose(program(X), np.sort(X) @ W)
    np.testing.assert_allclose(
        tw.vmap(lambda v: eager.sum(eager.sin(v)))(X).numpy(), np.sin(X).sum(1)
    )
    whole = tw.vmap(lambda v: eager.sum(v, dtype="int64"))(np.arange(6).reshape(3, 2))
    assert whole.numpy().tolist() == [1, 5, 9]
    with eager.at_once():
        np.testing.assert_allclose(tw.vmap(lambda v: tnp.sum(v))(X).numpy(), X.sum(1))


def test_a_model_for_each_example() -> None:
    """An ensemble: parameters are what is mapped."""

    def make() -> Any:
        return tw.nn.Sequential(tw.nn.Linear(3, 4, activation="tanh"), tw.nn.Linear(4, 1))

    model, several = make(), [make() for _ in range(3)]
    stacked = _stack([m.parameters for m in several])
    got = tw.vmap(model.apply, in_axes=(0, None))(stacked, X).numpy()
    np.testing.assert_allclose(got, [m(X).numpy() for m in several], rtol=1e-5, atol=1e-6)


def _stack(structures: list[Any]) -> Any:
    first = structures[0]
    if isinstance(first, dict):
        return {k: _stack([s[k] for s in structures]) for k in first}
    return np.stack([np.asarray(s) for s in structures])


def test_derivatives_that_the_user_gives() -> None:
    @tw.custom_vjp
    def clipped(x: Any, w: Any) -> Any:
        return tnp.sum(x * w)

    clipped.defvjp(
        lambda x, w: (clipped(x, w), (x, w)), lambda kept, c: (7 * c * kept[1], 5 * c * kept[0])
    )

    @tw.custom_jvp
    def power(x: Any, n: float) -> Any:
        return x**n

    @power.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x, n), (t, _) = primals, tangents
        return power(x, n), 11 * n * x ** (n - 1) * t

    mapped = tw.vmap(clipped, (0, None))
    np.testing.assert_allclose(tw.grad(lambda w: tnp.sum(mapped(X, w)))(W).numpy(), 5 * X.sum(0))
    np.testing.assert_allclose(
        tw.grad(lambda x: tnp.sum(mapped(x, W)))(X).numpy(), 7 * np.tile(W, (4, 1))
    )
    np.testing.assert_allclose(
        tw.vmap(tw.grad(clipped), (0, None))(X, W).numpy(), 7 * np.tile(W, (4, 1))
    )
    twice = tw.vmap(tw.vmap(clipped, (0, None)), (None, 0))
    np.testing.assert_allclose(
        tw.grad(lambda w: tnp.sum(twice(X, w)))(np.stack([W, W])).numpy(),
        5 * np.tile(X.sum(0), (2, 1)),
    )
    cube = tw.vmap(lambda x: power(x, 3.0))
    for change in (
        tw.jvp(cube, (X,), (np.ones((4, 3)),))[1],
        tw.grad(lambda x: tnp.sum(cube(x)))(X),
        tw.vmap(lambda x: tw.jvp(lambda a: power(a, 3.0), (x,), (np.ones(3),))[1])(X),
    ):
        np.testing.assert_allclose(change.numpy(), 33 * X**2)


def test_equations() -> None:
    """A root of each example, and its derivative."""

    def cube_root(a: Any) -> tw.Array:
        return tw.solve.root(lambda y: y**3 - a, 1.0).x

    a = np.array([0.5, 1.0, 8.0])
    np.testing.assert_allclose(tw.vmap(cube_root)(a).numpy(), np.cbrt(a))
    np.testing.assert_allclose(tw.vmap(tw.grad(cube_root))(a).numpy(), np.cbrt(a) ** -2 / 3)


def test_checkpoints() -> None:
    block = tw.checkpoint(lambda a, w: tnp.sin(tnp.sin(a * w)))
    plain = lambda a, w: tnp.sin(tnp.sin(a * w))  # noqa: E731
    for f in (
        lambda g: tw.grad(lambda w: tnp.sum(tw.vmap(g, (0, None))(X, w)))(W),
        lambda g: tw.grad(lambda x: tnp.sum(tw.vmap(g, (0, None))(x, W)))(X),
        lambda g: tw.vmap(tw.grad(lambda x, w: tnp.sum(g(x, w))), (0, None))(X, W),
        lambda g: tw.jvp(tw.vmap(g, (0, None)), (X, W), (X, W))[1],
    ):
        np.testing.assert_allclose(f(block).numpy(), f(plain).numpy())


def test_python_functions_are_called_for_each_example() -> None:
    calls: list[Any] = []

    def total(x: Any) -> Any:
        calls.append(x.shape)
        return x.sum()

    got = tw.vmap(lambda x: tw.delay(total, x, shape=()) * 2)(X).numpy()
    np.testing.assert_allclose(got, 2 * X.sum(1))
    assert calls == [(3,)] * 4


# ----------------------------------------------------------------------- random arrays


def drawn(make: Any) -> Any:
    tw.random.seed(3)
    return make().numpy()


def test_each_example_draws_its_own_numbers() -> None:
    """The first example draws what it would by itself."""
    zeros = np.zeros(5)
    for draw in (
        lambda: tw.random.normal(shape=(3,)),
        lambda: tw.random.uniform(2.0, 3.0, (2, 3)),
        lambda: tw.random.integers(100, shape=(3,)),
        lambda: tw.random.exponential(2.0, (3,)),
        lambda: tw.random.bernoulli(0.5, (64,)),
    ):
        each = drawn(lambda draw=draw: tw.vmap(lambda _: draw())(zeros))
        np.testing.assert_array_equal(each[0], drawn(draw))
        assert len(np.unique(each, axis=0)) == 5
    nested = drawn(
        lambda: tw.vmap(lambda x: tw.vmap(lambda y: y + tw.random.normal())(x))(np.zeros((5, 4)))
    )
    np.testing.assert_array_equal(nested, drawn(lambda: tw.random.normal(shape=(5, 4))))


def test_draws_depend_on_examples_where_their_bounds_do() -> None:
    high = np.array([1, 10, 1000])
    each = drawn(lambda: tw.vmap(lambda h: tw.random.integers(0, h, (50,)))(high))
    assert each.shape == (3, 50)
    assert (each < high[:, None]).all()
    assert each[2].max() > 100
    orders = drawn(
        lambda: tw.vmap(lambda x: tw.random.permutation(x))(np.tile(np.arange(20), (6, 1)))
    )
    assert (np.sort(orders, axis=1) == np.arange(20)).all()
    assert len(np.unique(orders, axis=0)) == 6
    few = drawn(
        lambda: tw.vmap(lambda x: tw.random.choice(x, 2, replace=False))(
            np.tile(np.arange(20), (6, 1))
        )
    )
    assert few.shape == (6, 2)
    assert (few[:, 0] != few[:, 1]).all()


def test_draws_from_outside_are_the_same_for_all() -> None:
    tw.random.seed(1)
    noise = tw.random.normal(shape=(3,))
    got = tw.vmap(lambda x: 0 * x + noise)(X).numpy()
    assert (got == noise.numpy()).all()


def test_draws_inside_derivatives_and_programs() -> None:
    gradient = drawn(
        lambda: tw.vmap(tw.grad(lambda x: tnp.sum(x * tw.random.normal(shape=(3,)))))(X)
    )
    np.testing.assert_array_equal(gradient, drawn(lambda: tw.random.normal(shape=(4, 3))))
    tw.random.seed(3)
    program = tw.jit(tw.vmap(lambda x: x + tw.random.uniform()))
    first, second = program(np.zeros(4)), program(np.zeros(4))
    assert len(np.unique([first, second])) == 8, "each example, and each run"


def test_draws_on_a_batch_follow_their_ops() -> None:
    """Bounds that are batched, of a draw that nobody noted."""
    low = variable(None, (), np.dtype("i8"))
    draw = tw.random.integers(wrap(low), wrap(low) + 10, (8,))
    whole = tnp.asarray(np.array([0, 100])).node
    (got,) = batching.batch([draw.node], {low: whole})
    values = wrap(got).numpy()
    assert values.shape == (2, 8)
    assert (values[0] < 10).all()
    assert (values[1] >= 100).all()
    order = tw.random.permutation(5).node
    assert type(order.op).__name__ == "Permutation"
