"""Whole parts of float32 as 32-bit integers, in one instruction where the processor has it."""

from __future__ import annotations

from typing import Final

from tawny.engine.llvm.ir.builder import F32, I16, I32, Function, Value

_MASKED: Final = "x86.avx512.mask.cvttps2dq.512"
_WHOLE: Final = {8: "x86.avx.cvtt.ps2dq.256", 4: "x86.sse2.cvttps2dq"}
"""Instructions by the lanes of their vectors."""

_CURRENT: Final = 4
"""The rounding that is asked of an instruction that does not round."""


def cut_by_instruction(f: Function, value: Value) -> Value | None:
    """The whole part, or the least integer where it does not fit; None without an instruction."""
    target, lanes = f.module.target, value.type.lanes
    if not target.triple.startswith("x86_64") or value.type.scalar != F32:
        return None
    if target.vector_bytes < value.type.nbytes * lanes:
        return None
    kind = I32.by(lanes)
    if lanes == 16:
        rest = f.constant(kind, 0), f.constant(I16, -1), f.constant(I32, _CURRENT)
        return f.intrinsic(_MASKED, kind, value, *rest, overload=())
    name = _WHOLE.get(lanes)
    return None if name is None else f.intrinsic(name, kind, value, overload=())
