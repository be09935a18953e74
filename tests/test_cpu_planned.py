"""Whatever NumPy computes beside the arena is planned."""

from __future__ import annotations

import importlib
import pkgutil
from itertools import chain

import numpy as np
import pytest

import case_tables
import tawny as tw
import tawny.numpy as tnp
from cases import Case, parts
from tawny.array import Array
from tawny.engine.cpu.bands import scratch_of
from tawny.engine.cpu.kernel_table import kernel_alone
from tawny.engine.cpu.numpy_steps import numpy_workspace_bytes
from tawny.engine.lowering import lower
from tawny.node import Node
from tawny.ops.delay import Delay

CHAPTERS = [m.name for m in pkgutil.iter_modules(case_tables.__path__)]
SOME = frozenset({"bool", "int32", "int64", "float16", "float64", "complex128"})
"""Dtypes enough for every way a kernel is chosen."""


def steps(case: Case) -> list[Node]:
    """What computes a case, for some dtypes."""
    found: list[Node] = []
    for dtype in case.dtypes if len(case.dtypes) < 3 else SOME.intersection(case.dtypes):
        operands = [tw.var(shape=o.shape, dtype=o.dtype) for o in case.operands(dtype)]
        try:
            made = case.call(tnp, *operands)
        except (TypeError, ValueError, NotImplementedError):
            continue  # needs values, or takes no variables
        results = [r.node for r in parts(made) if isinstance(r, Array)]
        found += [n for n in lower(results).steps if not isinstance(n.op, Delay)]
    return found


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_step_by_numpy_is_planned(chapter: str) -> None:
    """What has no kernel takes memory beside the arena; the plan holds as many bytes for it."""
    cases = importlib.import_module(f"case_tables.{chapter}").CASES
    seen: set[object] = set()
    for node in chain.from_iterable(map(steps, cases)):
        key = type(node.op), node.dtype, *[i.dtype for i in node.inputs]
        if key in seen:
            continue
        seen.add(key)
        planned = scratch_of(node)
        if planned or not numpy_workspace_bytes(node):
            continue
        assert kernel_alone(node) is not None, f"{node!r} of {key} is left to NumPy"


@pytest.mark.parametrize("axis", [0, 1])
def test_arrays_of_different_dtypes_are_joined_natively(engine: str, axis: int) -> None:
    a, b, c = (tw.var(n, shape=(30, 20), dtype=d) for n, d in (("a", "int64"), ("b", "bool"), ("c", "int8")))  # fmt: skip
    graph = tw.Graph([a, b, c], tnp.concat([a, b, c], axis=axis))
    p = graph.compile(engine=engine)
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 2, (30, 20)).astype(x.dtype) for x in (a, b, c)]
    got = p(*values)
    np.testing.assert_array_equal(got, np.concatenate(values, axis))
    assert got.dtype == np.int64
    if engine == "cpu":
        assert "by NumPy" not in str(p.plan)
