"""Training written to a file, so that it can be taken up again and give the same bits.

A checkpoint is one safetensors file: parameters, running statistics, everything the optimiser
remembers and the history are its arrays.  Its header is the manifest: what there is, the digest of
all of it, and as JSON where training stands and how many workers made it.  Random
numbers and the order of rows depend on the seed, the epoch and the step alone, so these three are
all that is written of them.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np

from tawny.errors import type_error, value_error, warn, with_location
from tawny.files.reading import GraphFileError, Json, excerpt, is_natural, parse_json
from tawny.files.safetensors import read, write
from tawny.nn.training.callbacks import History
from tawny.node import Value
from tawny.optim.stopping import Memory

FORMAT: Final = "tawny.training"
VERSION: Final = "1"

_POSITION: Final = ("step", "epoch", "position", "rows")
_HISTORY: Final = ("batch_loss", "rate", "loss")


@dataclass(frozen=True)
class Checkpoint:
    """A file that training is written to, and how often.

    `path` may have the fields `{step}` and `{epoch}`; without them each file replaces the one
    before.  `every` is "epoch", "batch", a number of steps, or a function that is given the
    event (as callbacks are) after each step and each epoch and says whether to write.
    """

    path: str | os.PathLike[str]
    every: Literal["epoch", "batch"] | int | Callable[[Any], bool] = "epoch"

    def __post_init__(self) -> None:
        given = cast("object", self.every)
        if not (callable(given) or given in ("epoch", "batch") or _is_count(given)):
            raise value_error(
                "Checkpoint",
                f"every is {given!r}; accepted: 'epoch', 'batch', a number of steps, a function",
            )
        path = cast("object", self.path)
        if not isinstance(path, (str, os.PathLike)):
            raise type_error("Checkpoint", f"path is {path!r}; accepted: text or a path")
        try:
            self.path_at(0, 0)
        except (KeyError, IndexError, ValueError):
            path = os.fspath(self.path)
            raise value_error(
                "Checkpoint", f"path is {path!r}; its fields may be {{step}} and {{epoch}}"
            ) from None

    def is_due(self, event: Any) -> bool:
        """Whether to write after this event."""
        if callable(self.every):
            return bool(self.every(event))
        if isinstance(self.every, int):
            return bool(event.event == "batch" and event.step % self.every == 0)
        return bool(event.event == self.every)

    def steps_left(self, step: int) -> float:
        """How many steps may be made before somebody looks whether to write."""
        if callable(self.every) or self.every == "batch":
            return 1
        return math.inf if self.every == "epoch" else self.every - step % self.every

    def path_at(self, step: int, epoch: int) -> Path:
        """The file for this step."""
        return Path(os.fspath(self.path).format(step=step, epoch=epoch))


def as_checkpoint(given: object) -> Checkpoint | None:
    """A checkpoint, from a path too; its folder must be there, and it must be no folder itself."""
    if given is None:
        return None
    if isinstance(given, (str, os.PathLike)):
        given = Checkpoint(cast("str", given))
    if isinstance(given, Checkpoint):
        folder = Path(given.path).parent
        if "{" not in str(folder) and not folder.is_dir():
            raise FileNotFoundError(with_location(f"nn.Checkpoint: there is no folder {folder}"))
        if Path(given.path).is_dir():
            raise IsADirectoryError(
                with_location(
                    f"nn.Checkpoint: {given.path} is a folder; accepted: the path of a file"
                )
            )
        return given
    raise type_error("nn.train", f"checkpoint is {given!r}; accepted: nn.Checkpoint, or a path")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@dataclass
class TrainingPosition:
    """The position of training: all that a step depends on beside the arrays."""

    step: int = 0
    """The number of updates."""
    epoch: int = 0
    """The epoch under way, from 0."""
    position: int = 0
    """Batches of it that are done."""
    rows: int = 0
    """Rows of these batches."""
    total: float = 0.0
    """The sum of their losses, each times its rows."""
    stopping: list[Memory] = field(default_factory=list[Memory])
    """What each rule of stopping remembers."""


def without_addresses(text: str) -> str:
    """A description without addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def save(
    path: Path,
    arrays: Mapping[str, Value],
    where: TrainingPosition,
    history: History,
    about: Mapping[str, str],
) -> None:
    """Write all that training depends on; `about` says what must be the same when it goes on."""
    place = {name: getattr(where, name) for name in _POSITION}
    text = {
        "format": FORMAT,
        "version": VERSION,
        "training": json.dumps({**place, "stopping": where.stopping, "about": dict(about)}),
    }
    if history.workers:
        text["workers"] = json.dumps(history.workers)
    records = {f"history.{n}": np.array(getattr(history, n), np.float64) for n in _HISTORY}
    for name, values in history.validation.items():
        records[f"validation.{name}"] = np.array(values, np.float64)
    records["progress"] = np.array([where.total, history.seconds])
    write(path, {**arrays, **records}, text, "nn.Checkpoint")


