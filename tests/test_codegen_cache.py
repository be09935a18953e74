"""Code found by what its text is made from, without writing the text."""

from __future__ import annotations

import ctypes
import enum
import gc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.engine.llvm.ir.builder import I64, Module
from tawny.engine.llvm.runtime import cache, library
from tawny.engine.llvm.runtime.cache import IndexEntry, find_entry, note_entry, stable_key
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.op import ELEMENTWISE
from tawny.ops.fused_products import Activation, Epilogue
from tawny.ops.linalg import Matmul
from tawny.ops.reduction import Sum


class Pair(NamedTuple):
    a: object
    b: object = None


class Twin(NamedTuple):
    a: object
    b: object = None


@dataclass(frozen=True, slots=True)
class Box:
    a: object


class Way(enum.Enum):
    UP = 1
    DOWN = 2


THINGS: list[Any] = [
    None, True, 1, 1.0, "1", "", (), (1,), ((1,),), (1, 2), ((1, 2),), (1, (2,)), -1, 0.1,
    float("inf"), "a", "b", ("a", "b"), ("a,b",), ("ab",), np.dtype("float32"),
    np.dtype("float64"), np.dtype(">f4"), Pair(1), Pair(1, 2), Twin(1, 2), Pair((1, 2)), Box(1),
    Box(Box(1)), Box(None), Way.UP, Way.DOWN, Activation.RELU, Epilogue(), Epilogue(bias=True),
    Epilogue(residual=True), Epilogue(bias=True, scaled=True), ELEMENTWISE["add"],
    ELEMENTWISE["multiply"], Matmul(), Sum((0,), False, None), Sum((1,), False, None),
    Sum((0,), True, None),
]  # fmt: skip


def test_different_things_are_spelled_differently() -> None:
    assert len({stable_key(thing) for thing in THINGS}) == len(THINGS)
    for thing in THINGS:
        assert stable_key((thing,)) == stable_key((thing,))


@pytest.mark.parametrize("thing", [object(), [1], {1: 2}, {1}, lambda: 0, np.ones(2), b"1"])
def test_what_has_no_spelling_is_refused(thing: object) -> None:
    for given in (thing, (1, thing), Box(thing)):
        with pytest.raises(TypeError, match="no spelling"):
            stable_key(given)


def forget() -> None:
    """Drop what is in memory, as a new process would find it."""
    library._recent.clear()
    cache._lines.cache_clear()
    gc.collect()


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TAWNY_CACHE", str(tmp_path))
    forget()
    yield tmp_path
    forget()


def writer() -> tuple[Callable[..., library.Library], list[object]]:
    """A new function, as a new process would have it, and what it wrote texts for."""
    texts: list[object] = []

    def answering(module: Module, number: object, twice: bool = False) -> None:
        texts.append(number)
        with module.function("answer", {}, I64) as f:
            wanted = number if isinstance(number, int) else 99
            f.return_(f.constant(I64, wanted * (2 if twice else 1)))

    return lazy_library(answering), texts


def answer(found: library.Library) -> int:
    result: int = ctypes.CFUNCTYPE(ctypes.c_int64)(found.address("answer"))()
    return result


def index(directory: Path) -> Path:
    (path,) = directory.glob(f"{cache.INDEX}*")
    return path


def test_a_text_is_written_once_for_all_processes(fresh: Path) -> None:
    for wanted in ([5, 6], [], []):
        find, texts = writer()
        for number in (5, 6, 5):
            found = find(number)
            assert answer(found) == number
        assert texts == wanted
        del found, find
        forget()
    assert len(index(fresh).read_text().splitlines()) == 2


def test_arguments_are_told_apart(fresh: Path) -> None:
    find, _ = writer()
    assert [answer(find(5)), answer(find(5, True)), answer(find(5, twice=True))] == [5, 10, 10]
    assert answer(find(True)) == 1
    assert answer(find(1)) == 1


def test_what_has_no_spelling_is_written_every_time(fresh: Path) -> None:
    for _ in range(2):
        find, texts = writer()
        assert answer(find(frozenset({1}))) == 99
        assert len(texts) == 1
        del find
        forget()
    assert not list(fresh.glob(f"{cache.INDEX}*"))


