"""Every function that NumPy has takes NumPy's arguments: names, order, kinds and defaults."""

from __future__ import annotations

import inspect
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import tawny as tw
import tawny.eager
import tawny.numpy as tnp
from cases import parts
from engines import ENGINES, GROUPING
from grouping_engine import grouping_engine
from numpy_calls import CALLS, VALUES
from tawny.array import Array

MODULES = {"": (np, tnp), "linalg": (np.linalg, tnp.linalg), "fft": (np.fft, tnp.fft)}
NO_VALUE = np._NoValue

STATES = {
    "keepdims": False,
    "where": True,
    "initial": None,
    "mean": None,
    "correction": None,
    "rtol": None,
    "min": None,
    "max": None,
    "a_min": None,
    "a_max": None,
    "prepend": None,
    "append": None,
    "descending": False,
}
"""What arguments are here whose default NumPy does not say, by what its documentation says."""

GENERALISED = {"axes", "axis", "keepdims"}
"""Options of NumPy's generalised ufuncs, which say where axes of operands lie: move them instead."""

EXCEPTIONS = {
    "arange": "NumPy's signature says less than it takes: start= and a positional dtype",
    "matmul": GENERALISED,
    "matvec": GENERALISED,
    "vecmat": GENERALISED,
    "vecdot": GENERALISED,
    "fix": "a ufunc here, so its operand is positional; NumPy's is a Python function",
    "real": "a ufunc here, so its operand is positional; NumPy's is a Python function",
    "imag": "a ufunc here, so its operand is positional; NumPy's is a Python function",
    "clip": {"kwargs"},
    "einsum": {"kwargs"},
}
"""Functions that differ: why, or the arguments that are not taken as one (`**kwargs` are named)."""

NAMES = [
    pytest.param(module, name, id=f"{module}.{name}" if module else name)
    for module, (theirs, ours) in MODULES.items()
    for name in sorted(theirs.__all__)
    if callable(getattr(theirs, name))
    and not isinstance(getattr(theirs, name), type)
    and name in ours.__all__
]


def _compare(theirs: inspect.Signature, ours: inspect.Signature, left_out: set[str]) -> None:
    given = list(ours.parameters.values())
    wanted = [p for p in theirs.parameters.values() if p.name not in left_out]
    for index, p in enumerate(wanted):
        if p.kind is p.POSITIONAL_ONLY:  # its name is never written
            own = given[index]
            assert own.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD), own
            assert (own.default is own.empty) == (p.default is p.empty), own
            continue
        assert p.name in ours.parameters, f"{p.name} is missing: {ours}"
        own = ours.parameters[p.name]
        if p.kind is p.KEYWORD_ONLY:
            assert own.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD), own
        else:
            assert own is given[index], f"{p.name} is not argument {index}: {ours}"
            assert own.kind is p.kind, f"{own} is {own.kind.description}"
        if p.default is NO_VALUE:
            assert own.default == STATES[p.name], own
        elif p.default == (None, None):  # of `out` for two results
            assert own.default is None
        else:
            assert type(own.default) is type(p.default), own
            assert own.default == p.default, own
    for own in given[sum(p.kind is p.POSITIONAL_ONLY for p in wanted) :]:
        if own.name not in theirs.parameters:
            optional = own.default is not own.empty or own.kind is own.VAR_KEYWORD
            assert optional, f"{own} is no argument of NumPy's"


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_signature_is_numpys(module: str, name: str) -> None:
    theirs, ours = (getattr(m, name) for m in MODULES[module])
    reason = set() if module else EXCEPTIONS.get(name, set())
    if isinstance(reason, str):
        _binds_as_numpy(name)
        return
    _compare(inspect.signature(theirs), inspect.signature(ours), reason)


def _binds_as_numpy(name: str) -> None:
    """What the exceptions take nevertheless."""
    signature = inspect.signature(getattr(tnp, name))
    if name == "arange":
        for call in (((0, 5, 1, float), {}), ((), {"start": 1, "stop": 5}), ((), {"stop": 5})):
            signature.bind(*call[0], **call[1])
    else:
        signature.bind(1.0)
        assert "out" in signature.parameters or name != "fix"


