"""Whatever way reports take, they give the same statistics and the same counts, to the last bit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from support.pane_reports import values_of
from support.spooled import Stream

import ldpbeam as ldp
from ldpbeam.answers.people import People
from ldpbeam.beam.rows import CountRow, StatisticRow, statistic_of
from ldpbeam.library.tables import decoded_batches
from ldpbeam.pipelines.simulated.perturb import simulate
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Statistic
from ldpbeam.transforms.reports.counts import FATES, IN, accounting
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.tally import tally_of

pytestmark = pytest.mark.slow

HOUR = 3_600_000
#: 2026-11-20T00:00:00Z.
BEGAN = 1_795_132_800_000
PEOPLE = 60
#: Reports of a poll.
POLL = 97
#: Nothing is too late, so that a stream ends where a batch run does.
LATE = "allowed_lateness: 10d, max_age: 30000d"

ATTRIBUTES = {
    "joined": """
    domain: {numeric: [0, 10]}
    buckets: 16
    services: {a: {mechanism: square_wave, epsilon: 1}, b: {mechanism: piecewise, epsilon: 2}}
    estimates: {all: {estimator: ule}}""",
    "number": """
    domain: {numeric: [0, 10]}
    buckets: 16
    services: {a: {mechanism: square_wave, epsilon: 1}}""",
    "category": "\n    domain: {categories: [p, q, r]}\n    services: {a: {mechanism: grr, epsilon: 1}}",
    "bits": "\n    domain: {categories: [p, q, r]}\n    services: {a: {mechanism: oue, epsilon: 1}}",
    "hashed": "\n    domain: {categories: [p, q, r]}\n    services: {a: {mechanism: olh, epsilon: 1}}",
    "vector": """
    domain: {coordinates: [u, v], values: [0, 1]}
    services: {a: {mechanism: piecewise, epsilon: 2}}""",
    "keys": """
    domain: {keys: [tea, milk, rum], values: [0, 1]}
    services: {a: {mechanism: pckv_grr, epsilon: 2, padding: 2}}
    estimates: {all: {estimator: pckv_em}}""",
    "nobody": """
    users: none
    domain: {categories: [p, q, r]}
    services: {a: {mechanism: grr, epsilon: 1}}""",
    "remembered": """
    domain: {categories: [p, q, r]}
    services: {a: {mechanism: grr, epsilon: 1, lifetime_epsilon: 2}}""",
    "named": """
    domain: {candidates: names.csv, places: 3}
    services: {a: {mechanism: grr, epsilon: 1}}""",
}
#: Windows, and what else a study says. Windows are joined of one service, and of people.
STUDIES = {
    "windows": f"windows: {{size: 1h, {LATE}}}",
    "early panes": f"windows: {{size: 1h, early_reports: 20, {LATE}}}",
    "sliding windows": f"windows: {{size: 1h, period: 20m, {LATE}}}\nrepeats: all",
    "local days": f"windows: {{size: 1d, zone: America/New_York, {LATE}}}\nduplicates: keep",
    "groups": f"windows: {{size: 2h, {LATE}}}\ngroups: {{field: region, at_most: 2}}",
    "joined windows": f"windows: {{size: 1h, joined: 2h, {LATE}}}",
}
NOT_COMPARED = ("sliding windows", "local days")


class Given(NamedTuple):
    """A study and the reports to it, in the order in which they arrive."""

    text: str
    records: list[dict[str, Any]]

    @property
    def study(self) -> Any:
        return parse_study(self.text)


#: The statistic of each attribute, window and group, and how many reports had each fate.
Found = tuple[dict[tuple[Any, ...], Statistic], dict[str, int]]


def study_of(name: str) -> str:
    """A study of all the attributes that its rules allow."""
    chosen = dict(ATTRIBUTES)
    if name == "joined windows":
        for attribute in ("joined", "keys", "nobody", "vector", "remembered"):
            del chosen[attribute]
    if name in NOT_COMPARED:
        for attribute in ("joined", "nobody", "remembered"):
            del chosen[attribute]
    written = "".join(f"  {attribute}:{text}\n" for attribute, text in chosen.items())
    pairs = (
        ""
        if "joined" not in chosen
        else "pairs: {two: [joined, bits], more: [category, hashed, remembered]}\n"
    )
    return f"study: s\nintervals: false\n{STUDIES[name]}\n{pairs}attributes:\n{written}"


@pytest.fixture(scope="module")
def given(write_reports: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Reports of four hours: copies, repeats, disorder of a minute, late ones, and ones that cannot be."""

    @cache
    def reports(name: str) -> Given:
        text, rng = study_of(name), np.random.default_rng(7)
        # What is sent does not depend on whether clients remember it.
        study, records = parse_study(text.replace(", lifetime_epsilon: 2", "")), list[dict[str, Any]]()
        for attribute in study.attributes:
            asked = study.attribute(attribute)
            users = [f"user {number}" for number in rng.integers(0, PEOPLE // 3, PEOPLE)]
            people = People(
                values=values_of(asked.domain, PEOPLE, rng),
                users=None if attribute == "nobody" else pa.array(users),
                times=BEGAN + rng.integers(0, 4 * HOUR, PEOPLE),
                groups=pa.array(rng.choice(["north", "south", "west", ""], PEOPLE)) if study.groups else None,
                skipped=0,
                clipped=0,
            )
            sent = simulate(
                study, asked, people, services=asked.services, versions={}, start=0, spread=1, seed=7
            )
            for path in write_reports(tmp_path_factory.mktemp(attribute), sent, "jsonl"):
                records += map(json.loads, path.read_text().splitlines())
        for number, record in enumerate(records):
            record["report_id"] = str(number)
        records += records[:: len(records) // 40]
        arrive = np.array(list(map(time_of, records))) + rng.integers(0, 60_000, len(records))
        arrive[::17] += 2 * HOUR
        records = [records[place] for place in np.argsort(arrive, kind="stable")]
        broken = {"payload": "neither"}, {"service": "nobody's"}, {"attribute": "unknown"}
        for number, change in enumerate(broken):
            records.insert(50 + 60 * number, {**records[0], "report_id": f"broken {number}", **change})
        return Given(text, records)

    return reports


def time_of(record: Mapping[str, Any]) -> int:
    """The event time in epoch milliseconds."""
    return milliseconds(record["event_time"])


def milliseconds(time: str | None) -> int:
    """A time in RFC 3339 in epoch milliseconds."""
    return int(np.datetime64(str(time).removesuffix("Z"), "ms").astype(np.int64))


def of_snapshots(snapshots: Any) -> dict[tuple[Any, ...], Statistic]:
    """Statistics by what they are of."""
    own: list[Snapshot] = list(snapshots)
    found = {(one.attribute, one.window, one.group, one.other_groups): one.statistic for one in own}
    assert len(found) == len(own)
    return found


def fates(counts: Mapping[str, Any]) -> dict[str, int]:
    """How many reports came in, and how many had each fate, for each reason."""
    reasons = counts["dead_letters_by_reason"].items()
    return above_zero({**counts, **{f"dead_letters_by_reason/{reason}": n for reason, n in reasons}})


def above_zero(counts: Mapping[str, Any]) -> dict[str, int]:
    """The counts that every way has."""
    names = {IN, *FATES, "used_in_windows", *(name for name in counts if "by_reason/" in name)}
    return {name: counts[name] for name in names if counts.get(name)}


def in_the_library(reports: Given, _: Path, __: Any) -> Found:
    """``ldp.estimate``, up to the estimates."""
    batches = decoded_batches(reports.records, checked_columns(reports.study, None, None))
    tally = tally_of(reports.study, batches)
    return of_snapshots(tally.snapshots), fates(tally.accounting)


def in_a_run(*options: object) -> Callable[[Given, Path, Any], Found]:
    """``ldpbeam estimate`` on files."""

    def run(reports: Given, folder: Path, fixture: Any) -> Found:
        write_lines, run_estimate = fixture("write_lines"), fixture("run_estimate")
        third = len(reports.records) // 3 + 1
        parts = (reports.records[start : start + third] for start in range(0, 3 * third, third))
        files = [write_lines(folder / f"{n}.jsonl", part) for n, part in enumerate(parts)]
        ran = run_estimate(folder, reports.text, files, *options)
        assert ran.code in (0, 3), ran.err
        return of_snapshots(ran.snapshots), fates(ran.accounting)

    return run


def on_flink(reports: Given, folder: Path, fixture: Any) -> Found:
    """``ldpbeam estimate --runner flink``."""
    return in_a_run("--runner", "flink", *fixture("flink").options)(reports, folder, fixture)


def in_a_killed_stream(reports: Given, folder: Path, _: Any) -> Found:
    """A stream on this machine, whose process is killed four times."""
    columns = checked_columns(reports.study, None, None)
    polls = (reports.records[start : start + POLL] for start in range(0, len(reports.records), POLL))
    batches = [batch for poll in polls for batch in decoded_batches(poll, columns)]
    stream = Stream(reports.study, batches, folder)
    run = stream.through(kills=[1, 3, 2, 5])
    return of_snapshots(stream.snapshots().values()), fates(accounting(run.counts.items()))


#: The rows that pipelines gave; the engines run in this process.
_given: list[Any] = []


def _give(row: Any) -> None:
    _given.append(row)


def of_rows() -> Found:
    """The statistics of the last panes, and the counts."""
    statistics = [row for row in _given if isinstance(row, StatisticRow)]
    last: dict[tuple[str, str | None, str | None], int] = {}
    for row in statistics:
        window = row.attribute, row.window_start, row.window_end
        last[window] = max(row.pane_index, last.get(window, 0))
    found = {
        (
            row.attribute,
            (milliseconds(row.window_start), milliseconds(row.window_end)),
            row.group,
            row.other_groups,
        ): statistic_of(row)
        for row in statistics
        if row.pane_index == last[row.attribute, row.window_start, row.window_end]
    }
    counts: Counter[str] = Counter()
    for row in _given:
        if isinstance(row, CountRow):
            counts[row.name] += row.reports
    return found, above_zero(counts)


def in_a_pipeline(reports: Given, _: Path, __: Any) -> Found:
    """``Estimate`` of a bounded collection."""
    _given.clear()
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        found = pipeline | beam.Create(reports.records) | ldp.beam.Estimate(reports.text)
        _ = found.statistics | "Statistics" >> beam.Map(_give)
        _ = found.counts | "Counts" >> beam.Map(_give)
    return of_rows()


def in_an_unbounded_pipeline(reports: Given, _: Path, __: Any) -> Found:
    """``Estimate`` of an unbounded collection, whose watermark is a minute behind."""
    _given.clear()
    source, reached = TestStream(), 0
    for start in range(0, len(reports.records), POLL):
        poll = reports.records[start : start + POLL]
        source.add_elements([TimestampedValue(record, time_of(record) / 1000) for record in poll])
        latest = max(map(time_of, poll)) / 1000 - 60
        if latest > reached:
            source.advance_watermark_to(latest)
            reached = latest
    # This engine holds no watermark for timers that fire together: the last windows end before they expire.
    source.advance_watermark_to(reached + 24 * 3600)
    source.advance_watermark_to_infinity()
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BundleBasedDirectRunner(), options=options) as pipeline:
        found = pipeline | source | ldp.beam.Estimate(reports.text, shards=2)
        _ = found.statistics | "Statistics" >> beam.Map(_give)
        _ = found.counts | "Counts" >> beam.Map(_give)
    return of_rows()


WAYS: dict[str, Callable[[Given, Path, Any], Found]] = {
    "on this machine": in_a_run(), "on Beam's direct runner": in_a_run("--runner", "direct"),
    "on Flink": on_flink, "a stream that is killed": in_a_killed_stream, "Estimate of a batch": in_a_pipeline,
    "Estimate of a stream": in_an_unbounded_pipeline,
}  # fmt: skip


@pytest.fixture(autouse=True)
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of candidates, in the folder in which the test stands."""
    rows = "".join(f"2026-01-01T00:00:00Z,2027-01-01T00:00:00Z,{n},name {n}\n" for n in range(3))
    (tmp_path / "names.csv").write_text(f"since,until,place,name\n{rows}")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_bits(
    way: str, name: str, given: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    reports = given(name)
    statistics, counts = in_the_library(reports, tmp_path, None)
    found, counted = WAYS[way](reports, tmp_path, request.getfixturevalue)
    assert counted == counts
    assert found.keys() == statistics.keys()
    assert [key for key in statistics if found[key] != statistics[key]] == []


@pytest.mark.parametrize("name", STUDIES)
def test_the_reports_have_every_attribute_and_fate(name: str, given: Any, tmp_path: Path) -> None:
    statistics, counts = in_the_library(given(name), tmp_path, None)
    study = given(name).study
    assert {attribute.partition(".")[0] for attribute, *_ in statistics} == {*study.attributes, *study.pairs}
    assert (counts.get("duplicates", 0) > 0) == (name != "local days")
    assert counts["dead_letters"] == 3
