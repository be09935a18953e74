"""A table of graphs and digests of all that becomes of them, for processes that differ otherwise.

    python tests/determinism.py [--history N] [--tick SECONDS] [--salt N] [--large] [name ...]

prints, as JSON, for each graph of the table a digest of each stage: the rewritten nodes, what was
rewritten, the plan, the kernels, the results.  None may depend on what the options change: which
graphs were compiled before and which budgets were asked for, what clocks say (a counted clock that
goes on by so many seconds whenever it is looked at), in which order sets of nodes are walked.  What
may depend on the number of threads has stages of its own: `places`, `shown` and `dealt`.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

ADDRESSES = 2**40
"""Parameters of kernels from here on are addresses."""

CLOCKS = ("thread_time", "process_time", "perf_counter", "monotonic")


def count_time(tick: float) -> None:
    """Let clocks go on by `tick` seconds whenever somebody looks."""
    for name in CLOCKS:
        steps = itertools.count(1)
        setattr(time, name, lambda steps=steps: next(steps) * tick)


class Case(NamedTuple):
    """A graph, how it is compiled, and which part of its free peak it is given."""

    make: Callable[[], Any]
    options: Mapping[str, Any] = MappingProxyType({})
    share: float | None = None


def table(large: bool) -> dict[str, Case]:
    """The graphs by name."""
    import warnings

    import numpy as np

    import tawny as tw
    import tawny.numpy as tnp
    from engines import DEVICE, has_device
    from random_graphs import graph_of
    from recurrent_graphs import unrolled
    from tawny import models, nn, optim
    from tawny.array import wrap

    def training(model: nn.Module, shape: tuple[int, ...], optimiser: Any) -> tw.Graph:
        rng = np.random.default_rng(0)
        batch = rng.standard_normal(shape, np.float32), rng.integers(0, 10, shape[0])
        return nn.training_graph(model, nn.cross_entropy, batch, optimiser)

    def dense() -> tw.Graph:
        layers = [nn.Linear(24, 24, activation="tanh") for _ in range(6)]
        return training(nn.Sequential(*layers, nn.Linear(24, 10)), (32, 24), optim.Adam(0.01))

    def several() -> tw.Graph:
        x, z = (tw.var(name, shape=(32, 32)) for name in "xz")
        parts = [tnp.exp(x) @ x, tnp.sin(x) @ x, tnp.cos(x) @ x, tnp.linalg.inv(x + 9)]
        return tw.Graph([x, z], sum((part * z for part in parts[1:]), parts[0] @ z))

    def chain() -> tw.Graph:
        x = tw.var("x", shape=(60, 60))
        saved = [x]
        for _ in range(8):
            saved.append(tnp.sin(saved[-1] @ saved[-1]))
        out = saved[-1]
        for one in reversed(saved[:-1]):
            out = out @ tnp.cos(one)
        return tw.Graph([x], out)

    def attention() -> tw.Graph:
        x = tw.var("x", shape=(10, 672, 8), dtype="float32")
        return tw.Graph([x], tnp.softmax(x @ tnp.matrix_transpose(x), axis=-1) @ x)

    def wide() -> tw.Graph:
        rng = np.random.default_rng(1)
        x = tw.var("x", shape=(1, 176, 176, 3), dtype="float32")
        first = tnp.relu(
            tnp.conv2d(x, rng.standard_normal((3, 3, 3, 40), np.float32), padding="SAME")
        )
        y = tnp.relu(
            tnp.conv2d(first, rng.standard_normal((3, 3, 40, 40), np.float32), padding="SAME")
        )
        y = tnp.conv2d(y + first, rng.standard_normal((3, 3, 40, 4), np.float32), padding="SAME")
        return tw.Graph([x], y + tnp.sum(first, axis=-1, keepdims=True))

    def shared() -> tw.Graph:
        x = tw.var("x", shape=(40_000,))
        known = tnp.sin(tnp.arange(40_000.0)) + 1
        return tw.Graph([x], [tnp.cumsum(known) * x * 1, known - x])

    def reductions() -> tw.Graph:
        x = tw.var("x", shape=(3, 50_000))
        y = tw.var("y", shape=(500, 300), dtype="float32")
        rows, columns = tnp.sum(y * y, axis=1), tnp.max(y, axis=0)
        outputs = [
            *(tnp.sum(x), tnp.std(x, axis=1), tnp.argmax(x, axis=1), tnp.linalg.norm(x)),
            *(
                tnp.softmax(x, axis=1),
                tnp.sort(y[:, :20], axis=0),
                tnp.cumsum(y, axis=1),
                rows,
                columns,
            ),
            *(y @ tnp.matrix_transpose(y), y @ columns, tnp.vdot(x[0], x[1])),
        ]
        return tw.Graph([x, y], outputs)

    def convolutions() -> tw.Graph:
        layers = [nn.Conv2d(n, 32, 3, padding="SAME", activation="relu") for n in (3, 32, 32)]
        model = nn.Sequential(*layers, nn.GlobalAvgPool2d(), nn.Linear(32, 10))
        return training(model, (4, 17, 20, 3), optim.SGD(0.1))

    def loops() -> tw.Graph:
        tw.random.seed(0)  # draws are numbered from here on
        x, xs = tw.var("x", shape=(20, 30)), tw.var("xs", shape=(9, 20, 30))

        def step(carry: Any, one: Any) -> Any:
            total, last = carry
            new = tnp.tanh(last @ tnp.matrix_transpose(one)) @ one + tw.random.normal(
                shape=(20, 30)
            )
            return (total + tnp.sum(new), new), tnp.sort(new, axis=1)

        carry, rows = tw.scan(step, (0.0, x), xs)
        halved = tw.while_loop(lambda y: tnp.max(y) > 0.1, lambda y: y / 2 + y @ y.T @ y / 900, x)
        either = tw.cond(tnp.sum(x) > 0, lambda y: tnp.exp(y) @ y.T, lambda y: y @ y.T, x)
        slope = tw.gradients(tnp.sum(tw.fori_loop(0, 5, lambda i, y: tnp.sin(y + i), x)), [x])
        return tw.Graph([x, xs], [*carry, rows, halved, either, *slope])

    def batches() -> tw.Graph:
        w, xs = tw.var("w", shape=(24, 24)), tw.var("xs", shape=(12, 7, 24))
        each = tw.vmap(tw.grad(lambda w, x: tnp.sum(tnp.logsumexp(x @ w, axis=1))), (None, 0))
        return tw.Graph([w, xs], [each(w, xs), tw.vmap(tnp.sort)(xs)], updates={w: w * 0.5})

    def drawn(seed: int) -> tw.Graph:
        found = graph_of(seed, 25, impure=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is used by no output")
            return tw.Graph([wrap(v) for v in found.feeds], [wrap(n) for n in found.outputs])

    whole = {"incremental": False}
    cases = {
        "dense": Case(dense),
        "dense within": Case(dense, share=0.7),
        "recurrent": Case(lambda: unrolled("LSTM", 4, 6, 16), whole),
        "chain within": Case(chain, whole, 0.6),
        "kept": Case(several),
        "kept within": Case(several, share=0.8),
        "bands": Case(attention, whole),
        "bands within": Case(wide, whole, 0.65),
        "reductions": Case(reductions),
        "shared": Case(shared),
        "convolutions": Case(convolutions, whole),
        "loops": Case(loops),
        "batches": Case(batches),
    }
    if has_device():
        on_device = {"engine": DEVICE}
        cases |= {
            "batches on a device": Case(batches, on_device),
            "dense on a device within": Case(dense, on_device, 0.7),
        }
    cases |= {f"random {seed}": Case(lambda seed=seed: drawn(seed)) for seed in (1, 2, 3, 4)}
    if large:
        image = {"ResNet50": models.ResNet50, "InceptionV3": models.InceptionV3}
        for name, model in image.items():
            cases[name] = Case(lambda model=model: network(model(), (1, 96, 96, 3)), whole)
        small = models.ResNet50(10, width=1 / 4)
        cases["ResNet50 training"] = Case(lambda: training(small, (8, 64, 64, 3), optim.Adam()))
        cases["ResNet50 training within"] = cases["ResNet50 training"]._replace(share=0.5)
        cases["Mask R-CNN"] = Case(lambda: network(models.MaskRCNN(), (1, 256, 256, 3)), whole)
        cases["Mask R-CNN within"] = cases["Mask R-CNN"]._replace(share=0.8)
        cases |= {f"random {seed}": Case(lambda seed=seed: drawn(seed)) for seed in range(40)}
    return cases


def network(model: Any, shape: tuple[int, ...]) -> Any:
    """A model applied to an image."""
    import tawny as tw

    x = tw.var("x", shape=shape, dtype="float32")
    return tw.Graph([x], model(x))


def digest(things: Any) -> str:
    """A short name for what is printed alike."""
    return hashlib.blake2b(repr(things).encode(), digest_size=8).hexdigest()


def digests(case: Case) -> dict[str, str]:
    """For each stage of a program a digest."""
    import tawny as tw
    from tawny.engine.cpu.threads.pool import NOMINAL_THREADS
    from tawny.node import toposort

    graph = case.make()
    memory = None
    if case.share is not None:
        free = graph.compile(threads=NOMINAL_THREADS, **case.options).plan
        memory = int(free.peak_bytes * case.share)
    try:
        program = graph.compile(memory=memory, **case.options)
    except tw.MemoryBudgetError as error:
        return {"refused": digest((error.least_bytes, len(error.alive)))}
    compiled = program._compiled
    order = toposort(compiled.results)
    number = {node: i for i, node in enumerate(order)}
    nodes = [(n.op, [number[i] for i in n.inputs], n.shape, n.dtype) for n in order]
    made = [n.value.tobytes() for n in order if n.value is not None]
    layout, threads = program.plan.layout, program.plan.threads
    steps = compiled._memory_plan.lowered.steps
    bodies = [body for node in steps for body in bodies_of(node, threads)]
    kernels = [*kernels_of(steps, threads, case.options.get("engine", "cpu"))]
    found = layout.schedule
    values = [(v.bytes, v.kept, v.pinned, v.view_of) for v in layout.problem.values]
    return {
        "nodes": digest([nodes, made]),
        "rewrites": digest([rewritten(r) for r in program.rewrites]),
        "order": digest([layout.sequence, [number[n] for n in steps], *map(ordered, bodies)]),
        "memory": digest([found.in_place_pairs, found.reads, found.writes, found.storages, values]),
        "places": digest([layout.placement, layout.problem.structure, *map(placed, bodies)]),
        "kept": digest([number[n] for n in compiled._memory_plan.kept]),
        "in_place_updates": digest(
            [(number[s], t.name) for s, t in compiled.in_place_updates.items()]
        ),
        "shown": digest(re.sub(r"\[[^\[\]]*:\d+[^\[\]]*\]", "", str(program.plan))),
        "kernels": digest([same for same, _ in kernels]),
        "dealt": digest([by_threads for _, by_threads in kernels]),
        "adapted": digest(program.plan.adapted),
        "results": digest([value.tobytes() for value in results(program)]),
    }


def rewritten(record: Any) -> Any:
    """A rule that was applied, and the nodes before and after; not their lines.

    A known expression that lives already has the line where it was written first.
    """
    entries = [[(e.op, e.shape, e.dtype) for e in side] for side in (record.before, record.after)]
    return record.rule.name, entries


def bodies_of(node: Any, threads: int) -> Iterator[Any]:
    """The plans of the bodies of a loop that runs natively, innermost too."""
    from tawny.engine.cpu.loops import loop_plan
    from tawny.ops.loops import BodyOp

    found = loop_plan(node, threads) if isinstance(node.op, BodyOp) else None
    for body in () if found is None else found.bodies:
        yield body
        for inner in body.task.lowered.steps:
            yield from bodies_of(inner, threads)


def ordered(body: Any) -> Any:
    """In which order the steps of a body run, and what they compute in place."""
    ops = [node.op for node in body.task.lowered.steps]
    return ops, body.task.layout.sequence, sorted(body.in_place)


def placed(body: Any) -> Any:
    """Where the values of a body lie."""
    return body.task.layout.placement


def kernels_of(steps: Any, threads: int, engine: str) -> Iterator[tuple[Any, Any]]:
    """Of each kernel what is the same everywhere, and what may depend on the number of threads."""
    from tawny.engine.cpu.kernel_table import kernel_alone
    from tawny.engine.cpu.loops import steps_of
    from tawny.engine.gpu.loops import launches_of
    from tawny.engine.layout import Views

    for node in steps:
        if engine != "cpu":
            yield [(one.code.ir(), *one[1:]) for one in launches_of(node, Views())], None
            continue
        for inner in steps_of(node, threads):
            if not inner.name.startswith("bands"):
                kernel = kernel_alone(inner, threads)
                yield kernel and described(kernel), kernel and dealt(kernel)


def described(kernel: Any) -> Any:
    """What is the same of a kernel in every process, whatever the number of threads."""
    code = getattr(kernel.library, "code", kernel.library)
    return [
        *(kernel.symbol, kernel.after, kernel.fallible, kernel.drawn),
        *(code.size, sorted(code.addresses)),
    ]


def dealt(kernel: Any) -> Any:
    """How a kernel deals its work to threads, and what is the same for so many of them."""
    numbers = [_parameter(one) for one in kernel.parameters]
    arranged = [(operand, made.nbytes) for operand, made in kernel.prepared]
    return [numbers, kernel.parallel, kernel.scratch, arranged]


def _parameter(given: Any) -> Any:
    """A number; of a function its name and its code; of a table of constants its bytes."""
    from tawny.engine.cpu.kernels.kernel import NEVER
    from tawny.engine.cpu.transforms.stage import ConstantTable

    if isinstance(given, int):
        return None if given >= ADDRESSES else given
    if given is NEVER:
        return "stop"
    if isinstance(given, ConstantTable):
        return given.values.tobytes()
    return given.symbol, given.library.code.size, sorted(given.library.code.addresses)


def results(program: Any) -> Iterator[Any]:
    """What two runs give, the second after a change of one input, and the state they leave."""
    import numpy as np

    from tawny.tree import leaves

    rng = np.random.default_rng(2)
    variables = [a.node for a in (*program.graph.inputs, *program.graph.updates)]
    for changed in (variables, variables[:1]):
        with np.errstate(all="ignore"):
            for node in changed:
                drawn = rng.integers(0, 5, node.shape) if node.dtype.kind in "iub" else None
                value = rng.standard_normal(node.shape) if drawn is None else drawn
                program.set(**{program.graph.names[node]: value.astype(node.dtype)})
            yield from [np.asarray(x) for x in leaves(program.run())]
    yield from [np.asarray(value) for value in program.state.values()]


def precede(cases: dict[str, Case], seed: int) -> list[Any]:
    """Compile other graphs and ask for other budgets before; gives what stays alive of them.

    One expression of the table is known, and written here too: as long as it lives it is one node.
    """
    import tawny as tw
    import tawny.numpy as tnp

    alive: list[Any] = [tnp.cumsum(tnp.sin(tnp.arange(40_000.0)) + 1)]
    rng = random.Random(seed)
    for name in rng.sample(sorted(cases), len(cases) // 2):
        graph = cases[name].make()
        alive.append(graph)
        peak = graph.plan(**cases[name].options).peak_bytes
        for share in (rng.uniform(0.4, 0.9), rng.uniform(0.4, 0.9)):
            with suppress(tw.MemoryBudgetError):
                graph.plan(memory=int(peak * share), **cases[name].options)
    return alive


def salt_nodes(salt: int) -> None:
    """Let sets of nodes be walked in another order."""
    from tawny import node

    assert not node._INTERNED, "nodes are there already"
    node.Node.__hash__ = lambda self: id(self) * (2 * salt + 1) % 1_000_003


def main() -> None:
    """Print the digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--history", type=int, default=0)
    parser.add_argument("--tick", type=float, default=0.0)
    parser.add_argument("--salt", type=int, default=0)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    if options.tick:
        count_time(options.tick)
    if options.salt:
        salt_nodes(options.salt)
    cases = table(options.large)
    names = options.names or list(cases)
    alive: list[Any] = []
    if options.history:
        alive = precede(cases, options.history)
        random.Random(options.history).shuffle(names)
    print(json.dumps({name: digests(cases[name]) for name in names}))
    del alive


if __name__ == "__main__":
    main()
