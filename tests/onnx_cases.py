"""The standard's own test cases for operators, as its package makes them, and how ours compare."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from tawny.dtype import is_bfloat16
from tawny.engine import reference
from tawny.onnx import Model
from tawny.onnx.call import UnknownValueError
from tawny.onnx.model import _leaves, _shapes
from tawny.onnx.reading import read_model

PASSING = Path(__file__).parent / "data" / "onnx_nodes.txt"
"""Names of the cases that pass.  The list may only grow."""

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


class Case(NamedTuple):
    name: str
    model: bytes
    outputs: tuple[str, ...]
    sets: Sequence[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


def plain(x: Any) -> Any:
    """Values of the package as arrays, lists and None."""
    if isinstance(x, onnx.TensorProto):
        return numpy_helper.to_array(x)
    if isinstance(x, onnx.SequenceProto):
        return numpy_helper.to_list(x)
    if isinstance(x, onnx.OptionalProto):
        return numpy_helper.to_optional(x)
    return list(map(plain, x)) if isinstance(x, (list, tuple)) else x


@cache
def cases() -> dict[str, Any]:
    """Every case by name, as the package has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return {c.name: c for kind in KINDS for c in load_model_tests(kind=kind)}


def read(case: Any) -> Case:
    """A case with its data."""
    if case.model is not None:
        model = case.model
        sets = [(plain(list(a)), plain(list(b))) for a, b in case.data_sets]
    else:
        model = onnx.load(Path(case.model_dir, "model.onnx"))
        sets = [_files(f, model) for f in sorted(Path(case.model_dir).glob("test_data_set*"))]
    outputs = tuple(o.name for o in model.graph.output)
    return Case(case.name, model.SerializeToString(), outputs, sets, case.rtol, case.atol)


def _files(folder: Path, model: Any) -> tuple[list[Any], list[Any]]:
    def values(kind: str, types: Any) -> Iterator[Any]:
        for i, value in enumerate(types):
            path = folder / f"{kind}_{i}.pb"
            if path.exists():
                proto = {
                    "tensor_type": onnx.TensorProto,
                    "sequence_type": onnx.SequenceProto,
                    "optional_type": onnx.OptionalProto,
                }[value.type.WhichOneof("value")]()
                proto.ParseFromString(path.read_bytes())
                yield plain(proto)

    return list(values("input", model.graph.input)), list(values("output", model.graph.output))


def run(case: Case, inputs: list[Any], engine: str | None = None) -> dict[str, Any]:
    """Outputs of a case: by its graph alone, computed node by node, or by a program of an engine.

    Inputs whose values decide shapes are fixed, as `values=` does it.
    """
    model = Model(read_model(case.model, "load"), {})
    given = model._inputs_of(inputs, {})
    fixed: dict[str, Any] = {}
    while True:
        shapes = {n: _shapes(x) for n, x in given.items() if n not in fixed}
        try:
            graph = model.graph(shapes, fixed)
            break
        except UnknownValueError as error:
            fixed.update({n: given[n] for n in error.inputs})
    flat = {p: x for n, v in given.items() if n not in fixed for p, x in _leaves(n, v)}
    if engine is not None:
        return graph.compile(engine=engine)(**flat)
    feeds = {v: flat[graph.names[v]] for v in graph.variables}
    return graph.unflatten(reference.run(graph.output_nodes, feeds))


def check(case: Case, engine: str | None = None) -> None:
    """Compare the outputs of a case with what the package says they are."""
    for inputs, outputs in case.sets:
        made = run(case, inputs, engine)
        for name, expected in zip(case.outputs, outputs, strict=True):
            compare(made.get(name), expected, case.rtol, case.atol)


def compare(made: Any, expected: Any, rtol: float, atol: float) -> None:
    if isinstance(expected, list):
        assert len(made) == len(expected)
        for a, b in zip(made, expected, strict=True):
            compare(a, b, rtol, atol)
    elif expected is None:
        assert made is None
    else:
        made, expected = np.asarray(made), np.asarray(expected)
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        if is_bfloat16(expected.dtype):
            made, expected = made.astype(np.float32), expected.astype(np.float32)
        np.testing.assert_allclose(made, expected, rtol=rtol, atol=atol)
