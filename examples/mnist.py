"""Handwritten digits: the network of the report, trained as one graph, then tested.

    python examples/mnist.py [--short] [--data FILE]

FILE is an .npz of x_train, y_train, x_test and y_test; without it, 7,000 digits of MNIST that come
with the examples are used.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy

from tawny import models, nn, optim

DIGITS = Path(__file__).parent / "data" / "digits.npz"


def digits(path: Path) -> tuple[numpy.ndarray, ...]:
    """Training images and labels, test images and labels."""
    with numpy.load(path) as data:
        x, y, u, v = (data[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    return x[..., None], y, u[..., None], v


def main() -> None:
    """Train with AdaGrad in batches of 100, as the report does, and count what is right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="30 steps only")
    parser.add_argument("--data", type=Path, default=DIGITS, help="an .npz of digits")
    parser.add_argument("--epochs", type=int, default=5, help="times to see all digits (5)")
    given = parser.parse_args()

    x, y, u, v = digits(given.data)
    model = models.Mnist()
    print(model.summary((100, 28, 28, 1)))
    history = nn.train(
        model,
        nn.cross_entropy,
        (x, y),
        optim.AdaGrad(0.005),
        given.epochs,
        batch=100,
        steps=30 if given.short else None,
    )
    program = history.program
    assert program is not None
    print(f"\n{history}")
    print(f"Activations and gradients: {program.plan.peak_bytes / 1e6:.1f} MB, as planned.")
    each = history.seconds / history.steps
    print(f"{1e3 * each:.1f} ms for each step of 100 digits, building included.")

    result = nn.evaluate(model, nn.cross_entropy, (u, v), metrics={"accuracy": nn.accuracy})
    print(f"Right on {100 * result['accuracy']:.2f}% of {len(v):,} digits it has not seen.")
    assert result["accuracy"] > (0.8 if given.short else 0.95)


if __name__ == "__main__":
    main()
