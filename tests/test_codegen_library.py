"""Compiled libraries: writing IR, the machine, code in memory and on disk."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tawny.engine.llvm.ir.builder import F32, I32, I64, PTR, VOID, Function, Module, Value
from tawny.engine.llvm.runtime import cache, compiler, library, processor
from tawny.engine.llvm.runtime import host as host_module
from tawny.engine.llvm.runtime.compiler import object_code
from tawny.engine.llvm.runtime.directory import cache_directory
from tawny.engine.llvm.runtime.host import (
    AVX512,
    INSTRUCTION_SETS,
    InstructionSet,
    host,
)
from tawny.engine.llvm.runtime.library import compile_ir
from tawny.engine.llvm.targets import Target


@pytest.fixture
def fresh(tmp_path, monkeypatch) -> Path:
    """An empty cache on disk, and nothing remembered in memory."""
    monkeypatch.setenv("TAWNY_CACHE", str(tmp_path / "cache"))
    forget()
    return tmp_path / "cache"


def text_of(number: int) -> str:
    """A function that gives a number."""
    module = Module(host())
    with module.function("answer", {}, I64) as f:
        f.return_(f.constant(I64, number))
    return module.text()


def answer(text: str) -> int:
    found = compile_ir(text)
    return ctypes.CFUNCTYPE(ctypes.c_int64)(found.address("answer"))()


def forget() -> None:
    """Drop what is in memory, as a new process would find it."""
    library._recent.clear()
    gc.collect()


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.object"))


def count_compiled(monkeypatch) -> list[str]:
    """The texts that are compiled from here on."""
    texts: list[str] = []
    original = library.object_code

    def noted(text: str, target: Target) -> bytes:
        texts.append(text)
        return original(text, target)

    monkeypatch.setattr(library, "object_code", noted)
    return texts


def test_a_text_is_compiled_once(fresh, monkeypatch):
    texts = count_compiled(monkeypatch)
    first = compile_ir(text_of(1))
    assert compile_ir(text_of(1)) is first
    del first
    forget()
    assert answer(text_of(1)) == 1
    assert len(texts) == 1
    assert len(entries(fresh)) == 1


def test_different_texts_are_different_libraries(fresh):
    assert [answer(text_of(n)) for n in (2, 3, 2)] == [2, 3, 2]
    assert len(entries(fresh)) == 2


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    head, _, code = data.partition(b"\n")
    changed = {
        "empty": b"",
        "cut": data[: len(data) // 2],
        "no code": head + b"\n",
        "a bit": data[:-40] + bytes([data[-40] ^ 4]) + data[-39:],
        "longer": data + b"x",
        "text": b"not an object at all",
        "other head": head[:-1] + b"0" + b"\n" + code,
        "binary": bytes(range(256)) * 20,
    }[how]
    path.write_bytes(changed)


@pytest.mark.parametrize(
    "how", ["empty", "cut", "no code", "a bit", "longer", "text", "other head", "binary"]
)
def test_a_damaged_entry_is_replaced(fresh, monkeypatch, how):
    assert answer(text_of(4)) == 4
    (path,) = entries(fresh)
    whole = path.read_bytes()
    damage(path, how)
    forget()
    texts = count_compiled(monkeypatch)
    assert answer(text_of(4)) == 4
    assert len(texts) == 1
    assert path.read_bytes() == whole


def test_an_entry_of_another_key_is_not_used(fresh, monkeypatch):
    assert answer(text_of(5)) == 5
    (five,) = entries(fresh)
    other = five.read_bytes()
    assert answer(text_of(6)) == 6
    (six,) = [p for p in entries(fresh) if p != five]
    six.write_bytes(other)
    forget()
    assert answer(text_of(6)) == 6


def test_code_that_cannot_be_linked_is_compiled_again(fresh, monkeypatch):
    assert answer(text_of(7)) == 7
    (path,) = entries(fresh)
    key = path.stem
    cache.save(key, b"no object, but with the right checksum")
    forget()
    assert answer(text_of(7)) == 7
    assert cache.load(key) != b"no object, but with the right checksum"


def test_the_key_depends_on_the_machine_and_on_llvm(fresh, monkeypatch):
    assert answer(text_of(8)) == 8
    forget()
    changed = replace(host(), tune="other")
    monkeypatch.setattr(library, "host", lambda: changed)
    assert answer(text_of(8)) == 8
    assert len(entries(fresh)) == 2


@pytest.mark.parametrize("word", ["off", "OFF", "0", "none"])
def test_the_disk_can_be_left_alone(tmp_path, monkeypatch, word):
    monkeypatch.setenv("TAWNY_CACHE", word)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget()
    assert answer(text_of(9)) == 9
    assert cache_directory() is None
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "cache", tmp_path / "file"):
        monkeypatch.setenv("TAWNY_CACHE", str(path))
        forget()
        assert cache_directory() is None
        assert answer(text_of(10)) == 10


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_directory_that_others_may_write_is_not_used(fresh):
    fresh.mkdir()
    fresh.chmod(0o777)
    forget()
    assert cache_directory() is None
    assert answer(text_of(11)) == 11
    assert entries(fresh) == []
    fresh.chmod(0o700)
    assert cache_directory() == fresh


def test_the_cache_is_bounded_and_the_oldest_go(tmp_path):
    now = time.time()
    for i in range(20):
        path = tmp_path / f"{i:02}.object"
        path.write_bytes(bytes(1000))
        os.utime(path, (now - 100 + i, now - 100 + i))
    (tmp_path / "isa-x").write_text("runs")
    cache.sweep(tmp_path, 20 * 4096)
    assert len(entries(tmp_path)) == 20
    cache.sweep(tmp_path, 16 * 4096)
    assert [p.stem for p in entries(tmp_path)] == [f"{i:02}" for i in range(8, 20)]
    assert (tmp_path / "isa-x").exists()


def test_writing_keeps_the_cache_bounded(fresh, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT_BYTES", 100 * 4096)
    for i in range(3000):
        cache.save(hashlib.sha256(str(i).encode()).hexdigest(), bytes(10))
    assert len(entries(fresh)) < 700


def test_a_read_keeps_an_entry_young(fresh):
    assert answer(text_of(12)) == 12
    (path,) = entries(fresh)
    old = time.time() - 1e6
    os.utime(path, (old, old))
    forget()
    assert answer(text_of(12)) == 12
    assert path.stat().st_mtime > old + 1e5


def test_what_a_dead_process_left_is_swept(tmp_path):
    old, new = tmp_path / "new-old", tmp_path / "new-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.sweep(tmp_path, cache.LIMIT_BYTES)
    assert not old.exists()
    assert new.exists()


WRITER = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from test_codegen_library import answer, text_of
for n in range(100, 130):
    assert answer(text_of(n)) == n
"""


