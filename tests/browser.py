"""Debian's Chromium driven by its own protocol, with Python's library alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)

PATIENCE = 30.0
"""Seconds within which a browser answers."""

KEYS = {" ": "Space", "Enter": "Enter", "Escape": "Escape", "Tab": "Tab"}


def find_browser() -> str | None:
    """The program of a browser, if one is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Socket:
    """A WebSocket to a browser on this machine."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self._socket.sendall(head.encode())
        self._rest = b""
        while b"\r\n\r\n" not in self._rest:
            self._rest += self._socket.recv(4096)
        answer, _, self._rest = self._rest.partition(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101"), answer

    def send(self, text: str) -> None:
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        head = b"\x81" + (
            bytes([0x80 | size])
            if size < 126
            else b"\xfe" + struct.pack(">H", size)
            if size < 2**16
            else b"\xff" + struct.pack(">Q", size)
        )
        pad = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(size, "big")
        self._socket.sendall(head + mask + masked)

    def receive(self) -> str:
        whole = b""
        while True:
            first, second = self._read(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self._read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._read(8))
            data = self._read(size)
            if first & 0x0F in (0, 1):
                whole += data
                if first & 0x80:
                    return whole.decode()

    def _read(self, count: int) -> bytes:
        while len(self._rest) < count:
            more = self._socket.recv(2**16)
            if not more:
                raise ConnectionError("the browser has closed the connection")
            self._rest += more
        data, self._rest = self._rest[:count], self._rest[count:]
        return data

    def close(self) -> None:
        self._socket.close()


class Tab:
    """A page in a browser, and what it wrote to its console."""

    def __init__(self, browser: Browser, target: str, wide: int, tall: int, dark: bool) -> None:
        self._browser, self._target = browser, target
        self.errors: list[str] = []
        """Errors, warnings and exceptions."""
        self.requests: list[str] = []
        """What was asked for, by address."""
        found = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session = found["sessionId"]
        browser.tabs[self._session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(wide, tall)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", {"features": [scheme]})

    def call(self, method: str, given: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._browser.call(method, given, self._session)

    def resize(self, wide: int, tall: int, mobile: bool = False) -> None:
        size = {"width": wide, "height": tall, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", size)

    def notice(self, method: str, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning"):
            self.errors.append(str([one.get("value") for one in event["args"]]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.errors.append(event["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])

    def open(self, address: str, ready: str = "document.documentElement?.dataset.ready") -> None:
        self.call("Page.navigate", {"url": address})
        self.wait(ready)

    def run(self, code: str) -> Any:
        """The value of an expression in the page."""
        given = {"expression": code, "returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", given)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def wait(self, code: str, seconds: float = PATIENCE) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({code})"):
            assert time.monotonic() < end, f"{code} did not come true; {self.errors}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def press(self, *keys: str) -> None:
        for key in keys:
            given: dict[str, Any] = {"key": key, "code": KEYS.get(key, key)}
            if len(key) == 1:
                given["text"] = key
            if key == "Enter":
                given["text"] = "\r"
            if key == "Tab":
                given["windowsVirtualKeyCode"] = 9
            self.call("Input.dispatchKeyEvent", {"type": "keyDown", **given})
            self.call("Input.dispatchKeyEvent", {"type": "keyUp", **given})

    def type(self, text: str) -> None:
        self.press(*text)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def click(self, x: float, y: float) -> None:
        button = {"button": "left", "clickCount": 1}
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, buttons=1, **button)
        self.mouse("mouseReleased", x, y, **button)

    def drag(self, x: float, y: float, dx: float, dy: float, steps: int = 5) -> None:
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for k in range(1, steps + 1):
            at = x + dx * k / steps, y + dy * k / steps
            self.mouse("mouseMoved", *at, button="left", buttons=1)
        self.mouse("mouseReleased", x + dx, y + dy, button="left")

    def wheel(self, x: float, y: float, dy: float) -> None:
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=dy)

    def picture(self, path: Path) -> None:
        """Save what is seen."""
        found = self.call("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(found["data"]))


class Browser:
    """A browser under way."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = Socket(port, path)
        self._number = 0
        self.tabs: dict[str, Tab] = {}

    def call(
        self, method: str, given: dict[str, Any] | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """Ask for something, and wait for the answer."""
        self._number += 1
        own = {} if session is None else {"sessionId": session}
        message = {"id": self._number, "method": method, "params": given or {}, **own}
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.receive())
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            tab = self.tabs.get(answer.get("sessionId", ""))
            if tab is not None and "method" in answer:
                tab.notice(answer["method"], answer["params"])

    def tab(self, wide: int = 1200, tall: int = 800, *, dark: bool = False) -> Tab:
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        return Tab(self, target, wide, tall, dark)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """A browser with a new profile in a folder; it ends with the block."""
    program = find_browser()
    assert program is not None
    command = [program, *SWITCHES, f"--user-data-dir={folder}", "about:blank"]
    none = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=none, stdout=none, stderr=none, start_new_session=True
    ) as process:
        try:
            note, end = folder / "DevToolsActivePort", time.monotonic() + PATIENCE
            while not (note.exists() and len(note.read_text().split()) == 2):
                assert process.poll() is None, "the browser has ended"
                assert time.monotonic() < end, "the browser does not start"
                time.sleep(0.05)
            port, path = note.read_text().split()
            browser = Browser(int(port), path)
            yield browser
            browser.close()
        finally:
            end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and all of the group.

    The program of a browser may be a script that starts it, and would leave it behind.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
