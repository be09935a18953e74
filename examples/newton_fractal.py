"""Newton's fractal by `tw.while_loop`: which root of z**3 = 1 the method finds from each start.

python examples/newton_fractal.py [--short]

The loop goes on until every point has arrived, however long that takes; its memory is known before.
"""

from __future__ import annotations

import argparse

import numpy

import tawny as tw
import tawny.numpy as np

ROOTS = numpy.exp(2j * numpy.pi * numpy.arange(3) / 3)
SHADES = numpy.array(list(" .:-=+*#%@"))


def newton(start: tw.Array) -> tuple[tw.Array, tw.Array]:
    """Where each point arrives, and after how many steps."""

    def apart(z: tw.Array) -> tw.Array:
        return np.abs(z**3 - 1)

    def goes_on(state: tuple[tw.Array, tw.Array]) -> tw.Array:
        z, steps = state
        return np.logical_and(np.any(apart(z) > 1e-9), np.max(steps) < 200)

    def step(state: tuple[tw.Array, tw.Array]) -> tuple[tw.Array, tw.Array]:
        z, steps = state
        moving = apart(z) > 1e-9
        return np.where(moving, z - (z**3 - 1) / (3 * z**2), z), steps + moving

    made: tuple[tw.Array, tw.Array] = tw.while_loop(
        goes_on, step, (start, np.zeros(start.shape, "int64"))
    )
    return made


def main() -> None:
    """Print the picture, and how the points are shared out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="a smaller picture")
    height, width = (18, 48) if parser.parse_args().short else (400, 1000)
    y, x = numpy.mgrid[1.2 : -1.2 : height * 1j, -1.6 : 1.6 : width * 1j]
    plane = x + 1j * y + 1e-6  # 0 itself has nowhere to go

    start = tw.var("start", plane.shape, "complex128")
    end, steps = newton(start)
    nearest = np.argmin(np.abs(end[..., None] - ROOTS), axis=-1)
    program = tw.Graph([start], {"root": nearest, "steps": steps}).compile()
    found = program(plane)
    rows, columns = max(1, height // 18), max(1, width // 48)
    shades = numpy.minimum(found["steps"], 18) // 2
    for line in SHADES[shades][::rows, ::columns]:
        print("".join(line))
    counts = numpy.bincount(found["root"].ravel(), minlength=3) / plane.size
    print(f"\nRoots {', '.join(f'{r:.2f}' for r in ROOTS)} take {counts.round(2).tolist()}")
    print(f"of {plane.size:,} points, after {found['steps'].max()} steps at most;")
    print(f"{program.plan.peak_bytes:,} bytes, however many steps there are.")
    assert abs(counts[1] - counts[2]) < 0.02, "the picture is symmetric"
    assert counts.min() > 0.2


if __name__ == "__main__":
    main()
