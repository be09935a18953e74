"""The report's Algorithm 1: Owl's published allocation, and safety on random problems."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_checks import random_problem, replay
from tawny.memory.blocks import BlockOrigin, Blocks, allocate_blocks, block_name
from tawny.memory.plan import plan, plan_as_in_report
from tawny.memory.problem import PlanStep, PlanValue, Problem

IMAGE, CONV, POOL = (100, 28, 28, 1), (100, 28, 28, 32), (100, 14, 14, 32)

# Owl's only published allocation: inference with a small network on 100 MNIST images.
# Name, shape, what it reads, what of it it may overwrite.
GOLDEN: list[tuple[str, tuple[int, ...], tuple[str, ...], tuple[str, ...]]] = [
    ("DivScalar", IMAGE, ("images",), ()),
    ("Conv2d", CONV, ("DivScalar", "weights"), ()),
    ("Add bias", CONV, ("Conv2d", "weights"), ("Conv2d",)),
    ("Relu", CONV, ("Add bias",), ("Add bias",)),
    ("MaxPool2d", POOL, ("Relu",), ()),
    ("Bernoulli", POOL, (), ()),
    ("Mul", POOL, ("MaxPool2d", "Bernoulli"), ("MaxPool2d", "Bernoulli")),
    ("ScalarMul", POOL, ("Mul",), ("Mul",)),
    ("Reshape", (100, 6272), ("ScalarMul",), ("ScalarMul",)),
    ("Dot 1024", (100, 1024), ("Reshape", "weights"), ()),
    ("Add 1024", (100, 1024), ("Dot 1024", "weights"), ("Dot 1024",)),
    ("Relu 1024", (100, 1024), ("Add 1024",), ("Add 1024",)),
    ("Dot 10", (100, 10), ("Relu 1024", "weights"), ()),
    ("Add 10", (100, 10), ("Dot 10", "weights"), ("Dot 10",)),
    ("Max", (100, 1), ("Add 10",), ()),
    ("Sub", (100, 10), ("Add 10", "Max"), ("Add 10",)),
    ("Exp", (100, 10), ("Sub",), ("Sub",)),
    ("Sum", (100, 1), ("Exp",), ()),
    ("Div", (100, 10), ("Exp", "Sum"), ("Exp",)),
]


def golden() -> Problem:
    """The graph of the published figure; sizes in elements, as Owl counts."""
    names = ["images", "weights", *(name for name, *_ in GOLDEN)]
    values = [PlanValue(78400, "images"), PlanValue(1, "weights")]
    values += [PlanValue(math.prod(shape), name, kept=name == "Div") for name, shape, *_ in GOLDEN]
    steps = [
        PlanStep(
            tuple(map(names.index, reads)),
            (names.index(name),),
            tuple((reads.index(over), 0) for over in overwrites),
        )
        for name, _, reads, overwrites in GOLDEN
    ]
    return Problem(tuple(values), tuple(steps))


def by_name(blocks: Blocks) -> dict[str, str]:
    names = {choice.value: block_name(choice.block) for choice in blocks.history}
    return {str(blocks.problem.values[v].label): name for v, name in names.items() if v is not None}


def test_owls_published_allocation() -> None:
    blocks = allocate_blocks(golden())
    assert by_name(blocks) == {
        "DivScalar": "A",
        "Conv2d": "B",
        "Add bias": "B",
        "Relu": "B",
        "MaxPool2d": "A",
        "Bernoulli": "B",
        "Mul": "A",
        "ScalarMul": "A",
        "Reshape": "A",
        "Dot 1024": "B",
        "Add 1024": "A",
        "Relu 1024": "A",
        "Dot 10": "B",
        "Add 10": "A",
        "Max": "B",
        "Sub": "A",
        "Exp": "A",
        "Sum": "B",
        "Div": "C",
    }
    assert blocks.sizes == (627_200, 2_508_800, 1000)
    grown = [choice for choice in blocks.history if choice.origin is BlockOrigin.GROWN]
    assert [(blocks.problem.values[c.value or 0].label, c.size) for c in grown] == [
        ("MaxPool2d", 627_200)
    ]
    assert blocks.history[0].size == 78_400


def test_in_place_preferred_as_the_report_says() -> None:
    blocks = allocate_blocks(golden(), prefer_in_place=True)
    names = by_name(blocks)
    assert names["Add 1024"] == names["Dot 1024"] == "B"
    assert names["Add 10"] == names["Dot 10"] == "A"
    assert blocks.sizes == (627_200, 2_508_800, 1000)
    hows = {str(blocks.problem.values[c.value or 0].label): c.origin for c in blocks.history}
    for name, _, _, overwrites in GOLDEN:
        if name != "Div":
            assert (hows[name] is BlockOrigin.IN_PLACE) == bool(overwrites), name


def test_the_table_shows_every_decision() -> None:
    lines = allocate_blocks(golden()).table().splitlines()
    assert lines[0].split() == ["value", "bytes", "block", "how"]
    assert lines[1].split() == ["DivScalar", "78,400", "A", "new"]
    assert lines[5].split() == ["MaxPool2d", "627,200", "A", "grown", "to", "627,200"]
    assert lines[11].split() == ["Add", "1024", "102,400", "A", "fits"]
    assert lines[19].split() == ["Div", "1,000", "C", "own"]
    assert lines[20] == "3,137,000 bytes in 3 blocks: A 627,200, B 2,508,800, C 1,000"


def test_a_block_in_use_is_never_grown() -> None:
    """The report grows the largest block of all; it is here in use when the third value comes."""
    values = (
        PlanValue(1),
        PlanValue(10),
        PlanValue(2),
        PlanValue(20, kept=False),
        PlanValue(1, kept=True),
    )
    steps = (
        PlanStep((0,), (1,)),
        PlanStep((), (2,)),
        PlanStep((2,), ()),
        PlanStep((), (3,)),
        PlanStep((1, 3), (4,)),
    )
    blocks = allocate_blocks(Problem(values, steps))
    assert blocks.block_of == (None, 0, 1, 1, 2)
    assert blocks.sizes == (10, 20, 1)


def test_a_value_read_twice_by_one_step_is_released_once() -> None:
    values = (PlanValue(4), PlanValue(4), PlanValue(4), PlanValue(4, kept=True))
    steps = (
        PlanStep((0,), (1,)),
        PlanStep((1, 1), (2,), ((0, 0), (1, 0))),
        PlanStep((1, 2), (3,), ((0, 0), (1, 0))),
    )
    assert allocate_blocks(Problem(values, steps)).block_of == (None, 0, 1, 2)


def test_every_place_where_an_operand_is_read_must_allow_it() -> None:
    values = (PlanValue(4), PlanValue(4), PlanValue(4), PlanValue(4, kept=True))
    steps = (PlanStep((0,), (1,)), PlanStep((1, 1), (2,), ((0, 0),)), PlanStep((2,), (3,)))
    assert allocate_blocks(Problem(values, steps), prefer_in_place=True).block_of == (None, 0, 1, 2)


def test_each_output_overwrites_only_what_it_may() -> None:
    values = (PlanValue(4), PlanValue(4), PlanValue(4), PlanValue(4), PlanValue(4, kept=True))
    steps = (PlanStep((0,), (1,)), PlanStep((1,), (2, 3), ((0, 1),)), PlanStep((2, 3), (4,)))
    assert allocate_blocks(Problem(values, steps)).block_of == (None, 0, 1, 0, 2)


def test_views_share_the_block_and_keep_it() -> None:
    values = (
        PlanValue(4),
        PlanValue(4),
        PlanValue(4, view_of=1),
        PlanValue(4),
        PlanValue(4, kept=True),
    )
    steps = (PlanStep((0,), (1,)), PlanStep((1,), (2,)), PlanStep((), (3,)), PlanStep((2, 3), (4,)))
    assert allocate_blocks(Problem(values, steps)).block_of == (None, 0, 0, 1, 2)


def test_scratch_shares_blocks_but_not_with_the_step_itself() -> None:
    values = (PlanValue(4), PlanValue(4), PlanValue(4), PlanValue(4, kept=True))
    steps = (PlanStep((0,), (1,)), PlanStep((1,), (2,), scratch=6), PlanStep((2,), (3,), scratch=3))
    blocks = allocate_blocks(Problem(values, steps))
    assert [(c.value, c.block, c.size) for c in blocks.history] == [
        (1, 0, 4),
        (2, 1, 4),
        (None, 2, 6),
        (3, 3, 4),
        (None, 0, 4),
    ]


def test_only_steps_of_the_order_count() -> None:
    """A reader that never runs keeps nothing alive."""
    values = (PlanValue(4), PlanValue(4), PlanValue(4), PlanValue(4), PlanValue(4))
    steps = (
        PlanStep((0,), (1,)),
        PlanStep((1,), (2,), ((0, 0),)),
        PlanStep((1,), (3,)),
        PlanStep((), (4,)),
    )
    blocks = allocate_blocks(Problem(values, steps), [0, 1])
    assert blocks.block_of == (None, 0, 0, None, None)


@pytest.mark.parametrize(
    ("order", "message"),
    [((0, 0), "step 0 occurs twice"), ((1, 0), "step 1 reads value 1 before step 0 makes it")],
)
def test_an_order_that_cannot_run_is_refused(order: tuple[int, ...], message: str) -> None:
    problem = Problem(
        (PlanValue(1), PlanValue(1), PlanValue(1)), (PlanStep((0,), (1,)), PlanStep((1,), (2,)))
    )
    with pytest.raises(ValueError, match=message):
        allocate_blocks(problem, order)


def test_letters() -> None:
    assert [block_name(b) for b in (0, 25, 26, 51, 52, 701, 702)] == [
        "A", "Z", "AA", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 14), st.booleans())
def test_no_two_live_values_share_a_block(
    random_: random.Random, steps: int, prefer_in_place: bool
) -> None:
    problem = random_problem(random_, steps)
    blocks = allocate_blocks(problem, prefer_in_place=prefer_in_place)
    least = check(blocks)
    assert blocks.total == sum(blocks.sizes) >= least
    starts = [sum(blocks.sizes[:b]) for b in range(len(blocks.sizes))]
    address = {
        (s, o): starts[blocks.block_of[v] or 0]
        for s, step in enumerate(problem.steps)
        for o, v in enumerate(step.outputs)
        if problem.values[v].view_of is None
    }
    replay(problem, blocks.order, address, blocks.total)


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 14), st.booleans())
def test_values_of_equal_size_waste_nothing(
    random_: random.Random, steps: int, prefer_in_place: bool
) -> None:
    drawn = random_problem(random_, steps)
    values = tuple(PlanValue(8, view_of=value.view_of) for value in drawn.values)
    plain = tuple(PlanStep(step.inputs, step.outputs, step.overwrites) for step in drawn.steps)
    blocks = allocate_blocks(Problem(values, plain), prefer_in_place=prefer_in_place)
    assert blocks.total == check(blocks)


def check(blocks: Blocks) -> int:
    """Judge blocks from the definition; the most bytes that are needed at once."""
    problem, end = blocks.problem, len(blocks.order)
    root = {}
    for v, value in enumerate(problem.values):
        root[v] = v
        while (base := problem.values[root[v]].view_of) is not None:
            root[v] = base
        assert blocks.block_of[v] == blocks.block_of[root[v]]
        assert value.view_of is not None or blocks.block_of[v] is None or (
            value.bytes <= blocks.sizes[blocks.block_of[v] or 0]
        )  # fmt: skip
    born, dies = {}, {}
    for position, s in enumerate(blocks.order):
        step = problem.steps[s]
        for v in step.outputs:
            if problem.values[v].view_of is None:
                born[v] = dies[v] = position
        for v in step.inputs:
            dies[root[v]] = position
    for v, value in enumerate(problem.values):
        if value.kept:
            dies[root[v]] = end
    scratch = {c.step: c.block for c in blocks.history if c.value is None}
    least = 0
    for position, s in enumerate(blocks.order):
        step = problem.steps[s]
        live = [v for v in born if born[v] <= position <= dies[v] and problem.values[v].bytes]
        tenants: dict[int, list[int]] = {}
        for v in live:
            tenants.setdefault(blocks.block_of[v] or 0, []).append(v)
        shared = [sorted(group, key=born.__getitem__) for group in tenants.values() if group[1:]]
        for operand, result in shared:
            assert dies[operand] == born[result] == position
            assert problem.values[operand].bytes == problem.values[result].bytes
            o = step.outputs.index(result)
            reads = [i for i, v in enumerate(step.inputs) if root[v] == operand]
            assert reads
            assert all((i, o) in step.overwrites for i in reads)
        assert bool(step.scratch) == (s in scratch)
        if step.scratch:
            assert scratch[s] not in tenants
            assert step.scratch <= blocks.sizes[scratch[s]]
        taken = sum(problem.values[group[-1]].bytes for group in tenants.values()) + step.scratch
        least = max(least, taken)
    return least


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 30)), max_size=40))
def test_the_choice_is_the_best_fit(spans: list[tuple[int, int]]) -> None:
    """Nothing may be overwritten here; a plain list of free blocks must choose the same sizes."""
    read_at: list[list[int]] = [[] for _ in spans]
    for v, (life, _) in enumerate(spans):
        if life and v + life < len(spans):
            read_at[v + life].append(v)
    steps = tuple(PlanStep(tuple(read), (v,)) for v, read in enumerate(read_at))
    blocks = allocate_blocks(Problem(tuple(PlanValue(size) for _, size in spans), steps))
    free: list[int] = []
    sizes: list[int] = []
    for v, (life, size) in enumerate(spans):
        chosen = min((n for n in free if n >= size), default=max(free, default=0))
        if free:
            free.remove(chosen)
        sizes.append(max(chosen, size))
        free += [sizes[u] for u in read_at[v]]
        if not life or v + life >= len(spans):
            free.append(sizes[v])
    assert [choice.size for choice in blocks.history] == sizes


def wide(n: int) -> Problem:
    """`n` steps of sizes that all differ, with thousands of blocks free and in use at a time."""
    random_ = random.Random(7)
    values = [PlanValue(random_.randrange(1, 1 << 40)) for _ in range(n)]
    steps = [
        PlanStep(
            (v - 1 - random_.randrange(min(v, n // 8)),) if v else (), (v,), ((0, 0),) if v else ()
        )
        for v in range(n)
    ]
    return Problem(tuple(values), tuple(steps))


def test_steps_are_placed_in_time_that_grows_with_them() -> None:
    seconds = []
    for n in (12_500, 50_000):
        problem = wide(n)
        start = time.process_time()
        blocks = allocate_blocks(problem)
        seconds.append(time.process_time() - start)
        assert len(blocks.sizes) > n // 100
    assert seconds[1] < 10
    assert seconds[1] < 16 * max(seconds[0], 0.1)


@given(st.integers(0, 1 << 32), st.integers(2, 60), st.sampled_from([1, 64]))
@settings(max_examples=80, deadline=None)
def test_plans_never_need_more_than_the_report_does(seed, steps, alignment):
    problem = replace(random_problem(random.Random(seed), steps), alignment=alignment)
    assert plan(problem).arena <= plan_as_in_report(problem).arena
