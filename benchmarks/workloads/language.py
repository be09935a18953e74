"""Networks for language and for images as sequences."""

from __future__ import annotations

from typing import Any

from workloads.family import Arrays, Chapter, Draw

LANGUAGE = Chapter("language")


def _normed(np: Any, x: Any, scale: Any, shift: Any) -> Any:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * scale + shift


def _gelu(np: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + np.erf(x * 0.70710678))


def _heads(np: Any, x: Any, heads: int) -> Any:
    batch, tokens, width = x.shape
    return np.transpose(np.reshape(x, (batch, tokens, heads, width // heads)), (0, 2, 1, 3))


def _attended(np: Any, x: Any, qkv: Any, out: Any, heads: int, mask: Any = None) -> Any:
    batch, tokens, width = x.shape
    mixed = x @ qkv
    q, k, v = (_heads(np, mixed[:, :, i * width : (i + 1) * width], heads) for i in range(3))
    scores = q @ np.transpose(k, (0, 1, 3, 2)) * (width // heads) ** -0.5
    if mask is not None:
        scores = np.where(mask, scores, np.asarray(-1e9, dtype=x.dtype))
    mixed = np.transpose(np.softmax(scores, axis=-1) @ v, (0, 2, 1, 3))
    return np.reshape(mixed, (batch, tokens, width)) @ out


def _torch_attended(
    torch: Any, x: Any, qkv: Any, out: Any, heads: int, causal: bool = False
) -> Any:
    batch, tokens, width = x.shape
    q, k, v = (
        t.reshape(batch, tokens, heads, width // heads).transpose(1, 2)
        for t in (x @ qkv).split(width, -1)
    )
    f = torch.nn.functional
    mixed = f.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return mixed.transpose(1, 2).reshape(batch, tokens, width) @ out


def block_weights(draw: Draw, width: int, prefix: str = "") -> Arrays:
    """Weights of a block: attention and two dense layers."""
    found = {
        "scale1": 1 + draw.normal(width, scale=0.1),
        "shift1": draw.normal(width, scale=0.1),
        "qkv": draw.weight(width, 3 * width),
        "out": draw.weight(width, width),
        "scale2": 1 + draw.normal(width, scale=0.1),
        "shift2": draw.normal(width, scale=0.1),
        "up": draw.weight(width, 4 * width),
        "bias": draw.normal(4 * width, scale=0.1),
        "down": draw.weight(4 * width, width) / 2,
    }
    return {prefix + name: value for name, value in found.items()}


def block(np: Any, x: Any, p: Any, heads: int, mask: Any = None) -> Any:
    """A block that norms before it computes."""
    x = x + _attended(np, _normed(np, x, p["scale1"], p["shift1"]), p["qkv"], p["out"], heads, mask)
    wide = _gelu(np, _normed(np, x, p["scale2"], p["shift2"]) @ p["up"] + p["bias"])
    return x + wide @ p["down"]


def torch_block(torch: Any, x: Any, p: Any, heads: int, causal: bool = False) -> Any:
    """The same in PyTorch's words."""
    f, width = torch.nn.functional, x.shape[-1:]
    normed = f.layer_norm(x, width, p["scale1"], p["shift1"])
    x = x + _torch_attended(torch, normed, p["qkv"], p["out"], heads, causal)
    normed = f.layer_norm(x, width, p["scale2"], p["shift2"])
    return x + f.gelu(normed @ p["up"] + p["bias"]) @ p["down"]


decoder = LANGUAGE.family("causal block, 256 wide", "small f32 16, medium f32 128, large f32 1024",
    onnx=True)  # fmt: skip


@decoder.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(1, n, 256)}


@decoder.weights
def _(draw: Draw, n: int) -> Arrays:
    return block_weights(draw, 256)


@decoder.numpy
def _(np: Any, x: Any, **p: Any) -> Any:
    places = np.arange(x.shape[1])
    return block(np, x, p, 4, places[:, None] >= places[None, :])


@decoder.torch
def _(torch: Any, x: Any, **p: Any) -> Any:
    return torch_block(torch, x, p, 4, causal=True)


training = LANGUAGE.family("training step of a block, 256 wide", "small f32 16, large f32 256",
    trained=("qkv", "out", "up", "down"))  # fmt: skip


@training.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(4, n, 256), "target": draw.normal(4, n, 256)}


@training.weights
def _(draw: Draw, n: int) -> Arrays:
    return block_weights(draw, 256)


@training.numpy
def _(np: Any, x: Any, target: Any, **p: Any) -> Any:
    places = np.arange(x.shape[1])
    error = block(np, x, p, 4, places[:, None] >= places[None, :]) - target
    return np.mean(error * error)


@training.torch
def _(torch: Any, x: Any, target: Any, **p: Any) -> Any:
    return torch.nn.functional.mse_loss(torch_block(torch, x, p, 4, causal=True), target)


dense = LANGUAGE.family(
    "layer norm and GELU layers, weights given", "medium f32 256, large f32 2048"
)


@dense.data
def _(draw: Draw, n: int) -> Arrays:
    return {
        "x": draw.normal(n, 768),
        "scale": 1 + draw.normal(768, scale=0.1),
        "shift": draw.normal(768, scale=0.1),
        "up": draw.weight(768, 3072),
        "down": draw.weight(3072, 768),
    }


@dense.numpy
def _(np: Any, x: Any, scale: Any, shift: Any, up: Any, down: Any) -> Any:
    return x + _gelu(np, _normed(np, x, scale, shift) @ up) @ down


@dense.torch
def _(torch: Any, x: Any, scale: Any, shift: Any, up: Any, down: Any) -> Any:
    f = torch.nn.functional
    return x + f.gelu(f.layer_norm(x, (768,), scale, shift) @ up) @ down


decoding = LANGUAGE.family("one token beside a cache", "small f32 64, large f32 2048", onnx=True)


@decoding.data
def _(draw: Draw, n: int) -> Arrays:
    return {
        "x": draw.normal(1, 512),
        "keys": draw.normal(8, n, 64),
        "values": draw.normal(8, n, 64),
    }


@decoding.weights
def _(draw: Draw, n: int) -> Arrays:
    return {
        "query": draw.weight(512, 512),
        "out": draw.weight(512, 512),
        "gate": draw.weight(512, 1376),
        "up": draw.weight(512, 1376),
        "down": draw.weight(1376, 512),
        "scale": 1 + draw.normal(512, scale=0.1),
    }


def _root_normed(np: Any, x: Any, scale: Any) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


@decoding.numpy
def _(np: Any, x: Any, keys: Any, values: Any, **p: Any) -> Any:
    q = np.reshape(_root_normed(np, x, p["scale"]) @ p["query"], (8, 1, 64))
    shares = np.softmax(q @ np.transpose(keys, (0, 2, 1)) * 0.125, axis=-1)
    x = x + np.reshape(shares @ values, (1, 512)) @ p["out"]
    y = _root_normed(np, x, p["scale"])
    gate = y @ p["gate"]
    return x + (gate * np.sigmoid(gate) * (y @ p["up"])) @ p["down"]


@decoding.torch
def _(torch: Any, x: Any, keys: Any, values: Any, **p: Any) -> Any:
    f = torch.nn.functional
    q = (f.rms_norm(x, (512,), p["scale"], 1e-6) @ p["query"]).reshape(8, 1, 64)
    mixed = f.scaled_dot_product_attention(q[None], keys[None], values[None])
    x = x + mixed.reshape(1, 512) @ p["out"]
    y = f.rms_norm(x, (512,), p["scale"], 1e-6)
    return x + (f.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]


vocabulary = LANGUAGE.family("cross entropy of a vocabulary, with slopes",
    "small f32 16, large f32 256", slopes=("x", "w"))  # fmt: skip


@vocabulary.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 256), "w": draw.weight(256, 8000), "y": draw.integers(8000, n)}


@vocabulary.numpy
def _(np: Any, x: Any, w: Any, y: Any) -> Any:
    logs = np.log_softmax(x @ w, axis=-1)
    return -np.mean(np.take_along_axis(logs, y[:, None], axis=1))


@vocabulary.torch
def _(torch: Any, x: Any, w: Any, y: Any) -> Any:
    return torch.nn.functional.cross_entropy(x @ w, y.long())


bag = LANGUAGE.family("bag of words, classified", "small f32 4, large f32 512", onnx=True)


@bag.data
def _(draw: Draw, n: int) -> Arrays:
    return {"words": draw.integers(20000, n, 64)}


@bag.weights
def _(draw: Draw, n: int) -> Arrays:
    return {"table": draw.normal(20000, 128), "w": draw.weight(128, 20), "b": draw.normal(20)}


@bag.numpy
def _(np: Any, words: Any, table: Any, w: Any, b: Any) -> Any:
    return np.softmax(np.mean(np.take(table, words, axis=0), axis=1) @ w + b, axis=-1)


@bag.torch
def _(torch: Any, words: Any, table: Any, w: Any, b: Any) -> Any:
    f = torch.nn.functional
    return torch.softmax(f.embedding_bag(words, table, mode="mean") @ w + b, -1)


local = LANGUAGE.family("attention with distances, any mask", "medium f32 128, large f32 1024")


@local.data
def _(draw: Draw, n: int) -> Arrays:
    return {name: draw.normal(4, n, 64) for name in ("q", "k", "v")}


@local.numpy
def _(np: Any, q: Any, k: Any, v: Any) -> Any:
    places = np.arange(q.shape[1])
    apart = places[:, None] - places[None, :]
    scores = q @ np.transpose(k, (0, 2, 1)) * 0.125 - 0.01 * np.abs(apart).astype(q.dtype)
    seen = (apart >= 0) & (apart < 256)
    scores = np.where(seen, scores, np.asarray(-1e9, dtype=q.dtype))
    return np.softmax(scores, axis=-1) @ v


@local.torch
def _(torch: Any, q: Any, k: Any, v: Any) -> Any:
    places = torch.arange(q.shape[1])
    apart = places[:, None] - places[None, :]
    bias = torch.where((apart >= 0) & (apart < 256), -0.01 * apart.abs().to(q.dtype), -1e9)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)


