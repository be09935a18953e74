"""Formulas: programs that compute what the graph does, LaTeX that can be read, SymPy and back."""

from __future__ import annotations

import keyword
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.eager as eager
import tawny.numpy as tnp
from random_graphs import assert_close, evaluated, graph_of
from tawny.array import wrap
from tawny.formulas.formula import MOST_PARTS, write
from tawny.formulas.infix import Infix
from tawny.formulas.latex import FORMS, Latex, latex_lines
from tawny.node import make, toposort
from tawny.op import CLASSES, ELEMENTWISE
from test_functions import CASES

RNG = np.random.default_rng(2)
X, Y, A = tw.var("x", (3,)), tw.var("y", (3,)), tw.var("A", (2, 2))


def evaluate(text: str, **values: Any) -> Any:
    """What a program in infix notation gives."""
    names = {n: getattr(eager, n) for n in eager.__all__} | {
        "random": tw.random,
        "complex": complex,
    }
    names |= {"inf": np.inf, "nan": np.nan} | values
    *lines, result = text.splitlines()
    exec("\n".join(lines), names)
    return eval(result, names)


def parse_latex(array: tw.Array, shapes: bool = False) -> None:
    """Matplotlib's mathematics takes every line."""
    mathtext = pytest.importorskip("matplotlib.mathtext").MathTextParser("path")
    for name, text in latex_lines(write(array.node, Latex(array.node)), shapes):
        mathtext.parse(f"${name} {text}$")


# ------------------------------------------------------------------------ programs


def test_shared_parts_have_names_and_are_written_once() -> None:
    h = tnp.sin(X) + 1
    assert tw.infix(h * h - X / 2) == "h_1 = sin(x) + 1\nh_1 * h_1 - x / 2"
    cost = tnp.name(tnp.sum(h), "cost")
    assert tw.infix(cost * 3) == "cost = sum(sin(x) + 1)\ncost * 3"


def test_parentheses_stand_where_they_must() -> None:
    x, y, z = (tw.var(n) for n in "xyz")
    n, m = tw.var("n", dtype=int), tw.var("m", dtype=int)
    for array, text in [
        (x - (y - z), "x - (y - z)"),
        (x - y - z, "x - y - z"),
        (x + (y + z), "x + (y + z)"),
        (x * (y + z), "x * (y + z)"),
        (x / (y * z), "x / (y * z)"),
        (x / y * z, "x / y * z"),
        (-(x**2), "-x ** 2"),
        ((-x) ** 2, "(-x) ** 2"),
        ((x**y) ** z, "(x ** y) ** z"),
        (x ** (y**z), "x ** y ** z"),
        (x ** (-y), "x ** -y"),
        (x * -y, "x * -y"),
        (-(x * y), "-(x * y)"),
        (-x * y, "-x * y"),
        ((x < y) == (y < z), "(x < y) == (y < z)"),
        (tnp.asarray(-2.0) ** x, "(-2) ** x"),
        (x ** tnp.asarray(-3.0), "x ** -3"),
        (n & m | n ^ m, "n & m | n ^ m"),
        ((n | m) & n, "(n | m) & n"),
        ((n << 2) + m, "(n << 2) + m"),
        (~(n + m), "~(n + m)"),
        (-n % m, "-n % m"),
        (tnp.sqrt(x + y), "sqrt(x + y)"),
        (tnp.where(x < y, x, -y), "where(x < y, x, -y)"),
        (x * 0.1, "x * 0.1"),
        (x + np.inf, "x + inf"),
        (x * (1 + 2j), "x * (1+2j)"),
    ]:  # fmt: skip
        assert tw.infix(array) == text


def test_what_is_not_elementwise_is_written_as_people_write_it() -> None:
    x, m = tw.var("x", (4,)), tw.var("m", (3, 4))
    for array, text in [
        (m @ x, "m @ x"),
        (m.T, "m.T"),
        (x[::-1], "x[::-1]"),
        (m[1:, ::2], "m[1:, ::2]"),
        (m[:, np.array([0, 2])], "m[:, array([0, 2])]"),
        (tnp.sum(m), "sum(m)"),
        (tnp.mean(m, axis=0, keepdims=True), "mean(m, axis=0, keepdims=True)"),
        (tnp.reshape(m, (12,)), "reshape(m, (12,))"),
        (tnp.concat([x, x]), "concat([x, x], axis=0)"),
        (x.at[1:].set(0.0), "at(x)[1:].set(0.0)"),
        (tnp.astype(x, "float32"), "astype(x, float32)"),
        (tnp.linalg.inv(m[:, :3]), "linalg.inv(m[:, :3])"),
        (tw.delay(np.cbrt, x), "cbrt(x)"),
        (x * tnp.asarray(np.arange(4, dtype="f4")), "x * array([0.0, 1.0, 2.0, 3.0], dtype=float32)"),
        (x + tnp.asarray(np.arange(400.0))[:4], "x + c_1[:4]"),
    ]:  # fmt: skip
        assert tw.infix(array) == text


