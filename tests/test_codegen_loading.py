"""Objects brought into memory without LLVM: layout, relocations, pages, and what is refused."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import random
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tawny.engine.llvm.ir.builder import I64, Module
from tawny.engine.llvm.runtime import elf_loader, library
from tawny.engine.llvm.runtime.compiler import object_code
from tawny.engine.llvm.runtime.elf import MOST_ALIGNED, ObjectFile, UnsupportedObjectError
from tawny.engine.llvm.runtime.elf_loader import NoPagesError, check_supported, load
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import compile_ir, lazy_library

try:
    check_supported()
except UnsupportedObjectError as error:
    pytest.skip(str(error), allow_module_level=True)

HERE = Path(__file__).parent
FAR = 0x7F0000000000


@pytest.fixture
def fresh(tmp_path, monkeypatch) -> Path:
    """An empty cache on disk, and nothing remembered in memory."""
    monkeypatch.setenv("TAWNY_CACHE", str(tmp_path / "cache"))
    library._recent.clear()
    gc.collect()
    return tmp_path / "cache"


# ------------------------------------------------------------- hand-made objects


class Section(NamedTuple):
    name: str
    content: bytes
    flags: int = 2
    kind: int = 1
    alignment: int = 16
    relocations: tuple[tuple[int, int, int, int], ...] = ()
    """Places, kinds, symbols, addends."""


class Symbol(NamedTuple):
    name: str
    section: int
    value: int = 0
    info: int = 0x12


TEXT = Section(".text", bytes(32), 6)


def made(sections: list[Section], symbols: list[Symbol], **header: int) -> bytes:
    """An object file; sections are numbered from 1, symbols too."""
    names, strings, body = bytearray(b"\0"), bytearray(b"\0"), bytearray(64)
    table = [struct.pack("<IIQQQQIIQQ", *[0] * 10)]

    def named(store: bytearray, name: str) -> int:
        store.extend(name.encode() + b"\0")
        return len(store) - len(name) - 1

    def added(name: str, content: bytes, kind: int, flags: int, *rest: int) -> None:
        link, info, alignment, entry = rest
        table.append(
            struct.pack(
                "<IIQQQQIIQQ",
                *(named(names, name), kind, flags, 0, len(body), len(content)),
                *(link, info, alignment, entry),
            )
        )
        body.extend(content)

    count = len(sections)
    for s in sections:
        added(s.name, s.content, s.kind, s.flags, 0, 0, s.alignment, 0)
    entries = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for y in symbols:
        entries += struct.pack("<IBBHQQ", named(strings, y.name), y.info, 0, y.section, y.value, 0)
    added(".symtab", entries, 2, 0, count + 2, 1, 8, 24)
    added(".strtab", bytes(strings), 3, 0, 0, 0, 1, 0)
    for number, s in enumerate(sections, 1):
        if s.relocations:
            packed = [struct.pack("<QQq", p, y << 32 | k, a) for p, k, y, a in s.relocations]
            added(".rela" + s.name, b"".join(packed), 4, 0x40, count + 1, number, 8, 24)
    named(names, ".names")
    names_at = len(body)
    table.append(
        struct.pack(
            "<IIQQQQIIQQ", names.index(b".names"), 3, 0, 0, names_at, len(names), 0, 0, 1, 0
        )
    )
    body.extend(names)
    given = {"kind": 1, "machine": 62, "flags": 0, "ident": 0x00010102464C457F, "section_size": 64}
    given |= header
    struct.pack_into(
        "<QQHHIQQQIHHHHHH",
        body,
        0,
        *(given["ident"], 0, given["kind"], given["machine"], 1, 0, 0, len(body), given["flags"]),
        *(64, 0, 0, given["section_size"], len(table), len(table) - 1),
    )
    return bytes(body) + b"".join(table)


def placed(relocations: list[tuple[int, int, int, int]], **given: int) -> bytes:
    """A text of 32 bytes and data of 16 behind it, relocated; symbols: text+4, data+8, others."""
    text = TEXT._replace(relocations=tuple(relocations))
    symbols = [Symbol("f", 1, 4), Symbol("g", 2, 8, 0x11), Symbol("other", 0, 0, 0x10)]
    return ObjectFile(made([text, Section(".rodata", bytes(16))], symbols)).at(FAR, given)


def test_sections_follow_each_other_aligned() -> None:
    sections = [
        Section(".text", b"\xc3" * 5, 6),
        Section(".comment", b"not loaded", 0),
        Section(".rodata.cst4", b"\1\2\3\4", 0x12, alignment=4),
        Section(".rodata", b"\5" * 3, 2, alignment=64),
        Section(".eh_frame", b"\7" * 24, 2, kind=0x70000001, relocations=((0, 999, 1, 0),)),
        Section(".data.rel.ro", bytes(8), 3, alignment=0),
    ]
    symbols = [Symbol("f", 1), Symbol("local", 3, 0, 0x01), Symbol("late", 4, 1), Symbol("", 2)]
    found = ObjectFile(made(sections, symbols))
    want = b"\xc3" * 5 + bytes(3) + b"\1\2\3\4" + bytes(52) + b"\5" * 3 + bytes(8)
    assert found.at(FAR, {})[: len(want)] == want
    assert found.exported_symbols() == {"f": 0, "late": 65}
    assert found.undefined_symbols() == []
    assert found.size == 80


def test_relocations_against_what_they_say() -> None:
    """S + A, S + A - P, and through cells that hold addresses and jump there."""
    image = placed([(0, 1, 2, -3), (8, 2, 2, -4), (12, 4, 1, -4)])
    data = 32 + 8
    assert struct.unpack_from("<Q", image, 0)[0] == FAR + data - 3
    assert struct.unpack_from("<i", image, 8)[0] == data - 4 - 8
    assert struct.unpack_from("<i", image, 12)[0] == 4 - 4 - 12
    assert len(image) == 48, "calls inside of an object need no cells"
    image = placed([(0, 4, 3, -4), (8, 9, 3, -4), (16, 42, 1, -4), (20, 1, 3, 5)], other=123456)
    cells = [struct.unpack_from("<Q6s", image, place) for place in (48, 64)]
    assert cells == [(123456, b"\xff\x25\xf2\xff\xff\xff"), (FAR + 4, b"\xff\x25\xf2\xff\xff\xff")]
    assert struct.unpack_from("<i", image, 0)[0] == 48 + 8 - 4
    assert struct.unpack_from("<i", image, 8)[0] == 48 - 4 - 8
    assert struct.unpack_from("<i", image, 16)[0] == 64 - 4 - 16
    assert struct.unpack_from("<Q", image, 20)[0] == 123456 + 5


@pytest.mark.parametrize("kind", [2, 4, 9])
def test_distances_are_checked(kind: int) -> None:
    """The least and the largest that four bytes hold, and one more."""
    target = 32 + 16 if kind == 9 else 32 + 8
    for distance in (-(2**31), 2**31 - 1):
        image = placed([(16, kind, 2, distance - target + 16)])
        assert struct.unpack_from("<i", image, 16)[0] == distance
    for distance in (-(2**31) - 1, 2**31, 2**62):
        with pytest.raises(UnsupportedObjectError, match="g is too far away"):
            placed([(16, kind, 2, distance - target + 16)])


def test_what_is_relative_to_others_is_refused_where_they_are_far() -> None:
    image = placed([(0, 2, 3, 0)], other=FAR + 2**20)
    assert struct.unpack_from("<i", image, 0)[0] == 2**20
    with pytest.raises(UnsupportedObjectError, match="other is too far away"):
        placed([(0, 2, 3, 0)], other=FAR + 2**32)


def test_what_nobody_has_is_refused() -> None:
    for kind in (1, 2, 4, 9):
        with pytest.raises(UnsupportedObjectError, match="nobody has 'other'"):
            placed([(0, kind, 3, 0)])


ONE = [Symbol("f", 1)]
REFUSED: dict[str, Callable[[], bytes]] = {
    "damaged": lambda: b"",
    "not an object of x86-64": lambda: made([TEXT], ONE, machine=183),
    "not an object of x86-64 ": lambda: made([TEXT], ONE, kind=3),
    "not an object of x86-64  ": lambda: made([TEXT], ONE, ident=0x00010202464C457F),
    "not an object of x86-64   ": lambda: made([TEXT], ONE, ident=0x00010101464C457F),
    "not an object of x86-64    ": lambda: made([TEXT], ONE, section_size=40),
    "a section .data that can be written": lambda: made([TEXT, Section(".data", b"1", 3)], ONE),
    "a section .bss of kind 8": lambda: made([TEXT, Section(".bss", b"", 3, kind=8)], ONE),
    "a section .tdata of kind 1": lambda: made([TEXT, Section(".tdata", b"1", 0x402)], ONE),
    "a section .init_array of kind 14": lambda: made(
        [TEXT, Section(".init_array", bytes(8), 3, kind=14)], ONE
    ),
    "aligned to 8192": lambda: made([TEXT._replace(alignment=8192)], ONE),
    "aligned to 48": lambda: made([TEXT._replace(alignment=48)], ONE),
    "outside of its section": lambda: made([TEXT], [Symbol("f", 1, 33)]),
    "a relocation of what is not there": lambda: made(
        [TEXT._replace(relocations=((29, 2, 1, 0),))], ONE
    ),
    "a relocation of what is not there ": lambda: made(
        [TEXT._replace(relocations=((25, 1, 1, 0),))], ONE
    ),
    "a relocation of what is not there  ": lambda: made(
        [TEXT._replace(relocations=((0, 2, 2, 0),))], ONE
    ),
} | {
    f"a relocation of kind {kind}": lambda kind=kind: made(
        [TEXT._replace(relocations=((0, kind, 1, 0),))], ONE
    )
    for kind in (3, 10, 11, 19, 22, 24, 37)
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_understood_is_refused(what: str) -> None:
    with pytest.raises(UnsupportedObjectError, match=what.strip()):
        ObjectFile(REFUSED[what]())


def test_symbols_without_a_place_are_refused_where_they_are_used() -> None:
    """Functions chosen at load time, memory of threads, absolute numbers, sections not loaded."""
    for symbol in [
        Symbol("f", 1, 0, 0x1A),
        Symbol("f", 1, 0, 0x16),
        Symbol("f", 0xFFF1, 5, 0x10),
        Symbol("f", 2),
    ]:
        text = TEXT._replace(relocations=((0, 1, 1, 0),))
        found = ObjectFile(made([text, Section(".comment", b"x", 0)], [symbol]))
        assert found.exported_symbols() == {}
        with pytest.raises(UnsupportedObjectError, match="nobody has"):
            found.at(FAR, {"f": 1})
        with pytest.raises(UnsupportedObjectError):
            load(made([TEXT], [symbol]), ["f"], {})


def test_an_object_begins_at_a_page() -> None:
    with pytest.raises(UnsupportedObjectError, match="not the begin of a page"):
        ObjectFile(made([TEXT], ONE)).at(FAR + MOST_ALIGNED // 2, {})


# ------------------------------------------------------------------ LLVM's objects

CALLING = """
declare i64 @labs(i64)
declare ptr @memmove(ptr, ptr, i64)
@table = internal constant [3 x ptr] [ptr @one, ptr @two, ptr @labs]
@numbers = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
define internal i64 @one(i64 %x) noinline { ret i64 1 }
define internal i64 @two(i64 %x) noinline {
  %at = getelementptr [4 x i64], ptr @numbers, i64 0, i64 %x
  %v = load i64, ptr %at
  ret i64 %v
}
define i64 @called(i64 %which, i64 %x) {
  %at = getelementptr [3 x ptr], ptr @table, i64 0, i64 %which
  %f = load ptr, ptr %at
  %v = call i64 %f(i64 %x)
  ret i64 %v
}
define i64 @positive(i64 %x) {
  %v = call i64 @labs(i64 %x)
  ret i64 %v
}
define ptr @mover() {
  ret ptr @memmove
}
define double @third(double %x) {
  %v = fdiv double %x, 3.0
  ret double %v
}
define i64 @chosen(i64 %x) {
entry:
  switch i64 %x, label %other [
    i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d  i64 4, label %e ]
a:
  %va = call i64 @labs(i64 -7)
  ret i64 %va
b:
  %vb = call i64 @one(i64 %x)
  ret i64 %vb
c:
  %vc = call i64 @two(i64 %x)
  ret i64 %vc
d:
  %vd = mul i64 %x, %x
  ret i64 %vd
e:
  %ve = sdiv i64 1000, %x
  ret i64 %ve
other:
  ret i64 -1
}
"""
SYMBOLS = ("called", "positive", "mover", "third", "chosen")


def behaviour(addresses: Any) -> list[Any]:
    """What the functions do."""
    number, real = ctypes.c_int64, ctypes.c_double
    called = ctypes.CFUNCTYPE(number, number, number)(addresses["called"])
    positive = ctypes.CFUNCTYPE(number, number)(addresses["positive"])
    mover = ctypes.CFUNCTYPE(ctypes.c_void_p)(addresses["mover"])
    third = ctypes.CFUNCTYPE(real, real)(addresses["third"])
    chosen = ctypes.CFUNCTYPE(number, number)(addresses["chosen"])
    return [
        *[called(0, 3), called(1, 3), called(2, -3), positive(-5), third(2.0)],
        *map(chosen, range(-1, 6)),
        mover(),
    ]


def test_the_same_as_link_by_llvm() -> None:
    code = object_code(CALLING, host())
    found, linked = load(code, SYMBOLS, {}), library.link_by_llvm(code, SYMBOLS, {}, host())
    answers = behaviour(found.addresses)
    assert answers == behaviour({symbol: linked[symbol] for symbol in SYMBOLS})
    assert answers[:5] == [1, 40, 3, 5, 2 / 3]
    assert answers[5:-1] == [-1, 7, 1, 30, 9, 250, -1]
    assert answers[-1] == elf_loader._of_process("memmove")


def child(script: Path, *arguments: str, cache: Path) -> list[str]:
    environment = {**os.environ, "TAWNY_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_every_family_of_kernels_computes_the_same(tmp_path: Path) -> None:
    """By freshly compiled code, by the loader, and by LLVM's linker; the loader needs no LLVM."""
    script, cache = HERE / "kernel_families.py", tmp_path / "cache"
    *cold, said, how = child(script, cache=cache)
    assert how.split()[1] == "0", "LLVM's linker is not needed"
    assert "by NumPy" not in said
    *warm, _, how = child(script, cache=cache)
    loaded, linked, llvm = how.split()
    assert int(loaded) > 20
    assert (linked, llvm) == ("0", "False")
    *other, _, how = child(script, "llvm", cache=cache)
    assert how.split() == ["0", loaded, "True"]
    assert cold == warm == other


