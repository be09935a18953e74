"""Run `make demo` and `make test` in fresh clones, under each condition a user may bring.

    python tests/front_door.py FOLDER [--demo 1] [--tests 1] [--conditions busy no-home ...]

Each condition has a clone of its own in FOLDER, which must not be there yet; `make` sets it up, and
each run has a hash seed of its own.  A line for each run says how it ended and how long it took,
setting up included.  Where a run fails its log stays; the clones of conditions that pass are
deleted.  The exit status is 1 if a run failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
NETWORKS = 4
"""Rows of the demo's table."""
MEMORY = 4 << 30
PLACES = ("HOME", "LOCALAPPDATA", "XDG_CACHE_HOME")
"""The variables by which users' files are found."""


class Setting(NamedTuple):
    """What a condition changes for the commands that are run under it."""

    environment: Mapping[str, str | None] = MappingProxyType({})
    """Variables that are set, or, where None, not there."""
    wrapper: Sequence[str] = ()
    """What stands before the command."""
    prepare: Callable[[], object] | None = None
    """Called in the process that becomes the command."""


@contextmanager
def plain(folder: Path) -> Iterator[Setting]:
    """Nothing but the hash seed."""
    yield Setting()


@contextmanager
def busy(folder: Path) -> Iterator[Setting]:
    """Every processor has something else to do."""
    loop = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(loop) for _ in range(os.cpu_count() or 1)]
    try:
        yield Setting()
    finally:
        for other in others:
            other.kill()
            other.wait()


@contextmanager
def one_processor(folder: Path) -> Iterator[Setting]:
    """All of it runs on one processor."""
    first = min(os.sched_getaffinity(0))
    yield Setting(prepare=lambda: os.sched_setaffinity(0, {first}))


@contextmanager
def little_memory(folder: Path) -> Iterator[Setting]:
    """4 GiB for all processes together; for each of them where no control group can be made."""
    try:
        group = _memory_group(folder.name)
    except OSError as error:
        print(f"little-memory: no control group ({error}): a limit for each process", flush=True)
        limits = (MEMORY, MEMORY)
        yield Setting(prepare=lambda: resource.setrlimit(resource.RLIMIT_DATA, limits))
        return
    processes = group / "cgroup.procs"
    try:
        yield Setting(prepare=lambda: processes.write_text(str(os.getpid())))
    finally:
        group.rmdir()


def _memory_group(name: str) -> Path:
    """A control group below ours whose processes have `MEMORY` bytes together, and no swap."""
    own = {controllers: path for _, controllers, path in _control_groups()}
    root = Path("/sys/fs/cgroup")
    if "memory" in own:
        limits = "memory.limit_in_bytes", str(MEMORY), "memory.memsw.limit_in_bytes", str(MEMORY)
        parent = root / "memory" / own["memory"].lstrip("/")
    else:
        limits = "memory.max", str(MEMORY), "memory.swap.max", "0"
        parent = root / own[""].lstrip("/")
    group = parent / f"{name}-{os.getpid()}"
    group.mkdir()
    try:
        for file, value in zip(limits[::2], limits[1::2], strict=True):
            if (group / file).exists():
                (group / file).write_text(value)
        if not (group / limits[0]).exists():
            raise OSError(f"{group} has no {limits[0]}")
    except OSError:
        group.rmdir()
        raise
    return group


def _control_groups() -> list[list[str]]:
    return [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]


@contextmanager
def odd_path(folder: Path) -> Iterator[Setting]:
    """Spaces, quotes and letters of other alphabets in every path."""
    temporary = folder / "tmp"
    temporary.mkdir()
    yield Setting({"TMPDIR": str(temporary)})


@contextmanager
def empty_cache(folder: Path) -> Iterator[Setting]:
    """No kernel was compiled before."""
    yield Setting({"TAWNY_CACHE": str(folder / "cache")})


