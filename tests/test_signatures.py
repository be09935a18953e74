"""Every function that NumPy has takes NumPy's arguments: names, order, kinds and defaults."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tawny.numpy as tnp

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
    "pad": {"kwargs"},
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
