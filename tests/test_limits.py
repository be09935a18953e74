"""What is too large, unknown or not ours: refused or said before anything is done."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.numpy as np
from engines import skip_without_binding
from tawny.cgroups import MemoryRoom
from tawny.engine.llvm.runtime import cache, directory
from tawny.engine.reference.workspace import _row
from tawny.graph import memory_limits

# ------------------------------------------------------------------------ sizes


@pytest.mark.parametrize(
    "make",
    [
        lambda: tw.var("x", shape=(10**30,)),
        lambda: tw.var("x", shape=(2**31, 2**31, 2**31)),
        lambda: tw.var("x", shape=(10**30, 0)),
        lambda: tw.var("x", shape=(1,) * 65),
        lambda: np.zeros((2**40, 2**40)),
        lambda: np.broadcast_to(tw.var("x"), (2**62, 4)),
        lambda: np.ones((1,) * 1000),
    ],
)
def test_shapes_that_no_array_has_are_refused_at_once(make: Any) -> None:
    with pytest.raises(ValueError, match=r"(at most 64|less than 2\*\*63)  \[test_limits"):
        make()


def test_axes_are_counted_where_they_are_added() -> None:
    x = tw.var("x", shape=(1,) * 64)
    with pytest.raises(ValueError, match="the result has 65 axes; arrays have at most 64"):
        np.expand_dims(x, axis=0)
    assert np.squeeze(x).shape == ()


def test_values_of_2_to_the_63_bytes_are_refused_with_their_line(engine: str) -> None:
    x = tw.var("x", shape=(2**40,))
    y = np.exp(x[:, None] * x[None, : 2**20])
    graph = tw.Graph([x], [np.sum(y)])
    for build in (lambda: graph.compile(engine=engine), lambda: graph.plan(engine=engine)):
        with pytest.raises(MemoryError, match=r"no array can have 2\*\*63 or more  \[test_limits"):
            build()


def test_an_empty_axis_excuses_no_other(engine: str) -> None:
    x = tw.var("x", shape=(0, 2**62))
    with pytest.raises(MemoryError, match="no array can have"):
        tw.Graph([x], x + 1).compile(engine=engine)


def test_transforms_of_any_length_are_planned_at_once() -> None:
    for n in (2**61 - 1, 2**62, 10**18 + 9, 97**9):
        assert 2 * n <= _row(n) <= 8 * n
    assert _row(2**10) == 2**11
    assert _row(10007) == 8 * 10007
    graph = tw.Graph([x := tw.var("x", shape=(4,))], np.fft.fft(x, n=2**61 - 1))
    with pytest.raises(MemoryError, match="fft"):
        graph.compile()


@pytest.mark.parametrize(
    ("threads", "error"), [(10**6, ValueError), (0, ValueError), (1.5, TypeError), ("2", TypeError)]
)
def test_numbers_of_threads(threads: Any, error: type[Exception]) -> None:
    x = tw.var("x", shape=(4,))
    with pytest.raises(error, match=r"compile: threads .*\[test_limits"):
        tw.Graph([x], x + 1).compile(threads=threads)


# ------------------------------------------------------------------------ memory


def graph_of_large_values() -> tw.Graph:
    x = tw.var("x", shape=(64, 64))

    def layers(h: Any) -> Any:
        for _ in range(8):
            h = np.tanh(h @ x)
        return np.sum(h)

    return tw.Graph([x], tw.grad(layers)(x * 1.0))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine of so many bytes, some of them free."""

    def machine_of(whole: int, free: int) -> None:
        monkeypatch.setattr(memory_limits, "MIN_CHECKED_BYTES", 1)
        monkeypatch.setattr(memory_limits, "total_bytes", lambda: whole)
        monkeypatch.setattr(memory_limits, "free_bytes", lambda: free)

    return machine_of


def test_a_plan_above_what_is_free_warns_and_one_above_all_memory_is_refused(
    small: Any, engine: str
) -> None:
    skip_without_binding(engine)
    graph = graph_of_large_values()
    free = graph.compile(engine=engine)
    arena = free.plan.peak_bytes
    small(10 * arena, 2 * arena)
    graph.compile(engine=engine)
    small(10 * arena, arena - 1)
    with pytest.warns(
        tw.PerformanceWarning, match=r"the plan takes .* are free.*memory=\d+"
    ) as said:
        program = graph.compile(engine=engine)
    least = int(str(said[0].message).partition("memory=")[2].partition(")")[0])
    assert least < arena
    value = numpy.linspace(0, 1, 64 * 64).reshape(64, 64)
    numpy.testing.assert_allclose(program(value), free(value))
    small(10 * arena, least + 4096)
    graph.compile(engine=engine, memory=least)
    small(arena - 1, arena - 1)
    with pytest.raises(MemoryError, match=rf"in all; compile\(memory={least}\).*\[test_limits"):
        graph.compile(engine=engine)


