"""Losses against their formulas, stable far out, and strict about shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tawny as tw
from tawny import nn
from tawny.testing import check_grads

RNG = np.random.default_rng(0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def samples(loss):
    """The mean over the batch of a loss of one sample."""
    return lambda p, t: sum(loss(a, b) for a, b in zip(p, t, strict=True)) / len(p)


def huber(d, delta=1.0):
    return sum(x * x / 2 if abs(x) <= delta else delta * (abs(x) - delta / 2) for x in d.ravel())


FORMULAS = {
    "quadratic": samples(lambda p, t: ((p - t) ** 2).sum()),
    "mean_squared": lambda p, t: ((p - t) ** 2).mean(),
    "l1": samples(lambda p, t: abs(p - t).sum()),
    "mean_absolute": lambda p, t: abs(p - t).mean(),
    "l2": samples(lambda p, t: math.sqrt(((p - t) ** 2).sum())),
    "hinge": samples(lambda p, t: np.maximum(0, 1 - p * t).sum()),
    "squared_hinge": samples(lambda p, t: (np.maximum(0, 1 - p * t) ** 2).sum()),
    "huber": samples(lambda p, t: huber(p - t)),
    "binary_cross_entropy": samples(
        lambda p, t: -(t * np.log(1 / (1 + np.exp(-p))) + (1 - t) * np.log(1 - 1 / (1 + np.exp(-p)))).sum()
    ),
    "cross_entropy": lambda p, t: -(t * np.log(softmax(p))).sum(-1).mean(),
}  # fmt: skip


def target_for(name, shape):
    if "hinge" in name:
        return RNG.choice([-1.0, 1.0], shape)
    if name == "cross_entropy":
        return softmax(RNG.standard_normal(shape))
    return (
        RNG.uniform(0, 1, shape) if name == "binary_cross_entropy" else RNG.standard_normal(shape)
    )


@pytest.mark.parametrize("shape", [(5, 4), (3, 2, 4), (6, 1)], ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_formula_and_slope(name, shape) -> None:
    p, t = 2 * RNG.standard_normal(shape), target_for(name, shape)
    loss = getattr(nn, name)
    value = loss(p, t)
    assert value.shape == ()
    np.testing.assert_allclose(value.numpy(), FORMULAS[name](p, t), rtol=1e-12)
    check_grads(lambda p: loss(p, t), (p,), order=2)
    assert loss(p.astype("float32"), t).dtype == np.float32


def test_every_loss_is_listed() -> None:
    assert set(FORMULAS) == set(nn.losses.__all__)


def test_cross_entropy_of_classes() -> None:
    p = RNG.standard_normal((3, 5, 4))
    t = RNG.integers(0, 4, (3, 5))
    expected = -np.mean([np.log(softmax(p)[i, j, t[i, j]]) for i in range(3) for j in range(5)])
    np.testing.assert_allclose(nn.cross_entropy(p, t).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(nn.cross_entropy(p, np.eye(4)[t]).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(
        nn.cross_entropy(p, np.eye(4, dtype=bool)[t]).numpy(), expected, rtol=1e-12
    )
    np.testing.assert_allclose(nn.cross_entropy(p, t.astype("uint8")).numpy(), expected, rtol=1e-12)
    check_grads(lambda p: nn.cross_entropy(p, t), (p,), order=2)
    slope = tw.grad(nn.cross_entropy)(p, t).numpy()
    np.testing.assert_allclose(slope, (softmax(p) - np.eye(4)[t]) / 15, rtol=1e-10, atol=1e-15)


def test_cross_entropy_with_smoothing() -> None:
    p, t = RNG.standard_normal((6, 4)), RNG.integers(0, 4, 6)
    smooth = 0.9 * np.eye(4)[t] + 0.1 / 4
    expected = FORMULAS["cross_entropy"](p, smooth)
    np.testing.assert_allclose(nn.cross_entropy(p, t, smoothing=0.1).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(
        nn.cross_entropy(p, np.eye(4)[t], smoothing=0.1).numpy(), expected, rtol=1e-12
    )


def test_a_class_that_does_not_exist_is_never_silent() -> None:
    p = np.zeros((2, 3))
    for wrong in (3, -1):
        with pytest.raises(ValueError, match=f"class {wrong}; accepted: 0 to 2, .* 3 classes"):
            nn.cross_entropy(p, np.array([0, wrong]))
    t = tw.var("t", shape=(2,), dtype="int64")
    program = tw.Graph([t], [nn.cross_entropy(p, t)]).compile()
    np.testing.assert_allclose(program(np.array([0, 2]))[0], math.log(3))
    assert np.isnan(program(np.array([0, 3]))[0])
    assert np.isnan(program(np.array([0, -1]))[0])


@pytest.mark.parametrize("loss", [nn.hinge, nn.squared_hinge])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
def test_hinges_refuse_known_targets_that_are_no_signs(loss, dtype) -> None:
    p = np.zeros(3, "float32")
    signs = np.array([1, 1, 1], dtype)
    assert float(loss(p, signs)) == 1
    for wrong in (np.array([1, 0, 1], dtype), np.array([1, 1, 2]), np.array([1, np.nan, -1])):
        with pytest.raises(ValueError, match=r"hinge: the target has .*; accepted: -1 and 1"):
            loss(p, wrong)
    t = tw.var("t", shape=(3,), dtype=dtype)
    program = tw.Graph([t], [loss(p, t)]).compile()
    np.testing.assert_allclose(program(signs)[0], 1)


def test_far_out_losses_and_slopes_are_finite() -> None:
    p = np.array([[-1e4, 1e4, 0.0], [3e4, -3e4, 5.0]], "float32")
    for name in FORMULAS:
        t = np.eye(3)[[1, 2]] if "entropy" in name else np.ones((2, 3))
        if name in ("quadratic", "mean_squared", "l2"):
            t = t.astype("float32") + p - 1
        value, slope = tw.value_and_grad(getattr(nn, name))(p, t)
        assert np.isfinite(value.numpy()), name
        assert np.all(np.isfinite(slope.numpy())), name
    value = nn.cross_entropy(np.array([[-1e4, 1e4]]), np.array([0]))
    np.testing.assert_allclose(value.numpy(), 2e4)
    np.testing.assert_allclose(
        nn.binary_cross_entropy(np.array([-800.0]), np.array([1.0])).numpy(), 800
    )


def test_classes_ruled_out_by_minus_infinity() -> None:
    p = np.array([[0.0, -np.inf, 1.0]])
    expected = -math.log(1 / (1 + math.e))
    np.testing.assert_allclose(nn.cross_entropy(p, np.array([0])).numpy(), expected)
    np.testing.assert_allclose(nn.cross_entropy(p, np.array([[1.0, 0, 0]])).numpy(), expected)


def test_l2_at_its_target_has_slope_zero() -> None:
    p = np.ones((2, 3))
    np.testing.assert_array_equal(tw.grad(nn.l2)(p, p).numpy(), np.zeros((2, 3)))


def test_huber_delta() -> None:
    p, t = 3 * RNG.standard_normal((5, 4)), RNG.standard_normal((5, 4))
    np.testing.assert_allclose(
        nn.huber(p, t, delta=2.0).numpy(), samples(lambda a, b: huber(a - b, 2.0))(p, t)
    )


@pytest.mark.parametrize("target", [0.0, 0.25, 1.0])
def test_binary_cross_entropy_keeps_its_digits(target) -> None:
    """Single precision is as good far from 0 as near to it, and the slope at 0 is 1/2 - t."""
    points = np.array([-80.0, -20.0, -5.0, 0.0, 5.0, 14.0, 20.0, 80.0], np.float32)
    for point in points:
        p, t = np.array([[point]]), np.array([[target]], np.float32)
        value, slope = tw.value_and_grad(lambda p, t=t: nn.binary_cross_entropy(p, t))(p)
        wide = float(point)
        exact = target * np.logaddexp(0, -wide) + (1 - target) * np.logaddexp(0, wide)
        assert float(value) == pytest.approx(exact, rel=1e-6)
        below, over = 1 / (1 + math.exp(wide)), 1 / (1 + math.exp(-wide))
        assert slope.item() == pytest.approx((1 - target) * over - target * below, rel=1e-6)


def test_options_of_numpy_widen_nothing() -> None:
    p, classes = np.ones((3, 2), np.float32), np.zeros(3, int)
    assert nn.huber(p, p, delta=np.float64(0.5)).dtype == np.float32
    assert nn.cross_entropy(p, classes, smoothing=np.float64(0.1)).dtype == np.float32


REFUSED = [
    (lambda: nn.quadratic(np.zeros((3, 1)), np.zeros(3)), ValueError, r"quadratic: the target has shape \(3,\); it must be \(3, 1\)"),
    (lambda: nn.hinge(np.zeros(3, int), np.zeros(3)), TypeError, r"hinge: the prediction has dtype int64"),
    (lambda: nn.l1(np.float64(3), np.float64(3)), ValueError, r"accepted: \(batch, ...\)"),
    (lambda: nn.cross_entropy(np.zeros((3, 4)), np.zeros(3)), ValueError, r"the target has dtype float64 and shape \(3,\); accepted: integers of shape \(3,\), or numbers of shape \(3, 4\)"),
    (lambda: nn.cross_entropy(np.zeros((3, 4)), np.zeros((3, 5))), ValueError, r"shape \(3, 5\)"),
    (lambda: nn.cross_entropy(np.zeros(3), np.zeros(3)), ValueError, r"accepted: \(batch, classes\)"),
    (lambda: nn.cross_entropy(np.zeros((3, 4)), np.zeros(3, int), smoothing=1), ValueError, r"smoothing is 1"),
    (lambda: nn.huber(np.zeros(3), np.zeros(3), delta=0), ValueError, r"delta is 0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attempt", "kind", "message"), REFUSED, ids=lambda v: v if isinstance(v, str) else ""
)
def test_refused(attempt, kind, message) -> None:
    with pytest.raises(kind, match=message):
        attempt()
