"""What a source does as time passes: it hands on batches, and its watermark moves on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from support.pane_reports import SECOND, Report, batches_of, study_text, times_of


class Step(NamedTuple):
    """What a source does at once: its watermark is there, then these batches come.

    Attributes:
        watermark: in epoch milliseconds; never before that of the step before.
        batches: of a channel each.
    """

    watermark: int
    batches: list[pa.RecordBatch]


#: How much out of order the scripts' sources expect reports, and how often they say so.
DISORDER, TICK = 3 * SECOND, 5 * SECOND


def arriving(batches: Sequence[pa.RecordBatch], seed: int = 0, too_late: bool = True) -> list[Step]:
    """Reports as they may arrive: out of order, some after their window, some too late, some again.

    Six of ten arrive in time, three within 20 seconds, and one in ten too late for every window. Every fifth
    is delivered twice, each time with a delay of its own.
    """
    rng = np.random.default_rng(seed)
    arrivals: dict[int, list[tuple[pa.RecordBatch, NDArray[np.int64]]]] = defaultdict(list)
    kinds = [0.6, 0.3, 0.1] if too_late else [0.65, 0.35, 0.0]

    def delays(reports: int) -> NDArray[np.int64]:
        ranges = np.array([[0, 3], [3, 20], [50, 60]])[rng.choice(3, reports, p=kinds)] * SECOND
        return rng.integers(ranges[:, 0], ranges[:, 1])

    for batch in batches:
        times = np.array(times_of(batch))
        again = np.flatnonzero(rng.random(len(times)) < 0.2)
        rows = np.concatenate((np.arange(len(times)), again))
        clock = times[rows] + delays(len(rows))
        order = rng.permutation(len(rows))
        for tick in np.unique(clock // TICK).tolist():
            arrivals[tick].append((batch, rows[order][clock[order] // TICK == tick]))
    return [
        Step(tick * TICK - DISORDER, [batch.take(pa.array(rows)) for batch, rows in arrivals[tick]])
        for tick in range(min(arrivals), max(arrivals) + 1)
    ]


def in_time(study: Study, script: Iterable[Step]) -> tuple[list[pa.RecordBatch], int]:
    """The reports of a script that come before their last window closes, and how many do not."""
    assert study.windows is not None
    period = study.windows.period
    kept, late = [], 0
    for watermark, batches in script:
        for batch in batches:
            ends = [time // period * period + study.windows.size for time in times_of(batch)]
            comes = np.array([end + study.windows.allowed_lateness > watermark for end in ends])
            kept.append(batch.filter(pa.array(comes)))
            late += int((~comes).sum())
    return [batch for batch in kept if batch.num_rows], late


def reports_in(script: Iterable[Step]) -> int:
    """How many reports come."""
    return sum(batch.num_rows for step in script for batch in step.batches)


class Scenario(NamedTuple):
    """A short script, and what a stream makes of it.

    Attributes:
        script: what the source does.
        panes: the reports of each pane of each window, by the window's first second.
        counts: reports by what became of them.
        windows: of the study.
        shards: of users.
        marked: whether batches carry the watermark of their source.
    """

    script: list[Step]
    panes: dict[int, list[tuple[str, int]]]
    counts: dict[str, int]
    windows: str = "size: 10s, allowed_lateness: 20s"
    shards: int = 3
    marked: bool = True

    @property
    def study(self) -> Study:
        """Of two services."""
        return parse_study(study_text(windows=self.windows))


def at(second: float, *reports: Report) -> Step:
    """What comes when the watermark is at a second."""
    return Step(round(second * SECOND), batches_of(*reports))


def _of(user: str, second: float, **others: Any) -> Report:
    return Report(user, round(second * SECOND), **others)


SCENARIOS = {
    "late, within what is allowed": Scenario(
        [at(0, _of("ann", 7)), at(11, _of("bob", 3)), at(29.999, _of("cho", 9.999))],
        {0: [("on_time", 1), ("late", 2), ("late", 3)]},
        {"used": 3},
    ),
    "too late": Scenario(
        [at(0, _of("ann", 7)), at(29, _of("bob", 3)), at(30, _of("cho", 9.999)), at(99, _of("dee", 2))],
        {0: [("on_time", 1), ("late", 2)]},
        {"used": 2, "late": 2},
    ),
    "the first of a window comes late": Scenario(
        [at(15, _of("ann", 7)), at(16, _of("bob", 8))],
        {0: [("on_time", 1), ("late", 2)]},
        {"used": 2},
    ),
    "delivered again, before and after the pane on time": Scenario(
        [
            at(0, _of("ann", 7, report_id="r"), _of("ann", 7, report_id="r"), _of("bob", 8)),
            at(5, _of("ann", 7, report_id="r"), _of("bob", 8)),
            at(11, _of("ann", 7, report_id="r")),
            at(12, _of("bob", 8)),
            at(30, _of("bob", 8)),
        ],
        {0: [("on_time", 2)]},
        {"used": 2, "duplicates": 5, "late": 1},
    ),
    "a user again, after the pane on time": Scenario(
        [at(0, _of("ann", 2)), at(11, _of("ann", 7, payload=0.9)), at(12, _of("ann", 12))],
        {0: [("on_time", 1)], 10: [("on_time", 1)]},
        {"used": 2, "duplicates": 1},
    ),
    "a user's services in different panes": Scenario(
        [
            at(0, _of("ann", 7), _of("bob", 6)),
            at(11, _of("ann", 5, version=1)),
            at(12, _of("bob", 1, version=1)),
        ],
        {0: [("on_time", 2), ("late", 3), ("late", 4)]},
        {"used": 4},
    ),
    "a late report takes the place of one that stood": Scenario(
        [at(0, _of("ann", 7, payload=0.1), _of("ann", 6, version=1)), at(11, _of("ann", 2, payload=0.9))],
        {0: [("on_time", 2), ("late", 2)]},
        {"used": 2, "duplicates": 1},
    ),
    "still open at the end": Scenario(
        [at(0, _of("ann", 7), _of("bob", 25)), at(12, _of("cho", 8))],
        {0: [("on_time", 1), ("late", 2)], 20: [("on_time", 1)]},
        {"used": 3},
    ),
    "early panes": Scenario(
        # The engine of this process holds no watermark for timers, so it has to move slowly past the end.
        [
            *(at(0, _of("ann", 1), _of("bob", 2)), at(1, _of("cho", 3)), at(2, _of("dee", 4), _of("eve", 5))),
            *(at(3, _of("ann", 6)), at(10), at(10.001), at(11, _of("fay", 7))),
        ],
        {0: [("early", 2), ("early", 5), ("on_time", 5), ("late", 6)]},
        {"used": 6, "duplicates": 1},
        windows="size: 10s, allowed_lateness: 20s, early_reports: 2",
        shards=1,
    ),
    "only the engine knows what is late": Scenario(
        [
            at(0, _of("ann", 7)),
            at(30, _of("bob", 3)),
            at(30.001),
            at(31, _of("cho", 9)),
            at(500, _of("dee", 1)),
        ],
        {0: [("on_time", 1), ("late", 2)]},
        {"used": 2, "late": 2},
        marked=False,
    ),
}
