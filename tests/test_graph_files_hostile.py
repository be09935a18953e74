"""Damaged and hostile files: a clear error or a sound graph, and nothing else."""

from __future__ import annotations

import json
import math
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from graph_file_checks import (
    entry,
    graph_over,
    path_of,
    raw_file,
    rebuilt,
    sample_graph,
    with_digest,
)
from random_graphs import evaluated
from tawny.array import array_for
from tawny.engine.reference import run
from tawny.files.safetensors import MAX_HEADER
from tawny.graph.files import GraphFileError, load, load_arrays, save
from tawny.graph.graph import Graph
from tawny.graph.report.trace import listing
from tawny.rewrite.pipeline import optimise

LIMITED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# --------------------------------------------------------------- hostile files


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
    (lambda g: g.update(outputs={"list": []}, updates=[]), "there is no output"),
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


X = tw.var("x", shape=(6, 4))
V = tw.var("v", shape=(5,))
C = tw.var("c", shape=(5,), dtype="complex128")


def _variable(name: str, **members: Any) -> Callable[[dict[str, Any]], object]:
    """A variable of another type, which its readers are not told."""
    return lambda g: next(
        n for n in g["nodes"] if n["op"] == "variable" and n["attributes"]["name"] == name
    ).update(members)


UNMAKEABLE: dict[str, tuple[Callable[[], Any], Callable[[dict[str, Any]], object], str]] = {
    "a roll backwards": (lambda: tnp.roll(X, 2, axis=0), _attribute("roll", "shifts", [-2, 3]), "shifts are"),
    "a roll by more than all": (lambda: tnp.roll(X, 2, axis=0), _attribute("roll", "shifts", [13, 3]), "shifts are"),
    "a roll of fewer axes": (lambda: tnp.roll(X, 2, axis=0), _attribute("roll", "shifts", [2]), "shifts are"),
    "a correlation of real and complex": (lambda: tnp.correlate(C, C), lambda g: g["nodes"].insert(0, {"op": "variable", "attributes": {"name": "v", "named": True}, "shape": [5], "dtype": "int8"}) or node("correlate")(g).update(inputs=[1, 0]) or g.__setitem__("inputs", [0, 1]) or g.__setitem__("outputs", 2), "operand 1 has dtype int8"),
    "a product of two dtypes": (lambda: X.T @ X, _variable("x", dtype="float32"), "is written|operand"),
    "a diagonal far outside": (lambda: tnp.diagonal(X), _attribute("diagonal", "offset", -(2**31)), "offset is"),
    "a sum in integers of floats": (lambda: tnp.sum(X, axis=0), _attribute("sum", "dtype", "int64"), "dtype is int64"),
    "a variance in another dtype": (lambda: tnp.var(X, axis=0), _attribute("var", "dtype", "float32"), "dtype is float32"),
    "a fill of another dtype": (lambda: tnp.pad(X, 1, constant_values=V[0]), lambda g: node("pad")(g)["inputs"].reverse(), "pad"),
    "real numbers between complex ones": (lambda: tnp.linspace(C[0], C[1], 3), _attribute("linspace", "dtype", "float64"), "has no float64 value"),
    "a window of four axes": (lambda: tnp.max_pool2d(X[None, :, :, None], 2), lambda g: node("max_pool")(g)["attributes"].update(window=[2] * 4, strides=[2] * 4, padding=[[0, 0]] * 4), "1 to 3 axes"),
    "a permutation of small integers": (lambda: tw.random.permutation(7), _attribute("random_permutation", "dtype", "int8"), "expected int64"),
    "a step that leads nowhere": (lambda: X[:0] * 1, _attribute("slice", "ranges", [[0, 0, -(2**62)], [0, 4, 1]]), "ranges are"),
    "a start outside": (lambda: X[:0] * 1, _attribute("slice", "ranges", [[2**62, 0, 1], [0, 4, 1]]), "ranges are"),
    "a stride that no axis has": (lambda: tnp.max_pool2d(X[None, :, :, None], 2), _attribute("max_pool", "strides", [2**31, 2]), "strides is"),
    "a number that no word holds": (lambda: tnp.repeat(V, 2), _attribute("repeat", "repeats", 2**63), "repeats is"),
    "labels out of order": (lambda: tnp.einsum("ab,b->a", X.T, tnp.ones(6)), _attribute("einsum", "subscripts", "ba,a->b"), "subscripts are"),
    "a logarithm in half precision": (lambda: tnp.logsumexp(X), _attribute("logsumexp", "dtype", "float16"), "dtype is float16"),
    "numbers from infinity on": (lambda: tnp.arange(3.0), _attribute("arange", "start", "-inf"), "must be finite"),
    "numbers an infinity apart": (lambda: tnp.arange(3.0), _attribute("arange", "step", "inf"), "must be finite"),
    "numbers that are none": (lambda: tnp.arange(3.0), _attribute("arange", "start", "nan"), "must be finite"),
    "numbers that do not move": (lambda: tnp.arange(3.0), _attribute("arange", "step", 0), "step is 0"),
    "numbers too large for floats": (lambda: tnp.arange(3.0), _attribute("arange", "start", 10**400), "finite floats|declared type"),
    "numbers outside their dtype": (lambda: tnp.arange(3), _attribute("arange", "start", 2**63), "out of bounds for int64"),
    "three truths": (lambda: tnp.arange(3), _attribute("arange", "dtype", "bool"), "booleans are 2 at most"),
    "an inverse of integers": (lambda: tnp.linalg.inv(X[:4]), _variable("x", dtype="int8"), "is written|operand"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNMAKEABLE)
def test_what_no_maker_makes_is_refused(tmp_path: Path, name: str) -> None:
    make, change, message = UNMAKEABLE[name]
    path = path_of(graph_over(make()), tmp_path)
    rebuilt(path, change)
    with pytest.raises(GraphFileError, match=message):
        load(path)


def test_makers_refuse_what_files_may_not_hold() -> None:
    with pytest.raises(TypeError, match=r"linspace: operand 0 .* has no float64 value"):
        tnp.linspace(1j, 2, 3, dtype="float64")
    for far in (2**31, 2**63, 10**30):
        for offset in (far, -far):
            assert tnp.diagonal(X, offset=offset).shape == (0,)
            assert np.asarray(tnp.diagonal(np.ones((6, 4)), offset=offset)).shape == (0,)


def test_steps_that_no_word_holds_are_in_no_graph(tmp_path: Path) -> None:
    """A step that leads to no second element counts as one."""
    value = np.arange(24.0).reshape(6, 4)
    graph = graph_over([X[:: 10**30, :: -(2**70)] * 1])
    for made in (graph, load(path_of(graph, tmp_path))):
        for engine in ("cpu", "reference"):
            (got,) = made.compile(engine=engine)(value)
            np.testing.assert_array_equal(got, value[:1, 3:])


def test_what_programs_are_compiled_to_is_in_no_file(tmp_path: Path) -> None:
    """Rows at a time: the engine is asked whether it can before a program has such steps."""
    x = tw.var("x", shape=(64, 16))
    steps = [{"op": "sin", "inputs": [0], "type": [[64, 16], "float64"]}]
    body = {"operands": [[[64, 16], "float64"]], "steps": steps, "results": [1]}
    path = path_of(graph_over([tnp.sin(x)]), tmp_path)
    rebuilt(
        path, lambda g: node("sin")(g).update(op="bands", attributes={"body": body, "height": 1})
    )
    with pytest.raises(GraphFileError, match="op bands is never in a file"):
        load(path)


BODIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a step that is no part of a kernel": lambda b: b["steps"].append(
        {"op": "sort", "attributes": {"axis": 1, "descending": False}, "inputs": [len(b["operands"])], "type": b["steps"][0]["type"]}
    ) or b["results"].__setitem__(0, len(b["operands"]) + len(b["steps"]) - 1),
    "a result that is an operand": lambda b: b["results"].__setitem__(0, 0),
    "no result": lambda b: b.__setitem__("results", []),
    "a step that reads itself": lambda b: b["steps"][0]["inputs"].__setitem__(0, len(b["operands"])),
    "an operand of another dtype": lambda b: b["operands"][0].__setitem__(1, "float32"),
    "a step of another shape": lambda b: b["steps"][0].__setitem__("type", [[4, 6], "float64"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_grouping_does_not_make_are_refused(tmp_path: Path, name: str) -> None:
    (out,) = optimise([(tnp.sin(X) * tnp.exp(X) + 1).node], evaluate=run).outputs
    path = path_of(graph_over([array_for(out)]), tmp_path)
    rebuilt(path, lambda g: BODIES[name](node("group")(g)["attributes"]["body"]))
    with pytest.raises(GraphFileError):
        load(path)


PRODUCTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "another op than a product": lambda a: a.__setitem__("product", {"op": "transpose", "attributes": {"axes": [1, 0]}}),
    "an elementwise op": lambda a: a.__setitem__("product", {"op": "add"}),
    "a product with more to it": lambda a: a["product"].__setitem__("inputs", [0]),
    "a convolution of matrices": lambda a: a.__setitem__(
        "product", {"op": "convolution", "attributes": {"strides": [1], "padding": [[0, 0]], "dilation": [1], "groups": 1}}
    ),
    "a product inside a product": lambda a: a.__setitem__("product", {"op": "fused_product", "attributes": dict(a)}),
    "a scale without a bias": lambda a: a["epilogue"].update(bias=False, scaled=True),
    "another number of operands": lambda a: a["epilogue"].update(residual=True),
    "pieces without a body": lambda a: a.__setitem__("pieces", 2),
    "no pieces": lambda a: a.__setitem__("pieces", 0),
    "a body that is none": lambda a: a.__setitem__("body", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_that_fusion_does_not_make_are_refused(tmp_path: Path, name: str) -> None:
    x, w, b = tw.var("x", (4, 8)), tw.var("w", (8, 6)), tw.var("b", (6,))
    (out,) = optimise([tnp.maximum(x @ w + b, 0).node], evaluate=run).outputs
    path = path_of(Graph([x, w, b], [array_for(out)]), tmp_path)
    assert len(load(path).order) == 4
    rebuilt(path, lambda g: PRODUCTS[name](node("fused_product")(g)["attributes"]))
    with pytest.raises(GraphFileError):
        load(path)


def test_loading_takes_as_long_as_the_file_is_large(tmp_path: Path) -> None:
    """Not as the arrays that it speaks of: nothing of them is made or counted."""
    x = tw.var("x", shape=(10**6, 10**6))
    graph = Graph([x], tnp.sum(tnp.exp(x) * 2, axis=1))
    path = path_of(graph, tmp_path)
    tracemalloc.start()
    began = time.thread_time()
    assert load(path).outputs.shape == (10**6,)
    assert time.thread_time() - began < 1
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


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
    (raw_file({"a": entry("F8_E5M2", [4], 0, 8)}, b"8" * 8), "dtype is 'F8_E5M2'"),
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


@pytest.mark.parametrize("depth", [50, 150, 900, 970, 980, 985, 990, 995, 5000])
@pytest.mark.parametrize("member", ["outputs", "inputs", "updates", "name", "sources", "nodes"])
def test_deep_nesting_is_refused(tmp_path: Path, depth: int, member: str) -> None:
    path = path_of(sample_graph(), tmp_path)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    graph = json.loads(header["__metadata__"]["graph"])
    graph[member] = "HERE"
    text = json.dumps(graph).replace('"HERE"', "[" * depth + "]" * depth)
    header["__metadata__"]["graph"] = text
    path.write_bytes(with_digest(raw_file(header, raw[8 + length :])))
    with pytest.raises(GraphFileError):
        load(path)


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
    try:
        return load(path)
    except GraphFileError:
        return None


@settings(LIMITED, max_examples=200)
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


@settings(LIMITED, max_examples=150)
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


@settings(LIMITED, max_examples=200)
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
