"""A small network in the manner of VGG with batch norm and dropout, on coloured textures.

    python examples/cifar_vgg.py [--short]

The images are as large as those of CIFAR-10 and drawn here: ten kinds of stripes, checks, rings
and gradients at random places, in random colours, under noise.
"""

from __future__ import annotations

import argparse

import numpy

import tawny.numpy as np
from tawny import nn, optim
from tawny.array import Array

SIZE, KINDS = 32, 10
LIGHT = (0.6, 0.5, 0.3)
"""The mean of red, green and blue."""


def textures(count: int, seed: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Images (count, 32, 32, 3) and the kind of each."""
    rng = numpy.random.default_rng(seed)
    kinds = rng.integers(0, KINDS, count)
    y, x = numpy.mgrid[:SIZE, :SIZE] / SIZE
    images = numpy.empty((count, SIZE, SIZE, 3), numpy.float32)
    for image, kind in zip(images, kinds, strict=True):
        image[...] = _texture(kind, x, y, rng)[..., None] * rng.uniform(0.3, 1, 3) + LIGHT
    images += rng.normal(0, 0.5, images.shape)
    return images, kinds


def _texture(
    kind: int, x: numpy.ndarray, y: numpy.ndarray, rng: numpy.random.Generator
) -> numpy.ndarray:
    """One of ten patterns: stripes at four angles, fine or coarse, then checks and rings."""
    phase, wave = rng.uniform(0, 2 * numpy.pi), 2 * numpy.pi * (4 if kind % 2 else 8)
    if kind < 8:
        angle = numpy.pi * (kind // 2) / 4
        return numpy.sin(wave * (x * numpy.cos(angle) + y * numpy.sin(angle)) + phase)
    if kind == 8:
        return numpy.sign(numpy.sin(wave * x + phase) * numpy.sin(wave * y + phase))
    across, down = rng.uniform(0.3, 0.7, 2)
    return numpy.sin(wave * numpy.hypot(x - across, y - down) + phase)


class SmallVGG(nn.Module):
    """Twice two convolutions 3 x 3, pooling and dropout, then two dense layers."""

    def __init__(self, width: int) -> None:
        stages: list[nn.Module] = [nn.BatchNorm(3)]
        inputs = 3
        for outputs in (width, 2 * width):
            stages += [
                nn.Conv2d(inputs, outputs, 3, padding="same", activation="relu"),
                nn.Conv2d(outputs, outputs, 3, activation="relu"),
                nn.MaxPool2d(2),
                nn.Dropout(0.1),
            ]
            inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.dense = nn.Linear(6 * 6 * inputs, 16 * width, activation="relu")
        self.output = nn.Linear(16 * width, KINDS)

    def forward(self, x: Array) -> Array:
        """The scores of each kind."""
        maps = self.stages(x)
        return self.output(self.dense(np.reshape(maps, (x.shape[0], -1))))


def main() -> None:
    """Train, and judge on images that were not seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="a narrow network, few images")
    short = parser.parse_args().short

    model = SmallVGG(8 if short else 32)
    data, unseen = textures(600 if short else 3000, 0), textures(200 if short else 500, 1)
    print(model.summary((50, SIZE, SIZE, 3)))
    history = nn.train(
        model,
        nn.cross_entropy,
        data,
        optim.Adam(2e-3),
        epochs=6 if short else 5,
        batch=50,
        validation=unseen,
        metrics={"accuracy": nn.accuracy},
    )
    for epoch, right in enumerate(history.validation["accuracy"], 1):
        print(f"epoch {epoch}: loss {history.loss[epoch - 1]:.3f}, {100 * right:.1f}% right")
    assert history.validation["accuracy"][-1] > (0.5 if short else 0.9)
    mean = numpy.asarray(model.state["stages"][0]["mean"])
    print(f"Batch norm has learnt the light: {mean.round(2)}")
    numpy.testing.assert_allclose(mean, LIGHT, atol=0.1)


if __name__ == "__main__":
    main()