def newest_file(path: str | os.PathLike[str]) -> Path:
    """The file of the most steps that is whole, of those a path with fields stands for."""
    whole = Path(path)
    parts = re.split(r"(\{(?:step|epoch)\})", whole.name)
    if len(parts) == 1:
        return whole
    pattern = re.compile(
        "".join([r"(\d+)" if k % 2 else re.escape(p) for k, p in enumerate(parts)])
    )
    order = sorted(range(len(parts) // 2), key=lambda k: parts[2 * k + 1] != "{step}")
    found: list[tuple[list[int], Path]] = []
    for file in whole.parent.iterdir():
        if match := pattern.fullmatch(file.name):
            numbers = [int(number) for number in match.groups()]
            found.append(([numbers[k] for k in order], file))
    for _, file in sorted(found, reverse=True):
        try:
            read(file)
        except GraphFileError as error:
            warn(f"nn.train: {error}; an older checkpoint is taken", RuntimeWarning)
        else:
            return file
    raise FileNotFoundError(with_location(f"nn.train: there is no whole checkpoint {whole}"))


def restore(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Value],
    about: Mapping[str, str],
    stopping: Sequence[Memory],
) -> tuple[TrainingPosition, History]:
    """Fill `arrays` with what a file holds; gives where training stood and its history.

    `stopping` is what the rules of stopping remember at the start.  Nothing is changed unless
    everything fits.
    """
    contents = read(path)

    def fail(place: str, detail: str) -> GraphFileError:
        return GraphFileError(os.fspath(path), place, detail)

    text, found = contents.text, contents.arrays
    if text.get("format") != FORMAT or text.get("version") != VERSION:
        raise fail("format", f"expected {FORMAT!r} of version {VERSION}")
    data = parse_json(text.get("training", ""), "training", fail)
    if not isinstance(data, dict) or data.keys() != {*_POSITION, "stopping", "about"}:
        raise fail("training", f"expected {', '.join(_POSITION)}, stopping and about")
    if not all(is_natural(data[name]) for name in _POSITION):
        raise fail("training", f"{', '.join(_POSITION)} must be integers from 0")
    said = data["about"]
    for name, wanted in about.items():
        if not isinstance(said, dict) or said.get(name) != wanted:
            was = excerpt(said.get(name) if isinstance(said, dict) else said)
            raise value_error(
                "nn.train",
                f"{os.fspath(path)} was written with {name} {was}; here it is {wanted!r}, and "
                "training would not go on as it began",
            )
    memories = _read_memories(data["stopping"], fail)
    if [m.keys() for m in memories] != [m.keys() for m in stopping]:
        raise value_error(
            "nn.train",
            f"{os.fspath(path)} was written with {_describe_rules(memories)}; "
            f"here are {_describe_rules(stopping)}",
        )
    history, progress = _read_history(found, fail)
    history.workers = _read_workers(parse_json(text.get("workers", "[]"), "workers", fail), fail)
    _check_arrays(found, arrays, fail)
    place = {name: cast("int", data[name]) for name in _POSITION}
    where = TrainingPosition(**place, total=progress[0], stopping=memories)
    history.seconds = progress[1]
    for name, own in arrays.items():
        own[...] = found[name]
    return where, history


def weight_names(names: Iterable[str]) -> dict[str, str]:
    """What a model takes of a checkpoint: the arrays' names there by the paths in the model."""
    kinds = ("parameters.", "state.")
    return {n.partition(".")[2]: n for n in names if n.startswith(kinds)}


def _read_history(
    found: dict[str, Value], fail: Callable[[str, str], GraphFileError]
) -> tuple[History, list[float]]:
    """The history, taken out of the arrays found."""
    names = [*(f"history.{n}" for n in _HISTORY), "progress"]
    names += [n for n in found if n.startswith("validation.")]
    values: dict[str, list[float]] = {}
    for name in names:
        array = found.pop(name, None)
        if array is None or array.dtype != np.float64 or array.ndim != 1:
            raise fail(f"array {name}", "expected a list of double-precision numbers")
        values[name] = array.tolist()
    if len(values["progress"]) != 2:
        raise fail("array progress", "expected two numbers")
    if len(values["history.rate"]) != len(values["history.batch_loss"]):
        raise fail("array history.rate", "expected a rate for each loss")
    validation = {
        n.removeprefix("validation."): v for n, v in values.items() if n.startswith("validation.")
    }
    lists = {n: values[f"history.{n}"] for n in _HISTORY}
    history = History(lists["batch_loss"], lists["rate"], lists["loss"], validation)
    return history, values["progress"]


def _check_arrays(
    found: Mapping[str, Value],
    arrays: Mapping[str, Value],
    fail: Callable[[str, str], GraphFileError],
) -> None:
    wrong = [f"{n} is missing" for n in arrays if n not in found]
    wrong += [f"{n} is not expected" for n in found if n not in arrays]
    for name in arrays.keys() & found.keys():
        own, other = arrays[name], found[name]
        if (own.shape, own.dtype) != (other.shape, other.dtype):
            wrong.append(
                f"{name} is {other.dtype}{list(other.shape)}, not {own.dtype}{list(own.shape)}"
            )
    if wrong:
        raise fail("arrays", "they are not this model's: " + "; ".join(sorted(wrong)))


def _read_workers(data: Json, fail: Callable[[str, str], GraphFileError]) -> list[tuple[int, int]]:
    """From which step on there were how many workers."""
    rows: list[Json] = data if isinstance(data, list) else [None]
    for row in rows:
        pair: list[Json] = row if isinstance(row, list) else []
        if len(pair) != 2 or not all(map(is_natural, pair)):
            raise fail("workers", "expected pairs of a step and a number of workers")
    return cast("list[tuple[int, int]]", [tuple(row) for row in cast("list[list[int]]", rows)])


def _read_memories(data: Any, fail: Callable[[str, str], GraphFileError]) -> list[Memory]:
    rules = cast("list[Any]", data)
    if not isinstance(data, list) or not all(
        isinstance(m, dict)
        and all(v is None or type(v) in (int, float) for v in cast("dict[str, Any]", m).values())
        for m in rules
    ):
        raise fail("stopping", "expected a list of tables of numbers")
    return cast("list[Memory]", rules)


def _describe_rules(memories: Sequence[Memory]) -> str:
    """Rules of stopping by what they remember."""
    said = ", ".join(" and ".join(m) or "nothing" for m in memories)
    return f"{len(memories)} rules of stopping" + (f", remembering {said}" if said else "")