@contextmanager
def read_only_cache(folder: Path) -> Iterator[Setting]:
    """No kernel can be kept."""
    cache = folder / "cache"
    cache.mkdir(mode=0o555)
    wrapper: Sequence[str] = ()
    if os.access(cache, os.W_OK):  # the administrator may write anywhere but where nobody may
        path = shlex.quote(str(cache))
        mounting = f"mount --bind {path} {path} && mount -o remount,bind,ro {path}"
        wrapper = ["unshare", "--mount", "sh", "-c", f'{mounting} && exec "$@"', "sh"]
    yield Setting({"TAWNY_CACHE": str(cache)}, wrapper)


@contextmanager
def no_home(folder: Path) -> Iterator[Setting]:
    """No variable says where users' files are."""
    yield Setting(dict.fromkeys(PLACES))


@contextmanager
def missing_home(folder: Path) -> Iterator[Setting]:
    """The user's directory is not there and cannot be made."""
    yield Setting({**dict.fromkeys(PLACES), "HOME": "/dev/null/home"})


@contextmanager
def bare_shell(folder: Path) -> Iterator[Setting]:
    """No language is set, and files are for their owner alone."""
    yield Setting({"LC_ALL": "C", "LANG": None}, prepare=lambda: os.umask(0o077))


CONDITIONS: dict[str, tuple[str, Callable[[Path], AbstractContextManager[Setting]]]] = {
    "plain": ("plain", plain),
    "busy": ("busy", busy),
    "one-processor": ("one-processor", one_processor),
    "little-memory": ("little-memory", little_memory),
    "odd-path": ("Žluťoučký kůň's 数据 (1)", odd_path),
    "empty-cache": ("empty-cache", empty_cache),
    "read-only-cache": ("read-only-cache", read_only_cache),
    "no-home": ("no-home", no_home),
    "missing-home": ("missing-home", missing_home),
    "bare-shell": ("bare-shell", bare_shell),
}
"""For each condition the name of its folder, and what it changes."""


def run(command: str, clone: Path, setting: Setting, seed: int, log: Path, limit: float) -> str:
    """Run `make command`; gives "passed", or what went wrong."""
    ours = {n: v for n, v in os.environ.items() if not n.startswith(("TAWNY_", "PYTHON", "MAKE"))}
    for name, value in {**setting.environment, "PYTHONHASHSEED": str(seed)}.items():
        ours.pop(name, None)
        if value is not None:
            ours[name] = value
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [*setting.wrapper, "make", command],
            cwd=clone,
            env=ours,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=setting.prepare,
        )
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status is None:
        return f"no end after {limit:.0f} s"
    if status == 0 and command == "demo":
        return _unwritten(clone)
    return f"exit status {status}" if status else "passed"


def _unwritten(clone: Path) -> str:
    """What a demo that ended well has not written."""
    table, picture = clone / "bench.json", clone / "bench.png"
    if not (table.exists() and picture.exists()):
        return "no table or no picture"
    rows = len(json.loads(table.read_text())["rows"])
    table.unlink()
    picture.unlink()
    return "passed" if rows == NETWORKS else f"a table of {rows} rows"


def main() -> int:
    """Run what the command line asks for; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--demo", type=int, default=1, help="runs of `make demo` in each clone")
    parser.add_argument("--tests", type=int, default=1, help="runs of `make test` in each clone")
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=[*CONDITIONS])
    parser.add_argument("--seed", type=int, help="draws the hash seeds")
    parser.add_argument("--limit", type=float, default=3 * 3600.0, help="seconds a run may take")
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    failed = 0
    for condition in asked.conditions:
        name, change = CONDITIONS[condition]
        folder: Path = asked.folder.absolute() / name
        folder.mkdir(parents=True)
        clone, failed_before = folder / "clone", failed
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
        with change(folder) as setting:
            for command in ["demo"] * asked.demo + ["test"] * asked.tests:
                seed, start = draw.randrange(2**32), time.monotonic()
                log = folder / f"{command}-{seed}.log"
                outcome = run(command, clone, setting, seed, log, asked.limit)
                seconds = time.monotonic() - start
                line = f"{condition:<16}{command:<6}hash seed {seed:<12}{seconds:7.1f} s  {outcome}"
                if outcome == "passed":
                    log.unlink()
                else:
                    failed, line = failed + 1, f"{line}: {log}"
                print(line, flush=True)
        if failed == failed_before:
            shutil.rmtree(folder)
    print(f"{failed} failed" if failed else "all passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
