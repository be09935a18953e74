"""Residual networks of 50 and 101 layers.

K. He, X. Zhang, S. Ren, J. Sun: Deep residual learning for image recognition, 2016.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import tawny.numpy as np
from tawny import nn
from tawny.array import Array
from tawny.models.sizes import IMAGE, int_at_least, look_up, scale_channels
from tawny.ops.window import Padding

EXPANSION: Final = 4
"""Channels a block gives for each of its inner ones."""


@dataclass(frozen=True)
class ResNetForm:
    """The choices in which published versions of the same network differ."""

    early: bool
    """Whether a block's stride is on its first convolution, as in the paper, or on its 3 x 3."""
    bias: bool
    """Whether convolutions have a bias, though batch norm follows."""
    epsilon: float
    """What batch norm adds to the variance."""
    pool: Padding
    """Padding of the first pooling."""


FORMS: Final = {
    "torchvision": ResNetForm(False, False, 1e-5, ((1, 1), (1, 1))),
    "keras": ResNetForm(True, True, 1.001e-5, ((1, 1), (1, 1))),
    "matterport": ResNetForm(True, True, 1e-3, "SAME"),
}
"""torchvision's, Keras', and that of Matterport's Mask R-CNN."""


_KERAS_ENDS: Final = {"conv1_conv": "conv1", "conv1_bn": "bn1", "predictions": "fc"}
_KERAS_BLOCK: Final = re.compile(r"conv([2-5])_block(\d+)_([0-3])_(conv|bn)")


class Bottleneck(nn.Module):
    """Convolutions 1 x 1, 3 x 3 and 1 x 1, and a way around them."""

    def __init__(self, inputs: int, inner: int, stride: int, form: ResNetForm, dtype: str) -> None:
        outputs = EXPANSION * inner
        first, second = (stride, 1) if form.early else (1, stride)

        def convolution(inputs: int, outputs: int, window: int, stride: int) -> nn.Conv2d:
            return nn.Conv2d(
                inputs,
                outputs,
                window,
                stride=stride,
                padding=window // 2,
                bias=form.bias,
                dtype=dtype,
            )

        def norm(features: int) -> nn.BatchNorm:
            return nn.BatchNorm(features, epsilon=form.epsilon, dtype=dtype)

        self.conv1, self.bn1 = convolution(inputs, inner, 1, first), norm(inner)
        self.conv2, self.bn2 = convolution(inner, inner, 3, second), norm(inner)
        self.conv3, self.bn3 = convolution(inner, outputs, 1, 1), norm(outputs)
        self.downsample: nn.Sequential | None = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), norm(outputs))

    def forward(self, x: Array) -> Array:
        y = np.relu(self.bn1(self.conv1(x)))
        y = np.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return np.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Images (batch, rows, columns, 3) to the scores (logits) of `classes`.

    `depths` are the blocks of each stage, `width` multiplies all numbers of channels, and `form`
    chooses among published versions: "torchvision" (a block's stride on its 3 x 3, no bias beside
    batch norm), "keras" (stride on the first 1 x 1 as in the paper, with biases) and "matterport"
    (as Keras', with the other pooling and epsilon of that Mask R-CNN).  Without classes there is no
    last layer.  Layers are named as in torchvision.
    """

    def __init__(
        self,
        depths: Sequence[int],
        classes: int | None = 1000,
        *,
        width: float = 1.0,
        form: str = "torchvision",
        dtype: str = "float32",
    ) -> None:
        op = type(self).__name__
        facts = look_up(op, "form", form, FORMS)
        if classes is not None:
            int_at_least(1, classes, op, "classes")
        base = scale_channels(64, width)
        self.pool = facts.pool
        self.conv1 = nn.Conv2d(IMAGE, base, 7, stride=2, padding=3, bias=facts.bias, dtype=dtype)
        self.bn1 = nn.BatchNorm(base, epsilon=facts.epsilon, dtype=dtype)
        inputs, stages = base, list[nn.Sequential]()
        for stage, depth in enumerate(depths):
            inner, blocks = base * 2**stage, list[nn.Module]()
            for number in range(depth):
                stride = 2 if stage and not number else 1
                blocks.append(Bottleneck(inputs, inner, stride, facts, dtype))
                inputs = EXPANSION * inner
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.channels = tuple(EXPANSION * base * 2**stage for stage in range(len(stages)))
        """Channels that each stage gives."""
        self.fc = None if classes is None else nn.Linear(inputs, classes, dtype=dtype)

    def maps(self, x: Array) -> list[Array]:
        """What each of the four stages gives: a fourth of the image's rows, an eighth, ..."""
        y = np.relu(self.bn1(self.conv1(x)))
        y = np.max_pool2d(y, 3, stride=2, padding=self.pool)
        out: list[Array] = []
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            y = stage(y)
            out.append(y)
        return out

    @staticmethod
    def keras_name(name: str) -> str:
        """A path in the networks of `keras.applications` as the path here, for `load_keras`."""
        layer, _, leaf = name.rpartition(".")
        if layer in _KERAS_ENDS:
            return f"{_KERAS_ENDS[layer]}.{leaf}"
        if found := _KERAS_BLOCK.fullmatch(layer):
            stage, block, number, kind = found.groups()
            part = f"downsample.{int(kind == 'bn')}" if number == "0" else f"{kind}{number}"
            return f"layer{int(stage) - 1}.{int(block) - 1}.{part}.{leaf}"
        return name

    def forward(self, x: Array) -> Array:
        last = self.maps(x)[-1]
        return last if self.fc is None else self.fc(np.global_avg_pool(last))


class ResNet50(ResNet):
    """A residual network of 50 layers.

    In torchvision's form 25,557,032 parameters; in Keras' 25,636,712 with the running statistics
    (25,583,592 without), for 1,000 classes.
    """

    def __init__(
        self,
        classes: int | None = 1000,
        *,
        width: float = 1.0,
        form: str = "torchvision",
        dtype: str = "float32",
    ) -> None:
        super().__init__((3, 4, 6, 3), classes, width=width, form=form, dtype=dtype)


class ResNet101(ResNet):
    """A residual network of 101 layers.

    In torchvision's form 44,549,160 parameters; in Keras' 44,707,176 with the running statistics,
    for 1,000 classes.
    """

    def __init__(
        self,
        classes: int | None = 1000,
        *,
        width: float = 1.0,
        form: str = "torchvision",
        dtype: str = "float32",
    ) -> None:
        super().__init__((3, 4, 23, 3), classes, width=width, form=form, dtype=dtype)
