"""Write the page of outputs, once, or again as the windows of a stream close."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

from ldpbeam.answers.people import People
from ldpbeam.answers.results import Results
from ldpbeam.errors import UserError, check_charts
from ldpbeam.folders.output import ESTIMATES, files_in, named_in_errors
from ldpbeam.folders.read import read_results
from ldpbeam.printing import warn
from ldpbeam.transforms.storage import write_bytes


def write_page(
    path: str,
    outputs: Sequence[Results],
    people: Mapping[str, People],
    reload: int | None = None,
    events: Mapping[str, int] | None = None,
) -> tuple[int, list[str]]:
    """Write the page of some outputs, whole or not at all, and return its size in bytes and its headlines.

    Args:
        path: the file.
        outputs: what is in each output folder.
        people: true values to compare with, by attribute.
        reload: the seconds after which an open page loads itself again; None for never.
        events: times, by name, before and after which windows are compared; None to mark those of the study.

    Raises:
        UserError: if the page cannot be written, or windows cannot be compared.
    """
    # Altair is in an extra, and takes half a second to import.
    from ldpbeam.results.page.contents import content_of
    from ldpbeam.results.page.html import page

    contents = [content_of(results, people, events) for results in outputs]
    text = page(contents, reload).encode()
    with named_in_errors(path):
        write_bytes(path, text)
    chapters = [chapter for content in contents for chapter in content.chapters]
    return len(text), [chapter.answer.headline for chapter in chapters if chapter.answer]


#: Seconds between two looks at the output folder, and so the least between two pages; an open page loads
#: itself again as often while the stream runs.
LOOK_SECONDS = 15


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
    check_charts("the page needs")
    write_page(path, [read_results(output)], {}, reload=LOOK_SECONDS)
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
        except OSError:
            continue  # the next look may succeed
        if state != written and _try_to_write(path, output, LOOK_SECONDS):
            written = state


def _state(output: str) -> object:
    """What changes when a window's estimates are written."""
    entries = files_in(f"{output}/{ESTIMATES}", "*.jsonl")
    return {(entry.path, entry.size, entry.modified) for entry in entries}


def _try_to_write(path: str, output: str, reload: int | None) -> bool:
    """Write the page; the stream goes on if that fails, with a warning."""
    try:
        write_page(path, [read_results(output)], {}, reload=reload)
    except UserError as error:
        warn(f"the page was not written: {error}")
        return False
    return True
