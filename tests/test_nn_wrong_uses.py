"""Wrong uses of layers, losses, training and optimisers: what is said, and whose line it names."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import models, nn, optim

X = np.ones((6, 4), "float32")
Y = np.ones((6, 3), "float32")


def square(x: Any) -> Any:
    return tnp.sum(x * x)


def train(**options: Any) -> Any:
    return nn.train(nn.Linear(4, 3), options.pop("loss", nn.quadratic), options.pop("data", (X, Y)), optim.SGD(), **options)  # fmt: skip


def train_with(optimiser: Any) -> Any:
    return nn.train(nn.Linear(4, 3), nn.quadratic, (X, Y), optimiser)


def step(rule: Any, state: Any) -> Any:
    return rule.step(lambda p: square(p["a"]), {"a": np.ones(2)}, state)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # layers
    "epsilon below 0": (lambda: nn.BatchNorm(3, epsilon=-1), ValueError, r"BatchNorm: epsilon is -1; it must be from 0"),
    "epsilon text": (lambda: nn.BatchNorm(3, epsilon="x"), TypeError, r"BatchNorm: epsilon is 'x'; accepted: a number from 0"),
    "epsilon infinite": (lambda: nn.LayerNorm(3, epsilon=math.inf), ValueError, r"LayerNorm: epsilon is inf"),
    "epsilon nan": (lambda: nn.GroupNorm(1, 3, epsilon=math.nan), ValueError, r"GroupNorm: epsilon is nan"),
    "no axes to normalise": (lambda: nn.LayerNorm(()), ValueError, r"LayerNorm: shape is \(\); accepted: sizes of one or more axes"),
    "forget bias": (lambda: nn.LSTM(3, 4, forget_bias="x"), TypeError, r"LSTM: forget_bias is 'x'; accepted: a number"),
    "padding value": (lambda: nn.Padding2d(1, value="x"), TypeError, r"Padding2d: value is 'x'; accepted: a number"),
    "input size": (lambda: nn.Input("a"), TypeError, r"Input: shape must be an integer, not str 'a'"),
    "input size below 0": (lambda: nn.Input(28, -1), ValueError, r"Input: shape has -1; accepted: sizes from 0, and None for any"),
    "whole numbers": (lambda: nn.Linear(4, 3, dtype="int32"), TypeError, r"Parameter: dtype is int32; accepted: floating-point and complex"),
    "sequences": (lambda: nn.LSTM(3, 4, sequences="all"), TypeError, r"LSTM: sequences is 'all'; accepted: True and False"),
    "class for a layer": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Flatten), TypeError, r"Sequential: layer 1 is the class Flatten; accepted: an instance, Flatten\(\.\.\.\)"),
    "class for a function": (lambda: nn.Lambda(nn.Flatten), TypeError, r"Lambda: the function is the class Flatten; accepted: an instance"),
    "number for a function": (lambda: nn.LambdaArray(3), TypeError, r"LambdaArray: the function is int; accepted: modules and functions"),
    "layer that is not there": (lambda: nn.Sequential(nn.Linear(3, 4))[3], IndexError, r"Sequential: there is no layer 3; it has 1 of them"),
    # initialisers
    "without brackets": (lambda: nn.Linear(4, 3, init_weight=nn.init.he_normal), TypeError, r"Parameter: the initialiser is nn\.init\.he_normal without its brackets; accepted: one of nn\.init, as nn\.init\.he_normal\(\)"),
    "array to start from": (lambda: nn.Parameter((2,), np.zeros(2)), TypeError, r"Parameter: the initialiser is an array of shape \(2,\); accepted"),
    "uniform text": (lambda: nn.init.uniform("a", "b"), TypeError, r"uniform: low is 'a'; accepted: a number"),
    "gaussian text": (lambda: nn.init.gaussian(0, "x"), TypeError, r"gaussian: std is 'x'; accepted: a number"),
    "constant text": (lambda: nn.init.constant("x"), TypeError, r"constant: value is 'x'; accepted: a number"),
    # losses
    "delta text": (lambda: nn.huber(X, X, delta="x"), TypeError, r"huber: delta is 'x'; accepted: a number"),
    "smoothing text": (lambda: nn.cross_entropy(X, X, smoothing="a"), TypeError, r"cross_entropy: smoothing is 'a'; accepted: a number"),
    "signs for shares": (lambda: nn.binary_cross_entropy(Y, -Y), ValueError, r"binary_cross_entropy: the target has -1\.0; accepted: numbers from 0 to 1"),
    "NaN for a share": (lambda: nn.binary_cross_entropy(Y, Y * np.nan), ValueError, r"binary_cross_entropy: the target has nan; accepted"),
    "shares of a batch": (lambda: train(loss=nn.binary_cross_entropy, data=(X, 2 * Y)), ValueError, r"binary_cross_entropy: the target has 2\.0; accepted: numbers from 0 to 1"),
    "accuracy of one score": (lambda: nn.accuracy(Y[:, :1], Y[:, :1]), ValueError, r"accuracy: the prediction has shape \(6, 1\); accepted: \(\.\.\., classes\), a score for each of two or more"),
    "accuracy of other rows": (lambda: nn.accuracy(Y, X[:5, 0]), ValueError, r"accuracy: the target has shape \(5,\); accepted: classes of shape \(6,\), or one-hot rows of shape \(6, 3\)"),
    # training
    "no loss": (lambda: train(loss=lambda p, t: None), TypeError, r"nn: the loss is NoneType; it must be one number"),
    "text for a loss": (lambda: train(loss=lambda p, t: "low"), TypeError, r"nn: the loss is str; it must be one number"),
    "progress": (lambda: train(progress="yes"), TypeError, r"nn\.train: progress is 'yes'; accepted: True, False and None"),
    "seed of a graph": (lambda: nn.training_graph(nn.Linear(4, 3), nn.quadratic, (X, Y), optim.SGD(), seed="a"), TypeError, r"nn\.training_graph: seed must be an integer, not str 'a'"),
    "seed below 0": (lambda: nn.training_graph(nn.Linear(4, 3), nn.quadratic, (X, Y), optim.SGD(), seed=-1), ValueError, r"nn\.training_graph: seed is -1; it must be at least 0"),
    "memory": (lambda: train(memory="x"), ValueError, r"memory: 'x' is no number of bytes"),
    "path of a checkpoint": (lambda: nn.Checkpoint(3), TypeError, r"Checkpoint: path is 3; accepted: text or a path"),
    # optimisers
    "another rule's state": (lambda: step(optim.Adam(), optim.SGD().start({"a": np.ones(2)})), ValueError, r"optim: the state has step; accepted: step, rate.mean, rate.squares, as start gives"),
    "state of a rule like it": (lambda: step(optim.Adam(), optim.RMSprop().start({"a": np.ones(2)})), ValueError, r"optim: the state has step, rate\.squares; accepted: step, rate\.mean, rate\.squares"),
    "rate below 0": (lambda: optim.Adam(-1), ValueError, r"Adam: rate is -1\.0; it must be a number of at least 0"),
    "batches of no rows": (lambda: optim.Mini(0), ValueError, r"Mini: size is 0; it must be at least 1"),
    "no state": (lambda: step(optim.Adam(), None), ValueError, r"optim: the state is NoneType; accepted: what start gives"),
    "schedule of text": (lambda: train_with(optim.Schedule(lambda i: "a")), TypeError, r"Schedule: the function gives str; accepted: one number"),
    "value of a state": (lambda: setattr(nn.BatchNorm(3), "state", {"mean": np.ones(3)}), ValueError, r"BatchNorm\.state: the state does not fit: variance is missing"),
    # minima
    "no function": (lambda: optim.minimise(3, [1.0]), TypeError, r"minimise: the function is int; it is a function"),
    "steps text": (lambda: optim.minimise(square, [1.0], steps="x"), TypeError, r"minimise: steps must be an integer, not str 'x'"),
    "steps broken": (lambda: optim.minimise(square, [1.0], steps=2.5), TypeError, r"minimise: steps must be an integer, not float 2\.5"),
    "tolerance text": (lambda: optim.minimise(square, [1.0], tolerance="x"), TypeError, r"minimise: tolerance is 'x'; accepted: a number from 0"),
    "tolerance below 0": (lambda: optim.minimise(square, [1.0], tolerance=-1), ValueError, r"minimise: tolerance is -1; it must be from 0"),
    "stopping": (lambda: optim.minimise(square, [1.0], stopping=3), TypeError, r"minimise: stopping is 3; accepted: a rule of tawny\.optim"),
    "callback": (lambda: optim.minimise(square, [1.0], callback=3), TypeError, r"minimise: callback is 3; it is a function"),
    "ragged start": (lambda: optim.minimise(square, [[1.0, 2.0], [3.0]]), ValueError, r"minimise: x0 has rows of different lengths"),
    "empty start": (lambda: optim.minimise(square, []), ValueError, r"minimise: x0 has no elements"),
    "minimum of several": (lambda: optim.minimise(lambda x: x, [1.0, 2.0]), TypeError, r"minimise: the function gives shape \(2,\); it must be one number"),
    "minimum of steps": (lambda: optim.minimise(lambda x: tnp.sum(tnp.astype(x, "int64")), [1.0]), TypeError, r"minimise: the function gives int64; accepted: real floating-point numbers"),
    "minimum of nothing": (lambda: optim.minimise(lambda x: None, [1.0]), TypeError, r"minimise: the function gives NoneType; accepted: one number"),
    # models
    "classes of ResNet": (lambda: models.ResNet50(0), ValueError, r"ResNet50: classes is 0; it must be at least 1"),
    "width of ResNet": (lambda: models.ResNet50(width="wide"), TypeError, r"models: width is 'wide'; accepted: a number"),
    "classes of VGG": (lambda: models.VGG16("ten"), TypeError, r"VGG16: classes must be an integer, not str 'ten'"),
    "size of VGG": (lambda: models.VGG16(10, size=16), ValueError, r"VGG16: size is 16; it must be at least 32"),
    "classes of SqueezeNet": (lambda: models.SqueezeNet("1.0", 0), ValueError, r"SqueezeNet: classes is 0"),
    "classes of Inception": (lambda: models.InceptionV3(-3), ValueError, r"InceptionV3: classes is -3"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_use_is_named_with_the_line_it_stands_in(name: str) -> None:
    attempt, kind, message = WRONG[name]
    with pytest.raises(kind, match=message + r".*\[test_nn_wrong_uses\.py:\d+( in [\w.]+)?\]"):
        attempt()


def test_numbers_of_numpy_are_numbers() -> None:
    one = np.float32(1)
    assert nn.BatchNorm(3, epsilon=one).epsilon == 1
    assert nn.LSTM(3, 4, forget_bias=one).forget_bias == 1
    assert nn.Input(np.int64(3), None)(np.ones((2, 3, 9))).shape == (2, 3, 9)
    assert np.all(nn.Linear(2, 2, init_weight=nn.init.constant(one)).parameters["weight"] == 1)
    np.testing.assert_array_equal(
        nn.Padding1d(1, value=one)(np.zeros((1, 1, 1), "float32")).numpy().ravel(), [1, 0, 1]
    )
    assert float(nn.huber(X, Y[:, [0, 0, 0, 0]] * 3, delta=one)) == 4 * 1.5
    assert optim.minimise(square, [1.0], tolerance=np.float64(10)).converged


def test_states_of_the_numbers_of_parameters_they_were_started_for() -> None:
    with pytest.raises(ValueError, match="3"):
        tw.evaluate(step(optim.Adam(), optim.Adam().start({"a": np.ones(3)}))[0])


@pytest.mark.parametrize("kind", [nn.Flatten, nn.Add, nn.GlobalAvgPool2d, nn.GlobalMaxPool1d])
def test_layers_without_arguments_take_none(kind: type[nn.Module]) -> None:
    assert str(inspect.signature(kind)) == "() -> 'None'"
    with pytest.raises(TypeError, match="positional argument"):
        kind(3)
    with pytest.raises(TypeError, match=r"unknown argument 'axis'; accepted: none"):
        kind(axis=3)


def test_modules_without_an_init_take_no_arguments() -> None:
    class Plain(nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    class Calling(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size = size

    with pytest.raises(TypeError, match="positional argument"):
        Plain(3)
    assert Calling(3).size == 3


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_say_which_arguments_they_take(kind: type[nn.Module]) -> None:
    accepted = set(inspect.signature(kind).parameters)
    assert {"inputs", "units", "sequences", "init_weight", "init_recurrent", "dtype"} <= accepted
    assert "sequences=True" in (kind.__doc__ or "")
    with pytest.raises(TypeError, match=f"{kind.__name__}.* 'return_sequences'.* sequences here"):
        kind(3, 4, return_sequences=True)
