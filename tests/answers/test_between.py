"""Two windows or groups of one result: each number's difference, and an interval of it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm
from support.estimate_records import held, paid, price, results

import ldpbeam as ldp
from ldpbeam.answers.between import between_groups, between_windows
from ldpbeam.answers.difference import Difference, compared
from ldpbeam.intervals.any_look import widening
from ldpbeam.schemas.outputs.records import EstimateRecord

TEN, ELEVEN, TWELVE = (f"2026-11-20T{hour}:00:00Z" for hour in (10, 11, 12))
#: How much wider each of two intervals is that are to hold together.
OF_TWO = norm.ppf(0.9875) / norm.ppf(0.975)
REMEMBERING = """\
study: s
attributes:
  price:
    domain: {numeric: [0, 10]}
    buckets: 8
    services: {app: {mechanism: square_wave, epsilon: 1, HOW}}
    estimates: {shape: {estimator: em}}
  paid:
    domain: {categories: [cash, card > 5]}
    services: {app: {mechanism: grr, epsilon: 1, HOW}}
    estimates: {shares: {estimator: em}}
windows: {size: 1h}
"""
FRESH = ldp.Study.from_yaml(REMEMBERING.replace(", HOW", ""))
LASTING = ldp.Study.from_yaml(REMEMBERING.replace("HOW", "lifetime_epsilon: 2"))


def hours(study: ldp.Study | None, *records: EstimateRecord) -> dict[str, Difference]:
    found = between_windows(records, study, TEN, ELEVEN)
    return {own.number: own for own in found.comparison.differences}


def of(hour: str, record: EstimateRecord) -> EstimateRecord:
    end = {TEN: ELEVEN, ELEVEN: TWELVE}[hour]
    return replace(record, window_start=hour, window_end=end)


def two_hours() -> list[EstimateRecord]:
    ends = held(certain={"frequencies": [(0.2, 0.5), (0.5, 0.75)]})
    later = paid(frequencies=(0.3, 0.7), intervals=ends)
    return [of(TEN, price()), of(TEN, paid()), of(ELEVEN, price(mean=5.5)), of(ELEVEN, later)]


def test_the_ends_are_those_of_zou_and_donner() -> None:
    found = hours(FRESH, *two_hours())
    cash = found["share of cash"]
    assert (cash.first, cash.second, cash.key.window, cash.other_key.window) == (
        0.1, 0.3, (1_795_168_800_000, 1_795_172_400_000), (1_795_172_400_000, 1_795_176_000_000)
    )  # fmt: skip
    # Cash is 0.1 in [0.05, 0.2] and then 0.3 in [0.2, 0.5], and both shares are to hold.
    assert cash.low == pytest.approx(0.2 - OF_TWO * math.hypot(0.3 - 0.2, 0.2 - 0.1))
    assert cash.high == pytest.approx(0.2 + OF_TWO * math.hypot(0.5 - 0.3, 0.1 - 0.05))
    # The median is 3 in [2, 5] twice.
    assert found["quantile 0.5"].low == pytest.approx(-math.hypot(1, 2))
    assert found["quantile 0.5"].high == pytest.approx(math.hypot(2, 1))
    # The mean is 5 and then 5.5, in [4, 6].
    assert found["mean"].low == pytest.approx(0.5 - math.hypot(1.5, 1.0))


def test_remembered_noise_leaves_sums_and_adds_the_errors_of_other_numbers() -> None:
    fresh, lasting = hours(FRESH, *two_hours()), hours(LASTING, *two_hours())
    for number in ("mean", "share of cash", "share of card > 5"):
        assert lasting[number] == fresh[number]
    assert lasting["quantile 0.5"].low == pytest.approx(-3.0)
    assert lasting["quantile 0.5"].error == pytest.approx(2 * 2 / norm.ppf(0.975))
    # A study that cannot be read may have such clients.
    assert hours(None, *two_hours()) == lasting
    studies = (FRESH, LASTING, None)
    said = [" ".join(between_windows(two_hours(), study, TEN, ELEVEN).sentences) for study in studies]
    assert "remember" not in said[0]
    assert "price, paid: clients of app remember their noise" in said[1]
    assert "the study cannot be read" in said[2]


def test_an_estimate_outside_of_its_interval_is_moved_to_its_end() -> None:
    one, two = of(TEN, paid(frequencies=(-0.1, 1.1))), of(ELEVEN, paid())
    cash = hours(FRESH, one, two)["share of cash"]
    assert (cash.low, cash.high) == (
        pytest.approx(0.1 - 0.05 - OF_TWO * math.hypot(0.05, 0.15)),
        pytest.approx(0.1 - 0.05 + OF_TWO * math.hypot(0.1, 0.0)),
    )


def test_numbers_without_intervals_have_none_and_flagged_ones_are_not_beyond() -> None:
    bare = hours(FRESH, of(TEN, paid(intervals=None)), of(ELEVEN, paid()))["share of cash"]
    assert (bare.low, bare.high, bare.error, bare.beyond) == (None, None, None, False)
    flagged = held({"certain": "bias"}, certain={"frequencies": [(0.8, 0.95), (0.05, 0.2)]})
    moved = of(ELEVEN, paid(frequencies=(0.9, 0.1), intervals=flagged))
    found = hours(FRESH, of(TEN, paid()), moved)["share of cash"]
    assert (found.flag, found.beyond) == ("bias", False)
    assert compared(results(paid()), results(paid(frequencies=(0.9, 0.1), intervals=flagged))).differs


def test_groups_are_compared_within_their_windows() -> None:
    records = [of(hour, price(group=group, mean=mean)) for hour, group, mean in (
        (TEN, "north", 5.0), (TEN, None, 6.0), (ELEVEN, "north", 7.0), (ELEVEN, "south", 9.0),
    )]  # fmt: skip
    records.append(of(TEN, price(group=None, other_groups=3)))
    found = between_groups(records, FRESH, None, "north").comparison
    means = [(own.first, own.second) for own in found.differences if own.number == "mean"]
    assert means == [(6.0, 5.0)]
    assert [place[2:4] for place in found.only_second] == [((1_795_172_400_000, 1_795_176_000_000), "north")]
    assert found.differs


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ((TEN, "2026-11-20T10:00:00+00:00"), "the same window"),
        ((TEN, TWELVE), f"no window starts at '{TWELVE}'; did you mean '{ELEVEN}'"),
        ((TEN, "noon"), f"no window starts at 'noon'; there are: {TEN}, {ELEVEN}"),
        ((TEN, "2026-11-20T11:00:00"), f"did you mean '{ELEVEN}'"),
        ((TEN, "2026-11-20T11"), f"did you mean '{ELEVEN}'"),
        ((TEN, f"{ELEVEN}/{ELEVEN}"), "no window starts"),
    ],
)
def test_what_is_no_pair_of_windows_is_refused(windows: tuple[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        between_windows(two_hours(), FRESH, *windows)


@pytest.mark.parametrize(
    "named",
    [
        "2026-03-08", "2026-03-08 (New York), 23 h", "2026-03-08T05:00:00Z", "2026-03-08/2026-03-09",
        "2026-03-08T00:00",
    ],
)  # fmt: skip
def test_a_window_is_named_as_everywhere(named: str) -> None:
    """A day by a zone's clocks, by the names that tables and pages print, and by its times."""
    starts = ["2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]
    records = [price(window_start=one, window_end=two) for one, two in itertools.pairwise(starts)]
    study = ldp.Study.from_yaml(
        REMEMBERING.replace(", HOW", "").replace("size: 1h", "size: 1d, zone: America/New_York")
    )
    found = between_windows(records, study, "2026-03-07", named)
    assert {own.other_key.start for own in found.comparison.differences} == {starts[1]}
    # What is no window is nearest to one in time, whatever its letters.
    with pytest.raises(ValueError, match=r"did you mean '2026-03-08 \(New York\), 23 h'\?"):
        between_windows(records, study, "2026-03-07", "2026-04-07")


def test_what_is_no_pair_of_groups_is_refused() -> None:
    records = [price(group="north"), price(group="south")]
    for groups, said in (
        (("north", "nroth"), "did you mean 'north'"),
        (("north", None), "reports without a group; there are: north, south"),
        (("north", "north"), "twice"),
    ):
        with pytest.raises(ValueError, match=said):
            between_groups(records, FRESH, *groups)
    with pytest.raises(ValueError, match="the study has no groups"):
        between_groups([price()], FRESH, "a", "b")
    with pytest.raises(ValueError, match="the study has no windows"):
        between_windows([price()], FRESH, TEN, ELEVEN)


def test_days_and_hours_that_start_together_are_compared_with_their_like() -> None:
    day = {"window_start": TEN, "window_end": "2026-11-21T10:00:00Z"}
    next_day = {"window_start": "2026-11-21T10:00:00Z", "window_end": "2026-11-22T10:00:00Z"}
    records = [*two_hours(), replace(price(mean=1.0), **day), replace(price(mean=2.0), **next_day)]
    found = between_windows(records, FRESH, TEN, "2026-11-21T10:00:00Z").comparison
    assert [(own.first, own.second) for own in found.differences if own.number == "mean"] == [(1.0, 2.0)]
    assert not found.only_first
    with pytest.raises(ValueError, match="different lengths"):
        between_windows(records, FRESH, ELEVEN, "2026-11-21T10:00:00Z")


def test_overlapping_windows_share_reports() -> None:
    late = [
        replace(record, window_start="2026-11-20T10:30:00Z", window_end="2026-11-20T11:30:00Z")
        for record in (price(), paid())
    ]
    found = between_windows([*two_hours()[:2], *late], FRESH, TEN, "2026-11-20T10:30:00Z")
    assert "the windows overlap" in found.sentences[1]
    assert {own.number: own.low for own in found.comparison.differences}["quantile 0.5"] == pytest.approx(
        -3.0
    )


def at_any_look(mean: float, room: float, **changed: Any) -> EstimateRecord:
    """A mean with its interval at one look of half the room that it has at any."""
    one, every = ({"mean": (mean - half, mean + half)} for half in (room / 2, room))
    intervals = held(certain=one, any_look=every, narrowest=10_000)
    given: dict[str, Any] = {"reports": 10_000, "quantiles": None, "ranges": None, "intervals": intervals}
    return price(mean=mean, **{**given, **changed})


def test_a_difference_is_told_at_any_look_if_noise_is_fresh() -> None:
    """Rooms of 3 and 4 are one of 5, as standard errors are."""
    for apart, verdict in ((2.4, "not certain"), (4.9, "higher"), (5.1, "higher, at any look")):
        records = of(TEN, at_any_look(0.0, 3.0)), of(ELEVEN, at_any_look(apart, 4.0))
        (mean,) = hours(FRESH, *records).values()
        assert (mean.verdict, mean.any_look) == (verdict, pytest.approx((apart - 5.0, apart + 5.0)))
        for study in (LASTING, None):
            (refused,) = hours(study, *records).values()
            assert (refused.any_look, refused.verdict) == (None, verdict.partition(",")[0])


def test_groups_are_arms_whose_differences_hold_together() -> None:
    records = [
        at_any_look(mean, 1.0, group=group) for group, mean in zip("abc", (0.0, 1.0, 9.0), strict=True)
    ]
    found = between_groups(records, FRESH)
    told = {(own.key.group, own.other_key.group): own for own in found.comparison.differences}
    assert list(told) == [("a", "b"), ("a", "c"), ("b", "c")]
    z = norm.ppf(1 - 0.05 / 2 / 3)
    assert found.comparison.z == {"means": pytest.approx(z)}
    room = math.hypot(0.5, 0.5) * z / norm.ppf(0.975)
    first = told["a", "b"]
    assert (first.low, first.high) == (pytest.approx(1.0 - room), pytest.approx(1.0 + room))
    wider = float(widening(1 - 0.05 / 3, 10_000, 10_000) / widening(0.95, 10_000, 10_000))
    assert first.any_look[1] - 1.0 == pytest.approx(wider * math.hypot(1.0, 1.0))
    assert told["b", "c"].verdict == "higher, at any look"
    # Of two of them alone, each says more.
    (alone,) = between_groups(records, FRESH, "a", "b").comparison.differences
    assert alone.high is not None and first.high is not None and alone.high < first.high


def test_the_command_compares_parts_of_one_folder(folders: dict[str, Path], command: Any) -> None:
    ran = command("diff", folders["batch"], "--windows", TEN, ELEVEN, "--json")
    found = json.loads(ran.out)
    assert ran.code == int(found["differs"]) and found["level"] == 0.95
    mean = next(own for own in found["numbers"] if own["number"] == "mean")
    assert (mean["window_start"], mean["second_window_start"]) == (TEN, ELEVEN)
    assert mean["low"] < mean["second"] - mean["first"] < mean["high"]
    assert "for the people who reported" in ran.err and found["about"][0] in ran.err
    said = command("diff", folders["batch"], "--windows", f"{TEN}/{ELEVEN}", ELEVEN)
    assert said.code == ran.code
    header = said.out.splitlines()[0]
    assert f"{TEN}/{ELEVEN}" in header and header.rstrip().endswith("verdict")
    assert "means: " in said.out and "share in " not in said.out


def test_windows_of_several_lengths_are_told_apart(copied: Callable[[str], Path], command: Any) -> None:
    folder = copied("batch")
    lines = [json.loads(line) for line in (folder / "estimates.jsonl").read_text().splitlines()]
    # Each hour begins a longer window, too.
    for hour, end in ((TEN, "2026-11-20T18:00:00Z"), (ELEVEN, "2026-11-20T19:00:00Z")):
        lines += [line | {"window_end": end} for line in lines if line["window_start"] == hour]
    (folder / "estimates.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = command("diff", folder, "--windows", TEN, ELEVEN).out
    assert " 1h " in said and " 8h " in said
