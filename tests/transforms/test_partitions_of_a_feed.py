"""The watermark of a feed with partitions, driven by hand: who holds it, and who does not."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.transforms.sources.feeds import UNFOUND
from ldpbeam.transforms.sources.watermarks import Watermarks

SECOND, HOUR, YEAR = 1_000, 3_600_000, 365 * 86_400_000
#: The clock when a test begins, and the disorder.
NOW, DISORDER = 1_750_000_000 * SECOND, 2 * SECOND
BACKLOG = NOW - 100 * HOUR


class Read:
    """A reader of three partitions; everything counts as published when it is taken."""

    def __init__(self, partitions: int = 3) -> None:
        self.watermarks = Watermarks(DISORDER, 0)
        self.elapsed = 0
        self.silences: dict[int, int | None] = dict.fromkeys(range(partitions))

    def take(self, partition: int, *times: int) -> None:
        now = NOW + self.elapsed
        self.watermarks.take(partition, self.elapsed, np.array(times), now, now)

    def empty(self, *partitions: int) -> None:
        """A second later these are known to have been empty, or read to where they ended then."""
        self.look()
        self.silences |= dict.fromkeys(partitions, self.elapsed)
        self.elapsed += SECOND
        self.look()

    def look(self) -> None:
        self.watermarks.look(self.elapsed, self.silences)

    @property
    def at(self) -> int | None:
        return self.watermarks.at()


def test_it_waits_for_a_partition_of_which_nothing_is_known_yet() -> None:
    read = Read()
    read.take(0, BACKLOG)
    read.empty(0)
    assert read.at is None
    read.empty(0, 1, 2)
    assert read.at is not None
    assert read.at >= BACKLOG - DISORDER


def test_the_slowest_partition_that_still_has_messages_holds_it() -> None:
    read = Read()
    for batch in range(30):
        for partition, hours in enumerate((3, 1, 2)):
            read.take(partition, *[BACKLOG + batch * hours * HOUR] * 10)
        read.elapsed += SECOND
        read.look()
    assert read.at is not None
    # The delay is that of 1 in 20 of the last reports.
    assert BACKLOG + 26 * HOUR <= read.at <= BACKLOG + 29 * HOUR


def test_a_partition_without_messages_counts_as_the_others_did_when_it_was_asked() -> None:
    read = Read(2)
    read.empty(0, 1)
    for hour in range(10):
        read.take(0, *[BACKLOG + hour * HOUR] * 1_000)
        read.empty(0, 1)
    assert read.at is not None
    assert BACKLOG + 8 * HOUR - DISORDER <= read.at < BACKLOG + 10 * HOUR
    asked = read.at
    # What has come there since waits, and is older than what is read elsewhere.
    for hour in range(10, 20):
        read.take(0, *[BACKLOG + hour * HOUR] * 1_000)
        read.empty(0)
    assert read.at <= asked + HOUR + SECOND


def test_a_partition_counts_as_the_others_only_as_of_the_time_when_it_was_asked() -> None:
    """What was read elsewhere after that may have been published after messages that wait here."""
    read = Read()
    for partition in range(3):
        read.take(partition, *[BACKLOG] * 1_000)
    read.empty(0, 1, 2)
    for partition in (0, 2):
        read.take(partition, *[BACKLOG + 50 * HOUR] * 10_000)
    read.elapsed += SECOND
    read.look()
    assert read.at is not None
    assert read.at <= BACKLOG + 2 * SECOND


def test_a_partition_of_next_year_moves_nothing_while_the_others_rest() -> None:
    honest, disturbed = Read(2), Read()
    for read in (honest, disturbed):
        for hour in range(10):
            for partition in (0, 1):
                read.take(partition, *[BACKLOG + hour * HOUR] * 1_000)
            if read is disturbed:
                read.take(2, *[NOW + YEAR] * 10_000)
            read.empty(*read.silences)
    for _ in range(100):
        disturbed.take(2, *[NOW + YEAR] * 10_000)
        disturbed.empty(0, 1, 2)
        honest.empty(0, 1)
    assert disturbed.at == honest.at


@pytest.mark.parametrize("hostile", [[], [BACKLOG - HOUR] * 1_000], ids=["no report", "old reports"])
def test_a_partition_that_is_kept_full_does_not_hold_it_while_it_is_read_as_fast_as_it_is_filled(
    hostile: list[int],
) -> None:
    read = Read(4)
    for hour in range(10):
        for partition in range(3):
            read.take(partition, *[BACKLOG + hour * HOUR] * 1_000)
        read.take(3, *hostile)
        read.empty(0, 1, 2, 3)
    assert read.at is not None
    assert read.at >= BACKLOG + 8 * HOUR - DISORDER


def test_it_never_goes_back_though_a_partition_is_added() -> None:
    read = Read(2)
    for partition in (0, 1):
        read.take(partition, *[BACKLOG + 5 * HOUR] * 1_000)
    read.empty(0, 1)
    before = read.at
    assert before is not None
    read.silences[2] = None
    read.look()
    assert read.at == before
    read.take(2, *[BACKLOG] * 1_000)
    read.empty(0, 1, 2)
    assert read.at is not None
    assert read.at >= before


def test_a_process_goes_on_behind_no_watermark_of_the_one_before() -> None:
    said = NOW - HOUR
    watermarks = Watermarks(DISORDER, 0, said)
    assert watermarks.at() == said
    watermarks.take(0, 0, np.array([BACKLOG]), NOW, NOW)
    watermarks.look(SECOND, {0: 0})
    assert watermarks.at() == said


def test_a_process_knows_the_clock_that_the_one_before_knew_until_it_knows_a_later_one() -> None:
    watermarks = Watermarks(DISORDER, 0, None, NOW)
    assert watermarks.clock(0) == NOW
    watermarks.take(0, 0, np.array([BACKLOG]), BACKLOG, BACKLOG)
    assert watermarks.clock(0) == NOW
    watermarks.take(0, 0, np.array([NOW]), NOW, NOW + SECOND)
    assert watermarks.clock(SECOND) == NOW + 2 * SECOND


def test_reports_of_a_partition_that_is_not_found_yet_are_not_late() -> None:
    """It was made, and got a report, after the last answer that named all; the others go on meanwhile."""
    read = Read(2)
    read.silences[UNFOUND] = None
    for second in range(10):
        for partition in (0, 1):
            read.take(partition, *[NOW + second * SECOND] * 1_000)
        read.empty(0, 1, UNFOUND)
    asked = read.at
    assert asked is not None
    assert asked >= NOW + 8 * SECOND - DISORDER
    new = NOW + read.elapsed
    for second in range(10, 60):
        for partition in (0, 1):
            read.take(partition, *[NOW + second * SECOND] * 1_000)
        read.empty(0, 1)
        assert read.at is not None
        assert read.at <= new
    # It is found, and holds the watermark until it is known to have been read.
    read.silences[2] = None
    read.empty(0, 1, UNFOUND)
    assert read.at is not None
    assert read.at <= new
    read.take(2, *[new] * 10)
    read.empty(0, 1, 2, UNFOUND)
    assert read.at >= NOW + 58 * SECOND - DISORDER


@pytest.mark.parametrize(
    ("leads", "ahead"),
    [
        # A machine whose clock is an hour behind sees that all are ahead.
        ([[HOUR] * 20, [HOUR + 7] * 20, []], HOUR),
        # Some reports of each partition, and all of one, may say what they like.
        ([[0, 0, 0, YEAR, YEAR] * 4, [0] * 20, [YEAR] * 20], 0),
        ([[-HOUR] * 20, [HOUR] * 20], 0),
        ([[YEAR] * 20], 24 * HOUR),
        ([[YEAR] * 19], 0),
    ],
)
def test_the_clock_is_ahead_of_publication_where_most_reports_of_all_partitions_are(
    leads: list[list[int]], ahead: int
) -> None:
    read = Read(len(leads))
    assert read.watermarks.clock(0) is None
    for partition, times in enumerate(leads):
        read.take(partition, *(NOW + lead for lead in times))
    assert read.watermarks.clock(500) == NOW + 500 + ahead
    # The watermark never is: what all say may be wrong.
    read.empty(*range(len(leads)))
    assert read.at is None or read.at <= NOW + SECOND - DISORDER
