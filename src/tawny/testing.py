"""Assertions for users' own tests."""

from __future__ import annotations

from tawny.autodiff.checking import check_grads as check_grads
from tawny.errors import type_error
from tawny.graph.plan import Plan
from tawny.graph.program import Program
from tawny.memory.budget import parse_bytes
from tawny.public_names import export

__all__ = ["assert_peak", "check_grads"]
export(__name__, __all__)


def assert_peak(program: Program | Plan, memory: str | int) -> None:
    """Fail unless the planned peak is at most `memory`; says what is alive where it is reached.

    - `program`: a program, or a plan.
    - `memory`: the most it may be, `"512MB"` or bytes.

    Raises AssertionError.

        x = tw.var("x", (1000,))
        tw.testing.assert_peak(tw.Graph([x], np.exp(x)).plan(), "8kB")
    """
    plan = program.plan if isinstance(program, Program) else program
    if not isinstance(plan, Plan):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("assert_peak", f"{type(program).__name__} is neither a program nor a plan")
    budget = parse_bytes(memory)
    if plan.peak_bytes <= budget:
        return
    moments = plan.timeline()
    top = max(moments, key=lambda m: m.live_bytes).position if moments else 0
    listed = "\n".join(
        f"  {one.bytes:>14,} {one.kind:<10} {one.array!r}"
        if one.array is not None
        else f"  {one.bytes:>14,} scratch    of {plan.steps[top].array!r}"
        for one in plan.alive(top)
    )
    raise AssertionError(
        f"the planned peak is {plan.peak_bytes:,} bytes, more than {budget:,}; "
        f"alive at step {top}:\n{listed}"
    )
