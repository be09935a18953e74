"""Programs that together use every family of kernels; run by fresh processes.

    python kernel_families.py [llvm]

Prints a checksum of each result, how the steps are run, and how code came into memory.  Told `llvm`, all code is linked by
LLVM; else by the loader, wherever it does not refuse.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.cpu import CpuEngine
from tawny.engine.llvm.runtime import library
from tawny.engine.llvm.runtime.elf import UnsupportedObjectError

HOW: list[str] = []
"""What is said of the steps, and a word for each library that came into memory."""


def operands() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "x": rng.standard_normal((40, 300)).astype(np.float32),
        "d": 1e6 * rng.standard_normal((7, 333)),
        "z": rng.standard_normal((5, 300)) + 1j * rng.standard_normal((5, 300)),
        "i": rng.integers(0, 40, (6, 50)),
        "m": rng.standard_normal((300, 64)).astype(np.float32),
        "n": rng.standard_normal((2, 20, 20, 16)).astype(np.float32),
        "w": rng.standard_normal((3, 3, 16, 24)).astype(np.float32),
    }


FAMILIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "elementwise": lambda v: tnp.tanh(tnp.exp(-(v["x"] ** 2)) * 3 + tnp.sin(v["x"])),
    "far angles": lambda v: tnp.cos(v["d"]) + tnp.tan(v["d"]),
    "integers": lambda v: (v["i"] * 7 + 3) // 5 % 11,
    "complex": lambda v: tnp.exp(v["z"]) / (v["z"] + 2) + tnp.sqrt(v["z"]),
    "rows folded": lambda v: tnp.softmax(v["x"], axis=1),
    "columns folded": lambda v: tnp.max(v["x"] * 2 + 1, axis=0) + tnp.std(v["x"], axis=0),
    "all folded": lambda v: tnp.sum(v["d"] * v["d"]),
    "where the largest is": lambda v: tnp.argmax(v["x"], axis=1),
    "scans": lambda v: tnp.cumulative_sum(v["x"], axis=1),
    "sorts": lambda v: tnp.sort(v["x"][:, :8], axis=1),
    "searches": lambda v: tnp.searchsorted(tnp.cumulative_sum(v["d"][0] ** 2), v["d"][1]),
    "gathers": lambda v: tnp.take(v["x"], v["i"], axis=0),
    "scatters": lambda v: v["x"].at[v["i"][0]].add(1.0),
    "transposes": lambda v: tnp.flip(tnp.permute_dims(v["n"], (3, 1, 0, 2)), axis=1) + 0,
    "joins": lambda v: tnp.concat([v["x"][:, ::2], v["x"][:, ::-3]], axis=1),
    "matrix products": lambda v: tnp.relu(v["x"] @ v["m"] + 1),
    "double products": lambda v: v["d"] @ v["d"].T,
    "convolutions": lambda v: tnp.relu(tnp.conv2d(v["n"], v["w"], padding="SAME")),
    "strided convolutions": lambda v: tnp.conv2d(v["n"], v["w"], strides=2, padding="SAME"),
    "largest of windows": lambda v: tnp.max_pool2d(v["n"], 2),
    "means of windows": lambda v: tnp.avg_pool2d(v["n"], 3),
    "draws": lambda v: tw.random.normal((500,)) + v["d"][0, 0],
}


def results() -> dict[str, np.ndarray]:
    """What each family computes, all of them in one program."""
    values = operands()
    variables = {n: tw.var(n, shape=v.shape, dtype=v.dtype) for n, v in values.items()}
    tw.random.seed(7)
    outputs = [family(variables) for family in FAMILIES.values()]
    program = tw.Graph(list(variables.values()), outputs).compile(threads=2)
    HOW.append(CpuEngine().describe([step.array.node for step in program.plan.steps]))
    return dict(zip(FAMILIES, program(**values), strict=True))


def watch(by_llvm: bool) -> None:
    """Count how code comes into memory."""
    load, link = library.load, library.link_by_llvm

    def loaded(*arguments: Any) -> Any:
        if by_llvm:
            raise UnsupportedObjectError("told so")
        found = load(*arguments)
        HOW.append("loaded")
        return found

    def linked(*arguments: Any) -> Any:
        HOW.append("linked")
        return link(*arguments)

    library.load, library.link_by_llvm = loaded, linked


if __name__ == "__main__":
    watch(by_llvm="llvm" in sys.argv)
    for name, value in results().items():
        print(f"{name}: {hashlib.sha256(value.tobytes()).hexdigest()}")
    (said,) = [words for words in HOW if words.startswith("cpu")]
    print(said)
    print(HOW.count("loaded"), HOW.count("linked"), "llvmlite" in sys.modules)
