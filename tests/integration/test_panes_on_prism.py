"""The panes of the short and the long scripts on Prism, beside those of the engine in this process."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from support.pane_reports import people_report, study_of
from support.pane_runs import check_order, in_batch, last_estimates, run_scenario, stream, told
from support.pane_scripts import SCENARIOS, arriving, in_time, reports_in

from ldpbeam.runners import prism as engine


@pytest.fixture
def on_prism(prism: str) -> Callable[[], beam.Pipeline]:
    """Makes pipelines that run on Prism, with workers in this process."""
    closed = engine.get(prism, allow_open=False)
    assert closed is not None
    return lambda: beam.Pipeline(runner=engine.runner(closed), options=PipelineOptions(engine.options()))


#: By hand all studies (test_panes) and scenarios (test_panes_in_time); here one of each kind of key.
ON_PRISM = ("a vector", "sliding windows", "joined windows of categories", "two repeats count")
#: Those in which the engine's watermark and timers decide.
TIMED = (
    *("late, within what is allowed", "too late", "a late report takes the place of one that stood"),
    *("still open at the end", "early panes", "only the engine knows what is late"),
)


@pytest.mark.parametrize("name", ON_PRISM)
def test_the_last_panes_on_prism_are_a_batch_run(name: str, on_prism: Callable[[], beam.Pipeline]) -> None:
    study = study_of(name)
    script = arriving(people_report(study))
    streamed = stream(study, script, 2, on_prism)
    kept, late = in_time(study, script)
    batch = in_batch(study, kept)
    assert streamed.last == batch.last
    assert last_estimates(study, streamed) == last_estimates(study, batch)
    check_order(streamed)
    assert {own: streamed.counts[own] for own in batch.counts} == batch.counts
    assert streamed.counts["late"] == late
    assert sum(streamed.counts[own] for own in ("used", "duplicates", "late")) == reports_in(script)


@pytest.mark.parametrize("name", TIMED)
def test_what_a_stream_says_on_prism_as_time_passes(name: str, on_prism: Callable[[], beam.Pipeline]) -> None:
    scenario = SCENARIOS[name]
    streamed = run_scenario(scenario, on_prism)
    assert told(streamed) == scenario.panes
    assert streamed.counts == scenario.counts
    check_order(streamed)


def test_early_panes_on_prism_where_the_stream_ends_at_once(on_prism: Callable[[], beam.Pipeline]) -> None:
    """Prism holds the watermark for timers: what waits in shards is said before the pane on time."""
    scenario = SCENARIOS["early panes"]
    streamed = run_scenario(scenario._replace(script=scenario.script[:2]), on_prism)
    assert told(streamed) == {0: [("early", 2), ("on_time", 3)]}
