"""Graph files changed with their structure in mind: what still loads must run, and run rightly.

A file's integers, dtypes, strings, lists, operands, ops, variables and constants are changed, what
follows from the change (shapes, dtypes, the checksum) is made right again, and what `load` accepts
runs on both engines, in a process of its own, since native code may end it.

    python tests/graph_fuzz.py --count 100000 --seed 7

Each number from the seed on is one file, always the same, so any failure is shown again by
`--only NUMBER`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import io
import json
import math
import mmap
import multiprocessing
import pkgutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np

import case_tables
import random_graphs
import tawny as tw
import tawny.numpy as tnp
from cases import parts
from graph_file_checks import graph_over, sample_graph
from rounding import rounding_explains
from tawny.array import Array, array_for
from tawny.engine.reference import run
from tawny.files.encoding import decode_op
from tawny.files.functions import register_function
from tawny.files.safetensors import file_blocks, read_from
from tawny.graph.files import GraphFileError, from_bytes
from tawny.graph.graph import Graph
from tawny.graph.report.trace import listing
from tawny.graph.saving import to_bytes
from tawny.node import Constant, Node, Variable, make, part
from tawny.op import CLASSES, ELEMENTWISE
from tawny.ops.boxes import non_maximum_suppression, suppression_by_class
from tawny.ops.delay import Delay, UserFunction
from tawny.ops.sorting import Digitize, SearchSorted
from tawny.rewrite.pipeline import optimise

INTEGERS = (
    *range(-9, 18), 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 1000, 4096, 2**15, 2**16, -128,
    -(2**15), -(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63,
    -(2**62), -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30, -(10**30),
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, -1e300, 3.7, "inf", "-inf", "nan")
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
STRINGS = (
    "set", "add", "mul", "min", "max", "full", "same", "valid", "ortho", "forward", "backward",
    "ab,bc->ac", "ab->ba", "aa->a", "ab,ab->", "RELU", "NONE", "TANH", "SIGMOID", "SOFTPLUS", "",
)  # fmt: skip
MOST_ELEMENTS = 20_000
"""Graphs with more in all their arrays are loaded, but not run."""


@dataclass
class File:
    """A graph's file in parts."""

    graph: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def bytes(self) -> bytes:
        """The file, with the checksum that its bytes have."""
        text = {"format": "tawny.graph", "version": "1", "graph": json.dumps(self.graph)}
        return b"".join(file_blocks(self.arrays, text, "fuzz"))


def opened(graph: Graph) -> File:
    """The file of a graph."""
    data = to_bytes(graph, "fuzz")
    contents = read_from(io.BytesIO(data), len(data), "fuzz")
    parsed = json.loads(contents.text["graph"])
    for record in parsed["nodes"]:
        record.pop("at", None)
    return File(parsed | {"sources": []}, contents.arrays)


# ---------------------------------------------------------------------- corpus


def doubled(x: Any, *more: Any) -> Any:
    """What delayed functions of the corpus compute."""
    del more
    return x + x


class Corpus:
    """Graphs of every public function, random ones, optimised ones, and what users do not write.

    Each is made when it is asked for; some numbers stand for none.
    """

    def __init__(self) -> None:
        register_function("doubled", doubled)
        cases = [
            (case, number)
            for module in pkgutil.iter_modules(case_tables.__path__)
            for number, case in enumerate(
                importlib.import_module(f"case_tables.{module.name}").CASES
            )
        ]
        self.makers: list[Callable[[], Graph | None]] = [
            sample_graph,
            *[partial(_of_case, *case) for case in cases],
            *[partial(_of_fusion, number) for number in range(FUSED)],
            *[partial(_at_random, seed) for seed in range(RANDOM)],
        ]
        self.files: dict[int, File | None] = {}

    def __getitem__(self, number: int) -> File | None:
        if number not in self.files:
            graph = self.makers[number]()
            self.files[number] = None if graph is None else opened(graph)
        return self.files[number]

    def choice(self, random: Random) -> File:
        """One of the files."""
        while (file := self[random.randrange(len(self.makers))]) is None:
            pass
        return file

    def file(self, number: int) -> File:
        """One of these files, changed."""
        return mutated(self, number)

    def make_all(self) -> None:
        """Make every graph, so that processes to come have them."""
        for number in range(len(self.makers)):
            self[number]


