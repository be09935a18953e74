"""The table of native kernels: for each op class, the compiled code that computes it.

A rule is given a node and how its operands and results lie in memory, and gives a kernel, or None
where it has none: then NumPy computes the node.  A kernel is a compiled function

    void kernel(ptr row, i64 worker, i64 workers)

whose row holds the addresses of operands, results and scratch memory, then its parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, SupportsIndex, TypeVar, final

from tawny.engine.cpu.products.preparation import Preparation as Preparation
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
from tawny.engine.layout import Memory, Views, contiguous
from tawny.engine.llvm.runtime.library import Library, MachineCode
from tawny.engine.lowering import types
from tawny.errors import PerformanceWarning, warn
from tawny.node import Node
from tawny.op import Op

MOST: Final = 1024
"""Answers of rules that are remembered: those that were asked for last."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Compiled code that computes a node."""

    library: Library | MachineCode
    symbol: str
    parameters: tuple[SupportsIndex, ...] = ()
    parallel: bool = False
    """Whether all threads take part; each works on its share alone."""
    scratch: int = 0
    """Bytes it needs while it runs."""
    prepared: tuple[tuple[int, Preparation], ...] = ()
    """Constant operands that the kernel reads in another form, which is made once."""
    after: tuple[tuple[str, bool], ...] = ()
    """Functions that are called one after the other when all shares are done: their names, and
    whether threads share their work."""
    fallible: bool = False
    """Whether its last parameter is not 0 once one of its functions failed; NumPy says why."""
    drawn: bool = False
    """Whether its last parameter, or the one before it if that says of failure, is the number of
    the run."""


NativeRule = Callable[[Node, Sequence[Memory], Sequence[Memory]], Kernel | None]
ThreadedRule = Callable[[Node, Sequence[Memory], Sequence[Memory], int], Kernel | None]
R = TypeVar("R", bound=NativeRule)
T = TypeVar("T", bound=ThreadedRule)

NATIVE: Final[dict[type[Op], Callable[..., Kernel | None]]] = {}
"""The rules: of ops in `THREADED` threaded ones, native ones of others."""

THREADED: Final[set[type[Op]]] = set()
"""Ops whose kernels are made for a number of threads."""


def native(*ops: type[Op]) -> Callable[[R], R]:
    """Declare the native kernel of ops: a function of a node and of operands' and results' memory.

    What it gives may depend on the node's op and on the memory alone: answers are remembered.
    """

    def declare(rule: R) -> R:
        for op in ops:
            _declare(op, rule)
        return rule

    return declare


def native_on_threads(*ops: type[Op]) -> Callable[[T], T]:
    """Declare a native kernel that is made for a number of threads, which the rule is given last.

    That number may say how work is dealt, and how much scratch memory that takes: whether there is
    a kernel, and every bit of what it computes, must be the same for all.
    """

    def declare(rule: T) -> T:
        for op in ops:
            _declare(op, rule)
            THREADED.add(op)
        return rule

    return declare


def _declare(op: type[Op], rule: Callable[..., Kernel | None]) -> None:
    if op in NATIVE:
        raise ValueError(f"{op.__name__} has two native kernels")
    NATIVE[op] = rule


def _answer(
    rule: Callable[..., Kernel | None],
    node: Node,
    operands: Sequence[Memory],
    results: Sequence[Memory],
    *threads: int,
) -> Kernel | None:
    """What a rule gives; where it fails, a warning, and NumPy computes the node."""
    try:
        return rule(node, operands, results, *threads)
    except Exception as error:  # a program must run wherever the reference engine runs it
        warn_of_failure(node, error)
        return None


def warn_of_failure(node: Node, error: Exception) -> None:
    """Say that a node's kernel cannot be made."""
    warn(
        f"{node!r} has no native kernel, since making one failed; NumPy computes it: "
        f"{type(error).__name__}: {error}",
        PerformanceWarning,
        about=node.sources,
    )


Question = tuple[Op, tuple[Memory, ...], tuple[Memory, ...], tuple[int, ...]]
"""All that the choice of a kernel depends on."""


@final
class _Answer:
    """The kernel that a rule gave, and when it was asked for last."""

    __slots__ = ("asked", "kernel")

    def __init__(self, kernel: Kernel | None, asked: int) -> None:
        self.kernel = kernel
        self.asked = asked


_ANSWERS: Final[dict[Question, _Answer]] = {}
_asking: Final = itertools.count()

_REFUSED: Final[set[tuple[Op, tuple[Memory, ...], tuple[Memory, ...]]]] = set()
"""What has no kernel on any number of threads, since the code of one cannot be made."""


class Choice(NamedTuple):
    """A node, how its operands and results lie in memory, and the kernel that computes it."""

    node: Node
    operands: tuple[Memory, ...]
    results: tuple[Memory, ...]
    kernel: Kernel


def refuse(choice: Choice) -> None:
    """Let NumPy compute whatever this kernel was chosen for."""
    refused = choice.node.op, choice.operands, choice.results
    _REFUSED.add(refused)
    for question in [q for q in _ANSWERS.copy() if q[:3] == refused]:
        _ANSWERS[question] = _Answer(None, next(_asking))


def kernel_for(
    node: Node, operands: tuple[Memory, ...], results: tuple[Memory, ...], threads: int
) -> Kernel | None:
    """The kernel that computes a node on a number of threads; None where NumPy does."""
    kind = type(node.op)
    rule = NATIVE.get(kind)
    if rule is None:
        return None
    own = (threads,) if kind in THREADED else ()
    question = node.op, operands, results, own
    known = _ANSWERS.get(question)
    if known is not None:
        known.asked = next(_asking)
        return known.kernel
    kernel = None if question[:3] in _REFUSED else _answer(rule, node, operands, results, *own)
    _ANSWERS[question] = _Answer(kernel, next(_asking))
    if len(_ANSWERS) > MOST:
        _forget()
    return kernel


def kernel_alone(node: Node, threads: int = NOMINAL_THREADS) -> Kernel | None:
    """The kernel that computes a node whose results lie as new arrays would."""
    choice = choose(node, threads)
    return None if choice is None else choice.kernel


def choose(node: Node, threads: int, views: Views | None = None) -> Choice | None:
    """The kernel that computes a node whose results lie as new arrays would, and what it is for."""
    views = Views() if views is None else views
    operands = tuple([views(source).memory for source in node.inputs])
    results = tuple([contiguous(*kind) for kind in types(node)])
    kernel = kernel_for(node, operands, results, threads)
    return None if kernel is None else Choice(node, operands, results, kernel)


def _forget() -> None:
    """Let half of the answers go, those that nobody asked for in the longest time."""
    oldest = sorted(_ANSWERS.copy().items(), key=lambda entry: entry[1].asked)
    for question, _ in oldest[: len(oldest) // 2]:
        _ANSWERS.pop(question, None)
