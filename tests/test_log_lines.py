"""``--log-json``: whatever is written to standard error, each of its lines is a JSON object."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from ldpbeam import printing
from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.command_line.main import main
from ldpbeam.command_line.standard_streams import standard_streams
from ldpbeam.log_lines import LONGEST, JsonLines


@pytest.fixture
def logged(capsys: pytest.CaptureFixture[str]) -> Callable[[Callable[[], object]], list[dict[str, Any]]]:
    """The lines that something writes to a log, without their times."""

    def of(write: Callable[[], object]) -> list[dict[str, Any]]:
        with standard_streams(log_json=True):
            write()
        return entries(capsys.readouterr().err)

    return of


def entries(text: str) -> list[dict[str, Any]]:
    parsed = [json.loads(line) for line in text.splitlines()]
    for entry in parsed:
        assert datetime.fromisoformat(entry.pop("time")).tzinfo is not None
    return parsed


def test_notes_warnings_and_errors_have_their_levels_and_fields(logged: Any) -> None:
    def write() -> None:
        printing.note("9 reports/s", event="rate", reports_per_second=9.5)
        printing.warn("look at this")
        printing.fail("it ends")

    assert logged(write) == [
        {"level": "info", "message": "9 reports/s", "event": "rate", "reports_per_second": 9.5},
        {"level": "warning", "message": "look at this"},
        {"level": "error", "message": "it ends"},
    ]


def test_what_is_printed_in_parts_is_one_line_and_what_has_lines_is_several(logged: Any) -> None:
    def write() -> None:
        print("ldpbeam: half a", end="", file=sys.stderr)
        print(" sentence\nand another\n", file=sys.stderr)

    assert logged(write) == [
        {"level": "warning", "message": "half a sentence"},
        {"level": "warning", "message": "and another"},
    ]


def test_python_s_log_is_in_it_with_tracebacks_and_cut_texts(logged: Any) -> None:
    def write() -> None:
        try:
            raise KeyError("k")
        except KeyError:
            logging.getLogger("some.where").exception("%s", "\x1b[2J" + "x" * 5000)

    (entry,) = logged(write)
    assert (entry["level"], entry["logger"]) == ("error", "some.where")
    assert entry["message"].startswith("\\x1b[2Jxxx")
    assert len(entry["message"]) == 1000
    assert entry["traceback"].endswith("KeyError: 'k'\n")


def test_no_text_begins_a_line_of_its_own_or_moves_a_cursor() -> None:
    stream = io.StringIO()
    JsonLines(stream).line("info", 'a\n{"level": "forged"}\r\x1b[2J\u202e\u2028', more="\n")
    (line,) = stream.getvalue().splitlines()
    assert line.isascii()
    assert json.loads(line)["level"] == "info"


def test_a_line_without_an_end_does_not_wait_for_it_for_ever() -> None:
    stream = io.StringIO()
    log = JsonLines(stream)
    for _ in range(5):
        log.write("x" * (LONGEST // 2))
    log.write("y\n")
    assert [entry["message"] for entry in entries(stream.getvalue())] == [
        "x" * LONGEST,
        "x" * LONGEST,
        "x" * (LONGEST // 2) + "y",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("stream", "--log-json"), "the following arguments are required: --study, --output"),
        (("stream", "--log_json", "--stdy", "x"), "unknown option --stdy; did you mean --study?"),
        (("strem", "--log-json"), "unknown command 'strem'"),
    ],
)
def test_a_mistake_on_the_command_line_is_a_line_of_the_log(
    line: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    (entry,) = entries(capsys.readouterr().err)
    assert entry["level"] == "error"
    assert entry["message"].startswith(message)


def test_a_bug_is_one_line_with_its_traceback_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fall_over(*_: Any) -> int:
        raise RuntimeError("ours")

    monkeypatch.setattr(type(COMMANDS["stream"]), "run", fall_over)
    assert main(["stream", "--log-json"]) == 1
    (entry,) = entries(capsys.readouterr().err)
    assert entry["message"] == "a bug of ldpbeam: RuntimeError('ours')"
    assert "fall_over" in entry["traceback"]
    with pytest.raises(RuntimeError, match="ours"):
        main(["stream"])
