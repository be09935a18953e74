"""A Kalman filter by `tw.scan`: a body thrown into the air, seen through noise by one instrument.

python examples/kalman_filter.py [--short]

The noise of the instrument is not known: it is found by the gradient of how likely the measurements
are, a loop back through the filter.
"""

from __future__ import annotations

import argparse

import numpy

import tawny as tw
import tawny.numpy as np

SECONDS, NOISE, GRAVITY = 0.02, 0.8, 9.81

MOVES = numpy.array([[1.0, SECONDS], [0.0, 1.0]])  # height and speed after a step
PUSH = numpy.array([-GRAVITY * SECONDS**2 / 2, -GRAVITY * SECONDS])
SEEN = numpy.array([[1.0, 0.0]])  # the height alone is measured
DOUBT = numpy.diag([1e-6, 1e-3])


def filtered(log_noise: tw.Array, heights: tw.Array) -> tuple[tw.Array, tw.Array]:
    """The states after each measurement, and minus the logarithm of how likely all are."""
    noise = np.exp(2 * log_noise)

    def step(carry: tuple[tw.Array, tw.Array], height: tw.Array) -> tuple[object, object]:
        state, spread = carry
        state, spread = MOVES @ state + PUSH, MOVES @ spread @ MOVES.T + DOUBT
        surprise = height - (SEEN @ state)[0]
        variance = (SEEN @ spread @ SEEN.T)[0, 0] + noise
        gain = (spread @ SEEN.T)[:, 0] / variance
        state = state + gain * surprise
        spread = spread - np.outer(gain, SEEN @ spread)
        return (state, spread), (state, (np.log(variance) + surprise**2 / variance) / 2)

    start = (numpy.array([0.0, 10.0]), numpy.diag([100.0, 100.0]))
    _, (states, costs) = tw.scan(step, start, heights)
    return states, np.sum(costs)


def main() -> None:
    """Filter, compare with the truth, and find the noise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="fewer measurements")
    count = 200 if parser.parse_args().short else 2000
    rng = numpy.random.default_rng(0)
    times = SECONDS * numpy.arange(1, count + 1)
    truth = 20 * times - GRAVITY * times**2 / 2
    measured = truth + NOISE * rng.standard_normal(count)

    log_noise, heights = tw.var("log_noise"), tw.var("heights", (count,))
    states, cost = filtered(log_noise, heights)
    slope = tw.grad(lambda n: filtered(n, heights)[1])(log_noise)
    program = tw.Graph(
        [heights], [states, cost], updates={log_noise: log_noise - 0.5 / count * slope}
    ).compile()
    program.set(log_noise=numpy.log(5.0), heights=measured)
    costs = [float(program.run()[1]) for _ in range(40)]
    found = float(numpy.exp(program.state["log_noise"]))
    states, _ = program.run()

    late = slice(count // 4, None)
    raw, better = (numpy.sqrt(numpy.mean((x - truth)[late] ** 2)) for x in (measured, states[:, 0]))
    print(f"{count} measurements, one loop: {len(program.plan.steps)} steps of the program,")
    print(f"{program.plan.peak_bytes:,} bytes for the filter and its gradient.")
    print(f"Noise: {found:.2f} found from 5.00, {NOISE:.2f} in truth.")
    print(f"Heights are off by {raw:.2f} m as measured, by {better:.2f} m as filtered.")
    assert costs[-1] < costs[0]
    assert abs(found - NOISE) < 0.15
    assert better < raw / 3


if __name__ == "__main__":
    main()
