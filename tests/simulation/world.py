"""What a seed draws: a study, people who report to it, and how their messages come."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study

SECOND = 1_000
DAY = 86_400 * SECOND
BEGAN = 20_000 * DAY
CATEGORIES = 40


class Report(NamedTuple):
    """A report as a client sent it; ``late`` says that it may or may not come in time."""

    user: str | None
    service: str
    time: int
    payload: int
    group: str | None
    id: str | None
    broken: bool = False
    late: bool = False


class Message(NamedTuple):
    """A message of some reports, its number, its partition and when it was published.

    One without reports is of a transaction that was aborted: it has an offset, and nobody reads it.
    """

    number: int
    partition: int
    published: int
    reports: tuple[Report, ...]


@dataclass(frozen=True)
class World:
    """Everything that a seed draws before the first fault."""

    text: str
    study: Study
    size: int
    period: int
    lateness: int
    disorder: int
    services: tuple[str, ...]
    partitions: int
    takes_once: bool
    messages: tuple[Message, ...]
    offsets: tuple[int, ...]
    features: tuple[str, ...] = field(default=())


def world_of(seed: int) -> World:
    """The world of a seed."""
    chance = random.Random(seed)
    size = chance.choice([4, 10, 20]) * SECOND
    slides, joins = chance.random() < 0.25, chance.random() < 0.15
    period = size // 2 if slides else size
    lateness = chance.choice([0, 0, 5, 15]) * SECOND
    disorder = chance.choice([1, 2, 4]) * SECOND
    services = tuple("ab"[: 1 if joins else chance.choice([1, 1, 2])])
    users, grouped = chance.random() < 0.85 or joins, chance.random() < 0.3
    keep, early = chance.random() < 0.2 and not joins, chance.random() < 0.2
    #: Their permanent responses are of people, who then send the same payload or another one in each window.
    memoised = users and not keep and chance.random() < 0.3
    lifetime = ", lifetime_epsilon: 2" if memoised else ""
    windows = [f"size: {size // SECOND}s", f"allowed_lateness: {lateness // SECOND}s"]
    windows += [f"period: {period // SECOND}s"] if slides else []
    windows += [f"joined: {3 * size // SECOND}s"] if joins and not slides else []
    windows += ["early_reports: 15"] if early else []
    lines = [
        "study: simulated",
        f"windows: {{{', '.join(windows)}}}",
        "publish: {at_least: 5}",
        "intervals: false",
        *(["duplicates: keep"] if keep else []),
        *(["groups: {field: region, at_most: 2}"] if grouped else []),
        "attributes:",
        "  x:",
        f"    domain: {{categories: {CATEGORIES}}}",
        *([] if users else ["    users: none"]),
        "    estimates: {shares: {estimator: inversion}}",
        "    services:",
        *(f"      {service}: {{mechanism: grr, epsilon: 1{lifetime}}}" for service in services),
    ]
    text = "\n".join(lines) + "\n"
    partitions, takes_once = chance.choice([1, 1, 2, 3]), chance.random() < 0.6
    retention = takes_once and chance.random() < 0.2
    features = [
        name
        for name, is_so in (
            ("slides", slides), ("joined windows", joins and not slides), ("groups", grouped),
            ("users: none", not users), ("duplicates: keep", keep), ("early panes", early),
            ("memoised clients", memoised), ("two services", len(services) == 2), ("lateness", lateness > 0),
            ("a log", takes_once), ("a subscription", not takes_once), ("retention", retention),
        )
        if is_so
    ]  # fmt: skip
    # Where windows slide, a report may be late for some of them: that is tested by itself.
    messages = tuple(
        _messages(
            chance, services, size, disorder, partitions,
            users=users, grouped=grouped, late=not slides, aborts=takes_once and not retention,
        )
    )  # fmt: skip
    offsets = _offsets(random.Random(f"offsets of {seed}"), messages, partitions, holes=not retention)
    first = {message.partition: at for message, at in reversed(list(zip(messages, offsets, strict=True)))}
    features += ["a log begins late"] if takes_once and any(first.values()) else []
    return World(
        text, parse_study(text), size, period, lateness, disorder, services, partitions, takes_once,
        messages, offsets, tuple(features),
    )  # fmt: skip


def _messages(
    chance: random.Random,
    services: tuple[str, ...],
    size: int,
    disorder: int,
    partitions: int,
    *,
    users: bool,
    grouped: bool,
    late: bool,
    aborts: bool,
) -> list[Message]:
    """Messages in the order in which they are published."""
    people = [f"person {n}" for n in range(chance.choice([3, 20, 60]))]
    now, sent, number = BEGAN, list[Report](), 0
    messages = []
    #: Nobody sends two reports of one time, so that no tie has to be drawn.
    times: set[int] = set()
    for _ in range(chance.choice([40, 120, 250])):
        now += chance.randrange(1, size // 4)
        if aborts and chance.random() < 0.05:
            messages.append(Message(number, chance.randrange(partitions), now, ()))
            number += 1
            continue
        reports: list[Report] = []
        for _ in range(chance.choice([1, 1, 2, 5])):
            draw = chance.random()
            copies = [one for one in sent[-30:] if late or one.time >= now - disorder]
            if draw < 0.08 and copies:
                copied = chance.choice(copies)
                # A copy that is sent long after the report may be late.
                reports.append(copied._replace(late=copied.late or copied.time < now - disorder))
                continue
            is_late = late and draw > 0.97
            time = now - chance.randrange(6 * size if is_late else disorder)
            while time in times:
                time -= 1
            times.add(time)
            report = Report(
                user=chance.choice(people) if users else None,
                service=chance.choice(services),
                time=now + 2 * DAY + number if 0.92 < draw < 0.94 else time,
                payload=chance.randrange(CATEGORIES),
                group=chance.choice([None, "north", "south", "west"]) if grouped else None,
                id=f"id {number}-{len(reports)}" if chance.random() < 0.5 else None,
                broken=0.90 < draw < 0.92,
                late=is_late or time < now - disorder,
            )
            reports.append(report)
            if not report.broken:
                sent.append(report)
        partition = chance.randrange(partitions)
        messages.append(Message(number, partition, now, tuple(reports)))
        number += 1
    return messages


def _offsets(
    chance: random.Random, messages: tuple[Message, ...], partitions: int, *, holes: bool
) -> tuple[int, ...]:
    """The offsets of messages: a log may begin late, and have offsets without messages."""
    following = [chance.choice([0, 0, 1_000]) for _ in range(partitions)]
    offsets = []
    for message in messages:
        hole = chance.randrange(1, 4) if holes and chance.random() < 0.1 else 0
        offsets.append(following[message.partition] + hole)
        following[message.partition] = offsets[-1] + 1
    return tuple(offsets)


def batch_of(world: World, message: Message) -> pa.RecordBatch:
    """A message as it is decoded."""
    reports = message.reports
    columns: dict[str, Any] = {
        "user_id": pa.array(
            [None if one.user is None else one.user.encode() for one in reports], pa.binary()
        ),
        "attribute": pa.array(["x"] * len(reports)),
        "service": pa.array(["none" if one.broken else one.service for one in reports]),
        "event_time": pa.array([one.time for one in reports], pa.int64()),
        "payload": pa.array([one.payload for one in reports], pa.int64()),
        "report_id": pa.array([None if one.id is None else one.id.encode() for one in reports], pa.binary()),
        "position": pa.array([message.number] * len(reports), pa.int64()),
        "row": pa.array(range(len(reports)), pa.int64()),
    }
    if world.study.groups is not None:
        columns["region"] = pa.array([one.group for one in reports], pa.string())
    if "users: none" in world.features:
        del columns["user_id"]
    if not world.takes_once:
        delivery = [None if one.id else f"{message.number}/{row}".encode() for row, one in enumerate(reports)]
        columns["ldpbeam.delivery"] = pa.array(delivery, pa.binary())
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.replace_schema_metadata({"file": f"topic/{message.partition}"})
