"""Networks for images, and the models of `cpu_nets.py`: workloads with builders of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends import BACKENDS, Built
from models import MODELS
from networks import (
    Recorder,
    inception_v3,
    mobilenet_v2,
    mobilenet_v3,
    resnet18,
    resnet50,
    squeezenet,
    steps_of,
)
from networks import unet as u_network
from workloads.libraries import Ready

IMAGES: dict[str, tuple[Callable[[Recorder, int], int], tuple[int, ...]]] = {
    "SqueezeNet": (squeezenet, (1, 224, 224, 3)),
    "MobileNetV2": (mobilenet_v2, (1, 224, 224, 3)),
    "MobileNetV3": (mobilenet_v3, (1, 224, 224, 3)),
    "ResNet18 of small images": (resnet18, (16, 32, 32, 3)),
    "ResNet50": (resnet50, (1, 299, 299, 3)),
    "InceptionV3": (inception_v3, (1, 299, 299, 3)),
    "U-Net": (u_network, (1, 128, 128, 3)),
}

AREAS = {
    "MNIST training step": "vision",
    "LSTM, 100 steps": "audio",
    "GRU, 100 steps": "audio",
    "transformer block": "language",
}


@dataclass(frozen=True)
class BuiltWorkload:
    """A network that each library builds in its own way."""

    name: str
    builders: Mapping[str, Callable[[], tuple[Built, np.ndarray]]]
    is_random: bool = False
    """Whether each library draws numbers of its own."""
    tolerance: float = 2e-3

    @property
    def contenders(self) -> dict[str, Callable[[], Ready]]:
        """How each library makes it ready."""
        return {
            name: lambda build=build: self._ready(build) for name, build in self.builders.items()
        }

    def _ready(self, build: Callable[[], tuple[Built, np.ndarray]]) -> Ready:
        built, x = build()

        def arrays(result: Any) -> list[np.ndarray]:
            return [] if self.is_random else [np.array(result).reshape(-1)]

        return Ready(lambda: built.run(x), built.seconds, arrays, built.planned_bytes, built.least)


def _image(
    network: Callable[[Recorder, int], int], shape: tuple[int, ...], make: Callable[..., Built]
) -> tuple[Built, np.ndarray]:
    return make(steps_of(network), shape), np.random.default_rng(0).random(shape, dtype=np.float32)


def _model(name: str, library: str) -> tuple[Built, np.ndarray]:
    weights, libraries = MODELS[name]
    arrays = weights()
    return libraries[library](arrays), arrays["x"]


def networks() -> list[BuiltWorkload]:
    """All of them."""
    found = [
        BuiltWorkload(
            f"vision: {name}, {shape[0]} x {shape[1]} f32",
            {
                library: lambda n=network, s=shape, make=make: _image(n, s, make)
                for library, make in BACKENDS.items()
            },
        )
        for name, (network, shape) in IMAGES.items()
    ]
    for name, (_, libraries) in MODELS.items():
        builders = {lib: lambda n=name, lib=lib: _model(n, lib) for lib in libraries}
        is_random = name == "MNIST training step"
        found.append(BuiltWorkload(f"{AREAS[name]}: {name} f32", builders, is_random=is_random))
    return found
