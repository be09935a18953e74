"""An op added by the steps of `docs/design.md`, "Adding an op": all else follows from them.

The op is declared here, as it would be in its chapter, with a reference kernel, a native kernel, a
public function and a case; no other file knows it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from cases import EVERYTHING, Case, assert_same
from graph_file_checks import rebuilt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.attributes import Positive
from tawny.eager import make_eager
from tawny.engine.blocks import CopyBlock
from tawny.engine.cpu import unavailable
from tawny.engine.cpu.kernel_table import NATIVE, Kernel, native
from tawny.engine.cpu.kernels.copies import copy_kernel
from tawny.engine.layout import Memory
from tawny.engine.reference.kernel import KERNELS, kernel
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.node import Node, make
from tawny.op import CLASSES, FACTS, Gradient, Op, Type
from tawny.operator import public
from test_functions import MODES

# ------------------------------------------------------- step 1: in its chapter


class Plough(Op, name="plough", gradient=Gradient.LINEAR, may_fail=False):
    """Rows of a matrix, one of every `period` turned round."""

    period: Positive

    def mistake(self, types: Sequence[Type]) -> str | None:
        return None if len(types[0][0]) == 2 else f"operand 0 has shape {types[0][0]}; a matrix"

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return wrap(make(self, (cotangent.node,)))


@public()
def plough(x: ArrayLike, period: int = 2) -> Array:
    """Rows of `x`, the last of every `period` turned round."""
    return wrap(make(Plough(period), (lift(x, "plough"),)))


# --------------------------------------------------------- step 2: kernels


@kernel(Plough)
def by_numpy(op: Plough, x: np.ndarray) -> np.ndarray:
    turned = x.copy()
    last = slice(op.period - 1, None, op.period)
    turned[last] = x[last, ::-1]
    return turned


@native(Plough)
def by_copies(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel:
    """A block for the rows of each place in a period; those that turn run backwards."""
    assert isinstance(node.op, Plough)
    (given,), (result,), period = operands, results, node.op.period
    (rows, columns), (down, along), (step, item) = given.shape, given.strides, result.strides
    blocks: list[CopyBlock] = []
    for place in range(min(period, rows)):
        turns = place == period - 1
        first = place * down + turns * max(columns - 1, 0) * along
        sizes = -(-(rows - place) // period), columns
        steps = period * down, -along if turns else along
        blocks.append(CopyBlock(0, first, sizes, steps, place * step, (period * step, item)))
    return Kernel(*copy_kernel(blocks, 1, given.dtype.itemsize))


# ---------------------------------------------- steps 3 and 4: its name, and a case


def witness(x: np.ndarray, period: int = 2) -> np.ndarray:
    return np.array([row[::-1] if (i + 1) % period == 0 else row for i, row in enumerate(x)])


CASE = Case(
    "plough", lambda xp, x: xp.plough(x, 3), lambda x: witness(x, 3), ((8, 5),), EVERYTHING,
    special=True,
)  # fmt: skip


TABLES: tuple[tuple[Any, object], ...] = (
    *((table, "plough") for table in (CLASSES, FACTS, PUBLIC_FUNCTIONS)),
    *((table, Plough) for table in (KERNELS, NATIVE)),
)
ENTRIES = [table.pop(key) for table, key in TABLES]
"""What the steps above entered: it is there while the tests of this module run, and no longer."""


@pytest.fixture(scope="module", autouse=True)
def named() -> Iterator[None]:
    """The op in all tables, and its name in both namespaces."""
    with pytest.MonkeyPatch.context() as patch:
        for (table, key), entry in zip(TABLES, ENTRIES, strict=True):
            patch.setitem(table, key, entry)
        patch.setattr(tnp, "plough", plough, raising=False)
        patch.setattr(tw.eager, "plough", make_eager(plough), raising=False)
        yield


# ------------------------------------------------------------ what follows


@pytest.mark.parametrize("mode", MODES)
def test_the_function_agrees_with_its_witness(mode: str) -> None:
    for dtype in CASE.dtypes:
        operands = CASE.operands(dtype)
        (got,) = np.atleast_3d(MODES[mode](CASE, operands)).reshape(1, 8, 5)
        assert_same(got, CASE.witness(*operands), CASE)


@pytest.mark.parametrize("shape", [(1, 1), (7, 4), (6, 0), (300, 513)])
def test_programs_of_every_engine_compute_it(engine: str, shape: tuple[int, int]) -> None:
    x = tw.var("x", shape=shape)
    outputs = [plough(x), plough(tnp.sin(x).T, 3) + 1, tnp.sum(plough(x[::-1]), axis=0)]
    value = np.random.default_rng(0).standard_normal(shape)
    got = tw.Graph([x], outputs).compile(engine=engine)(value)
    want = [witness(value) if value.size else value]
    want.append((witness(np.sin(value).T, 3) if value.size else np.sin(value).T) + 1)
    want.append((witness(value[::-1]) if value.size else value).sum(axis=0))
    for have, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(have, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(unavailable() is not None, reason="needs compiled code")
def test_the_native_kernel_is_found_and_planned() -> None:
    x = tw.var("x", shape=(64, 64))
    graph = tw.Graph([x], plough(plough(x) * 2, 5))
    assert "by NumPy" not in str(graph.compile().plan)
    assert graph.plan().peak_bytes == graph.compile(engine="reference").plan.peak_bytes


@pytest.mark.parametrize("transform", [tw.grad, tw.jacrev, tw.jacfwd, tw.hessian])
def test_derivatives_follow_in_both_modes(transform: Callable[..., Any]) -> None:
    value = np.random.default_rng(1).standard_normal((4, 3))

    def through(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        last = transform is tw.grad or transform is tw.hessian
        return lambda x: (tnp.sum if last else tnp.asarray)(tnp.exp(function(x)) * x)

    rows = np.arange(12).reshape(4, 3)
    got = transform(through(plough))(value)
    want = transform(through(lambda x: tnp.reshape(tnp.ravel(x)[witness(rows).ravel()], (4, 3))))(
        value
    )
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12)


def test_derivatives_are_those_of_differences() -> None:
    tw.testing.check_grads(lambda x: tnp.tanh(plough(x)), (np.ones((3, 2)) / 3,), order=2)


def test_it_is_applied_to_a_batch() -> None:
    values = np.random.default_rng(2).standard_normal((5, 4, 3))
    got = tw.vmap(plough)(values)
    np.testing.assert_array_equal(np.asarray(got), np.stack([witness(x) for x in values]))


def test_graphs_in_files_hold_it_and_are_checked(tmp_path: Path) -> None:
    x = tw.var("x", shape=(4, 3))
    path = tmp_path / "field.tawny"
    tw.Graph([x], plough(x, 3)).save(path)
    value = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(tw.load(path).compile()(value), witness(value, 3))
    rebuilt(path, lambda graph: graph["nodes"][-1]["attributes"].update(period=0))
    with pytest.raises(ValueError, match="plough: period is 0; expected at least 1"):
        tw.load(path)


def test_what_nobody_said_has_safe_answers() -> None:
    node = plough(tw.var("x", shape=(8, 8))).node
    cost = node.cost()
    assert (cost.bytes_read, cost.bytes_written) == (512, 512)
    assert cost.operations >= 0
    assert node.op.may_overwrite((node.shape, node.dtype)) == frozenset()
    assert node.op.slice_rows((8, 8), [(8, 8)], (0, 4)) is None
    assert node.op.multiply_adds((8, 8), [(8, 8)]) == 0


def test_equal_ops_are_one_node_and_are_folded() -> None:
    x = tw.var("x", shape=(4, 4))
    assert plough(x).node is plough(x).node
    program = tw.Graph([x], x + plough(np.ones((4, 4)), 2)).compile()
    assert program.plan.lowered.steps[0].op.facts().name == "add"
    np.testing.assert_array_equal(program(np.zeros((4, 4))), np.ones((4, 4)))


PACKAGES = {
    *("ops", "engine", "rewrite", "autodiff", "numpy", "graph", "random", "special.py"),
    *("loops", "formulas", "onnx", "distributed"),
}
"""Where classes of ops are named: chapters, kernels, rules for graphs that have them or for blocks of
arrays, functions, printers, other formats."""


def test_nobody_else_keeps_a_table_of_ops() -> None:
    """Planning, files, networks and optimisers ask an op for what they need to know of it."""
    source = Path(tw.__file__).parent
    names = {kind.__name__ for kind in CLASSES.values()} - {"Group"}  # which holds other ops
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source)
        if place.parts[0] in PACKAGES:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tawny.ops."):
                listed = names.intersection(alias.name for alias in node.names)
                assert not listed, f"{place} names {listed}"
