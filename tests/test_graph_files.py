"""Graphs and arrays in files: they come back equal, and no file does anything but that or an error."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import pkgutil
import struct
import subprocess
import sys
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import case_tables
import random_graphs
import tawny as tw
import tawny.numpy as tnp
from cases import parts
from random_graphs import assert_same_bits, evaluated
from tawny.array import Array, array_for
from tawny.engine.reference import run
from tawny.graph.encoding import decode, encode, field_types
from tawny.graph.files import GraphFileError, load, load_arrays, save, save_arrays
from tawny.graph.graph import Graph
from tawny.graph.registry import register_function
from tawny.graph.safetensors import MAX_HEADER, _without_digest, read
from tawny.graph.trace import listing, trace
from tawny.graph.wellformed import AT_LEAST, BELOW, CHOICES, FREE, OPERANDS, MalformedError
from tawny.node import Variable, toposort
from tawny.op import CLASSES
from tawny.ops.delay import Delay, LazyPrint
from tawny.rewrite.pipeline import optimise

for _name in ("_same", "_later", "_doubled"):
    register_function(f"random_graphs.{_name}", getattr(random_graphs, _name))

LIMITED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def graph_over(outputs: Any, updates: dict[Array, Array] | None = None) -> Graph:
    """The graph of `outputs`, whose inputs are whatever variables they depend on."""
    nodes = (
        [a.node for a in parts(outputs)]
        if not isinstance(outputs, dict)
        else [a.node for a in outputs.values()]
    )
    found = [n for n in toposort(nodes) if isinstance(n.op, Variable)]
    return Graph([array_for(n) for n in found], outputs, updates)


def values_of(graph: Graph, feeds: dict[str, np.ndarray], draw: int = 0) -> list[np.ndarray]:
    return evaluated(graph.results, {n: feeds[n.name] for n in graph.variables}, draw)


def round_trip(graph: Graph, path: Path) -> Graph:
    """The graph loaded from a file, which saved again is the same file."""
    save(graph, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about inputs that nothing reads
        again = load(path)
    assert [type(n.op) for n in listing(again)] == [type(n.op) for n in listing(graph)]
    assert [(n.shape, n.dtype) for n in listing(again)] == [
        (n.shape, n.dtype) for n in listing(graph)
    ]
    second = path.with_suffix(".again")
    save(again, second)
    assert second.read_bytes() == path.read_bytes()
    return again


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize("chapter", [m.name for m in pkgutil.iter_modules(case_tables.__path__)])
def test_every_public_function_survives(chapter: str, tmp_path: Path) -> None:
    for number, case in enumerate(importlib.import_module(f"case_tables.{chapter}").CASES):
        operands = case.operands(case.dtypes[number % len(case.dtypes)])
        inputs = [tw.var(f"x{i}", shape=x.shape, dtype=x.dtype) for i, x in enumerate(operands)]
        if case.needs_values:
            inputs = [tnp.asarray(x) for x in operands]
        made = [a for a in parts(case.call(tnp, *inputs)) if isinstance(a, Array)]
        if not made:
            continue
        graph = graph_over(made)
        feeds = {f"x{i}": x for i, x in enumerate(operands)}
        path = tmp_path / "g.tawny"
        if any(isinstance(n.op, Delay) for n in graph.order):
            continue  # their functions are the tables' own
        save(graph, path)
        again = load(path)
        assert_same_bits(values_of(again, feeds), values_of(graph, feeds))


def random_graph(seed: int) -> tuple[list[Array], dict[str, np.ndarray]]:
    """Outputs of a random graph and values by name; graphs that print to a user's file are passed over."""
    drawn = random_graphs.graph_of(seed, 12)
    printed = [n.op for n in toposort(drawn.outputs) if isinstance(n.op, LazyPrint)]
    assume(all(op.file.it is None for op in printed))
    return [array_for(n) for n in drawn.outputs], {n.name: v for n, v in drawn.feeds.items()}


@LIMITED
@given(st.integers(0, 10**6))
def test_random_graphs_survive(tmp_path: Path, seed: int) -> None:
    outputs, feeds = random_graph(seed)
    graph = graph_over(outputs)
    again = round_trip(graph, tmp_path / "g.tawny")
    for draw in (0, 3):
        assert_same_bits(values_of(again, feeds, draw), values_of(graph, feeds, draw))


