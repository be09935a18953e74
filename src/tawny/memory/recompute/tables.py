"""A problem as the search for recomputation reads it: by steps and by roots."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tawny.memory.problem import Problem

OUTSIDE = -1
"""The root of values that live outside the arena."""


@dataclass(frozen=True)
class RecomputeTables:
    """A problem by steps and by roots (values with own memory)."""

    makers: tuple[int | None, ...]
    """For each value the step that makes it."""
    roots: tuple[int, ...]
    """For each value the root whose memory it shares, `OUTSIDE` if not in the arena."""
    views: tuple[tuple[int, ...], ...]
    """For each root the views that steps make of it."""
    sizes: tuple[int, ...]
    """For each value its bytes, rounded up; none for what is there for the whole run."""
    pinned_bytes: int
    """The bytes of what is there for the whole run."""
    needs: tuple[tuple[int, ...], ...]
    """For each step the values it reads that some step makes."""
    reads: tuple[tuple[int, ...], ...]
    """For each step the roots it reads."""
    makes: tuple[tuple[int, ...], ...]
    """For each step the values it makes."""
    writes: tuple[tuple[int, ...], ...]
    """For each step the roots among them."""
    in_place_pairs: tuple[tuple[tuple[int, int], ...], ...]
    """For each step the (read root, written root) pairs that may share memory."""
    scratch: tuple[int, ...]
    """For each step the bytes it needs while it runs."""
    bytes_written: tuple[int, ...]
    """For each step its scratch and the bytes of the roots it makes."""
    seconds: tuple[float, ...]
    """For each step the estimated time."""
    repeatable: tuple[bool, ...]
    """For each step whether it may run again."""
    kept: frozenset[int]
    """Roots that hold a kept value."""
    droppable: tuple[bool, ...]
    """For each root whether dropping it frees bytes and its step may run again."""
    anchors: tuple[int, ...]
    """For each root the set (bits) of values that cannot be made again and that making it needs."""
    anchor_bits: tuple[tuple[int, int], ...]
    """The (root, bit) of every value that cannot be made again and is not kept."""
    readers: tuple[tuple[int, ...], ...]
    """For each root the roots that are made from it in one step."""
    sources: tuple[tuple[int, ...], ...]
    """For each root the roots that it is made from in one step."""
    after: tuple[tuple[int, ...], ...]
    """For each step those that must not run once it has."""


def recompute_tables(problem: Problem) -> RecomputeTables:
    """Read a problem into tables, with sizes rounded up to the alignment."""
    values, steps, makers, aligned = problem.values, problem.steps, problem.makers, problem.round_up
    roots = tuple(
        OUTSIDE if v in problem.resident else problem.roots[v] for v in range(len(values))
    )
    needs = _needs(problem)
    reads = [tuple({roots[v]: 0 for v in row if roots[v] != OUTSIDE}) for row in needs]
    writes = [tuple(v for v in step.outputs if roots[v] == v) for step in steps]
    pinned = problem.pinned_roots - {r for r, maker in enumerate(makers) if maker is None}
    sizes = tuple(0 if v in pinned else aligned(value.bytes) for v, value in enumerate(values))
    scratch = tuple(aligned(step.scratch) for step in steps)
    repeatable = tuple(
        step.pure and problem.kept_roots.isdisjoint([roots[v] for v in step.outputs])
        for step in steps
    )
    readers, sources = _neighbours(len(values), reads, writes)
    anchors, anchor_bits = _anchors(problem, roots, needs, repeatable)
    return RecomputeTables(
        makers=makers,
        roots=roots,
        views=_views(makers, roots),
        sizes=sizes,
        pinned_bytes=sum(aligned(values[r].bytes) for r in pinned),
        needs=tuple(needs),
        reads=tuple(reads),
        makes=tuple(step.outputs for step in steps),
        writes=tuple(writes),
        in_place_pairs=_in_place_pairs(problem, roots, pinned),
        scratch=scratch,
        bytes_written=tuple(
            size + sum(sizes[v] for v in row) for size, row in zip(scratch, writes, strict=True)
        ),
        seconds=tuple(step.seconds for step in steps),
        repeatable=repeatable,
        kept=problem.kept_roots,
        droppable=tuple(
            sizes[v] > 0 and roots[v] == v and maker is not None and repeatable[maker]
            for v, maker in enumerate(makers)
        ),
        anchors=anchors,
        anchor_bits=anchor_bits,
        readers=readers,
        sources=sources,
        after=tuple(step.after for step in steps),
    )


def _in_place_pairs(
    problem: Problem, roots: Sequence[int], pinned: Collection[int]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each step the roots that outputs may be written over, with these outputs."""
    return tuple(
        tuple(
            (roots[step.inputs[i]], step.outputs[o])
            for i, o in pairs
            if step.outputs[o] not in pinned
        )
        for step, pairs in zip(problem.steps, problem.in_place_pairs, strict=True)
    )


