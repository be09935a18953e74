"""Programs with loops, written once for lazy arrays and for NumPy, where a loop is Python's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from tawny.tree import leaves, map_leaves, map_together


class Language(NamedTuple):
    """An array namespace, and loops in it."""

    xp: ModuleType
    scan: Callable[..., Any]
    fori_loop: Callable[..., Any]
    put: Callable[[Any, Any, Any], Any]
    """`x` with a value at an index."""
    cond: Callable[..., Any]
    switch: Callable[..., Any]
    while_loop: Callable[..., Any]


def plain_scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    *,
    xp: ModuleType = np,
) -> Any:
    """`tw.scan`, one step after the other."""
    rows = [x for x in leaves(xs) if x is not None]
    count = len(rows[0]) if rows else length
    carry: Any = map_leaves(xp.asarray, init)
    made: dict[int, Any] = {}
    places = range(count)
    for i in reversed(places) if reverse else places:
        row = map_leaves(lambda x, i=i: None if x is None else xp.asarray(x)[i], xs)
        carry, made[i] = f(carry, row)
    listed = [made[i] for i in places]
    return carry, map_together(lambda *row: None if row[0] is None else xp.stack(row), *listed)


def plain_fori_loop(
    low: int, high: int, f: Callable[..., Any], init: Any, *, xp: ModuleType = np
) -> Any:
    """`tw.fori_loop`, one step after the other."""
    carry = map_leaves(xp.asarray, init)
    for i in range(low, high):
        carry = f(np.int64(i), carry)
    return carry


def plain_put(x: Any, index: Any, value: Any) -> Any:
    """A copy of `x` with a value at an index."""
    x = np.array(x)
    x[index] = value
    return x


def lazy_put(x: Any, index: Any, value: Any) -> Any:
    """The same of a lazy array."""
    return x.at[index].set(value)


def plain_cond(pred: Any, yes: Callable[..., Any], no: Callable[..., Any], *operands: Any) -> Any:
    """`tw.cond`, by Python's `if`."""
    return yes(*operands) if pred else no(*operands)


def plain_switch(index: Any, branches: Any, *operands: Any) -> Any:
    """`tw.switch`, by an index."""
    return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


def plain_while(cond: Callable[..., Any], body: Callable[..., Any], init: Any) -> Any:
    """`tw.while_loop`, by Python's `while`."""
    carry = map_leaves(np.asarray, init)
    while cond(carry):
        carry = body(carry)
    return carry


def chosen_cond(pred: Any, yes: Callable[..., Any], no: Callable[..., Any], *operands: Any) -> Any:
    """`tw.cond`, by computing both."""
    return map_together(lambda a, b: tnp.where(pred, a, b), yes(*operands), no(*operands))


def chosen_switch(index: Any, branches: Any, *operands: Any) -> Any:
    """`tw.switch`, by computing all."""
    made = branches[0](*operands)
    for number, branch in enumerate(branches[1:], 1):
        new = branch(*operands)
        made = map_together(lambda a, b, n=number: tnp.where(index >= n, a, b), new, made)
    return made


LAZY = Language(tnp, tw.scan, tw.fori_loop, lazy_put, tw.cond, tw.switch, tw.while_loop)
PLAIN = Language(np, plain_scan, plain_fori_loop, plain_put, plain_cond, plain_switch, plain_while)
UNROLLED = Language(
    tnp,
    partial(plain_scan, xp=tnp),
    partial(plain_fori_loop, xp=tnp),
    lazy_put,
    chosen_cond,
    chosen_switch,
    plain_while,
)


class LoopProgram(NamedTuple):
    """A function of a language and arrays, and the shapes and dtypes of these."""

    run: Callable[..., Any]
    inputs: tuple[tuple[tuple[int, ...], str], ...]


def _recurrent(o: Language, h: Any, w: Any, x: Any) -> Any:
    return o.scan(lambda h, r: (o.xp.tanh(h @ w + r), h * 2), h, x)


