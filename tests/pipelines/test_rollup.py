"""Roll-ups: equal to merging by hand, to the bit; nothing is added twice."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam import merge
from ldpbeam.pipelines.estimates.rollup import read_all, rolled_up
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
    services:
      a: {mechanism: piecewise, epsilon: 1.0}
      b: {mechanism: square_wave, epsilon: 1.0}
    estimates:
      mean: {estimator: ivw}
      both: {estimator: ule}
windows: {size: 1h}
groups: {field: region, at_most: 2}
"""
START = 1_795_132_800_000  # 2026-11-20T00:00:00Z
DAY = 86_400_000


@pytest.fixture
def hourly(
    tmp_path: Path, run_estimate: Callable[..., Any], simulate: Any, write_reports: Any
) -> Callable[..., Path]:
    """Runs a day of reports: gives the folder of 24 hours' statistics."""

    def run(name: str = "north", seed: int = 0, people: int = 3000, text: str = TEXT) -> Path:
        rng = np.random.default_rng(seed)
        sent = simulate(
            parse_study(text), "x", rng.beta(2, 5, people), seed=seed, start=START, spread=DAY,
            groups=rng.choice(["n", "s", "e"], people).tolist(),
        )  # fmt: skip
        inputs = write_reports(tmp_path / name / "reports", sent)
        ran = run_estimate(tmp_path / name, text, inputs)
        assert ran.code == 0, ran.err
        return Path(ran.path) / "statistics"

    return run


@pytest.fixture
def rollup(tmp_path: Path, command: Callable[..., Any]) -> Callable[..., Any]:
    """Runs the command: gives what it said, its snapshots and its estimates."""
    places = iter(range(100))

    def run(*statistics: object, text: str = TEXT, options: tuple[object, ...] = ()) -> Any:
        folder = tmp_path / f"rollup{next(places)}"
        study = tmp_path / "study.yaml"
        study.write_text(text)
        ran = command("rollup", "--study", study, "--statistics", *statistics, "--output", folder, *options)
        if ran.code:
            assert not folder.exists()
            return ran, [], []
        lines = (folder / "estimates.jsonl").read_text().splitlines()
        return ran, [s for _, s in read_all([f"{folder}/statistics/*"])], [json.loads(line) for line in lines]

    return run


def study() -> Study:
    return parse_study(TEXT)


def by_group(snapshots: list[Snapshot]) -> dict[tuple[str | None, bool], Any]:
    return {(s.group, s.other_groups > 0): s.statistic for s in snapshots}


def test_a_day_of_hours_is_what_merging_them_by_hand_gives(
    hourly: Callable[..., Path], rollup: Callable[..., Any]
) -> None:
    hours = hourly()
    assert len(list(hours.glob("*.avro"))) == 24
    parts = [snapshot for _, snapshot in read_all([f"{hours}/*.avro"])]
    ran, days, estimates = rollup(f"{hours}/*.avro", options=("--window", "1d"))
    assert "72 snapshots merged into" in ran.out
    assert {s.window for s in days} == {(START, START + DAY)}
    for key, statistic in by_group(days).items():
        own = [p.statistic for p in parts if (p.group, p.other_groups > 0) == key]
        assert statistic == merge(own)
    assert sum(s.statistic.reports for s in days) == 6000
    assert sum(r["reports"] for r in estimates if r["name"] == "mean") == 6000
    assert {r["window_start"] for r in estimates} == {"2026-11-20T00:00:00Z"}


def test_in_steps_or_at_once_is_the_same_to_the_last_bit(
    hourly: Callable[..., Path], rollup: Callable[..., Any], tmp_path: Path
) -> None:
    hours = hourly()
    _, _, at_once = rollup(f"{hours}/*.avro", options=("--window", "1d"))
    _, six, _ = rollup(f"{hours}/*.avro", options=("--window", "6h"))
    assert len({s.window for s in six}) == 4
    _, _, in_steps = rollup(f"{tmp_path}/rollup1/statistics/*.avro", options=("--window", "1d"))

    def told(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{k: v for k, v in record.items() if k != "run"} for record in records]

    assert told(in_steps) == told(at_once)


