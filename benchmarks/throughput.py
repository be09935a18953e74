"""Single requests, many of them: how many a second, beside OpenVINO's throughput mode and ONNX Runtime.

    python benchmarks/throughput.py [--nets SqueezeNet ...] [--copies 2] [--seconds 2]

Tawny: `program.throughput(copies)`, a copy for each thread, which share the weights.  OpenVINO: the hint
THROUGHPUT with as many threads, and a queue of requests.  ONNX Runtime: one session whose operators take
one thread, called by as many threads of Python, which is how it is served; and, as `latency`, one call after
the other with all threads, in which no library does well.  All compute one image, or one batch, per request.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import tawny as tw
from backends import onnx_model, tawny
from models import MODELS, onnx_transformer
from networks import mobilenet_v2, resnet50, squeezenet, steps_of
from timing import PAUSE, installed

IMAGE = (1, 224, 224, 3)
IMAGES = {
    "SqueezeNet": squeezenet,
    "MobileNetV2": mobilenet_v2,
    "ResNet50": resnet50,
}
NETS = [*IMAGES, "transformer block"]
Serving = Callable[[int], Any]
"""Answers a number of requests."""


def made(net: str) -> tuple[Callable[[], Any], Callable[[], bytes], np.ndarray, np.ndarray]:
    """How Tawny's program is compiled, the ONNX file, and the input of either."""
    if net in IMAGES:
        steps = steps_of(IMAGES[net])
        x = np.random.default_rng(0).random(IMAGE, dtype=np.float32)
        first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        return lambda: tawny(steps, IMAGE), lambda: onnx_model(steps, IMAGE), x, first
    weights, libraries = MODELS[net]
    arrays = weights()
    return (
        lambda: libraries["tawny"](arrays),
        lambda: onnx_transformer(arrays),
        arrays["x"],
        arrays["x"],
    )


def by_tawny(build: Callable[[], Any], x: np.ndarray, copies: int) -> dict[str, Serving]:
    """Copies of a program, and the program itself."""
    with tw.config(threads=copies):
        program = build().program
    serving = program.throughput(copies)
    name = program.graph.names[program.graph.input_nodes[0]]

    def alone(count: int) -> None:
        for _ in range(count):
            program(x)

    return {
        "tawny": lambda count: serving.sweep({name: [x] * count}),
        "tawny, latency": alone,
    }


def by_onnxruntime(model: bytes, x: np.ndarray, copies: int) -> dict[str, Serving]:
    """A session that threads of Python call, and one that takes all threads for a call."""
    import onnxruntime as library

    def session(threads: int) -> Any:
        options = library.SessionOptions()
        options.intra_op_num_threads = threads
        return library.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    one, all_threads = session(1), session(copies)
    pool = ThreadPoolExecutor(copies)

    def serve(count: int) -> None:
        list(pool.map(lambda _: one.run(None, {"v0": x}), range(count)))

    def alone(count: int) -> None:
        for _ in range(count):
            all_threads.run(None, {"v0": x})

    return {"onnxruntime": serve, "onnxruntime, latency": alone}


def by_openvino(model: bytes, x: np.ndarray, copies: int) -> dict[str, Serving]:
    """A queue of requests in throughput mode."""
    import openvino as library

    core = library.Core()
    settings = {
        "INFERENCE_NUM_THREADS": copies,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "THROUGHPUT",
    }
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    queue = library.AsyncInferQueue(compiled)

    def serve(count: int) -> None:
        for _ in range(count):
            queue.start_async([x])
        queue.wait_all()

    return {"openvino": serve}


def rates(contenders: Mapping[str, Serving], seconds: float, rounds: int) -> dict[str, float]:
    """Requests a second of each, the best of some interleaved rounds."""
    best = dict.fromkeys(contenders, 0.0)
    counts: dict[str, int] = {}
    for _ in range(rounds):
        for name, serve in contenders.items():
            if name not in counts:
                serve(2)
                start = time.perf_counter()
                serve(4)
                each = (time.perf_counter() - start) / 4
                counts[name] = max(4, int(seconds / rounds / each))
            time.sleep(PAUSE)
            serve(2)
            start = time.perf_counter()
            serve(counts[name])
            best[name] = max(best[name], counts[name] / (time.perf_counter() - start))
    return best


def main() -> int:
    """Print a table for each network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", nargs="*", default=NETS, choices=NETS)
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for net in args.nets:
        build, model, x, first = made(net)
        contenders = by_tawny(build, x, args.copies)
        if installed(["onnx", "onnxruntime"]) == ["onnx", "onnxruntime"]:
            contenders |= by_onnxruntime(model(), first, args.copies)
        if installed(["onnx", "openvino"]) == ["onnx", "openvino"]:
            contenders |= by_openvino(model(), first, args.copies)
        found = rates(contenders, args.seconds, args.rounds)
        print(f"{net} (requests a second, {args.copies} threads)")
        for name, rate in sorted(found.items(), key=lambda pair: -pair[1]):
            print(
                f"  {name:<24}{rate:10.1f}{found['tawny'] / rate:10.2f} times by tawny", flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
