"""The networks of `networks.py` in each library; peers are imported only when asked for.

Each function takes the steps and the input's shape and gives a `Built`.  What it does not time is
drawing the weights, which the steps hold already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from networks import Step

EPSILON = np.float32(1e-5)


@dataclass
class Built:
    """A network made ready: how to run it once, and what making it took."""

    run: Callable[[np.ndarray], Any]
    seconds: float
    planned_bytes: int | None = None
    version: str = ""
    least: Callable[[], float] | None = None
    """The seconds that the machine needs at least, by what it does at best."""
    program: Any = None
    """Tawny's program, where it is one."""


def _walk(
    steps: Sequence[Step],
    x: Any,
    table: dict[str, Callable[..., Any]],
    ready: Sequence[dict[str, Any]],
) -> Any:
    values = [x]
    for step, settings in zip(steps, ready, strict=True):
        values.append(table[step.kind](*[values[i] for i in step.inputs], **settings))
    return values[-1]


def clips(clip: Callable[[Any, float, float], Any]) -> dict[str, Callable[..., Any]]:
    """Activations that are made of one function."""
    return {
        "relu6": lambda x: clip(x, 0.0, 6.0),
        "hard_sigmoid": lambda x: clip(x + 3.0, 0.0, 6.0) * (1 / 6),
        "hard_swish": lambda x: x * (clip(x + 3.0, 0.0, 6.0) * (1 / 6)),
    }


# ----------------------------------------------------------------------- tawny


def tawny_table() -> dict[str, Callable[..., Any]]:
    """The steps in Tawny's own functions."""
    import tawny.numpy as tnp

    def normalised(x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        return (x - mean) / np.sqrt(variance + EPSILON) * scale + shift

    return {
        "convolution": lambda x, kernel, stride, pads, groups=1: tnp.conv2d(
            x, kernel, stride=stride, padding=pads, groups=groups
        ),
        "normalised": normalised,
        "relu": tnp.relu,
        **clips(tnp.clip),
        "scaled": lambda x, share: x * share[:, None, None, :],
        "doubled": lambda x: tnp.upsampling2d(x, 2),
        "add": lambda x, y: x + y,
        "max_pool": lambda x, window, stride, pads: tnp.max_pool2d(
            x, window, strides=stride, padding=pads
        ),
        "avg_pool": lambda x, window, stride, pads: tnp.avg_pool2d(
            x, window, strides=stride, padding=pads
        ),
        "joined": lambda *parts: tnp.concat(parts, axis=-1),
        "mean": lambda x: tnp.mean(x, axis=(1, 2)),
        "dense": lambda x, weight, bias: x @ weight + bias,
        "softmax": lambda x: tnp.softmax(x, axis=-1),
    }


def tawny(steps: Sequence[Step], shape: tuple[int, ...], engine: str = "cpu") -> Built:
    """A Tawny program."""
    import tawny as tw

    table = tawny_table()
    start = time.perf_counter()
    x = tw.var("x", shape=shape, dtype="float32")
    program = tw.Graph([x], _walk(steps, x, table, [s.settings for s in steps])).compile(
        engine=engine
    )
    seconds = time.perf_counter() - start

    def run(image: np.ndarray) -> Any:
        program.set(bind=True, x=image)
        return program.run(views=True)

    return Built(run, seconds, program.plan.peak_bytes, tw.__version__, program=program)


# ----------------------------------------------------------------------- torch


def torch_steps(steps: Sequence[Step], device: str = "cpu") -> Callable[[Any], Any]:
    """A function of a tensor, channels last in memory, weights on the device, converted once."""
    import torch

    f = torch.nn.functional

    def converted(settings: dict[str, Any]) -> dict[str, Any]:
        made = dict(settings)
        for name, value in settings.items():
            if isinstance(value, np.ndarray):
                made[name] = torch.from_numpy(value).to(device)
        if "kernel" in made:
            plain = torch.from_numpy(np.ascontiguousarray(settings["kernel"].transpose(3, 2, 0, 1)))
            made["kernel"] = plain.to(device, memory_format=torch.channels_last)
        if "pads" in made:
            made["pads"] = (settings["pads"][0][0], settings["pads"][1][0])
        return made

    table: dict[str, Callable[..., Any]] = {
        "convolution": lambda x, kernel, stride, pads, groups=1: f.conv2d(
            x, kernel, None, stride, pads, groups=groups
        ),
        "normalised": lambda x, scale, shift, mean, variance: f.batch_norm(
            x, mean, variance, scale, shift, False, 0.0, float(EPSILON)
        ),
        "relu": f.relu,
        "relu6": f.relu6,
        "hard_sigmoid": f.hardsigmoid,
        "hard_swish": f.hardswish,
        "scaled": lambda x, share: x * share[:, :, None, None],
        "doubled": lambda x: f.interpolate(x, scale_factor=2, mode="nearest"),
        "add": lambda x, y: x + y,
        "max_pool": lambda x, window, stride, pads: f.max_pool2d(x, window, stride, pads),  # noqa: PLW0108
        "avg_pool": lambda x, window, stride, pads: f.avg_pool2d(
            x, window, stride, pads, count_include_pad=False
        ),
        "joined": lambda *parts: torch.cat(parts, 1),
        "mean": lambda x: x.mean((2, 3)),
        "dense": lambda x, weight, bias: torch.addmm(bias, x, weight),
        "softmax": lambda x: f.softmax(x, -1),
    }
    ready = [converted(s.settings) for s in steps]
    return lambda x: _walk(steps, x, table, ready)


def torch_eager(steps: Sequence[Step], shape: tuple[int, ...]) -> Built:
    """PyTorch, one op at a time."""
    del shape
    return _torch(steps, lambda function: function)


def torch_compiled(steps: Sequence[Step], shape: tuple[int, ...]) -> Built:
    """PyTorch compiled as one graph with frozen weights."""
    import torch
    import torch._inductor.config as config

    config.freezing = True

    def wrap(function: Callable[[Any], Any]) -> Any:
        return torch.compile(torch.fx.symbolic_trace(function).eval(), fullgraph=True)

    return _torch(steps, wrap, shape)


def _torch(
    steps: Sequence[Step], wrap: Callable[[Any], Any], shape: tuple[int, ...] | None = None
) -> Built:
    import torch

    start = time.perf_counter()
    function = wrap(torch_steps(steps))

    def run(image: np.ndarray) -> Any:
        with torch.no_grad():
            return function(torch.from_numpy(image).permute(0, 3, 1, 2)).numpy()

    if shape is not None:
        run(np.zeros(shape, np.float32))
    return Built(run, time.perf_counter() - start, version=torch.__version__)


# ------------------------------------------------------------------------- jax


def jax(steps: Sequence[Step], shape: tuple[int, ...]) -> Built:
    """JAX, jitted."""
    import jax as library

    start = time.perf_counter()
    function = jax_steps(steps)
    function(np.zeros(shape, np.float32)).block_until_ready()
    return Built(
        lambda x: np.asarray(function(x)), time.perf_counter() - start, version=library.__version__
    )


def jax_steps(steps: Sequence[Step]) -> Callable[[Any], Any]:
    """A jitted function of an array, weights on JAX's device."""
    import jax as library
    import jax.numpy as jnp

    lax = library.lax

    def pool(x: Any, window: int, stride: int, pads: Any, start: float, combine: Any) -> Any:
        return lax.reduce_window(
            x,
            start,
            combine,
            (1, window, window, 1),
            (1, stride, stride, 1),
            ((0, 0), *pads, (0, 0)),
        )

    def avg_pool(x: Any, window: int, stride: int, pads: Any) -> Any:
        return pool(x, window, stride, pads, 0.0, lax.add) / pool(
            jnp.ones((1, *x.shape[1:3], 1)), window, stride, pads, 0.0, lax.add
        )

    table: dict[str, Callable[..., Any]] = {
        "convolution": lambda x, kernel, stride, pads, groups=1: lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            pads,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        ),
        "normalised": lambda x, scale, shift, mean, variance: (
            (x - mean) / jnp.sqrt(variance + EPSILON) * scale + shift
        ),
        "relu": lambda x: jnp.maximum(x, 0),
        **clips(jnp.clip),
        "scaled": lambda x, share: x * share[:, None, None, :],
        "doubled": lambda x: x.repeat(2, 1).repeat(2, 2),
        "add": lambda x, y: x + y,
        "max_pool": lambda x, window, stride, pads: pool(
            x, window, stride, pads, -jnp.inf, lax.max
        ),
        "avg_pool": avg_pool,
        "joined": lambda *parts: jnp.concatenate(parts, -1),
        "mean": lambda x: x.mean((1, 2)),
        "dense": lambda x, weight, bias: x @ weight + bias,
        "softmax": lambda x: library.nn.softmax(x, -1),
    }
    weights = [{k: v for k, v in s.settings.items() if isinstance(v, np.ndarray)} for s in steps]

    def network(x: Any, weights: list[dict[str, Any]]) -> Any:
        ready = [s.settings | w for s, w in zip(steps, weights, strict=True)]
        return _walk(steps, x, table, ready)

    compiled = library.jit(network)
    placed = library.device_put(weights)
    return lambda x: compiled(x, placed)


# ------------------------------------------------------------------------ onnx


