"""Run many random programs on the engines and count what is wrong.

    python tests/fuzz_programs.py --first 1 --count 1000 [--engine cpu]

Each failure is printed with its seed; `--first SEED --count 1` runs that program again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from engines import ENGINES
from grouping_engine import NAME, grouping_engine
from random_programs import check_program
from tawny import PerformanceWarning


def main() -> int:
    """Run what the command line asks for; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=time.time_ns() % 2**40)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    asked = parser.parse_args()
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", PerformanceWarning)  # how long it takes tells of the machine
    failed, start, ran = list[int](), time.monotonic(), 0
    for name in asked.engine or ENGINES:
        with grouping_engine() if name == NAME else nullcontext():
            for seed in range(asked.first, asked.first + asked.count):
                ran += 1
                try:
                    check_program(seed, name)
                except Exception as error:
                    failed.append(seed)
                    print(f"--- seed {seed} on {name}: {type(error).__name__}: {error}", flush=True)
    seconds = time.monotonic() - start
    print(f"{ran} programs from seed {asked.first} in {seconds:.0f} s; {len(failed)} wrong")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
