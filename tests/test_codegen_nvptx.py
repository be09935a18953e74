"""The arithmetic of elements for another target: kernels of NVIDIA's GPUs, as PTX."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tawny.numpy  # noqa: F401
from codegen_harness import body_of
from tawny import dtype as dt
from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import I32, I64, Function, Module, Value, pointer
from tawny.engine.llvm.runtime.compiler import assembly
from tawny.engine.llvm.scalar.bodies import ElementCode, emit, lower_body
from tawny.engine.llvm.scalar.numbers import load_scalar, parts, storage_type, store_scalar
from tawny.engine.llvm.targets import nvptx
from tawny.op import ELEMENTWISE, Elementwise

TARGET = nvptx("sm_80")


def thread_number(f: Function) -> Value:
    """The number of this thread among all of the grid."""

    def register(name: str) -> Value:
        return f.convert("zext", f.intrinsic(f"nvvm.read.ptx.sreg.{name}.x", I32, overload=()), I64)

    return register("ctaid") * register("ntid") + register("tid")


def write_kernel(module: Module, name: str, code: ElementCode) -> None:
    """A kernel of one thread for each element: it reads, computes and writes where it is."""
    dtypes = [*code.reads, *[code.dtype(r) for r in code.results]]
    given = {f"p{i}": pointer(TARGET.global_space) for i in range(len(dtypes))}
    with module.function(name, given | {"count": I64}, kernel=True) as f:
        *bases, count = f.arguments
        number = thread_number(f)
        with f.when(number < count):
            places = [
                f.element(base, number * parts(dtype), storage_type(dtype))
                for base, dtype in zip(bases, dtypes, strict=True)
            ]
            reads, writes = places[: len(code.reads)], places[len(code.reads) :]
            numbers = [load_scalar(f, *read) for read in zip(code.reads, reads, strict=True)]
            results = emit(f, code, numbers)
            for result, value, place in zip(code.results, results, writes, strict=True):
                store_scalar(f, code.dtype(result), value, place)


def code_of(op: Elementwise, dtype: DType) -> ElementCode | None:
    """The body of an op on operands of one dtype; None where it is refused or left to NumPy."""
    try:
        loop = lower_body(body_of(op, *[np.zeros(7, dtype)] * op.info.arity))
    except TypeError:
        return None
    return None if loop is None else loop.code


def ptx_of(codes: dict[str, ElementCode]) -> str:
    """Kernels of these names in one module."""
    module = Module(TARGET)
    for name, code in codes.items():
        write_kernel(module, name, code)
    return assembly(module.text(), TARGET)


@pytest.mark.parametrize("dtype", [*dt.DTYPES, dt.bfloat16()], ids=str)
def test_every_op_is_a_kernel_of_a_gpu(dtype: DType) -> None:
    found = {name: code_of(op, dtype) for name, op in ELEMENTWISE.items()}
    codes = {name: code for name, code in found.items() if code is not None}
    assert len(codes) >= (40 if dtype.kind == "c" else 80)
    ptx = ptx_of(codes)
    assert re.findall(r"^\.visible \.entry (\w+)\(", ptx, re.MULTILINE) == [*codes]
    assert ".extern" not in ptx
    assert len(re.findall(r"\bst\.global\.", ptx)) >= len(codes)


@pytest.mark.parametrize("dtype", [dt.INT64, dt.UINT64], ids=str)
@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_all_bits_of_a_shift_s_count_are_looked_at(name: str, dtype: DType) -> None:
    """LLVM 22 leaves out a test whether a count is below 64, and shifts by its lower half."""
    code = code_of(ELEMENTWISE[name], dtype)
    assert code is not None
    assert re.search(r"(setp\.\w+|min)\.u64 .*, 6[34];", ptx_of({name: code}))
