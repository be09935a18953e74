"""What `help` says of public names: the core names every parameter, and every example runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import numpy
import pytest

import tawny as tw
import tawny.numpy as np
from cases import each
from tawny import nn, optim
from tawny.graph.plan import Plan
from tawny.graph.throughput import Throughput

mpl.use("Agg")

MODULES = {
    "tw": tw,
    "np": np,
    "np.linalg": np.linalg,
    "np.fft": np.fft,
    "tw.random": tw.random,
    "tw.special": tw.special,
    "tw.solve": tw.solve,
    "tw.models": tw.models,
    "tw.pebble": tw.pebble,
    "tw.onnx": tw.onnx,
    "tw.testing": tw.testing,
    "nn": nn,
    "nn.init": nn.init,
    "optim": optim,
}
CLASSES = {"Plan": Plan, "Throughput": Throughput}
NAMES = {"numpy": numpy, "tw": tw, "np": np, "nn": nn, "optim": optim}
BLOCK = re.compile(r"(?:^|\n\n)((?: {4}.*(?:\n+(?= {4}))?)+)")


def _own(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").startswith("tawny")


def _members(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    for key, member in inspect.getmembers(kind):
        if (not key.startswith("_") or key == "__call__") and (
            isinstance(member, property) or (callable(member) and _own(member))
        ):
            yield f"{name}.{key}", member
    for key, member in vars(kind).items():
        if type(member).__name__ == "cached_property" and not key.startswith("_"):
            yield f"{name}.{key}", member


def _public() -> Iterator[tuple[str, Any]]:
    """Every public name with what it names, methods and properties of classes too."""
    for prefix, module in MODULES.items():
        yield prefix, module
        names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
        for name in sorted(names):
            value = getattr(module, name)
            if isinstance(value, ModuleType) or not callable(value) or not _own(value):
                continue
            yield f"{prefix}.{name}", value
            if isinstance(value, type):
                yield from _members(f"{prefix}.{name}", value)
    for name, kind in CLASSES.items():
        yield name, kind
        yield from _members(name, kind)


PUBLIC = dict(_public())


def _blocks(value: Any) -> list[str]:
    """The indented blocks of a docstring."""
    text = inspect.getdoc(value) or ""
    return [inspect.cleandoc(found[1]) for found in BLOCK.finditer(text)]


def _with_examples() -> dict[str, str]:
    """The docstrings that show something, each once, under their first names."""
    found: dict[str, str] = {}
    for name, value in PUBLIC.items():
        blocks = _blocks(value)
        if blocks and "\n".join(blocks) not in found.values():
            found[name] = "\n".join(blocks)
    return found


EXAMPLES = _with_examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line `# -> text` must equal the repr of the line's value."""
    monkeypatch.chdir(tmp_path)
    if "sympy" in name:
        pytest.importorskip("sympy")
    names: dict[str, Any] = {"__name__": "example", **NAMES}
    with tw.random.local_seed(0):
        for statement in _statements(EXAMPLES[name]):
            code, arrow, expected = statement.partition("# ->")
            if arrow:
                assert repr(eval(code.strip(), names)) == expected.strip(), code
            else:
                exec(statement, names)


def _statements(text: str) -> Iterator[str]:
    """The example in pieces: lines that show their value by themselves, what is between together."""
    waiting: list[str] = []
    for line in text.splitlines():
        if "# ->" in line:
            yield "\n".join(waiting)
            waiting.clear()
            yield line
        else:
            waiting.append(line)
    yield "\n".join(waiting)


TOP = """var Graph jit grad value_and_grad vjp jvp jacobian jacfwd jacrev hessian hvp gradients
checkpoint custom_vjp custom_jvp stop_gradient delay lazy_print evaluate load optimise largest
linearize diff gradhessian laplacian jacobianv jacobianTv map_elements fold scan scope save_arrays
load_arrays register_function""".split()
NETWORKS = """Module train predict evaluate training_graph summary Linear FullyConnected Conv1d Conv2d
Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d MaxPool1d MaxPool2d MaxPool3d AvgPool1d
AvgPool2d AvgPool3d BatchNorm LayerNorm GroupNorm RNN LSTM GRU Embedding MultiHeadAttention
Sequential Activation Dropout Parameter State mean_squared mean_absolute quadratic l1 l2 hinge
squared_hinge binary_cross_entropy huber cross_entropy accuracy""".split()
OPTIMISERS = """minimise Optimiser SGD Adam AdamW AdaGrad RMSprop LBFGS Constant Decay
ExponentialDecay Schedule Cosine WarmUp Plateau Early Below ClipNorm ClipValue Momentum Nesterov L1
L2 ElasticNet""".split()
ARRAYS = [n for n in np.__all__ if f"np.{n}" in PUBLIC and not hasattr(numpy, n) and n[0] != "_"]
"""Functions that NumPy does not have."""

CORE = [
    *(f"tw.{n}" for n in TOP),
    *(f"nn.{n}" for n in NETWORKS),
    *(f"optim.{n}" for n in OPTIMISERS),
    *(f"np.{n}" for n in ARRAYS),
    *(f"tw.random.{n}" for n in tw.random.__all__),
    *(f"tw.solve.{n}" for n in ("ode", "root", "fixed_point", "cg", "gmres")),
    *(f"tw.testing.{n}" for n in ("assert_peak", "check_grads")),
    *(
        n
        for n in PUBLIC
        if n.startswith(("tw.Graph.", "tw.Program.", "Plan.", "Throughput.", "nn.Module."))
    ),
]
"""What most programs are written with: their parameters are said one by one."""

PLAIN = """Graph.inputs Graph.outputs Graph.updates Graph.order Graph.results Graph.unflatten
Graph.variable Program.draw Program.engine Plan.block_of Plan.program_nodes Module.adopt Module.check_array
Module.check_image Module.check_last_axis Module.extra Module.input_error Module.forward Module.label Module.match_dtype
Module.training Module.walk""".split()
"""What needs no example: what others give, and what layers are written with."""


def _parameters(value: Any) -> list[str]:
    """What must be explained; keywords that elementwise functions share are NumPy's."""
    if not callable(value):
        return []
    given = inspect.signature(value).parameters
    shared = {"out", "where", "casting", "order", "dtype", "subok", "signature"}
    idle = {"self", *(shared if "casting" in given else ())}
    return [p for p in given if p not in idle and not p.startswith("_")]


@each(CORE)
def test_every_parameter_is_explained(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert text
    assert not [p for p in _parameters(PUBLIC[name]) if f"`{p}`" not in text]


SHOWN = ["tw.Program", "tw.Array", "Plan", *(n for n in CORE if not n.endswith(tuple(PLAIN)))]


@each(SHOWN)
def test_the_core_shows_an_example(name: str) -> None:
    assert _blocks(PUBLIC[name])
