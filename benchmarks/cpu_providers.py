"""Our own kernels and oneDNN's, side by side: what `TAWNY_PROVIDER=auto` rests on.

python benchmarks/cpu_providers.py [layers gradients others matmul pooling layouts nets]
                                   [--nets resnet50 inception_v3] [--image 224] [--rounds 10]

    layers      every convolution of a network as it is fused, weights known
    gradients   the same convolutions backwards, weights not known
    others      depthwise, grouped, dilated, 1-D and 3-D convolutions, and their gradients
    matmul      products of several shapes, the right matrix known or not
    pooling     poolings and their gradients
    layouts     oneDNN's convolutions of a network, channels last and as it likes best
    nets        whole networks, all by one provider, and by the rules

Each line is a compiled program of one step, its inputs bound; times are the best of interleaved
rounds.  The ratio is above 1 where oneDNN is faster; a star says that the rules take it.
"""

from __future__ import annotations

import argparse
import ctypes
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

import networks
import tawny as tw
import tawny.numpy as tnp
from backends import _walk, tawny_table
from networks import steps_of
from tawny.array import array_for
from tawny.engine.cpu.onednn import convolution as by_onednn
from tawny.engine.cpu.onednn.library import load, missing
from tawny.engine.cpu.onednn.primitive import (
    Description,
    Descriptor,
    Primitive,
    attributes,
    free,
    tagged,
    with_strides,
)
from tawny.engine.cpu.onednn.recipe import Recipe, RowPlace, aligned_bytes
from tawny.engine.cpu.providers import OPTION
from tawny.engine.cpu.threads.pool import default_threads
from tawny.node import Node, make
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
    ConvolutionOp,
)
from tawny.ops.fusion import FusedConvolution
from timing import interleaved

Call = Callable[[], object]
Case = tuple[str, Node, int]
"""A name, a node, and how often it occurs."""


@contextmanager
def provider(name: str) -> Iterator[None]:
    """Programs compiled inside are served by this provider."""
    before = os.environ.get(OPTION)
    os.environ[OPTION] = name
    try:
        yield
    finally:
        del os.environ[OPTION]
        if before is not None:
            os.environ[OPTION] = before


