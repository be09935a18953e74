"""`tw.onnx.load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tawny.bad_calls import explain_bad_calls
from tawny.errors import value_error
from tawny.graph.graph import Graph
from tawny.graph.jit_options import compile_options
from tawny.onnx.call import UnknownValueError
from tawny.onnx.model import Model, Shapes
from tawny.onnx.reading import read_model
from tawny.progress import progress


@explain_bad_calls
def load(
    path_or_bytes: str | os.PathLike[str] | bytes,
    shapes: Shapes | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    **options: Any,
) -> Graph | Model:
    """Read an ONNX model: a graph, or a function of arrays where its file leaves shapes open.

    - `path_or_bytes`: the file, or its bytes.  External data is read from the file's folder alone.
    - `shapes`: shapes of inputs by name, and sizes of axes by the names the file gives them.
    - `values`: values of inputs that are fixed, by name.
    - `options`: those of `Graph.compile`, for the programs of a function.

    Gives a `tw.Graph` whose inputs and outputs are named as in the file; its program gives outputs
    as a dict.  Without `shapes` and `values`, where axes are open or shapes depend on the values of
    inputs, gives a `Model`: called with arrays it compiles a program for their shapes and keeps it.
    Raises `tw.GraphFileError` for what is no model, or a node that is not supported; it names the
    node.

        import onnx
        text = '<ir_version: 8, opset_import: ["": 18]> g (float[n] x) => (float[n] y) {y = Exp(x)}'
        file = onnx.parser.parse_model(text).SerializeToString()
        program = tw.onnx.load(file, shapes={"x": (2,)}).compile()
        program(x=numpy.zeros(2, "float32"))["y"].tolist()        # -> [1.0, 1.0]
        model = tw.onnx.load(file)
        model(numpy.zeros(3, "float32"))["y"].tolist()            # -> [1.0, 1.0, 1.0]
    """
    compiled = compile_options(options, "onnx.load")
    model = Model(read_model(path_or_bytes, "onnx.load"), compiled)
    is_free = shapes is None and values is None
    if is_free and not model.is_static:
        return model
    try:
        with progress("reading an ONNX model"):
            graph = model.graph(shapes, values)
    except UnknownValueError as error:
        if is_free:
            return model
        raise value_error("onnx.load", str(error)) from None
    if options:
        raise value_error(
            "onnx.load", f"{', '.join(options)} belong to compile: the shapes make this a graph"
        )
    return graph
