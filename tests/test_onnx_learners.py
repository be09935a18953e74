"""Classical learners and what prepares data for them, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_beside import LEARNING, both, normal, rng

X = normal(7, 4)

FEATURES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "Scaler": ([X], {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [2.0, 1.0, 0.5, 3.0]}),
    "Binarizer": ([X], {"threshold": 0.25}),
    "FeatureVectorizer": ([X, normal(7, 2)], {"inputdimensions": [4, 2]}),
    "Imputer": (
        [np.where(X > 0.5, np.float32("nan"), X)],
        {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")},
    ),
    "OneHotEncoder": ([np.array([3, 5, 9, 3], "int64")], {"cats_int64s": [5, 3], "zeros": 1}),
    "LabelEncoder": (
        [np.array([3, 5, 9, 3], "int64")],
        {"keys_int64s": [5, 3], "values_floats": [0.5, 0.25], "default_float": 7.0},
    ),
    "LinearRegressor": (
        [X],
        {"coefficients": list(map(float, normal(8))), "intercepts": [0.5, 1.5], "targets": 2},
    ),
}


@pytest.mark.parametrize("op", FEATURES)
def test_columns(op: str) -> None:
    operands, attributes = FEATURES[op]
    ours, theirs = both(op, operands, LEARNING, **attributes)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    assert ours[0].shape == theirs[0].shape


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_over_their_norm(norm: str) -> None:
    ours, theirs = both("Normalizer", [abs(X)], LEARNING, norm=norm)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_classifiers(transform: str, classes: int) -> None:
    given = list(map(float, normal(4 * classes)))
    ours, theirs = both(
        "LinearClassifier",
        [X],
        LEARNING,
        2,
        coefficients=given,
        intercepts=[0.1] * classes,
        classlabels_ints=list(range(4, 4 + classes)),
        post_transform=transform,
    )
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_machines_of_kernels(kernel: str) -> None:
    ours, theirs = both(
        "SVMRegressor",
        [X],
        LEARNING,
        coefficients=list(map(float, normal(5))),
        support_vectors=list(map(float, normal(20))),
        n_supports=5,
        rho=[0.3],
        kernel_type=kernel,
        kernel_params=[0.4, 0.2, 3.0],
    )
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)


def trees(
    word: str, columns: int, count: int = 5, depth: int = 3, mode: str = ""
) -> dict[str, Any]:
    """Whole trees with random questions, and leaves that give to random columns."""
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]
    inner, whole = 2**depth - 1, 2 ** (depth + 1) - 1
    made: dict[str, Any] = {
        f"nodes_{n}": []
        for n in (
            "treeids",
            "nodeids",
            "featureids",
            "values",
            "modes",
            "truenodeids",
            "falsenodeids",
        )
    }
    made |= {f"{word}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(count):
        for node in range(whole):
            leaf = node >= inner
            own = {
                "treeids": tree,
                "nodeids": node,
                "featureids": 0 if leaf else int(rng.integers(4)),
                "values": 0.0 if leaf else float(rng.normal()),
                "modes": "LEAF" if leaf else mode or str(rng.choice(modes)),
                "truenodeids": 0 if leaf else 2 * node + 1,
                "falsenodeids": 0 if leaf else 2 * node + 2,
            }
            for name, value in own.items():
                made[f"nodes_{name}"].append(value)
            if leaf:
                gift = {
                    "treeids": tree,
                    "nodeids": node,
                    "ids": int(rng.integers(columns)),
                    "weights": float(rng.normal()),
                }
                for name, value in gift.items():
                    made[f"{word}_{name}"].append(value)
    return made


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("mode", ["BRANCH_LEQ", ""])
def test_trees_that_give_numbers(aggregate: str, mode: str) -> None:
    columns = 2 if aggregate == "SUM" else 1
    ours, theirs = both(
        "TreeEnsembleRegressor",
        [normal(40, 4)],
        LEARNING,
        n_targets=columns,
        base_values=[0.5] * columns,
        aggregate_function=aggregate,
        **trees("target", columns, mode=mode),
    )
    # ONNX Runtime leaves the base value out where no leaf speaks of a target; the standard does not.
    untold = theirs[0] == 0
    np.testing.assert_array_equal(ours[0][untold], 0.5)
    np.testing.assert_allclose(ours[0][~untold], theirs[0][~untold], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(
    ("classes", "column", "positive"),
    [(2, 0, True), (2, 0, False), (2, 1, True), (2, 1, False), (3, None, False), (4, 2, True)],
)
def test_trees_that_give_classes(
    transform: str, classes: int, column: int | None, positive: bool
) -> None:
    given = trees("class", classes, mode="BRANCH_LEQ")
    if column is not None:  # the leaves give to one class alone
        given["class_ids"] = [column] * len(given["class_ids"])
    if positive:
        given["class_weights"] = [abs(w) / 5 for w in given["class_weights"]]
    ours, theirs = both(
        "TreeEnsembleClassifier",
        [normal(40, 4)],
        LEARNING,
        2,
        classlabels_int64s=list(range(4, 4 + classes)),
        post_transform=transform,
        **given,
    )
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-5)
