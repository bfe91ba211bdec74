"""A stream adds its ledger up while it runs, and leaves what takes long to ``ldpbeam ledger``."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.ledger_model import PRICES, STUDY, report
from support.waiting import wait_until

from ldpbeam.folders.read import read_periods
from ldpbeam.library.tables import decoded_batches
from ldpbeam.pipelines.runs.ledger_folder import files_of
from ldpbeam.pipelines.spool import ledger
from ldpbeam.pipelines.spool.ledger import add_up_at_end, ledger_kept_current
from ldpbeam.pipelines.spool.manifest import Manifest
from ldpbeam.pipelines.spool.place import Placed, StreamOutput, owned_by_stream
from ldpbeam.transforms.outputs.ledger_parts import write_part
from ldpbeam.transforms.reports.validation import Validation, checked_columns

KEY = b"k" * 32


def stream_in(folder: Path) -> StreamOutput:
    return StreamOutput(STUDY, str(folder), "20261120T100000Z-00000000", ledger_key=KEY)


def receive(job: StreamOutput, hour: int) -> None:
    """What a commit writes: nine users report to everything in an hour."""
    assert job.keeping is not None
    sent = [report(kind, user, hour, 0, "n") for kind in PRICES for user in range(9)]
    validation = Validation(STUDY, ledger_key=KEY)
    batches = decoded_batches(sent, checked_columns(STUDY, None, None))
    received = [rows for batch in batches for rows in validation.validate(batch).received]
    write_part(job.keeping.folder, job.keeping.about, received)


@pytest.mark.slow
def test_sums_are_made_while_a_stream_runs_and_say_who_is_over_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ledger, "LEAST_SECONDS", 0.01)
    monkeypatch.setattr(ledger, "LARGEST_SHARE", 1.0)
    job = stream_in(tmp_path)
    with owned_by_stream(Placed(job, Manifest(job.study.fingerprint)), {}):
        for hour in range(5):
            receive(job, hour)
        with ledger_kept_current(job):
            said: list[str] = []
            wait_until(lambda: _is_over(said, capsys), lambda: "".join(said))
    assert [entry.users for entry in read_periods(str(tmp_path))] == [9, 9]
    # Of five files with as many rows each, two are left at most.
    assert len(files_of([str(tmp_path)])) <= 2


def _is_over(said: list[str], capsys: pytest.CaptureFixture[str]) -> bool:
    said.append(capsys.readouterr().err)
    return "9 users spent more than epsilon 3.5 in the period" in "".join(said)


def test_the_end_of_a_stream_leaves_many_reports_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = stream_in(tmp_path)
    with owned_by_stream(Placed(job, Manifest(job.study.fingerprint)), {}):
        receive(job, 0)
        assert [entry.reports for entry in add_up_at_end(job)] == [27]
        monkeypatch.setattr(ledger, "ROWS_AT_END", 26)
        assert add_up_at_end(job) == []
    assert f"the ledger has 27 reports: ldpbeam ledger {tmp_path} adds them up" in capsys.readouterr().err


def test_sums_that_fail_are_warned_of_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []

    def fails_once(output: str, done: threading.Event) -> list[str]:
        tried.append(output)
        if len(tried) == 1:
            raise OSError("no process could start")
        done.set()
        return []

    monkeypatch.setattr(ledger, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "_added_up", fails_once)
    ledger._add_up_until(str(tmp_path), threading.Event())
    assert len(tried) == 2
    assert "the ledger was not added up: no process could start" in capsys.readouterr().err
