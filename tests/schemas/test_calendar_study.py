"""What a study file may say of days, weeks and months: each mistake and its message, from one table."""

from __future__ import annotations

import json
import re

import pytest

from ldpbeam.answers.explain import explain
from ldpbeam.errors import StudyError
from ldpbeam.schemas.study.json_schema import study_schema
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY = """\
study: s
attributes:
  x: {domain: {categories: [a, b]}, services: {app: {mechanism: grr, epsilon: 1.0}}}
"""
NEW_YORK = "zone: America/New_York"
HOLDS = "so that no window lies in two periods, found"
#: (windows, further lines of the study, the end of the message). None: it is a study.
MESSAGES: list[tuple[str, str, str | None]] = [
    (f"size: 1d, {NEW_YORK}", "", None),
    (f"size: 1w, {NEW_YORK}, offset: 6d", "", None),
    (f"size: 1w, period: 1d, {NEW_YORK}", "", None),
    ("size: month", "", None),
    (f"size: quarter, period: month, {NEW_YORK}, offset: 5d", "", None),
    (f"size: 1d, {NEW_YORK}, joined: month", "", None),
    ("size: 1h, offset: 30m", "", None),
    ("size: 1d, offset: 4d, joined: 1w", "", None),
    (f"size: 1d, {NEW_YORK}", "ledger: {period: quarter}", None),
    (f"size: 1d, {NEW_YORK}", "ledger: {period: 1w}", None),
    ("size: 1h", "ledger: {period: month}", None),
    ("size: year", "ledger: {period: year}", None),
    ("size: months", "", "as in 90s or 1h; or month, quarter or year, found 'months'"),
    ("size: 2629746s", "", "the mean length of months: write month, quarter or year, found '2629746s'"),
    (f"size: 6h, {NEW_YORK}", "", "zone is for windows of whole days, weeks, months, quarters or years: "
     "leave it out, because shorter windows are the same in all zones, or give offset: 30m where their hours "
     "begin later"),
    ("size: 1d, zone: Mars/Base", "", "'Mars/Base' is no time zone; zones have names as in UTC and "
     "Europe/Berlin"),
    ("size: month, period: 1d", "", "size and period are both in months, quarters or years, or neither is"),
    ("size: 1w, period: month", "", "period must be above zero and at most size"),
    (f"size: 1w, {NEW_YORK}, joined: month", "", "joined must be two or more times size (1w), found month"),
    ("size: month, joined: 90d", "", "joined must be two or more times size (month), found 90d"),
    ("size: 1h, offset: 1h", "", "offset must be below 1h, found 1h: it is how much later a window begins"),
    ("size: 1h, offset: month", "", "write a whole number and a unit: ms, s, m, h, d or w, as in 90s or 1h, "
     "found 'month'"),
    (f"size: 1w, {NEW_YORK}", "ledger: {period: month}", f"ledger.period must be a multiple of 1w, {HOLDS} "
     "month"),
    ("size: month", "ledger: {period: 30d}", f"ledger.period must be a multiple of month, {HOLDS} 30d"),
    (f"size: 1d, {NEW_YORK}", "panel: {windows: 7}", "panel: clients find the window of a user without a "
     "calendar: leave out windows.zone, windows.offset, month, quarter and year"),
]  # fmt: skip


@pytest.mark.parametrize(("windows", "more", "message"), MESSAGES)
def test_windows_of_a_calendar_that_cannot_be_are_refused_in_a_sentence(
    windows: str, more: str, message: str | None
) -> None:
    text = f"{STUDY}windows: {{{windows}}}\n{more}\n"
    if message is None:
        study = parse_study(text)
        # The text that goes to workers and into folders says the same.
        assert parse_study(study.text) == study
        return
    with pytest.raises(StudyError) as caught:
        parse_study(text)
    assert str(caught.value).endswith(message), caught.value


def test_the_schema_of_study_files_has_lengths_of_the_calendar() -> None:
    properties = study_schema()["$defs"]["WindowsModel"]["properties"]
    pattern = properties["size"]["pattern"]
    for text in ("1h", "7d", "month", "quarter", "year"):
        assert re.search(pattern, text)
    for text in ("months", "1month", "", "d"):
        assert not re.search(pattern, text)
    assert "America/New_York" in json.dumps(properties["zone"])


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ("size: 1h", "windows of 1h; in a stream"),
        ("size: 1w, offset: 4d", "windows of 1w, in weeks that begin on Monday; in"),
        (f"size: 1d, {NEW_YORK}", "windows of 1d, by the clocks of America/New_York; in"),
        (f"size: 1w, offset: 6d, {NEW_YORK}", "of America/New_York, in weeks that begin on Sunday; in"),
        (f"size: 1d, offset: 6d, joined: 1w, {NEW_YORK}", "in weeks that begin on Sunday; in"),
        (f"size: 1d, offset: 4h, {NEW_YORK}", "by the clocks of America/New_York, each 4h later; in"),
        ("size: month", "windows of month; in"),
    ],
)
def test_a_study_says_when_windows_begin(windows: str, said: str) -> None:
    assert said in " ".join(explain(parse_study(f"{STUDY}windows: {{{windows}}}\n")))


def test_a_study_whose_times_have_a_zone_is_told_that_its_days_are_those_of_utc() -> None:
    text = f"{STUDY}zone: Europe/Berlin\nwindows: {{size: 1d}}\n"
    sentence = "Days of windows are those of UTC, unless windows has zone: Europe/Berlin."
    assert sentence in explain(parse_study(text))
    assert sentence not in explain(parse_study(text.replace("size: 1d", "size: 1d, zone: Europe/Berlin")))
    assert sentence not in explain(parse_study(text.replace("size: 1d", "size: 1h")))
