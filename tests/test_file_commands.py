"""`tawny inspect`, `tawny run` and `tawny optimise`: what they say, and the status they end with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

import tawny as tw  # noqa: E402
import tawny.numpy as tnp  # noqa: E402
from tawny.cli import main  # noqa: E402

rng = np.random.default_rng(5)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A model with an open axis and rules to apply, a graph, and an input of both."""
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[n, 4] x) => (float[n, 4] y)
        <float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2}>
        { zero = Constant<value = float {0}>()  h = MatMul(x, w)  i = Identity(h)  y = Max(i, zero) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    x = tw.var("x", (2, 4), "float32")
    tw.Graph([x], {"y": tnp.exp(x)}).save(tmp_path / "graph.tawny")
    np.save(tmp_path / "x.npy", rng.normal(size=(2, 4)).astype("float32"))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    assert main([*map(str, arguments)]) == 1
    out = capsys.readouterr()
    assert not out.out
    return out.err


def test_inspect(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "inspect", files / "model.onnx")
    assert found["inputs"] == {"x": "(n, 4)"}
    assert found["nodes"] == {"Constant": 1, "MatMul": 1, "Identity": 1, "Max": 1}
    assert (found["parameters"], found["parameter bytes"]) == (17, 68)
    assert found["unsupported"] == []
    assert "--shape" in found["memory"]
    for shape in ("n=3", "x=3x4"):
        found = said(capsys, "inspect", files / "model.onnx", "--shape", shape)
        assert found["peak bytes"] >= 48
    assert said(capsys, "inspect", files / "graph.tawny")["peak bytes"] >= 32
    assert main(["inspect", str(files / "model.onnx")]) == 0
    assert "nodes        Constant 1, MatMul 1" in capsys.readouterr().out


def test_inspect_says_what_is_not_supported(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(files / "model.onnx")
    model.graph.node.insert(1, helper.make_node("Frobnicate", ["x"], ["z"], name="odd"))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(model, files / "odd.onnx")
    found = said(capsys, "inspect", files / "odd.onnx")
    assert found["unsupported"] == ["Frobnicate"]
    assert "'odd' (Frobnicate)" in found["problem"]


def test_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--input", f"x={files / 'x.npy'}")
    found = said(
        capsys,
        "run",
        files / "model.onnx",
        *given,
        "--output",
        files / "out.npz",
        "--memory",
        "1MB",
    )
    assert found["outputs"] == {"y": "float32[2, 4]"}
    weights = onnx.numpy_helper.to_array(onnx.load(files / "model.onnx").graph.initializer[0])
    expected = np.maximum(np.load(files / "x.npy") @ weights, 0)
    np.testing.assert_allclose(np.load(files / "out.npz")["y"], expected, rtol=1e-5)
    for other in ("reference", "onnxruntime"):
        if other == "onnxruntime":
            pytest.importorskip(other)
        assert said(capsys, "run", files / "model.onnx", *given, "--compare", other)["equal"]
    assert said(capsys, "run", files / "graph.tawny", *given, "--compare", "reference")["equal"]
    assert "least" in refused(capsys, "run", files / "model.onnx", *given, "--memory", 8)
    assert "--input x" in refused(capsys, "run", files / "model.onnx", "--input", "x")
    assert "no input or axis" in refused(
        capsys, "run", files / "model.onnx", "--input", f"z={files / 'x.npy'}"
    )


def test_optimise(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = files / "less.onnx"
    found = said(capsys, "optimise", files / "model.onnx", "-o", out, "--shape", "n=2", "--explain")
    assert any("maximum_zero" in rule for rule in found["rules"])
    kinds = [n.op_type for n in onnx.load(out).graph.node]
    assert kinds == ["MatMul", "Relu", "Identity"]
    given = ("--input", f"x={files / 'x.npy'}")
    first = files / "first.npz", files / "model.onnx"
    second = files / "second.npz", out
    for saved, model in (first, second):
        said(capsys, "run", model, *given, "--output", saved)
    np.testing.assert_array_equal(np.load(first[0])["y"], np.load(second[0])["y"])
    assert "--shape" in refused(capsys, "optimise", files / "model.onnx", "-o", out)
    assert said(capsys, "optimise", files / "graph.tawny", "-o", files / "less.tawny")["written"]


def test_files_that_are_none_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "bad.onnx").write_bytes(b"nothing")
    assert "expected an ONNX model" in refused(capsys, "inspect", files / "bad.onnx")
    assert "No such file" in refused(capsys, "inspect", files / "absent.onnx")
    assert "expected NAME=SIZES" in refused(
        capsys, "inspect", files / "model.onnx", "--shape", "x=axb"
    )


def test_models_are_seen_and_profiled(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = files / "page.html"
    shape = ["--shape", "n=3"]
    for more in ([], ["--graph"]):
        assert main(["view", *shape, *more, "--output", str(page), str(files / "model.onnx")]) == 0
        assert capsys.readouterr().out.strip() == str(page)
        text = page.read_text("utf-8")
        assert "matmul" in text
        assert ('"memories"' in text) == (not more)
    assert main(["profile", "--runs", "1", *shape, str(files / "model.onnx")]) == 0
    assert "fused_matmul" in capsys.readouterr().out
    for command in ("view", "profile"):
        said = refused(capsys, command, files / "model.onnx")
        assert f"tawny {command}: " in said
        assert "n" in said
