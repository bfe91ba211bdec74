"""What became of every report: counts that every stage emits, added up to the accounting line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import apache_beam as beam
from apache_beam.metrics import Metrics

#: The tag of every stage's counts.
COUNTS = "counts"

IN = "in"
USED = "used"
DUPLICATES = "duplicates"
LATE = "late"
OUT_OF_RANGE = "out_of_range"
DEAD_LETTERS = "dead_letters"
#: With sliding windows: a report that stands in three of them counts three times.
IN_WINDOWS = "used_in_windows"
#: With sliding windows: a report that is too late for three of them counts three times.
LATE_IN_WINDOWS = "late_in_windows"
REASON = "dead_letters_by_reason/"
#: The start of a count's name whose rest is a damaged file: a file that several workers read counts once.
_DAMAGED = "damaged_file/"

#: Reports read so far by workers in this process; a progress line's only source on engines that say
#: nothing until they end.
read_here = 0


def count(name: str, reports: int) -> beam.pvalue.TaggedOutput:
    """Counts to emit from a DoFn, also added to Beam's counter of that name."""
    global read_here
    Metrics.counter("ldpbeam", name.rpartition("/")[2] or name).inc(reports)
    if name == IN:
        read_here += reports
    return beam.pvalue.TaggedOutput(COUNTS, (name, reports))


def damaged_file(path: str) -> beam.pvalue.TaggedOutput:
    """A damaged file, to emit from a DoFn as often as damage is found in it."""
    Metrics.counter("ldpbeam", "damaged_places").inc()
    return beam.pvalue.TaggedOutput(COUNTS, (_DAMAGED + path, 1))


def accounting(counts: Iterable[tuple[str, int]]) -> dict[str, object]:
    """The accounting of a run, from the counts of all its stages."""
    total: Counter[str] = Counter()
    for name, reports in counts:
        total[name] += reports
    reasons = {k.removeprefix(REASON): n for k, n in sorted(total.items()) if k.startswith(REASON)}
    names = (IN, USED, DUPLICATES, LATE, OUT_OF_RANGE, DEAD_LETTERS)
    found: dict[str, object] = {name: total[name] for name in names}
    found["damaged_files"] = sum(name.startswith(_DAMAGED) for name in total)
    for name in (IN_WINDOWS, LATE_IN_WINDOWS):
        if name in total:
            found[name] = total[name]
    return {**found, "dead_letters_by_reason": reasons}
