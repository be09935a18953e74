"""What this namespace says of itself: the array API's inspection chapter."""

from __future__ import annotations

from typing import Any

from tawny import dtype as dt
from tawny.array import check_device
from tawny.dtype import DType
from tawny.numpy.types import isdtype
from tawny.operator import public


class NamespaceInfo:
    """Capabilities, devices and dtypes of `tawny.numpy`."""

    def capabilities(self) -> dict[str, Any]:
        """What the standard lets a library choose.

        Boolean indexing and data-dependent shapes work on arrays that depend on no variable.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays live unless told otherwise."""
        return "cpu"

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtype of each kind that functions choose by themselves."""
        check_device(device, "default_dtypes")
        return {
            "real floating": dt.FLOAT64,
            "complex floating": dt.COMPLEX128,
            "integral": dt.INT64,
            "indexing": dt.INT64,
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """The supported dtypes the standard knows, by name; of one kind if it is given."""
        check_device(device, "dtypes")
        return {
            str(d): d for d in dt.DTYPES if d != dt.FLOAT16 and (kind is None or isdtype(d, kind))
        }

    def devices(self) -> tuple[str, ...]:
        """Every device."""
        return ("cpu",)


@public()
def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  (the standard's name)
    """An object that tells what this namespace supports."""
    return NamespaceInfo()
