"""How long it takes to build a gradient, and what evaluating it costs.

Section `build`: an LSTM of 100 steps, and the report's MNIST network.  The LSTM is written with plain ops: four layers, each gate its own matrix products, the logistic
function and the loss of every step spelled out, 15,000 nodes in all.  Its gradient must be built
in 1.5 seconds.  The MNIST network is the one of `tests/mnist_graph.py`; its gradient is set beside
the one derived there by hand, in nodes as built and as they are left after optimisation.

Section `cost`: a loss with the gradients of all weights as a multiple of the loss alone, for whole
networks.  It should be at most 4.

    python benchmarks/gradients.py [--sections build cost] [--nets MNIST ...] [--json FILE] [--check]
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tawny as tw
import tawny.numpy as np
from gradient_cost import LOSSES, cost
from tawny.array import Array
from tawny.autodiff.functions import gradients
from tawny.engine.reference import run
from tawny.node import toposort
from tawny.rewrite.pipeline import optimise

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

BOUND = 1.5
"""Seconds for the gradient of the LSTM."""
GROWTH = 3.0
"""How many times its nodes a graph may have once its gradient is there."""
COST = 4.0
"""How many times the loss alone it may cost with its gradients."""
STEPS, LAYERS, BATCH, WIDTH, CLASSES = 100, 4, 8, 16, 10

Forward = Callable[[], tuple[Array, list[Array]]]


def lstm(steps: int = STEPS, dtype: str = "float32") -> tuple[Array, list[Array]]:
    """The mean loss of predicting a class in each step, and the weights."""
    weights: list[Array] = []

    def weight(*shape: int) -> Array:
        weights.append(tw.var(f"w{len(weights)}", shape=shape, dtype=dtype))
        return weights[-1]

    gates = [
        [(weight(WIDTH, WIDTH), weight(WIDTH, WIDTH), weight(WIDTH)) for _ in range(4)]
        for _ in range(LAYERS)
    ]
    readout, bias = weight(WIDTH, CLASSES), weight(CLASSES)
    x = tw.var("x", shape=(BATCH, steps, WIDTH), dtype=dtype)
    y = tw.var("y", shape=(BATCH, steps, CLASSES), dtype=dtype)
    start = np.zeros((BATCH, WIDTH), dtype=dtype)
    hidden, cell = [start] * LAYERS, [start] * LAYERS
    loss = np.asarray(0.0, dtype=dtype)
    for t in range(steps):
        below = x[:, t]
        for layer in range(LAYERS):
            before = hidden[layer]
            into, forget, out, new = [below @ w + before @ u + b for w, u, b in gates[layer]]
            kept = logistic(forget) * cell[layer]
            cell[layer] = kept + logistic(into) * np.tanh(new)
            below = hidden[layer] = logistic(out) * np.tanh(cell[layer])
        loss = loss + cross_entropy(below @ readout + bias, y[:, t])
    return loss / steps, weights


def logistic(x: Array) -> Array:
    """The logistic function, spelled out."""
    return 1 / (1 + np.exp(-x))


def cross_entropy(logits: Array, wanted: Array) -> Array:
    """The mean distance of a softmax, spelled out, from the wanted classes."""
    weights = np.exp(logits - np.max(logits, axis=1, keepdims=True))
    probability = weights / np.sum(weights, axis=1, keepdims=True)
    return -np.mean(np.sum(wanted * np.log(probability), axis=1))


def mnist() -> tuple[Array, list[Array]]:
    """The loss of the network whose gradient `tests/mnist_graph.py` derives by hand."""
    from mnist_graph import training_graph

    training = training_graph()
    return training.outputs[0], training.weights[:6]


def _left(outputs: list[Array]) -> int:
    """Nodes after optimisation."""
    return optimise([a.node for a in outputs], evaluate=run).rewrites.nodes_after


def measure(make: Forward, rounds: int) -> dict[str, float | int | str]:
    """Processor seconds to build a gradient: the best of several rounds, on noisy machines."""
    best, forward, both, left_forward, left = float("inf"), 0, 0, 0, 0
    for number in range(rounds):
        loss, weights = make()
        gc.collect()
        start = time.process_time()
        slopes = gradients(loss, weights)
        best = min(best, time.process_time() - start)
        if number == 0:
            forward = len(toposort([loss.node]))
            both = len(toposort([loss.node, *(s.node for s in slopes)]))
            left_forward, left = _left([loss]), _left([loss, *slopes])
    return {
        "graph": make.__name__,
        "nodes": forward,
        "with_gradient": both,
        "optimised": left_forward,
        "optimised_with_gradient": left,
        "seconds": best,
        "us_per_node": best / forward * 1e6,
    }


def by_hand() -> dict[str, int]:
    """Nodes of the MNIST training step, AdaGrad included, with either gradient."""
    from mnist_graph import training_graph

    training = training_graph()
    loss, weights, squares = training.outputs[0], training.weights[:6], training.weights[6:]
    outputs = [loss]
    for weight, before, slope in zip(weights, squares, gradients(loss, weights), strict=True):
        after = slope * slope + before
        outputs += [weight + -slope * (0.005 / np.sqrt(after + 1e-32)), after]
    return {
        "by_hand": len(toposort([a.node for a in training.outputs])),
        "by_hand_optimised": _left(training.outputs),
        "derived": len(toposort([a.node for a in outputs])),
        "derived_optimised": _left(outputs),
    }


def build(rounds: int) -> tuple[dict[str, object], bool]:
    """Print the table of building; what it shows, and whether a bound is passed."""
    rows = [measure(make, rounds) for make in (lstm, mnist)]
    print(f"{'':8}{'nodes':>8}{'with gradient':>15}{'optimised':>18}{'seconds':>9}{'us/node':>9}")
    for r in rows:
        pair = f"{r['optimised']} -> {r['optimised_with_gradient']}"
        print(
            f"{r['graph']:8}{r['nodes']:8}{r['with_gradient']:15}{pair:>18}"
            f"{r['seconds']:9.3f}{r['us_per_node']:9.1f}"
        )
    step = by_hand()
    print(
        f"MNIST training step: {step['by_hand']} nodes by hand, {step['derived']} derived; "
        f"optimised {step['by_hand_optimised']} and {step['derived_optimised']}"
    )
    slow = float(rows[0]["seconds"]) > BOUND
    grown = any(r["with_gradient"] > GROWTH * r["nodes"] for r in rows)
    return {"rows": rows, "step": step}, slow or grown


def costs(nets: list[str], rounds: int) -> tuple[dict[str, object], bool]:
    """Print the table of costs; what it shows, and whether one is too high."""
    print(f"{'':14}{'forward (ms)':>14}{'with gradients':>16}{'ratio':>8}")
    found = {net: cost(LOSSES[net], rounds) for net in nets}
    for net, c in found.items():
        both = c.forward * 1e3, c.with_gradients * 1e3
        print(f"{net:14}{both[0]:14.2f}{both[1]:16.2f}{c.ratio:8.2f}")
    return {net: c._asdict() for net, c in found.items()}, any(
        c.ratio > COST for c in found.values()
    )


def main() -> int:
    """Print the tables; with --check fail if a bound is passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sections = ["build", "cost"]
    parser.add_argument("--sections", nargs="*", default=sections, choices=sections)
    parser.add_argument("--nets", nargs="*", default=list(LOSSES), choices=list(LOSSES))
    parser.add_argument("--json", help="also write the rows to this file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    shown: dict[str, object] = {}
    failed = False
    if "build" in arguments.sections:
        part, passed = build(arguments.rounds)
        shown, failed = shown | part, failed or passed
    if "cost" in arguments.sections:
        part, passed = costs(arguments.nets, 3 * arguments.rounds)
        shown, failed = shown | {"cost": part}, failed or passed
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(shown, file)
    return int(arguments.check and failed)


if __name__ == "__main__":
    sys.exit(main())
