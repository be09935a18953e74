"""User functions: when they run, what is asked of their results, and how their errors arrive."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tawny.eager
import tawny.numpy as tnp
from tawny.engine.reference import run
from tawny.ops.creation import var
from tawny.ops.delay import delay, fold, lazy_print, map_elements, scan

X = np.arange(6.0).reshape(2, 3)


def test_nothing_runs_before_the_array_is_evaluated() -> None:
    calls: list[np.ndarray] = []

    def f(a: np.ndarray) -> np.ndarray:
        calls.append(a)
        return a * 2

    y = delay(f, X)
    assert calls == []
    assert (y.shape, y.dtype) == ((2, 3), np.float64)
    np.testing.assert_array_equal(y.numpy(), X * 2)
    assert len(calls) == 1
    z = y + 1
    np.testing.assert_array_equal(z.numpy(), X * 2 + 1)
    assert len(calls) == 1


def test_operands_are_read_only() -> None:
    def f(a: np.ndarray) -> np.ndarray:
        a[0] = 7
        return a

    x = np.array(X)
    with pytest.raises(ValueError, match="read-only"):
        delay(f, x).numpy()
    with pytest.raises(ValueError, match="read-only"):
        tawny.eager.delay(f, x)
    np.testing.assert_array_equal(x, X)


def test_a_function_may_keep_or_return_what_it_likes() -> None:
    kept = np.zeros(3)
    y = delay(lambda: kept, shape=3, dtype="float64")
    value = y.numpy()
    kept[:] = 5
    assert value.tolist() == [0, 0, 0]
    x = var(shape=(2, 3))
    same = delay(lambda a: a, x)
    given = np.array(X)
    (value,) = run([same.node], {x.node: given})
    value[:] = 9
    np.testing.assert_array_equal(given, X)


def test_impure_calls_are_never_merged_and_pure_ones_are() -> None:
    x = tnp.asarray(X)
    assert delay(np.negative, x).node is not delay(np.negative, x).node
    assert delay(np.negative, x, pure=True).node is delay(np.negative, x, pure=True).node
    assert delay(np.negative, x, pure=True).node is not delay(np.positive, x, pure=True).node
    assert delay(np.negative, x, pure=True).node is not delay(np.negative, x + 1, pure=True).node
    assert map_elements(abs, x).node is not map_elements(abs, x).node
    assert map_elements(abs, x, pure=True).node is map_elements(abs, x, pure=True).node
    assert fold(max, x, 0, pure=True).node is fold(max, x, 0, pure=True).node
    assert scan(max, x, 0, pure=True).node is not scan(max, x, 1, pure=True).node
    assert lazy_print(x).node is not lazy_print(x).node


def test_functions_are_told_apart_by_identity() -> None:
    class Alike:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self, by: float) -> None:
            self.by = by

        def __eq__(self, other: object) -> bool:
            return True

        def __call__(self, a: np.ndarray) -> np.ndarray:
            return a * self.by

    x = tnp.asarray(X)
    two, three = (delay(Alike(k), x, pure=True) for k in (2.0, 3.0))
    np.testing.assert_array_equal(two.numpy(), X * 2)
    np.testing.assert_array_equal(three.numpy(), X * 3)


class Odd(Exception):
    """An exception that cannot be made from a message."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code


@pytest.mark.parametrize("error", [ValueError("as it was"), KeyError("k"), Odd(3, "d")])
def test_exceptions_reach_the_caller_unchanged(error: Exception) -> None:
    broken = [True]

    def f(a: np.ndarray) -> np.ndarray:
        if broken:
            raise error
        return a

    y = delay(f, X) + 1
    with pytest.raises(type(error)) as caught:
        y.numpy()
    assert caught.value is error
    (note,) = caught.value.__notes__
    assert "delay" in note
    assert "test_delay.py:" in note
    broken.clear()
    np.testing.assert_array_equal(y.numpy(), X + 1)