DAMAGE = """
import random, sys
sys.path.insert(0, sys.argv[1])
from test_codegen_loading import damaged_often
damaged_often(int(sys.argv[2]))
"""


def damaged(code: bytes, rng: random.Random) -> bytes:
    """An object with some bytes changed, most of them where it is described, or cut."""
    data = bytearray(code)
    how = rng.random()
    if how < 0.1:
        return bytes(data[: rng.randrange(len(data))])
    tables = struct.unpack_from("<Q", code, 40)[0]
    for _ in range(rng.choice([1, 1, 2, 8])):
        low, high = rng.choice([(0, 64), (tables, len(data)), (tables, len(data)), (0, len(data))])
        place = rng.randrange(low, high)
        data[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, data[place] ^ 1 << rng.randrange(8)])
    return bytes(data)


def damaged_often(times: int) -> None:
    """Load damaged objects, and run none of them."""
    rng, code, kept = random.Random(5), object_code(CALLING, host()), list[Any]()
    refused = 0
    for _ in range(times):
        try:
            found = load(damaged(code, rng), SYMBOLS, {})
        except UnsupportedObjectError:
            refused += 1
        else:
            kept = [*kept[-20:], found]
            assert set(found.addresses) == set(SYMBOLS)
    assert times // 10 < refused < times
    assert behaviour(load(code, SYMBOLS, {}).addresses)[:5] == [1, 40, 3, 5, 2 / 3]


