"""The records of an output folder, as they are read from its files: every field is checked by itself.

Anyone who can write to the folder is trusted (``docs/security.md``), so no field is compared with another. A
field that a later version added is left out, and one that an earlier version did not have takes the value
that was true then.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, PlainSerializer, WrapValidator
from pydantic.dataclasses import dataclass

from ldpbeam.certainty import Intervals
from ldpbeam.domains import on_steps
from ldpbeam.pair_answer import PairAnswer
from ldpbeam.times import milliseconds, rfc3339
from ldpbeam.windows import FAR, Bounds

_CHECKED = ConfigDict(strict=True, allow_inf_nan=False, defer_build=True)


def _time(text: str) -> str:
    try:
        if abs(milliseconds(text)) < FAR:
            return text
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("a time is RFC 3339 text with a zone")


def _level(text: str) -> str:
    try:
        if 0 < float(text) < 1:
            return text
    except ValueError:
        pass
    raise ValueError("the level of a quantile lies between 0 and 1")


def _compact(numbers: Any, checked: Callable[[Any], Sequence[float]]) -> Sequence[float]:
    # A run holds all its estimates: 8 bytes for a number instead of 32. An array has been checked before.
    return numbers if isinstance(numbers, array) else array("d", checked(numbers))


Count = Annotated[int, Field(ge=0, lt=2**63)]
#: RFC 3339 text in UTC.
Time = Annotated[str, AfterValidator(_time)]
#: The level of a quantile, as text.
Level = Annotated[str, AfterValidator(_level)]
Numbers = Annotated[Sequence[float], WrapValidator(_compact), PlainSerializer(list)]
Names = tuple[str, ...]


def bounds(start: str | None, end: str | None) -> Bounds | None:
    """The ends of a window in epoch milliseconds; None without a window."""
    return None if start is None or end is None else (milliseconds(start), milliseconds(end))


@dataclass(frozen=True, config=_CHECKED)
class RangeShare:
    """The share of people whose value lies between ``low`` and ``high``."""

    low: float
    high: float
    share: float


@dataclass(frozen=True, config=_CHECKED)
class Frequent:
    """A name, and the share of people who have it."""

    name: str
    frequency: float


def _plain(intervals: Intervals | None) -> dict[str, Any] | None:
    """Intervals as JSON has them."""
    if intervals is None:
        return None
    ends = {
        condition: {part: {"low": list(own.low), "high": list(own.high)} for part, own in parts.items()}
        for condition, parts in intervals.ends.items()
    }
    blurred = {mechanism: vars(own) for mechanism, own in intervals.blurred.items()}
    fields = {**vars(intervals), "ends": ends, "at": list(intervals.at), "blurred": blurred or None}
    return {name: value for name, value in fields.items() if value not in (None, [])}


@dataclass(frozen=True, config=_CHECKED)
class AlarmRecord:
    """Whether a window differs from those before it, and what the next window's answer to that needs.

    Attributes:
        differs: whether it does.
        number: the number that is the farthest from what was expected, as ``mean``.
        expected: its median in the same window of earlier weeks.
        windows: how many windows were judged before.
        spread: the mean square of averages of distances, where 1 is that of noise alone.
        sums: four cumulative sums and the average distance of each number.
    """

    differs: bool
    number: str
    expected: float
    windows: Count
    spread: float
    sums: Numbers


class EstimateKey(NamedTuple):
    """What tells an estimate from the others of a run.

    Attributes:
        attribute: the attribute.
        name: the key under ``estimates:``.
        window: the window in epoch milliseconds; None without windows.
        group: the group; None for reports without one, and for the groups beyond the cap.
        rest: whether it is of the groups beyond the cap.
    """

    attribute: str
    name: str
    window: Bounds | None
    group: str | None
    rest: bool

    @property
    def start(self) -> str:
        """The start of the window, as RFC 3339 text; empty without windows."""
        return rfc3339(self.window[0]) if self.window else ""

    @property
    def length(self) -> int | None:
        """The length of the window in milliseconds; None without windows."""
        return self.window and self.window[1] - self.window[0]


@dataclass(frozen=True, kw_only=True, config=_CHECKED)
class EstimateRecord:
    """An estimate of an attribute, window, group and pane, and a line of ``estimates.jsonl``.

    Shares are of people, numbers are in the attribute's unit, and what an estimate does not have is None. A
    line has the fields in this order. It leaves out those after ``n_iterations`` that an estimate has not.
    ``partial`` is not written: who reads all windows knows which have few reports.
    """

    study: str
    attribute: str
    name: str
    estimator: str
    services: Names = ()
    group: str | None = None
    other_groups: Count = 0
    window_start: Time | None = None
    window_end: Time | None = None
    pane_index: Count = 0
    pane_timing: str = "on_time"
    complete: bool = True
    reports: Count
    users: Count | None = None
    converged: bool
    n_iterations: Count
    log_likelihood: float | None = None
    bucket_edges: Numbers | None = None
    step: float | None = None
    distribution: Numbers | None = None
    quantiles: dict[Level, float] | None = None
    ranges: tuple[RangeShare, ...] | None = None
    categories: Names | None = None
    keys: Names | None = None
    frequencies: Numbers | None = None
    key_means: Numbers | None = None
    top: tuple[Frequent, ...] | None = None
    mean: float | None = None
    standard_error: float | None = None
    variance: float | None = None
    intervals: Annotated[Intervals | None, PlainSerializer(_plain)] = None
    warnings: Names = ()
    notes: Names = ()
    details: dict[str, Any] = field(default_factory=dict)
    joined: bool = False
    window_name: str | None = None
    partial: float | None = None
    alarm: AlarmRecord | None = None
    pair: PairAnswer | None = None
    run: str = ""

    @property
    def window(self) -> Bounds | None:
        """The window in epoch milliseconds; None without windows."""
        return bounds(self.window_start, self.window_end)

    @property
    def bucket_ends(self) -> tuple[Numbers, Numbers]:
        """The least and the greatest number of each bucket: its edges, or with a step its values."""
        edges = np.asarray(self.bucket_edges or ())
        if self.step is None:
            return edges[:-1].tolist(), edges[1:].tolist()
        first, last = edges[:-1] + 0.5 * self.step, edges[1:] - 0.5 * self.step
        return on_steps(first, self.step).tolist(), on_steps(last, self.step).tolist()

    @property
    def labels(self) -> Names | None:
        """The names that ``frequencies`` are of: categories or keys."""
        return self.keys if self.categories is None else self.categories

    @property
    def key(self) -> EstimateKey:
        """What tells the estimate from the others of a run."""
        return EstimateKey(self.attribute, self.name, self.window, self.group, self.other_groups > 0)


@dataclass(frozen=True, config=_CHECKED)
class Accounting:
    """``accounting.json``: what became of every report, and why some were no use.

    ``in_`` = ``used`` + ``duplicates`` + ``late`` + ``out_of_range`` + ``dead_letters``, and in a stream that
    still runs ``in_open_windows``.
    """

    in_: Annotated[Count, Field(alias="in")]
    used: Count
    duplicates: Count
    late: Count
    out_of_range: Count
    dead_letters: Count
    damaged_files: Count = 0
    in_open_windows: Count | None = None
    used_in_windows: Count | None = None
    late_in_windows: Count | None = None
    too_far: Count | None = None
    beyond_most_reports: Count | None = None
    not_begun: Count | None = None
    not_estimated: Count | None = None
    reports_not_estimated: Count | None = None
    windows_beyond: Count | None = None
    windows_with_one_report: Count | None = None
    windows_without_names: Count | None = None
    dead_letters_by_reason: dict[str, Count] = field(default_factory=dict)


@dataclass(frozen=True, config=_CHECKED)
class Spent:
    """This many users spent this epsilon (and delta) in a window."""

    epsilon: float
    users: Count
    delta: float = 0.0


@dataclass(frozen=True, config=_CHECKED)
class LedgerEntry:
    """An entry of ``ledger.json``: what users spent on an attribute, in a window and group."""

    attribute: str
    group: str | None
    window_start: Time | None
    window_end: Time | None
    spent: tuple[Spent, ...]
    epsilon_cap: float | None = None
    users_over_cap: Count = 0


@dataclass(frozen=True, config=_CHECKED)
class SpentAtMost:
    """This many users spent at most this epsilon in a period."""

    at_most: float
    users: Count


@dataclass(frozen=True, config=_CHECKED)
class PeriodEntry:
    """An entry of ``ledger_periods.json``: what users spent in a period, in all windows and attributes."""

    period_start: Time
    period_end: Time
    users: Count
    reports: Count
    about_values: tuple[SpentAtMost, ...]
    changes_included: tuple[SpentAtMost, ...]
    delta: float = 0.0
    cap: float | None = None
    users_over_cap: Count = 0
    #: The start and end of each span that has estimates, and whose file of received reports is missing.
    without_file: tuple[tuple[Time, Time], ...] = ()


@dataclass(frozen=True, config=_CHECKED)
class FitEntry:
    """A test in ``fit.json``: whether reports are what the study claims (``docs/formats.md``)."""

    attribute: str
    group: str | None
    other_groups: bool
    window_start: Time | None
    window_end: Time | None
    test: str
    services: Names
    reports: Count
    p_value: float
    flagged: bool
    pane_index: Count | None = None
    limit: float | None = None


@dataclass(frozen=True, config=_CHECKED)
class Fit:
    """``fit.json``: the tests of a run, or of a window of a stream, and what no test could see."""

    false_alarms: float
    tests: tuple[FitEntry, ...]
    not_tested: Names = ()


@dataclass(frozen=True, config=_CHECKED)
class RunRecord:
    """A ``run.json``: of a folder, or of one run in a folder that runs share.

    Attributes:
        study: the study's name.
        study_fingerprint: 32 hexadecimal digits of everything that the study says.
        run: the run's name; empty for the folder of streams, which have one each.
        kind: ``scheduled`` or ``stream`` for runs that share a folder, else None.
        complete: whether everything is written; None where the field is not written.
        input: the files that were read.
        from_: the start of a scheduled run's span.
        to: its end.
        reads: what a stream reads.
        format: the version of the folder's layout.
    """

    study: str
    study_fingerprint: str
    run: str = ""
    kind: Literal["scheduled", "stream"] | None = None
    complete: bool | None = None
    input: Names = ()
    from_: Annotated[Time | None, Field(alias="from")] = None
    to: Time | None = None
    reads: str = ""
    format: Count = 1


@dataclass(frozen=True, config=_CHECKED)
class DeadLetterRecord:
    """A record of ``dead_letters/*.avro``: an input that could not be used (``dead_letter.avsc``)."""

    file: str
    reason: str
    sha256: str
    position: int | None = None
    row: int | None = None
    detail: str = ""
    reports: Count = 1
    record: bytes | None = None
