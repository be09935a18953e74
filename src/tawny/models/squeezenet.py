"""SqueezeNet: few parameters by squeezing channels before convolutions 3 x 3.

F. Iandola and others: SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, 2016; version
1.1 is the authors' own later one, with 2.4 times less work.
"""

from __future__ import annotations

from typing import Final

import tawny.numpy as np
from tawny import nn
from tawny.array import Array
from tawny.models.sizes import IMAGE, int_at_least, look_up, scale_channels, whole_windows

FireOrPool = tuple[int, int] | None
"""Squeezed and expanded channels of a fire module; None for a pooling of every second place."""

SMALL: Final = ((16, 64), (16, 64))
MIDDLE: Final = ((32, 128), (32, 128))
LARGE: Final = ((48, 192), (48, 192), (64, 256))

VERSIONS: Final[dict[str, tuple[int, int, tuple[FireOrPool, ...]]]] = {
    "1.0": (96, 7, (None, *SMALL, MIDDLE[0], None, MIDDLE[1], *LARGE, None, (64, 256))),
    "1.1": (64, 3, (None, *SMALL, None, *MIDDLE, None, *LARGE, (64, 256))),
}
"""Channels and window of the first convolution, and what follows it."""


class Fire(nn.Module):
    """A convolution 1 x 1 to few channels, then 1 x 1 and 3 x 3 side by side."""

    def __init__(self, inputs: int, squeezed: int, expanded: int, dtype: str) -> None:
        self.squeeze = nn.Conv2d(inputs, squeezed, 1, activation="relu", dtype=dtype)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1, activation="relu", dtype=dtype)
        self.expand3x3 = nn.Conv2d(
            squeezed, expanded, 3, padding="same", activation="relu", dtype=dtype
        )

    def forward(self, x: Array) -> Array:
        few = self.squeeze(x)
        return np.concat([self.expand1x1(few), self.expand3x3(few)], axis=-1)


class SqueezeNet(nn.Module):
    """Images (batch, rows, columns, 3) to the scores (logits) of `classes`.

    1,248,424 parameters in version 1.0 and 1,235,496 in 1.1 as published, for 1,000 classes.
    Layers are numbered as in torchvision.
    """

    def __init__(
        self,
        version: str = "1.0",
        classes: int = 1000,
        *,
        width: float = 1.0,
        dropout: float = 0.5,
        dtype: str = "float32",
    ) -> None:
        int_at_least(1, classes, "SqueezeNet", "classes")
        first, window, steps = look_up("SqueezeNet", "version", version, VERSIONS)
        inputs = scale_channels(first, width)
        layers: list[nn.Module] = [
            nn.Conv2d(IMAGE, inputs, window, stride=2, dtype=dtype),
            nn.Activation("relu"),
        ]
        for step in steps:
            if step is None:
                layers.append(nn.Lambda(_pool))
                continue
            squeezed, expanded = (scale_channels(n, width) for n in step)
            layers.append(Fire(inputs, squeezed, expanded, dtype))
            inputs = 2 * expanded
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(inputs, classes, 1, activation="relu", dtype=dtype)
        )

    def forward(self, x: Array) -> Array:
        return np.global_avg_pool(self.classifier(self.features(x)))


def _pool(x: Array) -> Array:
    """The greatest of each window 3 x 3, every second; the last may reach over the edge."""
    return np.max_pool2d(x, 3, stride=2, padding=whole_windows(x.shape[1:-1], 3, 2))