@settings(LIMITED, derandomize=True)
@given(st.integers(0, 10**6))
def test_optimised_graphs_survive(tmp_path: Path, seed: int) -> None:
    """Fused ops hold whole bodies of steps as attributes."""
    outputs, feeds = random_graph(seed)
    better = optimise([a.node for a in outputs], evaluate=run).outputs
    graph = graph_over([array_for(n) for n in better])
    again = round_trip(graph, tmp_path / "g.tawny")
    assert_same_bits(values_of(again, feeds), values_of(graph, feeds))


def test_fused_ops_are_among_those_tried() -> None:
    names: set[str] = set()
    for seed in range(60):
        drawn = random_graphs.graph_of(seed, 12)
        names |= {
            n.op.facts().name
            for n in graph_over(
                [array_for(n) for n in optimise(drawn.outputs, evaluate=run).outputs]
            ).order
        }
    assert "group" in names


def test_fused_products_survive(tmp_path: Path) -> None:
    x, w, b = (
        tw.var("x", shape=(4, 3), dtype="float32"),
        tw.var("w", shape=(5, 3), dtype="float32"),
        tw.var("b", shape=(5,), dtype="float32"),
    )
    (out,) = optimise([tnp.maximum(x @ w.T + b, 0).node], evaluate=run).outputs
    graph = graph_over([array_for(out)])
    again = round_trip(graph, tmp_path / "g.tawny")
    rng = np.random.default_rng(0)
    feeds = {n.name: rng.normal(size=n.shape).astype("float32") for n in graph.variables}
    assert_same_bits(values_of(again, feeds), values_of(graph, feeds))


class Pair(NamedTuple):
    left: Any
    right: Any


def test_structure_name_and_updates_survive(tmp_path: Path) -> None:
    x, n = tw.var("x", shape=(2,)), tw.var("n", dtype="int64")
    outputs = {"a": x + 1, 3: [x * 2, (x, {"deep": x - 1})], True: Pair(x / 2, ())}
    graph = Graph([x], outputs, {n: n + 1, x: x * 2}, name="näme")
    again = round_trip(graph, tmp_path / "g.tawny")
    assert again.name == "näme"
    assert [v.name for v in again.variables] == ["x", "n"]
    assert [v.name for v in again.input_nodes] == ["x"]
    positions = again.structured(range(5))
    assert positions == {"a": 0, 3: [1, (2, {"deep": 3})], True: (4, ())}
    assert type(positions[True]) is tuple
    assert [(t.name, s.op.facts().name) for t, s in again.update_nodes] == [
        ("n", "add"),
        ("x", "multiply"),
    ]


@pytest.mark.parametrize("single", [True, False])
def test_one_array_and_a_list_come_back_as_they_were(tmp_path: Path, single: bool) -> None:
    x = tw.var("x")
    again = round_trip(Graph([x], x + 1 if single else [x + 1]), tmp_path / "g.tawny")
    assert again.structured([7]) == (7 if single else (7,))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 1e308, 0.1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (2,), (0, 3), (1100,)])
def test_constants_keep_their_bits(
    tmp_path: Path, value: float, dtype: str, shape: tuple[int, ...]
) -> None:
    with np.errstate(over="ignore"):
        data = np.full(shape, value).astype(dtype)
    again = round_trip(graph_over([tnp.asarray(data)]), tmp_path / "g.tawny")
    (node,) = again.output_nodes
    assert node.value is not None
    assert (node.value.dtype, node.value.shape, node.value.tobytes()) == (
        data.dtype,
        data.shape,
        data.tobytes(),
    )
    assert not node.value.flags.writeable


def test_draws_keep_seed_and_stream(tmp_path: Path) -> None:
    tw.random.seed(2**64 - 1)
    x = tw.random.normal(shape=(3,)) + tw.random.integers(0, 5, shape=(3,))
    graph = graph_over([x])
    again = round_trip(graph, tmp_path / "g.tawny")
    for draw in (0, 1, 5):
        assert_same_bits(values_of(again, {}, draw), values_of(graph, {}, draw))
    tw.random.seed(0)


def test_nodes_know_the_lines_they_were_written_at(tmp_path: Path) -> None:
    x = tw.var("x", shape=(2,))
    graph = Graph([x], tnp.sin(x))
    save(graph, tmp_path / "g.tawny")
    assert trace(load(tmp_path / "g.tawny")) == trace(graph)
    assert "test_graph_files.py:" in trace(graph)


