"""Values given to all parameters and states of a model, or none of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tawny import pages
from tawny.array import wrap
from tawny.errors import value_error
from tawny.nn.binding import Declaration
from tawny.nn.module import Module
from tawny.nn.structure import by_name
from tawny.node import Value, constant


def declared(model: Module, op: str) -> dict[str, Declaration]:
    """Parameters and states by their paths."""
    placed = ((path, m) for path, m in model.walk() if isinstance(m, Declaration))
    return by_name(placed, f"{op} {type(model).__name__}")


def assign(model: Module, arrays: Mapping[str, Value], names: Mapping[str, str], op: str) -> None:
    """Give a model its values, or say all that is wrong; `names` are those in the source."""
    places = declared(model, op)
    wrong = [f"{n} is missing" for n in places if n not in arrays]
    wrong += [f"{names[n]} is not expected" for n in arrays if n not in places]
    for name, declaration in places.items():
        if (value := arrays.get(name)) is None:
            continue
        where = name if names[name] == name else f"{name} (from {names[name]})"
        if value.shape != declaration.shape:
            wrong.append(f"{where} has shape {value.shape}; it must be {declaration.shape}")
        elif not declaration.takes(value.dtype):
            wrong.append(f"{where} has dtype {value.dtype}; it must be like {declaration.dtype}")
    if wrong:
        raise value_error(op, f"the weights do not fit {type(model).__name__}: {'; '.join(wrong)}")
    for name, declaration in places.items():
        declaration.check_fits(arrays[name], op, names[name])
    for name, declaration in places.items():
        value = pages.aligned(declaration.shape, declaration.dtype)
        np.copyto(value, arrays[name], casting="unsafe")  # what fits was checked
        declaration.assign(wrap(constant(value)))
