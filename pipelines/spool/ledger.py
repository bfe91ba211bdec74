"""The ledger over periods of a stream, added up again and again while the stream runs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from ldpbeam.answers.ledger_sentences import sentences
from ldpbeam.errors import UserError
from ldpbeam.folders.read import read_periods
from ldpbeam.pipelines.estimates.ledger_files import write_periods
from ldpbeam.pipelines.runs.ledger_folder import files_of
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.printing import note, warn
from ldpbeam.schemas.outputs.records import PeriodEntry

#: Seconds between two sums at least, and the share of the time that making them takes at most.
LEAST_SECONDS, LARGEST_SHARE = 60.0, 0.05
#: A stream that ends leaves more rows than these to ``ldpbeam ledger``, so that it ends within seconds.
ROWS_AT_END = 2**22


@contextlib.contextmanager
def ledger_kept_current(job: StreamOutput) -> Iterator[None]:
    """Run ``ldpbeam ledger`` on a stream's folder while the block runs, again and again."""
    if job.keeping is None:
        yield
        return
    done = threading.Event()
    adder = threading.Thread(target=_add_up_until, args=(job.output, done), daemon=True)
    adder.start()
    try:
        yield
    finally:
        done.set()
        adder.join()


def _add_up_until(output: str, done: threading.Event) -> None:
    wait, said = LEAST_SECONDS, list[str]()
    while not done.wait(wait):
        began = time.monotonic()
        try:
            new = _added_up(output, done)
        except (OSError, UserError) as error:
            warn(f"the ledger was not added up: {error}")
            new = said
        for sentence in new:
            if sentence not in said:
                note(sentence)
        said = new
        wait = max(LEAST_SECONDS, (time.monotonic() - began) / LARGEST_SHARE)


def _added_up(output: str, done: threading.Event) -> list[str]:
    """What the ledger says after ``ldpbeam ledger``; nothing if the stream is done first.

    Raises:
        OSError: if the command could not start, or failed.
        UserError: if what it wrote is damaged.
    """
    # A process of its own takes no time from workers in this one, and can be ended at once.
    child = subprocess.Popen(
        [sys.executable, "-m", "ldpbeam", "ledger", output, "--accept-missing"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while child.poll() is None:
        if done.wait(0.2):
            child.terminate()
            break
    problem = child.communicate()[1]
    if done.is_set():
        return []
    if child.returncode:
        raise OSError(problem.strip())
    return list(sentences(read_periods(output)))


def add_up_at_end(job: StreamOutput) -> list[PeriodEntry]:
    """The ledger of a stream that has ended; none where adding it up takes long.

    Raises:
        UserError: if a file is damaged.
    """
    if job.keeping is None:
        return []
    rows = sum(file.about.rows for file in files_of([job.output]))
    if rows > ROWS_AT_END:
        note(f"the ledger has {rows:,} reports: ldpbeam ledger {job.output} adds them up")
        return []
    return write_periods(job.study, [job.output])
