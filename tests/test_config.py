"""Settings from Python and from the environment."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.configuration import SETTINGS
from tawny.engine.cpu.threads.pool import default_threads
from tawny.engine.llvm.runtime.directory import cache_directory
from tawny.engine.llvm.runtime.host import INSTRUCTION_SETS
from tawny.settings import OVERRIDES, is_debugging


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch):
    for setting in SETTINGS.values():
        monkeypatch.delenv(setting.variable, raising=False)
    before = OVERRIDES.copy()
    OVERRIDES.clear()
    yield
    OVERRIDES.clear()
    OVERRIDES.update(before)


def test_settings_take_the_place_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TAWNY_THREADS", "3")
    monkeypatch.setenv("TAWNY_CACHE", "off")
    assert (tw.config.threads, tw.config.cache_dir) == (3, "off")
    tw.config.threads = np.int64(2)
    assert (tw.config.threads, default_threads()) == (2, 2)
    with tw.config(threads=1, cache_dir=tmp_path, debug=True) as config:
        assert config is tw.config
        assert (config.threads, default_threads()) == (1, 1)
        assert config.cache_dir == cache_directory() == tmp_path
        assert config.debug is is_debugging() is True
        with tw.config(threads=4):
            assert default_threads() == 4
        assert default_threads() == 1
        tw.config.cache_dir = "off"
    assert (tw.config.threads, default_threads()) == (2, 2)
    assert tw.config.debug is None
    assert not is_debugging()
    assert cache_directory() is None
    tw.config.threads = None
    assert default_threads() == 3


def test_a_block_that_fails_takes_its_settings_back() -> None:
    with pytest.raises(RuntimeError), tw.config(threads=1):
        raise RuntimeError
    assert tw.config.threads is None


def test_programs_compiled_meanwhile_follow() -> None:
    x = tw.var("x", (64,))
    graph = tw.Graph([x], [tnp.sin(x) * 2])
    with tw.config(threads=1, cache_dir="off", debug=True):
        program = graph.compile()
    np.testing.assert_allclose(program(np.ones(64))[0], np.sin(np.ones(64)) * 2, rtol=1e-15)


def draws(count: int = 2) -> list[float]:
    return [float(tw.random.uniform()) for _ in range(count)]


def test_the_seed_is_that_of_random_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    tw.random.seed(7)
    seven = draws()
    tw.random.seed(1)
    first = draws(1)
    with tw.config(seed=7):
        assert tw.config.seed == 7
        assert draws() == seven
    assert first + draws(1) == seeded(1)
    tw.config.seed = 7
    assert draws() == seven
    monkeypatch.setenv("TAWNY_SEED", "7")
    tw.config.seed = None
    assert draws() == seven
    monkeypatch.setenv("TAWNY_SEED", "seven")
    tw.config.seed = None
    with pytest.raises(ValueError, match="TAWNY_SEED: 'seven' is no seed"):
        draws()
    tw.random.seed(0)


def seeded(seed: int) -> list[float]:
    with tw.random.local_seed(seed):
        return draws()


WRONG = {
    r"threads must be an integer, not str '2'": {"threads": "2"},
    r"threads is 0; it must be at least 1": {"threads": 0},
    r"cache_dir is 3; accepted: a directory, or 'off'": {"cache_dir": 3},
    r"cache_dir is ['\"].*pyproject.toml['\"], which is no directory": {
        "cache_dir": "pyproject.toml"
    },
    r"isa is 'mmx'; accepted: 'avx512bf16', 'avx512vnni', 'avx512', 'avx2vnni', 'avx2', 'sse2'": {
        "isa": "mmx"
    },
    r"isa must be set before the first program is compiled": {"isa": "avx2"},
    r"debug is 1; accepted: True, False": {"debug": 1},
    r"verbose is 'yes'; accepted: True, False": {"verbose": "yes"},
    r"seed must be an integer, not float 1.5": {"seed": 1.5},
    r"seed is -1; it must be from 0 to 2\*\*64 - 1": {"seed": -1},
    r"unknown setting 'thread'; accepted: threads, cache_dir, seed, verbose, isa, debug": {
        "thread": 1
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_change_nothing(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    ((name, value),) = WRONG[message].items()
    with pytest.raises((TypeError, ValueError), match=rf"^config: {message}.*\[test_config.py"):
        setattr(tw.config, name, value)
    with (
        pytest.raises((TypeError, ValueError), match=message),
        tw.config(**({"threads": 1} | {name: value})),
    ):
        pass
    assert OVERRIDES == {}


def test_settings_are_listed_and_documented() -> None:
    shown = repr(tw.config)
    page = (Path(__file__).parent.parent / "docs" / "programs.md").read_text()
    read = "".join(p.read_text() for p in Path(tw.__file__).parent.rglob("*.py"))
    assert {s.variable for s in SETTINGS.values()} == set(re.findall(r"TAWNY_[A-Z]+", read))
    for name, setting in SETTINGS.items():
        assert f"{name}=None  ({setting.variable}" in shown
        assert f"`{name}` | `{setting.variable}`" in page
        assert name in dir(tw.config)
    assert [level.name for level in INSTRUCTION_SETS] == [
        "avx512bf16", "avx512vnni", "avx512", "avx2vnni", "avx2",
    ]  # fmt: skip
    with pytest.raises(AttributeError, match="config has no setting 'thread'"):
        _ = tw.config.thread


def test_the_instruction_set_is_chosen_before_the_first_program() -> None:
    text = (
        "import tawny as tw, numpy; tw.config.isa = 'sse2'; x = tw.var('x', 3);"
        "p = tw.Graph([x], x * 2).compile(); p(numpy.ones(3));"
        "from tawny.engine.llvm.runtime.host import host; print(host().vector_bytes, tw.config.isa)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["16", "sse2"]
