"""The host: which instructions compiled code may use, and how wide its vectors are.

An instruction set is used only when the CPU says that it has it and a trial in a process of its own
did not die of it: some virtual machines announce instructions that they do not run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import platform
import stat
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from tawny.engine.llvm.runtime.processor import fingerprint, survives
from tawny.errors import value_error
from tawny.forking import ForkBarrier
from tawny.settings import read_setting

LIMIT: Final = "TAWNY_ISA"
"""The environment variable that names the greatest instruction set to use."""

LLVM_WORK: Final = ForkBarrier()
"""Held around LLVM's work: it has locks of its own, which a forked process would find held."""


@cache
def llvm() -> Any:
    """LLVM's binding, imported when the first kernel is compiled."""
    binding = importlib.import_module("llvmlite.binding")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    guard = getattr(binding.ffi.lib, "_lock", None)
    if guard is not None:  # the binding's own lock, which it holds too while objects are freed
        LLVM_WORK.guard(guard)
    return binding


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """An instruction set: its CPU name in LLVM, what CPUID must announce, its vectors' bytes."""

    name: str
    cpu: str
    needs: frozenset[str]
    vector_bytes: int
    trial: str
    """IR that uses it, of a function `trial(ptr)` on 64 bytes."""


AVX512: Final = InstructionSet(
    "avx512",
    "x86-64-v4",
    frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    64,
    """
    declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
    define void @trial(ptr %p) "min-legal-vector-width"="512" {
      %x = load <16 x float>, ptr %p, align 1
      %y = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %x, <16 x float> %x)
      store <16 x float> %y, ptr %p, align 1
      %i = load <8 x i64>, ptr %p, align 1
      %j = mul <8 x i64> %i, %i
      store <8 x i64> %j, ptr %p, align 1
      %b = load <64 x i8>, ptr %p, align 1
      %m = icmp slt <64 x i8> %b, zeroinitializer
      %d = add <64 x i8> %b, %b
      %s = select <64 x i1> %m, <64 x i8> %d, <64 x i8> %b
      store <64 x i8> %s, ptr %p, align 1
      %v = load <4 x i64>, ptr %p, align 1
      %w = ashr <4 x i64> %v, %v
      store <4 x i64> %w, ptr %p, align 1
      ret void
    }""",
)
AVX2: Final = InstructionSet(
    "avx2",
    "x86-64-v3",
    frozenset({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}),
    32,
    """
    declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
    define void @trial(ptr %p) {
      %x = load <8 x float>, ptr %p, align 1
      %y = call <8 x float> @llvm.fma.v8f32(<8 x float> %x, <8 x float> %x, <8 x float> %x)
      store <8 x float> %y, ptr %p, align 1
      %i = load <8 x i32>, ptr %p, align 1
      %j = mul <8 x i32> %i, %i
      store <8 x i32> %j, ptr %p, align 1
      ret void
    }""",
)
INSTRUCTION_SETS: Final = (AVX512, AVX2)
"""The instruction sets of x86-64, greatest first."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What code is generated for."""

    triple: str
    cpu: str
    features: str
    tune: str
    """The CPU whose timings the scheduler assumes."""
    vector_bytes: int
    has_fma: bool
    """Whether it multiplies and adds with one rounding; the math functions rely on it."""
    llvm: str
    """The version of LLVM."""

    @property
    def avx512(self) -> bool:
        """Whether AVX-512's own instructions may be used."""
        return self.cpu == AVX512.cpu

    @property
    def converts_halves(self) -> bool:
        """Whether it has instructions that widen and narrow float16."""
        return not self.triple.startswith("x86_64") or self.vector_bytes >= AVX2.vector_bytes

    @property
    def identity(self) -> str:
        """All that compiled code depends on, besides its source."""
        return f"llvm {self.llvm} {self.triple} {self.cpu} {self.features} {self.tune}"

    @property
    def attributes(self) -> str:
        """Attributes of every function."""
        bits = 8 * self.vector_bytes
        return (
            f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" '
            f'"no-trapping-math"="true" "tune-cpu"="{self.tune}"'
        )

    def target(self, effort: int = 2) -> Any:
        """LLVM's target machine; what it tries for better code, from 0 to 3."""
        return (
            llvm()
            .Target.from_triple(self.triple)
            .create_target_machine(
                cpu=self.cpu,
                features=self.features,
                opt=effort,
                reloc="pic",
                codemodel="small",
                jit=True,
            )
        )


class LlvmFacts(NamedTuple):
    """What LLVM says of itself and of the processor."""

    version: str
    triple: str
    cpu: str
    features: str
    """The names of all, after `+` or `-`."""


@cache
def host() -> Machine:
    """The machine that runs the process."""
    version, triple, name, features = _facts()
    if not triple.startswith("x86_64"):
        return Machine(triple, name, features, name, 16, has_fma=True, llvm=version)
    announced = frozenset([f[1:] for f in features.split(",") if f.startswith("+")])
    for level in _allowed_sets():
        if level.needs <= announced and _can_run(level, triple, name):
            return Machine(
                triple, level.cpu, "", name, level.vector_bytes, has_fma=True, llvm=version
            )
    return Machine(triple, "x86-64", "", name, 16, has_fma=False, llvm=version)