def test_another_process_computes_the_same(tmp_path: Path) -> None:
    x = tw.var("x", shape=(3, 3))
    q, r = tnp.linalg.qr(x)
    save(
        Graph([x], {"q": q, "r": r, "noise": tw.random.normal(shape=(2,))}, name="qr"),
        tmp_path / "g.tawny",
    )
    code = (
        "import sys, numpy\n"
        "from tawny.graph.files import load\n"
        "from tawny.engine.reference import run\n"
        "g = load(sys.argv[1])\n"
        "(x,) = g.input_nodes\n"
        "print([v.tobytes().hex() for v in run(g.output_nodes, {x: numpy.arange(9.0).reshape(3, 3) ** 1.5})])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "g.tawny"],
        check=True,
        capture_output=True,
        text=True,
    )
    graph = load(tmp_path / "g.tawny")
    expected = run(graph.output_nodes, {graph.input_nodes[0]: np.arange(9.0).reshape(3, 3) ** 1.5})
    assert done.stdout.strip() == str([v.tobytes().hex() for v in expected])


def test_long_chains_survive(tmp_path: Path) -> None:
    x = tw.var("x", shape=(2,))
    y = x
    for i in range(10_000):
        y = tnp.sin(y) + i
    graph = Graph([x], y)
    save(graph, tmp_path / "g.tawny")
    assert len(load(tmp_path / "g.tawny").order) == len(graph.order)


# ------------------------------------------------------------------- functions


def test_a_delay_is_refused_by_name_and_line_unless_registered(tmp_path: Path) -> None:
    def halved(a: np.ndarray) -> np.ndarray:
        return a / 2

    x = tw.var("x", shape=(2,))
    graph = Graph([x], tw.delay(halved, x, pure=True))
    with pytest.raises(
        ValueError, match=r"node 1, delay \(test_graph_files.py:\d+\).*halved is not registered"
    ):
        save(graph, tmp_path / "g.tawny")
    assert not (tmp_path / "g.tawny").exists()
    register_function("halved", halved)
    again = round_trip(graph, tmp_path / "g.tawny")
    assert_same_bits(values_of(again, {"x": np.ones(2)}), [np.full(2, 0.5)])
    damaged = (tmp_path / "g.tawny").read_bytes().replace(b"halved", b"halvee")
    (tmp_path / "h.tawny").write_bytes(with_digest(damaged))
    with pytest.raises(
        GraphFileError, match=r"no function is registered as 'halvee'; call tw.register_function"
    ):
        load(tmp_path / "h.tawny")


def test_lazy_print_survives_without_user_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = tw.var("x", shape=(2,))
    again = round_trip(
        Graph([x], tw.lazy_print(x, header="here", max_rows=3)), tmp_path / "g.tawny"
    )
    values_of(again, {"x": np.ones(2)})
    assert "here" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"lazy_print.*attribute file.*is not registered"):
        save(Graph([x], tw.lazy_print(x, file=sys.stderr)), tmp_path / "h.tawny")


def test_registering_checks_its_arguments() -> None:
    with pytest.raises(TypeError, match="non-empty string"):
        register_function("", abs)
    with pytest.raises(TypeError, match="must be a function"):
        register_function("f", 3)  # type: ignore[arg-type]


def test_outputs_under_odd_keys_are_refused(tmp_path: Path) -> None:
    x = tw.var("x")
    with pytest.raises(TypeError, match="key"):
        save(Graph([x], {(1, 2): x}), tmp_path / "g.tawny")


# ------------------------------------------------------------------ attributes


def test_every_attribute_has_a_rule() -> None:
    """Whoever names a new attribute says what a file may put there."""
    known = {*AT_LEAST, *BELOW, *CHOICES, *OPERANDS, *FREE}
    fields = {f for op in CLASSES.values() for f in op.fields}
    assert fields <= known
    assert known <= fields
    assert not FREE & {*AT_LEAST, *CHOICES, *OPERANDS}


def test_every_attribute_has_a_declared_type() -> None:
    for op in CLASSES.values():
        assert [*field_types(op)] == [*op.fields]


@given(st.floats())
def test_floats_are_written_exactly(value: float) -> None:
    text = json.dumps(encode(value, float), allow_nan=False)
    assert struct.pack("d", decode(json.loads(text), float)) == struct.pack(
        "d", value
    ) or math.isnan(value)


