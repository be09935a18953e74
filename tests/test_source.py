"""The user's own line: in errors, warnings and nodes, whoever stands in between."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.numpy as np
from tawny import source
from tawny.errors import warn
from tawny.source import Origin, caller

LIBRARY = str(Path(numpy.__file__).parent.parent / "somebody" / "frame.py")
STANDARD = str(Path(inspect.__file__).parent / "reduce.py")
PROGRAM = str(Path(sys.executable).parent / "somebody")


def relay(file: str) -> Callable[..., Any]:
    """A function that calls another, from code that seems to lie in another file."""
    space: dict[str, Any] = {}
    exec(compile("def relay(call, *arguments): return call(*arguments)", file, "exec"), space)
    return space["relay"]


@pytest.mark.parametrize("file", [LIBRARY, STANDARD, PROGRAM, "<frozen runpy>", np.__file__])
def test_the_line_is_the_users_whoever_calls_in_between(file: str) -> None:
    between = relay(file)

    def here() -> source.Source | None:
        return between(between, caller)

    expected = f"test_source.py:{here.__code__.co_firstlineno + 1}"
    assert str(here()) == expected
    assert str(relay(LIBRARY)(between, here)) == expected


@pytest.mark.parametrize(
    ("file", "origin"),
    [
        (LIBRARY, Origin.PACKAGE),
        ("/usr/lib/python3/dist-packages/somebody.py", Origin.PACKAGE),
        (PROGRAM, Origin.PACKAGE),
        (STANDARD, Origin.NOBODY),
        ("<frozen runpy>", Origin.NOBODY),
        (numpy.__file__, Origin.NOBODY),
        (np.__file__, Origin.NOBODY),
        (__file__, Origin.USER),
        ("script.py", Origin.USER),
        ("<stdin>", Origin.USER),
        ("<string>", Origin.USER),
        ("/tmp/ipykernel_77/484557172.py", Origin.USER),
    ],
)
def test_whose_a_file_is(file: str, origin: Origin) -> None:
    assert source._origin(file) is origin


def test_without_the_users_own_code_it_is_the_innermost_package() -> None:
    found: list[object] = []
    space: dict[str, Any] = {"found": found, "caller": caller}
    inner = str(Path(LIBRARY).with_name("inner.py"))
    exec(compile("def note(): found.append(str(caller()))", inner, "exec"), space)
    exec(compile("\n\ndef work(): note()", LIBRARY, "exec"), space)
    thread = Thread(target=space["work"])
    thread.start()
    thread.join()
    assert found == ["inner.py:1"]


@pytest.mark.parametrize(
    "arguments", [["-m", "tawny", "inspect", "/nowhere"], ["-m", "tawny", "x"]]
)
def test_commands_show_no_line_of_python_itself(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "frozen" not in done.stderr
    assert "Traceback" not in done.stderr


def test_cells_of_notebooks_have_their_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {"/tmp/ipykernel_77/484557172.py": 7}

    def format_code_name(name: str) -> tuple[str, str] | None:
        return ("Cell", f"In[{cells[name]}]") if name in cells else None

    compiler = types.SimpleNamespace(format_code_name=format_code_name)
    notebook = types.ModuleType("IPython")
    shell = types.SimpleNamespace(compile=compiler)
    vars(notebook)["get_ipython"] = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    found: list[str] = []
    space: dict[str, Any] = {"found": found, "caller": caller}
    exec(compile("\nfound.append(str(caller()))", next(iter(cells)), "exec"), space)
    assert found == ["In[7]:2"]
    assert str(caller()).startswith("test_source.py:")
    shell.compile = None
    assert str(caller()).startswith("test_source.py:")


def test_an_error_through_scipy_names_the_users_line() -> None:
    linalg = pytest.importorskip("scipy.sparse.linalg")
    x = tw.var("x", shape=(3,))
    operator = linalg.LinearOperator((3, 3), matvec=lambda v: v)
    operator._matvec = lambda v: np.sum(x, axis=5)
    with pytest.raises(ValueError, match=r"test_source\.py:"):
        operator.matvec(numpy.ones(3))


def test_constants_that_graphs_share_come_from_no_place() -> None:
    x, y = tw.var("x", shape=(3,)), tw.var("y", shape=(3,))
    first, second = (x * 2.5).node, (y * 2.5).node
    shared = first.inputs[1]
    assert shared is second.inputs[1]
    assert shared.sources == ()
    listed = np.asarray([1.0, 2.0]).node
    assert listed.sources == ()


def test_a_warning_stands_at_the_users_line_and_is_shown_once() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):
            line = sys._getframe().f_lineno + 1
            relay(LIBRARY)(warn, "slow: because", tw.PerformanceWarning)
    (one,) = shown
    assert (one.filename, one.lineno, one.category) == (__file__, line, tw.PerformanceWarning)
    assert str(one.message) == f"slow: because  [test_source.py:{line}]"


def test_a_warning_can_be_about_other_places() -> None:
    x = tw.var("x")
    (place,) = x.node.sources
    with pytest.warns(tw.PerformanceWarning, match=rf"slow  \[test_source\.py:{place.line}\]"):
        warn("slow", tw.PerformanceWarning, about=x.node.sources * 2)
