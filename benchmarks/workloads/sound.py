"""Networks for sound and for tables."""

from __future__ import annotations

from typing import Any

import numpy

from workloads.family import Arrays, Chapter, Draw

SOUND = Chapter("audio")

encoder = SOUND.family(
    "strided convolutions of a wave", "small f32 1600, large f32 16000", onnx=True
)
STRIDED = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2))


@encoder.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(1, n, 1)}


@encoder.weights
def _(draw: Draw, n: int) -> Arrays:
    sizes = [1, *(128,) * len(STRIDED)]
    return {f"k{i}": draw.kernel(w, sizes[i], 128) for i, (w, _) in enumerate(STRIDED)}


@encoder.numpy
def _(np: Any, x: Any, **p: Any) -> Any:
    for i, (_, stride) in enumerate(STRIDED):
        x = np.conv(x, p[f"k{i}"], stride=stride, padding="VALID")
        x = 0.5 * x * (1.0 + np.erf(x * 0.70710678))
    return x


@encoder.torch_weights
def _(weights: Any) -> Any:
    return {name: value.permute(2, 1, 0) for name, value in weights.items()}


@encoder.torch
def _(torch: Any, x: Any, **p: Any) -> Any:
    f = torch.nn.functional
    x = x.transpose(1, 2)
    for i, (_, stride) in enumerate(STRIDED):
        x = f.gelu(f.conv1d(x, p[f"k{i}"], stride=stride))
    return x.transpose(1, 2)


dilated = SOUND.family("dilated gated convolutions", "small f32 500, large f32 8000", onnx=True)


@dilated.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(1, n, 32)}


@dilated.weights
def _(draw: Draw, n: int) -> Arrays:
    found = {}
    for i in range(8):
        found[f"filter{i}"], found[f"gate{i}"] = draw.kernel(2, 32, 32), draw.kernel(2, 32, 32)
        found[f"mix{i}"] = draw.weight(32, 32)
    return found


@dilated.numpy
def _(np: Any, x: Any, **p: Any) -> Any:
    total = 0 * x
    for i in range(8):
        step = 2**i
        wide = np.pad(x, ((0, 0), (step, 0), (0, 0)))
        kept = np.tanh(np.conv(wide, p[f"filter{i}"], padding="VALID", dilation=step))
        y = kept * np.sigmoid(np.conv(wide, p[f"gate{i}"], padding="VALID", dilation=step))
        y = y @ p[f"mix{i}"]
        total, x = total + y, x + y
    return total


@dilated.torch_weights
def _(weights: Any) -> Any:
    return {n: v if "mix" in n else v.permute(2, 1, 0) for n, v in weights.items()}


@dilated.torch
def _(torch: Any, x: Any, **p: Any) -> Any:
    f = torch.nn.functional
    x = x.transpose(1, 2)
    total = torch.zeros_like(x)
    for i in range(8):
        wide = f.pad(x, (2**i, 0))
        kept = torch.tanh(f.conv1d(wide, p[f"filter{i}"], dilation=2**i))
        y = kept * torch.sigmoid(f.conv1d(wide, p[f"gate{i}"], dilation=2**i))
        y = torch.einsum("bct,cd->bdt", y, p[f"mix{i}"])
        total, x = total + y, x + y
    return total.transpose(1, 2)


keywords = SOUND.family("keyword network, depthwise", "small f32 50, large f32 500", onnx=True)


@keywords.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(1, n, 40, 1)}


@keywords.weights
def _(draw: Draw, n: int) -> Arrays:
    found = {"first": draw.kernel(10, 4, 1, 64)}
    for i in range(4):
        found[f"deep{i}"], found[f"point{i}"] = draw.kernel(3, 3, 1, 64), draw.kernel(1, 1, 64, 64)
    return found | {"w": draw.weight(64, 12)}


@keywords.numpy
def _(np: Any, x: Any, **p: Any) -> Any:
    x = np.relu(np.conv(x, p["first"], stride=2, padding=((4, 5), (1, 1))))
    for i in range(4):
        x = np.relu(np.conv(x, p[f"deep{i}"], groups=64))
        x = np.relu(np.conv(x, p[f"point{i}"]))
    return np.softmax(np.mean(x, axis=(1, 2)) @ p["w"], axis=-1)


@keywords.torch_weights
def _(weights: Any) -> Any:
    return {n: v if v.ndim == 2 else v.permute(3, 2, 0, 1) for n, v in weights.items()}


@keywords.torch
def _(torch: Any, x: Any, **p: Any) -> Any:
    f = torch.nn.functional
    x = f.pad(x.permute(0, 3, 1, 2), (1, 1, 4, 5))
    x = torch.relu(f.conv2d(x, p["first"], stride=2))
    for i in range(4):
        x = torch.relu(f.conv2d(x, p[f"deep{i}"], padding=1, groups=64))
        x = torch.relu(f.conv2d(x, p[f"point{i}"]))
    return torch.softmax(x.mean((2, 3)) @ p["w"], -1)


recurrence = SOUND.family("recurrent layer in a loop, 100 steps", "small f32 1, large f32 64",
    without={"torch.compile": "unrolls the loop"})  # fmt: skip


@recurrence.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(100, n, 128)}


@recurrence.weights
def _(draw: Draw, n: int) -> Arrays:
    return {"w": draw.weight(128, 128), "u": draw.weight(128, 128)}


