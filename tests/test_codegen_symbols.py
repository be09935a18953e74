"""What compiled code calls that is not its own: nothing but what every system's libraries have.

Functions that only a compiler's own library has (`__truncdfhf2` and the like) are not among them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import dtype as dt
from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import PTR, Module
from tawny.engine.llvm.runtime.compiler import object_code
from tawny.engine.llvm.runtime.elf import ObjectFile
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import _SHARED
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.expressions import emit_op, is_supported
from tawny.engine.llvm.scalar.numbers import load_vector, store_vector
from tawny.op import ELEMENTWISE

LIBRARIES = {
    name + kind for name in ("ceil", "floor", "fma", "rint", "trunc") for kind in ("", "f")
} | {"memcpy", "memmove", "memset"}
"""Of the C standard: the system's libm and libc."""

DTYPES = tuple(map(np.dtype, ("i2", "u8", "f2", "f8")))
"""One of each way to compute."""


def undefined(module: Module) -> set[str]:
    """What a module calls of others, but for the libraries it says it needs."""
    text = module.text()
    required = [library() for name, library in _SHARED.items() if f"; requires {name}\n" in text]
    own = {symbol for library in required for symbol in library.code.addresses}
    return {*ObjectFile(object_code(text, host())).undefined_symbols()} - own


def of_ops(dtypes: tuple[DType, ...]) -> set[str]:
    """What all elementwise ops call, of a vector of each dtype."""
    module = Module(host(), finished=True)
    for number, dtype in enumerate(dtypes):
        for name, op in ELEMENTWISE.items():
            given = (dtype,) * op.info.arity
            try:
                if not is_supported(op, given):
                    continue
            except TypeError:
                continue
            addresses = {f"p{i}": PTR for i in range(len(given) + 1)}
            with module.function(f"{name}{number}", addresses) as f:
                numbers = [load_vector(f, dtype, place, 4) for place in f.arguments[:-1]]
                result = emit_op(f, op, given, numbers)
                store_vector(f, op.infer_dtype(*given), result, f.arguments[-1])
    return undefined(module)


def of_casts() -> set[str]:
    """What all conversions call."""
    module = Module(host(), finished=True)
    for a in dt.DTYPES:
        for b in dt.DTYPES:
            with module.function(f"{a}_{b}", {"x": PTR, "y": PTR}) as f:
                number = load_vector(f, a, f.arguments[0], 4)
                store_vector(f, b, cast(f, number, a, b), f.arguments[1])
    return undefined(module)


def check_halves() -> None:
    """Conversions to and from float16 have NumPy's bits."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    numbers = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = (numbers[1:] + numbers[:-1]) / 2
    edges = [np.inf, np.nan, 65519.99, 65520, 1e300, 5e-324, 0.0, 2.0**-25, 3 * 2.0**-26]
    for wide in (np.float32, np.float64):
        check_cast(halves, np.dtype(wide))
        exact = middles.astype(wide)
        beside = [np.nextafter(exact, wide(to)) for to in (0, 99999)]
        with np.errstate(over="ignore", under="ignore"):
            given = np.concatenate([exact, *beside, np.array(edges).astype(wide)])
        check_cast(np.concatenate([given, -given]), np.dtype(np.float16))


def check_cast(given: np.ndarray, dtype: DType) -> None:
    """A conversion by compiled code has NumPy's bits, but for those of NaN."""
    x = tw.var("x", shape=given.shape, dtype=given.dtype)
    (got,) = tw.Graph([x], [tnp.astype(x, dtype)]).compile()(given)
    with np.errstate(all="ignore"):
        want = given.astype(dtype)
    none = np.isnan(want)
    assert np.isnan(got[none]).all()
    assert got[~none].tobytes() == want[~none].tobytes()


def test_elementwise_ops_call_nothing_but_the_systems_libraries() -> None:
    assert of_ops(DTYPES) <= LIBRARIES


def test_conversions_call_nothing_but_the_systems_libraries() -> None:
    assert of_casts() <= LIBRARIES


def test_halves_are_converted_as_numpy_converts_them() -> None:
    check_halves()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="an instruction set of x86-64")
def test_the_same_without_instructions_for_halves() -> None:
    code = (
        "import numpy, test_codegen_symbols as t; t.check_halves();"
        "from tawny.engine.llvm.runtime.host import host; assert not host().converts_halves;"
        "print(*((t.of_casts() | t.of_ops((numpy.dtype('f2'),))) - t.LIBRARIES))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parent,
        env={**os.environ, "TAWNY_ISA": "sse2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr
