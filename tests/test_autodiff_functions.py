"""Derivatives of functions: what `grad` and its kin give, whatever they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import tawny as tw
import tawny.autodiff.checkpoint
import tawny.autodiff.custom
import tawny.numpy as tnp
from tawny.node import toposort
from tawny.ops.differentiation import Argument
from tawny.testing import check_grads

RNG = np.random.default_rng(3)
X = RNG.uniform(0.2, 1.0, (3,))
M = RNG.uniform(-1, 1, (3, 3))
KNOWN = tnp.asarray(X)


def energy(x: tw.Array) -> tw.Array:
    return tnp.sum(tnp.sin(x) * (M @ x) ** 2)


# ------------------------------------------------------------------------- grad


def test_grad_of_a_number() -> None:
    assert tw.grad(lambda x: x**3)(2.0).numpy() == 12
    assert tw.grad(tw.grad(lambda x: x**3))(2.0).numpy() == 12
    assert tw.grad(tw.grad(tw.grad(lambda x: x**3)))(2.0).numpy() == 6


def test_what_the_function_uses_besides_its_argument_is_constant() -> None:
    x = tw.var("x", shape=())
    gradient = tw.grad(lambda y: y * x)(x)
    assert tw.Graph([x], gradient).compile()(5.0) == 5
    two = tnp.asarray(2.0)
    assert tw.grad(lambda y: y * two)(two).numpy() == 2
    assert tw.grad(lambda y: y * 2.0)(2.0).numpy() == 2


def test_the_derivative_mentions_the_users_arrays_only() -> None:
    x = tw.var("x", shape=(3,))
    loss = energy(x)
    value, gradient = tw.value_and_grad(energy)(x)
    assert value.node is loss.node, "the forward pass is shared with what the user built"
    ops = {type(n.op) for n in toposort([gradient.node])}
    assert Argument not in ops
    found = tw.Graph([x], [value, gradient]).compile()(X)
    np.testing.assert_allclose(
        found[1],
        tw.gradients(loss, [x])[0].numpy()
        if loss.node.known
        else tw.Graph([x], tw.gradients(loss, [x])[0]).compile()(X),
    )


def test_a_function_may_look_at_values() -> None:
    def function(x: tw.Array) -> tw.Array:
        y = x * x
        return y * 3 if y > 1 else y

    assert tw.grad(function)(2.0).numpy() == 12
    assert tw.grad(function)(0.5).numpy() == 1


def test_values_may_be_taken_out_where_no_slope_is_lost() -> None:
    assert tw.grad(lambda x: x * float(tw.stop_gradient(x)))(3.0).numpy() == 3
    assert (
        tw.grad(lambda x: tnp.sum(x) * int(tnp.argmax(x)))(X * np.array([1, 2, 0])).numpy()[0] == 1
    )
    assert tw.grad(lambda x: tnp.sum(x[tnp.nonzero(x > 0.5)]))(np.array([0.1, 0.9])).tolist() == [
        0,
        1,
    ]


class Pair(NamedTuple):
    a: object
    b: object


@dataclass
class Layer:
    w: object
    b: object


@pytest.mark.parametrize(
    "params",
    [
        {"w": M, "b": X},
        [M, X],
        Pair(M, X),
        Layer(M, X),
        {"layers": [{"w": M}, (X,)]},
    ],
    ids=lambda p: type(p).__name__,
)
def test_structures(params: object) -> None:
    def loss(p: object, x: object) -> tw.Array:
        w, b = tree_leaves(p)
        return tnp.sum(tnp.tanh(w @ x + b))

    from tawny.tree import leaves as tree_leaves

    got = tw.grad(loss)(params, X)
    assert type(got) is type(params)
    slope = 1 - np.tanh(M @ X + X) ** 2
    found = [g.numpy() for g in tree_leaves(got)]
    np.testing.assert_allclose(found[0], np.outer(slope, X))
    np.testing.assert_allclose(found[1], slope)


def test_argnums_and_aux() -> None:
    def function(
        x: tw.Array, y: tw.Array, *, scale: float = 1.0
    ) -> tuple[tw.Array, dict[str, tw.Array]]:
        return scale * x * y**2, {"y": y + 1}

    (gx, gy), aux = tw.grad(function, (0, 1), has_aux=True)(2.0, 3.0, scale=2.0)
    assert (gx.numpy(), gy.numpy(), aux["y"].numpy()) == (18, 24, 4)
    (value, aux), (gy,) = tw.value_and_grad(function, [1], has_aux=True)(2.0, 3.0)
    assert (value.numpy(), gy.numpy()) == (18, 12)
    assert tw.grad(lambda x, y: x * y, -1)(2.0, 3.0).numpy() == 2


def test_a_python_number_takes_the_dtype_beside_it() -> None:
    x = np.ones(3, np.float32)
    gx, gs = tw.grad(lambda x, s: tnp.sum(x * s), (0, 1))(x, 2.0)
    assert (gx.dtype, gs.dtype) == (np.float32, np.float32)


def test_what_is_not_reached_is_zero() -> None:
    gx, gy = tw.grad(lambda x, y: tnp.sum(x), (0, 1))(X, X)
    np.testing.assert_array_equal(gx.numpy(), 1)
    np.testing.assert_array_equal(gy.numpy(), 0)
    assert tw.grad(lambda x: tnp.asarray(3.0))(1.0).numpy() == 0


def test_gradients_of_a_graph_already_built() -> None:
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    h = x * y
    z = tnp.sum(h * h)
    gx, gh = tw.gradients(z, wrt=[x, h])
    found = tw.Graph([x, y], [gx, gh]).compile()(X, 2 * X)
    np.testing.assert_allclose(found[0], 8 * X**3)
    np.testing.assert_allclose(found[1], 4 * X**2)


WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "shape": (
        lambda: tw.grad(lambda x: x)(X),
        TypeError,
        r"grad: the result has shape \(3,\); it must be one number",
    ),
    "integer": (
        lambda: tw.grad(lambda x: x)(3),
        TypeError,
        r"grad: argument 0 is 3; only floating-point",
    ),
    "integers": (
        lambda: tw.grad(tnp.sum)(np.arange(3)),
        TypeError,
        r"grad: argument 0 has dtype int64",
    ),
    "nested": (
        lambda: tw.grad(lambda p: p["a"])({"a": np.arange(3)}),
        TypeError,
        r"argument 0, a, has dtype int64",
    ),
    "argnums": (
        lambda: tw.grad(lambda x: x, 2)(1.0),
        ValueError,
        r"argnums names argument 2; 1 positional",
    ),
    "twice": (
        lambda: tw.grad(lambda x, y: x, (0, 0))(1.0, 1.0),
        ValueError,
        "names an argument twice",
    ),
    "structure": (
        lambda: tw.grad(lambda x: (x, x))(1.0),
        TypeError,
        r"gives tuple; its result must be one number",
    ),
    "string": (
        lambda: tw.grad(lambda x: x)("a"),
        TypeError,
        r"argument 0 is str; accepted: arrays and numbers",
    ),
    "none": (
        lambda: tw.grad(lambda x: None)(1.0),
        TypeError,
        r"the function gives NoneType None; accepted: arrays",
    ),
    "complex": (
        lambda: tw.grad(lambda x: x * 1j)(1.0),
        TypeError,
        r"dtype complex128.*holomorphic=True",
    ),
    "boolean": (lambda: tw.grad(lambda x: x > 0)(1.0), TypeError, r"the result has dtype bool"),
    "tangent": (
        lambda: tw.jvp(tnp.sin, (X,), (M,)),
        ValueError,
        r"tangent has shape \(3, 3\); it must have shape \(3,\)",
    ),
    "tangents": (
        lambda: tw.jvp(tnp.sin, (X,), (X, X)),
        ValueError,
        r"2 tangents came for 1 primals",
    ),
    "cotangent": (
        lambda: tw.vjp(tnp.sin, X)[1](M),
        ValueError,
        r"cotangent has shape \(3, 3\); it must have shape \(3,\)",
    ),
    "cotangents": (
        lambda: tw.vjp(lambda x: (x, x), X)[1](X),
        ValueError,
        r"must have the structure",
    ),
    "wrt": (
        lambda: tw.gradients(tnp.sum(tnp.asarray(X)), [X]),
        TypeError,
        r"gradients: wrt 0 is ndarray",
    ),
    "known": (
        lambda: tw.gradients(tnp.sum(KNOWN * KNOWN), [KNOWN]),
        ValueError,
        r"gradients: wrt 0 depends on no variable",
    ),
    "output": (lambda: tw.gradients(1.0, []), TypeError, r"gradients: output is float"),
    "aux": (
        lambda: tw.grad(lambda x: x, has_aux=True)(1.0),
        TypeError,
        r"with has_aux the function gives a pair",
    ),
    "jacrev": (lambda: tw.jacrev(lambda x: x * 1j)(X), TypeError, r"holomorphic=True"),
    "jacfwd": (lambda: tw.jacfwd(lambda x: x)(X + 1j), TypeError, r"holomorphic=True"),
    "function": (
        lambda: tw.grad(3),
        TypeError,
        r"grad: the first argument is int; it is a function",
    ),
    "one wrt": (
        lambda: tw.gradients(tnp.sum(tnp.asarray(X)), tnp.asarray(X)),
        TypeError,
        r"wrt is Array; accepted: a list of arrays",
    ),
    "primals": (
        lambda: tw.jvp(tnp.sin, X, X),
        TypeError,
        r"jvp: primals is ndarray; accepted: a tuple",
    ),
    "taken out": (
        lambda: tw.grad(lambda x: x * float(x))(2.0),
        ValueError,
        r"float: the function is being differentiated",
    ),
    "as NumPy": (
        lambda: tw.grad(lambda x: tnp.sum(x * x.numpy()))(X),
        ValueError,
        r"numpy: the function is being",
    ),
    "in NumPy": (
        lambda: tw.grad(lambda x: tnp.sum(x * np.linalg.norm(np.asarray(x))))(X),
        ValueError,
        r"asarray: the function",
    ),
    "order": (lambda: check_grads(tnp.sin, (1.0,), order=0), ValueError, r"order is 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_say_what_is_wrong(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message) as caught:
        call()
    assert "test_autodiff_functions.py" in str(caught.value), "the user's line is named"


# ------------------------------------------------------------------ vjp and jvp


def test_vjp_and_jvp_of_structures() -> None:
    def function(p: dict[str, tw.Array], y: tw.Array) -> tuple[tw.Array, dict[str, tw.Array]]:
        return p["a"] * y, {"s": tnp.sum(p["a"])}

    p = {"a": X}
    (first, _), pullback = tw.vjp(function, p, 2 * X)
    np.testing.assert_allclose(first.numpy(), 2 * X**2)
    gp, gy = pullback((X, {"s": 3.0}))
    np.testing.assert_allclose(gp["a"].numpy(), 2 * X**2 + 3)
    np.testing.assert_allclose(gy.numpy(), X**2)
    _, (t, s) = tw.jvp(function, (p, 2 * X), ({"a": X}, X))
    np.testing.assert_allclose(t.numpy(), 3 * X**2)
    np.testing.assert_allclose(s["s"].numpy(), X.sum())


def test_linearize_is_linear_and_can_be_used_again() -> None:
    value, push = tw.linearize(energy, X)
    np.testing.assert_allclose(value.numpy(), np.sum(np.sin(X) * (M @ X) ** 2))
    one, two = push(X).numpy(), push(2 * X).numpy()
    np.testing.assert_allclose(two, 2 * one)
    np.testing.assert_allclose(one, tw.jvp(energy, (X,), (X,))[1].numpy())


def test_aux_of_vjp_and_jvp() -> None:
    _, pullback, aux = tw.vjp(lambda x: (x * 2, x + 1), 3.0, has_aux=True)
    assert (pullback(1.0)[0].numpy(), aux.numpy()) == (2, 4)
    _, tangent, aux = tw.jvp(lambda x: (x * 2, x + 1), (3.0,), (1.0,), has_aux=True)
    assert (tangent.numpy(), aux.numpy()) == (2, 4)


# ------------------------------------------------------------------- jacobians


def curve(x: tw.Array) -> tw.Array:
    return tnp.stack([tnp.sum(x**2), x[0] * x[1]], axis=0)


def surface(x: tw.Array) -> tw.Array:
    return tnp.sin(M @ x)[:, None] * x[None, :]


def differences(function: Callable[..., tw.Array], x: np.ndarray) -> np.ndarray:
    columns = []
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-6
        columns.append(
            (function(tnp.asarray(x + step)).numpy() - function(tnp.asarray(x - step)).numpy())
            / 2e-6
        )
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


@pytest.mark.parametrize(
    "function",
    [curve, surface, lambda x: tnp.cumulative_sum(x) / x],
    ids=["curve", "surface", "sums"],
)
@pytest.mark.parametrize("mode", ["jacobian", "jacfwd", "jacrev"])
def test_jacobians(function: Callable[..., tw.Array], mode: str) -> None:
    got = getattr(tw, mode)(function)(X).numpy()
    np.testing.assert_allclose(got, differences(function, X), atol=1e-8)


def test_jacobian_of_structures() -> None:
    got = tw.jacobian(lambda p: {"a": p["x"] * p["y"], "b": p["x"]})({"x": X, "y": 2.0})
    np.testing.assert_allclose(got["a"]["x"].numpy(), np.diag([2.0] * 3))
    np.testing.assert_allclose(got["a"]["y"].numpy(), X)
    np.testing.assert_array_equal(got["b"]["y"].numpy(), np.zeros(3))
    (only,) = tw.jacrev(lambda x: x * 2, [0])(X)
    np.testing.assert_array_equal(only.numpy(), 2 * np.eye(3))


def test_jacobian_takes_the_cheaper_mode() -> None:
    wide, tall = tw.var("w", shape=(50,)), tw.var("t", shape=(2,))
    for x, function in ((wide, curve), (tall, lambda t: tnp.concat([t] * 25) ** 2)):
        made = {
            m: len(toposort([getattr(tw, m)(function)(x).node]))
            for m in ("jacobian", "jacfwd", "jacrev")
        }
        assert made["jacobian"] == (made["jacrev"] if x is wide else made["jacfwd"])


def test_a_jacobian_is_one_pass_whatever_its_size() -> None:
    """Directions lie along an axis of their own; the graph does not grow with their number."""

    def nodes(n: int) -> int:
        x = tw.var("x", shape=(n,))
        weights = tnp.asarray(np.ones((n, n)))

        def network(x: tw.Array) -> tw.Array:
            h = tnp.tanh(x[None, :] @ weights)[0]
            return tnp.concat([h[::-1], tnp.cumulative_sum(h)]) * 2

        return len(toposort([tw.jacrev(network)(x).node, tw.jacfwd(network)(x).node]))

    assert nodes(4) == nodes(40)


def test_hessian_and_its_kin() -> None:
    expected = differences(tw.grad(energy), X)
    np.testing.assert_allclose(tw.hessian(energy)(X).numpy(), expected, atol=1e-7)
    gradient, matrix = tw.gradhessian(energy)(X)
    np.testing.assert_allclose(matrix.numpy(), expected, atol=1e-7)
    np.testing.assert_allclose(gradient.numpy(), tw.grad(energy)(X).numpy())
    np.testing.assert_allclose(tw.hvp(energy, X, X).numpy(), expected @ X, atol=1e-7)
    np.testing.assert_allclose(tw.laplacian(energy)(X).numpy(), np.trace(expected), atol=1e-7)
    J = tw.jacobian(surface)(X).numpy()
    np.testing.assert_allclose(tw.jacobianv(surface, X, X).numpy(), J @ X)
    np.testing.assert_allclose(tw.jacobianTv(surface, X, M).numpy(), np.einsum("ij,ijk", M, J))


def test_diff_of_a_scalar_function() -> None:
    np.testing.assert_allclose(tw.diff(tnp.sin)(X).numpy(), np.cos(X))
    assert tw.diff(tw.diff(lambda x: x**3))(2.0).numpy() == 12


def test_holomorphic_derivatives() -> None:
    z = 0.3 + 0.4j
    assert tw.grad(lambda z: tnp.exp(z) * z, holomorphic=True)(z).numpy() == pytest.approx(
        np.exp(z) * (1 + z)
    )
    got = tw.jacobian(lambda z: z**2, holomorphic=True)(np.array([z, 2 * z])).numpy()
    np.testing.assert_allclose(got, np.diag([2 * z, 4 * z]))


def test_the_gradient_in_a_complex_number_is_jaxs() -> None:
    """For f = u + iv real-valued: du/dx - i du/dy."""
    z = np.array([0.3 + 0.4j])
    np.testing.assert_allclose(
        tw.grad(lambda z: tnp.sum(tnp.abs(z) ** 2))(z).numpy(), 2 * np.conj(z)
    )
    np.testing.assert_allclose(tw.grad(lambda z: tnp.sum(tnp.imag(z)))(z).numpy(), -1j)


# ------------------------------------------------ programs, custom, checkpoints


def test_a_derivative_is_a_program_like_any_other() -> None:
    gradient = tw.jit(tw.value_and_grad(energy))
    for x in (X, 2 * X):
        value, slope = gradient(x)
        np.testing.assert_allclose(slope, tw.grad(energy)(x).numpy())
        np.testing.assert_allclose(value, energy(tnp.asarray(x)).numpy())


def test_stop_gradient() -> None:
    assert tw.grad(lambda x: x * tw.stop_gradient(x))(3.0).numpy() == 3
    assert tw.jvp(lambda x: x * tw.stop_gradient(x), (3.0,), (1.0,))[1].numpy() == 3
    assert tw.stop_gradient(np.arange(3)).dtype == np.int64


def test_custom_vjp_many_in_many_out() -> None:
    @tw.custom_vjp
    def function(p: dict[str, tw.Array], y: tw.Array, times: int) -> tuple[tw.Array, tw.Array]:
        return p["a"] * y * times, p["a"] + y

    def ahead(p: dict[str, tw.Array], y: tw.Array, times: int) -> tuple[object, object]:
        return function._function(p, y, times), (p["a"], y, times)

    def backward(
        kept: tuple[tw.Array, tw.Array, int], slopes: tuple[tw.Array, tw.Array]
    ) -> tuple[object, ...]:
        a, y, times = kept
        s, t = slopes
        return {"a": s * y * times + t}, s * a * times * 100 + t, None

    before = function({"a": tnp.asarray(2.0)}, tnp.asarray(3.0), 2)[0].numpy()
    function.defvjp(ahead, backward)
    assert before == function({"a": tnp.asarray(2.0)}, tnp.asarray(3.0), 2)[0].numpy() == 12

    def total(p: dict[str, tw.Array], y: tw.Array) -> tw.Array:
        first, second = function(p, y, 2)
        return first + second

    gp, gy = tw.grad(total, (0, 1))({"a": 2.0}, 3.0)
    assert (gp["a"].numpy(), gy.numpy()) == (7, 401)
    assert tw.jvp(total, ({"a": 2.0}, 3.0), ({"a": 1.0}, 1.0))[1].numpy() == 408
    assert (
        tw.grad(lambda y: function({"a": y}, y, 1)[1] * 0 + function({"a": 1.0}, y, 1)[0])(
            1.0
        ).numpy()
        == 100
    )
    x = tw.var("x", shape=())
    program = tw.Graph([x], tw.gradients(total({"a": x}, x), [x])[0]).compile()
    assert program(3.0) == 6 + 1 + 600 + 1


def test_custom_jvp_gives_both_modes() -> None:
    @tw.custom_jvp
    def safe_log(x: tw.Array) -> tw.Array:
        return tnp.log(x)

    @safe_log.defjvp
    def _(primals: tuple[tw.Array], tangents: tuple[tw.Array]) -> tuple[tw.Array, tw.Array]:
        (x,), (t,) = primals, tangents
        return safe_log(x), t / (x + 1)

    assert tw.grad(safe_log)(1.0).numpy() == 0.5
    assert tw.jvp(safe_log, (1.0,), (1.0,))[1].numpy() == 0.5
    assert tw.grad(tw.grad(safe_log))(1.0).numpy() == -0.25


def test_custom_rules_are_checked() -> None:
    @tw.custom_vjp
    def function(x: tw.Array) -> tw.Array:
        return x * 2

    function.defvjp(lambda x: x * 2, lambda kept, s: (s,))
    with pytest.raises(TypeError, match=r"function: forward gives a pair"):
        function(tnp.asarray(X))
    function.defvjp(lambda x: (x * 2, None), lambda kept, s: (s, s))
    with pytest.raises(TypeError, match=r"function: backward gives a tuple of 1 cotangents"):
        tw.grad(lambda x: tnp.sum(function(x)))(X)
    function.defvjp(lambda x: (x * 2, None), lambda kept, s: (tnp.sum(s),))
    with pytest.raises(
        ValueError,
        match=r"function: backward gives a cotangent of shape \(\) for an argument of \(3,\)",
    ):
        tw.grad(lambda x: tnp.sum(function(x)))(X)


def test_checkpoint_computes_again_what_it_does_not_keep() -> None:
    weight = tw.var("w", shape=(64, 64))

    def layer(x: tw.Array, w: tw.Array) -> tw.Array:
        for _ in range(6):
            x = tnp.tanh(x @ w)
        return x

    def loss(wrap: Callable[[Callable[..., tw.Array]], Callable[..., tw.Array]]) -> tw.Array:
        x = tnp.asarray(np.linspace(0, 1, 64 * 64).reshape(64, 64))
        for _ in range(4):
            x = wrap(lambda x: layer(x, weight))(x)
        return tnp.sum(x)

    W = RNG.uniform(-0.1, 0.1, (64, 64))
    plain = tw.Graph([weight], tw.gradients(loss(lambda f: f), [weight])).compile()
    again = tw.Graph([weight], tw.gradients(loss(tw.checkpoint), [weight])).compile()
    np.testing.assert_allclose(again(W)[0], plain(W)[0])
    assert again.plan.peak_bytes < 0.6 * plain.plan.peak_bytes


def test_checkpoint_is_right_in_every_mode_and_order() -> None:
    scale = tnp.asarray(X)
    function = tw.checkpoint(
        lambda x, y: {"a": tnp.sin(x) * tnp.exp(y) * scale, "b": tnp.sum(tnp.sin(x)), "c": y}
    )
    check_grads(
        lambda x, y: function(x * 2, y * x)["a"] + function(x, y)["b"] + function(x, y)["c"],
        (X, X),
        order=3,
    )


def test_checkpoint_passes_slopes_to_what_the_function_uses_besides() -> None:
    x = tw.var("x", shape=())
    h = x * x

    def loss(wrap: Callable[..., Callable[..., tw.Array]]) -> tw.Array:
        return wrap(lambda y: tnp.sin(y * h) * tnp.cos(x))(x + 1)

    plain, again = (tw.gradients(loss(w), [x])[0] for w in ((lambda f: f), tw.checkpoint))
    found = tw.Graph([x], [plain, again]).compile()(0.7)
    assert found[0] == pytest.approx(found[1], rel=1e-14)


def test_a_graph_with_its_own_derivatives_can_be_saved(tmp_path: object) -> None:
    x = tw.var("x", shape=(3,))
    y = tw.checkpoint(lambda x: tnp.sin(tnp.cos(x)))(x)
    gradient = tw.gradients(tnp.sum(y), [x])[0]
    graph = tw.Graph([x], {"y": y, "g": gradient}, updates={x: x + gradient})
    graph.save(f"{tmp_path}/g.tawny")
    again = tw.load(f"{tmp_path}/g.tawny").compile()(X)
    np.testing.assert_allclose(again["y"], np.sin(np.cos(X)))
    np.testing.assert_allclose(again["g"], graph.compile()(X)["g"])


def test_a_gradient_has_at_most_three_times_the_nodes() -> None:
    """After optimisation, on a graph of a thousand nodes of mixed ops."""
    rng = np.random.default_rng(5)
    x = tw.var("x", shape=(8, 8))
    pool = [x, x * 0.5]
    makers = [
        lambda a, b: tnp.tanh(a), lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, lambda a, b: tnp.sin(a),
        lambda a, b: tnp.maximum(a, b), lambda a, b: (a @ b) * 0.1, lambda a, b: a / (b * b + 1.0), lambda a, b: tnp.exp(-a),
        lambda a, b: a[::-1] + b.T, lambda a, b: tnp.sum(a, axis=0) + b, lambda a, b: tnp.sqrt(a * a + 1.0),
    ]  # fmt: skip
    while len(toposort([tnp.sum(sum(pool[-5:], start=pool[0])).node])) < 1000 and len(pool) < 2000:
        a, b = (pool[-1 - int(rng.integers(min(len(pool), 6)))] for _ in range(2))
        pool.append(makers[int(rng.integers(len(makers)))](a, b))
    loss = tnp.sum(sum(pool[-5:], start=pool[0]))
    gradient = tw.gradients(loss, [x])
    forward = tw.optimise(tw.Graph([x], loss), disable=("group",))
    both = tw.optimise(tw.Graph([x], gradient), disable=("group",))
    before, after = (len(toposort(g.output_nodes)) for g in (forward, both))
    assert before > 500
    assert after <= 3 * before
