"""Reports of a few users in batches, and which of them stand: the exact join, one report at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ldpbeam.attributes import Attribute
from ldpbeam.transforms.joining.join import UserReports, join
from ldpbeam.transforms.reports.batches import tagged

#: What a user sent, as (channel, value) in order; and how many users sent just that.
Answered = Counter[tuple[tuple[int, float], ...]]


def in_batches(
    some: Iterable[Any], size: int, attribute: str, payloads: Callable[[list[Any]], pa.Array]
) -> list[pa.RecordBatch]:
    """Batches of one channel each; columns that are null throughout are left out, as the stream does."""
    by_version: dict[int, list[Any]] = defaultdict(list)
    for report in some:
        by_version[report.version].append(report)
    made = []
    for version, own in by_version.items():
        for start in range(0, len(own), size):
            part = own[start : start + size]
            columns = {
                "user": pa.array([r.user for r in part], pa.binary()),
                "event_time": pa.array([r.time for r in part], pa.int64()),
                "payload": payloads(part),
            }
            if any(r.report_id is not None for r in part):
                columns["report_id"] = pa.array([r.report_id for r in part], pa.binary())
            if any(r.group is not None for r in part):
                columns["group"] = pa.array([r.group for r in part], pa.string())
            made.append(tagged(pa.RecordBatch.from_pydict(columns), attribute, version))
    return made


def tied_first(some: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Of the reports that are one, those with the earliest event time; one of them stands."""
    first: dict[Any, list[Any]] = {}
    for report in some:
        best = first.setdefault(key(report), [])
        if best and report.time < best[0].time:
            best.clear()
        if not best or report.time == best[0].time:
            best.append(report)
    return first


def in_order(some: Iterable[Any]) -> list[Any]:
    """The same list whatever the order of the reports."""
    return sorted(
        some, key=lambda r: (r.time, r.report_id or b"", r.user, r.version, r.payload, r.group or "")
    )


def drawn(attribute: Attribute, tied: list[Any], batches_of: Callable[[list[Any], int], Any]) -> Any:
    """Which of a user's tied reports stands: the one that does when nobody sent anything else."""
    if len(tied) == 1:
        return tied[0]
    (users,), used = join(attribute, batches_of(in_order(tied), len(tied)))
    assert used == 1
    (answer,) = users.answers
    stood = users.group, answer.version, answer.payloads.tobytes()
    (one, *_) = [r for r in tied if (r.group, r.version, _bytes_of(r.payload)) == stood]
    return one


def _bytes_of(payload: float | bytes) -> bytes:
    return payload if isinstance(payload, bytes) else np.float64(payload).tobytes()


def answers_of(users: UserReports) -> Answered:
    """The users of a group, every one as what they sent to which channel."""
    rows: dict[int, dict[int, float]] = {row: {} for row in range(users.users)}
    for answer in users.answers:
        assert len(set(answer.rows.tolist())) == len(answer.rows) > 0, "one report a user and channel"
        for row, payload in zip(answer.rows.tolist(), answer.payloads.tolist(), strict=True):
            rows[row][answer.version] = payload
    assert all(rows.values()), "no row without a report"
    return Counter(tuple(sorted(sent.items())) for sent in rows.values())
