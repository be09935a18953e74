"""User functions by name, so that graphs that call them can be written to files and read again.

A file never holds a function: it holds the name under which one was registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tawny.errors import type_error
from tawny.forking import fork_safe_lock

Function = Callable[..., Any]

_LOCK: Final = fork_safe_lock()
_FUNCTIONS: Final[dict[str, Function]] = {}


def register_function(name: str, f: Function) -> None:
    """Let files refer to a function by name, so that graphs which call it can be saved.

    - `name`: the name, the same wherever the file is loaded; a later function of that name takes
      the place of this one.
    - `f`: the function that is given to `tw.delay`.

    Files hold no code: loading one looks the function up.

        def cube(x):
            return x**3

        tw.register_function("cube", cube)
        x = tw.var("x")
        tw.Graph([x], tw.delay(cube, x)).save("cube.tawny")
        float(tw.load("cube.tawny").compile()(2.0))   # -> 8.0
    """
    if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("register_function", f"name must be a non-empty string, not {name!r}")
    if not callable(f):
        raise type_error("register_function", f"f must be a function, not {type(f).__name__} {f!r}")
    with _LOCK:
        _FUNCTIONS[name] = f


def registered_function(name: str) -> Function | None:
    """The function registered as `name`."""
    return _FUNCTIONS.get(name)


def registered_name(f: object) -> str | None:
    """The name `f` itself was last registered under."""
    with _LOCK:
        return next((n for n, g in reversed(_FUNCTIONS.items()) if g is f), None)
