"""What computing in bands saves and costs: planned bytes and time, with bands and without.

Programs that need at least 16 MiB: attention over long sequences, a transformer block of many
tokens, a super-resolution network (wide maps between images), U-Net's inference, Mask R-CNN.

What was found: the time is that of the plain program within a few per cent, since bands are chosen
so that weights are not read much more often; where what is between bands stays in the caches it is
less.  Bands of two or three rows of many-channel images were up to 20 % slower, which is why the
estimate counts the bytes of weights for every band.

    python benchmarks/bands.py [--rounds 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy

import tawny as tw
import tawny.numpy as np
from tawny import models
from tawny.array import Array
from timing import interleaved

RNG = numpy.random.default_rng(0)


def weight(*shape: int) -> numpy.ndarray:
    """Weights that keep values of about the same size."""
    return RNG.standard_normal(shape, numpy.float32) / float(numpy.sqrt(numpy.prod(shape[:-1])))


def attention(x: Array) -> Array:
    """(heads, tokens, width): every token looks at all."""
    width = x.shape[-1]
    q, k, v = (x @ weight(width, width) for _ in range(3))
    return np.softmax(q @ np.matrix_transpose(k), axis=-1) @ v


def feed_forward(x: Array) -> Array:
    """(tokens, width): four times as wide between."""
    width = x.shape[-1]
    hidden = x @ weight(width, 4 * width)
    return x + (hidden * np.sigmoid(1.702 * hidden)) @ weight(4 * width, width)


def super_resolution(x: Array) -> Array:
    """(1, rows, columns, 3): wide maps, then an image four times as large."""
    y = np.relu(np.conv2d(x, weight(5, 5, 3, 64), padding="SAME"))
    y = np.relu(np.conv2d(y, weight(3, 3, 64, 32), padding="SAME"))
    return np.conv2d(np.upsampling2d(y, 2), weight(3, 3, 32, 3), padding="SAME")


def u_net(x: Array) -> Array:
    """(1, rows, columns, 3): down, up, and what was seen on the way down."""
    seen: list[Array] = []
    channels = 3
    for depth in range(3):
        x = np.relu(np.conv2d(x, weight(3, 3, channels, 32 << depth), padding="SAME"))
        channels = 32 << depth
        seen.append(x)
        x = np.max_pool2d(x, 2)
    for skip in reversed(seen):
        x = np.concat([np.upsampling2d(x, 2), skip], axis=-1)
        x = np.relu(np.conv2d(x, weight(3, 3, x.shape[-1], skip.shape[-1] // 2), padding="SAME"))
    return np.conv2d(x, weight(1, 1, x.shape[-1], 2), padding="SAME")


def mask_rcnn(x: Array) -> object:
    """The report's network."""
    return models.MaskRCNN()(x)


PROGRAMS: dict[str, tuple[Callable[[Array], object], tuple[int, ...]]] = {
    "attention, 8 heads, 2,048 tokens": (attention, (8, 2048, 64)),
    "feed-forward, 8,192 tokens": (feed_forward, (8192, 512)),
    "super-resolution, 512 x 512": (super_resolution, (1, 512, 512, 3)),
    "U-Net, 512 x 512": (u_net, (1, 512, 512, 3)),
    "Mask R-CNN, 768 x 768": (mask_rcnn, (1, 768, 768, 3)),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'':<36}{'plain MB':>10}{'bands MB':>10}{'ratio':>8}{'plain ms':>11}{'ratio':>8}")
    for name, (build, shape) in PROGRAMS.items():
        x = tw.var("x", shape=shape, dtype="float32")
        graph = tw.Graph([x], build(x))
        plain = graph.compile(incremental=False, disable=["bands"])
        bands = graph.compile(incremental=False)
        image = RNG.standard_normal(shape, numpy.float32)
        for program in (plain, bands):
            program.set(bind=True, x=image)
        timed = interleaved(
            {
                "plain": partial(plain.run, views=True),
                "bands": partial(bands.run, views=True),
            },
            rounds=rounds,
        )
        before, after = plain.plan.peak_bytes, bands.plan.peak_bytes
        time, other = timed["plain"].best, timed["bands"].best
        print(
            f"{name:<36}{before / 1e6:>10.1f}{after / 1e6:>10.1f}{after / before:>8.2f}"
            f"{time * 1e3:>11.1f}{other / time:>8.2f}"
        )


if __name__ == "__main__":
    main()
