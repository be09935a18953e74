"""Graphs of functions and of their gradients, drawn to SVG; nothing is evaluated.

python examples/gradient_graphs.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy

import tawny as tw
import tawny.numpy as np
from tawny import models, nn, optim


def drawn(graph: tw.Graph, path: Path) -> None:
    """Draw a graph as it was written and as it runs."""
    graph.visualize(path)
    tidy = tw.optimise(graph)
    tidy.visualize(path.with_name(f"{path.stem}_optimised.svg"))
    print(f"{path.name:<22} {len(graph.order):5} nodes, {len(tidy.order):5} optimised")


def main() -> None:
    """A function of a number, one of arrays, and a training step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="functions only, no network")
    parser.add_argument("--out", type=Path, default=None, help="folder for the pictures")
    given = parser.parse_args()
    folder = given.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print(f"in {folder}:")

    x = tw.var("x")
    y = np.tanh(x) / (1 + np.exp(-x * x))
    drawn(tw.Graph([x], y, name="function"), folder / "function.svg")
    drawn(
        tw.Graph([x], tw.grad(lambda z: np.tanh(z) / (1 + np.exp(-z * z)))(x)), folder / "slope.svg"
    )

    a, b = tw.var("a", shape=(3, 4)), tw.var("b", shape=(4, 2))
    loss = np.sum(np.relu(a @ b) ** 2)
    slopes = tw.gradients(loss, [a, b])
    drawn(tw.Graph([a, b], {"loss": loss, "slopes": slopes}), folder / "arrays.svg")

    if given.short:
        return
    model = models.CharacterLSTM(9, embedding=4, hidden=5, dense=6)
    text = numpy.zeros((2, 3), numpy.int64), numpy.zeros(2, numpy.int64)
    step = nn.training_graph(model, nn.cross_entropy, text, optim.AdaGrad(0.01))
    drawn(step, folder / "training_step.svg")


if __name__ == "__main__":
    main()
