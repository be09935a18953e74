"""Operators of ensembles of decision trees: all trees are walked at once, question by question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32, INT64, DType
from tawny.node import Value
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import select
from tawny.onnx.operators.features import rows_of
from tawny.onnx.operators.learners import class_labels, transform
from tawny.onnx.table import MACHINE_LEARNING, operator

COMPARISONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
"""The questions that nodes ask, in the order of their numbers."""

MEMBER: Final = len(COMPARISONS)
"""The number of the question whether a value is one of several."""

MOST_DEPTH: Final = 1000
"""The greatest number of questions on the way to a leaf; real trees have tens."""


class Trees(NamedTuple):
    """Nodes of trees, one table for all; a leaf leads to itself."""

    roots: Value
    columns: Value
    """The column that a node asks about."""
    limits: Value
    questions: Value
    """The number of the question that a node asks about its limit."""
    missing: Value
    """Whether NaN goes where the answer is yes."""
    yes: Value
    no: Value
    is_leaf: Value
    scores: Value
    """What a leaf adds to each column of the scores."""
    members: Value | None = None
    """The values that a node with the question `MEMBER` asks for, NaN where there are fewer."""


def leaves(call: NodeCall, x: Array, trees: Trees) -> Array:
    """The leaf of each tree that each row comes to."""
    if trees.columns.size and not 0 <= trees.columns.min() <= trees.columns.max() < x.shape[1]:
        call.fail(f"a node asks about a column that operand 0 of shape {x.shape} does not have")
    here = np.broadcast_to(np.asarray(trees.roots), (x.shape[0], len(trees.roots)))
    rows = np.reshape(np.arange(x.shape[0]), (-1, 1))
    names = ("columns", "limits", "yes", "no", "questions", "missing")
    tables = {name: np.asarray(getattr(trees, name)) for name in names}
    asked = sorted(set(trees.questions[~trees.is_leaf].tolist()))
    for _ in range(_depth(call, trees)):
        now = {name: np.take(table, here) for name, table in tables.items()}
        values = x[rows, now["columns"]]
        answers = [_answer(trees, number, values, now["limits"], here) for number in asked]
        holds = answers[0]
        for number, answer in zip(asked[1:], answers[1:], strict=True):
            holds = select(np.equal(now["questions"], number), answer, holds)
        if trees.missing.any():
            holds = np.logical_or(holds, np.logical_and(np.isnan(values), now["missing"]))
        here = select(holds, now["yes"], now["no"])
    return here


def _answer(trees: Trees, number: int, values: Array, limits: Array, here: Array) -> Array:
    """The answers to one question."""
    if number < MEMBER:
        return [*COMPARISONS.values()][number](values, limits)
    members = np.take(np.asarray(trees.members), here, axis=0)
    return np.any(np.equal(np.expand_dims(values, -1), members), axis=-1)


def _depth(call: NodeCall, trees: Trees) -> int:
    """The most questions from a root to a leaf."""
    here, depth = numpy.unique(trees.roots), 0
    while not trees.is_leaf[here].all():
        asked = here[~trees.is_leaf[here]]
        here = numpy.unique(numpy.concatenate([trees.yes[asked], trees.no[asked]]))
        depth += 1
        if depth > MOST_DEPTH:
            call.fail(f"trees are deeper than {MOST_DEPTH}, or their nodes form a cycle")
    return depth


def sum_scores(call: NodeCall, x: Array, trees: Trees, aggregate: str) -> Array:
    """What the leaves of all trees give to each row."""
    here = leaves(call, x, trees)
    call.check_elements(x.shape[0] * trees.roots.size * trees.scores.shape[1], "all leaves")
    found = np.take(np.asarray(trees.scores), here, axis=0)
    match aggregate:
        case "SUM":
            return np.sum(found, axis=1)
        case "AVERAGE":
            return np.sum(found, axis=1) / float(trees.roots.size)
        case "MIN":
            return np.min(found, axis=1)
        case _:
            return np.max(found, axis=1)


# --------------------------------------------------------------- lists of nodes


def read_lists(call: NodeCall, word: str, columns: int, dtype: DType) -> Trees:
    """Trees as nodes list them that have leaves among their nodes."""
    trees, numbers = call.ints("nodes_treeids"), call.ints("nodes_nodeids")
    modes, features = call.texts("nodes_modes"), call.ints("nodes_featureids")
    limits = _numbers(call, "nodes_values", dtype)
    missing = call.ints("nodes_missing_value_tracks_true", ()) or (0,) * len(trees)
    targets = [call.ints(f"nodes_{answer}nodeids") for answer in ("true", "false")]
    lists = (numbers, modes, features, limits, missing, *targets)
    places = {key: i for i, key in enumerate(zip(trees, numbers, strict=False))}
    if {len(trees), len(places)} != set(map(len, lists)) | {len(trees)}:
        call.fail("the lists of nodes differ in length, or name a node twice")
    unknown = sorted({*modes} - {*COMPARISONS, "LEAF"})
    if unknown:
        call.fail(f"nodes_modes has {unknown[0]!r}; accepted: LEAF, {', '.join(COMPARISONS)}")
    is_leaf = numpy.array([m == "LEAF" for m in modes], bool)
    ways: list[Value] = []
    for wanted in targets:
        way = numpy.arange(len(trees))
        for i in numpy.flatnonzero(~is_leaf):
            key = trees[i], wanted[i]
            if key not in places:
                call.fail(f"node {numbers[i]} of tree {key[0]} leads to {key[1]}, which is none")
            way[i] = places[key]
        ways.append(way)
    reached = numpy.zeros(len(trees), bool)
    for way in ways:
        reached[way[~is_leaf]] = True
    order = [*COMPARISONS]
    return Trees(
        numpy.flatnonzero(~reached),
        numpy.where(is_leaf, 0, numpy.array(features, numpy.int64)),
        limits,
        numpy.array([0 if m == "LEAF" else order.index(m) for m in modes], numpy.int64),
        numpy.array(missing, numpy.int64) != 0,
        ways[0],
        ways[1],
        is_leaf,
        _leaf_scores(call, places, word, columns, dtype),
    )


def _numbers(call: NodeCall, name: str, dtype: DType) -> Value:
    """An attribute of numbers, or the array that newer files have in its place."""
    if call.has(f"{name}_as_tensor"):
        return call.tensor(f"{name}_as_tensor").ravel().astype(dtype)
    return numpy.array(call.floats(name), numpy.float32).astype(dtype)


def _leaf_scores(
    call: NodeCall, places: dict[tuple[int, int], int], word: str, columns: int, dtype: DType
) -> Value:
    """What each leaf adds to each column of the scores."""
    call.check_elements(len(places) * columns, "scores of leaves")
    table = numpy.zeros((len(places), columns), dtype)
    trees, numbers = call.ints(f"{word}_treeids"), call.ints(f"{word}_nodeids")
    wanted, weights = call.ints(f"{word}_ids"), _numbers(call, f"{word}_weights", dtype)
    if not len(trees) == len(numbers) == len(wanted) == len(weights):
        call.fail("the lists of leaves differ in length")
    for tree, number, column, weight in zip(trees, numbers, wanted, weights, strict=True):
        if (tree, number) not in places or not 0 <= column < columns:
            call.fail(f"leaf {number} of tree {tree} gives to {column}, which there is not")
        table[places[tree, number], column] += weight
    return table


_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")


def _scores_of_lists(call: NodeCall, word: str, columns: int) -> Array:
    """The scores of a node that lists its trees with leaves among the nodes."""
    x = rows_of(call)
    aggregate = call.choice("aggregate_function", "SUM", _AGGREGATES)
    made = sum_scores(call, x, read_lists(call, word, columns, x.dtype), aggregate)
    base = _base_values(call)
    return made + np.asarray(numpy.array(base, x.dtype)) if len(base) == columns else made


def _base_values(call: NodeCall) -> Sequence[float]:
    name = "base_values_as_tensor"
    return call.tensor(name).ravel().tolist() if call.has(name) else call.floats("base_values", ())


@operator("TreeEnsembleRegressor", domain=MACHINE_LEARNING)
def tree_regressor(call: NodeCall) -> Array:
    """What the leaves of trees give, added."""
    scores = _scores_of_lists(call, "target", call.integer("n_targets", 1))
    return transform(call, scores).astype(FLOAT32)


@operator("TreeEnsembleClassifier", domain=MACHINE_LEARNING)
def tree_classifier(call: NodeCall) -> tuple[Array, Array]:
    """The class that the leaves of trees give most to, and the scores of all."""
    labels, base = class_labels(call), _base_values(call)
    given = sorted({*call.ints("class_ids")})
    scores = _scores_of_lists(call, "class", labels.shape[0])
    if labels.shape[0] != 2 or len(given) > 1:
        best = np.argmax(_given_scores(call, scores), axis=1)
        return np.take(labels, best), transform(call, scores).astype(FLOAT32)
    own = scores[:, 0] if given == [0] else scores[:, 1]
    own = own + float(base[0]) if len(base) == 1 else own
    shares = bool((_numbers(call, "class_weights", FLOAT32) >= 0).all())
    best = np.greater(own, 0.5 if shares else 0.0).astype(INT64)
    if given == [0]:
        made = _two_scores(call, own, shares)
    else:
        made = transform(call, np.stack([scores[:, 0], own], axis=1))
    return np.take(labels, best), made.astype(FLOAT32)


def _given_scores(call: NodeCall, scores: Array) -> Array:
    """The scores, with the least possible for classes that no leaf gave anything to."""
    x = rows_of(call)
    trees = read_lists(call, "class", scores.shape[1], x.dtype)
    numbers = numpy.array(call.ints("nodes_treeids"), numpy.int64)
    there = numpy.zeros(trees.scores.shape, bool)
    places = {key: i for i, key in enumerate(zip(numbers, call.ints("nodes_nodeids"), strict=True))}
    keys = zip(call.ints("class_treeids"), call.ints("class_nodeids"), strict=True)
    for key, column in zip(keys, call.ints("class_ids"), strict=True):
        there[places[key], column] = True
    all_leaves = [
        there[trees.is_leaf & (numbers == tree)].all(axis=0) for tree in numpy.unique(numbers)
    ]
    if numpy.logical_or.reduce(all_leaves).all():
        return scores
    reached = np.any(np.take(np.asarray(there), leaves(call, x, trees), axis=0), axis=1)
    return select(reached, scores, np.asarray(-np.inf, dtype=scores.dtype))


def _two_scores(call: NodeCall, own: Array, shares: bool) -> Array:
    """The scores of two classes of which leaves give to one alone: the other has what is left."""
    if call.text("post_transform", "NONE") == "LOGISTIC":
        return np.stack([np.sigmoid(-own), np.sigmoid(own)], axis=1)
    return np.stack([1 - own if shares else -own, own], axis=1)


# ------------------------------------------------------ lists of nodes and of leaves


@operator("TreeEnsemble", domain=MACHINE_LEARNING)
def tree_ensemble(call: NodeCall) -> Array:
    """What the leaves of trees give, put together."""
    x = call.array(0)
    aggregate = _AGGREGATES[call.integer("aggregate_function", 1)]
    scores = sum_scores(call, x, _read_arrays(call, x.dtype), aggregate)
    kind = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[
        call.integer("post_transform", 0)
    ]
    return transform(call, scores, kind).astype(x.dtype)


def _read_arrays(call: NodeCall, dtype: DType) -> Trees:
    """Trees as nodes list them that have leaves apart; here these come behind the others."""
    questions = call.tensor("nodes_modes").ravel().astype(numpy.int64)
    features, limits = call.ints("nodes_featureids"), call.tensor("nodes_splits").ravel()
    weights, wanted = call.tensor("leaf_weights").ravel(), call.ints("leaf_targetids")
    inner, outer, columns = len(questions), len(weights), call.integer("n_targets", 1)
    missing = call.ints("nodes_missing_value_tracks_true", ()) or (0,) * inner
    roots = numpy.array(call.ints("tree_roots"), numpy.int64)
    if not inner == len(features) == len(limits) == len(missing) or len(wanted) != outer:
        call.fail("the lists of nodes or of leaves differ in length")
    if roots.size and not 0 <= roots.min() <= roots.max() < inner:
        call.fail(f"tree_roots are {roots.tolist()}; there are {inner} nodes")
    if outer and not 0 <= min(wanted) <= max(wanted) < columns:
        call.fail(f"leaf_targetids are beyond the {columns} targets")
    if inner and not 0 <= questions.min() <= questions.max() <= MEMBER:
        call.fail(f"nodes_modes are 0 to {MEMBER}")
    call.check_elements((inner + outer) * columns, "scores of leaves")
    scores = numpy.zeros((inner + outer, columns), dtype)
    scores[inner + numpy.arange(outer), list(wanted)] = weights.astype(dtype)

    def longer(values: Value) -> Value:
        return numpy.concatenate([values, numpy.zeros(outer, values.dtype)])

    return Trees(
        roots,
        longer(numpy.array(features, numpy.int64)),
        longer(limits.astype(dtype)),
        longer(questions),
        longer(numpy.array(missing, numpy.int64) != 0),
        _way(call, "true", inner, outer),
        _way(call, "false", inner, outer),
        numpy.arange(inner + outer) >= inner,
        scores,
        _members(call, questions, inner + outer, dtype),
    )


def _way(call: NodeCall, answer: str, inner: int, outer: int) -> Value:
    """Where each node leads for an answer; leaves lead to themselves."""
    targets = numpy.array(call.ints(f"nodes_{answer}nodeids"), numpy.int64)
    is_leaf = numpy.array(call.ints(f"nodes_{answer}leafs"), numpy.int64) != 0
    if not len(targets) == len(is_leaf) == inner:
        call.fail("the lists of nodes differ in length")
    most = numpy.where(is_leaf, outer, inner)
    if ((targets < 0) | (targets >= most)).any():
        call.fail("a node leads to one that there is not")
    return numpy.concatenate([targets + inner * is_leaf, inner + numpy.arange(outer)])


def _members(call: NodeCall, questions: Value, count: int, dtype: DType) -> Value | None:
    """The values that each node asks for whose question is `MEMBER`."""
    asking = numpy.flatnonzero(questions == MEMBER)
    if not asking.size:
        return None
    flat = call.tensor("membership_values").ravel().astype(dtype)
    ends = numpy.flatnonzero(numpy.isnan(flat))
    groups = numpy.split(flat, ends)[: len(asking)]
    if len(groups) < len(asking):
        call.fail(f"membership_values has {len(groups)} sets for {len(asking)} nodes")
    sets = [g[~numpy.isnan(g)] for g in groups]
    width = max(map(len, sets))
    call.check_elements(count * max(width, 1), "sets of values")
    table = numpy.full((count, max(width, 1)), numpy.nan, dtype)
    for place, values in zip(asking, sets, strict=True):
        table[place, : len(values)] = values
    return table
