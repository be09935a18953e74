"""VGG16: thirteen convolutions 3 x 3 and three dense layers.

K. Simonyan, A. Zisserman: Very deep convolutional networks for large-scale image recognition, 2015.
"""

from __future__ import annotations

from typing import Final

from tawny import nn
from tawny.array import Array
from tawny.models.sizes import IMAGE, flatten_samples, int_at_least, scale_channels

STAGES: Final = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the convolutions; each stage ends with a pooling 2 x 2."""

HIDDEN: Final = 4096


def _keras_layers() -> dict[str, str]:
    """Names of layers in Keras, and here."""
    names = {"fc1": "classifier.0", "fc2": "classifier.3", "predictions": "classifier.6"}
    place = 0
    for number, stage in enumerate(STAGES, 1):
        for convolution in range(1, len(stage) + 1):
            names[f"block{number}_conv{convolution}"] = f"features.{place}"
            place += 2
        place += 1
    return names


_KERAS: Final = _keras_layers()


class VGG16(nn.Module):
    """Images (batch, size, size, 3) to the scores (logits) of `classes`.

    138,357,544 parameters as published, for 224 x 224 pixels and 1,000 classes.  `width` multiplies
    all numbers of channels.  Layers are numbered as in torchvision: `features.0` to `classifier.6`.
    """

    def __init__(
        self,
        classes: int = 1000,
        *,
        size: int = 224,
        width: float = 1.0,
        dropout: float = 0.5,
        dtype: str = "float32",
    ) -> None:
        int_at_least(1, classes, "VGG16", "classes")
        int_at_least(2 ** len(STAGES), size, "VGG16", "size")
        layers: list[nn.Module] = []
        inputs = IMAGE
        for stage in STAGES:
            for number in stage:
                outputs = scale_channels(number, width)
                layers.append(nn.Conv2d(inputs, outputs, 3, padding="same", dtype=dtype))
                layers.append(nn.Activation("relu"))
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        hidden, rows = scale_channels(HIDDEN, width), size // 2 ** len(STAGES)
        self.flattened = {"classifier.0": (rows, rows, inputs)}
        self.classifier = nn.Sequential(
            nn.Linear(rows * rows * inputs, hidden, dtype=dtype),
            nn.Activation("relu"),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden, dtype=dtype),
            nn.Activation("relu"),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes, dtype=dtype),
        )

    @staticmethod
    def keras_name(name: str) -> str:
        """A path in the network of `keras.applications` as the path here, for `load_keras`."""
        layer, _, leaf = name.rpartition(".")
        return f"{_KERAS[layer]}.{leaf}" if layer in _KERAS else name

    def forward(self, x: Array) -> Array:
        scores: Array = self.classifier(flatten_samples(self.features(x)))
        return scores
