"""Pickles and copies: known arrays, graphs, models and what optimisers remember."""

from __future__ import annotations

import copy
import io
import os
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import random_graphs
import tawny as tw
import tawny.numpy as tnp
from cases import EVERYTHING
from graph_file_checks import graph_over, sample_graph
from random_graphs import assert_same_bits
from tawny import nn, optim
from tawny.array import array_for
from tawny.engine.cpu import unavailable
from tawny.files.functions import register_function
from tawny.graph.pickling import plan_from
from tawny.tree import leaf_paths

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def again(x: Any, protocol: int | None = None) -> Any:
    return pickle.loads(pickle.dumps(x, protocol))


def named(data: bytes) -> set[str]:
    """What a pickle asks for by name: modules and their members."""
    found, texts = set[str](), list[str]()
    for opcode, value, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            found.add(str(value))
        elif opcode.name == "STACK_GLOBAL":
            found.add(" ".join(texts[-2:]))
        elif isinstance(value, str):
            texts.append(value)
    return found


# ---------------------------------------------------------------------- arrays


@pytest.mark.parametrize("dtype", EVERYTHING)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (40, 50)])
def test_known_arrays_keep_their_bits(dtype: str, shape: tuple[int, ...]) -> None:
    raw = np.random.default_rng(0).integers(0, 2, (*shape, np.dtype(dtype).itemsize), np.uint8)
    value = raw.view(dtype)[..., 0] if dtype != "bool" else raw[..., 0].astype(bool)
    x = tnp.asarray(value)
    for protocol in PROTOCOLS:
        other = again(x, protocol)
        assert type(other) is type(x)
        assert (other.shape, other.dtype) == (x.shape, x.dtype)
        assert other.numpy().tobytes() == value.tobytes()


def test_a_known_array_is_computed_when_it_is_pickled() -> None:
    x = tnp.sin(tnp.arange(5.0)) @ tnp.ones((5, 2))
    kept = {"x": [x, x], "n": 3}
    other = again(kept)
    assert other["x"][0] is other["x"][1]
    np.testing.assert_array_equal(other["x"][0].numpy(), x.numpy())
    np.testing.assert_array_equal((other["x"][0] + 1).numpy(), x.numpy() + 1)
    assert named(pickle.dumps(x)) == {"tawny.graph.pickling array_from"}


def test_an_array_that_depends_on_variables_is_refused_with_a_way_out() -> None:
    x = tw.var("rain", shape=(3,))
    with pytest.raises(TypeError, match=r"pickle: .* variable 'rain', .* tw\.Graph .*\[test_pick"):
        pickle.dumps(x + 1)
    np.testing.assert_array_equal(again(tw.Graph([x], x + 1)).compile()(np.ones(3)), 2)


def test_damaged_bytes_in_a_pickle_are_refused() -> None:
    data = bytearray(pickle.dumps(tnp.arange(100.0)))
    data[len(data) // 2] ^= 1
    with pytest.raises(tw.GraphFileError, match="a pickled array"):
        pickle.loads(bytes(data))
    data = bytearray(pickle.dumps(sample_graph()))
    data[len(data) // 2] ^= 1
    with pytest.raises(tw.GraphFileError, match="a pickled graph"):
        pickle.loads(bytes(data))


def test_numpy_writes_known_arrays_down() -> None:
    value = np.sin(np.arange(6.0).reshape(2, 3))
    x = tnp.sin(tnp.arange(6.0).reshape(2, 3))
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), x.numpy())
    for write in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        write(file, x, second=x * 2)
        file.seek(0)
        read = np.load(file)
        np.testing.assert_array_equal(read["arr_0"], x.numpy())
        np.testing.assert_array_equal(read["second"], 2 * x.numpy())
    text, expected = io.StringIO(), io.StringIO()
    np.savetxt(text, x, fmt="%.3f", delimiter=",")
    np.savetxt(expected, value, fmt="%.3f", delimiter=",")
    assert text.getvalue() == expected.getvalue()
    options = {"precision": 3, "separator": "; "}
    assert np.array2string(x, **options) == np.array2string(x.numpy(), **options)
    assert np.array_repr(x) == np.array_repr(x.numpy())
    assert np.array_str(x, precision=2) == np.array_str(x.numpy(), precision=2)
    with pytest.raises(TypeError, match=r"save: the array depends on variable 'v'"):
        np.save(io.BytesIO(), tw.var("v"))


# ---------------------------------------------------------------------- graphs


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_compute_the_same_bits(engine: str, seed: int) -> None:
    drawn = random_graphs.graph_of(seed, 10, impure=False)
    graph = graph_over([array_for(n) for n in drawn.outputs])
    other = again(graph)
    feeds = {n.name: drawn.feeds[n] for n in graph.variables}
    results: list[Any] = []
    for g in (graph, other, copy.deepcopy(graph), copy.copy(graph)):
        program = g.compile(engine=engine)
        program.set(**feeds)
        results.append(program.run())
    for got in results[1:]:
        assert_same_bits(got, results[0])


