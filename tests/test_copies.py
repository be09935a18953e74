"""Copies and pickles of what owns memory or is one of a kind: the object itself, or a clear error."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.numpy as np
from tawny.engine.llvm.runtime import elf_loader
from tawny.engine.llvm.runtime.library import MachineCode
from tawny.unique import Unique


def program(engine: str = "cpu") -> tw.Program:
    x = tw.var("x", shape=(4, 4))
    p = tw.Graph([x], [np.sin(x) @ x], name="copied").compile(engine=engine)
    p(numpy.ones((4, 4)))
    return p


def parts(p: tw.Program) -> dict[str, Any]:
    """What a user can reach from a program, and what is inside of it."""
    compiled = p._compiled
    executable: Any = compiled.executable
    found = {
        "run": p.last_run,
        "plan": p.plan,
        "graph": p.graph,
        "node": p.graph.output_nodes[0],
        "compiled": compiled,
        "executable": executable,
    }
    if p.engine != "cpu":
        return found
    table = executable._table
    (kernel, *_) = [k for k in table._kernels.values() if k is not None]
    return found | {
        "table": table,
        "pool": executable._pool,
        "library": kernel.library.code,
        "code": kernel.library.code.tracker,
    }


def test_copies_are_the_object_itself(engine: str) -> None:
    for name, part in parts(program(engine)).items():
        assert copy.copy(part) is part, name
        assert copy.deepcopy({"part": [part]})["part"][0] is part, name


def test_pickles_are_refused_with_a_way_out(engine: str) -> None:
    for name, part in parts(program(engine)).items():
        if name in ("graph", "plan"):  # these are data
            assert pickle.loads(pickle.dumps(part)) is not None
            continue
        with pytest.raises(TypeError, match=r"pickle: .*graph\.save.*\[test_copies\.py"):
            pickle.dumps(part)
        assert name


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_programs_say_what_to_do_instead(way: Any) -> None:
    p = program()
    with pytest.raises(TypeError, match=r"neither copied nor pickled; compile its graph again"):
        way(p)
    other = p.graph.compile()
    other.set(**p.state)
    numpy.testing.assert_array_equal(other.run()[0], p.run()[0])


def test_code_is_given_back_once_whatever_was_copied() -> None:
    p = program()
    before = len(elf_loader._released)
    held = parts(p)
    for part in held.values():
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with suppress(TypeError):
                way({"part": part})
    gc.collect()
    assert len(elf_loader._released) == before
    assert isinstance(held["library"], MachineCode)


def subclasses(kind: type) -> Iterator[type]:
    """All classes that inherit from one."""
    for own in type.__subclasses__(kind):
        yield own
        yield from subclasses(own)


def test_whatever_frees_memory_is_unique() -> None:
    """Every class with a destructor, or whose objects are finalised."""
    import tawny.engine.cpu  # noqa: F401

    owners = [
        kind
        for kind in subclasses(object)
        if str(kind.__module__).startswith("tawny") and "__del__" in vars(kind)
    ]
    assert elf_loader.LoadedCode in owners
    assert all(issubclass(kind, Unique) for kind in owners)


def test_programs_compiled_after_a_refused_copy_are_right() -> None:
    code = """
import copy, gc, numpy, tawny as tw, tawny.numpy as np
x = tw.var("x", shape=(2, 2)); p = tw.Graph([x], [np.sin(x) @ x]).compile(); p(numpy.ones((2, 2)))
for part in (p, p.last_run, {"run": p.last_run}, p._compiled, p._compiled.executable):
    try: copy.deepcopy(part)
    except TypeError: pass
gc.collect()
for k in range(1, 6):
    y = tw.var("y", shape=(3 * k, k + 1))
    got = tw.Graph([y], [np.sum(np.exp(y) @ y.T * k)]).compile()(numpy.ones((3 * k, k + 1)))[0]
    assert abs(float(got) - numpy.e * (k + 1) * 9 * k ** 3) < 1e-6 * float(got)
print("right")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["right"], done.stderr
