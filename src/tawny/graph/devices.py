"""The devices that programs can run on."""

from __future__ import annotations

import platform
from itertools import count
from typing import Final

from tawny.engine.protocol import NUMBERED, Device, engine_named
from tawny.graph.memory_limits import free_bytes, total_bytes

HOST: Final = "cpu"


def devices() -> list[Device]:
    """The devices of this machine, with their memory: the processor first.

    Gives a list; an entry has `label`, which `compile(engine=...)` takes, `name`, `total_bytes`,
    `free_bytes` (None where the device does not say), and `largest_bytes`, of one allocation.

        tw.devices()[0].label                         # -> 'cpu'
    """
    whole, free = total_bytes(), free_bytes()
    found = [Device(HOST, platform.processor() or platform.machine(), whole, free, whole)]
    for kind in NUMBERED:
        for number in count():
            try:
                device = engine_named(f"{kind}:{number}").device()
            except ValueError:  # there is no such device
                break
            assert device is not None
            found.append(device)
    return found
