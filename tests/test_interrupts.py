"""Signals that come together are one request to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ldpbeam import interrupts
from ldpbeam.interrupts import interrupted_once, once_per_request
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs import stream_watch
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.sources.folder import FolderFeed
from ldpbeam.transforms.sources.reading import ReadingOptions
from ldpbeam.transforms.sources.replay import Replay


@pytest.fixture(autouse=True)
def python_handles_ctrl_c() -> Iterator[None]:
    """Job servers of Beam that an earlier test started have left their own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the handlers, which a test moves."""
    seconds = [100.0]
    monkeypatch.setattr(interrupts.time, "monotonic", lambda: seconds[0])
    return seconds


def test_signals_within_two_seconds_of_the_first_are_the_same_request(clock: list[float]) -> None:
    acted: list[float] = []
    handle = once_per_request(lambda: acted.append(clock[0]))
    for clock[0] in (100.0, 100.0, 101.0, 101.999, 102.0, 103.5, 104.0):
        handle(signal.SIGINT, None)
    assert acted == [100.0, 102.0, 104.0]


def test_a_stream_stops_at_the_first_request_and_ends_at_the_second(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[float] = []

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(stream_watch.os, "_exit", end)
    with stream_watch._stopped_by(lambda: asked.append(clock[0]), "all is lost"):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        clock[0] = 102.0
        with pytest.raises(SystemExit, match="130"):
            signal.raise_signal(signal.SIGTERM)
    assert asked == [100.0]
    assert capsys.readouterr().err == "\nldpbeam: all is lost\n"


def test_a_second_request_says_a_loss_only_where_no_run_reads_again() -> None:
    study = parse_study(
        "study: s\nattributes: {x: {domain: {numeric: [0, 1]}, services: {a: {mechanism: piecewise, "
        "epsilon: 1}}}}\nwindows: {size: 1m}\n"
    )
    feed = FolderFeed(("in/*",), Columns(), "", ())
    job = StreamJob(study=study, output="out", run="run-1", feed=feed, reading=ReadingOptions(0), shards=1)
    assert "that were acknowledged are lost" in stream_watch._lost(job, here=True)
    again = stream_watch._lost(replace(job, replay=Replay()), here=True)
    assert "reads the messages of open windows again" in again
    assert "lost" not in again
    assert "will stop by itself" in stream_watch._lost(job, here=False)


def test_the_clean_up_after_ctrl_c_is_not_interrupted_by_a_second_signal(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "interrupt", once_per_request(interrupts._interrupt))
    cleaned = False
    before = signal.getsignal(signal.SIGINT)
    with interrupted_once():
        try:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
            cleaned = True
        clock[0] += 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert cleaned
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_a_program_has_set_stays_and_other_threads_set_none() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def look() -> None:
        with interrupted_once():
            seen.append(signal.getsignal(signal.SIGINT))

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        look()
    finally:
        signal.signal(signal.SIGINT, before)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_IGN, before]