@given(st.complex_numbers())
def test_complex_numbers_are_written_exactly(value: complex) -> None:
    back = decode(json.loads(json.dumps(encode(value, complex), allow_nan=False)), complex)
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    ("data", "kind"),
    [(True, int), (1, bool), (1.0, int), ("1", int), (1, str), ([1], tuple[int, int]), ([1, "a"], tuple[int, ...]), (1 << 2000, int), ("infinity", float), (None, int), ({}, int), (0, type(None))],
)  # fmt: skip
def test_data_of_another_type_is_refused(data: Any, kind: Any) -> None:
    with pytest.raises(MalformedError):
        decode(data, kind)


@pytest.mark.parametrize("value", [object(), {1: 2}, b"x", [1], 1 << 2000])
def test_what_has_no_form_is_refused_by_name(value: Any) -> None:
    with pytest.raises(MalformedError, match=type(value).__name__ + "|bits"):
        encode(value, int)


# --------------------------------------------------------------- hostile files


def with_digest(raw: bytes) -> bytes:
    """The file with the checksum that its bytes have: what somebody who means harm would write."""
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length]
    try:
        text = json.loads(header)["__metadata__"]
        old = text["sha256"]
        digest = hashlib.sha256(_without_digest(header, text) + raw[8 + length :]).hexdigest()
        return raw[:8] + header.replace(old.encode(), digest.encode(), 1) + raw[8 + length :]
    except (ValueError, KeyError, TypeError, AttributeError):
        return raw


