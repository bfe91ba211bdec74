"""Scheduled runs: whole windows, a folder that many runs share, and the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.pipelines.estimates import stages as estimate
from ldpbeam.pipelines.estimates.rollup import read_all
from ldpbeam.pipelines.runs import scheduled
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.times import milliseconds, rfc3339

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z

FIXED = "windows: {size: 1h}\n"
SLIDING = "windows: {size: 2h, period: 1h}\n"
UNEVEN = "windows: {size: 90m, period: 60m}\n"
SIZES = {FIXED: (60, 60), SLIDING: (120, 60), UNEVEN: (90, 60)}
ALONE = "duplicates: keep\n"
GROUPS = "groups: {field: region, at_most: 2}\n"
VECTOR = """\
study: pulses
attributes:
  pulse:
    domain: {coordinates: [rest, run], values: [0, 1]}
    services: {watch: {mechanism: stochastic_rounding, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
"""


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """Six hours of reports, no two at a time: users come again, ids are in two windows, some are bad."""
    rng = random.Random(5)
    made = []
    for place in range(1500):
        record = {
            "user_id": f"u{rng.randrange(200)}",
            "attribute": "x",
            "service": rng.choice("ab"),
            "event_time": START + rng.randrange(360) * 60_000 + place,
            "payload": 99.0 if place % 100 == 0 else rng.uniform(-2, 2),
            "region": rng.choice(["n", "n", "n", "s", "s", "e"]),
        }
        made.append(record | ({"report_id": f"r{rng.randrange(200)}"} if place % 4 == 0 else {}))
    return made


def write_three(folder: Path, records: list[dict[str, Any]], write_lines: Callable[..., Path]) -> Path:
    for place in range(3):
        write_lines(folder / f"{place}.jsonl", records[place::3])
    return folder / "*.jsonl"


@pytest.fixture(scope="module")
def reports(
    records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory, write_lines: Callable[..., Path]
) -> Path:
    """They, in three files."""
    return write_three(tmp_path_factory.mktemp("reports"), records, write_lines)


def span(start: float, stop: float) -> tuple[str, ...]:
    """The options for some hours after START."""
    ends = [rfc3339(START + round(hour * HOUR)) for hour in (start, stop)]
    return "--from", ends[0], "--to", ends[1], "--max-bad-fraction", "0.1"


def name_of(start: int, stop: int) -> str:
    """How some hours after START stand in names."""
    return f"20261120T{10 + start}0000Z-20261120T{10 + stop}0000Z"


def hashes(folder: Path) -> dict[str, str]:
    """The hash of every file, hidden ones too."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


#: The folders and endings of the files of a window.
A_WINDOW = (
    ("statistics", "avro"),
    ("estimates", "jsonl"),
    ("tables/estimates", "parquet"),
    ("tables/distribution", "parquet"),
)


def of_windows(found: Mapping[str, str]) -> dict[str, str]:
    return {
        name: data
        for name, data in found.items()
        if name.startswith(("statistics/", "estimates/", "tables/"))
    }


def closes(found: dict[str, Any]) -> bool:
    parts = ("used", "duplicates", "late", "out_of_range", "dead_letters")
    return bool(found["in"] == sum(found[part] for part in parts))


def test_files_are_named_by_study_attribute_and_window(
    reports: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path, small_text + FIXED + GROUPS, [reports], *span(1, 3))
    assert found.code == 0, found.err
    windows = [name_of(1, 2), name_of(2, 3)]
    own = f"runs/{name_of(1, 3)}"
    letters = [name for name in hashes(found.path) if name.startswith(f"{own}/dead_letters/part-")]
    assert letters
    assert sorted(hashes(found.path)) == sorted(
        [
            "run.json",
            "study.json",
            *(f"{own}/{name}.json" for name in ("accounting", "fit", "ledger", "run")),
            *letters,
            *(f"statistics/small-x-{window}.avro" for window in windows),
            *(f"estimates/small-x-{window}.jsonl" for window in windows),
            *(f"tables/estimates/small-x-{window}.parquet" for window in windows),
            *(f"tables/distribution/small-x-{window}.parquet" for window in windows),
        ]
    )
    for hour, window in zip((11, 12), windows, strict=True):
        lines = (found.path / f"estimates/small-x-{window}.jsonl").read_text().splitlines()
        estimates = [json.loads(line) for line in lines]
        assert [(e["group"], e["other_groups"], e["name"]) for e in estimates] == [
            (group, others, name)
            for group, others in (("n", 0), ("s", 0), (None, 1))
            for name in ("mean", "both")
        ]
        assert {e["window_start"] for e in estimates} == {f"2026-11-20T{hour}:00:00Z"}
    assert sorted(path.name for path in found.path.iterdir()) == [
        "estimates",
        "run.json",
        "runs",
        "statistics",
        "study.json",
        "tables",
    ]
    assert f"windows from 2026-11-20T11:00:00Z to 2026-11-20T13:00:00Z are in {found.path}" in found.out
    assert f"the accounting is in {found.path}/{own}" in found.out
    assert "small-x" not in found.out
    assert closes(found.accounting)
    assert "15 dead letters" in found.out


def test_each_coordinate_of_a_vector_has_files_of_its_own(
    tmp_path: Path, run_estimate: Any, simulate: Any, write_reports: Any
) -> None:
    sent = simulate(
        parse_study(VECTOR + FIXED), "pulse", np.full((60, 2), 0.5), seed=1, start=START, spread=2 * HOUR
    )
    found = run_estimate(tmp_path, VECTOR + FIXED, write_reports(tmp_path / "in", sent), *span(0, 2))
    assert found.code == 0, found.err
    assert [path.name for path in sorted((found.path / "estimates").iterdir())] == [
        f"pulses-pulse.{own}-{window}.jsonl"
        for own in ("rest", "run")
        for window in (name_of(0, 1), name_of(1, 2))
    ]
    assert len(list((found.path / "statistics").iterdir())) == 4


ENDS = (0.75, 4.25)
CASES = {
    "fixed, joined": (FIXED + GROUPS, ENDS),
    "fixed, alone": (FIXED + ALONE, ENDS),
    "sliding, joined": (SLIDING + GROUPS, ENDS),
    "sliding, joined, on the grid": (SLIDING + GROUPS, (1.0, 4.0)),
    "sliding, joined, to": (SLIDING + GROUPS, (None, 4.25)),
    "sliding, joined, from": (SLIDING + GROUPS, (0.75, None)),
    "sliding, all count": (SLIDING + GROUPS + "repeats: all\n", ENDS),
    "sliding, alone": (SLIDING + ALONE, ENDS),
    "uneven, joined": (UNEVEN + GROUPS, ENDS),
}


@pytest.fixture(scope="module")
def over_all(
    reports: Path, small_text: str, tmp_path_factory: pytest.TempPathFactory, run_estimate: Any
) -> Callable[[str], Any]:
    """The run without ``--from`` and ``--to`` of a study, each once."""
    done: dict[str, Any] = {}

    def run(more: str) -> Any:
        if more not in done:
            folder = tmp_path_factory.mktemp("all")
            done[more] = run_estimate(
                folder, text_of(small_text, more), [reports], "--max-bad-fraction", "0.1"
            )
            assert done[more].code == 0, done[more].err
        return done[more]

    return run


def text_of(small_text: str, more: str) -> str:
    joined = "duplicates" not in more and "repeats" not in more
    return (small_text if joined else small_text.replace("{estimator: ule}", "{estimator: ems}")) + more


def told(records: list[dict[str, Any]]) -> list[str]:
    """Estimates as text, so that no bit of a number is lost."""
    return sorted(map(json.dumps, records))


@pytest.mark.parametrize(("more", "ends"), CASES.values(), ids=CASES)
def test_windows_inside_are_estimated_as_over_all_reports_and_no_others(
    more: str,
    ends: tuple[float | None, float | None],
    records: list[dict[str, Any]],
    reports: Path,
    over_all: Callable[[str], Any],
    small_text: str,
    tmp_path: Path,
    run_estimate: Any,
) -> None:
    every = over_all(more)
    start, stop = (None if end is None else START + round(end * HOUR) for end in ends)
    options = [
        part
        for option, end in (("--from", start), ("--to", stop))
        if end is not None
        for part in (option, end)
    ]
    found = run_estimate(
        tmp_path, text_of(small_text, more), [reports], *options, "--max-bad-fraction", "0.1"
    )
    assert found.code == 0, found.err

    def inside(window: tuple[int, int]) -> bool:
        return (start is None or start <= window[0]) and (stop is None or window[1] <= stop)

    expected = [
        e for e in every.estimates if inside((milliseconds(e["window_start"]), milliseconds(e["window_end"])))
    ]
    assert len(expected) >= 4
    assert told(found.estimates) == told(expected)
    assert found.snapshots == [s for s in every.snapshots if inside(s.window)]
    fates = what_becomes(records, more, inside)
    assert {fate: found.accounting.get(fate, 0) for fate in fates} == dict(fates)
    assert closes(found.accounting)
    assert found.accounting["in"] == len(records)


def what_becomes(
    records: list[dict[str, Any]], more: str, inside: Callable[[tuple[int, int]], bool]
) -> Counter[str]:
    """The accounting, one report and window after the other."""
    size, period = (60_000 * part for part in next(SIZES[own] for own in SIZES if more.startswith(own)))
    fates = Counter(used=0, duplicates=0, out_of_range=0, dead_letters=0)
    if period < size:
        fates["used_in_windows"] = 0
    good = [record for record in records if record["payload"] != 99.0]
    fates["dead_letters"] = len(records) - len(good)
    good.sort(key=lambda record: record["event_time"])
    ids: set[tuple[str, str, str | None]] = set()
    standing = []
    for record in good:
        own = record["user_id"], record["service"], record.get("report_id")
        windows = [window for window in windows_of(record["event_time"], size, period) if inside(window)]
        if own in ids and ALONE not in more:
            fates["duplicates"] += 1
        elif not windows:
            fates["out_of_range"] += 1
        else:
            standing.append((record, windows))
        if own[-1]:
            ids.add(own)
    seen: set[tuple[Any, ...]] = set()
    for record, windows in standing:
        keys = [(record["user_id"], record["service"], window) for window in windows]
        fresh = [key for key in keys if key not in seen or ALONE in more or "repeats" in more]
        seen.update(keys)
        fates["used" if fresh else "duplicates"] += 1
        if "used_in_windows" in fates:
            fates["used_in_windows"] += len(fresh)
    return fates


def windows_of(time: int, size: int, period: int) -> Iterator[tuple[int, int]]:
    first = (time - size) // period * period + period
    for start in range(first, time + 1, period):
        yield start, start + size


def test_a_report_that_repeats_one_outside_does_not_stand(
    small_text: str, tmp_path: Path, run_estimate: Any, write_lines: Callable[..., Path]
) -> None:
    sent = {"attribute": "x", "service": "a", "payload": 0.5}
    inputs = write_lines(
        tmp_path / "in.jsonl",
        [
            sent | {"user_id": "u1", "event_time": START - 1, "report_id": "r"},
            sent | {"user_id": "u1", "event_time": START, "report_id": "r"},
            sent | {"user_id": "u3", "event_time": START},
            # This one comes after the one inside, which stands.
            sent | {"user_id": "u4", "event_time": START, "report_id": "s"},
            sent | {"user_id": "u4", "event_time": START + HOUR, "report_id": "s"},
        ],
    )
    found = run_estimate(tmp_path, small_text + FIXED, [inputs], *span(0, 1))
    assert [snapshot.statistic.reports for snapshot in found.snapshots] == [2]
    fates = {key: found.accounting[key] for key in ("in", "used", "duplicates", "out_of_range")}
    assert fates == {"in": 5, "used": 2, "duplicates": 2, "out_of_range": 1}


@pytest.fixture
def study(tmp_path: Path, small_text: str) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(small_text + FIXED + GROUPS)
    return path


@pytest.fixture
def run(study: Path, reports: Path, tmp_path: Path, command: Callable[..., Any]) -> Callable[..., Any]:
    """Runs some hours after START into a folder."""

    def run(
        start: float, stop: float, *options: object, into: str = "out", inputs: object = reports
    ) -> dict[str, str]:
        given = ("--study", study, "--input", inputs, "--output", tmp_path / into)
        ran = command("estimate", *given, *span(start, stop), *options)
        assert ran.code == 0, ran.err
        return hashes(tmp_path / into)

    return run


@pytest.mark.parametrize("more", [FIXED + GROUPS, SLIDING, FIXED + ALONE])
def test_running_twice_leaves_the_same_bytes_in_every_file(
    more: str,
    records: list[dict[str, Any]],
    run: Callable[..., Any],
    study: Path,
    small_text: str,
    tmp_path: Path,
    write_lines: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study.write_text(text_of(small_text, more))
    write_three(tmp_path / "in", records, write_lines)
    once = run(1, 4, "--keep-bad-records", inputs=tmp_path / "in" / "*.jsonl")
    assert any("dead_letters" in name for name in once)
    monkeypatch.chdir(tmp_path)
    other = ("--partitions", 3, "--estimate-on", "worker", "--overwrite", "--keep-bad-records")
    assert run(1, 4, *other, inputs="in/*.jsonl") == once
    # Ends that hold the same windows are the same run.
    assert run(0.5, 4.5, "--keep-bad-records", inputs="in/*.jsonl") == once
    assert run(1, 4, "--keep-bad-records", into="elsewhere", inputs="in/*.jsonl") == once


def test_a_run_replaces_the_windows_of_its_span_and_touches_no_others(
    records: list[dict[str, Any]], run: Callable[..., Any], tmp_path: Path, write_lines: Callable[..., Path]
) -> None:
    inputs = write_three(tmp_path / "in", records, write_lines)
    first = run(0, 3, inputs=inputs)
    places = {name: (tmp_path / "out" / name).stat().st_ino for name in first}
    # What was late is there now; the third hour's reports are not, nor is what could not be used.
    late = [record for record in records if not 2 <= (record["event_time"] - START) / HOUR < 3]
    late = [{**r, "payload": 0.5} if r["payload"] == 99.0 else r for r in late]
    write_three(tmp_path / "in", [*late, *late[:50]], write_lines)
    second = run(1, 5, inputs=inputs)
    changed, gone = name_of(1, 2), name_of(2, 3)
    for name, data in of_windows(first).items():
        if changed in name:
            assert second[name] != data
        elif gone in name:
            assert name not in second
        else:
            assert second[name] == data
            assert (tmp_path / "out" / name).stat().st_ino == places[name], "it was not written again"
    assert {name for name in of_windows(second) if name not in first} == {
        f"{folder}/small-x-{name_of(hour, hour + 1)}.{ending}"
        for hour in (3, 4)
        for folder, ending in A_WINDOW
    }
    own = {name for name in first if name.startswith(f"runs/{name_of(0, 3)}/")}
    assert all(second[name] == first[name] for name in own)
    # The first span again: its dead letters are gone, too.
    third = run(0, 3, inputs=inputs)
    assert {name for name in own if "dead_letters" in name} == own - set(third)


@pytest.mark.slow
def test_hour_by_hour_and_all_at_once_are_the_same_bytes(run: Callable[..., Any]) -> None:
    at_once = of_windows(run(0, 3, into="once"))
    assert len(at_once) == 3 * len(A_WINDOW)
    for hour in (2, 0, 1):
        found = run(hour, hour + 1, into="hourly")
    assert of_windows(found) == at_once
    # And a span over windows that are there already.
    assert of_windows(run(1, 3, into="hourly")) == at_once


def test_a_window_that_is_cut_is_none_and_the_sentence_says_which_are_whole(
    run: Callable[..., Any], study: Path, reports: Path, tmp_path: Path, command: Callable[..., Any]
) -> None:
    given = ("estimate", "--study", study, "--input", reports, "--output", tmp_path / "out")
    found = command(*given, *span(0.5, 1.25))
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        "ldpbeam: --from 2026-11-20T10:30:00Z --to 2026-11-20T11:15:00Z: no window of 1h lies inside; "
        "one starts every 1h, counted from 1970-01-01T00:00:00Z; the nearest span of whole windows is "
        "2026-11-20T10:00:00Z to 2026-11-20T12:00:00Z\n"
    )
    assert not (tmp_path / "out").exists()
    assert [name for name in run(0.5, 2.25) if name.startswith("statistics")] == [
        f"statistics/small-x-{name_of(1, 2)}.avro"
    ]


def test_a_folder_belongs_to_the_scheduled_runs_of_one_study(
    run: Callable[..., Any],
    study: Path,
    small_text: str,
    reports: Path,
    tmp_path: Path,
    command: Callable[..., Any],
) -> None:
    before = run(0, 2)
    given = ("estimate", "--study", study, "--input", reports, "--output", tmp_path / "out")
    own = study.read_text()
    refusals = [
        (
            own.replace("buckets: 8", "buckets: 16"),
            span(0, 2),
            "runs of study 'small' as it was before it was",
        ),
        (
            own.replace("study: small", "study: other"),
            span(0, 2),
            "it holds the scheduled runs of study 'small';",
        ),
        (own, span(0, 2)[:2], "and this run is not one of them: it has no windows, --from or --to;"),
        (small_text, span(0, 2), "and this run is not one of them"),
    ]
    for text, options, message in refusals:
        study.write_text(text)
        found = command(*given, *options)
        assert (found.code, found.out) == (2, "")
        assert message in found.err
        assert "or replace them with --overwrite" in found.err
        assert hashes(tmp_path / "out") == before
    study.write_text(refusals[1][0])
    replaced = run(0, 1, "--overwrite")
    assert len(of_windows(replaced)) == len(A_WINDOW)
    assert all("/other-x-" in name for name in of_windows(replaced))
    assert not any(name_of(0, 2) in name for name in replaced)
    study.write_text(small_text)
    assert command(*given, "--overwrite", "--max-bad-fraction", 1).code == 0
    assert not any(
        "other" in name or name.startswith(("runs/", "estimates/", "tables/"))
        for name in hashes(tmp_path / "out")
    )


def test_a_folder_of_a_run_that_was_not_scheduled_is_refused(
    run: Callable[..., Any], study: Path, reports: Path, tmp_path: Path, command: Callable[..., Any]
) -> None:
    given = ("estimate", "--study", study, "--input", reports, "--output", tmp_path / "out")
    assert command(*given, "--max-bad-fraction", 1).code == 0
    before = hashes(tmp_path / "out")
    found = command(*given, *span(0, 2))
    assert found.code == 2
    assert "the outputs of another run (of study 'small'), which was not a scheduled one; name" in found.err
    assert hashes(tmp_path / "out") == before
    replaced = run(0, 2, "--overwrite")
    assert "estimates.jsonl" not in replaced
    assert len(of_windows(replaced)) == 2 * len(A_WINDOW)


def test_overwrite_replaces_other_studies_and_no_windows_of_this_one(run: Callable[..., Any]) -> None:
    before = of_windows(run(0, 3))
    after = of_windows(run(1, 2, "--overwrite"))
    assert after == before


def test_a_run_that_fails_leaves_the_folder_as_it_was(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(0, 3)

    def fail(*_: object) -> None:
        raise RuntimeError("the engine stopped")

    for name in ("run_pipeline", "estimate_all"):
        with monkeypatch.context() as patch:
            patch.setattr(estimate, name, fail)
            with pytest.raises(RuntimeError, match="the engine stopped"):
                run(0, 3)
        assert hashes(tmp_path / "out") == before
        assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.slow
@pytest.mark.parametrize("moved", [0, 3, 5])
def test_a_run_that_is_killed_while_it_moves_leaves_whole_files_and_the_next_one_moves_the_rest(
    moved: int,
    records: list[dict[str, Any]],
    run: Callable[..., Any],
    tmp_path: Path,
    write_lines: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = write_three(tmp_path / "in", records[:700], write_lines)
    run(0, 4, inputs=inputs)
    before = run(1, 3, inputs=inputs)
    write_three(tmp_path / "in", records, write_lines)
    after = run(1, 3, into="whole", inputs=inputs)
    left = iter(range(moved))
    move = scheduled._move

    class Killed(BaseException): ...

    def until_then(*names: Any) -> None:
        if next(left, None) is None:
            raise Killed
        move(*names)

    with monkeypatch.context() as patch:
        patch.setattr(scheduled, "_move", until_then)
        with pytest.raises(Killed):
            run(1, 3, inputs=inputs)
    broken = hashes(tmp_path / "out")
    assert set(broken) <= {*before, *after}, "nothing half done is left"
    assert all(data in (before.get(name), after.get(name)) for name, data in broken.items())
    assert sum(data != before.get(name) for name, data in broken.items()) == moved
    assert f"runs/{name_of(1, 3)}/run.json" not in broken
    repaired = run(1, 3, inputs=inputs)
    assert repaired == before | after


@pytest.mark.slow
@pytest.mark.parametrize("other", [(2, 5), (0, 3)])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_runs_at_the_same_time_do_not_disturb_each_other(
    moment: str, other: tuple[int, int], run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(0, 3, into="alone") | run(*other, into="alone")
    real = estimate.run_pipeline
    calls = iter([True])

    def beside(*arguments: Any) -> None:
        first = next(calls, False)
        if first and moment == "before":
            run(*other)
        real(*arguments)
        if first and moment == "after":
            run(*other)

    monkeypatch.setattr(estimate, "run_pipeline", beside)
    assert run(0, 3) == expected


def test_a_folder_in_which_another_run_is_about_to_leave_its_mark_is_free(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".run.json.0123456789abcdef").write_bytes(b"{")
    assert len(of_windows(run(0, 1))) == len(A_WINDOW)


def test_the_first_two_runs_of_a_folder_agree_on_its_name_or_one_is_refused(
    run: Callable[..., Any],
    records: list[dict[str, Any]],
    study: Path,
    reports: Path,
    tmp_path: Path,
    command: Callable[..., Any],
    write_lines: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = write_three(tmp_path / "in", records, write_lines)
    real = estimate.assemble
    calls = iter([True])

    def beside(*arguments: Any) -> Any:
        if next(calls, False):
            run(0, 1)
        return real(*arguments)

    monkeypatch.setattr(estimate, "assemble", beside)
    given = ("estimate", "--study", study, "--input", inputs, "--output", tmp_path / "out", *span(1, 2))
    found = command(*given)
    assert (found.code, "has just begun there for the first time" in found.err) == (2, True)
    assert command(*given).code == 0
    assert len({snapshot.run for _, snapshot in read_all([f"{tmp_path}/out/statistics/*"])}) == 1


@pytest.mark.slow
def test_processes_that_start_together_do_not_disturb_each_other(
    run: Callable[..., Any], study: Path, reports: Path, tmp_path: Path
) -> None:
    given = ["--study", str(study), "--input", str(reports), "--output", str(tmp_path / "together")]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "ldpbeam.pipelines.main", "estimate", *given, *span(hour, hour + 2)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for hour in (0, 2, 4)
    ]  # fmt: skip
    said = [process.communicate()[0].decode() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], said
    for hour in (0, 2, 4):
        after = run(hour, hour + 2, into="after")
    assert hashes(tmp_path / "together") == after


@pytest.mark.slow
def test_days_are_rolled_up_from_scheduled_hours(
    run: Callable[..., Any],
    records: list[dict[str, Any]],
    study: Path,
    tmp_path: Path,
    command: Callable[..., Any],
    write_lines: Callable[..., Path],
) -> None:
    # From 22:00 on, two hours of each day.
    moved = [
        record | {"event_time": record["event_time"] % (4 * HOUR) + START // DAY * DAY + 22 * HOUR}
        for record in records
    ]
    inputs = write_three(tmp_path / "in", moved, write_lines)
    for hour in range(12, 16):
        # An hour's input may be named by itself.
        run(hour, hour + 1, inputs=inputs if hour % 2 else tmp_path / "in" / "[012].jsonl")
    given = ("estimate", "--study", study, "--input", inputs, "--output", tmp_path / "all")
    assert command(*given, "--max-bad-fraction", 1).code == 0

    def days(statistics: str, output: str) -> list[dict[str, Any]]:
        options = ("--window", "1d", "--output", tmp_path / output)
        ran = command("rollup", "--study", study, "--statistics", f"{tmp_path}/{statistics}", *options)
        assert ran.code == 0, ran.err
        lines = (tmp_path / output / "estimates.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k != "run"} for line in lines]

    found = days("out/statistics/*.avro", "days")
    assert {record["window_start"][:10] for record in found} == {"2026-11-20", "2026-11-21"}
    assert told(found) == told(days("all/statistics/*.avro", "days of all"))
    # A day by the names of its hours.
    one = days("out/statistics/small-x-20261120T*.avro", "day")
    assert one == [record for record in found if record["window_start"].startswith("2026-11-20")]


def test_windows_that_slide_are_not_added_up_though_each_is_of_another_run(
    run: Callable[..., Any], study: Path, small_text: str, tmp_path: Path, command: Callable[..., Any]
) -> None:
    study.write_text(small_text + SLIDING)
    run(0, 2)
    run(1, 3)
    given = ("--statistics", tmp_path / "out" / "statistics" / "*", "--output", tmp_path / "day")
    found = command("rollup", "--study", study, *given)
    assert (found.code, "roll up windows that do not slide" in found.err) == (2, True)


@pytest.mark.slow
def test_scheduled_runs_of_two_regions_are_added_up(
    run: Callable[..., Any],
    records: list[dict[str, Any]],
    study: Path,
    tmp_path: Path,
    command: Callable[..., Any],
    write_lines: Callable[..., Path],
) -> None:
    total = 0
    for place, region in enumerate(("north", "south")):
        run(0, 2, into=region, inputs=write_three(tmp_path / f"of {region}", records[place::2], write_lines))
        found = read_all([f"{tmp_path}/{region}/statistics/*"])
        total += sum(snapshot.statistic.reports for _, snapshot in found)
    both = (f"{tmp_path}/north/statistics/*", f"{tmp_path}/south/statistics/*")
    ran = command(
        "rollup", "--study", study, "--statistics", *both, "--total", "--output", tmp_path / "total"
    )  # fmt: skip
    assert ran.code == 0, ran.err
    (snapshot,) = [snapshot for _, snapshot in read_all([f"{tmp_path}/total/statistics/*"])]
    assert snapshot.statistic.reports == total


def test_an_hour_without_reports_has_an_accounting_and_no_window(run: Callable[..., Any]) -> None:
    found = run(8, 9)
    own = f"runs/{name_of(8, 9)}"
    assert [name for name in found if not name.startswith(f"{own}/dead_letters/")] == [
        "run.json", f"{own}/accounting.json", f"{own}/fit.json", f"{own}/ledger.json", f"{own}/run.json",
        "study.json",
    ]  # fmt: skip


def test_too_many_bad_reports_are_exit_code_3_with_the_outputs_in_place(
    study: Path, reports: Path, tmp_path: Path, command: Callable[..., Any]
) -> None:
    given = ("estimate", "--study", study, "--input", reports, "--output", tmp_path / "out", *span(0, 2)[:4])
    found = command(*given, "--max-bad-fraction", 0.001)
    assert found.code == 3
    assert len(of_windows(hashes(tmp_path / "out"))) == 2 * len(A_WINDOW)
