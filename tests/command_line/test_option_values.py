"""The values of options that commands share: what is out of range, or of another form, is a sentence."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from support.studies import SMALL

from ldpbeam.command_line.checks import duration_of
from ldpbeam.errors import UserError
from ldpbeam.inputs.times import time_of
from ldpbeam.pipelines.commands import estimate_options
from ldpbeam.pipelines.sources.pubsub import check_name
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.windows import EVERYTHING, Span

STUDY = parse_study(SMALL)
DURATION, TIME = "write a whole number and a unit, as in 90s or 1h", "write a time with its zone, as in "
PLACE = "write it as projects/PROJECT"


def disorder(text: str) -> None:
    duration_of("--max-disorder", text)


def start(text: str) -> None:
    time_of("--from", text)


def subscription(text: str) -> None:
    check_name("--subscription", text, "subscriptions")


def topic(text: str) -> None:
    check_name("--publish-to", text, "topics")


@pytest.mark.parametrize(
    ("check", "given", "message"),
    [
        *((disorder, text, f"--max-disorder {text}: {DURATION}") for text in ("5", "soon", "-1s", "1.5h")),
        (disorder, "", f"--max-disorder : {DURATION}"),
        *(
            (start, text, f"--from {text}: {TIME}")
            for text in ("2026-11-20T10:00:00", "tomorrow", "-1", "2026")
        ),
        *(
            (check, form.format(other), f"{option} {form.format(other)}: {PLACE}/{kind}/NAME")
            for check, option, kind, other in (
                (subscription, "--subscription", "subscriptions", "topics"),
                (topic, "--publish-to", "topics", "subscriptions"),
            )
            for form in ("", "reports", "projects//topics/abc", "projects/project/{}/abc")
        ),
        (subscription, "projects/abcde/subscriptions/reports", "a project id has 6 characters or more"),
        (subscription, "projects/project/subscriptions/s", "a name starts with a letter"),
        (subscription, "projects/project/subscriptions/1st", "a name starts with a letter"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_one_sentence(
    check: Callable[[object], object], given: object, message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        check(given)


def test_a_time_of_more_digits_than_python_reads_is_one_sentence() -> None:
    with pytest.raises(UserError, match=re.escape(TIME)):
        start("9" * 5000)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (None, None, Span()),
        # With windows of an hour those that lie inside of the span, which is open where no end is given.
        (None, "2026-11-20T12:30:00Z", Span(stop=1_795_176_000_000)),
        ("2026-11-20T09:30:00Z", None, Span(start=1_795_168_800_000)),
        ("2026-11-20T09:30:00Z", "2026-11-20T12:30:00Z", Span(1_795_168_800_000, 1_795_176_000_000)),
    ],
)
def test_an_end_that_is_not_given_is_open(start: str | None, stop: str | None, expected: Span) -> None:
    study = parse_study(SMALL + "windows: {size: 1h}\n")
    assert estimate_options._span_of(argparse.Namespace(start=start, stop=stop), study) == expected


def test_whatever_changes_the_results_makes_another_run(tmp_path: Path) -> None:
    def name(
        span: Span = EVERYTHING,
        inputs: tuple[str, ...] = ("in/*",),
        renamed: Mapping[str, str] = MappingProxyType({}),
        **options: str,
    ) -> str:
        columns = Columns(**options, renamed=tuple(renamed.items()))
        given = argparse.Namespace(overwrite=False, start=None, stop=None)
        return estimate_options._place(given, STUDY, str(tmp_path / "out"), span, inputs, columns)[0].run

    others = [name(service="a"), name(attribute="x"), name(Span(start=5)), name(inputs=("other",))]
    assert len({name(), *others, name(renamed={"user_id": "uid"})}) == 6
    assert name() == name()


def test_values_at_the_ends_are_good() -> None:
    subscription("projects/abcdef/subscriptions/abc")
    assert duration_of("--max-disorder", "90s") == 90_000
    # The second as Airflow writes moments.
    for text in ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00+00:00", "1795168800000"):
        assert time_of("--from", text) == 1_795_168_800_000
    assert time_of("--from", "20261120") == time_of("--from", "2026-11-20") == 1_795_132_800_000
    assert time_of("--from", None) is None
