"""What every test relies on."""

import gc
import signal
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from clusters import client, shared_cluster
from engines import ENGINES
from grouping_engine import NAME, grouping_engine

__all__ = ["client", "shared_cluster"]

# Last, since a benchmark is called as the package that it measures: `distributed`.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of each engine."""
    with grouping_engine() if request.param == NAME else nullcontext():
        yield request.param


def pytest_collection_finish() -> None:
    """Keep what lasts, all modules and tests, out of the cyclic collector's sight.

    Tests that collect would walk it each time, which takes longer than many of them do.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_draws(request: pytest.FixtureRequest) -> None:
    """Starts a module's generator `RNG` anew: a test draws the same numbers in any company."""
    generator = getattr(request.module, "RNG", None)
    if generator is not None:
        seed = zlib.crc32(request.node.name.encode())
        generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Control-C is heard even where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
