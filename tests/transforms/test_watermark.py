"""The time model by rules, and what publishers who lie can do; at random: test_watermark_machine."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import numpy as np
import pytest
from support.covering import covering

from ldpbeam.transforms.sources.watermarks import LIARS, Claim

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
WEEK = 7 * DAY
#: The server's clock when a test begins, and the disorder of most tests.
NOW, DISORDER = 1_750_000_000_000, MINUTE


class Read:
    """A claim, whose clock begins at 0."""

    def __init__(self, disorder: int = DISORDER) -> None:
        self.claim = Claim(disorder, 0)

    def take(self, elapsed: int, *times: int, published: int | None = None) -> None:
        published = NOW + elapsed if published is None else published
        self.claim.take(elapsed, np.array(times, dtype=np.int64), published, published)

    def at(self) -> int | None:
        return self.claim.at

    def silent(self, elapsed: int) -> int | None:
        self.claim.fall_silent(elapsed)
        return self.at()


def test_before_anything_has_come_there_is_none() -> None:
    read = Read()
    assert read.silent(WEEK) is None
    read.take(WEEK)  # dead letters alone
    assert read.at() is None


@pytest.mark.parametrize("disorder", [0, 1, DISORDER])
def test_it_is_the_latest_event_less_the_disorder_and_moves_by_the_silence(disorder: int) -> None:
    read = Read(disorder)
    read.take(0, NOW - 9_000, NOW - 5_000)
    assert read.at() is None
    assert read.silent(0) == NOW - 5_000 - disorder
    assert read.silent(WEEK) == NOW - 5_000 - disorder + WEEK


def test_the_clock_moves_it_only_by_the_silence_before_a_pull_that_was_answered_empty() -> None:
    read = Read()
    read.take(0, NOW - WEEK)
    for begun in (1, 999, HOUR):
        assert read.silent(begun) == NOW - WEEK + begun - DISORDER
    assert read.silent(500) == NOW - WEEK + HOUR - DISORDER
    read.take(2 * HOUR, NOW - WEEK + 1_000)
    # From the latest report, not from where it had got to: the pause says nothing of the backlog.
    assert read.silent(3 * HOUR - 1_000) == NOW - WEEK + HOUR - DISORDER
    assert read.silent(3 * HOUR) == NOW - WEEK + HOUR + 1_000 - DISORDER


def test_a_pull_that_was_begun_before_the_last_batch_was_taken_does_not_move_it() -> None:
    read = Read()
    read.take(5_000, NOW - WEEK)
    # What was published in the last millisecond may still come.
    assert read.silent(4_999) == NOW - WEEK - 1 - DISORDER
    assert read.claim.idle == 0


def test_a_report_that_is_late_does_not_hold_it_up() -> None:
    read = Read()
    read.take(0, NOW - 5_000)
    read.take(1_000, NOW - WEEK)
    assert read.silent(11_000) == NOW + 5_000 - DISORDER


@pytest.mark.parametrize("ahead", [1, WEEK])
def test_an_event_after_its_publication_moves_it_there_and_no_further(ahead: int) -> None:
    read = Read()
    read.take(0, NOW + ahead)
    assert read.silent(0) == NOW - DISORDER
    assert read.silent(500) == NOW + 500 - DISORDER


def test_a_silence_of_before_the_machine_was_suspended_says_nothing_of_what_was_published_meanwhile() -> None:
    """The machine's clock stands while it is suspended; a server may deliver the newest message first."""
    read = Read()
    read.silent(0)
    read.take(0, NOW - WEEK, published=NOW)
    read.take(0, NOW + HOUR, published=NOW + HOUR)
    # What was published at NOW may still come.
    reached = read.at()
    assert reached is None or reached <= NOW


def test_idle_is_the_time_from_the_last_batch_to_the_last_pull_that_was_answered_empty() -> None:
    claim = Claim(DISORDER, 100)
    assert claim.idle == 0
    claim.fall_silent(300)
    assert claim.idle == 200
    claim.take(400, np.array([], dtype=np.int64), None, NOW)
    assert claim.idle == 0
    claim.fall_silent(1_000)
    assert claim.idle == 600


# A backlog of an hour, and those who lie.


class Sent(NamedTuple):
    """A report: when its event was, as it says, when it was published, and whether it is true."""

    event: int
    published: int
    true: bool


HONEST = 6_000


def backlog(share: float, lie: int, liars_publish: str, honest_publish: str, where: str) -> list[Sent]:
    """An hour of reports in the order of delivery, a share of which lie that their event is at ``lie``."""
    sent = []
    for place in range(HONEST):
        event = NOW - HOUR + place * HOUR // HONEST
        sent.append(Sent(event, event if honest_publish == "then" else NOW, true=True))
    generator = random.Random(1)
    for _ in range(round(share * HONEST)):
        place = generator.randrange(len(sent)) if where == "spread" else HONEST // 3
        published = sent[place].published if liars_publish == "then" else NOW
        sent.insert(place, Sent(lie, published, true=False))
    return sent


def late(sent: list[Sent], size: int) -> float:
    """The share of true reports that come after the watermark, in batches."""
    claim, late = Claim(DISORDER, 0), 0
    for start in range(0, len(sent), size):
        part = sent[start : start + size]
        reached = claim.at
        late += sum(one.true and reached is not None and one.event < reached for one in part)
        published = [one.published for one in part]
        times = np.array([one.event for one in part], dtype=np.int64)
        claim.take(start, times, min(published), max(published))
    return late / HONEST


@pytest.mark.parametrize(
    ("size", "lie", "liars_publish", "where"),
    covering(itertools.product([50, 2_000], [NOW, NOW + DAY], ["then", "now"], ["spread", "together"])),
)
def test_one_in_a_hundred_reports_that_lie_makes_one_in_a_hundred_late_at_most(
    size: int, lie: int, liars_publish: str, where: str
) -> None:
    for honest_publish in ("then", "now"):
        sent = backlog(0.01, lie, liars_publish, honest_publish, where)
        assert late(sent, size) <= 0.01


@pytest.mark.parametrize("lie", [NOW, NOW + DAY], ids=["now", "tomorrow"])
def test_what_remains_is_one_in_twenty_where_publish_times_say_nothing(lie: int) -> None:
    """As files that are copied, or a backlog that is published anew: the docs say this number."""
    assert LIARS == 20
    assert late(backlog(0.03, lie, "now", "now", "spread"), 50) <= 0.01
    assert late(backlog(0.1, lie, "now", "now", "spread"), 50) > 0.5
    # With the server's publish times the liars need not be few.
    assert late(backlog(1.0, lie, "then", "then", "spread"), 50) == 0