@pytest.mark.parametrize("change", ["generators", "machine", "object"])
def test_a_text_is_written_again_where_it_may_differ(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    find, _ = writer()
    assert answer(find(7)) == 7
    del find
    forget()
    if change == "generators":
        monkeypatch.setattr(cache, "source_checksum", lambda: "0" * 64)
    elif change == "machine":
        monkeypatch.setattr(library, "PIPELINE", "other")
    else:
        for path in fresh.glob("*.object"):
            path.unlink()
    find, texts = writer()
    assert answer(find(7)) == 7
    assert texts == [7]


def test_without_the_source_texts_are_written(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "source_checksum", lambda: None)
    for _ in range(2):
        find, texts = writer()
        assert answer(find(8)) == 8
        assert texts == [8]
        del find
        forget()


def test_the_checksum_is_that_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checksum() -> str | None:
        cache.source_checksum.cache_clear()
        return cache.source_checksum()

    before = checksum()
    assert before == checksum()
    for folder in cache.GENERATORS:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "a.py").write_text("1")
    monkeypatch.setattr(
        cache, "__file__", str(tmp_path / "engine" / "llvm" / "runtime" / "cache.py")
    )
    seen = {before, checksum()}
    for folder in cache.GENERATORS:
        (tmp_path / folder / "a.py").write_text("2")
        seen.add(checksum())
    (tmp_path / "ops" / "b.py").write_text("2")
    seen.add(checksum())
    assert len(seen) == 3 + len(cache.GENERATORS)
    (tmp_path / "ops" / "notes.txt").write_text("2")
    assert checksum() in seen
    monkeypatch.setattr(cache, "GENERATORS", ("nowhere",))
    assert checksum() is None
    cache.source_checksum.cache_clear()


def test_the_checksum_is_of_all_generators() -> None:
    root = Path(cache.__file__).parents[3]
    native = (root / "engine" / "cpu").rglob("*.py")
    writers = {path.parent for path in native if "engine.llvm.ir" in path.read_text()}
    shared = {path.parent for path in (root / "engine" / "llvm").rglob("*.py")}
    folders = {str(folder.relative_to(root)) for folder in writers | shared}
    assert {"engine/cpu/threads", "engine/cpu/products"} < folders
    assert folders <= set(cache.GENERATORS)


