"""Networks against PyTorch with the same weights, and against the published counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from shared_weights import all_drawn, drawn, image
from tawny import models, nn, optim
from tawny.models.mask_rcnn import Settings
from tawny.nn import weights
from tawny.nn.parameters import BINDING, Binding, Declaration

DATA = np.load(Path(__file__).parent / "data" / "networks.npz")

REDUCED: dict[str, Callable[[], nn.Module]] = {
    "mnist": lambda: models.Mnist(filters=4, hidden=16, scale=1),
    "vgg16": lambda: models.VGG16(7, size=64, width=1 / 16),
    "squeezenet_1.0": lambda: models.SqueezeNet("1.0", 7, width=1 / 8),
    "squeezenet_1.1": lambda: models.SqueezeNet("1.1", 7, width=1 / 8),
    "resnet50_torchvision": lambda: models.ResNet50(7, width=1 / 16),
    "resnet50_keras": lambda: models.ResNet50(7, width=1 / 16, form="keras"),
    "resnet101_torchvision": lambda: models.ResNet101(7, width=1 / 16),
    "inception_torchvision": lambda: models.InceptionV3(7, width=1 / 16),
    "inception_keras": lambda: models.InceptionV3(7, width=1 / 16, form="keras"),
    "character_lstm": lambda: models.CharacterLSTM(11, embedding=6, hidden=8, dense=12),
}


def facts(name: str) -> dict[str, Any]:
    return json.loads(DATA[f"{name}.json"].tobytes())


def with_drawn_weights(name: str) -> nn.Module:
    """The reduced network with the weights PyTorch's had."""
    model = REDUCED[name]()
    values = all_drawn(facts(name)["parameters"])
    if name == "inception_keras":  # PyTorch's batch norm has a scale: take it into the convolution
        for scale in [n for n in values if n.endswith("bn.weight")]:
            factor = values.pop(scale)
            stem = scale.removesuffix("bn.weight")
            values[f"{stem}conv.weight"] *= factor[:, None, None, None]
            values[f"{stem}bn.running_mean"] *= factor
    flattened = getattr(model, "flattened", None)
    weights.load_torch(model, values, flattened=flattened)
    return model


@pytest.mark.parametrize("name", REDUCED)
def test_a_network_gives_what_pytorch_gives(name: str) -> None:
    model = with_drawn_weights(name)
    shape = tuple(facts(name)["input"])
    x = image(name, shape) if len(shape) > 2 else np.random.default_rng(1).integers(0, 11, shape)
    given = tw.var("x", shape=shape, dtype=str(x.dtype))
    (result,) = tw.Graph([given], [model(given)]).compile()(x)
    np.testing.assert_allclose(result, DATA[name], rtol=2e-4, atol=2e-5 * np.abs(DATA[name]).max())


def keras_resnet_names(depths: tuple[int, ...]) -> list[str]:
    """The layers of keras.applications.ResNet50 and its kin, convolutions and norms in pairs."""
    pairs = ["conv1"]
    for stage, depth in enumerate(depths, 2):
        for block in range(1, depth + 1):
            pairs += [
                f"conv{stage}_block{block}_{i}" for i in ((0,) if block == 1 else ()) + (1, 2, 3)
            ]
    return [f"{p}_{kind}" for p in pairs for kind in ("conv", "bn")]


def test_keras_names_of_residual_networks_are_known() -> None:
    model = models.ResNet50(3, width=1 / 16, form="keras")
    ours = {path: m for path, m in model.modules().items() if not m.modules().keys() - {""}}
    leaves = {"conv": ("kernel", "bias"), "bn": ("gamma", "beta", "moving_mean", "moving_variance")}
    names = [
        f"{n}.{leaf}"
        for n in keras_resnet_names((3, 4, 6, 3))
        for leaf in leaves[n.rpartition("_")[2]]
    ]
    layers = {model.keras_name(n).rpartition(".")[0] for n in names}
    assert layers | {"fc"} == ours.keys()
    assert len(layers) == 2 * 53
    assert model.keras_name("conv4_block6_2_bn.gamma") == "layer3.5.bn2.gamma"
    assert model.keras_name("conv3_block1_0_conv.kernel") == "layer2.0.downsample.0.kernel"
    shapes = {p: d.shape for p, d in declared(model).items()}
    values = {}
    for name in names:
        path, _, leaf = model.keras_name(name).rpartition(".")
        member = {
            "kernel": "weight",
            "gamma": "scale",
            "beta": "shift",
            "moving_mean": "mean",
            "moving_variance": "variance",
        }
        values[name.replace(".", "/")] = drawn(name, shapes[f"{path}.{member.get(leaf, leaf)}"])
    values |= {"predictions/kernel": np.ones((128, 3)), "predictions/bias": np.ones(3)}
    weights.load_keras(model, values, rename=model.keras_name)
    got = declared(model)["layer2.1.conv2.weight"].value
    np.testing.assert_array_equal(got, values["conv3_block2_2_conv/kernel"])


