"""From where on the messages of a partition are new, by the checksums of those that were read."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka import _new
from ldpbeam.transforms.offsets import LATEST, Checksum, thinned
from ldpbeam.transforms.sources.kafka_client import KafkaTopic


class Log:
    """The brokers of a topic that has the messages that were read before an offset, and others after it."""

    topic = KafkaTopic("h:1", "t")

    def __init__(self, kept: int) -> None:
        self.kept = kept
        self.asked = 0

    def has(self, checksums: Mapping[int, Checksum]) -> dict[int, bool]:
        self.asked += 1
        return {partition: checksum.offset < self.kept for partition, checksum in checksums.items()}


def found(kept: int, read: int, first: int = 0) -> tuple[dict[int, int], int]:
    """What is new where so many messages are kept of those read, and how often brokers were asked."""
    log: Any = Log(kept)
    known = thinned([Checksum(offset, offset) for offset in range(read)])
    return _new(log, {0: (first, 10**6)}, {0: known, 7: known}), log.asked


def test_a_log_that_kept_its_end_is_asked_for_one_message() -> None:
    assert found(100, 100) == ({}, 1)
    assert found(100_000, 100_000) == ({}, 1)


@pytest.mark.parametrize("read", [300, 5_000, 100_000])
def test_the_first_new_message_is_found_if_the_end_is_short_and_is_never_passed(read: int) -> None:
    for lost in (1, 2, 200, 250):
        assert found(read - lost, read)[0] == {0: read - lost}
    for kept in (1, read // 10, read // 2, read - 1_000):
        if kept > 0:
            new, asked = found(kept, read)
            assert 0 < new[0] <= kept
            assert asked < 20


def test_what_retention_removed_says_nothing() -> None:
    assert found(100, 300, first=300) == ({}, 0)
    assert found(250, 300, first=240)[0] == {0: 250}


def test_a_topic_without_any_message_that_was_read_is_refused() -> None:
    with pytest.raises(UserError, match="--topic t: it has none of the messages that were read"):
        found(0, 300)


def test_the_first_checksum_and_the_last_ones_are_kept_and_few_of_those_between() -> None:
    kept = thinned([])
    for first in range(0, 1_000_000, 777):
        kept = thinned([*kept, *(Checksum(offset, 0) for offset in range(first, first + 777))])
    offsets = [checksum.offset for checksum in kept]
    assert offsets == sorted(set(offsets))
    assert len(offsets) < 500
    assert offsets[0] == 0
    end = offsets[-1] + 1
    assert offsets[-LATEST:] == list(range(end - LATEST, end))
    # The further back, the wider apart, by a seventh of the distance at most.
    pairs = itertools.pairwise(offsets[1:])
    assert max((after - before - 1) / (end - before) for before, after in pairs) < 1 / 7
