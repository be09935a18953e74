"""Mask R-CNN: its parts against loops written from their definitions, the whole against PyTorch."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from shared_weights import all_drawn, image
from tawny.models.mask_rcnn import (
    MaskRCNN,
    Settings,
    crop_and_resize,
    non_maximum_suppression,
    pyramid_anchors,
    pyramid_crop,
    roi_align,
)
from tawny.models.mask_rcnn.boxes import clip_boxes, shift_boxes, suppression_by_class
from tawny.models.mask_rcnn.network import select_class
from tawny.nn import weights
from tawny.nn.parameters import Declaration

RNG = np.random.default_rng()
DATA = np.load(Path(__file__).parent / "data" / "mask_rcnn.npz")


# ----------------------------------------------------------------- definitions


def at(features: np.ndarray, y: float, x: float) -> np.ndarray:
    """The bilinear sample at a place within the map."""
    top, left = min(int(y), len(features) - 1), min(int(x), features.shape[1] - 1)
    bottom, right = min(top + 1, len(features) - 1), min(left + 1, features.shape[1] - 1)
    dy, dx = y - top, x - left
    upper = features[top, left] * (1 - dx) + features[top, right] * dx
    return (
        upper * (1 - dy) + (features[bottom, left] * (1 - dx) + features[bottom, right] * dx) * dy
    )


def cropped(features: np.ndarray, box: np.ndarray, size: int) -> np.ndarray:
    rows, columns, channels = features.shape
    out = np.zeros((size, size, channels))
    for i in range(size):
        for j in range(size):
            part = [n / (size - 1) if size > 1 else 0.5 for n in (i, j)]
            y = (box[0] + (box[2] - box[0]) * part[0]) * (rows - 1)
            x = (box[1] + (box[3] - box[1]) * part[1]) * (columns - 1)
            if 0 <= y <= rows - 1 and 0 <= x <= columns - 1:
                out[i, j] = at(features, y, x)
    return out


def aligned(
    features: np.ndarray, box: np.ndarray, size: int, scale: float, samples: int
) -> np.ndarray:
    rows, columns, channels = features.shape
    out = np.zeros((size, size, channels))
    top, left = box[0] * scale - 0.5, box[1] * scale - 0.5
    height, width = (box[2] - box[0]) * scale / size, (box[3] - box[1]) * scale / size
    for i in range(size):
        for j in range(size):
            for a in range(samples):
                for b in range(samples):
                    y = top + height * (i + (a + 0.5) / samples)
                    x = left + width * (j + (b + 0.5) / samples)
                    if -1 <= y <= rows and -1 <= x <= columns:
                        inside = min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)
                        out[i, j] += at(features, *inside) / samples**2
    return out


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union > 0 else 0.0


def kept_of(boxes: np.ndarray, scores: np.ndarray, threshold: float, count: int) -> list[int]:
    kept: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        if len(kept) < count and all(overlap(boxes[i], boxes[k]) <= threshold for k in kept):
            kept.append(i)
    return kept


def filled(kept: list[int], count: int) -> list[int]:
    return kept + [-1] * (count - len(kept))


def random_boxes(n: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    corners = np.sort(RNG.uniform(low, high, (n, 2, 2)), axis=1)
    return corners.reshape(n, 4)


# --------------------------------------------------------------------- regions


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("shape", [(7, 9, 3), (1, 4, 2), (6, 1, 1)])
def test_crop_and_resize_samples_the_box(shape: tuple[int, int, int], size: int) -> None:
    features = RNG.standard_normal(shape)
    boxes = np.concatenate(
        [random_boxes(4), random_boxes(4, -0.5, 1.5), [[0, 0, 1, 1], [0.3, 0.3, 0.3, 0.3]]]
    )
    got = crop_and_resize(features, boxes, size).numpy()
    expected = np.stack([cropped(features, b, size) for b in boxes])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_rounding_takes_no_sample_on_the_edge_for_outside() -> None:
    low = RNG.uniform(0, 0.9, (500, 2)).astype(np.float32)
    boxes = np.concatenate([low, np.ones_like(low)], axis=1)
    regions = crop_and_resize(np.ones((193, 97, 1), np.float32), boxes, 7).numpy()
    np.testing.assert_allclose(regions, 1, rtol=1e-5)


@pytest.mark.parametrize(("size", "samples", "scale"), [(1, 1, 1.0), (3, 2, 0.25), (2, 3, 0.5)])
def test_roi_align_is_the_mean_of_samples_in_bins(size: int, samples: int, scale: float) -> None:
    features = RNG.standard_normal((6, 8, 2))
    boxes = np.concatenate([random_boxes(6, 0, 20), random_boxes(4, -12, 50)])
    got = roi_align(features, boxes, size, scale=scale, samples=samples).numpy()
    expected = np.stack([aligned(features, b, size, scale, samples) for b in boxes])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_a_box_is_cropped_from_the_level_of_its_size() -> None:
    image = (256, 192)
    maps = [RNG.standard_normal((64 >> i, 48 >> i, 2)) for i in range(4)]
    boxes = np.concatenate(
        [random_boxes(30), random_boxes(10, 0.4, 0.5), np.zeros((1, 4)), [[0, 0, 1, 1]]]
    )
    got = pyramid_crop(maps, boxes, 3, image).numpy()
    levels = set()
    for box, region in zip(boxes, got, strict=True):
        side = math.sqrt((box[2] - box[0]) * (box[3] - box[1]))
        octave = round(math.log2(side / (224 / math.sqrt(256 * 192)))) if side else -9
        levels.add(level := min(3, max(0, 2 + octave)))
        np.testing.assert_allclose(region, cropped(maps[level], box, 3), rtol=1e-9, atol=1e-12)
    assert levels == {0, 1, 2}
    larger = pyramid_crop(maps, boxes[-1:], 3, (2048, 2048)).numpy()[0]
    np.testing.assert_allclose(larger, cropped(maps[3], boxes[-1], 3), rtol=1e-9, atol=1e-12)


def test_regions_are_differentiable_with_respect_to_the_map() -> None:
    boxes = random_boxes(3)
    features = RNG.standard_normal((4, 5, 2))
    tw.testing.check_grads(lambda m: crop_and_resize(m, boxes, 3), (features,), order=1)
    tw.testing.check_grads(lambda m: roi_align(m, boxes * 4, 2), (features,), order=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: crop_and_resize(np.zeros((2, 3)), np.zeros((1, 4)), 2),
            "features have shape (2, 3)",
        ),
        (
            lambda: crop_and_resize(np.zeros((2, 3, 1)), np.zeros((1, 3)), 2),
            "boxes have shape (1, 3)",
        ),
        (lambda: roi_align(np.zeros((2, 3, 1)), np.zeros((1, 4)), 0), "size is 0"),
        (lambda: roi_align(np.zeros((2, 3, 1)), np.zeros((1, 4)), 2, samples=0), "samples is 0"),
        (
            lambda: non_maximum_suppression(np.zeros((2, 3)), np.zeros(2), 1, 0.5),
            "boxes have shape (2, 3)",
        ),
        (
            lambda: non_maximum_suppression(np.zeros((2, 4)), np.zeros(3), 1, 0.5),
            "scores have shape (3,)",
        ),
        (lambda: non_maximum_suppression(np.zeros((2, 4)), np.zeros(2), -1, 0.5), "count is -1"),
    ],
)
def test_what_does_not_fit_is_refused(call, message: str) -> None:
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


# ------------------------------------------------------------------------ boxes


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 25),
    count=st.integers(0, 12),
    threshold=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 10**6),
)
def test_suppression_keeps_the_best_of_those_that_overlap(
    n: int, count: int, threshold: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    boxes = np.sort(rng.integers(0, 5, (n, 2, 2)), axis=1).reshape(n, 4).astype(float)
    scores = rng.integers(0, 6, n).astype(float)
    got = non_maximum_suppression(boxes, scores, count, threshold).numpy()
    assert got.tolist() == filled(kept_of(boxes, scores, threshold, count), count)
    kinds = rng.integers(0, 3, n)
    by_class = suppression_by_class(boxes, scores, kinds, count, threshold, 1.0).numpy()
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    for kind in (1, 2):
        these = np.flatnonzero((kinds == kind) & (scores >= 1) & (area > 0))
        kept += [these[k] for k in kept_of(boxes[these], scores[these], threshold, count)]
    kept.sort(key=lambda i: (-scores[i], i))
    assert by_class.tolist() == filled(kept[:count], count)


def test_suppression_waits_for_values_that_come_later() -> None:
    boxes, scores = tw.var("boxes", shape=(5, 4)), tw.var("scores", shape=(5,))
    program = tw.Graph([boxes, scores], non_maximum_suppression(boxes, scores, 3, 0.5)).compile()
    for _ in range(2):
        values = random_boxes(5), RNG.uniform(size=5)
        assert program(*values).tolist() == filled(kept_of(*values, 0.5, 3), 3)


def test_anchors_lie_about_each_place_with_the_area_of_their_level() -> None:
    anchors = pyramid_anchors((128, 64), (32, 100), (0.5, 1.0, 2.0), (4, 32))
    assert anchors.shape == ((32 * 16 + 4 * 2) * 3, 4)
    assert anchors.dtype == np.float32
    pixels = anchors * [127, 63, 127, 63] + [0, 0, 1, 1]
    for number, (stride, row, column, ratio, scale) in {
        0: (4, 0, 0, 0.5, 32), 1: (4, 0, 0, 1.0, 32), 3 * 17 + 2: (4, 1, 1, 2.0, 32), 32 * 16 * 3 + 3 * 3: (32, 1, 1, 0.5, 100),
    }.items():  # fmt: skip
        top, left, bottom, right = pixels[number]
        assert (top + bottom) / 2 == pytest.approx(row * stride, abs=1e-3)
        assert (left + right) / 2 == pytest.approx(column * stride, abs=1e-3)
        assert (bottom - top) * (right - left) == pytest.approx(scale**2, rel=1e-4)
        assert (right - left) / (bottom - top) == pytest.approx(ratio, rel=1e-4)


def test_boxes_are_shifted_by_parts_of_their_size_and_cut_at_the_window() -> None:
    box = np.array([[0.2, 0.4, 0.6, 0.6]])
    moved = shift_boxes(box, np.array([[0.5, -1.0, math.log(2), 0.0]])).numpy()
    np.testing.assert_allclose(moved, [[0.2, 0.2, 1.0, 0.4]])
    np.testing.assert_allclose(
        clip_boxes(moved, (0.1, 0.25, 0.7, 0.9)).numpy(), [[0.2, 0.25, 0.7, 0.4]]
    )
    outside = clip_boxes(np.array([[-2.0, -1.0, -0.5, 3.0]])).numpy()
    np.testing.assert_allclose(outside, [[0, 0, 0, 1]])


# ------------------------------------------------------------------ the network


@pytest.fixture(scope="module")
def network() -> tuple[MaskRCNN, np.ndarray]:
    facts = json.loads(DATA["json"].tobytes())
    model = MaskRCNN(
        Settings(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in facts["settings"].items()}
        )
    )
    weights.load_torch(model, all_drawn(facts["parameters"]))
    return model, image("mask_rcnn", tuple(facts["input"]))


def test_the_network_finds_what_pytorch_finds(network: tuple[MaskRCNN, np.ndarray]) -> None:
    model, x = network
    images = tw.var("images", shape=x.shape, dtype="float32")
    found = tw.Graph([images], model(images)).compile()(x)
    assert found.classes.tolist() == [DATA["classes"].tolist()]
    assert set(found.classes[0]) >= {3, 4}
    for name, atol in (("proposals", 1e-5), ("boxes", 1e-4), ("scores", 1e-4), ("masks", 1e-3)):
        np.testing.assert_allclose(
            getattr(found, name)[0], DATA[name], rtol=1e-3, atol=atol, err_msg=name
        )


def test_images_of_a_batch_are_searched_apart(network: tuple[MaskRCNN, np.ndarray]) -> None:
    model, x = network
    half = np.array([[0, 0, 1, 0.5]], np.float32)
    alone = [tw.evaluate(*model(x, w)) for w in (np.array([[0, 0, 1, 1]], np.float32), half)]
    pair = tw.evaluate(
        *model(np.concatenate([x, x]), np.concatenate([[[0, 0, 1, 1]], half]).astype(np.float32))
    )
    assert float(alone[1][0][..., 3].max()) <= 0.5 < float(alone[0][0][..., 3].max())
    for got, *expected in zip(pair, *alone, strict=True):
        np.testing.assert_allclose(got, np.concatenate(expected), rtol=1e-4, atol=1e-5)


def masks_of_all_classes(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for each class, some of them not finite, and the class of each object."""
    logits = RNG.normal(size=(7, 3, 4, 5)).astype(dtype)
    logits[RNG.random(logits.shape) < 0.3] = np.inf
    logits[RNG.random(logits.shape) < 0.2] = -np.inf
    logits[RNG.random(logits.shape) < 0.2] = np.nan
    return logits, RNG.integers(0, 5, 7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_mask_of_an_object_is_that_of_its_class(dtype: str, engine: str) -> None:
    given, classes = masks_of_all_classes(dtype)
    logits = tw.var("logits", shape=given.shape, dtype=dtype)
    kinds = tw.var("kinds", shape=classes.shape, dtype="int64")
    program = tw.Graph([logits, kinds], select_class(logits, kinds)).compile(engine=engine)
    got = program(logits=given, kinds=classes)
    want = np.take_along_axis(given, classes.reshape(-1, 1, 1, 1), axis=-1)[..., 0]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_the_mask_of_a_class_has_the_derivative_of_its_choice() -> None:
    given, classes = masks_of_all_classes("float64")
    weight = RNG.normal(size=given.shape[:-1])
    _, slope = tw.evaluate(
        *tw.value_and_grad(lambda x: tnp.sum(select_class(x, tnp.asarray(classes)) * weight))(
            tnp.asarray(np.where(np.isfinite(given), given, 1.0))
        )
    )
    want = np.where(classes.reshape(-1, 1, 1, 1) == np.arange(5), weight[..., None], 0)
    np.testing.assert_array_equal(slope, want)


def test_names_of_matterport_are_known() -> None:
    model = MaskRCNN(Settings(width=1 / 32, classes=3))
    pairs = [("conv1", "bn_conv1")]
    for stage, depth in enumerate((3, 4, 23, 3), 2):
        for block in "abcdefghijklmnopqrstuvw"[:depth]:
            pairs += [
                (f"res{stage}{block}_branch{b}", f"bn{stage}{block}_branch{b}")
                for b in ("2a", "2b", "2c", *("1" * (block == "a")))
            ]
    pairs += [(f"mrcnn_class_conv{i}", f"mrcnn_class_bn{i}") for i in (1, 2)] + [
        (f"mrcnn_mask_conv{i}", f"mrcnn_mask_bn{i}") for i in (1, 2, 3, 4)
    ]
    alone = "fpn_c2p2 fpn_c3p3 fpn_c4p4 fpn_c5p5 fpn_p2 fpn_p3 fpn_p4 fpn_p5 rpn_model/rpn_conv_shared rpn_model/rpn_class_raw rpn_model/rpn_bbox_pred mrcnn_class_logits mrcnn_bbox_fc mrcnn_mask_deconv mrcnn_mask".split()
    layers = dict.fromkeys([p[0] for p in pairs] + alone, ("kernel", "bias"))
    layers |= {p[1]: ("gamma", "beta", "moving_mean", "moving_variance") for p in pairs}
    ours = {".".join(map(str, path)): m for path, m in model.walk() if isinstance(m, Declaration)}
    member = {
        "kernel": "weight",
        "gamma": "scale",
        "beta": "shift",
        "moving_mean": "mean",
        "moving_variance": "variance",
    }
    values: dict[str, np.ndarray] = {}
    for layer, leaves in layers.items():
        for leaf in leaves:
            path = model.keras_name(f"{layer}/{leaf}".replace("/", "."))
            stem, _, last = path.rpartition(".")
            values[f"{layer}/{leaf}:0"] = RNG.standard_normal(
                ours[f"{stem}.{member.get(last, last)}"].shape
            )
    assert len(values) == len(ours)
    weights.load_keras(model, values, rename=model.keras_name)
    got = ours["backbone.layer3.22.conv2.weight"].value
    np.testing.assert_array_equal(got, values["res4w_branch2b/kernel:0"].astype(np.float32))
    upsample = ours["masks.upsample.weight"].value
    np.testing.assert_array_equal(
        upsample, np.swapaxes(values["mrcnn_mask_deconv/kernel:0"], -1, -2).astype(np.float32)
    )


def test_sizes_that_do_not_halve_six_times_are_refused(
    network: tuple[MaskRCNN, np.ndarray],
) -> None:
    with pytest.raises(ValueError, match="multiples of 64"):
        network[0](np.zeros((1, 128, 100, 3), np.float32))


def test_nothing_is_found_where_nothing_is_sure(network: tuple[MaskRCNN, np.ndarray]) -> None:
    model, x = network
    model = MaskRCNN(
        Settings(
            classes=5,
            depths=(1, 1, 1, 1),
            width=1 / 16,
            candidates=20,
            proposals=4,
            detections=3,
            confidence=1.1,
        )
    )
    found = model(tnp.asarray(x))
    boxes, classes, scores, masks = tw.evaluate(
        found.boxes, found.classes, found.scores, found.masks
    )
    assert not boxes.any()
    assert not classes.any()
    assert not scores.any()
    assert not masks.any()
