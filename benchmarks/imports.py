"""How long `import tawny` takes beside `import numpy`, each in fresh processes, interleaved.

The clock runs inside the process, around the import alone; the best of several rounds is
printed.  `import tawny` brings NumPy and little else: the chapters of operations are loaded
when the first name is used (`tw.var`, or `import tawny.numpy`), which the third line shows.

    python benchmarks/imports.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys

STATEMENTS = {
    "import numpy": "import numpy",
    "import tawny": "import tawny",
    "import tawny, used": "import tawny; tawny.var",
}
TIMER = "import time; s = time.perf_counter(); {}; print(time.perf_counter() - s)"


def seconds(statement: str) -> float:
    """The time of one statement in a new interpreter."""
    command = [sys.executable, "-c", TIMER.format(statement)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Print milliseconds and the ratio to NumPy's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    best = dict.fromkeys(STATEMENTS, float("inf"))
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            best[name] = min(best[name], seconds(statement))
    for name, taken in best.items():
        print(f"  {name:<20}{taken * 1e3:7.1f} ms {taken / best['import numpy']:6.2f} x numpy")


if __name__ == "__main__":
    main()