vision = LANGUAGE.family(
    "vision transformer, blocks of 768", "medium f32 1, large f32 4", onnx=True
)


@vision.data
def _(draw: Draw, n: int) -> Arrays:
    return {"image": draw.normal(1, 224, 224, 3)}


@vision.weights
def _(draw: Draw, n: int) -> Arrays:
    found = {"patch": draw.weight(768, 768), "place": draw.normal(1, 196, 768, scale=0.02)}
    for i in range(n):
        found |= block_weights(draw, 768, f"b{i}_")
    return found | {"head": draw.weight(768, 1000)}


def _blocks(p: Any) -> list[dict[str, Any]]:
    count = sum(name.endswith("_qkv") for name in p)
    return [
        {k.partition("_")[2]: v for k, v in p.items() if k.startswith(f"b{i}_")}
        for i in range(count)
    ]


@vision.numpy
def _(np: Any, image: Any, **p: Any) -> Any:
    x = np.transpose(np.reshape(image, (1, 14, 16, 14, 16, 3)), (0, 1, 3, 2, 4, 5))
    x = np.reshape(x, (1, 196, 768)) @ p["patch"] + p["place"]
    for weights in _blocks(p):
        x = block(np, x, weights, 12)
    return np.mean(x, axis=1) @ p["head"]


@vision.torch
def _(torch: Any, image: Any, **p: Any) -> Any:
    x = image.reshape(1, 14, 16, 14, 16, 3).permute(0, 1, 3, 2, 4, 5)
    x = x.reshape(1, 196, 768) @ p["patch"] + p["place"]
    for weights in _blocks(p):
        x = torch_block(torch, x, weights, 12)
    return x.mean(1) @ p["head"]
