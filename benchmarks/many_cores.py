"""Networks on more and more threads: what each thread adds, and where the time goes.

    python benchmarks/many_cores.py [--nets ResNet50 ...] [--threads 1 2 4 8 16] [--rounds 9]

For each network and number of threads the time of Tawny and of ONNX Runtime, interleaved, and the
efficiency: how much of the speed of one thread each has.  On most threads then, by the profile of the
program: `busy`, what the threads computed, on average; `uneven`, what threads waited in steps for the
last of them; `alone`, steps that one thread computes while the others wait; `between`, what is in no
step: calls from Python, and handing over work.  The steps that lose most are listed.

It takes about four minutes on 16 cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import tawny as tw
from backends import Built, onnx_model, run_by_onnxruntime, tawny
from models import (
    MODELS,
    onnx_gru,
    onnx_lstm,
    onnx_transformer,
)
from networks import IMAGE, inception_v3, resnet50, steps_of
from timing import PAUSE, installed

IMAGES = {"ResNet50": resnet50, "InceptionV3": inception_v3}
ONNX: Mapping[str, Callable[[Any], bytes]] = {
    "LSTM, 100 steps": onnx_lstm,
    "GRU, 100 steps": onnx_gru,
    "transformer block": onnx_transformer,
}
NETS = [*IMAGES, *MODELS]
MOST_SECONDS = 1.5
"""Seconds of the runs of one contender, on one number of threads."""


def contenders(net: str, threads: int, peers: bool) -> tuple[np.ndarray, dict[str, Built]]:
    """An input, and the libraries made ready for a number of threads."""
    built: dict[str, Built] = {}
    if net in IMAGES:
        steps = steps_of(IMAGES[net])
        x = np.random.default_rng(0).random(IMAGE, dtype=np.float32)
        with tw.config(threads=threads):
            built["tawny"] = tawny(steps, IMAGE)
        if peers:
            model = onnx_model(steps, IMAGE)
            first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
            built["onnxruntime"] = run_by_onnxruntime(model, lambda _: first, threads)
        return x, built
    weights, libraries = MODELS[net]
    arrays = weights()
    with tw.config(threads=threads):
        built["tawny"] = libraries["tawny"](arrays)
    if peers and net in ONNX:
        built["onnxruntime"] = run_by_onnxruntime(ONNX[net](arrays), np.asarray, threads)
    return arrays["x"], built


def best_times(built: Mapping[str, Built], x: np.ndarray, rounds: int) -> dict[str, float]:
    """The best time of each, interleaved: a pause and a call that is not timed open each turn."""
    found = dict.fromkeys(built, float("inf"))
    spent = dict.fromkeys(built, 0.0)
    for _ in range(rounds):
        for name, one in built.items():
            if spent[name] > MOST_SECONDS:
                continue
            time.sleep(PAUSE)
            one.run(x)
            start = time.perf_counter()
            one.run(x)
            seconds = time.perf_counter() - start
            found[name], spent[name] = min(found[name], seconds), spent[name] + 2 * seconds
    return found


# --------------------------------------------------------------- where the time goes


class Loss(NamedTuple):
    """A step by what its threads did."""

    position: int
    seconds: float
    busy: float
    """What each thread computed, on average over all of them."""
    workers: int


def losses(profile: Any, threads: int) -> list[Loss]:
    """Every step of the fastest run that was measured."""
    spans: dict[int, list[Any]] = {}
    for span in profile.spans:
        spans.setdefault(span.position, []).append(span)
    found: list[Loss] = []
    for position, own in spans.items():
        seconds = max(s.stop for s in own) - min(s.start for s in own)
        busy = sum(s.stop - s.start for s in own) / threads
        found.append(Loss(position, seconds, busy, len({s.lane for s in own})))
    return found


def say_losses(profile: Any, threads: int, most: int = 6) -> None:
    """Where a run's time goes, and the steps that lose most."""
    found = losses(profile, threads)
    whole = profile.measured_run_seconds
    busy = sum(one.busy for one in found)
    alone = sum(one.seconds - one.busy for one in found if one.workers == 1)
    uneven = sum(one.seconds - one.busy for one in found if one.workers > 1)
    between = max(0.0, whole - sum(one.seconds for one in found))
    shares = {"busy": busy, "uneven": uneven, "alone": alone, "between": between}
    said = ", ".join([f"{word} {100 * s / whole:.0f} %" for word, s in shares.items()])
    print(f"  a measured run on {threads} threads, {1e3 * whole:.2f} ms: {said}")
    rows = {row.position: row for row in profile.rows}
    for one in sorted(found, key=lambda one: one.busy - one.seconds)[:most]:
        row = rows[one.position]
        lost = one.seconds - one.busy
        print(
            f"    {1e6 * lost:8.0f} us lost of {1e6 * one.seconds:8.0f} by {one.workers:2} threads: "
            f"{row.name} {row.type}, {row.operations / 1e6:.1f} MFLOP"
        )


def measure(net: str, counts: Sequence[int], rounds: int, peers: bool) -> None:
    """The table of a network."""
    print(net)
    first: dict[str, float] = {}
    for threads in counts:
        x, built = contenders(net, threads, peers)
        times = best_times(built, x, rounds)
        cells: list[str] = []
        for name, seconds in times.items():
            first.setdefault(name, seconds * threads)
            efficiency = first[name] / threads / seconds
            cells.append(f"{name} {1e3 * seconds:9.3f} ms, efficiency {efficiency:.2f}")
        ratio = times["tawny"] / times.get("onnxruntime", float("nan"))
        print(f"  {threads:3} threads: {'; '.join(cells)}; ratio {ratio:.2f}", flush=True)
        if threads == counts[-1]:
            say_losses(built["tawny"].program.profile(runs=8), threads)


def main() -> int:
    """Print a table for each network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", nargs="*", default=NETS, choices=NETS)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    peers = bool(installed(["onnxruntime"]))
    start = time.perf_counter()
    for net in args.nets:
        measure(net, args.threads, args.rounds, peers)
    print(f"{time.perf_counter() - start:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