def test_names_are_names_of_python_and_of_no_function() -> None:
    x, y, z, w = (tw.var(n) for n in ["sin", "a.b", "lambda", "2 x"])
    text = tw.infix(x + y + z + w)
    assert text == "sin_ + a_b + lambda_ + _2_x"
    assert evaluate(text, sin_=1, a_b=2, lambda_=3, _2_x=4) == 10
    assert tw.infix(tw.var("h_1") * tnp.name(tnp.exp(X), "h_1")).startswith("h_1_1 = exp(x)")
    assert tw.infix(tw.var() + tw.var()) == "v + v_1"


def test_shapes_on_request() -> None:
    assert tw.infix(tnp.sum(X) * 2, shapes=True) == "# x: float64[3]\nsum(x) * 2  # float64[]"
    assert (
        tw.latex(X + 1, shapes=True)
        == r"\begin{aligned} x & \in \mathbb{R}^{3} \\  & x + 1 \ \in \mathbb{R}^{3} \end{aligned}"
    )


def test_a_long_chain_is_cut_into_parts() -> None:
    z = X
    for _ in range(50_000):
        z = tnp.sin(z)
    start = time.process_time()
    text, tex = tw.infix(z), tw.latex(z)
    assert time.process_time() - start < 20
    assert max(len(line) for line in text.splitlines()) < 10 * MOST_PARTS
    assert text.count("sin") == 50_000
    assert tex.count("sin") == 50_000
    z = X
    for _ in range(300):
        z = z * z + z
    assert len(tw.infix(z)) < 300 * 40, "shared parts are not expanded"


def test_a_part_that_a_form_repeats_has_a_name() -> None:
    product = wrap(make(ELEMENTWISE["quiet_multiply"], (tnp.sin(X).node, Y.node)))
    assert tw.infix(product) == "h_1 = sin(x)\nwhere(h_1 == 0, 0, h_1 * y)"


def operands_of(name: str, dtype: str) -> list[np.ndarray]:
    domain = ELEMENTWISE[name].info.domain
    arity = ELEMENTWISE[name].info.arity or 0
    values = [RNG.uniform(domain.low, domain.high, 5) for _ in range(arity)]
    if dtype == "int64":
        values = [np.abs(v).astype(dtype) % 5 + 1 for v in values]
    return [v > 0 if dtype == "bool" else v.astype(dtype) for v in values]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_elementwise_op_has_a_form_that_computes_it(name: str) -> None:
    tried = 0
    for dtype in ("float64", "float32", "complex128", "int64", "bool"):
        values = operands_of(name, dtype)
        variables = [tw.var(f"x{i}", v.shape, v.dtype) for i, v in enumerate(values)]
        if name.startswith("quiet") and dtype in ("int64", "bool"):
            continue  # cotangents are no integers
        try:
            array = wrap(make(ELEMENTWISE[name], tuple(v.node for v in variables)))
        except TypeError:
            continue
        tried += 1
        parse_latex(array)
        with np.errstate(all="ignore"):
            wanted = tw.Graph(variables, array).compile(engine="reference")(*values)
            got = np.asarray(
                evaluate(tw.infix(array), **{f"x{i}": v for i, v in enumerate(values)})
            )
        assert got.dtype == wanted.dtype
        eps = 8 * np.finfo(wanted.dtype).eps if wanted.dtype.kind in "fc" else 0
        np.testing.assert_allclose(got, wanted, rtol=eps, atol=eps)
    assert tried