def rebuilt(
    path: Path, change: Callable[[dict[str, Any]], object], data: bytes | None = None
) -> None:
    """The file at `path` with its graph changed, and its checksum made right."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    graph = json.loads(header["__metadata__"]["graph"])
    change(graph)
    header["__metadata__"]["graph"] = json.dumps(graph)
    text = json.dumps(header).encode()
    path.write_bytes(with_digest(len(text).to_bytes(8, "little") + text + raw[8 + length :]))


def sample_graph() -> Graph:
    x, k, n = (
        tw.var("x", shape=(1, 6, 6, 2)),
        tw.var("k", shape=(3, 3, 2, 4)),
        tw.var("n", dtype="int64"),
    )
    h = tnp.conv2d(x, k, padding="SAME")
    u, s, _ = tnp.linalg.svd(h[0, :, :, 0])
    part = s.at[1].add(2.0)[tnp.asarray([0, 2])]
    noise = tw.random.normal(shape=(6,))
    total = tnp.sum(u * noise, axis=1) + tnp.asarray(np.arange(6.0))
    picked = tnp.where(total > 0, total, tnp.einsum("ab,b->a", u, noise))
    return Graph(
        [x, k],
        {"p": part, "t": [picked, tnp.transpose(h, (0, 3, 1, 2))]},
        {n: n + 1},
        name="sample",
    )


def path_of(graph: Graph, tmp_path: Path) -> Path:
    path = tmp_path / "g.tawny"
    save(graph, path)
    return path


def node(op: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda g: next(n for n in g["nodes"] if n["op"] == op)


def _set(op: str, member: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda g: node(op)(g).__setitem__(member, value)


def _attribute(op: str, name: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda g: node(op)(g)["attributes"].__setitem__(name, value)


HOSTILE: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (_set("sum", "op", "os.system"), r"op 'os.system' is not known"),
    (_set("sum", "op", ["sum"]), "is not known"),
    (_attribute("sum", "shell", "rm"), "attribute 'shell' is not known; expected: axes, keepdims, dtype"),
    (lambda g: node("sum")(g)["attributes"].pop("axes"), "attribute axes is missing"),
    (_attribute("sum", "axes", [True]), "attribute axes"),
    (_attribute("sum", "axes", [5]), "axes are"),
    (_attribute("sum", "axes", [-1]), "axes are"),
    (_attribute("sum", "axes", [0, 0]), "axes are"),
    (_attribute("sum", "keepdims", 1), "attribute keepdims"),
    (_attribute("sum", "dtype", "object"), "attribute dtype"),
    (_attribute("random_normal", "seed", -1), "seed is -1"),
    (_attribute("random_normal", "dtype", "int64"), "dtype is int64"),
    (_attribute("random_normal", "shape", [10**30]), "is written"),
    (_attribute("scatter", "mode", "exec"), "mode is 'exec'"),
    (_attribute("scatter", "ranges", [[0, -1, 1]]), "ranges are"),
    (_attribute("einsum", "subscripts", "ab,b->z"), "subscripts are"),
    (_attribute("einsum", "subscripts", "ab->a"), "node .*einsum"),
    (_attribute("convolution", "strides", [0, 1]), "strides is"),
    (_attribute("convolution", "strides", [1]), "convolution"),
    (_attribute("convolution", "groups", 10**9), "convolution"),
    (_attribute("part", "index", 3), "parts"),
    (_attribute("part", "index", -1), "index is -1"),
    (_attribute("variable", "name", ""), "name is empty"),
    (_attribute("variable", "name", "k"), "two variables are called 'k'"),
    (_attribute("transpose", "axes", [0, 1, 2]), "transpose"),
    (_set("add", "inputs", [10**6]), "is not an integer from 0 to"),
    (_set("add", "inputs", [-1, 0]), "is not an integer from 0 to"),
    (_set("add", "inputs", [0]), "1 operands came; expected 2"),
    (_set("add", "inputs", "01"), "expected a list of integers"),
    (_set("add", "inputs", [True, 0]), "is not an integer"),
    (_set("sum", "shape", [7]), r"it gives float64\[6\], but float64\[7\] is written"),
    (_set("sum", "dtype", "float32"), r"it gives float64\[6\], but float32\[6\] is written"),
    (_set("sum", "shape", [-6]), "shape is"),
    (_set("sum", "shape", [0] * 65), "shape is"),
    (_set("sum", "at", [99]), "at: 99"),
    (_set("sum", "extra", 1), "expected shape and dtype"),
    (_set("svd", "parts", []), "but nothing is written"),
    (_set("svd", "parts", [[[6], "float64"]]), "is written"),
    (lambda g: node("svd")(g).update(shape=[6, 6], dtype="float64", parts=None), "svd"),
    (_set("constant", "shape", [2**40]), "is written"),
    (lambda g: g["nodes"].append({"op": "constant", "shape": [], "dtype": "float64"}), "there is no array"),
    (lambda g: g["nodes"].insert(0, 3), "node 0: expected an object"),
    (lambda g: g.__setitem__("nodes", {}), "graph, nodes: expected list"),
    (lambda g: g.__setitem__("inputs", [0]), "depend on variables that are not inputs: 'k'"),
    (lambda g: g.__setitem__("inputs", [0, 0, 1]), "input 1 is 'x'"),
    (lambda g: g.__setitem__("inputs", [5]), "not a variable"),
    (lambda g: g.__setitem__("inputs", 5), "graph, inputs"),
    (lambda g: g.__setitem__("updates", [[2, 0]]), "the update of 'n'"),
    (lambda g: g.__setitem__("updates", [[2]]), "expected a variable and a value"),
    (lambda g: g.__setitem__("updates", [[2, 2], [2, 2]]), "updated twice"),
    (lambda g: g.__setitem__("updates", [0]), "updates"),
    (lambda g: g.__setitem__("outputs", {"set": [1]}), "expected a tuple, list or dict"),
    (lambda g: g.__setitem__("outputs", {"dict": [["a", 1], ["a", 1]]}), "occurs twice"),
    (lambda g: g.__setitem__("outputs", {"dict": [[[], 1]]}), "expected a key"),
    (lambda g: g.__setitem__("outputs", {"list": []}), "there is no output"),
    (lambda g: g.__setitem__("outputs", 10**20), "outputs"),
    (lambda g: g.__setitem__("outputs", json.loads('{"list":[' * 200 + "0" + "]}" * 200)), "nested more than"),
    (lambda g: g.__setitem__("sources", ["no line"]), "expected 'file:line'"),
    (lambda g: g.__setitem__("sources", ["f.py:" + "9" * 50]), "expected 'file:line'"),
    (lambda g: g.__setitem__("sources", [1]), "expected 'file:line'"),
    (lambda g: g.__setitem__("name", 3), "graph, name"),
    (lambda g: g.__setitem__("more", 3), "expected an object of"),
    (lambda g: g.pop("updates"), "expected an object of"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), HOSTILE, ids=[m for _, m in HOSTILE])
def test_a_hostile_graph_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = path_of(sample_graph(), tmp_path)
    rebuilt(path, change)
    with pytest.raises(GraphFileError, match=message) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert isinstance(error.value, ValueError)


def test_the_unchanged_sample_loads(tmp_path: Path) -> None:
    path = path_of(sample_graph(), tmp_path)
    rebuilt(path, lambda g: None)
    assert load(path).name == "sample"


def raw_file(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


BROKEN: list[tuple[bytes, str]] = [
    (b"", "expected at least 8 bytes"),
    (b"\xff" * 8, "header length"),
    ((2**40).to_bytes(8, "little") + b"{}", "header length"),
    (raw_file(b""), "starting with"),
    (raw_file(b" {}"), "starting with"),
    (raw_file(b"[]"), "starting with"),
    (raw_file(b"{"), "expected JSON"),
    (raw_file(b'{"a\xff": 1}'), "expected JSON"),
    (raw_file(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "expected JSON"),
    (raw_file(b'{"__metadata__":{"a":"1","a":"2"}}'), "occurs twice"),
    (raw_file(b'{"a": NaN}'), "NaN"),
    (raw_file(b'{"a": ' + b"9" * 5000 + b"}"), "expected JSON"),
    (raw_file({"__metadata__": {"a": 1}}), "values are strings"),
    (raw_file({"__metadata__": []}), "values are strings"),
    (raw_file({"a": 1}), "expected an object of dtype"),
    (raw_file({"a": {**entry("F64", [], 0, 8), "more": 1}}, b"8" * 8), "expected an object of dtype"),
    (raw_file({"a": entry("F65", [], 0, 8)}, b"8" * 8), "dtype is 'F65'"),
    (raw_file({"a": entry("BF16", [4], 0, 8)}, b"8" * 8), "dtype is 'BF16'"),
    (raw_file({"a": entry("F64", [-1], 0, 8)}, b"8" * 8), "shape is"),
    (raw_file({"a": entry("F64", [True], 0, 8)}, b"8" * 8), "shape is"),
    (raw_file({"a": entry("F64", [1] * 65, 0, 8)}, b"8" * 8), "shape is"),
    (raw_file({"a": entry("F64", [2**62, 0], 0, 0)}), "larger than any array"),
    (raw_file({"a": entry("F64", [2**64], 0, 8)}, b"8" * 8), "shape is"),
    (raw_file({"a": entry("F64", [2], 0, 8)}, b"8" * 8), "is 16 bytes"),
    (raw_file({"a": entry("F64", [], -8, 0)}, b"8" * 8), "data_offsets are"),
    (raw_file({"a": entry("F64", [], 8, 0)}, b"8" * 8), "is 8 bytes"),
    (raw_file({"a": entry("F64", [2**50], 0, 2**53)}), "the arrays take"),
    (raw_file({"a": entry("F64", [], 0, 8), "b": entry("F64", [], 0, 8)}, b"8" * 8), "overlaps"),
    (raw_file({"a": entry("F64", [], 8, 16)}, b"8" * 16), "leaves a hole"),
    (raw_file({"a": entry("F64", [], 0, 8)}, b"8" * 9), "the arrays take 8 bytes; the file has 9"),
    (raw_file({"a": entry("BOOL", [2], 0, 2)}, b"\x01\x02"), "neither 0 nor 1"),
    (raw_file({"__metadata__": {"sha256": "0" * 64}}), "damaged"),
    (raw_file({"__metadata__": {"complex": '["a"]'}, "a": entry("I64", [2], 0, 16)}, b"8" * 16), "it is complex"),
    (raw_file({"__metadata__": {"complex": '["a"]'}}), "it is complex"),
    (raw_file({"__metadata__": {"complex": '["a","a"]'}, "a": entry("F64", [2], 0, 16)}, b"8" * 16), "twice"),
    (raw_file({"__metadata__": {"complex": "{"}}), "complex arrays"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "message"), BROKEN, ids=[m for _, m in BROKEN])
@pytest.mark.parametrize("reader", [load, load_arrays])
def test_a_broken_file_is_refused(
    tmp_path: Path, raw: bytes, message: str, reader: Callable[[Path], object]
) -> None:
    path = tmp_path / "g"
    path.write_bytes(raw)
    with pytest.raises(GraphFileError, match=message):
        reader(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [({}, "format: None"), ({"format": "tawny.arrays"}, "format"), ({"format": "tawny.graph", "version": "2"}, "this library reads version 1"), ({"format": "tawny.graph", "version": "1"}, "metadata"), ({"format": "tawny.graph", "version": "1", "graph": "[]"}, "graph: expected an object")],
)  # fmt: skip
def test_other_files_are_not_graphs(tmp_path: Path, text: dict[str, str], message: str) -> None:
    (tmp_path / "g").write_bytes(
        with_digest(raw_file({"__metadata__": {**text, "sha256": "0" * 64}}))
    )
    with pytest.raises(GraphFileError, match=message):
        load(tmp_path / "g")


def test_claimed_sizes_are_not_allocated(tmp_path: Path) -> None:
    path = path_of(sample_graph(), tmp_path)
    rebuilt(
        path,
        lambda g: [
            _attribute("random_normal", "shape", [2**60])(g),
            _set("random_normal", "shape", [2**60])(g),
        ],
    )
    (tmp_path / "h").write_bytes((MAX_HEADER).to_bytes(8, "little") + b"{}")
    (tmp_path / "i").write_bytes(raw_file({"a": entry("F64", [2**50], 0, 2**53)}))
    tracemalloc.start()
    for name in ("g.tawny", "h", "i"):
        with pytest.raises(GraphFileError):
            load(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match="regular file"):
        load("/dev/null")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


# ---------------------------------------------------------------------- fuzzing


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("fuzz") / "g.tawny"
    save(sample_graph(), path)
    return path, path.read_bytes()


def load_or_refuse(path: Path) -> Graph | None:
    """What `load` gives; a `GraphFileError` is as good, anything else is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return load(path)
        except GraphFileError:
            return None


