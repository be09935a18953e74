"""Memory budgets: a training step in less and less memory, and what that costs in time.

    python examples/memory_budget.py [--short] [--out FOLDER]

Every plan is exact before anything runs.  Below the least possible the planner refuses and says
what that least is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy

import tawny as tw
from tawny import nn, optim


def network(depth: int, width: int) -> nn.Module:
    """A deep dense network: every layer's output is needed again for the gradient."""
    return nn.Sequential(*(nn.Linear(width, width, activation="tanh") for _ in range(depth)))


def seconds(program: tw.Program, times: int) -> float:
    """The fastest of several steps."""
    taken: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        program.run()
        taken.append(time.perf_counter() - start)
    return min(taken)


def short(number: float) -> str:
    """A number in a few characters."""
    return f"{number:.1f}" if number >= 1 else f"{number:.2g}"


def curve(points: list[tuple[float, float]], path: Path) -> None:
    """The trade-off as a picture."""
    width, height, edge = 420, 260, 50
    most, longest = max(p[0] for p in points), max(p[1] for p in points)
    places = [
        (edge + (width - 2 * edge) * m / most, height - edge - (height - 2 * edge) * s / longest)
        for m, s in points
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places)
    base = height - edge
    labels = "".join(
        f'<text x="{x:.1f}" y="{base + 15}" text-anchor="middle">{short(m / 1e6)}</text>'
        f'<text x="{x + 6:.1f}" y="{y - 6:.1f}">{short(1e3 * s)}</text>'
        for (x, y), (m, s) in zip(places, points, strict=True)
    )
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
        f'<path d="M{edge},{edge} V{height - edge} H{width - edge}" fill="none" stroke="grey"/>'
        f'<polyline points="{line}" fill="none" stroke="black"/>{dots}{labels}'
        f'<text x="{edge}" y="{edge - 20}">milliseconds of a step, both axes from 0</text>'
        f'<text x="{edge}" y="{height - 10}">megabytes of its arena</text></svg>\n'
    )


def main() -> None:
    """Plan, run and compare under falling budgets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="a small network")
    parser.add_argument("--out", type=Path, default=None, help="folder for the picture")
    given = parser.parse_args()
    depth, width, batch = (12, 32, 64) if given.short else (32, 128, 1024)

    def trained(memory: int | None) -> nn.History:
        """Five steps from the same start, within a budget."""
        rng = numpy.random.default_rng(0)
        data = rng.standard_normal((2, batch, width)).astype(numpy.float32)
        model = network(depth, width)
        rule = optim.SGD(0.01)
        return nn.train(model, nn.quadratic, tuple(data), rule, 5, batch=batch, memory=memory)

    freely = trained(None)
    assert freely.program is not None
    free, least = freely.program.plan.peak_bytes, 0
    try:
        trained(1)
    except tw.MemoryBudgetError as error:
        least = error.least_bytes
    print(f"A step of {depth} layers takes {free / 1e6:.2f} MB; the least is {least / 1e6:.2f} MB.")

    points: list[tuple[float, float]] = []
    print("   budget      peak   steps again      time")
    for share in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0):
        budget = int(least + share * (free - least))
        history = trained(budget)
        program = history.program
        assert program is not None
        plan = program.plan
        assert plan.peak_bytes <= budget
        numpy.testing.assert_allclose(history.batch_loss, freely.batch_loss, rtol=1e-5)
        again = sum(step.again for step in plan.steps)
        took = seconds(program, 3 if given.short else 10)
        points.append((plan.peak_bytes, took))
        peak = plan.peak_bytes / 1e6
        print(f"{budget / 1e6:6.2f} MB {peak:6.2f} MB {again:13} {1e3 * took:6.2f} ms")
    folder = given.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trade_off.svg"
    curve(points, path)
    print(f"The same losses each time; the curve is drawn in {path}")


if __name__ == "__main__":
    main()