BUILDERS: list[Any] = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / (1 + y * y),
    lambda x, y: -x, lambda x, y: x**2, lambda x, y: tnp.abs(x) ** 0.5, lambda x, y: tnp.sin(x),
    lambda x, y: tnp.tanh(x), lambda x, y: tnp.exp(-x * x), lambda x, y: tnp.where(x < y, x, y + 1),
    lambda x, y: tnp.maximum(x, y), lambda x, y: tnp.clip(x, -1.5, 2), lambda x, y: x - 0.1,
    lambda x, y: 2 - x, lambda x, y: x * -3, lambda x, y: tnp.sigmoid(x), lambda x, y: x * np.float64(1e-7),
    lambda x, y: tnp.astype((x > 0) & (y > 0), x.dtype), lambda x, y: tnp.sqrt(x * x + 1) ** tnp.cos(y),
    lambda x, y: tnp.name(x + 1, "part"), lambda x, y: x % 3, lambda x, y: x // 2,
]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, len(BUILDERS) - 1), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=40),
    dtype=st.sampled_from(["float64", "float32"]),
)  # fmt: skip
def test_programs_of_random_graphs_compute_the_same(steps: Any, dtype: str) -> None:
    values = {
        n: RNG.uniform(-2, 2, s).astype(dtype) for n, s in [("x", (3,)), ("y", (2, 3)), ("s", ())]
    }
    variables = {n: tw.var(n, v.shape, dtype) for n, v in values.items()}
    made = list(variables.values())
    for builder, i, j in steps:
        made.append(BUILDERS[builder](made[i % len(made)], made[j % len(made)]))
    text = tw.infix(made[-1])
    with np.errstate(all="ignore"):
        wanted = tw.Graph(list(variables.values()), made[-1], unused="ignore").compile(
            engine="reference"
        )(*values.values())
        got = np.asarray(evaluate(text, **values))
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape or got.shape == np.broadcast_shapes(got.shape, wanted.shape)
    near = 1e-9 if dtype == "float64" else 1e-3
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(
        np.broadcast_to(got, wanted.shape)[finite], wanted[finite], rtol=near, atol=near
    )
    parse_latex(made[-1])


def test_programs_of_random_graphs_of_all_ops_compute_the_same() -> None:
    """What evaluates at all gives the right numbers; graphs of everyday ops do."""
    count = 0
    for seed in range(150):
        graph = graph_of(seed, 3 + seed % 25, smooth=True, impure=False)
        wanted = evaluated(graph.outputs, graph.feeds)
        for node, value in zip(graph.outputs, wanted, strict=True):
            formula = write(node, Infix())
            given = {name: graph.feeds.get(x, x.value) for name, x in formula.inputs}
            with np.errstate(all="ignore"):
                got = np.asarray(evaluate(tw.infix(wrap(node)), **given))
            assert_close([got], [value])
            count += 1
    assert count > 200


def test_every_op_is_written_in_both_notations() -> None:
    """Whatever the cases make: names and attributes of ops that no table has a form for too."""
    parsed: set[str] = set()
    for _, case in CASES[::7]:
        inputs = [
            tw.var(f"x{i}", v.shape, v.dtype) for i, v in enumerate(case.operands(case.dtypes[0]))
        ]
        try:
            result = case.call(tnp, *inputs)
        except TypeError:
            continue
        for array in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(array, tw.Array):
                text = write(array.node, Infix())
                for line in [*(s.text for s in text.statements), text.result]:
                    compile(line, "formula", "eval")
                names = {node.op.facts().name for node in toposort([array.node])}
                if not names <= parsed:  # parsing takes most of the time
                    parse_latex(array)
                    parsed |= names
    assert {s for s in FORMS if s not in ELEMENTWISE} == set()
    assert "matmul" in CLASSES


# --------------------------------------------------------------------------- LaTeX


def test_latex_as_people_write_it() -> None:
    x, y, n = tw.var("x"), tw.var("y_max"), tw.var("theta_1")
    for array, text in [
        (tnp.exp(-x / 2), r"e^{\frac{-x}{2}}"),
        ((x + y) ** 2 / tnp.sqrt(n), r"\frac{{\left(x + y_{\mathrm{max}}\right)}^{2}}{\sqrt{\theta_{1}}}"),
        (x * 2, r"2 \, x"),
        (x * 1e-5, r"10^{-5} \, x"),
        (x - (y - n), r"x - \left(y_{\mathrm{max}} - \theta_{1}\right)"),
        (tnp.log1p(x), r"\log\left(1 + x\right)"),
        (tnp.abs(x), r"\left|x\right|"),
        ((x > 0) & (x < 1), r"x > 0 \wedge x < 1"),
        (tnp.astype(x, "float32"), "x"),
        (A.T @ A, r"{A}^{\top} \, A"),
        (A @ A * A, r"A \, A \odot A"),
        (tnp.sum(A, axis=1), r"\sum_{1} A"),
    ]:  # fmt: skip
        assert tw.latex(array) == text
        parse_latex(array)
        parse_latex(array, shapes=True)


