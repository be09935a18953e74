"""Mask R-CNN and its parts."""

from __future__ import annotations

from tawny.models.mask_rcnn.boxes import non_maximum_suppression as non_maximum_suppression
from tawny.models.mask_rcnn.boxes import pyramid_anchors as pyramid_anchors
from tawny.models.mask_rcnn.matterport import Settings as Settings
from tawny.models.mask_rcnn.network import MEAN_PIXEL as MEAN_PIXEL
from tawny.models.mask_rcnn.network import Detections as Detections
from tawny.models.mask_rcnn.network import MaskRCNN as MaskRCNN
from tawny.models.mask_rcnn.regions import crop_and_resize as crop_and_resize
from tawny.models.mask_rcnn.regions import pyramid_crop as pyramid_crop
from tawny.models.mask_rcnn.regions import roi_align as roi_align
