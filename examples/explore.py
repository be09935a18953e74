"""A simulation and what it looks like, by sliders: only what a slider changes is computed again.

A hot plate cools for some thousand steps, which takes about a second; colours and contour lines are
drawn from its last state.  Moving `conductivity` runs it all, moving a late slider a few steps.

    python examples/explore.py            # opens the browser; Control-C ends
    python examples/explore.py --short    # no browser: moves the sliders itself, and says what ran
"""

import argparse
import json
from typing import Any
from urllib.request import Request, urlopen

import numpy

import tawny as tw
import tawny.numpy as np


def cool(heat: tw.Array, conductivity: tw.Array) -> tw.Array:
    """The temperatures after a step: each goes towards those around it."""
    around = sum(np.roll(heat, by, axis) for axis in (0, 1) for by in (-1, 1))
    return heat + conductivity * (around - 4 * heat)


def plate(size: int, steps: int) -> tw.Graph:
    """The graph: temperatures after some steps, a picture of them, and their mean along a line."""
    conductivity = tw.var("conductivity", dtype="float32")
    gamma, contours = tw.var("gamma", dtype="float32"), tw.var("contours", dtype="float32")
    ridges = tw.var("ridges", dtype="bool")
    y, x = numpy.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j].astype("float32")
    start = sum(
        numpy.exp(-60 * ((x - 0.7 * numpy.cos(k)) ** 2 + (y - 0.7 * numpy.sin(k * 1.7)) ** 2))
        for k in range(9)
    )
    heat = np.asarray(start.astype("float32"))
    with tw.scope("cooling"):
        heat = tw.fori_loop(0, steps, lambda _, heat: cool(heat, conductivity), heat)
    with tw.scope("picture"):
        level = (heat / np.max(heat)) ** gamma
        wave = np.cos(level * contours * 6.2831855)
        shade = np.where(ridges, 0.75 + 0.25 * wave, 1)
        colours = [level, level**2 * 0.8, (1 - level) * 0.5]
        picture = np.stack([colour * shade for colour in colours], axis=-1)
    middle = np.mean(heat[size // 2 - 4 : size // 2 + 4], axis=0)
    return tw.Graph(
        [conductivity, gamma, contours, ridges],
        {"plate": picture, "middle": middle, "hottest": np.max(heat)},
        name="a plate that cools",
    )


SLIDERS = {
    "conductivity": (0.02, 0.24),
    "gamma": (0.2, 2.0),
    "contours": (0.0, 30.0),
    "ridges": (0, 1),
}


def move(page: Any, **sliders: float) -> dict:
    """What the page is told when sliders move."""
    request = Request(
        page.address + "run",
        json.dumps(sliders).encode(),
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main() -> None:
    """Explore the plate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="no browser, and a small plate")
    short = parser.parse_args().short
    program = plate(128 if short else 512, 40 if short else 40_000).compile()
    with tw.explore(program, SLIDERS, browser=not short) as page:
        if not short:
            print(f"exploring at {page.address}; Control-C ends")
            page.wait()
            return
        for sliders in ({}, {"conductivity": 0.2}, {"gamma": 0.5}, {"contours": 12.0}):
            found = move(page, **sliders)
            name = next(iter(sliders), "everything")
            print(f"{name}: {found['count']} of {len(program.plan.steps)} steps ran")


if __name__ == "__main__":
    main()
