"""Graphs and arrays in files: they come back equal, and no file does anything but that or an error."""

from __future__ import annotations

import importlib
import json
import math
import os
import pkgutil
import re
import stat
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
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
from graph_file_checks import (
    entry,
    graph_over,
    path_of,
    raw_file,
    round_trip,
    sample_graph,
    values_of,
    with_digest,
)
from random_graphs import assert_same_bits
from tawny.array import Array, array_for
from tawny.attributes import integer_bounds
from tawny.engine.reference import run
from tawny.files.encoding import decode, encode, field_types
from tawny.files.functions import register_function
from tawny.files.op_checks import MalformedError
from tawny.files.safetensors import read
from tawny.graph.files import GraphFileError, load, load_arrays, save, save_arrays
from tawny.graph.graph import Graph
from tawny.graph.report.trace import trace
from tawny.node import toposort
from tawny.op import CLASSES, Op
from tawny.ops.delay import Delay, LazyPrint, UserFunction
from tawny.ops.differentiation import DerivativeMarker
from tawny.rewrite.pipeline import optimise

LIMITED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


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
    for n in toposort(drawn.outputs):
        assume(not isinstance(n.op, LazyPrint) or n.op.file.it is None)
        if isinstance(n.op, UserFunction):
            register_function(f"{n.op.function!r} of random graphs", n.op.function.it)
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
    positions = again.unflatten(range(5))
    assert positions == {"a": 0, 3: [1, (2, {"deep": 3})], True: (4, ())}
    assert type(positions[True]) is tuple
    assert [(t.name, s.op.facts().name) for t, s in again.update_nodes] == [
        ("n", "add"),
        ("x", "multiply"),
    ]


@dataclass
class Named:
    left: Any
    right: Any


def test_a_dataclass_comes_back_as_a_dict(tmp_path: Path) -> None:
    x = tw.var("x")
    again = round_trip(Graph([x], Named(x + 1, [x])), tmp_path / "g.tawny")
    assert again.unflatten("ab") == {"left": "a", "right": ["b"]}


@pytest.mark.parametrize("single", [True, False])
def test_one_array_and_a_list_come_back_as_they_were(tmp_path: Path, single: bool) -> None:
    x = tw.var("x")
    again = round_trip(Graph([x], x + 1 if single else [x + 1]), tmp_path / "g.tawny")
    assert again.unflatten([7]) == (7 if single else (7,))


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
    for i in range(4_000):
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


def test_every_integer_in_an_attribute_has_bounds() -> None:
    """Whoever declares an attribute says what a file may put there, by bounds or in `mistake`."""
    of_operands = {"axes", "axis", "place"}
    for op in CLASSES.values():
        unsaved = not op.declaration.saved or issubclass(op, DerivativeMarker)
        if unsaved or op.mistake is not Op.mistake:
            continue
        bounds = integer_bounds(op)
        for field, kind in field_types(op).items():
            if "int" in re.findall(r"\w+", str(kind)) and field not in of_operands:
                assert field in bounds, f"{op.__name__}.{field}"


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


def test_what_is_no_file_is_neither_replaced_nor_written(tmp_path: Path) -> None:
    graph = tw.Graph([x := tw.var("x")], x + 1)
    os.mkfifo(tmp_path / "pipe")
    for path, kind, message in [
        (tmp_path, IsADirectoryError, "there is a folder of this name"),
        (tmp_path / "nowhere" / "g", FileNotFoundError, "there is no folder for this file"),
        (tmp_path / "pipe", OSError, "there is something of this name that is no file"),
    ]:
        with pytest.raises(kind, match=re.escape(f"{message}: {str(path)!r}")):
            graph.save(path)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
