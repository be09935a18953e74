"""Random programs: graphs of all ops with updates, run in every way, judged by NumPy.

    check_program(seed, "cpu")

A program is compiled with random options (rewriting, incremental runs, a byte budget, memory that
is worthless once read), given new inputs, run for one step or several, and made to fail in the
middle.  After each run outputs and variables are compared with a fresh evaluation, node by node,
from the variables as they were.  A seed gives the same program every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from interruptions import interrupted
from poisoned import Poisoned
from random_graphs import Builder, RandomGraph
from tawny import dtype as dt
from tawny.array import Array, array_for
from tawny.engine.reference import compute
from tawny.graph.program import Program
from tawny.node import Node, Value, toposort
from tawny.op import Elementwise
from tawny.ops.delay import Delay
from tawny.ops.einsum import Einsum
from tawny.ops.linalg import Matmul
from tawny.ops.random import Draw
from tawny.ops.series import Correlate

LARGER = ((), (1,), (40,), (1, 40), (24, 1), (24, 40), (3, 24, 1), (3, 24, 40), (40, 24), (70, 70))
"""Shapes that are worth a fused kernel."""

SAMPLES = 40
"""Evaluations with other roundings, where results differ."""

SPREAD = 30.0
"""Results may differ by so many times what other roundings make of them."""

CANCELLING = 0.25
"""How often what is as small as its own rounding is nothing at all."""

PRODUCTS = (Matmul, Einsum, Correlate)
"""Ops that add products of numbers, in the engines' own ways."""

LARGEST = 20_000
"""Elements of the largest array."""


class Broken(RuntimeError):
    """What a program is made to fail with."""


class Fuse:
    """A function that does nothing, and fails when its time has come."""

    def __init__(self) -> None:
        self.left: int | None = None

    def __call__(self, x: Value) -> Value:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Broken("in the middle of a run")
        return np.array(x)


class ProgramBuilder(Builder):
    """Makes a graph with updates."""

    def __init__(self, random: Random) -> None:
        smooth = random.random() < 0.5
        special = not smooth and random.random() < 0.5
        super().__init__(random, smooth, special, impure=random.random() < 0.3)
        if random.random() < 0.4:
            self.shapes, self.largest = LARGER, LARGEST
        self.fuse = Fuse()

    def program(self) -> tuple[RandomGraph, dict[Node, Node]]:
        """A graph whose outputs are the program's, and what variables become."""
        made = self.graph(self.random.randint(1, 12))
        if self.random.random() < 0.2:
            self.pool.append(tw.delay(self.fuse, self.pick()))
            made = RandomGraph((*made.outputs, self.pool[-1].node), self.feeds)
        updates: dict[Node, Node] = {}
        targets = [*self.feeds]
        count = self.random.choice((0, 1, 1, 2, 3))
        for target in self.random.sample(targets, min(count, len(targets))):
            source = self.source(target)
            if source is not None:
                updates[target] = source
        return made, updates

    def source(self, target: Node) -> Node | None:
        """What a variable may become: as often as not something that lies in a variable."""
        chance = self.random.random()
        whole = array_for(target)
        if chance < 0.15:
            once = self.scattered(whole)
            return (self.scattered(once) if self.random.random() < 0.3 else once).node
        pool = [array_for(n) for n in self.feeds] if chance < 0.4 else self.pool
        if chance > 0.7:
            pool = [*pool, whole * 2, whole[::-1] if whole.ndim else whole]
        for x in self.random.sample(pool, len(pool)):
            made = self.fitted(x, target)
            if made is not None:
                return made.node
        return None

    def fitted(self, x: Array, target: Node) -> Array | None:
        """An array seen with the shape and dtype of a variable, if it can be."""
        shape, dtype = target.shape, target.dtype
        if x.dtype != dtype:
            if not np.can_cast(x.dtype, dtype, "same_kind") or self.random.random() < 0.5:
                return None
            x = tnp.astype(x, dtype)
        if dtype.kind in "fc" and self.random.random() < 0.4:
            x = tnp.tanh(x)
        if x.shape == shape[::-1] and self.random.random() < 0.5:
            x = tnp.permute_dims(x, tuple(range(x.ndim))[::-1])
        if x.shape == shape:
            return x[::-1] if x.ndim and self.random.random() < 0.3 else x
        if x.size == np.prod(shape, dtype=int):
            return tnp.reshape(x, shape)
        try:
            return tnp.broadcast_to(x, shape)
        except ValueError:
            return None

    def scattered(self, x: Array) -> Array:
        """A variable with some elements changed."""
        if not x.size:
            return x
        key: Any = tuple(self.below(n) for n in x.shape)
        if x.ndim and self.random.random() < 0.5:
            key = (key[0],) if self.random.random() < 0.5 else (slice(key[0], None), *key[1:])
        one = True if x.dtype.kind == "b" else 1
        return x.at[key].set(one) if self.random.random() < 0.5 else x.at[key].add(one)


