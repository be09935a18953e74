"""The weights of other libraries in a model of this one: names matched, layouts converted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from tawny.errors import type_error, value_error
from tawny.nn.interop.layouts import LayoutRule, Table, rule_for, same_name
from tawny.nn.module import Module
from tawny.nn.parameters import Declaration, Path, path_text
from tawny.nn.values import assign, declarations_by_path
from tawny.node import Value

RenameFunction = Callable[[str], str | None]

Rename = Mapping[str, str | None] | RenameFunction
"""Names there to names here; None for what is to be left out."""

Adjustment = Callable[[str, Value], Value]
"""What is done to a parameter in our layout, from the path of its layer."""

_IGNORED: Final = re.compile(
    r"(^|\.)(num_batches_tracked|seed_generator_state|seed_generator(_\d+)?\.[^.]*)$"
)
"""Arrays of other libraries that stand for nothing here."""

_CELL: Final = re.compile(r"(lstm|gru|simple_rnn)_cell(_\d+)?")
"""Parts of paths in Keras that have no counterpart here."""

_NUMBERED: Final = re.compile(r"(^|\.)vars\.(\d+)$")
"""The end of the name of a variable that a file of Keras has by its number in the layer."""


class ForeignArrays(NamedTuple):
    """Arrays by the names they have here, and the names they had."""

    arrays: dict[str, Value]
    names: dict[str, str]


def load_foreign(
    op: str,
    table: Table,
    model: Module,
    given: Mapping[str, Any],
    rename: RenameFunction,
    after: Adjustment,
) -> None:
    """Give a model the arrays of another library, or say all that is wrong."""
    declarations_by_path(
        model, op
    )  # refuses names that are not unique before anything is looked for
    wanted = _parameter_sources(table, model)
    theirs = _name_numbered(
        _rename_all(op, given, rename), [n for want in wanted for n in want.names]
    )
    arrays: dict[str, Value] = {}
    origin: dict[str, str] = {}
    wrong: list[str] = []
    expected = {name for want in wanted for name in want.names}
    for path, layer, rule, names in wanted:
        called = " and ".join(theirs.names.get(n, n) for n in names)
        if missing := [n for n in names if n not in theirs.arrays]:
            wrong += [f"{n} is missing" for n in missing]
            continue
        found = [theirs.arrays[n] for n in names]
        if (why := rule.misfit(layer, *found)) is not None:
            wrong.append(f"{called} {why}")
            continue
        arrays[path_text(path)] = after(path_text(path[:-1]), rule.convert(layer, *found))
        origin[path_text(path)] = called
    others = [f"{name} is not expected" for n, name in theirs.names.items() if n not in expected]
    if others and wrong:
        others.append("say with rename what is called otherwise there")
    if wrong := wrong + others:
        said = "; ".join(dict.fromkeys(wrong))
        raise value_error(op, f"the weights do not fit {type(model).__name__}: {said}")
    assign(model, arrays, origin, op)


class ParameterSource(NamedTuple):
    """A parameter or state, the layer whose table says how it is made, how, and of what."""

    path: Path
    layer: Module
    rule: LayoutRule
    names: list[str]


def _parameter_sources(table: Table, model: Module) -> list[ParameterSource]:
    owners = {path: member for path, member in model.walk() if isinstance(member, Module)}
    wanted: list[ParameterSource] = []
    for path, member in model.walk():
        if isinstance(member, Declaration):
            owner, rule = _find_rule(table, path, owners)
            names = [path_text((*owner, their)) for their in rule.theirs]
            wanted.append(ParameterSource(path, owners[owner], rule, names))
    return wanted


def _find_rule(table: Table, path: Path, owners: Mapping[Path, Module]) -> tuple[Path, LayoutRule]:
    """How a parameter is made, and the path of the layer whose table says it."""
    places = [path[:n] for n in range(len(path)) if path[:n] in owners]
    for place in places:
        rule = rule_for(table, owners[place], path_text(path[len(place) :]))
        if rule is not None:
            return place, rule
    return places[-1], same_name(path_text(path[len(places[-1]) :]))


def plain_name(name: str) -> str:
    """A name as `rename` sees it: parts joined by dots, without what stands for nothing here."""
    parts = name.removesuffix(":0").replace("/", ".").split(".")
    joined = ".".join(part for part in parts if not _CELL.fullmatch(part))
    return _NUMBERED.sub(r"\1#\2", joined)


def _rename_all(op: str, given: Mapping[str, Any], rename: RenameFunction) -> ForeignArrays:
    arrays: dict[str, Value] = {}
    names: dict[str, str] = {}
    for name, value in given.items():
        here = rename(plain_name(name))
        if here is None or _IGNORED.search(here):
            continue
        if here in arrays:
            raise value_error(op, f"{name} and {names[here]} are both renamed to {here}")
        arrays[here] = _as_value(op, name, value)
        names[here] = name
    return ForeignArrays(arrays, names)


def _name_numbered(given: ForeignArrays, wanted: Iterable[str]) -> ForeignArrays:
    """Variables that have a number, `dense.#0`, under the names that a layer wants, in order."""
    arrays, names = dict(given.arrays), dict(given.names)
    taken: dict[str, int] = {}
    for name in dict.fromkeys(wanted):
        layer, dot, _ = name.rpartition(".")
        number = taken.get(layer, 0)
        taken[layer] = number + 1
        numbered = f"{layer}{dot}#{number}"
        if numbered in arrays and name not in arrays:
            arrays[name], names[name] = arrays.pop(numbered), names.pop(numbered)
    return ForeignArrays(arrays, names)


def _as_value(op: str, name: str, given: Any) -> Value:
    """A weight as NumPy's array; tensors are taken off their tape and their device."""
    try:
        return np.asarray(_cpu_tensor(given) if hasattr(given, "detach") else given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise type_error(
            op, f"{name} is {type(given).__name__}, of which NumPy makes no array: {error}"
        ) from error


def _cpu_tensor(given: Any) -> Any:
    """A tensor of PyTorch in the processor's memory; those of dtype bfloat16 become float32."""
    tensor = given.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def as_rename(rename: Rename | None) -> RenameFunction:
    """What a user may give to rename: a function, or a dict whose longest fitting prefix counts."""
    if rename is None:
        return _keep_name
    if callable(rename):
        return rename
    prefixes = {plain_name(old): new for old, new in rename.items()}

    def renamed(name: str) -> str | None:
        fitting = [p for p in prefixes if name == p or name.startswith(f"{p}.")]
        if not fitting:
            return name
        prefix = max(fitting, key=len)
        new = prefixes[prefix]
        if new is None:
            return None
        return f"{new}{name[len(prefix) :]}" if new else name[len(prefix) + 1 :]

    return renamed


def _keep_name(name: str) -> str:
    return name
