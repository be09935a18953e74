"""How products are shared out: every tile in one task, and no worker with much more to do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tawny.engine.cpu.products.sharing import Extents, ceil_divide, tasks_of


def work(extents: Extents, workers: int, chunk_blocks: int, parts: int) -> list[float]:
    """What each worker multiplies, in products of a tile and a block of columns."""
    stack, _, tiles, blocks, rest = extents
    chunks = max(ceil_divide(blocks, chunk_blocks), 1)
    tasks: list[float] = []
    for _ in range(stack):
        for chunk in range(chunks):
            first = chunk * chunk_blocks
            width = min(first + chunk_blocks, blocks) - first + (chunk == chunks - 1) * rest
            cuts = [tiles * part // parts for part in range(parts + 1)]
            tasks += [(cuts[i + 1] - cuts[i]) * width for i in range(parts)]
    cuts = [len(tasks) * worker // workers for worker in range(workers + 1)]
    return [sum(tasks[cuts[i] : cuts[i + 1]]) for i in range(workers)]


@given(
    st.integers(1, 20),
    st.integers(1, 400),
    st.integers(0, 40),
    st.sampled_from([0.25, 0.5, 0.75]),
    st.sampled_from([1, 2, 3, 4, 8, 13]),
    st.booleans(),
)
def test_no_worker_has_much_more_to_do(stack, tiles, blocks, rest, workers, packed):
    extents = Extents(stack, 6 * tiles, tiles, blocks, rest)
    most_blocks = 4 if packed else max(blocks, 1)
    tasks = tasks_of(extents, workers, most_blocks, packed)
    assert 1 <= tasks.chunk_blocks <= most_blocks
    assert 1 <= tasks.parts <= tiles
    done = work(extents, workers, *tasks)
    assert sum(done) == stack * tiles * (blocks + rest)
    if tiles >= 8 * workers:
        assert max(done) <= 1.25 * sum(done) / workers


def test_columns_that_cannot_be_halved_are_no_hindrance():
    for rows, blocks in ((144, 3), (289, 3), (64, 7), (64, 5)):
        extents = Extents(1, rows, ceil_divide(rows, 6), blocks, 0)
        done = work(extents, 2, *tasks_of(extents, 2, blocks, packed=False))
        assert max(done) <= 1.06 * sum(done) / 2


def test_one_worker_has_one_task():
    assert tasks_of(Extents(1, 100, 17, 9, 0.5), 1, 9, packed=False) == (9, 1)
    assert tasks_of(Extents(1, 100, 17, 9, 0.5), 1, 4, packed=True) == (4, 1)
