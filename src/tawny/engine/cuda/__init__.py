"""The engine of NVIDIA's GPUs."""

from functools import cache

from tawny.engine.cuda.driver import open_device
from tawny.engine.gpu.engine import GpuEngine


@cache
def engine_on(number: int) -> GpuEngine:
    """The engine of a device by its number."""
    name = f"cuda:{number}" if number else "cuda"
    return GpuEngine(name, lambda: open_device(number))


ENGINE = engine_on(0)
"""NVIDIA's GPUs, by way of the driver's own library: no toolkit is needed."""