METHODS = [
    n
    for n in dir(np.ndarray)
    if not n.startswith("_") and n in dir(Array) and callable(getattr(np.ndarray, n))
]
WITHOUT = {
    "byteswap", "ctypes", "dump", "dumps", "getfield", "resize", "setfield", "setflags", "tofile",
    "view",
}  # fmt: skip
"""Methods of NumPy's arrays about their memory, which lazy arrays have none of."""


@pytest.mark.parametrize("name", METHODS)
def test_method_is_numpys(name: str) -> None:
    theirs = inspect.signature(getattr(np.ndarray, name))
    _compare(theirs, inspect.signature(getattr(Array, name)), {"kwargs"})


def test_methods_are_numpys() -> None:
    theirs = {n for n in dir(np.ndarray) if callable(getattr(np.ndarray, n))}
    assert {n for n in theirs - set(dir(Array)) if not n.startswith("_")} == WITHOUT - {"ctypes"}


# ------------------------------------------------------------------------------ calls


class Outcomes:
    """What every call gives: by NumPy, eagerly, and as outputs of one program for each engine."""

    def __init__(self, engine: str) -> None:
        lazy = {name: tw.var(name, shape=v.shape, dtype=v.dtype) for name, v in VALUES.items()}
        self.results = {call: _attempt(call, lazy) for call in CALLS}
        arrays = [a for r in self.results.values() for a in r if isinstance(a, Array)]
        program = tw.Graph(list(lazy.values()), arrays).compile(engine=engine)
        self.values = iter(program(**VALUES))

    def take(self) -> dict[str, list[object]]:
        return {
            call: [next(self.values) if isinstance(a, Array) else a for a in result]
            for call, result in self.results.items()
        }


def _attempt(call: str, lazy: dict[str, Array]) -> list[object]:
    """The results of a call, or the error: of that call alone the test shall fail."""
    try:
        return parts(_evaluate(call, tnp, lazy))
    except Exception as error:
        return [error]


def _evaluate(call: str, module: object, values: dict[str, object]) -> object:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's own about all-NaN slices
        return eval(call, {**values, "np": module})  # lambdas see globals alone


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[str, list[object]]:
    with grouping_engine() if request.param == GROUPING else nullcontext():
        return Outcomes(request.param).take()


@pytest.mark.parametrize("outcomes", ENGINES, indirect=True)
@pytest.mark.parametrize("call", CALLS)
def test_call_gives_what_numpy_gives(call: str, outcomes: dict[str, list[object]]) -> None:
    _same(outcomes[call], _evaluate(call, np, VALUES))


@pytest.mark.parametrize("call", CALLS)
def test_eager_call_gives_what_numpy_gives(call: str) -> None:
    kept = {name: value.copy() for name, value in VALUES.items()}
    _same(parts(_evaluate(call, tawny.eager, VALUES)), _evaluate(call, np, VALUES))
    for name, value in VALUES.items():
        np.testing.assert_array_equal(value, kept[name])


def _same(got: list[object], expected: object) -> None:
    wanted = parts(expected)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        if isinstance(g, Exception):
            raise g
        if isinstance(w, (bool, int, str, np.dtype)):
            assert g == w
            continue
        np.testing.assert_allclose(
            g, w, rtol=1e-5 if _is_single(w) else 1e-10, atol=1e-6 if _is_single(w) else 1e-10
        )
        assert np.shape(g) == np.shape(w)
        assert np.asarray(g).dtype == np.asarray(w).dtype


def _is_single(x: object) -> bool:
    return np.asarray(x).dtype in (np.float32, np.complex64)


def test_every_function_of_numpy_is_called() -> None:
    """But for those that take one array, or two, and the options of ufuncs."""
    text = "\n".join(CALLS)
    missing = []
    for module, name in (p.values for p in NAMES):
        path = f"np.{module}.{name}(" if module else f"np.{name}("
        plain = not module and isinstance(getattr(np, name), np.ufunc)
        if path not in text and not plain:
            missing.append(path)
    assert missing == ["np.from_dlpack("]
