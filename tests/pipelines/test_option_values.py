"""The values of options that commands share: what is out of range, or of another form, is a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from support.studies import SMALL

from ldpbeam.pipelines.commands.options import (
    check_partitions,
    check_processes,
    check_service,
    duration_of,
    time_of,
)
from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.runs.feed import check_name
from ldpbeam.schemas.study.yaml_file import parse_study

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
        *((start, text, f"--from {text}: {TIME}") for text in ("2026-11-20T10:00:00", "tomorrow", "-1")),
        *((check_partitions, number, f"--partitions {number}: from 1 to 65536") for number in (0, 65537)),
        *((check_processes, number, f"--processes {number}: from 1 to 1024") for number in (0, 1025)),
        (lambda name: check_service(name, STUDY), "c", "--service c: the study has a, b"),
        *(
            (check, form.format(other), f"{option} {form.format(other)}: {PLACE}/{kind}/NAME")
            for check, option, kind, other in (
                (subscription, "--subscription", "subscriptions", "topics"),
                (topic, "--publish-to", "topics", "subscriptions"),
            )
            for form in ("", "reports", "projects//topics/abc", "projects/project/{}/abc")
        ),
        (subscription, "projects/abcde/subscriptions/reports", "'abcde' is no project id, which has 6 char"),
        (subscription, "projects/project/subscriptions/s", "'s' is no name of Pub/Sub, which starts with"),
        (subscription, "projects/project/subscriptions/1st", "'1st' is no name of Pub/Sub"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_one_sentence(
    check: Callable[[object], object], given: object, message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        check(given)


def test_values_at_the_ends_are_good() -> None:
    for number in (1, 65536, None):
        check_partitions(number)
    for number in (1, 1024, None):
        check_processes(number)
    for service in ("a", None):
        check_service(service, STUDY)
    subscription("projects/abcdef/subscriptions/abc")
    assert duration_of("--max-disorder", "90s") == 90_000
    # The second as Airflow writes moments.
    for text in ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00+00:00", "1795168800000"):
        assert time_of("--from", text) == 1_795_168_800_000
    assert time_of("--from", None) is None
