"""Completeness: every registry answers for every op, every function is public, documented and tested."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import array_api_strict
import pytest

import tawny
import tawny.eager
import tawny.numpy as tnp
import tawny.ops
from cases import each
from numpy_calls import CALLS
from tawny.engine.reference import KERNELS
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.op import CLASSES, ELEMENTWISE, FACTS, Facts, Gradient, Op
from test_functions import CASES

SOURCE = Path(tawny.__file__).parent
FUNCTION_NAMES = [n for n in tnp.__all__ if inspect.isfunction(getattr(tnp, n))]
SUBMODULES = ("linalg", "fft")


def test_every_op_is_declared_in_one_of_two_ways() -> None:
    assert set(FACTS) == set(CLASSES) | set(ELEMENTWISE)
    assert not set(CLASSES) & set(ELEMENTWISE)


def test_the_reference_engine_has_a_kernel_for_each_op() -> None:
    assert set(KERNELS) == set(CLASSES.values())


@each(FACTS.values(), lambda facts: facts.name)
def test_declaration_is_whole(facts: Facts) -> None:
    assert facts.doc.splitlines()[0].endswith("."), "documented in a sentence"
    assert facts.arity is None or facts.arity >= 0
    assert facts.dtype.says
    assert facts.domain.low < facts.domain.high
    if facts.oracle:
        module, *path = facts.oracle.split(".")
        where = importlib.import_module(module)
        for name in path:
            where = (
                getattr(where, name)
                if hasattr(where, name)
                else importlib.import_module(f"{where.__name__}.{name}")
            )


def test_what_has_no_derivative_is_known() -> None:
    """Ops that differentiation refuses: bits, user functions, and what only fusion makes."""
    assert {n for n, f in FACTS.items() if f.gradient is Gradient.NONE} == {
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert",
        "bitwise_left_shift", "bitwise_right_shift", "nextafter",
        "delay", "map_elements", "fold", "scan",
        "matmul_bytes", "convolution_bytes", "matmul_halves", "convolution_halves", "eliminate", "solve_factored", "partial_sort", "partial_argsort", "group", "fused_product", "transposed_matmul", "gather_pieces", "bands",
    }  # fmt: skip


def test_every_public_function_is_documented_and_typed() -> None:
    for name in FUNCTION_NAMES:
        function = getattr(tnp, name)
        assert function.__doc__, name
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, name
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, (name, parameter)


def test_every_public_function_has_a_case() -> None:
    tested = {case.name for _, case in CASES} | set(ELEMENTWISE)
    tested |= {alias for alias, f in PUBLIC_FUNCTIONS.items() if f.__name__ in tested}
    tested |= {n for n in FUNCTION_NAMES if f"np.{n}(" in "\n".join(CALLS)}
    untested = [n for n in FUNCTION_NAMES if n not in tested and n not in ELSEWHERE]
    assert untested == []
    for module in SUBMODULES:
        names = getattr(tnp, module).__all__
        assert [
            n for n in names if f"{module}.{n}" not in tested and n not in tested | {"LinAlgError"}
        ] == []


ELSEWHERE = {
    "from_dlpack": "test_array",
    "delay": "test_delay",
    "name": "test_scopes",
    "lazy_print": "test_delay",
    "map_elements": "test_delay",
    "fold": "test_delay",
    "scan": "test_delay",
    "finfo": "test_types",
    "iinfo": "test_types",
    "can_cast": "test_types",
    "result_type": "test_types",
    "isdtype": "test_types",
    "__array_namespace_info__": "test_types",
    "copyto": "test_signatures",
    "fill_diagonal": "test_signatures",
    "place": "test_signatures",
    "put": "test_signatures",
    "put_along_axis": "test_signatures",
    "putmask": "test_signatures",
    "save": "test_signatures",
    "savetxt": "test_signatures",
    "savez": "test_signatures",
    "savez_compressed": "test_signatures",
}
"""Functions that no case can hold, and the file that tests them."""


def test_functions_tested_elsewhere_are() -> None:
    for name, file in ELSEWHERE.items():
        assert f"{name}(" in (Path(__file__).parent / f"{file}.py").read_text(), name


def test_the_namespace_is_one_hand_written_list() -> None:
    """Everything registered is exported, but for what only operators and protocols call."""
    internal = {
        "getitem", "setitem", "at", "in_place", "convert", "__array_ufunc__", "__array_function__",
    }  # fmt: skip
    top = {n for n in PUBLIC_FUNCTIONS if "." not in n}
    assert top - set(tnp.__all__) - internal == set()
    assert len(tnp.__all__) == len(set(tnp.__all__))
    assert all(hasattr(tnp, n) for n in tnp.__all__)
    for module in SUBMODULES:
        registered = {n.partition(".")[2] for n in PUBLIC_FUNCTIONS if n.startswith(f"{module}.")}
        assert registered <= set(getattr(tnp, module).__all__)


def test_chapters_declare_ops_and_nothing_else_does() -> None:
    means = {"assignment", "body", "body_rows", "precision", "selection", "subgraph", "window"}
    chapters = {op.__module__ for op in CLASSES.values()} | {
        f"tawny.ops.{op.facts().chapter}" for op in ELEMENTWISE.values()
    }
    folder = Path(tawny.ops.__path__[0])
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"} - means
    assert chapters == {f"tawny.ops.{name}" for name in files} | {"tawny.node"}


def test_public_names_are_listed_once_and_load() -> None:
    stub = Path(tawny.__file__).with_suffix(".pyi").read_text("utf-8")
    assert sorted(tawny.__all__) == sorted(
        [*re.findall(r"as (\w+)$", stub, re.MULTILINE), "__version__"]
    )
    assert sorted(dir(tawny)) == sorted(tawny.__all__)
    for name in tawny.__all__:
        assert getattr(tawny, name) is not None
    with pytest.raises(AttributeError, match="module 'tawny' has no attribute 'missing'"):
        _ = tawny.missing
    top = (getattr(tawny, name) for name in tawny.__all__)
    modules = [tawny, *(m for m in top if isinstance(m, ModuleType)), tawny.nn.init]
    assert {tnp, tawny.eager, tawny.special, tawny.testing, tawny.models} < set(modules)
    for module in (*modules, tnp.fft, tnp.linalg):
        names: dict[str, object] = {}
        exec(f"from {module.__name__} import *", names)
        assert names.keys() - {"__builtins__"} == set(module.__all__)
        assert sorted(dir(module)) == sorted(module.__all__)
        homes = {getattr(value, "__module__", None) for value in names.values()}
        assert homes.isdisjoint(("__future__", "collections.abc", "dataclasses", "typing"))


def test_eager_has_the_same_names() -> None:
    assert set(tawny.eager.__all__) == set(tnp.__all__)
    for name in FUNCTION_NAMES:
        eager, lazy = (inspect.signature(getattr(m, name)) for m in (tawny.eager, tnp))
        assert eager.parameters == lazy.parameters


STANDARD = [n for n in array_api_strict.__all__ if not n.startswith("_") and n not in {
    "set_array_api_strict_flags", "get_array_api_strict_flags", "reset_array_api_strict_flags",
    "ArrayAPIStrictFlags", "Device",
}]  # fmt: skip


@each(STANDARD)
def test_the_standards_names_are_here(name: str) -> None:
    assert hasattr(tnp, name)


@each(
    [
        (module, name)
        for module in ("", *SUBMODULES)
        for name in (getattr(array_api_strict, module) if module else array_api_strict).__all__
        if inspect.isfunction(
            getattr(getattr(array_api_strict, module) if module else array_api_strict, name)
        )
        and "flags" not in name
    ],
)
def test_signatures_are_the_standards(module: str, name: str) -> None:
    """Every call that the standard allows binds; what NumPy allows besides is in `test_signatures`."""
    theirs = inspect.signature(
        getattr(getattr(array_api_strict, module) if module else array_api_strict, name)
    )
    ours = inspect.signature(getattr(getattr(tnp, module) if module else tnp, name))
    given = list(ours.parameters.values())
    for index, parameter in enumerate(theirs.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY:
            kind = ours.parameters[parameter.name].kind
            assert kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD), parameter
        elif parameter.kind is parameter.VAR_POSITIONAL:
            assert given[index].kind is parameter.VAR_POSITIONAL
        else:
            kinds = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            assert given[index].kind in kinds, parameter
            if parameter.kind is not parameter.POSITIONAL_ONLY:
                keyword = ours.parameters[parameter.name].kind
                assert keyword in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    for parameter in given[len(theirs.parameters) :]:
        assert parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD


def test_no_wildcard_arm_over_ops() -> None:
    """No `match` on an op has a catch-all arm: a new op must be answered for everywhere."""
    for file in SOURCE.rglob("*.py"):
        for match in ast.walk(ast.parse(file.read_text())):
            if not isinstance(match, ast.Match):
                continue
            classes = {
                pattern.cls.id
                for case in match.cases
                for pattern in ast.walk(case)
                if isinstance(pattern, ast.MatchClass) and isinstance(pattern.cls, ast.Name)
            }
            if classes & {c.__name__ for c in CLASSES.values()}:
                wild = [
                    c
                    for c in match.cases
                    if isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None
                ]
                assert not wild, f"{file}:{match.lineno}"


def test_every_chapter_is_loaded() -> None:
    chapters = {m.name for m in pkgutil.iter_modules([str(SOURCE / "ops")])}
    loaded = {c.__module__.rpartition(".")[2] for c in CLASSES.values()} | {"elementwise"}
    assert loaded <= chapters | {"node"}
    assert issubclass(Op, object)
