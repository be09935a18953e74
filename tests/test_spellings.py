"""What users of other libraries type: it works, or the answer names what is written here."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import nn, optim
from tawny.bad_calls import ELSEWHERE
from tawny.nn import foreign_names
from tawny.numpy.absent import ELSEWHERE as FOREIGN

X = np.zeros((4, 3), "float32")
IMAGES = np.ones((2, 6, 6, 3), "float32")
DATA = X, np.zeros((4, 1), "float32")

SAID: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "Adam(lr)": (lambda: optim.Adam(lr=0.1), TypeError, r"Adam: unknown argument 'lr', which is called rate here; accepted: rate, beta1"),
    "Adam(betas)": (lambda: optim.Adam(betas=(0.9, 0.99)), TypeError, "called beta1 and beta2 here"),
    "AdamW(weight_decay)": (lambda: optim.AdamW(weight_decay=0.1), TypeError, "called decay here"),
    "SGD(lr)": (lambda: optim.SGD(lr=0.1), TypeError, "SGD: unknown argument 'lr', which is called rate here"),
    "SGD(learning_rate)": (lambda: optim.SGD(learning_rate=0.1), TypeError, "called rate here"),
    "Linear": (lambda: nn.Linear(in_features=3, out_features=4), TypeError, "Linear: unknown argument 'in_features', which is called inputs here; accepted: inputs, outputs"),
    "Linear(units)": (lambda: nn.Linear(3, units=4), TypeError, "'units', which is called outputs here"),
    "Conv2d": (lambda: nn.Conv2d(3, 4, kernel_size=3), TypeError, "called window here"),
    "Conv2d(strides)": (lambda: nn.Conv2d(3, 4, 3, strides=2), TypeError, "called stride here"),
    "MaxPool2d": (lambda: nn.MaxPool2d(kernel_size=2), TypeError, "called window here"),
    "BatchNorm": (lambda: nn.BatchNorm(3, momentum=0.1), TypeError, r"called decay here \(as in Keras; 1 - momentum of PyTorch\)"),
    "BatchNorm(eps)": (lambda: nn.BatchNorm(3, eps=0.1), TypeError, "called epsilon here"),
    "LSTM": (lambda: nn.LSTM(input_size=3, hidden_size=4), TypeError, "called inputs here"),
    "LSTM(hidden_size)": (lambda: nn.LSTM(3, hidden_size=4), TypeError, "called units here"),
    "Dropout": (lambda: nn.Dropout(p=0.3), TypeError, "called rate here"),
    "Embedding": (lambda: nn.Embedding(num_embeddings=3, embedding_dim=2), TypeError, "called count here"),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(4, num_heads=2), TypeError, "called heads here"),
    "train(batch_size)": (lambda: nn.train(nn.Linear(3, 1), nn.quadratic, DATA, batch_size=2), TypeError, "train: unknown argument 'batch_size', which is called batch here"),
    "predict(batch_size)": (lambda: nn.predict(nn.Linear(3, 1), X, batch_size=2), TypeError, "called batch here"),
    "minimise(tol)": (lambda: optim.minimise(tnp.sum, X, tol=1e-3), TypeError, "called tolerance here"),
    "sum(dim)": (lambda: tnp.sum(tnp.ones(3), dim=0), TypeError, "sum: unknown argument 'dim', which is called axis here"),
    "ReLU": (lambda: nn.ReLU(), AttributeError, r"no attribute 'ReLU'; write nn\.relu, a function that is a layer too"),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(), AttributeError, r"write nn\.cross_entropy, a function"),
    "Dense": (lambda: nn.Dense(3), AttributeError, r"write nn\.Linear\(inputs, outputs"),
    "nn.nothing": (lambda: nn.Nothing, AttributeError, r"no attribute 'Nothing'$"),
    "lr_scheduler": (lambda: optim.lr_scheduler, AttributeError, r"optim\.Adam\(optim\.Cosine"),
    "optim.nothing": (lambda: optim.Nothing, AttributeError, r"no attribute 'Nothing'$"),
    "parameters()": (lambda: nn.Linear(3, 4).parameters(), TypeError, r"nested dicts, not methods: write model\.parameters"),
    "state()": (lambda: nn.BatchNorm(3).state(), TypeError, "nested dicts, not methods"),
    "model.eval": (lambda: nn.Linear(3, 4).eval(), AttributeError, r"write model\(x\) for inference; model\.use_inference"),
    "model.fit": (lambda: nn.Linear(3, 4).fit(X), AttributeError, r"write nn\.train\("),
    "model.state_dict": (lambda: nn.Linear(3, 4).state_dict(), AttributeError, r"write model\.parameters"),
    "model.nothing": (lambda: nn.Linear(3, 4).nothing, AttributeError, r"no attribute 'nothing'$"),
    "backward": (lambda: tnp.ones(3).backward(), AttributeError, r"write tw\.grad\(function\)\(x\), or tw\.gradients"),
    "detach": (lambda: tw.var("x").detach(), AttributeError, r"write tw\.stop_gradient\(x\)"),
    "size": (lambda: tw.random.normal(size=(3,)), TypeError, "normal: unknown argument 'size', which is called shape here"),
    "device": (lambda: tw.Graph([], [tnp.ones(3)]).compile(device="cuda"), TypeError, "'device', which is called engine here"),
    "optimize": (lambda: tw.Graph([], [tnp.ones(3)]).compile(optimize=True), TypeError, "'optimize', which is called optimise here"),
    "mse": (lambda: nn.mse, AttributeError, r"write nn\.mean_squared$"),
    "plot(path)": (lambda: tw.Graph([], [tnp.ones(3)]).plan().plot("plan.png"), TypeError, r"plot: ax is 'plan\.png'; .*plan\.plot\(\)\.figure\.savefig\('plan\.png'\)"),
    "zero_grad": (lambda: optim.Adam(0.1).zero_grad(), AttributeError, r"'Adam' object has no attribute 'zero_grad'; write nothing: gradients are values"),
    "optimiser.init": (lambda: optim.Optimiser(0.1).init({}), AttributeError, r"write optimiser\.start\(parameters\)"),
    "optimiser.nothing": (lambda: optim.SGD(0.1).nothing, AttributeError, r"object has no attribute 'nothing'$"),
    "tree_map": (lambda: tw.tree_map, AttributeError, r"lists, tuples and dicts of arrays are taken"),
    "graph.run": (lambda: tw.Graph([], [tnp.ones(3)]).run(), AttributeError, r"'Graph' object has no attribute 'run'; write program = graph\.compile\(\)"),
    "a flag as text": (lambda: tw.Graph([], [tnp.ones(3)]).compile(optimise="no"), TypeError, r"^compile: optimise is 'no'; accepted: True, False"),
    "a number as a flag": (lambda: tw.Graph([], [tnp.ones(3)]).plan(incremental=0), TypeError, r"^plan: incremental is 0; accepted: True, False"),
    "vstack": (lambda: tnp.vstack([tnp.ones((2, 4)), tnp.ones(3)]), ValueError, r"^vstack: operand 1 has shape \(1, 3\); its axis 1 must be 4"),
    "array.nothing": (lambda: tnp.ones(3).nothing, AttributeError, r"'Array' object has no attribute 'nothing'$"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_the_answer_names_our_spelling(name: str) -> None:
    call, kind, message = SAID[name]
    with pytest.raises(kind, match=message):
        call()


def test_unknown_words_are_answered_with_those_taken() -> None:
    for call, message in (
        (lambda: nn.Linear(3, 4, nonsense=1), "Linear: .* 'nonsense'; accepted: inputs, outputs, bias"),
        (lambda: nn.Add(nonsense=1), "Add: .* 'nonsense'; accepted: none"),
        (lambda: optim.Adam(nonsense=1), "Adam: .* 'nonsense'; accepted: rate, beta1"),
        (lambda: tw.grad(tnp.sum, nonsense=1), "grad: .* 'nonsense'; accepted: argnums"),
        (lambda: tw.random.uniform(nonsense=1), "uniform: .* 'nonsense'; accepted: low, high"),
        (lambda: tw.Graph([], [tnp.ones(3)], nonsense=1), "Graph: .* 'nonsense'; accepted: updates, name"),
        (lambda: tw.Graph([], [tnp.ones(3)]).compile(nonsense=1), "compile: .*; accepted: engine"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=message + r".*\[test_spellings\.py:\d+\]"):
            call()
    assert not hasattr(tnp.ones(3), "nothing")
    assert getattr(nn, "Nothing", None) is None


def test_own_layers_may_have_such_words() -> None:
    """A class that takes an argument of that name is left alone."""

    class Mine(nn.Module):
        def __init__(self, in_features: int, **options: Any) -> None:
            self.inner = nn.Linear(in_features, 2)
            self.options = options

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    assert Mine(in_features=3)(X).shape == (4, 2)


def _words(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def test_every_word_has_its_place() -> None:
    """What the tables name exists: arguments of something public, names of `nn`."""
    modules = nn, optim, tnp, tw, tw.random
    public = [getattr(m, n) for m in modules for n in m.__all__ if n[0] != "_"]
    known = _words(tw.Graph.compile)
    for thing in public:
        if callable(thing):
            try:
                known |= _words(thing)
            except ValueError:
                continue
    assert {ours for names in ELSEWHERE.values() for ours in names} <= known
    for name in ("ReLU", "Tanh", "Softmax", "GELU"):
        said = foreign_names.hint_for(name)
        assert said is not None
        assert callable(getattr(nn, said.partition(",")[0].removeprefix("nn.")))


FOREIGN_NAMES = [(module, name) for module, names in FOREIGN.items() for name in names]


@pytest.mark.parametrize(("module", "name"), FOREIGN_NAMES)
def test_foreign_names_are_answered_by_names_that_are_here(module: str, name: str) -> None:
    with pytest.raises(
        AttributeError, match=f"module '{module}' has no attribute '{name}': "
    ) as told:
        getattr(sys.modules[module], name)
    assert told.value.obj is sys.modules[module]
    for word in re.findall(r"\b(?:tw|np|tawny\.\w+)(?:\.\w+)+", FOREIGN[module][name]):
        first, *rest = word.replace("tawny.", "tw.").split(".")
        found = {"tw": tw, "np": tnp}[first]
        for part in rest:
            found = getattr(found, part)


def test_functions_of_arrays_are_found_from_the_package() -> None:
    with pytest.raises(AttributeError, match=r"'zeros': use tawny\.numpy\.zeros$"):
        tw.zeros  # noqa: B018
    for module in (tw, tnp, tw.eager, tw.random, nn, optim):
        with pytest.raises(AttributeError, match=r"no attribute 'no_such_name'$") as told:
            module.no_such_name  # noqa: B018
        assert (told.value.name, told.value.obj) == ("no_such_name", module)


# --------------------------------------------------- convolutions, functions and layers

RANKS = (1, 2, 3)


def _signature(thing: Callable[..., Any]) -> dict[str, Any]:
    return {p.name: p.default for p in inspect.signature(thing).parameters.values()}


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("kind", ["conv", "conv_transpose", "max_pool", "avg_pool"])
def test_functions_and_layers_agree(kind: str, rank: int) -> None:
    """On names and defaults: the same numbers with nothing given, and with a stride."""
    layers = {"conv": "Conv", "conv_transpose": "ConvTranspose", "max_pool": "MaxPool"}
    name = f"{layers.get(kind, 'AvgPool')}{rank}d"
    function, layer = getattr(tnp, f"{kind}{rank}d"), getattr(nn, name)
    ours, theirs = _signature(function), _signature(layer)
    for word in ours.keys() & theirs.keys() - {"window"}:
        assert str(ours[word]).lower() == str(theirs[word]).lower(), word
    assert {"stride", "padding"} <= ours.keys() & theirs.keys()
    x = np.random.default_rng(0).normal(size=(2, *[7] * rank, 3)).astype("float32")
    for options in ({}, {"stride": 2}):
        if "pool" in kind:
            made = layer(2, **options)(x)
            want = function(x, 2, **options)
        else:
            module = layer(3, 4, 2, bias=False, **options)
            made, want = module(x), function(x, module.weight, **options)
        np.testing.assert_array_equal(made.numpy(), want.numpy())


def test_the_other_name_of_strides_works() -> None:
    x, k = tnp.asarray(IMAGES), tnp.ones((3, 3, 3, 2), dtype="float32")
    assert tnp.conv2d(x, k, strides=2).node is tnp.conv2d(x, k, stride=2).node  # type: ignore[call-arg]
    assert tnp.max_pool2d(x, 2, strides=1).shape == (2, 5, 5, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown argument 'strides'"):
        tnp.conv2d(x, k, stride=1, strides=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown argument"):
        tnp.conv2d(x, k, strides=1, pad=2)  # type: ignore[call-arg]
