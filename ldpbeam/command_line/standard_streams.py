"""Stdout and stderr that accept every text, and whose readers may close them."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from ldpbeam.log_lines import JsonHandler, JsonLines


class _Output:
    """A stream whose reader may leave, as ``head`` does, without an effect on the command or its exit code.

    Text that cannot be written to stderr is lost without an error, as there is nowhere left to report it.
    """

    def __init__(self, stream: Any, *, any_error: bool) -> None:
        self._stream = stream
        self._lost = OSError if any_error else BrokenPipeError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text; characters that the stream's encoding lacks are escaped."""
        with self._open_or_nowhere():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what was written."""
        with self._open_or_nowhere():
            self._stream.flush()

    @contextlib.contextmanager
    def _open_or_nowhere(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # Python flushes once more at its end, and would then fail again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            if not isinstance(error, self._lost):
                raise


@contextlib.contextmanager
def standard_streams(*, log_json: bool = False) -> Iterator[None]:
    """Inside the block, printing fails only if stdout cannot be written to, such as a file on a full disk.

    It is no failure if a reader has left, or if stderr cannot be written to.

    Args:
        log_json: whether each line on stderr is a JSON object.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with contextlib.ExitStack() as until:
        # A stream that was closed before Python started is None.
        if sys.stdout is not None:
            until.enter_context(contextlib.redirect_stdout(_Output(sys.stdout, any_error=False)))
        if sys.stderr is not None:
            errors: Any = _Output(sys.stderr, any_error=True)
            until.enter_context(contextlib.redirect_stderr(JsonLines(errors) if log_json else errors))
            if log_json:
                root, handler = logging.getLogger(), JsonHandler()
                root.addHandler(handler)
                until.callback(root.removeHandler, handler)
        yield