def test_damaged_objects_are_refused_or_loaded_and_nothing_else() -> None:
    command = [sys.executable, "-c", DAMAGE, str(HERE), "4000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -------------------------------------------------------------------------- pages


def protections(address: int) -> str:
    """How the system protects the page at an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, how, *_ = line.split()
        low, high = [int(end, 16) for end in span.split("-")]
        if low <= address < high:
            return how
    raise AssertionError("not mapped")


def returning(number: int, nbytes: int = 6) -> bytes:
    """An object with a function that gives a number."""
    content = b"\xb8" + struct.pack("<I", number) + b"\xc3"
    return made([Section(".text", content.ljust(nbytes, b"\xcc"), 6)], ONE)


def called(found: elf_loader.LoadedCode) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_uint32)(found.addresses["f"])()


def test_code_is_never_writable_and_executable() -> None:
    """New pages are written before they are executable; so are those that others had."""
    seen: list[str] = []

    def content(address: int) -> bytes:
        seen.append(protections(address))
        return b"\xc3"

    for _ in range(2):
        room = elf_loader._fill_pages(5 * mmap.PAGESIZE, content)
        assert protections(room.address) == "r-xp"
        assert protections(room.address + 5 * mmap.PAGESIZE - 1) == "r-xp"
        elf_loader._released.append(room)
    assert seen == ["rw-p", "rw-p"]
    found = load(returning(17), ["f"], {})
    assert protections(found.addresses["f"]) == "r-xp"
    assert called(found) == 17


def test_objects_share_mappings() -> None:
    """Each has pages of its own, one behind the other, in few mappings."""
    before = len(Path("/proc/self/maps").read_text().splitlines())
    found = [load(returning(n), ["f"], {}) for n in range(300)]
    assert [called(f) for f in found] == list(range(300))
    assert len(Path("/proc/self/maps").read_text().splitlines()) < before + 12
    assert len({f.addresses["f"] // mmap.PAGESIZE for f in found}) == 300


def test_pages_are_used_again() -> None:
    first = load(returning(1, 3 * mmap.PAGESIZE), ["f"], {})
    address = first.addresses["f"]
    other = load(returning(2), ["f"], {})
    del first
    again = load(returning(3, 3 * mmap.PAGESIZE - 9), ["f"], {})
    assert again.addresses["f"] == address
    assert (called(again), called(other)) == (3, 2)
    assert protections(address) == "r-xp"


def test_a_large_object_has_a_mapping_of_its_own() -> None:
    found = load(returning(5, 3 * elf_loader.CHUNK), ["f"], {})
    assert called(found) == 5
    assert protections(found.addresses["f"] + 3 * elf_loader.CHUNK - 1) == "r-xp"


def test_what_is_refused_leaves_pages_to_others() -> None:
    """The symbol is there, but the place of its use is too far from it."""
    text = TEXT._replace(relocations=((0, 2, 1, 2**40),))
    load(returning(1), ["f"], {})
    gc.collect()
    with pytest.raises(UnsupportedObjectError, match="too far"):
        load(made([text], ONE), ["f"], {})
    (*_, room) = elf_loader._free[mmap.PAGESIZE]
    assert load(returning(8), ["f"], {}).addresses["f"] == room.address


def test_threads_load_at_once() -> None:
    found: dict[int, elf_loader.LoadedCode] = {}

    def work(start: int) -> None:
        for n in range(start, start + 100):
            found[n] = load(returning(n), ["f"], {})

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(called(f) == n for n, f in found.items())
    assert len({f.addresses["f"] for f in found.values()}) == 400


FORKING = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from test_codegen_loading import called, load, returning
before = [load(returning(n), ["f"], {}) for n in range(5)]
child = os.fork()
first = 100 if child else 200
del before[0]
after = [load(returning(first + n), ["f"], {}) for n in range(20)]
right = [called(f) for f in before] == [1, 2, 3, 4]
right &= [called(f) for f in after] == [first + n for n in range(20)]
if not child:
    os._exit(0 if right else 1)
assert os.waitpid(child, 0)[1] == 0 and right
assert [called(f) for f in after] == [first + n for n in range(20)]
"""


def test_a_fork_has_code_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORKING, str(HERE)], check=True)


