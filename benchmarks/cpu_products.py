"""Matrix products and the convolutions of ResNet50, in GFLOP/s, beside NumPy and torch.

python benchmarks/cpu_products.py [--sizes 64 256 1024] [--image 224] [--batch 1] [--backward]
                                  [--peers numpy torch] [--rounds 15]

Each is a compiled program of one step, its inputs bound, its output seen where it lies.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from timing import Timed, installed, interleaved

Call = Callable[[], object]
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class Layer:
    """A convolution of a square image: channels, outputs, window, stride."""

    side: int
    channels: int
    outputs: int
    window: int
    stride: int

    @property
    def padding(self) -> int:
        return self.window // 2

    @property
    def result(self) -> int:
        """The side of the result."""
        return (self.side + 2 * self.padding - self.window) // self.stride + 1

    @property
    def operations(self) -> int:
        """Multiplications and additions, those with padding among them."""
        return 2 * self.channels * self.outputs * self.window**2 * self.result**2

    def __str__(self) -> str:
        shape = f"{self.channels:>4} > {self.outputs:>4}"
        return f"{shape}  {self.window}x{self.window} / {self.stride}  {self.side:>3}"


def resnet50(side: int) -> Counter[Layer]:
    """The convolutions of ResNet50, and how often each occurs."""
    layers = [Layer(side, 3, 64, 7, 2)]
    side = (layers[0].result + 1) // 2
    channels = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            inner = Layer(side, width, width, 3, stride)
            layers += [Layer(side, channels, width, 1, 1), inner]
            if not block:
                layers.append(Layer(side, channels, 4 * width, 1, stride))
            layers.append(Layer(inner.result, width, 4 * width, 1, 1))
            side, channels = inner.result, 4 * width
    return Counter(layers)


def program(function: Callable[..., Any], **values: np.ndarray) -> Call:
    """A program of one function of bound inputs."""
    import tawny as tw

    names = {n: tw.var(n, shape=v.shape, dtype=v.dtype) for n, v in values.items()}
    compiled = tw.Graph(list(names.values()), function(*names.values())).compile()
    compiled.set(bind=True, **values)
    first = next(iter(names))

    def run() -> object:
        compiled.touch(first)
        return compiled.run(views=True)

    return run


def drawn(*shape: int) -> np.ndarray:
    """The same numbers each time."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


# ------------------------------------------------------------------------ matmul


def matmul(size: int, peers: list[str]) -> dict[str, Call]:
    """A product of square matrices by every contender."""
    import tawny.numpy as tnp

    a, b, out = drawn(size, size), drawn(size, size), drawn(size, size)
    calls: dict[str, Call] = {"tawny": program(tnp.matmul, a=a, b=b)}
    if "numpy" in peers:
        calls["numpy"] = lambda: np.matmul(a, b, out=out)
    if "torch" in peers:
        import torch

        left, right, result = map(torch.from_numpy, (a, b, out))
        calls["torch"] = lambda: torch.mm(left, right, out=result)
    return calls


# ------------------------------------------------------------------ convolutions


def convolution(layer: Layer, batch: int, which: str, peers: list[str]) -> dict[str, Call]:
    """A layer by every contender: its result, or the gradient of its input or kernel."""
    import tawny.numpy as tnp

    x = drawn(batch, layer.side, layer.side, layer.channels)
    kernel = drawn(layer.window, layer.window, layer.channels, layer.outputs)
    slope = drawn(batch, layer.result, layer.result, layer.outputs)
    pads = ((layer.padding,) * 2,) * 2
    options: dict[str, Any] = {"strides": layer.stride, "padding": pads}
    calls: dict[str, Call] = {}
    match which:
        case "result":
            calls["tawny"] = program(lambda x, k: tnp.conv2d(x, k, **options), x=x, kernel=kernel)
        case "input":
            options["input_shape"] = x.shape
            calls["tawny"] = program(
                lambda k, g: tnp.conv_input_gradient(k, g, **options), kernel=kernel, slope=slope
            )
        case _:
            options["kernel_shape"] = kernel.shape
            calls["tawny"] = program(
                lambda x, g: tnp.conv_kernel_gradient(x, g, **options), x=x, slope=slope
            )
    if "torch" in peers:
        calls["torch"] = torch_convolution(layer, which, x, kernel, slope)
    return calls


def torch_convolution(
    layer: Layer, which: str, x: np.ndarray, kernel: np.ndarray, slope: np.ndarray
) -> Call:
    """PyTorch with its channels last, too."""
    import torch

    image, gradient = (torch.from_numpy(v).permute(0, 3, 1, 2) for v in (x, slope))
    weights = torch.from_numpy(kernel).permute(3, 2, 0, 1)
    weights = weights.contiguous(memory_format=torch.channels_last)
    geometry = [layer.stride] * 2, [layer.padding] * 2, [1, 1], False, [0, 0], 1
    if which == "result":
        return lambda: torch.ops.aten.convolution(image, weights, None, *geometry)
    mask = [which == "input", which == "kernel", False]
    backward = torch.ops.aten.convolution_backward
    return lambda: backward(gradient, image, weights, None, *geometry, mask)


# ------------------------------------------------------------------------ tables


def rates(timed: dict[str, Timed], operations: int) -> str:
    """GFLOP/s of each contender, by its best time."""
    return "".join(f"{operations / t.best / 1e9:>12.1f}" for t in timed.values())


def compare_matmul(sizes: list[int], peers: list[str], rounds: int) -> None:
    """One line for each size."""
    print("square float32 matrices, GFLOP/s")
    for number, size in enumerate(sizes):
        calls = matmul(size, peers)
        if not number:
            print(f"  {'':>6}" + "".join(f"{name:>12}" for name in calls))
        again = max(1, int(2e8 / (2 * size**3)))
        timed = interleaved(calls, rounds=rounds, calls=again)
        print(f"  {size:>6}{rates(timed, 2 * size**3)}", flush=True)


def compare_layers(image: int, batch: int, which: str, peers: list[str], rounds: int) -> None:
    """One line for each layer that occurs, and the time of all."""
    title = {"result": "results", "input": "gradients of inputs", "kernel": "gradients of kernels"}
    print(f"convolutions of ResNet50 at {image}, batch {batch}: {title[which]}")
    totals: Counter[str] = Counter()
    operations = 0
    for number, (layer, count) in enumerate(resnet50(image).items()):
        calls = convolution(layer, batch, which, peers)
        if not number:
            print(f"  {'GFLOP/s':<28}" + "".join(f"{name:>12}" for name in calls))
        timed = interleaved(calls, rounds=rounds)
        totals.update({name: count * t.best for name, t in timed.items()})
        operations += count * layer.operations * batch
        line = rates(timed, layer.operations * batch)
        print(f"  {layer!s:<24} x {count}{line}", flush=True)
    print(
        f"  {'all of them':<28}"
        + "".join(f"{operations / t / 1e9:>12.1f}" for t in totals.values())
    )
    print(f"  {'milliseconds':<28}" + "".join(f"{t * 1e3:>12.2f}" for t in totals.values()))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--image", type=int, nargs="*", default=[224, 299])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--peers", nargs="*", default=["numpy", "torch"])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    peers = installed(given.peers)
    if given.sizes:
        compare_matmul(given.sizes, peers, given.rounds)
    for image in given.image:
        for which in ("result", "input", "kernel") if given.backward else ("result",):
            compare_layers(image, given.batch, which, peers, given.rounds)


if __name__ == "__main__":
    main()