def test_regions_become_a_total(hourly: Callable[..., Path], rollup: Callable[..., Any]) -> None:
    north, south = hourly("north", 0), hourly("south", 1)
    parts = [s.statistic for _, s in read_all([f"{north}/*.avro", f"{south}/*.avro"])]
    ran, total, _ = rollup(f"{north}/*", f"{south}/*", options=("--total",))
    (snapshot,) = total
    assert snapshot.statistic == merge(parts)
    assert (snapshot.group, snapshot.other_groups) == (None, 0)
    assert snapshot.window == (START, START + DAY)
    assert "144 snapshots merged into 1" in ran.out


def test_other_estimators_may_be_asked_of_old_statistics(
    hourly: Callable[..., Path], rollup: Callable[..., Any]
) -> None:
    hours = hourly()
    changed = TEXT.replace("{estimator: ivw}", "{estimator: ems, services: [b]}")
    _, _, estimates = rollup(f"{hours}/*", text=changed, options=("--total",))
    assert {record["estimator"] for record in estimates} == {"ems", "ule"}


def test_the_same_file_twice_adds_nothing(
    hourly: Callable[..., Path], rollup: Callable[..., Any], tmp_path: Path
) -> None:
    hours = hourly()
    shutil.copytree(hours, tmp_path / "copy")
    _, once, _ = rollup(f"{hours}/*")
    ran, twice, _ = rollup(f"{hours}/*", f"{hours}/*", f"{tmp_path}/copy/*")
    assert by_group(once) == by_group(twice)
    assert "144 more were repeated" in ran.out


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_panes_the_last_stands(
    order: int, hourly: Callable[..., Path], rollup: Callable[..., Any], tmp_path: Path
) -> None:
    from dataclasses import replace

    from ldpbeam.schemas.outputs.snapshots import write_snapshots

    hours = hourly()
    (path,) = sorted(hours.glob("*.avro"))[:1]
    first = [snapshot for _, snapshot in read_all([str(path)])]
    late = [
        replace(s, pane_index=1, pane_timing="late", statistic=merge([s.statistic, s.statistic]))
        for s in first
    ]
    with (tmp_path / "late.avro").open("wb") as stream:
        write_snapshots(
            stream, late, study().attribute("x"), study="day", study_fingerprint="", run=first[0].run
        )
    _, found, _ = rollup(*[path, tmp_path / "late.avro"][::order])
    assert by_group(found) == by_group(late)


def test_a_roll_up_beside_one_of_its_parts_is_refused(
    hourly: Callable[..., Path], rollup: Callable[..., Any], tmp_path: Path
) -> None:
    hours = hourly()
    rollup(f"{hours}/*", options=("--window", "1d"))
    ran, _, _ = rollup(f"{tmp_path}/rollup0/statistics/*", f"{hours}/*T05*", options=("--window", "1d"))
    assert ran.code == 2
    assert "would be counted twice" in ran.err
    rollup(f"{hours}/*T0*", options=("--window", "12h"))
    ran, _, _ = rollup(f"{tmp_path}/rollup0/statistics/*", f"{tmp_path}/rollup2/statistics/*")
    assert ran.code == 2
    assert "would be counted twice" in ran.err


def test_equal_statistics_of_two_runs_are_refused(
    hourly: Callable[..., Path], rollup: Callable[..., Any]
) -> None:
    one, other = hourly("one", 3), hourly("other", 3)
    ran, _, _ = rollup(f"{one}/*", f"{other}/*")
    assert ran.code == 2
    assert "so they count the same reports" in ran.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("epsilon: 1.0", "epsilon: 1.5"), "are not those of the study"),
        (("buckets: 16", "buckets: 32"), "are not those of the study"),
        (("  x:", "  y:"), "of attribute 'x', which the study does not have"),
    ],
)
def test_statistics_of_other_channels_are_refused(
    change: tuple[str, str], message: str, hourly: Callable[..., Path], rollup: Callable[..., Any]
) -> None:
    ran, _, _ = rollup(f"{hourly(people=200)}/*", text=TEXT.replace(*change))
    assert ran.code == 2
    assert message in ran.err