# ----------------------------------------------------------------------- fallback


@pytest.fixture
def by_llvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """The symbols of what LLVM links from here on."""
    linked: list[tuple[str, ...]] = []
    original = library.link_by_llvm

    def noted(code: bytes, symbols: tuple[str, ...], *given: Any) -> Any:
        linked.append(symbols)
        return original(code, symbols, *given)

    monkeypatch.setattr(library, "link_by_llvm", noted)
    return linked


WRITING = """
@count = internal global i64 0
define i64 @counted() {
  %before = load i64, ptr @count
  %after = add i64 %before, 1
  store i64 %after, ptr @count
  ret i64 %after
}
"""


def test_what_the_loader_refuses_is_link_by_llvm(fresh, by_llvm) -> None:
    found = compile_ir(WRITING)
    call = ctypes.CFUNCTYPE(ctypes.c_int64)(found.address("counted"))
    assert [call(), call()] == [1, 2]
    assert by_llvm == [("counted",)]


class Failing:
    """The process, in which a function of the system fails."""

    def __init__(self, name: str, result: int) -> None:
        self._name, self._result, self._whole = name, result, elf_loader._process()

    def __getattr__(self, name: str) -> Any:
        return (lambda *_: self._result) if name == self._name else getattr(self._whole, name)

    def __getitem__(self, name: str) -> Any:
        return self._whole[name]