def simulated(
    results: Sequence[Node],
    targets: Sequence[Node],
    state: dict[Node, Value],
    draw: int,
    steps: int,
    noise: np.random.Generator | None = None,
) -> tuple[list[Value], dict[Node, Value]]:
    """Outputs of the last of some runs, and the variables after it, by NumPy.

    The last of `results` are what the targets become.  With `noise` every result is rounded in
    another way.
    """
    state = dict(state)
    values: list[Value] = []
    first = len(results) - len(targets)
    for number in range(draw, draw + steps):
        values = _evaluated(results, state, number, noise)
        state |= {
            t: np.array(v).reshape(t.shape) for t, v in zip(targets, values[first:], strict=True)
        }
    return values[:first], state


def _evaluated(
    results: Sequence[Node], feeds: dict[Node, Value], draw: int, noise: np.random.Generator | None
) -> list[Value]:
    values: dict[Node, Any] = dict(feeds)
    with np.errstate(all="ignore"):
        for node in toposort(results):
            if node in values:
                continue
            value = node.value
            if value is None or node.inputs or node.volatile:
                given = [values[i] for i in node.inputs]
                value = compute(node, given, draw)
                if noise is not None and not isinstance(node.op, Draw) and not node.op.facts().view:
                    unit = _carelessness(node, given)
                    value = _rounded(value, _sizes(node, given), given, noise, unit)
                    if isinstance(node.op, PRODUCTS) and node.dtype.kind == "c":
                        value = _other_infinities(value, given, noise)
            values[node] = value if node.parts else np.array(value, order="C")
    return [values[n] for n in results]


def _sizes(node: Node, given: Sequence[Any]) -> Any:
    """What the result would be if nothing cancelled: the numbers that are rounded on the way."""
    if isinstance(node.op, (Elementwise, Delay)) or node.parts:
        return None
    operands = [_without_signs(x) for x in given]
    try:
        return np.abs(compute(node, operands, 0))
    except (ArithmeticError, ValueError):
        return None


def _carelessness(node: Node, given: Sequence[Any]) -> float:
    """How many times a unit is what adding terms one by one may be off: it grows as their root."""
    arrays = [x for x in given if isinstance(x, np.ndarray)]
    terms = max([x.size for x in arrays], default=1) / max(int(np.prod(node.shape)), 1)
    if isinstance(node.op, PRODUCTS):
        terms = max([terms, *[n for x in arrays for n in x.shape]])
    return max(1.0, terms**0.5 / 8)


def _without_signs(x: Any) -> Any:
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
        return x
    return np.where(np.isfinite(x), np.abs(x), 0).astype(x.dtype)


def _rounded(
    value: Any, whole: Any, given: Sequence[Any], noise: np.random.Generator, times: float
) -> Any:
    """A value as another order of additions might have rounded it, by so many units."""
    if isinstance(value, tuple):
        return tuple([_rounded(v, None, given, noise, times) for v in value])
    if value.dtype.kind not in "fc" or not value.size:
        return value
    dtype = value.dtype
    unit = times * float(np.finfo(dtype).eps)
    sizes = [float(np.max(a)) for x in given if not isinstance(x, tuple)
             if (a := np.abs(x[np.isfinite(x)])).size]  # fmt: skip
    if value.dtype.kind == "f":  # the sign of NaN says nothing
        value = np.where(np.isnan(value), np.copysign(np.nan, noise.choice([-1, 1])), value)
    shape = value.shape
    finite = np.where(np.isfinite(value), np.abs(value), 0)
    scale = finite + (max(sizes, default=0.0) if noise.random() < 0.5 else 0.0)
    if whole is not None and whole.shape == shape:
        scale = scale + np.where(np.isfinite(whole), whole, 0)
        value = np.where(np.isinf(whole), noise.choice([np.inf, np.nan]), value).astype(value.dtype)
    off: Any = noise.integers(-4, 5, shape) / 2 * unit * scale
    if value.dtype.kind == "c":
        off = off + 1j * noise.integers(-4, 5, shape) / 2 * unit * scale
    moved = np.asarray(value + off).astype(dtype)
    nothing = 4 * unit * scale
    if whole is not None:  # of sums, whose terms may be as large as the largest operand
        nothing = nothing + 16 * unit * max(sizes, default=0.0)
    cancelled = np.isfinite(value) & (finite <= nothing) & (noise.random(shape) < CANCELLING)
    return np.where(cancelled, np.zeros((), dtype), moved)


