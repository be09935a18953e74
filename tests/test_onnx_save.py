"""`tw.onnx.save`: what is written is checked, run by ONNX Runtime, and read again by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

import tawny as tw  # noqa: E402
import tawny.numpy as tnp  # noqa: E402
from tawny.op import ELEMENTWISE  # noqa: E402
from tawny.operator import emit  # noqa: E402
from tawny.tree import leaf_paths  # noqa: E402

rng = np.random.default_rng(3)


def by_runtime(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True))


def draw(graph: tw.Graph) -> dict[str, Any]:
    given = {}
    for x in graph.variables:
        name, kind = graph.names[x], x.dtype.kind
        if kind == "f":
            given[name] = rng.uniform(0.1, 1.0, x.shape).astype(x.dtype)
        else:
            given[name] = rng.integers(0, 2 if kind == "b" else 5, x.shape).astype(x.dtype)
    return given


def check(
    graph: tw.Graph, path: Path, rtol: float = 1e-5, atol: float = 1e-5, **options: Any
) -> Any:
    """The same numbers by the graph, by the file in ONNX Runtime, and by the file in Tawny."""
    tw.onnx.save(graph, path, **options)
    given = draw(graph)
    program = graph.compile(engine="reference")
    made = program(
        **{n: v for n, v in given.items() if n in {graph.names[x] for x in graph.input_nodes}}
    )
    expected = {p.strip(".[]") or "output": v for p, v in leaf_paths(made, "")}
    theirs = by_runtime(path, given)
    loaded = tw.onnx.load(path)
    assert isinstance(loaded, tw.Graph)
    ours = loaded.compile(engine="reference")(**given)
    for name, value in expected.items():
        np.testing.assert_allclose(theirs[name], value, rtol=rtol, atol=atol)
        np.testing.assert_allclose(ours[name], value, rtol=rtol, atol=atol)
        assert theirs[name].dtype == ours[name].dtype == np.asarray(value).dtype
    return loaded


def var(name: str, shape: Any, dtype: str = "float32") -> Any:
    return tw.var(name, shape, dtype)


REFUSED = frozenset(
    "atan2 bitwise_left_shift bitwise_right_shift conj dawsn erfc fmax fmin gcd imag lcm "
    "nextafter real".split()
)
"""Elementwise ops that ONNX has no operators for, or not for these operands."""


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_elementwise_ops(name: str, tmp_path: Path) -> None:
    op = ELEMENTWISE[name]
    count = op.info.arity or 1
    kind = "int32" if name.startswith("bitwise") or name in {"gcd", "lcm"} else "float32"
    if name.startswith("logical"):
        kind = "bool"
    operands = [var(f"x{i}", (3, 4) if i == 0 else (4,), kind) for i in range(count)]
    if name == "where":
        operands[0] = var("x0", (3, 4), "bool")
    graph = tw.Graph(operands, emit(op, *(x + 1 if name == "acosh" else x for x in operands)))
    if name in REFUSED:
        with pytest.raises(ValueError, match="has no meaning in ONNX"):
            tw.onnx.save(graph, tmp_path / "x.onnx")
    else:
        check(graph, tmp_path / "x.onnx", rtol=2e-5)


X, Y = var("x", (2, 3, 4)), var("y", (4, 5))
IMAGE, KERNEL = var("image", (2, 9, 8, 4)), var("kernel", (3, 3, 4, 6))
RECURRENT = [tw.nn.LSTM(4, 3), tw.nn.GRU(4, 3, sequences=True), tw.nn.RNN(4, 3)]
PLACES, COUNTS = var("places", (2, 2), "int64"), var("counts", (3, 4), "int64")

GRAPHS: dict[str, Any] = {
    "movement": lambda: [X.T, X.reshape(6, 4), tnp.flip(X, (0, 2)), tnp.roll(X, (1, 2), (0, 2)), X[:, ::-1, 1::2]],
    "joining": lambda: [tnp.concat([X, X + 1], 1), tnp.tile(X, (1, 2, 1)), tnp.repeat(X, 3, axis=1), tnp.stack([X, X])],
    "making": lambda: [tnp.arange(4.0) + Y[:, 0], tnp.eye(4, 5) * Y, tnp.broadcast_to(Y[0], (3, 5)), tnp.pad(X, ((1, 0), (0, 2), (0, 0)))],
    "sums": lambda: [X.sum(1), X.mean((0, 2), keepdims=True), tnp.prod(X, axis=2), X.max(), tnp.min(X, axis=0), tnp.var(X, axis=1)],
    "sums of integers": lambda: [COUNTS.sum(0), COUNTS.max(1), tnp.mean(COUNTS), tnp.any(COUNTS > 3), tnp.all(COUNTS >= 0, axis=0)],
    "places": lambda: [X.argmax(2), tnp.argmin(X), tnp.sort(X, axis=1), tnp.cumulative_sum(X, axis=1, include_initial=True)],
    "gathers": lambda: [tnp.take(Y, PLACES, axis=1), X[:, tnp.asarray([0, 2]), :, None], tnp.take_along_axis(X, X.argmax(1, keepdims=True), 1), Y[tnp.asarray([1, -1]), tnp.asarray([0, 2])]],
    "scatters": lambda: [tnp.at(X)[:, 1:3].set(0.0), tnp.at(Y)[tnp.asarray([1, 1, 0])].add(1.0), tnp.at(X)[:, :, tnp.asarray([2, 0])].set(7.0)],
    "products": lambda: [X @ Y, tnp.einsum("abc,cd->bd", X, Y), tnp.tensordot(X, Y, 1), tnp.softmax(X), tnp.logsumexp(X, axis=1)],
    "convolution": lambda: [tnp.conv2d(IMAGE, KERNEL, stride=2, padding="SAME"), tnp.conv2d(IMAGE, KERNEL, dilation=2), tnp.conv_transpose2d(IMAGE, KERNEL[:, :, :, :4].swapaxes(2, 3), stride=2)],
    "pools": lambda: [tnp.max_pool2d(IMAGE, 3, stride=2, padding="SAME"), tnp.avg_pool2d(IMAGE, 3, stride=2, padding="SAME"), tnp.upsampling2d(IMAGE, (2, 3))],
    "scans": lambda: [
        *tw.scan(lambda c, r: (tnp.tanh(c @ tnp.exp(Y[:, :4]) + r), (c[0], r * 2)), Y[:3, :4] * 0, X),
        tw.scan(lambda c, r: (c + r, c), Y[0, :4], X[0], reverse=True),
        tw.fori_loop(1, 5, lambda i, c: tw.fori_loop(0, 3, lambda j, d: d * 0.5 + (i + j).astype("float32"), c), Y),
    ],
    "other loops": lambda: [
        tw.while_loop(lambda c: tnp.sum(c[0]) < 50, lambda c: (c[0] * 2, c[1] + Y[0]), (X[0, 0], Y[1])),
        tw.cond(tnp.sum(X) > 0, lambda: Y * 2, lambda: Y - 1),
        tw.switch(COUNTS[0, 0], [lambda a: a, lambda a: (a[0], -a[1]), lambda a: (a[1], a[0]), lambda a: (a[0] * 3, a[1])], (X[0], X[1])),
    ],
    "recurrent layers": lambda: [layer(X) for layer in RECURRENT],
    "dtypes": lambda: [X.astype("int32"), COUNTS + X[0], COUNTS / 2, COUNTS // 2, COUNTS % 3, (X > 0.5) & (X < 0.7), X.astype("float64") * 2],
    "gradients of windows": lambda: tw.gradients(
        tnp.sum(tnp.max_pool2d(tnp.tanh(tnp.conv2d(IMAGE, KERNEL, stride=2, padding="SAME")), 2) ** 2)
        + tnp.sum(tnp.avg_pool2d(tnp.sin(IMAGE), 3, stride=2, padding="SAME") ** 2),
        [IMAGE, KERNEL],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_ops_with_attributes(name: str, tmp_path: Path) -> None:
    graph = tw.Graph([X, Y, IMAGE, KERNEL, PLACES, COUNTS], GRAPHS[name](), unused="ignore")
    check(graph, tmp_path / "x.onnx", atol=1e-4)


@pytest.mark.parametrize("make", [tw.models.ResNet50, tw.models.SqueezeNet])
def test_models(make: Any, tmp_path: Path) -> None:
    image = rng.normal(size=(1, 64, 64, 3)).astype("float32")
    with tw.random.local_seed(0):
        model = make()
    x = var("x", image.shape)
    graph = tw.Graph([x], {"scores": model(x)})
    tw.onnx.save(graph, tmp_path / "model.onnx")
    expected = graph.compile(engine="reference")(image)["scores"]
    theirs = by_runtime(tmp_path / "model.onnx", {"x": image})["scores"]
    ours = tw.onnx.load(tmp_path / "model.onnx").compile(engine="reference")(image)["scores"]
    np.testing.assert_allclose(theirs, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_numbers(dtype: str, engine: str, tmp_path: Path) -> None:
    """Weights in two bytes, converted where a file says so, stay what they are."""
    x = tw.var("x", (3, 4), "float32")
    weights = tnp.asarray(rng.normal(size=(4, 5)).astype("float32")).astype(dtype)
    made = tnp.tanh(tnp.matmul(x.astype(dtype), weights))
    graph = tw.Graph([x], {"y": made, "wide": made.astype("float32")})
    tw.onnx.save(graph, tmp_path / "m.onnx")
    again = tw.onnx.load(tmp_path / "m.onnx")
    assert isinstance(again, tw.Graph)
    given = {"x": rng.normal(size=(3, 4)).astype("float32")}
    ours, read = (g.compile(engine=engine)(**given) for g in (graph, again))
    assert str(read["y"].dtype) == dtype
    for name in ("y", "wide"):
        np.testing.assert_array_equal(read[name], ours[name])
    if dtype == "float16":
        found = by_runtime(tmp_path / "m.onnx", given)
        np.testing.assert_allclose(found["wide"], ours["wide"], atol=2e-3)


def test_a_training_graph_with_its_updates(tmp_path: Path) -> None:
    graph = step_graph()
    with pytest.raises(ValueError, match="updates=True"):
        tw.onnx.save(graph, tmp_path / "x.onnx")
    loaded = check(graph, tmp_path / "x.onnx", updates=True)
    assert {"w.next"} < set(loaded.outputs)


def step_graph() -> tw.Graph:
    x, w = var("x", (5, 4)), var("w", (4, 3))
    loss = tnp.mean(tnp.log_softmax(x @ w) ** 2)
    (slope,) = tw.gradients(loss, [w])
    return tw.Graph([x, w], {"loss": loss}, updates={w: w - 0.1 * slope})


def test_what_cannot_be_said_is_refused_by_op_and_line(tmp_path: Path) -> None:
    x = var("x", (3, 3))
    for made, op in (
        (tnp.linalg.inv(x), "inv"),
        (tnp.fft.fft(x), "astype|fft"),
        (tw.random.normal((3,)), "random_normal"),
    ):
        with pytest.raises(
            ValueError, match=rf"onnx.save: ({op}) at test_onnx_save.py:\d+ has no meaning in ONNX"
        ):
            tw.onnx.save(tw.Graph([x], [made], unused="ignore"), tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()
    with pytest.raises(TypeError, match=r"onnx.save: list is no tw.Graph"):
        tw.onnx.save([x], tmp_path / "x.onnx")  # type: ignore[arg-type]


def test_graphs_of_bfloat16_come_back(tmp_path: Path) -> None:
    """ONNX Runtime computes little with it on processors: the file is read by Tawny alone."""
    x = tw.var("x", (4, 3), "bfloat16")
    weights = rng.normal(size=(3, 5)).astype(x.dtype)
    graph = tw.Graph([x], [tnp.tanh(x @ weights) + 1, x.astype("float32"), (x * 2).astype("int8")])
    tw.onnx.save(graph, tmp_path / "x.onnx")
    onnx.checker.check_model(str(tmp_path / "x.onnx"), full_check=True)
    loaded = tw.onnx.load(tmp_path / "x.onnx")
    assert isinstance(loaded, tw.Graph)
    given = rng.normal(size=(4, 3)).astype(x.dtype)
    ours = list(loaded.compile()(x=given).values())
    for got, want in zip(ours, graph.compile()(given), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype("f4"), want.astype("f4"), rtol=2.0**-6)