def test_several_processes_write_at_once(fresh):
    environment = {**os.environ, "TAWNY_CACHE": str(fresh)}
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent)]
    children = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    assert len(entries(fresh)) == 30
    assert all(cache.load(p.stem) is not None for p in entries(fresh))
    assert not list(fresh.glob("new-*"))


def test_several_threads_compile_at_once(fresh):
    found: dict[int, set[int]] = {}

    def work(n: int) -> None:
        found.setdefault(n, set()).add(answer(text_of(200 + n % 5)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: {200 + n % 5} for n in range(20)}


def in_threads(texts: list[str]) -> list[int]:
    """The answers of texts, each asked for by a thread of its own."""
    found: dict[int, int] = {}

    def work(n: int) -> None:
        found[n] = answer(texts[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[n] for n in range(len(texts))]


def test_different_texts_are_compiled_at_the_same_time(fresh, monkeypatch):
    original, meeting = library.object_code, threading.Barrier(2, timeout=20)

    def met(text: str, target: Target) -> bytes:
        meeting.wait()
        return original(text, target)

    monkeypatch.setattr(library, "object_code", met)
    assert in_threads([text_of(400), text_of(401)]) == [400, 401]


def test_a_text_that_several_threads_ask_for_is_compiled_once(fresh, monkeypatch):
    texts = count_compiled(monkeypatch)
    assert in_threads([text_of(410)] * 8) == [410] * 8
    assert len(texts) == 1
    assert not library._making


def test_llvm_compiles_without_a_lock_that_all_calls_share(fresh):
    """Two threads that compile take turns in Python alone, and make the same code as one does."""
    texts = [text_of(n) for n in range(420, 440)]
    alone = [object_code(text, host()) for text in texts]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(object_code, texts, [host()] * len(texts))) == alone
    for name in ("LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"):
        assert isinstance(compiler._unlocked_function(name), ctypes._CFuncPtr)


def test_a_text_that_cannot_be_compiled_can_be_tried_again(fresh):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="expected"):
            compile_ir("define i64 @answer( {")
    assert not library._making


