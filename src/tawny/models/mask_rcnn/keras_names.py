"""The names of layers in Matterport's Mask R-CNN, and here."""

from __future__ import annotations

import re
from typing import Final

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
