"""Attributes that objects of other libraries have, and what is written here."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import numpy as np


def is_in_blocks(x: object) -> bool:
    """Whether an object is a collection of Dask, whose values are computed block by block."""
    return hasattr(type(x), "__dask_graph__")


ARRAY: Final = {
    "apply": "tw.delay(function, x), or functions of tawny.numpy",
    "backward": "tw.grad(function)(x), or tw.gradients(loss, [x])",
    "block_until_ready": "x.numpy(), which computes it",
    "chunk": "np.array_split(x, parts, axis)",
    "clamp": "np.clip(x, low, high)",
    "clone": "x.copy()",
    "contiguous": "x: where its elements lie is up to the plan",
    "cpu": "x.numpy()",
    "cuda": "compile(engine=...), which says where a program runs",
    "detach": "tw.stop_gradient(x)",
    "dim": "x.ndim",
    "double": "x.astype('float64')",
    "expand": "np.broadcast_to(x, shape)",
    "float": "x.astype('float32')",
    "gather": "np.take_along_axis(x, indices, axis)",
    "get": "x.numpy()",
    "get_shape": "x.shape",
    "grad": "tw.grad(function)(x), or tw.gradients(loss, [x])",
    "half": "x.astype('float16')",
    "index_select": "np.take(x, index, axis)",
    "int": "x.astype('int32')",
    "itemset": "x[index] = value",
    "long": "x.astype('int64')",
    "masked_fill": "np.where(mask, value, x)",
    "masked_select": "x[mask], or np.where(mask, x, y)",
    "mm": "x @ y",
    "numel": "x.size",
    "permute": "np.permute_dims(x, axes)",
    "repeat_interleave": "np.repeat(x, repeats, axis)",
    "requires_grad": "tw.grad(function)(x): whatever is named there is differentiated",
    "requires_grad_": "tw.grad(function)(x): whatever is named there is differentiated",
    "scatter": "x.at[index].set(values)",
    "t": "x.T",
    "to": "x.astype(dtype); where it runs is said by compile(engine=...)",
    "to_numpy": "x.numpy()",
    "type": "x.astype(dtype)",
    "unsqueeze": "np.expand_dims(x, axis)",
    "values": "x.numpy()",
    "view": "x.reshape(shape)",
}
"""Of arrays of PyTorch, JAX, TensorFlow, pandas and older NumPy."""

UPDATE: Final = {
    "apply": ".set(function(x[index]))",
    "div": ".mul(1 / value)",
    "divide": ".mul(1 / value)",
    "multiply": ".mul(value)",
    "power": ".set(x[index] ** value)",
    "sub": ".add(-value)",
    "subtract": ".add(-value)",
}
"""Of a part of an array, `x.at[index]`, as JAX names them."""

OPTIMISER: Final = {
    "add_param_group": "an optimiser for each part: optim.Optimiser(...).step(...)",
    "apply_gradients": "optimiser.step(function, parameters, state)",
    "init": "optimiser.start(parameters)",
    "load_state_dict": "nn.train(..., resume=path); the state is what start and step give",
    "minimize": "optim.minimise(function, start, optimiser)",
    "param_groups": "optimiser.rate: what it is made of is given when it is made",
    "state": "what optimiser.start gives, and optimiser.step anew",
    "state_dict": "what optimiser.start gives, and optimiser.step anew",
    "update": "optimiser.step(function, parameters, state)",
    "zero_grad": "nothing: gradients are values (tw.grad), and none are kept",
}
"""Of optimisers of PyTorch, Keras and Optax."""

GRAPH: Final = dict.fromkeys(
    ("eval", "execute", "forward", "get", "predict", "profile", "run", "set", "sweep"),
    "program = graph.compile(): the program has it, or is called with values",
)
"""Of what is run: graphs are compiled first."""

MODULES: Final = {
    "tawny.numpy": "np",
    "tawny.numpy.linalg": "np.linalg",
    "tawny.special": "tw.special",
}
"""Where functions may be that other libraries' arrays have as methods."""


def array_counterpart(name: str) -> str | None:
    """What to write for an attribute that lazy arrays lack; None if nobody has it."""
    if name.startswith("_"):
        return None
    if name in ARRAY:
        return ARRAY[name]
    if name.endswith("_"):
        plain = name.rstrip("_")
        inner = ARRAY.get(plain) or _function(plain)
        return None if inner is None else f"x = {inner}: arrays do not change where they lie"
    if hasattr(np.ndarray, name):
        return f"x.numpy().{name}, of its value"
    return _function(name)


def _function(name: str) -> str | None:
    """A function of that name, called with an array."""
    for module, short in MODULES.items():
        loaded = sys.modules.get(module)
        if loaded is not None and callable(vars(loaded).get(name)):
            return f"{short}.{name}(x, ...)"
    return None


def raise_missing(thing: object, kind: str, name: str, instead: str | None) -> NoReturn:
    """Raise the error for an attribute that an object lacks, with what to write instead."""
    said = "" if instead is None else f"; write {instead}"
    raise AttributeError(f"{kind!r} object has no attribute {name!r}{said}", name=name, obj=thing)