def drawn(*shape: int) -> np.ndarray:
    """The same numbers each time."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def variable(name: str, shape: tuple[int, ...]) -> Any:
    """A variable of float32."""
    return tw.var(name, shape=shape, dtype="float32")


def program(node: Node, known: Sequence[int]) -> tuple[Call, bool]:
    """A program of one node whose operands are bound, or known; and whether oneDNN serves it."""
    inputs = [
        tnp.asarray(drawn(*i.shape)) if n in known else variable(f"x{n}", i.shape)
        for n, i in enumerate(node.inputs)
    ]
    variables = {f"x{n}": a for n, a in enumerate(inputs) if n not in known}
    result = array_for(make(node.op, tuple(a.node for a in inputs)))
    compiled = tw.Graph(list(variables.values()), result).compile()
    compiled.set(bind=True, **{name: drawn(*a.shape) for name, a in variables.items()})
    first = next(iter(variables))

    def run() -> object:
        compiled.touch(first)
        return compiled.run(views=True)

    run()
    return run, "by oneDNN" in str(compiled.plan)


def compared(title: str, cases: Sequence[Case], known: Sequence[int], rounds: int) -> None:
    """One line for each case, and the sum of all times."""
    print(f"{title}\n  {'GFLOP/s':<46}{'own':>10}{'oneDNN':>10}{'ratio':>8}")
    totals: Counter[str] = Counter()
    for name, node, count in cases:
        calls: dict[str, Call] = {}
        served: dict[str, bool] = {}
        for which in ("auto", "own", "onednn"):
            with provider(which):
                call, served[which] = program(node, known)
                if which != "auto":
                    calls[which] = call
        operations = node.cost().operations
        timed = interleaved(calls, rounds=rounds, calls=max(1, int(1e7 / operations)))
        own, other = (operations / timed[n].best / 1e9 for n in ("own", "onednn"))
        star = "*" if served["auto"] else " " if served["onednn"] else "(own)"
        print(f"  {name:<42} x{count:>2}{own:>10.1f}{other:>10.1f}{other / own:>8.2f} {star}")
        totals["own"] += count * timed["own"].best * 1e3
        totals["oneDNN"] += count * timed["onednn"].best * 1e3
        totals["rules"] += count * timed["onednn" if served["auto"] else "own"].best * 1e3
    print("  milliseconds: " + ", ".join(f"{n} {t:.2f}" for n, t in totals.items()), flush=True)


# ------------------------------------------------------------------ convolutions


def network(name: str, side: int) -> tw.Graph:
    """A network with known weights."""
    steps = steps_of(getattr(networks, name))
    x = tw.var("x", shape=(1, side, side, 3), dtype="float32")
    return tw.Graph([x], _walk(steps, x, tawny_table(), [s.settings for s in steps]))


def named(node: Node) -> str:
    """A convolution in one line."""
    op, (x, kernel) = node.op, node.inputs[:2]
    assert isinstance(op, ConvolutionOp)
    window = "x".join(map(str, kernel.shape[:-2]))
    text = f"{kernel.shape[-2]:>4} > {kernel.shape[-1]:>4} {window:>4} / {op.strides[0]}"
    ending = ""
    if isinstance(op, FusedConvolution):
        last = op.epilogue
        parts = ["bias"] * last.bias + ["residual"] * last.residual + [last.activation.value]
        ending = "+".join(filter(None, parts))
    return f"{text} {x.shape[1]:>4}  {ending}"


def convolutions(name: str, side: int) -> list[Node]:
    """The convolutions that a compiled network runs."""
    steps = [s.array.node for s in network(name, side).plan().steps]
    return [n for n in steps if isinstance(n.op, ConvolutionOp)]


def counted(nodes: Sequence[Node]) -> list[Case]:
    """Those that are not alike, and how often each occurs."""
    first: dict[object, Node] = {}
    often: Counter[object] = Counter()
    for node in nodes:
        key = node.op, tuple(i.shape for i in node.inputs)
        first.setdefault(key, node)
        often[key] += 1
    return [(named(node), node, often[key]) for key, node in first.items()]


def compare_layers(name: str, side: int, rounds: int) -> None:
    """Convolutions with their epilogues, weights and bias known."""
    cases = counted(convolutions(name, side))
    compared(f"convolutions of {name} at {side}, weights known", cases, (1, 2), rounds)


def compare_gradients(name: str, side: int, rounds: int) -> None:
    """Convolutions and both gradients of each, weights not known."""
    cases = counted(convolutions(name, side))
    plain: list[Case] = []
    to_input: list[Case] = []
    to_kernel: list[Case] = []
    for text, node, count in cases:
        op, (x, kernel) = node.op, node.inputs[:2]
        assert isinstance(op, ConvolutionOp)
        geometry = op.strides, op.padding, op.dilation, op.groups
        slope = variable("slope", node.shape).node
        plain.append((text, make(Convolution(*geometry), (x, kernel)), count))
        back = ConvolutionInputGradient(*geometry, x.shape[1:-1])
        to_input.append((text, make(back, (kernel, slope)), count))
        down = ConvolutionKernelGradient(*geometry, kernel.shape[:-2])
        to_kernel.append((text, make(down, (x, slope)), count))
    for title, which in (("results", plain), ("inputs", to_input), ("kernels", to_kernel)):
        compared(f"gradients, {name} at {side}: {title}", which, (), rounds)


OTHERS = (
    # what, input, kernel, stride, dilation, groups
    ("depthwise", (1, 112, 112, 32), (3, 3, 1, 32), 1, 1, 32),
    ("depthwise", (1, 56, 56, 144), (3, 3, 1, 144), 2, 1, 144),
    ("depthwise", (1, 14, 14, 576), (3, 3, 1, 576), 1, 1, 576),
    ("depthwise", (8, 14, 14, 384), (5, 5, 1, 384), 1, 1, 384),
    *[
        (f"groups of {each}", (1, side, side, all_), (3, 3, each, all_), 1, 1, all_ // each)
        for side, all_ in ((56, 128), (28, 256), (14, 512), (7, 1024))
        for each in (2, 4, 8, 16, 32)
    ],
    ("groups of 4", (1, 56, 56, 64), (5, 5, 4, 128), 1, 1, 16),
    ("groups of 4", (1, 28, 28, 256), (1, 1, 4, 256), 1, 1, 64),
    ("groups of 4", (1, 8, 16, 16, 32), (3, 3, 3, 4, 32), 1, 1, 8),
    ("groups of 8", (8, 28, 28, 256), (3, 3, 8, 256), 2, 1, 32),
    ("dilated", (1, 28, 28, 256), (3, 3, 256, 256), 1, 2, 1),
    ("1 axis", (1, 3000, 80), (3, 80, 256), 1, 1, 1),
    ("1 axis", (4, 1000, 256), (9, 256, 256), 1, 4, 1),
    ("3 axes", (1, 16, 32, 32, 3), (3, 3, 3, 3, 32), 1, 1, 1),
    ("3 axes", (1, 16, 32, 32, 32), (3, 3, 3, 32, 64), 1, 1, 1),
    ("3 axes", (1, 8, 16, 16, 64), (1, 3, 3, 64, 64), 1, 1, 1),
    ("batch of 32", (32, 14, 14, 256), (3, 3, 256, 256), 2, 1, 1),
    ("batch of 100", (100, 28, 28, 1), (5, 5, 1, 32), 1, 1, 1),
    ("patches", (1, 224, 224, 3), (16, 16, 3, 768), 16, 1, 1),
)


def compare_others(rounds: int) -> None:
    """Convolutions of other kinds, weights known, and their gradients, weights not known."""
    cases: dict[str, list[Case]] = {"results": [], "inputs": [], "kernels": []}
    for what, shape, window, stride, dilation, groups in OTHERS:
        rank = len(shape) - 2
        spans = [(n - 1) * dilation for n in window[:-2]]
        pads = tuple(
            (s // 2, s // 2) if stride < n else (0, 0)
            for s, n in zip(spans, window[:-2], strict=True)
        )
        geometry = (stride,) * rank, pads, (dilation,) * rank, groups
        x, kernel = variable("x", shape).node, variable("k", window).node
        node = make(Convolution(*geometry), (x, kernel))
        slope = variable("slope", node.shape).node
        text = f"{what}: {'x'.join(map(str, shape))} by {'x'.join(map(str, window))} / {stride}"
        cases["results"].append((text, node, 1))
        back = ConvolutionInputGradient(*geometry, shape[1:-1])
        cases["inputs"].append((text, make(back, (kernel, slope)), 1))
        down = ConvolutionKernelGradient(*geometry, window[:-2])
        cases["kernels"].append((text, make(down, (x, slope)), 1))
    compared("other convolutions, weights known", cases["results"], (1,), rounds)
    compared("other convolutions: gradients of inputs", cases["inputs"], (), rounds)
    compared("other convolutions: gradients of kernels", cases["kernels"], (), rounds)


# ----------------------------------------------------------- matrices and pools


SHAPES = (
    (64, 64, 64),
    (256, 256, 256),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (1024, 512, 2048),
    (100, 12544, 1024),
    (12544, 100, 1024),
    (100, 1024, 10),
    (16, 256, 1024),
    (1, 2048, 1000),
)


def compare_matmul(rounds: int) -> None:
    """Rows, the common axis, columns."""
    from tawny.ops.linalg import Matmul

    cases: list[Case] = []
    for m, k, n in SHAPES:
        a, b = variable("a", (m, k)), variable("b", (k, n))
        cases.append((f"{m} x {k} x {n}", make(Matmul(), (a.node, b.node)), 1))
    a, b = variable("a", (64, 128, 64)), variable("b", (64, 64, 128))
    cases.append(("64 of 128 x 64 x 128", make(Matmul(), (a.node, b.node)), 1))
    compared("products", cases, (), rounds)
    compared("products, the right matrix known", cases, (1,), rounds)


def compare_pooling(rounds: int) -> None:
    """Pools of ResNet50, InceptionV3 and the MNIST network."""
    cases: list[Case] = []
    for text, shape, window, strides, padding in (
        ("resnet50", (1, 112, 112, 64), 3, 2, ((1, 1), (1, 1))),
        ("inception_v3", (1, 35, 35, 288), 3, 1, ((1, 1), (1, 1))),
        ("mnist", (100, 28, 28, 32), 2, 2, "VALID"),
    ):
        x = variable("x", shape)
        options = {"strides": strides, "padding": padding}
        mean = tnp.avg_pool2d(x, window, **options)
        slope = variable("slope", mean.shape)
        back = tnp.avg_pool_gradient(slope, window, input_shape=shape, **options)
        cases += [(f"{text} mean", mean.node, 1), (f"{text} mean gradient", back.node, 1)]
    compared("poolings", cases, (), rounds)


# ----------------------------------------------------------------------- layouts


def compare_layouts(name: str, side: int, rounds: int) -> None:
    """Convolutions of a network by oneDNN alone, and how images lie.

    They have their channels last, or in blocks of 16 (if there are as many), or lie as each
    layer likes best.  Nothing is reordered between layers.
    """
    lying: dict[str, Callable[[tuple[int, ...]], Descriptor]] = {
        "channels last": last,
        "blocks of 16": lambda shape: free(shape) if shape[1] % 16 else tagged(shape, BLOCKED),
        "any": free,
    }
    calls: dict[str, list[Call]] = {which: [] for which in lying}
    library = load()
    assert library is not None
    with library.threads(default_threads()):
        for node in convolutions(name, side):
            x, kernel = node.inputs[:2]
            for which, images in calls.items():
                shapes = [(s[0], s[-1], *s[1:-1]) for s in (x.shape, node.shape)]
                images.append(bare(node, *map(lying[which], shapes), kernel.shape))
    timed = interleaved({n: lambda c=c: [f() for f in c] for n, c in calls.items()}, rounds=rounds)
    print(f"oneDNN's layouts, convolutions of {name} at {side} (ms)")
    for which, t in timed.items():
        print(f"  {which:<16}{t.best * 1e3:>10.2f}{t.median * 1e3:>10.2f}", flush=True)


BLOCKED = 78
"""oneDNN's tag for images in blocks of 16 channels."""