def _facts() -> LlvmFacts:
    """LLVM's answer, remembered for the same processor and the same LLVM."""
    directory = cache_directory()
    kind = None if directory is None else fingerprint()
    if directory is None or kind is None:
        return _ask_llvm()
    path = directory / f"machine-{kind[:24]}"
    known = read_note(path, kind).split(" ")
    if len(known) == len(LlvmFacts._fields):
        return LlvmFacts(*known)
    facts = _ask_llvm()
    write_note(path, kind, " ".join(facts))
    return facts


def _ask_llvm() -> LlvmFacts:
    binding = llvm()
    features: dict[str, bool] = binding.get_host_cpu_features()
    return LlvmFacts(
        ".".join(map(str, binding.llvm_version_info)),
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        ",".join(("+" if has else "-") + name for name, has in sorted(features.items())),
    )


def _allowed_sets() -> tuple[InstructionSet, ...]:
    """The instruction sets that the environment leaves."""
    limit = read_setting(LIMIT)
    names = [level.name for level in INSTRUCTION_SETS] + ["sse2"]
    if limit and limit not in names:
        raise value_error(LIMIT, f"{limit!r} is not known; accepted: {', '.join(names)}")
    return INSTRUCTION_SETS[names.index(limit) :] if limit else INSTRUCTION_SETS


# ---------------------------------------------------------------------- trials


def _can_run(level: InstructionSet, triple: str, name: str) -> bool:
    """Whether the level's trial does not die; asked once for each kind of machine."""
    directory = cache_directory()
    kind = "\n".join([platform.node(), platform.release(), triple, name, level.cpu])
    record = f"trial-{hashlib.sha256(kind.encode()).hexdigest()[:24]}"
    if directory is not None:
        known = _read(directory / record)
        if known in {"runs", "dies"}:
            return known == "runs"
    runs = _try_set(level, triple)
    if directory is not None:
        _write(directory / record, "runs" if runs else "dies")
    return runs


def _try_set(level: InstructionSet, triple: str) -> bool:
    """Run the trial in a process of its own; where none can be started, believe CPUID."""
    binding = llvm()
    target = binding.Target.from_triple(triple).create_target_machine(cpu=level.cpu, jit=True)
    module = binding.parse_assembly(level.trial, binding.create_context())
    image = binding.ObjectFileRef.from_data(target.emit_object(module))
    return survives(b"".join([s.data() for s in image.sections() if s.is_text()]))


# -------------------------------------------------------------------- memory


def read_note(path: Path, kind: str) -> str:
    """What a file says of a kind of thing; nothing where it is damaged or says it of another."""
    check, _, text = _read(path).partition(" ")
    return text if check == _check(kind, text) else ""


def write_note(path: Path, kind: str, text: str) -> None:
    """Write it down; a disk that cannot take it is no error."""
    _write(path, f"{_check(kind, text)} {text}")


def _check(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind} {text}".encode()).hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return


# ------------------------------------------------------------------- directory


def cache_directory() -> Path | None:
    """Where compiled code is kept across processes; None when it is not kept.

    `TAWNY_CACHE` names it, or says `off`.  Code is run from it, so a directory that others own or
    may write is not used.
    """
    named = read_setting("TAWNY_CACHE")
    if named.lower() in {"off", "0", "none"}:
        return None
    path = Path(named) if named else _users_cache(*map(os.environ.get, _PLACES))
    if path is None:
        return None
    try:
        state = _state(path)
    except OSError:
        return None
    if not stat.S_ISDIR(state.st_mode):
        return None
    if os.name == "posix" and (state.st_uid != os.getuid() or state.st_mode & 0o022):
        return None
    return path


def _state(path: Path) -> os.stat_result:
    """What the system says of a directory, which is made if it is not there."""
    with contextlib.suppress(FileNotFoundError):
        return os.stat(path)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.stat(path)


_PLACES: Final = ("HOME", "LOCALAPPDATA", "XDG_CACHE_HOME")
"""The environment variables that say where users' files are."""


@cache
def _users_cache(*places: str | None) -> Path | None:
    """The directory for our files among caches by each system's custom, where places are these.

    None where no absolute path is known: a relative one would be another in each directory.
    """
    home, (_, local, caches) = _home(), places
    if sys.platform == "win32":
        found = [local, home and home / "AppData" / "Local"]
    elif sys.platform == "darwin":
        found = [home and home / "Library" / "Caches"]
    else:
        found = [caches, home and home / ".cache"]
    absolute = [Path(path) for path in found if path and os.path.isabs(path)]
    return absolute[0] / "tawny" if absolute else None


def _home() -> Path | None:
    """The user's directory; None where nobody knows it, as in containers without users."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def is_ours(descriptor: int) -> bool:
    """Whether an open file is the user's own, and nobody else may write it."""
    state = os.fstat(descriptor)
    return os.name != "posix" or (state.st_uid == os.getuid() and not state.st_mode & 0o022)
