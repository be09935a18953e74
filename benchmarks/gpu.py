"""Programs on an NVIDIA GPU beside PyTorch, compiled with CUDA graphs, and JAX, in one process.

    python benchmarks/gpu.py [--rows NAME ...] [--peers torch jax] [--mode reduce-overhead] [--json FILE]

Everything lies on the device; a call is timed until the device has done it.  Each contender is called
in turn, the best of many calls counts.  `build` is everything up to the first result; `of the roof`
is what ours moves or computes a second, as a fraction of what a copy of 400 MB, or a product of
matrices of 4,096 by this library, does here.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import models
import tawny as tw
import tawny.numpy as tnp
from backends import jax_steps, torch_steps
from networks import resnet50, steps_of
from tawny.bench.workloads import WORKLOADS
from tawny.engine.protocol import engine_named
from timing import installed, interleaved

LENGTH = 10**8
TINY = 1000
SIDE = 299

Run = Callable[[], object]


@dataclass
class Row:
    """A program: how each library builds it, and what it moves or computes at least."""

    name: str
    makers: dict[str, Callable[[], Run]]
    moved: float = 0.0
    """Bytes; 0 where arithmetic counts."""
    operations: float = 0.0
    precision: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    built: dict[str, float] = field(default_factory=dict)


# -------------------------------------------------------------------------- tawny


def ours(graph: tw.Graph, feeds: dict[str, Any], precision: str | None = None) -> Run:
    """A program whose variables and results are on the device."""
    program = graph.compile("cuda", incremental=False, precision=precision)
    program.set(**feeds)
    program.run(views=True)
    return lambda: program.run(views=True)


def operations(graph: tw.Graph) -> float:
    """What a graph computes, in additions and multiplications."""
    return float(sum(n.op.cost((n.shape, n.dtype), [(x.shape, x.dtype) for x in n.inputs]).operations
                     for n in graph.order if n.inputs and not n.parts))  # fmt: skip


# -------------------------------------------------------------------------- peers


def torch_run(function: Callable[..., Any], arguments: Sequence[Any], mode: str, tf32: bool) -> Run:
    """A function compiled by PyTorch, of tensors on the device."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    made = torch.compile(function, mode=mode)

    def run() -> None:
        with torch.no_grad():
            made(*arguments)
        torch.cuda.synchronize()

    for _ in range(3):
        run()
    return run


def jax_run(function: Callable[..., Any], arguments: Sequence[Any], tf32: bool) -> Run:
    """A function jitted by JAX, of arrays on the device."""
    import jax

    placed = jax.device_put(list(arguments))
    with jax.default_matmul_precision("tensorfloat32" if tf32 else "float32"):
        made = jax.jit(function)
        jax.block_until_ready(made(*placed))

    def run() -> None:
        with jax.default_matmul_precision("tensorfloat32" if tf32 else "float32"):
            jax.block_until_ready(made(*placed))

    return run


# --------------------------------------------------------------------------- rows


def network_row(batch: int, precision: str | None, mode: str) -> Row:
    """ResNet50 on images of 299 x 299."""
    steps, tf32 = steps_of(resnet50), precision is not None
    image = np.random.default_rng(0).random((batch, SIDE, SIDE, 3), dtype=np.float32)
    from backends import _walk, tawny_table

    x = tw.var("x", image.shape, "float32")
    graph = tw.Graph([x], _walk(steps, x, tawny_table(), [s.settings for s in steps]))

    def by_torch() -> Run:
        import torch
        import torch._inductor.config as config

        config.freezing = True
        function = torch.fx.symbolic_trace(torch_steps(steps, "cuda")).eval()
        given = torch.from_numpy(image).cuda().permute(0, 3, 1, 2)
        return torch_run(function, [given], mode, tf32)

    return Row(
        f"ResNet50, batch {batch}, {precision or 'float32'}",
        {
            "tawny": lambda: ours(graph, {"x": image}, precision),
            "torch": by_torch,
            "jax": lambda: jax_run(jax_steps(steps), [image], tf32),
        },
        operations=operations(graph),
        precision=precision,
    )


