"""The page of a stream, written anew as its windows close."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from apache_beam.io.filesystem import BeamIOError

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.estimates.read import read_results
from ldpbeam.pipelines.pages.write import check_extra, write_page
from ldpbeam.pipelines.printing import warn
from ldpbeam.pipelines.runs.output import ESTIMATES, files_in

#: Seconds between two looks at the output folder, and so the least between two pages.
LOOK_SECONDS = 5.0
#: Seconds after which an open page loads itself again while the stream runs.
RELOAD_SECONDS = 15


@contextlib.contextmanager
def kept_current(path: str | None, output: str) -> Iterator[None]:
    """Write a stream's page at the start, after windows have closed, and at the end.

    The files in the output folder are what is looked at, so that it does not matter where workers run.

    Args:
        path: the page; None for no page.
        output: the stream's output folder, which the stream owns.

    Raises:
        UserError: if the page cannot be written at the start, or the extra is missing.
    """
    if path is None:
        yield
        return
    check_extra()
    write_page(path, [read_results(output)], {}, reload=RELOAD_SECONDS)
    done = threading.Event()
    writer = threading.Thread(target=_write_until, args=(path, output, done), daemon=True)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()
        _try_to_write(path, output, None)


def _write_until(path: str, output: str, done: threading.Event) -> None:
    written: object = None
    while not done.wait(LOOK_SECONDS):
        try:
            state = _state(output)
        except (BeamIOError, OSError):
            continue  # the next look may succeed
        if state != written and _try_to_write(path, output, RELOAD_SECONDS):
            written = state


def _state(output: str) -> object:
    """What changes when a window's estimates are written."""
    entries = files_in(f"{output}/{ESTIMATES}", "*.jsonl")
    return {(entry.path, entry.size_in_bytes, entry.last_updated_in_seconds) for entry in entries}


def _try_to_write(path: str, output: str, reload: int | None) -> bool:
    """Write the page; the stream goes on if that fails, with a warning."""
    try:
        write_page(path, [read_results(output)], {}, reload=reload)
    except UserError as error:
        warn(f"the page was not written: {error}")
        return False
    return True
