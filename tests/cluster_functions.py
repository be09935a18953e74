"""Functions of graphs that workers of test clusters know: what each process loads before all else."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from tawny.files.functions import register_function


def note_run(x: Any, folder: Any) -> Any:
    """`x`, with a file that says which process was here."""
    path = Path(bytes(np.asarray(folder)).decode())
    (path / f"{os.getpid()}-{time.time_ns()}").touch()
    return x


def pause(x: Any, seconds: Any) -> Any:
    """`x` after some time."""
    time.sleep(float(seconds))
    return x


def invert(x: Any) -> Any:
    """The inverse of a number that must not be zero."""
    if not x:
        raise ZeroDivisionError("nothing can be divided by zero")
    return np.float64(1) / x


def end_process(x: Any) -> Any:
    """End this process at once, unless `x` is zero."""
    if x:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


for function in (note_run, pause, invert, end_process):
    register_function(f"{function.__name__}, for clusters", function)


def run_graph(graph: Any, x: Any) -> Any:
    """The output of a graph, compiled in this process."""
    return graph.compile(threads=1)(x)
