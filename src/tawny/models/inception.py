"""InceptionV3: convolutions of several shapes side by side.

C. Szegedy and others: Rethinking the Inception architecture for computer vision, 2016.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import tawny.numpy as np
from tawny import nn
from tawny.array import Array
from tawny.models.sizes import IMAGE, int_at_least, look_up, scale_channels

FORMS: Final = {"torchvision": True, "keras": False}
"""Whether batch norm has a scale beside its shift, and averages at the edge count the padding."""

_KERAS_KINDS: Final = {"conv2d": "conv", "batch_normalization": "bn"}
_KERAS_UNIT: Final = re.compile(r"(conv2d|batch_normalization)(?:_(\d+))?\.(.+)")

Window = int | tuple[int, int]


class ConvUnit(nn.Module):
    """A convolution without bias, batch norm, relu."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        window: Window,
        *,
        stride: int = 1,
        padding: str = "same",
        scaled: bool,
        dtype: str,
    ) -> None:
        self.conv = nn.Conv2d(
            inputs, outputs, window, stride=stride, padding=padding, bias=False, dtype=dtype
        )
        self.bn = nn.BatchNorm(outputs, epsilon=1e-3, scale=scaled, dtype=dtype)
        self.outputs = outputs

    def forward(self, x: Array) -> Array:
        return np.relu(self.bn(self.conv(x)))


@dataclass(frozen=True)
class UnitSpec:
    """A unit of a block; one with a stride has windows that lie within the map."""

    source: str | None
    """The unit it reads, None for the block's input."""
    outputs: int
    window: Window
    stride: int = 1


UnitSpecs = dict[str, UnitSpec]

Branch = tuple[str | tuple[str, ...], ...]
"""Units one after the other; those in a tuple side by side.  AVERAGE and MAX are poolings."""

AVERAGE: Final = "average"
MAX: Final = "max"


class MixedBlock(nn.Module):
    """A block: several branches from its input, whose channels are joined."""

    def __init__(
        self,
        inputs: int,
        units: Mapping[str, UnitSpec],
        branches: Sequence[Branch],
        *,
        width: float,
        counted: bool,
        dtype: str,
    ) -> None:
        self.branches = tuple(branches)
        self.counted = counted
        built: dict[str, ConvUnit] = {}
        for name, spec in units.items():
            built[name] = ConvUnit(
                inputs if spec.source is None else built[spec.source].outputs,
                scale_channels(spec.outputs, width),
                spec.window,
                stride=spec.stride,
                padding="same" if spec.stride == 1 else "valid",
                scaled=counted,
                dtype=dtype,
            )
            self.adopt(name, built[name])
        ends = [self._outputs(branch[-1], built, inputs) for branch in branches]
        self.outputs = sum(ends)

    @staticmethod
    def _outputs(last: str | tuple[str, ...], built: Mapping[str, ConvUnit], inputs: int) -> int:
        if last == MAX:
            return inputs
        return sum(built[name].outputs for name in ((last,) if isinstance(last, str) else last))

    def forward(self, x: Array) -> Array:
        return np.concat([self._apply_branch(branch, x) for branch in self.branches], axis=-1)

    def _apply_branch(self, branch: Branch, x: Array) -> Array:
        for step in branch:
            if step == AVERAGE:
                x = self._average_pool(x)
            elif step == MAX:
                x = np.max_pool2d(x, 3, stride=2)
            else:
                side = [
                    getattr(self, name)(x) for name in ((step,) if isinstance(step, str) else step)
                ]
                x = side[0] if len(side) == 1 else np.concat(side, axis=-1)
        return x

    def _average_pool(self, x: Array) -> Array:
        """Means over 3 x 3; the padding counts in torchvision's form and not in Keras'."""
        if not self.counted:
            return np.avg_pool2d(x, 3, stride=1, padding="SAME")
        return np.avg_pool2d(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), 3, stride=1)


ROW: Final = {n: (1, n) for n in (3, 7)}
COLUMN: Final = {n: (n, 1) for n in (3, 7)}


