"""Models of the benchmarks that are not lists of layers: a training step, an LSTM, a GRU, a transformer block.

Each is written once in NumPy's names, for any library that has them; PyTorch and ONNX get the layers they
have for it (fused LSTM and GRU, attention, layer norm), which is how their users write it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from backends import Built, run_by_onnxruntime, run_by_openvino

Arrays = dict[str, np.ndarray]


def _normal(rng: np.random.Generator, *shape: int, scale: float) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


# ----------------------------------------------------------------------- LSTM

STEPS, BATCH, HIDDEN = 100, 16, 256


def lstm_weights() -> Arrays:
    """Weights and an input of 100 steps."""
    rng = np.random.default_rng(0)
    return {
        "x": _normal(rng, STEPS, BATCH, HIDDEN, scale=1.0),
        "w": _normal(rng, HIDDEN, 4 * HIDDEN, scale=HIDDEN**-0.5),
        "u": _normal(rng, HIDDEN, 4 * HIDDEN, scale=HIDDEN**-0.5),
        "b": _normal(rng, 4 * HIDDEN, scale=0.1),
    }


def lstm(np: Any, sigmoid: Any, p: Any) -> Any:
    """The last hidden state of an unrolled LSTM."""
    h = c = None
    inputs = p["x"] @ p["w"] + p["b"]
    for t in range(STEPS):
        z = inputs[t] if h is None else inputs[t] + h @ p["u"]
        i, f, g, o = (z[:, k * HIDDEN : (k + 1) * HIDDEN] for k in range(4))
        new = sigmoid(i) * np.tanh(g)
        c = new if c is None else sigmoid(f) * c + new
        h = sigmoid(o) * np.tanh(c)
    return h


# ------------------------------------------------------------------------ GRU


def gru_weights() -> Arrays:
    """Weights and an input of 100 steps; the columns are those of reset, update and new."""
    rng = np.random.default_rng(0)
    return {
        "x": _normal(rng, STEPS, BATCH, HIDDEN, scale=1.0),
        "w": _normal(rng, HIDDEN, 3 * HIDDEN, scale=HIDDEN**-0.5),
        "u": _normal(rng, HIDDEN, 3 * HIDDEN, scale=HIDDEN**-0.5),
        "b": _normal(rng, 3 * HIDDEN, scale=0.1),
        "c": _normal(rng, 3 * HIDDEN, scale=0.1),
    }


def gru(np: Any, sigmoid: Any, p: Any) -> Any:
    """The last hidden state of an unrolled GRU, from zero."""
    h = np.zeros((BATCH, HIDDEN), dtype=np.float32)
    inputs = p["x"] @ p["w"] + p["b"]
    for t in range(STEPS):
        z, own = inputs[t], h @ p["u"] + p["c"]
        (r, u, n), (hr, hu, hn) = (
            [a[:, k * HIDDEN : (k + 1) * HIDDEN] for k in range(3)] for a in (z, own)
        )
        u = sigmoid(u + hu)
        h = (1 - u) * np.tanh(n + sigmoid(r + hr) * hn) + u * h
    return h


# ---------------------------------------------------------------- transformer

TOKENS, WIDTH, HEADS = 128, 512, 8


def transformer_weights() -> Arrays:
    """Weights and a batch of 8 sequences."""
    rng = np.random.default_rng(0)
    scale = WIDTH**-0.5
    return {
        "x": _normal(rng, 8, TOKENS, WIDTH, scale=1.0),
        "qkv": _normal(rng, WIDTH, 3 * WIDTH, scale=scale),
        "out": _normal(rng, WIDTH, WIDTH, scale=scale),
        "up": _normal(rng, WIDTH, 4 * WIDTH, scale=scale),
        "down": _normal(rng, 4 * WIDTH, WIDTH, scale=scale / 2),
    }


def transformer(np: Any, softmax: Any, gelu: Any, p: Any) -> Any:
    """A block: layer norm, attention, layer norm, two dense layers."""

    def normed(x: Any) -> Any:
        centred = x - np.mean(x, axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    def heads(x: Any) -> Any:
        return np.transpose(np.reshape(x, (8, TOKENS, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))

    x = p["x"]
    qkv = normed(x) @ p["qkv"]
    q, k, v = (heads(qkv[:, :, i * WIDTH : (i + 1) * WIDTH]) for i in range(3))
    scores = softmax(q @ np.transpose(k, (0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5)
    mixed = np.reshape(np.transpose(scores @ v, (0, 2, 1, 3)), (8, TOKENS, WIDTH))
    x = x + mixed @ p["out"]
    return x + gelu(normed(x) @ p["up"]) @ p["down"]


# ---------------------------------------------------------------------- MNIST


def mnist_weights() -> Arrays:
    """A batch of 100 images, weights and AdaGrad's squares."""
    rng = np.random.default_rng(0)
    p = {
        "k": _normal(rng, 5, 5, 1, 32, scale=0.2),
        "w1": _normal(rng, 14 * 14 * 32, 1024, scale=0.02),
        "b1": np.zeros(1024, np.float32),
        "w2": _normal(rng, 1024, 10, scale=0.05),
        "b2": np.zeros(10, np.float32),
    }
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 100)]
    return (
        {"x": _normal(rng, 100, 28, 28, 1, scale=1.0), "y": labels}
        | p
        | {f"s_{n}": np.full_like(v, 1e-6) for n, v in p.items()}
    )


