"""Which of several reports are kept, one report at a time, with dictionaries."""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ldpbeam.schemas.reports.columns import DELIVERY
from ldpbeam.transforms.reports.batches import tagged

_MULTIPLIER, _BITS = 0x9E3779B97F4A7C15, 2**64


class Sent(NamedTuple):
    """A report of the attribute ``x``; its payload is in the mechanism's own scale."""

    user: bytes | None
    time: int
    version: int = 0
    payload: float = 0.5
    report_id: bytes | None = None
    delivery: bytes | None = None
    group: str | None = None


def batches_of(reports: Sequence[Sent]) -> list[pa.RecordBatch]:
    """A batch of each channel, without the columns that are null throughout."""
    made = []
    for version in sorted({report.version for report in reports}):
        part = [report for report in reports if report.version == version]
        columns = {
            "user": pa.array([report.user for report in part], pa.binary()),
            "event_time": pa.array([report.time for report in part], pa.int64()),
            "payload": pa.array([report.payload for report in part], pa.float64()),
            "report_id": pa.array([report.report_id for report in part], pa.binary()),
            DELIVERY: pa.array([report.delivery for report in part], pa.binary()),
            "group": pa.array([report.group for report in part], pa.string()),
        }
        present = {name: column for name, column in columns.items() if column.null_count < len(part)}
        made.append(tagged(pa.RecordBatch.from_pydict(present), "x", version))
    return made


def cut(
    reports: Sequence[Any], order: random.Random, encode: Callable[[Any], list[pa.RecordBatch]] = batches_of
) -> list[pa.RecordBatch]:
    """The reports in any order, in batches of any size."""
    shuffled, batches = order.sample(list(reports), len(reports)), []
    while shuffled:
        size = order.randint(1, len(shuffled))
        batches += encode(shuffled[:size])
        shuffled = shuffled[size:]
    return order.sample(batches, len(batches))


def mixed(data: bytes) -> int:
    """The hash of some bytes, as a number of 64 bits."""
    number = len(data) * _MULTIPLIER % _BITS
    for start in range(0, len(data), 8):
        number ^= int.from_bytes(data[start : start + 8], "little")
        number = number * _MULTIPLIER % _BITS
        number ^= number >> 29
    return number * _MULTIPLIER % _BITS


def draw(name: bytes | None) -> int:
    """The byte that is public of a user or a report id."""
    return mixed(struct.pack("<Q", mixed(name or b""))) >> 56


def contents(report: Sent) -> int:
    """A hash of all of a report but its ids."""
    hashes = mixed(struct.pack("<d", report.payload)), mixed((report.group or "").encode())
    return mixed(struct.pack("<QQQq", *hashes, report.version, report.time))


def chance(report: Sent) -> int:
    """The same with the draws of the ids, of which each two that differ in the last bit reverse the order."""
    user, own = draw(report.user), draw(report.report_id)
    number = mixed(struct.pack("<QQ", contents(report), (user & 0xFE) | (own & 0xFC) << 8))
    return number ^ (_BITS - 1) if (user ^ own >> 1) & 1 else number


def by(reports: Iterable[Sent], key: Callable[[Sent], Hashable]) -> list[list[Sent]]:
    """Reports by a key."""
    parts: dict[Any, list[Sent]] = defaultdict(list)
    for report in reports:
        parts[key(report)].append(report)
    return list(parts.values())


def first(reports: Iterable[Sent], most_tied: int) -> Sent:
    """The one that is kept of several."""
    reports = list(reports)
    time = min(report.time for report in reports)
    places = iter(range(len(reports)))
    copies = by(
        (report for report in reports if report.time == time),
        lambda report: (
            (report.report_id, report.delivery) if report.report_id or report.delivery else next(places)
        ),
    )
    tied = sorted((min(of_id, key=chance) for of_id in copies), key=chance)[:most_tied]
    tied.sort(key=contents)
    return tied[draw(tied[0].user) * len(tied) // 256]


def without_copies(reports: Iterable[Sent], service: Callable[[int], str], most_tied: int) -> list[Sent]:
    """The reports without duplicates by id and by delivery."""
    reports = list(reports)
    compared = [report for report in reports if report.report_id or report.delivery]
    same = by(compared, lambda own: (own.user, service(own.version), own.report_id, own.delivery))
    return [report for report in reports if not (report.report_id or report.delivery)] + [
        first(of_id, most_tied) for of_id in same
    ]


def first_of_users(
    reports: Iterable[Sent], service: Callable[[int], str], most_tied: int, step: int | None = None
) -> list[Sent]:
    """One report of each user and service, and of each step of so many milliseconds."""

    def same(report: Sent) -> Hashable:
        return report.user, service(report.version), report.time // step if step else None

    return [first(own, most_tied) for own in by(reports, same)]


def at_most(reports: Iterable[Sent], service: Callable[[int], str], step: int, most: int) -> list[Sent]:
    """So many reports of each user, service and step; without ids, where others would do as well."""
    kept = []
    for own in by(reports, lambda own: (own.user, service(own.version), own.time // step)):
        if len(own) <= most:
            kept += own
            continue
        ordered = []
        for alike in by(own, lambda own: own.report_id or (own.time, chance(own))):
            again: dict[bytes | None, int] = defaultdict(int)
            within = []
            for report in alike:
                within.append((report.time, chance(report), again[report.delivery], report))
                again[report.delivery] += report.delivery is not None
            within.sort(key=lambda one: (*one[:3], mixed(one[3].delivery or b"")))
            for place, (time, number, times, report) in enumerate(within):
                draws = draw(report.user) | draw(report.report_id) << 8
                begins = mixed(struct.pack("<Q", draws)) if report.report_id else number
                key = place, begins, time, number, times, mixed(report.delivery or b"")
                ordered.append((key, report))
        ordered.sort(key=lambda one: one[0])
        beyond = ordered[most][0]
        for key, report in ordered[:most]:
            unsure = report.report_id is not None and key[0] == 0 and key == beyond
            kept.append(report._replace(report_id=None) if unsure else report)
    return kept