def _other_infinities(value: Value, given: Sequence[Value], noise: np.random.Generator) -> Value:
    """A complex product of infinities, whose parts that are not finite may be infinite or NaN.

    The formula has both in each part; libraries add its terms in other ways.
    """
    if all(np.isfinite(x).all() for x in given):
        return value
    parts = np.ascontiguousarray(value).view(dt.real_dtype(value.dtype))
    drawn = noise.choice([np.inf, -np.inf, np.nan], parts.shape)
    mixed = np.where(np.isfinite(parts), parts, drawn).astype(parts.dtype)
    return mixed.view(value.dtype).reshape(value.shape)


def _tied(results: Sequence[Node]) -> frozenset[Node]:
    """What depends on a truth about rounded numbers, as that two are equal: no sample may tell."""
    found: set[Node] = set()
    for node in toposort(results):
        truth = node.dtype.kind == "b" and any(i.dtype.kind in "fc" for i in node.inputs)
        if truth or not found.isdisjoint(node.inputs):
            found.add(node)
    return frozenset(found)


class Judge:
    """Compares values with what NumPy computes, up to what other roundings could make of them."""

    def __init__(self, results: Sequence[Node], targets: Sequence[Node], seed: int) -> None:
        self._results, self._targets, self._seed = results, targets, seed
        self._tied = _tied(results)

    def check(
        self, got: list[Value], after: dict[Node, Value], before: dict[Node, Value], draw: int,
        steps: int,
    ) -> None:  # fmt: skip
        """Outputs (if any were given) and variables after some runs, given those before them."""
        outputs, state = simulated(self._results, self._targets, before, draw, steps)
        outputs = outputs[: len(got)]
        names = [*[f"output {i}" for i in range(len(got))], *[n.name for n in after]]
        mine, want = [*got, *after.values()], [*outputs, *[state[n] for n in after]]
        wrong = [i for i, (g, w) in enumerate(zip(mine, want, strict=True)) if not near(g, w)]
        if self._tied.intersection(self._results[len(self._results) - len(self._targets) :]):
            return  # variables may be anything
        wrong = [i for i in wrong if i >= len(got) or self._results[i] not in self._tied]
        if not wrong:
            return
        rng = np.random.default_rng(self._seed)
        others: list[list[Value]] = []
        for _ in range(SAMPLES):
            try:
                o, s = simulated(self._results, self._targets, before, draw, steps, rng)
            except (ArithmeticError, ValueError):
                return  # so near to what cannot be computed that rounding decides
            others.append([*o[: len(got)], *[s[n] for n in after]])
        for i in wrong:
            if not within(mine[i], want[i], [o[i] for o in others]):
                raise AssertionError(
                    f"{names[i]} is {mine[i].tolist()}, not {want[i].tolist()}"[:3000]
                )


def near(got: Value, want: Value) -> bool:
    """Whether two arrays are equal up to some rounding."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return False
    if got.dtype.kind not in "fc":
        return np.array_equal(got, want)
    tol = 4 * float(np.finfo(got.dtype).eps)
    with np.errstate(all="ignore"):
        return bool(np.allclose(got, want, rtol=tol, atol=tol, equal_nan=True))


def within(got: Value, want: Value, others: Sequence[Value]) -> bool:
    """Whether each element lies among those of other roundings, or nearly."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return False
    kind = got.dtype.kind
    wide = complex if kind == "c" else np.longdouble
    tiny = float(np.finfo(got.dtype).eps) if kind in "fc" else 0.0
    with np.errstate(all="ignore"):
        g, w, rest = (np.asarray(x).astype(wide) for x in (got, want, np.stack([want, *others])))
        spread = np.max(np.abs(rest - w), axis=0)
        bound = SPREAD * spread + 64 * tiny * (1 + np.abs(w))
        same = (g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g - w) <= bound)
        unsure = ~np.isfinite(rest).all(axis=0) & np.isfinite(rest).any(axis=0)
        unsure |= np.isinf(rest).any(axis=0) & np.isnan(rest).any(axis=0)
        huge = np.abs(w) > float(np.finfo(got.dtype).max) / 1e4 if kind in "fc" else False
    return bool(np.all(same | unsure | huge))