def transformer_row(precision: str | None, mode: str) -> Row:
    """A transformer's block, 8 sequences of 128 x 512."""
    arrays, tf32 = models.transformer_weights(), precision is not None
    variables = {n: tw.var(n, v.shape, "float32") for n, v in arrays.items()}

    def block(np: Any, softmax: Any, gelu: Any) -> Callable[..., Any]:
        return lambda *v: models.transformer(np, softmax, gelu, dict(zip(arrays, v, strict=True)))

    gelu = lambda x: x * 0.5 * (1.0 + tnp.erf(x * 0.5**0.5))  # noqa: E731
    made = block(tnp, lambda x: tnp.softmax(x, axis=-1), gelu)(*variables.values())
    graph = tw.Graph(list(variables.values()), made)

    def by_torch() -> Run:
        import torch

        f, width = torch.nn.functional, models.WIDTH

        def function(x: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
            parts = (f.layer_norm(x, (width,)) @ qkv).split(width, -1)
            q, k, v = (t.reshape(8, models.TOKENS, models.HEADS, -1).transpose(1, 2) for t in parts)
            mixed = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = x + mixed @ out
            return x + f.gelu(f.layer_norm(x, (width,)) @ up) @ down

        given = [torch.from_numpy(v).cuda() for v in arrays.values()]
        return torch_run(function, given, mode, tf32)

    def by_jax() -> Run:
        import jax

        function = block(
            jax.numpy, lambda x: jax.nn.softmax(x, -1), lambda x: jax.nn.gelu(x, approximate=False)
        )
        return jax_run(function, list(arrays.values()), tf32)

    return Row(
        f"transformer block, {precision or 'float32'}",
        {"tawny": lambda: ours(graph, arrays, precision), "torch": by_torch, "jax": by_jax},
        operations=operations(graph),
        precision=precision,
    )


def training_row() -> Row:
    """A step of the report's MNIST network, batch 100."""

    def by_tawny() -> Run:
        workload = WORKLOADS["MNIST training"].prepare()
        return ours(workload.build(), workload.feeds)

    def by_torch() -> Run:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        f, arrays = torch.nn.functional, models.mnist_weights()
        p = {n: torch.from_numpy(v.copy()).cuda() for n, v in arrays.items()}
        p["k"] = p["k"].permute(3, 2, 0, 1).contiguous()
        for name in models.PARAMETERS:
            p[name].requires_grad_()
        optimiser = torch.optim.Adagrad(
            [p[n] for n in models.PARAMETERS], lr=0.005, initial_accumulator_value=1e-6
        )
        target = p["y"].argmax(1)

        def run() -> None:
            h = f.max_pool2d(f.relu(f.conv2d(p["x"].permute(0, 3, 1, 2), p["k"], padding=2)), 2)
            h = f.dropout(h.permute(0, 2, 3, 1).reshape(100, -1), 0.1)
            logits = f.relu(h @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
            loss = f.cross_entropy(logits, target)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            torch.cuda.synchronize()

        run()
        return run

    return Row("MNIST training step, batch 100", {"tawny": by_tawny, "torch": by_torch})


def chain_row(mode: str) -> Row:
    """A chain of elementwise ops on 1e8 numbers, read once and written once."""
    value = np.random.default_rng(0).standard_normal(LENGTH, np.float32)
    x = tw.var("x", (LENGTH,), "float32")

    def chain(np: Any) -> Callable[[Any], Any]:
        return lambda x: np.sqrt(np.abs(x * 1.5 + 0.25)) * x

    def by_torch() -> Run:
        import torch

        return torch_run(chain(torch), [torch.from_numpy(value).cuda()], mode, False)

    def by_jax() -> Run:
        import jax.numpy

        return jax_run(chain(jax.numpy), [value], False)

    makers = {
        "tawny": lambda: ours(tw.Graph([x], chain(tnp)(x)), {"x": value}),
        "torch": by_torch,
        "jax": by_jax,
    }
    return Row("elementwise chain, 1e8 float32", makers, moved=8.0 * LENGTH)


def tiny_row() -> Row:
    """1,000 dependent ops on 1,000 numbers."""
    x = tw.var("x", (TINY,), "float32")

    def chain(x: Any) -> Any:
        y = x
        for i in range(TINY):
            y = y * 0.999 + x if i % 2 else y - 0.01
        return y

    value = np.ones(TINY, np.float32)
    makers = {
        "tawny": lambda: ours(tw.Graph([x], chain(x)), {"x": value}),
        "jax": lambda: jax_run(chain, [value], False),
    }
    return Row("1,000 dependent tiny ops", makers)


def roofs() -> dict[str | None, float]:
    """Bytes a second of a copy under 'copy', operations a second by precision."""
    n, found = 4096, dict[str | None, float]()
    x, a, b = (
        tw.var("x", (LENGTH,), "float32"),
        tw.var("a", (n, n), "float32"),
        tw.var("b", (n, n), "float32"),
    )
    value, square = (
        np.ones(LENGTH, np.float32),
        np.random.default_rng(0).standard_normal((n, n), np.float32),
    )
    runs: dict[str | None, Run] = {"copy": ours(tw.Graph([x], x + 1), {"x": value})}
    for precision in (None, "tf32"):
        runs[precision] = ours(tw.Graph([a, b], a @ b), {"a": square, "b": square}, precision)
    for name, run in runs.items():
        best = interleaved({"": run}, rounds=3, calls=5)[""].best
        found[name] = (8.0 * LENGTH if name == "copy" else 2.0 * n**3) / best
    return found


# ---------------------------------------------------------------------------- main


def measure(row: Row, peers: Sequence[str]) -> None:
    """Build and time what a row has."""
    runs: dict[str, Run] = {}
    for name, make in row.makers.items():
        if name == "tawny" or name in peers:
            start = time.perf_counter()
            runs[name] = make()
            row.built[name] = time.perf_counter() - start
    timed = interleaved(runs, rounds=5, calls=10)
    row.seconds = {name: t.best for name, t in timed.items()}


def line(row: Row, roof: dict[str | None, float]) -> str:
    """A row of the table."""
    own = row.seconds["tawny"]
    best = min((s for n, s in row.seconds.items() if n != "tawny"), default=float("nan"))
    rate = row.moved / roof["copy"] if row.moved else row.operations / roof[row.precision]
    others = "".join(f"{row.seconds.get(n, float('nan')) * 1e3:>10.3f}" for n in ("torch", "jax"))
    part = f"{rate / own:>12.0%}" if rate else f"{'':>12}"
    return f"{row.name:<34}{own * 1e3:>10.3f}{others}{own / best:>12.2f}{part}{row.built['tawny']:>9.2f}"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=[], help="parts of names; all by default")
    parser.add_argument("--peers", nargs="*", default=["torch", "jax"])
    parser.add_argument("--mode", default="max-autotune", help="of torch.compile")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    peers, roof = installed(args.peers), roofs()
    makers: list[Callable[[], Row]] = [
        lambda: chain_row(args.mode),
        tiny_row,
        training_row,
        lambda: transformer_row(None, args.mode),
        lambda: transformer_row("tf32", args.mode),
        *[lambda b=b, p=p: network_row(b, p, args.mode) for b in (1, 32) for p in (None, "tf32")],
    ]
    print(f"{engine_named('cuda').driver.facts().name}; best of 50 calls, ms")
    print(
        f"copy {roof['copy'] / 1e12:.2f} TB/s; products {roof[None] / 1e12:.0f} and {roof['tf32'] / 1e12:.0f} TFLOP/s in float32 and tf32"
    )
    print(
        f"{'':<34}{'tawny':>10}{'torch':>10}{'jax':>10}{'ours/best':>12}{'of the roof':>12}{'build s':>9}"
    )
    rows: list[Row] = []
    for make in makers:
        row = make()
        if not args.rows or any(part in row.name for part in args.rows):
            measure(row, peers)
            rows.append(row)
            print(line(row, roof), flush=True)
        if args.json:
            found = [{"name": r.name, "seconds": r.seconds, "built": r.built} for r in rows]
            args.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