def onnx_model(steps: Sequence[Step], shape: tuple[int, ...]) -> bytes:
    """The steps as an ONNX file, channels first as that format has them."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    weights: list[Any] = []

    def weight(value: np.ndarray) -> str:
        name = f"w{len(weights)}"
        weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def pads(given: Any) -> list[int]:
        (top, bottom), (left, right) = given
        return [top, left, bottom, right]

    def node(kind: str, inputs: list[str], number: int, **attributes: Any) -> None:
        nodes.append(helper.make_node(kind, inputs, [f"v{number}"], **attributes))

    for number, step in enumerate(steps, 1):
        inputs, s = [f"v{i}" for i in step.inputs], step.settings
        match step.kind:
            case "convolution":
                kernel = weight(s["kernel"].transpose(3, 2, 0, 1))
                node(
                    "Conv",
                    [*inputs, kernel],
                    number,
                    strides=[s["stride"]] * 2,
                    pads=pads(s["pads"]),
                    group=s.get("groups", 1),
                )
            case "normalised":
                extra = [weight(s[n]) for n in ("scale", "shift", "mean", "variance")]
                node("BatchNormalization", [*inputs, *extra], number, epsilon=float(EPSILON))
            case "max_pool":
                node(
                    "MaxPool",
                    inputs,
                    number,
                    kernel_shape=[s["window"]] * 2,
                    strides=[s["stride"]] * 2,
                    pads=pads(s["pads"]),
                )
            case "avg_pool":
                node(
                    "AveragePool",
                    inputs,
                    number,
                    kernel_shape=[s["window"]] * 2,
                    strides=[s["stride"]] * 2,
                    pads=pads(s["pads"]),
                )
            case "joined":
                node("Concat", inputs, number, axis=1)
            case "mean":
                node("ReduceMean", inputs, number, axes=[2, 3], keepdims=0)
            case "dense":
                node("Gemm", [*inputs, weight(s["weight"]), weight(s["bias"])], number)
            case "relu6":
                bounds = [weight(np.asarray(bound, np.float32)) for bound in (0, 6)]
                node("Clip", [*inputs, *bounds], number)
            case "hard_sigmoid":
                node("HardSigmoid", inputs, number, alpha=1 / 6, beta=0.5)
            case "hard_swish":
                node("HardSwish", inputs, number)
            case "scaled":
                axes = weight(np.asarray([2, 3], np.int64))
                nodes.append(helper.make_node("Unsqueeze", [inputs[1], axes], [f"s{number}"]))
                node("Mul", [inputs[0], f"s{number}"], number)
            case "doubled":
                scales = weight(np.asarray([1, 1, 2, 2], np.float32))
                node("Resize", [*inputs, "", scales], number, mode="nearest")
            case kind:
                node({"relu": "Relu", "add": "Add", "softmax": "Softmax"}[kind], inputs, number)
    batch, rows, columns, channels = shape
    given = helper.make_tensor_value_info("v0", TensorProto.FLOAT, [batch, channels, rows, columns])
    result = helper.make_tensor_value_info(f"v{len(steps)}", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "network", [given], [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    text: bytes = model.SerializeToString()
    return text


def _channels_first(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def onnxruntime(steps: Sequence[Step], shape: tuple[int, ...]) -> Built:
    """ONNX Runtime, two threads."""
    return run_by_onnxruntime(onnx_model(steps, shape), _channels_first)


def openvino(steps: Sequence[Step], shape: tuple[int, ...]) -> Built:
    """OpenVINO in float32, two threads."""
    return run_by_openvino(onnx_model(steps, shape), _channels_first)


def run_by_onnxruntime(
    model: bytes, given: Callable[[np.ndarray], np.ndarray], threads: int = 2
) -> Built:
    """An ONNX file of one input, `v0`, in ONNX Runtime."""
    import onnxruntime as library

    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    start = time.perf_counter()
    session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    seconds = time.perf_counter() - start
    return Built(
        lambda x: session.run(None, {"v0": given(x)})[0], seconds, version=library.__version__
    )


def run_by_openvino(model: bytes, given: Callable[[np.ndarray], np.ndarray]) -> Built:
    """An ONNX file of one input in OpenVINO, float32, with two threads."""
    import openvino as library

    start = time.perf_counter()
    core = library.Core()
    settings = {
        "INFERENCE_NUM_THREADS": 2,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    seconds = time.perf_counter() - start
    return Built(
        lambda x: request.infer([given(x)])[compiled.output(0)],
        seconds,
        version=library.__version__,
    )


BACKENDS: dict[str, Callable[..., Built]] = {
    "tawny": tawny,
    "torch": torch_eager,
    "torch.compile": torch_compiled,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "jax": jax,
}
