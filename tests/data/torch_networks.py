"""The networks of `tawny.models` written in PyTorch, from their papers and with torchvision's names of parameters.

They exist to make `networks.npz`; nothing else imports them.  `width` multiplies every number of channels.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 and a way around them; `early` puts the stride on the first."""

    def __init__(self, inputs, inner, stride, early, bias, eps):
        super().__init__()
        outputs = 4 * inner
        first, second = (stride, 1) if early else (1, stride)
        self.conv1 = nn.Conv2d(inputs, inner, 1, first, bias=bias)
        self.bn1 = nn.BatchNorm2d(inner, eps)
        self.conv2 = nn.Conv2d(inner, inner, 3, second, 1, bias=bias)
        self.bn2 = nn.BatchNorm2d(inner, eps)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=bias)
        self.bn3 = nn.BatchNorm2d(outputs, eps)
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=bias), nn.BatchNorm2d(outputs, eps)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depths, width, classes, early=False, bias=False, eps=1e-5, same_pool=False):
        super().__init__()
        base = int(64 * width)
        self.same_pool = same_pool
        self.conv1 = nn.Conv2d(3, base, 7, 2, 3, bias=bias)
        self.bn1 = nn.BatchNorm2d(base, eps)
        inputs = base
        for stage, depth in enumerate(depths):
            inner = base * 2**stage
            blocks = []
            for i in range(depth):
                blocks.append(
                    Bottleneck(inputs, inner, 2 if stage and not i else 1, early, bias, eps)
                )
                inputs = 4 * inner
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        if classes:
            self.fc = nn.Linear(inputs, classes)

    def maps(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = (
            F.max_pool2d(F.pad(x, (0, 1, 0, 1)), 3, 2)
            if self.same_pool
            else F.max_pool2d(x, 3, 2, 1)
        )
        out = []
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
            out.append(x)
        return out

    def forward(self, x):
        return self.fc(self.maps(x)[-1].mean((2, 3)))


def vgg16(width, classes, rows):
    layers, inputs = [], 3
    for step in (
        64,
        64,
        "M",
        128,
        128,
        "M",
        256,
        256,
        256,
        "M",
        512,
        512,
        512,
        "M",
        512,
        512,
        512,
        "M",
    ):
        if step == "M":
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(inputs, int(step * width), 3, padding=1), nn.ReLU()]
            inputs = int(step * width)
    hidden = int(4096 * width)
    dense = [
        nn.Linear(inputs * (rows // 32) ** 2, hidden),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(hidden, classes),
    ]
    parts = OrderedDict(
        features=nn.Sequential(*layers), flat=nn.Flatten(), classifier=nn.Sequential(*dense)
    )
    return nn.Sequential(parts)


class Fire(nn.Module):
    def __init__(self, inputs, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    def __init__(self, version, width, classes):
        super().__init__()

        def fire(inputs, squeeze, expand):
            return Fire(int(inputs * width), int(squeeze * width), int(expand * width))

        def pool():
            return nn.MaxPool2d(3, 2, ceil_mode=True)

        if version == "1.0":
            layers = [
                nn.Conv2d(3, int(96 * width), 7, 2),
                nn.ReLU(),
                pool(),
                fire(96, 16, 64),
                fire(128, 16, 64),
                fire(128, 32, 128),
                pool(),
                fire(256, 32, 128),
                fire(256, 48, 192),
                fire(384, 48, 192),
                fire(384, 64, 256),
                pool(),
                fire(512, 64, 256),
            ]
        else:
            layers = [
                nn.Conv2d(3, int(64 * width), 3, 2),
                nn.ReLU(),
                pool(),
                fire(64, 16, 64),
                fire(128, 16, 64),
                pool(),
                fire(128, 32, 128),
                fire(256, 32, 128),
                pool(),
                fire(256, 48, 192),
                fire(384, 48, 192),
                fire(384, 64, 256),
                fire(512, 64, 256),
            ]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Conv2d(int(512 * width), classes, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )

    def forward(self, x):
        return torch.flatten(self.classifier(self.features(x)), 1)


class Unit(nn.Module):
    """Convolution, batch norm, relu; torchvision's BasicConv2d."""

    def __init__(self, inputs, outputs, kernel, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, 1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Mixed(nn.Module):
    """Branches side by side; a branch is a tuple of units' names, after a pooling where it says so.

    `forked` units end a branch together: their outputs are joined.
    """

    def __init__(self, inputs, units, branches, counted):
        super().__init__()
        for name, (source, outputs, *rest) in units.items():
            self.add_module(
                name, Unit(inputs if source is None else units[source][1], outputs, *rest)
            )
        self.branches, self.counted = branches, counted

    def forward(self, x):
        out = []
        for branch in self.branches:
            y = x
            for step in branch:
                if step == "average":
                    y = F.avg_pool2d(y, 3, 1, 1, count_include_pad=self.counted)
                elif step == "max":
                    y = F.max_pool2d(y, 3, 2)
                elif isinstance(step, tuple):
                    y = torch.cat([self.get_submodule(s)(y) for s in step], 1)
                else:
                    y = self.get_submodule(step)(y)
            out.append(y)
        return torch.cat(out, 1)


class InceptionV3(nn.Module):
    def __init__(self, width, classes, counted=True):
        super().__init__()

        def w(n):
            return int(n * width)

        self.Conv2d_1a_3x3 = Unit(3, w(32), 3, 2)
        self.Conv2d_2a_3x3 = Unit(w(32), w(32), 3)
        self.Conv2d_2b_3x3 = Unit(w(32), w(64), 3, 1, 1)
        self.Conv2d_3b_1x1 = Unit(w(64), w(80), 1)
        self.Conv2d_4a_3x3 = Unit(w(80), w(192), 3)

        def a(inputs, pooled):
            units = {
                "branch1x1": (None, w(64), 1),
                "branch5x5_1": (None, w(48), 1),
                "branch5x5_2": ("branch5x5_1", w(64), 5, 1, 2),
                "branch3x3dbl_1": (None, w(64), 1),
                "branch3x3dbl_2": ("branch3x3dbl_1", w(96), 3, 1, 1),
                "branch3x3dbl_3": ("branch3x3dbl_2", w(96), 3, 1, 1),
                "branch_pool": (None, w(pooled), 1),
            }
            ways = [
                ("branch1x1",),
                ("branch5x5_1", "branch5x5_2"),
                ("branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"),
                ("average", "branch_pool"),
            ]
            return Mixed(w(inputs), units, ways, counted)

        def c(inner):
            i, row, column = w(inner), ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
            units = {
                "branch1x1": (None, w(192), 1),
                "branch7x7_1": (None, i, 1),
                "branch7x7_2": ("branch7x7_1", i, *row),
                "branch7x7_3": ("branch7x7_2", w(192), *column),
                "branch7x7dbl_1": (None, i, 1),
                "branch7x7dbl_2": ("branch7x7dbl_1", i, *column),
                "branch7x7dbl_3": ("branch7x7dbl_2", i, *row),
                "branch7x7dbl_4": ("branch7x7dbl_3", i, *column),
                "branch7x7dbl_5": ("branch7x7dbl_4", w(192), *row),
                "branch_pool": (None, w(192), 1),
            }
            ways = [
                ("branch1x1",),
                tuple(f"branch7x7_{k}" for k in (1, 2, 3)),
                tuple(f"branch7x7dbl_{k}" for k in (1, 2, 3, 4, 5)),
                ("average", "branch_pool"),
            ]
            return Mixed(w(768), units, ways, counted)

        def e(inputs):
            row, column = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))
            units = {
                "branch1x1": (None, w(320), 1),
                "branch3x3_1": (None, w(384), 1),
                "branch3x3_2a": ("branch3x3_1", w(384), *row),
                "branch3x3_2b": ("branch3x3_1", w(384), *column),
                "branch3x3dbl_1": (None, w(448), 1),
                "branch3x3dbl_2": ("branch3x3dbl_1", w(384), 3, 1, 1),
                "branch3x3dbl_3a": ("branch3x3dbl_2", w(384), *row),
                "branch3x3dbl_3b": ("branch3x3dbl_2", w(384), *column),
                "branch_pool": (None, w(192), 1),
            }
            ways = [
                ("branch1x1",),
                ("branch3x3_1", ("branch3x3_2a", "branch3x3_2b")),
                ("branch3x3dbl_1", "branch3x3dbl_2", ("branch3x3dbl_3a", "branch3x3dbl_3b")),
                ("average", "branch_pool"),
            ]
            return Mixed(w(inputs), units, ways, counted)

        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = a(192, 32), a(256, 64), a(288, 64)
        units = {
            "branch3x3": (None, w(384), 3, 2),
            "branch3x3dbl_1": (None, w(64), 1),
            "branch3x3dbl_2": ("branch3x3dbl_1", w(96), 3, 1, 1),
            "branch3x3dbl_3": ("branch3x3dbl_2", w(96), 3, 2),
        }
        self.Mixed_6a = Mixed(
            w(288),
            units,
            [("branch3x3",), ("branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"), ("max",)],
            counted,
        )
        self.Mixed_6b, self.Mixed_6c, self.Mixed_6d, self.Mixed_6e = c(128), c(160), c(160), c(192)
        units = {
            "branch3x3_1": (None, w(192), 1),
            "branch3x3_2": ("branch3x3_1", w(320), 3, 2),
            "branch7x7x3_1": (None, w(192), 1),
            "branch7x7x3_2": ("branch7x7x3_1", w(192), (1, 7), 1, (0, 3)),
            "branch7x7x3_3": ("branch7x7x3_2", w(192), (7, 1), 1, (3, 0)),
            "branch7x7x3_4": ("branch7x7x3_3", w(192), 3, 2),
        }
        self.Mixed_7a = Mixed(
            w(768),
            units,
            [
                ("branch3x3_1", "branch3x3_2"),
                tuple(f"branch7x7x3_{k}" for k in (1, 2, 3, 4)),
                ("max",),
            ],
            counted,
        )
        self.Mixed_7b, self.Mixed_7c = e(1280), e(2048)
        self.fc = nn.Linear(w(2048), classes)

    def forward(self, x):
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = F.max_pool2d(x, 3, 2)
        for name in "5b 5c 5d 6a 6b 6c 6d 6e 7a 7b 7c".split():
            x = self.get_submodule(f"Mixed_{name}")(x)
        return self.fc(x.mean((2, 3)))


class CharacterLSTM(nn.Module):
    def __init__(self, vocabulary, embedding, hidden, dense):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.dense = nn.Linear(hidden, dense)
        self.output = nn.Linear(dense, vocabulary)

    def forward(self, x):
        return self.output(F.relu(self.dense(self.lstm(self.embedding(x))[0][:, -1])))


class Mnist(nn.Module):
    def __init__(self, filters, hidden):
        super().__init__()
        self.conv = nn.Conv2d(1, filters, 5, padding=2)
        self.dense = nn.Linear(14 * 14 * filters, hidden)
        self.output = nn.Linear(hidden, 10)

    def forward(self, x):
        return self.output(F.relu(self.dense(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1))))
