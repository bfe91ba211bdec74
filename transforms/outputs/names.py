"""Names of output files, made of study, attribute, window and run, so that a retry writes the same file."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ldpbeam.times import milliseconds
from ldpbeam.windows import Bounds

#: The folder with a folder of each run, where runs share an output folder.
RUNS = "runs"
#: What a run is, in its own folder and in the output folder; and what became of its reports.
RUN, ACCOUNTING = "run.json", "accounting.json"
#: The folder of files of statistics.
STATISTICS = "statistics"
#: The folder of files of estimates, one per attribute and window, and the name of a file of all of them.
ESTIMATES = "estimates"
#: The folder of tables, one per attribute and window, each kind in a folder of its own.
TABLES = "tables"


#: What the names of files that hold windows of a whole day have before their ending.
OF_A_DAY = ".few"


def window_name(study: str, attribute: str, window: Bounds | None) -> str:
    """The name of the files of an attribute and window, without an ending; a window of None is ``all``."""
    return f"{study}-{attribute}-{span_name(*window) if window else 'all'}"


def snapshot_name(study: str, attribute: str, window: Bounds | None, run: str = "") -> str:
    """The name of the file of snapshots of an attribute and window, with the name of the run if given."""
    return f"{window_name(study, attribute, window)}{run and f'.{run}'}.avro"


def shared_name(study: str, attribute: str, span: Bounds) -> str:
    """The name of a file of snapshots that the windows of an attribute share, from the first to the last.

    No two files of a run have the same span, since no window is in two of them.
    """
    return snapshot_name(study, attribute, span).replace(".avro", f"{OF_A_DAY}.avro")


def estimates_name(study: str, attribute: str, window: Bounds | None, run: str = "") -> str:
    """The name of the file of estimates of an attribute and window, with the name of the run if given."""
    return f"{snapshot_name(study, attribute, window, run).removesuffix('.avro')}.jsonl"


def estimates_from(study: str, attribute: str, start: int) -> str:
    """What the names of the files of estimates of an attribute's windows that start at a time begin with."""
    return f"{study}-{attribute}-{_compact(start)}"


def span_name(start: int, stop: int) -> str:
    """Two times in epoch milliseconds, as file names spell them: 20261120T100000Z-20261120T110000Z."""
    return f"{_compact(start)}-{_compact(stop)}"


def window_in(name: str) -> Bounds | None:
    """The window at the end of a file's name, in epoch milliseconds; None if there is none."""
    times = re.search(r"-(\d{8}T\d{6}(?:\.\d{3})?Z)-(\d{8}T\d{6}(?:\.\d{3})?Z)(?:\.few)?\.[a-z]+$", name)
    return (milliseconds(times[1]), milliseconds(times[2])) if times else None


def _compact(time: int) -> str:
    moment = datetime.fromtimestamp(time / 1000, tz=UTC)
    fraction = f".{time % 1000:03d}" if time % 1000 else ""
    return f"{moment:%Y%m%dT%H%M%S}{fraction}Z"
