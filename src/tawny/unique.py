"""Objects there is one of: a copy of such an object is the object itself."""

from __future__ import annotations

from typing import NoReturn, Self

from tawny.errors import type_error


class Unique:
    """Is never changed, or owns memory that is freed with it: copies are the same object.

    It cannot be pickled.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise type_error(
            "pickle",
            f"an object of class {type(self).__name__} belongs to this process; save the graph "
            "(graph.save) and compile it where it is needed",
        )
