"""The reference: every public name with its parameters, what it says of itself, and an example."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import numpy

import tawny as tw
import tawny.numpy as np
from reference_examples import CLASSES as BLOCKS
from reference_examples import NUMPY, TOP
from tawny import nn, optim
from tawny.array import Array
from tawny.graph.plan import Plan

NAMES: Final = {
    "np": np,
    "tw": tw,
    "numpy": numpy,
    "x": np.asarray([[1, 2], [3, 4]]),
    "v": [3, 1, 2],
    "a": tw.var("a", (2,)),
    "w": np.asarray([1.0, 2.0]),
}
"""What examples may use."""

TRIES: Final = (
    "({})(0.5)",
    "({})(2.0, 3.0)",
    "({})([[1.0, 2.0], [3.0, 4.0]])",
    "({})([3, 1, 2])",
    "({})(6, 4)",
    "({})(x, w)",
)
"""Calls that are tried where no example is written."""

LONGEST: Final = 60
"""Characters of the value an example shows."""

TOP_ONLY: Final = {"lazy_print", "__array_namespace_info__"}
"""Functions of `tawny.numpy` that stand at the top level too, or that nobody writes."""

CLASSES: Final = {
    "Graphs": tw.Graph,
    "Programs": tw.Program,
    "Plans": Plan,
    "Arrays": Array,
    "Modules": nn.Module,
}


def reference() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "Every public name. `tw` is `tawny`, `np` is `tawny.numpy` (or `tawny.eager`, which computes at once); in examples `x` is"
    yield "`[[1, 2], [3, 4]]`, `v` is `[3, 1, 2]`, `w` is `np.asarray([1.0, 2.0])` and `a` is `tw.var('a', (2,))`. Functions that NumPy has too take its arguments in its order, and mean the same; their defaults are"
    yield "NumPy's. `out=`, `order=`, `casting=` and `subok=` are accepted where they ask for nothing and left out here."
    yield ""
    yield from _section("Top level", "tw", tw)
    for title, kind in CLASSES.items():
        yield from _class(title, kind)
    yield from _section("Arrays: `tawny.numpy`", "np", np)
    for name in ("linalg", "fft"):
        yield from _section(f"`np.{name}`", f"np.{name}", getattr(np, name))
    yield from _section("Random draws: `tw.random`", "tw.random", tw.random)
    yield from _section("Networks: `tw.nn`", "nn", nn)
    yield from _section("Optimisers: `tw.optim`", "optim", optim)


def _section(title: str, prefix: str, module: ModuleType) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        own = getattr(value, "__module__", "").startswith("tawny")
        if not callable(value) or not own or value in CLASSES.values():
            continue
        if prefix == "np" and (name in TOP or name in TOP_ONLY):
            continue
        yield from _entry(f"{prefix}.{name}", value, _example(prefix, name, value))
    yield ""


def _class(title: str, kind: type) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield _text(kind)
    yield ""
    yield f"```python{BLOCKS[title]}```"
    yield ""
    for name, member in sorted(inspect.getmembers(kind), key=lambda pair: pair[0].lower()):
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, property):
            yield f"- `.{name}`: {_text(member)}"
        elif callable(member):
            yield from _entry(f".{name}" if name != "__call__" else "", member, "", method=True)
    yield ""


def _entry(name: str, value: Any, example: str, *, method: bool = False) -> Iterator[str]:
    yield f"- `{name}{_parameters(value, method)}`: {_text(value)}{example}"


IDLE: Final = {"out", "order", "casting", "subok", "signature", "like"}
"""Arguments that are accepted for NumPy's sake."""


def _parameters(value: Any, method: bool) -> str:
    """The arguments of a function or class with their defaults, without types."""
    if isinstance(value, type) and hasattr(value, "_fields"):
        return f"({', '.join(value._fields)})"
    try:
        given = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    given = given[1:] if method and given and given[0].name == "self" else given
    shown: list[str] = []
    keywords = False
    for p in given:
        if p.name in IDLE or (p.name.startswith("_")):
            continue
        if p.kind is p.KEYWORD_ONLY and not keywords:
            shown.append("*")
        keywords = keywords or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={_default(p.default)}"
        shown.append(f"{mark}{p.name}{default}")
    while shown and shown[-1] == "*":
        shown.pop()
    return f"({', '.join(shown)})"


def _default(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    text = repr(value)
    return "..." if " at 0x" in text or len(text) > LONGEST else text


def _text(value: Any) -> str:
    """What a name says of itself, as one paragraph of Markdown; its examples as they stand."""
    text = inspect.getdoc(value) or ""
    parts = [" ".join(part.split()) for part in text.split("\n\n") if not part.startswith("    ")]
    return " ".join(parts)


def _example(prefix: str, name: str, value: Any) -> str:
    table = {"np": NUMPY, "tw": TOP}.get(prefix, {})
    if name in table:
        return f" `{table[name]}` gives {_shown(eval(table[name], dict(NAMES)))}."
    if not prefix.startswith("np") or isinstance(value, type):
        return ""
    for call in TRIES:
        text = call.format(f"{prefix}.{name}").replace("(", "", 1).replace(")", "", 1)
        try:
            with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                warnings.simplefilter("error")
                found = eval(text, dict(NAMES))
                return f" `{text}` gives {_shown(found)}."
        except Exception:  # no such call: the next one
            continue
    return ""


def _shown(value: Any) -> str:
    """A value in few characters, the same on every machine."""
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], Array):
        return ", ".join(map(_shown, value))
    if not isinstance(value, (Array, numpy.ndarray)):
        return f"`{value!r}`"
    if isinstance(value, Array) and not value.node.known:
        return "an array of the graph"
    found = numpy.asarray(value)
    if found.dtype.kind in "fc":
        found = numpy.round(found, 6) + 0
    text = numpy.array2string(found, separator=", ", precision=6).replace("\n", "")
    text = " ".join(text.split()).replace(" ,", ",").replace("[ ", "[")
    return f"`{text}`" if len(text) <= LONGEST else f"an array of shape {value.shape}"
