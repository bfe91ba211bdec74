"""With every limit of size made small, what is counted stays what a dictionary of users counts.

The dictionary is a loop over reports, and shares no code with the fold.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.covering import covering
from support.spooled import Stream, in_polls
from support.tallied import tallied

from ldpbeam.pipelines.graphs import batch
from ldpbeam.pipelines.spool import run, waiting_reports
from ldpbeam.schemas.files import parquet
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms import tally as tally_module
from ldpbeam.transforms.joining import kept, same_ids
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.windows import fold, groups, split, unbounded

HOUR, START = 3_600_000, 1_790_000_000_000 // 3_600_000 * 3_600_000
REPORTS, USERS, CATEGORIES = 1_500, 450, 3
#: Which reports count: the first of each user, all, or all but those with an id that was there.
RULES = {"drop": "", "keep": "duplicates: keep\n", "nobody": "users: none\n"}


class Sent(NamedTuple):
    """A report as its client sends it."""

    user: int
    service: int
    time: int
    payload: int
    report_id: str | None


#: Ids that count up in their last bytes have hashes whose lowest bits are the same.
KINDS: dict[str, Callable[[int], Any]] = {
    "16 bytes": lambda user: user.to_bytes(16, "big"),
    "UUID": lambda user: str(UUID(int=user << 64 | 4 << 76 | 1 << 63)),
    "text": lambda user: f"user-{user:07d}",
}


def sent(services: int) -> list[Sent]:
    """Reports of users who report several times, in three hours, some with an id; no two at one time.

    Each service has a tenth of the reports of the one before, so that some parts have none of the last.
    """
    rng = np.random.default_rng(services)
    times = START + rng.choice(3 * HOUR, REPORTS, replace=False)
    ids, shares = rng.integers(0, 8, REPORTS).tolist(), 0.1 ** np.arange(services)
    columns = (
        rng.integers(0, USERS, REPORTS).tolist(),
        rng.choice(services, REPORTS, p=shares / shares.sum()).tolist(),
        times.tolist(),
        rng.integers(0, CATEGORIES, REPORTS).tolist(),
        [f"r{number}" if number < 4 else None for number in ids],
    )
    return [*map(Sent, *columns)]


class Counts(NamedTuple):
    """What is counted in a window.

    Attributes:
        payloads: reports by service and payload.
        users: how many users there are; None if they are not counted.
        rows: how many users sent each row of payloads to all services, in ascending order of the numbers;
            empty if the services are not joined.
    """

    payloads: tuple[tuple[int, ...], ...]
    users: int | None
    rows: tuple[int, ...]


def counted(
    reports: Iterable[Sent], services: int, windows: bool, rule: str, *, ids_by_window: bool = False
) -> tuple[dict[int | None, Counts], int, int]:
    """(what is counted, by the start of the window; how many reports are used, and how many duplicates)."""
    ids: set[Any] = set()
    first: dict[Any, Sent] = {}
    total = 0
    for number, report in enumerate(sorted(reports, key=lambda report: report.time)):
        total += 1
        window = report.time // HOUR * HOUR if windows else None
        user = None if rule == "nobody" else report.user
        identified = (user, report.service, report.report_id, window if ids_by_window else None)
        if rule != "keep" and report.report_id is not None:
            if identified in ids:
                continue
            ids.add(identified)
        first.setdefault((window, user, report.service, None if rule == "drop" else number), report)
    by_window: defaultdict[int | None, list[Sent]] = defaultdict(list)
    for (window, *_), report in first.items():
        by_window[window].append(report)
    found = {}
    for window, own in by_window.items():
        payloads = Counter((report.service, report.payload) for report in own)
        rows: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for report in own:
            rows[report.user][report.service] = report.payload
        joint = Counter(tuple(sorted(row.items())) for row in rows.values())
        found[window] = Counts(
            tuple(
                tuple(payloads[service, value] for value in range(CATEGORIES)) for service in range(services)
            ),
            len(rows) if rule == "drop" else None,
            tuple(sorted(joint.values())) if rule == "drop" and services > 1 else (),
        )
    return found, len(first), total - len(first)


def of(snapshots: Iterable[Snapshot]) -> dict[int | None, Counts]:
    """What snapshots count, by the start of their windows."""
    return {
        snapshot.window[0] if snapshot.window else None: Counts(
            tuple(tuple(histogram.tolist()) for histogram in snapshot.statistic.histograms),
            snapshot.statistic.users,
            tuple(sorted(snapshot.statistic.joint_counts.tolist())),
        )
        for snapshot in snapshots
    }


def study_text(services: int, windows: bool, rule: str) -> str:
    """A study of so many services, joined by user if the first report of each counts."""
    named = "".join(f"      s{number}: {{mechanism: grr, epsilon: 1.0}}\n" for number in range(services))
    estimator = "ule" if rule == "drop" and services > 1 else "norm_sub"
    return (
        f"study: limits\nattributes:\n  x:\n    domain: {{categories: {CATEGORIES}}}\n    services:\n{named}"
        f"    estimates: {{all: {{estimator: {estimator}}}}}\nintervals: false\n"
        + ("windows: {size: 1h, allowed_lateness: 1h, max_age: 300000d}\n" if windows else "")
        + RULES[rule]
    )


def table(reports: Sequence[Sent], kind: str) -> pa.Table:
    """The reports as a table."""
    users, services, times, payloads, ids = zip(*reports, strict=True)
    return pa.table(
        {
            "user_id": pa.array([*map(KINDS[kind], users)]),
            "attribute": pa.array(["x"] * len(reports)),
            "service": pa.array([f"s{service}" for service in services]),
            "event_time": pa.array(times, pa.timestamp("ms", tz="UTC")),
            "payload": pa.array(payloads),
            "report_id": pa.array(ids, pa.string()),
        }
    )


#: Every limit of what is held, compared, gathered, read or merged at once, and a small one.
LIMITS: dict[tuple[Any, str], Any] = {
    (kept, "PART_REPORTS"): 100, (kept, "_AT_ONCE"): 64, (kept, "_FEW"): 16, (kept, "_SAMPLE"): 8,
    (same_ids, "_AT_ONCE"): 16, (fold, "_MANY"): 1, (groups, "SIDE_BY_SIDE"): 2,
    (split, "GATHERED_REPORTS"): 150, (unbounded, "HELD_REPORTS"): 60, (tally_module, "HELD_REPORTS"): 130,
    (waiting_reports, "HELD"): 90, (run, "REPORT_BYTES"): 5_000, (run, "SEGMENTS"): 3,
    (batch, "SHARD_BYTES"): 8_000, (batch, "FEWEST_SHARDS"): 2, (files, "RANGE_ROWS"): 100,
    (files, "RANGE_BYTES"): 4_000, (parquet, "BATCH_REPORTS"): 70,
}  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for (module, name), value in LIMITS.items():
        assert getattr(module, name) != value
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize(
    ("services", "windows", "rule", "kind"),
    covering(itertools.product([1, 2, 3], [False, True], RULES, KINDS)),
)
def test_the_library_counts_what_a_dictionary_of_users_counts(
    services: int, windows: bool, rule: str, kind: str
) -> None:
    reports = sent(services)
    tally = tallied(study_text(services, windows, rule), table(reports, kind))
    expected, used, duplicates = counted(reports, services, windows, rule)
    assert of(tally.snapshots) == expected
    assert (tally.accounting["used"], tally.accounting["duplicates"]) == (used, duplicates)


@pytest.mark.parametrize(
    ("services", "windows", "rule", "kind"),
    [
        (1, False, "drop", "16 bytes"),
        (1, True, "nobody", "text"),
        (2, True, "drop", "UUID"),
        (2, False, "keep", "text"),
        (3, False, "drop", "16 bytes"),
    ],
)
def test_a_run_that_spills_counts_what_a_dictionary_of_users_counts(
    services: int, windows: bool, rule: str, kind: str, run_estimate: Any, tmp_path: Path
) -> None:
    reports = sent(services)
    inputs = []
    for number in range(3):
        inputs.append(tmp_path / f"{number}.parquet")
        pq.write_table(table(reports[number::3], kind), inputs[-1], row_group_size=150)
    run = run_estimate(tmp_path, study_text(services, windows, rule), inputs)
    expected, used, duplicates = counted(reports, services, windows, rule)
    assert of(run.snapshots) == expected
    assert (run.accounting["used"], run.accounting["duplicates"]) == (used, duplicates)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("services", [1, 3])
def test_a_stream_here_counts_what_a_dictionary_of_users_counts(
    services: int, rule: str, kind: str, tmp_path: Path
) -> None:
    text = f"{study_text(services, True, rule)}publish: {{at_least: 1000000}}\n"
    study, reports = parse_study(text), sent(services)
    in_order = table(sorted(reports, key=lambda report: report.time), kind)
    stream = Stream(study, in_polls(study, in_order, 100), tmp_path)
    run = stream.through(kills=[3, 2])
    expected, used, duplicates = counted(reports, services, True, rule, ids_by_window=True)
    assert of(stream.snapshots().values()) == expected
    assert (run.counts["used"], run.counts["duplicates"]) == (used, duplicates)
