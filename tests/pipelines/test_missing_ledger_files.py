"""Files of the ledger that are missing, though there are estimates of their times, are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.ledger_model import HOUR, START, STUDY, TEXT, Run, report
from test_period_ledger import KEY, keep, stream

from ldpbeam.pipelines.estimates.ledger_files import write_periods
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.names import estimates_name, span_name
from ldpbeam.windows import Bounds


def hours(first: int, stop: int) -> Bounds:
    return START + first * HOUR, START + stop * HOUR


def run_of(first: int, stop: int) -> Run:
    sent = [report(("x", "web"), user, hour, 1, "n") for user in range(5) for hour in range(first, stop)]
    return Run(sent, hours(first, stop))


def estimated(folder: Path, windows: range) -> None:
    (folder / "estimates").mkdir()
    for hour in windows:
        (folder / "estimates" / estimates_name(STUDY.name, "x", hours(hour, hour + 1))).touch()


def named(folder: Path) -> list[tuple[str, str]]:
    return [span for entry in write_periods(STUDY, [str(folder)]) for span in entry.without_file]


def texts(*spans: tuple[int, int]) -> list[tuple[str, str]]:
    found = [hours(*span) for span in spans]
    return [(rfc3339(start), rfc3339(end)) for start, end in found]


#: Hours 0 and 1 are of the first period of a day, and hours 2 to 8 of the second.
SPANS = [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6), (6, 9)]


@pytest.mark.parametrize(
    ("spans", "deleted", "wanted"),
    [
        (SPANS, [], []),
        (SPANS, [(3, 5)], [(3, 5)]),
        (SPANS, [(2, 3), (3, 5), (6, 9)], [(2, 5), (6, 9)]),
        (SPANS, [(0, 1)], [(0, 1)]),
        # A whole period was forgotten; also one whose last run goes on into the next.
        (SPANS, [(0, 1), (1, 2)], []),
        ([(0, 1), (1, 3), (3, 9)], [(0, 1)], []),
        ([(0, 1), (1, 3), (3, 9)], [(1, 3)], [(1, 2), (2, 3)]),
    ],
)
def test_scheduled_runs_without_their_file(
    tmp_path: Path,
    spans: list[tuple[int, int]],
    deleted: list[tuple[int, int]],
    wanted: list[tuple[int, int]],
) -> None:
    for span in spans:
        keep(tmp_path, run_of(*span))
    # What another run received of these windows late is not all of their reports.
    keep(tmp_path, Run([*run_of(8, 9).reports, *run_of(0, 8).reports[:20]], hours(9, 10)))
    estimated(tmp_path, range(9))
    for span in deleted:
        (tmp_path / "ledger" / f"received-{span_name(*hours(*span))}.arrow").unlink()
    assert named(tmp_path) == texts(*wanted)


def test_a_stream_without_some_of_its_files(tmp_path: Path) -> None:
    for first, stop in ((0, 2), (2, 4), (4, 9)):
        stream(tmp_path, run_of(first, stop), f"run-{first}")
    estimated(tmp_path, range(9))
    assert named(tmp_path) == []
    for path in (tmp_path / "runs" / "run-2" / "ledger").iterdir():
        path.unlink()
    assert named(tmp_path) == texts((2, 4))
    for path in (tmp_path / "runs" / "run-0" / "ledger").iterdir():
        path.unlink()
    assert named(tmp_path) == texts((2, 4))


def test_the_command_a_run_and_the_page_say_so(
    tmp_path: Path, run_estimate: Any, command: Any, write_lines: Any
) -> None:
    lines = write_lines(tmp_path / "reports.jsonl", run_of(2, 5).reports)
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "key").chmod(0o600)

    def run(hour: int) -> Any:
        ends = map(rfc3339, hours(hour, hour + 1))
        span = ("--from", next(ends), "--to", next(ends))
        return run_estimate(tmp_path / "out", TEXT, [lines], *span, "--user-id-key-file", tmp_path / "key")

    ran = [run(hour) for hour in (2, 3)]
    (ran[0].path / "ledger" / f"received-{span_name(*hours(2, 3))}.arrow").unlink()
    start, end = map(rfc3339, hours(2, 3))
    sentence = f"so users spent more than it says: {start} to {end}"
    found = run(4)
    assert (found.code, sentence in found.out) == (0, True)
    added = command("ledger", found.path)
    assert (added.code, sentence in added.out) == (3, True)
    accepted = command("ledger", found.path, "--accept-missing")
    assert (accepted.code, sentence in accepted.out) == (0, True)
    assert sentence in command("show", found.path).out
    assert command("report", found.path, "--output", tmp_path / "page.html").code == 0
    assert sentence in (tmp_path / "page.html").read_text()
    for path in (found.path / "ledger").iterdir():
        path.unlink()
    none = command("ledger", found.path)
    assert (none.code, none.out.startswith("no file of received reports is there")) == (3, True)
