"""What a GPU is to the engines that run on it: memory, code, and launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from tawny.engine.gpu.launch import KernelCode
from tawny.engine.lowering import MachineModel
from tawny.engine.protocol import Device

if TYPE_CHECKING:
    from tawny.engine.gpu.array import GpuArray

GPU: Final = MachineModel(
    alignment=64, operations=1e13, bandwidth=1e12, overhead=5e-6, group_steps=512
)
"""An ordinary GPU; starting a step is a launch."""

Bytes = npt.NDArray[np.uint8]


class DeviceMarks(Protocol):
    """Places in what a device is asked for; it notes when it gets there."""

    def note(self, place: int) -> None:
        """Ask the device to note the time when it has done all that was asked for before."""
        ...

    def seconds(self) -> list[float]:
        """When the device got to each place, from the first place on; it has done all of it."""
        ...


class DeviceDriver(Protocol):
    """One device.  A buffer is some of its memory; a function is a kernel's code on it.

    What is launched or copied runs in the order it is asked for.  Reading waits for it.
    """

    @property
    def label(self) -> str:
        """What users call the device: the engine's name, and the device's number."""
        ...

    @property
    def has_tensor_cores(self) -> bool:
        """Whether kernels may use what `kernels/warp.py` writes."""
        ...

    def facts(self) -> Device:
        """The device as it is now."""
        ...

    def address(self, buffer: Any) -> int:
        """A number for a buffer's first byte; no other byte has it while the buffer lives."""
        ...

    def cuda_address(self, buffer: Any) -> int | None:
        """Where a buffer begins for NVIDIA's libraries; None on other devices."""
        ...

    def adopt(self, array: object) -> GpuArray | None:
        """Another library's array on this device; None for anything else.

        What was asked of that library is waited for.
        """
        ...

    def allocate(self, nbytes: int) -> Any:
        """A buffer; MemoryError where there is none.  It is freed when nothing holds it."""
        ...

    def write(self, buffer: Any, offset: int, data: Bytes) -> None:
        """Copy bytes of the host to a buffer; they may change once this returns."""
        ...

    def read(self, buffer: Any, offset: int, nbytes: int) -> Bytes:
        """Bytes of a buffer, copied to the host."""
        ...

    def copy(self, source: Any, first: int, target: Any, offset: int, nbytes: int) -> None:
        """Copy bytes from a buffer to one; they do not overlap."""
        ...

    def load(self, codes: Sequence[KernelCode]) -> Sequence[Any]:
        """The functions of kernels, made where they are not known yet."""
        ...

    def launch(
        self,
        function: Any,
        blocks: int,
        block: int,
        places: Sequence[tuple[Any, int]],
        numbers: Sequence[int],
    ) -> None:
        """Run a function with buffers, offsets into them, and numbers."""
        ...

    @property
    def keeps_records(self) -> bool:
        """Whether what is recorded is asked for at once: all of it, or nothing."""
        ...

    def record(self, ask: Callable[[], None]) -> Callable[[], None]:
        """What asks for all that `ask` asks for, in less time where the device can keep it.

        That are launches, and copies on the device.  They find the buffers where they are now.
        """
        ...

    def marks(self, count: int) -> DeviceMarks:
        """Places to note, which may be recorded as launches are."""
        ...

    def finish(self) -> None:
        """Wait for everything that was asked for."""
        ...
