"""`tw.config`: what environment variables set, set from Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from tawny.errors import type_error, value_error
from tawny.settings import OVERRIDES, read_setting
from tawny.shape import as_int
from tawny.streams import MOST_SEED, current_streams, own_streams


class Setting(NamedTuple):
    """One thing that can be set."""

    variable: str
    """The environment variable that sets it for a process."""
    doc: str
    written: Callable[[Any], str]
    """The text an environment variable would have; refuses what cannot be meant."""
    read: Callable[[str], Any]
    """What such a text means."""
    apply: Callable[[Any], None] | None = None
    """What setting it does at once."""
    within: Callable[[Any], AbstractContextManager[None]] | None = None
    """What setting it for a block does there, in place of that."""


def _threads(value: Any) -> str:
    number = as_int(value, "config", "threads")
    if number < 1:
        raise value_error("config", f"threads is {number}; it must be at least 1")
    return str(number)


def _directory(value: Any) -> str:
    if value is False or (isinstance(value, str) and value.lower() == "off"):
        return "off"
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):  # pyright: ignore[reportUnknownArgumentType]
        raise type_error("config", f"cache_dir is {value!r}; accepted: a directory, or 'off'")
    path = Path(os.fsdecode(value)).absolute()  # pyright: ignore[reportUnknownArgumentType]
    if path.exists() and not path.is_dir():
        raise value_error("config", f"cache_dir is {str(path)!r}, which is no directory")
    return str(path)


def _read_directory(given: str) -> Any:
    return "off" if given.lower() in {"off", "0", "none"} else Path(given)


def _choice(name: str, *accepted: str) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        if value not in accepted:
            listed = ", ".join(map(repr, accepted))
            raise value_error("config", f"{name} is {value!r}; accepted: {listed}")
        return str(value)

    return written


_level = _choice("isa", "avx512bf16", "avx512vnni", "avx512", "avx2vnni", "avx2", "sse2")


def _instructions(value: Any) -> str:
    level = _level(value)
    if "tawny.engine.llvm.runtime.host" in sys.modules:
        raise value_error("config", "isa must be set before the first program is compiled")
    return level


def _truth(name: str) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        if not isinstance(value, bool):
            raise type_error("config", f"{name} is {value!r}; accepted: True, False")
        return str(int(value))

    return written


def _seed(value: Any) -> str:
    number = as_int(value, "config", "seed")
    if not 0 <= number <= MOST_SEED:
        raise value_error("config", f"seed is {number}; it must be from 0 to 2**64 - 1")
    return str(number)


def _restart(seed: int | None) -> None:
    current_streams().restart(seed)


def _read_truth(given: str) -> bool:
    return given != "0"


SETTINGS: Final = {
    "threads": Setting(
        "TAWNY_THREADS", "threads of programs compiled without threads=", _threads, int
    ),
    "cache_dir": Setting(
        "TAWNY_CACHE",
        'the directory in which compiled code is kept, or "off"',
        _directory,
        _read_directory,
    ),
    "seed": Setting(
        "TAWNY_SEED",
        "the seed of random arrays, which begin again with its first stream",
        _seed,
        int,
        _restart,
        own_streams,
    ),
    "verbose": Setting(
        "TAWNY_VERBOSE",
        "whether to say what is done; unless it is off, long work says so at terminals",
        _truth("verbose"),
        _read_truth,
    ),
    "isa": Setting("TAWNY_ISA", "the greatest instruction set to use", _instructions, str),
    "debug": Setting(
        "TAWNY_DEBUG",
        "whether graphs are checked after each pass and memory is poisoned",
        _truth("debug"),
        _read_truth,
    ),
}


def _texts(settings: Mapping[str, Any]) -> dict[str, str | None]:
    """The texts environment variables would have; refuses what cannot be meant."""
    out: dict[str, str | None] = {}
    for name, value in settings.items():
        if name not in SETTINGS:
            listed = ", ".join(SETTINGS)
            raise type_error("config", f"unknown setting {name!r}; accepted: {listed}")
        out[name] = None if value is None else SETTINGS[name].written(value)
    return out


@final
class Config:
    """Settings of the whole process, which programs compiled from then on follow.

    What is not set is what its environment variable says; None takes back what was set.

        tw.config.threads = 2
        with tw.config(cache_dir="off", seed=7):
            print(tw.config)                      # all settings that are in force
        tw.config.threads = None
    """

    __slots__ = ()

    threads: int | None
    cache_dir: Path | str | None
    seed: int | None
    verbose: bool | None
    isa: str | None
    debug: bool | None

    def __getattr__(self, name: str) -> Any:
        if name not in SETTINGS:
            raise AttributeError(f"config has no setting {name!r}; accepted: {', '.join(SETTINGS)}")
        given = read_setting(SETTINGS[name].variable)
        try:
            return SETTINGS[name].read(given) if given else None
        except ValueError:
            return given  # the environment's, which is refused where it is used

    def __setattr__(self, name: str, value: Any) -> None:
        texts = _texts({name: value})
        self._set(texts)
        setting, text = SETTINGS[name], texts[name]
        if setting.apply is not None:
            setting.apply(None if text is None else setting.read(text))

    @contextmanager
    def __call__(self, **settings: Any) -> Generator[Config]:
        """Set something while a block runs."""
        before = OVERRIDES.copy()
        texts = _texts(settings)
        try:
            with ExitStack() as stack:
                for name, text in texts.items():
                    if text is not None and (within := SETTINGS[name].within) is not None:
                        stack.enter_context(within(SETTINGS[name].read(text)))
                self._set(texts)
                yield self
        finally:
            for name in settings:
                variable = SETTINGS[name].variable
                if variable in before:
                    OVERRIDES[variable] = before[variable]
                else:
                    OVERRIDES.pop(variable, None)

    @staticmethod
    def _set(texts: Mapping[str, str | None]) -> None:
        for name, text in texts.items():
            variable = SETTINGS[name].variable
            if text is None:
                OVERRIDES.pop(variable, None)
            else:
                OVERRIDES[variable] = text

    def __dir__(self) -> list[str]:
        return [*SETTINGS, *object.__dir__(self)]

    def __repr__(self) -> str:
        lines = [
            f"  {name}={getattr(self, name)!r}  ({setting.variable}: {setting.doc})"
            for name, setting in SETTINGS.items()
        ]
        return "\n".join(["<config", *lines, ">"])


config: Final = Config()
"""The settings."""