@settings(LIMITED, max_examples=400)
@given(st.data())
def test_random_damage_is_noticed(sample: tuple[Path, bytes], data: st.DataObject) -> None:
    path, raw = sample
    other = path.with_name("damaged")
    damaged = bytearray(raw)
    if data.draw(st.booleans()):
        damaged = damaged[: data.draw(st.integers(0, len(raw)))]
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    other.write_bytes(damaged)
    graph = load_or_refuse(other)
    if graph is not None:
        assert bytes(damaged) == raw


@settings(LIMITED, max_examples=300)
@given(st.data())
def test_damage_with_a_right_checksum_gives_an_error_or_a_sound_graph(
    sample: tuple[Path, bytes], data: st.DataObject
) -> None:
    path, raw = sample
    other = path.with_name("hostile")
    damaged = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(8, len(damaged) - 1))
        damaged[place] = data.draw(st.sampled_from(b'0123456789[]{}",:-truefalsnx\x00\xff'))
    other.write_bytes(with_digest(bytes(damaged)))
    assert_sound(load_or_refuse(other), other)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 8) | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["float64", "bool", "complex64", "x", "add", "sum", "group", "variable", "constant", "delay", "inf", ""]) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["op", "inputs", "shape", "dtype", "axes", "list", "tuple", "parts"]), inner, max_size=4),
    max_leaves=6,
)  # fmt: skip