def _chain(prefix: str, *steps: UnitSpec) -> tuple[UnitSpecs, Branch]:
    """Units that read one another, named by number, and the branch of them."""
    names = [f"{prefix}_{number}" for number in range(1, len(steps) + 1)]
    units = {
        name: replace(step, source=source)
        for name, source, step in zip(names, (None, *names[:-1]), steps, strict=True)
    }
    return units, tuple(names)


def _unit(outputs: int, window: Window, stride: int = 1) -> UnitSpec:
    return UnitSpec(None, outputs, window, stride)


BlockSpec = tuple[UnitSpecs, list[Branch]]
"""The units of a block, and its branches."""


def _inception_a(pooled: int) -> BlockSpec:
    """The block that torchvision calls InceptionA: windows 5 x 5 and twice 3 x 3."""
    five, along_five = _chain("branch5x5", _unit(48, 1), _unit(64, 5))
    double, along_double = _chain("branch3x3dbl", _unit(64, 1), _unit(96, 3), _unit(96, 3))
    units: UnitSpecs = {"branch1x1": UnitSpec(None, 64, 1), **five, **double}
    units["branch_pool"] = UnitSpec(None, pooled, 1)
    return units, [("branch1x1",), along_five, along_double, (AVERAGE, "branch_pool")]


def _inception_b() -> BlockSpec:
    """The block that torchvision calls InceptionB: half the rows and columns, by 3 x 3."""
    double, along_double = _chain("branch3x3dbl", _unit(64, 1), _unit(96, 3), _unit(96, 3, 2))
    return {"branch3x3": _unit(384, 3, 2), **double}, [("branch3x3",), along_double, (MAX,)]


def _inception_c(inner: int) -> BlockSpec:
    """The block that torchvision calls InceptionC: 7 x 7 as 1 x 7 and 7 x 1."""
    row, column = ROW[7], COLUMN[7]
    seven, along_seven = _chain("branch7x7", _unit(inner, 1), _unit(inner, row), _unit(192, column))
    double, along_double = _chain(
        "branch7x7dbl",
        _unit(inner, 1),
        _unit(inner, column),
        _unit(inner, row),
        _unit(inner, column),
        _unit(192, row),
    )
    units: UnitSpecs = {"branch1x1": UnitSpec(None, 192, 1), **seven, **double}
    units["branch_pool"] = UnitSpec(None, 192, 1)
    return units, [("branch1x1",), along_seven, along_double, (AVERAGE, "branch_pool")]


def _inception_d() -> BlockSpec:
    """The block that torchvision calls InceptionD: half the rows and columns, by 7 x 7."""
    three, along_three = _chain("branch3x3", _unit(192, 1), _unit(320, 3, 2))
    seven, along_seven = _chain(
        "branch7x7x3", _unit(192, 1), _unit(192, ROW[7]), _unit(192, COLUMN[7]), _unit(192, 3, 2)
    )
    return {**three, **seven}, [along_three, along_seven, (MAX,)]


def _inception_e() -> BlockSpec:
    """The block that torchvision calls InceptionE: 1 x 3 and 3 x 1 side by side."""
    units: UnitSpecs = {
        "branch1x1": UnitSpec(None, 320, 1),
        "branch3x3_1": UnitSpec(None, 384, 1),
        "branch3x3_2a": UnitSpec("branch3x3_1", 384, ROW[3]),
        "branch3x3_2b": UnitSpec("branch3x3_1", 384, COLUMN[3]),
        "branch3x3dbl_1": UnitSpec(None, 448, 1),
        "branch3x3dbl_2": UnitSpec("branch3x3dbl_1", 384, 3),
        "branch3x3dbl_3a": UnitSpec("branch3x3dbl_2", 384, ROW[3]),
        "branch3x3dbl_3b": UnitSpec("branch3x3dbl_2", 384, COLUMN[3]),
        "branch_pool": UnitSpec(None, 192, 1),
    }
    return units, [
        ("branch1x1",),
        ("branch3x3_1", ("branch3x3_2a", "branch3x3_2b")),
        ("branch3x3dbl_1", "branch3x3dbl_2", ("branch3x3dbl_3a", "branch3x3dbl_3b")),
        (AVERAGE, "branch_pool"),
    ]


