"""Weights of Keras: layers and networks that it computed itself, and files that it wrote.

`tests/data/make_keras.py` made the data with Keras.
"""

from __future__ import annotations

import importlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from shared_weights import all_drawn, image
from tawny import models, nn
from tawny.nn import weights
from tawny.tree import leaf_paths

HERE = Path(__file__).parent / "data"
DATA = np.load(HERE / "keras.npz")


class BothWays(nn.Module):
    """A sequence read from both ends."""

    def __init__(self, inputs: int, units: int) -> None:
        self.forward_lstm = nn.LSTM(inputs, units, sequences=True)
        self.backward_lstm = nn.LSTM(inputs, units, sequences=True)

    def forward(self, x: Any) -> Any:
        back = tnp.flip(self.backward_lstm(tnp.flip(x, axis=1)), axis=1)
        return tnp.concat([self.forward_lstm(x), back], axis=-1)


OURS: dict[str, Callable[[], nn.Module]] = {
    "dense": lambda: nn.Linear(5, 4),
    "dense_no_bias": lambda: nn.Linear(5, 4, bias=False, activation="gelu"),
    "embedding": lambda: nn.Embedding(7, 3),
    "conv1d": lambda: nn.Conv1d(3, 4, 3, stride=2, padding="same"),
    "conv1d_causal": lambda: nn.Conv1d(3, 4, 3, dilation=2, padding=((4, 0),)),
    "conv2d": lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding="same", groups=2),
    "conv2d_dilated": lambda: nn.Conv2d(3, 4, 3, dilation=(2, 1), padding="same"),
    "conv3d": lambda: nn.Conv3d(2, 3, 2, bias=False),
    "depthwise": lambda: nn.Conv2d(3, 6, 3, groups=3, padding="same"),
    "depthwise1d": lambda: nn.Conv1d(3, 3, 3, groups=3, stride=2),
    "separable": lambda: nn.Sequential(nn.Conv2d(3, 6, 3, groups=3, bias=False), nn.Conv2d(6, 4, 1)),
    "transposed1d": lambda: nn.ConvTranspose1d(3, 4, 3, stride=2, padding="same"),
    "transposed2d": lambda: nn.ConvTranspose2d(3, 2, 3, stride=2),
    "transposed2d_wide": lambda: nn.ConvTranspose2d(3, 2, 2, stride=3),
    "transposed3d": lambda: nn.ConvTranspose3d(2, 3, 2, stride=(1, 2, 2), padding="same"),
    "batch_norm": lambda: nn.BatchNorm(3, epsilon=1e-3),
    "batch_norm_no_scale": lambda: nn.BatchNorm(3, epsilon=1e-3, scale=False),
    "batch_norm_no_shift": lambda: nn.BatchNorm(3, epsilon=1e-3, shift=False),
    "layer_norm": lambda: nn.LayerNorm((5, 3), epsilon=1e-3),
    "layer_norm_no_shift": lambda: nn.LayerNorm(3, epsilon=1e-3, shift=False),
    "group_norm": lambda: nn.GroupNorm(2, 4, epsilon=1e-3),
    "rnn": lambda: nn.RNN(3, 4, sequences=True),
    "lstm": lambda: nn.LSTM(3, 4, sequences=True),
    "lstm_last": lambda: nn.LSTM(3, 4, bias=False),
    "gru": lambda: nn.GRU(3, 4, sequences=True),
    "gru_no_bias": lambda: nn.GRU(3, 4, bias=False),
    "gru_reset_before": lambda: nn.GRU(3, 4, sequences=True, reset_after=False),
    "bidirectional": lambda: BothWays(3, 4),
    "attention": lambda: nn.MultiHeadAttention(6, 2),
    "attention_large": lambda: nn.MultiHeadAttention(6, 3, size=4, bias=False),
    "max_pool": lambda: nn.MaxPool2d(3, stride=2, padding="same"),
    "average_pool": lambda: nn.AvgPool2d(3, stride=2, padding="same"),
    "upsampling": lambda: nn.UpSampling2d((2, 3)),
    "padding": lambda: nn.Padding2d(((1, 2), (0, 3))),
}  # fmt: skip

SEPARABLE = {"depthwise_kernel": "0.kernel", "pointwise_kernel": "1.kernel", "bias": "1.bias"}


def facts(name: str) -> dict[str, Any]:
    return json.loads(DATA[f"{name}.json"].tobytes())


def test_there_is_a_layer_for_each_that_keras_computed() -> None:
    made = {n.removesuffix(".json") for n in DATA.files if n.endswith(".json")}
    assert made == OURS.keys() | NETWORKS.keys()


