"""The engine of OpenCL devices."""

from tawny.engine.gpu.engine import GpuEngine
from tawny.engine.opencl.driver import open_device

ENGINE = GpuEngine("opencl", open_device)
