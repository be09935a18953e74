"""Rules that users write: those that call their own function, and those around Python code."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp

A = np.array([0.3, 0.7])
ONES = np.ones(2)


def forward_calls_function():
    @tw.custom_vjp
    def f(x):
        return tnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, s: (s * tnp.cos(x),))
    return f


def forward_calls_function_twice():
    @tw.custom_vjp
    def f(x):
        return tnp.sin(x)

    f.defvjp(lambda x: (f(x) + 0 * f(2 * x), tnp.cos(x)), lambda c, s: (s * c,))
    return f


def function_calls_itself():
    @tw.custom_vjp
    def f(x, n=2):
        return tnp.sin(x) if n == 0 else f(x, n - 1)

    f.defvjp(lambda x: (f(x), x), lambda x, s: (s * tnp.cos(x),))
    return f


def rules_call_each_other():
    @tw.custom_vjp
    def inner(x):
        return tnp.sin(x)

    @tw.custom_vjp
    def outer(x):
        return inner(x)

    inner.defvjp(lambda x: (inner(x), x), lambda x, s: (s * tnp.cos(x),))
    outer.defvjp(lambda x: (outer(x), x), lambda x, s: (s * tw.grad(whole(inner))(x),))
    return outer


def whole(f):
    return lambda x: tnp.sum(f(x))


def around_a_delay():
    @tw.custom_vjp
    def f(x):
        return tw.delay(np.sin, x)

    f.defvjp(lambda x: (f(x), x), lambda x, s: (s * tnp.cos(x),))
    return f


def tangents_around_a_delay():
    @tw.custom_jvp
    def f(x):
        return tw.delay(np.sin, x)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * tnp.cos(primals[0])))
    return f


RULED = [
    forward_calls_function,
    forward_calls_function_twice,
    function_calls_itself,
    rules_call_each_other,
    around_a_delay,
    tangents_around_a_delay,
]

TRANSFORMS = {
    "grad": (lambda f: tw.grad(whole(f))(A), np.cos(A)),
    "vjp": (lambda f: tw.vjp(f, A)[1](ONES)[0], np.cos(A)),
    "jvp": (lambda f: tw.jvp(f, (A,), (ONES,))[1], np.cos(A)),
    "jacfwd": (lambda f: tw.jacfwd(f)(A), np.diag(np.cos(A))),
    "jacrev": (lambda f: tw.jacrev(f)(A), np.diag(np.cos(A))),
    "jacobian": (lambda f: tw.jacobian(f)(A), np.diag(np.cos(A))),
    "jit": (lambda f: tw.jit(tw.grad(whole(f)))(A), np.cos(A)),
    "checkpoint": (lambda f: tw.grad(whole(tw.checkpoint(f)))(A), np.cos(A)),
    "beside": (lambda f: tw.jvp(lambda x: f(x) + x, (A,), (ONES,))[1], np.cos(A) + 1),
    "hvp": (lambda f: tw.hvp(whole(f), A, ONES), -np.sin(A)),
    "hessian": (lambda f: tw.hessian(whole(f))(A), np.diag(-np.sin(A))),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("made", RULED, ids=lambda made: made.__name__)
def test_rules_and_transforms(made, transform: str) -> None:
    take, expected = TRANSFORMS[transform]
    f = made()
    np.testing.assert_allclose(tw.evaluate(tnp.asarray(f(tnp.asarray(A)))), np.sin(A))
    np.testing.assert_allclose(take(f), expected, rtol=1e-12)


def test_a_rule_made_of_python_code_has_one_mode() -> None:
    @tw.custom_vjp
    def f(x):
        return tw.delay(np.sin, x)

    f.defvjp(lambda x: (f(x), x), lambda x, s: (tw.delay(lambda a, b: b * np.cos(a), x, s),))

    @tw.custom_jvp
    def g(x):
        return tw.delay(np.sin, x)

    g.defjvp(lambda p, t: (g(*p), tw.delay(lambda a, b: b * np.cos(a), p[0], t[0])))

    for take in ("grad", "vjp", "jacrev", "jit", "checkpoint"):
        np.testing.assert_allclose(TRANSFORMS[take][0](f), TRANSFORMS[take][1], rtol=1e-12)
    for take in ("jvp", "jacfwd", "jacobian"):
        np.testing.assert_allclose(TRANSFORMS[take][0](g), TRANSFORMS[take][1], rtol=1e-12)
        with pytest.raises(ValueError, match=r"none in forward mode: use reverse.*custom_jvp"):
            TRANSFORMS[take][0](f)
    for take in ("grad", "vjp", "jacrev"):
        with pytest.raises(ValueError, match=r"none in reverse mode: use forward.*custom_vjp"):
            TRANSFORMS[take][0](g)


def test_a_forward_that_fails_leaves_the_rule_in_force() -> None:
    failing = [True]

    @tw.custom_vjp
    def f(x):
        return tnp.sin(x)

    def forward(x):
        if failing.pop():
            raise RuntimeError("once")
        return f(x), x

    f.defvjp(forward, lambda x, s: (s * 3,))
    with pytest.raises(RuntimeError, match="once"):
        tw.grad(whole(f))(A)
    failing.append(False)
    np.testing.assert_allclose(tw.grad(whole(f))(A), [3.0, 3.0])


def test_threads_do_not_see_each_others_calls() -> None:
    inside, leave = threading.Event(), threading.Event()

    @tw.custom_vjp
    def f(x):
        return tnp.sin(x)

    def forward(x):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            leave.wait(10)
        return f(x), x

    f.defvjp(forward, lambda x, s: (s * 3,))
    other = threading.Thread(target=lambda: tw.grad(whole(f))(A))
    other.start()
    assert inside.wait(10)
    try:
        np.testing.assert_allclose(tw.grad(whole(f))(A), [3.0, 3.0])
    finally:
        leave.set()
        other.join()