PARAMETERS = ("k", "w1", "b1", "w2", "b2")
RATE, KEPT = 0.005, 0.9


def mnist_loss(np: Any, conv: Any, pool: Any, log_softmax: Any, keep: Any, p: Any) -> Any:
    """Cross entropy of the report's network; `keep` is the mask of dropout."""
    h = pool(np.maximum(conv(p["x"], p["k"]), 0.0))
    h = np.reshape(h, (100, 14 * 14 * 32)) * keep
    h = np.maximum(h @ p["w1"] + p["b1"], 0.0)
    return -np.mean(np.sum(log_softmax(h @ p["w2"] + p["b2"]) * p["y"], axis=-1))


# ---------------------------------------------------------------------- tawny


def tawny_lstm(arrays: Arrays) -> Built:
    """The LSTM as a Tawny program."""
    import tawny.numpy as tnp

    return _tawny(lambda p: lstm(tnp, tnp.sigmoid, p), arrays)


def tawny_gru(arrays: Arrays) -> Built:
    """The GRU as a Tawny program."""
    import tawny.numpy as tnp

    return _tawny(lambda p: gru(tnp, tnp.sigmoid, p), arrays)


def tawny_transformer(arrays: Arrays) -> Built:
    """The block as a Tawny program."""
    import tawny.numpy as tnp

    def gelu(x: Any) -> Any:
        return x * 0.5 * (1.0 + tnp.erf(x * 0.5**0.5))

    return _tawny(lambda p: transformer(tnp, lambda x: tnp.softmax(x, axis=-1), gelu, p), arrays)


def _tawny(function: Callable[[Any], Any], arrays: Arrays) -> Built:
    """A program of one variable, the input, read where it lies as by the peers; weights are constants."""
    import tawny as tw
    import tawny.numpy as tnp

    start = time.perf_counter()
    x = tw.var("x", shape=arrays["x"].shape, dtype="float32")
    weights = {n: tnp.asarray(v) for n, v in arrays.items() if n != "x"}
    program = tw.Graph([x], function(weights | {"x": x})).compile()
    seconds = time.perf_counter() - start

    def run(value: np.ndarray) -> Any:
        program.set(bind=True, x=value)
        return program.run(views=True)

    return Built(run, seconds, program.plan.peak_bytes, tw.__version__, program=program)


