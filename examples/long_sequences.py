"""A recurrent network learns from long sequences, in a budget: memory does not bound their length.

python examples/long_sequences.py [--short]

Numbers come one after the other; after the last one the network says what a sum that forgets them
by and by would show.  Its gradient keeps the states at the start of segments and computes the steps
between them again, as many as the budget asks for.
"""

from __future__ import annotations

import argparse
import time

import numpy

import tawny as tw
from tawny import nn, optim


class Adder(nn.Module):
    """Sequences of numbers, (batch, time, 1), to one number each."""

    def __init__(self, units: int) -> None:
        self.memory = nn.GRU(1, units)
        self.output = nn.Linear(units, 1)

    def forward(self, x: tw.Array) -> tw.Array:
        made: tw.Array = self.output(self.memory(x))[:, 0]
        return made


def sequences(rng: numpy.random.Generator, count: int, length: int) -> tuple[numpy.ndarray, ...]:
    """Numbers, and their sums, in which each counts less than the next one."""
    numbers = rng.uniform(-1, 1, (count, length))
    sums = numbers @ (0.8 ** numpy.arange(length)[::-1])
    return numbers[:, :, None].astype("float32"), sums.astype("float32")


def main() -> None:
    """Train without and within a budget: the same losses."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="shorter sequences, fewer steps")
    is_short = parser.parse_args().short
    batch, length, count = (16, 1000, 640) if is_short else (32, 4000, 6400)
    data = sequences(numpy.random.default_rng(0), count, length)

    def learn(memory: int | None) -> list[float]:
        """The losses of one epoch, and what a step takes."""
        with tw.random.local_seed(0):
            model = Adder(8 if is_short else 32)
        one = tuple(a[:batch] for a in data)
        graph = nn.training_graph(model, nn.quadratic, one, optim.Adam(3e-2))
        plan = graph.plan(memory=memory)
        start = time.perf_counter()
        history = nn.train(
            model, nn.quadratic, data, optim.Adam(3e-2), epochs=1, batch=batch, memory=memory
        )
        seconds = (time.perf_counter() - start) / history.steps
        print(f"{plan.peak_bytes:>12,} bytes, {1e3 * seconds:.1f} ms a step")
        for note in plan.notes:
            print(f"             {note.partition('  ')[0]}")
        peaks.append(plan.peak_bytes)
        return list(history.batch_loss)

    peaks = list[int]()
    free = learn(None)
    within = learn(peaks[0] // 4)
    first, last = numpy.mean(free[:5]), numpy.mean(free[-5:])
    print(f"Sequences of {length:,} numbers: loss {first:.3f} at first, {last:.3f} at last.")
    numpy.testing.assert_allclose(free, within, rtol=1e-2, atol=1e-4)
    print("The same losses in a quarter of the memory.")
    assert last < 0.7 * first
    assert peaks[1] <= peaks[0] // 4


if __name__ == "__main__":
    main()
