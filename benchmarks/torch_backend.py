"""PyTorch's modules run by Tawny, by Inductor and eagerly: time of a call, and to build it.

python benchmarks/torch_backend.py [--rounds 8] [--threads 2] [--only resnet gpt ...] [--modes infer train]

Modules are those of tests/torch_modules.py, larger; PyTorch is installed by hand.  Calls are interleaved and
the best of all rounds is shown.  A build is the first call, from nothing: Dynamo's tracing is part of it, and
neither Inductor nor Tawny finds compiled code on disk.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
os.environ["TAWNY_CACHE"] = tempfile.mkdtemp()
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch

import torch_modules as m
from timing import interleaved

Case = tuple[Callable[[], torch.nn.Module], Callable[[], tuple[torch.Tensor, ...]]]


def images(side: int, count: int = 1) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A batch of images of `side` pixels squared."""
    return lambda: (torch.randn(count, 3, side, side),)


CASES: dict[str, Case] = {
    **m.MODELS,
    "resnet": (lambda: m.ResNet(64, 1000), images(224)),
    "mobilenet": (m.MODELS["mobilenet"][0], images(160)),
    "efficientnet": (m.MODELS["efficientnet"][0], images(160)),
    "mobilenetv3": (m.MODELS["mobilenetv3"][0], images(160)),
    "convnext": (m.convnext, images(128)),
    "densenet": (m.Dense, images(64)),
    "shufflenet": (m.Shuffle, images(128)),
    "unet": (m.UNet, images(128)),
    "vit": (lambda: m.ViT(192), images(32, 4)),
    "gpt": (lambda: m.GPT(1000, 192, 64), lambda: (torch.randint(0, 1000, (2, 64)),)),
    "bert": (
        lambda: m.BERT(1000, 192, 64),
        lambda: (torch.randint(1, 1000, (2, 64)), torch.ones(2, 64, dtype=torch.int64)),
    ),
    "mlp": (
        lambda: torch.nn.Sequential(
            torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.GELU(),
            torch.nn.Linear(512, 10),
        ),
        lambda: (torch.randn(64, 256),),
    ),
}  # fmt: skip


def caller(
    module: torch.nn.Module,
    function: Callable[..., object],
    inputs: tuple[torch.Tensor, ...],
    mode: str,
) -> Callable[[], None]:
    """One call of a module, or one step of its training without the optimiser's."""

    def infer() -> None:
        with torch.no_grad():
            function(*inputs)

    def train() -> None:
        module.zero_grad()
        out = torch.utils._pytree.tree_leaves(function(*inputs))
        sum(y.square().mean() for y in out).backward()

    return {"infer": infer, "train": train}[mode]


def main() -> None:
    """Print a line for each module and mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--modes", nargs="*", default=["infer", "train"])
    parser.add_argument("--without", nargs="*", default=[], help="inductor, or tawny")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    warm_up()
    ratios: dict[str, list[tuple[float, float]]] = {mode: [] for mode in args.modes}
    print(
        f"{'':<22}{'eager':>10}{'inductor':>10}{'tawny':>10} ms {'build':>9}{'':>10} s", flush=True
    )
    for name in args.only:
        for mode in args.modes:
            best, build = measure(name, mode, args.rounds, args.threads, args.without)
            shown = [
                f"{best.get(k, math.nan) * 1e3:>10.3f}" for k in ("eager", "inductor", "tawny")
            ]
            built = [f"{build.get(k, math.nan):>10.2f}" for k in ("inductor", "tawny")]
            print(f"{name + ' ' + mode:<22}{''.join(shown)}   {''.join(built)}", flush=True)
            if len(build) == 2:
                ratios[mode].append(
                    (best["tawny"] / best["inductor"], build["inductor"] / build["tawny"])
                )
    for mode, pairs in ratios.items():
        if pairs:
            times, builds = (
                math.exp(sum(map(math.log, x)) / len(x)) for x in zip(*pairs, strict=True)
            )
            print(
                f"{mode}: time {times:.2f} of Inductor's, build {builds:.1f} times as fast (geometric means)"
            )


def warm_up() -> None:
    """Load what each backend loads once in a process."""
    for backend in ("inductor", "tawny"):
        torch.compile(lambda x: x.sin() + 1, backend=backend)(torch.ones(3))


def measure(
    name: str, mode: str, rounds: int, threads: int, without: list[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of a call by each backend, and those to build it."""
    torch.manual_seed(0)
    make, data = CASES[name]
    module, inputs = make().train(mode == "train"), data()
    build: dict[str, float] = {}
    calls = {"eager": caller(module, module, inputs, mode)}
    for backend in ("inductor", "tawny"):
        if backend in without:
            continue
        torch._dynamo.reset()
        own = copy.deepcopy(module)
        options = {"threads": threads} if backend == "tawny" else None
        calls[backend] = caller(
            own, torch.compile(own, backend=backend, options=options), inputs, mode
        )
        start = time.perf_counter()
        calls[backend]()
        build[backend] = time.perf_counter() - start
    timed = interleaved(calls, rounds=rounds, calls=1)
    return {k: t.best for k, t in timed.items()}, build


if __name__ == "__main__":
    main()
