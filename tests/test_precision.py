"""`precision=`: who takes it, and who refuses what an engine cannot compute in."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim
from tawny.engine.protocol import PRECISIONS, engine_named

X = np.linspace(-1, 1, 20, dtype="float32").reshape(20, 1)


def graph() -> tw.Graph:
    x = tw.var("x", (4, 3), "float32")
    return tw.Graph([x], x @ x.T)


def model() -> nn.Module:
    return nn.Linear(1, 1)


DOORS = {
    "compile": lambda **o: graph().compile(**o),
    "plan": lambda **o: graph().plan(**o),
    "estimate": lambda **o: graph().estimate(**o),
    "explain": lambda **o: graph().explain(**o),
    "jit": lambda **o: tw.jit(tnp.matmul, **o)(X.T, X),
    "train": lambda **o: nn.train(model(), nn.mean_squared, (X, X), optim.SGD(0.5), steps=1, **o),
    "evaluate": lambda **o: nn.evaluate(model(), nn.mean_squared, (X, X), **o),
    "predict": lambda **o: nn.predict(model(), X, **o),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_a_precision(door) -> None:
    with pytest.raises(ValueError, match=r"'float8'; accepted: None, 'tf32', 'bfloat16'"):
        DOORS[door](precision="float8")


def test_an_engine_refuses_what_it_does_not_know(engine) -> None:
    for precision in set(PRECISIONS) - set(engine_named(engine).precisions):
        with pytest.raises(ValueError, match=f"'{engine}' does not know precision='{precision}'"):
            graph().compile(engine=engine, precision=precision)


def test_options_say_the_precision() -> None:
    assert graph().compile(precision=None).options.precision is None
