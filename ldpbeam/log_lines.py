"""Standard error as a log: one JSON object per line, as ``ldpbeam stream --log-json`` writes it."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from ldpbeam.untrusted import cut_short

#: The option of ``ldpbeam stream`` that makes standard error a log.
LOG_JSON = "--log-json"
#: The attribute of a log record that holds the fields of its line.
FIELDS = "fields"
#: A line that gets longer than this becomes an object, and its rest is another line.
LONGEST = 2**16
#: The beginnings of sentences for people, which the log leaves out.
_PREFIXES = ("ldpbeam: ", "warning: ")


class JsonLines(io.TextIOBase):
    """A stream in place of standard error: each line that anybody writes to it becomes a JSON object.

    Printed text has the level ``warning``, because its level is unknown.

    Args:
        stream: where the objects are written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Write the lines that the text completes."""
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                if line.strip():
                    self.line("warning", line)
            while len(self._begun) >= LONGEST:
                self.line("warning", self._begun[:LONGEST])
                self._begun = self._begun[LONGEST:]
        return len(text)

    def line(self, level: str, message: str, **fields: object) -> None:
        """Write one object: the time, a level, a message, and further fields that JSON can hold."""
        for prefix in _PREFIXES:
            message = message.removeprefix(prefix)
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        # In ASCII, no text can move the cursor of a terminal or begin another line.
        entry = json.dumps({"time": now, "level": level, "message": message, **fields})
        with self._lock:
            self._stream.write(f"{entry}\n")
            self._stream.flush()

    def flush(self) -> None:
        """Do nothing: lines are written at once, and a line that is not complete waits for its end."""

    def fileno(self) -> int:
        """The descriptor of the stream, for programs that write to it themselves."""
        return self._stream.fileno()


def lines() -> JsonLines | None:
    """Standard error, if it is a log of JSON lines now."""
    return sys.stderr if isinstance(sys.stderr, JsonLines) else None


class JsonHandler(logging.Handler):
    """Writes records of Python's log to standard error, which is a log now."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line: the record's message, its logger and its fields."""
        log = lines()
        if log is None:
            return
        try:
            fields = dict[str, Any](getattr(record, FIELDS, {}))
            if record.exc_info:
                fields["traceback"] = traceback_text(*record.exc_info)
            log.line(record.levelname.lower(), cut_short(record.getMessage()), logger=record.name, **fields)
        except Exception:  # as every handler of Python's log does
            self.handleError(record)


def traceback_text(*raised: Any) -> str:
    """A traceback as text."""
    return "".join(traceback.format_exception(*raised))
