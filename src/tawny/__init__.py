"""Tawny: write NumPy, record a graph, run it again and again.

    import tawny as tw
    import tawny.numpy as np       # NumPy's names, lazily

    x = tw.var("x", shape=(1000, 1000))
    y = np.sin(2 - x)              # nothing is computed

Importing is light: each name below loads its part of the library when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tawny import eager as eager
    from tawny import models as models
    from tawny import nn as nn
    from tawny import numpy as numpy
    from tawny import optim as optim
    from tawny import pebble as pebble
    from tawny import random as random
    from tawny import special as special
    from tawny import testing as testing
    from tawny.array import Array as Array
    from tawny.autodiff.checkpoint import checkpoint as checkpoint
    from tawny.autodiff.custom import custom_jvp as custom_jvp
    from tawny.autodiff.custom import custom_vjp as custom_vjp
    from tawny.autodiff.functions import grad as grad
    from tawny.autodiff.functions import gradients as gradients
    from tawny.autodiff.functions import jvp as jvp
    from tawny.autodiff.functions import linearize as linearize
    from tawny.autodiff.functions import value_and_grad as value_and_grad
    from tawny.autodiff.functions import vjp as vjp
    from tawny.autodiff.jacobian import diff as diff
    from tawny.autodiff.jacobian import gradhessian as gradhessian
    from tawny.autodiff.jacobian import hessian as hessian
    from tawny.autodiff.jacobian import hvp as hvp
    from tawny.autodiff.jacobian import jacfwd as jacfwd
    from tawny.autodiff.jacobian import jacobian as jacobian
    from tawny.autodiff.jacobian import jacobianTv as jacobianTv
    from tawny.autodiff.jacobian import jacobianv as jacobianv
    from tawny.autodiff.jacobian import jacrev as jacrev
    from tawny.autodiff.jacobian import laplacian as laplacian
    from tawny.configuration import config as config
    from tawny.engine import evaluate as evaluate
    from tawny.errors import PerformanceWarning as PerformanceWarning
    from tawny.files.functions import register_function as register_function
    from tawny.files.safetensors import GraphFileError as GraphFileError
    from tawny.graph.files import load as load
    from tawny.graph.files import load_arrays as load_arrays
    from tawny.graph.files import save_arrays as save_arrays
    from tawny.graph.graph import Graph as Graph
    from tawny.graph.graph import optimise as optimise
    from tawny.graph.jit import jit as jit
    from tawny.graph.largest import largest as largest
    from tawny.graph.program import Program as Program
    from tawny.memory.budget import MemoryBudgetError as MemoryBudgetError
    from tawny.ops.creation import var as var
    from tawny.ops.delay import delay as delay
    from tawny.ops.delay import fold as fold
    from tawny.ops.delay import lazy_print as lazy_print
    from tawny.ops.delay import map_elements as map_elements
    from tawny.ops.delay import scan as scan
    from tawny.ops.differentiation import stop_gradient as stop_gradient
    from tawny.scopes import scope as scope

__version__ = "0.1.0"

__all__ = [
    "checkpoint",
    "config",
    "custom_jvp",
    "custom_vjp",
    "diff",
    "gradhessian",
    "laplacian",
    "jacobianTv",
    "jacobianv",
    "hvp",
    "hessian",
    "jacrev",
    "jacfwd",
    "jacobian",
    "stop_gradient",
    "linearize",
    "jvp",
    "vjp",
    "gradients",
    "value_and_grad",
    "grad",
    "Array",
    "Graph",
    "GraphFileError",
    "MemoryBudgetError",
    "PerformanceWarning",
    "Program",
    "__version__",
    "delay",
    "eager",
    "evaluate",
    "fold",
    "jit",
    "largest",
    "lazy_print",
    "load",
    "load_arrays",
    "map_elements",
    "models",
    "nn",
    "numpy",
    "optim",
    "optimise",
    "pebble",
    "random",
    "register_function",
    "save_arrays",
    "scan",
    "scope",
    "special",
    "testing",
    "var",
]

_HOME: Final = {
    "Array": "tawny.array",
    "checkpoint": "tawny.autodiff.checkpoint",
    "config": "tawny.configuration",
    "custom_jvp": "tawny.autodiff.custom",
    "custom_vjp": "tawny.autodiff.custom",
    "diff": "tawny.autodiff.jacobian",
    "gradhessian": "tawny.autodiff.jacobian",
    "laplacian": "tawny.autodiff.jacobian",
    "jacobianTv": "tawny.autodiff.jacobian",
    "jacobianv": "tawny.autodiff.jacobian",
    "hvp": "tawny.autodiff.jacobian",
    "hessian": "tawny.autodiff.jacobian",
    "jacrev": "tawny.autodiff.jacobian",
    "jacfwd": "tawny.autodiff.jacobian",
    "jacobian": "tawny.autodiff.jacobian",
    "stop_gradient": "tawny.ops.differentiation",
    "linearize": "tawny.autodiff.functions",
    "jvp": "tawny.autodiff.functions",
    "vjp": "tawny.autodiff.functions",
    "gradients": "tawny.autodiff.functions",
    "value_and_grad": "tawny.autodiff.functions",
    "grad": "tawny.autodiff.functions",
    "Graph": "tawny.graph.graph",
    "MemoryBudgetError": "tawny.memory.budget",
    "PerformanceWarning": "tawny.errors",
    "Program": "tawny.graph.program",
    "delay": "tawny.numpy",
    "evaluate": "tawny.engine",
    "fold": "tawny.numpy",
    "GraphFileError": "tawny.files.safetensors",
    "jit": "tawny.graph.jit",
    "largest": "tawny.graph.largest",
    "optimise": "tawny.graph.graph",
    "lazy_print": "tawny.numpy",
    "load": "tawny.graph.files",
    "load_arrays": "tawny.graph.files",
    "map_elements": "tawny.numpy",
    "register_function": "tawny.files.functions",
    "save_arrays": "tawny.graph.files",
    "scan": "tawny.numpy",
    "scope": "tawny.scopes",
    "var": "tawny.ops.creation",
}
"""The module of each name that is no module itself."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tawny' has no attribute {name!r}")
    importlib.import_module("tawny.numpy")  # whatever is used, arrays have all their methods
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        value = importlib.import_module(f"tawny.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