def options_of(random: Random, graph: tw.Graph) -> dict[str, Any]:
    """Some way to compile a graph."""
    options: dict[str, Any] = {
        "optimise": random.random() < 0.75,
        "incremental": random.random() < 0.7,
        "threads": random.choice((None, 1, 2)),
    }
    if options["incremental"] and random.random() < 0.3:
        some = [array_for(v) for v in graph.variables if random.random() < 0.5]
        options["often"] = some
    return options


def budget_of(random: Random, graph: tw.Graph, engine: str, options: dict[str, Any]) -> int | None:
    """Sometimes the least bytes a program can do with, or some more."""
    if random.random() < 0.75:
        return None
    free = graph.compile(engine=engine, **options).plan.peak_bytes
    try:
        graph.compile(engine=engine, memory=0, **options)
        least = 0
    except tw.MemoryBudgetError as error:
        least = error.least_bytes
    return random.choice((least, (least + free) // 2))


def check_program(seed: int, engine: str) -> None:
    """Make the program of a seed, run it in several ways, and compare it with NumPy."""
    random = Random(seed)
    tw.random.seed(seed % 2**31)
    builder = ProgramBuilder(random)
    made, updates = builder.program()
    inputs = [array_for(n) for n in made.feeds]
    outputs = [array_for(n) for n in made.outputs]
    given = {array_for(t): array_for(s) for t, s in updates.items()}
    graph = tw.Graph(inputs, outputs, updates=given, unused="ignore")
    try:
        simulated(graph.results, [*updates], made.feeds, 0, 1)
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        return  # nothing to compare with
    options = options_of(random, graph)
    budget = budget_of(random, graph, engine, options)
    p = graph.compile(engine=engine, memory=budget, **options)
    if budget is not None:
        assert p.plan.peak_bytes <= budget
    if random.random() < 0.3:
        compiled = p._compiled
        compiled.__dict__["executable"] = Poisoned(compiled.executable, compiled.task)
    try:
        _run(p, builder, made.feeds, Judge(graph.results, [*updates], seed))
    except Exception as error:
        raise AssertionError(
            f"seed {seed} on {engine} with {options | {'memory': budget}}\n{_shown(graph)}\n{error}"
        ) from error


def _shown(graph: tw.Graph) -> str:
    everything = RandomGraph(graph.results, {})
    return f"{everything!r}\nupdates {[t.name for t, _ in graph.update_nodes]}"


def _outputs(p: Program, steps: int, place: int) -> tuple[list[Value], int | None]:
    """What some runs give, interrupted at a place unless it is 0.

    Where they do not end, the number of those that may be done at most is given too.
    """
    got: list[Value] = []

    def run() -> None:
        with np.errstate(all="ignore"):
            got.extend(p.run(steps))

    try:
        is_interrupted = interrupted(run, place) is not None if place else run()
    except Broken:
        return [], steps - 1
    return got, steps if is_interrupted else None


def _run(p: Program, builder: ProgramBuilder, feeds: dict[Node, Value], judge: Judge) -> None:
    random = builder.random
    names = p.graph.names
    p.set(**{names[n]: v for n, v in feeds.items()})
    nodes = {names[n]: n for n in feeds}
    for _ in range(random.randint(2, 4)):
        for node in feeds:
            if random.random() < 0.25:
                p.set(**{names[node]: builder.value(node.shape, node.dtype)})
        steps = random.choice((1, 1, 2, 3))
        before, draw = {nodes[k]: v for k, v in p.state.items()}, p.draw
        if random.random() < 0.3:
            builder.fuse.left = random.randrange(steps)
        place = random.randrange(1, 400) if random.random() < 0.1 else 0
        if isinstance(p._compiled.executable, Poisoned):
            place = 0  # that runs steps and updates one by one
        got, most = _outputs(p, steps, place)
        builder.fuse.left = None
        if most is not None:
            done = p.draw - draw
            assert 0 <= done <= most, f"{done} of {steps} runs are done"
            after = {nodes[k]: v for k, v in p.state.items()}
            if done:
                judge.check([], after, before, draw, done)
            else:
                for node, value in after.items():
                    assert value.tobytes() == before[node].tobytes(), f"{node.name} changed"
            continue
        assert p.draw == draw + steps
        after = {nodes[k]: v for k, v in p.state.items()}
        judge.check(got, after, before, draw, steps)
