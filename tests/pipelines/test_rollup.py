"""Roll-ups: equal to merging by hand, to the bit; nothing is added twice."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.encoded import avro_file
from support.tallied import tallied

from ldpbeam import merge
from ldpbeam.answers.rolled_up import rolled_up
from ldpbeam.cells import Cells
from ldpbeam.errors import UserError
from ldpbeam.folders.output import Output
from ldpbeam.folders.written import read_all, write_all
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import empty
from ldpbeam.study import Study

TEXT = """\
study: day
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 16
    services: {a: {mechanism: piecewise, epsilon: 1.0}, b: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}, both: {estimator: ule}}
windows: {size: 1h}
groups: {field: region, at_most: 2}
"""
START = 1_795_132_800_000  # 2026-11-20T00:00:00Z
DAY = 86_400_000
STUDY = parse_study(TEXT)
HOUR = DAY // 24
Given = list[tuple[str, Snapshot]]


def written(folder: Path, snapshots: Sequence[Snapshot], run: str, study: Study = STUDY) -> Given:
    """Snapshots in files of a run, as a roll-up reads them."""
    write_all(Output(study, str(folder), run), snapshots)
    return read_all([f"{folder}/statistics/*.avro"])


@pytest.fixture
def hours(tmp_path: Path) -> Callable[..., Given]:
    """Makes the statistics of the hours of a day: (run, seed, people, study)."""

    def make(run: str = "north", seed: int = 0, people: int = 3000, text: str = TEXT) -> Given:
        study, rng = parse_study(text), np.random.default_rng(seed)
        common = {
            "user_id": np.array([f"u{place}" for place in range(people)]),
            "event_time": START + np.arange(people) * DAY // people,
            "region": rng.choice(["n", "s", "e"], people),
        }
        values = rng.beta(2, 5, people)
        tables = [
            common | {"service": v.service, "payload": v.mechanism.perturb(values, rng)}
            for v in study.attribute("x").versions
        ]
        return written(tmp_path / run, tallied(text, tables).snapshots, run, study)

    return make


def by_group(snapshots: Iterable[Snapshot]) -> dict[tuple[str | None, bool], Any]:
    return {(s.group, s.other_groups > 0): s.statistic for s in snapshots}


def within(given: Given, start: int, stop: int) -> Given:
    """Those of the windows of some hours of the day."""
    ends = START + start * HOUR, START + stop * HOUR
    return [(path, s) for path, s in given if s.window and ends[0] <= s.window[0] < ends[1]]


def test_a_day_of_hours_is_what_merging_them_by_hand_gives(hours: Any, tmp_path: Path, command: Any) -> None:
    parts = hours()
    assert len({path for path, _ in parts}) == 24
    (tmp_path / "study.yaml").write_text(TEXT.replace("{estimator: ivw}", "{estimator: ems, services: [b]}"))
    files = f"{tmp_path}/north/statistics/*.avro"
    options = ("--statistics", files, files, "--window", "1d")
    day = tmp_path / "day"
    ran = command("rollup", "--study", tmp_path / "study.yaml", "--output", day, *options)
    assert ran.code == 0, ran.err
    assert "72 snapshots merged into 4; 72 more were repeated or of earlier panes" in ran.out
    days = [s for _, s in read_all([f"{day}/statistics/*"])]
    assert {s.window for s in days} == {(START, START + DAY)}
    for key, statistic in by_group(days).items():
        own = [p.statistic for _, p in parts if (p.group, p.other_groups > 0) == key]
        assert statistic == merge(own)
    assert sum(s.statistic.reports for s in days) == 6000
    # Of old statistics other estimates may be asked.
    records = [json.loads(line) for line in (day / "estimates.jsonl").read_text().splitlines()]
    assert {record["estimator"] for record in records} == {"ems", "ule"}
    assert {record["window_start"] for record in records} == {"2026-11-20T00:00:00Z"}


def test_in_steps_or_at_once_is_the_same(hours: Any, tmp_path: Path) -> None:
    given = hours()
    at_once = rolled_up(STUDY, given, cells=Cells(DAY)).snapshots
    six = rolled_up(STUDY, given, cells=Cells(DAY // 4))
    assert len({s.window for s in six.snapshots}) == 4
    in_steps = rolled_up(STUDY, written(tmp_path / "six", six.snapshots, "six"), cells=Cells(DAY)).snapshots
    assert in_steps == at_once


def test_regions_become_a_total(hours: Any) -> None:
    both = hours("north", 0) + hours("south", 1)
    found = rolled_up(STUDY, both, total=True)
    (snapshot,) = found.snapshots
    assert snapshot.statistic == merge(s.statistic for _, s in both)
    assert (snapshot.group, snapshot.other_groups) == (None, 0)
    assert snapshot.window == (START, START + DAY)
    assert (found.merged, found.repeated) == (144, 0)


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_panes_the_last_stands(order: int, hours: Any) -> None:
    first = within(hours(), 0, 1)
    late = [
        ("late", replace(s, pane_index=1, pane_timing="late", statistic=merge([s.statistic, s.statistic])))
        for _, s in first
    ]
    found = rolled_up(STUDY, [*first, *late][::order]).snapshots
    assert by_group(found) == by_group(s for _, s in late)


def test_two_panes_of_one_index_that_differ_are_refused(hours: Any) -> None:
    ((path, one), *_) = hours(people=200)
    other = replace(one, statistic=merge([one.statistic, one.statistic]))
    said = "two different snapshots of one run, attribute, window and pane.* If two machines ran the same"
    with pytest.raises(UserError, match=said):
        rolled_up(STUDY, [(path, one), ("other", other)])


def test_a_roll_up_beside_one_of_its_parts_is_refused(hours: Any, tmp_path: Path) -> None:
    given = hours()
    day = written(tmp_path / "day", rolled_up(STUDY, given, cells=Cells(DAY)).snapshots, "day")
    morning = rolled_up(STUDY, within(given, 0, 10), cells=Cells(DAY // 2)).snapshots
    for others in (within(given, 5, 6), written(tmp_path / "morning", morning, "morning")):
        with pytest.raises(UserError, match="would be counted twice"):
            rolled_up(STUDY, day + others, cells=Cells(DAY))


def test_equal_statistics_of_two_runs_are_refused(hours: Any) -> None:
    with pytest.raises(UserError, match="two runs have exactly equal counts, so both count the same reports"):
        rolled_up(STUDY, hours("one", 3) + hours("other", 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("epsilon: 1.0", "epsilon: 1.5"), "are not those of the study"),
        (("buckets: 16", "buckets: 32"), "are not those of the study"),
        (("buckets: 16", "joint_buckets: 4\n    buckets: 16"), "are not those of the study"),
        (("  x:", "  y:"), "of attribute 'x', which the study does not have"),
    ],
)
def test_statistics_of_other_channels_are_refused(change: tuple[str, str], message: str, hours: Any) -> None:
    with pytest.raises(UserError, match=message):
        rolled_up(parse_study(TEXT.replace(*change)), hours(people=200))


def test_windows_that_do_not_fit_or_slide_are_refused(hours: Any) -> None:
    with pytest.raises(UserError, match="does not lie in one of 90m"):
        rolled_up(STUDY, hours(people=200), cells=Cells(90 * 60_000))
    sliding = TEXT.replace("{size: 1h}", "{size: 2h, period: 1h}")
    with pytest.raises(UserError, match="windows that do not slide"):
        rolled_up(parse_study(sliding), hours("slides", people=200, text=sliding))


def test_every_other_kind_of_file_is_refused_in_one_sentence(
    tmp_path: Path, simulate: Any, write_reports: Any
) -> None:
    (reports, _) = write_reports(
        tmp_path / "reports", simulate(STUDY, "x", np.full(50, 0.5), groups=["n"] * 50)
    )
    (tmp_path / "study.yaml").write_text(TEXT)
    pq.write_table(pa.table({"user_id": ["a"], "payload": [0.5]}), tmp_path / "reports.parquet")
    (tmp_path / "empty").touch()
    (tmp_path / "wrong.avro").write_bytes(b"Obj\x01 is this?")
    (tmp_path / "reports.jsonl").write_text('{"user_id": "a", "payload": 0.5}\n')
    (tmp_path / "reports.jsonl.gz").write_bytes(gzip.compress(b"{}"))
    (tmp_path / "letters.avro").write_bytes(avro_file(schema("dead_letter"), []))
    foreign = {"type": "record", "name": "Trip", "fields": []}
    (tmp_path / "foreign.avro").write_bytes(avro_file(foreign, []))
    others = ("wrong.avro", "reports.parquet", "reports.jsonl", "reports.jsonl.gz", "study.yaml", "empty")
    for path, message in {
        reports: "a file of reports, not of statistics",
        tmp_path / "letters.avro": "a file of dead letters, not of statistics",
        tmp_path / "foreign.avro": "a file of 'Trip' records, not of statistics",
        **{tmp_path / name: "not a file of statistics" for name in others},
        tmp_path / "reports": "a folder, not a file; to name the files in it, add /*.avro",
    }.items():
        with pytest.raises(UserError) as caught:
            read_all([str(path)])
        assert str(caught.value) == f"{path}: {message}"


def test_names_without_a_folder_and_with_brackets_are_found(
    hours: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = hours(people=50)
    monkeypatch.chdir(tmp_path / "north" / "statistics")
    min(Path().glob("*.avro")).rename("[1].avro")
    assert len(read_all(["[1].avro"])) + len(read_all(["day-*.avro"])) == len(given)


def test_what_a_killed_run_left_half_written_is_in_no_roll_up(hours: Any, tmp_path: Path) -> None:
    given = hours(people=50)
    statistics = tmp_path / "north" / "statistics"
    half = statistics / f".{min(statistics.iterdir()).name}.{'0' * 32}"
    half.write_bytes(b"Obj")
    assert len(read_all([f"{statistics}/*"])) == len(given)


def test_the_incomplete_windows_are_named() -> None:
    whole = Snapshot("x", (START, START + DAY // 2), None, 0, empty(STUDY.attribute("x")))
    lacking = replace(whole, window=(START + DAY // 2, START + DAY), complete=False, run="r")
    given = [("one", whole), ("other", lacking)]
    assert rolled_up(STUDY, given, cells=Cells(DAY // 2)).incomplete == [
        "x 2026-11-20T12:00:00Z to 2026-11-21T00:00:00Z"
    ]
    assert rolled_up(STUDY, given[:1]).incomplete == []
    assert rolled_up(STUDY, given).incomplete == ["x 2026-11-20T00:00:00Z to 2026-11-21T00:00:00Z"]
