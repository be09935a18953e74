"""Tawny: write NumPy, record a graph, run it again and again.

import tawny as tw
import tawny.numpy as np       # NumPy's names, lazily

x = tw.var("x", shape=(1000, 1000))
y = np.sin(2 - x)              # nothing is computed
"""

from __future__ import annotations

from tawny import eager as eager
from tawny import numpy as numpy
from tawny import random as random
from tawny.array import Array as Array
from tawny.engine import evaluate as evaluate
from tawny.ops.creation import var as var
from tawny.ops.delay import delay as delay
from tawny.ops.delay import fold as fold
from tawny.ops.delay import lazy_print as lazy_print
from tawny.ops.delay import map_elements as map_elements
from tawny.ops.delay import scan as scan

__version__ = "0.1.0"

__all__ = [
    "Array",
    "__version__",
    "delay",
    "eager",
    "evaluate",
    "fold",
    "lazy_print",
    "map_elements",
    "numpy",
    "random",
    "scan",
    "var",
]
