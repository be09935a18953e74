"""Loops, scans, branches and recurrent layers of files: as ops of ours, equal to ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import tawny as tw  # noqa: E402
from onnx_beside import normal, run_both  # noqa: E402

SCAN = """<ir_version: 8, opset_import: ["": 18]>
sums (float[5] start, float[60, 5] xs) => (last, all)
{
    last, all = Scan<num_scan_inputs = 1, body = step (float[5] sum, float[5] x)
        => (float[5] next, float[5] row)
    { half = Constant<value = float {0.5}>()
      kept = Mul(sum, half)
      next = Add(kept, x)
      row = Mul(next, next) }>(start, xs)
}"""

STEPS = """<ir_version: 8, opset_import: ["": 18]>
powers (float[3] x) => (last, all)
{
    count = Constant<value = int64 {50}>()
    true = Constant<value = bool {1}>()
    last, all = Loop<body = step (int64 i, bool going, float[3] v)
        => (bool more, float[3] next, float[3] row)
    { more = Identity(going)
      shrink = Constant<value = float {0.9}>()
      place = Cast<to = 1>(i)
      part = Mul(v, shrink)
      next = Add(part, place)
      row = Neg(next) }>(count, true, x)
}"""

COUNTED = """<ir_version: 8, opset_import: ["": 18]>
powers (int64 count, float[3] x) => (last)
{
    true = Constant<value = bool {1}>()
    last = Loop<body = step (int64 i, bool going, float[3] v) => (bool more, float[3] next)
    { more = Identity(going)
      shrink = Constant<value = float {0.9}>()
      place = Cast<to = 1>(i)
      part = Mul(v, shrink)
      next = Add(part, place) }>(count, true, x)
}"""

UNTIL = """<ir_version: 8, opset_import: ["": 18]>
halves (float x) => (last, steps)
{
    true = Constant<value = bool {1}>()
    zero = Constant<value = int64 {0}>()
    last, steps = Loop<body = step (int64 i, bool going, float v, int64 n)
        => (bool more, float next, int64 next_n)
    { half = Constant<value = float {0.5}>()
      one = Constant<value = int64 {1}>()
      next = Mul(v, half)
      next_n = Add(n, one)
      more = Greater(next, half) }>("", true, x, zero)
}"""

GROWING = """<ir_version: 8, opset_import: ["": 18]>
longer (float[1] x) => (last)
{
    count = Constant<value = int64 {40}>()
    true = Constant<value = bool {1}>()
    last = Loop<body = step (int64 i, bool going, float[n] v) => (bool more, float[m] next)
    { more = Identity(going)
      double = Add(v, x)
      next = Concat<axis = 0>(v, x) }>(count, true, x)
}"""

BRANCHES = """<ir_version: 8, opset_import: ["": 18]>
choice (bool which, float[4, 4] x) => (y)
{
    y = If<then_branch = long () => (float[4, 4] a)
        { b = MatMul(x, x)
          c = Tanh(b)
          d = MatMul(c, c)
          a = Exp(d) },
      else_branch = short () => (float[4, 4] a)
        { b = Neg(x)
          c = Sin(b)
          a = Cos(c) }>(which)
}"""

CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "scan": (SCAN, {"start": normal(5), "xs": normal(60, 5)}, ["last", "all"]),
    "steps": (STEPS, {"x": normal(3)}, ["last", "all"]),
    "counted": (COUNTED, {"count": np.array(7), "x": normal(3)}, ["last"]),
    "no step": (COUNTED, {"count": np.array(0), "x": normal(3)}, ["last"]),
    "until": (UNTIL, {"x": np.array(100.0, "float32")}, ["last", "steps"]),
    "growing": (GROWING, {"x": normal(1)}, ["last"]),
    "one branch": (BRANCHES, {"which": np.array(True), "x": normal(4, 4)}, ["y"]),
    "other branch": (BRANCHES, {"which": np.array(False), "x": normal(4, 4)}, ["y"]),
}

LOOPS = {
    "scan": "loop",
    "steps": "loop",
    "counted": "while_loop",
    "until": "while_loop",
    "one branch": "switch",
}
"""The op that each becomes."""


@pytest.mark.parametrize("name", CASES)
def test_loops_and_branches_are_equal(name: str, engine: str) -> None:
    text, given, outputs = CASES[name]
    ours, theirs = run_both(onnx.parser.parse_model(text), given, outputs, engine)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_are_single_ops(name: str) -> None:
    graph = tw.onnx.load(onnx.parser.parse_model(CASES[name][0]).SerializeToString())
    assert isinstance(graph, tw.Graph)
    names = [n.op.facts().name for n in graph.order if n.value is None]
    assert LOOPS[name] in names
    assert len(names) < 20


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("lengths", [False, True])
def test_long_sequences_are_loops(op: str, direction: str, lengths: bool) -> None:
    count, gates = 2 if direction == "bidirectional" else 1, {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    helper, size, steps = onnx.helper, 4, 40
    given = {
        "x": normal(steps, 2, 3),
        "w": normal(count, gates * size, 3),
        "r": normal(count, gates * size, size),
        "b": normal(count, 2 * gates * size),
        "n": np.array([steps, 17], "int32"),
    }
    names = ["x", "w", "r", "b", *["n"] * lengths]
    outputs = ["y", "h", *["c"] * (op == "LSTM")]
    node = helper.make_node(op, names, outputs, hidden_size=size, direction=direction)
    inputs = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(given[n].dtype), given[n].shape
        )
        for n in names
    ]
    made = [onnx.ValueInfoProto(name=n) for n in outputs]
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, made),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    ours, theirs = run_both(model, {n: given[n] for n in names}, outputs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    graph = tw.onnx.load(model.SerializeToString())
    assert isinstance(graph, tw.Graph)
    assert len(graph.order) < 30 * steps / 8
