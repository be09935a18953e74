"""The workloads of `suite.py`, a file for an area; most are written once for each library."""

from __future__ import annotations

from workloads.chances import FINANCE, STATISTICS
from workloads.family import Workload
from workloads.language import LANGUAGE
from workloads.learning import LEARNING
from workloads.matrices import MATRICES, SMALL
from workloads.science import SCIENCE
from workloads.signals import SIGNALS
from workloads.sound import SOUND, TABLES
from workloads.vision import BuiltWorkload, networks

CHAPTERS = (
    SCIENCE, SIGNALS, STATISTICS, FINANCE, LEARNING, MATRICES, LANGUAGE, SOUND, TABLES, SMALL,
)  # fmt: skip


def workloads() -> list[Workload | BuiltWorkload]:
    """All workloads, in order."""
    written = [w for chapter in CHAPTERS for family in chapter for w in family.workloads()]
    return [*written, *networks()]
