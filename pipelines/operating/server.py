"""The port on which a running stream answers ``/metrics``, ``/healthz`` and ``/readyz``.

Whoever reaches the port may send anything, slowly or never. A connection has :data:`LINE_SECONDS` to send its
request line, and then :data:`SECONDS`. There are :data:`CONNECTIONS` at a time: of more, the oldest of those
that send or take something gives way, and half of them may scrape, so that there is a place for a probe.
However many scrape, the state is looked up once a second.
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

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from ldpbeam.errors import UserError
from ldpbeam.pipelines.operating.metrics import exposition
from ldpbeam.pipelines.operating.state import Watched

#: The seconds that a connection has to send its request line.
LINE_SECONDS = 1.0
#: The seconds that a connection may take from then on.
SECONDS = 10.0
#: The seconds that a connection which gives way has to end, before the next one does.
ENDING_SECONDS = 0.2
#: How many connections are served at a time.
CONNECTIONS = 16
#: The seconds for which an answer to ``/metrics`` is given again.
FRESH_SECONDS = 1.0
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """The HTTP status, content type and body of an answer."""

    status: int
    content_type: str
    body: bytes


class Answers:
    """What a run answers; before it reads there is no run to ask."""

    def __init__(self) -> None:
        self.watched: Watched | None = None
        self._lock = threading.Lock()
        self._scrapes = threading.BoundedSemaphore(CONNECTIONS // 2)
        self._metrics: Answer | None = None
        self._made = 0.0

    def to(self, path: str) -> Answer:
        """The answer to a GET of a path."""
        watched = self.watched
        if path == "/healthz":
            if watched is None:
                return _said(None)
            # Windows that wait are no reason to start the run again: that makes them wait longer.
            return _said(watched.stuck(), watched.waiting())
        if path == "/readyz":
            return _said("the run has not begun" if watched is None else watched.unready())
        if path == "/metrics":
            if watched is None:
                return _unavailable("the run has not begun")
            if not self._scrapes.acquire(blocking=False):
                return _unavailable("too many scrapes at a time")
            try:
                return self._scraped(watched)
            finally:
                self._scrapes.release()
        return Answer(404, _PLAIN, b"there are /metrics, /healthz and /readyz\n")

    def _scraped(self, watched: Watched) -> Answer:
        with self._lock:
            if self._metrics is None or time.monotonic() - self._made >= FRESH_SECONDS:
                try:
                    self._metrics = Answer(200, CONTENT_TYPE_LATEST, exposition(watched.state()))
                except (OSError, ValueError):
                    # The sentence of a file system may name files.
                    self._metrics = _unavailable("the files of the run cannot be read")
                self._made = time.monotonic()
            return self._metrics


def _said(problem: str | None, aside: str | None = None) -> Answer:
    well = "ok\n" if aside is None else f"ok: {aside}\n"
    return Answer(200, _PLAIN, well.encode()) if problem is None else _unavailable(problem)


def _unavailable(problem: str) -> Answer:
    return Answer(503, _PLAIN, f"{problem}\n".encode())


class _Handler(BaseHTTPRequestHandler):
    """Answers one GET."""

    server: _Server

    def parse_request(self) -> bool:
        """Read the headers: the request line has come."""
        self.server.give(self.connection, SECONDS)
        return super().parse_request()

    def do_GET(self) -> None:
        self.server.keep(self.connection)
        answer = self.server.answers.to(self.path.partition("?")[0])
        self.server.give(self.connection, SECONDS)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def version_string(self) -> str:
        """The ``Server`` header, which names no version of Python."""
        return "ldpbeam"

    def log_message(self, *_: Any) -> None:
        """Log nothing: whoever asks chooses the text."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # It would wait for connections that are still open when the run has ended.
    block_on_close = False
    # Probes wait here while connections are closed.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily, answers: Answers) -> None:
        self.address_family = family
        self.answers = answers
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        #: When the time of each connection ends, on the monotonic clock, the oldest connection first.
        self._ends: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)

    def give(self, connection: socket.socket, seconds: float) -> None:
        """Let a connection take so many seconds from now on."""
        self._ends[connection] = time.monotonic() + seconds

    def keep(self, connection: socket.socket) -> None:
        """Let a connection wait for its answer."""
        self._ends.pop(connection, None)

    def service_actions(self) -> None:
        """Close the connections whose time has ended; the server calls this twice a second."""
        now = time.monotonic()
        for connection, end in list(self._ends.items()):
            if end <= now:
                _shut(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own; the oldest one gives way if there are too many."""
        if not self._take_place():
            self.shutdown_request(request)
            return
        self.give(request, LINE_SECONDS)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the machine has no more threads
            self._end(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection for as long as it may take."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._end(request)

    def _take_place(self) -> bool:
        """Take a place, which is made if there is none; whether there is one then."""
        if self._free.acquire(blocking=False):
            return True
        for connection in list(self._ends):
            _shut(connection)
            if self._free.acquire(timeout=ENDING_SECONDS):
                return True
        # Answers are being made in all places, and are not waited for in half of them.
        return self._free.acquire(timeout=LINE_SECONDS)

    def _end(self, connection: socket.socket) -> None:
        self.keep(connection)
        self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that broke; another error is a bug, and keeps its traceback."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _shut(connection: socket.socket) -> None:
    """End a connection, so that whoever reads or writes it fails."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def answering(host: str, port: int) -> Iterator[tuple[Answers, str]]:
    """Answer on a port while the block runs; gives the answers and the port's URL.

    Args:
        host: the address of an interface, or a name of one.
        port: the port; 0 for one that is free.

    Raises:
        UserError: if the port cannot be had.
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
