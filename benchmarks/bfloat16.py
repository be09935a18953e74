"""Networks in bfloat16, beside the bfloat16 of OpenVINO and of torch, and float32 of all three.

python benchmarks/bfloat16.py [--only mlp encoder ...] [--rounds 8]

The networks are torch's; Tawny and OpenVINO convert them.  Two threads.  Errors are those of the
results, as parts of the largest number of torch's float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import torch
from torch import nn

import tawny as tw
from timing import interleaved

THREADS = 2
PRECISIONS = ("float32", "bfloat16")

Call = Callable[[], Any]


class Block(nn.Module):
    """A layer of an encoder: attention and two products, with norms before them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The next values of a sequence."""
        batch, length, width = x.shape
        shape = batch, length, 3, self.heads, width // self.heads
        q, k, v = self.inner(self.norms[0](x)).reshape(shape).permute(2, 0, 3, 1, 4)
        seen = torch.softmax(q @ k.transpose(-1, -2) * shape[-1] ** -0.5, -1) @ v
        x = x + self.outer(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Residual(nn.Module):
    """Two convolutions around which the input goes, too."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        outer = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        norms = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.path = nn.Sequential(inner, norms[0], nn.ReLU(), outer, norms[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The next image."""
        return torch.relu(x + self.path(x))


def mlp() -> tuple[nn.Module, tuple[int, ...]]:
    """Six products of 1,024 by 1,024 on 256 rows."""
    layers = [layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers), (256, 1024)


def row() -> tuple[nn.Module, tuple[int, ...]]:
    """The same on one row: memory is what takes time."""
    return mlp()[0], (1, 1024)


def encoder() -> tuple[nn.Module, tuple[int, ...]]:
    """Four layers of BERT's base size on 128 words."""
    return nn.Sequential(*[Block(768, 12) for _ in range(4)]), (1, 128, 768)


def residual() -> tuple[nn.Module, tuple[int, ...]]:
    """Residual blocks of 64, 128 and 256 channels on a quarter of 224 pixels."""
    stages: list[nn.Module] = [nn.Conv2d(3, 64, 7, 4, 3), nn.ReLU()]
    for channels in (64, 128, 256):
        stages += [Residual(channels), Residual(channels)]
        stages += [nn.Conv2d(channels, 2 * channels, 1, 2)] * (channels < 256)
    return nn.Sequential(*stages), (1, 3, 224, 224)


NETWORKS = {f.__name__: f for f in (mlp, row, encoder, residual)}


def tawny_call(module: nn.Module, x: torch.Tensor, precision: str) -> Call:
    """A program of the network's graph."""
    wanted = None if precision == "float32" else precision
    graph = tw.from_torch(module, x)
    program = graph.compile(threads=THREADS, incremental=False, precision=wanted)
    given = x.numpy()
    return lambda: program(given)


def openvino_call(module: nn.Module, x: torch.Tensor, precision: str) -> Call:
    """OpenVINO's own conversion, with its hint of the precision."""
    model = openvino.convert_model(module, example_input=x)
    model.reshape({0: list(x.shape)})
    hints = {
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[precision],
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = openvino.Core().compile_model(model, "CPU", hints).create_infer_request()
    given = x.numpy()
    return lambda: request.infer([given], share_inputs=True, share_outputs=True)[0]


def torch_call(module: nn.Module, x: torch.Tensor, precision: str) -> Call:
    """Weights and activations of the precision."""
    dtype = getattr(torch, precision)
    own, _ = NETWORKS[module.name]()
    own.load_state_dict(module.state_dict())
    own, given = own.eval().to(dtype), x.to(dtype)

    def run() -> Any:
        with torch.inference_mode():
            return own(given).float().numpy()

    return run


LIBRARIES = {"tawny": tawny_call, "openvino": openvino_call, "torch": torch_call}


def measure(name: str, rounds: int) -> None:
    """One network: a line for each library and precision."""
    torch.manual_seed(1)
    module, shape = NETWORKS[name]()
    module.name = name
    module.eval()
    x = torch.randn(shape)
    calls = {
        f"{library} {precision}": make(module, x, precision)
        for library, make in LIBRARIES.items()
        for precision in PRECISIONS
    }
    exact = np.array(calls["torch float32"]())
    errors = {c: np.abs(np.asarray(call()) - exact).max() for c, call in calls.items()}
    seconds = {c: t.best for c, t in interleaved(calls, rounds=rounds).items()}
    for contender, best in seconds.items():
        error = errors[contender] / np.abs(exact).max()
        ratio = best / seconds["tawny bfloat16"]
        print(f"{name:<9} {contender:<19} {best * 1e3:>9.2f} ms {ratio:>6.2f} {error:>9.1e}")


def main() -> None:
    """Measure the networks asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=8)
    asked = parser.parse_args()
    torch.set_num_threads(THREADS)
    print(f"{'network':<9} {'by':<19} {'best':>12} {'ratio':>6} {'error':>9}")
    for name in asked.only:
        measure(name, asked.rounds)


if __name__ == "__main__":
    main()
