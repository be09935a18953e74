"""Engines that run programs on a GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

from tawny import dtype as dt
from tawny.engine.gpu import equations as equations
from tawny.engine.gpu import products as products
from tawny.engine.gpu import transforms as transforms
from tawny.engine.gpu.array import GpuArray
from tawny.engine.gpu.driver import GPU, DeviceDriver
from tawny.engine.gpu.executable import GpuExecutable
from tawny.engine.gpu.loops import launches_of, runs_on_device, scratch_of
from tawny.engine.gpu.rules import supports_body
from tawny.engine.gpu.target import KernelTarget
from tawny.engine.layout import Views
from tawny.engine.lowering import types
from tawny.engine.protocol import PRECISIONS, Device, StepwiseEngine, Task
from tawny.errors import PerformanceWarning, warn
from tawny.lazy import cached_property
from tawny.node import Node, Value
from tawny.ops.body import Body
from tawny.ops.delay import Delay
from tawny.shape import size

NOTICEABLE_BYTES: Final = 10_000_000
"""Copies between host and device that are worth a warning: a millisecond of PCI Express 3."""


class GpuEngine(StepwiseEngine):
    """Makes tasks runnable on a device."""

    compiles_groups = True
    machine = GPU

    def __init__(
        self,
        name: str,
        open_device: Callable[[], DeviceDriver],
        precision: str | None = None,
    ) -> None:
        self.name, self._open_device, self._precision = name, open_device, precision
        self._coarser: dict[str, GpuEngine] = {}

    @property
    def precisions(self) -> Collection[str]:
        """The precisions of products of float32: all, where the device has tensor cores."""
        return PRECISIONS if self.target.has_tensor_cores else ("bfloat16",)

    def in_precision(self, precision: str) -> GpuEngine:
        """An engine on the same device that rounds factors of products so."""
        if precision not in self._coarser:
            made = GpuEngine(self.name, lambda: self.driver, precision)
            return self._coarser.setdefault(precision, made)
        return self._coarser[precision]

    @cached_property
    def driver(self) -> DeviceDriver:
        """The device, which is opened when a program first asks for it."""
        return self._open_device()

    def should_round(self, product: Node) -> bool:
        """Whether the graph rounds the factors of a product: where kernels do not, to read less."""
        return not (self.target.has_tensor_cores and product.dtype == dt.FLOAT32)

    @cached_property
    def target(self) -> KernelTarget:
        """What kernels are chosen for."""
        return KernelTarget(self.driver.has_tensor_cores, self._precision)

    def should_group(self, body: Body) -> bool:
        """Whether a group is worth a kernel: wherever one computes it, since launches cost more."""
        return supports_body(body)

    def warm_up(self) -> None:
        """Open the device, or say that there is none."""
        _ = self.driver

    def scratch(self, node: Node, threads: int) -> int:
        """Bytes that the launches of a step need."""
        del threads
        return scratch_of(node, self.target)

    def describe(self, steps: Sequence[Node], threads: int | None = None) -> str:
        """Which steps run on the device, and which on the host, in words."""
        del threads
        views = Views()
        left = [n for n in steps if not runs_on_device(n, views, self.target)]
        by_host = Counter(n.name for n in left)
        copied = sum([_copied_bytes(node, views) for node in left])
        listed = ", ".join(f"{name} {n}" if n > 1 else name for name, n in by_host.items())
        device, own = self.driver.facts().name, len(steps) - by_host.total()
        said = f"{self.name}: {own} of {len(steps)} steps on {device}"
        return f"{said}; by the host, with copies of {copied:,} bytes: {listed}" if listed else said

    def device(self) -> Device:
        """The device as it is now."""
        return self.driver.facts()

    def place(self, value: Value) -> GpuArray:
        """A copy of an array of the host on the device."""
        return GpuArray.of(self.driver, value)

    def emit(self, task: Task) -> object:
        """Make the code of all kernels, in one go."""
        views = Views()
        steps = task.lowered.steps
        codes = [one.code for node in steps for one in launches_of(node, views, self.target)]
        return self.driver.load(list(dict.fromkeys(codes)))

    def prepare(self, task: Task) -> GpuExecutable:
        """Allocate the memory, and find what each step launches."""
        executable = GpuExecutable(task, self.driver, self.target)
        self._warn_of_host(executable.by_host)
        return executable

    def _warn_of_host(self, nodes: Sequence[Node]) -> None:
        """Say what is copied to the host and back in each run, if that can be noticed.

        Functions of the user's are meant to be computed there.
        """
        left = [node for node in nodes if not isinstance(node.op, Delay)]
        copied = sum([_copied_bytes(node, Views()) for node in left])
        if copied < NOTICEABLE_BYTES:
            return
        names = ", ".join(dict.fromkeys([node.name for node in left]))
        warn(
            f"compile: the host computes what {self.name!r} has no kernel for ({names}), with "
            f"copies of {copied:,} bytes in a run; engine='cpu' copies nothing",
            PerformanceWarning,
            about=tuple(dict.fromkeys([s for node in left for s in node.sources])),
        )


def _copied_bytes(node: Node, views: Views) -> int:
    """Bytes that are copied between device and host for a step that the host computes."""
    read = [views(source).memory for source in node.inputs]
    kinds = [*[(m.shape, m.dtype) for m in read], *types(node)]
    return sum([size(shape) * int(dtype.itemsize) for shape, dtype in kinds])
