"""Convolutions of groups of few channels, and the gradients of their inputs, in GFLOP/s.

python benchmarks/cpu_groups.py [--batch 1] [--rounds 10]

Layers are those of ResNeXt, with 2 to 32 channels in a group, windows of 3 x 3 with strides 1 and 2,
and of 5 x 5.  Each is a compiled program of one step, its inputs bound, its weights known in the
forward direction; times are the best of interleaved rounds.  What `engine/cpu/products/choice.py`
says of groups, and `segments.py` of bytes, was chosen by it.
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
from tawny.ops.convolution import Convolution, ConvolutionInputGradient
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
    """A convolution, and the gradient of its input."""
    pads = ((taps // 2, taps // 2),) * 2
    geometry = (stride, stride), pads, (1, 1), all_ // each
    x = tw.var("x", shape=(batch, side, side, all_), dtype="float32").node
    kernel = tw.var("kernel", shape=(taps, taps, each, all_), dtype="float32").node
    forward = make(Convolution(*geometry), (x, kernel))
    slope = tw.var("slope", shape=forward.shape, dtype="float32").node
    back = make(ConvolutionInputGradient(*geometry, (side, side)), (kernel, slope))
    return {"forward": forward, "backward": back}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    print(f"{tw.__name__} {tw.__version__}, {default_threads()} threads, batch {given.batch}")
    print(f"{'GFLOP/s':<32}{'forward':>10}{'backward':>10}")
    for side, all_, taps, stride in LAYERS:
        for each in CHANNELS:
            found = layers(given.batch, side, all_, taps, stride, each)
            calls = {n: program(x, (1,) if n == "forward" else ()) for n, x in found.items()}
            operations = found["forward"].cost().operations
            timed = interleaved(calls, rounds=given.rounds, calls=max(1, int(1e7 / operations)))
            speeds = [operations / timed[name].best / 1e9 for name in calls]
            name = f"{side}x{side}x{all_} by {taps}x{taps}x{each} / {stride}"
            print(f"{name:<32}{speeds[0]:>10.1f}{speeds[1]:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
