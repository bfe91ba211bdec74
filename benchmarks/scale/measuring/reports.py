"""The reports that are measured: as devices send them, as they leave a shuffle, and as statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from benchmarks.scale.setting import DAY, KEY_WIDTH
from ldpbeam.answers.people import People
from ldpbeam.pipelines.simulated.perturb import simulate
from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.statistics import Answers, Statistic, tally
from ldpbeam.study import Study
from ldpbeam.transforms.joining.join import join
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.emitted import BatchCoder

#: When the reports of batches begin: midnight of 1 January 2026, in UTC.
START = 1_767_225_600_000


def sent(study: Study, users: int, start: int = START, spread: int = DAY) -> list[SentReports]:
    """What some people tell every service."""
    values = 180 * np.random.default_rng(0).beta(2, 5, users)
    people, asked = People(values, None, None, None, 0, 0), study.attribute("minutes")
    return list(
        simulate(
            study, asked, people, services=asked.services, versions={}, start=start, spread=spread, seed=0
        )
    )


def channel_batches(study: Study, reports: int, rows: int, ids: bool = False) -> list[pa.RecordBatch]:
    """Reports as they come out of a shuffle, in batches of so many rows, in no order of users."""
    rng, found = np.random.default_rng(0), []
    users = reports // len(study.attribute("minutes").services)

    for version, part in enumerate(sent(study, users)):
        order = rng.permutation(users)
        columns = {
            "user": part.users.take(order).cast(pa.binary(16)),
            "event_time": pa.array(part.times[order]),
            "payload": pa.array(part.payloads[order]),
        }
        if ids:
            drawn = np.frombuffer(rng.bytes(KEY_WIDTH * users), f"V{KEY_WIDTH}")
            columns["report_id"] = payload_column(drawn).cast(pa.binary())
        whole = tagged(pa.RecordBatch.from_pydict(columns), "minutes", version)
        found += [BatchCoder().encode(whole.slice(at, rows)) for at in range(0, users, rows)]
    return [BatchCoder().decode(encoded) for encoded in found]


def statistic_of(study: Study, users: int) -> Statistic:
    """The statistic of some people who tell every service."""
    rows = np.arange(users)
    answers = [Answers(n, rows, part.payloads) for n, part in enumerate(sent(study, users))]
    return tally(study.attribute("minutes"), users, answers)


def joined(study: Study, batches: Sequence[pa.RecordBatch]) -> None:
    """A partition's reports to statistics."""
    attribute = study.attribute("minutes")
    for users in join(attribute, batches)[0]:
        tally(attribute, users.users, users.answers)
