"""The engine of NVIDIA's GPUs."""

from tawny.engine.cuda.driver import open_device
from tawny.engine.gpu.engine import GpuEngine

ENGINE = GpuEngine("cuda", open_device)
