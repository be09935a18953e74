"""The memory a process really uses is the memory that was planned."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy
import tawny as tw
import tawny.numpy as np

def run(n):
    a, b = tw.var("a", shape=(n, 1), dtype="float32"), tw.var("b", shape=(1, n), dtype="float32")
    table = a * b
    total = np.sum(np.sqrt(table) * np.abs(table) + np.square(table) * table, axis=0)
    p = tw.Graph([a, b], total).compile(engine="cpu", optimise=False, incremental=False)
    p.set(a=numpy.full((n, 1), 2, numpy.float32), b=numpy.full((1, n), 2, numpy.float32))
    for _ in range(3):
        (first, *_) = p.run(views=True)
    assert first == (2 * 4 + 16 * 4) * n
    return p.plan.peak_bytes

run(64)
run(300)
with open("/proc/self/statm") as file:
    before = int(file.read().split()[1]) * resource.getpagesize()
planned = run(9200)
print(planned, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_gigabyte_planned_is_a_gigabyte_resident() -> None:
    """In a process that need not compile: the first one leaves all kernels in the cache."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
        )
    planned, resident = map(int, done.stdout.split())
    assert 1.0e9 < planned < 1.1e9
    assert abs(resident - planned) <= 0.02 * planned + 4e6
