"""The host: which instructions compiled code may use, and how wide its vectors are.

An instruction set is used only when the CPU says that it has it and a trial in a process of its own
did not die of it: some virtual machines announce instructions that they do not run.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

from tawny.engine.llvm.ir.builder import F32, I8, I32, I64, PTR, Function, Module, Value
from tawny.engine.llvm.ir.byte_products import add_byte_products
from tawny.engine.llvm.ir.half_products import add_half_products
from tawny.engine.llvm.runtime.compiler import llvm, object_code
from tawny.engine.llvm.runtime.directory import cache_directory, read_note, write_note
from tawny.engine.llvm.runtime.processor import fingerprint, survives
from tawny.engine.llvm.targets import Target
from tawny.errors import value_error
from tawny.settings import read_setting

LIMIT: Final = "TAWNY_ISA"
"""The environment variable that names the greatest instruction set to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTarget(Target):
    """The processor that runs the process."""

    tune: str
    """The CPU whose timings the scheduler assumes."""
    llvm: str
    """The version of LLVM."""

    @property
    def identity(self) -> str:
        """All that compiled code depends on, besides its source."""
        return f"llvm {self.llvm} {self.triple} {self.cpu} {self.features} {self.tune}"


# ------------------------------------------------------------ instruction sets


def _try_avx2(f: Function, place: Value) -> None:
    x = f.load(F32.by(8), place, 1)
    f.store(f.fma(x, x, x), place, 1)
    n = f.load(I32.by(8), place, 1)
    f.store(n * n, place, 1)


def _try_avx512(f: Function, place: Value) -> None:
    x = f.load(F32.by(16), place, 1)
    f.store(f.fma(x, x, x), place, 1)
    n = f.load(I64.by(8), place, 1)
    f.store(n * n, place, 1)
    b = f.load(I8.by(64), place, 1)
    f.store(f.select(b < 0, b + b, b), place, 1)
    m = f.load(I64.by(4), place, 1)
    f.store(m >> m, place, 1)


Trial = Callable[[Function, Value], None]
"""Writes code that uses some instructions, on the 64 bytes at an address."""


def _and_then(trial: Trial, more: Trial) -> Trial:
    """One trial after the other."""

    def tried(f: Function, place: Value) -> None:
        trial(f, place)
        more(f, place)

    return tried


def _try_byte_products(lanes: int) -> Trial:
    """Multiply bytes."""

    def tried(f: Function, place: Value) -> None:
        x = f.load(I32.by(lanes), place, 1)
        f.store(add_byte_products(f, x, x, x), place, 1)

    return tried


def _try_half_products(lanes: int) -> Trial:
    """Multiply numbers of bfloat16."""

    def tried(f: Function, place: Value) -> None:
        x = f.load(F32.by(lanes), place, 1)
        f.store(add_half_products(f, x, x, x), place, 1)

    return tried


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """An instruction set: its CPU name in LLVM, what CPUID must announce, its vectors' bytes."""

    name: str
    cpu: str
    needs: frozenset[str]
    vector_bytes: int
    trial: Trial
    features: str = ""
    """Instructions beside those of the CPU, as LLVM is told of them."""

    def with_byte_products(self, name: str, feature: str) -> InstructionSet:
        """The set with instructions that multiply bytes and add the products."""
        name, lanes = f"{self.name}{name}", self.vector_bytes // 4
        return self._extend(name, feature, _try_byte_products(lanes))

    def with_half_products(self, name: str, feature: str) -> InstructionSet:
        """The set with instructions that multiply bfloat16 and add to float32."""
        return self._extend(name, feature, _try_half_products(self.vector_bytes // 4))

    def _extend(self, name: str, feature: str, trial: Trial) -> InstructionSet:
        return replace(
            self,
            name=name,
            needs=self.needs | {feature},
            trial=_and_then(self.trial, trial),
            features=",".join([*filter(None, [self.features]), f"+{feature}"]),
        )


AVX512: Final = InstructionSet(
    "avx512",
    "x86-64-v4",
    frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    64,
    _try_avx512,
)
AVX2: Final = InstructionSet(
    "avx2",
    "x86-64-v3",
    frozenset({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}),
    32,
    _try_avx2,
)
_AVX512_VNNI: Final = AVX512.with_byte_products("vnni", "avx512vnni")
INSTRUCTION_SETS: Final = (
    _AVX512_VNNI.with_half_products("avx512bf16", "avx512bf16"),
    _AVX512_VNNI,
    AVX512,
    AVX2.with_byte_products("vnni", "avxvnni"),
    AVX2,
)
"""The instruction sets of x86-64, greatest first."""


class LlvmFacts(NamedTuple):
    """Facts that LLVM gives of itself and of the processor."""

    version: str
    triple: str
    cpu: str
    features: str
    """The names of all, after `+` or `-`."""


@cache
def host() -> HostTarget:
    """The machine that runs the process."""
    facts = _facts()
    if not facts.triple.startswith("x86_64"):
        return _host_target(facts, facts.cpu, 16, features=facts.features)
    announced = frozenset([f[1:] for f in facts.features.split(",") if f.startswith("+")])
    for level in _allowed_sets():
        target = _host_target(facts, level.cpu, level.vector_bytes, features=level.features)
        if level.needs <= announced and _can_run(level, target):
            return target
    return _host_target(facts, "x86-64", 16, has_fma=False)


def _host_target(
    facts: LlvmFacts, cpu: str, vector_bytes: int, *, features: str = "", has_fma: bool = True
) -> HostTarget:
    """The target of code for a CPU, tuned for the one that LLVM has found."""
    bits = 8 * vector_bytes
    attributes = (
        f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" '
        f'"no-trapping-math"="true" "tune-cpu"="{facts.cpu}"'
    )
    return HostTarget(
        triple=facts.triple,
        cpu=cpu,
        features=features,
        attributes=attributes,
        vector_bytes=vector_bytes,
        has_fma=has_fma,
        tune=facts.cpu,
        llvm=facts.version,
    )


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


def _can_run(level: InstructionSet, target: HostTarget) -> bool:
    """Whether the level's trial does not die; asked once for each kind of machine."""
    directory = cache_directory()
    words = (target.triple, target.tune, level.cpu, level.features)
    kind = "\n".join([platform.node(), platform.release(), *words])
    if directory is None:
        return _try_set(level, target)
    record = directory / f"isa-{hashlib.sha256(kind.encode()).hexdigest()[:24]}"
    known = read_note(record, kind)
    if known not in {"runs", "dies"}:
        known = "runs" if _try_set(level, target) else "dies"
        write_note(record, kind, known)
    return known == "runs"


def _try_set(level: InstructionSet, target: HostTarget) -> bool:
    """Run the trial in a process of its own; where none can be started, believe CPUID."""
    module = Module(target, finished=True)
    with module.function("trial", {"place": PTR}) as f:
        level.trial(f, f.arguments[0])
    image = llvm().ObjectFileRef.from_data(object_code(module.text(), target))
    return survives(b"".join([s.data() for s in image.sections() if s.is_text()]))