def last(shape: tuple[int, ...]) -> Descriptor:
    """An image of (batch, channels, rows, columns) whose channels are side by side."""
    _, c, h, w = shape
    return with_strides(shape, (4 * c * h * w, 4, 4 * c * w, 4 * c))


def bare(node: Node, x: Descriptor, y: Descriptor, kernel: tuple[int, ...]) -> Call:
    """A primitive without an epilogue, on memory of its own."""
    op = node.op
    assert isinstance(op, ConvolutionOp)
    weights = free(by_onednn.weights_shape(op, kernel))
    description: Description = by_onednn.forward(op, x, weights, None, y, attributes())
    primitive = Primitive(description, {})
    recipe = Recipe(2, default_threads())
    recipe.run(primitive, {1: RowPlace(0), 33: RowPlace(1), 17: recipe.result})
    kernel_ = recipe.kernel()
    arrays = [aligned_bytes(primitive.memory[n].nbytes) for n in (1, 33, 17)]
    arrays += [aligned_bytes(kernel_.scratch)] * (kernel_.scratch > 0)
    for array in arrays:
        array.view(np.float32 if array.nbytes % 4 == 0 else np.uint8).fill(0)
    row = np.array([*[a.ctypes.data for a in arrays], *kernel_.parameters], np.int64)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = kind(kernel_.library.address(kernel_.symbol))
    return lambda: (function(row.ctypes.data, 0, 1), kernel_, arrays)


