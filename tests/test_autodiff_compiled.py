"""Values and derivatives of every row of the tables, compiled on every engine.

The tables' own tests compute derivatives node by node; here they are optimised, grouped, planned and
run as one program.  Each run compiles another slice; `TAWNY_LARGE_TESTS` compiles all.
"""

from __future__ import annotations

import importlib
import os
import random
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from cases import Failures
from gradient_cases import Row, bent
from tawny.array import Array
from tawny.engine.reference import run
from tawny.errors import ValuesNeededError
from tawny.tree import leaves

SLICE = {"opencl": 6}
"""How many rows one run compiles: fewer where compiling takes long."""


def rows() -> Iterator[Row]:
    """All rows of the tables beside this file."""
    for path in sorted(Path(__file__).parent.glob("test_autodiff_*.py")):
        if path == Path(__file__) or "importorskip" in path.read_text("utf-8"):
            continue
        for table in vars(importlib.import_module(path.stem)).values():
            listed = table.values() if isinstance(table, dict) else table
            if isinstance(table, (dict, list, tuple)):
                yield from (row for row in listed if isinstance(row, Row))


ROWS = list({id(row): row for row in rows()}.values())


def smooth(values: Any) -> list[Array]:
    return [y for y in leaves(values) if isinstance(y, Array) and y.dtype.kind in "fc"]


def check(row: Row, engine: str) -> None:
    """A program of the results and the gradients gives what evaluation node by node gives."""
    args = [np.asarray(arg) for arg in row.args]
    inputs = [tw.var(f"x{i}", arg.shape, arg.dtype) for i, arg in enumerate(args)]
    try:
        results = smooth(bent(row.call)(*inputs))
    except ValuesNeededError:
        return  # how many elements the result has depends on values
    total = sum((tnp.sum(tnp.real(y)) for y in results), tnp.asarray(0.0))
    results += smooth(tw.gradients(total, smooth(inputs)))
    feeds = {x.node: arg for x, arg in zip(inputs, args, strict=True)}
    wanted = run([y.node for y in results], feeds)
    got = tw.Graph(inputs, results).compile(engine=engine)(*args)
    for one, other in zip(got, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        rtol = 1e-9 if np.finfo(other.dtype).eps < 1e-10 else 1e-4
        sizes = np.abs(other[np.isfinite(other)])
        atol = rtol * float(np.max(sizes, initial=1.0))
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def test_derivatives_are_the_same_compiled(engine: str) -> None:
    seed = time.time_ns() % 2**40
    print(f"rows drawn with seed {seed}")
    count = len(ROWS) if "TAWNY_LARGE_TESTS" in os.environ else SLICE.get(engine, 80)
    assert len(ROWS) > 1000
    failures = Failures()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # inputs without a derivative
        for row in random.Random(seed).sample(ROWS, count):
            with failures.of(row.name):
                check(row, engine)
    failures.raise_all()


def test_moved_arrays_without_elements_are_added() -> None:
    """Of two arrays of no elements neither is moved for the other: derivatives of systems add such."""
    x, y = tw.var("x", (2, 0, 3)), tw.var("y", (2, 3, 0))
    for results in (
        [tnp.matrix_transpose(y) + x],
        [
            tnp.matrix_transpose(y) * x,
            x - tnp.matrix_transpose(y),
            tnp.sin(tnp.matrix_transpose(y)),
        ],
    ):
        got = tw.Graph([x, y], results).compile()(np.zeros((2, 0, 3)), np.zeros((2, 3, 0)))
        assert [one.shape for one in got] == [one.shape for one in results]
    matrices = np.random.default_rng(0).standard_normal((2, 4, 3))
    slope = tw.grad(lambda x: tnp.sum(tnp.linalg.svd(x)[0] ** 3))
    np.testing.assert_allclose(tw.jit(slope)(matrices), slope(matrices).numpy(), rtol=1e-9)