def test_a_graph_keeps_names_structure_updates_and_draws() -> None:
    graph = sample_graph()
    other = again({"graph": graph})["graph"]
    assert (other.name, list(other.outputs), len(other.updates)) == ("sample", ["p", "t"], 1)
    assert repr(other) == repr(graph)
    assert pickle.dumps(other) == pickle.dumps(again(other))
    assert named(pickle.dumps(graph)) == {"tawny.graph.files from_bytes"}
    assert copy.deepcopy(graph) is graph, "a graph never changes"


def twice(x: Any) -> Any:
    return 2 * x


def test_functions_are_pickled_by_the_name_they_are_registered_under() -> None:
    x = tw.var("x", shape=(2,))
    graph = tw.Graph([x], tw.delay(twice, x))
    with pytest.raises(ValueError, match=r"pickle: node 1, delay .* tw\.register_function"):
        pickle.dumps(tw.Graph([x], tw.delay(lambda v: v, x)))
    register_function("twice, of pickles", twice)
    np.testing.assert_array_equal(again(graph).compile()(np.ones(2)), 2)


def test_another_process_reads_them(tmp_path: Path) -> None:
    x = tw.var("x", shape=(3, 3))
    graph = tw.Graph([x], tnp.linalg.inv(tnp.exp(x) @ x.T + 9 * tnp.eye(3)))
    model = nn.Sequential(nn.Linear(3, 4), nn.relu, nn.Linear(4, 2))
    value = np.arange(9.0).reshape(3, 3) / 9
    (tmp_path / "p").write_bytes(pickle.dumps((graph, model, tnp.asarray(value))))
    program = (
        "import pickle, sys; g, m, v = pickle.load(open(sys.argv[1], 'rb'));"
        "print(g.compile()(v.numpy()).tolist(), m(v.numpy()).numpy().tolist())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "p")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    want = f"{graph.compile()(value).tolist()} {model(value).numpy().tolist()}"
    assert done.stdout.strip() == want


def test_a_program_says_what_to_pickle_instead() -> None:
    x = tw.var("x")
    program = tw.Graph([x], x + 1).compile()
    with pytest.raises(TypeError, match=r"program\.graph"):
        pickle.dumps(program)


# ---------------------------------------------------------------------- models


class Tied(nn.Module):
    """Two layers with one weight, and one that is frozen."""

    def __init__(self) -> None:
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.declaration("weight")
        self.parts = [nn.BatchNorm(3), {"deep": nn.Linear(3, 2).freeze()}]

    def forward(self, x: Any) -> Any:
        return self.parts[1]["deep"](self.parts[0](self.second(self.first(x))))


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(4, 3, activation="gelu"), (2, 4)),
    "convolution": (lambda: nn.Conv2d(3, 4, 3, stride=2), (1, 6, 6, 3)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 2, 3, stride=2), (1, 4, 4, 3)),
    "norms": (lambda: nn.Sequential(nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.BatchNorm(4)), (2, 4)),
    "recurrent": (lambda: nn.Sequential(nn.LSTM(3, 4, sequences=True), nn.GRU(4, 2)), (2, 5, 3)),
    "attention": (lambda: nn.MultiHeadAttention(6, 2), (2, 4, 6)),
    "pooling": (lambda: nn.Sequential(nn.MaxPool2d(2), nn.GlobalAvgPool2d()), (1, 4, 4, 2)),
    "tied": (Tied, (2, 3)),
    "resnet": (lambda: tw.models.ResNet50(5, width=1 / 16), (1, 32, 32, 3)),
}


def assert_same_values(one: Any, other: Any) -> None:
    for part in ("parameters", "state"):
        ours, theirs = dict(leaf_paths(getattr(one, part))), dict(leaf_paths(getattr(other, part)))
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            assert value.dtype == theirs[name].dtype
            np.testing.assert_array_equal(value, theirs[name])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "not drawn"])
def test_models_are_pickled_with_their_values(name: str, drawn: bool) -> None:
    make, shape = MODELS[name]
    model = make().initialise(3)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    if drawn:
        model(x)
    other = again(model)
    assert repr(other) == repr(model)
    assert_same_values(model, other)
    assert_same_values(model.initialise(5), other.initialise(5))
    if name != "resnet":
        np.testing.assert_array_equal(model(x).numpy(), other(x).numpy())


def test_what_is_shared_or_frozen_stays_so() -> None:
    model = Tied()
    for other in (again(model), copy.deepcopy(model)):
        assert other.first.declaration("weight") is other.second.declaration("weight")
        assert other.first.declaration("weight") is not model.first.declaration("weight")
        assert [*dict(leaf_paths(other.state))] == [*dict(leaf_paths(model.state))]
        other.first.weight = np.zeros((3, 3))
        assert float(tnp.sum(abs(other.second.weight))) == 0
        assert float(tnp.sum(abs(model.second.weight))) > 0


