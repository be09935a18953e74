"""The processor asked without LLVM, and what is remembered of LLVM's own answer."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tawny.engine.llvm.runtime import host as host_module
from tawny.engine.llvm.runtime import library, processor
from tawny.engine.llvm.runtime.host import LlvmFacts
from tawny.engine.llvm.runtime.processor import description, fingerprint


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache on disk."""
    monkeypatch.setenv("TAWNY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[LlvmFacts]:
    """What LLVM answers from here on."""
    answers: list[LlvmFacts] = []
    original = host_module._ask_llvm

    def noted() -> LlvmFacts:
        answers.append(original())
        return answers[-1]

    monkeypatch.setattr(host_module, "_ask_llvm", noted)
    return answers


CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Some (TM) processor
stepping\t: 1
cpu MHz\t\t: 2596.150
flags\t\t: fpu fma avx2

processor\t: 1
vendor_id\t: GenuineIntel
"""


def said(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> str | None:
    """The fingerprint where the system says this of the processor."""
    path.write_text(text)
    monkeypatch.setattr(processor, "CPUINFO", path)
    return fingerprint()


def test_the_fingerprint_is_that_of_all_processes_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fingerprint()
    assert here is not None
    code = "from tawny.engine.llvm.runtime.processor import fingerprint; print(fingerprint())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == here
    first = said(monkeypatch, tmp_path / "info", CPUINFO)
    assert first != here
    assert said(monkeypatch, tmp_path / "info", CPUINFO.replace("2596.150", "1200.0")) == first


@pytest.mark.parametrize("word", ["GenuineIntel", "Some (TM)", "stepping\t: 1", "avx2"])
def test_another_processor_has_another_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    first = said(monkeypatch, tmp_path / "info", CPUINFO)
    other = CPUINFO.replace(word, word + "0", 1)
    assert other != CPUINFO
    assert said(monkeypatch, tmp_path / "info", other) != first


def test_numpy_knows_the_processor_where_the_system_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "absent")
    assert dict(description()).keys() == {"machine", "NumPy"}
    features = np._core._multiarray_umath.__cpu_features__
    whole = fingerprint()
    assert whole is not None
    for feature in sorted(features):
        changed = {**features, feature: not features[feature]}
        monkeypatch.setattr(np._core._multiarray_umath, "__cpu_features__", changed)
        assert fingerprint() not in {whole, None}
    monkeypatch.delattr(np._core._multiarray_umath, "__cpu_features__")
    assert description() == ()
    assert fingerprint() is None


def test_another_llvm_changes_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding = tmp_path / "binding"
    binding.mkdir()
    spec = ModuleSpec("llvmlite", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(PathFinder, "find_spec", lambda name: spec)
    assert fingerprint() is None, "its library is not there"
    compiler, version = binding / "libllvmlite.so", tmp_path / "_version.py"
    compiler.write_bytes(b"one")
    version.write_text("version_version = '1'")
    os.utime(compiler, (5, 5))
    seen = [fingerprint()]
    compiler.write_bytes(b"longer")
    os.utime(compiler, (5, 5))
    seen.append(fingerprint())
    os.utime(compiler, (5, 6))
    seen.append(fingerprint())
    version.write_text("version_version = '2'")
    seen.append(fingerprint())
    assert None not in seen
    assert len(set(seen)) == 4
    monkeypatch.setattr(PathFinder, "find_spec", lambda name: None)
    assert fingerprint() is None


def test_what_llvm_says_is_remembered(fresh: Path, asked: list[LlvmFacts]) -> None:
    first = host_module._facts()
    assert asked == [first]
    assert host_module._facts() == first
    assert len(asked) == 1
    assert host_module.host().identity == host_module.host.__wrapped__().identity


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b",+avx512f",
        lambda data: data.replace(b"-", b"+", 1),
        lambda data: b"\xff" * 50,
    ],
)
def test_a_damaged_record_is_not_believed(fresh: Path, asked: list[LlvmFacts], damage: Any) -> None:
    first = host_module._facts()
    (record,) = fresh.glob("machine-*")
    whole = record.read_bytes()
    assert damage(whole) != whole
    record.write_bytes(damage(whole))
    assert host_module._facts() == first
    assert len(asked) == 2
    assert record.read_bytes() == whole


def test_a_record_of_another_processor_is_not_used(
    fresh: Path, asked: list[LlvmFacts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it lies where this one's would."""
    host_module._facts()
    (record,) = fresh.glob("machine-*")
    name = record.name.partition("-")[2]
    monkeypatch.setattr(host_module, "fingerprint", lambda: name + "0" * 40)
    host_module._facts()
    assert len(asked) == 2
    monkeypatch.setattr(host_module, "fingerprint", lambda: "1" * 64)
    host_module._facts()
    assert len(asked) == 3


@pytest.mark.parametrize("why", ["no cache", "nothing known"])
def test_llvm_is_asked_where_nothing_can_be_remembered(
    fresh: Path, asked: list[LlvmFacts], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "no cache":
        monkeypatch.setenv("TAWNY_CACHE", "off")
    else:
        monkeypatch.setattr(processor, "description", tuple)
    for _ in range(2):
        host_module._facts()
    assert len(asked) == 2
    assert not fresh.exists() or not list(fresh.glob("machine-*"))


def test_code_of_other_features_has_other_keys(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer features, another processor to tune for, another LLVM: none finds the others' code."""
    real = host_module._facts()
    monkeypatch.setattr(host_module, "_can_run", lambda *_: True)
    whole = "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
    fewer = "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe"
    kinds = [
        real._replace(features=whole),
        real._replace(features=fewer),
        real._replace(features=fewer.replace("+fma", "-fma")),
        real._replace(features=whole, cpu="another"),
        real._replace(features=whole, version="1.2.3"),
        real._replace(features=whole, triple="aarch64-linux-gnu"),
        real._replace(features=fewer, triple="aarch64-linux-gnu"),
    ]
    keys: list[str] = []
    for facts in kinds:
        monkeypatch.setattr(host_module, "_facts", lambda facts=facts: facts)
        there = host_module.host.__wrapped__()
        monkeypatch.setattr(library, "host", lambda there=there: there)
        keys.append(library._key("the same text"))
    assert len(set(keys)) == len(kinds)


BUILDING = """
import sys
import numpy as np
import tawny as tw
import tawny.numpy as tnp
x = tw.var("x", shape=(16, 300), dtype="float32")
y = tnp.softmax(tnp.tanh(x @ np.ones((300, 400), np.float32)) + 1)
program = tw.Graph([x], y).compile()
program(np.ones((16, 300), np.float32))
tw.evaluate(tnp.sum(tnp.asarray(np.ones(5000)) * 2))
print("llvmlite" in sys.modules)
"""


def test_a_process_that_finds_all_code_needs_no_llvm(fresh: Path) -> None:
    environment = {**os.environ, "TAWNY_CACHE": str(fresh)}

    def run() -> str:
        command = [sys.executable, "-c", BUILDING]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert [run(), run()] == ["True", "False"]
    (record,) = fresh.glob("machine-*")
    record.unlink()
    assert [run(), run()] == ["True", "False"]