@pytest.mark.parametrize(("name", "result"), [("mmap", 2**64 - 1), ("mprotect", -1)])
def test_where_the_system_refuses_pages_llvm_is_not_asked(
    fresh, by_llvm, monkeypatch, name, result
) -> None:
    """It would end the process.  What is on disk stays there."""
    text = f"; where {name} fails{CALLING}"
    assert behaviour(compile_ir(text).addresses)[:5] == [1, 40, 3, 5, 2 / 3]
    library._recent.clear()
    gc.collect()
    kept = sorted(fresh.glob("*.object"))
    failing = Failing(name, result)
    with monkeypatch.context() as patch:
        patch.setattr(elf_loader, "_process", lambda: failing)
        patch.setattr(elf_loader, "_rests", [])
        patch.setattr(elf_loader, "_free", type(elf_loader._free)(list))
        patch.setattr(elf_loader, "_released", type(elf_loader._released)())
        with pytest.raises(NoPagesError, match="the system"):
            compile_ir(text)
    assert sorted(fresh.glob("*.object")) == kept
    assert behaviour(compile_ir(text).addresses)[:5] == [1, 40, 3, 5, 2 / 3]
    assert by_llvm == []


CONFINED = """
import ctypes
refuses_written_pages = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0
import numpy as np
import tawny as tw
import tawny.numpy as tnp
from tawny.engine.cpu import unavailable
x = tw.var("x", shape=(20, 500))
program = tw.Graph([x], tnp.tanh((tnp.sin(x) * 2) @ np.ones((500, 30)))).compile()
np.testing.assert_allclose(program(np.full((20, 500), 1e-3)), np.tanh(1000 * np.sin(1e-3)))
if refuses_written_pages:
    assert "does not allow what was written to be executed" in unavailable()
"""


