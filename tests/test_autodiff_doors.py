"""Every way by which a value could leave a function that is being differentiated.

Each gives the right derivative or is refused with a sentence; none gives silent zeros.
"""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest

import tawny as tw
import tawny.eager as eager
import tawny.numpy as tnp
from cases import each

POINT = np.array([0.3, 0.7, -1.1])
DIRECTION = np.array([1.0, -2.0, 0.5])


def body(v):
    """A function of each element, which the doors below compute in different ways."""
    return tnp.sin(v) * v


@tw.custom_vjp
def ruled(v):
    return body(v)


ruled.defvjp(lambda v: (body(v), v), lambda v, s: (s * (tnp.cos(v) * v + tnp.sin(v)),))


class Held:
    """An object with a jitted method that reads its own array."""

    def __init__(self, v):
        self.v = v

    @tw.jit
    def computed(self):
        return body(self.v)


def at_once(v):
    with eager.at_once():
        return body(v)


def jitted_over_derivative(v):
    """The gradient of sum(x * body(v)) in x is body(v)."""
    return tw.jit(lambda: tw.grad(lambda x: tnp.sum(x * body(v)))(np.ones(3)))()


DIFFERENTIATED = {
    "eager": lambda v: eager.multiply(eager.sin(v), v),
    "eager and operators": lambda v: eager.sin(v) * v,
    "eager of structures": lambda v: eager.stack([body(v), v])[0],
    "eager submodule": lambda v: eager.linalg.matmul(eager.diag(eager.sin(v)), v),
    "eager beside arrays": lambda v: eager.add(np.zeros(3), body(v)),
    "at once": at_once,
    "jit": lambda v: tw.jit(body)(v),
    "jit beside arrays": lambda v: tw.jit(lambda a, b: body(a) * b)(v, np.ones(3)),
    "jit of a closure": lambda v: tw.jit(lambda: body(v))(),
    "jit of a closure, with data": lambda v: tw.jit(lambda a: body(v) * a)(np.ones(3)),
    "jit of a closure, with a float": lambda v: tw.jit(lambda a: body(v) * a)(1.0),
    "jit of a closure, with an int": lambda v: tw.jit(lambda n: body(v) * n)(1),
    "jit of a closure of a jit": lambda v: tw.jit(lambda: tw.jit(lambda: body(v))())(),
    "jit of a derivative": jitted_over_derivative,
    "jit of a method": lambda v: Held(v).computed(),
    "checkpoint": lambda v: tw.checkpoint(body)(v),
    "checkpoint of a closure": lambda v: tw.checkpoint(lambda a: body(v) * a)(np.ones(3)),
    "custom rule": ruled,
    "numpy": lambda v: np.sin(v) * v,
    "copy": lambda v: body(copy.copy(v)),
    "deep copy": lambda v: body(copy.deepcopy({"v": v})["v"]),
}

PARAMETER = tw.var("parameter", shape=(3,))
PROGRAM = tw.Graph([PARAMETER], [body(PARAMETER)]).compile()


def pickled(v):
    return pickle.loads(pickle.dumps(body(v)))


def swept(v):
    return PROGRAM.sweep(parameter=[v])[0][0]


def given(v):
    PROGRAM.set(parameter=v)
    return PROGRAM.run()[0]


REFUSED = {
    "evaluate": lambda v: tw.evaluate(body(v)),
    "evaluate several": lambda v: tw.evaluate(body(v), tnp.sum(v))[0],
    "compile": lambda v: tw.Graph([], body(v)).compile()(),
    "compile for reference": lambda v: tw.Graph([], body(v)).compile(engine="reference")(),
    "optimise": lambda v: tw.optimise(tw.Graph([], body(v))).outputs,
    "program": lambda v: PROGRAM(v)[0],
    "program by name": lambda v: PROGRAM(parameter=v)[0],
    "set": given,
    "sweep": swept,
    "numpy method": lambda v: body(v).numpy(),
    "asarray": lambda v: np.asarray(body(v)),
    "array of elements": lambda v: np.array([x * math.sin(x) for x in v]),
    "tolist": lambda v: tnp.asarray(body(v).tolist()),
    "float": lambda v: tnp.stack([tnp.asarray(float(x)) for x in body(v)]),
    "item": lambda v: tnp.asarray([body(v)[i].item() for i in range(3)]),
    "from_dlpack": lambda v: np.from_dlpack(body(v)),
    "pickle": pickled,
    "delay": lambda v: tw.delay(lambda a: a * np.sin(a), v),
    "map_elements": lambda v: tw.map_elements(lambda a: a * math.sin(a), v),
}