RANDOM = 400


def _of_case(case: Any, number: int) -> Graph | None:
    operands = case.operands(case.dtypes[number % len(case.dtypes)])
    inputs = [tw.var(f"x{i}", shape=x.shape, dtype=x.dtype) for i, x in enumerate(operands)]
    if case.needs_values:
        inputs = [tnp.asarray(x) for x in operands]
    return _small([a for a in parts(case.call(tnp, *inputs)) if isinstance(a, Array)])


def _at_random(seed: int) -> Graph | None:
    outputs = random_graphs.graph_of(seed, 8).outputs
    if seed % 2:
        outputs = optimise(outputs, evaluate=run).outputs
    return _small([array_for(n) for n in outputs])


def _small(made: list[Array]) -> Graph | None:
    """The graph of some arrays, unless it is large or has functions that have no name."""
    if not made:
        return None
    graph = graph_over(made)
    nodes = listing(graph)
    if any(isinstance(n.op, Delay) and not _is_ours(n) for n in nodes) or len(nodes) > 25:
        return None
    return graph if sum(math.prod(n.shape) for n in nodes) <= MOST_ELEMENTS else None


def _is_ours(node: Node) -> bool:
    return isinstance(node.op, UserFunction) and node.op.function.it is doubled


FUSED = 22


