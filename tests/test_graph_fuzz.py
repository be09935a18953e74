"""A fresh slice of changed graph files in each run; `tests/graph_fuzz.py` tries as many as asked."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_changed_files_are_refused_or_run_rightly() -> None:
    first = random.SystemRandom().randrange(2**40)
    command = [sys.executable, "graph_fuzz.py", "--count", "120", "--seed", str(first)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {first}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
