"""Native non-maximum suppression: the same boxes as the reference engine's, and as the definition's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cpu_checks import check
from tawny.models.mask_rcnn import MaskRCNN, Settings
from tawny.ops.boxes import non_maximum_suppression, suppression_by_class

RNG = np.random.default_rng(7)
SIZES = [(0, 3), (1, 1), (5, 0), (7, 3), (40, 40), (300, 20), (1000, 100), (3000, 7)]
THRESHOLDS = (0.0, 0.3, 0.5, 1.0, -0.5, 2.0)


def boxes_of(n: int, dtype: str) -> np.ndarray:
    """Boxes of which many overlap, some empty, turned over, infinite or undefined."""
    first = RNG.integers(0, 12, (n, 2))
    out = np.concatenate([first, first + RNG.integers(-1, 6, (n, 2))], axis=1).astype(dtype)
    out += RNG.choice([0.0, 0.25], out.shape).astype(dtype)
    out[RNG.random(n) < 0.02, 1] = np.nan
    out[RNG.random(n) < 0.02, 3] = np.inf
    return out


def scores_of(n: int, dtype: str) -> np.ndarray:
    """Of which many are equal."""
    out = (RNG.integers(-3, 20, n) / 16).astype(dtype)
    out[RNG.random(n) < 0.1] *= 0.0
    out[RNG.random(n) < 0.03] = np.nan
    return out


@pytest.mark.parametrize(
    "kinds", [("float32", "float32"), ("float64", "float32"), ("float32", "float64")]
)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_same_boxes_are_kept(threshold: float, kinds: tuple[str, str]) -> None:
    for n, count in SIZES:
        b, s = tw.var("b", shape=(n, 4), dtype=kinds[0]), tw.var("s", shape=(n,), dtype=kinds[1])
        given = {b: boxes_of(n, kinds[0]), s: scores_of(n, kinds[1])}
        outputs = [
            non_maximum_suppression(b, s, count, threshold),
            non_maximum_suppression(tnp.flip(b, axis=0), tnp.flip(s), count, threshold),
        ]
        check(given, outputs, threads=(1, 3))


@pytest.mark.parametrize("kind", ["int64", "uint8", "int8", "uint64", "bool"])
@pytest.mark.parametrize("least", [-np.inf, 0.0, 0.3])
def test_the_same_boxes_of_each_class_are_kept(kind: str, least: float) -> None:
    for dtype in ("float32", "float64"):
        for n, count in SIZES:
            b, s = tw.var("b", shape=(n, 4), dtype=dtype), tw.var("s", shape=(n,), dtype=dtype)
            c = tw.var("c", shape=(n,), dtype=kind)
            given = {
                b: boxes_of(n, dtype),
                s: scores_of(n, dtype),
                c: RNG.integers(0, 4, n).astype(kind),
            }
            outputs = [
                suppression_by_class(b, s, tnp.flip(c), count, 0.3, least),
                suppression_by_class(b[::2], s[::2], c[::2], count, 0.5, least),
            ]
            check(given, outputs, threads=(1, 3))


@pytest.mark.parametrize("kinds", [("int64", "float32"), ("float32", "int8"), ("uint8", "bool")])
def test_numpy_chooses_among_boxes_and_scores_of_other_dtypes(kinds: tuple[str, str]) -> None:
    b, s = tw.var("b", shape=(30, 4), dtype=kinds[0]), tw.var("s", shape=(30,), dtype=kinds[1])
    boxes = np.abs(np.nan_to_num(boxes_of(30, "float64"), posinf=9)).astype(kinds[0])
    scores = RNG.integers(0, 3, 30).astype(kinds[1])
    outputs = [non_maximum_suppression(b, s, 9, 0.3), suppression_by_class(b, s, s, 9, 0.3)]
    check({b: boxes, s: scores}, outputs, native=False)
    plain = non_maximum_suppression(boxes.astype("float64"), scores.astype("float64"), 9, 0.3)
    np.testing.assert_array_equal(
        tw.evaluate(non_maximum_suppression(boxes, scores, 9, 0.3)), plain.numpy()
    )


def test_boxes_and_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="non_maximum_suppression: operand 1 has dtype complex128"):
        non_maximum_suppression(np.zeros((2, 4)), np.zeros(2, complex), 1, 0.5)
    with pytest.raises(ValueError, match=r"classes have shape \(3,\)"):
        suppression_by_class(np.zeros((2, 4)), np.zeros(2), np.zeros(3, int), 1, 0.5)


def test_places_have_no_slope() -> None:
    boxes, scores = boxes_of(9, "float64"), scores_of(9, "float64")
    slope = tw.grad(lambda s: tnp.sum(non_maximum_suppression(boxes, s, 3, 0.5) * s[:3]))(scores)
    kept = non_maximum_suppression(boxes, scores, 3, 0.5).numpy()
    np.testing.assert_array_equal(slope.numpy(), [*kept.astype(float), *[0.0] * 6])


def test_mask_rcnn_is_saved_and_loaded(tmp_path: Path) -> None:
    """A graph with suppression is plain data; what is loaded computes the same bits, natively."""
    settings = Settings(
        classes=5, depths=(1, 1, 1, 1), width=1 / 16, candidates=100, proposals=8, detections=3
    )
    images = tw.var("images", shape=(1, 64, 64, 3), dtype="float32")
    graph = tw.Graph([images], MaskRCNN(settings)(images))
    value = np.random.default_rng(0).normal(size=images.shape).astype("float32")
    graph.save(tmp_path / "found.tawny")
    again = tw.load(tmp_path / "found.tawny")
    for optimise in (True, False):
        p, q = (g.compile(optimise=optimise) for g in (graph, again))
        assert "delay" not in str(p.plan)
        assert "suppression" not in str(p.plan).partition("by NumPy")[2]
        for got, want in zip(tw.tree.leaves(q(value)), tw.tree.leaves(p(value)), strict=True):
            assert got.tobytes() == want.tobytes()
