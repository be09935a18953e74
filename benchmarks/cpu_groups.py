"""Convolutions of groups of few channels and their gradients, in GFLOP/s.

python benchmarks/cpu_groups.py [--batch 1] [--rounds 10] [--ops forward input kernel]
                                [--channels 2 4 8 16] [--sides 56 28 14 7] [--strides 1 2]

Layers are those of ResNeXt, with 2 to 32 channels in a group, windows of 3 x 3 with strides 1 and 2,
and of 5 x 5.  Each is a compiled program of one step, its inputs bound, its weights known in the
forward direction; times are the best of all rounds.  What `engine/cpu/products/choice.py` says of
groups, and `group_windows.py` of segments, was chosen by it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from tawny.array import array_for
from tawny.engine.cpu.threads.pool import default_threads
from tawny.node import Node, make
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from timing import interleaved

LAYERS = (
    *[(side, all_, 3, stride) for side, all_ in ((56, 128), (28, 256), (14, 512), (7, 1024)) for stride in (1, 2)],
    (28, 128, 5, 1),
    (14, 256, 5, 1),
)  # fmt: skip
"""Pixels along an axis, channels of all groups, taps along an axis, stride."""

CHANNELS = (2, 4, 8, 16, 32)
"""Of a group."""


def aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that begin with a cache line, as results of other steps do."""
    numbers = np.random.default_rng(0).standard_normal(shape, np.float32)
    room = np.empty(numbers.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    found = room[start : start + numbers.nbytes].view(np.float32).reshape(shape)
    found[...] = numbers
    return found


def program(node: Node, known: Sequence[int]) -> Callable[[], object]:
    """A program of one node whose operands are bound, or known."""
    inputs = [
        tnp.asarray(aligned(operand.shape))
        if number in known
        else tw.var(f"x{number}", shape=operand.shape, dtype="float32")
        for number, operand in enumerate(node.inputs)
    ]
    variables = {f"x{n}": x for n, x in enumerate(inputs) if n not in known}
    result = array_for(make(node.op, tuple(x.node for x in inputs)))
    compiled = tw.Graph(list(variables.values()), result).compile()
    compiled.set(bind=True, **{name: aligned(x.shape) for name, x in variables.items()})
    first = next(iter(variables))

    def run() -> object:
        compiled.touch(first)
        return compiled.run(views=True)

    run()
    return run


def layers(batch: int, side: int, all_: int, taps: int, stride: int, each: int) -> dict[str, Node]:
    """A convolution, and its gradients."""
    pads = ((taps // 2, taps // 2),) * 2
    geometry = (stride, stride), pads, (1, 1), all_ // each
    x = tw.var("x", shape=(batch, side, side, all_), dtype="float32").node
    kernel = tw.var("kernel", shape=(taps, taps, each, all_), dtype="float32").node
    forward = make(Convolution(*geometry), (x, kernel))
    slope = tw.var("slope", shape=forward.shape, dtype="float32").node
    return {
        "forward": forward,
        "input": make(ConvolutionInputGradient(*geometry, (side, side)), (kernel, slope)),
        "kernel": make(ConvolutionKernelGradient(*geometry, (taps, taps)), (x, slope)),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--ops", nargs="*", default=["forward", "input"])
    parser.add_argument("--channels", nargs="*", type=int, default=list(CHANNELS))
    parser.add_argument("--sides", nargs="*", type=int, default=[56, 28, 14, 7])
    parser.add_argument("--strides", nargs="*", type=int, default=[1, 2])
    given = parser.parse_args()
    print(f"{tw.__name__} {tw.__version__}, {default_threads()} threads, batch {given.batch}")
    print("GFLOP/s".ljust(32) + "".join(f"{op:>10}" for op in given.ops))
    for side, all_, taps, stride in LAYERS:
        if side not in given.sides or stride not in given.strides:
            continue
        for each in given.channels:
            found = layers(given.batch, side, all_, taps, stride, each)
            operations, shown = found["forward"].cost().operations, ""
            for op in given.ops:
                known = (1,) if op == "forward" else ()
                often = max(1, int(1e7 / operations))
                timed = interleaved(
                    {op: program(found[op], known)}, rounds=given.rounds, calls=often
                )
                shown += f"{operations / timed[op].best / 1e9:>10.1f}"
            print(
                f"{f'{side}x{side}x{all_} by {taps}x{taps}x{each} / {stride}':<32}{shown}",
                flush=True,
            )


if __name__ == "__main__":
    main()
