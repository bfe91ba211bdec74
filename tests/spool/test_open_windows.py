"""Which windows fire when, which give way, and what leaves the disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.spooled import Stream, in_polls

import ldpbeam as ldp
from ldpbeam.pipelines.spool import run as run_module
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import FATES, IN

MINUTE = 60_000
BEGAN = 30_000_000 * MINUTE


def study_of(windows: str) -> Study:
    return parse_study(
        f"study: s\nwindows: {windows}\npublish: {{at_least: 1000000}}\nattributes:\n"
        "  x: {domain: {categories: [p, q, r]}, services: {a: {mechanism: grr, epsilon: 1}}}\n"
    )


def reports_at(study: Study, minutes: list[float], users: list[str] | None = None) -> pa.Table:
    """A report at each of some times."""
    times = BEGAN + (np.array(minutes) * MINUTE).astype(np.int64)
    return ldp.Client(study, "x", "a").reports(["p"] * len(times), users, event_times=times)


def stream_of(folder: Path, windows: str, minutes: list[float], rows: int, disorder: int = MINUTE) -> Stream:
    study = study_of(windows)
    return Stream(study, in_polls(study, reports_at(study, minutes), rows), folder, disorder)


def lines_of(stream: Stream) -> list[tuple[int, str, int]]:
    """(the minute of the window, the timing of its last pane, its reports)."""
    return sorted(
        ((one.window or (0, 0))[0] // MINUTE - 30_000_000, one.pane_timing, one.statistic.reports)
        for one in stream.snapshots().values()
    )


def test_a_late_report_within_the_lateness_makes_a_pane_and_one_beyond_it_is_late(tmp_path: Path) -> None:
    # The watermark is at most a minute and ten reports behind. Minute 0 ends at 1, and settles at 3.
    minutes = [0.5, *np.linspace(0.6, 2.8, 40), 0.7, *np.linspace(2.8, 6.0, 60), 0.8, 6.1]
    stream = stream_of(tmp_path, "{size: 1m, allowed_lateness: 2m}", minutes, 1)
    run = stream.through()
    assert run.counts["late"] == 1
    first = lines_of(stream)[0]
    assert first[:2] == (0, "late")
    assert sum(run.counts[fate] for fate in FATES) == run.counts[IN]


def test_reports_of_an_open_window_are_counted_as_waiting(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, "{size: 10m}", [0.1, 0.2, 0.3, 0.4], 2)
    run = stream.begin()
    stream.turns(run)
    run.commit()
    assert (run.manifest.in_open_windows, run.counts[IN]) == (4, 4)
    assert not any(run.counts[fate] for fate in FATES)


def test_a_drained_stream_says_that_its_open_windows_are_early_and_incomplete(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, "{size: 1m}", [*np.linspace(0, 3.5, 30)], 1)
    run = stream.begin()
    stream.turns(run)
    run.end_windows(drained=True)
    run.commit()
    complete = {
        (one.window or (0, 0))[0] // MINUTE - 30_000_000: (one.pane_timing, one.complete)
        for one in stream.snapshots().values()
    }
    assert complete[0] == ("on_time", True)
    assert complete[3] == ("early", False)


def test_windows_that_have_not_begun_are_counted_and_not_published(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, "{size: 1m}", [0.1, 0.2, 30.0], 3)
    run = stream.begin()
    run.clock.date = run.feed.clock = BEGAN + MINUTE  # type: ignore[attr-defined]
    stream.turns(run)
    stream.end(run)
    assert run.counts["not_begun"] == 1
    assert [line[0] for line in lines_of(stream)] == [0]


def test_after_a_restart_a_clock_that_is_set_back_takes_no_window_that_was_read_for_a_later_one(
    tmp_path: Path,
) -> None:
    stream = stream_of(tmp_path, "{size: 1m}", [*[0.2] * 60, *[1.2] * 200, 2.9, 3.1], 10)
    run = stream.begin()
    stream.turns(run)
    run.commit()
    assert run.manifest.watermark is not None
    assert run.manifest.watermark + stream.disorder < BEGAN + 2 * MINUTE
    run = stream.begin()
    run.clock.date = BEGAN - 60 * MINUTE  # type: ignore[attr-defined]
    # Nothing has said so since: its messages are committed, and its watermark is minutes behind.
    stream.end(run)
    assert run.counts["not_begun"] == 0
    assert [line[0] for line in lines_of(stream)] == [0, 1, 2, 3]


def test_the_emptiest_windows_give_way_and_those_around_the_watermark_stay(tmp_path: Path) -> None:
    # Three hundred invented minutes, and honest ones with as few reports around the watermark.
    far = [float(minute) for minute in range(-9_000, -8_700)]
    honest = [0.1, 0.2, 1.1, 1.2, 2.1]
    stream = stream_of(tmp_path, "{size: 1m}", [*honest, *far, 2.2], 1)
    run = stream.begin()
    run.windows.most = 60
    stream.turns(run)
    stream.end(run)
    kept = [line for line in lines_of(stream) if line[0] >= 0]
    assert kept == [(0, "on_time", 2), (1, "on_time", 2), (2, "on_time", 2)]
    counts = run.counts
    assert sum(counts[fate] for fate in FATES) == counts[IN]


def test_of_windows_that_have_ended_the_large_one_fires_before_those_that_somebody_invented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "FIRE_MILLISECONDS", 2**62)
    invented = [minute + part for minute in range(-300, 0) for part in (0.1, 0.2)]
    stream = stream_of(tmp_path, "{size: 1m}", [*invented, *np.linspace(0, 0.9, 100)], 100)
    run = stream.begin()
    stream.turns(run)
    ended = BEGAN + MINUTE
    assert run.windows.due(ended, ended, (), 1) == [(("x", (BEGAN, ended)), "on_time")]


def test_ids_leave_the_disk_when_their_windows_have_settled(tmp_path: Path) -> None:
    study = study_of("{size: 1m}")
    minutes = [*np.linspace(0, 1, 50, endpoint=False), *np.linspace(1, 9, 2_000)]
    users = [f"early-{n}" for n in range(50)] + [f"later-{n}" for n in range(2_000)]
    reports = reports_at(study, minutes, users)
    stream = Stream(study, in_polls(study, reports, 10), tmp_path, MINUTE)
    run = stream.begin()
    spool = stream.folder / "spool"

    def rows_on_disk() -> int:
        return sum(segment.rows for segment in run._segments.values())

    most = 0
    while run.feed.next < len(stream.batches):  # type: ignore[attr-defined]
        run.turn()
        run.clock.milliseconds += 1_000  # type: ignore[attr-defined]
        most = max(most, rows_on_disk())
    # A window and the disorder are open, and half as much again may lie beside them.
    assert most <= 2 * (2 + run_module.COMMIT_MILLISECONDS / 1_000) * 2_000 / 8
    assert len(list(spool.glob("*.arrow"))) <= run_module.SEGMENTS
    stream.end(run)
    assert not list(spool.glob("*.arrow"))


def test_a_run_that_has_ended_keeps_no_report_and_the_next_one_lacks_them(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, "{size: 1m}", [*np.linspace(0, 3.5, 30)], 1)
    run = stream.begin()
    stream.turns(run)
    run.end_windows(drained=True)
    run.commit()
    run.settle()
    run.commit(ended=run.clock.now())
    assert run.manifest.windows["windows"] == run.manifest.windows["waiting"] == run.manifest.segments == []
    assert sorted(path.name for path in (stream.folder / "spool").iterdir()) == ["manifest.json"]
    # Minute 3 was open, so whoever reads the rest of it does not have all.
    assert run.manifest.incomplete_before == BEGAN + 4 * MINUTE


def test_a_message_that_is_lost_is_noticed_where_earlier_windows_already_lack_some(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, "{size: 1m}", [0.5], 1)
    run = stream.begin()
    run.lose(BEGAN + 9 * MINUTE)
    run.lose(BEGAN)
    run.commit()
    assert run.lost and run.manifest.incomplete_before == BEGAN + 9 * MINUTE
