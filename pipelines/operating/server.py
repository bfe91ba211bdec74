"""The port on which a running stream answers ``/metrics``, ``/healthz`` and ``/readyz``.

A client that reaches the port may send anything, slowly or never, so time and connections are bounded:

- A connection has :data:`SECONDS` for each step.
- :data:`CONNECTIONS` are served at a time. A further one displaces the oldest.
- Metrics are computed once a second, however many ask.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ldpbeam.errors import UserError
from ldpbeam.pipelines.operating.metrics import Watched

#: How long a connection may send nothing, or not receive its answer.
SECONDS = 10.0
#: How many connections are served at a time.
CONNECTIONS = 16
#: How long an answer to ``/metrics`` is repeated before it is computed again.
FRESH_SECONDS = 1.0
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """The HTTP status, content type and body of an answer."""

    status: int
    content_type: str
    body: bytes


class Answers:
    """What a run answers to a GET. ``watched`` is None until the run is ready to read."""

    def __init__(self) -> None:
        self.watched: Watched | None = None
        self._lock = threading.Lock()
        self._metrics: Answer | None = None
        self._made = 0.0

    def to(self, path: str) -> Answer:
        """The answer to a GET of a path."""
        watched = self.watched
        if path == "/healthz":
            if watched is None:
                return _said(None)
            # Windows that wait are no reason to restart the run, which would make them wait longer.
            return _said(watched.stuck(), watched.waiting())
        if path == "/readyz":
            return _said("the run has not begun" if watched is None else watched.unready())
        if path == "/metrics":
            return _unavailable("the run has not begun") if watched is None else self._scraped(watched)
        return Answer(404, _PLAIN, b"there are /metrics, /healthz and /readyz\n")

    def _scraped(self, watched: Watched) -> Answer:
        with self._lock:
            if self._metrics is None or time.monotonic() - self._made >= FRESH_SECONDS:
                self._metrics = Answer(200, CONTENT_TYPE_LATEST, generate_latest(watched))
                self._made = time.monotonic()
            return self._metrics


def _said(problem: str | None, remark: str | None = None) -> Answer:
    ok = "ok\n" if remark is None else f"ok: {remark}\n"
    return Answer(200, _PLAIN, ok.encode()) if problem is None else _unavailable(problem)


def _unavailable(problem: str) -> Answer:
    return Answer(503, _PLAIN, f"{problem}\n".encode())


class _Handler(BaseHTTPRequestHandler):
    """Answers one GET."""

    server: _Server
    timeout = SECONDS

    def do_GET(self) -> None:
        answer = self.server.answers.to(self.path.partition("?")[0])
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def version_string(self) -> str:
        """The ``Server`` header, which names no version of Python."""
        return "ldpbeam"

    def log_message(self, *_: Any) -> None:
        """Log nothing: the text is the client's."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Closing must not wait for connections that are still open when the run has ended.
    block_on_close = False
    # Probes queue here while other connections are being closed.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily, answers: Answers) -> None:
        self.address_family = family
        self.answers = answers
        #: The connections that are served, the oldest first.
        self._served: dict[socket.socket, None] = {}
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own; if there are too many, displace the oldest ones."""
        for oldest in list(self._served)[: max(0, len(self._served) - CONNECTIONS + 1)]:
            # The thread that reads or writes it fails.
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        self._served[request] = None
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the machine has no more threads
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """End a connection, which is served no more."""
        self._served.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that broke; any other error is a bug, and keeps its traceback."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def answering(host: str, port: int) -> Iterator[tuple[Answers, str]]:
    """Answer on a port while the block runs; yields the answers and the port's URL.

    Args:
        host: the address of an interface, or a name of one.
        port: the port; 0 for one that is free.

    Raises:
        UserError: if the port is taken, or the host is not this machine's.
    """
    answers = Answers()
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server = _Server((str(address[0]), int(address[1])), family, answers)
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"--metrics-port {port}: {host}: {getattr(error, 'strerror', None) or error}"
        ) from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        shown = f"[{host}]" if ":" in host else host
        yield answers, f"http://{shown}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def is_loopback(host: str) -> bool:
    """Whether an address is loopback. A host name other than localhost counts as remote."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