def _needs(problem: Problem) -> list[tuple[int, ...]]:
    """For each step the values that steps must have made for its inputs to exist."""

    def maker_value(v: int) -> int | None:
        base: int | None = v
        while base is not None and problem.makers[base] is None:
            base = problem.values[base].view_of
        return base

    return [
        tuple({m: 0 for v in step.inputs if (m := maker_value(v)) is not None})
        for step in problem.steps
    ]


def _views(makers: Sequence[int | None], roots: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For each root the views that steps make of it."""
    views: list[list[int]] = [[] for _ in roots]
    for v, root in enumerate(roots):
        if makers[v] is not None and root not in {v, OUTSIDE}:
            views[root].append(v)
    return tuple(map(tuple, views))


def _neighbours(
    count: int, reads: Sequence[tuple[int, ...]], writes: Sequence[tuple[int, ...]]
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """For each root those that are made from it in one step, and those it is made from."""
    readers: list[set[int]] = [set() for _ in range(count)]
    sources: list[set[int]] = [set() for _ in range(count)]
    for read, written in zip(reads, writes, strict=True):
        for r in read:
            readers[r].update(written)
        for r in written:
            sources[r].update(read)
    return tuple(map(tuple, readers)), tuple(map(tuple, sources))


def _anchors(
    problem: Problem,
    roots: Sequence[int],
    needs: Sequence[tuple[int, ...]],
    again: Sequence[bool],
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """The fields `anchors` and `anchor_bits` of `RecomputeTables`."""
    found = [0] * len(problem.values)
    bits: dict[int, int] = {}
    for s in topological_order(problem):
        needed = 0
        for v in needs[s]:
            if roots[v] in bits:
                needed |= bits[roots[v]]
            elif roots[v] not in problem.kept_roots:
                needed |= found[v]
        for v in problem.steps[s].outputs:
            found[v] = needed
            if roots[v] == v and not again[s] and v not in problem.kept_roots:
                bits[v] = 1 << len(bits)
    for v, root in enumerate(roots):  # making a view again is making its root again
        if root not in {v, OUTSIDE}:
            found[root] |= found[v] & ~bits.get(root, 0)
    return tuple(found), tuple(bits.items())


def topological_order(problem: Problem) -> list[int]:
    """The steps in some order in which each runs after those it reads from."""
    makers, values = problem.makers, problem.values
    waiting = [0] * len(problem.steps)
    after: list[list[int]] = [[] for _ in problem.steps]
    for s, step in enumerate(problem.steps):
        before: set[int] = set()
        for v in step.inputs:
            base: int | None = v
            while base is not None and makers[base] is None:
                base = values[base].view_of
            if base is not None and (maker := makers[base]) is not None:
                before.add(maker)
        waiting[s] = len(before)
        for b in before:
            after[b].append(s)
    ready = [s for s, count in enumerate(waiting) if count == 0]
    for s in ready:
        for t in after[s]:
            waiting[t] -= 1
            if waiting[t] == 0:
                ready.append(t)
    return ready