def test_declared_shape_and_dtype_are_enforced() -> None:
    with pytest.raises(
        ValueError, match=r"gave shape \(3, 2\), and \(2, 3\) was declared"
    ) as caught:
        delay(np.transpose, X).numpy()
    assert "test_delay.py:" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="gave dtype bool, and float64 was declared") as caught:
        delay(np.isnan, X).numpy()
    assert "test_delay.py:" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="gave dtype object"):
        delay(lambda a: None, X).numpy()
    assert delay(np.isnan, X, dtype=bool).numpy().dtype == bool
    with pytest.raises(TypeError, match="gave float64 numbers, which are not int64"):
        map_elements(lambda v: v / 2, np.arange(3)).numpy()
    with pytest.raises(TypeError, match="which are not float64"):
        map_elements(str, X).numpy()
    with pytest.raises(OverflowError):
        map_elements(lambda v: v - 1, np.zeros(2, np.uint8)).numpy()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: delay(lambda: 1), ValueError, "delay: shape is needed"),
        (lambda: delay(lambda: 1, shape=()), ValueError, "delay: dtype is needed"),
        (lambda: delay(3, X), TypeError, "delay: f must be a function, not int 3"),
        (lambda: delay(abs, X, shape=(-1,)), ValueError, "delay: shape"),
        (lambda: delay(abs, X, dtype="object"), TypeError, "delay: dtype"),
        (lambda: map_elements(X, abs), TypeError, "map_elements: "),
        (lambda: fold(max, np.zeros((0, 3)), 0), ValueError, "fold: .* give initial"),
        (lambda: fold(max, X, 2), ValueError, "fold: axis 2"),
        (lambda: fold(max, X, 0, np.zeros(2)), ValueError, "does not broadcast"),
        (lambda: scan(max, X, -3), ValueError, "scan: axis -3"),
        (lambda: lazy_print(X, max_rows=-1), ValueError, "lazy_print: max_rows"),
        (lambda: lazy_print(X, header=3), TypeError, "lazy_print: header"),
        (lambda: lazy_print(X, format="%d"), TypeError, "lazy_print: format"),
    ],
)
def test_mistakes_are_refused_when_built(call, kind, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "[test_delay.py:" in str(caught.value)


def test_elements_come_as_python_numbers() -> None:
    seen: list[type] = []
    x = np.ones(2, np.float32)
    map_elements(lambda v: seen.append(type(v)) or v, x).numpy()
    fold(lambda a, b: seen.extend((type(a), type(b))) or a, x).numpy()
    assert set(seen) == {float}


def test_fold_goes_in_order() -> None:
    x = np.arange(1, 5)
    assert int(fold(lambda a, b: 10 * a + b, x)) == 1234
    assert int(fold(lambda a, b: 10 * a + b, x, initial=9)) == 91234
    assert scan(lambda a, b: 10 * a + b, x).numpy().tolist() == [1, 12, 123, 1234]


def printed(x: object, **options: object) -> str:
    file = io.StringIO()
    lazy_print(x, file=file, **options).numpy()
    return file.getvalue()


def test_lazy_print(capsys: pytest.CaptureFixture[str]) -> None:
    x = tnp.asarray(X)
    shown = lazy_print(x, header="x is")
    assert shown is not x
    y = shown + 1
    assert capsys.readouterr().out == ""
    y.numpy()
    assert capsys.readouterr().out == f"x is\n{X}\n"
    table = np.arange(100).reshape(10, 10)
    rows = [
        "  0   1 ...   8   9",
        " 10  11 ...  18  19",
        "... ... ... ... ...",
        " 90  91 ...  98  99",
    ]
    assert printed(table, max_rows=3, max_columns=4) == "\n".join(rows) + "\n"
    assert printed(np.array([1.0, 2.5]), format=lambda v: f"<{v:.1f}>") == "<1.0> <2.5>\n"
    assert printed(np.array(2.5), format=lambda v: f"<{v:.1f}>") == "<2.5>\n"
    assert printed(np.zeros((0, 3)), max_rows=2) == "\n"
    with pytest.raises(ZeroDivisionError):
        printed(X, format=lambda v: 1 / 0)
