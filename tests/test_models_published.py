"""What published networks have beside their layers: dropout, sizes, thresholds, scales."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import tawny as tw
from tawny import models, nn
from tawny.models.mask_rcnn import MEAN_PIXEL, Settings
from tawny.models.mask_rcnn.pyramid import Pyramid

DROPOUT: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], dict[str, float]]] = {
    "mnist": (models.Mnist, (1, 28, 28, 1), {"dropout": 0.1}),
    "vgg16": (models.VGG16, (1, 224, 224, 3), {"classifier.2": 0.5, "classifier.5": 0.5}),
    "squeezenet": (models.SqueezeNet, (1, 224, 224, 3), {"classifier.0": 0.5}),
    "inception": (models.InceptionV3, (1, 299, 299, 3), {"dropout": 0.5}),
    "resnet50": (models.ResNet50, (1, 224, 224, 3), {}),
}


@pytest.mark.parametrize("name", DROPOUT)
def test_dropout_is_where_it_is_published(name: str) -> None:
    make, shape, rates = DROPOUT[name]
    model = make()
    called = [row.path for row in model.summary(shape).rows if row.kind == "Dropout"]
    layers = model.modules()
    found = {path: layer.rate for path in called if isinstance(layer := layers[path], nn.Dropout)}
    assert found == rates


def test_the_digits_network_scales_pixels_as_the_report_does() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 28, 28, 1), dtype=np.uint8)
    model, plain = (models.Mnist(filters=2, hidden=4, **options) for options in ({}, {"scale": 1}))
    expected = plain(pixels.astype("float32") / 256).numpy()
    np.testing.assert_allclose(model(pixels).numpy(), expected, rtol=1e-5)


def test_the_text_network_has_the_sizes_of_the_reports_example() -> None:
    """Embedding 40, LSTM 128, dense 512."""
    rows = models.CharacterLSTM(65).summary(np.zeros((2, 100), int)).rows
    assert [(row.outputs[0], row.parameters) for row in rows] == [
        ((2, 100, 40), 65 * 40),
        ((2, 128), 4 * 128 * (40 + 128 + 1)),
        ((2, 512), 512 * (128 + 1)),
        ((2, 65), 65 * (512 + 1)),
    ]


MATTERPORT = {
    "classes": 81,
    "depths": (3, 4, 23, 3),
    "form": "matterport",
    "width": 1.0,
    "scales": (32, 64, 128, 256, 512),
    "strides": (4, 8, 16, 32, 64),
    "ratios": (0.5, 1.0, 2.0),
    "deviations": (0.1, 0.1, 0.2, 0.2),
    "candidates": 6000,
    "proposals": 1000,
    "proposal_overlap": 0.7,
    "detections": 100,
    "detection_overlap": 0.3,
    "confidence": 0.7,
    "class_pool": 7,
    "mask_pool": 14,
}
"""Those of its configuration for COCO."""


def test_mask_r_cnn_has_the_published_settings() -> None:
    assert dataclasses.asdict(Settings()) == MATTERPORT
    assert MEAN_PIXEL == (123.7, 116.8, 103.9)


def test_maps_of_the_pyramid() -> None:
    """Each is its own convolution of what all coarser ones add; the last is half of the fourth."""
    rng = np.random.default_rng(0)
    maps = [rng.normal(size=(1, 16 >> i, 8 >> i, i + 2)) for i in range(4)]
    pyramid = Pyramid((2, 3, 4, 5), 6, "float64")
    p = pyramid.parameters
    merged: np.ndarray | None = None
    expected: list[np.ndarray] = []
    for i in (3, 2, 1, 0):
        own = maps[i] @ p["lateral"][i]["weight"][0, 0] + p["lateral"][i]["bias"]
        merged = own if merged is None else own + merged.repeat(2, 1).repeat(2, 2)
        smoothed = tw.numpy.conv2d(merged, p["smooth"][i]["weight"], padding="SAME").numpy()
        expected.insert(0, smoothed + p["smooth"][i]["bias"])
    expected.append(expected[-1][:, ::2, ::2])
    found = [x.numpy() for x in pyramid([tw.numpy.asarray(m) for m in maps])]
    assert [x.shape for x in found] == [(1, 16, 8, 6), (1, 8, 4, 6), (1, 4, 2, 6), (1, 2, 1, 6), (1, 1, 1, 6)]  # fmt: skip
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
