"""Streams in time, driven by hand. Any schedule: test_panes."""

from __future__ import annotations

import itertools
import random

import pytest
from support.keyed_state import StreamByHand
from support.pane_reports import people_report, study_text
from support.pane_runs import Streamed, check_order, in_batch, in_windows, told
from support.pane_scripts import SCENARIOS, Scenario, Step, at

from ldpbeam.schemas.study.yaml_file import parse_study


def by_hand(scenario: Scenario) -> Streamed:
    """What the stages of a stream say in this thread."""
    stages = StreamByHand(scenario.study, scenario.shards, random.Random(1))
    return stages.run(scenario.script, scenario.marked)


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_stream_says_as_time_passes(name: str) -> None:
    scenario = SCENARIOS[name]
    streamed = by_hand(scenario)
    assert told(streamed) == scenario.panes
    assert streamed.counts == scenario.counts
    check_order(streamed)
    if scenario.marked:
        assert streamed.last == in_windows(scenario.study, scenario.script)


@pytest.mark.parametrize("shards", [1, 4])
def test_early_panes_come_by_count_of_reports(shards: int) -> None:
    study = parse_study(study_text(windows="size: 60s, allowed_lateness: 20s, early_reports: 20"))
    reports = people_report(study, visits=50, users=900)
    batches = [part.slice(row, 5) for part in reports for row in range(0, 50, 5)]
    script = [*(Step(place, [batch]) for place, batch in enumerate(batches)), at(60), at(60.001)]
    streamed = StreamByHand(study, shards, random.Random(1)).run(script)
    check_order(streamed)
    ((*early, on_time),) = told(streamed).values()
    assert {timing for timing, _ in early} == {"early"}
    assert on_time == ("on_time", streamed.counts["used"])
    # At least 20 more each time. A shard keeps less than its share of 20 to itself and says it with the
    # five that come, so no pane has many more; at the end less than that waits in each.
    new = [after - before for before, after in itertools.pairwise([0, *(reports for _, reports in early)])]
    assert all(20 <= more < 20 + 20 // shards + 5 for more in new)
    assert on_time[1] - sum(new) < 20 + shards * (20 // shards)
    assert streamed.last == in_batch(study, batches).last
