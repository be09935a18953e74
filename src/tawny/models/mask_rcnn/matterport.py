"""Mask R-CNN as Matterport published it for COCO: sizes, thresholds, and names of layers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Settings:
    """Everything that can be chosen; the defaults are the published network's."""

    classes: int = 81
    """Kinds of objects, of which class 0 is the background."""
    depths: tuple[int, int, int, int] = (3, 4, 23, 3)
    """Blocks of each stage of the residual network: those of ResNet101."""
    form: str = "matterport"
    """Which published form of the residual network; see `ResNet`."""
    width: float = 1.0
    """What all numbers of channels are multiplied by."""
    scales: tuple[float, ...] = (32, 64, 128, 256, 512)
    """Roots of the anchors' areas in pixels, for each level of the pyramid."""
    strides: tuple[int, ...] = (4, 8, 16, 32, 64)
    """Pixels from one place to the next, for each level of the pyramid."""
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Widths of the anchors for each unit of height."""
    deviations: tuple[float, float, float, float] = (0.1, 0.1, 0.2, 0.2)
    """What the networks' shifts of boxes are multiplied by."""
    candidates: int = 6000
    """How many of the best anchors are considered."""
    proposals: int = 1000
    """How many regions are proposed."""
    proposal_overlap: float = 0.7
    """The greatest intersection over union of two proposed regions."""
    detections: int = 100
    """How many objects are found at most."""
    detection_overlap: float = 0.3
    """The greatest intersection over union of two objects of one class."""
    confidence: float = 0.7
    """The least score of an object."""
    class_pool: int = 7
    """Rows and columns of a region for the class and box heads."""
    mask_pool: int = 14
    """Rows and columns of a region for the mask branch, whose masks have twice as many."""


_BLOCK: Final = re.compile(r"(res|bn)([2-5])([a-w])_branch(1|2[abc])")

_HEADS: Final = {
    "conv1": "backbone.conv1",
    "bn_conv1": "backbone.bn1",
    "rpn_conv_shared": "regions.shared",
    "rpn_class_raw": "regions.scores",
    "rpn_bbox_pred": "regions.shifts",
    "mrcnn_class_conv1": "classifier.conv1",
    "mrcnn_class_bn1": "classifier.bn1",
    "mrcnn_class_conv2": "classifier.conv2",
    "mrcnn_class_bn2": "classifier.bn2",
    "mrcnn_class_logits": "classifier.scores",
    "mrcnn_bbox_fc": "classifier.shifts",
    "mrcnn_mask_deconv": "masks.upsample",
    "mrcnn_mask": "masks.output",
    **{f"fpn_c{n}p{n}": f"pyramid.lateral.{n - 2}" for n in range(2, 6)},
    **{f"fpn_p{n}": f"pyramid.smooth.{n - 2}" for n in range(2, 6)},
    **{f"mrcnn_mask_conv{n}": f"masks.convolutions.{n - 1}" for n in range(1, 5)},
    **{f"mrcnn_mask_bn{n}": f"masks.norms.{n - 1}" for n in range(1, 5)},
}


def keras_name(name: str) -> str:
    """A path in that network, `rpn_model.rpn_conv_shared.kernel`, as the path here."""
    *_, layer, leaf = ["", *name.split(".")]
    if layer in _HEADS:
        return f"{_HEADS[layer]}.{leaf}"
    if found := _BLOCK.fullmatch(layer):
        kind, stage, block, branch = found.groups()
        norm = kind == "bn"
        if branch == "1":
            part = f"downsample.{int(norm)}"
        else:
            part = ("bn" if norm else "conv") + str("abc".index(branch[1]) + 1)
        return f"backbone.layer{int(stage) - 1}.{ord(block) - ord('a')}.{part}.{leaf}"
    return name
