"""Signals that come together are one request to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ldpbeam import interrupts
from ldpbeam.interrupts import interrupted_once, once_per_request
from ldpbeam.pipelines.commands import stream


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
    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(stream.os, "_exit", end)
    run: Any = SimpleNamespace(stopping=False)
    with stream._stopping(run) as asked:
        assert not asked and not run.stopping
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        assert asked and run.stopping
        clock[0] = 102.0
        with pytest.raises(SystemExit, match="130"):
            signal.raise_signal(signal.SIGTERM)
    assert capsys.readouterr().err.startswith("\nldpbeam: ended before it could stop: ")


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