def tawny_mnist(arrays: Arrays) -> Built:
    """Forward, backward and update as one Tawny program; a call is one step."""
    import tawny as tw
    import tawny.numpy as tnp

    start = time.perf_counter()
    p = {n: tw.var(n, shape=v.shape, dtype="float32") for n, v in arrays.items()}
    keep = tw.random.bernoulli(KEPT, (100, 14 * 14 * 32), "float32") * (1 / KEPT)
    loss = mnist_loss(
        tnp,
        lambda x, kernel: tnp.conv2d(x, kernel, padding="SAME"),
        lambda x: tnp.max_pool2d(x, 2),
        lambda x: tnp.log_softmax(x, axis=-1),
        keep,
        p,
    )
    updates: dict[Any, Any] = {}
    for name, slope in zip(PARAMETERS, tw.gradients(loss, [p[n] for n in PARAMETERS]), strict=True):
        squares = p[f"s_{name}"] + slope * slope
        updates[p[f"s_{name}"]] = squares
        updates[p[name]] = p[name] - RATE * slope / tnp.sqrt(squares + 1e-8)
    program = tw.Graph(list(p.values()), loss, updates=updates).compile()
    seconds = time.perf_counter() - start
    program.set(**arrays)

    def run(value: np.ndarray) -> Any:
        program.set(x=value)
        return program.run()

    return Built(run, seconds, program.plan.peak_bytes, tw.__version__, program=program)


# ---------------------------------------------------------------------- torch


def torch_lstm(arrays: Arrays) -> Built:
    """PyTorch's own LSTM layer."""
    import torch

    layer = torch.nn.LSTM(HIDDEN, HIDDEN)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.from_numpy(arrays["w"].T))
        layer.weight_hh_l0.copy_(torch.from_numpy(arrays["u"].T))
        layer.bias_ih_l0.copy_(torch.from_numpy(arrays["b"]))
        layer.bias_hh_l0.zero_()
    return _torch(lambda p: layer(p["x"])[1][0][0], arrays, compiled=False)


def torch_gru(arrays: Arrays) -> Built:
    """PyTorch's own GRU layer."""
    import torch

    layer = torch.nn.GRU(HIDDEN, HIDDEN)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.from_numpy(arrays["w"].T))
        layer.weight_hh_l0.copy_(torch.from_numpy(arrays["u"].T))
        layer.bias_ih_l0.copy_(torch.from_numpy(arrays["b"]))
        layer.bias_hh_l0.copy_(torch.from_numpy(arrays["c"]))
    return _torch(lambda p: layer(p["x"])[1][0], arrays, compiled=False)


