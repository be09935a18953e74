"""Every function that NumPy has takes NumPy's arguments: names, order, kinds and defaults."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import tawny as tw
import tawny.eager
import tawny.numpy as tnp
from cases import each, parts
from numpy_calls import CALLS, VALUES
from tawny.array import Array
from tawny.numpy.absent import ABSENT

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


@each(row.values for row in NAMES)
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
        warnings.filterwarnings("ignore", "numpy.fix is deprecated")  # from NumPy 2.5 on
        return eval(call, {**values, "np": module})  # lambdas see globals alone


@pytest.mark.usefixtures("engine")
def test_calls_give_what_numpy_gives(engine: str) -> None:
    values = Outcomes(engine).take()
    _check_all(values.__getitem__)


def test_eager_calls_give_what_numpy_gives() -> None:
    kept = {name: value.copy() for name, value in VALUES.items()}
    _check_all(lambda call: parts(_evaluate(call, tawny.eager, VALUES)))
    for name, value in VALUES.items():
        np.testing.assert_array_equal(value, kept[name])


def _check_all(given: Callable[[str], list[object]]) -> None:
    """Compare all calls at once, since programs are made of all; say which of them fail."""
    wrong = {}
    for call in CALLS:
        try:
            _same(given(call), _evaluate(call, np, VALUES))
        except Exception as error:
            wrong[call] = repr(error)
    assert wrong == {}


def _same(got: list[object], expected: object) -> None:
    wanted = parts(expected)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        if isinstance(g, Exception):
            raise g
        if isinstance(w, (bool, int, str, np.dtype, type)):
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
    assert missing == [f"np.{name}(" for name in CALLED_BELOW]


CALLED_BELOW = (
    "copyto", "fill_diagonal", "from_dlpack", "place", "put", "put_along_axis",
    "putmask", "save", "savetxt", "savez", "savez_compressed",
)  # fmt: skip
"""Functions that give nothing back or know nothing of arrays, and one that takes its own kind."""


# -------------------------------------------------------------------- changes of arrays

CHANGES = """
np.put(x, [0, 5, -1], [7.0, 8.0])
np.put(x, [0, 50], 1.0, "clip")
np.put(x, [13], 1.0, mode="wrap")
np.put(i, [1, 1], [5, 6])
np.put_along_axis(x, i[:, :1] % 3, 9.0, 1)
np.put_along_axis(x, i % 3, y, 0)
np.put_along_axis(v, k, w, None)
np.fill_diagonal(s, 7.0)
np.fill_diagonal(x, [1.0, 2.0, 3.0])
np.fill_diagonal(x.T.copy(), 0.0)
np.place(x, b, [1.0, 2.0])
np.putmask(x, b, y)
np.putmask(x, x > 0, [1.0, 2.0, 3.0])
np.copyto(x, 3)
np.copyto(x, i)
np.copyto(x, y, "same_kind", b)
np.copyto(x, y[0], where=b)
x.sort()
x.sort(0)
x.sort(axis=1, kind="stable")
x.partition(1, 1); x.sort(1)
x.fill(7)
x.put([0, 1], 5.0)
np.add(x, y, out=x)
np.add(x, 1, x)
np.sqrt(y, out=x, where=b)
np.sum(t, 0, None, x)
np.cumsum(x, 1, out=x)
np.clip(x, -1, 1, out=x)
np.matmul(s, p, out=s)
np.dot(s, p, s)
np.take(x, [0, 1, 2, 0], 1, x)
np.concatenate([x[:1], y[:2]], 0, x)
"""


@pytest.mark.parametrize("call", CHANGES.strip().splitlines())
def test_a_change_is_numpys(call: str) -> None:
    wanted, eager = ({n: v.copy() for n, v in VALUES.items()} for _ in range(2))
    lazy = {name: tnp.asarray(value) for name, value in VALUES.items()}
    exec(call, {"np": np, **wanted})
    exec(call, {"np": tawny.eager, **eager})
    exec(call, {"np": tnp, **lazy})
    for name, value in wanted.items():
        np.testing.assert_allclose(eager[name], value, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(lazy[name].numpy(), value, rtol=1e-12, err_msg=name)
        assert lazy[name].dtype == value.dtype


def test_out_is_refused_where_the_change_would_not_be_seen() -> None:
    x = tw.var("x", shape=(3,))
    kept = tnp.zeros((2, 3))
    row = kept[0]
    for out, message in (
        (x, "out is variable 'x'"), (row, "a view of another one"), (np.zeros(3), "out is ndarray"),
        (tnp.zeros(4), r"broadcast_to: operand 0 has shape \(3,\)"), (tnp.zeros(3, int), "must cast to it"),
    ):  # fmt: skip
        before = getattr(out, "node", None)
        with pytest.raises((TypeError, ValueError), match=message):
            tnp.add(x, 1.0, out=out)
        assert getattr(out, "node", None) is before
    with pytest.raises(ValueError, match=r"sum: out has shape \(4,\); it must have that of the"):
        tnp.sum(tnp.ones((2, 3)), 0, out=tnp.zeros(4))
    with pytest.raises(TypeError, match=r"divmod: out must be a tuple of 2 arrays or None"):
        tnp.divmod(x, 2, out=tnp.zeros(3))
    with pytest.raises(TypeError, match=r"put: operand 0 is ndarray; accepted: a lazy array"):
        tnp.put(np.zeros(3), 0, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('np.zeros(3, order="F")', "zeros: order is 'F'; accepted: 'C', 'K', 'A': where elements"),
        ("np.ones(3, like=[1])", "ones: like is list; accepted: None"),
        ('np.concatenate([x, x], casting="unsafe")', "concatenate: casting is 'unsafe'; accepted"),
        ("np.concatenate([x, x], dtype=int)", "concatenate: operand 0 has dtype float64, which does"),
        ('np.add(x, x, signature="dd->d")', "add: signature is 'dd->d'; accepted: None: use dtype="),
        ("np.add(x, x, dtype=int)", "add: dtype is int64; an operand of dtype float64 does not"),
        ("np.add(x, x, where=b)", "add: where= leaves the other elements undefined"),
        ("np.add(x, x, axis=0)", "add: unknown argument 'axis'; accepted: out"),
        ("np.array(x, ndmax=2)", "array: ndmax is 2; accepted: 0"),
        ("np.max(x, where=b)", "max: where= needs initial="),
        ("np.sum(x, where=x)", "sum: where has dtype float64; accepted: bool"),
        ("np.var(x, ddof=1, correction=0)", "var: ddof is 1 and correction 0; give one of them"),
        ("np.quantile(x, 0.5, weights=y)", "quantile: weights= is not taken"),
        ('np.quantile(x, 0.5, method="odd")', "quantile: method is 'odd'; accepted: 'linear'"),
        ('np.sort(x, kind="bubble")', "sort: kind is 'bubble'; accepted: 'quicksort'"),
        ('np.sort(x, kind="stable", stable=True)', "sort: kind and stable came; give one"),
        ('np.linalg.qr(p, "raw")', "qr: mode is 'raw'; accepted: 'reduced', 'complete', 'r'"),
        ("np.clip(x, 0, 1, min=0)", "clip: a_min and min came; give one of them"),
        ('np.take(x, 0, mode="odd")', "take: mode is 'odd'; accepted: 'raise', 'wrap', 'clip'"),
        ('x.astype(int, casting="safe")', "astype: float64 does not cast to int64 by casting='safe'"),
        ("np.partition(x, 9)", "partition: kth is 9; it must be from -4 to 3"),
        ('np.einsum("ij->i", x, optimize="odd")', "einsum: optimize is 'odd'; accepted: True"),
        ("np.polyder(v, -1)", "polyder: m is -1; it must be at least 0"),
        ("np.fill_diagonal(v, 1.0)", r"fill_diagonal: operand 0 has shape \(5,\); accepted"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(call: str, message: str) -> None:
    lazy = {name: tw.var(name, shape=v.shape, dtype=v.dtype) for name, v in VALUES.items()}
    with pytest.raises((TypeError, ValueError), match=f"^{message}") as refused:
        eval(call, {"np": tnp, **lazy})
    assert "test_signatures" in str(refused.value) or "<string>" in str(refused.value)


def test_values_are_saved_as_numpy_saves_them(tmp_path) -> None:
    x = tnp.arange(6.0).reshape(2, 3)
    for module in (tnp, tawny.eager, np):  # NumPy's own functions take lazy arrays too
        module.save(tmp_path / "x.npy", x)
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x.numpy())
        module.savetxt(tmp_path / "x.txt", x, "%.3f", ",")
        np.testing.assert_array_equal(np.loadtxt(tmp_path / "x.txt", delimiter=","), x.numpy())
        if module is not np:
            module.savez(tmp_path / "x.npz", x, b=x + 1)
            module.savez_compressed(tmp_path / "y.npz", x, b=x + 1)
            for name in ("x.npz", "y.npz"):
                with np.load(tmp_path / name) as saved:
                    np.testing.assert_array_equal(saved["arr_0"], x.numpy())
                    np.testing.assert_array_equal(saved["b"], x.numpy() + 1)
    with pytest.raises(TypeError, match="depends on variable 'v'"):
        tnp.save(tmp_path / "v.npy", tw.var("v"))


# ----------------------------------------------------------------------------- names


@pytest.mark.parametrize("module", [tnp, tawny.eager], ids=["numpy", "eager"])
def test_every_name_of_numpy_is_here_or_answered(module: object) -> None:
    for name in np.__all__:
        if name in tnp.__all__:
            assert hasattr(module, name)
            continue
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': [a-zA-Z]") as answer:
            getattr(module, name)
        assert str(answer.value).endswith(ABSENT[name])
    assert not set(ABSENT) & set(tnp.__all__)
    assert set(ABSENT) - {"row_stack"} <= set(np.__all__)  # NumPy 2.5 has dropped that
    with pytest.raises(AttributeError, match=r"has no attribute 'no_such_name'$"):
        module.no_such_name  # noqa: B018
    for part in ("linalg", "fft"):
        assert set(getattr(np, part).__all__) <= set(getattr(tnp, part).__all__)


@pytest.mark.parametrize(
    "module", [tnp, tnp.linalg, tnp.fft, tawny.eager, tw, tw.nn, tw.optim], ids=lambda m: m.__name__
)
def test_names_listed_are_public(module: object) -> None:
    assert sorted(dir(module)) == sorted(module.__all__)
    assert not {"Final", "annotations", "importlib", "Any"} & set(dir(module))


def test_arrays_list_what_users_call() -> None:
    assert not {"rename", "is_shared"} & set(dir(Array))
