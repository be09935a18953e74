"""One node run by Tawny and by ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime

import tawny as tw

rng = np.random.default_rng(11)
MICROSOFT = "com.microsoft"
LEARNING = "ai.onnx.ml"
OPSETS = {"": 21, MICROSOFT: 1, LEARNING: 3}


def one_node(
    op: str,
    operands: list[Any],
    domain: str,
    outputs: int,
    known: tuple[int, ...],
    **attributes: Any,
) -> tuple[Any, dict[str, Any], list[str]]:
    """A model of one node, what its inputs are, and its outputs' names."""
    helper = onnx.helper
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(operands)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name="n", domain=domain, **attributes)
    given = {
        n: x
        for i, (n, x) in enumerate(zip(names, operands, strict=True))
        if x is not None and i not in known
    }
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
    ]
    held = [onnx.numpy_helper.from_array(operands[i], names[i]) for i in known]
    made = [onnx.ValueInfoProto(name=n) for n in results]
    opsets = [helper.make_opsetid(d, v) for d, v in OPSETS.items()]
    graph = helper.make_graph([node], "g", inputs, made, held)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), given, results


def both(
    op: str,
    operands: list[Any],
    domain: str = "",
    outputs: int = 1,
    engine: str = "cpu",
    known: tuple[int, ...] = (),
    **attributes: Any,
) -> tuple[list[Any], list[Any]]:
    """The results of one node, by Tawny and by ONNX Runtime; operands at `known` are constants."""
    return run_both(*one_node(op, operands, domain, outputs, known, **attributes), engine)


def alone(op: str, operands: list[Any], domain: str = "", **attributes: Any) -> Any:
    """The first result of one node, by Tawny."""
    model, given, results = one_node(op, operands, domain, 1, (), **attributes)
    graph = tw.onnx.load(model.SerializeToString())
    assert isinstance(graph, tw.Graph)
    return graph.compile(engine="reference")(**given)[results[0]]


def run_both(
    model: Any, given: dict[str, Any], results: list[str], engine: str = "cpu"
) -> tuple[list[Any], list[Any]]:
    """The results of a model, by Tawny and by ONNX Runtime."""
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    theirs = session.run(results, given)
    graph = tw.onnx.load(data)
    assert isinstance(graph, tw.Graph)
    ours = graph.compile(engine=engine)(**given)
    return [ours[n] for n in results], theirs


def normal(*shape: int) -> Any:
    return rng.normal(size=shape).astype("float32")


def bytes_of(*shape: int, dtype: str = "uint8") -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
