"""Records with Confluent's framing, and a registry that has their schemas."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro

#: What a program of the fleet's own writes: other names, and a field that no study reads.
FLEET: dict[str, Any] = {
    "type": "record",
    "name": "Ride",
    "namespace": "fleet",
    "fields": [
        {"name": "battery", "type": "double"},
        {"name": "uid", "type": "string"},
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "payload", "type": ["null", "double"]},
    ],
}
#: The same fields in another order, as after a change of the program.
LATER = {**FLEET, "fields": FLEET["fields"][::-1]}


def framed(number: int, record: dict[str, Any], schema: dict[str, Any] = FLEET) -> bytes:
    """A record as Confluent's serializers write it: a zero byte, the id in four bytes, and Avro's bytes."""
    stream = io.BytesIO(b"\0" + bytes.fromhex(f"{number:08x}"))
    stream.seek(5)
    ride = {
        "battery": 0.5,
        "uid": record["user_id"],
        "event_time": 1000 * record["event_time"],
        "payload": record["payload"],
    }
    fastavro.schemaless_writer(stream, schema, ride)
    return stream.getvalue()


class Registry:
    """A server of the registry's REST calls on loopback.

    Attributes:
        answers: the status and the document of each path.
        fails: how many times more it answers with 500, whatever is asked.
        asked: the paths that were asked for.
    """

    def __init__(self, answers: dict[str, tuple[int, Any]]) -> None:
        self.answers = {"/schemas/types": (200, ["AVRO"]), **answers}
        self.asked: list[str] = []
        self.fails = 0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                code, document = registry.answers.get(
                    self.path, (404, {"error_code": 40403, "message": "Schema not found"})
                )
                if registry.fails:
                    registry.fails, code = registry.fails - 1, 500
                body = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def ids(self) -> list[str]:
        return [path for path in self.asked if path.startswith(("/schemas/ids/", "/schemas/guids/"))]


@contextmanager
def served(answers: dict[str, tuple[int, Any]]) -> Iterator[Registry]:
    registry = Registry(answers)
    thread = threading.Thread(target=registry.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        thread.join()
        registry.server.server_close()


def schema(of: Any, **more: Any) -> tuple[int, Any]:
    return 200, {"schema": json.dumps(of), **more}
