"""Files are replaced whole: nothing is lost of the old one, its mode stays, nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tawny as tw
from tawny import nn
from tawny.files.atomic_write import write_atomically
from tawny.graph.files import save_arrays
from tawny.nn import weights


def _graph(path: Path) -> None:
    x = tw.var("x", shape=(3,))
    tw.Graph([x], x + 1).save(path)


WRITERS: dict[str, Callable[[Path], None]] = {
    "graph": _graph,
    "arrays": lambda path: save_arrays(path, {"a": np.arange(3)}),
    "weights": lambda path: weights.save(nn.Linear(2, 3), path),
}


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    return WRITERS[request.param]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_the_mode_of_a_file_stays(
    tmp_path: Path, writer: Callable[[Path], None], mode: int
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"before")
    path.chmod(mode)
    writer(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() != b"before"


def test_a_new_file_has_the_mode_that_new_files_have(
    tmp_path: Path, writer: Callable[[Path], None]
) -> None:
    before = os.umask(0o027)
    try:
        writer(tmp_path / "f")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["a" * 255, "é" * 127, "x" * 230])
def test_names_may_be_as_long_as_the_system_allows(
    tmp_path: Path, writer: Callable[[Path], None], name: str
) -> None:
    writer(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_link_stays_and_its_target_is_replaced(
    tmp_path: Path, writer: Callable[[Path], None]
) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to("target")
    writer(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").stat().st_size


def _killed(path: str) -> None:
    def blocks() -> Iterator[bytes]:
        yield b"half of it" * 100_000
        os.kill(os.getpid(), signal.SIGKILL)

    write_atomically(path, blocks())


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"before")
    (tmp_path / "f.unfinished").write_bytes(b"somebody else's")
    context = multiprocessing.get_context("fork")
    for _ in range(3):
        process = context.Process(target=_killed, args=(str(path),))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert path.read_bytes() == b"before"
        assert len([*tmp_path.iterdir()]) == 3  # the next one removes what the last one left
    write_atomically(str(path), [b"after"])
    assert path.read_bytes() == b"after"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f", "f.unfinished"]


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "f"
    begun, go_on = threading.Event(), threading.Event()

    def blocks() -> Iterator[bytes]:
        yield b"slow "
        begun.set()
        assert go_on.wait(20)
        yield b"writer"

    thread = threading.Thread(target=write_atomically, args=(str(path), blocks()))
    thread.start()
    assert begun.wait(20)
    for _ in range(3):
        write_atomically(str(path), [b"quick writer"])
        assert path.read_bytes() == b"quick writer"
    go_on.set()
    thread.join()
    assert path.read_bytes() == b"slow writer"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"before")

    def blocks() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(str(path), blocks())
    assert path.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_all_is_on_the_disk_before_the_name_changes(
    tmp_path: Path, writer: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synchronise(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append(f"{kind} {os.fstat(descriptor).st_size > 0}")
        fsync(descriptor)

    def rename(old: str, new: str) -> None:
        done.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synchronise)
    monkeypatch.setattr(os, "replace", rename)
    writer(tmp_path / "f")
    assert [word.split()[0] for word in done] == ["file", "rename", "folder"]
    assert done[0] == "file True"