def test_a_process_that_may_not_run_code_runs_programs_by_numpy(fresh) -> None:
    """Systems can be told to refuse; those that cannot be told run code."""
    environment = {**os.environ, "TAWNY_CACHE": str(fresh)}
    for _ in range(2):
        subprocess.run([sys.executable, "-W", "error", "-c", CONFINED], env=environment, check=True)


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnsupportedObjectError, match="on Linux on x86-64 alone"):
        load(returning(1), ["f"], {})


USER = """
; requires {name}
declare i64 @base(i64)
define i64 @user(i64 %x) {{
  %y = call i64 @base(i64 %x)
  %z = add i64 %y, 2
  ret i64 %z
}}
"""


@pytest.mark.parametrize("refused", ["base", "user"])
def test_loaded_and_linked_code_call_each_other(fresh, by_llvm, monkeypatch, refused) -> None:
    name, original = f"shared_{refused}", library.load

    def base(module: Module) -> None:
        with module.function("base", {"x": I64}, I64) as f:
            f.return_(f.arguments[0] * 5)

    def picky(code: bytes, symbols: tuple[str, ...], given: Any) -> Any:
        if refused in symbols:
            raise UnsupportedObjectError("told so")
        return original(code, symbols, given)

    monkeypatch.setattr(library, "load", picky)
    monkeypatch.setitem(library._SHARED, name, lazy_library(base))
    found = compile_ir(USER.format(name=name))
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found.address("user"))(8) == 42
    assert by_llvm == [(refused,)]


def test_what_neither_can_link_is_an_error(fresh) -> None:
    text = "declare void @nobody_has_this()\n"
    text += "define void @f() { call void @nobody_has_this()\n ret void }"
    with pytest.raises(RuntimeError, match="Failed to materialize"):
        compile_ir(text)