def test_the_system_is_asked_of_its_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert 0 < memory_limits.free_bytes() <= memory_limits.total_bytes()
    room = MemoryRoom(limit=1000000, free=600000)
    monkeypatch.setattr(memory_limits, "memory_rooms", lambda: [room])
    assert (memory_limits.free_bytes(), memory_limits.total_bytes()) == (600000, 1000000)
    monkeypatch.setattr(memory_limits, "memory_rooms", list)
    assert memory_limits.free_bytes() > 1000000
    monkeypatch.setattr(memory_limits, "_meminfo", dict)
    assert memory_limits.free_bytes() == sys.maxsize


# -------------------------------------------------------------------- directories


@pytest.mark.skipif(sys.platform != "linux", reason="each system has its own places")
@pytest.mark.parametrize(
    ("home", "caches", "expected"),
    [
        ("/home/me", None, "/home/me/.cache/tawny"),
        ("/home/me", "/caches", "/caches/tawny"),
        ("/home/me", "relative/caches", "/home/me/.cache/tawny"),
        ("here", None, None),
        ("here", "there", None),
        ("here", "/caches", "/caches/tawny"),
    ],
)
def test_relative_places_are_ignored(
    monkeypatch: pytest.MonkeyPatch, home: str, caches: str | None, expected: str | None
) -> None:
    monkeypatch.setenv("HOME", home)
    found = directory._users_cache.__wrapped__(home, None, caches)
    assert found == (None if expected is None else Path(expected))


def test_without_a_known_home_kernels_are_compiled_and_not_kept() -> None:
    code = """
import os, pwd
def unknown(number): raise KeyError(number)
pwd.getpwuid = unknown
for name in ("HOME", "XDG_CACHE_HOME", "TAWNY_CACHE"): os.environ.pop(name, None)
import numpy, tawny as tw, tawny.numpy as np
from tawny.engine.llvm.runtime.directory import cache_directory
from tawny.engine.cpu import unavailable
assert cache_directory() is None and unavailable() is None, unavailable()
x = tw.var("x", shape=(3,))
print(tw.Graph([x], np.exp(x)).compile()(numpy.zeros(3)).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1.0, 1.0, 1.0]", done.stderr


@pytest.mark.skipif(os.name != "posix", reason="files have owners and modes on POSIX")
def test_files_that_others_may_write_are_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("TAWNY_CACHE", str(tmp_path))
    key = "a" * 64
    cache.save(key, b"code")
    assert cache.load(key) == b"code"
    path = tmp_path / f"{key}.object"
    path.chmod(0o666)
    assert cache.load(key) is None
    cache.save(key, b"code")
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    with open(tmp_path / f"{key}.object", "rb") as file:
        assert not directory.is_ours(file.fileno())
    monkeypatch.undo()
    cache._lines.cache_clear()
    index = tmp_path / "index"
    index.write_bytes(b"structure and more\n")
    index.chmod(0o600)
    assert list(cache._lines(index)) == [b"structure"]
    cache._lines.cache_clear()
    index.chmod(0o622)
    assert cache._lines(index) == {}
    cache._lines.cache_clear()


# ------------------------------------------------------------------ command lines

USE = """
import numpy, tawny as tw, tawny.numpy as np
from tawny import eager, models, nn, optim, pebble, random, testing
x = tw.var("x", shape=(3, 3))
p = tw.Graph([x], [np.sum(np.exp(x) @ x), np.linalg.inv(x + np.eye(3) * 9)], updates={x: x * 0.5}).compile()
p(numpy.ones((3, 3))); p.run(steps=3); str(p.plan); p.last_run.executed
assert numpy.asarray(tw.grad(lambda v: np.sum(v ** 3))(numpy.ones(2))).tolist() == [3.0, 3.0]
assert tw.jit(lambda a: a + 1)(numpy.ones(2)).tolist() == [2.0, 2.0]
model = nn.Sequential(nn.Linear(4, 8), nn.relu, nn.Linear(8, 2))
assert nn.predict(model, numpy.ones((5, 4), "float32")).shape == (5, 2)
try: tw.Graph([x], x).compile(threads=0)
except ValueError: print("works")
"""


@pytest.mark.parametrize("flag", ["-O", "-OO"])
def test_python_without_assertions_and_documentation(flag: str) -> None:
    done = subprocess.run(
        [sys.executable, flag, "-c", USE], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["works"], done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_a_reader_of_the_doctor_may_leave() -> None:
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m tawny doctor | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("versions")
    assert done.stderr == ""


def test_a_value_that_no_memory_holds_is_refused_with_its_op_and_line() -> None:
    for make in (
        lambda: np.zeros((10**7, 10**7)),
        lambda: np.ones((10**7, 1)) @ np.ones((1, 10**7)),
        lambda: np.exp(np.broadcast_to(np.asarray(1.5), (10**7, 10**7))),
    ):
        array = make()
        with pytest.raises(MemoryError, match=rf"^{array.node.name}: .*\[test_limits\.py:\d+\]$"):
            array.numpy()