def compare_nets(names: Sequence[str], side: int, rounds: int) -> None:
    """Whole networks."""
    for name in names:
        graph, x = network(name, side), drawn(1, side, side, 3)
        calls: dict[str, Call] = {}
        for which in ("own", "onednn", "auto"):
            with provider(which):
                compiled = graph.compile()
                compiled(x)
                calls[which] = partial(compiled, x)
                print(f"  {which}: {str(compiled.plan).splitlines()[-1]}")
        timed = interleaved(calls, rounds=rounds)
        print(f"{name} at {side} (ms: best, median)")
        for which, t in timed.items():
            print(f"  {which:<16}{t.best * 1e3:>10.2f}{t.median * 1e3:>10.2f}", flush=True)


def main() -> None:
    """Print the tables."""
    what = ("layers", "gradients", "others", "matmul", "pooling", "layouts", "nets")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=list(what))
    parser.add_argument("--nets", nargs="*", default=["resnet50", "inception_v3"])
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    if missing() is not None:
        raise SystemExit(f"there is no oneDNN: {missing()}")
    print(f"{tw.__name__} {tw.__version__}, oneDNN {load().version}, {default_threads()} threads")
    for table in given.tables:
        for name in given.nets if table in {"layers", "gradients", "layouts"} else [""]:
            match table:
                case "layers":
                    compare_layers(name, given.image, given.rounds)
                case "gradients":
                    compare_gradients(name, given.image, given.rounds)
                case "layouts":
                    compare_layouts(name, given.image, given.rounds)
                case "others":
                    compare_others(given.rounds)
                case "matmul":
                    compare_matmul(given.rounds)
                case "pooling":
                    compare_pooling(given.rounds)
                case _:
                    compare_nets(given.nets, given.image, given.rounds)


if __name__ == "__main__":
    main()