def test_windows_that_do_not_fit_or_slide_are_refused(
    hourly: Callable[..., Path], rollup: Callable[..., Any], tmp_path: Path
) -> None:
    hours = hourly(people=200)
    ran, _, _ = rollup(f"{hours}/*", options=("--window", "90m"))
    assert (ran.code, "does not lie in one of 90m" in ran.err) == (2, True)
    sliding = TEXT.replace("{size: 1h}", "{size: 2h, period: 1h}")
    ran, _, _ = rollup(f"{hourly('slides', people=200, text=sliding)}/*", text=sliding)
    assert (ran.code, "windows that do not slide" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--window", "1 day"), "write a whole number and a unit"), (("--windw", "1d"), "--windw")],
)
def test_mistakes_are_one_message(
    options: tuple[object, ...], message: str, rollup: Callable[..., Any], tmp_path: Path
) -> None:
    ran, _, _ = rollup(f"{tmp_path}/nothing*", options=options)
    assert (ran.code, message in ran.err) == (2, True)
    ran, _, _ = rollup(f"{tmp_path}/nothing*")
    assert (ran.code, "there is no such file" in ran.err) == (2, True)


def test_every_other_kind_of_file_is_refused_in_one_sentence(
    hourly: Callable[..., Path], rollup: Callable[..., Any], tmp_path: Path
) -> None:
    output = hourly(people=50).parent
    pq.write_table(pa.table({"user_id": ["a"], "payload": [0.5]}), tmp_path / "reports.parquet")
    (tmp_path / "empty").touch()
    (tmp_path / "wrong.avro").write_bytes(b"Obj\x01 is this?")
    (tmp_path / "reports.jsonl").write_text('{"user_id": "a", "payload": 0.5}\n')
    (tmp_path / "reports.jsonl.gz").write_bytes(gzip.compress(b"{}"))
    with (tmp_path / "letters.avro").open("wb") as stream:
        fastavro.writer(stream, schema("dead_letter"), [])
    with (tmp_path / "foreign.avro").open("wb") as stream:
        fastavro.writer(stream, {"type": "record", "name": "Trip", "fields": []}, [])
    for path, message in {
        next((output.parent / "reports").glob("*.avro")): "a file of reports, not of statistics",
        tmp_path / "letters.avro": "a file of dead letters, not of statistics",
        tmp_path / "foreign.avro": "an Avro file of 'Trip' records, not a file of statistics",
        tmp_path / "wrong.avro": "an Avro file with a damaged header, not a file of statistics",
        tmp_path / "reports.parquet": "a Parquet file, not a file of statistics",
        tmp_path / "reports.jsonl": "a JSON file, not a file of statistics",
        tmp_path / "reports.jsonl.gz": "a file compressed with gzip, not a file of statistics",
        tmp_path / "study.yaml": "a file in an unknown format, not a file of statistics",
        tmp_path / "empty": "an empty file, not a file of statistics",
        output / "statistics": "a folder, not a file; to name the files in it, add /*.avro",
    }.items():
        ran, _, _ = rollup(path)
        # What is wrong with a header follows it in brackets.
        said = re.sub(r"header \(.*\), not", "header, not", ran.err)
        assert (ran.code, said) == (2, f"ldpbeam: {path}: {message}\n")


def test_names_without_a_folder_and_with_brackets_are_found(
    hourly: Callable[..., Path], rollup: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hourly(people=50))
    first = min(Path().glob("*.avro"))
    first.rename("[1].avro")
    one, _, _ = rollup("[1].avro")
    others, _, _ = rollup("day-*.avro")
    assert (one.code, others.code) == (0, 0), (one.err, others.err)


def test_the_incomplete_windows_are_named() -> None:
    whole = Snapshot("x", (START, START + DAY // 2), None, 0, empty(study().attribute("x")))
    lacking = replace(whole, window=(START + DAY // 2, START + DAY), complete=False, run="r")
    given = [("one", whole), ("other", lacking)]
    assert rolled_up(study(), given, window=DAY // 2).incomplete == [
        "x 2026-11-20T12:00:00Z to 2026-11-21T00:00:00Z"
    ]
    assert rolled_up(study(), given[:1]).incomplete == []
    assert rolled_up(study(), given).incomplete == ["x 2026-11-20T00:00:00Z to 2026-11-21T00:00:00Z"]
