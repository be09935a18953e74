"""Weights in files, and those of PyTorch and Keras."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
from shared_weights import all_drawn, image
from tawny import nn, pages
from tawny.nn import weights
from tawny.nn.parameters import Declaration
from tawny.tree import leaf_paths

RNG = np.random.default_rng()
LAYERS = np.load(Path(__file__).parent / "data" / "layers.npz")


class Small(nn.Module):
    """Parameters and state, some of them in a list."""

    def __init__(self, features: int = 3, dtype: str = "float32") -> None:
        self.layers = [nn.Linear(2, features, dtype=dtype), nn.Linear(features, 4, dtype=dtype)]
        self.norm = nn.BatchNorm(features, dtype=dtype)

    def forward(self, x: Any) -> Any:
        return self.layers[1](self.norm(self.layers[0](x)))


def flat(model: nn.Module) -> dict[str, np.ndarray]:
    return dict(leaf_paths(model.parameters)) | dict(leaf_paths(model.state))


def changed(model: nn.Module) -> nn.Module:
    """The model with values that no draw gives."""
    for name, value in flat(model).items():
        *_, owner = [m for p, m in model.modules().items() if p == name.rpartition(".")[0]]
        setattr(owner, name.rpartition(".")[2], RNG.standard_normal(value.shape))
    return model


# ----------------------------------------------------------------------- files


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_model_is_read_as_it_was_written(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "model.safetensors"
    model = changed(Small(dtype=dtype))
    model.save(path)
    other = Small(dtype=dtype)
    assert other.load(path) is other
    assert flat(model).keys() == flat(other).keys()
    assert "norm.mean" in flat(other)
    assert "layers.0.weight" in flat(other)
    for name, value in flat(model).items():
        assert flat(other)[name].dtype == np.dtype(dtype)
        assert flat(other)[name].tobytes() == value.tobytes(), name


def test_a_file_is_plain_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = changed(Small())
    weights.save(model, path)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    assert header.pop("__metadata__")["format"] == "tawny.weights"
    assert header.keys() == flat(model).keys()
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32"
        assert raw[8 + length :][begin:end] == flat(model)[name].tobytes()


def test_files_of_arrays_and_other_widths_are_read(tmp_path: Path) -> None:
    path = tmp_path / "arrays.safetensors"
    model = changed(Small(dtype="float64"))
    tw.save_arrays(path, flat(model))
    other = Small()
    weights.load(other, path)
    for name, value in flat(model).items():
        np.testing.assert_array_equal(flat(other)[name], value.astype(np.float32))


def test_numbers_of_half_the_width_of_single_precision_are_read(tmp_path: Path) -> None:
    """The dtype BF16, as many published files have it: the upper halves of F32."""
    path = tmp_path / "brain.safetensors"
    values = np.array([[1.0, -2.5, 0.15625], [np.inf, -0.0, 3e38]], np.float32)
    halves = {"weight": values.view("<u4") >> 16, "bias": np.zeros(2, np.uint32)}
    header, data = {}, b""
    for name, half in halves.items():
        raw = half.astype("<u2").tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": "BF16", "shape": list(half.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    layer = nn.Linear(3, 2)
    weights.load_torch(layer, path)
    found = layer.parameters["weight"]
    np.testing.assert_array_equal(found.view(np.uint32), values.T.view(np.uint32) >> 16 << 16)


def wrong_files(tmp_path: Path) -> dict[str, tuple[Path, list[str]]]:
    """Files that do not fit a model, and what is said about each."""
    values = flat(Small())
    path = tmp_path / "arrays.safetensors"
    values["extra.weight"] = values.pop("norm.mean")
    values["layers.0.bias"] = np.zeros(7, np.float32)
    values["layers.1.bias"] = np.zeros(4, np.complex64)
    tw.save_arrays(path, values)
    return {"structure": (path, [
        "norm.mean is missing", "extra.weight is not expected", "layers.0.bias has shape (7,); it must be (3,)",
        "layers.1.bias has dtype complex64", "arrays.safetensors", "Small"])}  # fmt: skip


def test_everything_that_does_not_fit_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    model = changed(Small())
    before = flat(model)
    path, messages = wrong_files(tmp_path)["structure"]
    with pytest.raises(ValueError) as error:
        model.load(path)
    for message in messages:
        assert message in str(error.value)
    for name, value in before.items():
        assert flat(model)[name].tobytes() == value.tobytes()


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = Small()
    model.save(path)
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    with pytest.raises(tw.GraphFileError, match="damaged"):
        model.load(path)
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(tw.GraphFileError):
        model.load(path)
    path.write_bytes(b"\x80\x04\x95 a pickle")
    with pytest.raises(tw.GraphFileError):
        model.load(path)
    x = tw.var("x", shape=(1, 2), dtype="float32")
    tw.Graph([x], model(x)).save(path)
    with pytest.raises(tw.GraphFileError, match=r"expected .tawny\.weights"):
        model.load(path)
    with pytest.raises(FileNotFoundError):
        model.load(tmp_path / "none.safetensors")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    Small().save(path)
    before = path.read_bytes()
    with pytest.raises(OSError):
        Small().save(tmp_path / "no" / "folder" / "model.safetensors")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_saving_draws_what_was_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    Small().initialise(5).save(path)
    drawn = flat(Small().initialise(5))
    for name, value in tw.load_arrays(path).items():
        np.testing.assert_array_equal(value, drawn[name])


# --------------------------------------------------------------------- PyTorch

OURS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(5, 4),
    "conv1d": lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1),
    "conv2d": lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2),
    "conv3d": lambda: nn.Conv3d(2, 3, 2, dilation=(1, 2, 1)),
    "conv_transpose2d": lambda: nn.ConvTranspose2d(3, 5, 3, stride=2, padding=1),
    "batch_norm": lambda: nn.BatchNorm(3),
    "layer_norm": lambda: nn.LayerNorm((5, 3)),
    "group_norm": lambda: nn.GroupNorm(2, 4),
    "rnn": lambda: nn.RNN(3, 4, sequences=True),
    "lstm": lambda: nn.LSTM(3, 4, sequences=True),
    "gru": lambda: nn.GRU(3, 4, sequences=True),
    "attention": lambda: nn.MultiHeadAttention(6, 2),
}


@pytest.mark.parametrize("name", OURS)
def test_a_layer_with_the_weights_of_pytorch_gives_what_it_gives_there(name: str) -> None:
    facts = json.loads(LAYERS[f"{name}.json"].tobytes())
    layer = OURS[name]()
    weights.load_torch(layer, all_drawn(facts["parameters"]))
    got = layer(image(name, tuple(facts["input"]))).numpy()
    np.testing.assert_allclose(got, LAYERS[name], rtol=1e-4, atol=1e-5)


def test_a_transposed_layer_that_makes_another_size_than_pytorch_is_refused() -> None:
    """PyTorch makes (n - 1) * stride + window of n, as padding=0 does; "valid" makes n * stride."""
    drawn = np.random.default_rng(2)
    values = {"0.weight": drawn.normal(size=(3, 5, 2, 3)), "0.bias": drawn.normal(size=5)}

    def model(**options: Any) -> Any:
        return nn.Sequential(nn.ConvTranspose2d(3, 5, (2, 3), dtype="float64", **options))

    refused = model(stride=(3, 2))
    before = flat(refused)
    message = r"load_torch: 0: stride \(3, 2\) is greater than window \(2, 3\), .* padding=0"
    with pytest.raises(ValueError, match=message):
        weights.load_torch(refused, values)
    for name, value in flat(refused).items():
        np.testing.assert_array_equal(value, before[name])
    for options in ({"stride": (3, 2), "padding": 0}, {"stride": 2}):
        fitting = model(**options)
        weights.load_torch(fitting, values)
        x = drawn.normal(size=(1, 4, 5, 3))
        wanted = np.zeros((1, 20, 20, 5))
        down, right = fitting[0].stride
        for i, j in np.ndindex(4, 5):
            spread = np.einsum("bc,cohw->bhwo", x[:, i, j], values["0.weight"])
            wanted[:, down * i : down * i + 2, right * j : right * j + 3] += spread
        wanted = wanted[:, : 3 * down + 2, : 4 * right + 3] + values["0.bias"]
        np.testing.assert_allclose(fitting(x).numpy(), wanted, atol=1e-12)


def torch_names(model: Small) -> dict[str, np.ndarray]:
    values = flat(model)
    names = {
        "norm.scale": "norm.weight",
        "norm.shift": "norm.bias",
        "norm.mean": "norm.running_mean",
        "norm.variance": "norm.running_var",
    }
    return {names.get(n, n): v.T if v.ndim == 2 else v for n, v in values.items()}


def test_names_are_translated_by_prefix_or_function(tmp_path: Path) -> None:
    model = changed(Small())
    theirs = torch_names(model) | {
        "norm.num_batches_tracked": np.array(3),
        "loss.weight": np.zeros(2),
    }
    theirs = {f"net.{n}".replace("layers.0", "first"): v for n, v in theirs.items()}
    path = tmp_path / "torch.safetensors"
    tw.save_arrays(path, theirs)
    for rename in (
        {"net": "", "net.first": "layers.0", "net.loss": None},
        lambda n: None if "loss" in n else n.removeprefix("net.").replace("first", "layers.0"),
    ):
        for source in (theirs, path):
            other = Small()
            weights.load_torch(other, source, rename=rename)
            for name, value in flat(model).items():
                np.testing.assert_array_equal(flat(other)[name], value)


def test_what_is_wrong_in_a_source_is_named_as_it_is_there() -> None:
    model = changed(Small())
    before = flat(model)
    theirs = torch_names(model)
    theirs["other"] = theirs.pop("norm.running_var")
    with pytest.raises(ValueError) as error:
        weights.load_torch(model, theirs)
    assert (
        "norm.running_var is missing; other is not expected; say with rename what is called "
        "otherwise there  [" in str(error.value)
    )
    theirs = torch_names(model) | {"layers.0.weight": np.zeros((2, 3), np.float32)}
    with pytest.raises(ValueError) as error:
        weights.load_torch(model, theirs)
    assert "layers.0.weight has shape (3, 2); it must be (2, 3)" in str(error.value)
    with pytest.raises(ValueError, match="both renamed"):
        weights.load_torch(model, torch_names(model), rename=lambda n: "layers.0.weight")
    with pytest.raises(TypeError, match="source is int; accepted: a file's path, arrays"):
        weights.load_torch(model, 3)
    for name, value in before.items():
        assert flat(model)[name].tobytes() == value.tobytes()


@pytest.mark.parametrize("spatial", [(6,), (3, 4), (2, 3, 2)])
def test_rows_of_a_layer_behind_a_flattened_map_are_put_in_order(spatial: tuple[int, ...]) -> None:
    maps = RNG.standard_normal((2, *spatial, 5)).astype(np.float32)
    numbers = maps[0].size
    matrix = RNG.standard_normal((7, numbers)).astype(np.float32)
    expected = np.moveaxis(maps, -1, 1).reshape(2, -1) @ matrix.T
    layer = nn.Linear(numbers, 7, bias=False)
    weights.load_torch(layer, {"weight": matrix}, flattened={"": (*spatial, 5)})
    np.testing.assert_allclose(layer(maps.reshape(2, -1)).numpy(), expected, rtol=1e-4, atol=1e-4)


WRONG_MAPS: dict[str, tuple[dict[str, Any], str]] = {
    "no layer": ({"dense": (2, 2, 3)}, r"flattened has 'dense'; accepted: linear layers, 3, 4"),
    "no linear layer": ({"0": (2, 2, 3)}, r"flattened has '0'; accepted: linear layers, 3, 4"),
    "size": ({"3": (2, 2, 4)}, r"has \(2, 2, 4\) for '3'; .* multiply to the 12 inputs"),
    "one axis": ({"3": (12,)}, r"has \(12,\) for '3'; its numbers, \(\*spatial, channels\)"),
}


def flattening(channels: int = 3, last: nn.Module | None = None) -> nn.Sequential:
    layer = nn.Linear(12, 2) if last is None else last
    inner = nn.Sequential(nn.Conv2d(1, channels, 1), nn.Activation("relu"))
    return nn.Sequential(inner, nn.MaxPool2d(2), nn.Flatten(), layer, nn.Linear(2, 2))


@pytest.mark.parametrize("name", WRONG_MAPS)
def test_maps_that_do_not_fit_the_model_are_refused(name: str) -> None:
    flattened, message = WRONG_MAPS[name]
    with pytest.raises(ValueError, match=message):
        weights.load_torch(flattening(), {}, flattened=flattened)


def test_a_layer_that_is_seen_to_read_a_map_must_have_its_shape_said() -> None:
    """In the order of PyTorch its rows would give wrong numbers in silence."""
    message = r"3 reads a flattened map, .*flattened=\{'3': \(rows, columns, channels\)\}, or None"
    for model in (flattening(), flattening(last=nn.FullyConnected(12, 2))):
        with pytest.raises(ValueError, match=message):
            weights.load_torch(model, {})
    theirs = {
        n: RNG.standard_normal(shape)
        for n, shape in {
            "0.0.weight": (3, 1, 1, 1), "0.0.bias": (3,), "3.weight": (2, 12), "3.bias": (2,),
            "4.weight": (2, 2), "4.bias": (2,),
        }.items()
    }  # fmt: skip
    for shape, wanted in (((2, 2, 3), "cyx->yxc"), (None, "cyx->cyx")):
        model = flattening()
        weights.load_torch(model, theirs, flattened={"3": shape})
        rows = np.einsum(f"o{wanted.replace('->', '->o')}", theirs["3.weight"].reshape(2, 3, 2, 2))
        np.testing.assert_allclose(flat(model)["3.weight"], rows.reshape(2, 12).T, rtol=1e-6)
    for model in (  # a map of one element a channel, and one that is no map
        flattening(channels=12),
        nn.Sequential(nn.Conv2d(1, 4, 1), nn.Linear(4, 3), nn.Flatten(), nn.Linear(12, 2)),
        nn.Sequential(
            nn.Conv1d(1, 4, 1), nn.LSTM(4, 3, sequences=True), nn.Flatten(), nn.Linear(12, 2)
        ),
    ):
        with pytest.raises(ValueError, match="is missing"):
            weights.load_torch(model, {})


def test_networks_know_what_they_flatten_and_what_they_leave_out() -> None:
    model = tw.models.VGG16(3, size=64, width=1 / 32)
    shapes = {n: v.shape for n, v in flat(model).items()}
    theirs = all_drawn(
        {n: (s[-1], s[-2], *s[:-2]) if len(s) == 4 else s[::-1] for n, s in shapes.items()}
    )
    weights.load_torch(model, theirs)
    ((where, map_shape),) = model.flattened.items()
    matrix = theirs[f"{where}.weight"].reshape(-1, map_shape[-1], *map_shape[:-1])
    expected = np.moveaxis(matrix, 1, -1).reshape(len(matrix), -1).T
    np.testing.assert_array_equal(flat(model)[f"{where}.weight"], expected)
    with pytest.raises(ValueError) as error:
        weights.load_torch(
            tw.models.InceptionV3(3, width=1 / 32), {"AuxLogits.fc.bias": np.ones(3)}
        )
    assert "AuxLogits" not in str(error.value)


class TorchModel:
    """As a module of PyTorch: it has its weights by name."""

    def __init__(self, values: dict[str, np.ndarray]) -> None:
        self.values = values

    def state_dict(self) -> dict[str, np.ndarray]:
        return self.values


def test_a_module_of_pytorch_is_taken_as_it_is() -> None:
    layer = nn.Linear(2, 3)
    weights.load_torch(layer, TorchModel({"weight": np.ones((3, 2)), "bias": np.zeros(3)}))
    np.testing.assert_array_equal(layer.parameters["weight"], np.ones((2, 3)))


def test_files_that_could_run_something_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    for beginning in (b"PK\x03\x04 an archive", b"\x80\x02 a pickle"):
        path.write_bytes(beginning)
        with pytest.raises(
            tw.GraphFileError, match=r"a pickle.*torch\.load\(path, weights_only=True"
        ):
            weights.load_torch(nn.Linear(2, 3), path)


# -------------------------------------------------------------- other meanings

KERAS_HEADS = {
    **{f"{n}/kernel": (6, 3, 2) for n in ("query", "key", "value")},
    **{f"{n}/bias": (3, 2) for n in ("query", "key", "value")},
    "attention_output/kernel": (3, 2, 6),
    "attention_output/bias": (6,),
}

MEANT_OTHERWISE: dict[str, tuple[Any, nn.Module, dict[str, tuple[int, ...]], str]] = {
    "gru, reset before": (
        weights.load_keras,
        nn.GRU(3, 4),
        {"kernel": (3, 12), "recurrent_kernel": (4, 12), "bias": (12,)},
        r"fit GRU: bias has shape \(12,\); it must be two rows, as in a GRU with reset_after=True; "
        r"weights of the other kind are for nn\.GRU\(\.\.\., reset_after=False\)  ",
    ),
    "gru, reset after": (
        weights.load_keras,
        nn.GRU(3, 4, reset_after=False),
        {"kernel": (3, 12), "recurrent_kernel": (4, 12), "bias": (2, 12)},
        r"bias has shape \(2, 12\); it must be one row, as in a GRU with reset_after=False; ",
    ),
    "gru of pytorch": (
        weights.load_torch,
        nn.GRU(3, 4, reset_after=False),
        {},
        r"load_torch: GRU: reset_after is False, and PyTorch's GRU resets after the product",
    ),
    "other heads": (
        weights.load_keras,
        nn.MultiHeadAttention(6, 2),
        KERAS_HEADS,
        r"query/kernel has shape \(6, 3, 2\); its axis 1 must be 2, the number of heads; .*"
        r"key/bias has shape \(3, 2\); its axis 0 must be 2.*attention_output/kernel has shape",
    ),
    "biases unlike": (
        weights.load_torch,
        nn.LSTM(2, 1),
        {"weight_ih_l0": (4, 2), "weight_hh_l0": (4, 1), "bias_ih_l0": (4,), "bias_hh_l0": (1,)},
        r"bias_ih_l0 and bias_hh_l0 have shapes \(4,\) and \(1,\); they must be alike",
    ),
    "no thirds": (
        weights.load_torch,
        nn.MultiHeadAttention(2, 1),
        {
            "in_proj_weight": (7, 2), "in_proj_bias": (6,), "out_proj.weight": (2, 2),
            "out_proj.bias": (2,),
        },
        r"in_proj_weight has shape \(7, 2\); it must be three parts of equal size",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANT_OTHERWISE)
def test_weights_that_mean_something_else_are_refused_though_sizes_agree(name: str) -> None:
    load, layer, shapes, message = MEANT_OTHERWISE[name]
    with pytest.raises(ValueError, match=message):
        load(layer, {n: RNG.standard_normal(s) for n, s in shapes.items()})


class Tensor:
    """As a tensor of PyTorch: an array once it is off the tape and the device, of a known dtype."""

    def __init__(
        self, value: np.ndarray, dtype: str = "float32", away: tuple[str, ...] = ("tape", "device")
    ) -> None:
        self.value, self.dtype, self.away = value, f"torch.{dtype}", away

    def _without(self, *words: str) -> tuple[str, ...]:
        return tuple(word for word in self.away if word not in words)

    def detach(self) -> Tensor:
        return Tensor(self.value, self.dtype[6:], self._without("tape"))

    def cpu(self) -> Tensor:
        return Tensor(self.value, self.dtype[6:], self._without("device"))

    def float(self) -> Tensor:
        return Tensor(self.value, "float32", self.away)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        if self.away:
            raise RuntimeError(f"on the {self.away[0]}")
        if self.dtype != "torch.float32":
            raise TypeError(f"unsupported {self.dtype}")
        return self.value


def test_tensors_are_taken_off_their_tape_or_refused_by_name() -> None:
    layer, values = nn.Linear(2, 3), {"weight": np.ones((3, 2)), "bias": np.zeros(3)}
    for dtype in ("float32", "bfloat16"):
        weights.load_torch(layer.initialise(1), {n: Tensor(v, dtype) for n, v in values.items()})
        np.testing.assert_array_equal(layer.parameters["weight"], np.ones((2, 3)))
    with pytest.raises(TypeError, match=r"load_torch: bias is Tensor, .*unsupported torch\.float8"):
        weights.load_torch(layer, values | {"bias": Tensor(np.zeros(3), "float8")})


@pytest.mark.parametrize("load", [weights.load_torch, weights.load_keras, weights.load])
def test_what_is_no_module_has_no_weights(load: Callable[..., None], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"dict is no module; accepted: instances of nn\.Module"):
        load({}, tmp_path / "nothing")
    with pytest.raises(TypeError, match=r"dict is no module"):
        weights.save({}, tmp_path / "nothing")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loaded_weights_lie_where_vectors_are_read_best(dtype: str) -> None:
    """As those that are drawn."""
    model = nn.Linear(300, 512)
    given = RNG.standard_normal((512, 300)).astype(dtype)
    weights.load_torch(model, {"weight": given, "bias": np.zeros(512, dtype)})
    declared = {".".join(map(str, p)): m for p, m in model.walk() if isinstance(m, Declaration)}
    value = declared["weight"].value
    assert value.ctypes.data % 64 == 0
    assert value.flags.c_contiguous
    assert pages.owns_memory(value)
    np.testing.assert_array_equal(value, given.T.astype(np.float32))