@pytest.mark.parametrize("name", OURS)
def test_a_layer_with_the_weights_of_keras_gives_what_it_gives_there(name: str) -> None:
    layer, known = OURS[name](), facts(name)
    values = all_drawn(known["weights"])
    own = known["name"]
    rename = (
        {f"{own}/{n}": here for n, here in SEPARABLE.items()} if name == "separable" else {own: ""}
    )
    weights.load_keras(layer, {f"{n}:0": v for n, v in values.items()}, rename=rename)
    shape = tuple(known["input"])
    x = (
        np.random.default_rng(1).integers(0, 7, shape)
        if name == "embedding"
        else image(name, shape)
    )
    given = tw.var("x", shape=shape, dtype=str(x.dtype))
    for got in (layer(x).numpy(), tw.Graph([given], layer(given)).compile()(x)):
        assert got.shape == DATA[name].shape
        np.testing.assert_allclose(got, DATA[name], rtol=1e-4, atol=1e-5)


# -------------------------------------------------------------------- networks

NETWORKS: dict[str, Callable[[], Any]] = {
    "vgg16": lambda: models.VGG16(7, size=64, width=1 / 16),
    "resnet50": lambda: models.ResNet50(7, width=1 / 16, form="keras"),
    "inception": lambda: models.InceptionV3(7, width=1 / 16, form="keras"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_keras_needs_no_renaming(name: str) -> None:
    model, known = NETWORKS[name](), facts(name)
    weights.load_keras(model, all_drawn(known["weights"]))
    shape = tuple(known["input"])
    x = tw.var("x", shape=shape, dtype="float32")
    (got,) = tw.Graph([x], [model(x)]).compile()(image(name, shape))
    np.testing.assert_allclose(got, DATA[name], rtol=1e-3, atol=1e-5 * np.abs(DATA[name]).max())


def test_layers_of_inception_are_counted_from_the_first_there_is() -> None:
    model = NETWORKS["inception"]()
    names = [n.replace("/", ".") for n in facts("inception")["weights"]]
    assert "conv2d.kernel" not in names  # the data began to count elsewhere
    given = model.keras_names(names)
    assert given("predictions.kernel") == "fc.kernel"
    numbers = sorted(int(n.split(".")[0].rpartition("_")[2]) for n in names if "conv2d" in n)
    assert given(f"conv2d_{numbers[0]}.kernel") == "Conv2d_1a_3x3.conv.kernel"
    assert given(f"conv2d_{numbers[-1]}.kernel") == "Mixed_7c.branch_pool.conv.kernel"
    fresh = model.keras_names(["conv2d.kernel", *(f"conv2d_{n}.kernel" for n in range(1, 94))])
    assert fresh("conv2d.kernel") == "Conv2d_1a_3x3.conv.kernel"
    assert fresh("conv2d_1.kernel") == "Conv2d_2a_3x3.conv.kernel"
    more = model.keras_names([f"conv2d_{n}.kernel" for n in range(95)])
    assert more("conv2d_1.kernel") == "conv2d_1.kernel"


# ----------------------------------------------------------------------- files


class Text(nn.Module):
    """The model in the files."""

    def __init__(self) -> None:
        self.words = nn.Embedding(7, 4)
        self.attention = nn.MultiHeadAttention(4, 2, size=3)
        self.depthwise = nn.Conv1d(4, 4, 2, groups=4, bias=False, padding="same")
        self.pointwise = nn.Conv1d(4, 3, 1)
        self.gru = nn.GRU(3, 3, sequences=True)
        self.norm = nn.LayerNorm(3, epsilon=1e-3)
        self.memory = nn.LSTM(3, 3)
        self.head = [nn.Linear(3, 4, activation="relu"), nn.Linear(4, 2)]

    def forward(self, x: Any) -> Any:
        x = self.pointwise(self.depthwise(self.attention(self.words(x))))
        x = self.memory(self.norm(self.gru(x)))
        return self.head[1](self.head[0](x))


NAMES = {
    "mix/depthwise_kernel": "depthwise.kernel",
    "mix/pointwise_kernel": "pointwise.kernel",
    "mix/bias": "pointwise.bias",
    "head/hidden": "head.0",
    "head/scores": "head.1",
}
FILES = ("keras.weights.h5", "keras.keras", "keras.h5")


def check_text(model: nn.Module) -> None:
    got = model(np.arange(10).reshape(2, 5) % 7).numpy()
    np.testing.assert_allclose(got, DATA["text"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("file", FILES)
def test_files_of_keras_are_read(file: str) -> None:
    """Each has the state of an optimiser too, which is left out."""
    pytest.importorskip("h5py")
    model = Text()
    weights.load_keras(model, HERE / file, rename=NAMES)
    check_text(model)


def test_files_of_early_versions_have_no_names_of_layers(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "early.weights.h5"
    shutil.copy(HERE / "keras.weights.h5", path)
    with h5py.File(path, "r+") as file:
        groups = [file]
        file.visititems(lambda _, group: groups.append(group))
        for group in groups:
            group.attrs.pop("name", None)
    names = {
        "words": "layers/embedding",
        "attention": "layers/multi_head_attention",
        "depthwise.kernel": "layers/separable_conv1d/depthwise_kernel",
        "pointwise.kernel": "layers/separable_conv1d/pointwise_kernel",
        "pointwise.bias": "layers/separable_conv1d/bias",
        "gru": "layers/gru",
        "norm": "layers/layer_normalization",
        "memory": "layers/lstm",
        "head.0": "layers/sequential/layers/dense",
        "head.1": "layers/sequential/layers/dense_1",
    }
    model = Text()
    weights.load_keras(model, path, rename={there: here for here, there in names.items()})
    check_text(model)


def test_long_lists_of_names_are_cut_into_several(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "long.h5"
    with h5py.File(path, "w") as file:  # as Keras 2 wrote weights alone, in bytes
        file.attrs["layer_names0"] = [b"one"]
        file.attrs["layer_names1"] = [b"two", b"none"]
        for layer in ("one", "two", "none"):
            group = file.create_group(layer)
            group.attrs["weight_names"] = np.array(
                []
                if layer == "none"
                else [f"{layer}/kernel:0".encode(), f"{layer}/bias:0".encode()],
                "S20",
            )
            if layer != "none":
                group[f"{layer}/kernel:0"] = np.full((2, 2), 3.0 if layer == "two" else 5.0)
                group[f"{layer}/bias:0"] = np.zeros(2)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    weights.load_keras(model, path, rename={"one": "0", "two": "1"})
    assert [float(model.parameters[n]["weight"][0, 0]) for n in (0, 1)] == [5, 3]


def test_published_files_with_names_of_an_early_time_are_read(tmp_path: Path) -> None:
    """As that of VGG16: `block1_conv1_W_1:0`, in which Keras takes weights by their order."""
    h5py = pytest.importorskip("h5py")
    path, known = tmp_path / "vgg16.h5", facts("vgg16")
    drawn = all_drawn(known["weights"])
    layers = list(dict.fromkeys(name.split("/")[0] for name in drawn))
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.encode() for layer in layers]
        for layer in layers:
            group = file.create_group(layer)
            names = {"kernel": f"{layer}_W_1:0", "bias": f"{layer}_b_1:0"}
            group.attrs["weight_names"] = [name.encode() for name in names.values()]
            for leaf, name in names.items():
                group[name] = drawn[f"{layer}/{leaf}"]
    model, same = NETWORKS["vgg16"](), NETWORKS["vgg16"]()
    weights.load_keras(model, path)
    weights.load_keras(same, drawn)
    for name, value in dict(leaf_paths(same.parameters)).items():
        np.testing.assert_array_equal(dict(leaf_paths(model.parameters))[name], value)


def test_what_a_file_lacks_is_named_as_it_is_there(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    with pytest.raises(ValueError) as error:
        weights.load_keras(Text(), HERE / "keras.weights.h5")
    for said in (
        "head.0.kernel is missing",
        "head/hidden/vars/0 is not expected",
        "say with rename",
    ):
        assert said in str(error.value)
    other = Text()
    other.gru = nn.GRU(3, 3, sequences=True, bias=False)
    with pytest.raises(ValueError, match=r"fit Text: gru/gru_cell/vars/2 is not expected  \["):
        weights.load_keras(other, HERE / "keras.weights.h5", rename=NAMES)


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "model.weights.h5"
    for file in ("keras.weights.h5", "keras.h5"):
        whole = (HERE / file).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(tw.GraphFileError, match=r"model\.weights\.h5: format: HDF5 that"):
            weights.load_keras(Text(), path, rename=NAMES)
    (tmp_path / "secret").write_bytes(bytes(24))
    with h5py.File(path, "w") as file:
        file.create_group("layers/dense/vars").create_dataset(
            "0", (2, 3), "f4", external=[(str(tmp_path / "secret"), 0, 24)]
        )
    with pytest.raises(tw.GraphFileError, match="lies in another file"):
        weights.load_keras(nn.Linear(2, 3, bias=False), path, rename={"layers/dense": ""})
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["vars/0"] = np.ones((2, 3))
    with h5py.File(path, "w") as file:
        file["layers/dense"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/")
    with pytest.raises(tw.GraphFileError, match="lies in another file"):
        weights.load_keras(nn.Linear(2, 3, bias=False), path, rename={"layers/dense": ""})
    with h5py.File(path, "w") as file:
        file["layers/dense"] = np.ones(3)
    with pytest.raises(tw.GraphFileError, match="HDF5 that Keras did not write"):
        weights.load_keras(nn.Linear(2, 3), path)
    with h5py.File(path, "w") as file:
        file["layers/dense"] = h5py.SoftLink("/layers")
        file["layers/dense_1/vars/0"] = np.ones((2, 3))
    with pytest.raises(tw.GraphFileError, match="within more than 64 groups"):
        weights.load_keras(nn.Linear(2, 3), path)
    with pytest.raises(tw.GraphFileError, match="HDF5; load_keras reads files of Keras"):
        weights.load_torch(nn.Linear(2, 3), path)


def test_archives_and_lists_of_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"")
    with pytest.raises(tw.GraphFileError, match=r"an archive without model\.weights\.h5"):
        weights.load_keras(Text(), path)
    path.write_bytes(b'{"weight_map": {}}')
    with pytest.raises(tw.GraphFileError, match=r"a list of several files; have Keras write one"):
        weights.load_keras(Text(), path)
    path.write_bytes(b"PK\x03\x04 nothing more")
    with pytest.raises(tw.GraphFileError, match=r"an archive without model\.weights\.h5"):
        weights.load_keras(Text(), path)


def test_without_h5py_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(
        ImportError, match=r"keras\.h5 is HDF5, which needs h5py: pip install 'tawny"
    ):
        weights.load_keras(Text(), HERE / "keras.h5")


def test_safetensors_of_weights_by_path_are_read(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    tw.save_arrays(path, {"dense/kernel": np.ones((2, 3)), "dense/bias": np.zeros(3)})
    layer = nn.Linear(2, 3)
    weights.load_keras(layer, path, rename={"dense": ""})
    np.testing.assert_array_equal(layer.parameters["weight"], np.ones((2, 3)))


# ---------------------------------------------------------------------- models


def variable(path: str, value: Any) -> Any:
    """As a variable of Keras."""
    return SimpleNamespace(path=path, numpy=lambda: np.asarray(value))


def keras_layer(name: str, *weights: Any, **more: Any) -> Any:
    return SimpleNamespace(name=name, weights=list(weights), **more)


def test_models_of_keras_are_taken_as_they_are() -> None:
    """Sequential ones put their own name before those of their layers, others do not."""
    ours = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1, bias=False))
    for prefix in ("", "sequential/"):
        first = keras_layer(
            "one",
            variable(f"{prefix}one/kernel", np.ones((2, 3))),
            variable(f"{prefix}one/bias", np.ones(3)),
        )
        second = keras_layer("two", variable("inner/kernel", np.ones((3, 1))))
        layers = [first, keras_layer("activation"), second]
        model = keras_layer("sequential", *first.weights, *second.weights, layers=layers)
        weights.load_keras(ours.initialise(1), model, rename={"one": "0", "two/inner": "1"})
        assert float(ours(np.ones((1, 2), np.float32)).item()) == 9
    layer = nn.Linear(3, 1, bias=False)
    weights.load_keras(layer, keras_layer("dense", variable("dense/kernel", np.ones((3, 1)))))
    assert layer.parameters["weight"].sum() == 3
    outside = keras_layer("m", *model.weights, variable("m/own", np.ones(1)), layers=layers)
    with pytest.raises(ValueError, match="m has weights outside of its layers"):
        weights.load_keras(ours, outside)
    with pytest.raises(
        TypeError, match="source is list; accepted: a file's path, arrays by name, or a"
    ):
        weights.load_keras(ours, [np.ones((2, 3))])


def test_cells_and_generators_have_no_counterpart() -> None:
    values = {
        "lstm/lstm_cell_3/kernel:0": np.ones((2, 4)),
        "lstm/lstm_cell_3/recurrent_kernel:0": np.ones((1, 4)),
        "lstm/lstm_cell_3/bias:0": np.ones(4),
        "dropout/seed_generator/seed_generator_state": np.ones(2),
        "dropout_1/seed_generator_2/vars/0": np.ones(2),
    }
    layer = nn.LSTM(2, 1)
    weights.load_keras(layer, values, rename={"lstm": ""})
    np.testing.assert_array_equal(layer.parameters["bias"], np.ones(4))
