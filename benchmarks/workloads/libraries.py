"""How each library runs a workload; a library is imported when it is first asked for.

Each function makes a workload ready.  Arrays lie in the library's own form before they are timed,
and results are left in it: a call computes and nothing else.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workloads.family import Arrays, Workload
from workloads.names import jax_names, numpy_names, tawny_names

RATE = 1e-3
"""How far a step of training goes along the slopes."""
THREADS = 2

Contender = Callable[[], Any]


class LeftOutError(Exception):
    """A library that takes no part in a workload; the message says why."""


@dataclass
class Ready:
    """A workload made ready by one library."""

    run: Callable[[], Any]
    seconds: float
    """What making it took, the first call of what compiles then included."""
    arrays: Callable[[Any], list[np.ndarray]]
    """What a call gave, as NumPy's arrays."""
    planned_bytes: int | None = None
    least: Callable[[], float] | None = None
    """The seconds that the machine needs at least, by what it does at best."""


# ----------------------------------------------------------------------- numpy


def numpy(workload: Workload) -> Ready:
    """NumPy, and SciPy for what it lacks."""
    family = workload.family
    if family.slopes or family.trained:
        raise LeftOutError("has no derivatives")
    if family.onnx and "conv" in family.parts["numpy"].__code__.co_names:
        raise LeftOutError("has no convolutions")
    given, names = workload.data() | workload.weights(), numpy_names()
    function = family.parts["numpy"]
    return Ready(lambda: function(names, **given), 0.0, _leaves)


def _leaves(result: Any) -> list[np.ndarray]:
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(x) for x in parts]


# ----------------------------------------------------------------------- tawny


def tawny(workload: Workload) -> Ready:
    """A program of inputs that all change, which lie where they are, as its outputs do."""
    data = workload.data()
    start = time.perf_counter()
    graph, state = _tawny_graph(workload, data)
    program = graph.compile(threads=THREADS, incremental=False)
    seconds = time.perf_counter() - start
    program.set(state)
    program.set(data, bind=True)
    names = [*data]

    def run() -> Any:
        program.touch(*names)
        return program.run(views=True)

    def least() -> float:
        return program_roof(program, [*data.values(), *state.values()])

    return Ready(run, seconds, _leaves, program.plan.peak_bytes, least)


def _tawny_graph(workload: Workload, data: Arrays) -> tuple[Any, Arrays]:
    """The graph of a workload, and the first values of what its updates change."""
    import tawny as tw
    import tawny.numpy as tnp

    family, weights = workload.family, workload.weights()
    state = {n: weights.pop(n) for n in family.trained}
    given = {n: tw.var(n, v.shape, v.dtype) for n, v in data.items()}
    moved = {n: tw.var(n, v.shape, v.dtype) for n, v in state.items()}
    held = {n: tnp.asarray(v) for n, v in weights.items()}
    every = given | moved | held
    result = family.parts["numpy"](tawny_names(), **every)
    if family.slopes:
        result = (result, *tw.gradients(result, [every[n] for n in family.slopes]))
    if not moved:
        return tw.Graph([*given.values()], result), {}
    slopes = tw.gradients(result, [*moved.values()])
    updates = {v: v - RATE * s for v, s in zip(moved.values(), slopes, strict=True)}
    return tw.Graph([*given.values()], result, updates=updates), state


def tawny_jit(workload: Workload) -> Ready:
    """A jitted function, called on NumPy's arrays, which gives new ones."""
    import tawny as tw
    import tawny.numpy as tnp

    family = workload.family
    if family.trained:
        raise LeftOutError("a step of training is a program with updates")
    data, names = workload.data(), tawny_names()
    weights = {n: tnp.asarray(v) for n, v in workload.weights().items()}
    order = [*data]
    places = [order.index(n) for n in family.slopes]

    def function(*values: Any) -> Any:
        return family.parts["numpy"](names, **dict(zip(order, values, strict=True)), **weights)

    def with_slopes(*values: Any) -> Any:
        value, slopes = tw.value_and_grad(function, places)(*values)
        return value, *(slopes if isinstance(slopes, (list, tuple)) else [slopes])

    start = time.perf_counter()
    jitted = tw.jit(with_slopes if places else function, threads=THREADS)
    values = [*data.values()]
    jitted(*values)
    return Ready(lambda: jitted(*values), time.perf_counter() - start, _leaves)


def program_roof(program: Any, given: Sequence[np.ndarray]) -> float:
    """The least time in which the machine could do the operations and move inputs and outputs once."""
    from tawny.graph.profile.estimate import steps_of
    from tawny.graph.profile.roof import roof_of

    roof = roof_of(program.engine, THREADS)
    works = [step.work for step in steps_of(program.plan)]
    moved = sum(v.nbytes for v in given) + sum(x.nbytes for x in _leaves(program.run(views=True)))
    compute = sum(roof.compute_seconds(work) for work in works)
    return max(compute, moved / roof.bandwidth(moved))


# ------------------------------------------------------------------------ jax


