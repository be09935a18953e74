"""The sizes and thresholds of Mask R-CNN, as Matterport published them for COCO."""

from __future__ import annotations

from dataclasses import dataclass


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
