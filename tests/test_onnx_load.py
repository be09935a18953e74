"""`tw.onnx.load`: graphs and models of files, what is refused, and files that lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import onnx_cases  # noqa: E402
import onnx_fuzz  # noqa: E402
import tawny as tw  # noqa: E402
from tawny.onnx.model import MOST_PROGRAMS  # noqa: E402
from tawny.onnx.table import OPERATORS  # noqa: E402

FLOAT = TensorProto.FLOAT
rng = np.random.default_rng(7)


def tensor(name: str, shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Any, inputs: Any, outputs: Any, constants: Any = (), opset: int = 18, **more: Any
) -> Any:
    held = [numpy_helper.from_array(value, name) for name, value in dict(constants).items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


def convolution(dims: Any = (1, 3, 8, 8)) -> Any:
    """An image through a convolution, channels first, and a mean of what it gives."""
    weights = rng.normal(size=(4, 3, 3, 3)).astype("float32")
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="second"),
        helper.make_node("ReduceMean", ["r", "axes"], ["score"], name="third", keepdims=0),
    ]
    axes = np.array([2, 3], "int64")
    return model(
        nodes, [tensor("image", dims)], [tensor("score", None)], {"w": weights, "axes": axes}
    )


def test_inputs_and_outputs_are_named_as_in_the_file(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(convolution(), path)
    graph = tw.onnx.load(path)
    assert isinstance(graph, tw.Graph)
    assert [x.name for x in graph.inputs] == ["image"]
    x = rng.normal(size=(1, 3, 8, 8)).astype("float32")
    made = graph.compile(engine=engine)(image=x)
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"image": x})
    np.testing.assert_allclose(made["score"], expected, rtol=1e-5, atol=1e-6)


def test_no_program_moves_channels_but_those_of_the_image() -> None:
    graph = tw.onnx.load(convolution().SerializeToString())
    left = [n.op.facts().name for n in tw.optimise(graph).order]
    assert left.count("transpose") <= 1


def test_axes_that_are_open_are_given_by_input_or_by_name() -> None:
    data = convolution(("n", 3, "rows", "columns")).SerializeToString()
    by_input = tw.onnx.load(data, shapes={"image": (2, 3, 6, 5)})
    by_name = tw.onnx.load(data, shapes={"n": 2, "rows": 6, "columns": 5})
    assert by_input.inputs[0].shape == by_name.inputs[0].shape == (2, 3, 6, 5)
    with pytest.raises(ValueError, match="input 'image' is given shape"):
        tw.onnx.load(data, shapes={"image": (2, 4, 6, 5)})
    with pytest.raises(
        ValueError, match="'images' is no input or axis; accepted: image, n, rows, columns"
    ):
        tw.onnx.load(data, shapes={"images": (2, 3, 6, 5)})
    with pytest.raises(ValueError, match="shape"):
        tw.onnx.load(data, shapes={"n": 2})


def test_a_model_with_open_axes_compiles_for_each_shape_and_forgets_old_ones() -> None:
    made = tw.onnx.load(convolution(("n", 3, 8, 8)).SerializeToString(), engine="reference")
    assert isinstance(made, tw.onnx.Model)
    for n in range(1, MOST_PROGRAMS + 3):
        x = rng.normal(size=(n, 3, 8, 8)).astype("float32")
        assert made(x)["score"].shape == (n, 4)
    assert len(made._programs) == MOST_PROGRAMS
    program = made._compile({"image": x})
    np.testing.assert_array_equal(program(image=x)["score"], made(image=x)["score"])
    with pytest.raises(TypeError, match="no value came for 'image'"):
        made()
    with pytest.raises(TypeError, match="dtype float64; accepted: float32"):
        made(x.astype("float64"))


def test_inputs_that_shapes_depend_on_are_part_of_what_is_compiled_for() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")]
    inputs = [tensor("x", (6,)), tensor("shape", (2,), TensorProto.INT64)]
    data = model(nodes, inputs, [tensor("y", None)]).SerializeToString()
    made = tw.onnx.load(data, engine="reference")
    x = np.arange(6, dtype="float32")
    for shape in ((2, 3), (3, 2), (2, 3)):
        assert made(x, np.array(shape))["y"].shape == shape
    graph = tw.onnx.load(data, values={"shape": [1, -1]})
    assert graph.outputs["y"].shape == (1, 6)
    with pytest.raises(ValueError, match=r"values=\{'shape'"):
        tw.onnx.load(data, shapes={})


def test_weights_larger_than_a_page_are_not_copied() -> None:
    graph = tw.onnx.load(convolution().SerializeToString())
    constants = [n for n in graph.order if n.value is not None and n.shape == (4, 3, 3, 3)]
    assert len(constants) == 1


def test_a_model_is_run_within_a_budget() -> None:
    graph = tw.onnx.load(convolution((1, 3, 64, 64)).SerializeToString())
    plan = graph.plan()
    assert graph.plan(memory=plan.peak_bytes).peak_bytes <= plan.peak_bytes
    with pytest.raises(tw.MemoryBudgetError):
        graph.plan(memory=64)


# ------------------------------------------------------------------ bad files


def refused(data: Any, match: str, **given: Any) -> None:
    source = data if isinstance(data, (bytes, os.PathLike)) else data.SerializeToString()
    with pytest.raises(tw.GraphFileError, match=match):
        tw.onnx.load(source, **given)


X = [tensor("x", (2, 3))]
Y = [tensor("y", None)]


def test_errors_name_the_node() -> None:
    refused(b"", "expected an ONNX model")
    refused(b"no model at all", "expected an ONNX model")
    refused(convolution().SerializeToString()[:-7], "expected an ONNX model")
    node = helper.make_node
    refused(
        model([node("Frobnicate", ["x"], ["y"], name="n1")], X, Y),
        r"'n1' \(Frobnicate\): the operator is not",
    )
    refused(
        model([node("Relu", ["z"], ["y"], name="n1")], X, Y), "'n1'.*reads 'z', which nothing makes"
    )
    refused(
        model([node("Relu", ["b"], ["a"], name="n1"), node("Relu", ["a"], ["b"], name="n2")], X, Y),
        "'n1'.*reads 'b', which node 'n2'.*cycle",
    )
    refused(
        model([node("Relu", ["x"], ["y"], name="n1"), node("Abs", ["x"], ["y"], name="n2")], X, Y),
        "'n2'.*makes 'y', which is there already",
    )
    refused(model([node("Softmax", ["x"], ["y"], name="n1", axis=7)], X, Y), "'n1'.*axis 7")
    refused(
        model([node("Softmax", ["x"], ["y"], name="n1", axis="a")], X, Y),
        "'n1'.*attribute 'axis' is",
    )
    refused(model([node("Relu", ["x"], ["w"], name="n1")], X, Y), "output 'y' is made by no node")
    refused(model([node("MatMul", ["x", "x"], ["y"], name="n1")], X, Y), r"'n1' \(MatMul\): matmul")
    refused(model([node("Relu", ["x"], ["y"])], [*X, *X], Y), "two inputs of the name 'x'")
    refused(
        model([node("Relu", ["x"], ["y"])], [tensor("x", (2,), TensorProto.FLOAT8E5M2)], Y),
        "float8e5m2",
    )
    refused(
        model([node("Relu", ["x"], ["y"])], [tensor("x", (2,), TensorProto.STRING)], Y), "string"
    )


def held(change: Any) -> Any:
    """A model with one array, changed."""
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"], name="n1")],
        X,
        Y,
        {"w": np.ones((2, 3), "float32")},
    )
    change(made.graph.initializer[0])
    return made


def external(tensor: Any, **fields: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in fields.items():
        tensor.external_data.add(key=key, value=value)


def test_arrays_that_lie_about_their_size_are_refused_before_memory_is_taken() -> None:
    refused(held(lambda t: t.dims.__setitem__(0, -2)), "initialiser 'w': the shape is .* negative")
    refused(held(lambda t: t.dims.__setitem__(0, 2**40)), "initialiser 'w': 24 bytes came")
    refused(held(lambda t: t.dims.extend([2**62, 2**62])), "initialiser 'w'")
    refused(held(lambda t: t.dims.extend([1] * 80)), "82 axes")
    refused(held(lambda t: setattr(t, "raw_data", b"123")), "3 bytes came")
    refused(held(lambda t: setattr(t, "data_type", TensorProto.INT4)), "'n1'.*'w'.*int4")
    refused(held(lambda t: setattr(t, "data_type", TensorProto.BFLOAT16)), "expected 12")
    refused(held(lambda t: setattr(t, "data_type", 77)), "number 77")
    refused(held(lambda t: setattr(t, "name", "")), "it has no name")
    big = model(
        [helper.make_node("ConstantOfShape", ["s"], ["y"], name="n1")],
        [],
        Y,
        {"s": np.array([2**41])},
    )
    refused(big, "'n1'.*memory")


def test_external_data_stays_inside_the_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_bytes(bytes(24))
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "good").write_bytes(np.arange(8, dtype="float32").tobytes())

    def load(**fields: str) -> Any:
        path = home / "model.onnx"
        path.write_bytes(held(lambda t: external(t, **fields)).SerializeToString())
        return path

    for bad in ("../secret", str(tmp_path / "secret"), "link", "a/../../secret", "\0"):
        refused(load(location=bad), "outside the model's folder")
    refused(load(location="/dev/zero"), "outside")
    refused(load(location="absent"), "No such file")
    refused(load(location="."), "directory")
    os.mkfifo(home / "pipe")
    refused(load(location="pipe"), "regular file")
    refused(load(location="good", offset="16"), "24 bytes from 16 of 'good', which has 32")
    refused(load(location="good", offset="-4"), "offset of external data")
    refused(load(location="good", length="999"), "999 bytes of external data for an array of 24")
    refused(held(lambda t: external(t, location="good")), "load the model by its path")
    graph = tw.onnx.load(load(location="good", offset="8"))
    made = graph.compile(engine="reference")(x=np.zeros((2, 3), "float32"))
    np.testing.assert_array_equal(made["y"].ravel(), np.arange(2, 8))


def test_graphs_and_functions_nested_without_end_are_refused() -> None:
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], Y)
    for _ in range(20):
        branch = helper.make_node("If", ["c"], ["y"], then_branch=inner)
        inner = helper.make_graph([branch], "g", [], Y)
    deep = helper.make_model(inner, opset_imports=[helper.make_opsetid("", 18)])
    refused(deep, "nested more than 16 deep")
    functions = []
    for i in range(40):
        called = f"f{i + 1}" if i < 39 else "Relu"
        domain = "own" if i < 39 else ""
        nodes = [
            helper.make_node(called, [a], [b], domain=domain) for a, b in (("x", "h"), ("h", "y"))
        ]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"f{i}", ["x"], ["y"], nodes, opsets))
    many = model(
        [helper.make_node("f20", ["x"], ["y"], name="n1", domain="own")], X, Y, functions=functions
    )
    refused(many, "more than .* nodes|deep")
    endless = [
        helper.make_function(
            "own",
            "f",
            ["x"],
            ["y"],
            [helper.make_node("f", ["x"], ["y"], domain="own")],
            [helper.make_opsetid("own", 1)],
        )
    ]
    refused(
        model([helper.make_node("f", ["x"], ["y"], domain="own")], X, Y, functions=endless), "deep"
    )


def test_changed_files_are_loaded_or_refused() -> None:
    outcomes = onnx_fuzz.run(range(1000))
    assert outcomes["refused"] > 100
    assert outcomes["loaded"] > 100


def test_every_operator_is_met_by_a_case_or_named_here() -> None:
    met: set[str] = set()
    for name in onnx_cases.PASSING.read_text("utf-8").split():
        case = onnx_cases.cases().get(name)
        if case is not None and case.model is not None:
            met |= {node.op_type for node in case.model.graph.node}
    rest = {op for domain, op in OPERATORS if op not in met and domain == ""}
    assert rest <= {
        "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        "Bernoulli", "GlobalLpPool", "SequenceErase", "Optional", "SequenceEmpty",
        "SimplifiedLayerNormalization", "Scatter", "SequenceAt", "SequenceConstruct",
        "SequenceLength", "ConcatFromSequence",
    }  # fmt: skip