@settings(LIMITED, max_examples=500)
@given(st.data())
def test_changed_structure_gives_an_error_or_a_sound_graph(
    sample: tuple[Path, bytes], data: st.DataObject
) -> None:
    path, raw = sample
    other = path.with_name("changed")
    other.write_bytes(raw)

    def mutate(graph: dict[str, Any]) -> None:
        for _ in range(data.draw(st.integers(1, 3))):
            spots = list(_spots(graph))
            owner, key = spots[data.draw(st.integers(0, len(spots) - 1))]
            action = data.draw(st.integers(0, 3))
            if action == 0:
                del owner[key]
            elif action == 1 and isinstance(owner[key], int) and not isinstance(owner[key], bool):
                owner[key] += data.draw(st.sampled_from([-1, 1]))
            elif action == 2:
                _, here = (
                    spots[data.draw(st.integers(0, len(spots) - 1))],
                    spots[data.draw(st.integers(0, len(spots) - 1))],
                )
                owner[key] = json.loads(json.dumps(here[0][here[1]]))
            else:
                owner[key] = data.draw(JSON_VALUES)

    rebuilt(other, mutate)
    assert_sound(load_or_refuse(other), other)


def _spots(value: Any) -> Any:
    """Every place in a JSON value, as container and key."""
    stack = [value]
    while stack:
        owner = stack.pop()
        for key in [*owner] if isinstance(owner, dict) else range(len(owner)):
            yield owner, key
            if isinstance(owner[key], (dict, list)):
                stack.append(owner[key])