def test_keras_names_of_vgg16_are_known() -> None:
    model = models.VGG16(5, size=32, width=1 / 16)
    layers = [
        f"block{i}_conv{j}" for i, n in enumerate((2, 2, 3, 3, 3), 1) for j in range(1, n + 1)
    ]
    paths = [model.keras_name(f"{n}.kernel") for n in (*layers, "fc1", "fc2", "predictions")]
    assert [p.replace(".kernel", ".weight") for p in paths] == [
        p for p in declared(model) if p.endswith("weight")
    ]


def declared(model: nn.Module) -> dict[str, Declaration]:
    return {".".join(map(str, p)): m for p, m in model.walk() if isinstance(m, Declaration)}


# -------------------------------------------------------------------- published

PUBLISHED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int, float]] = {
    "mnist": (models.Mnist, (1, 28, 28, 1), 6_434_634, 0, 0.0070592),
    "vgg16": (models.VGG16, (1, 224, 224, 3), 138_357_544, 0, 15.470),
    "squeezenet 1.0": (models.SqueezeNet, (1, 224, 224, 3), 1_248_424, 0, 0.819),
    "squeezenet 1.1": (lambda: models.SqueezeNet("1.1"), (1, 224, 224, 3), 1_235_496, 0, 0.349),
    "resnet50": (models.ResNet50, (1, 224, 224, 3), 25_557_032, 53_120, 4.089),
    "resnet50, keras": (
        lambda: models.ResNet50(form="keras"),
        (1, 224, 224, 3),
        25_583_592,
        53_120,
        3.858,
    ),
    "resnet101": (models.ResNet101, (1, 224, 224, 3), 44_549_160, 105_344, 7.801),
    "resnet101, keras": (
        lambda: models.ResNet101(form="keras"),
        (1, 224, 224, 3),
        44_601_832,
        105_344,
        7.570,
    ),
    "inception": (models.InceptionV3, (1, 299, 299, 3), 23_834_568, 34_432, 5.713),
    "inception, keras": (
        lambda: models.InceptionV3(form="keras"),
        (1, 299, 299, 3),
        23_817_352,
        34_432,
        5.713,
    ),
    "mask r-cnn": (models.MaskRCNN, (1, 768, 768, 3), 64_047_096, 111_488, 248.064),
}
"""Parameters that are trained, running statistics, and 10^9 multiply-adds."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_are_the_published_ones_and_nothing_is_drawn(name: str) -> None:
    make, shape, parameters, state, giga = PUBLISHED[name]
    model = make()
    summary = model.summary(shape)
    assert summary.parameters == model.parameter_count == parameters
    assert summary.state == state
    assert summary.flops / 1e9 == pytest.approx(giga, rel=6e-4)
    assert not any(m.is_drawn for _, m in model.walk() if isinstance(m, Declaration))


def test_counts_with_statistics_are_those_keras_states() -> None:
    totals = {
        "resnet50, keras": 25_636_712,
        "resnet101, keras": 44_707_176,
        "inception, keras": 23_851_784,
        "mask r-cnn": 64_158_584,
    }
    for name, total in totals.items():
        _, _, parameters, state, _ = PUBLISHED[name]
        assert parameters + state == total


def test_mask_r_cnn_with_late_strides_takes_251_giga() -> None:
    late = models.MaskRCNN(Settings(form="torchvision"))
    assert late.summary((1, 768, 768, 3)).flops / 1e9 == pytest.approx(251, rel=2e-3)


def test_vgg16_ends_where_published() -> None:
    summary = models.VGG16().summary((1, 224, 224, 3))
    layers = [r.path for r in summary.rows if r.parameters]
    assert len(layers) == 16
    assert layers[0] == "features.0"
    assert layers[-1] == "classifier.6"
    shapes = {r.path: r.outputs[0] for r in summary.rows}
    assert shapes["features.28"] == (1, 14, 14, 512)
    assert shapes["features.30"] == (1, 7, 7, 512)


@pytest.mark.parametrize(
    ("model", "shape", "stages"),
    [
        (models.ResNet50, (1, 224, 224, 3), {"layer1.2": (56, 256), "layer2.3": (28, 512), "layer3.5": (14, 1024), "layer4.2": (7, 2048)}),
        (models.ResNet50, (1, 299, 299, 3), {"layer1.2": (75, 256), "layer2.3": (38, 512), "layer3.5": (19, 1024), "layer4.2": (10, 2048)}),
        (models.InceptionV3, (1, 299, 299, 3), {"Mixed_5b": (35, 256), "Mixed_5d": (35, 288), "Mixed_6e": (17, 768), "Mixed_7a": (8, 1280), "Mixed_7c": (8, 2048)}),
    ],
)  # fmt: skip
def test_maps_have_the_published_sizes(
    model: Any, shape: tuple[int, ...], stages: dict[str, tuple[int, int]]
) -> None:
    network = model()
    x = tw.var("x", shape=shape, dtype="float32")
    seen: dict[str, tuple[int, ...]] = {}

    def observe(layer: nn.Module, inputs: Any, outputs: Any) -> None:
        seen[names[layer]] = outputs.shape

    names = {m: path for path, m in network.modules().items()}
    declared = [m for _, m in network.walk() if isinstance(m, Declaration)]
    stand_ins = {d: tw.var(shape=d.shape, dtype=str(d.dtype)) for d in declared}
    token = BINDING.set(Binding(stand_ins, {m: (p,) for m, p in names.items()}, observe=observe))
    try:
        network(x)
    finally:
        BINDING.reset(token)
    for path, (rows, channels) in stages.items():
        assert seen[path] == (1, rows, rows, channels)


def test_weights_of_vgg16_are_drawn_within_two_seconds() -> None:
    start = time.process_time()
    np.random.Generator(np.random.SFC64(0)).random(10_000_000, dtype=np.float32)
    plainly = 13.8 * (time.process_time() - start)
    start = time.process_time()
    model = models.VGG16()
    total = sum(int(d.value.size) for _, d in model.walk() if isinstance(d, Declaration))
    assert total == 138_357_544
    assert time.process_time() - start < max(2, 4 * plainly), (
        "on a slow machine, 4 times NumPy's own"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: models.ResNet50(form="caffe"),
            "form is 'caffe'; accepted: 'torchvision', 'keras', 'matterport'",
        ),
        (
            lambda: models.InceptionV3(form="caffe"),
            "form is 'caffe'; accepted: 'torchvision', 'keras'",
        ),
        (lambda: models.SqueezeNet("2.0"), "version is '2.0'; accepted: '1.0', '1.1'"),
        (lambda: models.ResNet50(width=-1), "width is -1; it must be greater than 0"),
    ],
)
def test_unknown_forms_are_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert message in str(error.value)


def test_the_embedding_of_the_text_model_has_a_gradient() -> None:
    model = models.CharacterLSTM(7, embedding=3, hidden=4, dense=5)
    text = np.array([[1, 2, 3], [4, 4, 1]])
    slopes = tw.grad(lambda p: tnp.sum(model.apply(p, text) ** 2))(model.parameters)
    rows = np.abs(slopes["embedding"]["weight"].numpy()).sum(axis=1)
    assert (rows > 0).tolist() == [False, True, True, True, True, False, False]


def test_dropout_of_the_digits_network_is_for_training_only() -> None:
    model = models.Mnist(filters=2, hidden=4)
    x = np.full((3, 28, 28, 1), 200, np.uint8)
    first, again = tw.evaluate(model(x), model(x))
    np.testing.assert_array_equal(first, again)
    drawn = [model.apply(model.parameters, x, training=True).numpy() for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).max() > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: models.ResNet((1, 1, 1, 1), 3, width=1 / 8),
        lambda: models.SqueezeNet("1.1", 3, width=1 / 4, dropout=0.1),
    ],
    ids=["resnet", "squeezenet"],
)
def test_networks_learn_and_count_their_statistics(make: Callable[[], nn.Module]) -> None:
    model = make()
    before = {n: d.value.copy() for n, d in declared(model).items()}
    x, y = image("training", (6, 48, 48, 3)), np.array([0, 1, 2, 0, 1, 2])
    history = nn.train(model, nn.cross_entropy, (x, y), optim.Adam(3e-3), 25, batch=6)
    assert history.batch_loss[-1] < 0.8 * history.batch_loss[0]
    for name, declaration in declared(model).items():
        assert np.abs(declaration.value - before[name]).max() > 0, name
