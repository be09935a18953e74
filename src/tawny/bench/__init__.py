"""The report's table, measured on this machine: `tawny bench`.

For each network: the time of an evaluation without the graph (the same kernels, one operation at a
time) and with it, what building the graph costs, and the memory of both, each measured in a process
of its own, beside the peak that was predicted.
"""

from __future__ import annotations

from tawny.bench.rows import BenchRow as BenchRow
from tawny.bench.rows import measure as measure
from tawny.bench.workloads import WORKLOADS as WORKLOADS
