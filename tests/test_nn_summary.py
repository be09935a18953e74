"""Summaries and multiply-adds, counted without drawing or running."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
from tawny import nn
from tawny.tree import map_leaves


def never(rng, shape):
    raise AssertionError("nothing is drawn for a summary")


def test_the_table() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding="same", init_weight=never, activation="relu"),
        nn.Sequential(nn.BatchNorm(8), nn.MaxPool2d(2)),
        nn.FullyConnected(32, 10, init_weight=never),
    )
    table = model.summary((2, 4, 4, 3))
    assert str(table).splitlines() == [
        "layer  kind            output        parameters  multiply-adds",
        "--------------------------------------------------------------",
        "0      Conv2d          (2, 4, 4, 8)         224          6,912",
        "1.0    BatchNorm       (2, 4, 4, 8)          16              0",
        "1.1    MaxPool2d       (2, 2, 2, 8)           0              0",
        "2      FullyConnected  (2, 10)              330            640",
        "--------------------------------------------------------------",
        "Sequential: 570 parameters, 16 numbers of state, 7,552 multiply-adds",
    ]
    assert (table.parameters, table.state, table.flops) == (570, 16, 7552)
    assert table._repr_html_().count("<tr>") == 5
    assert "<td>FullyConnected</td>" in table._repr_html_()
    assert repr(table) == str(table)


def test_own_parameters_shared_layers_and_unused_ones() -> None:
    class Model(nn.Module):
        def __init__(self):
            self.inner = nn.Linear(3, 3)
            self.unused = nn.Linear(3, 7)
            self.scale = nn.Parameter((3,))

        def forward(self, x, y):
            first = self.inner(x)
            return {"a": self.inner(first) * self.scale, "b": y @ first.T}

    table = Model().summary((2, 3), tw.var(shape=(5, 3), dtype="float32"))
    assert [(r.path, r.parameters, r.flops) for r in table.rows] == [
        ("inner", 12, 18),
        ("inner", 0, 18),
        ("", 28 + 3, 30),
    ]
    assert table.rows[-1].outputs == ((2, 3), (5, 2))
    assert sum(r.parameters for r in table.rows) == table.parameters == 43
    assert sum(r.flops for r in table.rows) == table.flops == 66


def test_a_model_that_multiplies_by_itself_has_a_row() -> None:
    class Model(nn.Module):
        def __init__(self):
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            y = self.inner(x)
            return y @ y.T

    rows = nn.Sequential(Model(), nn.Sequential(nn.Flatten())).summary((2, 3)).rows
    assert [(r.path, r.kind, r.flops) for r in rows] == [
        ("0.inner", "Linear", 18),
        ("0", "Model", 12),
        ("1.0", "Flatten", 0),
    ]


def test_integers_are_given_as_arrays() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.LSTM(4, 5))
    table = model.summary(np.zeros((2, 3), int))
    assert table.flops == 2 * 3 * 4 * 20 + 3 * 2 * 5 * 20
    assert table.rows[0].outputs == ((2, 3, 4),)
    with pytest.raises(TypeError, match="dtype float32; accepted: integers"):
        model.summary((2, 3))


def products(x, kernel, **options):
    """Multiply-adds of a convolution by the definition, without those that meet padding counted out."""
    ones = nn.Conv2d(x[-1], kernel[-1], kernel[:2], **options)
    return ones.summary(x).flops


@pytest.mark.parametrize(("options", "each"), [({}, 2 * 4 * 4 * 9 * 6 * 8), ({"stride": 2}, 2 * 2 * 2 * 9 * 6 * 8), ({"groups": 2}, 2 * 4 * 4 * 9 * 3 * 8), ({"padding": 1}, 2 * 6 * 6 * 9 * 6 * 8)], ids=str)  # fmt: skip
def test_convolutions(options, each) -> None:
    assert products((2, 6, 6, 6), (3, 3, 6, 8), **options) == each


def test_transposed_convolution_and_contractions() -> None:
    assert nn.ConvTranspose2d(3, 5, 4, stride=2).summary((2, 6, 6, 3)).flops == 2 * 36 * 3 * 16 * 5
    x, y = (tw.var(shape=s) for s in ((2, 3, 4), (2, 4, 5)))
    assert nn.flops(x @ y) == 2 * 3 * 4 * 5
    assert nn.flops(tw.numpy.einsum("bij,bjk->ik", x, y)) == 2 * 3 * 4 * 5
    assert nn.flops({"a": x @ y, "b": (x @ y) + 1}) == 2 * 3 * 4 * 5
    assert nn.flops(tw.numpy.einsum("bij,bjk,b->ik", x, y, tw.var(shape=(2,)))) == 2 * 2 * 3 * 4 * 5
    assert nn.flops(x + 1) == 0
    assert nn.flops(tw.numpy.matmul(x[0, 0], y[0])) == 20


def test_a_training_step_counts_three_times_the_products() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 6))
    x = tw.var(shape=(3, 4), dtype="float32")
    parameters = map_leaves(lambda v: tw.var(shape=v.shape, dtype=v.dtype), model.parameters)
    loss, slopes = tw.value_and_grad(lambda p: (model.apply(p, x) ** 2).sum())(parameters)
    forward = 3 * 4 * 5 + 3 * 5 * 6
    assert nn.flops(loss) == forward
    assert nn.flops((loss, slopes)) == 3 * forward - 3 * 4 * 5  # no slope of x is needed


def test_a_training_step_of_a_convolution_counts_three_times_its_products() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 2, stride=2))
    x = np.ones((2, 6, 6, 3), "float32")
    first, second = 2 * 4 * 4 * 9 * 3 * 4, 2 * 2 * 2 * 4 * 4 * 2
    loss, slopes = tw.value_and_grad(lambda p: (model.apply(p, x) ** 2).sum())(model.parameters)
    assert nn.flops(loss) == first + second
    assert nn.flops((loss, slopes)) == 2 * first + 3 * second  # no slope of x is needed


def test_attention() -> None:
    batch, time, features = 2, 7, 6
    table = nn.MultiHeadAttention(features, 2).summary((batch, time, features))
    assert table.flops == batch * (4 * time * features**2 + 2 * time**2 * features)


def test_refused() -> None:
    with pytest.raises(TypeError, match="summary: int is no module"):
        nn.summary(3)
    with pytest.raises(ValueError, match=r"Linear 0: the input has shape \(2, 5\)"):
        nn.Sequential(nn.Linear(4, 3)).summary((2, 5))


def test_what_a_layer_multiplies_between_its_layers_is_its_own() -> None:
    batch, time, features = 2, 7, 6
    rows = (
        nn.Sequential(nn.MultiHeadAttention(features, 2), nn.Linear(6, 3))
        .summary((batch, time, features))
        .rows
    )
    projection = batch * time * features**2
    assert [(r.path, r.flops) for r in rows] == [
        ("0.query", projection),
        ("0.key", projection),
        ("0.value", projection),
        ("0.dropout", 0),
        ("0.output", projection),
        ("0", 2 * batch * time**2 * features),
        ("1", batch * time * features * 3),
    ]


def test_what_is_multiplied_before_a_model_is_not_counted() -> None:
    x = tw.var(shape=(2, 3), dtype="float32") @ np.ones((3, 3), "float32")
    table = nn.Linear(3, 4).summary(x)
    assert table.flops == sum(r.flops for r in table.rows) == 2 * 3 * 4


def test_a_layer_that_is_no_part_of_the_model_is_counted_to_it() -> None:
    outside = nn.Linear(3, 3)

    class Model(nn.Module):
        def __init__(self):
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            return self.inner(outside(x @ x.T @ x))

    table = Model().summary((2, 3))
    assert sum(r.flops for r in table.rows) == table.flops == 2 * 2 * 2 * 3 + 2 * (2 * 3 * 3)
    assert table.rows[-1].flops == 2 * 2 * 2 * 3
