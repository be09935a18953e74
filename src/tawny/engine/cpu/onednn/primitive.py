"""oneDNN's objects: descriptors of memory, and primitives that compute something."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tawny.engine.cpu.onednn.library import (
    UNIMPLEMENTED,
    OneDnn,
    RefusedError,
    address,
    load,
    longs,
)
from tawny.shape import Shape
from tawny.unique import Unique

FLOAT32: Final = 3
ITEM: Final = 4
ANY: Final = 1
"""The tag by which a primitive may choose how memory lies."""

USER_SCRATCHPAD: Final = 1
NAME_QUERY: Final = 8
SCRATCHPAD_QUERY: Final = 136
WORKSPACE_QUERY: Final = 135
KINDS: Final = {1: 129, 33: 131, 17: 133, 129: 130, 161: 132, 145: 134, 64: WORKSPACE_QUERY}
"""By an argument's number, that of the query for its memory."""

SOURCE, TARGET, WEIGHTS, BIAS, WORKSPACE, SCRATCHPAD = 1, 17, 33, 41, 64, 80
SOURCE_GRADIENT, TARGET_GRADIENT, WEIGHTS_GRADIENT = 129, 145, 161


def library() -> OneDnn:
    """The library, which is there."""
    found = load()
    if found is None:
        raise RefusedError("load", -1)
    return found


class Handle(Unique):
    """An object of the library, which is destroyed with this one."""

    def __init__(self, value: int, kind: str) -> None:
        self.value = value
        destroy = getattr(library().c, f"dnnl_{kind}_destroy")
        weakref.finalize(self, destroy, address(value)).atexit = False


class Descriptor(Handle):
    """How a piece of memory lies."""

    def __init__(self, value: int) -> None:
        super().__init__(value, "memory_desc")

    @property
    def nbytes(self) -> int:
        """Bytes of the memory."""
        size: int = library().c.dnnl_memory_desc_get_size(address(self.value))
        return size

    def same(self, other: Descriptor) -> bool:
        """Whether memory lies alike."""
        return bool(library().c.dnnl_memory_desc_equal(address(self.value), address(other.value)))


@lru_cache(1024)
def with_strides(shape: Shape, strides: tuple[int, ...]) -> Descriptor:
    """Numbers whose steps in memory, in bytes, are given; those along axes of size 1 are free."""
    if any(stride <= 0 for n, stride in zip(shape, strides, strict=True) if n > 1):
        raise RefusedError("memory that is read backwards or repeatedly", UNIMPLEMENTED)
    steps = longs([max(stride // ITEM, 1) for stride in strides])
    given = ctypes.c_int(len(shape)), longs(shape), ctypes.c_int(FLOAT32), steps
    return Descriptor(library().create("memory_desc_create_with_strides", *given))


@lru_cache(1024)
def with_tag(shape: Shape, tag: int) -> Descriptor:
    """Numbers that lie as a tag of the library says."""
    given = ctypes.c_int(len(shape)), longs(shape), ctypes.c_int(FLOAT32), ctypes.c_int(tag)
    return Descriptor(library().create("memory_desc_create_with_tag", *given))


def free(shape: Shape) -> Descriptor:
    """Numbers that may lie as a primitive likes best."""
    return with_tag(shape, ANY)


@lru_cache(2)
def attributes(*, adds: bool = False) -> Handle:
    """Attributes of a primitive: whoever runs it gives it scratch memory.

    If it `adds`, its result is added to what lies in the result's place.
    """
    c = library()
    made = Handle(c.create("primitive_attr_create"), "primitive_attr")
    mode = ctypes.c_int(USER_SCRATCHPAD)
    c.call("primitive_attr_set_scratchpad_mode", address(made.value), mode)
    if adds:
        after = Handle(c.create("post_ops_create"), "post_ops")
        numbers = ctypes.c_float(1.0), ctypes.c_int32(0), ctypes.c_int(0)
        c.call("post_ops_append_sum", address(after.value), *numbers)
        c.call("primitive_attr_set_post_ops", address(made.value), address(after.value))
    return made


class Description(Handle):
    """A description of a primitive: what it computes, and how memory lies.

    Arguments are objects of the library, None for those that are left out, or plain numbers.
    """

    def __init__(self, kind: str, *arguments: Any) -> None:
        given = [address(a.value) if isinstance(a, Handle) else a for a in arguments]
        made = library().create(f"{kind}_primitive_desc_create", *given)
        super().__init__(made, "primitive_desc")

    @property
    def implementation(self) -> str:
        """The library's name of the code that was chosen."""
        name, query = ctypes.c_char_p(), (ctypes.c_int(NAME_QUERY), ctypes.c_int(0))
        library().call("primitive_desc_query", address(self.value), *query, ctypes.byref(name))
        return (name.value or b"").decode()

    def memory(self, query: int) -> Descriptor | None:
        """How one of its arguments lies; None where it has none."""
        c = library()
        found = c.c.dnnl_primitive_desc_query_md(address(self.value), query, 0)
        if not found:
            return None
        return Descriptor(c.create("memory_desc_clone", address(found)))


class Primitive(Handle):
    """Something that computes; `memory` is how its arguments lie, by their numbers."""

    def __init__(self, description: Description, known: Mapping[int, Descriptor]) -> None:
        super().__init__(
            library().create("primitive_create", address(description.value)), "primitive"
        )
        self.memory: dict[int, Descriptor] = dict(known)
        for argument, query in KINDS.items():
            found = description.memory(query) if argument not in self.memory else None
            if found is not None and found.nbytes:
                self.memory[argument] = found
        scratch = description.memory(SCRATCHPAD_QUERY)
        self.scratch = 0 if scratch is None else scratch.nbytes
        if scratch is not None and self.scratch:
            self.memory[SCRATCHPAD] = scratch


def reorder(source: Descriptor, target: Descriptor) -> Primitive:
    """Copies what lies in one way to where it lies in another."""
    c = library()
    engine = address(c.engine)
    description = Description("reorder", source, engine, target, engine, attributes())
    return Primitive(description, {SOURCE: source, TARGET: target})