def test_notebooks_show_small_graphs() -> None:
    h = tnp.sin(X)
    assert (X * 2)._repr_latex_() == r"$\displaystyle 2 \, x$"
    assert (
        r"\begin{aligned} h_{1} & = \sin\left(x\right) \\  & h_{1} \, h_{1} \end{aligned}"
        in (h * h)._repr_latex_()
    )
    assert X._repr_latex_() is None
    assert tnp.asarray([1.0])._repr_latex_() is None
    z = X
    for _ in range(100):
        z = tnp.sin(z)
    assert z._repr_latex_() is None


def test_keywords_are_no_names() -> None:
    for word in keyword.kwlist:
        assert Infix().name(word) == f"{word}_"


# --------------------------------------------------------------------------- SymPy


@pytest.fixture(name="sympy")
def _sympy() -> Any:
    return pytest.importorskip("sympy")


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_ops_in_sympy_and_back(name: str, sympy: Any) -> None:
    """The expression computes what the op does, and what comes back is the op again, or its equal."""
    tried = 0
    for dtype in ("float64", "int64", "bool"):
        values = operands_of(name, dtype)
        variables = [tw.var(f"x{i}", (5,), v.dtype) for i, v in enumerate(values)]
        try:
            array = wrap(make(ELEMENTWISE[name], tuple(v.node for v in variables)))
        except TypeError:
            continue
        tried += 1
        if dtype == "bool" and array.dtype.kind != "b":
            continue  # SymPy does not compute with truth values
        expr = tw.to_sympy(array)
        wanted = tw.Graph(variables, array).compile(engine="reference")(*values)
        back = tw.from_sympy(expr, {f"x{i}": v for i, v in enumerate(values)})
        np.testing.assert_allclose(
            back.numpy().astype(wanted.dtype), wanted, rtol=1e-12, atol=1e-12
        )
    assert tried