def _of_fusion(number: int) -> Graph | None:
    """Products with epilogues, groups with folds, gathers from pieces, boxes, delays, draws."""
    x, w, b = (
        tw.var("x", shape=(6, 3), dtype="float32"),
        tw.var("w", shape=(5, 3), dtype="float32"),
        tw.var("b", shape=(5,), dtype="float32"),
    )
    image, kernel = tw.var("i", shape=(1, 5, 4, 2)), tw.var("k", shape=(3, 2, 2, 4))
    index = tw.var("n", shape=(4,), dtype="int64")
    boxes, scores = tw.var("boxes", shape=(6, 4)), tw.var("scores", shape=(6,))
    kinds = tw.var("kinds", shape=(6,), dtype="int64")
    centred = x - tnp.mean(x, axis=-1, keepdims=True)
    made: list[Callable[[], Any]] = [
        lambda: tnp.maximum(x @ w.T + b, 0),
        lambda: tnp.tanh(tnp.exp(x) @ w.T) * 2 + tnp.sin(b),
        lambda: tnp.relu(tnp.conv2d(image, kernel, padding="SAME") + tnp.asarray(np.arange(4.0))),
        lambda: tnp.softmax(x @ w.T, axis=-1),
        lambda: centred / tnp.sqrt(tnp.var(x, axis=-1, keepdims=True)),
        lambda: tnp.concat([x, w, tnp.exp(x)])[index],
        lambda: tnp.sum(tnp.exp(x) * 2, axis=0) + 1,
    ]
    plain: list[Callable[[], Any]] = [
        lambda: non_maximum_suppression(boxes, scores, 3, 0.5),
        lambda: suppression_by_class(boxes, scores, kinds, 3, 0.5, 0.1),
        lambda: tw.delay(doubled, x, pure=True) + tw.delay(doubled, x),
        lambda: tw.random.normal(shape=(3, 4)) + tw.random.integers(0, 5, shape=(3, 4)),
        lambda: tw.random.permutation(7) + tw.random.uniform(shape=(2, 7), dtype="float32"),
        lambda: tw.scan(lambda c, r: (tnp.tanh(c * r) + b[:3], c[1:] @ w.T[1:]), x[0], x)[1],
        lambda: tw.scan(lambda c, r: (c + tw.random.normal(), r[:2] * c), 1.5, x, reverse=True)[1],
        lambda: tw.switch(index[0], [tnp.sin, lambda a: a * b[0], lambda a: a[::-1]], x),
    ]
    if number >= 2 * len(made):
        return _small([plain[number - 2 * len(made)]()])
    outputs = [made[number // 2]().node]
    return _small(
        [array_for(n) for n in (optimise(outputs, evaluate=run).outputs if number % 2 else outputs)]
    )


# ------------------------------------------------------------------- mutations


class Every:
    """Each integer, boolean and dtype of each attribute of the corpus set to each odd one, in turn."""

    def __init__(self) -> None:
        self.corpus = Corpus()
        self.corpus.make_all()
        self.changes: list[tuple[int, int, int, Any]] = []
        known = set[str]()
        for base, file in self.corpus.files.items():
            for node, record in enumerate([] if file is None else file.graph["nodes"]):
                kinds = [file.graph["nodes"][i].get("dtype") for i in record.get("inputs", [])]
                said = json.dumps([record, kinds]) if file is not None else ""
                if said in known or record["op"] in ("variable", "constant"):
                    continue
                known.add(said)
                for place, (owner, key) in enumerate(_spots(record.get("attributes", {}))):
                    self.changes += [(base, node, place, v) for v in _odd(owner[key])]

    def file(self, number: int) -> File:
        """The file of one change."""
        base, node, place, value = self.changes[number]
        given = self.corpus.files[base]
        assert given is not None
        file = File(copy.deepcopy(given.graph), dict(given.arrays))
        owner, key = _spots(file.graph["nodes"][node]["attributes"])[place]
        owner[key] = value
        repair(file)
        return file

    def __len__(self) -> int:
        return len(self.changes)


def _odd(value: Any) -> Sequence[Any]:
    """What a value is changed to, one after the other."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return INTEGERS
    return DTYPES if value in DTYPES else FLOATS if isinstance(value, float) else ()


def mutated(bases: Corpus, number: int) -> File:
    """File `number`: one to three changes of one of the bases, mostly one."""
    random = Random(f"graph file {number}")
    base = bases.choice(random)
    file = File(copy.deepcopy(base.graph), dict(base.arrays))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        with contextlib.suppress(IndexError, KeyError, TypeError, ValueError, AttributeError):
            random.choice(_MUTATIONS)(file, random)
    if random.random() < 0.95:
        repair(file)
    return file


def _record(file: File, random: Random, wanted: Callable[[dict[str, Any]], bool]) -> Any:
    return random.choice([n for n in file.graph["nodes"] if wanted(n)])


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in attributes, as container and key."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        owner = stack.pop()
        for key in [*owner] if isinstance(owner, dict) else range(len(owner)):
            found.append((owner, key))
            if isinstance(owner[key], (dict, list)):
                stack.append(owner[key])
    return found


def _other(value: Any, random: Random) -> Any:
    """Something of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice((*INTEGERS, value - 1, value + 1, -value, 2 * value))
    if isinstance(value, float) or value in FLOATS:
        return random.choice(FLOATS)
    if value in DTYPES:
        return random.choice(DTYPES)
    if isinstance(value, str):
        return random.choice(STRINGS)
    if value is None:
        return random.choice((*INTEGERS, None))
    if isinstance(value, list):
        return _other_list(value, random)
    return value


def _other_list(items: list[Any], random: Random) -> list[Any]:
    new = copy.deepcopy(items)
    match random.randrange(4):
        case 0:
            del new[random.randrange(len(new))]
        case 1:
            new.insert(random.randrange(len(new) + 1), copy.deepcopy(random.choice(items)))
        case 2:
            random.shuffle(new)
        case _:
            new = [_other(item, random) for item in new]
    return new


def _change_attribute(file: File, random: Random) -> None:
    owner, key = random.choice(
        _spots(_record(file, random, lambda n: bool(n.get("attributes")))["attributes"])
    )
    owner[key] = _other(owner[key], random)


def _change_operand(file: File, random: Random) -> None:
    nodes = file.graph["nodes"]
    number = random.choice([i for i, n in enumerate(nodes) if n.get("inputs")])
    inputs = nodes[number]["inputs"]
    match random.randrange(4):
        case 0:
            random.shuffle(inputs)
        case 1:
            inputs.append(random.randrange(number))
        case _:
            inputs[random.randrange(len(inputs))] = random.randrange(number)


def _change_op(file: File, random: Random) -> None:
    record = _record(file, random, lambda n: n["op"] not in ("variable", "constant", "part"))
    if record["op"] in ELEMENTWISE and random.random() < 0.8:
        record["op"] = random.choice([*ELEMENTWISE])
        return
    alike = {*record.get("attributes", {})}
    names = [n for n, c in CLASSES.items() if {*c.fields} == alike] or [*CLASSES]
    record["op"] = random.choice(names)


def _change_variable(file: File, random: Random) -> None:
    record = _record(file, random, lambda n: n["op"] == "variable")
    if random.random() < 0.6:
        record["dtype"] = random.choice(DTYPES)
    else:
        record["shape"] = [
            n if random.random() < 0.5 else random.choice((0, 1, 2, 3, 4, 5, 7, 8, 16, 17, n + 1))
            for n in record["shape"]
        ]


def _change_constant(file: File, random: Random) -> None:
    name = random.choice([*file.arrays])
    value = file.arrays[name].copy()
    record = file.graph["nodes"][int(name.rpartition(".")[2])]
    if random.random() < 0.3:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = value.astype(random.choice(DTYPES))
    elif value.size:
        flat = value.reshape(-1)
        odd = random.choice(
            (-1000, -9, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 9, 100, 1000, 2**31, 2**62)
        )
        flat[random.randrange(flat.size)] = np.array(odd).astype(value.dtype)
        value = flat.reshape(value.shape)
    file.arrays[name] = value
    record["dtype"] = str(value.dtype)


def _insert_view(file: File, random: Random) -> None:
    """Put a view, or a conversion, between a node and one of its operands."""
    nodes = file.graph["nodes"]
    number = random.choice([i for i, n in enumerate(nodes) if n.get("inputs")])
    place = random.randrange(len(nodes[number]["inputs"]))
    source = nodes[number]["inputs"][place]
    if "parts" in nodes[source]:
        return
    shape = nodes[source]["shape"]
    rank = len(shape)
    views: list[tuple[str, dict[str, Any]]] = [
        ("astype", {"dtype": random.choice(DTYPES)}),
        ("flip", {"axes": [a for a in range(rank) if random.random() < 0.5]}),
        ("slice", {"ranges": [[n - 1, n, -1] if n else [0, 0, 1] for n in shape]}),
        ("slice", {"ranges": [[0, -(-n // 2), 2] for n in shape]}),
        ("transpose", {"axes": random.sample(range(rank), rank)}),
        ("broadcast_to", {"shape": [random.choice((1, 2, 3))] * random.randrange(2) + shape}),
        ("broadcast_to", {"shape": [5 if n == 1 else n for n in shape]}),
        ("reshape", {"shape": [1, *shape] if random.random() < 0.5 else [math.prod(shape)]}),
    ]
    op, attributes = random.choice(views)
    record = {"op": op, "attributes": attributes, "inputs": [source], "shape": shape}
    record["dtype"] = nodes[source]["dtype"]
    _insert(file, number, record)
    nodes[number + 1]["inputs"][place] = number


def _insert(file: File, number: int, record: dict[str, Any]) -> None:
    """Make room for a record: whoever refers to this node or a later one counts one more."""

    def moved(i: Any) -> Any:
        return i + 1 if type(i) is int and i >= number else i

    def within(item: Any) -> Any:
        if isinstance(item, dict):
            return {
                word: [[k, within(v)] for k, v in items]
                if word == "dict"
                else [*map(within, items)]
                for word, items in item.items()
            }
        return moved(item)

    graph = file.graph
    for node in graph["nodes"]:
        if "inputs" in node:
            node["inputs"] = [*map(moved, node["inputs"])]
    graph["nodes"].insert(number, record)
    graph["inputs"] = [*map(moved, graph["inputs"])]
    graph["updates"] = [[*map(moved, pair)] for pair in graph["updates"]]
    graph["outputs"] = within(graph["outputs"])
    file.arrays = {
        f"constant.{moved(int(name.rpartition('.')[2]))}": v for name, v in file.arrays.items()
    }


def _change_output(file: File, random: Random) -> None:
    outputs = file.graph["outputs"]
    items = next(iter(outputs.values()))
    items.append(random.randrange(len(file.graph["nodes"])))


def _change_written(file: File, random: Random) -> None:
    record = _record(file, random, lambda n: "shape" in n)
    if random.random() < 0.5:
        record["dtype"] = random.choice(DTYPES)
    else:
        record["shape"] = _other(record["shape"], random)


_MUTATIONS = (
    *[_change_attribute] * 8,
    *[_change_operand] * 2,
    *[_change_op] * 2,
    *[_change_variable] * 4,
    *[_insert_view] * 3,
    _change_constant,
    _change_constant,
    _change_output,
    _change_written,
)


def repair(file: File) -> None:
    """Write the shapes and dtypes that the ops infer; where one cannot, leave what is written."""
    made: list[Node | None] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number, record in enumerate(file.graph["nodes"]):
            try:
                made.append(_inferred(file, number, record, made))
            except Exception:
                made.append(None)


def _inferred(file: File, number: int, record: dict[str, Any], made: list[Node | None]) -> Node:
    op = decode_op(dict(record))
    if isinstance(op, Variable):
        return Node(op, (), tuple(record["shape"]), np.dtype(record["dtype"]))
    if isinstance(op, Constant):
        value = file.arrays[f"constant.{number}"]
        record["shape"] = list(value.shape)
        return Node(op, (), value.shape, value.dtype)
    inputs = tuple(n for i in record.get("inputs", []) if (n := made[i]) is not None)
    if len(inputs) != len(record.get("inputs", [])):
        raise ValueError("an operand is not known")
    node = part(inputs[0], op.index) if record["op"] == "part" else make(op, inputs)
    if node.parts:
        record.pop("shape", None)
        record.pop("dtype", None)
        record["parts"] = [[list(s), str(d)] for s, d in node.parts]
    else:
        record.pop("parts", None)
        record["shape"], record["dtype"] = list(node.shape), str(node.dtype)
    return node


# --------------------------------------------------------------------- running


def tried(bases: Corpus | Every, number: int) -> str:
    """What becomes of file `number`: "refused", "large", "raises", "runs", "seen", "rounding"; or what is wrong."""
    file = bases.file(number)
    try:
        data = file.bytes()
    except (ValueError, TypeError):
        return "no file"
    try:
        graph = from_bytes(data)
    except GraphFileError:
        return "refused"
    except Exception as error:
        return f"WRONG: loading raises {type(error).__name__}: {error}"
    if number % 8 == 0:
        try:
            from_bytes(to_bytes(graph, "fuzz"))
        except Exception as error:
            return f"WRONG: it loads, but does not survive: {type(error).__name__}: {error}"
    nodes = listing(graph)
    if sum(max(math.prod(n.shape), 1) for n in nodes) > MOST_ELEMENTS or _work(nodes) > 10**7:
        return "large"
    new = _signatures(graph, nodes) - SEEN
    if not new:
        return "seen"
    outcome = compared(graph, number)
    SEEN.update(new)
    return outcome


SEEN: set[int] = set()
"""What ran before: a graph whose every node did, on operands of the same kinds, is not run again."""


def _signatures(graph: Graph, nodes: Sequence[Node]) -> set[int]:
    """What each node of a graph is to an engine: op, types, how its operands are made and seen."""
    results = {*graph.results}
    return {
        hash(
            (
                repr(n.op),
                n.shape,
                str(n.dtype),
                n in results,
                tuple([_seen_as(i) for i in n.inputs]),
            )
        )
        for n in nodes
        if n.inputs or not isinstance(n.op, (Variable, Constant))
    }


def _seen_as(node: Node) -> tuple[Any, ...]:
    """What an operand is to its reader: how it is made, its type, and its value if that is small."""
    value = node.value
    content = b"" if value is None or value.nbytes > 200 else value.tobytes()
    return (node.name if node.inputs else "", node.shape, str(node.dtype), content)


def _work(nodes: Sequence[Node]) -> int:
    """Roughly how many operations the dearest nodes take."""
    most = 0
    for node in nodes:
        total = math.prod(node.shape)
        for other in node.inputs:
            if node.inputs and not node.op.facts().view:
                total = max(total, math.prod(node.shape) * math.prod(other.shape))
        sizes = [n for f in node.op.fields for n in _numbers(getattr(node.op, f))]
        if not node.op.facts().view and type(node.op).__name__ not in _CHEAP:
            total *= max([1, *(n for n in sizes if n < 2**20)]) if len(sizes) < 20 else 1
        most = max(most, total)
        if "Permutation" in type(node.op).__name__ or "FFT" in type(node.op).__name__:
            most = max(most, *sizes)
    return most


_CHEAP = ("Eye", "Arange", "Normal", "Uniform", "Integers")


def _numbers(value: Any) -> list[int]:
    if isinstance(value, tuple):
        return [n for item in value for n in _numbers(item)]
    return [abs(value)] if type(value) is int else []


def compared(graph: Graph, number: int) -> str:
    """Whether the engines agree on a graph."""
    random = Random(number)
    feeds = {name: _value(n, random) for n, name in graph.names.items()}
    choices = {"optimise": random.random() < 0.5, "incremental": random.random() < 0.2}
    expected = _outcome(graph, feeds, engine="reference", optimise=False, incremental=False)
    got = _outcome(graph, feeds, engine="cpu", threads=1, **choices)
    if isinstance(expected, str) or isinstance(got, str):
        problem, ends = _disagreement(expected, got, choices["optimise"]), "raises"
    else:
        problem, ends = _differences(got, expected), "runs"
        if any(type(n.op) in UNDEFINED for n in listing(graph)):
            problem = ""
    if not problem:
        return ends
    fed = {n: feeds[name] for n, name in graph.names.items()}
    if rounding_explains(graph.output_nodes, fed, got, expected, seed=number):
        return "rounding"
    return f"WRONG: {problem} ({choices})"


def _differences(got: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """The first output that differs, and how."""
    for position, (g, w) in enumerate(zip(got, expected, strict=True)):
        problem = difference(g, w)
        if problem:
            return f"output {position} {problem}"
    return ""


UNDEFINED = (SearchSorted, Digitize)
"""Ops whose result is anything where an operand is not sorted."""


def _disagreement(
    expected: list[np.ndarray] | str, got: list[np.ndarray] | str, optimised: bool
) -> str:
    """What is wrong, where an engine raises; what is never computed need not be refused."""
    if isinstance(expected, str) and isinstance(got, str):
        return got if "AssertionError" in got else ""
    if isinstance(expected, str):
        return "" if optimised else f"reference {expected}; cpu gives a value"
    return f"reference gives a value; cpu {got}"


def _value(node: Node, random: Random) -> np.ndarray:
    rng = np.random.default_rng(random.randrange(2**32))
    kind = node.dtype.kind
    if kind == "b":
        return np.asarray(rng.random(node.shape) < 0.5)
    if kind in "iu":
        low = 0 if kind == "u" else -3
        return np.asarray(rng.integers(low, 4, node.shape)).astype(node.dtype)
    out = np.asarray(rng.integers(-8, 9, node.shape) / 4)
    if kind == "c":
        out = out + 1j * rng.integers(-8, 9, node.shape) / 4
    return np.asarray(out).astype(node.dtype)


def _outcome(graph: Graph, feeds: dict[str, np.ndarray], **options: Any) -> list[np.ndarray] | str:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            program = graph.compile(**options)
            program.set(**feeds)
            outputs = program.run()
            return [np.array(v) for v in _leaves(outputs)]
        except Exception as error:
            return f"raises {type(error).__name__}: {str(error)[:300]}"


def _leaves(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return [v for inner in item.values() for v in _leaves(inner)]
    if isinstance(item, (tuple, list)):
        return [v for inner in item for v in _leaves(inner)]
    return [item]


def difference(got: np.ndarray, expected: np.ndarray) -> str:
    """How two values differ by more than rounding, in words."""
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return f"is {got.dtype}{got.shape}, not {expected.dtype}{expected.shape}"
    if got.dtype.kind not in "fc":
        wrong = got != expected
    else:
        tolerance = {2: 2e-2, 4: 1e-3, 8: 1e-6 if got.dtype.kind == "f" else 1e-3, 16: 1e-6}[
            got.dtype.itemsize
        ]
        with np.errstate(all="ignore"):
            finite = np.abs(expected[np.isfinite(expected)]).astype(float)
            scale = float(finite.max()) if finite.size else 0.0
            same = (got == expected) | (np.isnan(got) & np.isnan(expected))
            near = np.abs(got - expected) <= tolerance * max(scale, 1e-30)
            wrong = ~(same | near)
    if not np.any(wrong):
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"differs in {int(np.sum(wrong))} of {got.size} elements: at {place} {got[place]!r}, not {expected[place]!r}"


# ------------------------------------------------------------------- processes


@dataclass
class Report:
    """How often each thing happened, and what went wrong with which number."""

    counts: Counter[str]
    failures: list[tuple[int, str]]


SECONDS = 60.0
"""A file that takes longer counts as one that hangs."""


def _work_off(bases: Corpus | Every, first: int, last: int, place: Any, results: Any) -> None:
    """Try files in this process, saying in shared memory which one is under way."""
    counts: Counter[str] = Counter()
    with contextlib.redirect_stdout(io.StringIO()):
        for number in range(first, last):
            place[:8] = number.to_bytes(8, "little")
            outcome = tried(bases, number)
            if outcome.startswith("WRONG"):
                results.send((number, outcome))
                counts["wrong"] += 1
            else:
                counts[outcome] += 1
    place[:8] = last.to_bytes(8, "little")
    results.send(SEEN)
    results.send(counts)


def fuzzed(
    bases: Corpus | Every,
    first: int,
    count: int,
    batch: int = 2000,
    said: Callable[[str], None] | None = None,
) -> Report:
    """Try `count` files from number `first` on, in processes that each try some of them."""
    if count > 2000 and isinstance(bases, Corpus):
        bases.make_all()
    report = Report(Counter(), [])
    context = multiprocessing.get_context("fork")
    number, end = first, first + count
    while number < end:
        place = mmap.mmap(-1, 8)
        place[:8] = number.to_bytes(8, "little")
        ours, theirs = context.Pipe(duplex=False)
        last = min(end, number + batch)
        process = context.Process(target=_work_off, args=(bases, number, last, place, theirs))
        process.start()
        theirs.close()
        hung = _watch(process, place, ours, report)
        at = int.from_bytes(place[:8], "little")
        if at < last:
            how = "hangs" if hung else f"ends the process ({process.exitcode})"
            report.failures.append((at, f"WRONG: {how}"))
            report.counts["ended"] += 1
            report.counts["unknown"] += at - number
            at += 1
        number = at
        if said is not None:
            said(f"{number - first} of {count}: {dict(report.counts)} {report.failures[-3:]}")
    return report


def _watch(process: Any, place: Any, results: Any, report: Report) -> bool:
    """Take what a process sends until it ends; whether it was ended since one file took too long."""
    at, since = -1, time.monotonic()
    while True:
        try:
            while results.poll(0.2):
                item = results.recv()
                if isinstance(item, Counter):
                    report.counts += item
                elif isinstance(item, set):
                    SEEN.update(item)
                else:
                    report.failures.append(item)
                    if _SHOWN is not None:
                        _SHOWN(f"{item[0]}: {item[1]}")
        except EOFError:  # it has ended, or is about to
            process.join()
            return False
        now = int.from_bytes(place[:8], "little")
        if now != at:
            at, since = now, time.monotonic()
        if time.monotonic() - since > SECONDS:
            process.kill()
            process.join()
            return True


_SHOWN: Callable[[str], None] | None = None


def main() -> int:
    """The command line."""
    global _SHOWN
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first file")
    parser.add_argument("--batch", type=int, default=2000)
    parser.add_argument("--every", action="store_true", help="all single changes, from --seed on")
    parser.add_argument("--only", type=int, help="show this file alone, in this process")
    given = parser.parse_args()
    bases = Every() if given.every else Corpus()
    if isinstance(bases, Every):
        given.count = min(given.count, len(bases) - given.seed)
    if given.only is not None:
        file = bases.file(given.only)
        print(json.dumps(file.graph, indent=None))
        print({k: v.tolist() for k, v in file.arrays.items() if v.size < 100})
        signal.alarm(100)
        print(tried(bases, given.only))
        return 0

    def say(text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, flush=True)

    _SHOWN = say
    report = fuzzed(bases, given.seed, given.count, given.batch, say)
    say(f"seed {given.seed}, {given.count} files: {dict(report.counts)}")
    for number, problem in report.failures:
        print(number, problem)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
