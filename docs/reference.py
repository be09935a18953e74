"""The reference: every public name with its parameters, what it says of itself, and an example."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import numpy

import tawny as tw
import tawny.numpy as np
from reference_examples import NUMPY
from tawny import nn, optim
from tawny.array import Array
from tawny.graph.plan import Plan
from tawny.graph.throughput import Throughput
from tawny.lazy import cached_property

NAMES: Final = {
    "np": np,
    "tw": tw,
    "numpy": numpy,
    "x": np.asarray([[1, 2], [3, 4]]),
    "v": [3, 1, 2],
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

CLASSES: Final = {
    "Graphs: `tw.Graph`": tw.Graph,
    "Programs: `tw.Program`": tw.Program,
    "Plans": Plan,
    "Copies of programs": Throughput,
    "Arrays: `tw.Array`": Array,
    "Modules: `nn.Module`": nn.Module,
}

INTRODUCTION: Final = """\
# Reference

Every public name. `np` is `tawny.numpy` (or `tawny.eager`, which computes at once). Functions that NumPy has too take its
arguments in its order, and mean the same; their defaults are NumPy's. `out=`, `order=`, `casting=` and `subok=` are
accepted where they ask for nothing and left out here. Examples begin with

```python
import numpy
import tawny as tw
import tawny.numpy as np
from tawny import nn, optim
```

and `# ->` says what a line gives. In those of one line `x` is `[[1, 2], [3, 4]]`, `v` is `[3, 1, 2]` and `w` is `np.asarray([1.0, 2.0])`.
"""


def reference() -> str:
    """The whole page."""
    text = "\n".join(_lines())
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield from _section("Top level", "tw", tw)
    for title, kind in CLASSES.items():
        yield from _class(title, kind)
    yield from _section("Arrays: `tawny.numpy`", "np", np)
    for name in ("linalg", "fft"):
        yield from _section(f"`np.{name}`", f"np.{name}", getattr(np, name))
    yield from _section("Random draws: `tw.random`", "tw.random", tw.random)
    yield from _section("Special functions: `tw.special`", "tw.special", tw.special)
    yield from _section("Solvers: `tw.solve`", "tw.solve", tw.solve)
    yield from _section("Files of other libraries: `tw.onnx`", "tw.onnx", tw.onnx)
    yield from _section("Networks: `tw.nn`", "nn", nn)
    yield from _section("Optimisers: `tw.optim`", "optim", optim)


def _section(title: str, prefix: str, module: ModuleType) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    for name in sorted(sorted(module.__all__), key=str.lower):
        value = getattr(module, name)
        own = getattr(value, "__module__", "").startswith("tawny")
        if not callable(value) or not own or value in CLASSES.values():
            continue
        if prefix == "np" and (
            name == "__array_namespace_info__" or value is getattr(tw, name, None)
        ):
            continue
        yield from _entry(f"{prefix}.{name}", value, _example(prefix, name, value))
    yield ""


def _class(title: str, kind: type) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    if kind is tw.Graph:
        yield f"`tw.Graph{_parameters(kind, method=False)}`"
        yield ""
    for part in _parts(kind):
        yield from part
        yield ""
    for name, member in sorted(inspect.getmembers(kind), key=lambda pair: pair[0].lower()):
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, (property, cached_property)):
            yield from _item(f".{name}", member)
        elif callable(member):
            shown = "" if name == "__call__" else f".{name}"
            yield from _item(f"{shown}{_parameters(member, method=True)}", member)
    yield ""


def _entry(name: str, value: Any, example: str) -> Iterator[str]:
    yield from _item(f"{name}{_parameters(value, method=False)}", value, example)


def _item(title: str, value: Any, example: str = "") -> Iterator[str]:
    """An item of a list: what a name says of itself, the first paragraph beside the title."""
    first, *rest = _parts(value) or [[""]]
    text = " ".join(first)
    if rest and example and len(rest[-1]) == 1:
        rest[-1] = [f"{rest[-1][0]}{example}"]
    else:
        text += example
    yield f"- `{title}`: {text}"
    for part in rest:
        yield ""
        yield from (f"  {line}" if line else "" for line in part)
    if rest:
        yield ""


def _parts(value: Any) -> list[list[str]]:
    """What a name says of itself, as parts of Markdown: paragraphs, lists and examples."""
    parts: list[list[str]] = []
    code: list[str] = []
    for part in [*(inspect.getdoc(value) or "").split("\n\n"), ""]:
        if part.startswith("    "):
            code += ["", *(line.removeprefix("    ") for line in part.splitlines())]
            continue
        if code:
            parts.append(["```python", *code[1:], "```"])
            code = []
        if part.startswith("- "):
            parts.append(["- " + " ".join(one.split()) for one in part[2:].split("\n- ")])
        elif part:
            parts.append([" ".join(part.split())])
    return parts


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


def _shows(value: Any) -> bool:
    """Whether a name shows an example of its own."""
    return any(part[0] == "```python" for part in _parts(value))


def _example(prefix: str, name: str, value: Any) -> str:
    if prefix == "np" and name in NUMPY:
        return f" `{NUMPY[name]}` gives {_shown(eval(NUMPY[name], dict(NAMES)))}."
    if not prefix.startswith(("np", "tw.special")) or isinstance(value, type) or _shows(value):
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