def torch_transformer(arrays: Arrays, compiled: bool = False) -> Built:
    """The block in PyTorch, its own layer norm and attention."""
    import torch

    f = torch.nn.functional

    def block(p: Any) -> Any:
        x = p["x"]
        qkv = f.layer_norm(x, (WIDTH,)) @ p["qkv"]
        q, k, v = (
            t.reshape(8, TOKENS, HEADS, WIDTH // HEADS).transpose(1, 2)
            for t in qkv.split(WIDTH, -1)
        )
        mixed = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(8, TOKENS, WIDTH)
        x = x + mixed @ p["out"]
        return x + f.gelu(f.layer_norm(x, (WIDTH,)) @ p["up"]) @ p["down"]

    return _torch(block, arrays, compiled)


def _torch(function: Callable[[Any], Any], arrays: Arrays, compiled: bool) -> Built:
    import torch

    weights = {n: torch.from_numpy(v) for n, v in arrays.items()}
    start = time.perf_counter()
    made = torch.compile(function) if compiled else function

    def run(value: np.ndarray) -> Any:
        with torch.no_grad():
            return made(weights | {"x": torch.from_numpy(value)}).numpy()

    if compiled:
        run(arrays["x"])
    return Built(run, time.perf_counter() - start, version=torch.__version__)


def torch_mnist(arrays: Arrays, compiled: bool = False) -> Built:
    """The training step in PyTorch with its own Adagrad; forward and backward may be compiled."""
    import torch

    f = torch.nn.functional
    p = {n: torch.from_numpy(v.copy()) for n, v in arrays.items()}
    p["k"] = torch.from_numpy(np.ascontiguousarray(arrays["k"].transpose(3, 2, 0, 1)))
    for name in PARAMETERS:
        p[name].requires_grad_()
    start = time.perf_counter()
    optimiser = torch.optim.Adagrad(
        [p[n] for n in PARAMETERS], lr=RATE, initial_accumulator_value=1e-6
    )
    target = p["y"].argmax(1)

    def forward(x: Any) -> Any:
        h = f.max_pool2d(f.relu(f.conv2d(x.permute(0, 3, 1, 2), p["k"], padding=2)), 2)
        h = f.dropout(h.permute(0, 2, 3, 1).reshape(100, -1), 1 - KEPT)
        return f.cross_entropy(f.relu(h @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"], target)

    made = torch.compile(forward, fullgraph=True) if compiled else forward

    def run(value: np.ndarray) -> Any:
        loss = made(torch.from_numpy(value))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        return loss.detach().numpy()

    if compiled:
        run(arrays["x"])
    return Built(run, time.perf_counter() - start, version=torch.__version__)


# ----------------------------------------------------------------------- onnx


def onnx_lstm(arrays: Arrays) -> bytes:
    """The LSTM as ONNX's own layer, whose gates are ordered input, output, forget, cell."""
    from onnx import helper

    def gates(a: np.ndarray) -> np.ndarray:
        i, f, g, o = np.split(a, 4, axis=-1)
        return np.concatenate([i, o, f, g], axis=-1)

    weights = {
        "w": gates(arrays["w"]).T[None],
        "u": gates(arrays["u"]).T[None],
        "b": np.concatenate([gates(arrays["b"]), np.zeros(4 * HIDDEN, np.float32)])[None],
    }
    nodes = [
        helper.make_node("LSTM", ["v0", "w", "u", "b"], ["", "out"], hidden_size=HIDDEN),
    ]
    return _onnx(nodes, weights, arrays["x"].shape)


def onnx_gru(arrays: Arrays) -> bytes:
    """The GRU as ONNX's own layer, whose gates are ordered update, reset, new."""
    from onnx import helper

    def gates(a: np.ndarray) -> np.ndarray:
        r, u, n = np.split(a, 3, axis=-1)
        return np.concatenate([u, r, n], axis=-1)

    weights = {
        "w": gates(arrays["w"]).T[None],
        "u": gates(arrays["u"]).T[None],
        "b": np.concatenate([gates(arrays["b"]), gates(arrays["c"])])[None],
    }
    settings = {"hidden_size": HIDDEN, "linear_before_reset": 1}
    nodes = [helper.make_node("GRU", ["v0", "w", "u", "b"], ["", "out"], **settings)]
    return _onnx(nodes, weights, arrays["x"].shape)


def onnx_transformer(arrays: Arrays) -> bytes:
    """The block as ONNX's layer norms, products, softmax and Gelu."""
    from onnx import helper

    weights = {n: v for n, v in arrays.items() if n != "x"}
    weights |= {
        "one": np.ones(WIDTH, np.float32),
        "scale": np.asarray((WIDTH // HEADS) ** -0.5, np.float32),
        "split": np.asarray([8, TOKENS, HEADS, WIDTH // HEADS], np.int64),
        "whole": np.asarray([8, TOKENS, WIDTH], np.int64),
    }
    nodes: list[Any] = []

    def node(kind: str, *inputs: str, outputs: tuple[str, ...] = (), **settings: Any) -> str:
        names = outputs or (f"n{len(nodes)}",)
        nodes.append(helper.make_node(kind, inputs, names, **settings))
        return names[0]

    def normed(x: str) -> str:
        return node("LayerNormalization", x, "one", epsilon=1e-5)

    def head(x: str, order: tuple[int, ...]) -> str:
        return node("Transpose", node("Reshape", x, "split"), perm=order)

    qkv = node("MatMul", normed("v0"), "qkv")
    node("Split", qkv, outputs=("q", "k", "v"), axis=2, num_outputs=3)
    scores = node("MatMul", head("q", (0, 2, 1, 3)), head("k", (0, 2, 3, 1)))
    shares = node("Softmax", node("Mul", scores, "scale"), axis=-1)
    mixed = node("Transpose", node("MatMul", shares, head("v", (0, 2, 1, 3))), perm=(0, 2, 1, 3))
    x = node("Add", "v0", node("MatMul", node("Reshape", mixed, "whole"), "out_weight"))
    weights["out_weight"] = weights.pop("out")
    wide = node("Gelu", node("MatMul", normed(x), "up"))
    node("Add", x, node("MatMul", wide, "down"), outputs=("out",))
    return _onnx(nodes, weights, arrays["x"].shape)


def _onnx(nodes: list[Any], weights: Arrays, shape: tuple[int, ...]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ascontiguousarray(v), n) for n, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    text: bytes = model.SerializeToString()
    return text


# ------------------------------------------------------------------------ jax


def jax_lstm(arrays: Arrays) -> Built:
    """The LSTM in JAX, unrolled."""
    import jax

    return _jax(lambda p: lstm(jax.numpy, jax.nn.sigmoid, p), arrays)


def jax_gru(arrays: Arrays) -> Built:
    """The GRU in JAX, unrolled."""
    import jax

    return _jax(lambda p: gru(jax.numpy, jax.nn.sigmoid, p), arrays)


def jax_transformer(arrays: Arrays) -> Built:
    """The block in JAX."""
    import jax

    def gelu(x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False)

    return _jax(lambda p: transformer(jax.numpy, lambda x: jax.nn.softmax(x, -1), gelu, p), arrays)


def _jax(function: Callable[[Any], Any], arrays: Arrays) -> Built:
    import jax

    weights = jax.device_put(arrays)
    start = time.perf_counter()
    made = jax.jit(lambda x, w: function(w | {"x": x}))
    made(arrays["x"], weights).block_until_ready()
    return Built(
        lambda x: np.asarray(made(x, weights)), time.perf_counter() - start, version=jax.__version__
    )


def jax_mnist(arrays: Arrays) -> Built:
    """The training step in JAX, state donated from step to step."""
    import jax
    import jax.numpy as jnp

    def conv(x: Any, k: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def pool(x: Any) -> Any:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def step(state: Any, x: Any, y: Any, key: Any) -> Any:
        keep = jax.random.bernoulli(key, KEPT, (100, 14 * 14 * 32)) / KEPT

        def loss(p: Any) -> Any:
            return mnist_loss(jnp, conv, pool, jax.nn.log_softmax, keep, p | {"x": x, "y": y})

        value, slopes = jax.value_and_grad(loss)({n: state[n] for n in PARAMETERS})
        new = {}
        for n in PARAMETERS:
            new[f"s_{n}"] = state[f"s_{n}"] + slopes[n] ** 2
            new[n] = state[n] - RATE * slopes[n] / jnp.sqrt(new[f"s_{n}"] + 1e-8)
        return value, new

    made = jax.jit(step, donate_argnums=0)
    held = {
        "state": jax.device_put({n: v for n, v in arrays.items() if n not in ("x", "y")}),
        "n": 0,
    }
    start = time.perf_counter()

    def run(value: np.ndarray) -> Any:
        held["n"] += 1
        loss, held["state"] = made(held["state"], value, arrays["y"], jax.random.key(held["n"]))
        return np.asarray(loss)

    run(arrays["x"])
    return Built(run, time.perf_counter() - start, version=jax.__version__)


def _by_onnx(model: Callable[[Arrays], bytes]) -> dict[str, Callable[[Arrays], Built]]:
    return {
        "onnxruntime": lambda arrays: run_by_onnxruntime(model(arrays), np.asarray),
        "openvino": lambda arrays: run_by_openvino(model(arrays), np.asarray),
    }


MODELS: dict[str, tuple[Callable[[], Arrays], dict[str, Callable[[Arrays], Built]]]] = {
    "MNIST training step": (
        mnist_weights,
        {
            "tawny": tawny_mnist,
            "torch": torch_mnist,
            "torch.compile": lambda arrays: torch_mnist(arrays, compiled=True),
            "jax": jax_mnist,
        },
    ),
    "LSTM, 100 steps": (
        lstm_weights,
        {"tawny": tawny_lstm, "torch": torch_lstm, **_by_onnx(onnx_lstm), "jax": jax_lstm},
    ),
    "GRU, 100 steps": (
        gru_weights,
        {"tawny": tawny_gru, "torch": torch_gru, **_by_onnx(onnx_gru), "jax": jax_gru},
    ),
    "transformer block": (
        transformer_weights,
        {
            "tawny": tawny_transformer,
            "torch": torch_transformer,
            "torch.compile": lambda arrays: torch_transformer(arrays, compiled=True),
            **_by_onnx(onnx_transformer),
            "jax": jax_transformer,
        },
    ),
}
"""Weights and, for each library, how a model is built; compiling an unrolled LSTM takes PyTorch minutes."""
