"""The feature pyramid, the region proposal network and the heads."""

from __future__ import annotations

from typing import Final

import tawny.numpy as np
from tawny import nn
from tawny.array import Array
from tawny.models.mask_rcnn.matterport import Settings
from tawny.models.sizes import scale_channels

EPSILON: Final = 1e-3
"""What batch norm adds to the variance."""

FEATURES: Final = 256
"""Channels of the pyramid."""


class Pyramid(nn.Module):
    """Four maps of a residual network to five of equal channels, each half as large as the last.

    From the coarsest on, each is a convolution 1 x 1 plus the next coarser one at twice its size;
    a convolution 3 x 3 ends it.  The fifth is every second place of the fourth.
    """

    def __init__(self, inputs: tuple[int, ...], features: int, dtype: str) -> None:
        self.lateral = [nn.Conv2d(n, features, 1, dtype=dtype) for n in inputs]
        self.smooth = [
            nn.Conv2d(features, features, 3, padding="same", dtype=dtype) for _ in inputs
        ]

    def forward(self, maps: list[Array]) -> list[Array]:
        merged: list[Array] = []
        for layer, x in zip(reversed(self.lateral), reversed(maps), strict=True):
            own: Array = layer(x)
            merged.append(own + np.upsampling2d(merged[-1], 2) if merged else own)
        out = [layer(x) for layer, x in zip(self.smooth, reversed(merged), strict=True)]
        return [*out, out[-1][:, ::2, ::2]]


class RegionProposals(nn.Module):
    """For each place of a map and each anchor there: how likely it is an object, and its shift."""

    def __init__(self, features: int, settings: Settings, dtype: str) -> None:
        shared, anchors = scale_channels(512, settings.width), len(settings.ratios)
        self.shared = nn.Conv2d(features, shared, 3, padding="same", activation="relu", dtype=dtype)
        self.scores = nn.Conv2d(shared, 2 * anchors, 1, dtype=dtype)
        self.shifts = nn.Conv2d(shared, 4 * anchors, 1, dtype=dtype)

    def forward(self, x: Array) -> tuple[Array, Array]:
        shared = self.shared(x)
        batch = x.shape[0]
        scores = np.softmax(np.reshape(self.scores(shared), (batch, -1, 2)), axis=-1)
        return scores[..., 1], np.reshape(self.shifts(shared), (batch, -1, 4))


class ClassHead(nn.Module):
    """Regions (n, 7, 7, features) to how likely each class is, and a shift of the box for each."""

    def __init__(self, features: int, settings: Settings, dtype: str) -> None:
        hidden, classes = scale_channels(1024, settings.width), settings.classes
        self.conv1 = nn.Conv2d(features, hidden, settings.class_pool, dtype=dtype)
        self.bn1 = nn.BatchNorm(hidden, epsilon=EPSILON, dtype=dtype)
        self.conv2 = nn.Conv2d(hidden, hidden, 1, dtype=dtype)
        self.bn2 = nn.BatchNorm(hidden, epsilon=EPSILON, dtype=dtype)
        self.scores = nn.Linear(hidden, classes, dtype=dtype)
        self.shifts = nn.Linear(hidden, 4 * classes, dtype=dtype)

    def forward(self, x: Array) -> tuple[Array, Array]:
        y = np.relu(self.bn1(self.conv1(x)))
        y = np.reshape(np.relu(self.bn2(self.conv2(y))), (x.shape[0], -1))
        shifts = np.reshape(self.shifts(y), (x.shape[0], -1, 4))
        return np.softmax(self.scores(y), axis=-1), shifts


class MaskHead(nn.Module):
    """Regions (n, 14, 14, features) to masks (n, 28, 28, classes), as logits."""

    def __init__(self, features: int, settings: Settings, dtype: str) -> None:
        self.convolutions = [
            nn.Conv2d(features, features, 3, padding="same", dtype=dtype) for _ in range(4)
        ]
        self.norms = [nn.BatchNorm(features, epsilon=EPSILON, dtype=dtype) for _ in range(4)]
        self.upsample = nn.ConvTranspose2d(
            features, features, 2, stride=2, activation="relu", dtype=dtype
        )
        self.output = nn.Conv2d(features, settings.classes, 1, dtype=dtype)

    def forward(self, x: Array) -> Array:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = np.relu(norm(convolution(x)))
        masks: Array = self.output(self.upsample(x))
        return masks