@recurrence.numpy
def _(np: Any, x: Any, w: Any, u: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = np.tanh(row + h @ u)
        return h, h

    return np.scan(step, 0 * x[0], x @ w)[1]


@recurrence.torch
def _(torch: Any, x: Any, w: Any, u: Any) -> Any:
    h, made = torch.zeros_like(x[0]), []
    for row in x @ w:
        h = torch.tanh(row + h @ u)
        made.append(h)
    return torch.stack(made)


TABLES = Chapter("tabular")

layers = TABLES.family(
    "dense layers of 64", "small f32 1, medium f64 64, large f32 4096", onnx=True
)


@layers.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 32)}


@layers.weights
def _(draw: Draw, n: int) -> Arrays:
    return {
        "w1": draw.weight(32, 64), "b1": draw.normal(64),
        "w2": draw.weight(64, 64), "b2": draw.normal(64),
        "w3": draw.weight(64, 3), "b3": draw.normal(3),
    }  # fmt: skip


@layers.numpy
def _(np: Any, x: Any, **p: Any) -> Any:
    x = np.relu(x @ p["w1"] + p["b1"])
    x = np.relu(x @ p["w2"] + p["b2"])
    return np.softmax(x @ p["w3"] + p["b3"], axis=-1)


@layers.torch
def _(torch: Any, x: Any, **p: Any) -> Any:
    x = torch.relu(torch.addmm(p["b1"], x, p["w1"]))
    x = torch.relu(torch.addmm(p["b2"], x, p["w2"]))
    return torch.softmax(torch.addmm(p["b3"], x, p["w3"]), -1)


classifier = TABLES.family("training step of dense layers", "small f32 16, medium f64 256, large f32 4096",
    trained=("w1", "b1", "w2", "b2"))  # fmt: skip


@classifier.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 100), "y": draw.integers(10, n)}


@classifier.weights
def _(draw: Draw, n: int) -> Arrays:
    return {
        "w1": draw.weight(100, 256), "b1": draw.normal(256),
        "w2": draw.weight(256, 10), "b2": draw.normal(10),
    }  # fmt: skip


@classifier.numpy
def _(np: Any, x: Any, y: Any, **p: Any) -> Any:
    logs = np.log_softmax(np.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"], axis=-1)
    return -np.mean(np.take_along_axis(logs, y[:, None], axis=1))


@classifier.torch
def _(torch: Any, x: Any, y: Any, **p: Any) -> Any:
    hidden = torch.tanh(torch.addmm(p["b1"], x, p["w1"]))
    return torch.nn.functional.cross_entropy(torch.addmm(p["b2"], hidden, p["w2"]), y.long())


autoencoder = TABLES.family("training step of an autoencoder", "small f32 8, large f32 1024",
    trained=("down", "bottom", "up"))  # fmt: skip


@autoencoder.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 784)}


@autoencoder.weights
def _(draw: Draw, n: int) -> Arrays:
    return {
        "down": draw.weight(784, 128),
        "bottom": draw.weight(128, 128),
        "up": draw.weight(128, 784),
    }


@autoencoder.numpy
def _(np: Any, x: Any, down: Any, bottom: Any, up: Any) -> Any:
    error = np.relu(np.relu(x @ down) @ bottom) @ up - x
    return np.mean(error * error)


@autoencoder.torch
def _(torch: Any, x: Any, down: Any, bottom: Any, up: Any) -> Any:
    made = torch.relu(torch.relu(x @ down) @ bottom) @ up
    return torch.nn.functional.mse_loss(made, x)


recommender = TABLES.family(
    "recommender with interactions", "small f32 8, large f32 2048", onnx=True
)


@recommender.data
def _(draw: Draw, n: int) -> Arrays:
    return {"dense": draw.normal(n, 13), "sparse": draw.integers(5000, n, 16)}


@recommender.weights
def _(draw: Draw, n: int) -> Arrays:
    return {
        "table": draw.normal(16 * 5000, 32, scale=0.2),
        "starts": 5000 * numpy.arange(16, dtype="int32"),
        "bottom": draw.weight(13, 32),
        "w1": draw.weight(32 + 17 * 17, 128),
        "w2": draw.weight(128, 1),
    }


@recommender.numpy
def _(np: Any, dense: Any, sparse: Any, table: Any, starts: Any, **p: Any) -> Any:
    first = np.relu(dense @ p["bottom"])
    rows = np.take(table, sparse + starts, axis=0)
    every = np.concatenate([first[:, None, :], rows], axis=1)
    pairs = np.reshape(every @ np.transpose(every, (0, 2, 1)), (dense.shape[0], 17 * 17))
    hidden = np.relu(np.concatenate([first, pairs], axis=1) @ p["w1"])
    return np.sigmoid(hidden @ p["w2"])


@recommender.torch
def _(torch: Any, dense: Any, sparse: Any, table: Any, starts: Any, **p: Any) -> Any:
    first = torch.relu(dense @ p["bottom"])
    rows = torch.nn.functional.embedding(sparse + starts, table)
    every = torch.cat([first[:, None], rows], 1)
    pairs = torch.bmm(every, every.transpose(1, 2)).reshape(len(dense), -1)
    hidden = torch.relu(torch.cat([first, pairs], 1) @ p["w1"])
    return torch.sigmoid(hidden @ p["w2"])