TRANSFORMS = {
    "grad": lambda f: tw.grad(lambda x: tnp.sum(f(x)))(POINT),
    "value_and_grad": lambda f: tw.value_and_grad(lambda x: tnp.sum(f(x)))(POINT)[1],
    "grad of grad": lambda f: tw.grad(
        lambda x: tnp.sum(tw.grad(lambda y: tnp.sum(f(y)))(x) * DIRECTION)
    )(POINT),
    "vjp": lambda f: tw.vjp(f, POINT)[1](DIRECTION)[0],
    "jvp": lambda f: tw.jvp(f, (POINT,), (DIRECTION,))[1],
    "linearize": lambda f: tw.linearize(f, POINT)[1](DIRECTION),
    "jacobian": lambda f: tw.jacobian(f)(POINT),
    "jacfwd": lambda f: tw.jacfwd(f)(POINT),
    "jacrev": lambda f: tw.jacrev(f)(POINT),
    "hessian": lambda f: tw.hessian(lambda x: tnp.sum(f(x)))(POINT),
    "hvp": lambda f: tw.hvp(lambda x: tnp.sum(f(x)), POINT, DIRECTION),
    "diff": lambda f: tw.diff(f)(POINT),
    "laplacian": lambda f: tw.laplacian(lambda x: tnp.sum(f(x)))(POINT),
    "jacobianv": lambda f: tw.jacobianv(f, POINT, DIRECTION),
    "jacobianTv": lambda f: tw.jacobianTv(f, POINT, DIRECTION),
    "grad through checkpoint": lambda f: tw.grad(lambda x: tnp.sum(tw.checkpoint(f)(x)))(POINT),
    "grad inside jit": lambda f: tw.jit(tw.grad(lambda x: tnp.sum(f(x))))(POINT),
}


@each(itertools.product(DIFFERENTIATED, TRANSFORMS))
def test_what_stays_inside_is_differentiated(door: str, transform: str) -> None:
    take = TRANSFORMS[transform]
    np.testing.assert_allclose(take(DIFFERENTIATED[door]), take(body), rtol=1e-12)
    assert np.any(np.asarray(take(body)))


@each(itertools.product(REFUSED, TRANSFORMS))
def test_what_would_leave_is_refused(door: str, transform: str) -> None:
    said = r"being differentiated|no derivative|depends? on variables?|lazy array"
    with pytest.raises((TypeError, ValueError), match=said):
        TRANSFORMS[transform](REFUSED[door])
    with pytest.raises(ValueError, match="no value yet"):
        PROGRAM.get(PARAMETER)


def test_what_does_not_change_smoothly_may_leave() -> None:
    """Places, comparisons and what is said to be constant are values like others."""

    def f(v):
        scale = tw.evaluate(tw.stop_gradient(tnp.sum(v)))
        place = tw.evaluate(tnp.argmax(v))
        return tnp.sum(v * scale) + v[int(place)]

    expected = np.full(3, POINT.sum())
    expected[1] += 1
    np.testing.assert_allclose(tw.grad(f)(POINT), expected, rtol=1e-12)


def test_a_closure_that_was_traced_is_not_kept() -> None:
    """What a jitted function made inside another function is right there alone."""
    held = []

    @tw.jit
    def squared():
        return held[-1] * held[-1]

    def f(x):
        held.append(x)
        return tnp.sum(squared())

    np.testing.assert_allclose(tw.grad(f)(POINT), 2 * POINT, rtol=1e-12)
    np.testing.assert_allclose(tw.grad(f)(2 * POINT), 4 * POINT, rtol=1e-12)
    np.testing.assert_allclose(tw.jit(f)(3 * POINT), 9 * np.sum(POINT**2), rtol=1e-12)