def test_a_shallow_copy_of_a_model_shares_layers_but_not_their_places() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    held = Tied()
    other = copy.copy(held)
    assert other.first is held.first
    other.first = nn.Linear(3, 3)
    assert other.first is not held.first
    assert_same_values(held, again(held))
    assert copy.copy(model)(np.ones((1, 2))).shape == (1, 2)


def test_trained_models_go_on_from_a_pickle() -> None:
    """The state of an optimiser is arrays, and so is what a model is trained by."""
    model, rule = nn.Sequential(nn.Linear(3, 2)), optim.Adam(0.05)
    x, y = np.random.default_rng(1).normal(size=(8, 3)), np.zeros((8, 2))

    def loss(values: Any) -> Any:
        return nn.mean_squared(model.apply(values, x), y)

    parameters, memory = model.parameters, rule.start(model.parameters)
    for _ in range(3):
        _, parameters, memory = rule.step(loss, parameters, memory)
    twin = again((rule, parameters, memory))
    assert twin[0] == rule
    ahead = rule.step(loss, parameters, memory)
    behind = twin[0].step(loss, twin[1], twin[2])
    for one, other in zip(
        dict(leaf_paths(ahead)).values(), dict(leaf_paths(behind)).values(), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


# ----------------------------------------------------------------------- plans


def _trained() -> Any:
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.relu, nn.GlobalAvgPool2d(), nn.Linear(4, 3))
    x, y = np.ones((4, 8, 8, 2), np.float32), np.zeros(4, int)
    return nn.train(model, nn.cross_entropy, (x, y), optim.Adam(0.01), 1).program.plan


def _large_constant() -> Any:
    x = tw.var("x", shape=(100, 100))
    return tw.Graph([x], tnp.exp(x) @ np.ones((100, 100)) + x.T).compile().plan


def _with_functions() -> Any:
    x = tw.var("x", shape=(3,))
    return tw.Graph([x], [tw.delay(lambda v: v + 1, x), tw.delay(np.sin, x)]).compile().plan


PLANS: dict[str, Any] = {
    "training": _trained,
    "large constants": _large_constant,
    "functions": _with_functions,
    "state": lambda: sample_graph().compile().plan,
    "reference": lambda: sample_graph().compile(engine="reference").plan,
}


def answers(plan: Any) -> list[Any]:
    """All that a plan says, in words and numbers."""
    return [
        str(plan), plan.peak_bytes, plan.lower_bound_bytes, plan.unshared_bytes, plan.resident_bytes, plan.engine,
        [(b.offset, b.bytes, b.first, b.last, b.kind, len(b.arrays)) for b in plan.blocks],
        [(s.position, s.offset, s.bytes, s.again, s.over is None) for s in plan.steps],
        [plan.why(s.array) for s in plan.steps],
        [*plan.timeline()],
    ]  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_plans_answer_the_same_after_pickling(name: str) -> None:
    plan = PLANS[name]()
    data = pickle.dumps(plan)
    other = pickle.loads(data)
    assert answers(other) == answers(plan)
    assert answers(again(other)) == answers(plan)
    assert len(data) < 400_000
    assert copy.deepcopy(plan) is plan, "a plan never changes"


@pytest.mark.skipif(unavailable() is not None, reason="needs compiled code")
def test_plans_of_programs_in_bands_answer_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawny.graph.relief.MIN_ARENA", 0)
    monkeypatch.setattr("tawny.graph.relief.WORTHWHILE_SHARE", 1.0)
    for name, value in {"BAND_BYTES": 1, "BAND_SHARE": 0.0, "MAX_SLOWDOWN": 1e9}.items():
        monkeypatch.setattr(f"tawny.graph.bands.search.{name}", value)
    x = tw.var("x", shape=(1, 64, 32, 8), dtype="float32")
    rng = np.random.default_rng(0)
    wide = tnp.relu(tnp.conv2d(x, rng.normal(size=(3, 3, 8, 96)).astype("float32")))
    y = tnp.conv2d(wide, rng.normal(size=(3, 3, 96, 8)).astype("float32"))
    plan = tw.Graph([x], y).compile().plan
    assert any(s.array.node.op.facts().name == "bands" for s in plan.steps)
    assert answers(again(plan)) == answers(plan)


@pytest.mark.parametrize("seed", range(12))
def test_plans_of_random_graphs_answer_the_same(engine: str, seed: int) -> None:
    drawn = random_graphs.graph_of(seed, 12)
    plan = graph_over([array_for(n) for n in drawn.outputs]).compile(engine=engine).plan
    assert answers(again(plan)) == answers(plan)


def test_a_plan_in_a_pickle_holds_nothing_that_runs() -> None:
    table, fields = _large_constant().__reduce__()[1]
    hostile = fields.replace(b"tawny.engine.lowering", b"os.path.commonprefix")
    with pytest.raises((pickle.UnpicklingError, ImportError, ValueError)):
        plan_from(table, hostile)
    with pytest.raises(pickle.UnpicklingError, match=r"a plan holds no posix\.system"):
        plan_from(pickle.dumps(os.system), fields)
