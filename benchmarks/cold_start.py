"""How long it takes from a network's weights to a program that can run, in fresh processes.

    python benchmarks/cold_start.py [--nets ResNet50 ...] [--peers onnxruntime openvino] [--rounds 5]

Each process builds one network once, from NumPy arrays that it already has.  `warm` finds kernels on
disk, `cold` has an empty cache and compiles them; both find Python's byte code.  `build` is
everything from the first recorded layer to a program that is ready: what building imports, recording
with a private copy of the weights, optimising, planning, kernels, arranging weights.  `import` comes
before it: `tawny.numpy`, or the peer's package.  Peers are given the network as an ONNX model in
memory.  `resident` is what the process has grown by when the network has run once, in times of the
weights' bytes; the peers' includes the model they were given.  The best of the rounds is printed.

What was found: most of the time was neither compiling nor computing.  Memory that is touched for the
first time costs 0.5 ms a MB, several ms where NumPy asks for huge pages that are not there: large
constants have pages that are asked for at once by several threads.  Batch normalisation is no second
copy of the weights: products are scaled where their results are.  Half of what importing took was
`dataclasses` writing methods.  Writing IR only to find its code on disk took longer than loading the
code: code is found by what the IR would be written from.  Importing LLVM's binding only to link what
was on disk took a third of a small program's time: objects are loaded without it, and what it says of
the processor is remembered.  Named tuples of `typing` took as long as the modules that declare them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from cpu_nets import NETS, builders
from timing import installed  # beside this file

PEERS = ("onnxruntime", "openvino")
GOALS = {"ResNet50": (0.25, 0.5), "InceptionV3": (0.25, None)} | {
    "MNIST training step": (0.3, None),
    "LSTM, 100 steps": (0.5, None),
    "transformer block": (0.1, None),
}


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def one(net: str, library: str) -> dict[str, float]:
    """Build a network once, and run it."""
    x, libraries = builders(net)
    before, start = resident(), time.perf_counter()
    importlib.import_module("tawny.numpy" if library == "tawny" else library)
    imported = time.perf_counter() - start
    built = libraries[library]()
    start = time.perf_counter()
    built.run(x)
    first = time.perf_counter() - start
    grown = resident() - before
    return {"import": imported, "build": built.seconds, "first": first, "resident": grown}


def weights(net: str) -> int:
    """Bytes of a network's weights."""
    _, libraries = builders(net)
    held = [c.cell_contents for c in libraries["tawny"].__closure__ or ()]
    held += list(libraries["tawny"].__defaults__ or ())
    for thing in held:
        if isinstance(thing, dict):
            return sum(v.nbytes for name, v in thing.items() if name != "x")
        if isinstance(thing, list):
            arrays = [v for step in thing for v in step.settings.values()]
            return sum(v.nbytes for v in arrays if isinstance(v, np.ndarray))
    return 0


def child(net: str, library: str, cache: Path | str, codes: str) -> dict[str, float]:
    """The same in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"TAWNY_CACHE": str(cache), "PYTHONPYCACHEPREFIX": codes}
    command = [sys.executable, __file__, "--one", net, library]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def best(rows: list[dict[str, float]]) -> dict[str, float]:
    """The least of each."""
    return {name: min(row[name] for row in rows) for name in rows[0]}


def line(name: str, row: dict[str, float], bytes_: int, compared: dict[str, float]) -> str:
    """A row of the table."""
    times = "".join(f"{row[n] * 1e3:10.0f}" for n in ("import", "build", "first"))
    ratio = row["build"] / compared["build"]
    share = f"{row['resident'] / bytes_:9.2f}" if bytes_ > 1e6 else f"{'':>9}"
    return f"  {name:<14}{times}{ratio:9.2f}{share}"


def main() -> int:
    """Print a table for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", nargs="*", default=NETS, choices=NETS)
    parser.add_argument("--peers", nargs="*", default=installed(PEERS), choices=PEERS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", nargs=2, metavar=("NET", "LIBRARY"), help="in this process")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(*args.one)))
        return 0
    with tempfile.TemporaryDirectory() as room:
        for net in args.nets:
            table(net, installed(args.peers), args.rounds, Path(room))
    return 0


def table(net: str, peers: list[str], rounds: int, room: Path) -> None:
    """Measure a network, contenders in turn, and print."""
    _, libraries = builders(net)
    codes, kept = str(room / "codes"), room / "kept"
    contenders = ["warm", "cold", *[p for p in peers if p in libraries]]
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    child(net, "tawny", kept, codes)  # leaves byte code and kernels
    for number in range(rounds):
        for name in contenders:
            cache: Any = {"warm": kept, "cold": room / f"{net}{number}"}.get(name, "off")
            library = "tawny" if name in {"warm", "cold"} else name
            rows[name].append(child(net, library, cache, codes))
    found = {name: best(measured) for name, measured in rows.items()}
    bytes_ = weights(net)
    warm, cold = (
        "none" if goal is None else f"{goal * 1e3:.0f}" for goal in GOALS.get(net, (None, None))
    )
    print(f"{net}: weights {bytes_ / 1e6:.1f} MB; goals for build: warm {warm}, cold {cold} ms")
    print(f"  {'ms':<14}{'import':>10}{'build':>10}{'first':>10}{'x warm':>9}{'resident':>9}")
    for name, row in found.items():
        label = f"tawny {name}" if name in {"warm", "cold"} else name
        print(line(label, row, bytes_, found["warm"]))
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