@pytest.fixture
def package(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package whose sources are an hour old, as far as programs can tell."""
    for folder in cache.GENERATORS:
        (fresh / "package" / folder).mkdir(parents=True, exist_ok=True)
        (fresh / "package" / folder / "a.py").write_text("1")
    monkeypatch.setattr(cache, "__file__", str(fresh / "package/engine/llvm/runtime/cache.py"))
    monkeypatch.setattr(cache, "YOUNG", -1.0)
    yield fresh / "package"
    cache.source_checksum.cache_clear()


def checksums(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[str | None, bool]]:
    """Gives the checksum as a new process would find it, and whether files were read for it."""
    original, read = cache._digest, list[object]()

    def noted(files: Any) -> str:
        read.append(files)
        return original(files)

    monkeypatch.setattr(cache, "_digest", noted)

    def checksum() -> tuple[str | None, bool]:
        read.clear()
        cache.source_checksum.cache_clear()
        found = cache.source_checksum()
        return found, bool(read)

    return checksum


def test_sources_are_read_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checksum = checksums(monkeypatch)
    first, read = checksum()
    assert read
    assert checksum() == (first, False)
    (kept,) = package.parent.glob("sources-*")
    for damaged in (kept.read_bytes()[:-1], b"", b"\xff\xfe", kept.read_bytes() + b"0"):
        kept.write_bytes(damaged)
        assert checksum() == (first, True)
        assert checksum() == (first, False)


def test_sources_that_changed_are_read(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though size and time of writing are the same; so are new files and others in their place."""
    checksum = checksums(monkeypatch)
    path, seen = package / "ops" / "a.py", {checksum()[0]}
    before = path.stat()
    time.sleep(0.02)
    path.write_text("2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    found, read = checksum()
    assert read
    seen.add(found)
    (package / "ops" / "b.py").write_text("2")
    seen.add(checksum()[0])
    assert len(seen) == 3
    copied = path.with_name("copy")
    copied.write_text("2")
    os.replace(copied, path)
    found, read = checksum()
    assert read
    assert found in seen


def test_young_sources_are_always_read(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "YOUNG", 10.0)
    checksum = checksums(monkeypatch)
    for text in ("1", "2", "3"):
        (package / "ops" / "a.py").write_text(text)
        first, read = checksum()
        assert read
        assert checksum() == (first, True)
    assert not list(package.parent.glob("sources-*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"answer", b"question"),
        lambda data: bytes(range(256)) * 20,
        lambda data: b"\n\n" + data[3:],
        lambda data: data[:10] + bytes([data[10] ^ 1]) + data[11:],
    ],
)
def test_damaged_lines_are_passed_over(fresh: Path, damage: Callable[[bytes], bytes]) -> None:
    find, _ = writer()
    assert answer(find(9)) == 9
    del find
    path = index(fresh)
    path.write_bytes(damage(path.read_bytes()))
    forget()
    find, texts = writer()
    assert answer(find(9)) == 9
    assert texts == [9]


def test_of_several_lines_for_a_structure_the_last_counts(fresh: Path) -> None:
    name = f"{7:064}"
    for count in range(3):
        note_entry(name, IndexEntry(name, (f"answer{count}",), ()))
    assert len(index(fresh).read_bytes().splitlines()) == 3
    forget()
    assert find_entry(name) == IndexEntry(name, ("answer2",), ())
    note_entry(name, IndexEntry(name, ("answer2",), ()))
    assert len(index(fresh).read_bytes().splitlines()) == 3, "known"


def test_the_index_is_bounded(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 1000)
    records = {f"{n:064}": IndexEntry(f"{n + 1:064}", (f"answer{n}",), ()) for n in range(100)}
    for name, one in records.items():
        note_entry(name, one)
        assert find_entry(name) == one
        assert index(fresh).stat().st_size < 1400
    forget()
    assert find_entry(f"{99:064}") == records[f"{99:064}"]
    assert find_entry(f"{0:064}") is None


def test_old_indices_are_swept(tmp_path: Path) -> None:
    import os
    import time

    for days in (20, 40):
        path = tmp_path / f"{cache.INDEX}{days}"
        path.write_text("")
        os.utime(path, (time.time() - days * 86400,) * 2)
    cache.sweep(tmp_path, 10**6)
    assert [p.name for p in tmp_path.iterdir()] == [f"{cache.INDEX}20"]


@pytest.mark.parametrize("given", [3, object()], ids=["spelled", "not spelled"])
def test_libraries_are_made_when_an_address_is_asked_for(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, given: object
) -> None:
    find, texts = writer()
    found = find(given)
    assert not found.load()
    assert not texts
    assert answer(found) == answer(find(given)) == (3 if given == 3 else 99)
    assert len(texts) == 1
    assert found.load()


def test_loading_takes_code_from_the_disk(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find, _ = writer()
    assert answer(find(3)) == 3
    del find
    forget()
    monkeypatch.setattr(library, "object_code", None)
    find, texts = writer()
    assert find(3).load()
    assert answer(find(3)) == 3
    assert not find(4).load()
    assert not texts


def test_programs_find_their_kernels_without_writing_them(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products, convolutions, pooling, reductions, groups: no module of IR is begun."""
    from tawny.engine.cpu import kernel_table
    from tawny.engine.cpu.kernels import elementwise, pooling
    from tawny.engine.cpu.kernels.reduction import rows
    from tawny.engine.cpu.products import loops, product

    def built() -> Any:
        for home, name in (
            (elementwise, "_library"),
            (pooling, "_library"),
            (rows, "reduction_library"),
            (loops, "products_library"),
            (product, "_tiles"),
            (product, "_gather"),
            (product, "_finish"),
            (product, "_packing"),
        ):
            getattr(home, name).cache_clear()
        monkeypatch.setattr(kernel_table, "_ANSWERS", dict[Any, Any]())
        forget()
        rng = np.random.default_rng(0)
        x = tw.var("x", shape=(1, 20, 20, 37), dtype="float32")
        y = tnp.conv2d(x, rng.standard_normal((3, 3, 37, 41), np.float32), padding="SAME")
        y = tnp.relu(tnp.max_pool2d(y * 2 + 1, 2)) @ rng.standard_normal((41, 43), np.float32)
        return tw.Graph([x], tnp.softmax(tnp.sin(y) * y, axis=-1)).compile()

    first = built()
    forms: list[str] = []
    original = Module.text
    monkeypatch.setattr(Module, "text", lambda self: forms.append("text") or original(self))
    second = built()
    assert not forms
    value = np.random.default_rng(1).standard_normal((1, 20, 20, 37), np.float32)
    np.testing.assert_array_equal(first(value), second(value))
