"""Whole networks beside the peers, interleaved in one process, two threads each.

    python benchmarks/cpu_nets.py [--nets ResNet50 ...] [--peers torch onnxruntime ...] [--rounds 15]

Times are for one evaluation; build is everything from the layers to the first result's readiness;
planned is Tawny's arena, decided before the run.  Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np

from backends import BACKENDS, Built
from models import MODELS
from networks import IMAGE, inception_v3, resnet50, steps_of
from timing import installed, interleaved, table

IMAGES = {"ResNet50": resnet50, "InceptionV3": inception_v3}
NETS = [*IMAGES, *MODELS]


def builders(net: str) -> tuple[np.ndarray, dict[str, Callable[[], Built]]]:
    """An input, and how each library builds the network."""
    if net in IMAGES:
        steps = steps_of(IMAGES[net])
        x = np.random.default_rng(0).random(IMAGE, dtype=np.float32)
        return x, {name: lambda b=b: b(steps, IMAGE) for name, b in BACKENDS.items()}
    weights, libraries = MODELS[net]
    arrays = weights()
    return arrays["x"], {name: lambda b=b: b(arrays) for name, b in libraries.items()}


def main() -> int:
    """Print a table for each network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", nargs="*", default=NETS, choices=NETS)
    parser.add_argument("--peers", nargs="*", default=[n for n in BACKENDS if n != "tawny"])
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    for net in args.nets:
        x, libraries = builders(net)
        chosen = [n for n in libraries if n == "tawny" or n in installed(args.peers)]
        built = {name: libraries[name]() for name in chosen}
        results = {name: np.array(b.run(x)).reshape(-1) for name, b in built.items()}
        if net != "MNIST training step":  # whose dropout each library draws for itself
            for name, result in results.items():
                np.testing.assert_allclose(
                    result, results["tawny"], rtol=2e-3, atol=2e-4, err_msg=f"{net}: {name}"
                )
        timed = interleaved(
            {n: (lambda b=b, x=x: b.run(x)) for n, b in built.items()}, rounds=args.rounds
        )
        print(table(net, timed))
        print(
            "  built in (s): "
            + ", ".join(
                f"{n} {b.version.partition('-')[0]} {b.seconds:.2f}" for n, b in built.items()
            )
        )
        planned = built["tawny"].planned_bytes
        if planned is not None:
            print(f"  tawny's planned memory: {planned / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
