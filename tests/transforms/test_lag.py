"""How far a reader is behind: by the ends of partitions that a server said, and when it said them."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.transforms.sources import lag
from ldpbeam.transforms.sources.lag import Ends, Lag, worst

BEGAN = 1_000


def test_before_a_server_has_said_anything_only_the_time_is_known() -> None:
    assert Ends(BEGAN).lag(position=50, elapsed=1_700) == Lag(700, 0)


def test_a_backlog_is_behind_since_the_reader_began_until_it_is_taken() -> None:
    ends = Ends(BEGAN)
    ends.look(1_500, 100)
    assert ends.lag(position=99, elapsed=2_000) == Lag(1_000, 1)
    assert ends.lag(position=100, elapsed=2_000) == Lag(500, 0)


def test_a_silent_partition_is_behind_by_the_time_since_the_last_look() -> None:
    ends = Ends(BEGAN)
    for begun in (1_500, 2_000, 2_500):
        ends.look(begun, 100)
    assert ends.lag(position=100, elapsed=2_600) == Lag(100, 0)
    # Messages that came after the last look were taken.
    assert ends.lag(position=130, elapsed=2_600) == Lag(100, 0)


@pytest.mark.parametrize("most", [10_000, 8])
def test_the_lag_is_that_of_the_last_look_of_which_all_was_taken(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against every look kept; with fewer kept, it is never said to be less than it is."""
    monkeypatch.setattr(lag, "MOST", most)
    rng = np.random.default_rng(27)
    ends, looks, position, end, now = Ends(BEGAN), [(BEGAN, -1)], 0, 0, BEGAN
    for _ in range(2_000):
        now += int(rng.integers(1, 100))
        end += int(rng.integers(0, 50))
        position = min(end, position + int(rng.integers(0, 60)))
        looks.append((now, end))
        ends.look(now, end)
        exact = Lag(now - max(when for when, reached in looks if reached <= position), end - position)
        said = ends.lag(position, now)
        assert said.messages == exact.messages
        assert said.milliseconds >= exact.milliseconds
        if most == 10_000:
            assert said == exact
    assert len(ends._looks) <= most


def test_of_several_partitions_messages_add_up_and_the_longest_lag_counts() -> None:
    assert worst([]) is None
    assert worst([Lag(5, 2), Lag(9, 1)]) == Lag(9, 3)
    assert worst([Lag(5), Lag(9)]) == Lag(9, None)
