"""Arrays in a device's memory, as users hold them."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from tawny.dtype import DType
from tawny.engine.gpu.driver import Bytes, DeviceDriver
from tawny.engine.layout import Memory, contiguous
from tawny.errors import value_error
from tawny.node import Value
from tawny.shape import Shape, size
from tawny.unique import Unique


@final
class GpuArray(Unique):
    """An array in a device's memory: an output where it lies, or what a variable may be bound to.

    `numpy.asarray` and `numpy()` copy it to the host.
    """

    def __init__(
        self,
        driver: DeviceDriver,
        buffer: Any,
        offset: int,
        memory: Memory,
        *,
        writeable: bool = False,
    ) -> None:
        self.driver, self.buffer, self.offset, self.memory = driver, buffer, offset, memory
        self.writeable = writeable
        """Whether a program may change it."""

    @staticmethod
    def of(driver: DeviceDriver, value: Value) -> GpuArray:
        """A copy of an array of the host."""
        whole = np.ascontiguousarray(value)
        buffer = driver.allocate(max(whole.nbytes, 1))
        driver.write(buffer, 0, as_bytes(whole))
        return GpuArray(driver, buffer, 0, contiguous(value.shape, value.dtype), writeable=True)

    @property
    def shape(self) -> Shape:
        """The size along each axis."""
        return self.memory.shape

    @property
    def dtype(self) -> DType:
        """The dtype of its elements."""
        return self.memory.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next along each axis."""
        return self.memory.strides

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return size(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * int(self.dtype.itemsize)

    @property
    def device(self) -> str:
        """The device it lies on."""
        return self.driver.label

    def to_device(self, device: str, /, *, stream: None = None) -> GpuArray | Value:
        """The array itself on its own device; on `"cpu"` a copy, as a NumPy array."""
        if stream is not None:
            raise value_error("to_device", f"stream must be None, not {stream!r}")
        if device == self.device:
            return self
        if device == "cpu":
            return self.numpy()
        raise value_error("to_device", f"device is {device!r}; accepted: {self.device!r} and 'cpu'")

    def numpy(self) -> Value:
        """A copy as a NumPy array."""
        return fetch_array(self.driver, self.buffer, self.offset, self.memory).copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Value:
        if copy is False:
            raise value_error("numpy", f"an array on {self.device} cannot be read without a copy")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        address = self.driver.cuda_address(self.buffer)
        if address is None:
            raise AttributeError("__cuda_array_interface__")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (address + self.offset, False),  # PyTorch refuses what it must not write
            "strides": None if self.memory.contiguous else self.strides,
            "stream": None,  # what is asked for is done before anything gives an array
            "version": 3,
        }

    def __setitem__(self, key: object, value: Any) -> None:
        if key is not Ellipsis or not self.writeable:
            raise value_error(
                "setitem",
                f"an array on {self.device} takes new values as a whole: array[...] = values"
                if self.writeable
                else "this is a read-only view of a program's own memory",
            )
        whole = np.ascontiguousarray(np.broadcast_to(value, self.shape), self.dtype)
        self.driver.write(self.buffer, self.offset, as_bytes(whole))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} on {self.device}>"


def as_bytes(array: Value) -> Bytes:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


def fetch_array(driver: DeviceDriver, buffer: Any, first: int, memory: Memory) -> Value:
    """What lies on the device from a place on, as an array of the host with the same strides."""
    if not size(memory.shape):
        return np.empty(memory.shape, memory.dtype)
    reach = [(n - 1) * s for n, s in zip(memory.shape, memory.strides, strict=True)]
    before = sum([r for r in reach if r < 0])
    after = sum([r for r in reach if r > 0]) + memory.dtype.itemsize
    data = driver.read(buffer, first + before, after - before)
    item = memory.dtype.itemsize
    if all(s % item == 0 for s in memory.strides):
        whole = data.view(memory.dtype)[-before // item :]
        return np.lib.stride_tricks.as_strided(whole, memory.shape, memory.strides)
    flat = data[-before:]
    spread = np.lib.stride_tricks.as_strided(flat, (*memory.shape, item), (*memory.strides, 1))
    return np.ascontiguousarray(spread).view(memory.dtype).reshape(memory.shape)