def jax(workload: Workload) -> Ready:
    """JAX, jitted."""
    import jax as library

    library.config.update("jax_enable_x64", workload.case.dtype in ("float64", "complex128"))
    family, names = workload.family, jax_names()
    data, weights = library.device_put((workload.data(), workload.weights()))
    function = family.parts["numpy"]

    def value(moving: Any, rest: Any) -> Any:
        return function(names, **moving, **rest)

    start = time.perf_counter()
    if family.trained:
        state = {n: weights.pop(n) for n in family.trained}

        def step(state: Any, rest: Any) -> Any:
            loss, slopes = library.value_and_grad(value)(state, rest)
            return loss, {n: v - RATE * slopes[n] for n, v in state.items()}

        jitted = library.jit(step, donate_argnums=0)
        held = {"state": state}
        rest = data | weights

        def run() -> Any:
            loss, held["state"] = jitted(held["state"], rest)
            return loss.block_until_ready()

    else:
        every = data | weights
        moving = {n: every[n] for n in family.slopes}
        rest = {n: v for n, v in every.items() if n not in moving}
        if moving:

            def with_slopes(moving: Any, rest: Any) -> Any:
                loss, slopes = library.value_and_grad(value)(moving, rest)
                return loss, *(slopes[n] for n in family.slopes)

            jitted = library.jit(with_slopes)
        else:
            jitted = library.jit(value)

        def run() -> Any:
            return library.block_until_ready(jitted(moving, rest))

    if not family.trained:
        run()
    return Ready(run, time.perf_counter() - start, _leaves)


# ---------------------------------------------------------------------- torch


def torch(workload: Workload, *, compiled: bool = False) -> Ready:
    """PyTorch, one operation at a time, or compiled."""
    import torch as library

    library.set_num_threads(THREADS)
    family = workload.family
    if "torch" not in family.parts:
        raise LeftOutError("has no words for it")
    data = {n: library.from_numpy(v) for n, v in workload.data().items()}
    weights = {n: library.from_numpy(v.copy()) for n, v in workload.weights().items()}
    layout = family.parts.get("torch_weights")
    weights = {n: v.contiguous() for n, v in (layout(weights) if layout else weights).items()}
    start = time.perf_counter()
    network = _network(library, family.parts["torch"], weights, family.trained)
    if compiled:
        import torch._inductor.config as config

        config.freezing = not (family.slopes or family.trained)
        library._dynamo.reset()
        network = library.compile(network, fullgraph=True, dynamic=False)
    run = _torch_run(library, workload, network, data)
    if compiled and not family.trained:
        run()
        run()
    return Ready(run, time.perf_counter() - start, _torch_leaves)


def _network(
    library: Any, function: Callable[..., Any], weights: Mapping[str, Any], trained: Sequence[str]
) -> Any:
    """A module with the weights; what is trained is a parameter of it."""

    class Network(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, value in weights.items():
                if name in trained:
                    setattr(self, name, library.nn.Parameter(value))
                else:
                    self.register_buffer(name, value)

        def forward(self, data: Any) -> Any:
            return function(library, **data, **{n: getattr(self, n) for n in weights})

    return Network().train(bool(trained))


def _torch_run(library: Any, workload: Workload, network: Any, data: Any) -> Callable[[], Any]:
    family = workload.family
    if family.trained:
        optimiser = library.optim.SGD(network.parameters(), lr=RATE)

        def run() -> Any:
            optimiser.zero_grad(set_to_none=True)
            loss = network(data)
            loss.backward()
            optimiser.step()
            return loss.detach()

    elif family.slopes:
        slopes = [data[n].requires_grad_() for n in family.slopes]

        def run() -> Any:
            value = network(data)
            return value.detach(), *library.autograd.grad(value, slopes)

    else:

        def run() -> Any:
            with library.no_grad():
                return network(data)

    return run


def _torch_leaves(result: Any) -> list[np.ndarray]:
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [x.detach().resolve_conj().numpy() for x in parts]


# ----------------------------------------------------------------------- onnx


def _onnx_bytes(workload: Workload) -> bytes:
    """The network as a file."""
    import tawny as tw

    if not workload.family.onnx:
        raise LeftOutError("serves networks")
    graph, _ = _tawny_graph(workload, workload.data())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        try:
            tw.onnx.save(graph, path)
        except ValueError as error:
            raise LeftOutError(str(error)) from None
        return path.read_bytes()


def onnxruntime(workload: Workload) -> Ready:
    """ONNX Runtime, two threads."""
    import onnxruntime as library

    model, data = _onnx_bytes(workload), workload.data()
    options = library.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    start = time.perf_counter()
    session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return Ready(lambda: session.run(None, data), time.perf_counter() - start, _leaves)


def openvino(workload: Workload) -> Ready:
    """OpenVINO in the workload's own dtype, two threads."""
    import openvino as library

    model, data = _onnx_bytes(workload), workload.data()
    settings = {
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    start = time.perf_counter()
    core = library.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    seconds = time.perf_counter() - start

    def run() -> Any:
        found = request.infer(data, share_inputs=True, share_outputs=True)
        return [found[port] for port in compiled.outputs]

    return Ready(run, seconds, _leaves)


LIBRARIES: dict[str, Callable[[Workload], Ready]] = {
    "tawny": tawny,
    "tawny.jit": tawny_jit,
    "numpy": numpy,
    "jax": jax,
    "torch": torch,
    "torch.compile": lambda workload: torch(workload, compiled=True),
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
"""By name; what stands before a dot is what is installed."""

PEERS = ("numpy", "jax", "torch", "torch.compile", "onnxruntime", "openvino")
