"""What belongs to the whole process is the user's: nothing of it changes by using Tawny."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WATCH = """
import ctypes, faulthandler, gc, json, locale, logging, math, os, signal, sys, threading, warnings
import numpy

def state():
    main = threading.main_thread().native_id
    libc = ctypes.CDLL(None)
    return {
        "gc enabled": gc.isenabled(),
        "gc thresholds": gc.get_threshold(),
        "gc frozen": gc.get_freeze_count(),
        "gc callbacks": len(gc.callbacks),
        "gc debug": gc.get_debug(),
        "switch interval": sys.getswitchinterval(),
        "recursion limit": sys.getrecursionlimit(),
        "environment": dict(os.environ),
        "C environment": ctypes.string_at(libc_getenv(libc, b"GOMP_SPINCOUNT") or b"").decode(),
        "directory": os.getcwd(),
        "signals": [repr(signal.getsignal(n)) for n in sorted(signal.valid_signals())],
        "fault handler": faulthandler.is_enabled(),
        "affinity": sorted(os.sched_getaffinity(main)) if hasattr(os, "sched_getaffinity") else [],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "locale": locale.setlocale(locale.LC_ALL),
        "rounding": libc.fegetround() if hasattr(libc, "fegetround") else 0,
        "subnormal numbers": (numpy.float32(1e-40) * numpy.float32(1.0)).item() > 0,
        "division by zero": math.copysign(1.0, numpy.float64(-0.0)),
        "NumPy's errors": numpy.geterr(),
        "NumPy's printing": repr(numpy.get_printoptions()),
        "NumPy's seed": repr(numpy.random.get_state()[1][:5]),
        "warnings": [repr(f) for f in warnings.filters],
        "shown warnings": repr(warnings.showwarning),
        "log": (logging.root.level, len(logging.root.handlers)),
        "hooks": [repr(h) for h in (sys.excepthook, sys.displayhook, threading.excepthook)],
        "tracing": [repr(sys.gettrace()), repr(sys.getprofile())],
    }

def libc_getenv(libc, name):
    libc.getenv.restype = ctypes.c_void_p
    return libc.getenv(name)

seen = {"before": state()}
import tawny as tw
import tawny.numpy as np
import tawny.eager
from tawny import nn, optim
seen["import"] = state()

x = tw.var("x", shape=(16, 300), dtype="float32")
weight = numpy.ones((300, 400), numpy.float32)
y = np.sum(np.softmax(np.tanh(x @ weight) + 1) + np.sort(x @ weight), axis=1)
graph = tw.Graph([x], [y, tw.gradients(np.sum(y), [x])[0]])
seen["build"] = state()
program = graph.compile()
seen["compile"] = state()
program(numpy.ones((16, 300), numpy.float32))
seen["run"] = state()

model = nn.Sequential(nn.Linear(30, 16), np.relu, nn.Linear(16, 2))
data = [(numpy.ones((8, 30), numpy.float32), numpy.zeros(8, int))]
nn.train(model, nn.cross_entropy, data, optim.Adam(1e-3), steps=2, progress=False)
seen["train"] = state()

try:
    np.reshape(x, (7,))
except ValueError:
    seen["a refused call"] = state()
print(json.dumps(seen))
"""


@pytest.mark.parametrize("cache", ["on", "off"])
def test_nothing_of_the_process_is_changed(tmp_path: Path, cache: str) -> None:
    kept = str(tmp_path / "cache") if cache == "on" else "off"
    done = subprocess.run(
        [sys.executable, "-c", WATCH],
        env={**os.environ, "TAWNY_CACHE": kept, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    before = seen.pop("before")
    for moment, state in seen.items():
        changed = {name for name, value in before.items() if state[name] != value}
        assert not changed, f"{moment} changes {sorted(changed)}"


LIVING = """
import tawny as tw
x = tw.var("x", (3,))
program = tw.Graph([x], x + 1).compile()
def late(): return program
"""


def test_programs_that_live_until_python_ends_say_nothing() -> None:
    command = [sys.executable, "-c", LIVING]
    assert not subprocess.run(command, capture_output=True, text=True, check=True).stderr