def assert_sound(graph: Graph | None, path: Path) -> None:
    """A graph that loads saves to a graph that loads, and what it computes is what it says."""
    if graph is None:
        return
    again = path.with_name("again")
    save(graph, again)
    assert load_or_refuse(again) is not None
    everything = (*graph.results, *graph.variables)
    if sum(math.prod(n.shape) for n in listing(graph)) > 100_000:
        return
    feeds = {n: np.ones(n.shape, n.dtype) for n in graph.variables}
    try:
        values = evaluated(everything, feeds)
    except (IndexError, np.linalg.LinAlgError, OverflowError):
        return  # what depends on values is known when it runs
    for n, value in zip(everything, values, strict=True):
        assert (value.shape, value.dtype) == (n.shape, n.dtype)


# ------------------------------------------------------------------------ arrays


def test_arrays_survive(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    state = {
        f"{dtype} {shape}": (rng.normal(size=shape) * 100).astype(dtype)
        for dtype in ("bool", "int8", "uint64", "float16", "float64")
        for shape in ((), (3,), (0,), (2, 0, 3), (4, 5))
    }
    state["complex"] = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    state["number"] = np.complex64(1 - 0j) * np.ones(())
    state["none"] = np.zeros((0, 2), "complex64")
    state["strided"] = np.arange(24.0).reshape(4, 6)[::2, ::-3].T
    state["swapped"] = np.arange(3).astype(">i4")
    path = tmp_path / "state"
    save_arrays(path, state)
    back = load_arrays(path)
    assert back.keys() == state.keys()
    for name, value in state.items():
        expected = value.astype(value.dtype.newbyteorder("="))
        assert (back[name].dtype, back[name].shape) == (expected.dtype, expected.shape)
        assert back[name].tobytes() == expected.tobytes()
        assert back[name].flags.writeable


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    """Written by hand after the format's description: length, header, padding, data."""
    save_arrays(tmp_path / "a", {"b": np.array([1, 2], "int16"), "a": np.array(0.5)})
    raw = (tmp_path / "a").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert length % 8 == 0
    header = json.loads(raw[8 : 8 + length])
    digest = header["__metadata__"].pop("sha256")
    assert len(digest) == 64
    assert header == {
        "__metadata__": {"format": "tawny.arrays", "version": "1"},
        "a": {"dtype": "F64", "shape": [], "data_offsets": [0, 8]},
        "b": {"dtype": "I16", "shape": [2], "data_offsets": [8, 12]},
    }
    assert raw[8 + length :] == struct.pack("<dhh", 0.5, 1, 2)


def test_files_of_other_libraries_are_read(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "c": entry("C64", [1], 0, 8),
        "w": entry("F32", [2], 8, 16),
    }
    (tmp_path / "a").write_bytes(raw_file(header, struct.pack("<ffff", 1, 2, 3, 4)))
    back = load_arrays(tmp_path / "a")
    assert back["c"].tolist() == [1 + 2j]
    assert back["w"].tolist() == [3.0, 4.0]


def test_arrays_and_graphs_are_told_apart(tmp_path: Path) -> None:
    path = path_of(sample_graph(), tmp_path)
    with pytest.raises(GraphFileError, match="read it with load"):
        load_arrays(path)
    text = {"format": "tawny.arrays", "version": "9", "sha256": "0" * 64}
    (tmp_path / "a").write_bytes(with_digest(raw_file({"__metadata__": text})))
    with pytest.raises(GraphFileError, match="version"):
        load_arrays(tmp_path / "a")


@pytest.mark.parametrize(
    ("arrays", "error"),
    [({"__metadata__": [1]}, ValueError), ({"\ud800": [1]}, ValueError), ({3: [1]}, TypeError), ({"a": "text"}, TypeError), ({"a": [None]}, TypeError)],
)  # fmt: skip
def test_what_is_no_array_is_not_written(
    tmp_path: Path, arrays: Any, error: type[Exception]
) -> None:
    save_arrays(tmp_path / "a", {"kept": [1.0]})
    with pytest.raises(error):
        save_arrays(tmp_path / "a", arrays)
    assert [*load_arrays(tmp_path / "a")] == ["kept"]
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@LIMITED
@given(st.data())
def test_damaged_arrays_are_noticed(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a"
    save_arrays(
        path, {"weights": np.arange(4.0), "mask": np.array([True, False]), "z": np.array(1j)}
    )
    raw = bytearray(path.read_bytes())
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    if raw:
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    with pytest.raises(GraphFileError):
        load_arrays(path)


def test_threads_may_save_to_one_path(tmp_path: Path) -> None:
    path = tmp_path / "a"
    threads = [
        threading.Thread(target=save_arrays, args=(path, {"n": np.full(1000, i)})) for i in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({*read(path).arrays["n"].tolist()}) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
