"""The engine of OpenCL devices."""

from functools import cache

from tawny.engine.gpu.engine import GpuEngine
from tawny.engine.opencl.driver import open_device


@cache
def engine_on(number: int) -> GpuEngine:
    """The engine of a device by its number."""
    name = f"opencl:{number}" if number else "opencl"
    return GpuEngine(name, lambda: open_device(number))


ENGINE = engine_on(0)
"""OpenCL devices, by way of pyopencl."""