FUNCTIONS: list[Any] = [
    lambda x: tnp.sin(x) * tnp.exp(-x / 2), lambda x: tnp.tanh(x) ** 3, lambda x: tnp.log1p(x * x) / x,
    lambda x: tnp.sigmoid(x) * tnp.sqrt(x), lambda x: tnp.erf(x) + tnp.atan(x), lambda x: x**x,
    lambda x: tnp.softplus(x) - tnp.cosh(x), lambda x: tnp.where(x > 1, x**2, 2 * x - 1), lambda x: tnp.maximum(x, x * x),
    lambda x: tnp.dawsn(x) * tnp.abs(x), lambda x: tnp.hypot(x, 2.0) / tnp.acosh(x + 1), lambda x: tnp.exp2(x) / tnp.cbrt(x),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_derivatives_are_those_of_sympy(number: int, sympy: Any) -> None:
    """To second order: SymPy's of our expression, and ours; and SymPy's as an array again.

    Where a slope jumps SymPy has a delta as its derivative, which no array has.
    """
    function, x = FUNCTIONS[number], tw.var("x")
    symbol = sympy.Symbol("x", real=True)
    expr = tw.to_sympy(function(x))
    (slope,) = tw.gradients(function(x), [x])
    (curve,) = tw.gradients(slope, [x])
    for at in (0.3, 0.7, 1.6):
        for ours, order in ((slope, 1), (curve, 2)):
            theirs = sympy.diff(expr, symbol, order).replace(
                sympy.DiracDelta, lambda *_: sympy.Integer(0)
            )
            value = tw.Graph([x], ours).compile(engine="reference")(at)
            np.testing.assert_allclose(
                value, float(theirs.subs(symbol, at).evalf()), rtol=1e-8, atol=1e-10
            )
            np.testing.assert_allclose(
                float(tw.from_sympy(theirs.doit(), {symbol: at})), value, rtol=1e-8, atol=1e-10
            )


def test_small_matrices_in_sympy(sympy: Any) -> None:
    b = tw.var("b", (2,))
    a, v = (
        sympy.IndexedBase("A", real=True, shape=(2, 2)),
        sympy.IndexedBase("b", real=True, shape=(2,)),
    )
    product = tw.to_sympy(A @ b)
    assert product[1] == a[1, 0] * v[0] + a[1, 1] * v[1]
    matrix = sympy.Matrix(2, 2, lambda i, j: a[i, j])
    assert tw.to_sympy(tnp.linalg.inv(A)) == matrix.inv(method="ADJ")
    loss = tnp.sum((A @ b - 1) ** 2)
    (gradient,) = tw.gradients(loss, [A])
    expected = sympy.Matrix(2, 2, lambda i, j: sympy.diff(tw.to_sympy(loss), a[i, j]))
    assert sympy.simplify(tw.to_sympy(gradient) - expected) == sympy.zeros(2)
    given = {"A": RNG.uniform(-1, 1, (2, 2)), "b": RNG.uniform(-1, 1, 2)}
    for array in (
        A @ b, A.T, A[:, 1], tnp.max(A, axis=0), tnp.cumsum(A, axis=1), tnp.concat([b, b[::-1]]), tnp.mean(A),
        tnp.var(A, axis=1), tnp.linalg.solve(A, b), tnp.linalg.det(A), tnp.einsum("ab,b->a", A, b), tnp.pad(b, 1),
        A.at[0].add(b), tnp.trace(A), tnp.outer(b, b), A[np.array([1, 0])], tnp.logsumexp(b), tnp.where(A > 0, A, b),
        tnp.eye(2) * A, tnp.prod(A), tnp.all(A > 0), tnp.roll(b, 1), gradient,
    ):  # fmt: skip
        expr = tw.to_sympy(array)
        back = tw.from_sympy(expr, given).numpy()
        wanted = tw.Graph([A, b], array, unused="ignore").compile(engine="reference")(**given)
        np.testing.assert_allclose(back, wanted, rtol=1e-10, atol=1e-12)


def test_symbols_are_as_the_variables_are(sympy: Any) -> None:
    n, z = tw.var("n", dtype=int), tw.var("z", dtype=complex)
    assert tw.to_sympy(n * 2).free_symbols == {sympy.Symbol("n", integer=True)}
    assert tw.to_sympy(tnp.real(z)) == sympy.re(sympy.Symbol("z"))
    assert tw.to_sympy(X * 0.5) == sympy.Symbol("x", real=True) / 2
    assert tw.to_sympy(X * 0.1).args[0] == sympy.Float(0.1)
    assert tw.to_sympy(X * 3) == 3 * sympy.Symbol("x", real=True), "the expression of one element"


def test_arrays_from_sympy(sympy: Any) -> None:
    s, t = sympy.symbols("s t")
    values = np.linspace(0.5, 2, 4).astype("f4")
    got = tw.from_sympy(sympy.sqrt(s) / t**2 + sympy.Rational(1, 3), {s: values, "t": 2.0})
    assert got.dtype == np.float32, "numbers take the dtype beside them"
    np.testing.assert_allclose(got.numpy(), np.sqrt(values) / 4 + 1 / 3, rtol=1e-6)
    x = tw.var("x", (4,))
    array = tw.from_sympy(sympy.Piecewise((s, s > 1), (s**2, True)), {s: x})
    np.testing.assert_allclose(
        tw.Graph([x], array).compile()(values.astype(float)),
        np.where(values > 1, values, values**2),
    )
    base = sympy.IndexedBase("q")
    matrix = tw.from_sympy(
        sympy.Matrix([[base[0], base[1]], [s, sympy.pi]]), {base: np.arange(2.0), s: 3}
    )
    np.testing.assert_allclose(matrix.numpy(), [[0, 1], [3, np.pi]])
    assert complex(tw.from_sympy(sympy.exp(sympy.I * s), {s: 0.0})) == 1
    deep = s
    for _ in range(500):
        deep = sympy.tanh(deep, evaluate=False)
    assert tw.from_sympy(deep, {s: 0.5}).shape == ()


WRONG: list[tuple[Any, str]] = [
    (lambda sympy: tw.to_sympy(_doubled(30)), "more than 2000 operations, shared parts counted"),
    (lambda sympy: tw.to_sympy(tnp.sort(X)), "has no counterpart in SymPy; tw.infix"),
    (lambda sympy: tw.to_sympy(tnp.sum(tw.var("w", (1000,)))), r"shape \(1000,\) has 1000 elements; .* up to 64"),
    (lambda sympy: tw.from_sympy(sympy.Symbol("q"), {"s": 1.0}), "symbol 'q' has no value; values came for 's'"),
    (lambda sympy: tw.from_sympy(sympy.besselj(0, sympy.Symbol("s")), {"s": 1.0}), "besselj has no counterpart here"),
    (lambda sympy: tw.from_sympy("s + 1", {"s": 1.0}), "expr is str; accepted: an expression of SymPy"),
    (lambda sympy: tw.infix("x"), "infix"),
]  # fmt: skip


def _doubled(times: int) -> tw.Array:
    z = X
    for _ in range(times):
        z = z * z
    return z


@pytest.mark.parametrize("wrong", range(len(WRONG)))
def test_wrong_uses_say_what_is_accepted(wrong: int, sympy: Any) -> None:
    call, said = WRONG[wrong]
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        call(sympy)
    assert "test_formulas.py" in str(caught.value)


def test_without_sympy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sympy", None)
    with pytest.raises(ImportError, match=r"to_sympy needs SymPy: pip install 'tawny\[sympy\]'"):
        tw.to_sympy(X)
