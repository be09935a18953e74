"""A server for one page, on the loopback address, for whoever knows its token."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any, Final, final

from tawny.unique import Unique

HOST: Final = "127.0.0.1"

MOST_BYTES: Final = 2**16
"""Bytes of the longest request."""

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""Answers a request of the page; raises ValueError for one that is wrong."""


@final
class PageServer(Unique):
    """Serves a page and answers its requests until it is closed or the process ends.

    Requests are answered only if they name this host and this token, come from no other page, and
    are JSON, which pages of others cannot send.
    """

    def __init__(self, page: Callable[[], str], answer: Answer) -> None:
        self._token = token_urlsafe(24)
        self._server = _Server((HOST, 0), _Handler)
        self._server.page, self._server.answer = page, answer
        self._server.token, self._server.hosts = self._token, self._hosts()
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="tawny-explore", daemon=True
        )
        self._thread.start()

    def _hosts(self) -> frozenset[str]:
        return frozenset(f"{name}:{self.port}" for name in (HOST, "localhost"))

    @property
    def port(self) -> int:
        """The port it listens at."""
        return self._server.server_address[1]

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.port}/{self._token}/"

    @property
    def is_open(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Answer nobody any more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def wait(self) -> None:
        """Wait until it is closed, or until Control-C closes it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            self.close()


class _Server(ThreadingHTTPServer):
    """The server, with what its handlers need to know."""

    daemon_threads = True
    page: Callable[[], str]
    answer: Answer
    token: str
    hosts: frozenset[str]


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.0"  # a connection for each request: none outlives the server
    server_version = "tawny"
    sys_version = ""
    timeout = 60

    def log_message(self, format: str, *given: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Give the page."""
        if not self._is_known() or self.path != f"/{self.server.token}/":
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page\n")
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page().encode())

    def do_POST(self) -> None:
        """Answer the page."""
        if not self._is_known() or self.path != f"/{self.server.token}/run":
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page\n")
            return
        try:
            found, status = self.server.answer(self._request()), HTTPStatus.OK
        except ValueError as error:
            found, status = {"error": str(error)}, HTTPStatus.BAD_REQUEST
        except Exception as error:
            found, status = {"error": f"{type(error).__name__}: {error}"}, HTTPStatus.OK
        self._send(status, "application/json", json.dumps(found).encode())

    def _is_known(self) -> bool:
        """Whether the request is for this host, with its token, and from no other page."""
        origin = self.headers.get("Origin")
        own = {f"http://{host}" for host in self.server.hosts}
        token = self.path.split("/")[1] if self.path.startswith("/") else ""
        return (
            self.headers.get("Host") in self.server.hosts
            and (origin is None or origin in own)
            and compare_digest(token.encode(), self.server.token.encode())
        )

    def _request(self) -> dict[str, Any]:
        if self.headers.get("Content-Type") != "application/json":
            raise ValueError("the request is no JSON")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            raise ValueError(f"a request has at most {MOST_BYTES} bytes")
        found = json.loads(self.rfile.read(int(length)))
        if not isinstance(found, dict):
            raise ValueError("the request is no JSON object")
        return found  # pyright: ignore[reportUnknownVariableType]

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)