def test_code_goes_when_nobody_holds_it(fresh):
    text = text_of(300)
    found = compile_ir(text)
    (name,) = [name for name, living in library._living.items() if living is found]
    del found
    forget()
    assert name not in library._living


def test_importing_tawny_does_not_import_llvm():
    code = "import sys, tawny, tawny.numpy; assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# --------------------------------------------------------------------- machine


def test_the_machine_is_one_of_the_levels():
    here = host()
    assert here.vector_bytes in {16, 32, 64}
    assert here.cpu in here.identity
    if here.triple.startswith("x86_64"):
        assert here.cpu in {*[level.cpu for level in INSTRUCTION_SETS], "x86-64"}


LIMITED = """
from tawny.engine.llvm.runtime.host import host
print(host().vector_bytes, host().has_fma)
"""


@pytest.mark.skipif(not host().triple.startswith("x86_64"), reason="levels are x86-64's")
@pytest.mark.parametrize(("limit", "most"), [("avx512", 64), ("avx2", 32), ("sse2", 16)])
def test_the_environment_limits_the_instruction_set(limit, most):
    environment = {**os.environ, "TAWNY_ISA": limit}
    shown = subprocess.run(
        [sys.executable, "-c", LIMITED], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(shown[0]) <= most
    assert limit != "sse2" or shown[1] == "False"


def test_an_unknown_limit_is_refused():
    environment = {**os.environ, "TAWNY_ISA": "mmx"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], env=environment, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert (
        "'mmx' is not known; accepted: avx512bf16, avx512vnni, avx512, avx2vnni, avx2, sse2"
        in done.stderr
    )


@pytest.mark.skipif(
    os.name != "posix" or not host().triple.startswith("x86_64"), reason="trials need POSIX"
)
def test_an_instruction_that_dies_is_found_out(fresh):
    dying = InstructionSet("dying", "x86-64", frozenset(), 16, trap)
    assert not host_module._can_run(dying, replace(host(), tune="here"))
    fine = InstructionSet("fine", "x86-64", frozenset(), 16, lambda f, place: None)
    assert host_module._can_run(fine, replace(host(), tune="there"))


def trap(f: Function, place: Value) -> None:
    f.intrinsic("trap", VOID, overload=())


UD2, FAULT, RETURN = (
    bytes.fromhex(code) for code in ("0f0b", "c604250000000000", "c60701c6473f01c3")
)
"""Code that is no instruction, that writes where nothing is, and that writes its 64 bytes."""


@pytest.mark.skipif(
    os.name != "posix" or not host().triple.startswith("x86_64"), reason="trials need POSIX"
)
def test_a_trial_dies_alone():
    assert [processor.survives(code) for code in (UD2, FAULT, RETURN)] == [False, False, True]


def test_where_nothing_can_be_tried_code_is_believed(monkeypatch):
    monkeypatch.setattr(sys, "executable", None)
    assert processor.survives(UD2)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert processor.survives(UD2)


@pytest.mark.skipif(not host().avx512, reason="the machine has no AVX-512")
def test_trials_are_remembered(fresh, monkeypatch):
    tried = []
    monkeypatch.setattr(host_module, "_try_set", lambda level, target: not tried.append(level))
    for _ in range(2):
        assert host_module._can_run(AVX512, host())
    assert len(tried) == 1


# ------------------------------------------------------------------ finished code


def sum_text(*, finished: bool) -> str:
    """The sum of n numbers, which says that each is multiplied by one."""
    module = Module(host(), finished=finished)
    with module.function("sum", {"x": PTR, "n": I64}, I64) as f:
        x, n = f.arguments
        with f.loop(0, n, carried=[f.constant(I64, 0)]) as loop:
            loop.carry(loop.carried[0] + f.load(I64, f.element(x, loop.index, I64)) * 1)
        f.return_(loop.carried[0])
    return module.text()


def test_finished_code_is_left_as_it_is_written(fresh):
    finished, other = sum_text(finished=True), sum_text(finished=False)
    assert "mul i64" in str(compiler._optimise(finished, host()))
    assert "mul i64" not in str(compiler._optimise(other, host()))
    assert compiler._machine(finished, host()) is not compiler._machine(other, host())
    numbers = (ctypes.c_int64 * 5)(1, 2, 3, 4, 5)
    for text in (finished, other):
        found = compile_ir(text)
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        assert call(found.address("sum"))(ctypes.addressof(numbers), 5) == 15


# --------------------------------------------------------------------- builder


def function(module: Module, name: str, *kinds):
    found = compile_ir(module.text())
    call = ctypes.CFUNCTYPE(*kinds)(found.address(name))
    call.library = found
    return call


def test_loops_carry_values():
    module = Module(host())
    with module.function("sum", {"n": I64}, I64) as f:
        (n,) = f.arguments
        with f.loop(0, n, carried=[f.constant(I64, 0), f.constant(I64, 1)]) as loop:
            total, product = loop.carried
            loop.carry(total + loop.index, product * 2)
        total, product = loop.carried
        f.return_(total * 1000 + product)
    call = function(module, "sum", ctypes.c_int64, ctypes.c_int64)
    assert [call(n) for n in (-3, 0, 1, 5)] == [1, 1, 2, 10032]


def test_nested_loops_and_conditions():
    module = Module(host())
    with module.function("pairs", {"n": I64}, I64) as f:
        (n,) = f.arguments
        with f.loop(0, n, carried=[f.constant(I64, 0)]) as outer:
            with f.loop(outer.index, n, 2, carried=outer.carried) as inner:
                (count,) = f.either(
                    (inner.index & 1).equals(0),
                    lambda inner=inner: [inner.carried[0] + 1],
                    lambda inner=inner: [inner.carried[0] + 100],
                )
                inner.carry(count)
            outer.carry(*inner.carried)
        f.return_(outer.carried[0])

    def pairs(n: int) -> int:
        return sum(100 if j % 2 else 1 for i in range(n) for j in range(i, n, 2))

    call = function(module, "pairs", ctypes.c_int64, ctypes.c_int64)
    assert [call(n) for n in range(8)] == [pairs(n) for n in range(8)]


def test_a_loop_that_repeats_by_condition():
    module = Module(host())
    with module.function("collatz", {"n": I64}, I64) as f:
        (n,) = f.arguments
        with f.repeat(n, f.constant(I64, 0)) as repeat:
            number, steps = repeat.carried
            odd = (number & 1).differs(0)
            after = f.select(odd, number * 3 + 1, number.shifted_down(1))
            repeat.again(after > 1, after, steps + 1)
        f.return_(repeat.carried[1])
    call = function(module, "collatz", ctypes.c_int64, ctypes.c_int64)
    assert call(27) == 111


def test_constants_are_exact():
    module = Module(host())
    with module.function("third", {"p": PTR}) as f:
        f.store(f.constant(F32, 1 / 3), f.arguments[0])
        f.store(f.constant(F32, 1e39), f.element(f.arguments[0], 1, F32))
        f.store(f.constant(F32, float("nan")), f.element(f.arguments[0], 2, F32))
    out = (ctypes.c_float * 3)()
    function(module, "third", None, ctypes.c_void_p)(ctypes.addressof(out))
    assert out[0] == ctypes.c_float(1 / 3).value
    assert out[1] == float("inf")
    assert out[2] != out[2]


def test_mistakes_are_refused():
    module = Module(host())
    with pytest.raises(TypeError, match="add of i64 1 and i32 1"), module.function("f", {}) as f:
        f.constant(I64, 1) + f.constant(I32, 1)
    with (
        pytest.raises(ValueError, match="g ends without its i64"),
        module.function("g", {}, I64),
    ):
        pass
    with (
        pytest.raises(ValueError, match="carries 1 values, not 2"),
        module.function("h", {}) as f,
        f.loop(0, 3, carried=[f.constant(I64, 0)]) as loop,
    ):
        loop.carry(loop.index, loop.index)
