"""The same graph becomes the same program: in every process, after any history, by any clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("determinism.py")

LARGE = "TAWNY_LARGE_TESTS" in os.environ
"""Whether networks and more random graphs are compiled too, which takes some minutes."""

WAYS = (
    ("0",),
    ("1", "--tick", "1e-7", "--history", "1"),
    ("2", "--tick", "1e-2", "--history", "2", "--salt", "3"),
    *([("3", "--history", "5", "--salt", "4"), ("4", "--tick", "3e-5")] if LARGE else []),
)
"""Seeds of hashes, and what else differs between processes."""


def started(seed: str, *options: str, **environment: str) -> subprocess.Popen[str]:
    large = ["--large"] if LARGE else []
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning", str(SCRIPT), *options, *large],
        env={**os.environ, "PYTHONHASHSEED": seed, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def told(process: subprocess.Popen[str]) -> dict[str, dict[str, str]]:
    out, _ = process.communicate()
    assert process.returncode == 0
    found: dict[str, dict[str, str]] = json.loads(out)
    return found


def differing(one: dict[str, dict[str, str]], other: dict[str, dict[str, str]]) -> list[Any]:
    assert one.keys() == other.keys()
    return [
        (name, stage)
        for name, stages in one.items()
        for stage in stages.keys() | other[name].keys()
        if stages.get(stage) != other[name].get(stage)
    ]


@pytest.fixture(scope="module")
def first() -> dict[str, dict[str, str]]:
    """What the first process finds."""
    return told(started(*WAYS[0]))


def test_every_stage_is_looked_at(first: dict[str, dict[str, str]]) -> None:
    stages = [set(found) for found in first.values()]
    assert all(found == stages[0] for found in stages), "nothing is refused"
    assert len(stages[0]) == 9
    for stage in stages[0] - {"homes", "kept"}:
        assert len({found[stage] for found in first.values()}) > len(first) / 3, stage


@pytest.mark.parametrize("way", WAYS[1:], ids=" ".join)
def test_programs_do_not_depend_on_seeds_histories_and_clocks(
    way: tuple[str, ...], first: dict[str, dict[str, str]]
) -> None:
    assert not differing(told(started(*way)), first)


def test_threads_change_scratch_and_no_result(first: dict[str, dict[str, str]]) -> None:
    found = differing(told(started("0", TAWNY_THREADS="5")), first)
    assert {stage for _, stage in found} <= {"order", "plan", "shown", "kernels"}
