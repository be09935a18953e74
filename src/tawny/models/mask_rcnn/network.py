"""Mask R-CNN: objects in an image, each with its class, its box and its mask.

K. He, G. Gkioxari, P. Dollar, R. Girshick: Mask R-CNN, 2017, in the structure that Matterport
published: ResNet101, feature pyramid, region proposals, class and box heads, mask branch.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy

import tawny.numpy as np
from tawny import nn
from tawny.array import Array
from tawny.errors import value_error
from tawny.models.mask_rcnn import boxes as bx
from tawny.models.mask_rcnn import matterport
from tawny.models.mask_rcnn.matterport import Settings
from tawny.models.mask_rcnn.pyramid import FEATURES, ClassHead, MaskHead, Pyramid, RegionProposals
from tawny.models.mask_rcnn.regions import pyramid_crop
from tawny.models.resnet import ResNet
from tawny.models.sizes import IMAGE, scale_channels

MEAN_PIXEL: Final = (123.7, 116.8, 103.9)
"""What is to be subtracted from the red, green and blue of an image."""


class Detections(NamedTuple):
    """The objects found in each image, best first; past the last object everything is 0."""

    boxes: Array
    """(batch, detections, 4): top, left, bottom, right as parts of the image."""
    classes: Array
    """(batch, detections): the kind of object, 0 for none."""
    scores: Array
    """(batch, detections): how sure it is."""
    masks: Array
    """(batch, detections, 28, 28): how likely each part of the box belongs to the object."""
    proposals: Array
    """(batch, proposals, 4): the regions that were looked at."""


class MaskRCNN(nn.Module):
    """Images (batch, rows, columns, 3), less `MEAN_PIXEL`, to the objects in them.

    Rows and columns are multiples of 64; the published network takes 1024 x 1024, the report's
    benchmark 768 x 768.  64,158,584 parameters with the running statistics (64,047,096 without).
    `windows` (batch, 4) are the parts of the images that are not padding.
    """

    def __init__(self, settings: Settings | None = None, *, dtype: str = "float32") -> None:
        self.settings = chosen = Settings() if settings is None else settings
        features = scale_channels(FEATURES, chosen.width)
        self.backbone = ResNet(
            chosen.depths, None, width=chosen.width, form=chosen.form, dtype=dtype
        )
        self.pyramid = Pyramid(self.backbone.channels, features, dtype)
        self.regions = RegionProposals(features, chosen, dtype)
        self.classifier = ClassHead(features, chosen, dtype)
        self.masks = MaskHead(features, chosen, dtype)

    @staticmethod
    def keras_name(name: str) -> str:
        """A path in Matterport's network as the path here, for `load_keras`."""
        return matterport.keras_name(name)

    def forward(self, images: Array, windows: Any = None) -> Detections:
        size = self._size(images)
        maps = self.pyramid(self.backbone.maps(images))
        scores, shifts = self._score_anchors(maps)
        anchors = bx.pyramid_anchors(
            size, self.settings.scales, self.settings.ratios, self.settings.strides
        )
        found: list[Detections] = []
        for image in range(images.shape[0]):
            own = [level[image] for level in maps[:-1]]
            window = (0.0, 0.0, 1.0, 1.0) if windows is None else np.asarray(windows)[image]
            proposals = self._propose(anchors, scores[image], shifts[image])
            found.append(self._detect(own, proposals, window, size))
        return Detections(*(np.stack(list(part), axis=0) for part in zip(*found, strict=True)))

    def _size(self, images: Array) -> tuple[int, int]:
        step = self.settings.strides[-1]
        if (
            images.ndim != 4
            or images.shape[-1] != IMAGE
            or any(n % step for n in images.shape[1:3])
        ):
            raise value_error(
                "MaskRCNN",
                f"the images have shape {images.shape}; accepted: (batch, rows, columns, {IMAGE}), "
                f"rows and columns multiples of {step}",
            )
        return images.shape[1], images.shape[2]

    def _score_anchors(self, maps: list[Array]) -> tuple[Array, Array]:
        """How likely each anchor of all levels is an object, and how it is to be shifted."""
        scores, shifts = zip(*(self.regions(level) for level in maps), strict=True)
        return np.concat(list(scores), axis=1), np.concat(list(shifts), axis=1)

    def _refine(self, boxes: Array, shifts: Array, window: Any) -> Array:
        deviations = numpy.array(self.settings.deviations, dtype=str(shifts.dtype))
        return bx.clip_boxes(bx.shift_boxes(boxes, shifts * deviations), window)

    def _propose(self, anchors: Any, scores: Array, shifts: Array) -> Array:
        """The regions to look at, of one image: (proposals, 4)."""
        chosen = self.settings
        best = np.top_k(scores, min(chosen.candidates, len(anchors)))
        near = np.astype(np.take(np.asarray(anchors), best.indices, axis=0), shifts.dtype)
        moved = self._refine(near, np.take(shifts, best.indices, axis=0), (0.0, 0.0, 1.0, 1.0))
        kept = bx.non_maximum_suppression(
            moved, best.values, chosen.proposals, chosen.proposal_overlap
        )
        return bx.take_or_zero(moved, kept)

    def _detect(
        self, maps: list[Array], proposals: Array, window: Any, size: tuple[int, int]
    ) -> Detections:
        """Class, box and mask of each object of one image."""
        chosen = self.settings
        regions = pyramid_crop(maps, proposals, chosen.class_pool, size)
        likely, shifts = self.classifier(regions)
        kinds, scores = np.argmax(likely, axis=-1), np.max(likely, axis=-1)
        rows = np.arange(len(kinds), dtype="int64") * chosen.classes + kinds
        own = np.take(np.reshape(shifts, (-1, 4)), rows, axis=0)
        moved = self._refine(proposals, own, window)
        kept = bx.suppression_by_class(
            moved, scores, kinds, chosen.detections, chosen.detection_overlap, chosen.confidence
        )
        boxes, classes, sure = (bx.take_or_zero(x, kept) for x in (moved, kinds, scores))
        logits = self.masks(pyramid_crop(maps, boxes, chosen.mask_pool, size))
        exists = np.reshape(kept >= 0, (-1, 1, 1))
        mask = np.sigmoid(select_class(logits, classes))
        masks = np.where(exists, mask, np.zeros((), dtype=logits.dtype))
        return Detections(boxes, classes, sure, masks, proposals)


def select_class(logits: Array, classes: Array) -> Array:
    """Of (n, rows, columns, classes) those of each object's class: (n, rows, columns).

    A sum of which one term is not 0: each object is computed by itself.
    """
    own = np.reshape(classes, (-1, 1, 1, 1)) == np.arange(logits.shape[-1], dtype=classes.dtype)
    return np.sum(np.where(own, logits, np.zeros((), dtype=logits.dtype)), axis=-1)