def _nested(o: Language, h: Any, w: Any, x: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        last, inner = o.scan(lambda e, v: (e * 0.5 + v * c, o.xp.sum(e)), c, row, reverse=True)
        return o.xp.tanh(c + last @ w), (inner, c)

    return o.scan(outer, h, x, reverse=True)


def _swapped(o: Language, h: Any, w: Any, x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        one, other, count = carry["one"], carry["other"], carry["count"]
        new = {"one": other, "other": one + row[::-1], "count": count + 1}
        return new, [row, one[:2], None]

    return o.scan(step, {"one": h, "other": h * 2, "count": 0}, x)


def _unchanged(o: Language, h: Any, w: Any, x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        kept, sums = carry
        return (kept, sums + kept * row @ (w * 2)), (kept, o.xp.sum(w), sums)

    return o.scan(step, (h, h), x)


def _columns(o: Language, h: Any, w: Any, x: Any) -> Any:
    return o.scan(lambda s, c: (s + c[1:3] @ w[:2, 0], c.reshape(2, 2).T), 1.5, x.T)


def _assigned(o: Language, h: Any, w: Any, x: Any) -> Any:
    def step(i: Any, a: Any) -> Any:
        return o.put(a, i + 1, a[i] * 0.5 + a[i + 1])

    return o.fori_loop(0, 3, step, x), o.fori_loop(2, 2, step, x), o.fori_loop(1, 3, step, x)


def _counted(o: Language, h: Any, w: Any, x: Any) -> Any:
    def step(i: Any, carry: Any) -> Any:
        return o.fori_loop(-2, 2, lambda j, c: c * 0.5 + o.xp.sin(h) * (i * j), carry)

    return o.fori_loop(3, 8, step, h)


def _integers(o: Language, k: Any) -> Any:
    def step(carry: Any, n: Any) -> Any:
        seen, largest = carry
        return (seen + n % 3, o.xp.maximum(largest, n)), o.xp.where(n > seen, n, -seen)

    return o.scan(step, (0, k[0]), k)


def _empty(o: Language, h: Any, w: Any, x: Any) -> Any:
    return o.fori_loop(5, 2, lambda i, c: c * i, h), h


def _single(o: Language, h: Any, w: Any, x: Any) -> Any:
    return o.scan(lambda c, r: (c + r, c * r), h.astype("float32"), x[:1].astype("float32"))


def _branched(o: Language, h: Any, w: Any, x: Any) -> Any:
    one = o.cond(o.xp.sum(h) > 0, lambda a: (a @ w, 1.5), lambda a: (a * o.xp.sum(w), 0.0), h)
    branches = [lambda a: o.xp.sin(a), lambda a: a * h[0], lambda a: a[::-1]]
    return one, [o.switch(o.xp.argmax(x[i]), branches, h * 2) for i in range(4)]


def _branched_in_steps(o: Language, h: Any, w: Any, x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        grown = o.cond(row[0] > c[0], lambda: o.xp.tanh(c @ w + row), lambda: c * 0.5)
        return grown, o.switch(o.xp.argmax(row), [lambda a: a, lambda a: a * row], c)

    return o.scan(step, h, x)


def _repeated(o: Language, h: Any, w: Any, x: Any) -> Any:
    def goes_on(carry: Any) -> Any:
        i, a = carry
        return (o.xp.sum(a * a) > 0.01) & (i < 30)

    def step(carry: Any) -> Any:
        i, a = carry
        return i + 1, o.xp.tanh(a @ (w * 0.3)) * 0.9

    def never(carry: Any) -> Any:
        return o.xp.sum(carry) > 1e9

    rows = o.scan(lambda c, r: (c + 1, o.while_loop(goes_on, step, (0, r))[1]), 0, x)[1]
    return o.while_loop(goes_on, step, (0, h)), rows, o.while_loop(never, lambda c: c * 2, h)


_ARRAYS = (((3,), "float64"), ((3, 3), "float64"), ((4, 3), "float64"))

PROGRAMS = {
    "recurrent": LoopProgram(_recurrent, _ARRAYS),
    "nested, reversed": LoopProgram(_nested, _ARRAYS),
    "swapped carries": LoopProgram(_swapped, _ARRAYS),
    "unchanged carry": LoopProgram(_unchanged, _ARRAYS),
    "rows of a view": LoopProgram(_columns, _ARRAYS),
    "assigned in place": LoopProgram(_assigned, _ARRAYS),
    "counted, nested": LoopProgram(_counted, _ARRAYS),
    "integers": LoopProgram(_integers, (((6,), "int64"),)),
    "no step": LoopProgram(_empty, _ARRAYS),
    "one step": LoopProgram(_single, _ARRAYS),
    "branches": LoopProgram(_branched, _ARRAYS),
    "branches in steps": LoopProgram(_branched_in_steps, _ARRAYS),
    "as long as": LoopProgram(_repeated, _ARRAYS),
}


def values_of(program: LoopProgram, seed: int) -> list[Any]:
    """Values for the arrays of a program."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for shape, dtype in program.inputs:
        whole = rng.integers(-9, 9, shape) if dtype == "int64" else rng.normal(size=shape)
        made.append(whole.astype(dtype))
    return made


# ------------------------------------------------------------------ random ones


class RandomLoops:
    """A random program: loops in loops over arrays of 3 numbers, slices, choices, products."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, o: Language, h: Any, w: Any, x: Any) -> Any:
        rng = np.random.default_rng(self.seed)
        return self._block(o, rng, [h, x[0] * 0.5, x[1]], w, x, depth=2)

    def _block(
        self, o: Language, rng: np.random.Generator, pool: list[Any], w: Any, x: Any, depth: int
    ) -> list[Any]:
        pool = list(pool)
        for _ in range(int(rng.integers(1, 5))):
            kind = int(rng.integers(0, 8 if depth else 5))
            a, b = (pool[int(i)] for i in rng.integers(0, len(pool), 2))
            if kind == 0:
                pool.append(o.xp.tanh(a + b))
            elif kind == 1:
                pool.append(o.xp.where(a > b, a * 0.5, b))
            elif kind == 2:
                pool.append(o.xp.tanh(a @ w) if rng.integers(2) else a[::-1] - b)
            elif kind == 3:
                pool.append(o.xp.cos(a) * o.xp.sum(b[1:]))
            elif kind == 4:
                pool.append(o.put(a, int(rng.integers(3)), b[0] * 0.25))
            elif kind == 5:
                pool.extend(self._scan(o, rng, pool, w, x, depth))
            elif kind == 6:
                pool.append(self._counted(o, rng, pool, w, x, depth))
            else:
                pool.append(self._chosen(o, rng, pool, w, x, depth))
        return pool[-3:]

    def _chosen(
        self, o: Language, rng: np.random.Generator, pool: list[Any], w: Any, x: Any, depth: int
    ) -> Any:
        seeds = [int(rng.integers(2**31)) for _ in range(2)]
        first, second = (pool[int(i)] for i in rng.integers(0, len(pool), 2))

        def branch(seed: int) -> Callable[..., Any]:
            def compute(a: Any) -> Any:
                own = np.random.default_rng(seed)
                return o.xp.tanh(self._block(o, own, [a, first], w, x, depth - 1)[0])

            return compute

        return o.cond(first[0] > second[1], *map(branch, seeds), second)

    def _scan(
        self, o: Language, rng: np.random.Generator, pool: list[Any], w: Any, x: Any, depth: int
    ) -> list[Any]:
        count, inner = int(rng.integers(1, 4)), int(rng.integers(2**31))
        first = [pool[int(i)] for i in rng.integers(0, len(pool), count)]
        emits, reverse = bool(rng.integers(2)), bool(rng.integers(2))

        def step(carry: Any, row: Any) -> Any:
            own = np.random.default_rng(inner)
            made = self._block(o, own, [*carry, row, pool[0]], w, x, depth - 1)
            new = [o.xp.tanh(made[i % len(made)] + c * 0.25) for i, c in enumerate(carry)]
            return new, (made[0], carry[0]) if emits else (made[-1], new[0])

        carry, (ys, zs) = o.scan(step, first, x, reverse=reverse)
        return [*carry, ys[1], o.xp.sum(zs, axis=0) * 0.1]

    def _counted(
        self, o: Language, rng: np.random.Generator, pool: list[Any], w: Any, x: Any, depth: int
    ) -> Any:
        inner, steps = int(rng.integers(2**31)), int(rng.integers(0, 5))

        def step(i: Any, carry: Any) -> Any:
            own = np.random.default_rng(inner)
            made = self._block(o, own, [carry, x[i % 4], pool[-1]], w, x, depth - 1)
            return o.xp.tanh(made[0]) + i * 0.125

        return o.fori_loop(-1, steps - 1, step, pool[int(rng.integers(len(pool)))])
