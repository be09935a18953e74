"""Networks of the benchmarks as data: a list of steps with their weights, for every library alike.

Images are (batch, rows, columns, channels), kernels (rows, columns, inputs, outputs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Value = int
"""The number of a step; 0 is the input."""
Pads = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Step:
    """One operation, what it reads, and its weights and settings."""

    kind: str
    inputs: tuple[Value, ...]
    settings: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """Writes steps down in the order they are asked for."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def record(self, kind: str, *inputs: Value, **settings: Any) -> Value:
        """The value of a new step."""
        self.steps.append(Step(kind, inputs, settings))
        return len(self.steps)


class Layers:
    """Layers of a network, their weights drawn as they come."""

    def __init__(self, recorder: Recorder, seed: int = 0) -> None:
        self.record = recorder.record
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (self.rng.standard_normal(shape, np.float32) * np.float32(scale)).astype(np.float32)

    def convolved(
        self,
        x: Value,
        inputs: int,
        outputs: int,
        window: int | tuple[int, int],
        stride: int = 1,
        pads: Pads | None = None,
        *,
        relu: bool = True,
        groups: int = 1,
    ) -> Value:
        """Convolution, batch normalisation and, unless told otherwise, relu."""
        rows, columns = (window, window) if isinstance(window, int) else window
        fan = rows * columns * inputs // groups
        kernel = self.normal(rows, columns, inputs // groups, outputs, scale=(2 / fan) ** 0.5)
        same = ((rows // 2, rows // 2), (columns // 2, columns // 2))
        settings = {"stride": stride, "pads": same if pads is None else pads}
        if groups > 1:
            settings["groups"] = groups
        y = self.record("convolution", x, kernel=kernel, **settings)
        y = self.record(
            "normalised",
            y,
            scale=1 + self.normal(outputs, scale=0.1),
            shift=self.normal(outputs, scale=0.1),
            mean=self.normal(outputs, scale=0.1),
            variance=1 + np.abs(self.normal(outputs, scale=0.1)),
        )
        return self.record("relu", y) if relu else y

    def classified(self, x: Value, inputs: int, classes: int = 1000) -> Value:
        """Global mean, a dense layer, softmax."""
        weight = self.normal(inputs, classes, scale=0.02 * inputs**-0.5)
        means = self.record("mean", x)
        y = self.record("dense", means, weight=weight, bias=self.normal(classes, scale=0.1))
        return self.record("softmax", y)

    def max_pool(self, x: Value, window: int, stride: int, pads: Pads) -> Value:
        """The maximum over windows."""
        return self.record("max_pool", x, window=window, stride=stride, pads=pads)

    def avg_pool(self, x: Value, window: int, stride: int, pads: Pads) -> Value:
        """The mean over windows, of the elements that are there."""
        return self.record("avg_pool", x, window=window, stride=stride, pads=pads)

    def joined(self, parts: list[Value]) -> Value:
        """Channels side by side."""
        return self.record("joined", *parts)


NONE: Pads = ((0, 0), (0, 0))
ONE: Pads = ((1, 1), (1, 1))


def resnet50(recorder: Recorder, x: Value) -> Value:
    """ResNet50, the stride in the 3x3 convolutions."""
    net = Layers(recorder)
    x = net.convolved(x, 3, 64, 7, 2, ((3, 3), (3, 3)))
    x = net.max_pool(x, 3, 2, ONE)
    inputs = 64
    for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            y = net.convolved(x, inputs, width, 1)
            y = net.convolved(y, width, width, 3, stride)
            y = net.convolved(y, width, 4 * width, 1, relu=False)
            if block == 0:
                x = net.convolved(x, inputs, 4 * width, 1, stride, relu=False)
            x = net.record("relu", net.record("add", y, x))
            inputs = 4 * width
    return net.classified(x, inputs)


def inception_v3(recorder: Recorder, x: Value) -> Value:
    """InceptionV3 without its auxiliary head."""
    net = Layers(recorder)
    conv, join = net.convolved, net.joined

    def thirty_five(x: Value, n: int, pool: int) -> Value:
        a = conv(x, n, 64, 1)
        b = conv(conv(x, n, 48, 1), 48, 64, 5)
        c = conv(conv(conv(x, n, 64, 1), 64, 96, 3), 96, 96, 3)
        return join([a, b, c, conv(net.avg_pool(x, 3, 1, ONE), n, pool, 1)])

    def seventeen(x: Value, n: int, m: int) -> Value:
        a = conv(x, n, 192, 1)
        b = conv(conv(conv(x, n, m, 1), m, m, (1, 7)), m, 192, (7, 1))
        c = conv(conv(conv(x, n, m, 1), m, m, (7, 1)), m, m, (1, 7))
        c = conv(conv(c, m, m, (7, 1)), m, 192, (1, 7))
        return join([a, b, c, conv(net.avg_pool(x, 3, 1, ONE), n, 192, 1)])

    def eight(x: Value, n: int) -> Value:
        a = conv(x, n, 320, 1)
        b = conv(x, n, 384, 1)
        b = join([conv(b, 384, 384, (1, 3)), conv(b, 384, 384, (3, 1))])
        c = conv(conv(x, n, 448, 1), 448, 384, 3)
        c = join([conv(c, 384, 384, (1, 3)), conv(c, 384, 384, (3, 1))])
        return join([a, b, c, conv(net.avg_pool(x, 3, 1, ONE), n, 192, 1)])

    x = conv(x, 3, 32, 3, 2, NONE)
    x = conv(conv(x, 32, 32, 3, 1, NONE), 32, 64, 3)
    x = conv(net.max_pool(x, 3, 2, NONE), 64, 80, 1)
    x = net.max_pool(conv(x, 80, 192, 3, 1, NONE), 3, 2, NONE)
    for n, pool in ((192, 32), (256, 64), (288, 64)):
        x = thirty_five(x, n, pool)
    x = join(
        [
            conv(x, 288, 384, 3, 2, NONE),
            conv(conv(conv(x, 288, 64, 1), 64, 96, 3), 96, 96, 3, 2, NONE),
            net.max_pool(x, 3, 2, NONE),
        ]
    )
    for m in (128, 160, 160, 192):
        x = seventeen(x, 768, m)
    a = conv(conv(x, 768, 192, 1), 192, 320, 3, 2, NONE)
    b = conv(
        conv(conv(conv(x, 768, 192, 1), 192, 192, (1, 7)), 192, 192, (7, 1)), 192, 192, 3, 2, NONE
    )
    x = join([a, b, net.max_pool(x, 3, 2, NONE)])
    x = eight(eight(x, 1280), 2048)
    return net.classified(x, 2048)


def resnet18(recorder: Recorder, x: Value) -> Value:
    """ResNet18 as it is used on images of 32 x 32."""
    net = Layers(recorder)
    x, inputs = net.convolved(x, 3, 64, 3), 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if block == 0 and stage > 0 else 1
            y = net.convolved(
                net.convolved(x, inputs, width, 3, stride), width, width, 3, relu=False
            )
            if stride > 1:
                x = net.convolved(x, inputs, width, 1, stride, relu=False)
            x = net.record("relu", net.record("add", y, x))
            inputs = width
    return net.classified(x, inputs, 10)


def squeezenet(recorder: Recorder, x: Value) -> Value:
    """SqueezeNet 1.1."""
    net = Layers(recorder)
    x = net.max_pool(net.convolved(x, 3, 64, 3, 2), 3, 2, NONE)
    inputs = 64
    for number, (narrow, wide) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        if number in (2, 4):
            x = net.max_pool(x, 3, 2, NONE)
        y = net.convolved(x, inputs, narrow, 1)
        x = net.joined([net.convolved(y, narrow, wide, 1), net.convolved(y, narrow, wide, 3)])
        inputs = 2 * wide
    return net.classified(x, inputs)


def _inverted(
    net: Layers, x: Value, inputs: int, wide: int, outputs: int, window: int, stride: int,
    clip: str, squeeze: bool = False,
) -> Value:  # fmt: skip
    """Wider by a pointwise convolution, a depthwise one, narrower again."""
    y = x
    if wide != inputs:
        y = net.record(clip, net.convolved(y, inputs, wide, 1, relu=False))
    y = net.record(clip, net.convolved(y, wide, wide, window, stride, relu=False, groups=wide))
    if squeeze:
        narrow = wide // 4
        means = net.record("mean", y)
        weight = net.normal(wide, narrow, scale=wide**-0.5)
        hidden = net.record("dense", means, weight=weight, bias=net.normal(narrow, scale=0.1))
        hidden = net.record("relu", hidden)
        weight = net.normal(narrow, wide, scale=narrow**-0.5)
        share = net.record("dense", hidden, weight=weight, bias=net.normal(wide, scale=0.1))
        y = net.record("scaled", y, net.record("hard_sigmoid", share))
    y = net.convolved(y, wide, outputs, 1, relu=False)
    return net.record("add", y, x) if stride == 1 and inputs == outputs else y


def mobilenet_v2(recorder: Recorder, x: Value) -> Value:
    """MobileNetV2."""
    net = Layers(recorder)
    x = net.record("relu6", net.convolved(x, 3, 32, 3, 2, relu=False))
    inputs = 32
    for factor, outputs, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(count):
            stride = 1 if block else first
            x = _inverted(net, x, inputs, factor * inputs, outputs, 3, stride, "relu6")
            inputs = outputs
    x = net.record("relu6", net.convolved(x, inputs, 1280, 1, relu=False))
    return net.classified(x, 1280)


def mobilenet_v3(recorder: Recorder, x: Value) -> Value:
    """MobileNetV3, the large one, with squeeze and excitation."""
    net = Layers(recorder)
    x = net.record("hard_swish", net.convolved(x, 3, 16, 3, 2, relu=False))
    inputs = 16
    for window, wide, outputs, squeeze, clip, stride in (
        (3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1),
        (5, 72, 40, True, "relu", 2), (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1),
        (3, 240, 80, False, "hard_swish", 2), (3, 200, 80, False, "hard_swish", 1),
        (3, 184, 80, False, "hard_swish", 1), (3, 184, 80, False, "hard_swish", 1),
        (3, 480, 112, True, "hard_swish", 1), (3, 672, 112, True, "hard_swish", 1),
        (5, 672, 160, True, "hard_swish", 2), (5, 960, 160, True, "hard_swish", 1),
        (5, 960, 160, True, "hard_swish", 1),
    ):  # fmt: skip
        x = _inverted(net, x, inputs, wide, outputs, window, stride, clip, squeeze)
        inputs = outputs
    x = net.record("hard_swish", net.convolved(x, inputs, 960, 1, relu=False))
    return net.classified(x, 960)


def unet(recorder: Recorder, x: Value) -> Value:
    """A U-Net of four levels, whose result is the mean of each of its 16 maps."""
    net = Layers(recorder)

    def twice(x: Value, inputs: int, outputs: int) -> Value:
        return net.convolved(net.convolved(x, inputs, outputs, 3), outputs, outputs, 3)

    levels, inputs = [], 3
    for width in (32, 64, 128):
        x = twice(x, inputs, width)
        levels.append((x, width))
        x, inputs = net.max_pool(x, 2, 2, NONE), width
    x, inputs = twice(x, inputs, 256), 256
    for skipped, width in reversed(levels):
        x = net.joined([net.record("doubled", x), skipped])
        x, inputs = twice(x, inputs + width, width), width
    return net.record("mean", net.convolved(x, inputs, 16, 1, relu=False))


def steps_of(network: Callable[[Recorder, Value], Value]) -> list[Step]:
    """A network as data."""
    recorder = Recorder()
    network(recorder, 0)
    return recorder.steps


IMAGE = (1, 299, 299, 3)
