"""Before and after a time: windows added up on each side, and the sums compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from support.estimate_records import held, paid, price

import ldpbeam as ldp
from ldpbeam.answers.before_after import of_a_population
from ldpbeam.answers.between import between_windows

#: Monday 2 March 2026, midnight in Berlin.
START, DAY = 1_772_406_000_000, 86_400_000
STUDY = """\
study: s
attributes:
  drink:
    domain: {categories: [tea, coffee, water]}
    services: {app: {mechanism: grr, epsilon: 2HOW}}
    estimates: {shares: {estimator: em}}
windows: {size: 1d, zone: Europe/Berlin}
groups: {field: region}
"""


def sent(study: ldp.Study, days: int = 4, people: int = 200, tea: float = 0.5) -> list[Any]:
    """What the same people send on each day; from the third on more of them drink tea."""
    rng = np.random.default_rng(5)
    drinks = np.array(["tea", "coffee", "water"])
    keys: list[dict[str, Any]] = [{}]
    if study.attribute("drink").remembering:
        keys = [{"device_key": user.to_bytes(16)} for user in range(people)]
    clients = [ldp.Client(study, "drink", "app", rng=rng, **key) for key in keys]
    tables = []
    for day in range(days):
        share = 0.3 if day < 2 else tea
        values = drinks[np.searchsorted(np.cumsum([share, 0.9 - share]), rng.random(people))]
        groups = np.where(np.arange(people) % 4, "north", "south")
        users = np.array([f"u{i}" for i in range(people)])
        for client, own in zip(clients, np.split(np.arange(people), len(clients)), strict=True):
            tables.append(
                client.reports(
                    values[own], users[own], event_times=START + day * DAY + DAY // 2, groups=groups[own]
                )
            )
    return tables


def by_number(found: ldp.Differences) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {(own.key.group, own.number): (own.first, own.second) for own in found}


@pytest.mark.parametrize("how", ["", ", lifetime_epsilon: 4"])
def test_each_side_is_what_one_window_over_all_its_days_gives(how: str) -> None:
    study = ldp.Study.from_yaml(STUDY.replace("HOW", how).replace("zone: Europe/Berlin", "offset: 23h"))
    found = ldp.before_after(ldp.estimate(study, sent(study)), START + 2 * DAY)
    assert not any(own.verdict == "no error is known" for own in found)
    if not how:
        longer = ldp.Study.from_yaml(
            STUDY.replace("HOW", how)
            .replace("size: 1d, zone: Europe/Berlin", "size: 2d, offset: 47h")
            .replace("groups", "repeats: all\nduplicates: keep\ngroups")
        )
        pair = between_windows(
            ldp.estimate(longer, sent(study)).estimates,
            longer,
            "2026-03-01T23:00:00Z",
            "2026-03-03T23:00:00Z",
        )
        assert by_number(found) == by_number(ldp.Differences(pair.comparison.differences, 0.95, ()))
    said = " ".join(found.about)
    assert ("remember their noise" in said) == bool(how)
    assert "as if different people had reported on each side" in said


def test_intervals_of_shares_have_the_error_of_drawing_the_people() -> None:
    ends = held(certain={"frequencies": [(0.1, 0.3), (0.7, 0.9)]})
    drawn = of_a_population(paid(frequencies=(0.2, 0.8), intervals=ends, users=100, reports=200))
    half = np.hypot(0.1, norm.ppf(0.975) * np.sqrt(0.2 * 0.8 / 100))
    shares = np.array([[0.2], [0.8]])
    assert drawn.intervals.of("frequencies") == pytest.approx(shares + half * np.array([-1.0, 1.0]))
    assert of_a_population(price()) == price()


def test_the_largest_changes_come_first_and_what_holds_the_time_is_on_no_side() -> None:
    study = ldp.Study.from_yaml(STUDY.replace("HOW", ""))
    estimates = ldp.estimate(study, sent(study, days=5, people=2_000, tea=0.8))
    found = ldp.before_after(estimates, "2026-03-04T12:00")
    assert found.about[:3] == (
        "before: 2 windows, 2026-03-02 to 2026-03-03 (Berlin)",
        "after: 2 windows, 2026-03-05 to 2026-03-06 (Berlin)",
        "2026-03-04 (Berlin) spans the time, so it is on neither side",
    )
    assert found.numbers[0].beyond
    sizes = [abs(own.second - own.first) / own.error for own in found if own.error]
    assert sizes == sorted(sizes, reverse=True)
    # A date is that of the study's zone, and what is left out of the estimates is not compared.
    south = ldp.before_after(estimates.only(group="south"), "2026-03-04")
    assert {own.key.group for own in south} == {"south"}
    assert south.about[1] == "after: 3 windows, 2026-03-04 to 2026-03-06 (Berlin)"


def test_windows_that_the_study_joins_are_joined_where_a_side_is_one_of_them() -> None:
    text = STUDY.replace("HOW", ", lifetime_epsilon: 4").replace("zone: Europe/Berlin", "joined: 2d")
    study = ldp.Study.from_yaml(text)
    estimates = ldp.estimate(study, sent(study))
    longer = {record.window for record in estimates if record.joined}
    first, second = sorted(window for window in longer if window)[:2]
    found = ldp.before_after(estimates, second[0])
    pair = between_windows(
        [record for record in estimates if record.joined],
        study,
        *(ldp_time(own[0]) for own in (first, second)),
    )
    assert by_number(found) == by_number(ldp.Differences(pair.comparison.differences, 0.95, ()))


def ldp_time(time: int) -> str:
    return np.datetime64(time, "ms").item().isoformat() + "Z"


def test_events_of_a_study_are_no_part_of_what_it_estimates() -> None:
    text = STUDY.replace("HOW", "")
    study = ldp.Study.from_yaml(text + "events: {release: 2026-03-04, second: 2026-03-05T10:00:00Z}\n")
    assert study.events == {"release": START + 2 * DAY, "second": 1_772_704_800_000}
    assert study == ldp.Study.from_yaml(text)
    with pytest.raises(
        ldp.StudyError, match=r"events\.release: write a date, or a time with its zone, found 'soon'"
    ):
        ldp.Study.from_yaml(text + "events: {release: soon}\n")


def test_the_page_compares_what_is_before_and_after_an_event(
    folders: dict[str, Path], tmp_path: Path, command: Any
) -> None:
    page = tmp_path / "page.html"
    events = ("--event", "2026-11-20T11:00:00Z=release <b>", "--event", "2026-11-21=later")
    ran = command("report", folders["batch"], "-o", page, *events)
    assert "event later: " in ran.err and "no window begins at or after the time" in ran.err
    text = page.read_text()
    assert "Before and after release &lt;b&gt;" in text and "After release &lt;b&gt;: " in text
    assert "release <b>" not in text
    refused = command("report", folders["batch"], "-o", page, "--event", "release")
    assert (refused.code, "--event release: write a time and a name" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("windows", "time", "said"),
    [
        ("size: 1d", "2026-02-01", "no window ends by the time; the windows are 2026-03-0"),
        ("size: 1d", "2026-04-01", "no window begins at or after the time"),
        ("size: 2d, period: 1d", "2026-03-04", "roll up windows that do not slide"),
        ("size: 1d", "soon", "time='soon' is no time"),
        ("size: 1d", "2026-03-04T12:00", "has no zone"),
    ],
)
def test_what_has_no_two_sides_is_refused(windows: str, time: str, said: str) -> None:
    study = ldp.Study.from_yaml(STUDY.replace("HOW", "").replace("size: 1d, zone: Europe/Berlin", windows))
    with pytest.raises(ValueError, match=said):
        ldp.before_after(ldp.estimate(study, sent(study)), time)


def test_without_windows_there_are_no_sides() -> None:
    study = ldp.Study.from_yaml(
        STUDY.replace("HOW", "").replace("windows: {size: 1d, zone: Europe/Berlin}\n", "")
    )
    with pytest.raises(ValueError, match="the estimates have no windows"):
        ldp.before_after(ldp.estimate(study, sent(study)), "2026-03-04")


def test_the_command_compares_sides_of_a_time(folders: dict[str, Path], command: Any) -> None:
    def numbers(*options: Any) -> Any:
        ran = command("diff", folders["batch"], *options, "--json")
        names = ("attribute", "group", "number", "first", "second")
        return sorted(str([own[name] for name in names]) for own in json.loads(ran.out)["numbers"]), ran.err

    sides, said = numbers("--before", "2026-11-20T11:00:00Z")
    assert "before: 1 window, 2026-11-20T10:00:00Z to 2026-11-20T11:00:00Z" in said
    windows, _ = numbers("--windows", "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z")
    assert sides == windows