def _blocks() -> dict[str, BlockSpec]:
    return {
        "Mixed_5b": _inception_a(32),
        "Mixed_5c": _inception_a(64),
        "Mixed_5d": _inception_a(64),
        "Mixed_6a": _inception_b(),
        "Mixed_6b": _inception_c(128),
        "Mixed_6c": _inception_c(160),
        "Mixed_6d": _inception_c(160),
        "Mixed_6e": _inception_c(192),
        "Mixed_7a": _inception_d(),
        "Mixed_7b": _inception_e(),
        "Mixed_7c": _inception_e(),
    }


class InceptionV3(nn.Module):
    """Images (batch, rows, columns, 3) to the scores (logits) of `classes`; 299 x 299 as published.

    In Keras' form (`form="keras"`: batch norm without scale) 23,851,784 parameters with the running
    statistics, 23,817,352 without; in torchvision's 23,834,568, without its auxiliary classifier,
    which inference does not use.  Layers are named as in torchvision.
    """

    def __init__(
        self,
        classes: int = 1000,
        *,
        width: float = 1.0,
        form: str = "torchvision",
        dropout: float = 0.5,
        dtype: str = "float32",
    ) -> None:
        int_at_least(1, classes, "InceptionV3", "classes")
        counted = look_up("InceptionV3", "form", form, FORMS)

        def unit(inputs: int, outputs: int, window: int, stride: int, padding: str) -> ConvUnit:
            first = inputs if inputs == IMAGE else scale_channels(inputs, width)
            return ConvUnit(
                first,
                scale_channels(outputs, width),
                window,
                stride=stride,
                padding=padding,
                scaled=counted,
                dtype=dtype,
            )

        self.Conv2d_1a_3x3 = unit(IMAGE, 32, 3, 2, "valid")
        self.Conv2d_2a_3x3 = unit(32, 32, 3, 1, "valid")
        self.Conv2d_2b_3x3 = unit(32, 64, 3, 1, "same")
        self.Conv2d_3b_1x1 = unit(64, 80, 1, 1, "valid")
        self.Conv2d_4a_3x3 = unit(80, 192, 3, 1, "valid")
        inputs = scale_channels(192, width)
        self.blocks: tuple[str, ...] = ()
        for name, (units, branches) in _blocks().items():
            block = MixedBlock(inputs, units, branches, width=width, counted=counted, dtype=dtype)
            self.adopt(name, block)
            self.blocks += (name,)
            inputs = block.outputs
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(inputs, classes, dtype=dtype)

    @staticmethod
    def torch_name(name: str) -> str | None:
        """A name in torchvision's network as the path here, for `load_torch`.

        The auxiliary classifier is left out.
        """
        return None if name.startswith("AuxLogits.") else name

    def keras_names(self, names: Collection[str]) -> Callable[[str], str]:
        """From all names in the network of `keras.applications`: each as the path here.

        Layers are numbered there in the order in which they were made, beginning anywhere.
        """
        units = [path for path, module in self.modules().items() if isinstance(module, ConvUnit)]
        paths = {"predictions": "fc"}
        found = [match for name in names if (match := _KERAS_UNIT.fullmatch(name))]
        for kind, here in _KERAS_KINDS.items():
            numbers = sorted({int(m[2] or 0) for m in found if m[1] == kind})
            if len(numbers) == len(units):
                for number, unit in zip(numbers, units, strict=True):
                    paths[f"{kind}_{number}" if number else kind] = f"{unit}.{here}"

        def renamed(name: str) -> str:
            layer, _, leaf = name.rpartition(".")
            return f"{paths[layer]}.{leaf}" if layer in paths else name

        return renamed

    def forward(self, x: Array) -> Array:
        y = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        y = np.max_pool2d(y, 3, stride=2)
        y = np.max_pool2d(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(y)), 3, stride=2)
        for name in self.blocks:
            y = getattr(self, name)(y)
        scores: Array = self.fc(self.dropout(np.global_avg_pool(y)))
        return scores
